"""Where a ledger keeps its entries: in this process, or on disk for all that come to it."""

from __future__ import annotations

import json
import os
import platform
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from privatelr.errors import (
    ArgumentError,
    GuaranteeError,
    LedgerError,
    WrongLedgerError,
    show,
)
from privatelr.lazy_import import lazy_import
from privatelr.privacy.accounting.filters import DeclaredPrices
from privatelr.privacy.accounting.ledger_entry import Entry, Receipt
from privatelr.privacy.accounting.statement import Statement, charged, is_within, spent

if TYPE_CHECKING:
    import getpass

    from privatelr.privacy.accounting import ledger_file, ledger_rows, ledger_server
    from privatelr.privacy.accounting.ledger_file import Store, Transaction
    from privatelr.privacy.accounting.ledger_rows import Content, LedgerRow, RowReader
else:  # a ledger in memory needs none of them
    getpass = lazy_import("getpass")
    ledger_file = lazy_import("privatelr.privacy.accounting.ledger_file")
    ledger_rows = lazy_import("privatelr.privacy.accounting.ledger_rows")
    ledger_server = lazy_import("privatelr.privacy.accounting.ledger_server")

ELSEWHERE = (
    "ledger: it is kept in another process, and this one can only read it; charge it there "
    "(threads share it), or resume it with Ledger.from_json(ledger.to_json()) once that process "
    "is gone; a ledger on disk (Ledger.create) is charged by all processes."
)
ADDRESSES: dict[str, str] = {}
"""Where the ledgers are kept that this process has opened, by their names."""


class Page(Protocol):
    """A ledger while nobody else can charge it."""

    def add(self, entry: Entry) -> None:
        """Add an entry; raises `GuaranteeError` if it does not fit."""

    def commit(self) -> Receipt | None:
        """Keep what was added."""


# -- in memory -----------------------------------------------------------------------------------


class MemoryBook:
    """Entries in one process; others have a copy that refuses charges."""

    is_on_disk = False
    allowance = None

    def __init__(self, statement: Statement, key: str = "", keeper: int | None = None) -> None:
        self.statement, self.keeper = statement, keeper
        self.key = key or uuid.uuid4().hex

    @property
    def is_kept(self) -> bool:
        """Whether this process keeps the entries."""
        return self.keeper == os.getpid()

    def require_kept(self) -> None:
        """Refuse what this process cannot charge.

        It is asked before the lock, which another thread may have held when this process forked.
        """
        if not self.is_kept:
            raise GuaranteeError(ELSEWHERE)

    def statements(self) -> tuple[Statement, ...]:
        """Return what a charge has to fit."""
        return (self.statement,)

    @contextmanager
    def exclusively(self) -> Iterator[Page]:
        """Open the entries for a charge, under the lock of all ledgers."""
        yield _MemoryPage(self)


class _MemoryPage:
    def __init__(self, book: MemoryBook) -> None:
        self._book, self._after = book, book.statement

    def add(self, entry: Entry) -> None:
        self._after = charged(self._after, entry)

    def commit(self) -> None:
        self._book.statement = self._after


# -- on disk -------------------------------------------------------------------------------------


class DiskBook:
    """Entries in a file or in a database, which is asked anew each time."""

    is_on_disk = is_kept = True

    def __init__(self, store: Store, allowance: str | None = None, note: str = "") -> None:
        self.store, self.allowance, self.note, self.key = store, allowance, note, ""
        content = self.content()
        self.key = content.ledger
        if allowance is not None and allowance not in content.allowances:
            raise WrongLedgerError(self._sentence(f"there is no allowance {allowance!r}"))
        ADDRESSES[self.key] = store.address

    def require_kept(self) -> None:
        """Every process may charge it."""

    def content(self) -> Content:
        """Read all that is there, also by other processes; raises `LedgerError`."""
        return self.read(self.store.rows())

    def statements(self) -> tuple[Statement, ...]:
        """Return what a charge has to fit: the whole, and the allowance it is made to."""
        return self.content().statements(self.allowance)

    def read(self, rows: Sequence[LedgerRow]) -> Content:
        """Read rows; raises `LedgerError` if they are not those of this ledger."""
        name = _name_of(rows)
        if self.key not in ("", name):
            raise WrongLedgerError(self._sentence("another ledger has taken its place"))
        try:
            with ledger_file.CONNECTIONS.lock:
                return _reader(self.store.address, name).read(rows)
        except LedgerError as error:
            raise WrongLedgerError(self._sentence(f"{error}; {ledger_rows.LOOK}")) from None

    @contextmanager
    def exclusively(self) -> Iterator[DiskPage]:
        """Open it for a charge; no other process can charge it meanwhile."""
        with self.store.exclusively() as transaction:
            yield DiskPage(self, transaction, self.read(transaction.rows()))

    def release(self, row: int, sha256: str) -> None:
        """Note a saved release by its charge; raises `LedgerError` if another one was noted."""
        with self.exclusively() as page:
            (first,) = (one.release for one in page.content.charges if one.number == row)
            if first is None:
                page.put("released", charge=row, sha256=sha256)
            elif first != sha256:
                told = f"row {row} was saved as {first[:12]} before, and this file has another hash"
                raise LedgerError(self._sentence(told))

    def change(self, epsilon: float, delta: float | None, reason: str) -> None:
        """Change the budget; raises `GuaranteeError` if the charges do not fit into it."""
        with self.exclusively() as page:
            now = page.content.budget
            if isinstance(now.rule, DeclaredPrices):
                raise GuaranteeError("change_budget: a plan of declared prices is not changed.")
            whole, rest = page.content.statements()[0], now.delta if delta is None else delta
            changed = replace(whole, epsilon=epsilon, delta=rest)
            if not is_within(changed):
                raise GuaranteeError(_is_spent("change_budget", changed))
            page.put("changed", epsilon=changed.epsilon, delta=changed.delta, reason=reason)

    def allow(self, name: str, epsilon: float, delta: float) -> None:
        """Give an allowance, or change it."""
        with self.exclusively() as page:
            whole = page.content.budget
            own = ledger_rows.limit_of(whole, epsilon, delta)
            if own.epsilon > whole.epsilon or own.delta > whole.delta:
                raise GuaranteeError(
                    f"allowance {name!r}: takes at most the budget, which is epsilon "
                    f"{whole.epsilon:.6g}, delta {whole.delta:.6g}."
                )
            if name in page.content.allowances:
                own = replace(
                    page.content.statements(name)[-1], epsilon=own.epsilon, delta=own.delta
                )
                if not is_within(own):
                    raise GuaranteeError(_is_spent(f"allowance {name!r}", own))
            page.put("allowed", name=name, epsilon=own.epsilon, delta=own.delta)

    def _sentence(self, told: str) -> str:
        return f"ledger {ledger_file.shown(self.store.address)}: {told}."


class DiskPage:
    """A ledger on disk while nobody else can add to it."""

    def __init__(self, book: DiskBook, transaction: Transaction, content: Content) -> None:
        self._book, self.transaction, self.content = book, transaction, content
        self._last: LedgerRow | None = None

    def add(self, entry: Entry) -> None:
        """Add an entry; raises `GuaranteeError` if it does not fit."""
        whole, *limits = self.content.statements(self._book.allowance)
        charged(whole, entry)
        for limit in limits:
            try:
                charged(limit, entry)
            except GuaranteeError as error:
                told = str(error).removeprefix("ledger: ")
                raise GuaranteeError(f"allowance {self._book.allowance!r}: {told}") from None
        body = ledger_rows.charging(entry, self._book.allowance, self._book.note)
        self._last = self.transaction.append(body)

    def put(self, kind: str, **content: Any) -> None:
        """Put a row that is no charge on the disk."""
        timed = {} if kind == "released" else {"time": ledger_rows.now()}
        self.transaction.append(ledger_rows.body_of(kind, **timed, **content))
        self._commit()

    def commit(self) -> Receipt | None:
        """Put what was added on the disk."""
        rows = len(self.transaction.rows())
        self._commit()
        assert self._last is not None  # a charge was added
        return Receipt(self._book.key, self.content.dataset, rows, self._last.hash)

    def _commit(self) -> None:
        self.transaction.commit()
        self._book.read(self.transaction.rows())  # so that it is missed if it is gone next time


@lru_cache(maxsize=8)
def _reader(address: str, name: str) -> RowReader:
    """Return the reader of a ledger, which has read its earlier rows already."""
    return ledger_rows.RowReader()


def _is_spent(what: str, limit: Statement) -> str:
    """Say that a limit may not become less than what was charged to it."""
    used = spent(limit, limit.delta)
    return f"{what}: epsilon {used:.6g} is spent already, and no charge is taken back."


def _name_of(rows: Sequence[LedgerRow]) -> str:
    """Return the name in the first row; empty if there is none, which the reader will refuse."""
    try:
        return str(json.loads(rows[0].body)["ledger"])
    except (LookupError, ValueError, TypeError):
        return ""


def store_at(address: str | os.PathLike[str]) -> Store:
    """Return the place of rows at an address: a path, or the URL of a database."""
    text = os.fsdecode(address)
    is_server = ledger_file.is_address(text)
    return ledger_server.LedgerServer(text) if is_server else ledger_file.LedgerFile(text)


def create(address: str, body: str) -> str:
    """Create a ledger with its first row; returns its whole address."""
    if ledger_file.is_address(address):
        ledger_server.create(address, body)
        return address
    ledger_file.create(address, body)
    return os.path.realpath(address)


def note_of(note: str | bool | None) -> str:
    """Return what charges are noted with: a sentence, or for True the user and the host."""
    if isinstance(note, str):
        return note
    if not isinstance(note, bool | None):
        raise ArgumentError(
            f"note={show(note)}: note takes text, or True for the names of the user and the host."
        )
    if not note:
        return ""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container may have no name for its user
        user = f"user {os.getuid()}" if hasattr(os, "getuid") else "user"
    told = f"{user}@{platform.node()}"
    return told.encode(errors="surrogateescape").decode(errors="replace")  # of the C locale


def complete(entry: Entry | None, sha256: str) -> list[str]:
    """Tell the ledgers of a charge that its release was saved; returns what they could not do.

    A ledger that this process has not opened is not told. What is known already is not told again.
    """
    refused = []
    for receipt in () if entry is None else entry.receipts:
        address = ADDRESSES.get(receipt.ledger)
        if address is None:
            continue
        try:
            book = DiskBook(store_at(address))
            known = {charge.number: charge for charge in book.content().charges}.get(receipt.row)
            if known is not None and known.release != sha256 and book.key == receipt.ledger:
                book.release(receipt.row, sha256)
        except LedgerError as error:
            refused.append(str(error))
    return refused
