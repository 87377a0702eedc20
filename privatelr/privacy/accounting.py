"""What several releases about the same records cost together: upper bounds, the best that hold.

An entry promises a guarantee and may say in events how. Either reading holds, so the cheaper
one is taken.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from privatelr.errors import GuaranteeError, show
from privatelr.privacy.composition import (
    Composition,
    composition,
    deltas,
    epsilon_by_losses,
    epsilon_by_renyi,
    epsilon_by_sum,
)
from privatelr.privacy.decimals import at_least, at_most, exact
from privatelr.privacy.events import Event, TiltEvent, pure_cap
from privatelr.privacy.guarantees import Guarantee, NonPrivate, Promise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

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
