"""Options that are other spellings of terms: weights, a subset, strata and persons; and a prior."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import privatelr
from privatelr import ZCDP, Strata, cli, dplr
from privatelr.privacy import REPLACE_PERSON

DECLARED = ["--bounds", "age=18:90", "--bounds", "p=0.2:1", "--levels", "sex=female,male"]
DECLARED += ["--bounds", "y=0:1"]
BOUNDS = {"age": (18, 90), "p": (0.2, 1), "y": (0, 1)}
SCHEMA = """
weights = "1 / p"
subset = "age > 30"
by = "sex"
[bounds]
age = [18, 90]
p = [0.2, 1]
[levels]
y = [0, 1]
sex = ["female", "male"]
[prior]
age = 0.03
"""


def table(n=400, visits=2):
    rng = np.random.default_rng(7)
    age = rng.uniform(18, 90, n)
    return pd.DataFrame(
        {
            "age": age.round(1),
            "p": rng.uniform(0.2, 1, n).round(3),
            "sex": rng.choice(["female", "male"], n),
            "patient": [f"0{k // visits}" for k in range(n)],
            "y": (rng.random(n) < 1 / (1 + np.exp(-(age - 50) / 15))).astype(int),
        }
    )


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table().to_csv("clinic.csv", index=False)
    (tmp_path / "clinic.toml").write_text(SCHEMA, encoding="utf-8")
    return tmp_path


def run(capsys, *arguments, status=0):
    try:
        found = cli.main([str(argument) for argument in arguments])
    except SystemExit as stop:
        found = stop.code
    shown = capsys.readouterr()
    assert found == status, shown.err
    notes = ("privatelr: read as ", "privatelr: no ledger was charged")
    lines = [line for line in shown.err.splitlines() if not line.startswith(notes)]
    assert len(lines) == (status != 0)
    return shown.out if status == 0 else lines[0]


def plain(capsys, formula, *options, data="clinic.csv"):
    """The coefficients of a plain fit by the command line."""
    given = [*options, "--eps", 0, "--lambda", 0.01, "--json", *DECLARED]
    document = json.loads(run(capsys, "fit", data, formula, *given))
    derived = document["derived"]
    return dict(zip(derived["names"], derived["fits"][0]["user_units"], strict=True))


@pytest.mark.parametrize(
    ("options", "keywords"),
    [
        (["--weights", "1 / p"], {"weights": "1 / p"}),
        (["--weights", "p"], {"weights": "p"}),
        (["--subset", "age > 30"], {"subset": "age > 30"}),
        (["--prior", "age=0.03"], {"prior": {"age": 0.03}}),
        (["--prior", "age=0.03:0.001"], {"prior": {"age": (0.03, 0.001)}}),
        (
            ["--person", "patient", "--records-per-person", 3],
            {"person": "patient", "records_per_person": 3},
        ),
        (
            ["--subset", "sex == 'male'", "--weights", "p"],
            {"subset": "sex == 'male'", "weights": "p"},
        ),
    ],
    ids=str,
)
def test_an_option_does_what_the_keyword_does(options, keywords, home, capsys):
    declared = {"bounds": BOUNDS, "levels": {"sex": ["female", "male"]}}
    expected = dplr("y ~ age", table(), 0, 0.01, **keywords, **declared).coef
    assert plain(capsys, "y ~ age", *options) == pytest.approx(expected.to_dict())


def test_a_schema_has_the_same_names_and_options_prevail(home, capsys):
    run(capsys, "fit", "clinic.csv", "y ~ age", "--schema", "clinic.toml", "--out", "m.json")
    fits = privatelr.load("m.json")
    assert isinstance(fits, Strata)
    assert fits["male"].formula == ('y ~ age + weights(1/p) + subset(age > 30) + by(sex, "male")')
    assert fits["male"].spec.prior.means == {"age": 0.03}
    given = ["--schema", "clinic.toml", "--subset", "age > 40", "--prior", "age=.05", "--force"]
    run(capsys, "fit", "clinic.csv", "y ~ age", *given, "--out", "m.json")
    fit = privatelr.load("m.json")["male"]
    assert "subset(age > 40)" in fit.formula
    assert fit.spec.prior.means == {"age": 0.05}
    loaded = privatelr.load_schema("clinic.toml")
    assert isinstance(dplr("y ~ age", table(), **loaded), Strata)
    (home / "clinic.toml").write_text(SCHEMA.replace("age = 0.03", "age = [0.03, 0.01]"))
    given = ["--schema", "clinic.toml", "--out", "m.json", "--force"]
    run(capsys, "fit", "clinic.csv", "y ~ age", *given)
    fit = privatelr.load("m.json")["male"]
    assert (fit.spec.prior.means, fit.spec.prior.sds) == ({"age": 0.03}, {"age": 0.01})


def test_strata_are_fitted_written_predicted_and_described(home, capsys):
    given = ["--by", "sex", "--eps", 2, *DECLARED, "--out", "m.json"]
    page = run(capsys, "fit", "clinic.csv", "y ~ age", *given)
    assert "sex = female" in page
    assert "Strata of one call were paid for together" in page
    lines = run(capsys, "predict", "m.json", "clinic.csv").splitlines()
    expected = privatelr.load("m.json").predict(table())
    assert lines[0] == "probability"
    np.testing.assert_allclose([float(line) for line in lines[1:]], expected)
    assert "Privacy card of strata" in run(capsys, "card", "m.json")
    again = json.loads(run(capsys, "fit", "clinic.csv", "y ~ age", *given[:-2], "--json"))
    assert again["call"]["design"]["formula"] == "y ~ age + by(sex)"
    assert [fit["level"] for fit in again["derived"]["fits"]] == ["female", "male"]
    assert "sex" in run(capsys, "plan", "y ~ age", "--n", 400, "--by", "sex", *DECLARED)


@pytest.mark.parametrize("price", [["--eps", 1], ["--rho", 0.1], ["--eps", 1, "--delta", 1e-6]])
def test_persons_are_protected_under_every_promise(price, home, capsys):
    given = ["--person", "patient", *price, *DECLARED, "--out", "m.json"]
    page = run(capsys, "fit", "clinic.csv", "y ~ age", *given)
    assert "records of one of m = 200 persons" in " ".join(page.split())
    found = privatelr.load("m.json")
    assert found.guarantee.neighbours is REPLACE_PERSON
    if price[0] == "--rho":
        assert found.guarantee == ZCDP(0.1, REPLACE_PERSON)


def told_of(capsys, frame, *options, formula="y ~ age + person(patient)"):
    """All that a command tells of a table of persons, but for the random numbers."""
    frame.to_csv("told.csv", index=False)
    try:
        status = cli.main(["fit", "told.csv", formula, *DECLARED, *map(str, options)])
    except SystemExit as stop:
        status = stop.code
    shown = capsys.readouterr()
    page = " ".join(shown.out.split("Response")[0].split())
    page = re.sub(r"longer than [\d.]+ lengths", "longer than so many lengths", page)
    return status, page, shown.err


@pytest.mark.parametrize(
    "options",
    [["--do-scale", "no"], ["--lambda", 1e-12, "--do-scale", "private"], ["--spend", "inference"]],
    ids=str,
)
def test_the_number_of_records_of_persons_is_not_told(options, home, capsys):
    """As many persons, of whom one has one record or three hundred."""
    few = table().drop_duplicates("patient")
    more = pd.concat([few, *[few.iloc[[0]]] * 300])
    first, second = (told_of(capsys, frame, *options) for frame in (few, more))
    assert first == second


@pytest.mark.parametrize("line", ["1,2", '"1,2,3,4,5', "1,2,3,4,5,6,7,8"])
def test_errors_about_a_line_do_not_tell_how_many_records_are_before_it(line, home, capsys):
    few = table().drop_duplicates("patient")
    more = pd.concat([few, *[few.iloc[[0]]] * 30])
    told = []
    for frame in (few, more):
        text = (
            frame.to_csv(index=False)
            + line
            + "\n"
            + frame.iloc[[1]].to_csv(index=False, header=False)
        )
        (home / "bad.csv").write_text(text)
        told.append(
            run(capsys, "fit", "bad.csv", "y ~ age", "--person", "patient", *DECLARED, status=2)
        )
    assert told[0] == told[1]
    numbered = run(capsys, "fit", "bad.csv", "y ~ age", *DECLARED, status=2)
    assert line == '"1,2,3,4,5' or re.search(r"record \d+ has ", numbered)
    assert not re.search(r"record \d+", told[1])


def test_a_person_is_read_as_it_is_written(home, capsys):
    """As numbers 01 and 1 were one person, and texts were all missing."""
    frame = table(6, 1).assign(patient=["1", "01", "1.0", "a", "b", ""])
    frame.to_csv("odd.csv", index=False)
    page = run(capsys, "fit", "odd.csv", "y ~ age", "--person", "patient", *DECLARED)
    assert "one of m = 6 persons" in " ".join(page.split())
    pytest.importorskip("pyarrow")
    big = table(4, 1).assign(patient=[2**60, 2**60 + 1, 2**60 + 2, 2**60 + 2])
    big.to_parquet("big.parquet")
    page = run(capsys, "fit", "big.parquet", "y ~ age", "--person", "patient", *DECLARED)
    assert "one of m = 3 persons" in " ".join(page.split())


@pytest.mark.parametrize(
    ("options", "status", "sentence"),
    [
        (["--by", "sx"], 2, "by"),
        (["--by", "p"], 2, "declared levels"),
        (["--records-per-person", "2"], 2, "records"),
        (["--records-per-person", "two"], 2, "whole number"),
        (["--records-per-person", "0", "--person", "patient"], 2, "whole number from 1"),
        (["--person", "patent"], 2, "'patient'"),
        (["--weights", "w"], 2, "'w'"),
        (["--subset", "age + 1"], 2, "condition"),
        (["--prior", "none.json"], 2, "no such file"),
        (["--prior", "height=3"], 2, "height"),
        (["--schema", "wrong.toml"], 2, "weights takes a text, not 3"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said_in_one_line(options, status, sentence, home, capsys):
    (home / "wrong.toml").write_text("weights = 3\n")
    assert sentence in run(
        capsys, "fit", "clinic.csv", "y ~ age", *DECLARED, *options, status=status
    )


PRIOR = {"age": 0.03, "(Intercept)": (-2.0, 0.5)}
PLANNED = ["plan", "y ~ age", "--n", 400, "--spend", "coefficients=1", "--json"]


@pytest.mark.parametrize(
    ("options", "keywords"),
    [
        (["--person", "patient"], {"person": "patient"}),
        (
            ["--person", "patient", "--records-per-person", 3, "--rho", 0.1],
            {"person": "patient", "records_per_person": 3, "eps": ZCDP(0.1, REPLACE_PERSON)},
        ),
        (["--prior", "age=0.03", "--prior", "(Intercept)=-2:0.5"], {"prior": PRIOR}),
        (["--by", "sex", "--prior", "age=0.03"], {"by": "sex", "prior": {"age": 0.03}}),
        (["--weights", "1 / p", "--subset", "age > 30"], {"weights": "1/p", "subset": "age > 30"}),
    ],
    ids=str,
)
def test_a_plan_takes_what_a_fit_does(options, keywords, home, capsys):
    shown = json.loads(run(capsys, *PLANNED, *options, *DECLARED))
    spend = {"coefficients": 1.0}
    declared = {"bounds": BOUNDS, "levels": {"sex": ["female", "male"]}}
    planned = privatelr.plan("y ~ age", 400, spend=spend, **keywords, **declared)
    assert shown == json.loads(planned.to_json())
    about = "REPLACE_PERSON" if "person" in keywords else "REPLACE_ONE"
    assert shown["guarantee"]["neighbours"] == about
