"""The ledger on disk, in a file and on a server: charged before the data are read, never less.

The tests start a PostgreSQL server of their own where it is installed.
"""

import contextlib
import json
import os
import pickle
import pwd
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import ledgers_at_work
import numpy as np
import pandas as pd
import pytest
import sqlalchemy
from frames_for_laws import SCHEMA, clinic, fit_clinic
from ledgers_at_work import check_crowd, check_kills, check_kills_of_saves

import privatelr
import privatelr.call_data
from privatelr import (
    ZCDP,
    ApproxDP,
    GuaranteeError,
    Ledger,
    LedgerError,
    PrivacyWarning,
    PureDP,
    ReleaseFileError,
    choose,
    dplr,
    levels_from,
    suggest_bounds,
)
from privatelr.errors import WrongLedgerError
from privatelr.privacy import GaussianEvent
from privatelr.privacy.accounting import account_with, ledger_store
from privatelr.privacy.accounting import statement as statements

TENTH = PureDP(0.1)
FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


# -- a server --------------------------------------------------------------------------------------


def program(name):
    """Debian keeps those of a server apart."""
    apart = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(apart[-1]) if apart else None)


def as_its_user():
    """A server does not run as root."""
    if os.getuid() != 0:
        return {}
    user = next(u for u in ("postgres", "nobody") if u in {p.pw_name for p in pwd.getpwall()})
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}


@pytest.fixture(scope="module")
def server():
    """The URL of a server of its own, without its database."""
    pytest.importorskip("psycopg", reason="needs psycopg")
    initdb, postgres = program("initdb"), program("postgres")
    if not (initdb and postgres):
        pytest.skip("needs the programs initdb and postgres")
    home = Path(tempfile.mkdtemp(prefix="pg-"))
    how = {**as_its_user(), "cwd": home, "env": {**os.environ, "LC_ALL": "C"}}
    if "user" in how:
        os.chown(home, pwd.getpwnam(how["user"]).pw_uid, how["group"])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data = str(home / "data")
    made = [initdb, "-D", data, "-U", "tester", "-A", "trust", "-E", "UTF8"]
    subprocess.run(made, check=True, capture_output=True, **how)
    options = ["-p", str(port), "-h", "127.0.0.1", "-k", str(home), "-c", "max_connections=80"]
    options += ["-c", "fsync=off"]  # clients are killed, and the machine is not
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    running = subprocess.Popen([postgres, "-D", data, *options], **quiet, **how)
    try:
        url = f"postgresql+psycopg://tester:secret@127.0.0.1:{port}"
        wait_for(f"{url}/postgres")
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
    for _ in range(300):
        try:
            return run_sql(url)
        except sqlalchemy.exc.OperationalError:
            time.sleep(0.1)
    raise TimeoutError("the server did not start")


def run_sql(address, *commands):
    """Run statements on a ledger, or on the database of one, as one who tampers with it."""
    engine = ledger_store._engine(str(address)).execution_options(isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for command in commands:
            if isinstance(command, str):
                connection.exec_driver_sql(command)
            else:
                connection.execute(sqlalchemy.text(command[0]), command[1])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "clinic.ledger"


@pytest.fixture
def ledger(path):
    return Ledger.create(path, epsilon=1.0, dataset="clinic")


@pytest.fixture(params=["file", "server"])
def address(request, tmp_path):
    """Where a ledger can be created: a file, or a database."""
    if request.param == "file":
        return str(tmp_path / "clinic.ledger")
    url = request.getfixturevalue("server")
    name = f"t{abs(hash(request.node.name))}"
    run_sql(f"{url}/postgres", f"CREATE DATABASE {name}")
    return f"{url}/{name}"


@pytest.fixture
def stored(address):
    """A ledger in a file, and one on a server."""
    return Ledger.create(address, epsilon=1.0, dataset="clinic")


def one_sentence(error):
    told = str(error.value)
    assert "\n" not in told
    assert told.endswith(".")
    assert told.count(". ") == 0
    return told


# -- creating and opening ---------------------------------------------------------------------


def test_what_is_created_is_opened_as_it_was(address):
    made = Ledger.create(address, 3.0, 1e-6, dataset="clinic 2026", neighbours="zero-out")
    opened = Ledger.open(address)
    assert (opened.epsilon, opened.delta, opened.dataset) == (3.0, 1e-6, "clinic 2026")
    assert opened.neighbours is made.neighbours
    assert opened.entries == opened.charges == ()
    assert "Renyi divergence of order" in opened.account


def test_no_other_user_may_read_it(path):
    before = os.umask(0o022)
    try:
        Ledger.create(path, 1.0)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(path.parent) == [path.name]


def test_a_ledger_replaces_none(address, stored):
    stored.charge(TENTH)
    with pytest.raises(LedgerError) as caught:
        Ledger.create(address, 9.0)
    assert "a ledger replaces none" in one_sentence(caught)
    assert "secret" not in str(caught.value) + repr(stored) + str(stored)
    assert stored.spent() == 0.1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "either epsilon or prices"),
        ({"epsilon": 1.0, "prices": [TENTH]}, "either epsilon or prices"),
        ({"epsilon": 0}, "epsilon takes"),
        ({"epsilon": 1.0, "delta": 1}, "delta takes"),
        ({"epsilon": 1.0, "account": "least"}, "account takes"),
        ({"epsilon": 1.0, "dataset": 7}, "dataset takes text"),
        ({"epsilon": 1.0, "note": 5}, "note takes text"),
    ],
)
def test_a_wrong_budget_makes_no_file(path, options, told):
    with pytest.raises(ValueError, match=told):
        Ledger.create(path, **options)
    assert not path.exists()


EARLIER = {
    "of the first layout": (
        "CREATE TABLE rows (number INTEGER PRIMARY KEY, body TEXT NOT NULL, hash TEXT NOT NULL)",
    ),
    "with another first row": (
        "CREATE TABLE privatelr_ledger (number INTEGER PRIMARY KEY, body TEXT, hash TEXT)",
        *(
            ("INSERT INTO privatelr_ledger VALUES (:number, :body, :hash)", row)
            for body in ['{"kind": "opened", "format": "privatelr-ledger-rows", "version": 1}']
            for made in [ledger_store.chained(body, "")]
            for row in (
                {"number": 0, "body": "1", "hash": made.hash},
                {"number": 1, "body": body, "hash": made.hash},
            )
        ),
    ),
}


@pytest.mark.parametrize("commands", EARLIER.values(), ids=EARLIER)
def test_a_ledger_of_an_earlier_version_is_refused_in_one_sentence(path, commands):
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)):
        path.touch()
    run_sql(path, *commands)
    with pytest.raises(WrongLedgerError, match=r"of an earlier version|no earlier ledger") as error:
        Ledger.open(path)
    one_sentence(error)


def test_what_is_no_ledger_is_refused(tmp_path):
    (tmp_path / "text").write_text("a,b\n1,2\n" * 100)
    sqlite3.connect(tmp_path / "other").execute("CREATE TABLE t (x)").connection.close()
    (tmp_path / "empty").touch()
    for name, told in {
        "missing": "there is no such ledger",
        "text": "there is no sound ledger in it",
        "other": "there is no sound ledger in it",
        "empty": "there is no sound ledger in it",
        ".": "it cannot be read (is a directory).",
    }.items():
        with pytest.raises(WrongLedgerError) as caught:
            Ledger.open(tmp_path / name)
        assert told in one_sentence(caught)
    (tmp_path / "f").touch()
    with pytest.raises(LedgerError) as caught:
        Ledger.create(tmp_path / "f" / "g", 1.0)
    assert "it cannot be created (not a directory)." in one_sentence(caught)
    with pytest.raises(LedgerError, match="a file or folder, and a ledger replaces none"):
        Ledger.create(tmp_path, 1.0)


def test_what_a_server_refuses_is_one_sentence(address, server):
    if address.startswith("postgresql"):
        gone = "postgresql+psycopg://tester:secret@127.0.0.1:1/none"
        for url, told in [
            (address, "there is no sound ledger in it"),
            (f"{server}/none", "does not exist"),
            (gone, "it cannot be read"),
        ]:
            with pytest.raises(LedgerError, match=told) as caught:
                Ledger.open(url)
            assert "secret" not in one_sentence(caught)
        with pytest.raises(LedgerError, match=r"it cannot be written .* may count\.$"):
            Ledger.create(gone, 1.0)


@pytest.mark.parametrize(
    "url",
    [
        *("postgresql+psycopg://h:notaport/db", "postgresql://h:1:2/db", "mysql://h/db"),
        *("postgres://h/db", "sqlite:///x.db", "http://h/db", "://h", "nonsense://x"),
    ],
)
def test_a_wrong_url_is_one_sentence(url):
    with pytest.raises(LedgerError, match="or the URL of a PostgreSQL database") as error:
        Ledger.open(url)
    one_sentence(error)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:SECRET@host/clinic",
        "postgresql://host/clinic?user=ann&password=SECRET",
        "postgresql://ann:SECRET?a@host/clinic",
    ],
)
def test_no_password_is_shown(url):
    assert ledger_store.shown(url) == repr("postgresql://host/clinic")


@pytest.mark.parametrize(
    "address",
    [
        *("postgresql://u:p@SECRET@h/db", "postgresql+none://u:SECRET@h/db"),
        *("'postgresql://u:SECRET@127.0.0.1:1/db'", '"postgresql://u:SECRET@127.0.0.1:1/db"'),
        *("postgresql:/u:SECRET@h/db", "postgres:/u:SECRET@h", "postgresql//u:SECRET@h/db"),
        *("host=h password=SECRET", "password = SECRET host = h", "PGPASSWORD=SECRET"),
        *("//u:SECRET@h/db", "u:SECRET@h:5432", "h:5432:db:u:SECRET", "Server=h;Pwd=SECRET"),
    ],
)
def test_what_looks_like_an_address_and_is_none_is_not_quoted(address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRIVATELR_LEDGER", address)
    for call in (
        lambda: Ledger.open(address),
        lambda: Ledger.create(address, 1.0),
        lambda: account_with(None),
    ):
        with pytest.raises(LedgerError, match="or the URL of a PostgreSQL database") as told:
            call()
        assert "SECRET" not in f"{told.value}{told.value.__context__}"
    assert [*tmp_path.iterdir()] == []


def test_a_file_whose_name_looks_like_an_address_is_named_from_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Ledger.create("./eps=3:final", 3.0)
    assert Ledger.open(tmp_path / "eps=3:final").epsilon == 3.0


def test_a_text_without_a_form_in_utf8_is_refused(address, stored, tmp_path):
    """As the C locale makes of bytes beyond ASCII: half a character is in no file."""
    half = "gr\udcff"
    for work in (
        lambda: stored.charge(TENTH, label=half),
        lambda: stored.part(half).charge(TENTH),
        lambda: Ledger.open(address, note=half).charge(TENTH),
        lambda: Ledger.create(tmp_path / "new", 1.0, dataset=half),
    ):
        with pytest.raises(LedgerError, match="holds bytes that are not UTF-8") as error:
            work()
        one_sentence(error)
    assert len(stored.rows) == 1
    assert not (tmp_path / "new").exists()
    stored.charge(TENTH, label="\0 größe \U0001f600")
    assert stored.charges[0].entry.label == "\0 größe \U0001f600"


def test_a_flipped_bit_is_never_another_budget(path, ledger):
    """Wherever it is in the file, it is found, or is in no row; and it ends in no other error."""
    for _ in range(3):
        ledger.charge(TENTH, label="x" * 40)
    good, found = path.read_bytes(), 0
    for at in (*range(0, 108, 18), *range(108, len(good), len(good) // 24)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1 << at % 8]) + good[at + 1 :])
        ledger_store._SEEN.clear()
        try:
            assert Ledger.check(path) or Ledger.open(path).spent() == 0.3
        except WrongLedgerError:
            found += 1
    assert found
    path.write_bytes(good)
    assert Ledger.check(path) == ()


# -- charging -----------------------------------------------------------------------------------


def test_charges_are_those_of_a_ledger_in_memory(address):
    """The same entries, the same refusals in the same words, by the same rule."""
    kept, memory = Ledger.create(address, 2.0, 1e-6), Ledger(2.0, 1e-6, account="renyi")
    for guarantee, events in [
        (PureDP(0.2), ()),
        (ZCDP(0.02), ()),
        (ApproxDP(0.5, 1e-8), ()),
        (PureDP(0.1), (PureDP(0.05), PureDP(0.05))),
        (ZCDP(5.0), ()),
        (PureDP(1.9), ()),
    ]:
        told = []
        for ledger in (kept, memory):
            try:
                told.append(ledger.charge(guarantee, events, "a"))
            except GuaranteeError as error:
                told.append(str(error))
        assert told[0] == told[1]
    assert kept.entries == memory.entries
    assert kept.to_json() == memory.to_json()
    assert (kept.spent(), kept.left()) == (memory.spent(), memory.left())


def test_a_charge_has_its_place(stored):
    entry = stored.charge(TENTH, label="y ~ age")
    (receipt,) = entry.receipts
    (charge,) = stored.charges
    assert (receipt.row, receipt.head, receipt.dataset) == (charge.number, stored.head, "clinic")
    assert charge.software == privatelr.__version__
    assert charge.note == ""
    assert stored.knows(entry)
    assert not stored.knows(replace(entry, receipts=()))
    assert Ledger.check(stored._book.address) == ()


def test_parts_add_up_as_in_memory(stored):
    stored.part("first").charge(PureDP(0.7))
    stored.part("second").charge(PureDP(0.8))
    assert stored.spent() == 0.8
    assert stored.part("first").left() == pytest.approx(0.3)
    with pytest.raises(GuaranteeError, match="would make"):
        stored.charge(PureDP(0.3))


def test_no_text_in_a_ledger_steers_a_terminal(tmp_path):
    steering = "a\x1b[2Jb\x9b1mc\u202ed\x00e\né"
    named = Ledger.create(tmp_path / "named", 1.0, dataset=steering, note=steering)
    named.charge(TENTH, label=steering)
    check_steers_nothing(str(named))
    fit = fit_clinic(clinic(), eps=0.4, ledger=named)
    for form in ("markdown", "html"):
        check_steers_nothing(fit.card(form))
    memory = Ledger(1.0)
    memory.part(steering).charge(TENTH, label=steering)
    check_steers_nothing(str(memory))


def check_steers_nothing(page):
    assert all(one.isprintable() for line in page.split("\n") for one in line)
    assert r"\x1b" in page.replace("\\\\", "\\")


def test_persons_of_different_columns_are_never_added_up_on_disk(path):
    """A row with another column is refused, and found where one was put in by force."""
    whose = {"person": "patient"}
    ledger = Ledger.create(path, 3.0, neighbours="person")
    about = PureDP(0.5, "person")
    ledger.charge(about)
    entry = Ledger.open(path).charge(about, **whose)
    with pytest.raises(GuaranteeError, match="'clinic' tells apart are not those of 'patient'"):
        Ledger.open(path).charge(about, person="clinic")
    ledger.charge(about, **whose)
    assert (ledger.person, ledger.spent(), ledger.knows(entry)) == ("patient", 1.5, True)
    assert "column 'patient', which 1 of 3 entries do not state" in " ".join(str(ledger).split())
    assert [line.split()[-1] for line in str(ledger).splitlines() if "eps=" in line] == [
        *("release", "patient", "patient")
    ]
    forged(ledger, lambda rows: rows[-1]["entry"].update(person="clinic"))
    assert ["ledger: persons" in told for told in Ledger.check(path)] == [True]


def test_every_release_about_persons_states_their_column(path):
    frame = pd.DataFrame({"x": np.linspace(-1, 1, 400), "y": [0.0, 1.0] * 200})
    frame["who"] = frame.index // 2
    ledger = Ledger.create(path, 400.0, 1e-3, neighbours="person")
    price, about = {"eps": 20.0, "ledger": ledger}, {"person": "who"}
    fit = dplr("y ~ x", frame, bounds={"x": (-1, 1), "y": (0, 1)}, **price, **about)
    other = dplr("y ~ 1", frame, bounds={"x": (-1, 1), "y": (0, 1)}, **price, **about)
    suggest_bounds(frame, {"x": (-9, 9)}, **price, **about)
    levels_from(frame, "y", delta=1e-6, **price, **about)
    fit.private_roc(frame, **price)
    choose({"fit": fit, "other": other}, frame, **price)
    assert [entry.person for entry in Ledger.open(path).entries] == ["who"] * 6


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("chosen", ["subset(age > 50)", "weights(age)", "by(smoker, 'no')"])
def test_a_part_takes_no_choice_of_records(ledger, monkeypatch, inside, chosen):
    """A replaced record may leave one subset and enter another: their prices add up.

    Weights of 0 are a subset, too, and so is a stratum alone.
    """

    def unread(*_, **__):
        raise AssertionError("the data were read")

    fit_clinic(clinic(), eps=0.1, ledger=ledger, subset="age > 50")
    fit_clinic(clinic(), eps=0.1, ledger=ledger.part("first"))
    monkeypatch.setattr(privatelr.call_data, "read_design", unread)
    block = Ledger(1.0) if inside else contextlib.nullcontext()
    with block, pytest.raises(GuaranteeError, match="a part of a ledger is for data") as error:
        privatelr.dplr(f"y ~ dose + {chosen}", clinic(), 0.1, ledger=ledger.part("old"), **SCHEMA)
    one_sentence(error)
    assert len(ledger.entries) == 2


def test_a_plan_is_kept(address):
    prices = [ZCDP(0.01)] * 3
    ledger = Ledger.create(address, prices=prices, delta=1e-6)
    assert ledger.epsilon == Ledger.plan(prices, 1e-6).epsilon
    for _ in range(3):
        ledger.charge(ZCDP(0.01))
    with pytest.raises(GuaranteeError, match="not among the declared prices"):
        ledger.charge(ZCDP(0.01))
    assert "Left: 0 of 3 prices" in str(ledger)


def test_events_that_cost_too_little_are_not_believed(ledger):
    with pytest.raises(GuaranteeError):
        ledger.charge(PureDP(50.0), [PureDP(1e-6)])
    with pytest.raises(GuaranteeError):
        ledger.charge(PureDP(0.5), [GaussianEvent(1e-9)])
    assert ledger.entries == ()


# -- before the data are read -----------------------------------------------------------------


def check_charged_and_durable_before_reading(monkeypatch, path, **given):
    """When the first value is read, another process finds the charge on the disk."""
    seen = []
    honest = privatelr.call_data.read_design
    code = f"from privatelr import Ledger; print(Ledger.open({str(path)!r}).spent())"

    def read_design(*arguments, **options):
        if not seen:
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
            seen.append(float(done.stdout))
        return honest(*arguments, **options)

    monkeypatch.setattr(privatelr.call_data, "read_design", read_design)
    fit_clinic(clinic(), eps=0.4, **given)
    assert seen == [0.4]


def test_a_path_is_charged_before_the_data_are_read(monkeypatch, path, ledger):
    check_charged_and_durable_before_reading(monkeypatch, path, ledger=str(path))


def test_planted_charge_after_read_is_caught(monkeypatch, path, ledger):
    honest = ledger_store.DiskPage.commit
    kept = []

    def late(page):
        kept.append(page)
        return honest(page) if len(kept) > 1 else None

    monkeypatch.setattr(ledger_store.DiskPage, "commit", late)
    with pytest.raises(AssertionError):
        check_charged_and_durable_before_reading(monkeypatch, path, ledger=path)


def test_a_named_ledger_lets_no_fit_escape(monkeypatch, path, ledger):
    monkeypatch.setenv("PRIVATELR_LEDGER", str(path))
    fit_clinic(clinic(), eps=0.4)
    fit_clinic(clinic(), eps=0.1, ledger=path)
    other = Ledger(1.0)
    fit_clinic(clinic(), eps=0.2, ledger=other)
    with Ledger(1.0) as block:
        fit_clinic(clinic(), eps=0.1)
    with pytest.raises(GuaranteeError, match=r"^ledger: .* of 1;"):
        fit_clinic(clinic(), eps=0.3)
    assert (ledger.spent(), other.spent(), block.spent()) == (0.8, 0.2, 0.1)
    with pytest.warns(PrivacyWarning, match="seed"), pytest.raises(GuaranteeError, match="price"):
        fit_clinic(clinic(), eps=0.1, seed=1)


def test_a_named_ledger_that_is_missing_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("PRIVATELR_LEDGER", str(tmp_path / "missing"))
    with pytest.raises(LedgerError, match=r"^PRIVATELR_LEDGER: ledger .* no such ledger"):
        fit_clinic(clinic())


def test_every_way_to_pay_takes_a_path(path):
    import numpy as np

    from privatelr import (
        PrivateFTRL,
        choose,
        constraint_private_lp,
        dplpsvm,
        dpsimplex,
        dpsvm,
        levels_from,
        suggest_bounds,
    )

    ledger = Ledger.create(path, 100.0, 1e-3, account="sum")
    frame, box = clinic(n=2000), {"age": (0, 90)}
    fits = {"a": fit_clinic(frame, eps=1.0, ledger=path)}
    fits["b"] = fit_clinic(frame, eps=1.0, ledger=os.fspath(path), model=dpsvm)
    dpsimplex("y ~ age", frame, bounds=box, eps=1.0, ledger=path, levels={"y": [0, 1]})
    dplpsvm("y ~ age", frame, bounds=box, eps=1.0, ledger=path, levels={"y": [0, 1]})
    suggest_bounds(frame, box, eps=1.0, ledger=path)
    levels_from(frame, "smoker", eps=1.0, delta=1e-6, ledger=path)
    fits["a"].private_roc(frame, eps=1.0, ledger=path)
    choose({"a": fits["a"], "c": fit_clinic(frame, eps=1.0)}, frame, eps=1.0, ledger=path)
    PrivateFTRL(3, 20, 1.0, 0.0, ledger=path)
    ones = np.ones
    constraint_private_lp(
        ones((60, 2)), ones(60), ones(2), 1.0, width=2.0, violated=50, ledger=path
    )
    assert len(ledger.entries) == 10
    assert Ledger.check(path) == ()


# -- releases -----------------------------------------------------------------------------------


def test_a_saved_fit_completes_its_charge(tmp_path, path, ledger):
    fit = fit_clinic(clinic(), eps=0.4, ledger=path)
    assert ledger.charges[0].release is None
    assert "1 charge has no saved release" in str(ledger)
    for name in ("one.json", "two.json"):
        fit.save(tmp_path / name, overwrite=True)
    saved = json.loads((tmp_path / "one.json").read_text(encoding="utf-8"))
    assert ledger.charges[0].release == saved["sha256"]
    assert len(ledger.rows) == 3  # a second save of the same release adds nothing
    assert "no saved release" not in str(ledger)


def test_a_save_does_not_fail_with_its_ledger(tmp_path, path, ledger, monkeypatch):
    fit = fit_clinic(clinic(), eps=0.4, ledger=path)
    path.unlink()
    with pytest.warns(PrivacyWarning, match="was saved, and its charge stands without its hash"):
        fit.save(tmp_path / "fit.json", overwrite=True)
    assert (tmp_path / "fit.json").exists()


def test_a_fit_is_not_saved_over_a_ledger(tmp_path, path, ledger):
    fit, link = fit_clinic(clinic(), eps=0.4, ledger=path), tmp_path / "link.json"
    link.symlink_to(path)
    before = path.read_bytes()
    for name in (path, link):
        with pytest.raises(ReleaseFileError, match="is a ledger, or another database") as error:
            fit.save(name, overwrite=True)
        one_sentence(error)
    assert path.read_bytes() == before


def test_a_charge_takes_one_release(ledger):
    (receipt,) = ledger.charge(TENTH).receipts
    with pytest.raises(LedgerError, match="no such charge"):
        ledger._book.release(replace(receipt, head="0" * 64), "0" * 64)
    ledger._book.release(receipt, "0" * 64)
    ledger._book.release(receipt, "0" * 64)
    rows = len(ledger.rows)
    with pytest.raises(LedgerError, match="row 2 was saved as 000000000000 before") as error:
        ledger._book.release(receipt, "1" * 64)
    one_sentence(error)
    assert ledger.charges[0].release == "0" * 64
    assert len(ledger.rows) == rows


def test_the_first_of_two_releases_of_one_charge_is_kept(tmp_path, path, ledger):
    """Two models of one charge are two looks at the data, and one was paid for."""
    fit = fit_clinic(clinic(), eps=0.4, ledger=path)
    fit.save(tmp_path / "one.json")
    first = ledger.charges[0].release
    release = replace(fit.release, coef=fit.release.coef + fit.release.calibration.grid)
    other = type(fit)(fit.spec, release, fit.threshold)
    with pytest.warns(PrivacyWarning, match="before, and this file has another hash"):
        other.save(tmp_path / "two.json")
    assert ledger.charges[0].release == first


# -- other threads and processes ----------------------------------------------------------------


def test_pickles_reopen_it(path, ledger):
    part = ledger.part("a")
    child = "import pickle, sys; from privatelr import PureDP\n"
    child += "for a in pickle.load(sys.stdin.buffer): a.charge(PureDP(0.1))"
    page = pickle.dumps([ledger, part])
    subprocess.run([sys.executable, "-c", child], input=page, check=True)
    assert [charge.entry.part for charge in ledger.charges] == [None, "a"]
    path.rename(path.with_name("moved"))
    with pytest.raises(LedgerError, match="no such ledger"):
        pickle.loads(page)
    Ledger.create(path, 1.0)
    with pytest.raises(LedgerError, match="another ledger has taken its place"):
        pickle.loads(pickle.dumps(ledger))
    with pytest.raises(LedgerError, match="another ledger has taken its place"):
        ledger.charge(TENTH)


CHILD = """
import ledgers_at_work
from frames_for_laws import SCHEMA, clinic, fit_clinic
from ledgers_at_work import check_crowd, check_kills
from privatelr import GuaranteeError, Ledger
try:
    with Ledger(9.0):
        fit_clinic(clinic(), eps=0.25)
    fit_clinic(clinic(), eps=0.25)
except GuaranteeError as refused:
    print(refused)
"""


def run_child(**env):
    support = str(Path(__file__).parents[1] / "support")
    paths = os.pathsep.join([support, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        env={**os.environ, "PYTHONPATH": paths, **env},
        capture_output=True,
        check=True,
    )
    return done.stdout.decode()


def test_a_process_that_starts_inside_a_block_charges_it(ledger):
    with ledger:
        assert run_child() == ""
    assert ledger.spent() == 0.5
    assert "PRIVATELR_OPEN_BLOCKS" not in os.environ
    with ledger, Ledger(1.0) as memory:
        assert "another process" in run_child()
    assert (ledger.spent(), memory.spent()) == (0.5, 0)


def test_threads_share_the_file(path, ledger):
    def work(_):
        with contextlib.suppress(GuaranteeError):
            return Ledger.open(path).charge(TENTH)

    with ThreadPoolExecutor(8) as pool:
        made = [entry for entry in pool.map(work, range(30)) if entry is not None]
    assert len(made) == len(ledger.entries) == 10
    assert ledger.left() == 0


@FORKS
def test_many_processes_spend_exactly_the_budget(address):
    check_crowd(address, processes=8, charges=5, budget=15)


@FORKS
def test_planted_missing_lock_is_caught(path, monkeypatch):
    """Read and compose without the lock of writers, as two sessions did with JSON."""
    unlocked = (
        "import time\n"
        "from privatelr.privacy.accounting import ledger_store\n"
        "ledger_store._BEGIN['sqlite'] = ('BEGIN',)\n"
        "honest = ledger_store.charged\n"
        "ledger_store.charged = lambda *given: (time.sleep(0.02), honest(*given))\n"
    )
    monkeypatch.setattr(ledgers_at_work, "CROWD", f"{unlocked}{ledgers_at_work.CROWD}")
    with pytest.raises(AssertionError):
        check_crowd(path, processes=4, charges=4, budget=5)


@FORKS
def test_a_fork_waits_for_a_charge_of_another_thread(path, ledger, monkeypatch):
    """So the child has no connection of its parent, and can charge."""
    begun = threading.Event()
    honest = ledger_store.DiskPage.add

    def slow(page, entry):
        begun.set()
        time.sleep(0.3)
        honest(page, entry)

    monkeypatch.setattr(ledger_store.DiskPage, "add", slow)
    thread = threading.Thread(target=ledger.charge, args=(TENTH,))
    thread.start()
    begun.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is the test
        child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            ledger.charge(TENTH)
            status = 0
        os._exit(status)
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ledger.spent() == 0.2


# -- what goes wrong ------------------------------------------------------------------------------


def test_a_killed_process_leaves_nothing_half(stored):
    """Its transaction is rolled back, by the next one or by the server."""
    killed = (
        "import os, sys\n"
        "from privatelr import PureDP\n"
        "from privatelr.privacy.accounting import Entry, ledger_store\n"
        "with ledger_store.DiskBook(sys.argv[1]).exclusively() as page:\n"
        "    page.add(Entry('half', PureDP(0.1)))\n"
        "    os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", killed, stored._book.address], check=False)
    assert len(stored.rows) == 1
    stored.charge(TENTH)
    assert Ledger.check(stored._book.address) == ()


def test_a_connection_that_ends_during_a_charge_is_one_sentence(server):
    run_sql(f"{server}/postgres", "CREATE DATABASE ended")
    ledger = Ledger.create(f"{server}/ended", 1.0)
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'ended'"

    def charge():
        with ledger._book.exclusively() as page:
            page.add(privatelr.privacy.accounting.Entry("half", TENTH))
            run_sql(f"{server}/postgres", end)
            page.commit()

    with pytest.raises(LedgerError, match=r"no data were read, and the charge may count\.$"):
        charge()
    assert len(ledger.rows) == 1


FULL = """
import resource, sys
from privatelr import Ledger, LedgerError, PureDP
path, limit = sys.argv[1], int(sys.argv[2])
ledger = Ledger.open(path)
ledger.charge(PureDP(0.1))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
made = 0
try:
    for _ in range(400):
        ledger.charge(PureDP(0.1), label="x" * 200)
        made += 1
except LedgerError as error:
    print(error)
print(made, len(ledger.entries))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on files here")
def test_a_full_disk_is_one_sentence_and_nothing_is_half_written(path):
    Ledger.create(path, 1000.0)
    # the limit is above the size of the file and below that of 400 charges
    limit = str(path.stat().st_size + 20_000)
    command = [sys.executable, "-c", FULL, str(path), limit]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    told, counts = done.stdout.splitlines()
    assert "cannot be written" in told
    assert told.endswith("no data were read, and the charge may count.")
    made, kept = map(int, counts.split())
    assert kept == made + 1
    assert 0 < made < 400
    assert Ledger.check(path) == ()
    Ledger.open(path).charge(TENTH)


@FORKS
def test_kills_lose_no_charge(address):
    check_kills(address, kills=15, seed=1)


def prepared(folder):
    """The folder of a table whose fits are charged to a ledger."""
    frame = pd.DataFrame({"age": [20.0, 30.0, 40.0, 50.0] * 100, "y": [0, 1] * 200})
    frame.to_csv(folder / "table.csv", index=False)
    return folder


def test_kills_of_saves_leave_nothing_half(address, tmp_path):
    Ledger.create(address, 10.0)
    check_kills_of_saves(prepared(tmp_path), address, kills=4, seed=1)


# -- what was changed -----------------------------------------------------------------------------


# a hash may hold any digit, or not
OTHER_HASH = "hash = (CASE substr(hash, 1, 1) WHEN 'a' THEN 'b' ELSE 'a' END) || substr(hash, 2)"
SET = "UPDATE privatelr_ledger SET"
GONE = "DELETE FROM privatelr_ledger WHERE number"
CHANGES = {
    "a price": f"{SET} body = replace(body, '0.3', '0.1') WHERE number = 3",
    "a hash": f"{SET} {OTHER_HASH} WHERE number = 3",
    "a label": f"{SET} body = replace(body, 'second', 'first') WHERE number = 3",
    "a row is gone": f"{GONE} = 3",
    "the first row is gone": f"{GONE} = 1",
    "another order": f"{SET} number = 9 WHERE number = 2",
    "the budget": f"{SET} body = replace(body, '1.0', '9.0') WHERE number = 1",
    "the last row is gone": f"{GONE} = 4",
    "the last rows are gone": f"{GONE} > 2",
    "the last row has another number": f"{SET} number = 7 WHERE number = 4",
    "all rows have other numbers": f"{SET} number = number + 90 WHERE number > 0",
    "the head is gone": f"{GONE} = 0",
    "the head counts less": f"{SET} body = '3' WHERE number = 0",
    "the head has another hash": f"{SET} {OTHER_HASH} WHERE number = 0",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_tampered_row_is_found(address, stored, change):
    stored.charge(PureDP(0.2), label="first")
    stored.charge(PureDP(0.3), label="second")
    stored.charge(PureDP(0.1), label="third")
    assert Ledger.check(address) == ()
    run_sql(address, change)
    assert Ledger.check(address) != ()
    for work in (lambda: stored.charge(TENTH), stored.spent):
        with pytest.raises(LedgerError, match="`privatelr ledger check` looks at") as caught:
            work()
        one_sentence(caught)
    ledger_store._SEEN.clear()  # as another process
    with pytest.raises(LedgerError):
        Ledger.open(address)


def rewritten(ledger, change):
    """Return a last row that was changed, with the hash that follows."""
    *_, before, last = ledger.rows
    return ledger_store.chained(change(last.body), before.hash)


ROW = f"{SET} body = :body, hash = :hash WHERE number = :number"


def test_a_last_row_with_a_right_hash_is_found(address, stored):
    """A chain of hashes has nothing after its last row, so the head stands for that."""
    stored.charge(TENTH)
    stored.charge(PureDP(0.5), label="dear")
    row = rewritten(stored, lambda body: body.replace("0.5", "0.1"))
    run_sql(address, (ROW, {"number": 3, **row._asdict()}))
    (told,) = Ledger.check(address)
    assert told.startswith("the head does not say that row 3 is the last")
    ledger_store._SEEN.clear()
    with pytest.raises(LedgerError, match="the head does not say") as error:
        Ledger.open(address)
    one_sentence(error)


@pytest.mark.parametrize("last", ["another price", "gone"])
def test_a_noted_head_finds_one_who_computes_all_anew(path, ledger, last):
    """Who writes the head, too, is found by what was noted outside of the file alone."""
    ledger.charge(TENTH)
    entry = ledger.charge(PureDP(0.5), label="dear")
    noted, earlier = ledger.head, ledger.rows[1].hash
    if last == "gone":
        run_sql(path, f"{GONE} = 3", (ROW, {"number": 0, "body": "2", "hash": earlier}))
    else:
        row = rewritten(ledger, lambda body: body.replace("0.5", "0.1"))
        head = {"number": 0, "body": "3", "hash": row.hash}
        run_sql(path, (ROW, {"number": 3, **row._asdict()}), (ROW, head))
    ledger_store._SEEN.clear()
    assert Ledger.check(path) == ()  # as SECURITY.md says
    assert Ledger.check(path, head=earlier) == ()
    assert "no row has the hash" in Ledger.check(path, head=noted)[0]
    assert not Ledger.open(path).knows(entry)  # its release would tell, too


def test_a_noted_head_is_an_earlier_row(path, ledger):
    for _ in range(3):
        noted = ledger.head
        ledger.charge(TENTH)
        assert Ledger.check(path, head=noted) == Ledger.check(path, head=ledger.head) == ()
        assert f"Head: row {len(ledger.rows)}, {ledger.head}" in str(ledger)
    for wrong in ("abc", noted[:16], noted.upper(), 7):
        with pytest.raises(LedgerError, match="head takes 64 hexadecimal digits") as error:
            Ledger.check(path, head=wrong)
        one_sentence(error)


def forged(ledger, change):
    """Write rows and the head anew with right hashes, as one who knows how they are made."""
    rows, head = [json.loads(row.body) for row in ledger.rows], ""
    change(rows)
    added = "INSERT INTO privatelr_ledger VALUES (:number, :body, :hash)"
    commands = ["DELETE FROM privatelr_ledger"]
    for number, body in enumerate(rows, 1):
        row = ledger_store.chained(json.dumps(body, sort_keys=True), head)
        commands.append((added, {"number": number, **row._asdict()}))
        head = row.hash
    commands.append((added, {"number": 0, "body": str(len(rows)), "hash": head}))
    run_sql(ledger._book.address, *commands)
    ledger_store._SEEN.clear()


@pytest.mark.parametrize("line", [7, None, "kind", ["kind"], {}, {"kind": ["opened"]}])
def test_a_line_that_is_no_row_is_one_sentence(path, ledger, line):
    ledger.charge(TENTH)
    forged(ledger, lambda rows: rows.append(line))
    assert "row 3" in Ledger.check(path)[0]
    with pytest.raises(LedgerError, match="row 3") as error:
        Ledger.open(path)
    one_sentence(error)


def cheap_event(rows):
    rows[1]["entry"]["events"] = [{**rows[1]["entry"]["guarantee"], "epsilon": 1e-9}]


def test_an_event_that_costs_too_little_is_found_with_right_hashes(path, ledger):
    ledger.charge(PureDP(0.2))
    forged(ledger, cheap_event)
    assert "row 2" in Ledger.check(path)[0]
    with pytest.raises(LedgerError, match="row 2"):
        Ledger.open(path)


def check_overdraft_is_found(path, ledger):
    ledger.charge(PureDP(0.9))
    forged(ledger, lambda rows: rows.append(rows[1]))
    assert "more than the budget" in Ledger.check(path)[0]


def test_an_overdraft_is_found_with_right_hashes(path, ledger):
    check_overdraft_is_found(path, ledger)


def test_planted_check_of_hashes_alone_is_caught(path, ledger, monkeypatch):
    monkeypatch.setattr(statements, "is_within", lambda _: True)
    with pytest.raises((AssertionError, IndexError)):
        check_overdraft_is_found(path, ledger)


def test_a_backup_that_was_put_back_shows(tmp_path, path, ledger):
    ledger.charge(TENTH)
    backup = path.read_bytes()
    entry = ledger.charge(PureDP(0.5), label="lost")
    noted = ledger.head
    path.write_bytes(backup)
    with pytest.raises(LedgerError, match="gone or others, as in a backup"):
        ledger.charge(TENTH)
    ledger_store._SEEN.clear()  # another process cannot know, but for the card
    restored = Ledger.open(path)
    assert Ledger.check(path) == ()
    restored.charge(PureDP(0.3))
    assert "changed or are gone" in Ledger.check(path, head=noted)[0]
    assert not restored.knows(entry)


# -- on the card and in the file ------------------------------------------------------------------


def test_the_card_and_the_file_have_the_place_of_the_charge(tmp_path, path, ledger, monkeypatch):
    other = Ledger.create(tmp_path / "other.ledger", 1.0, dataset="<b>all</b> sites")
    monkeypatch.setenv("PRIVATELR_LEDGER", str(tmp_path / "other.ledger"))
    fit = fit_clinic(clinic(), eps=0.4, ledger=path)
    assert {one.ledger for one in fit.release.entry.receipts} == {ledger._book.key, other._book.key}
    fit.save(tmp_path / "fit.json")
    loaded = privatelr.load(tmp_path / "fit.json")
    assert loaded.release.entry.receipts == fit.release.entry.receipts
    assert loaded.card() == loaded.card().replace("<b>", "")
    for one in (fit, loaded):
        for kept in (ledger, other):
            assert kept.knows(one.release.entry)
            head = kept.rows[1].hash
            assert f"head {head}" in one.card()
    document = json.loads((tmp_path / "fit.json").read_text(encoding="utf-8"))
    assert str(path) not in json.dumps(document)
    assert ledger.charges[0].release == other.charges[0].release == document["sha256"]
