"""``privatelr ledger``, and how other commands charge a ledger on disk."""

import contextlib
import hashlib
import json
import os
import re
import sqlite3
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from privatelr import Ledger, load
from privatelr.cli import lrsimple, main
from privatelr.privacy.accounting import ledger_store
from privatelr.results.release_files import content_hash

FIT = ["fit", "table.csv", "y ~ age", "--bounds", "age=18:90", "--bounds", "y=0:1"]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"age": rng.uniform(18, 90, 900), "y": rng.integers(0, 2, 900)})
    frame["job"] = rng.choice(["clerk", "worker"], 900)
    frame.to_csv("table.csv", index=False)
    return tmp_path


@pytest.fixture
def ledger(home):
    return Ledger.create("clinic.ledger", 3.0, dataset="clinic 2026")


def said(capsys, status, *words):
    """What a command prints; a refusal is one line on standard error, and nothing else."""
    assert main(list(words)) == status
    shown = capsys.readouterr()
    if status:
        assert shown.out == ""
        lines = [line for line in shown.err.splitlines() if "read as numbers" not in line]
        assert len(lines) == 1
        return lines[0]
    return shown.out


def test_a_days_work(home, capsys):
    made = said(capsys, 0, "ledger", "create", "c.ledger", "--eps", "3", "--dataset", "clinic")
    assert made.startswith("Ledger of clinic: epsilon 3\n")
    price = ["--eps", "1", "--ledger", "c.ledger"]
    said(capsys, 0, *FIT, *price, "--out", "model.json", "--note", "the first")
    said(capsys, 0, "bounds", "table.csv", "--bounds", "age=0:1000", *price, "--out", "b.toml")
    page = said(capsys, 0, "ledger", "show", "c.ledger")
    assert "Spent: epsilon 2" in page
    assert "Left: epsilon 1" in page
    assert re.search(r"the first +1 +epsilon 1 +0", page)
    assert "no saved release" not in page
    said(capsys, 0, "ledger", "check", "c.ledger", "model.json")
    assert "only" in said(capsys, 0, *FIT, *price)
    assert "1 charge has no saved release" in said(capsys, 0, "ledger", "entries", "c.ledger")
    told = said(capsys, 1, *FIT, *price)
    assert told.startswith("privatelr: ledger: eps=1 more would make 4 of 3; what is left is ")


def test_the_variable_names_a_ledger_for_every_command(home, monkeypatch, capsys):
    ledger = Ledger.create("clinic.ledger", 3.0, 1e-5, account="sum")
    monkeypatch.setenv("PRIVATELR_LEDGER", "clinic.ledger")
    said(capsys, 0, *FIT, "--eps", "0.5")
    said(capsys, 0, *FIT, "--eps", "0.25", "--method", "svm")
    said(capsys, 0, "bounds", "table.csv", "--bounds", "age=0:1000", "--eps", "1")
    said(capsys, 0, "levels", "table.csv", "job", "--eps", "0.25", "--delta", "1e-6")
    (home / "data.txt").write_text("2 1 9 .25  .5 .5  1 -1\n")
    assert lrsimple(["--released-only", "data.txt"]) == 0
    assert ledger.spent() == pytest.approx(2.5, abs=1e-12)
    assert len(ledger.entries) == 5
    assert ledger.entries[-1].times == 2
    capsys.readouterr()
    assert lrsimple(["data.txt"]) == 1
    assert "--released-only leaves it out" in capsys.readouterr().err
    assert "Spent: epsilon 2.5 at delta" in said(capsys, 0, "ledger", "show")
    assert said(capsys, 1, *FIT, "--eps", "1").endswith("what is left is epsilon 0.5.")
    monkeypatch.setenv("PRIVATELR_LEDGER", "missing.ledger")
    assert "PRIVATELR_LEDGER: ledger" in said(capsys, 2, *FIT)


def test_public_tables_are_not_charged(home, ledger, monkeypatch, capsys):
    monkeypatch.setenv("PRIVATELR_LEDGER", "clinic.ledger")
    assert "PRIVATELR_LEDGER" not in said(capsys, 0, "demo")
    json.loads(said(capsys, 0, "demo", "--json"))
    assert ledger.entries == ()
    assert os.environ["PRIVATELR_LEDGER"] == "clinic.ledger"


def test_a_refused_fit_reads_nothing(home, ledger, capsys, monkeypatch):
    def unread(*_, **__):
        raise AssertionError("the table was read")

    monkeypatch.setattr("privatelr.cli.model_commands.open_table", unread)
    for name in ("none", ""):
        said(capsys, 2, *FIT, "--ledger", name)
    assert "--note goes with --ledger" in said(capsys, 2, *FIT, "--note", "a")


def test_an_export_has_every_row_and_is_no_ledger(home, ledger, capsys):
    said(capsys, 0, *FIT, "--eps", "0.5", "--ledger", "clinic.ledger")
    shown = said(capsys, 0, "ledger", "export", "clinic.ledger")
    said(capsys, 0, "ledger", "export", "clinic.ledger", "--out", "rows.json")
    assert (home / "rows.json").read_text(encoding="utf-8") == shown
    rows = json.loads(shown)["rows"]
    assert json.loads(shown)["head"] == {"row": 2, "sha256": ledger.head}
    assert [row["sha256"] for row in rows] == [row.hash for row in ledger.rows]
    assert rows[1]["row"]["kind"] == "charged"
    said(capsys, 2, "ledger", "show", "rows.json")
    assert "the file exists" in said(capsys, 1, "ledger", "export", "--out", "rows.json", "x")


def tamper(path):
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as raw:
        changed = "body = replace(body, '0.5', '0.1')"
        raw.execute(f"UPDATE privatelr_ledger SET {changed} WHERE number = 2")


def test_check_finds_what_was_changed(home, ledger, capsys):
    said(capsys, 0, *FIT, "--eps", "0.5", "--ledger", "clinic.ledger", "--out", "model.json")
    tamper("clinic.ledger")
    assert main(["ledger", "check", "clinic.ledger", "model.json"]) == 1
    assert "row 2 does not follow" in capsys.readouterr().out
    told = said(capsys, 2, "ledger", "show", "clinic.ledger")
    assert "`privatelr ledger check` looks at every row" in told


def test_check_misses_no_model(home, ledger, capsys):
    """A model that was charged elsewhere, or after the backup that was put back."""
    backup = (home / "clinic.ledger").read_bytes()
    said(capsys, 0, *FIT, "--ledger", "clinic.ledger", "--out", "charged.json")
    said(capsys, 0, *FIT, "--out", "free.json")
    said(capsys, 0, "ledger", "check", "clinic.ledger", "charged.json")
    assert main(["ledger", "check", "clinic.ledger", "free.json"]) == 1
    (home / "clinic.ledger").write_bytes(backup)
    command = [sys.executable, "-c", "import sys; from privatelr.cli import main; sys.exit(main())"]
    done = subprocess.run(
        [*command, "ledger", "check", "clinic.ledger", "charged.json"], capture_output=True
    )
    assert done.returncode == 1
    assert b"a backup of the ledger was put back" in done.stdout
    assert load("charged.json").release.entry.receipts


def test_check_finds_another_model_of_the_same_charge(home, ledger, capsys):
    """The receipt of a charge is public, and can be copied into a file with other numbers."""
    said(capsys, 0, *FIT, "--ledger", "clinic.ledger", "--out", "model.json")
    said(capsys, 0, *FIT, "--out", "other.json")
    names = ("model.json", "other.json")
    charged, other = (json.loads((home / name).read_text(encoding="utf-8")) for name in names)
    forged = {**other, "ledger": charged["ledger"]}
    forged["sha256"] = content_hash(forged)
    (home / "forged.json").write_text(json.dumps(forged), encoding="utf-8")
    said(capsys, 0, "ledger", "check", "clinic.ledger", "model.json")
    assert main(["ledger", "check", "clinic.ledger", "forged.json"]) == 1
    assert "this file has another hash" in capsys.readouterr().out


def test_check_compares_a_head_that_was_noted(home, ledger, capsys):
    """As of an operator who keeps it on paper; the last charge is then taken away as a whole."""
    said(capsys, 0, *FIT, "--eps", "0.5", "--ledger", "clinic.ledger")
    noted = re.search(
        "Head: row 2, ([0-9a-f]{64})", said(capsys, 0, "ledger", "show", "clinic.ledger")
    )[1]
    backup = (home / "clinic.ledger").read_bytes()
    said(capsys, 0, *FIT, "--eps", "0.5", "--ledger", "clinic.ledger")
    check = ["ledger", "check", "clinic.ledger"]
    assert "and the head that was noted" in said(capsys, 0, *check, "--head", noted)
    found = said(capsys, 0, *check)
    assert "a head that was noted elsewhere" in found
    later = re.search("The head is ([0-9a-f]{64})", found)[1]
    (home / "clinic.ledger").write_bytes(backup)
    ledger_store._SEEN.clear()
    said(capsys, 0, *check, "--head", noted)
    assert main([*check, "--head", later]) == 1
    assert f"no row has the hash {later[:12]} that was noted" in capsys.readouterr().out
    assert main([*check, "--head", "abc"]) == 2
    assert "head='abc': head takes 64 hexadecimal digits" in capsys.readouterr().err


def stdout_to(path, words):
    """Run a command as a shell with ``> path`` does."""
    code = "import sys; from privatelr.cli import main; sys.exit(main())"
    with open(path, "wb") as file:
        return subprocess.run([sys.executable, "-c", code, *words], stdout=file).returncode


def test_a_model_that_was_printed_into_a_file_is_saved(home, ledger, capsys, monkeypatch):
    """``--json > m.json`` makes the file that ``--out m.json`` makes, so it needs no warning."""
    words = [*FIT, "--eps", "0.5", "--ledger", "clinic.ledger", "--json"]
    assert stdout_to("m.json", words) == 0
    assert ledger.charges[0].release == json.loads((home / "m.json").read_bytes())["sha256"]
    assert "every model is known" in said(capsys, 0, "ledger", "check", "clinic.ledger", "m.json")
    outer = ["bounds", "table.csv", "--bounds", "age=0:1000", "--eps", "0.3"]
    assert stdout_to("b.toml", [*outer, "--ledger", "clinic.ledger"]) == 0
    written = hashlib.sha256((home / "b.toml").read_bytes()).hexdigest()
    assert ledger.charges[1].release == written
    assert stdout_to("b.json", [*outer, "--ledger", "clinic.ledger", "--json"]) == 0
    if os.path.exists("/dev/full"):
        assert stdout_to("/dev/full", words) == 3
    assert [charge.release for charge in ledger.charges[2:]] == [None] * len(ledger.charges[2:])
    before = len(ledger.charges)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    said(capsys, 0, *words)
    assert len(ledger.charges) == before + 1
    assert ledger.charges[-1].release is None


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (1, ["create", "clinic.ledger", "--eps", "1"]),
        (1, ["create", "none/x", "--eps", "1"]),
        (2, ["create", "x", "--eps", "-1"]),
        (2, ["create", "x", "--eps", "1", "--delta", "1"]),
        (2, ["create", "x"]),
        (2, ["show", "none"]),
        (2, ["show"]),
        (2, ["show", "table.csv"]),
        (2, ["entries", "none"]),
        (2, ["check", "none"]),
        (2, ["check", "clinic.ledger", "none.json"]),
        (2, ["export", "none"]),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else None,
)
def test_what_is_refused_is_one_line(home, ledger, capsys, status, words):
    said(capsys, status, "ledger", *words)
    assert not (home / "x").exists()


def test_what_is_left_out_is_named(home, capsys):
    assert main(["ledger", "check"]) == 2
    assert (
        "FILE requires an argument (see privatelr ledger check --help)" in capsys.readouterr().err
    )


def test_a_file_that_is_held_is_one_line(home, ledger, capsys, monkeypatch):
    monkeypatch.setattr(ledger_store, "WAIT", 0.1)
    with contextlib.closing(sqlite3.connect("clinic.ledger", isolation_level=None)) as raw:
        raw.execute("BEGIN IMMEDIATE")
        told = said(capsys, 1, *FIT, "--ledger", "clinic.ledger")
    assert "another process has held it for 0.1 seconds; nothing was charged." in told


AT_ONCE = """
import os
from privatelr.cli import main
children = []
for number in range(4):
    if (child := os.fork()) == 0:
        box = ["--bounds", "age=18:90", "--bounds", "y=0:1"]
        os._exit(main(["fit", "table.csv", "y ~ age", *box, "--eps", "1",
                       "--ledger", "small.ledger", "--out", f"{number}.json"]))
    children.append(child)
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
os.write(1, " ".join(map(str, codes)).encode())
"""


def test_four_fits_at_once_spend_what_the_ledger_has(home):
    """As an office found it: four processes that kept no account spent four epsilons."""
    Ledger.create("small.ledger", 2.0)
    done = subprocess.run([sys.executable, "-c", AT_ONCE], capture_output=True, check=True)
    assert sorted(done.stdout.split()[-4:]) == [b"0", b"0", b"1", b"1"]
    assert done.stderr.count(b"what is left is epsilon ") == 2
    assert len(list(home.glob("*.json"))) == 2
    assert "no saved release" not in str(Ledger.open("small.ledger"))


def test_no_command_replaces_a_ledger(home, ledger, capsys, monkeypatch):
    """The only account of what is spent is not lost by a name that was given twice."""
    monkeypatch.setattr("privatelr.cli.model_commands.open_table", None)
    before = (home / "clinic.ledger").read_bytes()
    out = ["--out", "clinic.ledger", "--force"]
    for words in ([*FIT, "--ledger", "clinic.ledger"], ["ledger", "export", "clinic.ledger"]):
        told = said(capsys, 1, *words, *out)
        assert "is a ledger, or another database, and is not replaced" in told
    assert (home / "clinic.ledger").read_bytes() == before
