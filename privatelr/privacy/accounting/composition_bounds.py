"""Bounds on the price of several releases together, and the least of them.

An entry has a guarantee, and may have events that say how it is kept. Both are valid prices, so
the lower one is used.

dp-accounting is optional, and it composes one thing here: the distributions of losses. These are
for prices that were fixed before the first release. Three bounds do not use it, because it lacks
them or because a base install needs them for every ledger:

- Sums of decimals, in which three times 0.1 makes 0.3. Its accountants have no sums.
- The exact formula for Gaussian releases, next to a pure one if there is one. That library has
  them on a grid of losses.
- Renyi divergences of one order, by which a ledger counts. A base install needs them, and that
  library has none for the events of tilts and of draws from a simplex.

Only the distributions of that library are used, not its events. These double the sensitivity for
REPLACE_ONE, while the sensitivity here is already that of REPLACE_ONE.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import scipy

from privatelr.privacy import ORDERS, at_least, at_most, exact, pure_cap, renyi, renyi_curve
from privatelr.privacy.accounting.ledger_entry import Entry
from privatelr.privacy.conversions import to_approximate
from privatelr.privacy.events import Event, GaussianEvent, TiltEvent, tilt_survival
from privatelr.privacy.guarantees import ZCDP, ApproxDP, PureDP
from privatelr.privacy.noise.gaussian_delta import epsilon_beside_pure, gaussian_epsilon
from privatelr.privacy.renyi_divergence import epsilon_of_curve
from privatelr.types import FloatArray

_STEPS = 20_000
"""Number of steps of the grid of losses, from 0 to the epsilon that other methods find."""
_MOST_STEPS = 200_000
"""Largest number of steps from 0 to the largest loss."""
_SMALLEST_DELTA = 1e-10
"""Smallest delta at which the rounding of loss distributions is negligible."""
_ROUNDING = 1e-13
"""Probability that one convolution may lose to rounding, at most."""
_SLACK = 1e-9
"""Share of delta that is kept back for rounding."""
_MOST_KINDS = 40
"""Largest number of different events whose loss distributions are composed."""
_LARGEST_LOSS = 200.0
"""Largest epsilon for which loss distributions are composed."""


@dataclass(frozen=True, slots=True)
class Composition:
    """The events to compose, in the form that the bounds need.

    Attributes
    ----------
    lost : Fraction
        The sum of the deltas of the approximate events. It is subtracted first; then an
        approximate event counts as a pure one (Kairouz, Oh and Viswanath 2015, Theorem 3.1).
    pure : Fraction
        The sum of the epsilons of the pure events, those of the approximate ones included.
    counts : Mapping
        The number of times that each event occurs, pure ones included. At most one is Gaussian,
        and at most one is zCDP.
    """

    lost: Fraction
    pure: Fraction
    counts: Mapping[Event, int]


def composition(counts: Mapping[Event, int]) -> Composition:
    """Sum up the deltas, and merge the events that compose exactly."""
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
    """Add the pure epsilons to the epsilon that all other events cost together at `delta`.

    A pure release and Gaussian ones are composed exactly.
    """
    others: dict[Event, int] = {e: k for e, k in total.counts.items() if not isinstance(e, PureDP)}
    if not others:
        return at_least(total.pure)
    if delta <= 0:
        return math.inf
    match list(others):
        case [GaussianEvent(mu=mu)] if total.pure:
            return epsilon_beside_pure(delta, at_least(total.pure), mu)
        case [GaussianEvent(mu=mu)]:
            rest = gaussian_epsilon(mu, delta)
        case [ZCDP() as zcdp]:
            rest = to_approximate(zcdp, min(delta, 1.0)).epsilon
        case _:
            rest = epsilon_by_renyi(replace(total, counts=others), delta)
    return at_least(total.pure + exact(rest))


def epsilon_by_renyi(total: Composition, delta: float) -> float:
    """Return the smallest epsilon over the orders of the summed curve, by `epsilon_of_curve`."""
    sums = np.zeros_like(ORDERS)
    for event, k in total.counts.items():
        sums += k * _curve(event)
    return epsilon_of_curve(sums, delta)


@lru_cache(maxsize=1024)
def _curve(event: Event) -> FloatArray:
    return renyi_curve(event, ORDERS)


def renyi_at(total: Composition, order: float) -> float:
    """Return the sum of the Renyi divergences at one order above 1; `lost` is not part of it."""
    return math.fsum(k * _renyi_at(event, order) for event, k in total.counts.items())


_renyi_at = lru_cache(maxsize=4096)(renyi)


# -- privacy loss distributions ----------------------------------------------------------------


def epsilon_by_losses(total: Composition, delta: float) -> float:
    """Return epsilon by privacy loss distributions; infinity if they are not available."""
    known = min(epsilon_by_sum(total, delta), epsilon_by_renyi(total, delta))
    losses = _losses(total.counts, known) if delta >= _SMALLEST_DELTA else None
    spare = delta * (1 - _SLACK) - _ROUNDING * (1 + len(total.counts))
    return math.inf if losses is None else float(losses.get_epsilon_for_delta(spare))


def _losses(counts: Mapping[Event, int], scale: float) -> Any | None:
    """Compose the distribution of the sum of losses, rounded up to a grid; None without library."""
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
        # the step nearly divides the smallest pure epsilon, and a bit more keeps rounding up from
        # adding a step
        step = smallest / math.ceil(smallest / step) * (1 + 1e-12)
    composed = None
    for event, k in counts.items():
        single = _distribution(library, event, step)
        several = single.self_compose(k) if k > 1 else single
        composed = several if composed is None else composed.compose(several)
    return composed


def _width(event: Event, times: int) -> float:
    """Return about the largest loss; it is exceeded with a probability below rounding."""
    match event:
        case PureDP(epsilon=epsilon):
            return times * epsilon
        case GaussianEvent(mu=mu):
            return times * mu**2 / 2 + 10 * mu * math.sqrt(times)
        case TiltEvent(m=m):
            return times * (event.curvature_cost + 2 * m**2 + 20 * m)
    return 0.0


def _distribution(library: Any, event: Event, step: float) -> Any:
    """Make a distribution of losses, multiples of the step, that dominates that of an event."""
    masses: Mapping[int, float]
    match event:
        case GaussianEvent(mu=mu):
            # mu has the sensitivity of our neighbours, so the library must not double it
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
    """Return an epsilon at which all entries together are approximately private with this delta.

    All entries are taken to be about the same records, whatever their parts. The result is never
    negative, and is infinite if no bound holds at so small a delta.
    """
    return min(_epsilons(list(entries), delta), default=math.inf)


def _epsilons(entries: Sequence[Entry], delta: float) -> Iterator[float]:
    """Yield bounds on epsilon: first those that are fast to compute, for all readings."""
    readings = _readings(entries)
    for bound in (epsilon_by_sum, epsilon_by_renyi, epsilon_by_losses):
        for total in readings:
            rest = exact(delta) - total.lost
            if rest >= 0:
                yield bound(total, at_most(rest))


def _readings(entries: Sequence[Entry]) -> list[Composition]:
    """Return compositions of the same entries, each of which is a valid account of them.

    The first counts guarantees and the second events. A third counts events with choices as pure
    ones, which is cheaper if choices are few. A fourth counts the guarantees of entries that have
    a tilt, and the events of the others: a tilt that was calibrated by Theorem 4.2 of theory.md
    has a lower price by its guarantee than by its Renyi divergences.
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
    """Count how often each event occurs in the entries; an entry without events counts as one."""
    counts: Counter[Event] = Counter()
    for entry in entries:
        for event in events_of(entry) or (entry.guarantee,):
            counts[event] += entry.times
    return counts
