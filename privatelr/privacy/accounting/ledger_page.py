"""A statement as a page, and as plain values."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

from privatelr.errors import GuaranteeError, require_number
from privatelr.page_model import Heading, Indented, Listing, Piece
from privatelr.privacy import Neighbours, event_from_json, event_to_json
from privatelr.privacy.accounting import filters
from privatelr.privacy.accounting.agreement import require_agreement
from privatelr.privacy.accounting.composition_bounds import Entry, priced
from privatelr.privacy.accounting.filters import DeclaredPrices, Renyi, Rule, Sums
from privatelr.privacy.accounting.statement import (
    Statement,
    left,
    price,
    rounded_down,
    share,
    spent,
    with_rule,
)

_FORMAT = "privatelr-ledger"
_VERSION = 2
_KEYS = {"format", "version", "epsilon", "delta", "neighbours", "account", "entries"}
_ENTRY_KEYS = {"label", "guarantee", "events", "part", "times"}
_MOST_ROWS = 20
_HEADINGS = ("release", "part", "price", "times")
_WIDEST = (79, 16, 34, 79)


def page(statement: Statement) -> list[Piece]:
    """The budget, the last entries, equal ones in one row, what is spent and what is left."""
    rule, delta = statement.rule, statement.delta
    at = f" at delta {delta:.6g}" if delta > 0 else ""
    facts = [f"Neighbours: {statement.neighbours.value}"]
    if isinstance(rule, DeclaredPrices):
        facts.append(f"Account: {account(statement)}")
    elif delta > 0:  # there is one way to count a pure budget
        facts.append(f"Account: {account(statement)}; prices may depend on results")
    total = f"Spent: epsilon {spent(statement, delta):.6g}{at}"
    if isinstance(rule, Renyi):
        # the first release pays for the conversion too, so that epsilon alone would mislead
        total += f", {math.ceil(100 * share(statement))}% of what the account holds"
    if isinstance(rule, DeclaredPrices):
        unused = filters.unused(rule, statement.entries) or Counter()
        rest = f"Left: {unused.total()} of {sum(one.times for one in rule.prices)} prices"
    else:
        pure = rounded_down(left(statement, None, 0.0))
        rest = f"Left: epsilon {pure} for one more pure release"
    return [
        Heading(f"Ledger: epsilon {statement.epsilon:.6g}{at}"),
        *(Indented(fact, rest="  ") for fact in facts),
        _entries(statement),
        total,
        rest,
    ]


def account(statement: Statement) -> str:
    """How the entries are counted, in words."""
    if statement.rule is None:
        return "decided by the first charge"
    pure = isinstance(statement.rule, Sums) and statement.delta == 0
    return "the sum of epsilons" if pure else str(statement.rule)


def _entries(statement: Statement) -> Piece:
    """The last rows, and how many are left out."""
    rows: Counter[Entry] = Counter()
    for entry in statement.entries:
        rows[replace(entry, times=1)] += entry.times
    if not rows:
        return Indented("nothing was released", first="  ")
    cells: list[tuple[str, ...]] = []
    for entry, times in rows.items():
        label, part = (" ".join(text.split()) for text in (entry.label, entry.part or ""))
        cells.append((label, part, price(entry.guarantee), str(times)))
    hidden = max(len(cells) - _MOST_ROWS, 0)
    before = [(f"... {hidden} before",)] if hidden else []
    return Listing(_HEADINGS, [*before, *cells[hidden:]], _WIDEST)


def to_json(statement: Statement) -> dict[str, Any]:
    """The budget and every entry as plain values."""
    account: dict[str, Any] = {"kind": "first charge"}
    match statement.rule:
        case Sums():
            account = {"kind": "sum"}
        case Renyi(excess=excess, kept=kept):
            account = {"kind": "renyi", "order_minus_one": excess, "kept": kept}
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
    """One charge as plain values."""
    return {
        "label": entry.label,
        "guarantee": event_to_json(entry.guarantee),
        "events": [event_to_json(event) for event in entry.events],
        "part": entry.part,
        "times": entry.times,
    }


def from_json(value: Any) -> Statement:
    """Inverse of `to_json`; raises `GuaranteeError` for anything else.

    What is stated of the account is recomputed where it can be. Version 1 took the least of
    several accounts. Its entries are counted by the account that the first of them decides on;
    where that leaves the budget overdrawn, nothing more can be charged.
    """
    if not isinstance(value, dict) or value.get("format") != _FORMAT:
        raise GuaranteeError(f"ledger: takes an object with the format {_FORMAT!r}.")
    version = value.get("version")
    if type(version) is not int or not 1 <= version <= _VERSION:
        raise GuaranteeError(
            f"ledger: takes the format {_FORMAT!r} in versions 1 to {_VERSION}, which this "
            "release of privatelr reads."
        )
    _require_keys("ledger", value, _KEYS if version > 1 else _KEYS - {"account"})
    if not isinstance(value["entries"], list):
        raise GuaranteeError("ledger: entries takes a list.")
    if value["neighbours"] not in [neighbours.name for neighbours in Neighbours]:
        raise GuaranteeError("ledger: neighbours takes the name of a relation.")
    rule = _rule_from_json(value.get("account", {"kind": "first charge"}))
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
        case {"kind": "renyi", "order_minus_one": excess, "kept": kept, **others} if not others:
            takes = "a number above 0"
            excess = require_number(GuaranteeError, "order_minus_one", excess, takes, above=0)
            takes = f"a number from 0 to {filters.MOST_KEPT}"
            limits = {"at_least": 0.0, "at_most": filters.MOST_KEPT}
            return Renyi(excess, require_number(GuaranteeError, "kept", kept, takes, **limits))
        case {"kind": "plan", "prices": [_, *_] as prices, **others} if not others:
            return DeclaredPrices(tuple(entry_from_json(entry) for entry in prices))
    raise GuaranteeError(
        "ledger account: takes an object with the kind 'first charge' or 'sum', with 'renyi', "
        "order_minus_one and kept, or with 'plan' and a list of one price or more."
    )


def entry_from_json(value: Any) -> Entry:
    """Inverse of `entry_to_json`; raises `GuaranteeError` for anything else."""
    _require_keys("ledger entry", value, _ENTRY_KEYS)
    if not isinstance(value["events"], list):
        raise GuaranteeError("ledger entry: events takes a list.")
    events = tuple(event_from_json(event) for event in value["events"])
    guarantee = priced(event_from_json(value["guarantee"]))
    require_agreement(guarantee, events)
    return Entry(value["label"], guarantee, events, value["part"], value["times"])


def _require_keys(name: str, value: Any, keys: set[str]) -> None:
    if not isinstance(value, dict) or set(value) != keys:
        raise GuaranteeError(f"{name}: takes an object with {', '.join(sorted(keys))}.")
