"""Independent copies of one law of noise, such as one for each class of a model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from privatelr.privacy.noise.noise_laws import (
    Arithmetic,
    BlockLaplace,
    NoiseLaw,
    Numbers,
    SphericalLaplace,
    mean_square,
)
from privatelr.types import FloatArray


@dataclass(frozen=True, slots=True)
class CopiedNoise(NoiseLaw):
    """The law of several independent vectors of one law, one after the other.

    Its density falls with the sum of their norms.

    Attributes
    ----------
    each : NoiseLaw
    copies : int
    """

    each: SphericalLaplace | BlockLaplace
    copies: int

    @property
    def dimension(self) -> int:  # type: ignore[override]
        return self.copies * self.each.dimension

    @property
    def title(self) -> str:  # type: ignore[override]
        return self.each.title

    @property
    def scale(self) -> float:
        return self.each.scale

    @property
    def variances(self) -> FloatArray:
        return np.tile(self.each.variances, self.copies)

    @property
    def mean_length(self) -> float:
        """The root of the mean square, an upper bound by Jensen's inequality."""
        return math.sqrt(mean_square(self))

    @property
    def lipschitz_sd(self) -> float:
        """That of one copy for spherical noise, as constants of Poincare hold for products.

        For blocks the inequality of Efron and Stein adds up what the copies do.
        """
        spherical = isinstance(self.each, SphericalLaplace)
        return self.each.lipschitz_sd * (1.0 if spherical else math.sqrt(self.copies))

    def log_density(self, b: FloatArray) -> float:
        return math.fsum(map(self.each.log_density, np.split(b, self.copies)))

    def log_ratio(self, b: FloatArray, change: FloatArray) -> float:
        parts = zip(np.split(b, self.copies), np.split(change, self.copies), strict=True)
        return math.fsum(self.each.log_ratio(*part) for part in parts)

    @property
    def uniforms(self) -> int:
        return self.copies * self.each.uniforms

    @property
    def signs(self) -> int:
        return self.copies * self.each.signs

    def transform(self, uniforms: Numbers, signs: Numbers, arithmetic: Arithmetic) -> list[Any]:
        """Return the copies, each of uniforms and signs of its own."""
        found = []
        for k in range(self.copies):
            own, fair = self.each.uniforms, self.each.signs
            used = uniforms[k * own : (k + 1) * own], signs[k * fair : (k + 1) * fair]
            found += self.each.transform(*used, arithmetic)
        return found
