"""A budget and its entries as one record; what is spent, what is left, what still fits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from privatelr.errors import GuaranteeError, show
from privatelr.privacy import at_most, exact
from privatelr.privacy.accounting import filters
from privatelr.privacy.accounting.composition_bounds import Entry
from privatelr.privacy.accounting.filters import DeclaredPrices, Renyi, Rule, kept_delta, unused
from privatelr.privacy.conversions import prices
from privatelr.privacy.guarantees import ZCDP, ApproxDP, Neighbours, Promise, PureDP, check_numbers


@dataclass(frozen=True, slots=True)
class Statement:
    """What a ledger knows.

    Attributes
    ----------
    epsilon, delta : float
        The budget.
    neighbours : Neighbours
        What every guarantee in it is about.
    rule : Sums, Renyi, DeclaredPrices or None
        How the entries are counted; None if the first charge will decide.
    entries : tuple of Entry
        Every charge so far. Entries of one part add up, entries of all rows add to every
        part, and the whole costs what its worst part does: when one record replaces another
        in its place, one part changes.
    """

    epsilon: float
    delta: float
    neighbours: Neighbours
    rule: Rule | None = None
    entries: tuple[Entry, ...] = ()

    def __post_init__(self) -> None:
        check_numbers(self, "epsilon", takes="a finite number above 0", above=0)
        below_one = {"at_least": 0.0, "at_most": math.nextafter(1, 0)}
        check_numbers(self, "delta", takes="a number from 0 to below 1", **below_one)
        if any(entry.guarantee.neighbours is not self.neighbours for entry in self.entries):
            raise GuaranteeError("ledger: the release is about other neighbours than the ledger.")


def planned(offered: Any, delta: float, neighbours: Neighbours) -> Statement:
    """A statement whose prices are declared in advance; epsilon is what they make together."""
    rule = DeclaredPrices(filters.declared(offered))
    budget = Statement(1.0, delta, neighbours, rule, rule.prices)  # refuses other neighbours
    epsilon = filters.epsilon_used(rule, rule.prices, budget.delta)
    if not 0 < epsilon < math.inf:
        raise GuaranteeError(
            f"delta={show(delta)}: the declared prices have no epsilon at this delta; delta takes "
            "a larger number."
        )
    return Statement(epsilon, budget.delta, neighbours, rule)


def charged(statement: Statement, entry: Entry) -> Statement:
    """The statement with one more entry; raises `GuaranteeError` if it does not fit."""
    after = with_rule(replace(statement, entries=(*statement.entries, entry)))
    if is_within(after):
        return after
    several = f" {entry.times} times" if entry.times > 1 else ""
    own = entry.guarantee.delta if isinstance(entry.guarantee, ApproxDP) else 0.0
    own = min(own, _delta_left(statement))
    within = f" at delta {own:.6g}" if isinstance(entry.guarantee, ApproxDP) else ""
    would = _would(with_rule(statement, entry), after)
    raise GuaranteeError(
        f"ledger: {price(entry.guarantee)}{several} more {would}; what is left is epsilon "
        f"{rounded_down(left(statement, entry.part, own))}{within}."
    )


def with_rule(statement: Statement, first: Entry | None = None) -> Statement:
    """The statement with the rule that its first entry decides on, if none was fixed before.

    Of the rules that cover the first entry, the most useful; if none does, the one that comes
    nearest. Later entries have no say: their prices may depend on results.
    """
    deciding = statement.entries[0] if statement.entries else first
    if statement.rule is not None or deciding is None:
        return statement
    epsilon, delta = statement.epsilon, statement.delta
    rules = filters.candidates(epsilon, delta, deciding)
    used = [filters.epsilon_used(rule, [deciding], delta) for rule in rules]
    found = next((rule for rule, cost in zip(rules, used, strict=True) if cost <= epsilon), None)
    return replace(statement, rule=found or rules[used.index(min(used))])


def is_within(statement: Statement) -> bool:
    """Whether the entries fit into the budget; every part must."""
    rule = statement.rule
    if rule is None:
        return not statement.entries
    if isinstance(rule, DeclaredPrices):
        return unused(rule, statement.entries) is not None
    budget = statement.epsilon, statement.delta
    return all(filters.has_room(rule, group, *budget) for group in _by_part(statement.entries))


def spent(statement: Statement, delta: float) -> float:
    """Smallest epsilon of a ledger of this rule at this delta that has room for all entries.

    Whatever was chosen by results, such a ledger keeps its budget, so the number is a guarantee.
    The least over several rules is none, and is not taken.
    """
    rule, entries = statement.rule, statement.entries
    if rule is None:
        return 0.0
    groups = [entries] if isinstance(rule, DeclaredPrices) else _by_part(entries)
    return max(filters.epsilon_used(rule, group, delta) for group in groups)


def share(statement: Statement) -> float:
    """How much of what the account holds is used; 1 is all of it, infinity more than it can."""
    rule, budget = statement.rule, (statement.epsilon, statement.delta)
    if rule is None or isinstance(rule, DeclaredPrices):
        return 0.0
    return max(filters.share_used(rule, group, *budget) for group in _by_part(statement.entries))


def left(statement: Statement, part: str | None, delta: float) -> float:
    """Largest epsilon of one more release that fits, pure or with its own delta.

    Of a plan, the largest price that is not used yet.
    """
    rule, about = statement.rule, statement.neighbours
    if isinstance(rule, DeclaredPrices):
        rest = [one.guarantee for one in unused(rule, statement.entries) or () if not one.events]
        kinds = PureDP if delta == 0 else ()
        return max(
            (
                one.epsilon
                for one in rest
                if isinstance(one, kinds) or (isinstance(one, ApproxDP) and delta <= one.delta)
            ),
            default=0.0,
        )
    if rule is None:
        return statement.epsilon if delta <= statement.delta else 0.0
    shared = [e for e in statement.entries if part is None or e.part in (None, part)]
    budget = statement.epsilon, statement.delta
    price = min(filters.pure_left(rule, group, *budget) for group in _by_part(shared))
    for _ in range(20):
        if price <= 0:
            break
        guarantee = PureDP(price, about) if delta == 0 else ApproxDP(price, delta, about)
        entry = Entry("", guarantee, part=part)
        if is_within(replace(statement, entries=(*statement.entries, entry))):
            return price
        price *= 1 - 1e-9  # what bisection and rounding leave
    return 0.0


def price(guarantee: Promise) -> str:
    """A guarantee as the arguments that ask for it."""
    written = {"epsilon": "eps"}
    return ", ".join(f"{written.get(k, k)}={v:.6g}" for k, v in prices(guarantee).items())


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


def _would(before: Statement, after: Statement) -> str:
    """What one more entry would do to the budget."""
    if isinstance(before.rule, DeclaredPrices):
        return "is not among the declared prices that are left"
    delta, total = before.delta, spent(after, before.delta)
    if math.isfinite(total):
        at = f" at delta {delta:.6g}" if delta > 0 else ""
        return f"would make {total:.6g} of {before.epsilon:.6g}{at}"
    match before.rule:
        case _ if delta == 0:
            return "takes a delta, and the budget has none"
        case Renyi() as rule:
            return (
                "would take more than the delta that is kept for releases without a divergence, "
                f"{kept_delta(rule, delta):.6g} of {delta:.6g}"
            )
        case _ if isinstance(after.entries[-1].guarantee, ZCDP):
            return "has no epsilon of its own, and the account adds up epsilons"
    return f"would take more than the delta {delta:.6g} of the budget"


def _delta_left(statement: Statement) -> float:
    """What releases with a delta of their own leave of what there is for them."""
    rule, lost = statement.rule, Fraction(0)
    there = kept_delta(rule, statement.delta) if isinstance(rule, Renyi) else statement.delta
    for entry in statement.entries:
        counted = not (isinstance(rule, Renyi) and entry.events)
        if isinstance(entry.guarantee, ApproxDP) and counted:
            lost += exact(entry.guarantee.delta) * entry.times
    return at_most(max(exact(there) - lost, Fraction(0)))
