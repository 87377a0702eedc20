"""The ledger of several hosts: a table of a PostgreSQL database, through SQLAlchemy.

A transaction begins with an advisory lock, which every role may take, so that nobody else adds a
row between reading and writing. It ends when the server has flushed it to its disk. Whoever may
only select from and insert into the table can charge it, and change nothing: the head is moved by
a trigger with the rights of the one who made the table.

The table is named with its schema. Without it, a table of the same name in a schema that comes
first on the search path would take its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from privatelr.errors import LedgerError, MissingDependencyError, WrongLedgerError
from privatelr.privacy.accounting import ledger_file
from privatelr.privacy.accounting.ledger_checks import in_place
from privatelr.privacy.accounting.ledger_file import CONNECTIONS, require_moved, rows_of, shown
from privatelr.privacy.accounting.ledger_rows import LedgerRow, chained

_KEY = 0x70_6C_72_6C
"""The advisory lock of a ledger in its database."""
_TABLE = "privatelr_ledger"
_TABLE_OF = """CREATE TABLE {table}
    (number integer PRIMARY KEY, body text NOT NULL, hash text NOT NULL)"""
_INSERT = "INSERT INTO {table} VALUES (:number, :body, :hash)"
_KEPT = """
BEGIN
    IF TG_OP = 'INSERT' THEN
        UPDATE {table} SET body = NEW.number::text, hash = NEW.hash
            WHERE number = 0 AND body = (NEW.number - 1)::text;
        IF FOUND THEN
            RETURN NEW;
        END IF;
        RAISE EXCEPTION 'a row of a ledger follows the last one';
    ELSIF TG_OP = 'UPDATE' THEN
        IF OLD.number = 0 AND NEW.number = 0 AND NEW.body = (OLD.body::integer + 1)::text THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'no row of a ledger is changed or deleted';
END
"""
"""What both triggers do. The row of the number 0 holds the head, which moves with each new row."""
_GUARDS = (
    """CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $kept${kept}$kept$""",
    """CREATE TRIGGER fixed BEFORE INSERT OR UPDATE ON {table}
    FOR EACH ROW EXECUTE FUNCTION {function}()""",
    """CREATE TRIGGER kept BEFORE DELETE OR TRUNCATE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION {function}()""",
)
_FIND_TRIGGERS = """
SELECT t.tgname, t.tgtype, t.tgenabled, p.prosrc, p.prosecdef, t.tgqual IS NULL
FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
WHERE NOT t.tgisinternal AND t.tgrelid = '{table}'::pg_catalog.regclass
"""
_TYPES = {"fixed": 1 + 2 + 4 + 16, "kept": 2 + 8 + 32}
"""Bits of PostgreSQL: for each row 1, before 2, insert 4, delete 8, update 16, truncate 32."""
_FIND_TABLES = f"""
SELECT pg_catalog.quote_ident(n.nspname)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname = '{_TABLE}' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
    AND n.nspname = ANY (pg_catalog.current_schemas(false))
ORDER BY 1
"""
"""The schemas on the search path with such a table, or with what stands in its place."""
_TIMED_OUT, _TAKEN = "55P03", {"42P07", "23505", "42723"}
"""States of SQL: a lock that was not got, and a name that is taken."""
_THERE = "the database has a ledger, and a ledger replaces none"
_UNSURE = "; no data were read, and a charge that was under way may count"


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
            return rows_of(self._url, _table_of(connection, _found(self._url, connection)))

    @contextmanager
    def exclusively(self) -> Iterator[_ServerTransaction]:
        """Begin a transaction that excludes all others; without a commit it leaves nothing."""
        with self._open(_UNSURE) as connection:
            _execute(connection, f"SET LOCAL lock_timeout = '{int(1000 * ledger_file.WAIT)}ms'")
            _execute(connection, "SET LOCAL synchronous_commit = on")
            _execute(connection, f"SELECT pg_catalog.pg_advisory_xact_lock({_KEY})")
            yield _ServerTransaction(self._url, connection)

    def inspect(self) -> tuple[list[LedgerRow], list[str]]:
        """Return all rows, and what is wrong with their triggers and places.

        The server looks after its files.
        """
        with self._open() as connection:
            table = _found(self._url, connection)
            found = {tuple(row) for row in _execute(connection, _FIND_TRIGGERS.format(table=table))}
            rows, faults = in_place(_table_of(connection, table))
        kept = _KEPT.format(table=table)
        sound = {(name, kind, "O", kept, True, True) for name, kind in _TYPES.items()}
        changed = sorted({str(name) for name, *_ in found ^ sound})
        guards = [f"the trigger {shown(name)} is gone, off, changed or new" for name in changed]
        return rows, [*guards, *faults]

    @contextmanager
    def _open(self, after: str = "") -> Iterator[Any]:
        """Connect for one transaction, which is rolled back unless it was committed.

        `after` is what an error adds that comes when the connection is there.
        """
        with CONNECTIONS.lock:
            with _told(self._url, "; nothing was charged" if after else ""):
                connection = self._engine.connect()
            with _told(self._url, after), connection:
                yield connection


class _ServerTransaction:
    def __init__(self, url: str, connection: Any) -> None:
        self._url, self._connection = url, connection
        self._table = _found(url, connection)
        self._rows = rows_of(url, _table_of(connection, self._table))

    def rows(self) -> list[LedgerRow]:
        return list(self._rows)

    def append(self, body: str) -> LedgerRow:
        row = chained(body, self._rows[-1].hash if self._rows else "")
        self._rows.append(row)
        _insert(self._connection, self._table, len(self._rows), row)
        heads = _execute(
            self._connection, f"SELECT body, hash FROM {self._table} WHERE number = 0"
        ).all()
        require_moved(self._url, heads, self._rows)
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
    with CONNECTIONS.lock, _told(url, "; it was not created"), engine.connect() as connection:
        if _execute(connection, _FIND_TABLES).all():
            raise LedgerError(f"ledger {shown(url)}: {_THERE}.")
        (schema,) = _execute(
            connection, "SELECT pg_catalog.quote_ident(pg_catalog.current_schema())"
        ).one()
        if schema is None:
            raise LedgerError(f"ledger {shown(url)}: no schema on its search path exists.")
        table = f"{schema}.{_TABLE}"
        _execute(connection, _TABLE_OF.format(table=table))
        _insert(connection, table, 0, LedgerRow("1", row.hash))
        _insert(connection, table, 1, row)
        for command in _GUARDS:
            kept = _KEPT.format(table=table)
            _execute(connection, command.format(table=table, function=f"{table}_kept", kept=kept))
        connection.commit()


def _engine_of(url: str) -> Any:
    wrong = WrongLedgerError(  # it may hold a password, wherever that stands
        "ledger: takes the path of a file (with ./ before a name that has : = @ ; // or quotes), "
        "or the URL of a PostgreSQL database such as postgresql+psycopg://user@host/clinic (with "
        "%40 for an @ in a password)."
    )
    if url.partition("://")[0].partition("+")[0] != "postgresql":
        raise wrong
    try:
        import sqlalchemy
    except ImportError:
        raise MissingDependencyError(
            "a ledger on a server takes SQLAlchemy and a driver; install them with `pip install "
            "'privatelr[server]'`."
        ) from None
    engine = None
    try:
        place = sqlalchemy.make_url(url)
        # anything else may be a part of a password
        if re.fullmatch(r"[\w.:%-]*", f"{place.host or ''}{place.database or ''}"):
            # no pool: a connection lives for one transaction, so that a fork inherits none
            engine = sqlalchemy.create_engine(place, poolclass=sqlalchemy.pool.NullPool)
    except ImportError as error:
        raise MissingDependencyError(
            f"ledger {shown(url)}: its driver is not installed ({error.name}); `pip install "
            "'privatelr[server]'` brings psycopg, and postgresql+psycopg:// names it."
        ) from None
    except (sqlalchemy.exc.ArgumentError, ValueError):  # the latter of a port that is no number
        pass  # its words may quote the address
    if engine is None:
        raise wrong
    return engine


def _execute(connection: Any, command: str, given: dict[str, Any] | None = None) -> Any:
    import sqlalchemy

    if given is None:  # a colon in it is no name of a value
        return connection.exec_driver_sql(command.replace("%", "%%"))
    return connection.execute(sqlalchemy.text(command), given)


def _found(url: str, connection: Any) -> str:
    """Return the table of the ledger, with its schema; raises `LedgerError` if it is not one."""
    match _execute(connection, _FIND_TABLES).all():
        case [(schema,)]:
            return f"{schema}.{_TABLE}"
        case []:
            told = "there is no ledger in the database; Ledger.create makes one"
        case several:
            names = " and ".join(str(schema) for (schema,) in several)
            told = (
                f"there is a table {_TABLE} in each of the schemas {names} on the search path, and "
                "one may have been put in front of the other; nothing was charged"
            )
    raise WrongLedgerError(f"ledger {shown(url)}: {told}.")


def _table_of(connection: Any, table: str) -> list[tuple[int, str, str]]:
    found = _execute(connection, f"SELECT number, body, hash FROM {table} ORDER BY number")
    return ledger_file.plain_rows(found)


def _insert(connection: Any, table: str, number: int, row: LedgerRow) -> None:
    given = {"number": number, "body": row.body, "hash": row.hash}
    _execute(connection, _INSERT.format(table=table), given)


@contextmanager
def _told(url: str, after: str) -> Iterator[None]:
    """Turn errors of the server into one sentence, with an end about charges."""
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
                told = _THERE
            case _:
                reason = " ".join(lines[0].split()).rstrip(".") if lines else "no reason was given"
                told = f"the server does not do what is asked ({reason}){after}"
        raise LedgerError(f"ledger {shown(url)}: {told}.") from None
