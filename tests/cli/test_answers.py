"""``roc``, ``compare``, and what all commands share: ``--quiet``, ``--json``, Feather, stdin."""

import io
import json
import shlex
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_lines import FORMULA, LINES, people, prepare
from frames_for_laws import SCHEMA

import privatelr
from privatelr import cli, dplpsvm, dplr, dpsimplex, dpsvm, load
from privatelr.cli.outcomes import in_shell
from privatelr.results.release_files import content_hash

DECLARED = {"bounds": {**SCHEMA["bounds"], "größe": (0, 3)}, "levels": SCHEMA["levels"]}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a table and one model of each method."""
    folder = prepare(tmp_path_factory.mktemp("answers"))
    (folder / "copy.json").write_bytes((folder / "lr.json").read_bytes())
    return folder


@pytest.fixture
def home(made, monkeypatch):
    monkeypatch.chdir(made)
    return made


def run(line):
    try:
        return cli.main(shlex.split(line))
    except SystemExit as stop:
        return stop.code


MODELS = ("lr", "bought", "svm", "lp", "simplex")


# -- predict, of every method ----------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_predictions_of_every_method_are_those_of_python(name, home, capsys):
    assert run(f"predict {name}.json clinic.csv") == 0
    printed = pd.read_csv(io.StringIO(capsys.readouterr().out))
    expected = load(f"{name}.json").predict(people())
    assert list(printed.columns) == [expected.name]
    np.testing.assert_array_equal(printed.iloc[:, 0], expected)


@pytest.mark.parametrize(
    ("method", "function"), [("lr", dplr), ("svm", dpsvm), ("lp", dplpsvm), ("simplex", dpsimplex)]
)
def test_a_fit_of_every_method_is_that_of_python(method, function, home, tmp_path, capsys):
    line = f"fit clinic.csv --schema study.toml --method {method} --eps 20 --seed 5"
    assert run(f"{line} --out {tmp_path}/m.json") == 0
    with pytest.warns(privatelr.PrivacyWarning, match="seed=5"):
        expected = function(FORMULA, people(), **DECLARED, eps=20, seed=5)
    np.testing.assert_array_equal(load(tmp_path / "m.json").coef, expected.coef)
    assert run(f"card {tmp_path}/m.json") == 0
    assert "Privacy card" in capsys.readouterr().out


# -- roc -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_a_curve_is_that_of_python(name, home, tmp_path, capsys):
    assert run(f"roc {name}.json clinic.csv --eps .5 --seed 3") == 0
    shown = capsys.readouterr()
    with pytest.warns(privatelr.PrivacyWarning, match="seed=3"):
        expected = load(f"{name}.json").private_roc(people(), 0.5, seed=3)
    assert "read as numbers: y, age, dose, größe" in shown.err
    assert shown.err.count("seed") == 1
    assert shown.out == f"{in_shell(expected)}\n"
    assert run(f"roc {name}.json clinic.csv --eps .5 --seed 3 --json --out {tmp_path}/r.json") == 0
    told = json.loads(capsys.readouterr().out)
    assert str(load(tmp_path / "r.json")) == str(expected)
    assert told["counts"] == expected.to_dict()["counts"]
    assert told["numbers"][0]["estimate"] == expected.auc
    assert told["guarantee"] == expected.to_dict()["guarantee"]


def test_a_curve_that_was_bought_costs_nothing(home, capsys):
    assert run("roc bought.json") == 0
    assert capsys.readouterr().out.split() == str(load("bought.json").roc).split()
    assert run("roc bought.json --eps 1") == 2
    assert "takes a table" in capsys.readouterr().err
    assert run("roc lr.json") == 1
    assert "bought no ROC curve" in capsys.readouterr().err


def test_a_price_of_zcdp_and_a_picture(home, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    assert run(f"roc lr.json clinic.csv --rho .1 --plot {tmp_path}/roc.svg") == 0
    assert "rho = 0.1" in capsys.readouterr().out
    before = (tmp_path / "roc.svg").read_bytes()
    assert b"<svg" in before
    assert run(f"roc lr.json clinic.csv --rho .1 --plot {tmp_path}/roc.svg") == 1
    assert (tmp_path / "roc.svg").read_bytes() == before


@pytest.mark.parametrize(
    ("line", "status", "words"),
    [
        ("roc lr.json clinic.csv", 2, "a price is needed"),
        ("roc lr.json clinic.csv --eps 0", 2, "eps"),
        ("roc lr.json clinic.csv --rho 1 --delta 1e-6", 2, "--rho has none"),
        ("roc lr.json nothing.csv --eps 1", 2, "'nothing.csv'"),
        ("roc nothing.json clinic.csv --eps 1", 2, "'nothing.json'"),
        ("roc lr.json short.csv --eps 1", 2, "'y'"),
        ("roc lr.json clinic.csv --eps 1 --out lr.json", 1, "--force"),
        ("roc lr.json clinic.csv --eps 1 --plot roc.doc", 2, "roc.doc"),
        ("roc bought.json --out r.json", 2, "takes a table"),
        ("choose lr.json clinic.csv --eps 1", 2, "two or more"),
        ("choose lr.json svm.json clinic.csv", 2, "a price is needed"),
        ("choose lr.json lr.json clinic.csv --eps 1", 2, "named twice"),
        ("choose lr.json svm.json clinic.csv --eps 1 --score brier", 2, "margins"),
        ("fit clinic.csv --schema study.toml --threshold youden", 2, "--spend roc=0.25"),
    ],
)
def test_a_curve_that_is_refused_is_one_line(line, status, words, home, capsys):
    (home / "short.csv").write_text("age,dose,smoker,größe\n30,1,no,1\n", encoding="utf-8")
    assert run(line) == status
    shown = capsys.readouterr()
    said = [one for one in shown.err.splitlines() if "read as" not in one]
    assert len(said) == 1
    assert words in said[0]
    assert shown.out == ""


# -- one of several models -------------------------------------------------------------------


def test_a_choice_is_that_of_python(home, tmp_path, capsys):
    assert run(f"choose lr.json lp.json clinic.csv --eps 2 --seed 3 --out {tmp_path}/c.json") == 0
    fits = {name: load(f"{name}.json") for name in ("lr", "lp")}
    with pytest.warns(privatelr.PrivacyWarning, match="seed=3"):
        expected = privatelr.choose(fits, people(), 2, seed=3)
    assert capsys.readouterr().out == f"{in_shell(expected)}\n"
    assert load(tmp_path / "c.json").label == expected.label
    assert run("choose lr.json lp.json clinic.csv --eps 2 --seed 3 --json") == 0
    assert json.loads(capsys.readouterr().out)["derived"] == {"chosen": expected.label}
    # a choice predicts as the model that was chosen
    assert run(f"predict {tmp_path}/c.json clinic.csv --json") == 0
    chosen = json.loads(capsys.readouterr().out)
    assert run(f"predict {expected.label}.json clinic.csv --json") == 0
    assert chosen == json.loads(capsys.readouterr().out)


def test_a_saved_answer_is_shown_again_and_known_to_its_ledger(home, tmp_path, capsys):
    lines = {
        "r.json": "roc lr.json clinic.csv --eps .5",
        "c.json": "choose lr.json lp.json clinic.csv --eps .5",
    }
    assert run(f"ledger create {tmp_path}/l.ledger --eps 10") == 0
    for name, line in lines.items():
        path = tmp_path / name
        assert run(f"{line} --ledger {tmp_path}/l.ledger --out {path}") == 0
        capsys.readouterr()
        assert run(f"roc {path}") == 0
        assert capsys.readouterr().out == f"{in_shell(load(path))}\n"
        assert run(f"card {path}") == 0
        assert "Privacy card of an answer" in capsys.readouterr().out
        if name != "c.json":
            assert run(f"predict {path} clinic.csv") == 2
            assert "has an answer, and no model" in capsys.readouterr().err
    saved = " ".join(str(tmp_path / name) for name in lines)
    assert run(f"ledger check {tmp_path}/l.ledger {saved}") == 0
    assert "every model is known" in capsys.readouterr().out
    assert run(f"ledger check clinic.ledger {tmp_path}/r.json") == 1
    document = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    document["call"]["formula"] = "y ~ 1"
    document["sha256"] = content_hash(document)
    (tmp_path / "r.json").write_text(json.dumps(document), encoding="utf-8")
    capsys.readouterr()
    assert run(f"ledger check {tmp_path}/l.ledger {tmp_path}/r.json") == 1
    assert "another hash" in capsys.readouterr().out


# -- compare ---------------------------------------------------------------------------------


def test_a_comparison_is_that_of_python(home, tmp_path, capsys):
    names = ("lr", "svm", "lp")
    line = "compare lr.json svm.json lp.json"
    assert run(line) == 0
    printed = capsys.readouterr().out
    found = privatelr.compare({name: load(f"{name}.json") for name in names})
    assert printed.rstrip("\n") == found.as_text().rstrip("\n")
    assert run(f"{line} --out {tmp_path}/table") == 0
    assert (tmp_path / "table").read_text(encoding="utf-8") == printed
    assert capsys.readouterr().out == ""


# -- quiet and JSON, of every command --------------------------------------------------------


@pytest.mark.parametrize(
    "line", ["roc lr.json clinic.csv --eps 1", "bounds clinic.csv --bounds age=0:200 --eps 4"]
)
def test_an_answer_says_if_no_ledger_is_charged(line, home, capsys):
    for option, said in (("", True), (" --ledger clinic.ledger", False)):
        assert run(f"{line}{option}") == 0
        shown = capsys.readouterr()
        assert ("no ledger was charged" in shown.err) is said
        if line.startswith("roc"):  # its page is read without what was said next to it
            assert ("no ledger was charged" in shown.out) is said


@pytest.mark.parametrize("command", LINES)
def test_every_command_prints_json(command, home, capsys):
    assert run(f"{LINES[command]} --json") == 0
    shown = capsys.readouterr()
    if command == "check":
        assert shown.out == ""
        told = json.loads(shown.err.partition("\n")[2])
        assert told["private"] is False
        assert sum(told["classes"].values()) == told["n"] == 600
        return
    json.loads(shown.out)


# -- inputs ----------------------------------------------------------------------------------

TABLE_READERS = {
    "check": "check {} --schema study.toml",
    "fit": "fit {} --schema study.toml --seed 3",
    "schema init": "schema init {}",
    "bounds": "bounds {} --bounds age=0:200 --eps 4 --seed 3",
    "levels": "levels {} smoker --eps 4 --delta 1e-6 --seed 3",
    "predict": "predict lr.json {}",
    "roc": "roc lr.json {} --eps 1 --seed 3",
    "choose": "choose lr.json lp.json {} --eps 1 --seed 3",
    "plan": "plan --schema study.toml --n 600 --spend coefficients=1 --pilot {}",
}


@pytest.mark.parametrize("command", TABLE_READERS)
def test_a_table_may_come_in_any_form(command, home, capsys, monkeypatch):
    """As CSV, as compressed CSV, on standard input, in Parquet and in Feather."""
    pytest.importorskip("pyarrow", reason="needs the extra [parquet]")
    table = people()
    table.to_csv("c.csv.gz", index=False)
    table.to_csv("c.csv.xz", index=False)
    table.to_parquet("c.parquet")
    table.to_feather("c.feather")
    table.to_feather("c.arrow", compression="uncompressed")
    found = {}
    for form in ("clinic.csv", "c.csv.gz", "c.csv.xz", "-", "c.parquet", "c.feather", "c.arrow"):
        stdin = io.TextIOWrapper(io.BytesIO(Path("clinic.csv").read_bytes()))
        monkeypatch.setattr(sys, "stdin", stdin)
        assert run(f"{TABLE_READERS[command].format(form)} --json") == 0, form
        shown = capsys.readouterr()
        text = shown.out or shown.err.partition("\n")[2]
        told = json.loads(text)
        if command == "schema init":
            told = [one["name"] for one in told["columns"]]
        if command == "fit":  # what a column can hold is what its file says
            del told["sha256"]
            for variable in told["call"]["design"]["variables"]:
                del variable["content"]
        found[form] = told
    assert all(one == found["clinic.csv"] for one in found.values())


# -- declarations that are saved --------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("bounds clinic.csv --bounds age=0:200 --eps 4", "Suggested bounds"),
        ("levels clinic.csv smoker --eps 4 --delta 1e-6", "Released levels"),
    ],
)
def test_a_declaration_is_saved_beside_its_schema(line, words, home, tmp_path, capsys):
    path, ledger = tmp_path / "a.json", tmp_path / "l.ledger"
    assert run(f"ledger create {ledger} --eps 9 --delta 1e-3 --dataset clinic") == 0
    assert run(f"{line} --save {path} --ledger {ledger}") == 0
    printed = tomllib.loads(capsys.readouterr().out.partition("#")[2].partition("\n")[2])
    found = load(path)
    declared = {**printed.get("bounds", {}), **printed.get("levels", {})}
    assert {name: tuple(pair) for name, pair in declared.items()} == dict(found)
    assert run(f"card {path}") == 0
    assert words in capsys.readouterr().out
    assert run(f"ledger check {ledger} {path}") == 0
    assert "every model is known" in capsys.readouterr().out
    for command in (f"roc {path}", f"predict {path} clinic.csv", f"{line} --save {path}"):
        assert run(command) != 0
    capsys.readouterr()
    before = len(privatelr.Ledger.open(ledger).charges)
    assert run(f"{line} --save {tmp_path}/b --out {tmp_path}/b --ledger {ledger}") != 0
    assert len(privatelr.Ledger.open(ledger).charges) == before
