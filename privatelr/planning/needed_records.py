"""Lengths of intervals for other n and other epsilon: a search for a length, and a plot."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privatelr import plot_style
from privatelr.errors import ArgumentError, GuaranteeError, require_number, require_whole
from privatelr.inference import STANDARD_LEVEL
from privatelr.planning import expected_intervals, forecast
from privatelr.planning.expected_intervals import MOST_COLUMNS, TYPICAL, intervals
from privatelr.planning.forecast import Study, at_price, price_of, rows_of, simulate
from privatelr.progress_line import ProgressLine, somebody_watches

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
_SURE = 0.9
"""A search starts where at least this share of simulated releases has no conservative intervals."""
_SHARES = (0.05, 0.95)
"""Limits to a share of the studies; 80 are simulated."""
_STRIDE = 3.0
"""A point is increased by this factor while the intervals there are conservative."""
_MOSTLY_KEPT = 0.7
"""Below this share of an effect under the penalty, widths may rise with the point."""
SIZES, PRICES = (10.0, 1e8), (0.001, 1000.0)
"""A search covers numbers of records, and epsilons or rhos, in these ranges."""
SMALLEST_KEPT = 0.5
"""An interval is not drawn if less than this share of an effect remains under the penalty."""
_MULTIPLES = (1 / 3, 1.0, 3.0, 10.0)
"""The plot has lines for these multiples of the plan's number of records."""
_POINTS = 9
"""The plot has this number of epsilons."""


def read_size(n: Any) -> int:
    """Read a number of records, or of persons; raises `ArgumentError`."""
    takes = f"a whole number from 1 to {SIZES[1]:.0e}"
    return require_whole(ArgumentError, "n", n, takes, at_least=1, at_most=int(SIZES[1]))


def three_digits(x: float) -> float:
    """The nearest number with three digits."""
    return float(f"{x:.3g}")


def crossing(
    width_at: Callable[[float], float], width: float, start: float, ends: tuple[float, float]
) -> tuple[float | None, float]:
    """The point of three digits from which on ``width_at(x) <= width``, and the least width.

    From `start` on the widths decrease, nearly along a straight line on logarithmic scales. If the
    width at `start` is short enough, the search goes down to the last point where it is not. The
    point is None if no width within the ends is short enough.
    """
    least, x = math.inf, start
    wide: tuple[float, float] | None = None
    short: tuple[float, float] | None = None
    for _ in range(_STEPS):
        x = min(max(three_digits(x), ends[0]), ends[1])
        if x in [point[0] for point in (wide, short) if point]:
            break  # there is no rounded point between the two, or none beyond
        height = width_at(x)
        excess, least = math.log(height / width), min(least, height)
        wide, short = ((x, excess), short) if excess > 0 else (wide, (x, excess))
        if short and short[1] > -_ENOUGH:
            break
        if wide and short:  # the next point is between them, on the straight line
            share = 0.5 if math.isinf(wide[1]) else (wide[1] + _ENOUGH / 2) / (wide[1] - short[1])
            x = wide[0] * math.pow(short[0] / wide[0], min(max(share, 0.02), 0.98))
        else:  # otherwise it is a little beyond the straight line, to get a point on either side
            step = math.exp(1.1 * excess / _USUAL_POWER + math.copysign(0.05, excess))
            x *= min(max(step, 1 / _LARGEST_STEP), _LARGEST_STEP)
    return (short[0] if short else None), least


def with_size(study: Study, n: float) -> Study:
    """The same study with another number of records."""
    return replace(study, n=round(n))


def needed_n(study: Study, width: Any, term: str | None, share: Any = TYPICAL) -> int:
    """The smallest number of records for a width; see `StudyPlan.needed_n`."""
    found, told = _search(study, with_size, study.n, SIZES, width, term, share)
    if found is not None:
        return round(found)
    remedy = "take a larger eps or a larger width"
    if study.request.placement == "output" and isinstance(study.request.lambda_, str):
        remedy = (
            "output perturbation adds about the same noise whatever n is while lambda falls with "
            "it, so take op=True or a number as lambda_"
        )
    raise GuaranteeError(
        f"width={width:g}: no n up to {SIZES[1]:.0e} is enough, since the interval of {told} long; "
        f"{remedy}."
    )


def needed_eps(study: Study, width: Any, term: str | None, share: Any = TYPICAL) -> float:
    """The smallest epsilon or rho for a width; see `StudyPlan.needed_eps`."""
    currency, price = price_of(study)
    found, told = _search(study, at_price, price, PRICES, width, term, share)
    if found is not None:
        return found
    raise GuaranteeError(
        f"width={width:g}: no {currency} up to {PRICES[1]:g} is enough for n={study.n}, since the "
        f"interval of {told} long; take more records (see needed_n) or a larger width."
    )


def _search(
    study: Study,
    at: Callable[[Study, float], Study],
    start: float,
    ends: tuple[float, float],
    width: Any,
    term: str | None,
    share: Any,
) -> tuple[float | None, str]:
    """The smallest point for a width, and words about the least width that was found."""
    rows = rows_of(study, term)
    takes = "a number above 0, the length of an interval in the units of the coefficient"
    asked = require_number(ArgumentError, "width", width, takes, above=0)
    low, high = _SHARES
    takes = f"a number from {low:g} to {high:g}, the share of studies that reach the width"
    reached = require_number(ArgumentError, "share", share, takes, at_least=low, at_most=high)
    require_intervals(study)
    place, least = crossing(
        lambda x: intervals(simulate(at(study, x)), rows, reached).widest,
        asked,
        beyond_conservative(study, at, start, ends),
        ends,
    )
    named = repr(study.terms[rows[0]]) if len(rows) == 1 else "the widest covariate"
    return place, f"{named} would still be {least:.3g}"


def require_intervals(study: Study) -> None:
    """Raise an error if no intervals of a plan are forecast."""
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
    if study.spec.d > MOST_COLUMNS:
        raise GuaranteeError(
            f"formula: it has {study.spec.d} columns, and intervals are forecast for at most "
            f"{MOST_COLUMNS}; plan with fewer."
        )


def beyond_conservative(
    study: Study,
    at: Callable[[Study, float], Study],
    start: float,
    ends: tuple[float, float],
) -> float:
    """A point from which on widths decrease.

    Below it, the penalty may hold the coefficients so close to 0 that even conservative intervals
    are short, although they are not informative.
    """
    x = min(max(start, ends[0]), ends[1])
    while x < ends[1]:
        sim = simulate(at(study, x))
        if (
            expected_intervals.nonconservative_share(sim) >= _SURE
            and (forecast.kept_by_penalty(sim) >= _MOSTLY_KEPT).all()
        ):
            break
        x = min(_STRIDE * x, ends[1])
    return x


def plot_widths(study: Study, term: str | None, n: Any, eps: Any, ax: Axes | None) -> Axes:
    """Draw widths against epsilon; see `StudyPlan.plot`."""
    require_intervals(study)
    row, (currency, price) = rows_of(study, term)[0], price_of(study)
    usual = {study.n if by == 1 else round(three_digits(study.n * by)): None for by in _MULTIPLES}
    sizes = _listed("n", n, list(usual), SIZES)
    prices = _listed("eps", eps, list(price * np.logspace(-1, 1, _POINTS)), PRICES)
    axes = plot_style.axes_for("plot", (7.0, 4.5), ax)
    shades = plot_style.shades_of(axes)
    line = ProgressLine("simulating studies", 0)
    for index, size in enumerate(sizes):
        if somebody_watches():
            line.draw(index / len(sizes))
        widths = [_point(at_price(with_size(study, size), x), row) for x in prices]
        look: dict[str, Any] = {"color": shades[index % len(shades)], "markersize": 5}
        axes.plot(prices, widths, "o-", label=f"n = {int(size):,}", **look)
    line.remove()
    own = _point(study, row)
    axes.plot(price, own, "D", color=plot_style.HIGHLIGHT, zorder=4, label="the plan")
    axes.set(xscale="log", yscale="log", xlabel="epsilon" if currency == "eps" else "rho")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")  # 0.1 and 1, and not powers of ten
    interval = f"{STANDARD_LEVEL:.0%} confidence interval"  # two lines, as names may be long
    axes.set_ylabel(f"expected length of the\n{interval} of {plot_style.literal(study.terms[row])}")
    plot_style.add_legend(axes, loc="best", fontsize="x-small", handlelength=1.2)
    axes.grid(which="major", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _listed(name: str, given: Any, usual: list[float], ends: tuple[float, float]) -> list[float]:
    low, high = ends
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


def _point(study: Study, row: int) -> float:
    """The expected length of an interval.

    It is NaN if no noise is large enough, if too little of an effect remains, or if most studies
    would have no interval.
    """
    try:
        sim = simulate(study)
    except GuaranteeError:
        return math.nan
    if forecast.kept_by_penalty(sim)[row] < SMALLEST_KEPT:
        return math.nan
    width = float(intervals(sim, [row]).width[0])
    return width if math.isfinite(width) else math.nan
