"""Accounting events: what a release costs, and prices read as the decimals that they print.

A guarantee is an event too. To add one, write a frozen class, list it in `Detail` and in
`EVENTS`, and give it a case in `renyi`; the composition by loss distributions has its own list
(`privatelr.privacy.accounting.loss_distributions`).

Sums, shares and comparisons of prices are exact in that reading; the way back to a float is
rounded to the side that is asked for.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from privatelr.errors import GuaranteeError, require_number, show
from privatelr.privacy import conversions
from privatelr.privacy.guarantees import (
    REPLACE_ONE,
    ZCDP,
    ApproxDP,
    Neighbours,
    NonPrivate,
    Promise,
    PureDP,
)
from privatelr.privacy.renyi_divergence import MOST_TIMES, renyi_of_draw, renyi_of_range
from privatelr.types import FloatArray


@lru_cache(maxsize=4096)
def exact(price: float) -> Fraction:
    """The decimal that Python prints for a finite float; it increases with the float."""
    return Fraction(repr(float(price)))


def at_most(value: Fraction) -> float:
    """Largest float whose decimal is no more than `value`."""
    price = float(value)
    while exact(price) > value:
        price = math.nextafter(price, -math.inf)
    return price


def at_least(value: Fraction) -> float:
    """Smallest float whose decimal is no less than `value`; infinity beyond all of them."""
    try:
        price = float(value)
    except OverflowError:
        return math.inf
    while math.isfinite(price) and exact(price) < value:
        price = math.nextafter(price, math.inf)
    return price


_LARGEST = 1e100
"""Largest ratio of sensitivity to noise whose square is still a double."""
FIRST_ORDER = 0.798
"""Upper bound on the mean size of a standard normal number."""
_UNIT = 2.0**-52
"""Relative rounding error of one operation, on the safe side."""


@dataclass(frozen=True, slots=True)
class GaussianEvent:
    """A plain Gaussian release: independent noise of one sd on a vector of known sensitivity.

    Attributes
    ----------
    mu : float
        Sensitivity divided by standard deviation. The sensitivity is the one of the stated
        neighbours, so no further factor is due (privacy.md 9, the trap of REPLACE_ONE).
    """

    mu: float
    neighbours: Neighbours = REPLACE_ONE

    def __post_init__(self) -> None:
        takes = f"a number above 0 and up to {_LARGEST:g}"
        mu = require_number(GuaranteeError, "mu", self.mu, takes, above=0, at_most=_LARGEST)
        object.__setattr__(self, "mu", mu)


@dataclass(frozen=True, slots=True)
class TiltEvent:
    """Gaussian objective perturbation: the tilt of the objective is normal.

    It must not be accounted as ``GaussianEvent(2 m)``: the curvature of one row shows at
    small epsilon (privacy.md 4.3).

    Attributes
    ----------
    m : float
        ``L R / sigma``: half the sensitivity of the gradient sum, over the sd of the tilt.
    kappa : float
        ``R**2 / Lambda``.
    curvature_bound : float
        c, the largest curvature of the loss.
    joint_factor : float or None
        k if the curvature where the slope has size ``s L`` is at most ``k s (1 - s)``.
    """

    m: float
    kappa: float
    curvature_bound: float
    joint_factor: float | None = None
    neighbours: Neighbours = REPLACE_ONE

    def __post_init__(self) -> None:
        takes = f"a number above 0 and up to {_LARGEST:g}"
        m = require_number(GuaranteeError, "m", self.m, takes, above=0, at_most=_LARGEST)
        object.__setattr__(self, "m", m)
        for name in ("kappa", "curvature_bound"):
            takes = "a finite number from 0"
            value = require_number(GuaranteeError, name, getattr(self, name), takes, at_least=0)
            object.__setattr__(self, name, value)
        if self.joint_factor is not None:
            takes = "None or a finite number above 0"
            value = require_number(
                GuaranteeError, "joint_factor", self.joint_factor, takes, above=0
            )
            object.__setattr__(self, "joint_factor", value)

    @property
    def curvature_cost(self) -> float:
        """What the curvature adds to every loss: a of privacy.md 4.3.

        Nothing where the joint bound is convex in the slope, so that its maximum is at a vertex.
        """
        if self.joint_factor is not None and self.kappa * self.joint_factor <= self.m**2 / 2:
            return 0.0
        return math.log1p(self.curvature_bound * self.kappa)

    @property
    def rho(self) -> float:
        """The zCDP of a tilt: its divergence over the order is largest as that falls to 1."""
        return 2 * self.m**2 + FIRST_ORDER * self.m + self.curvature_cost


@dataclass(frozen=True, slots=True)
class BoundedRangeEvent:
    """Choices of bounded range, each of which may depend on those before it.

    Attributes
    ----------
    eta : float
        Between neighbours, the logarithms of the ratios of chances of the options of one choice
        lie in one interval of this length.
    times : int
        How many choices.
    """

    eta: float
    times: int = 1
    neighbours: Neighbours = REPLACE_ONE

    def __post_init__(self) -> None:
        takes = f"a number above 0 and up to {_LARGEST:g}"
        eta = require_number(GuaranteeError, "eta", self.eta, takes, above=0, at_most=_LARGEST)
        object.__setattr__(self, "eta", eta)
        _require_times(self.times)


@dataclass(frozen=True, slots=True)
class SimplexDrawEvent:
    """Independent draws from a law over options that is stable between neighbours.

    Attributes
    ----------
    largest : float
        No log chance changes by more.
    width : float
        The changes lie in one interval of this length.
    sd : float
        Along a path from the one law to the other, the speed of the log chances has at most
        this standard deviation under the law of the moment.
    times : int
        How many draws.
    """

    largest: float
    width: float
    sd: float
    times: int = 1
    neighbours: Neighbours = REPLACE_ONE

    def __post_init__(self) -> None:
        takes = f"a number above 0 and up to {_LARGEST:g}"
        for name in ("largest", "width", "sd"):
            value = getattr(self, name)
            value = require_number(GuaranteeError, name, value, takes, above=0, at_most=_LARGEST)
            object.__setattr__(self, name, value)
        _require_times(self.times)


def _require_times(times: int) -> None:
    if type(times) is not int or not 1 <= times <= MOST_TIMES:
        raise GuaranteeError(f"times={show(times)}: times takes an integer from 1 to {MOST_TIMES}.")


Detail = GaussianEvent | TiltEvent | BoundedRangeEvent | SimplexDrawEvent
"""Events that are no guarantees."""
Event = Promise | Detail

EVENTS: dict[str, type[Detail]] = {
    "gaussian": GaussianEvent,
    "tilt": TiltEvent,
    "bounded-range": BoundedRangeEvent,
    "simplex-draw": SimplexDrawEvent,
}


def renyi(event: Event, order: float) -> float:
    """Upper bound of the Renyi divergence of an order above 1; infinity where there is none.

    Pure epsilon by randomised response, its extremal case (Steinke, differentialprivacy.org,
    2024); the tilt by privacy.md 4.3, whose ``2 m`` is the sensitivity over the sd.
    """
    match event:
        case PureDP(epsilon=epsilon):
            return _renyi_of_pure(epsilon, order)
        case ZCDP(rho=rho):
            return order * rho
        case GaussianEvent(mu=mu):
            return order * mu**2 / 2
        case TiltEvent(m=m):
            # what the maximum with 0 adds to the Gaussian of sensitivity 2 m, at any order
            maximum = min(0.1409 / (order - 1), FIRST_ORDER * m)
            return 2 * order * m**2 + event.curvature_cost + maximum
        case ApproxDP():
            return math.inf
        case BoundedRangeEvent() | SimplexDrawEvent():
            return float(renyi_curve(event, np.array([order]))[0])


def renyi_curve(event: Event, orders: FloatArray) -> FloatArray:
    """`renyi` for each of the orders ``(k,)``."""
    match event:
        case BoundedRangeEvent(eta=eta, times=times):
            return times * renyi_of_range(eta, orders)
        case SimplexDrawEvent(largest=largest, width=width, sd=sd, times=times):
            return times * renyi_of_draw(largest, width, sd, orders)
    return np.array([renyi(event, order) for order in orders.tolist()])


def pure_cap(event: Event) -> PureDP | None:
    """Return the pure guarantee that a choice or a simplex draw implies; None for other events."""
    match event:
        case BoundedRangeEvent(eta=each, times=times):
            return PureDP(at_least(exact(each) * times), event.neighbours)
        case SimplexDrawEvent(largest=largest, width=width, times=times):
            # chances add up to one, so that the interval of their changes holds a zero
            return PureDP(at_least(exact(min(largest, width)) * times), event.neighbours)
    return None


def as_pure(event: Event) -> PureDP | None:
    """The pure guarantee that an event is or has, or None."""
    return event if isinstance(event, PureDP) else pure_cap(event)


def _renyi_of_pure(epsilon: float, order: float) -> float:
    by_zcdp = order * epsilon * math.tanh(epsilon / 2)
    excess = order - 1
    seen = math.exp(-epsilon) * -math.expm1(-2 * excess * epsilon)
    saved = math.log1p(seen / (1 + math.exp(-(2 * order - 1) * epsilon))) / excess
    rounding = 8 * _UNIT * epsilon
    return min(epsilon, by_zcdp, epsilon - saved + rounding)


def grouped(event: Event, rows: int) -> Event:
    """The price for a record that stands in so many rows, as in a resample with replacement.

    Group privacy: pure epsilon and mu are multiplied, rho by the square; the delta of an
    approximate guarantee grows by ``1 + exp(epsilon) + ... + exp((rows - 1) epsilon)``.
    A release on a resample is covered only if `rows` bounds, before the draw, how often a
    record can appear; what is resampled from a release alone costs nothing.
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise GuaranteeError(f"rows={rows!r}: rows takes an integer from 1.")
    match event:
        case PureDP(epsilon=epsilon):
            return replace(event, epsilon=rows * epsilon)
        case ZCDP(rho=rho):
            return replace(event, rho=rows**2 * rho)
        case GaussianEvent(mu=mu):
            return replace(event, mu=rows * mu)
        case ApproxDP(epsilon=epsilon, delta=delta):
            exponents = (k * epsilon for k in range(rows))
            growth = sum(math.exp(x) if x < 700 else math.inf for x in exponents)
            return replace(event, epsilon=rows * epsilon, delta=min(1.0, delta * growth))
        case BoundedRangeEvent(eta=eta):
            return replace(event, eta=rows * eta)
        case SimplexDrawEvent(largest=largest, width=width, sd=sd):
            # the path goes from one dataset to the next, and so many times as fast
            return replace(event, largest=rows * largest, width=rows * width, sd=rows * sd)
        case TiltEvent():
            raise GuaranteeError(
                "event: Gaussian objective perturbation has no proven price for several rows; "
                "give its approximate guarantee."
            )


def event_to_json(event: Event) -> dict[str, Any]:
    """An event as plain values: its kind, its numbers, its neighbours."""
    if isinstance(event, Detail):
        kind = next(name for name, cls in EVENTS.items() if isinstance(event, cls))
        return {"kind": kind, **asdict(event), "neighbours": event.neighbours.name}
    return conversions.to_json(event)


def event_from_json(value: Any) -> Event:
    """Inverse of `event_to_json`; raises `GuaranteeError` for anything else."""
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str):
        raise GuaranteeError("event: takes an object with a kind.")
    if kind not in EVENTS:
        guarantee = conversions.from_json(value)
        if isinstance(guarantee, NonPrivate):
            raise GuaranteeError("event: a release without a guarantee is no event.")
        return guarantee
    cls = EVENTS[kind]
    numbers = {key: entry for key, entry in value.items() if key not in ("kind", "neighbours")}
    try:
        return cls(**numbers, neighbours=Neighbours[value["neighbours"]])
    except (KeyError, TypeError):
        raise GuaranteeError(
            f"event: the entries that were given are not those of {cls.__name__}."
        ) from None
