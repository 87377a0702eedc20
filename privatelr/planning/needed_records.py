"""Lengths of intervals for other n and other epsilon: a search for a length, and a plot."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privatelr.errors import ArgumentError, GuaranteeError, require_number, require_whole
from privatelr.inference import STANDARD_LEVEL
from privatelr.planning import forecast
from privatelr.planning.expected_intervals import TYPICAL, intervals, nonconservative_share
from privatelr.planning.forecast import simulate
from privatelr.planning.study import Study, at_price, price_of, rows_of
from privatelr.plot_style import (
    HIGHLIGHT,
    add_legend,
    axes_for,
    ground_of,
    ink_of,
    literal,
    shades_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ENOUGH = 0.01
"""A search ends if the interval is shorter than requested by at most this share."""
_STEPS = 40
"""A search computes at most this number of widths."""
_LARGEST_STEP = 8.0
"""Two successive points of a search have at most this ratio."""
_USUAL_POWER = 0.75
"""Widths decrease about with this power of n, between the power of sampling and that of noise."""


@dataclass(frozen=True, slots=True)
class Axis:
    """The range of a search, and the rounding of its points."""

    low: float
    high: float
    rounded: Callable[[float], float]

    def nearest(self, x: float) -> float:
        """The rounded point within the limits."""
        return min(max(self.rounded(x), self.low), self.high)


def three_digits(x: float) -> float:
    """The nearest number with three digits."""
    return float(f"{x:.3g}")


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search: a point with a short enough width or None, and the least width."""

    place: float | None
    least: float


def crossing(width_at: Callable[[float], float], width: float, start: float, axis: Axis) -> Found:
    """The point from which on ``width_at(x) <= width``.

    From `start` on the widths decrease, nearly along a straight line on logarithmic scales. If the
    width at `start` is short enough, the search goes down to the last point where it is not.
    """
    least = math.inf
    wide: tuple[float, float] | None = None
    short: tuple[float, float] | None = None
    x = axis.nearest(start)
    for _ in range(_STEPS):
        height = width_at(x)
        excess, least = math.log(height / width), min(least, height)
        wide, short = ((x, excess), short) if excess > 0 else (wide, (x, excess))
        if short and (short[1] > -_ENOUGH or short[0] == axis.low):
            return Found(short[0], least)
        if wide and wide[0] == axis.high:
            break
        if wide and short:  # the next point is between them, on the straight line
            share = 0.5 if math.isinf(wide[1]) else (wide[1] + _ENOUGH / 2) / (wide[1] - short[1])
            x = wide[0] * math.pow(short[0] / wide[0], min(max(share, 0.02), 0.98))
        else:  # otherwise it is a little beyond the straight line, to get a point on either side
            step = math.exp(1.1 * excess / _USUAL_POWER + math.copysign(0.05, excess))
            x *= min(max(step, 1 / _LARGEST_STEP), _LARGEST_STEP)
        x = axis.nearest(x)
        if x in [end[0] for end in (wide, short) if end]:
            break  # there is no rounded point between the two
    return Found(short[0] if short else None, least)


SURE = 0.9
"""A search starts where at least this share of simulated releases has no conservative intervals."""
_SHARES = (0.05, 0.95)
"""Limits to a share of the studies; 80 are simulated."""
_STRIDE = 3.0
"""A point is increased by this factor while the intervals there are conservative."""
_MOSTLY_KEPT = 0.7
"""Below this share of an effect under the penalty, widths may rise with the point."""
SMALLEST_N, LARGEST_N = 10, 10**8
"""A search covers numbers of records in this range."""
SMALLEST_PRICE, LARGEST_PRICE = 0.001, 1000.0
"""A search covers epsilons, or rhos, in this range."""
SIZES = Axis(SMALLEST_N, LARGEST_N, lambda n: float(round(three_digits(n))))
PRICES = Axis(SMALLEST_PRICE, LARGEST_PRICE, three_digits)


def read_size(n: Any) -> int:
    """Read a number of records, or of persons; raises `ArgumentError`."""
    takes = f"a whole number from 1 to {LARGEST_N:.0e}"
    return require_whole(ArgumentError, "n", n, takes, at_least=1, at_most=LARGEST_N)


def needed_n(study: Study, width: Any, term: str | None, share: Any = TYPICAL) -> int:
    """The smallest number of records for a width; see `StudyPlan.needed_n`."""
    rows, asked, named, reached = _read(study, width, term, share)
    found = _search(lambda n: replace(study, n=int(n)), rows, asked, study.n, SIZES, reached)
    if found.place is not None:
        return int(found.place)
    remedy = "take a larger eps or a larger width"
    if study.request.placement == "output" and isinstance(study.request.lambda_, str):
        remedy = (
            "output perturbation adds about the same noise whatever n is while lambda falls with "
            "it, so take op=True or a number as lambda_"
        )
    raise GuaranteeError(
        f"width={asked:g}: no n up to {LARGEST_N:.0e} is enough, since the interval of {named} "
        f"would still be {found.least:.3g} long; {remedy}."
    )


def needed_eps(study: Study, width: Any, term: str | None, share: Any = TYPICAL) -> float:
    """The smallest epsilon or rho for a width; see `StudyPlan.needed_eps`."""
    rows, asked, named, reached = _read(study, width, term, share)
    currency, price = price_of(study)
    found = _search(lambda x: at_price(study, x), rows, asked, price, PRICES, reached)
    if found.place is not None:
        return found.place
    raise GuaranteeError(
        f"width={asked:g}: no {currency} up to {LARGEST_PRICE:g} is enough for n={study.n}, since "
        f"the interval of {named} would still be {found.least:.3g} long; take more records (see "
        "needed_n) or a larger width."
    )


def _read(
    study: Study, width: Any, term: str | None, share: Any
) -> tuple[list[int], float, str, float]:
    """Positions of the coefficients, the width, the name for an error message, and the share."""
    rows = rows_of(study, term)
    takes = "a number above 0, the length of an interval in the units of the coefficient"
    asked = require_number(ArgumentError, "width", width, takes, above=0)
    low, high = _SHARES
    takes = f"a number from {low:g} to {high:g}, the share of studies that reach the width"
    limits = {"at_least": low, "at_most": high}
    reached = require_number(ArgumentError, "share", share, takes, **limits)
    require_intervals(study)
    named = repr(study.terms[rows[0]]) if len(rows) == 1 else "the widest covariate"
    return rows, asked, named, reached


def require_intervals(study: Study) -> None:
    """Raise an error if a plan requests no inference."""
    if study.classes:
        raise GuaranteeError(
            "loss: intervals of several classes are not built; a plan of one class against the "
            "others has them, as in plan(\"stage == 'high' ~ age\", ...)."
        )
    if study.request.spend != "inference" and "inference" not in dict(study.request.spend):
        raise GuaranteeError(
            "spend: this plan requests the coefficients alone, which have no intervals; plan with "
            "spend='inference'."
        )


def _search(
    at: Callable[[float], Study],
    rows: list[int],
    width: float,
    start: float,
    axis: Axis,
    share: float,
) -> Found:
    def widest(x: float) -> float:
        return intervals(simulate(at(x)), rows, share).widest

    return crossing(widest, width, beyond_conservative(at, start, axis), axis)


def beyond_conservative(at: Callable[[float], Study], start: float, axis: Axis) -> float:
    """A point from which on widths decrease.

    Below it, the penalty may hold the coefficients so close to 0 that even conservative intervals
    are short, although they are not informative.
    """
    x = start
    while x < axis.high and not _is_informative(simulate(at(axis.nearest(x)))):
        x *= _STRIDE
    return x


def _is_informative(sim: forecast.Simulator) -> bool:
    kept = forecast.kept_by_penalty(sim)
    return nonconservative_share(sim) >= SURE and bool((kept >= _MOSTLY_KEPT).all())


SMALLEST_KEPT = 0.5
"""An interval is not drawn if less than this share of an effect remains under the penalty."""
_SIZES = (1 / 3, 1.0, 3.0, 10.0)
"""The plot has lines for these multiples of the plan's number of records."""
_PRICES = 9
"""The plot has this number of epsilons."""


def plot_widths(study: Study, term: str | None, n: Any, eps: Any, ax: Axes | None) -> Axes:
    """Draw widths against epsilon; see `StudyPlan.plot`."""
    require_intervals(study)
    row = rows_of(study, term)[0]
    usual = dict.fromkeys(
        study.n if factor == 1 else round(three_digits(study.n * factor)) for factor in _SIZES
    )
    sizes = [int(size) for size in _listed("n", n, list(usual), SIZES)]
    currency, price = price_of(study)
    prices = _listed("eps", eps, list(price * np.logspace(-1, 1, _PRICES)), PRICES)
    axes = axes_for("plot", (7.0, 4.5), ax)
    hollow_shown, shades, ground = False, shades_of(axes), ground_of(axes)
    for index, size in enumerate(sizes):
        colour = shades[index % len(shades)]
        points = [_point(replace(at_price(study, x), n=size), row) for x in prices]
        axes.plot(prices, [width for width, _ in points], color=colour, label=f"n = {size:,}")
        for hollow, face in ((False, colour), (True, ground)):
            at = [i for i, (_, is_conservative) in enumerate(points) if is_conservative == hollow]
            x, y = [prices[i] for i in at], [points[i][0] for i in at]
            hollow_shown |= hollow and not all(map(math.isnan, y))
            axes.plot(x, y, "o", mfc=face, mec=colour, markersize=5)
    axes.plot(price, _point(study, row)[0], "D", color=HIGHLIGHT, zorder=4, label="the plan")
    if hollow_shown:
        look: dict[str, Any] = {"mfc": ground, "mec": ink_of(axes), "markersize": 5}
        axes.plot([], [], "o", label="conservative", **look)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")  # 0.1 and 1, and not powers of ten
    axes.set_xlabel("epsilon" if currency == "eps" else "rho")
    interval = f"{STANDARD_LEVEL:.0%} confidence interval"  # two lines, as names may be long
    axes.set_ylabel(f"expected length of the\n{interval} of {literal(study.terms[row])}")
    add_legend(axes, loc="best", fontsize="x-small", handlelength=1.2)
    axes.grid(which="major", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _listed(name: str, given: Any, usual: list[float], axis: Axis) -> list[float]:
    low, high = axis.low, axis.high
    if given is None:
        return [float(min(max(value, low), high)) for value in usual]
    takes = f"numbers from {low:g} to {high:g}"
    values = list(given) if isinstance(given, list | tuple | np.ndarray | range) else [given]
    if not values:
        raise ArgumentError(f"{name}: {name} takes {takes}, at least one.")
    return sorted(
        require_number(ArgumentError, name, value, takes, at_least=low, at_most=high)
        for value in values
    )


def _point(study: Study, row: int) -> tuple[float, bool]:
    """The expected length of an interval, and whether it is conservative.

    The length is NaN if no noise is large enough, if too little of an effect remains, or if most
    studies would have no interval.
    """
    try:
        sim = simulate(study)
    except GuaranteeError:
        return math.nan, False
    if forecast.kept_by_penalty(sim)[row] < SMALLEST_KEPT:
        return math.nan, False
    found = intervals(sim, [row])
    width = float(found.width[0])  # an infinite one has no point
    return width if math.isfinite(width) else math.nan, found.mode == "conservative"
