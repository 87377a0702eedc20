"""Law 12: a term that learns from the data is refused; every other works on each row alone."""

import numpy as np
import pytest
from frames_for_laws import clinic

import privatelr.formula.functions
from privatelr import SchemaError, dplr
from privatelr.design import plan_design, read_covariates
from privatelr.formula import RowFunction, parse_formula
from privatelr.sources import as_batch, declare_schema

LEARNING = [
    ("scale(age)", "bounds="),
    ("center(age)", "bounds="),
    ("standardize(age)", "bounds="),
    ("poly(age, 2)", "I(age^2)"),
    ("bs(age, df = 4)", "write public ones"),
    ("ns(age, 3)", "knots = c(30, 60)"),
    ("cr(age, 3)", "write public ones, as in knots = c(30, 60)"),
    ("qcut(age, 3)", "cut(age, breaks = c(0, 10, 20))"),
    ("I(age > age.mean())", "I(age > 3.2)"),
    ("I(age > mean(age))", "public constant"),
    ("I(age - np.median(age))", "public constant"),
    ("I(age / max(age))", "public constant"),
    ("lag(age)", "public constant"),
    ("rank(age)", "public constant"),
    ("relevel(smoker, ref = 'yes')", "levels="),
    ("my_own_function(age)", "row by row"),
    ("age.fillna(age.mean())", "row by row"),
]
ROW_WISE = [
    "age + dose",
    "log(age) * sqrt(dose)",
    "I(age^2) + I((age - 50)/20) + age:smoker",
    "ifelse(age > 65, dose, 0) + pmin(dose, 3)",
    "smoker * abs(dose - 2) + round(age)",
    "cut(age, breaks = c(0, 40, 60, Inf)) * dose",
    "poly(age, 3, raw = TRUE):smoker",
]


def check_row_wise(formula):
    """Each row rebuilt alone, under the frozen plan, equals its row in the whole design."""
    frame = clinic(n=9)
    parsed = parse_formula(f"y ~ {formula}", list(frame.columns))
    spec = plan_design(
        parsed, as_batch(frame), declare_schema(levels={"smoker": ["no", "yes"], "y": [0, 1]})
    )
    whole, _, _ = read_covariates(spec, as_batch(frame), parsed.covariates)
    for i in range(len(frame)):
        alone, _, _ = read_covariates(spec, as_batch(frame[i : i + 1]), parsed.covariates)
        np.testing.assert_array_equal(alone[0], whole[i])


@pytest.mark.parametrize(("term", "remedy"), LEARNING)
def test_law(term, remedy):
    with pytest.raises(SchemaError) as caught:
        dplr(f"y ~ dose + {term}", clinic(), levels={"smoker": ["no", "yes"], "y": [0, 1]})
    message = str(caught.value)
    assert term.replace(" / ", "/") in message
    assert remedy in message


@pytest.mark.parametrize("response", ["age > age.mean()", "I(age > median(age))", "scale(age) > 0"])
def test_responses_obey_it_too(response):
    with pytest.raises(SchemaError):
        dplr(f"{response} ~ dose", clinic(), levels={"y": [0, 1]})


@pytest.mark.parametrize("formula", ROW_WISE)
def test_row_wise(formula):
    check_row_wise(formula)


@pytest.mark.parametrize("name", sorted(privatelr.formula.functions.ROW_FUNCTIONS))
def test_every_function_that_may_be_called_is_row_wise(name):
    arity = privatelr.formula.functions.ROW_FUNCTIONS[name].arity
    arguments = ", ".join(["dose > 2", "age", "dose"][3 - arity :])
    check_row_wise(f"{name}({arguments})")


def test_planted_bug_is_caught(monkeypatch):
    """A function in the table that looks at its neighbours."""
    cheat = RowFunction(lambda x: x - x.mean(), lambda x: x)
    monkeypatch.setitem(privatelr.formula.functions.ROW_FUNCTIONS, "demean", cheat)
    with pytest.raises(AssertionError):
        check_row_wise("demean(age)")
