"""Where a falling curve that is dear to compute comes down to some height."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_ENOUGH = 0.01
"""An interval that is shorter than asked for by less than this share will do."""
_STEPS = 40
_LARGEST_STEP = 8.0
_USUAL_POWER = 0.75
"""Widths fall about as this power, between that of sampling and that of the noise."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Where to look: limits, and the rounding of what is tried."""

    low: float
    high: float
    rounded: Callable[[float], float]

    def nearest(self, x: float) -> float:
        """A rounded place within the limits."""
        return min(max(self.rounded(x), self.low), self.high)


def three_digits(x: float) -> float:
    """The nearest number of three digits."""
    return float(f"{x:.3g}")


@dataclass(frozen=True, slots=True)
class Found:
    """A place where the curve is low enough, if there is one, and the least height that was met."""

    place: float | None
    least: float


def crossing(width_at: Callable[[float], float], width: float, start: float, axis: Axis) -> Found:
    """The place from which on ``width_at(x) <= width``.

    From `start` on the curve falls, and is nearly straight on logarithmic scales. If it is low
    there already, the last place is looked for where it is not.
    """
    least = math.inf
    wide: tuple[float, float] | None = None
    short: tuple[float, float] | None = None
    x = axis.nearest(start)
    for _ in range(_STEPS):
        height = width_at(x)
        excess, least = math.log(height / width), min(least, height)
        if excess > 0:
            wide = (x, excess)
        else:
            short = (x, excess)
        if short and (short[1] > -_ENOUGH or short[0] == axis.low):
            return Found(short[0], least)
        if wide and wide[0] == axis.high:
            break
        x = axis.nearest(_next(wide, short))
        if (wide and x == wide[0]) or (short and x == short[0]):
            break  # no rounded place is left between
    return Found(short[0] if short else None, least)


def _next(wide: tuple[float, float] | None, short: tuple[float, float] | None) -> float:
    """Between two ends on the straight line, or beyond the only one."""
    if wide and short:
        share = (wide[1] + _ENOUGH / 2) / (wide[1] - short[1])
        return wide[0] * math.pow(short[0] / wide[0], min(max(share, 0.02), 0.98))
    x, excess = wide or short or (1.0, 0.0)
    # a little further than the line says, so that the other end is found
    step = math.exp(1.1 * excess / _USUAL_POWER + math.copysign(0.05, excess))
    return x * min(max(step, 1 / _LARGEST_STEP), _LARGEST_STEP)
