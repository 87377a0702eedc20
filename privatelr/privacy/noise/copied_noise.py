"""Independent copies of one law of noise, such as one for each class of a model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from privatelr.privacy.noise.noise_laws import (
    LAWS,
    Arithmetic,
    LaplaceNoise,
    NoiseLaw,
    Numbers,
    RowLimits,
)
from privatelr.types import FloatArray


@dataclass(frozen=True, slots=True)
class CopiedNoise(LaplaceNoise):
    """The law of several independent vectors of one law, one after the other.

    Its density falls with the sum of their norms.

    Attributes
    ----------
    each : LaplaceNoise
    copies : int
    """

    each: LaplaceNoise
    copies: int

    @property
    def dimension(self) -> int:  # type: ignore[override]
        return self.copies * self.each.dimension

    @property
    def title(self) -> str:  # type: ignore[override]
        return self.each.title

    @property
    def rate(self) -> float:  # type: ignore[override]
        return self.each.rate

    @property
    def parts(self) -> tuple[NoiseLaw, ...]:
        return (self.each,) * self.copies

    @property
    def variances(self) -> FloatArray:
        return np.tile(self.each.variances, self.copies)

    @property
    def lipschitz_sd(self) -> float:
        """That of one copy for spherical noise, because constants of Poincare hold for products.

        For other laws the inequality of Efron and Stein adds up what the copies do.
        """
        return self.each.lipschitz_sd * (1.0 if self.each.is_spherical else math.sqrt(self.copies))

    def norm(self, b: FloatArray) -> float:
        return math.fsum(map(self.each.norm, np.split(b, self.copies)))

    def log_ratio(self, b: FloatArray, change: FloatArray) -> float:
        parts = zip(np.split(b, self.copies), np.split(change, self.copies), strict=True)
        return math.fsum(self.each.log_ratio(*part) for part in parts)

    def rate_along(self, rows: RowLimits) -> float:
        return self.each.rate_along(rows)

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


LAWS[CopiedNoise.__name__] = CopiedNoise
