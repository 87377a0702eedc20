"""A budget and its entries as one record; what is spent, what is left, what still fits."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from privatelr.errors import GuaranteeError, require_number
from privatelr.privacy.accounting import Entry, epsilon_of, fits
from privatelr.privacy.decimals import at_most, exact
from privatelr.privacy.guarantees import ZCDP, ApproxDP, Promise, PureDP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from privatelr.privacy.guarantees import Neighbours


@dataclass(frozen=True, slots=True)
class Statement:
    """What a ledger knows.

    Attributes
    ----------
    epsilon, delta : float
        The budget.
    neighbours : Neighbours
        What every guarantee in it is about.
    entries : tuple of Entry
        Every charge so far. Entries of one part add up, entries of all rows add to every
        part, and the whole costs what its worst part does: when one record replaces another
        in its place, one part changes.
    """

    epsilon: float
    delta: float
    neighbours: Neighbours
    entries: tuple[Entry, ...] = ()

    def __post_init__(self) -> None:
        takes = "a finite number above 0"
        epsilon = require_number(GuaranteeError, "epsilon", self.epsilon, takes, above=0)
        delta = require_number(
            GuaranteeError,
            "delta",
            self.delta,
            "a number from 0 to below 1",
            at_least=0,
            at_most=math.nextafter(1, 0),
        )
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)
        if any(entry.guarantee.neighbours is not self.neighbours for entry in self.entries):
            raise GuaranteeError("ledger: the release is about other neighbours than the ledger.")


def charged(statement: Statement, entry: Entry) -> Statement:
    """The statement with one more entry; raises `GuaranteeError` if it does not fit."""
    after = replace(statement, entries=(*statement.entries, entry))
    if not _is_within(after):
        raise GuaranteeError(_refusal(statement, after, entry))
    return after


def spent(statement: Statement, delta: float) -> float:
    """Epsilon of all entries at this delta."""
    return max(epsilon_of(group, delta) for group in _by_part(statement.entries))


def left(statement: Statement, part: str | None, delta: float) -> float:
    """Largest epsilon of one more release that fits, pure or with its own delta."""
    rest = exact(statement.delta) - exact(delta)
    if rest < 0:
        return 0.0
    shared = [e for e in statement.entries if part is None or e.part in (None, part)]
    used = max(epsilon_of(group, at_most(rest)) for group in _by_part(shared))
    if used >= statement.epsilon:
        return 0.0
    price = at_most(exact(statement.epsilon) - exact(used))
    for _ in range(20):
        about = statement.neighbours
        guarantee = PureDP(price, about) if delta == 0 else ApproxDP(price, delta, about)
        entry = Entry("", guarantee, part=part)
        if _is_within(replace(statement, entries=(*statement.entries, entry))):
            return price
        price *= 0.999  # the bound by losses may be coarser with one event more
    return 0.0


def price(guarantee: Promise) -> str:
    """A guarantee as the arguments that ask for it."""
    match guarantee:
        case PureDP(epsilon=epsilon):
            return f"eps={epsilon:.6g}"
        case ZCDP(rho=rho):
            return f"rho={rho:.6g}"
        case ApproxDP(epsilon=epsilon, delta=delta):
            return f"eps={epsilon:.6g}, delta={delta:.6g}"


def rounded_down(value: float) -> str:
    """Four digits that never say more than there is."""
    if value <= 0:
        return "0"
    grain = Fraction(10) ** (math.floor(math.log10(value)) - 3)
    return f"{float(exact(value) // grain * grain):.6g}"


def _by_part(entries: Sequence[Entry]) -> list[list[Entry]]:
    """The entries that add up, for each part."""
    parts = dict.fromkeys(entry.part for entry in entries if entry.part is not None)
    groups = [[e for e in entries if e.part in (None, part)] for part in parts]
    return groups or [list(entries)]


def _is_within(statement: Statement) -> bool:
    groups = _by_part(statement.entries)
    return all(fits(group, statement.epsilon, statement.delta) for group in groups)


def _refusal(before: Statement, after: Statement, entry: Entry) -> str:
    several = f" {entry.times} times" if entry.times > 1 else ""
    total = spent(after, before.delta)
    if math.isfinite(total):
        at = f" at delta {before.delta:.6g}" if before.delta > 0 else ""
        would = f"would make {total:.6g} of {before.epsilon:.6g}{at}"
    elif before.delta > 0:
        would = f"would take more than the delta {before.delta:.6g} of the budget"
    else:
        would = "takes a delta, and the budget has none"
    own = entry.guarantee.delta if isinstance(entry.guarantee, ApproxDP) else 0.0
    own = min(own, _delta_left(before))
    rest = rounded_down(left(before, entry.part, own))
    within = f" at delta {own:.6g}" if isinstance(entry.guarantee, ApproxDP) else ""
    asked = f"{price(entry.guarantee)}{several}"
    return f"ledger: {asked} more {would}; what is left is epsilon {rest}{within}."


def _delta_left(statement: Statement) -> float:
    """What the deltas of approximate guarantees leave of the budget."""
    lost = Fraction(0)
    for entry in statement.entries:
        if isinstance(entry.guarantee, ApproxDP):
            lost += exact(entry.guarantee.delta) * entry.times
    return at_most(max(exact(statement.delta) - lost, Fraction(0)))
