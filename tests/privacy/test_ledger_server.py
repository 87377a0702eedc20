"""The ledger on a PostgreSQL server, which the tests start where it is installed."""

import contextlib
import os
import pickle
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd
import pytest
from ledgers_at_work import check_crowd, check_kills, check_kills_of_saves

from privatelr import GuaranteeError, Ledger, LedgerError, MissingDependencyError, PureDP
from privatelr.privacy.accounting import ledger_books, ledger_file

TENTH = PureDP(0.1)
HAVE = {name: shutil.which(name) for name in ("initdb", "postgres", "psql")}
for _name in HAVE:  # Debian keeps them apart
    _found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{_name}"))
    HAVE[_name] = HAVE[_name] or (str(_found[-1]) if _found else None)


def as_its_user():
    """A server does not run as root."""
    if os.getuid() != 0:
        return {}
    user = next((u for u in ("postgres", "nobody") if u in {p.pw_name for p in pwd.getpwall()}), "")
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}


@pytest.fixture(scope="module")
def server():
    """The URL of a server of its own, without its database."""
    pytest.importorskip("sqlalchemy", reason="needs SQLAlchemy")
    pytest.importorskip("psycopg", reason="needs psycopg")
    if not (HAVE["initdb"] and HAVE["postgres"]):
        pytest.skip("needs the programs initdb and postgres")
    home = Path(tempfile.mkdtemp(prefix="pg-"))
    how = {**as_its_user(), "cwd": home, "env": {**os.environ, "LC_ALL": "C"}}
    if "user" in how:
        os.chown(home, pwd.getpwnam(how["user"]).pw_uid, how["group"])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data = str(home / "data")
    made = [HAVE["initdb"], "-D", data, "-U", "tester", "-A", "trust", "-E", "UTF8"]
    subprocess.run(made, check=True, capture_output=True, **how)
    options = ["-p", str(port), "-h", "127.0.0.1", "-k", str(home), "-c", "max_connections=80"]
    running = subprocess.Popen(
        [HAVE["postgres"], "-D", data, *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **how,
    )
    try:
        url = f"postgresql+psycopg://tester:secret@127.0.0.1:{port}"
        wait_for(url)
        yield url
    finally:
        running.send_signal(signal.SIGINT)  # without waiting for clients
        try:
            running.wait(60)
        except subprocess.TimeoutExpired:  # a busy machine; nobody wants its data any more
            running.send_signal(signal.SIGQUIT)
            running.wait()
        shutil.rmtree(home, ignore_errors=True)


def wait_for(url):
    import time

    import sqlalchemy

    engine = sqlalchemy.create_engine(f"{url}/postgres", poolclass=sqlalchemy.pool.NullPool)
    for _ in range(300):
        try:
            with engine.connect():
                return
        except sqlalchemy.exc.OperationalError:
            time.sleep(0.1)
    raise TimeoutError("the server did not start")


def run_sql(url, *commands):
    import sqlalchemy

    engine = sqlalchemy.create_engine(
        url, poolclass=sqlalchemy.pool.NullPool, isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        for command in commands:
            connection.execute(sqlalchemy.text(command))


@pytest.fixture
def url(server, request):
    name = f"t{abs(hash(request.node.name))}"
    run_sql(f"{server}/postgres", f"CREATE DATABASE {name}")
    return f"{server}/{name}"


def test_a_ledger_on_a_server_is_one_as_on_disk(url):
    ledger = Ledger.create(url, 1.0, dataset="clinic")
    assert Ledger.open(url) is ledger
    entry = ledger.charge(TENTH, label="\0 é")
    Ledger.open(url, note="b").part("a").charge(TENTH)
    ledger.allow("ann", 0.3).charge(TENTH)
    ledger.change_budget(0.5, reason="less")
    with pytest.raises(GuaranteeError, match="would make"):
        ledger.charge(PureDP(0.3))
    assert len(ledger.charges) == 3
    assert ledger.entries[0].label == "\0 é"
    assert ledger.knows(entry)
    assert Ledger.check(url) == ()
    assert pickle.loads(pickle.dumps(ledger)) is ledger
    assert "secret" not in repr(ledger) + str(ledger)
    with pytest.raises(LedgerError, match="has a ledger, and a ledger replaces none"):
        Ledger.create(url, 9.0)


def test_many_processes_spend_exactly_the_budget(url):
    check_crowd(url, processes=8, charges=5, budget=15)


@pytest.mark.full
def test_fifty_processes_spend_exactly_the_budget(url):
    check_crowd(url, processes=50, charges=20, budget=100)


def test_kills_lose_no_charge(url):
    check_kills(url, kills=10, seed=1)


@pytest.mark.full
def test_many_kills_lose_no_charge(url):
    check_kills(url, kills=200, seed=2)


def prepared(folder):
    """A table in a folder, and the ledger that fits of it are charged to."""
    frame = pd.DataFrame({"age": [20.0, 30.0, 40.0, 50.0] * 100, "y": [0, 1] * 200})
    frame.to_csv(folder / "table.csv", index=False)
    return folder


def test_kills_of_saves_leave_nothing_half(url, tmp_path):
    Ledger.create(url, 10.0)
    check_kills_of_saves(prepared(tmp_path), url, kills=4, seed=1)


@pytest.mark.full
def test_many_kills_of_saves_leave_nothing_half(url, tmp_path):
    Ledger.create(url, 10.0)
    check_kills_of_saves(prepared(tmp_path), url, kills=200, seed=2)


def test_a_lock_that_is_not_given_back_is_told_of(url, monkeypatch):
    ledger = Ledger.create(url, 1.0)
    other = ledger_books.store_at(url)
    with other.exclusively():
        monkeypatch.setattr(ledger_file, "WAIT", 0.3)
        with pytest.raises(LedgerError, match=r"held it for 0\.3 seconds; nothing was charged\.$"):
            ledger.charge(TENTH)
        assert ledger.spent() == 0
    ledger.charge(TENTH)


def test_a_killed_process_leaves_nothing_half(url):
    """Its transaction is rolled back by the server."""
    ledger = Ledger.create(url, 1.0)
    killed = (
        "import os, sys\n"
        "from privatelr.privacy.accounting import ledger_books\n"
        "with ledger_books.store_at(sys.argv[1]).exclusively() as transaction:\n"
        "    transaction.append('half')\n"
        "    os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", killed, url], check=False)
    assert len(ledger.rows) == 1
    ledger.charge(TENTH)
    assert Ledger.check(url) == ()


def test_rows_are_neither_changed_nor_deleted(url):
    import sqlalchemy

    Ledger.create(url, 1.0).charge(TENTH)
    for command in ("DELETE FROM {0}", "UPDATE {0} SET body = ''", "TRUNCATE {0}"):
        with pytest.raises(sqlalchemy.exc.DatabaseError, match="no row of a ledger"):
            run_sql(url, command.format("privatelr_ledger"))
    run_sql(url, *UNGUARDED)
    assert [told.split("'")[1] for told in Ledger.check(url)] == ["fixed", "kept"]
    run_sql(url, "UPDATE privatelr_ledger SET body = replace(body, '0.1', '0.01') WHERE number = 2")
    assert any("row 2 does not follow" in told for told in Ledger.check(url))


UNGUARDED = ("ALTER TABLE privatelr_ledger DISABLE TRIGGER ALL",)
GUARDED = ("ALTER TABLE privatelr_ledger ENABLE TRIGGER ALL",)
TAIL = {
    "the last row is gone": "DELETE FROM privatelr_ledger WHERE number = 3",
    "the last row has another number": "UPDATE privatelr_ledger SET number = 7 WHERE number = 3",
    "the head is gone": "DELETE FROM privatelr_ledger WHERE number = 0",
}


@pytest.mark.parametrize("change", TAIL.values(), ids=TAIL)
def test_a_tail_that_was_changed_is_found(url, change):
    ledger = Ledger.create(url, 1.0)
    ledger.charge(TENTH)
    ledger.charge(TENTH)
    run_sql(url, *UNGUARDED, change, *GUARDED)
    assert Ledger.check(url) != ()
    for work in (lambda: ledger.charge(TENTH), ledger.spent):
        with pytest.raises(LedgerError, match="`privatelr ledger check` looks at every row"):
            work()


GUARDS = {
    "DROP TRIGGER fixed ON {0}": True,
    "ALTER TABLE {0} DISABLE TRIGGER kept": False,
    "CREATE OR REPLACE FUNCTION {0}_kept() RETURNS trigger LANGUAGE plpgsql "
    "AS $$ BEGIN RETURN NEW; END $$": True,
    "CREATE TRIGGER more BEFORE INSERT ON {0} FOR EACH ROW EXECUTE FUNCTION {0}_kept()": True,
}
"""Changes, and whether the head does not move any more; then nothing is charged."""


@pytest.mark.parametrize(("change", "refused"), GUARDS.items())
def test_a_changed_trigger_is_found(url, change, refused):
    ledger = Ledger.create(url, 1.0)
    ledger.charge(TENTH)
    run_sql(url, change.format("privatelr_ledger"))
    assert all("trigger" in told for told in Ledger.check(url))
    assert Ledger.check(url) != ()
    with pytest.raises(LedgerError) if refused else contextlib.nullcontext():
        ledger.charge(TENTH)
    assert ledger.spent() == (0.1 if refused else 0.2)


def test_no_row_is_put_beside_the_last(url):
    import sqlalchemy

    Ledger.create(url, 1.0).charge(TENTH)
    for number in (0, 2, 4):
        with pytest.raises(sqlalchemy.exc.DatabaseError):
            run_sql(url, f"INSERT INTO privatelr_ledger VALUES ({number}, '', '')")
    assert Ledger.check(url) == ()


def test_a_schema_in_front_hides_no_ledger(url):
    """Nobody is to charge an empty ledger that another role has put in front of the true one."""
    true = Ledger.create(url, 1.0)
    true.charge(TENTH)
    run_sql(url, "CREATE SCHEMA tester")
    assert Ledger.open(url).spent() == 0.1  # an empty schema hides nothing
    for made in (
        "CREATE TABLE tester.privatelr_ledger AS SELECT * FROM public.privatelr_ledger LIMIT 2",
        "CREATE VIEW tester.privatelr_ledger AS SELECT * FROM public.privatelr_ledger LIMIT 2",
    ):
        run_sql(url, made)
        for work in (lambda: true.charge(TENTH), lambda: Ledger.open(url)):
            with pytest.raises(LedgerError, match="schemas public and tester on the search path"):
                work()
        run_sql(url, f"DROP {made.split()[1]} tester.privatelr_ledger")
    true.charge(TENTH)
    assert true.spent() == 0.2


def test_a_ledger_has_the_schema_that_is_current_when_it_is_made(url):
    run_sql(url, 'CREATE SCHEMA "The Clinic"', "CREATE SCHEMA other")
    own = f"{url}?options=-csearch_path%3D%22The%5C%20Clinic%22"
    ledger = Ledger.create(own, 1.0)
    ledger.charge(TENTH)
    assert Ledger.check(own) == ()
    with pytest.raises(LedgerError, match="no ledger in the database"):
        Ledger.open(url)
    assert (
        Ledger.open(f"{url}?options=-csearch_path%3Dother%2C%22The%5C%20Clinic%22").spent() == 0.1
    )
    with pytest.raises(LedgerError, match="no schema on its search path"):
        Ledger.create(f"{url}?options=-csearch_path%3Dnone", 1.0)


def test_who_may_only_insert_can_charge(url, server):
    Ledger.create(url, 1.0)
    run_sql(
        url,
        "DROP ROLE IF EXISTS analyst",
        "CREATE ROLE analyst LOGIN",
        "GRANT SELECT, INSERT ON privatelr_ledger TO analyst",
    )
    analyst = Ledger.open(url.replace("tester:secret", "analyst"))
    analyst.charge(TENTH)
    assert Ledger.open(url).spent() == 0.1


def test_what_cannot_be_opened_is_one_sentence(url, server):
    gone = "postgresql+psycopg://tester:secret@127.0.0.1:1/none"
    for address, told in [
        (url, "no ledger in the database"),
        (f"{server}/none", "does not exist"),
        (gone, "the server does not do what is asked"),
        ("sqlite:///x.db", "URL of a PostgreSQL database"),
        ("nonsense://x", "URL of a PostgreSQL database"),
    ]:
        with pytest.raises(LedgerError, match=told) as caught:
            Ledger.open(address)
        assert "\n" not in str(caught.value)
        assert "secret" not in str(caught.value)
        assert "may count" not in str(caught.value)
    with pytest.raises(LedgerError, match=r"asked \(.*\); it was not created\.$"):
        Ledger.create(gone, 1.0)


def test_a_connection_that_ends_during_a_charge_is_one_sentence(url, server):
    ledger = Ledger.create(url, 1.0)
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'"

    def charge():
        with ledger._book.store.exclusively() as transaction:
            transaction.append("half")
            run_sql(f"{server}/postgres", end.format(url.rpartition("/")[2]))
            transaction.commit()

    with pytest.raises(LedgerError, match=r"no data were read, and a charge .* may count\.$"):
        charge()
    assert len(ledger.rows) == 1


def test_without_sqlalchemy_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(MissingDependencyError, match=r"privatelr\[server\]"):
        Ledger.open("postgresql+psycopg://host/clinic")
