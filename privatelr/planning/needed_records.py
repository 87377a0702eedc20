"""How many records, or how much of epsilon, an interval of some length takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from privatelr.errors import ArgumentError, GuaranteeError, or_meant, require_number, show
from privatelr.planning.forecast import intervals, nonconservative_share, simulate
from privatelr.privacy import ZCDP, ApproxDP, Guarantee, NonPrivate, PureDP

if TYPE_CHECKING:
    from privatelr.planning.make_plan import Study


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


EACH = 3
"""Simulated releases that are inferred from for a width that is printed or searched for."""
SURE = 0.9
"""Share of simulated releases without conservative intervals from which these are not counted."""
_STRIDE = 3.0
SMALLEST_N, LARGEST_N = 10, 10**8
SMALLEST_PRICE, LARGEST_PRICE = 0.001, 1000.0
"""Epsilons, or rhos, among which one is looked for."""
SIZES = Axis(SMALLEST_N, LARGEST_N, lambda n: float(round(three_digits(n))))
PRICES = Axis(SMALLEST_PRICE, LARGEST_PRICE, three_digits)


def needed_n(study: Study, width: Any, term: str | None) -> int:
    """See `StudyPlan.needed_n`."""
    rows, asked = rows_of(study, term), _read_width(study, width)
    start = _beyond_conservative(lambda n: at_size(study, int(n)), study.n, SIZES)
    found = crossing(lambda n: _widest(at_size(study, int(n)), rows), asked, start, SIZES)
    if found.place is None:
        raise GuaranteeError(
            f"width={asked:g}: no n up to {LARGEST_N:.0e} is enough, since the interval of "
            f"{_named(study, rows)} would still be {found.least:.3g} long; {_remedy(study)}."
        )
    return int(found.place)


def needed_eps(study: Study, width: Any, term: str | None) -> float:
    """See `StudyPlan.needed_eps`."""
    rows, asked = rows_of(study, term), _read_width(study, width)
    start = _beyond_conservative(lambda p: at_price(study, p), price_of(study), PRICES)
    found = crossing(lambda price: _widest(at_price(study, price), rows), asked, start, PRICES)
    if found.place is None:
        raise GuaranteeError(
            f"width={asked:g}: no {currency(study)} up to {LARGEST_PRICE:g} is enough for n="
            f"{study.n}, since the interval of {_named(study, rows)} would still be "
            f"{found.least:.3g} long; take more records (see needed_n) or a larger width."
        )
    return found.place


def _beyond_conservative(at: Callable[[float], Study], start: float, axis: Axis) -> float:
    """A place from which on widths fall.

    Below it the penalty may hold the coefficients so close to 0 that even conservative intervals
    are short, while they tell nothing.
    """
    x = start
    while x < axis.high and nonconservative_share(simulate(at(axis.nearest(x)))) < SURE:
        x *= _STRIDE
    return x


def _widest(study: Study, rows: list[int]) -> float:
    return float(intervals(simulate(study), rows, EACH, SURE).width.max())


def _read_width(study: Study, width: Any) -> float:
    takes = "a number above 0, the length of an interval in the units of the coefficient"
    asked = require_number(ArgumentError, "width", width, takes, above=0)
    require_intervals(study)
    return asked


def require_intervals(study: Study) -> None:
    """Refuse a plan that requests no inference."""
    if study.request.spend != "inference" and "inference" not in dict(study.request.spend):
        raise GuaranteeError(
            "spend: this plan requests the coefficients alone, which have no intervals; plan with "
            "spend='inference'."
        )


def rows_of(study: Study, term: Any) -> list[int]:
    """Positions of a coefficient, or of all but the intercept."""
    if term is None:
        return list(range(study.spec.columns.has_intercept, len(study.terms))) or [0]
    if term not in study.terms:
        listed, end = ", ".join(map(repr, study.terms)), or_meant(term, study.terms)
        raise ArgumentError(f"term={show(term)}: term takes one of {listed}{end}")
    return [study.terms.index(term)]


def _named(study: Study, rows: list[int]) -> str:
    return repr(study.terms[rows[0]]) if len(rows) == 1 else "the widest covariate"


def _remedy(study: Study) -> str:
    if study.request.placement == "output" and isinstance(study.request.lambda_, str):
        return (
            "output perturbation adds about the same noise whatever n is while lambda falls with "
            "it, so take op=True or a number as lambda_"
        )
    return "take a larger eps or a larger width"


def at_size(study: Study, n: int) -> Study:
    """The same study with another number of records."""
    return replace(study, n=n)


def at_price(study: Study, price: float) -> Study:
    """The same study for another epsilon, or rho."""
    target: Guarantee
    match study.request.target:
        case ZCDP():
            target = replace(study.request.target, rho=price)
        case PureDP() | ApproxDP():
            target = replace(study.request.target, epsilon=price)
        case NonPrivate():
            raise _without_price()
    return replace(study, request=replace(study.request, target=target))


def price_of(study: Study) -> float:
    """Epsilon, or rho."""
    match study.request.target:
        case ZCDP(rho=rho):
            return rho
        case PureDP(epsilon=epsilon) | ApproxDP(epsilon=epsilon):
            return epsilon
    raise _without_price()


def currency(study: Study) -> str:
    """What `plan` calls the price."""
    return "rho" if isinstance(study.request.target, ZCDP) else "eps"


def _without_price() -> GuaranteeError:
    return GuaranteeError("eps=0: a plan without privacy has no epsilon to vary.")
