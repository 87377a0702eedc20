"""A statement as text of at most 79 columns, and as plain values."""

from __future__ import annotations

import textwrap
from collections import Counter
from dataclasses import replace
from typing import Any

from privatelr.errors import GuaranteeError
from privatelr.privacy import conversions
from privatelr.privacy.accounting import Entry, priced
from privatelr.privacy.events import event_from_json, event_to_json
from privatelr.privacy.guarantees import Neighbours
from privatelr.privacy.statement import Statement, left, price, rounded_down, spent

_FORMAT = "privatelr-ledger"
_VERSION = 1
_KEYS = {"format", "version", "epsilon", "delta", "neighbours", "entries"}
_ENTRY_KEYS = {"label", "guarantee", "events", "part", "times"}
_WIDTH = 79
_MOST_ROWS = 20


def page(statement: Statement) -> str:
    """The budget, one row for equal entries, what is spent and what is left."""
    at = f" at delta {statement.delta:.6g}" if statement.delta > 0 else ""
    lines = [
        f"Ledger: epsilon {statement.epsilon:.6g}{at}",
        *textwrap.wrap(f"Neighbours: {statement.neighbours.value}", _WIDTH, subsequent_indent="  "),
        *_table(statement),
        f"Spent: epsilon {spent(statement, statement.delta):.6g}{at}",
        f"Left: epsilon {rounded_down(left(statement, None, 0.0))} for one more pure release",
    ]
    return "\n".join(lines)


def _table(statement: Statement) -> list[str]:
    rows: Counter[Entry] = Counter()
    for entry in statement.entries:
        rows[replace(entry, times=1)] += entry.times
    if not rows:
        return ["  nothing was released"]
    cells = [
        (entry.label, entry.part or "", price(entry.guarantee), str(times))
        for entry, times in rows.items()
    ]
    hidden = len(cells) - _MOST_ROWS
    shown = [("release", "part", "price", "times"), *cells[max(hidden, 0) :]]
    release, part, cost, times = (max(map(len, column)) for column in zip(*shown, strict=True))
    part, cost = min(part, 16), min(cost, 34)
    release = min(release, _WIDTH - 8 - part - cost - times)
    widths = (release, part, cost, times)
    heading, *lines = ("  " + "  ".join(map(_cell, row, widths)).rstrip() for row in shown)
    return [heading, *([f"  ... {hidden} before"] if hidden > 0 else []), *lines]


def _cell(text: str, width: int) -> str:
    line = " ".join(text.split())
    return line.ljust(width) if len(line) <= width else f"{line[: width - 3]}..."


def to_json(statement: Statement) -> dict[str, Any]:
    """The budget and every entry as plain values."""
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "epsilon": statement.epsilon,
        "delta": statement.delta,
        "neighbours": statement.neighbours.name,
        "entries": [entry_to_json(entry) for entry in statement.entries],
    }


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
    """Inverse of `to_json`; raises `GuaranteeError` for anything else."""
    _require_keys("ledger", value, _KEYS)
    if value["format"] != _FORMAT or value["version"] != _VERSION:
        raise GuaranteeError(
            f"ledger: takes the format {_FORMAT!r} in version {_VERSION}, as this release of "
            "privatelr writes it."
        )
    if not isinstance(value["entries"], list):
        raise GuaranteeError("ledger: entries takes a list.")
    if value["neighbours"] not in [neighbours.name for neighbours in Neighbours]:
        raise GuaranteeError("ledger: neighbours takes the name of a relation.")
    return Statement(
        value["epsilon"],
        value["delta"],
        Neighbours[value["neighbours"]],
        tuple(entry_from_json(entry) for entry in value["entries"]),
    )


def entry_from_json(value: Any) -> Entry:
    """Inverse of `entry_to_json`; raises `GuaranteeError` for anything else."""
    _require_keys("ledger entry", value, _ENTRY_KEYS)
    if not isinstance(value["events"], list):
        raise GuaranteeError("ledger entry: events takes a list.")
    events = tuple(event_from_json(event) for event in value["events"])
    guarantee = priced(event_from_json(value["guarantee"]))
    return Entry(value["label"], guarantee, events, value["part"], value["times"])


def _require_keys(name: str, value: Any, keys: set[str]) -> None:
    if not isinstance(value, dict) or set(value) != keys:
        raise GuaranteeError(f"{name}: takes an object with {', '.join(sorted(keys))}.")
