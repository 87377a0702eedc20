"""``fit``, ``predict`` and ``card``: a table in a file, and what one record of it can change."""

import gzip
import json
import shlex
import sys
from pathlib import Path

import docs
import numpy as np
import pandas as pd
import pytest
from frames_for_laws import FORMULA, SCHEMA, clinic, fit_clinic, fixed_noise

import privatelr
from privatelr import ZCDP, cli, dplr, dpsvm
from privatelr.cli import model_commands

DECLARED = [
    "--bounds",
    "age=18:90",
    "--bounds",
    "dose=0:5",
    "--levels",
    "smoker=no,yes",
    "--bounds",
    "y=0:1",
]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder of its own with a table, a schema and a model in it."""
    monkeypatch.chdir(tmp_path)
    clinic().to_csv("clinic.csv", index=False)
    (tmp_path / "clinic.toml").write_text(
        '[bounds]\nage = [18, 90]\ndose = [0, 5]\ny = [0, 1]\n[levels]\nsmoker = ["no", "yes"]\n',
        encoding="utf-8",
    )
    fit_clinic(clinic(), seed=None).save("model.json")
    return tmp_path


def run(*arguments):
    """Exit status of a command line, whether it is returned or raised."""
    try:
        return cli.main([str(argument) for argument in arguments])
    except SystemExit as stop:
        return stop.code


def printed(capsys, *arguments, status=0):
    """What a command prints; on standard error there may be the line about what was read."""
    found = run(*arguments)
    shown = capsys.readouterr()
    assert found == status, shown.err
    lines = [line for line in shown.err.splitlines() if not line.startswith("privatelr: read as ")]
    assert len(lines) == (status != 0)
    return shown.out if status == 0 else lines[0]


# -- one record ------------------------------------------------------------------------------

ODD = [
    *(("age", cell) for cell in ("abc", "", "NA", "nan", "1e999", "-5", "9" * 400, "5,5", "1_0")),
    *(("smoker", cell) for cell in ("perhaps", "", "NA", "3", "NO", "nan", "no ")),
    *(("y", cell) for cell in ("yes", "", "2", "0.5", "NA", "TRUE", "1e-300")),
]


def outcome(capsys, table, *options):
    """All that a user sees of a fit but what was paid for."""
    with open("table.csv", "w", encoding="utf-8", newline="") as file:
        table.to_csv(file, index=False)
    status = run("fit", "table.csv", FORMULA, *options, "--out", "out.json", "--force")
    shown = capsys.readouterr()
    saved = json.loads(Path("out.json").read_text(encoding="utf-8"))
    del saved["released"], saved["derived"]["fits"], saved["sha256"]
    return status, shown.err, docs.mask(shown.out, "random"), saved


def check_one_record(capsys, column, cell, options):
    table = clinic().astype(object)
    neighbour = table.copy()
    neighbour.loc[3, column] = cell
    assert outcome(capsys, table, *options) == outcome(capsys, neighbour, *options)


@pytest.mark.parametrize(("column", "cell"), ODD, ids=[f"{c}-{v[:8]}" for c, v in ODD])
def test_one_record_changes_what_was_paid_for_and_nothing_else(column, cell, home, capsys):
    check_one_record(capsys, column, cell, DECLARED)


@pytest.mark.parametrize(("column", "cell"), [("age", "abc"), ("smoker", "perhaps"), ("y", "2")])
def test_nor_does_one_record_if_inference_is_bought(column, cell, home, capsys):
    table = clinic().astype(object)
    neighbour = table.copy()
    neighbour.loc[3, column] = cell
    seen = [outcome(capsys, t, *DECLARED, "--spend", "inference") for t in (table, neighbour)]
    (status, said, _, saved), other = seen  # the page shows what was paid for
    assert status == 0
    assert (status, said, saved) == (other[0], other[1], other[3])


def test_neither_does_it_where_nothing_is_declared(home, capsys):
    numbers = ["--row-norm", "1", "--bounds", "y=0:1"]
    check_one_record(capsys, "age", "abc", numbers)
    options = ["--levels", "smoker=no,yes", "--method", "svm"]
    check_one_record(capsys, "dose", "", [*numbers, *options])


def test_what_the_same_call_in_python_refuses_is_refused(home, capsys):
    """A forgotten --levels would read texts as missing numbers, and the fit would be charged."""
    for columns, options in (
        ("'age', 'dose', 'smoker'", DECLARED[-2:]),
        ("'smoker'", DECLARED[:-4] + DECLARED[-2:]),
        ("'y'", DECLARED[:-2]),
    ):
        for command in ("fit", "check"):
            said = printed(capsys, command, "clinic.csv", FORMULA, *options, status=2)
            assert f"no declaration of {columns}: the file does not say" in said


# -- fit -------------------------------------------------------------------------------------


def document(model, tmp_path):
    model.save(tmp_path / "expected.json")
    return json.loads((tmp_path / "expected.json").read_text(encoding="utf-8"))


OPTIONS = [
    ([], dplr, {}),
    (["--eps", "0.5", "--delta", "1e-6"], dplr, {"eps": 0.5, "delta": 1e-6}),
    (
        ["--rho", "0.1", "--analysis", "one-log"],
        dplr,
        {"eps": ZCDP(0.1), "analysis": "one-log"},
    ),
    (["--lambda", "0.25", "--output-perturbation"], dplr, {"lambda_": 0.25, "op": False}),
    (["--lambda", "free", "--row-norm", "1.2"], dplr, {"lambda_": "free", "row_norm": 1.2}),
    (["--intercept-scale", "0.75", "--eps", "0"], dplr, {"intercept_scale": 0.75, "eps": 0}),
    (["--spend", "inference", "--eps", "2"], dplr, {"spend": "inference", "eps": 2.0}),
    (
        ["--spend", "coefficients=0.6, inference=0.4", "--rho", "0.1"],
        dplr,
        {"spend": {"coefficients": 0.6, "inference": 0.4}, "eps": ZCDP(0.1)},
    ),
    (["--spend", "coefficients=1"], dplr, {"spend": {"coefficients": 1}}),
    (["--spend", "roc=.25"], dplr, {"spend": {"coefficients": 0.75, "roc": 0.25}}),
    (
        ["--spend", "inference=0.3,roc=0.1", "--method", "svm"],
        dpsvm,
        {"spend": {"coefficients": 0.6, "inference": 0.3, "roc": 0.1}},
    ),
    (["--do-scale", "private", "--rho", "0.3"], dplr, {"do_scale": "private", "eps": ZCDP(0.3)}),
    (["--do-scale", "no", "--eps", "500"], dplr, {"do_scale": False, "eps": 500.0}),
    (["--eps", "500"], dplr, {"eps": 500.0}),
    (
        ["--do-scale", "private", "--row-norm", "2.5", "--eps", "5"],
        dplr,
        {"do_scale": "private", "row_norm": 2.5, "eps": 5.0},
    ),
    (["--method", "svm"], dpsvm, {}),
    (["--method", "svm", "--loss", "huber"], dpsvm, {"loss": "huber"}),
    (["--method", "svm", "--spend=inference"], dpsvm, {"spend": "inference"}),
    (
        ["--method", "svm", "--loss", "softplus", "--h", ".25"],
        dpsvm,
        {"loss": "softplus", "h": 0.25},
    ),
]


@pytest.mark.parametrize(
    ("options", "fitter", "keywords"), OPTIONS, ids=[" ".join(o) for o, *_ in OPTIONS]
)
def test_an_option_is_an_argument(options, fitter, keywords, home, capsys, monkeypatch):
    with fixed_noise(monkeypatch):
        expected = document(fitter(FORMULA, clinic(), **{**SCHEMA, **keywords}), home)
        found = printed(capsys, "fit", "clinic.csv", FORMULA, *DECLARED, *options, "--json")
    told = json.loads(found)
    for one in (told, expected):  # a column of text can hold other values
        del one["call"]["design"], one["derived"]["response"]
    for part in ("guarantee", "call", "released", "derived"):
        assert told[part] == expected[part]


def test_a_table_with_commas_in_another_encoding_gives_that_model_too(home, capsys, monkeypatch):
    table = clinic().to_csv(index=False, sep=";", decimal=",")
    packed = gzip.compress(table.encode("utf-16"))
    (home / "clinic.csv.gz").write_bytes(packed)
    text = ["--decimal", ",", "--encoding", "utf-16"]
    with fixed_noise(monkeypatch):
        found = printed(capsys, "fit", "clinic.csv.gz", FORMULA, *DECLARED, *text, "--json")
        assert found == printed(capsys, "fit", "clinic.csv", FORMULA, *DECLARED, "--json")
    assert printed(capsys, "predict", "model.json", "clinic.csv.gz", *text) == printed(
        capsys, "predict", "model.json", "clinic.csv"
    )


def test_options_go_before_the_schema(home, capsys):
    base = ["fit", "clinic.csv", "y ~ age + smoker", "--schema", "clinic.toml", "--json"]
    model = json.loads(printed(capsys, *base, "--bounds", "age=0:50", "--levels", "smoker=yes,no"))
    variables = {entry["name"]: entry for entry in model["call"]["design"]["variables"]}
    assert variables["age"]["bounds"] == [0, 50]
    assert variables["smoker"]["levels"] == ["yes", "no"]
    again = json.loads(
        printed(capsys, *base, "--levels", 'age="1,5",2', "--bounds", "smoker=-1:+1")
    )
    variables = {entry["name"]: entry for entry in again["call"]["design"]["variables"]}
    assert variables["age"]["levels"] == ["1,5", "2"]
    assert variables["smoker"]["bounds"] == [-1, 1]


@pytest.mark.parametrize(
    ("cells", "levels"), [(["0", "1.0"], "[0, 1]"), (["FALSE", "true"], "[false, true]")]
)
def test_levels_of_numbers_and_truths(cells, levels, home, capsys, monkeypatch):
    table = clinic()
    told = pd.Series(np.where(table["smoker"] == "yes", cells[1], cells[0]))
    table.assign(smoker=told).to_csv("coded.csv", index=False)
    (home / "coded.toml").write_text(
        f"[levels]\nsmoker = {levels}\n[bounds]\ny = [0, 1]\n", encoding="utf-8"
    )
    numbers = ["--bounds", "age=18:90", "--bounds", "dose=0:5", "--json"]
    with fixed_noise(monkeypatch):
        coded = printed(capsys, "fit", "coded.csv", FORMULA, "--schema", "coded.toml", *numbers)
        named = printed(capsys, "fit", "clinic.csv", FORMULA, *DECLARED, "--json")
    units = [json.loads(text)["released"]["fits"][0]["coefficients"] for text in (coded, named)]
    assert units[0] == units[1]


def test_a_seed_repeats_and_says_so_in_one_line(home, capsys):
    seen = set()
    for _ in range(2):
        assert run("fit", "clinic.csv", FORMULA, *DECLARED, "--seed", "7") == 0
        shown = capsys.readouterr()
        seen.add(shown.out)
        said = shown.err.splitlines()
        assert len(said) == 2
        assert "--seed 7: the noise can be replayed, so this release has no privacy" in said[1]
    assert len(seen) == 1
    assert "void: seeded noise" in seen.pop()


# -- predict and card ------------------------------------------------------------------------


def test_predictions_are_those_of_the_model(home, capsys):
    model = privatelr.load("model.json")
    for kind in ("probabilities", "classes", "link", "response", "class", "prob"):
        expected = model.predict(clinic(), kind)
        lines = printed(capsys, "predict", "model.json", "clinic.csv", "--type", kind).splitlines()
        assert lines[0] == expected.name
        assert list(map(float, lines[1:])) == expected.tolist()
        found = json.loads(
            printed(capsys, "predict", "model.json", "clinic.csv", "--type", kind, "--json")
        )
        assert found == {"name": expected.name, "predictions": expected.tolist()}
    default = printed(capsys, "predict", "model.json", "clinic.csv")
    assert default.startswith("probability\n")


def test_a_record_that_cannot_be_predicted_is_an_empty_cell(home, capsys):
    lines = ["dose,smoker,age,odd", "1,no,50,x", "1,perhaps,50,x", ",no,50,x", "9,yes,50,x"]
    (home / "new.csv").write_text("\n".join(lines), encoding="utf-8")
    found = printed(capsys, "predict", "model.json", "new.csv", "--out", "predicted.csv")
    assert found == ""
    told = pd.read_csv("predicted.csv")["probability"]
    assert told.isna().tolist() == [False, True, True, False]
    listed = json.loads(printed(capsys, "predict", "model.json", "new.csv", "--json"))[
        "predictions"
    ]
    assert [value is None for value in listed] == told.isna().tolist()


# -- refusals --------------------------------------------------------------------------------

REFUSED = [
    ("fit no.csv 'y ~ age'", 2, ["'no.csv'", "no such file"]),
    ("fit clinic.csv", 2, ["formula", "--schema"]),
    ("fit clinic.csv 'y ~ ages'", 2, ["'ages'", "'age'"]),
    ("fit clinic.csv 'y ~ age' --bounds age=18-90", 2, ["--bounds", "age=18-90", "age=18:90"]),
    ("fit clinic.csv 'y ~ age' --bounds =18:90", 2, ["--bounds", "NAME=LO:HI"]),
    ("fit clinic.csv 'y ~ age' --bounds age=90:18", 2, ["bounds['age']", "lo < hi"]),
    ("fit clinic.csv 'y ~ age' --bounds ages=1:2", 2, ["'ages'", "'smoker'"]),
    ("fit clinic.csv 'y ~ smoker' --levels smoker", 2, ["--levels", "smoker=no,yes"]),
    ("fit clinic.csv 'y ~ smoker' --levels 'smoker=\"a'", 2, ["--levels", "smoker=no,yes"]),
    ("fit clinic.csv 'y ~ smoker' --levels smoker=no", 2, ["--levels smoker=no", "two or more"]),
    ("fit clinic.csv 'y ~ scale(age)'", 2, ["scale(age)", "learns"]),
    ("fit clinic.csv 'y ~ age' --schema no.toml", 2, ["'no.toml'", "no such file"]),
    ("fit clinic.csv 'y ~ age' --schema clinic.csv", 2, ["'clinic.csv'", "not TOML"]),
    ("fit clinic.csv 'y ~ age' --eps much", 2, ["--eps", '"much" into float']),
    ("fit clinic.csv 'y ~ age' --eps 1 --rho 1", 2, ["--rho", "--eps"]),
    ("fit clinic.csv 'y ~ age' --rho 1 --delta .1", 2, ["--delta", "--rho"]),
    ("fit clinic.csv 'y ~ age' --spend all", 2, ["--spend", "'all'", "coefficients=0.6,"]),
    ("fit clinic.csv 'y ~ age' --spend ''", 2, ["--spend", "coefficients=0.6,"]),
    ("fit clinic.csv 'y ~ age' --spend coefficients=.5,coefficients=.5", 2, ["--spend"]),
    ("fit clinic.csv 'y ~ age' --spend coefficients=0.9", 2, ["0.9", "whose sum is 1"]),
    ("fit clinic.csv 'y ~ age' --spend roc=.2 --spend scale=.1", 2, ["--spend", "multiple times"]),
    (
        "fit clinic.csv 'y ~ age' --schema clinic.toml --spend inference --eps 1e-9",
        1,
        ["raise eps"],
    ),
    ("fit clinic.csv 'y ~ age' --lambda much", 2, ["--lambda", "auto, free, PrivateLR"]),
    ("fit clinic.csv 'y ~ age' --analysis wishful", 2, ["--analysis", "cms11"]),
    ("fit clinic.csv 'y ~ age' --h 0.5", 2, ["--h", "--method svm or simplex"]),
    ("fit clinic.csv 'y ~ age' --method svm --h 2", 2, ["h=2", "0.5"]),
    ("fit clinic.csv 'y ~ age' --seed 1.5", 2, ["--seed", "whole number"]),
    ("fit clinic.csv 'y ~ age' --separator ab", 2, ["--separator", "tab"]),
    ("fit clinic.csv 'y ~ age' --encoding rot13", 2, ["--encoding", "'rot13'", "latin-1"]),
    ("fit clinic.csv 'y ~ age' --encoding utf-16", 2, ["not text in UTF-16"]),
    ("fit clinic.csv 'y ~ age' --dance", 2, ["--dance", "privatelr fit --help"]),
    ("fit hollow 'y ~ age'", 2, ["'hollow'", "no file that ends in .parquet"]),
    ("fit clinic.csv empty.csv 'y ~ age'", 2, ["all are Parquet"]),
    ("fit empty.csv 'y ~ age'", 2, ["'empty.csv'", "there are none"]),
    ("fit headed.csv 'y ~ age' --row-norm 1 --bounds y=0:1", 2, ["at least one record"]),
    ("fit ragged.csv 'y ~ age' --row-norm 1 --bounds y=0:1", 2, ["record 2 has 1 cells"]),
    ("predict no.json clinic.csv", 2, ["'no.json'", "no such file"]),
    ("predict clinic.csv clinic.csv", 2, ["'clinic.csv'", "not JSON"]),
    ("predict model.json", 2, ["a table is needed"]),
    ("predict model.json narrow.csv", 2, ["'age' is missing"]),
    ("predict model.json clinic.csv --type margins", 2, ["'margins'", "'link'"]),
    ("predict model.json clinic.csv --type odds", 2, ["--type", '"odds"']),
    ("predict model.json clinic.csv --threshold .2", 2, ["--threshold", "--type classes"]),
    ("card model.json --format pdf", 2, ["--format", "html"]),
]


@pytest.mark.parametrize(("line", "status", "words"), REFUSED, ids=[line for line, *_ in REFUSED])
def test_a_refusal_is_one_line_and_a_status(line, status, words, home, capsys):
    (home / "empty.csv").touch()
    (home / "hollow").mkdir()
    (home / "headed.csv").write_text("y,age\n", encoding="utf-8")
    (home / "narrow.csv").write_text("dose,smoker\n1,no\n", encoding="utf-8")
    (home / "ragged.csv").write_text("y,age\n1,4711\n4711\n", encoding="utf-8")
    said = printed(capsys, *shlex.split(line), status=status)
    assert said.startswith("privatelr: ")
    assert said.endswith((".", "did you mean 'age'?"))
    assert all(word in said for word in words), said
    assert "4711" not in said


def test_standard_input(home, capsys, monkeypatch):
    with open("clinic.csv", encoding="utf-8") as file:
        monkeypatch.setattr(sys, "stdin", file)
        found = printed(capsys, "predict", "model.json", "-")
    assert found == printed(capsys, "predict", "model.json", "clinic.csv")
    monkeypatch.setattr(sys, "stdin", None)
    assert "no standard input" in printed(capsys, "predict", "model.json", "-", status=2)


def test_arguments_are_refused_before_a_long_table_is_read(home, capsys, monkeypatch):
    monkeypatch.setattr(model_commands, "open_table", None)
    for option in (
        *(["--eps", "-1"], ["--lambda", "1e99"], ["--method", "svm", "--h", "2"]),
        *(["--spend", "coefficients=0.9"], ["--spend", "inference=1"]),
    ):
        run("fit", "clinic.csv", "y ~ age", *option)
        assert "internal" not in capsys.readouterr().err


# -- limits --------------------------------------------------------------------------------------


def test_nothing_is_spent_without_an_output(monkeypatch, tmp_path, capsys):
    table = tmp_path / "small.csv"
    table.write_text("y,x\n1,2\n0,1\n")
    monkeypatch.setattr("sys.stdout", None)
    assert cli.main(["fit", str(table), "y ~ x"]) == 1
    assert "standard output is closed" in capsys.readouterr().err


def test_a_paid_threshold_splits_the_classes(home, capsys):
    shares = ["--spend", "roc=.25", "--eps", "8", "--out", "scored.json"]
    page = " ".join(printed(capsys, "fit", "clinic.csv", FORMULA, *DECLARED, *shares).split())
    assert "C-index (AUC)" in page
    assert "--json has more" in page
    bought = privatelr.load("scored.json")
    for rule in ("youden", "topleft"):
        asked = ["clinic.csv", "--type", "classes", "--threshold", rule]
        found = printed(capsys, "predict", "scored.json", *asked).split()[-40:]
        assert found == [str(x) for x in bought.predict(clinic(), "classes", threshold=rule)]
    refused = printed(capsys, "predict", "model.json", *asked, status=2)
    assert "bought a ROC curve" in refused
