"""The axis of a forest plot: units that make bars comparable, and ticks that a reader knows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from privatelr.types import BoolArray, FloatArray

_DECADES = ((1.0,), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0))
_STEPS = (1.0, 2.0, 5.0)
_FEWEST, _MOST = 4, 9
"""Ticks of an axis of ratios."""
_FURTHEST = 30
"""Powers of ten of a unit."""


def powers_of_ten(lengths: FloatArray, spans: FloatArray, levels: BoolArray) -> FloatArray:
    """Divisors ``(m,)`` that make bars about as long as those of levels of factors.

    Parameters
    ----------
    lengths : ndarray of shape (m,)
        Of bars in the user's units.
    spans : ndarray of shape (m,)
        Of the variable whose unit a bar belongs to, which may be of ten units instead but not
        of more than there are; infinite where it is not known, NaN for a bar that stays.
    levels : ndarray of shape (m,)
        Which bars belong to levels.
    """
    known = np.isfinite(lengths) & (lengths > 0)
    free = known & (spans > 0)
    like = known & levels if (known & levels).any() else free
    if not free.any():
        return np.ones(len(lengths))
    logs = np.log10(lengths, where=known, out=np.zeros(len(lengths)))
    with np.errstate(all="ignore"):
        most = np.fmax(np.floor(np.log10(spans)), 0.0)
    powers = np.fmin(np.round(np.median(logs[like]) - logs), np.fmin(most, _FURTHEST))
    return np.asarray(10.0 ** -np.where(free, np.fmax(powers, -_FURTHEST), 0.0))


def with_unit(name: str, divisor: float) -> str:
    """The name of a row, and how many units it is of unless that is one."""
    return name if divisor == 1 else f"{name} (per {float(f'{1 / divisor:.6g}'):g})"


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
