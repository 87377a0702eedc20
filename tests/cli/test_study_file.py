"""A schema file as a whole run: every option is a key, and the command line prevails."""

import inspect
import json
import shlex
import tomllib
from pathlib import Path

import pandas as pd
import pytest
from frames_for_laws import FORMULA, clinic, fixed_noise

from privatelr import cli, load
from privatelr.cli import model_commands
from privatelr.cli.options import STUDY_KEYS

TABLES = """
[bounds]
age = [18, 90]
dose = [0, 5]
[levels]
y = [0, 1]
smoker = ["no", "yes"]
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    clinic(400).to_csv("clinic.csv", index=False)
    return tmp_path


def study(text="", tables=TABLES):
    Path("study.toml").write_text(f"{text}{tables}", encoding="utf-8")


def run(line):
    return cli.main(shlex.split(line))


@pytest.fixture
def saved(monkeypatch, capsys):
    """A function from a command line to the release document of its fit, with fixed noise."""

    def save(line):
        with fixed_noise(monkeypatch):
            assert run(f"{line} --json") == 0, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    return save


# -- every option is a key -------------------------------------------------------------------

SAME = [
    ("", "eps = 2.0", "--eps 2"),
    ("", "eps = 2", "--eps 2"),
    ("", "rho = 0.5", "--rho .5"),
    ("--eps 1", "delta = 1e-6", "--delta 1e-6"),
    ("--eps 4", 'spend = "inference"', "--spend inference"),
    ("", "spend = {coefficients = 0.7, inference = 0.3}", "--spend coefficients=.7,inference=.3"),
    ("", "spend = {roc = 0.25}", "--spend roc=.25"),
    ("", 'method = "svm"', "--method svm"),
    ("--method svm", 'loss = "huber"', "--loss huber"),
    ("--method svm", "h = 0.3", "--h .3"),
    ("", "lambda = 0.1", "--lambda .1"),
    ("", 'lambda = "PrivateLR"', "--lambda PrivateLR"),
    ("", "output_perturbation = true", "--output-perturbation"),
    ("", 'analysis = "one-log"', "--analysis one-log"),
    ("--eps 20", 'do_scale = "no"', "--do-scale no"),
    ("--eps 20", "do_scale = false", "--do-scale no"),
    ("", 'do_scale = "private"', "--do-scale private"),
    ("", "row_norm = 1.5", "--row-norm 1.5"),
    ("", "intercept_scale = 0.7", "--intercept-scale .7"),
    ("", "threshold = 0.3", "--threshold .3"),
    ("--spend roc=.2", 'threshold = "topleft"', "--threshold topleft"),
    ("", 'weights = "dose"', "--weights dose"),
    ("", 'subset = "age > 30"', "--subset 'age > 30'"),
    ("", "prior = {age = 0.03, '(Intercept)' = -1}", "--prior age=.03 --prior '(Intercept)=-1'"),
    ("", "prior = {age = [0.03, 0.01]}", "--prior age=.03:.01"),
    ("--method simplex --eps 20", 'loss = "logistic"', "--loss logistic"),
]


@pytest.mark.parametrize(
    ("base", "text", "options"), SAME, ids=[f"{base} {options}" for base, _, options in SAME]
)
def test_a_key_says_what_its_option_says(base, text, options, home, saved):
    study()
    plain = saved(f"fit clinic.csv '{FORMULA}' --schema study.toml {base}")
    line = saved(f"fit clinic.csv '{FORMULA}' --schema study.toml {base} {options}")
    assert plain != line, "the option changes nothing, so that the test could not fail"
    study(f'formula = "{FORMULA}"\n{text}\n')
    assert saved(f"fit clinic.csv --schema study.toml {base}") == line


RARE = {
    *("rp_dim", "on_small_lambda", "rounds", "step", "score", "slack", "density", "minority"),
    *("radius", "draws"),
}
"""Arguments of random projections and of the choice of columns, which Python alone takes."""


def test_every_public_argument_of_a_fit_is_a_key():
    """But data, what a study does not repeat, and what only Python can say."""
    python = {"data", "target", "solver", "verbose", "seed", "na_action", *RARE}
    spelled = {"op": "output_perturbation", "lambda_": "lambda"}
    for function in model_commands._fitters().values():
        for name in {*inspect.signature(function).parameters} - python:
            assert spelled.get(name, name) in STUDY_KEYS, (function, name)


# -- what prevails ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options", "alone"),
    [
        ("eps = 2", "--eps 3", "--eps 3"),
        ("eps = 2", "--rho .5", "--rho .5"),
        ("eps = 2\ndelta = 1e-6", "--rho .5", "--rho .5"),
        ("eps = 2\ndelta = 1e-6", "--eps 3", "--eps 3 --delta 1e-6"),
        ("rho = 0.5", "--eps 3", "--eps 3"),
        ('method = "svm"', "--method lr", ""),
        ("output_perturbation = true", "--no-output-perturbation", ""),
        ('spend = "inference"', "--spend roc=.25", "--spend roc=.25"),
        ("prior = {age = 1}", "--prior dose=.1", "--prior dose=.1"),
    ],
)
def test_the_command_line_prevails(text, options, alone, home, saved):
    study()
    expected = saved(f"fit clinic.csv '{FORMULA}' --schema study.toml {alone}")
    study(f'formula = "y ~ age"\n{text}\n')
    found = saved(f"fit clinic.csv '{FORMULA}' --schema study.toml {options}")
    assert found == expected


def test_each_command_takes_what_it_knows(home, capsys):
    text = 'formula = "y ~ age"\neps = 3.0\nn = 400\nbalance = 0.4\nspend = {coefficients = 1}\n'
    study(text)
    assert run("plan --schema study.toml --json") == 0
    planned = json.loads(capsys.readouterr().out)
    options = "--n 400 --eps 3 --balance .4 --spend coefficients=1 --bounds age=18:90"
    assert run(f"plan 'y ~ age' {options} --json") == 0
    assert planned == json.loads(capsys.readouterr().out)
    assert run("check clinic.csv --schema study.toml") == 0
    assert "y ~ age" in capsys.readouterr().err
    assert run("fit clinic.csv --schema study.toml") == 0
    assert "epsilon = 3 (pure)" in capsys.readouterr().out


OUTER = "[bounds]\nage = [0, 1000]\n[levels]\ny = [0, 1]\n"


def test_the_price_of_a_fit_is_not_that_of_bounds(home, capsys):
    study("eps = 3.0\n", "[bounds]\nage = [0, 1000]\n")
    assert run("bounds clinic.csv --schema study.toml") == 2
    assert "a price is needed" in capsys.readouterr().err
    study('formula = "y ~ age"\nprior = {age = 0.5}\nlambda = 0.1\n', OUTER)
    assert run("bounds clinic.csv --schema study.toml --eps 20 --out more.toml") == 0
    printed = tomllib.loads(capsys.readouterr().out)
    assert printed == tomllib.loads(Path("more.toml").read_text(encoding="utf-8"))
    assert printed["formula"] == "y ~ age"
    assert printed["prior"] == {"age": 0.5}
    assert printed["lambda"] == 0.1
    assert 0 < printed["bounds"]["age"][0] < printed["bounds"]["age"][1] < 1000
    assert run("fit clinic.csv --schema more.toml") == 0


# -- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        ("formulla = 'y ~ age'", 2, ["'formulla'", "did you mean 'formula'?"]),
        ("epsilon = 1", 2, ["'epsilon'", "none of what a schema takes"]),
        ("seed = 3", 2, ["'seed'"]),
        ("out = 'm.json'", 2, ["'out'"]),
        ("eps = 'much'", 2, ["eps in schema", '"much" into float']),
        ("eps = true", 2, ["eps in schema", "it takes"]),
        ("eps = [1]", 2, ["it takes"]),
        ("eps = 2024-01-01", 2, ["it takes"]),
        ("eps = -1", 2, ["eps=-1"]),
        ("eps = 1\nrho = 1", 2, ["--eps and --rho exclude each other"]),
        ("rho = 1\ndelta = 1e-6", 2, ["--delta goes with --eps"]),
        ("method = 'SVM'", 2, ["method in schema", '"svm"']),
        ("do_scale = true", 2, ["do_scale in schema"]),
        ("spend = {roc = 'a'}", 2, ["spend in schema"]),
        ("method = 'lp'\nspend = 'inference'", 2, ["no share where columns are chosen"]),
        ("method = 'lp'\nrow_norm = 2", 2, ["--row-norm goes with --method lr or svm"]),
        ("method = 'lp'\nweights = 'dose'", 2, ["--weights goes with --method lr or svm"]),
        ("h = 3", 2, ["--h goes with --method svm or simplex, and this is --method lr"]),
        ("[bounds]\neps = 1\n[other]", 2, ["'other'"]),
    ],
)
def test_a_wrong_file_is_one_line(text, status, words, home, capsys):
    study(f"{text}\n", "" if "[" in text.partition("\n")[0] and "]" in text else TABLES)
    assert run(f"fit clinic.csv '{FORMULA}' --schema study.toml --out m.json") == status
    shown = capsys.readouterr()
    said = [line for line in shown.err.splitlines() if "read as" not in line]
    assert len(said) == 1
    assert all(word in said[0] for word in words), said
    assert shown.out == ""
    assert not Path("m.json").exists()


# -- schema init -----------------------------------------------------------------------------


def test_a_template_has_names_and_no_value(home, capsys):
    secret = "4711.25"
    frame = pd.DataFrame({"age": [secret, "1"], "a b": ["x", "y"], 'q"': ["u", "v"]})
    frame.to_csv("table.csv", index=False)
    assert run("schema init table.csv") == 0
    text = capsys.readouterr().out
    assert secret not in text
    assert "# age = [LOWEST, HIGHEST]" in text
    assert '# "a b" = ["REFERENCE", "OTHER"]' in text
    assert tomllib.loads(text) == {"bounds": {}, "levels": {}}
    Path("bad.csv").write_text('age,a b,"q"""\n1,2,3,4\n"', encoding="utf-8")  # broken below names
    assert run("schema init bad.csv") == 0
    assert capsys.readouterr().out == text.replace("table.csv", "bad.csv")


def test_a_template_that_is_filled_in_is_a_run(home, capsys):
    assert run("schema init clinic.csv --out study.toml") == 0
    text = Path("study.toml").read_text(encoding="utf-8")
    for line, written in [
        ('# formula = "RESPONSE ~ FIRST + SECOND"', f'formula = "{FORMULA}"'),
        ("# age = [LOWEST, HIGHEST]", "age = [18, 90]"),
        ("# dose = [LOWEST, HIGHEST]", "dose = [0, 5]"),
        ("# y = [LOWEST, HIGHEST]", "y = [0, 1]"),
        ('# smoker = ["REFERENCE", "OTHER"]', 'smoker = ["no", "yes"]'),
    ]:
        assert text.count(line) == 1
        text = text.replace(line, written)
    Path("study.toml").write_text(text, encoding="utf-8")
    assert run("fit clinic.csv --schema study.toml --out m.json") == 0
    assert load("m.json").formula == FORMULA
    assert load("m.json").spec.variables["age"].bounds == (18, 90)
