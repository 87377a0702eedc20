"""Accounting events: what a release costs.

A guarantee is an event too. To add one, write a frozen class, list it in `Detail` and in
`EVENTS`, and give it a case in `renyi`; the composition by loss distributions has its own list
(`privatelr.privacy.accounting.composition_bounds`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy

from privatelr.errors import GuaranteeError
from privatelr.privacy.guarantees import (
    KINDS,
    REPLACE_ONE,
    ZCDP,
    ApproxDP,
    Neighbours,
    NonPrivate,
    Promise,
    PureDP,
    at_least,
    check_numbers,
    exact,
    from_json,
    to_json,
)
from privatelr.privacy.renyi_divergence import renyi_of_draw, renyi_of_range, require_times
from privatelr.types import FloatArray

_LARGEST = 1e100
"""Largest ratio of sensitivity to noise whose square is still a double."""
FIRST_ORDER = 0.798
"""Upper bound on the mean size of a standard normal number."""
_UNIT = 2.0**-52
"""Relative rounding error of one operation, on the safe side."""
_check_ratios = partial(
    check_numbers, takes=f"a number above 0 and up to {_LARGEST:g}", above=0, at_most=_LARGEST
)


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
        _check_ratios(self, "mu")


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
        _check_ratios(self, "m")
        check_numbers(self, "kappa", "curvature_bound", takes="a finite number from 0", at_least=0)
        if self.joint_factor is not None:
            check_numbers(self, "joint_factor", takes="None or a finite number above 0", above=0)

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
        _check_ratios(self, "eta")
        require_times(self.times)


@dataclass(frozen=True, slots=True)
class SimplexDrawEvent:
    """Independent draws from a law over options that is stable between neighbours.

    Attributes
    ----------
    largest : float
        Largest change of a log probability.
    width : float
        Length of an interval that contains all changes.
    sd : float
        Along a path from one law to the other, the speed of the log probabilities has at most
        this standard deviation under the law at that point.
    times : int
        How many draws.
    """

    largest: float
    width: float
    sd: float
    times: int = 1
    neighbours: Neighbours = REPLACE_ONE

    def __post_init__(self) -> None:
        _check_ratios(self, "largest", "width", "sd")
        require_times(self.times)


Detail = GaussianEvent | TiltEvent | BoundedRangeEvent | SimplexDrawEvent
"""Events that are not guarantees."""
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
            excess = order - 1
            seen = math.exp(-epsilon) * -math.expm1(-2 * excess * epsilon)
            saved = math.log1p(seen / (1 + math.exp(-(2 * order - 1) * epsilon))) / excess
            by_zcdp = order * epsilon * math.tanh(epsilon / 2)
            return min(epsilon, by_zcdp, epsilon - saved + 8 * _UNIT * epsilon)
        case ZCDP(rho=rho):
            return order * rho
        case GaussianEvent(mu=mu):
            return order * mu**2 / 2
        case TiltEvent(m=m):
            # cost of the maximum with 0, beside the Gaussian of sensitivity 2 m, at any order
            maximum = min(0.1409 / (order - 1), FIRST_ORDER * m)
            return 2 * order * m**2 + event.curvature_cost + maximum
        case BoundedRangeEvent() | SimplexDrawEvent():
            return float(renyi_curve(event, np.array([order]))[0])
    return math.inf


def renyi_curve(event: Event, orders: FloatArray) -> FloatArray:
    """`renyi` for each of the orders ``(k,)``."""
    match event:
        case BoundedRangeEvent(eta=eta, times=times):
            return times * renyi_of_range(eta, orders)
        case SimplexDrawEvent(largest=largest, width=width, sd=sd, times=times):
            return times * renyi_of_draw(largest, width, sd, orders)
    return np.array([renyi(event, order) for order in orders.tolist()])


def tilt_survival(event: TiltEvent, loss: FloatArray) -> FloatArray:
    """Bound on the probability that the loss of a tilt is above each number from 0.

    privacy.md 4.3: with the curvature paid in full; and for a loss with a joint bound also
    with the curvature paid where the slope is small. Both hold, so the smaller does.

    Parameters
    ----------
    loss
        Shape ``(k,)``.
    """
    m = event.m

    def above(paid: float, shift: float) -> FloatArray:
        """Bound for a Gaussian release with mu = `shift` and a curvature that is `paid`."""
        return np.asarray(scipy.special.ndtr(-(loss - paid - shift**2 / 2) / shift))

    a = event.curvature_cost
    bound = np.minimum(1.0, above(a, 2 * m) + 2 * above(a, m))
    if event.joint_factor is None:
        return np.asarray(bound)
    kappa = event.kappa * event.joint_factor
    gap, worst = max(0.0, kappa - m**2 / 2), math.log1p(kappa / 4)
    split = above(0.0, 2 * m) + above(gap, m) + above(worst, m) + (loss < worst)
    return np.asarray(np.minimum(bound, split))


def pure_cap(event: Event) -> PureDP | None:
    """Return the pure guarantee that a choice or a simplex draw implies; None for other events."""
    match event:
        case BoundedRangeEvent(eta=each, times=times):
            return PureDP(at_least(exact(each) * times), event.neighbours)
        case SimplexDrawEvent(largest=largest, width=width, times=times):
            # probabilities add up to one, so the interval of their changes contains zero
            return PureDP(at_least(exact(min(largest, width)) * times), event.neighbours)
    return None


def as_pure(event: Event) -> PureDP | None:
    """The pure guarantee that an event is or has, or None."""
    return event if isinstance(event, PureDP) else pure_cap(event)


def grouped(event: Event, rows: int) -> Event:
    """Return the price for a record that occurs in `rows` rows, as in a resample with replacement.

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
            # the path leads through `rows` changes of one record, so it is as many times as fast
            return replace(event, largest=rows * largest, width=rows * width, sd=rows * sd)
        case TiltEvent():
            raise GuaranteeError(
                "event: Gaussian objective perturbation has no proven price for several rows; "
                "give its approximate guarantee."
            )


def event_to_json(event: Event) -> dict[str, Any]:
    """An event as plain values: its kind, its numbers, its neighbours."""
    return to_json(event, {**KINDS, **EVENTS})


def event_from_json(value: Any) -> Event:
    """Inverse of `event_to_json`; raises `GuaranteeError` for anything else."""
    event: Event | NonPrivate = from_json(value, {**KINDS, **EVENTS})
    if isinstance(event, NonPrivate):
        raise GuaranteeError("event: a release without a guarantee is no event.")
    return event
