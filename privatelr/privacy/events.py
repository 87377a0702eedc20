"""Accounting events: they describe a release in the terms in which it is composed.

A guarantee is an event too. To add an event, write a frozen class, list it in `Detail` and in
`EVENTS`, and give it a case in `renyi`. The composition by loss distributions has its own list
of events (`privatelr.privacy.accounting.composition_bounds`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import scipy

from privatelr.errors import GuaranteeError
from privatelr.privacy.guarantees import (
    KINDS,
    REPLACE_ONE,
    REPLACE_PERSON,
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
from privatelr.privacy.person_tilt import person_survival
from privatelr.privacy.renyi_divergence import renyi_of_draw, renyi_of_range, require_times
from privatelr.types import FloatArray

_LARGEST = 1e100
"""Largest ratio of sensitivity to noise whose square is still a double."""
MOST_CLASSES = 500
"""Largest number of classes of a softmax."""
FIRST_ORDER = 0.798
"""Upper bound on the mean size of a standard normal number."""
_UNIT = 2.0**-52
"""Upper bound on the relative rounding error of one operation in doubles."""
_UP = 1 + 1e-9
"""Covers the error of an integral."""
_check_ratios = partial(
    check_numbers, takes=f"a number above 0 and up to {_LARGEST:g}", above=0, at_most=_LARGEST
)


@dataclass(frozen=True, slots=True)
class GaussianEvent:
    """A plain Gaussian release: independent noise of one sd on a vector of known sensitivity.

    Attributes
    ----------
    mu : float
        The sensitivity divided by the standard deviation. The sensitivity is already that of the
        stated neighbours: do not double it for REPLACE_ONE.
    """

    mu: float
    neighbours: Neighbours = REPLACE_ONE

    def __post_init__(self) -> None:
        _check_ratios(self, "mu")


def softmax_curvature_cost(kappa: float, classes: int) -> float:
    """Return ``(K - 1) log(1 + kappa / K)``: what a record of K classes adds to log determinants.

    theory.md#several-classes has the proof.
    """
    return (classes - 1) * math.log1p(kappa / classes)


@lru_cache(maxsize=64)
def mean_maximum(count: int) -> float:
    """Return the mean of the largest of so many standard normal numbers, rounded up."""

    def above(z: float) -> float:
        # E max = int_0^inf [1 - F(z)^K - F(-z)^K] dz
        up, down = scipy.special.log_ndtr(np.array([z, -z]))
        return float(-math.expm1(count * up) - math.exp(count * down))

    found, error = scipy.integrate.quad(above, 0.0, 40.0, epsabs=1e-12, limit=200)
    return float(found + error) * _UP


@dataclass(frozen=True, slots=True)
class TiltEvent:
    """Gaussian objective perturbation: the tilt of the objective is normal.

    It must not be counted as ``GaussianEvent(2 m)``, because the curvature of one row matters at
    small epsilon (theory.md#tilts-under-composition).

    Attributes
    ----------
    m : float
        ``L R / sigma``: half the sensitivity of the gradient sum, over the sd of the tilt.
    kappa : float
        ``R**2 / Lambda``, how much one row can add to the curvature (theory.md#lemma-1).
    curvature_bound : float
        c, the largest curvature of the loss.
    joint_factor : float or None
        k, if the curvature at slopes of size ``s L`` is at most ``k s (1 - s)``; None for a loss
        without such a bound.
    weighted : bool
        Whether records may have weights up to 1, so that a record adds a small gradient together
        with its whole curvature.
    classes : int
        K. From 3 on the loss is that of a softmax: kappa is for one vector of coefficients, slopes
        have the length ``L = sqrt(2)``, and the curvature has the rank ``K - 1``.
    """

    m: float
    kappa: float
    curvature_bound: float
    joint_factor: float | None = None
    weighted: bool = False
    neighbours: Neighbours = REPLACE_ONE
    classes: int = 2

    def __post_init__(self) -> None:
        _check_ratios(self, "m")
        if type(self.classes) is not int or not 2 <= self.classes <= MOST_CLASSES:
            raise GuaranteeError(
                f"classes={self.classes!r}: takes a whole number from 2 to {MOST_CLASSES}."
            )
        if not isinstance(self.weighted, bool):
            raise GuaranteeError(f"weighted={self.weighted!r}: takes True or False.")
        check_numbers(self, "kappa", "curvature_bound", takes="a finite number from 0", at_least=0)
        if self.joint_factor is not None:
            check_numbers(self, "joint_factor", takes="None or a finite number above 0", above=0)

    @property
    def curvature_cost(self) -> float:
        """The a of 4.3: how much the curvature adds to the privacy loss.

        It is 0 if the joint bound is convex in the slope, so that its maximum is at a vertex,
        where the curvature vanishes; which it does not for a record of small weight.
        """
        k = None if self.weighted else self.joint_factor
        if self.classes > 2:
            free = k is not None and self.kappa <= self.m**2 / 4
            spread = self.kappa * (self.classes - 1) / self.classes
            full = softmax_curvature_cost(self.kappa, self.classes)
            return 0.0 if free else spread if self.neighbours is REPLACE_PERSON else full
        if k is not None and self.kappa * k <= self.m**2 / 2:
            return 0.0
        return self._added(self.curvature_bound * self.kappa)

    def _added(self, curvature: float) -> float:
        """What this curvature adds to a log determinant; a person may spread it over directions."""
        return curvature if self.neighbours is REPLACE_PERSON else math.log1p(curvature)

    @property
    def small_slope_cost(self) -> float:
        """The g0 of Theorem 4.2 (b) and of 4.3: what curvature costs where slopes are not steep.

        It needs a joint bound. With weights a record has the curvature of a slope of one half
        beside every gradient of up to one half, so that it is ``max(A, kappa - m^2 / 2)`` with
        ``A = log(1 + kappa / 4)`` (theory.md#theorem-42 has the proof, for long rows).
        """
        kappa = self.kappa * (self.joint_factor or 0.0)
        least = self._added(kappa / 4) if self.weighted else 0.0
        return max(least, kappa - self.m**2 / 2)

    @property
    def rho(self) -> float:
        """The rho of a tilt: its divergence over the order, as that falls to 1; see `renyi`."""
        return 2 * self.m**2 + self.first_order * self.m + self.curvature_cost

    @property
    def first_order(self) -> float:
        """What the maximum over slopes adds to the mean privacy loss, in units of m."""
        if self.classes > 2:
            return math.sqrt(2) * mean_maximum(self.classes) * (1 + _UNIT)
        return FIRST_ORDER

    @property
    def vertices(self) -> tuple[tuple[int, float], ...]:
        """For several classes: how many extreme changes of the gradient there are of each length.

        Lengths are in units of m. theory.md#several-classes counts them, but for the one that
        changes nothing.
        """
        rest = self.classes - 1
        middle = math.sqrt(3) * (1 + _UNIT)
        return (rest, 2.0), (rest * (rest - 1), middle), (2 * rest, 1.0)


@dataclass(frozen=True, slots=True)
class BoundedRangeEvent:
    """Choices of bounded range, each of which may depend on those before it.

    Attributes
    ----------
    eta : float
        The length of an interval that contains, for any two neighbours, the log ratios of the
        probabilities of all options of one choice.
    times : int
        The number of choices.
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
        The largest change of a log probability between neighbours.
    width : float
        The length of an interval that contains all these changes.
    sd : float
        Along a path from one law to the other, the speed of the log probabilities has at most
        this standard deviation under the law at that point.
    times : int
        The number of draws.
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
"""An event that is not a guarantee."""
Event = Promise | Detail
"""All that a ledger can compose."""

EVENTS: dict[str, type[Detail]] = {
    "gaussian": GaussianEvent,
    "tilt": TiltEvent,
    "bounded-range": BoundedRangeEvent,
    "simplex-draw": SimplexDrawEvent,
}


def renyi(event: Event, order: float) -> float:
    """Bound the Renyi divergence of an event at an order above 1; infinity without a bound.

    The bound for pure epsilon is that of randomised response, its extremal case
    (theory.md#pure-epsilon). The bound for the tilt is 4.3 (theory.md#tilts-under-composition),
    where ``2 m`` is the sensitivity over the sd.
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
            # the largest of four numbers costs this beside the Gaussian of mu 2 m, at every angle
            # of two gradients (theory.md#tilts-under-composition)
            several = event.classes > 2  # then it is one of K**2 numbers
            least = 2 * math.log(event.classes) if several else 0.1409
            maximum = min(least / (order - 1), event.first_order * m)
            return 2 * order * m**2 + event.curvature_cost + maximum
        case BoundedRangeEvent() | SimplexDrawEvent():
            return float(renyi_curve(event, np.array([order]))[0])
    return math.inf


def renyi_curve(event: Event, orders: FloatArray) -> FloatArray:
    """Evaluate `renyi` at each of the orders ``(k,)``."""
    match event:
        case BoundedRangeEvent(eta=eta, times=times):
            return times * renyi_of_range(eta, orders)
        case SimplexDrawEvent(largest=largest, width=width, sd=sd, times=times):
            return times * renyi_of_draw(largest, width, sd, orders)
    return np.array([renyi(event, order) for order in orders.tolist()])


def tilt_survival(event: TiltEvent, loss: FloatArray) -> FloatArray:
    """Bound the probability that the privacy loss of a tilt exceeds each of these numbers.

    theory.md#tilts-under-composition has a bound with the curvature paid in full and, for a loss
    with a joint bound, another one with the curvature paid only where the slope is small. Both
    hold, so the smaller one is returned. Below what is paid neither says anything: there a shorter
    gradient could lose more often than the longest, and the first bound is 1 by itself.

    Parameters
    ----------
    loss
        Numbers from 0, of shape ``(k,)``.
    """
    if event.neighbours is REPLACE_PERSON:
        return person_survival(event, loss)
    m = event.m

    def above(paid: float, shift: float) -> FloatArray:
        """Return the bound for a Gaussian release of mu `shift`, plus `paid` for curvature."""
        return np.asarray(scipy.special.ndtr(-(loss - paid - shift**2 / 2) / shift))

    a = event.curvature_cost
    if event.classes > 2:
        several = (times * above(a, size * m) for times, size in event.vertices)
        return np.minimum(1.0, sum(several, np.zeros(len(loss))))
    bound = np.minimum(1.0, above(a, 2 * m) + 2 * above(a, m))
    if event.joint_factor is None:
        return np.asarray(bound)
    kappa = event.kappa * event.joint_factor
    gap, worst = event.small_slope_cost, math.log1p(kappa / 4)
    unknown = loss < max(gap, worst)
    split = above(0.0, 2 * m) + above(gap, m) + above(worst, m) + unknown
    return np.asarray(np.minimum(bound, split))


def pure_cap(event: Event) -> PureDP | None:
    """Return the pure guarantee that a choice or a simplex draw implies; None for other events."""
    match event:
        case BoundedRangeEvent(eta=each, times=times):
            return PureDP(at_least(exact(each) * times), event.neighbours)
        case SimplexDrawEvent(largest=largest, width=width, times=times):
            # probabilities add up to one, so some rise and others fall: the interval contains zero
            return PureDP(at_least(exact(min(largest, width)) * times), event.neighbours)
    return None


def as_pure(event: Event) -> PureDP | None:
    """Return the pure guarantee that an event is or implies; None if there is none."""
    return event if isinstance(event, PureDP) else pure_cap(event)


def grouped(event: Event, rows: int) -> Event:
    """Return the price for a record that occurs in `rows` rows, as in a resample with replacement.

    This is group privacy (theory.md#group-privacy has the proof). Pure epsilon and mu are
    multiplied by `rows`, rho by its square, and the delta of an approximate guarantee by
    ``1 + exp(epsilon) + ... + exp((rows - 1) epsilon)``.
    A release from a resample is covered only if `rows` bounds, before the draw, how often a
    record can occur. A resample of a release, not of records, costs nothing.
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
            # the path changes one row after another, in the time of one, so it is `rows` times as
            # fast
            return replace(event, largest=rows * largest, width=rows * width, sd=rows * sd)
        case TiltEvent():
            raise GuaranteeError(
                "event: Gaussian objective perturbation has no proven price for several rows; "
                "give its approximate guarantee."
            )


def event_to_json(event: Event) -> dict[str, Any]:
    """Turn an event into plain values: its kind, its numbers and its neighbours."""
    return to_json(event, {**KINDS, **EVENTS})


def event_from_json(value: Any) -> Event:
    """Undo `event_to_json`; raise `GuaranteeError` for any other value."""
    event: Event | NonPrivate = from_json(value, {**KINDS, **EVENTS})
    if isinstance(event, NonPrivate):
        raise GuaranteeError("event: a release without a guarantee is no event.")
    return event
