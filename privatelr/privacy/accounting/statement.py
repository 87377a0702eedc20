"""A budget and its entries as one record: what is spent, what fits, and its JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from privatelr.errors import GuaranteeError, require_number, show
from privatelr.privacy import event_from_json, event_to_json, exact, guarantees
from privatelr.privacy.accounting import filters
from privatelr.privacy.accounting.agreement import require_agreement
from privatelr.privacy.accounting.filters import DeclaredPrices, Renyi, Rule, Sums, unused
from privatelr.privacy.accounting.ledger_entry import Entry, column_of_persons, priced
from privatelr.privacy.conversions import prices
from privatelr.privacy.guarantees import ApproxDP, Neighbours, Promise, PureDP, check_numbers

_FORMAT = "privatelr-ledger"
_VERSION = 3
_KEYS = {"format", "version", "epsilon", "delta", "neighbours", "account", "entries"}
_ENTRY_KEYS = {"label", "guarantee", "events", "part", "times"}


@dataclass(frozen=True, slots=True)
class Statement:
    """The content of a ledger: budget, rule and entries.

    Attributes
    ----------
    epsilon, delta : float
        The budget.
    neighbours : Neighbours
        The neighbours that every guarantee in it is about.
    rule : Sums, Renyi, DeclaredPrices or None
        The rule by which the entries are counted; None if the first charge will decide.
    entries : tuple of Entry
        Every charge so far. Entries of one part add up, entries of all rows add to every part,
        and the whole costs as much as its dearest part, because only one part changes when one
        record is replaced. There are no parts where neighbours replace a person.
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
        for entry in self.entries:
            if entry.guarantee.neighbours is not self.neighbours:
                names = {relation: name for name, relation in guarantees.NEIGHBOURS.items()}
                other = names.get(entry.guarantee.neighbours, "others")
                raise GuaranteeError(
                    f"ledger: the release is about other neighbours than the ledger, {other!r} and "
                    f"not {names[self.neighbours]!r}, and prices about both do not add up; charge "
                    f"it to a Ledger(neighbours={other!r}) of its own."
                )
            if entry.part is not None and self.neighbours is guarantees.REPLACE_PERSON:
                raise GuaranteeError(
                    f"part={show(entry.part)}: a person may have records in several parts, so a "
                    "ledger about persons takes charges for all rows only."
                )
        _column(self.entries)

    @property
    def person(self) -> str | None:
        """The column that tells the persons of all entries apart; None if no entry states it."""
        return _column(self.entries)


def _column(entries: Sequence[Entry]) -> str | None:
    """Return the column of persons of entries, or refuse two of them."""
    instead = "open a Ledger(neighbours='person') for each, or rename one that tells the same apart"
    return column_of_persons((entry.person for entry in entries), "ledger", instead)


def planned(offered: Any, delta: float, neighbours: Neighbours) -> Statement:
    """Make a statement whose prices are declared in advance; they compose to its epsilon."""
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
    """Return the statement with one more entry; raise `GuaranteeError` if it does not fit."""
    after = with_rule(replace(statement, entries=(*statement.entries, entry)))
    if is_within(after):
        return after
    several = f" {entry.times} times" if entry.times > 1 else ""
    would = _would(with_rule(statement, entry), after)
    rest = rounded_down(left(statement, entry.part, 0.0))
    kind = "" if isinstance(entry.guarantee, PureDP) else " for a pure release"
    raise GuaranteeError(
        f"ledger: {price(entry.guarantee)}{several} more {would}; what is left is epsilon "
        f"{rest}{kind}."
    )


def with_rule(statement: Statement, first: Entry | None = None) -> Statement:
    """Return the statement with the rule that its first entry decides, if it has no rule yet.

    It is the most useful of the rules that cover the first entry, or the one that comes nearest
    if none does. Later entries must not decide, because their prices may depend on results.
    """
    deciding = statement.entries[0] if statement.entries else first
    if statement.rule is not None or deciding is None:
        return statement
    epsilon, delta = statement.epsilon, statement.delta
    rules: tuple[Rule, ...] = (filters.renyi_rule(epsilon, delta),) if delta > 0 else ()
    rules = (*rules, Sums())
    used = [filters.epsilon_used(rule, [deciding], delta) for rule in rules]
    found = next((rule for rule, cost in zip(rules, used, strict=True) if cost <= epsilon), None)
    return replace(statement, rule=found or rules[used.index(min(used))])


def is_within(statement: Statement) -> bool:
    """Whether the entries fit into the budget, in every part of the rows."""
    decided = with_rule(statement)
    return spent(decided, decided.delta) <= decided.epsilon


def spent(statement: Statement, delta: float) -> float:
    """Return the smallest epsilon of a ledger of this rule, at this delta, that fits all entries.

    Such a ledger keeps its budget whatever was chosen by results, so the number is a guarantee.
    The least number over several rules would not be one.
    """
    rule, entries = statement.rule, statement.entries
    if rule is None:
        return 0.0
    groups = [entries] if isinstance(rule, DeclaredPrices) else _by_part(entries)
    return max(filters.epsilon_used(rule, group, delta) for group in groups)


def share(statement: Statement) -> float:
    """Return the used share of what the account holds, of a plan that of its prices.

    1 is all of it, infinity is too much.
    """
    rule, budget = statement.rule, (statement.epsilon, statement.delta)
    if rule is None:
        return 0.0
    if isinstance(rule, DeclaredPrices):
        rest = unused(rule, statement.entries)
        return math.inf if rest is None else 1 - rest.total() / rule.count
    return max(filters.share_used(rule, group, *budget) for group in _by_part(statement.entries))


def left(statement: Statement, part: str | None, delta: float) -> float:
    """Return the largest epsilon of one more release that fits, pure or with its own delta.

    For a plan it is the largest declared price that is not used yet.
    """
    rule, about = statement.rule, statement.neighbours
    if isinstance(rule, DeclaredPrices):
        rest = [one.guarantee for one in unused(rule, statement.entries) or () if not one.events]
        fitting = [one.epsilon for one in rest if isinstance(one, PureDP) and delta == 0]
        fitting += [x.epsilon for x in rest if isinstance(x, ApproxDP) and delta <= x.delta]
        return max(fitting, default=0.0)
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
        price *= 1 - 1e-9  # the estimate may be too large by the error of a bisection
    return 0.0


def price(guarantee: Promise) -> str:
    """Write a guarantee as the arguments that ask for it."""
    written = {"epsilon": "eps"}
    return ", ".join(f"{written.get(k, k)}={v:.6g}" for k, v in prices(guarantee).items())


def rounded_down(value: float) -> str:
    """Write a number with four digits, rounded down."""
    if value <= 0:
        return "0"
    grain = Fraction(10) ** (math.floor(math.log10(value)) - 3)
    return f"{float(exact(value) // grain * grain):.6g}"


def _by_part(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Return, for each part, the entries that add up: its own and those of all rows."""
    parts = dict.fromkeys(entry.part for entry in entries if entry.part is not None)
    groups = [[e for e in entries if e.part in (None, part)] for part in parts]
    return groups or [list(entries)]


def _would(before: Statement, after: Statement) -> str:
    """Say in words what one more entry would do to the budget."""
    if isinstance(before.rule, DeclaredPrices):
        return "is not among the declared prices that are left"
    delta, total = before.delta, spent(after, before.delta)
    if math.isfinite(total):
        at = f" at delta {delta:.6g}" if delta > 0 else ""
        return f"would make {total:.6g} of {before.epsilon:.6g}{at}"
    if delta == 0:
        return "takes a delta, and the budget has none"
    return f"has no epsilon within delta {delta:.6g} by the account, {account(after)}"


def account(statement: Statement) -> str:
    """Say in words how the entries are counted."""
    if statement.rule is None:
        return "decided by the first charge"
    pure = isinstance(statement.rule, Sums) and statement.delta == 0
    return "the sum of epsilons" if pure else str(statement.rule)


# -- JSON ------------------------------------------------------------------------------------


def to_json(statement: Statement) -> dict[str, Any]:
    """Turn the budget and every entry into plain values."""
    account: dict[str, Any] = {"kind": "first charge"}
    match statement.rule:
        case Sums():
            account = {"kind": "sum"}
        case Renyi(excess=excess):
            account = {"kind": "renyi", "order_minus_one": excess}
        case DeclaredPrices(prices=prices):
            account = {"kind": "plan", "prices": [entry_to_json(entry) for entry in prices]}
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "epsilon": statement.epsilon,
        "delta": statement.delta,
        "neighbours": statement.neighbours.name,
        "account": account,
        "entries": [entry_to_json(entry) for entry in statement.entries],
    }


def entry_to_json(entry: Entry) -> dict[str, Any]:
    """Turn one charge into plain values."""
    return {
        "label": entry.label,
        "guarantee": event_to_json(entry.guarantee),
        "events": [event_to_json(event) for event in entry.events],
        "part": entry.part,
        "times": entry.times,
        **({} if entry.person is None else {"person": entry.person}),
    }


def from_json(value: Any) -> Statement:
    """Undo `to_json`; raise `GuaranteeError` for any other value.

    Stated numbers of the account are computed again if possible.
    """
    known = isinstance(value, dict) and (value.get("format"), value.get("version"))
    if known != (_FORMAT, _VERSION):
        raise GuaranteeError(f"ledger: takes the format {_FORMAT!r} in version {_VERSION}.")
    _require_keys("ledger", value, _KEYS)
    if not isinstance(value["entries"], list):
        raise GuaranteeError("ledger: entries takes a list.")
    if value["neighbours"] not in [neighbours.name for neighbours in Neighbours]:
        raise GuaranteeError("ledger: neighbours takes the name of a relation.")
    rule = _rule_from_json(value["account"])
    entries = tuple(entry_from_json(entry) for entry in value["entries"])
    neighbours = Neighbours[value["neighbours"]]
    read = Statement(value["epsilon"], value["delta"], neighbours, rule, entries)
    if isinstance(rule, DeclaredPrices):
        replace(read, entries=rule.prices)  # refuses other neighbours
        return replace(read, epsilon=filters.epsilon_used(rule, rule.prices, read.delta))
    return replace(read, rule=Sums()) if read.delta == 0 else with_rule(read)


def _rule_from_json(value: Any) -> Rule | None:
    match value:
        case {"kind": "first charge", **others} if not others:
            return None
        case {"kind": "sum", **others} if not others:
            return Sums()
        case {"kind": "renyi", "order_minus_one": excess, **others} if not others:
            takes = "a number above 0"
            return Renyi(require_number(GuaranteeError, "order_minus_one", excess, takes, above=0))
        case {"kind": "plan", "prices": [_, *_] as prices, **others} if not others:
            return DeclaredPrices(tuple(entry_from_json(entry) for entry in prices))
    raise GuaranteeError(
        "ledger account: takes an object with the kind 'first charge' or 'sum', with 'renyi', "
        "order_minus_one, or with 'plan' and a list of one price or more."
    )


def entry_from_json(value: Any) -> Entry:
    """Undo `entry_to_json`; raise `GuaranteeError` for any other value."""
    stated = {"person"} & value.keys() if isinstance(value, dict) else set()
    _require_keys("ledger entry", value, _ENTRY_KEYS | stated)
    if not isinstance(value["events"], list):
        raise GuaranteeError("ledger entry: events takes a list.")
    events = tuple(event_from_json(event) for event in value["events"])
    guarantee = priced(event_from_json(value["guarantee"]))
    require_agreement(guarantee, events)
    return Entry(
        value["label"],
        guarantee,
        events,
        part=value["part"],
        times=value["times"],
        person=value.get("person"),
    )


def _require_keys(name: str, value: Any, keys: set[str]) -> None:
    if not isinstance(value, dict) or set(value) != keys:
        raise GuaranteeError(f"{name}: takes an object with {', '.join(sorted(keys))}.")
