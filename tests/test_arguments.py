"""A call that misses a signature is told the name that it means, at the caller's line."""

import inspect
import pickle
import warnings

import pytest
from frames_for_laws import FORMULA, SCHEMA, clinic

import privatelr
from privatelr import (
    Ledger,
    PrivacyWarning,
    PrivateFTRL,
    check,
    constraint_private_lp,
    dplpsvm,
    dplr,
    dpsimplex,
    dpsvm,
    plan,
    scaled,
)
from privatelr.arguments import NOTES, SAME, suggests_arguments
from privatelr.errors import CallError

FITS = (dplr, dpsvm, dplpsvm, dpsimplex)
FUNCTIONS = (*FITS, plan, check)


def public_calls():
    """Every call that a user can write, by its name: functions, constructions and methods.

    Errors and warnings are left out: nobody but the package makes them. So are the methods that
    Python gives every mapping.
    """
    for name in privatelr.audit.__all__:
        if inspect.isfunction(found := getattr(privatelr.audit, name)):
            yield f"audit.{name}", found
    for name in privatelr.__all__:
        found = getattr(privatelr, name)
        if inspect.isfunction(found):
            yield name, found
        elif inspect.isclass(found) and not issubclass(found, BaseException):
            if inspect.isfunction(found.__init__):
                yield name, found
            for one in [one for one in dir(found) if not one.startswith("_")]:
                member = inspect.getattr_static(found, one)
                refuses = "Never" in str(getattr(member, "__annotations__", {}).get("return"))
                ours = inspect.isfunction(member) and member.__module__.startswith("privatelr")
                if ours and not refuses:
                    yield f"{name}.{one}", getattr(object.__new__(found), one)
                elif isinstance(member, classmethod):
                    yield f"{name}.{one}", getattr(found, one)


CALLS = dict(public_calls())


def message(function, *args, **kwargs):
    with pytest.raises(CallError) as caught:
        function(*args, **kwargs)
    return str(caught.value)


@pytest.mark.parametrize(
    ("function", "name", "ending"),
    [
        (dplr, "lamda_", "did you mean lambda_?"),
        (dplr, "lam", "did you mean lambda_?"),
        (dpsvm, "C", "lambda_ is 1 / (C n)."),
    ],
)
def test_what_is_near_is_suggested(function, name, ending):
    assert ending in message(function, FORMULA, 100, **{name: 1})


def test_calls_are_found():
    assert {"load", "Ledger", "Ledger.plan", "Ledger.charge", "Fit.wald_test"} <= {*CALLS}


@pytest.mark.parametrize("name", CALLS)
def test_every_public_call_that_misses_a_name_is_told_it(name):
    parameters = inspect.signature(CALLS[name]).parameters.values()
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = [one.name for one in parameters if one.kind not in variable]
    passed_on = any(one.kind is one.VAR_KEYWORD for one in parameters)
    meant = "mode" if passed_on else max(named, key=len, default="")
    said = message(CALLS[name], *named[:1] * passed_on, **{f"{meant}x": 1})
    assert said.startswith(f"{meant}x is not an argument of ")
    assert said.endswith(f"; did you mean {meant}?" if meant else "; it takes no arguments.")


def test_what_a_method_is_called_with_is_counted_without_itself():
    assert message(Ledger, 1, 0, 2) == (
        "Ledger takes 2 arguments by position (epsilon, delta), not 3; write the others by name, "
        "such as neighbours=."
    )
    assert message(Ledger(1).part) == "part takes an argument name, which is missing."
    assert message(Ledger(1).spent, 0, delta=0) == "spent got delta twice, by position and by name."
    assert message(Ledger, eps=1) == "eps is not an argument of Ledger; did you mean epsilon?"


def test_other_calls_that_miss_the_signature():
    said = message(dplr, FORMULA, clinic(), 1.0, None, True, "y")
    assert said == (
        "dplr takes 5 arguments by position (formula, data, eps, lambda_, op), not 6; write the "
        "others by name, such as target=."
    )
    said = message(dpsvm, FORMULA, clinic(), 1.0, eps=2.0)
    assert said == "dpsvm got eps twice, by position and by name."
    assert message(plan, FORMULA) == "plan takes an argument n, which is missing."


def test_nothing_is_charged():
    ledger = Ledger(5)
    message(dplr, FORMULA, clinic(), **SCHEMA, ledger=ledger, epsilon=1)
    assert ledger.entries == ()


def test_rows_of_the_tables_are_needed_and_apply():
    parameters = {call: inspect.signature(call).parameters for call in CALLS.values()}
    assert set(SAME.values()) <= set().union(*parameters.values())
    assert not set(SAME) & set(NOTES)
    for name in {*SAME, *NOTES}:
        without = [call for call, held in parameters.items() if not {name, "options"} & {*held}]
        assert without, name
        said = {message(call, **{name: 1}) for call in without}
        assert any(NOTES.get(name, f"did you mean {SAME.get(name)}?") in one for one in said)


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


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (scaled, {"formula": FORMULA, "data": clinic(), "levels": SCHEMA["levels"]}),
        (PrivateFTRL, {"n_experts": 2, "horizon": 5, "epsilon": 1.0, "seed": 1}),
        (
            constraint_private_lp,
            {"a": [[1.0, 0.5]] * 9, "b": [1.0] * 9, "c": [1.0, 1.0], "opt": 1.0}
            | {"width": 1.0, "violated": 5, "rounds": 3, "seed": 1},
        ),
    ],
)
def test_warnings_of_other_calls(function, given):
    assert places(function, **given) == {__file__}
