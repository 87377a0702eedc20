"""Bounds on a composition of accounting events, each by one method; all of them hold.

By sums of decimals (three times 0.1 makes 0.3), exactly for plain Gaussian releases, by Renyi
divergences, and by privacy loss distributions if dp-accounting is installed.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from privatelr.privacy import accounting_pld
from privatelr.privacy.conversions import to_approximate
from privatelr.privacy.decimals import at_least, at_most, exact
from privatelr.privacy.events import Event, GaussianEvent, renyi, renyi_curve
from privatelr.privacy.gaussian import gaussian_epsilon, log_delta
from privatelr.privacy.guarantees import ZCDP, ApproxDP, PureDP
from privatelr.privacy.renyi import ORDERS, delta_of_curve, epsilon_of_curve

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
    """The pure epsilons added up, to what the rest costs by itself."""
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
    return accounting_pld.epsilon_at(total.counts, delta, known)


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
    yield accounting_pld.delta_at(total.counts, epsilon)


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
