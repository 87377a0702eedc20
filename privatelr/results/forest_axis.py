"""Units that a reader can compare, in forest plots and on pages, and the ticks of a plot."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from privatelr.frames.matrix import NumberedColumns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from privatelr.frames.terms import Columns
    from privatelr.types import BoolArray, FloatArray

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
    for term, recipe in zip(columns.terms, columns.recipes, strict=True):
        if recipe.numeric:
            here = slice(recipe.start, recipe.stop)
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
