"""A ledger on disk: rows that are only ever added to one table, in a file or on a server.

A row is a line of JSON and a hash. The hash is that of the line and of the hash before it, so
that a changed row shows. The first row opens the ledger. Other rows are charges, and releases that
were saved. A chain of hashes does not tell where it ends, so row 0 holds the head: the number of
rows, and the hash of the last one.

SQLAlchemy keeps the same table in an SQLite file and in a PostgreSQL database. One transaction
reads all rows, composes them with a charge, and adds its row. It holds the only lock for writing,
which is that of the file, or that of the head on a server. A connection lives for one transaction,
under a lock that `os.fork` waits for. So a child never inherits one.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple
from urllib.parse import quote

import msgspec

from privatelr.errors import (
    GuaranteeError,
    LedgerError,
    MissingDependencyError,
    WrongLedgerError,
)
from privatelr.lazy_import import lazy_import
from privatelr.privacy.accounting import statement as statements
from privatelr.privacy.accounting.ledger_entry import Entry, Receipt
from privatelr.privacy.accounting.statement import Statement, charged, entry_to_json

if TYPE_CHECKING:
    import sqlite3

    import sqlalchemy
else:  # a ledger in memory needs neither
    sqlite3 = lazy_import("sqlite3")
    sqlalchemy = lazy_import("sqlalchemy")

WAIT = 30.0
"""Seconds that a charge waits for other processes."""
LOOK = "`privatelr ledger check` looks at every row"
ADDRESSES: dict[str, str] = {}
"""Addresses of the ledgers that this process has opened, by their names."""
_SEEN: dict[tuple[str, str], tuple[int, str]] = {}
"""The last row that this process has seen of a ledger, by address and name: number and hash."""
_TABLE = "privatelr_ledger"
_BEGIN = {
    "sqlite": ("BEGIN IMMEDIATE",),
    "postgresql": ("SET LOCAL synchronous_commit = on", "SET LOCAL lock_timeout = '{wait}ms'"),
}
_OTHER_VERSION = "this version of privatelr cannot read it, and converts no earlier ledger"
_CONNECTIONS = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_CONNECTIONS.acquire,
        after_in_parent=_CONNECTIONS.release,
        after_in_child=_CONNECTIONS.release,
    )


# -- rows ----------------------------------------------------------------------------------------


class LedgerRow(NamedTuple):
    """One row: a line of JSON, and the hash that ends the chain up to here, in hexadecimal."""

    body: str
    hash: str


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """What the line of a row says."""


class _Opened(_Row, frozen=True, tag="opened"):
    version: Literal[2]
    ledger: str
    time: str
    dataset: str
    budget: dict[str, Any]


class _Charged(_Row, frozen=True, tag="charged"):
    time: str
    entry: dict[str, Any]
    note: str
    privatelr: str


class _Released(_Row, frozen=True, tag="released"):
    """A saved release.

    It has no time: between a charge and its release the data are read, so that the time between
    them would be a function of the data.
    """

    charge: int
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


_DECODER: msgspec.json.Decoder[_Opened | _Charged | _Released] = msgspec.json.Decoder(
    _Opened | _Charged | _Released
)


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
    note: str
    software: str
    release: str | None = None


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
        What it is about, in the words of the person who opened it.
    statement : Statement
        The budget, its rule and all entries.
    charges : tuple of Charge
    rows : tuple of LedgerRow
    """

    ledger: str
    opened: str
    dataset: str
    statement: Statement
    charges: tuple[Charge, ...]
    rows: tuple[LedgerRow, ...]

    @property
    def head(self) -> str:
        """The hash of the last row."""
        return self.rows[-1].hash


def chained(body: str, head: str) -> LedgerRow:
    """Return the row of a line that follows the row with this hash."""
    return LedgerRow(body, hashlib.sha256(f"{head}\n{body}".encode()).hexdigest())


def _line(row: _Row) -> str:
    """Write the line of a row; raises `LedgerError` if a text in it has no form in UTF-8."""
    try:
        return json.dumps(json.loads(msgspec.json.encode(row)), sort_keys=True)
    except UnicodeEncodeError:
        raise LedgerError(
            "ledger: a text for it holds bytes that are not UTF-8; write it in UTF-8, or in ASCII."
        ) from None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@lru_cache(maxsize=1 << 14)  # each charge reads all rows
def _read(body: str) -> Charge | _Opened | _Released:
    row = _DECODER.decode(body)
    if not isinstance(row, _Charged):
        return row
    entry = statements.entry_from_json(row.entry)  # its events have to account for its guarantee
    return Charge(0, row.time, entry, row.note, row.privatelr)


def content_of(rows: Sequence[LedgerRow]) -> Content:
    """Read all rows; raises `LedgerError` if one of them does not say what a row says."""
    charges: dict[int, Charge] = {}
    first: _Opened | None = None
    for number, row in enumerate(rows, 1):
        try:
            match _read(row.body):
                case _Opened() as opened if number == 1:
                    first, budget = opened, statements.from_json(opened.budget)
                case Charge() as charge if number > 1:
                    charges[number] = replace(charge, number=number)
                case _Released(charge=at, sha256=sha256) if number > 1:
                    charges[at] = replace(charges[at], release=charges[at].release or sha256)
                case _:
                    raise KeyError(number)
        except GuaranteeError as error:
            raise LedgerError(f"row {number}: {str(error).rstrip('.')}") from None
        except (msgspec.MsgspecError, KeyError):
            raise LedgerError(f"row {number}: {_OTHER_VERSION}") from None
    if first is None:
        raise LedgerError("there is no row in it")
    try:  # refuses other neighbours, and persons of several columns
        statement = replace(budget, entries=tuple(one.entry for one in charges.values()))
    except GuaranteeError as error:
        raise LedgerError(str(error).rstrip(".")) from None
    told = (first.ledger, first.time, first.dataset)
    return Content(*told, statement, tuple(charges.values()), tuple(rows))


# -- what is wrong with rows ---------------------------------------------------------------------

StoredRows = Sequence[tuple[int, str, str]]
"""Numbers, lines and hashes as they stand in the table, in the order of the numbers."""


def rows_of(stored: StoredRows) -> list[LedgerRow]:
    """Return all rows but the head."""
    return [LedgerRow(body, hashed) for number, body, hashed in stored if number != 0]


def faults_of(stored: StoredRows) -> Iterator[str]:
    """Yield part of a sentence for each row that is out of place, or that was changed."""
    numbers = [number for number, *_ in stored if number != 0]
    rows, last = rows_of(stored), ""
    for at, (number, row) in enumerate(zip(numbers, rows, strict=True), 1):
        if number != at:
            yield f"row {at} has the number {number}: it was renumbered, or a row before it is gone"
        if chained(row.body, last) != row:
            yield f"row {at} does not follow from the one before it: it or its hash was changed"
        last = row.hash
    heads = [(body, hashed) for number, body, hashed in stored if number == 0]
    if heads != [(str(len(rows)), last)]:
        yield (
            f"the head does not say that row {len(rows)} is the last, of this hash: rows at the "
            "end or the head were changed or are gone"
        )


def findings(stored: StoredRows, head: str | None = None) -> Iterator[str]:
    """Check every place, hash, event and composition; yields what is wrong.

    Within one budget charges only add up. So what fits at the end did fit at every charge.
    """
    yield from faults_of(stored)
    rows = rows_of(stored)
    try:
        if not statements.is_within(content_of(rows).statement):
            yield "the charges are more than the budget"
    except LedgerError as error:
        yield str(error)
    if head is not None and head not in {row.hash for row in rows}:
        yield (
            f"no row has the hash {head[:12]} that was noted as the head: rows up to it were "
            "changed or are gone"
        )


# -- files and databases -------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _table() -> sqlalchemy.Table:
    text = sqlalchemy.Text
    return sqlalchemy.Table(
        _TABLE,
        sqlalchemy.MetaData(),
        sqlalchemy.Column("number", sqlalchemy.Integer, primary_key=True, autoincrement=False),
        sqlalchemy.Column("body", text, nullable=False),
        sqlalchemy.Column("hash", text, nullable=False),
    )


def is_server(address: str) -> bool:
    """Whether a text is the address of a server, or may be meant as one, and not that of a file.

    It may hold a password. A file of such a name has its whole path, or a dot in front.
    """
    is_file = address.startswith(".") or (os.path.isabs(address) and address[:2] != "//")
    return "://" in address or (not is_file and not {*"@=:;"}.isdisjoint(address))


def shown(address: str) -> str:
    """Return an address as errors quote it. That of a server is without its user and query."""
    if is_server(address):
        url = sqlalchemy.make_url(address)
        place = sqlalchemy.URL.create(url.drivername, None, None, url.host, url.port, url.database)
        address = str(place)
    return repr(address)


@lru_cache(maxsize=16)
def _engine(address: str) -> sqlalchemy.Engine:
    """Return the way to connect; without a pool, so that a connection lives for a transaction."""
    pool = sqlalchemy.pool.NullPool
    if not is_server(address):
        connect = partial(_open_file, address)
        return sqlalchemy.create_engine("sqlite://", creator=connect, poolclass=pool)
    with suppress(sqlalchemy.exc.ArgumentError, ValueError):  # the latter of a wrong port
        url = sqlalchemy.make_url(address)
        # an @ in a host is the end of a password that was not escaped
        if url.get_backend_name() == "postgresql" and "@" not in (url.host or ""):
            try:
                return sqlalchemy.create_engine(url, poolclass=pool)
            except ImportError as error:
                raise MissingDependencyError(
                    f"ledger {shown(address)}: its driver is not installed ({error.name}); `pip "
                    "install 'privatelr[server]'` brings psycopg, and postgresql+psycopg:// names "
                    "it."
                ) from None
    raise WrongLedgerError(
        "ledger: takes the path of a file (./a=b for the name a=b), or the URL of a PostgreSQL "
        "database such as postgresql+psycopg://user@host/clinic (with %40 for an @ in a password)."
    )


def _open_file(path: str) -> sqlite3.Connection:
    with open(path, "rb"):  # says what is wrong with a path in words of the system
        pass
    place = f"file:{quote(path)}?mode=rw"
    connection = sqlite3.connect(place, uri=True, timeout=WAIT, isolation_level=None)
    # FULL, and the folder as well: else a journal whose deletion was not yet on the disk would
    # come back after a power cut, and would undo a charge after its data were read
    connection.execute("PRAGMA synchronous = EXTRA")
    connection.execute("PRAGMA fullfsync = ON")  # macOS
    return connection


@contextmanager
def _connected(address: str, *, writing: bool = False) -> Iterator[sqlalchemy.Connection]:
    """Connect for one transaction, which leaves nothing without a commit."""
    with _CONNECTIONS:
        try:
            with _engine(address).connect() as connection:
                for command in _BEGIN[connection.dialect.name] if writing else ():
                    connection.exec_driver_sql(command.format(wait=int(1000 * WAIT)))
                yield connection
        except (sqlalchemy.exc.DBAPIError, OSError) as error:
            cause = error.orig if isinstance(error, sqlalchemy.exc.DBAPIError) else error
            kind, told = _reason(cause, writing)
            raise kind(f"ledger {shown(address)}: {told}.") from None


def _reason(error: BaseException | None, writing: bool) -> tuple[type[LedgerError], str]:
    """Say why a file or a server does not do what is asked, and what is left of a charge."""
    code = getattr(error, "sqlite_errorcode", None)
    state = getattr(error, "sqlstate", None)
    lines = (getattr(error, "strerror", None) or str(error)).strip().splitlines()
    reason = lines[0].rstrip(".") if lines else "no reason was given"
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        told = "there is no such ledger; Ledger.create or `privatelr ledger create` makes one"
        return WrongLedgerError, told
    if (code or 0) & 0xFF == sqlite3.SQLITE_BUSY or state == "55P03":
        told = f"another process has held it for {WAIT:g} seconds; nothing was charged"
        return LedgerError, told
    if writing and code != sqlite3.SQLITE_NOTADB:
        told = f"it cannot be written ({reason}); no data were read, and the charge may count"
        return LedgerError, told
    if isinstance(error, sqlite3.Error) or state == "42P01":
        remedy = (
            "put a copy of a damaged one back, and open a new one for one of an earlier version"
        )
        return WrongLedgerError, f"there is no sound ledger in it ({reason}); {remedy}"
    kind = WrongLedgerError if isinstance(error, OSError) else LedgerError
    return kind, f"it cannot be read ({reason.lower()})"


def _read_table(connection: sqlalchemy.Connection) -> StoredRows:
    table = _table()
    found = connection.execute(sqlalchemy.select(table).order_by(table.c.number))
    return [(number, body, hashed) for number, body, hashed in found]


def table_at(address: str) -> StoredRows:
    """Return all rows as they stand in the table, whatever is wrong with them."""
    with _connected(address) as connection:
        return _read_table(connection)


def create(address: str, budget: Statement, dataset: str) -> None:
    """Create a ledger with its first row, in a new file or in a database that has none.

    The owner of the file may read and write it, and the group as the umask says; others may not.

    Raises
    ------
    LedgerError
        If there is such a file or ledger, or if it cannot be written.
    """
    opened = _Opened(
        version=2,
        ledger=secrets.token_hex(16),
        time=_now(),
        dataset=dataset,
        budget=statements.to_json(budget),
    )
    row = chained(_line(opened), "")
    if not is_server(address):
        try:
            os.close(os.open(address, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o660))
        except OSError as error:
            told = f"it cannot be created ({str(error.strerror).lower()})"
            if isinstance(error, FileExistsError):
                told = "there is such a file or folder, and a ledger replaces none"
            raise LedgerError(f"ledger {shown(address)}: {told}.") from None
    table = _table()
    try:
        with _connected(address, writing=True) as connection:
            if sqlalchemy.inspect(connection).has_table(_TABLE):
                told = "the database has a ledger, and a ledger replaces none"
                raise LedgerError(f"ledger {shown(address)}: {told}.")
            table.create(connection)
            for number, (body, hashed) in enumerate((LedgerRow("1", row.hash), row)):
                connection.execute(table.insert().values(number=number, body=body, hash=hashed))
            connection.commit()
    except BaseException:
        if not is_server(address):
            os.unlink(address)
        raise


# -- the book of a ledger ------------------------------------------------------------------------


class DiskBook:
    """Entries in a file or in a database, which is asked anew each time."""

    is_on_disk = is_kept = True

    def __init__(self, address: str, note: str = "") -> None:
        self.address, self.note, self.key = address, note, ""
        self.key = self.content().ledger
        ADDRESSES[self.key] = address

    def require_kept(self) -> None:
        """Every process may charge it."""

    @property
    def statement(self) -> Statement:
        """The budget and all entries, also of other processes."""
        return self.content().statement

    def content(self) -> Content:
        """Read all that is there; raises `LedgerError`."""
        with _CONNECTIONS:  # no other thread charges it before it is compared with what was seen
            return self._read(table_at(self.address))

    def _read(self, stored: StoredRows) -> Content:
        """Read rows; raises `LedgerError` if they are not sound, or not those of this ledger."""
        for fault in faults_of(stored):
            raise WrongLedgerError(self._sentence(f"{fault}; {LOOK}"))
        try:
            content = content_of(rows_of(stored))
        except LedgerError as error:
            raise WrongLedgerError(self._sentence(f"{error}; {LOOK}")) from None
        if self.key not in ("", content.ledger):
            raise WrongLedgerError(self._sentence("another ledger has taken its place"))
        place = self.address, content.ledger
        count, hashed = _SEEN.get(place, (1, content.rows[0].hash))
        if [row.hash for row in content.rows[count - 1 : count]] != [hashed]:
            told = (
                "rows that this process has read are gone or others, as in a backup that was put "
                "back; see which charges are missing before anything is charged"
            )
            raise WrongLedgerError(self._sentence(f"{told}; {LOOK}"))
        _SEEN[place] = len(content.rows), content.head
        return content

    @contextmanager
    def exclusively(self) -> Iterator[DiskPage]:
        """Open it for a charge; no other process can charge it meanwhile."""
        with _connected(self.address, writing=True) as connection:
            head = sqlalchemy.select(_table()).where(_table().c.number == 0)
            connection.execute(head.with_for_update())  # the lock of a server
            yield DiskPage(self, connection, self._read(_read_table(connection)))

    def release(self, receipt: Receipt, sha256: str) -> None:
        """Note a saved release by its charge.

        Raises
        ------
        LedgerError
            If the charge is not there, or another release was noted.
        """
        with self.exclusively() as page:
            found = [row.hash for row in page.content.rows[receipt.row - 1 : receipt.row]]
            if (self.key, found) != (receipt.ledger, [receipt.head]):
                raise LedgerError(self._sentence("it has no such charge"))
            (first,) = (one.release for one in page.content.charges if one.number == receipt.row)
            if first is None:
                page.append(_Released(receipt.row, sha256))
                page.commit()
            elif first != sha256:
                told = f"row {receipt.row} was saved as {first[:12]} before, and this file has "
                raise LedgerError(self._sentence(f"{told}another hash"))

    def _sentence(self, told: str) -> str:
        return f"ledger {shown(self.address)}: {told}."


class DiskPage:
    """A ledger on disk while nobody else can add to it."""

    def __init__(self, book: DiskBook, connection: sqlalchemy.Connection, content: Content) -> None:
        self._book, self._connection, self.content = book, connection, content
        self._last, self._count = content.rows[-1], len(content.rows)

    def add(self, entry: Entry) -> None:
        """Add an entry; raises `GuaranteeError` if it does not fit."""
        charged(self.content.statement, entry)
        software = sys.modules["privatelr"].__version__  # an import of it would go upward
        self.append(_Charged(_now(), entry_to_json(entry), self._book.note, software))

    def append(self, row: _Row) -> None:
        """Add a row, and move the head."""
        table = _table()
        self._last, self._count = chained(_line(row), self._last.hash), self._count + 1
        body, hashed = self._last
        added = table.insert().values(number=self._count, body=body, hash=hashed)
        moved = table.update().where(table.c.number == 0)
        self._connection.execute(added)
        self._connection.execute(moved.values(body=str(self._count), hash=hashed))

    def commit(self) -> Receipt:
        """Put what was added on the disk."""
        self._connection.commit()
        _SEEN[self._book.address, self._book.key] = self._count, self._last.hash
        return Receipt(self._book.key, self.content.dataset, self._count, self._last.hash)


def complete(entry: Entry | None, sha256: str) -> list[str]:
    """Tell the ledgers of a charge that its release was saved; returns what they could not do.

    A ledger that this process has not opened is not told. What is known already is not told again.
    """
    refused = []
    for receipt in () if entry is None else entry.receipts:
        try:
            if address := ADDRESSES.get(receipt.ledger):
                DiskBook(address).release(receipt, sha256)
        except LedgerError as error:
            refused.append(str(error))
    return refused


def is_database(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a database of SQLite, as ledgers are.

    It waits for the connections of this process, because closing any descriptor of a file gives
    all locks back that the process has on it.
    """
    magic = b"SQLite format 3\0"
    with _CONNECTIONS, suppress(OSError), open(path, "rb") as file:
        return file.read(len(magic)) == magic
    return False
