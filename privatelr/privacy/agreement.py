"""Whether the events of a release and its guarantee say the same.

An event says how a release was made, and is cheaper to compose than a guarantee; so a ledger
counts it. It is believed only beside a guarantee that it accounts for: what the events compose to
must imply the guarantee, and may not imply half of it. Without the first, a release could be told
in events that do not keep what it promises; without the second, one that costs 50 could be told
in events that cost nothing. Between the two is what releases leave by themselves: numbers of
draws are whole, and the parts of a price are added up although their noises compose to less.

The check finds prices that contradict each other. Whether a release was made as its event says
is the word of the one who charges it.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from privatelr.errors import GuaranteeError
from privatelr.privacy.bounded_range import rho_of_draw
from privatelr.privacy.composition import (
    Composition,
    composition,
    epsilon_by_renyi,
    epsilon_by_sum,
)
from privatelr.privacy.conversions import to_zcdp
from privatelr.privacy.decimals import at_least, at_most, exact
from privatelr.privacy.events import (
    BoundedRangeEvent,
    Event,
    GaussianEvent,
    SimplexDrawEvent,
    TiltEvent,
    as_pure,
)
from privatelr.privacy.guarantees import ZCDP, ApproxDP, Promise, PureDP
from privatelr.privacy.tilt import tilt_log_delta

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ROUNDING = 1e-9
"""By so much relative to it the events may exceed a guarantee: numbers are solved for."""


def require_agreement(guarantee: Promise, events: Sequence[Event]) -> None:
    """Refuse events that do not account for the guarantee that they come with."""
    if not events:
        return
    if not implied(events, guarantee):
        raise GuaranteeError(
            f"events: together they do not imply {guarantee}; charge the guarantee that they "
            "have, or no events."
        )
    if implied(events, _half(guarantee)):
        raise GuaranteeError(
            f"events: together they imply {_half(guarantee)}, half of {guarantee} or less; "
            "charge the guarantee that they have, or no events."
        )


def in_agreement(guarantee: Promise, events: tuple[Event, ...]) -> tuple[Event, ...]:
    """The events if they account for the guarantee; otherwise none, so that it is counted."""
    agree = implied(events, guarantee) and not implied(events, _half(guarantee))
    return events if agree else ()


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
            total = composition(counts)
            pure = composition(Counter(as_pure(event) or event for event in counts.elements()))
            limit = epsilon * (1 + _ROUNDING)
            return delta == 1 or _holds(total, limit, delta) or _holds(pure, limit, delta)


def _half(guarantee: Promise) -> Promise:
    match guarantee:
        case PureDP(epsilon=epsilon):
            return replace(guarantee, epsilon=epsilon / 2)
        case ZCDP(rho=rho):
            return replace(guarantee, rho=rho / 2)
        case ApproxDP(epsilon=epsilon, delta=delta):
            return replace(guarantee, epsilon=epsilon / 2, delta=delta / 2)


def _rho(event: Event) -> float:
    """The zCDP of an event; infinity if it has none."""
    match event:
        case PureDP() | ZCDP():
            return to_zcdp(event).rho
        case GaussianEvent(mu=mu):
            return mu**2 / 2
        case BoundedRangeEvent(eta=eta, times=times):
            return times * min(eta**2 / 8, to_zcdp(PureDP(eta)).rho)
        case SimplexDrawEvent(largest=largest, width=width, sd=sd, times=times):
            return times * rho_of_draw(largest, width, sd)
        case TiltEvent() | ApproxDP():
            return math.inf


def _holds(total: Composition, epsilon: float, delta: float) -> bool:
    """Whether the events have this epsilon at this delta, without loss distributions.

    The answer may not depend on an optional library.
    """
    rest = exact(delta) - total.lost
    if rest < 0:
        return False
    spare = at_most(rest)
    if epsilon_by_sum(total, spare) <= epsilon or epsilon_by_renyi(total, spare) <= epsilon:
        return True
    return spare > 0 and _holds_by_tilt(total, epsilon, math.log(spare))


def _holds_by_tilt(total: Composition, epsilon: float, log_delta: float) -> bool:
    """The same by Theorem 4.2, for one tilt beside Gaussian releases and pure ones."""
    others = total.others.counts
    tilts = [event for event in others if isinstance(event, TiltEvent)]
    if len(tilts) != 1 or others[tilts[0]] > 1:
        return False
    if not all(isinstance(event, TiltEvent | GaussianEvent) for event in others):
        return False
    out = math.hypot(*(event.mu for event in others if isinstance(event, GaussianEvent)))
    rest = epsilon - at_least(total.pure)
    return rest >= 0 and tilt_log_delta(tilts[0], rest, out) <= log_delta
