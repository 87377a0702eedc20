"""Widths against epsilon, as a picture."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privatelr.errors import ArgumentError, GuaranteeError, MissingDependencyError, require_number
from privatelr.planning.forecast import LEVEL, intervals, kept_by_penalty, simulate
from privatelr.planning.needed_records import (
    LARGEST_N,
    LARGEST_PRICE,
    SMALLEST_N,
    SMALLEST_PRICE,
    at_price,
    at_size,
    currency,
    price_of,
    require_intervals,
    rows_of,
    three_digits,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from privatelr.planning.make_plan import Study

_COLOURS = ("#9cc3e6", "#5b97cc", "#2f6fab", "#17395c")
_PLAN = "#d1792b"
SMALLEST_KEPT = 0.5
"""An interval is not drawn where the penalty leaves less of an effect: it is short for nothing."""
_SIZES = (1 / 3, 1.0, 3.0, 10.0)
_PRICES = 9


def plot_widths(study: Study, term: str | None, n: Any, eps: Any, ax: Axes | None) -> Axes:
    """See `StudyPlan.plot`."""
    require_intervals(study)
    row = rows_of(study, term)[0]
    sizes = [int(size) for size in _listed("n", n, _usual_sizes(study), SMALLEST_N, LARGEST_N)]
    usual = price_of(study) * np.logspace(-1, 1, _PRICES)
    prices = _listed("eps", eps, list(usual), SMALLEST_PRICE, LARGEST_PRICE)
    axes = _new_axes() if ax is None else ax
    for index, size in enumerate(sizes):
        points = [_point(at_size(at_price(study, price), size), row) for price in prices]
        colour = _COLOURS[index % len(_COLOURS)]
        _line(axes, prices, points, colour, f"n = {size:,}")
    plan = _point(study, row)
    axes.plot(price_of(study), plan.width, "D", color=_PLAN, zorder=4, label="the plan")
    axes.plot([], [], "o", mfc="white", mec="black", markersize=5, label="conservative")
    _label(axes, study, study.terms[row])
    return axes


def _usual_sizes(study: Study) -> list[float]:
    sizes = [round(three_digits(study.n * factor)) for factor in _SIZES]
    sizes[1] = study.n
    return [float(min(max(size, SMALLEST_N), LARGEST_N)) for size in dict.fromkeys(sizes)]


def _listed(name: str, given: Any, usual: list[float], low: float, high: float) -> list[float]:
    if given is None:
        return [min(max(value, low), high) for value in usual]
    takes = f"numbers from {low:g} to {high:g}"
    values = list(given) if isinstance(given, list | tuple | np.ndarray | range) else [given]
    if not values:
        raise ArgumentError(f"{name}: {name} takes {takes}, at least one.")
    return sorted(
        require_number(ArgumentError, name, value, takes, at_least=low, at_most=high)
        for value in values
    )


@dataclass(frozen=True, slots=True)
class _Point:
    """An interval, and whether it is conservative."""

    width: float
    is_conservative: bool


def _point(study: Study, row: int) -> _Point:
    """NaN where no noise suffices, or the penalty leaves too little to speak of a width."""
    try:
        sim = simulate(study)
    except GuaranteeError:
        return _Point(math.nan, False)
    if kept_by_penalty(sim)[row] < SMALLEST_KEPT:
        return _Point(math.nan, False)
    found = intervals(sim, [row])
    return _Point(float(found.width[0]), found.mode == "conservative")


def _line(axes: Axes, prices: list[float], points: list[_Point], colour: str, label: str) -> None:
    axes.plot(prices, [point.width for point in points], color=colour, label=label)
    for hollow in (False, True):
        at = [i for i, point in enumerate(points) if point.is_conservative == hollow]
        face = "white" if hollow else colour
        axes.plot(
            [prices[i] for i in at],
            [points[i].width for i in at],
            "o",
            mfc=face,
            mec=colour,
            markersize=5,
        )


def _new_axes() -> Axes:
    try:
        from matplotlib import pyplot
    except ImportError as missing:
        raise MissingDependencyError(
            "plot: takes matplotlib; install it, or privatelr[plots]."
        ) from missing
    _, axes = pyplot.subplots(figsize=(7.0, 4.5), layout="constrained")
    return axes


def _label(axes: Axes, study: Study, term: str) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("epsilon" if currency(study) == "eps" else "rho")
    axes.set_ylabel(f"expected length of the {LEVEL:.0%} interval of {term}")
    axes.legend(frameon=False)
    axes.grid(which="major", alpha=0.3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
