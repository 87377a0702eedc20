"""The axis and the two-toned bars of a forest plot."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from privatelr.design import Columns, NumberedColumns
from privatelr.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from privatelr.inference import Inference


_UNEVEN = 30.0
"""Ratio of lengths beyond which the shorter intervals cannot be seen beside the longer ones."""
_WIDTH, _HEIGHT = 220, 16
_MARGIN = 6
_FURTHEST_BAR = 30.0
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
        low, high = max(low, -_FURTHEST_BAR), min(high, _FURTHEST_BAR)
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


_DECADES = ((1.0,), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0))
_STEPS = (1.0, 2.0, 5.0)
_FEWEST, _MOST = 4, 9
"""Ticks of an axis of ratios."""
_FURTHEST = 30
"""Powers of ten of a unit."""
_SMALLEST_LOG, _USUAL_LOG, _LARGEST_LOG = 1e-3, 0.3, math.log(1e5)
"""Logarithms of odds ratios: 1.001, 1.35 and 100,000."""


def spans_of(columns: Columns | NumberedColumns) -> FloatArray:
    """Range of the variable whose unit each column ``(d,)`` is of.

    Infinite where it is not declared; NaN for the intercept and for levels of factors.
    """
    spans = np.full(len(columns.names), np.nan)
    if isinstance(columns, NumberedColumns):
        spans[1:] = np.inf
        return spans
    for term in columns.terms:
        if term.numeric:
            here = slice(term.start, term.stop)
            spans[here] = 2 * columns.scale[here] if np.isfinite(term.radius) else np.inf
    return spans


def powers_of_ten(sizes: FloatArray, spans: FloatArray, typical: float) -> FloatArray:
    """Divisors ``(m,)`` that bring sizes near to a typical one.

    Parameters
    ----------
    sizes : ndarray of shape (m,)
        Of coefficients, or lengths of their bars, in the user's units.
    spans : ndarray of shape (m,)
        See `spans_of`. A coefficient may be of ten units instead of one, but not of more than
        there are; where the span is NaN it stays.
    typical : float
        Above 0.
    """
    free = np.isfinite(sizes) & (sizes > 0) & (spans > 0)
    logs = np.log10(sizes, where=free, out=np.zeros(len(sizes)))
    with np.errstate(all="ignore"):
        most = np.fmax(np.floor(np.log10(spans)), 0.0)
    powers = np.fmin(np.round(math.log10(typical) - logs), np.fmin(most, _FURTHEST))
    return np.asarray(10.0 ** -np.where(free, np.fmax(powers, -_FURTHEST), 0.0))


def typical_length(lengths: FloatArray, spans: FloatArray, levels: BoolArray) -> float:
    """Median length of the bars ``(m,)`` of levels; without any, of those whose unit may change."""
    known = np.isfinite(lengths) & (lengths > 0)
    like = known & levels if (known & levels).any() else known & (spans > 0)
    return float(10.0 ** np.median(np.log10(lengths[like]))) if like.any() else 1.0


def odds_units(logs: FloatArray, sd: FloatArray, spans: FloatArray) -> FloatArray:
    """Divisors ``(m,)`` of the logarithms of odds ratios that no reader could use as they are.

    One that is near to 0 for what it is uncertain by, `sd`, is no matter of units and stays.
    """
    sizes, around = np.abs(logs), np.fmax(np.abs(logs), sd)
    large = sizes > _LARGEST_LOG
    changed = powers_of_ten(np.where(large, sizes, around), spans, _USUAL_LOG)
    with np.errstate(all="ignore"):  # one unit may be more than there are, where it stays
        changed = np.fmax(changed, np.where(large, 10.0 ** -np.floor(np.log10(spans)), 0.0))
    return np.where(large | (around < _SMALLEST_LOG), changed, 1.0)


def units_of(divisor: float) -> str:
    """How many units a number is of that was divided by a power of ten."""
    return f"{float(f'{1 / divisor:.6g}'):g}"


def with_unit(name: str, divisor: float) -> str:
    """The name of a row, and how many units it is of unless that is one."""
    return name if divisor == 1 else f"{name} (per {units_of(divisor)})"


def ratio_ticks(low: float, high: float) -> list[float]:
    """A few round numbers from `low` to `high` for a logarithmic axis, both positive."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    if last - first > _MOST:
        step = math.ceil((last - first) / _MOST)
        return [10.0**k for k in range(first, last + 1) if k % step == 0 and low <= 10.0**k <= high]
    for digits in _DECADES:
        # as decimals, so that 3 * 10**-1 is 0.3
        every = [float(f"{m:g}e{k}") for k in range(first, last + 1) for m in digits]
        ticks = [tick for tick in every if low <= tick <= high]
        if _FEWEST <= len(ticks) <= _MOST:
            return ticks
    size = math.floor(math.log10((high - low) / _MOST))
    width = min(
        m * 10.0**k
        for k in (size, size + 1, size + 2)
        for m in _STEPS
        if math.floor(high / (m * 10.0**k)) - math.ceil(low / (m * 10.0**k)) < _MOST
    )
    places = range(math.ceil(low / width), math.floor(high / width) + 1)
    return [float(f"{width * place:.12g}") for place in places]


def show_ratios(axes: Axes) -> None:
    """Ticks of odds ratios as a paper has them, 0.5, 1, 2, and no powers of ten."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    low, high = axes.get_xlim()
    if not (0 < low < high < math.inf):
        return
    axes.xaxis.set_major_locator(FixedLocator(ratio_ticks(low, high)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
