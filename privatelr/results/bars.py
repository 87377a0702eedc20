"""Intervals as bars of two tones: sampling error inside, what the noise adds around it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from privatelr.inference.intervals import Inference
    from privatelr.types import FloatArray

_UNEVEN = 30.0
"""Ratio of lengths beyond which the shorter intervals cannot be seen beside the longer ones."""
_WIDTH, _HEIGHT = 220, 16
_MARGIN = 6
_FURTHEST = 30.0
"""Standard errors that a bar in such units shows on either side of zero."""
DARK, LIGHT = "#2f6fab", "#9cc3e6"


@dataclass(frozen=True, slots=True, eq=False)
class Bars:
    """Intervals ``(m,)``, and what part of each sampling error would fill by itself.

    An interval reaches from `lower` to `upper`. Its inner part is shorter by the ratio of the
    sampling error to the whole standard error, on either side of the estimate: what it would be
    if the noise were not there.
    """

    estimate: FloatArray
    lower: FloatArray
    upper: FloatArray
    inner_lower: FloatArray
    inner_upper: FloatArray

    def over(self, unit: FloatArray) -> Bars:
        """The same in other units ``(m,)``."""
        with np.errstate(all="ignore"):
            return Bars(
                self.estimate / unit,
                self.lower / unit,
                self.upper / unit,
                self.inner_lower / unit,
                self.inner_upper / unit,
            )


def bars_of(found: Inference) -> Bars:
    """The bars of an inference."""
    with np.errstate(all="ignore"):
        share = np.nan_to_num(found.sampling_sd / found.sd)
        inner_lower = found.estimate - share * (found.estimate - found.lower)
        inner_upper = found.estimate + share * (found.upper - found.estimate)
    return Bars(found.estimate, found.lower, found.upper, inner_lower, inner_upper)


def bars_of_noise(estimate: FloatArray, sd: FloatArray) -> Bars:
    """One standard deviation of the noise ``(m,)`` on either side, where there are no intervals."""
    return Bars(estimate, estimate - sd, estimate + sd, estimate, estimate)


def is_uneven(bars: Bars) -> bool:
    """Whether the bars are too unlike in length for one axis."""
    with np.errstate(all="ignore"):
        lengths = bars.upper - bars.lower
    lengths = lengths[np.isfinite(lengths) & (lengths > 0)]
    return len(lengths) > 0 and bool(lengths.max() / _UNEVEN > lengths.min())


def drawings(found: Inference) -> tuple[list[str], bool]:
    """One small SVG per row on one axis, and whether that counts in standard errors.

    They hold no text, and take the colour of the text around them for what is not a bar.
    """
    bars, counted = bars_of(found), False
    if is_uneven(bars):
        bars, counted = bars.over(np.where(found.sd > 0, found.sd, np.nan)), True
    ends = np.concatenate([bars.lower, bars.upper])
    ends = np.append(ends[np.isfinite(ends)], 0.0)
    low, high = float(ends.min()), float(ends.max())
    if counted:
        low, high = max(low, -_FURTHEST), min(high, _FURTHEST)
    return [_drawing(bars, row, low, high) for row in range(len(bars.estimate))], counted


def _drawing(bars: Bars, row: int, low: float, high: float) -> str:
    span = (high - low) or 1.0

    def place(value: float) -> float:
        held = min(max(value, low), high)
        return _MARGIN + (held - low) / span * (_WIDTH - 2 * _MARGIN)

    middle, zero = _HEIGHT / 2, place(0.0)
    parts = [
        f"<line x1='{zero:.1f}' y1='0' x2='{zero:.1f}' y2='{_HEIGHT}' stroke='currentColor' "
        "stroke-opacity='0.5' stroke-dasharray='2 2'/>"
    ]
    ends = [
        (bars.lower[row], bars.upper[row], 8, LIGHT),
        (bars.inner_lower[row], bars.inner_upper[row], 8, DARK),
    ]
    for start, stop, thickness, colour in ends:
        if math.isfinite(start) and math.isfinite(stop) and start <= high and stop >= low:
            left, right = place(start), place(stop)
            parts.append(
                f"<rect x='{left:.1f}' y='{middle - thickness / 2:g}' "
                f"width='{right - left:.1f}' height='{thickness}' fill='{colour}'/>"
            )
    parts += _arrows(float(bars.lower[row]), float(bars.upper[row]), low, high)
    estimate = float(bars.estimate[row])
    if low <= estimate <= high:
        parts.append(
            f"<line x1='{place(estimate):.1f}' y1='1' x2='{place(estimate):.1f}' "
            f"y2='{_HEIGHT - 1}' stroke='currentColor' stroke-width='2'/>"
        )
    return (
        f"<svg width='{_WIDTH}' height='{_HEIGHT}' viewBox='0 0 {_WIDTH} {_HEIGHT}' "
        f"role='img' aria-label='interval'>{''.join(parts)}</svg>"
    )


def _arrows(lower: float, upper: float, low: float, high: float) -> list[str]:
    """Where a bar goes on beyond the axis."""
    middle, tips = _HEIGHT / 2, []
    if lower < low:
        tips.append((_MARGIN, 0))
    if upper > high:
        tips.append((_WIDTH - _MARGIN, _WIDTH))
    return [
        f"<path d='M{base} {middle - 5:g} L{tip} {middle:g} L{base} {middle + 5:g} Z' "
        "fill='currentColor'/>"
        for base, tip in tips
    ]
