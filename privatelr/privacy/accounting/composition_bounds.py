"""Bounds on the price of several releases together, by several methods, and the best of them.

An entry has a guarantee and possibly events that say how it is kept. Both are valid prices, so
the lower one is used.

The methods are sums of decimals (three times 0.1 makes 0.3), the exact formula for Gaussian
releases, Renyi divergences, and loss distributions if dp-accounting is installed. Of it only
the distributions are used, not its events: those double the sensitivity for REPLACE_ONE, while
the sensitivity here is already that of REPLACE_ONE (privacy.md 9).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import scipy

from privatelr.errors import GuaranteeError, show
from privatelr.privacy import ORDERS, at_least, at_most, exact, pure_cap, renyi, renyi_curve
from privatelr.privacy.conversions import to_approximate
from privatelr.privacy.events import Event, GaussianEvent, TiltEvent, tilt_survival
from privatelr.privacy.guarantees import ZCDP, ApproxDP, Guarantee, NonPrivate, Promise, PureDP
from privatelr.privacy.noise.gaussian_delta import gaussian_epsilon, log_delta
from privatelr.privacy.renyi_divergence import delta_of_curve, epsilon_of_curve, require_times
from privatelr.types import FloatArray

_STEPS = 20_000
"""Number of steps of the grid of losses, from 0 to the epsilon that other methods find."""
_MOST_STEPS = 200_000
_SMALLEST_DELTA = 1e-10
"""Smallest delta at which rounding of loss distributions is negligible."""
_ROUNDING = 1e-13
"""Bound on what one convolution loses to rounding, and on the grid relative to delta."""
_SLACK = 1e-9
_MOST_KINDS = 40
_LARGEST_LOSS = 200.0


# -- charges -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entry:
    """One charge.

    Attributes
    ----------
    label : str
        What was released, as described by the caller who charged it.
    guarantee : PureDP, ZCDP or ApproxDP
        What one release promises.
    events : tuple of Event
        The same release in more detail; empty if the guarantee describes it fully.
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
        require_times(self.times)


def priced(guarantee: Guarantee | Event) -> Promise:
    """Return the guarantee of an event; raises an error if it cannot be composed with others."""
    if isinstance(guarantee, Promise):
        return guarantee
    if isinstance(guarantee, NonPrivate):
        raise GuaranteeError(
            f"ledger: what has no guarantee ({guarantee}) has no price; it can only be made "
            "without a ledger."
        )
    raise GuaranteeError(f"guarantee={show(guarantee)}: guarantee takes PureDP, ZCDP or ApproxDP.")


@dataclass(frozen=True, slots=True)
class Composition:
    """What is composed, in the form that the bounds need.

    Attributes
    ----------
    lost : Fraction
        Sum of the deltas of the approximate events. It is subtracted first; then an approximate
        event counts as a pure one (Kairouz, Oh and Viswanath 2015, Theorem 3.1).
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
        rest: dict[Event, int] = {e: k for e, k in self.counts.items() if not isinstance(e, PureDP)}
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


def renyi_total(total: Composition) -> FloatArray:
    """Renyi divergence of each of `ORDERS`, without what is lost already."""
    sums = np.zeros_like(ORDERS)
    for event, k in total.counts.items():
        sums += k * _curve(event)
    return sums


@lru_cache(maxsize=1024)
def _curve(event: Event) -> FloatArray:
    return renyi_curve(event, ORDERS)


def renyi_at(total: Composition, order: float) -> float:
    """Renyi divergence of any order above 1, without what is lost already."""
    return math.fsum(k * _renyi_at(event, order) for event, k in total.counts.items())


_renyi_at = lru_cache(maxsize=4096)(renyi)


# -- privacy loss distributions ----------------------------------------------------------------


def epsilon_by_losses(total: Composition, delta: float) -> float:
    """By privacy loss distributions; infinity where they cannot be had."""
    known = min(epsilon_by_sum(total, delta), epsilon_by_renyi(total, delta))
    losses = _losses(total.counts, known) if delta >= _SMALLEST_DELTA else None
    spare = delta * (1 - _SLACK) - _ROUNDING * (1 + len(total.counts))
    return math.inf if losses is None else float(losses.get_epsilon_for_delta(spare))


def delta_by_losses(total: Composition, epsilon: float) -> float:
    """Return delta at this epsilon by privacy loss distributions; 1 if they are not available."""
    losses = _losses(total.counts, epsilon)
    if losses is None:
        return 1.0
    found = float(losses.get_delta_for_epsilon(epsilon))
    return max(found * (1 + _SLACK) + _ROUNDING * (1 + len(total.counts)), _SMALLEST_DELTA)


def _losses(counts: Mapping[Event, int], scale: float) -> Any | None:
    """The distribution of the sum of all losses, rounded up to a grid; None without the library."""
    known = all(isinstance(event, PureDP | GaussianEvent | TiltEvent) for event in counts)
    if not known or not 0 < len(counts) <= _MOST_KINDS or not 0 < scale <= _LARGEST_LOSS:
        return None
    try:
        from dp_accounting.pld import privacy_loss_distribution as library
    except ImportError:
        return None
    widest = sum(_width(event, k) for event, k in counts.items())
    step = max(scale / _STEPS, widest / _MOST_STEPS)
    smallest = min((e.epsilon for e in counts if isinstance(e, PureDP)), default=0.0)
    if smallest >= step:
        # a divisor of the smallest pure epsilon, nearly: rounding up must not add a step
        step = smallest / math.ceil(smallest / step) * (1 + 1e-12)
    composed = None
    for event, k in counts.items():
        single = _distribution(library, event, step)
        several = single.self_compose(k) if k > 1 else single
        composed = several if composed is None else composed.compose(several)
    return composed


def _width(event: Event, times: int) -> float:
    """Return about the largest loss; a tilt exceeds it with a probability below rounding."""
    match event:
        case PureDP(epsilon=epsilon):
            return times * epsilon
        case GaussianEvent(mu=mu):
            return times * mu**2 / 2 + 10 * mu * math.sqrt(times)
        case TiltEvent(m=m):
            return times * (event.curvature_cost + 2 * m**2 + 20 * m)
    return 0.0


def _distribution(library: Any, event: Event, step: float) -> Any:
    """Losses that dominate those of an event, rounded up to multiples of the step."""
    masses: Mapping[int, float]
    match event:
        case GaussianEvent(mu=mu):
            # mu has the sensitivity of our neighbours, so the library's relation adds nothing
            return library.from_gaussian_mechanism(
                standard_deviation=1 / mu, sensitivity=1, value_discretization_interval=step
            )
        case TiltEvent():
            losses = step * np.arange(math.ceil(_width(event, 1) / step) + 1, dtype=np.float64)
            above = np.append(1.0, tilt_survival(event, losses))
            masses = dict(enumerate((above[:-1] - above[1:]).tolist()))
            infinite = float(above[-1])
        case PureDP(epsilon=epsilon):
            # randomised response, its extremal case, for the next epsilon on the grid
            steps, infinite = math.ceil(epsilon / step), 0.0
            masses = {k: float(scipy.special.expit(k * step)) for k in (-steps, steps)}
    return library.PrivacyLossDistribution.create_from_rounded_probability(
        {k: mass for k, mass in masses.items() if mass > 0}, infinite, step
    )


# -- the best of the bounds --------------------------------------------------------------------


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
        for rest in _deltas(total, epsilon)
    ]
    return min([*bounds, 1.0])


def _deltas(total: Composition, epsilon: float) -> Iterator[float]:
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
                yield delta_of_curve(renyi_total(others), at_most(left))
    yield delta_of_curve(renyi_total(total), epsilon)
    yield delta_by_losses(total, epsilon)


def _epsilons(entries: Sequence[Entry], delta: float) -> Iterator[float]:
    """Yield bounds: those that are fast to compute for all readings, then the slow ones."""
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

    def without_tilts(entry: Entry) -> tuple[Event, ...]:
        tilted = any(isinstance(event, TiltEvent) for event in entry.events)
        return () if tilted else entry.events

    events = [event for entry in entries for event in entry.events]
    ways: list[Callable[[Entry], tuple[Event, ...]]] = [lambda _: ()]
    if events:
        ways.append(lambda entry: entry.events)
    if any(map(pure_cap, events)):
        ways.append(lambda entry: tuple(pure_cap(event) or event for event in entry.events))
    if any(isinstance(event, TiltEvent) for event in events):
        ways.append(without_tilts)
    return [composition(event_counts(entries, way)) for way in ways]


def event_counts(
    entries: Iterable[Entry],
    events_of: Callable[[Entry], tuple[Event, ...]] = lambda entry: entry.events,
) -> Counter[Event]:
    """How often each event happens in the entries; a guarantee where there are no events."""
    counts: Counter[Event] = Counter()
    for entry in entries:
        for event in events_of(entry) or (entry.guarantee,):
            counts[event] += entry.times
    return counts
