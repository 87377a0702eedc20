"""Noise laws: each knows its density, how to draw from it, and its spread."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from privatelr.privacy.randomness import Randomness
    from privatelr.types import FloatArray


class NoiseLaw(Protocol):
    """A distribution on vectors ``(dimension,)``."""

    @property
    def dimension(self) -> int: ...

    @property
    def title(self) -> str: ...

    @property
    def scale(self) -> float:
        """What a summary calls the scale of the noise; 0 for no noise."""
        ...

    @property
    def coordinate_sd(self) -> float:
        """Standard deviation of one coordinate."""
        ...

    @property
    def lipschitz_sd(self) -> float:
        """Largest standard deviation of a function of the vector with slope at most one."""
        ...

    def log_density(self, b: FloatArray) -> float:
        """Logarithm of the density at ``b``, up to a constant."""
        ...

    def draw(self, randomness: Randomness) -> FloatArray:
        """One vector."""
        ...


@dataclass(frozen=True, slots=True)
class SphericalLaplace:
    """Density proportional to ``exp(-rate |b|)`` on ``dimension`` coordinates.

    The direction is uniform on the sphere and the length is Gamma distributed with shape
    `dimension` and scale ``1 / rate`` (Chaudhuri, Monteleoni and Sarwate 2011, section 3).
    """

    dimension: int
    rate: float

    @property
    def title(self) -> str:
        return "spherical Laplace"

    @property
    def scale(self) -> float:
        return 1.0 / self.rate

    @property
    def coordinate_sd(self) -> float:
        return math.sqrt(self.dimension + 1) / self.rate

    @property
    def lipschitz_sd(self) -> float:
        """By the spectral gap of radial log-concave laws (Bonnefont, Joulin and Ma 2016).

        ``Var f <= E|b|^2 / (d - 1)`` for d > 1; in one dimension the constant is ``4 / rate^2``.
        """
        d = self.dimension
        return math.sqrt(d * (d + 1) / (d - 1) if d > 1 else 4.0) / self.rate

    def log_density(self, b: FloatArray) -> float:
        return -self.rate * float(np.linalg.norm(b))

    def draw(self, randomness: Randomness) -> FloatArray:
        direction = normals(randomness, self.dimension)
        length = -np.log(randomness.uniforms(self.dimension)).sum() / self.rate
        return np.asarray(length * direction / np.linalg.norm(direction))


@dataclass(frozen=True, slots=True)
class NoNoise:
    """The zero vector, so that the plain fit takes the path of the private one."""

    dimension: int

    @property
    def title(self) -> str:
        return "no noise"

    @property
    def scale(self) -> float:
        return 0.0

    @property
    def coordinate_sd(self) -> float:
        return 0.0

    @property
    def lipschitz_sd(self) -> float:
        return 0.0

    def log_density(self, b: FloatArray) -> float:
        return 0.0 if not np.any(b) else -math.inf

    def draw(self, randomness: Randomness) -> FloatArray:
        return np.zeros(self.dimension)


def normals(randomness: Randomness, count: int) -> FloatArray:
    """Independent standard normal numbers, by inversion."""
    return np.asarray(special.ndtri(randomness.uniforms(count)))
