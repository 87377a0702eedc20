"""What several releases cost together: bounds, each by one method, and the best of them.

An entry promises a guarantee and may say in events how. Either reading holds, so the cheaper
one is taken.

By sums of decimals (three times 0.1 makes 0.3), exactly for plain Gaussian releases, by Renyi
divergences, and by privacy loss distributions if dp-accounting is installed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from privatelr.errors import GuaranteeError, show
from privatelr.privacy.accounting import loss_distributions
from privatelr.privacy.conversions import to_approximate
from privatelr.privacy.events import (
    Event,
    GaussianEvent,
    TiltEvent,
    at_least,
    at_most,
    exact,
    pure_cap,
    renyi,
    renyi_curve,
)
from privatelr.privacy.guarantees import ZCDP, ApproxDP, Guarantee, NonPrivate, Promise, PureDP
from privatelr.privacy.noise.gaussian_delta import gaussian_epsilon, log_delta
from privatelr.privacy.renyi_divergence import ORDERS, delta_of_curve, epsilon_of_curve
from privatelr.types import FloatArray


@dataclass(frozen=True, slots=True)
class Composition:
    """What is composed, in the form that the bounds need.

    Attributes
    ----------
    lost : Fraction
        Deltas of the approximate events. They come off the top; for the rest, an approximate
        event is a pure one (Kairouz, Oh and Viswanath 2015, Theorem 3.1).
    pure : Fraction
        Epsilons of the pure events, these among them.
    counts : Mapping
        All events and how often each happens, pure ones among them; at most one is Gaussian
        and at most one zCDP.
    """

    lost: Fraction
    pure: Fraction
    counts: Mapping[Event, int]

    @property
    def others(self) -> Composition:
        """The events that have no epsilon to add up."""
        rest: Counter[Event] = Counter()
        for event, k in self.counts.items():
            if not isinstance(event, PureDP):
                rest[event] = k
        return Composition(Fraction(0), Fraction(0), rest)


def composition(counts: Mapping[Event, int]) -> Composition:
    """Take the deltas off the top, and merge what composes exactly."""
    lost = pure = rho = Fraction(0)
    merged: Counter[Event] = Counter()
    mus: list[float] = []
    for event, k in counts.items():
        match event:
            case PureDP(epsilon=epsilon) | ApproxDP(epsilon=epsilon):
                pure += exact(epsilon) * k
                if epsilon > 0:
                    merged[PureDP(epsilon)] += k
                lost += exact(event.delta) * k if isinstance(event, ApproxDP) else 0
            case ZCDP():
                rho += exact(event.rho) * k
            case GaussianEvent(mu=mu):
                mus.append(mu * math.sqrt(k))
            case _:
                merged[event] += k
    if rho > 0:
        merged[ZCDP(at_least(rho))] = 1
    if mus:
        merged[GaussianEvent(math.hypot(*mus))] = 1
    return Composition(lost, pure, merged)


def epsilon_by_sum(total: Composition, delta: float) -> float:
    """Add the pure epsilons to the epsilon that all other events cost together at `delta`."""
    others = total.others
    if not others.counts:
        return at_least(total.pure)
    if delta <= 0:
        return math.inf
    match list(others.counts):
        case [GaussianEvent(mu=mu)]:
            rest = gaussian_epsilon(mu, delta)
        case [ZCDP() as zcdp]:
            rest = to_approximate(zcdp, min(delta, 1.0)).epsilon
        case _:
            rest = epsilon_by_renyi(others, delta)
    return at_least(total.pure + exact(rest))


def epsilon_by_renyi(total: Composition, delta: float) -> float:
    """Smallest over the orders (Canonne, Kamath and Steinke 2020, Proposition 12)."""
    return math.inf if delta <= 0 else epsilon_of_curve(renyi_total(total), delta)


def epsilon_by_losses(total: Composition, delta: float) -> float:
    """By privacy loss distributions; infinity where they cannot be had."""
    known = min(epsilon_by_sum(total, delta), epsilon_by_renyi(total, delta))
    return loss_distributions.epsilon_at(total.counts, delta, known)


def deltas(total: Composition, epsilon: float) -> Iterator[float]:
    """Bounds on delta at this epsilon, without what is lost already."""
    others = total.others
    left = exact(epsilon) - total.pure
    if left >= 0:
        match list(others.counts):
            case []:
                yield 0.0
            case [GaussianEvent(mu=mu)]:
                yield math.exp(log_delta(at_most(left), mu))
            case _:
                yield _delta_by_renyi(others, at_most(left))
    yield _delta_by_renyi(total, epsilon)
    yield loss_distributions.delta_at(total.counts, epsilon)


def _delta_by_renyi(total: Composition, epsilon: float) -> float:
    return delta_of_curve(renyi_total(total), epsilon)


def renyi_total(total: Composition) -> FloatArray:
    """Renyi divergence of each of `ORDERS`, without what is lost already."""
    sums = np.zeros_like(ORDERS)
    for event, k in total.counts.items():
        sums += k * _renyi_of(event)
    return sums


def renyi_at(total: Composition, order: float) -> float:
    """Renyi divergence of any order above 1, without what is lost already."""
    return math.fsum(k * _renyi_at(event, order) for event, k in total.counts.items())


@lru_cache(maxsize=4096)
def _renyi_at(event: Event, order: float) -> float:
    return renyi(event, order)


@lru_cache(maxsize=1024)
def _renyi_of(event: Event) -> FloatArray:
    return renyi_curve(event, ORDERS)


_MOST_TIMES = 10**9


@dataclass(frozen=True, slots=True)
class Entry:
    """One charge.

    Attributes
    ----------
    label : str
        What was released, in the words of whoever charged it.
    guarantee : PureDP, ZCDP or ApproxDP
        What one release promises.
    events : tuple of Event
        The same release in more detail; empty if the guarantee says it all.
    part : str or None
        The part of the rows that it was made from; None for all of them.
    times : int
        How many such releases were made of the same records.
    """

    label: str
    guarantee: Promise
    events: tuple[Event, ...] = ()
    part: str | None = None
    times: int = 1

    def __post_init__(self) -> None:
        if not all(isinstance(event, Event) for event in self.events):
            raise GuaranteeError("events: takes a sequence of accounting events.")
        if any(event.neighbours is not self.guarantee.neighbours for event in self.events):
            raise GuaranteeError("events: takes events about the neighbours of the guarantee.")
        if not isinstance(self.label, str):
            raise GuaranteeError(f"label={show(self.label)}: label takes text.")
        if self.part is not None and (not isinstance(self.part, str) or not self.part):
            raise GuaranteeError(f"part={show(self.part)}: part takes a name.")
        if type(self.times) is not int or not 1 <= self.times <= _MOST_TIMES:
            raise GuaranteeError(
                f"times={show(self.times)}: times takes an integer from 1 to {_MOST_TIMES}."
            )


def priced(guarantee: Guarantee | Event) -> Promise:
    """The guarantee, if it is one that can be composed with others."""
    if isinstance(guarantee, Promise):
        return guarantee
    if isinstance(guarantee, NonPrivate):
        raise GuaranteeError(
            f"ledger: what has no guarantee ({guarantee}) has no price; it can only be made "
            "without a ledger."
        )
    raise GuaranteeError(f"guarantee={show(guarantee)}: guarantee takes PureDP, ZCDP or ApproxDP.")


def epsilon_of(entries: Iterable[Entry], delta: float) -> float:
    """Epsilon at which all entries together are approximately private with this delta.

    All entries are taken to be about the same records, whatever their parts. Never negative;
    infinity if no bound holds at so small a delta.
    """
    return min(_epsilons(list(entries), delta), default=math.inf)


def fits(entries: Iterable[Entry], epsilon: float, delta: float) -> bool:
    """Whether ``epsilon_of(entries, delta) <= epsilon``; dear bounds only where cheap ones fail."""
    return any(bound <= epsilon for bound in _epsilons(list(entries), delta))


def delta_of(entries: Iterable[Entry], epsilon: float) -> float:
    """Delta at which all entries together are approximately private with this epsilon.

    Never negative; 1 if nothing better is known.
    """
    bounds = [
        at_least(total.lost + Fraction(rest))
        for total in _readings(list(entries))
        for rest in deltas(total, epsilon)
    ]
    return min([*bounds, 1.0])


def _epsilons(entries: Sequence[Entry], delta: float) -> Iterator[float]:
    """Bounds, the cheap ones of every reading before the first dear one."""
    readings = _readings(entries)
    for bound in (epsilon_by_sum, epsilon_by_renyi, epsilon_by_losses):
        for total in readings:
            rest = exact(delta) - total.lost
            if rest >= 0:
                yield bound(total, at_most(rest))


def _readings(entries: Sequence[Entry]) -> list[Composition]:
    """By the guarantees, by the events, by those with choices as pure, and by those without tilts.

    Choices are cheaper as pure ones where they are few. The last is for a tilt that was
    calibrated to an approximate guarantee by Theorem 4.2, which its Renyi divergences do not
    reach.
    """

    def has_tilt(entry: Entry) -> bool:
        return any(isinstance(event, TiltEvent) for event in entry.events)

    readings = [_read(entries, lambda _: ())]
    if any(entry.events for entry in entries):
        readings.append(_read(entries, lambda entry: entry.events))
    if any(pure_cap(event) for entry in entries for event in entry.events):
        readings.append(_read(entries, _pure_where_it_is))
    if any(map(has_tilt, entries)):
        readings.append(_read(entries, lambda entry: () if has_tilt(entry) else entry.events))
    return readings


def _pure_where_it_is(entry: Entry) -> tuple[Event, ...]:
    return tuple(pure_cap(event) or event for event in entry.events)


def _read(entries: Sequence[Entry], events_of: Callable[[Entry], tuple[Event, ...]]) -> Composition:
    counts: Counter[Event] = Counter()
    for entry in entries:
        for event in events_of(entry) or (entry.guarantee,):
            counts[event] += entry.times
    return composition(counts)
