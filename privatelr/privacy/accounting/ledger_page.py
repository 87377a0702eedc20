"""A statement as a page, and as plain values."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

from privatelr.errors import GuaranteeError, require_number
from privatelr.page_model import Heading, Indented, Listing, Piece
from privatelr.privacy import conversions
from privatelr.privacy.accounting.agreement import require_agreement
from privatelr.privacy.accounting.composition_bounds import Entry, priced
from privatelr.privacy.accounting.filters import (
    MOST_KEPT,
    DeclaredPrices,
    Renyi,
    Rule,
    Sums,
    epsilon_used,
    unused,
)
from privatelr.privacy.accounting.statement import (
    Statement,
    left,
    price,
    rounded_down,
    share,
    spent,
    with_rule,
)
from privatelr.privacy.events import event_from_json, event_to_json
from privatelr.privacy.guarantees import Neighbours

_FORMAT = "privatelr-ledger"
_VERSION = 2
_KEYS = {"format", "version", "epsilon", "delta", "neighbours", "account", "entries"}
_ENTRY_KEYS = {"label", "guarantee", "events", "part", "times"}
_ACCOUNT_KEYS: dict[str, set[str]] = {
    "first charge": set(),
    "sum": set(),
    "renyi": {"order_minus_one", "kept"},
    "plan": {"prices"},
}
_MOST_ROWS = 20
_HEADINGS = ("release", "part", "price", "times")
_WIDEST = (79, 16, 34, 79)


def page(statement: Statement) -> list[Piece]:
    """The budget, one row for equal entries, what is spent and what is left."""
    title = f"Ledger: epsilon {statement.epsilon:.6g}{_at(statement)}"
    facts = [Indented(fact, rest="  ") for fact in _facts(statement)]
    return [Heading(title), *facts, _entries(statement), *_sums(statement)]


def account(statement: Statement) -> str:
    """How the entries are counted, in words."""
    if statement.rule is None:
        return "decided by the first charge"
    pure = isinstance(statement.rule, Sums) and statement.delta == 0
    return "the sum of epsilons" if pure else str(statement.rule)


def _at(statement: Statement) -> str:
    return f" at delta {statement.delta:.6g}" if statement.delta > 0 else ""


def _facts(statement: Statement) -> list[str]:
    facts = [f"Neighbours: {statement.neighbours.value}"]
    if statement.delta == 0 and not isinstance(statement.rule, DeclaredPrices):
        return facts  # there is one way to count a pure budget
    chosen = "" if isinstance(statement.rule, DeclaredPrices) else "; prices may depend on results"
    return [*facts, f"Account: {account(statement)}{chosen}"]


def _sums(statement: Statement) -> list[str]:
    lines = [f"Spent: epsilon {spent(statement, statement.delta):.6g}{_at(statement)}"]
    if isinstance(statement.rule, Renyi):
        # the first release pays for the conversion too, so that epsilon alone would mislead
        lines[0] += f", {math.ceil(100 * share(statement))}% of what the account holds"
    if isinstance(statement.rule, DeclaredPrices):
        rest = unused(statement.rule, statement.entries) or Counter()
        total = sum(entry.times for entry in statement.rule.prices)
        return [*lines, f"Left: {rest.total()} of {total} prices"]
    rest_of_epsilon = rounded_down(left(statement, None, 0.0))
    return [*lines, f"Left: epsilon {rest_of_epsilon} for one more pure release"]


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
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "epsilon": statement.epsilon,
        "delta": statement.delta,
        "neighbours": statement.neighbours.name,
        "account": _rule_to_json(statement.rule),
        "entries": [entry_to_json(entry) for entry in statement.entries],
    }


def _rule_to_json(rule: Rule | None) -> dict[str, Any]:
    match rule:
        case None:
            return {"kind": "first charge"}
        case Sums():
            return {"kind": "sum"}
        case Renyi(excess=excess, kept=kept):
            return {"kind": "renyi", "order_minus_one": excess, "kept": kept}
        case DeclaredPrices(prices=prices):
            return {"kind": "plan", "prices": [entry_to_json(entry) for entry in prices]}


def entry_to_json(entry: Entry) -> dict[str, Any]:
    """One charge as plain values."""
    return {
        "label": entry.label,
        "guarantee": conversions.to_json(entry.guarantee),
        "events": [event_to_json(event) for event in entry.events],
        "part": entry.part,
        "times": entry.times,
    }


def from_json(value: Any) -> Statement:
    """Inverse of `to_json`; raises `GuaranteeError` for anything else.

    Version 1 took the least of several accounts. Its entries are counted by the account that the
    first of them decides on; where that leaves the budget overdrawn, nothing more can be charged.
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
    read = Statement(
        value["epsilon"],
        value["delta"],
        Neighbours[value["neighbours"]],
        _rule_from_json(value.get("account", {"kind": "first charge"})),
        tuple(entry_from_json(entry) for entry in value["entries"]),
    )
    return _with_sound_rule(read)


def _rule_from_json(value: Any) -> Rule | None:
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in _ACCOUNT_KEYS:
        raise GuaranteeError(
            f"ledger account: kind takes one of {', '.join(map(repr, _ACCOUNT_KEYS))}."
        )
    _require_keys("ledger account", value, {"kind", *_ACCOUNT_KEYS[kind]})
    match kind:
        case "sum":
            return Sums()
        case "renyi":
            takes = "a number above 0"
            excess = require_number(
                GuaranteeError, "order_minus_one", value["order_minus_one"], takes, above=0
            )
            takes = f"a number from 0 to {MOST_KEPT}"
            kept = require_number(
                GuaranteeError, "kept", value["kept"], takes, at_least=0, at_most=MOST_KEPT
            )
            return Renyi(excess, kept)
        case "plan":
            if not isinstance(value["prices"], list) or not value["prices"]:
                raise GuaranteeError("ledger account: prices takes a list of one price or more.")
            return DeclaredPrices(tuple(entry_from_json(entry) for entry in value["prices"]))
    return None


def _with_sound_rule(read: Statement) -> Statement:
    """What is stated of the account is recomputed where it can be."""
    rule = read.rule
    if isinstance(rule, DeclaredPrices):
        replace(read, entries=rule.prices)  # refuses other neighbours
        return replace(read, epsilon=epsilon_used(rule, rule.prices, read.delta))
    if read.delta == 0:
        return replace(read, rule=Sums())
    return with_rule(read)


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
