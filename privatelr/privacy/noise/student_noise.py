"""Student's t with four degrees of freedom: noise whose scale may depend on the data.

Laplace noise hides a shift, and no change of scale: its tails fall too fast for that. The density
of Student's t falls like a power, so that stretching it costs a bounded loss everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from privatelr.privacy.noise.noise_laws import Arithmetic, Numbers

DEGREES = 4
"""Degrees of freedom. Five would have two hundredths less noise, and take an exponential."""
SHIFT_LOSS = (DEGREES + 1) / (2 * math.sqrt(DEGREES))
"""Largest loss of privacy by a shift of one scale.

The log density at x is ``-(d + 1) / 2 log(1 + x**2 / d)`` up to a constant. Its slope has the size
``(d + 1) |x| / (d + x**2)``, which is largest at the root of d."""
STRETCH_LOSS = float(DEGREES)
"""Largest loss of privacy by a scale that is ``exp(t)`` times as large, per unit of ``|t|``.

The log density of ``exp(t) X`` at x changes with t by ``-1 + (d + 1) z**2 / (d + z**2)``, z being
``x exp(-t)``: by a number between -1 and d (compare Bun and Steinke 2019)."""


@dataclass(frozen=True, slots=True)
class StudentNoise:
    """The law of one number: `scale` times Student's t with four degrees of freedom."""

    scale: float
    dimension = 1
    uniforms = 2
    signs = 0
    title = "Student"

    @property
    def sd(self) -> float:
        """Its standard deviation."""
        return self.scale * math.sqrt(DEGREES / (DEGREES - 2))

    def transform(self, uniforms: Numbers, signs: Numbers, arithmetic: Arithmetic) -> list[Any]:
        """Return the first coordinate of a radial vector in the plane (Bailey 1994).

        The length r of the bivariate t law has ``P(length > r) = (1 + r**2 / d) ** (-d / 2)``, and
        either coordinate has the t law with d degrees of freedom; for d = 4 one square root
        inverts that.
        """
        tail, angle = uniforms
        length = 2 * self.scale * arithmetic.sqrt(1 / arithmetic.sqrt(tail) - 1)
        return [length * arithmetic.cos_pi(2 * angle)]
