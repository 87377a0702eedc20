"""A call that misses a signature is told the name that it means, at the caller's line."""

import inspect
import pickle
import warnings

import pytest
from frames_for_laws import FORMULA, SCHEMA, clinic

from privatelr import (
    ArgumentError,
    Ledger,
    PrivacyWarning,
    dplpsvm,
    dplr,
    dpsimplex,
    dpsvm,
    plan,
)
from privatelr.arguments import _NOTES, _SAME, suggests_arguments
from privatelr.errors import CallError

FITS = (dplr, dpsvm, dplpsvm, dpsimplex)
FUNCTIONS = (*FITS, plan)
PARAMETERS = {function: set(inspect.signature(function).parameters) for function in FUNCTIONS}


def message(function, *args, **kwargs):
    with pytest.raises(CallError) as caught:
        function(*args, **kwargs)
    return str(caught.value)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_epsilon_means_eps(function):
    said = message(function, FORMULA, 100, epsilon=1)
    assert said == f"epsilon is not an argument of {function.__name__}; did you mean eps?"


@pytest.mark.parametrize(
    ("function", "name", "ending"),
    [
        (dplr, "lamda_", "did you mean lambda_?"),
        (dplr, "lam", "did you mean lambda_?"),
        (dplr, "intercept_scal", "did you mean intercept_scale?"),
        (dpsvm, "na.action", "did you mean na_action?"),
        (dpsvm, "C", "lambda_ is 1 / (C n)."),
        (dplr, "weights", "every record counts once and is protected by itself."),
        (dplr, "subset", "because their number is public."),
        (dpsimplex, "n_draws", "did you mean draws?"),
        (plan, "data", "it takes the number of records, and never the data."),
        (plan, "seed", "it takes formula, n, eps, "),
        (dplpsvm, "zzz", "it takes formula, data, eps, delta, density, rounds, step, score, "),
    ],
)
def test_what_is_near_is_suggested(function, name, ending):
    assert ending in message(function, FORMULA, 100, **{name: 1})


def test_c_means_lambda_only_where_there_is_one():
    assert "lambda_" not in message(dplpsvm, FORMULA, clinic(), C=1)


def test_other_calls_that_miss_the_signature():
    said = message(dplr, FORMULA, clinic(), 1.0, None, True, "y")
    assert said == (
        "dplr takes 5 arguments by position (formula, data, eps, lambda_, op), not 6; write the "
        "others by name."
    )
    said = message(dpsvm, FORMULA, clinic(), 1.0, eps=2.0)
    assert said == "dpsvm got eps twice, by position and by name."
    assert message(plan, FORMULA) == "plan takes an argument n, which is missing."


def test_it_is_an_argument_error_and_a_type_error():
    with pytest.raises(ArgumentError):
        dplr(epsilon=1)
    with pytest.raises(TypeError) as caught:
        dplr(epsilon=1)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again)) == (CallError, str(caught.value))


def test_nothing_is_charged():
    ledger = Ledger(5)
    message(dplr, FORMULA, clinic(), **SCHEMA, ledger=ledger, epsilon=1)
    assert ledger.entries == ()


def test_rows_of_the_tables_are_needed_and_apply():
    every = set().union(*PARAMETERS.values())
    assert set(_SAME.values()) <= every
    assert not set(_SAME) & set(_NOTES)
    for name in {*_SAME, *_NOTES}:
        without = [function for function in FUNCTIONS if name not in PARAMETERS[function]]
        assert without, name
        said = {message(function, FORMULA, 100, **{name: 1}) for function in without}
        assert any("; it takes formula" not in one for one in said)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_signatures_and_help_stay(function):
    assert inspect.signature(function) == inspect.signature(function.__wrapped__)
    assert function.__doc__ == function.__wrapped__.__doc__
    assert pickle.loads(pickle.dumps(function)) is function


def test_an_error_within_is_not_taken_for_one_of_the_call():
    @suggests_arguments
    def fails(a):
        return a + "text"

    with pytest.raises(TypeError) as caught:
        fails(1)
    assert type(caught.value) is TypeError


# -- warnings stand at the line of the caller ---------------------------------------------------


def places(function, *args, **kwargs):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(*args, **kwargs)
    found = [one for one in caught if issubclass(one.category, PrivacyWarning)]
    assert found
    return {one.filename for one in found}


@pytest.mark.parametrize(
    ("function", "options"),
    [
        *((function, {"seed": 1}) for function in FITS),
        (dplr, {"do_scale": True, "bounds": None}),
        (dplr, {"delta": 0.4, "rp_dim": 9}),
        (dpsvm, {"rp_dim": 9}),
        (dplpsvm, {"delta": 0.01, "density": 0.5, "minority": 0.1}),
        (dpsimplex, {"delta": 0.01}),
    ],
)
def test_warnings_of_a_fit(function, options):
    assert places(function, FORMULA, clinic(), **(SCHEMA | options)) == {__file__}


def test_warnings_of_a_plan():
    assert places(plan, 3, 50, delta=0.4, spend=None) == {__file__}
