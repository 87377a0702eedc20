"""The file of a ledger on disk, an SQLite database, and how rows get into it: whole, or not at all.

A transaction begins by taking the only lock for writing, so that nobody else can add a row between
reading and writing. It ends when the row is on the disk. Connections are opened for one
transaction and closed after it, under a lock of this process that `os.fork` waits for. So a forked
child never has a connection of its parent, nor what SQLite remembers of one.
"""

from __future__ import annotations

import os
import random
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import quote

from privatelr.errors import LedgerError, WrongLedgerError
from privatelr.lazy_import import lazy_import
from privatelr.privacy.accounting.ledger_checks import in_place
from privatelr.privacy.accounting.ledger_rows import LOOK, LedgerRow, chained

if TYPE_CHECKING:
    import sqlite3
else:
    sqlite3 = lazy_import("sqlite3")

T = TypeVar("T")
WAIT = 30.0
"""Seconds that a charge waits for other processes."""
_LONGEST_NAP = 0.02
_MARK = 0x70_6C_72_6C
"""The application id of a ledger among SQLite databases."""
_SCHEMA = 1
_MAGIC = b"SQLite format 3\0"
_TABLES = """
CREATE TABLE rows (number INTEGER PRIMARY KEY, body TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TRIGGER kept BEFORE DELETE ON rows
    BEGIN SELECT RAISE(ABORT, 'no row of a ledger is deleted'); END;
CREATE TRIGGER fixed BEFORE UPDATE ON rows
    WHEN OLD.number <> 0 OR NEW.number <> 0
        OR CAST(NEW.body AS INTEGER) <> CAST(OLD.body AS INTEGER) + 1
    BEGIN SELECT RAISE(ABORT, 'no row of a ledger is changed'); END;
CREATE TRIGGER following BEFORE INSERT ON rows
    WHEN NEW.number <> (SELECT CAST(body AS INTEGER) + 1 FROM rows WHERE number = 0)
    BEGIN SELECT RAISE(ABORT, 'a row of a ledger follows the last one'); END;
CREATE TRIGGER headed AFTER INSERT ON rows WHEN NEW.number > 0
    BEGIN UPDATE rows SET body = NEW.number, hash = NEW.hash WHERE number = 0; END;
"""
"""The row of the number 0 holds the head, which moves with each row that is added."""
_NO_LEDGER = "the file is not a ledger"
_DAMAGED = (
    "the file is damaged; put a copy in its place, and see with `privatelr ledger check`, --head "
    "and the saved models which charges are not in the copy"
)
_DAMAGE = (
    "the database in the file is damaged; put a copy in its place, and check it with --head and "
    "the saved models"
)
_NOT_CHARGED = "it cannot be read or written ({}); nothing was charged"
HEAD = "SELECT body, hash FROM rows WHERE number = 0"
_OVER_NETWORK = """
9p afs afpfs beegfs ceph cifs fuse.ceph fuse.glusterfs fuse.s3fs fuse.sshfs gfs2 glusterfs gpfs
lustre nfs nfs4 ocfs2 smb2 smb3 smbfs virtiofs
"""
"""File systems over a network, whose locks SQLite warns of."""


class _OneAtATime:
    """A lock that a fork waits for, so that no child inherits an open connection."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=lambda: self.lock.acquire(),
                after_in_parent=lambda: self.lock.release(),
                after_in_child=self._renew,
            )

    def _renew(self) -> None:
        self.lock = threading.RLock()


CONNECTIONS = _OneAtATime()


class Transaction(Protocol):
    """A time in which nobody else can add a row; without `commit` nothing was added."""

    def rows(self) -> Sequence[LedgerRow]: ...
    def append(self, body: str) -> LedgerRow: ...
    def commit(self) -> None: ...


class Store(Protocol):
    """A place of rows.

    Attributes
    ----------
    address : str
        By this another process finds the same place.
    """

    @property
    def address(self) -> str: ...
    def rows(self) -> Sequence[LedgerRow]: ...
    def exclusively(self) -> Any: ...  # a context with a Transaction
    def inspect(self) -> tuple[Sequence[LedgerRow], Sequence[str]]: ...  # and what is wrong


# -- SQLite --------------------------------------------------------------------------------------


class LedgerFile:
    """A ledger in a file of this machine."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.path.realpath(path)
        with _told(self._path):
            try:
                os.stat(self._path)
            except (FileNotFoundError, NotADirectoryError):
                raise WrongLedgerError(
                    f"ledger {shown(self._path)}: there is no such ledger; Ledger.create or "
                    "`privatelr ledger create` makes one."
                ) from None

    @property
    def address(self) -> str:
        """The whole path of the file."""
        return self._path

    def rows(self) -> list[LedgerRow]:
        """Return all rows; raises `LedgerError` if the file is no ledger or cannot be read."""
        with _told(self._path), self._open() as connection:
            return rows_of(self._path, _patiently(self._path, lambda: _table(connection)))

    @contextmanager
    def exclusively(self) -> Iterator[_FileTransaction]:
        """Begin a transaction that excludes all others; without a commit it leaves nothing."""
        with _told(self._path, _NOT_CHARGED, LedgerError), self._open() as connection:
            _patiently(self._path, lambda: connection.execute("BEGIN IMMEDIATE"))
            try:
                yield _FileTransaction(self._path, connection)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def inspect(self) -> tuple[list[LedgerRow], list[str]]:
        """Return all rows, and what is wrong with the file, its triggers, and their places."""
        with _told(self._path), self._open() as connection:
            look = partial(connection.execute, "PRAGMA integrity_check(20)")
            told = [*_patiently(self._path, look)]
            table = _patiently(self._path, lambda: _table(connection))
            changed = {kind_and_name for kind_and_name, _ in _made_of(connection) ^ _sound()}
        rows, faults = in_place(table)
        guards = [
            f"the {kind} {shown(name)} of the database is gone, changed or new"
            for kind, name in sorted(changed)
        ]
        return rows, [*([] if told == [("ok",)] else [_DAMAGE]), *guards, *faults]

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with CONNECTIONS.lock:
            connection = _connect(self._path)
            try:
                _patiently(self._path, lambda: _require_ledger(self._path, connection))
                yield connection
            finally:
                connection.close()


class _FileTransaction:
    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        self._path, self._connection = path, connection
        self._found = rows_of(path, _table(connection))

    def rows(self) -> list[LedgerRow]:
        return list(self._found)

    def append(self, body: str) -> LedgerRow:
        row = chained(body, self._found[-1].hash if self._found else "")
        self._found.append(row)
        given = (len(self._found), *row)
        self._connection.execute("INSERT INTO rows VALUES (?, ?, ?)", given)
        require_moved(self._path, self._connection.execute(HEAD).fetchall(), self._found)
        return row

    def commit(self) -> None:
        _patiently(self._path, lambda: self._connection.execute("COMMIT"))


def create(path: str | os.PathLike[str], body: str) -> None:
    """Create the file of a ledger with its first row: complete, and never over another file.

    Its owner, and whoever the umask grants it among its group, may read and write it; others may
    not.

    Raises
    ------
    LedgerError
        If there is such a file, or if it cannot be written.
    """
    target = os.path.realpath(path)
    kind = "folder" if os.path.isdir(target) else "file"
    there = f"ledger {shown(target)}: there is such a {kind}, and a ledger replaces none."
    folder, name = os.path.split(target)
    if os.path.lexists(target):
        raise LedgerError(there)
    made = os.path.join(folder, f".{name}.{secrets.token_hex(8)}.tmp")
    with _told(target, "it cannot be created ({})", LedgerError), CONNECTIONS.lock:
        os.close(os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o660))
        try:
            _fill(made, body)
            try:
                os.link(made, target)
            except FileExistsError:
                raise LedgerError(there) from None
            except OSError:  # without hard links: an empty file reserves the name, and is replaced
                os.close(os.open(target, os.O_CREAT | os.O_EXCL))
                os.replace(made, target)
            _sync(folder)
        finally:
            with suppress(OSError):
                os.unlink(made)


def _fill(path: str, body: str) -> None:
    connection = _connect(path)
    try:
        _prepare(connection)
        script = f"PRAGMA application_id = {_MARK}; PRAGMA user_version = {_SCHEMA};"
        connection.executescript(f"BEGIN; {script} {_TABLES} COMMIT;")
        for row in ((0, "0", ""), (1, *chained(body, ""))):
            connection.execute("INSERT INTO rows VALUES (?, ?, ?)", row)
    finally:
        connection.close()


def _connect(path: str) -> sqlite3.Connection:
    """Open a file that exists; `_patiently` waits for others, so that Ctrl-C is heard meanwhile."""
    address = f"file:{quote(path)}?mode=rw"
    return sqlite3.connect(address, uri=True, timeout=0, isolation_level=None)


def _prepare(connection: sqlite3.Connection) -> None:
    # FULL, and the folder as well: else a journal whose deletion was not yet on the disk would
    # come back after a power cut, and would undo a charge after its data were read
    connection.execute("PRAGMA synchronous=EXTRA")
    connection.execute("PRAGMA fullfsync=ON")  # macOS


def _require_ledger(path: str, connection: sqlite3.Connection) -> None:
    _prepare(connection)
    (mark,) = connection.execute("PRAGMA application_id").fetchone()
    (schema,) = connection.execute("PRAGMA user_version").fetchone()
    if mark != _MARK:
        raise WrongLedgerError(f"ledger {shown(path)}: {_NO_LEDGER}.")
    if schema > _SCHEMA:
        raise WrongLedgerError(
            f"ledger {shown(path)}: a newer version of privatelr made it (schema {schema}, and "
            f"this one reads up to {_SCHEMA}); upgrade privatelr."
        )


def _table(connection: sqlite3.Connection) -> list[tuple[int, str, str]]:
    found = connection.execute("SELECT number, body, hash FROM rows ORDER BY number")
    return plain_rows(found)


def _made_of(connection: sqlite3.Connection) -> set[tuple[tuple[str, str], str]]:
    """Return the tables and triggers of a database: kind, name, and how each was made."""
    found = connection.execute("SELECT type, name, sql FROM sqlite_master")
    return {((str(kind), str(name)), str(sql)) for kind, name, sql in found}


def _sound() -> set[tuple[tuple[str, str], str]]:
    """Return the tables and triggers of a ledger."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(_TABLES)
        return _made_of(connection)


def plain_rows(found: Iterable[Any]) -> list[tuple[int, str, str]]:
    """Return rows as numbers and texts; a number that is none is that of no row."""
    return [
        (number if isinstance(number, int) else -1, str(body), str(hashed))
        for number, body, hashed in found
    ]


def rows_of(address: str, table: Sequence[tuple[int, str, str]]) -> list[LedgerRow]:
    """Return the rows of a table; raises `LedgerError` if they or the head are out of place."""
    rows, faults = in_place(table)
    for fault in faults:
        raise WrongLedgerError(f"ledger {shown(address)}: {fault}; {LOOK}.")
    return rows


def require_moved(address: str, heads: Sequence[Any], rows: Sequence[LedgerRow]) -> None:
    """Refuse a row that was added without moving the head, which a trigger of the table does."""
    if [(str(body), str(hashed)) for body, hashed in heads] != [(str(len(rows)), rows[-1].hash)]:
        raise WrongLedgerError(
            f"ledger {shown(address)}: a trigger of the database is gone, and nothing was charged; "
            f"{LOOK}."
        )


def _patiently(path: str, action: Callable[[], T]) -> T:
    """Do what may find the file locked, again and again for `WAIT` seconds."""
    last = time.monotonic() + WAIT
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            # the low byte of a code is its kind
            if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY:
                raise
        if time.monotonic() > last:
            raise LedgerError(
                f"ledger {shown(path)}: another process has held it for {WAIT:g} seconds; nothing "
                "was charged."
            )
        time.sleep(random.uniform(0.0, _LONGEST_NAP))


@contextmanager
def _told(
    path: str, told: str = "it cannot be read ({})", kind: type[LedgerError] = WrongLedgerError
) -> Iterator[None]:
    """Turn errors of the database and of the system into one sentence, with the reason in it."""
    try:
        yield
    except (sqlite3.Error, UnicodeError, OSError) as error:
        code = getattr(error, "sqlite_errorcode", 0)
        closed = os.path.exists(path) and not os.access(path, os.R_OK)
        reason = getattr(error, "strerror", None) or (closed and "permission denied") or str(error)
        if os.path.isdir(path):
            reason = "it is a folder"
        elif code == sqlite3.SQLITE_NOTADB or not (code or isinstance(error, OSError)):
            kind, told = WrongLedgerError, _NO_LEDGER if code else _DAMAGED
        elif code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
            kind, told = WrongLedgerError, _DAMAGED
        raise kind(f"ledger {shown(path)}: {told.format(reason.lower())}.") from None


def _sync(folder: str) -> None:
    """Put the name of a new file on the disk, where a folder can be opened."""
    with suppress(OSError):
        held = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(held)
        finally:
            os.close(held)


def is_address(text: str) -> bool:
    """Whether a text looks like the address of a server, as a whole or with a slip of the pen.

    The name of a file that looks so takes a ``./`` in front.
    """
    if os.path.splitdrive(text)[0] or re.match(r"\.{0,2}/(?!/)|~", text):
        return False
    return (
        re.match(r"\s*[\w+.-]*\s*[:=]", text) is not None
        or re.search("//|[@;'\"]", text) is not None
    )


def shown(address: str) -> str:
    """Return an address as an error quotes it: its end, and of a server no user and no query."""
    if is_address(address):
        from sqlalchemy import make_url

        address = str(make_url(address)._replace(username=None, password=None, query={}))
    return repr(address if len(address) <= 120 else f"...{address[-120:]}")


def is_database(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a database of SQLite, as ledgers are.

    It waits for the connections of this process, because closing any descriptor of a file gives
    all locks back that the process has on it.
    """
    with CONNECTIONS.lock, suppress(OSError), open(path, "rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC
    return False


def network_of(path: str | os.PathLike[str]) -> str | None:
    """Return the kind of network file system that a path is on, as far as Linux tells."""
    target, longest, kind = os.path.realpath(path), -1, None
    with suppress(OSError), open("/proc/self/mounts", encoding="utf-8", errors="replace") as mounts:
        for line in mounts:
            _, where, found, *_ = line.split(" ")
            inside = target == where or target.startswith(f"{where.rstrip('/')}/")
            if inside and len(where) >= longest:
                longest, kind = len(where), found
    return kind if kind in _OVER_NETWORK.split() else None
