"""What a ledger on disk consists of: rows that are only ever added, each bound to the one before.

A row is a line of JSON and a hash, which is that of the line and of the hash before it. The first
row opens the ledger. Others are charges, releases that were saved, changes of the budget,
and allowances. Where rows are kept is another matter: this module only reads and writes them.

A chain of hashes does not tell where it ends. So the table of a ledger has one more row, of the
number 0, that holds the head: how many rows there are, and the hash of the last. It changes with
every new row, and whoever takes rows from the end has to change it, too.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from privatelr.errors import GuaranteeError, LedgerError, show
from privatelr.privacy.accounting import statement as statements
from privatelr.privacy.accounting.filters import DeclaredPrices, Rule, Sums, renyi_rule
from privatelr.privacy.accounting.ledger_entry import Entry
from privatelr.privacy.accounting.statement import Statement, entry_from_json, entry_to_json

FORMAT = "privatelr-ledger-rows"
VERSION = 1
LOOK = "`privatelr ledger check` looks at every row"
_KEYS = {
    "opened": {"format", "version", "ledger", "time", "dataset", "budget"},
    "charged": {"time", "entry", "allowance", "note", "privatelr"},
    "released": {"charge", "sha256"},
    "changed": {"time", "epsilon", "delta", "reason"},
    "allowed": {"time", "name", "epsilon", "delta"},
}
"""The kinds of rows, and what a row of each kind holds besides its kind.

A row about a saved release has no time: between a charge and its release the data are read, so
that the time between them would be a function of the data."""


class LedgerRow(NamedTuple):
    """One row: a line of JSON, and the hash that ends the chain up to here, in hexadecimal."""

    body: str
    hash: str


@dataclass(frozen=True, slots=True)
class Charge:
    """A charge in a ledger on disk.

    Attributes
    ----------
    number : int
        The number of its row.
    time : str
        When it was committed, in UTC.
    entry : Entry
        What was charged.
    allowance : str or None
        The allowance that it was charged to as well.
    note : str
        The user, the host or a sentence, if a note was asked for; empty otherwise.
    software : str
        The version of privatelr.
    release : str or None
        The SHA-256 of the content of the saved release; None as long as none was saved.
    """

    number: int
    time: str
    entry: Entry
    allowance: str | None
    note: str
    software: str
    release: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the budget, with its reason."""

    time: str
    epsilon: float
    delta: float
    reason: str


@dataclass(frozen=True, slots=True)
class Content:
    """All that the rows of a ledger say.

    Attributes
    ----------
    ledger : str
        The name that no other ledger has, in hexadecimal.
    opened : str
        When it was opened, in UTC.
    dataset : str
        What it is about, in the words of the one who opened it.
    budget : Statement
        The budget as it is now, and its rule, without entries.
    allowances : dict of str to Statement
        The limits of allowances, without entries.
    charges : tuple of Charge
    changes : tuple of Change
    rows : int
        How many rows there are.
    head : str
        The hash of the last row.
    """

    ledger: str
    opened: str
    dataset: str
    budget: Statement
    allowances: dict[str, Statement]
    charges: tuple[Charge, ...]
    changes: tuple[Change, ...]
    rows: int
    head: str

    def statements(self, allowance: str | None = None) -> tuple[Statement, ...]:
        """Return all that a charge has to fit: the whole, and the allowance that it is made to."""
        whole = replace(self.budget, entries=tuple(charge.entry for charge in self.charges))
        if allowance is None:
            return (whole,)
        own = tuple(one.entry for one in self.charges if one.allowance == allowance)
        return whole, replace(self.allowances[allowance], entries=own)


# -- writing -------------------------------------------------------------------------------------


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def body_of(kind: str, **content: Any) -> str:
    """Write the line of a row; raises `LedgerError` if a text in it has no form in UTF-8."""
    row = {"kind": kind, **content}
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise LedgerError(
            "ledger: a text for it holds bytes that are not UTF-8, as those of another locale are; "
            "write it in UTF-8, or in ASCII."
        ) from None
    return json.dumps(row, sort_keys=True, allow_nan=False)


def opening(budget: Statement, dataset: str) -> str:
    """Write the first line of a ledger; the rule of its budget is fixed here."""
    return body_of(
        "opened",
        format=FORMAT,
        version=VERSION,
        ledger=secrets.token_hex(16),
        time=now(),
        dataset=dataset,
        budget=statements.to_json(budget),
    )


def charging(entry: Entry, allowance: str | None, note: str) -> str:
    """Write the line of a charge."""
    written = entry_to_json(entry)
    software = sys.modules["privatelr"].__version__  # an import of it would go upward
    told = {"allowance": allowance, "note": note, "privatelr": software}
    return body_of("charged", time=now(), entry=written, **told)


def chained(body: str, head: str) -> LedgerRow:
    """Return the row of a line that follows the row with this hash."""
    return LedgerRow(body, hashlib.sha256(f"{head}\n{body}".encode()).hexdigest())


def require_sha256(value: Any, name: str = "sha256") -> None:
    """Refuse what is not a SHA-256 in hexadecimal."""
    if not isinstance(value, str) or not re.fullmatch("[0-9a-f]{64}", value):
        raise LedgerError(f"{name}={show(value)}: {name} takes 64 hexadecimal digits.")


def fixed_rule(epsilon: float, delta: float, account: str | None) -> Rule:
    """Return the rule of a ledger on disk, which is fixed when it is opened."""
    return Sums() if account == "sum" or delta == 0 else renyi_rule(epsilon, delta)


# -- reading -------------------------------------------------------------------------------------

_WATCH: ContextVar[Callable[[str], None] | None] = ContextVar("watch", default=None)
PATIENCE = 1.0
"""Seconds of reading after which a line says how far it is, and after which the next one does."""


@contextmanager
def watched(report: Callable[[str], None]) -> Iterator[None]:
    """Within the block, say how far the reading of a long ledger is."""
    before = _WATCH.set(report)
    try:
        yield
    finally:
        _WATCH.reset(before)


def _told(rows: Sequence[LedgerRow], known: int) -> Iterator[tuple[int, LedgerRow]]:
    """Yield the rows that are not known yet, with their numbers, and say how far it is."""
    report, last = _WATCH.get(), time.monotonic()
    for number, row in enumerate(rows[known:], known + 1):
        if report is not None and time.monotonic() - last >= PATIENCE:
            report(f"ledger: {number - 1:,} of {len(rows):,} rows are read")
            last = time.monotonic()
        yield number, row


class RowReader:
    """Reads rows, and of rows that it has read before only the new ones."""

    def __init__(self) -> None:
        self._rows: list[LedgerRow] = []
        self._first: dict[str, Any] = {}
        self._budget: Statement | None = None
        self._allowances: dict[str, Statement] = {}
        self._charges: dict[int, Charge] = {}
        self._changes: list[Change] = []
        self._stated: Entry | None = None  # the first entry that states the column of its persons

    def read(self, rows: Sequence[LedgerRow]) -> Content:
        """Read all rows of a ledger.

        Raises
        ------
        LedgerError
            If there is none, if rows that were read before are gone or others, if a hash does not
            follow from the one before, or if a row does not say what a row says.
        """
        known = len(self._rows)
        if list(rows[:known]) != self._rows:
            raise LedgerError(
                "rows that this process has read are gone or others, as in a backup that was put "
                "back; see which charges are missing before anything is charged"
            )
        for number, row in _told(rows, known):
            head = self._rows[-1].hash if self._rows else ""
            if chained(row.body, head) != row:
                raise LedgerError(f"row {number} does not follow from the one before it")
            try:
                self._take(number, json.loads(row.body))
            except (ValueError, KeyError, TypeError) as error:
                told = str(error) if isinstance(error, GuaranteeError) else "it cannot be read"
                raise LedgerError(f"row {number}: {told.rstrip('.')}") from None
            self._rows.append(row)
        if self._budget is None:
            raise LedgerError("there is no row in it")
        return Content(
            ledger=self._first["ledger"],
            opened=self._first["time"],
            dataset=self._first["dataset"],
            budget=self._budget,
            allowances=dict(self._allowances),
            charges=tuple(self._charges.values()),
            changes=tuple(self._changes),
            rows=len(self._rows),
            head=self._rows[-1].hash,
        )

    def _take(self, number: int, value: Any) -> None:
        kind = value.pop("kind") if isinstance(value, dict) else None
        if kind not in _KEYS or (kind == "opened") != (number == 1):
            raise LedgerError(f"a row of the kind {show(kind)} is not known to this version here")
        if value.keys() != _KEYS[kind] or not _are_texts(value):
            raise LedgerError(f"a row of the kind {kind!r} takes {', '.join(sorted(_KEYS[kind]))}")
        match kind:
            case "opened":
                self._open(value)
            case "charged":
                self._charge(number, value)
            case "released":
                require_sha256(value["sha256"])
                charge = self._charges[value["charge"]]
                first = charge.release or value["sha256"]
                self._charges[charge.number] = replace(charge, release=first)
            case "changed":
                limits = {name: value[name] for name in ("epsilon", "delta")}
                self._budget = replace(self._known, **limits)
                self._changes.append(Change(**value))
            case "allowed":
                own = limit_of(self._known, value["epsilon"], value["delta"])
                if before := self._allowances.get(value["name"]):
                    own = replace(own, rule=before.rule)  # earlier prices were admitted by it
                self._allowances[value["name"]] = own

    @property
    def _known(self) -> Statement:
        assert self._budget is not None  # the first row has it
        return self._budget

    def _open(self, value: dict[str, Any]) -> None:
        if value["format"] != FORMAT or value["version"] not in range(1, VERSION + 1):
            raise LedgerError(
                f"this version of privatelr reads {FORMAT!r} in version {VERSION}; upgrade it"
            )
        budget = statements.from_json(value["budget"])
        if budget.rule is None or budget.entries:
            raise LedgerError("a budget takes a rule, and no entries")
        self._first, self._budget = value, budget

    def _charge(self, number: int, value: dict[str, Any]) -> None:
        entry = entry_from_json(value["entry"])  # events have to account for the guarantee
        # refuses other neighbours, and persons of another column than those before
        stated = (entry,) if self._stated is None else (self._stated, entry)
        replace(self._known, entries=stated)
        self._stated = self._stated or (entry if entry.person is not None else None)
        name = value["allowance"]
        if name is not None and name not in self._allowances:
            raise LedgerError(f"there is no allowance {show(name)}")
        told = (value["time"], entry, name, value["note"], value["privatelr"])
        self._charges[number] = Charge(number, *told)


def _are_texts(value: dict[str, Any]) -> bool:
    """Whether what has to be text is text; an allowance may be none."""
    texts = {"time", "dataset", "note", "privatelr", "reason", "name", "sha256", "hmac", "ledger"}
    named = value.get("allowance")
    given = all(isinstance(value[name], str) for name in texts & value.keys())
    return given and (named is None or isinstance(named, str))


def limit_of(budget: Statement, epsilon: float, delta: float) -> Statement:
    """Return the limit of an allowance within a budget, which counts as the budget does."""
    if isinstance(budget.rule, DeclaredPrices):
        raise GuaranteeError("allowance: a plan of declared prices is spent as a whole, and by all")
    account = "sum" if isinstance(budget.rule, Sums) else None
    own = Statement(epsilon, delta, budget.neighbours)
    return replace(own, rule=fixed_rule(own.epsilon, own.delta, account))
