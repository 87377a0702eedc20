"""`privatelr bounds --plan N` and `levels --plan N`: what to expect, before there is a table."""

import json
import shlex

import pytest

from privatelr import cli, plan_bounds, plan_levels
from privatelr.cli.outcomes import in_shell

BOUNDS = "bounds --plan 20000 --bounds age=0:150 --bounds income=0:1e7 --eps 0.2"
LEVELS = "levels --plan 20000 --eps 0.1 --delta 1e-8"


def run(line):
    return cli.main(shlex.split(line))


@pytest.mark.parametrize(
    ("line", "made"),
    [
        (BOUNDS, lambda: plan_bounds({"age": (0, 150), "income": (0, 1e7)}, 20000, 0.2)),
        (f"{LEVELS} --person ward", lambda: plan_levels(20000, 0.1, 1e-8, person="ward")),
    ],
    ids=["bounds", "levels"],
)
def test_the_page_is_that_of_the_function(line, made, capsys):
    assert run(line) == 0
    assert capsys.readouterr().out == f"{in_shell(made())}\n"
    assert run(f"{line} --json") == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["expected"]) == len(made().to_frame())


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("bounds --bounds age=0:150 --eps 0.2", "DATA: it takes one, but for a plan by --plan N."),
        ("levels t.csv --eps 0.1 --delta 1e-8", "COLUMN: it takes one"),
        (f"bounds t.csv {BOUNDS[7:]}", "DATA goes with a table, and --plan reads none."),
        (f"{LEVELS} --save a.json", "--save goes with a table"),
        (f"{LEVELS} --ledger a.ledger", "--ledger goes with a table"),
        ("bounds --plan 2.5 --bounds age=0:150 --eps 0.2", "n=2.5"),
        ("levels --plan 20000 --delta 1e-8", "--eps: a price is needed"),
    ],
)
def test_what_does_not_go_together_is_refused(line, said, capsys):
    assert run(line) == 2
    (heard,) = capsys.readouterr().err.splitlines()
    assert said in heard


def test_a_plan_charges_nothing(tmp_path, monkeypatch, capsys):
    path = str(tmp_path / "own.ledger")
    assert run(f"ledger create {path} --eps 1 --delta 1e-6") == 0
    monkeypatch.setenv("PRIVATELR_LEDGER", path)
    assert run(BOUNDS) == run(LEVELS) == 0
    capsys.readouterr()
    assert run(f"ledger entries {path} --json") == 0
    assert json.loads(capsys.readouterr().out) == []
