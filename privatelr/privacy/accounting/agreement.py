"""The check that the events of a release agree with its guarantee.

An event says how a release was made, and composes to less than a guarantee does. So a ledger
counts events, but only if they account for the guarantee that they come with: the composed events
must imply the guarantee, and must not imply half of it. Without the first condition, a release
could state events that do not keep what it promises. Without the second, a release of price 50
could state events that cost nothing. The usual slack of releases lies between the two: numbers of
draws are integers, and the parts of a price are added up although their noise composes to less.

The check finds contradictory prices. It cannot find out whether a release was made as its
events say; the caller who charges it is responsible for that.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import scipy

from privatelr.errors import GuaranteeError
from privatelr.privacy import TiltEvent, as_pure, at_least, at_most, compose, exact, prices, to_zcdp
from privatelr.privacy.accounting import composition_bounds as bounds
from privatelr.privacy.accounting.ledger_entry import Entry, priced
from privatelr.privacy.events import BoundedRangeEvent, Event, GaussianEvent, SimplexDrawEvent
from privatelr.privacy.guarantees import ZCDP, ApproxDP, Guarantee, Promise, PureDP
from privatelr.privacy.noise.gaussian_delta import gaussian_epsilon, tilt_log_delta
from privatelr.privacy.renyi_divergence import rho_of_draw

_ROUNDING = 1e-9
"""Largest relative excess of events over a guarantee; their numbers are solved for numerically."""
_MOST_SPLITS = 4
"""Largest number of Gaussian releases that are tried as the one that is set apart."""


def require_agreement(guarantee: Promise, events: tuple[Event, ...]) -> None:
    """Refuse events that do not account for the guarantee that they come with."""
    if fault := _fault(guarantee, events):
        raise GuaranteeError(
            f"events: together they {fault}; charge the guarantee that they have, or no events."
        )


def in_agreement(guarantee: Promise, events: tuple[Event, ...]) -> tuple[Event, ...]:
    """Return the events if they account for the guarantee; if not, none, so that it is counted."""
    return () if _fault(guarantee, events) else events


def joint_guarantee(releases: Sequence[tuple[Guarantee, tuple[Event, ...]]]) -> Guarantee:
    """Return the guarantee of releases about the same records, whose prices were fixed before.

    Prices are added up by `compose`. Under an (epsilon, delta) the events of releases may compose
    to less; then it is the best bound at the same delta, which is also that of a ledger whose
    prices were declared in advance.

    Parameters
    ----------
    releases
        One or more guarantees, each with the events of its release, or with none.

    Raises
    ------
    GuaranteeError
        If they are about different neighbours.
    """
    total = compose([guarantee for guarantee, _ in releases])
    if len(releases) == 1 or not isinstance(total, ApproxDP) or total.delta == 1:
        return total
    entries = [
        Entry("", priced(guarantee), in_agreement(priced(guarantee), events))
        for guarantee, events in releases
    ]
    return replace(total, epsilon=min(total.epsilon, bounds.epsilon_of(entries, total.delta)))


@lru_cache(maxsize=1024)  # of public facts; the file of a ledger may repeat a release many times
def _fault(guarantee: Promise, events: tuple[Event, ...]) -> str:
    """Say in words what is wrong with events; nothing if they account for the guarantee."""
    if not events:
        return ""
    if not implied(events, guarantee):
        return f"do not imply {guarantee}"
    # delta is not halved: a release that needs no delta costs the same epsilon at half of it
    halves = {name: value / 2 for name, value in prices(guarantee).items() if name != "delta"}
    half: Promise = replace(guarantee, **halves)  # type: ignore[arg-type]
    if isinstance(half, ApproxDP):
        # a large delta can be worth as much as half of epsilon
        caps = [cap for event in events if (cap := as_pure(event)) is not None]
        if sum((exact(cap.epsilon) for cap in caps), Fraction(0)) >= exact(half.epsilon):
            return ""
    return f"make {half} or less, half of {guarantee}" if implied(events, half) else ""


def implied(events: Iterable[Event], guarantee: Promise) -> bool:
    """Whether a release that is made as the events say has the guarantee."""
    counts = Counter(events)
    match guarantee:
        case PureDP(epsilon=epsilon):
            caps = [(as_pure(event), k) for event, k in counts.items()]
            known = [exact(cap.epsilon) * k for cap, k in caps if cap is not None]
            return len(known) == len(caps) and sum(known) <= exact(epsilon * (1 + _ROUNDING))
        case ZCDP(rho=rho):
            rhos = sum(k * _rho(event) for event, k in counts.items())
            return rhos <= rho * (1 + _ROUNDING)
        case ApproxDP(epsilon=epsilon, delta=delta):
            capped = Counter(as_pure(event) or event for event in counts.elements())
            limit = epsilon * (1 + _ROUNDING)
            # choices may also be paid by a part of epsilon of their own
            ranges = {
                event: k for event, k in counts.items() if isinstance(event, BoundedRangeEvent)
            }
            rest = Counter({event: k for event, k in counts.items() if event not in ranges})
            left = limit - sum(event.eta * event.times * k for event, k in ranges.items())
            ways = [(counts, limit), (capped, limit), *([(rest, left)] if rest and ranges else [])]
            return delta == 1 or any(_holds(kinds, most, delta) for kinds, most in ways)


def _rho(event: Event) -> float:
    """Return the rho of an event; infinity if it has none."""
    match event:
        case PureDP() | ZCDP():
            return to_zcdp(event).rho
        case GaussianEvent(mu=mu):
            return mu**2 / 2
        case BoundedRangeEvent(eta=eta, times=times):
            return times * min(eta**2 / 8, to_zcdp(PureDP(eta)).rho)
        case SimplexDrawEvent(largest=largest, width=width, sd=sd, times=times):
            return times * rho_of_draw(largest, width, sd)
        case TiltEvent(rho=rho):
            return rho
        case ApproxDP():
            return math.inf


def _holds(counts: Mapping[Event, int], epsilon: float, delta: float) -> bool:
    """Whether the events have this epsilon at this delta, without loss distributions.

    These need an optional library, on which the answer may not depend.
    """
    total = bounds.composition(counts)
    rest = exact(delta) - total.lost
    if rest < 0:
        return False
    spare = at_most(rest)
    cheap = (bounds.epsilon_by_sum, bounds.epsilon_by_renyi)
    if any(bound(total, spare) <= epsilon for bound in cheap):
        return True
    left = epsilon - at_least(total.pure)
    return spare > 0 and left >= 0 and _holds_by_tilt(counts, left, spare)


def _holds_by_tilt(counts: Mapping[Event, int], epsilon: float, delta: float) -> bool:
    """Whether they do by Theorem 4.2 of theory.md: one tilt beside Gaussian and pure releases.

    All Gaussian releases count as shields of the tilt. Or one of them is set apart, with a part
    of epsilon and of delta for itself.
    """
    others = {event: k for event, k in counts.items() if not isinstance(event, PureDP | ApproxDP)}
    tilts = [event for event, k in others.items() if isinstance(event, TiltEvent) and k == 1]
    mus = [
        event.mu * math.sqrt(k) for event, k in others.items() if isinstance(event, GaussianEvent)
    ]
    if len(tilts) != 1 or len(others) != 1 + len(mus):
        return False
    splits = [(math.hypot(*mus[:i], *mus[i + 1 :]), mus[i]) for i in range(len(mus))][:_MOST_SPLITS]
    return tilt_log_delta(tilts[0], epsilon, math.hypot(*mus)) <= math.log(delta) or any(
        _holds_in_parts(tilts[0], out, apart, epsilon, delta) for out, apart in splits
    )


def _holds_in_parts(
    tilt: TiltEvent, out: float, apart: float, epsilon: float, delta: float
) -> bool:
    """Whether a part of delta suffices for a tilt and the rest for a Gaussian release.

    The best part is searched for.
    """

    def excess(log_odds: float) -> float:
        share = float(scipy.special.expit(log_odds))
        rest = epsilon - gaussian_epsilon(apart, (1 - share) * delta)
        if rest <= 0:
            return -rest + 1e3
        return tilt_log_delta(tilt, rest, out) - math.log(share * delta)

    found = scipy.optimize.minimize_scalar(excess, bounds=(-7, 7), method="bounded")
    return float(found.fun) <= 0
