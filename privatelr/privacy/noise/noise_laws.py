"""Noise laws: each knows its density, how to draw from it, and its spread."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from privatelr.privacy.noise.exact_draws import (
    RandomVector,
    exponentials,
    normal_uniforms,
    normals,
    total,
)
from privatelr.types import FloatArray

if TYPE_CHECKING:
    from privatelr.privacy.noise.exact_draws import Arithmetic


class Arrays:
    """The arithmetic of `privatelr.privacy.noise.exact_draws`, elementwise."""

    def log(self, x: FloatArray) -> FloatArray:
        return np.asarray(np.log(x))

    def sqrt(self, x: FloatArray) -> FloatArray:
        return np.asarray(np.sqrt(x))

    def cos_pi(self, x: FloatArray) -> FloatArray:
        return np.asarray(np.cos(np.pi * x))

    def sin_pi(self, x: FloatArray) -> FloatArray:
        return np.asarray(np.sin(np.pi * x))


def draw_many(law: RandomVector, count: int, rng: np.random.Generator) -> FloatArray:
    """Independent draws ``(count, dimension)`` of a noise law, from its own recipe."""
    uniforms = 1.0 - rng.random((law.uniforms, count))  # never 0
    signs = rng.choice(np.array([-1, 1]), size=(law.signs, count))
    drawn = law.transform(list(uniforms), list(signs), Arrays())
    return np.column_stack([np.broadcast_to(x, count) for x in drawn])


class NoiseLaw(RandomVector, Protocol):
    """A distribution on vectors ``(dimension,)``, symmetric about zero; a hashable value."""

    def __hash__(self) -> int: ...

    @property
    def title(self) -> str: ...

    @property
    def scale(self) -> float:
        """What a summary calls the scale of the noise; 0 for no noise."""
        ...

    @property
    def variances(self) -> FloatArray:
        """Diagonal ``(dimension,)`` of the covariance, which has no other entries."""
        ...

    @property
    def mean_length(self) -> float:
        """Mean Euclidean length, from above."""
        ...

    @property
    def lipschitz_sd(self) -> float:
        """Largest standard deviation of a function of the vector with slope at most one."""
        ...

    def log_density(self, b: FloatArray) -> float:
        """Logarithm of the density at ``b``, up to a constant."""
        ...

    def log_ratio(self, b: FloatArray, change: FloatArray) -> float:
        """``log_density(b) - log_density(b - change)``, accurate for a small change."""
        ...


def mean_square(law: NoiseLaw) -> float:
    """``E|b|^2``, by which laws are compared: a public fact."""
    return float(law.variances.sum())


def shortest(laws: Iterable[NoiseLaw], kinds: tuple[type[Any], ...] = ()) -> NoiseLaw | None:
    """The law with the least ``E|b|^2``, if given of one of these kinds; None if there is none."""
    usual = [law for law in laws if not kinds or isinstance(law, kinds)]
    return min(usual, key=mean_square, default=None)


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
    def variances(self) -> FloatArray:
        return np.full(self.dimension, (self.dimension + 1) / self.rate / self.rate)

    @property
    def mean_length(self) -> float:
        return self.dimension / self.rate

    @property
    def lipschitz_sd(self) -> float:
        """By the spectral gap of radial log-concave laws (Bonnefont, Joulin and Ma 2016).

        ``Var f <= E|b|^2 / (d - 1)`` for d > 1; in one dimension the constant is ``4 / rate^2``.
        """
        d = self.dimension
        return math.sqrt(d * (d + 1) / (d - 1) if d > 1 else 4.0) / self.rate

    def log_density(self, b: FloatArray) -> float:
        return -self.rate * float(np.linalg.norm(b))

    def log_ratio(self, b: FloatArray, change: FloatArray) -> float:
        lengths = float(np.linalg.norm(b) + np.linalg.norm(b - change))
        return -self.rate * float(change @ (2 * b - change)) / lengths if lengths > 0 else 0.0

    @property
    def uniforms(self) -> int:
        return normal_uniforms(self.dimension) + self.dimension

    @property
    def signs(self) -> int:
        return 0

    def transform(
        self, uniforms: Sequence[Any], signs: Sequence[int], arithmetic: Arithmetic
    ) -> list[Any]:
        d = self.dimension
        direction = normals(uniforms[d:], d, arithmetic)
        gamma = total(exponentials(uniforms[:d], arithmetic)) / self.rate
        length = arithmetic.sqrt(total([x * x for x in direction]))
        return [x * gamma / length for x in direction]


@dataclass(frozen=True, slots=True)
class GaussianNoise:
    """Independent normal coordinates of standard deviation `sd`."""

    dimension: int
    sd: float

    @property
    def title(self) -> str:
        return "Gaussian"

    @property
    def scale(self) -> float:
        return self.sd

    @property
    def variances(self) -> FloatArray:
        return np.full(self.dimension, self.sd * self.sd)

    @property
    def mean_length(self) -> float:
        return self.sd * math.sqrt(self.dimension)

    @property
    def lipschitz_sd(self) -> float:
        """By Poincare's inequality for the normal law."""
        return self.sd

    def log_density(self, b: FloatArray) -> float:
        return -float(b @ b) / (2 * self.sd**2)

    def log_ratio(self, b: FloatArray, change: FloatArray) -> float:
        return -float(change @ (2 * b - change)) / (2 * self.sd**2)

    @property
    def uniforms(self) -> int:
        return normal_uniforms(self.dimension)

    @property
    def signs(self) -> int:
        return 0

    def transform(
        self, uniforms: Sequence[Any], signs: Sequence[int], arithmetic: Arithmetic
    ) -> list[Any]:
        return [x * self.sd for x in normals(uniforms, self.dimension, arithmetic)]


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
    def variances(self) -> FloatArray:
        return np.zeros(self.dimension)

    @property
    def mean_length(self) -> float:
        return 0.0

    @property
    def lipschitz_sd(self) -> float:
        return 0.0

    def log_density(self, b: FloatArray) -> float:
        return 0.0 if not np.any(b) else -math.inf

    def log_ratio(self, b: FloatArray, change: FloatArray) -> float:
        return 0.0 if not np.any(change) else math.nan

    @property
    def uniforms(self) -> int:
        return 0

    @property
    def signs(self) -> int:
        return 0

    def transform(
        self, uniforms: Sequence[Any], signs: Sequence[int], arithmetic: Arithmetic
    ) -> list[Any]:
        return [0.0] * self.dimension
