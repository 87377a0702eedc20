"""The ledger of several hosts: a table of a PostgreSQL database, through SQLAlchemy.

A transaction begins with an advisory lock, which every role may take, so that nobody else adds a
row between reading and writing. It ends when the server has flushed it to its disk. Whoever may
only select from and insert into the table can charge it, and change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from privatelr.errors import LedgerError, MissingDependencyError
from privatelr.privacy.accounting import ledger_file
from privatelr.privacy.accounting.ledger_file import CONNECTIONS, shown
from privatelr.privacy.accounting.ledger_rows import LedgerRow, chained

_KEY = 0x70_6C_72_6C
"""The advisory lock of a ledger in its database."""
_TABLE = "privatelr_ledger"
_MAKE = (
    f"CREATE TABLE {_TABLE} (number integer PRIMARY KEY, body text NOT NULL, hash text NOT NULL)",
    f"""CREATE FUNCTION {_TABLE}_kept() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'no row of a ledger is changed or deleted'; END $$""",
    f"""CREATE TRIGGER kept BEFORE UPDATE OR DELETE OR TRUNCATE ON {_TABLE}
    FOR EACH STATEMENT EXECUTE FUNCTION {_TABLE}_kept()""",
)
_INSERT = f"INSERT INTO {_TABLE} VALUES (:number, :body, :hash)"
_TIMED_OUT, _TAKEN, _NO_TABLE = "55P03", {"42P07", "23505", "42723"}, "42P01"
"""States of SQL: a lock that was not got, a name that is taken, and a table that is not there."""
_UNSURE = "no data were read, and a charge that was under way may count"


class LedgerServer:
    """A ledger in a database.

    Parameters
    ----------
    url : str
        As SQLAlchemy takes it, such as ``postgresql+psycopg://user@host/clinic``.

    Raises
    ------
    LedgerError
        If it is not the URL of a PostgreSQL database.
    MissingDependencyError
        If SQLAlchemy or the driver is not installed.
    """

    def __init__(self, url: str) -> None:
        self._url, self._engine = url, _engine_of(url)

    @property
    def address(self) -> str:
        """The URL, with its password if it has one."""
        return self._url

    def rows(self) -> list[LedgerRow]:
        """Return all rows; raises `LedgerError` if the server does not answer or has no ledger."""
        with self._open() as connection:
            return _rows(connection)

    @contextmanager
    def exclusively(self) -> Iterator[_ServerTransaction]:
        """Begin a transaction that excludes all others; without a commit it leaves nothing."""
        with self._open() as connection:
            _execute(connection, f"SET LOCAL lock_timeout = '{int(1000 * ledger_file.WAIT)}ms'")
            _execute(connection, "SET LOCAL synchronous_commit = on")
            _execute(connection, f"SELECT pg_advisory_xact_lock({_KEY})")
            yield _ServerTransaction(connection)

    def damage(self) -> list[str]:
        """Return nothing: the server looks after its files."""
        return []

    @contextmanager
    def _open(self) -> Iterator[Any]:
        """Connect for one transaction, which is rolled back unless it was committed."""
        with CONNECTIONS.lock, _told(self._url), self._engine.connect() as connection:
            yield connection


class _ServerTransaction:
    def __init__(self, connection: Any) -> None:
        self._connection, self._found = connection, _rows(connection)

    def rows(self) -> list[LedgerRow]:
        return list(self._found)

    def append(self, body: str) -> LedgerRow:
        row = chained(body, self._found[-1].hash if self._found else "")
        self._found.append(row)
        given = {"number": len(self._found), "body": row.body, "hash": row.hash}
        _execute(self._connection, _INSERT, given)
        return row

    def commit(self) -> None:
        self._connection.commit()


def create(url: str, body: str) -> None:
    """Create the table of a ledger with its first row, both or neither.

    Raises
    ------
    LedgerError
        If the database has a ledger, or the server does not answer.
    """
    row, engine = chained(body, ""), _engine_of(url)
    with CONNECTIONS.lock, _told(url), engine.connect() as connection:
        for command in _MAKE:
            _execute(connection, command)
        _execute(connection, _INSERT, {"number": 1, "body": row.body, "hash": row.hash})
        connection.commit()


def _engine_of(url: str) -> Any:
    try:
        import sqlalchemy
    except ImportError:
        raise MissingDependencyError(
            "a ledger on a server takes SQLAlchemy and a driver; install them with `pip install "
            "'privatelr[server]'`."
        ) from None
    try:
        # no pool: a connection lives for one transaction, so that a fork inherits none
        engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.pool.NullPool)
        kind = engine.dialect.name
    except ImportError as error:
        raise MissingDependencyError(
            f"ledger {shown(url)}: its driver is not installed ({error.name}); `pip install "
            "'privatelr[server]'` brings psycopg."
        ) from None
    except (sqlalchemy.exc.ArgumentError, ValueError):  # the latter of a port that is no number
        kind = ""
    if kind != "postgresql":
        raise LedgerError(
            f"ledger {shown(url)}: takes the path of a file, or the URL of a PostgreSQL database "
            "such as postgresql+psycopg://user@host/clinic."
        )
    return engine


def _execute(connection: Any, command: str, given: dict[str, Any] | None = None) -> Any:
    import sqlalchemy

    return connection.execute(sqlalchemy.text(command), given or {})


def _rows(connection: Any) -> list[LedgerRow]:
    found = _execute(connection, f"SELECT body, hash FROM {_TABLE} ORDER BY number")
    return [LedgerRow(str(body), str(hashed)) for body, hashed in found]


@contextmanager
def _told(url: str) -> Iterator[None]:
    """Turn errors of the server into one sentence."""
    import sqlalchemy

    try:
        yield
    except sqlalchemy.exc.SQLAlchemyError as error:
        state = getattr(getattr(error, "orig", None), "sqlstate", None)
        lines = str(getattr(error, "orig", None) or error).strip().splitlines()
        match state:
            case _ if state == _TIMED_OUT:
                told = f"another process has held it for {ledger_file.WAIT:g} seconds; nothing "
                told += "was charged"
            case _ if state in _TAKEN:
                told = "the database has a ledger, and a ledger replaces none"
            case _ if state == _NO_TABLE:
                told = "there is no ledger in the database; Ledger.create makes one"
            case _:
                reason = " ".join(lines[0].split()).rstrip(".") if lines else "no reason was given"
                told = f"the server does not do what is asked ({reason}); {_UNSURE}"
        raise LedgerError(f"ledger {shown(url)}: {told}.") from None
