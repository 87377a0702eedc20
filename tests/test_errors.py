"""Bad input: one sentence that names the argument, what it got and what it takes."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from frames_for_laws import FORMULA, SCHEMA, clinic

from privatelr import (
    ZCDP,
    ArgumentError,
    FormulaError,
    GuaranteeError,
    MissingDependencyError,
    NotConvergedError,
    PrivateLRError,
    SchemaError,
    SchemaWarning,
    average_marginal_effects,
    compare,
    dplr,
    dpsvm,
    load_dataset,
    load_schema,
    plan,
    plot_coefficients,
)
from privatelr.errors import require_flag
from privatelr.fitting import read_do_scale
from privatelr.mechanisms import read_request

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    FIT = dplr(FORMULA, clinic(400), 5.0, **SCHEMA, spend="inference", do_scale=False, seed=1)


def predicting(type):
    FIT.predict(clinic(), type)


def inferring(mode):
    FIT.conf_int(mode=mode)


def asking(hypotheses):
    FIT.wald_test(hypotheses)


def having_effects(variables):
    average_marginal_effects(FIT, variables=variables)


def comparing(statistic):
    compare([FIT, FIT], statistic=statistic)


def planning(**declared):
    plan("y ~ age", 500, **({"bounds": {"age": (18, 90)}} | declared))


def needing(term):
    plan("y ~ dose", 500, bounds={"dose": (0, 5)}).needed_n(1.0, term)


TYPED = clinic().astype({"smoker": "string"})  # a plain string column is an object before pandas 3
CASES = [
    ({"formula": "z ~ age"}, FormulaError, ["'z'", "'smoker'"]),
    ({"formula": "y age"}, FormulaError, ["'~'"]),
    ({"formula": "y ~ log(age"}, FormulaError, ["bracket"]),
    ({"formula": "y ~ age > 3"}, FormulaError, ["I(x > 3.2)"]),
    ({"formula": "y ~ age + offset(smoker)"}, SchemaError, ["offset(smoker)", "a number"]),
    ({"formula": "y ~ 0"}, FormulaError, ["no columns"]),
    ({"formula": "y ~ I(smoker + 1)"}, FormulaError, ["smoker", "categories"]),
    ({"formula": "y ~ age @ dose"}, FormulaError, ["'@'"]),
    ({"formula": 3}, FormulaError, ["formula of type int"]),
    ({"data": None}, FormulaError, ["data=None"]),
    ({"data": 7}, SchemaError, ["int", "data takes"]),
    ({"data": clinic().iloc[:0]}, SchemaError, ["empty"]),
    ({"data": {"y": [0, 1], "age": [1]}}, SchemaError, ["equal length"]),
    ({"target": "y"}, FormulaError, ["target='y'"]),
    ({"formula": "y ~ I(age dose)"}, FormulaError, ["age dose"]),
    ({"formula": "y age ~ dose"}, FormulaError, ["y age"]),
    ({"formula": "y ~ age + y"}, FormulaError, ["'y'", "also a term"]),
    ({"formula": "y ~ (age - 1)"}, FormulaError, ["intercept", "brackets"]),
    ({"formula": "y ~ age^99"}, FormulaError, ["power 99"]),
    ({"formula": "y ~ 2 * age"}, FormulaError, ["I(2 * x)"]),
    ({"formula": "y ~ age %in% smoker"}, FormulaError, ["a:b"]),
    ({"formula": "y ~ TRUE"}, FormulaError, ["'TRUE'", "reads no column"]),
    ({"formula": "y ~ log(age, 2)"}, FormulaError, ["log", "2 arguments"]),
    ({"formula": "y ~ factor(smoker, labels = c('a'))"}, FormulaError, ["levels = c(...)"]),
    ({"formula": "y ~ I(smoker == 'maybe')"}, FormulaError, ["'maybe'", "'no', 'yes'"]),
    ({"formula": "y ~ I(age == 'a')"}, FormulaError, ["'a'"]),
    ({"formula": "age + dose ~ age"}, SchemaError, ["y > 3"]),
    ({"formula": "y ~ age", "levels": None}, SchemaError, ['levels={"y": [0, 1]}', "booleans"]),
    ({"formula": "y ~ I(" + "age + " * 1000 + "1)"}, FormulaError, ["at most"]),
    ({"data": "y ~ age"}, SchemaError, ["of paths", "data takes"]),
    ({"formula": clinic(), "data": "y ~ age"}, FormulaError, ["the data the second"]),
    ({"bounds": {"age": (0, 5e-324)}}, SchemaError, ["lo < hi"]),
    ({"levels": {"smoker": ["no", pd.NA]}}, SchemaError, ["levels['smoker']"]),
    ({"row_norm": 1e200}, SchemaError, ["1e+200"]),
    ({"bounds": {"age": ("a", "b")}}, SchemaError, ["bounds['age']", "'a'", "finite"]),
    ({"bounds": {"age": (90, 18)}}, SchemaError, ["(90, 18)", "lo < hi"]),
    ({"bounds": {"age": (18, np.inf)}}, SchemaError, ["inf"]),
    ({"bounds": {"age": (18, np.nan)}}, SchemaError, ["nan"]),
    ({"bounds": {"age": 18}}, SchemaError, ["bounds['age']=18"]),
    ({"bounds": {"agee": (18, 90)}}, SchemaError, ["'agee'", "'age'"]),
    ({"bounds": [18, 90]}, SchemaError, ["bounds=[18, 90]"]),
    ({"levels": {"smoker": [0, 1]}, "data": TYPED}, SchemaError, ["strings", "type"]),
    ({"levels": {"age": ["a", "b"]}}, SchemaError, ["'age'"]),
    ({"levels": {"y": [0, 1]}}, SchemaError, ["smoker", "levels="]),
    ({"intercept_scale": -1}, SchemaError, ["intercept_scale=-1"]),
    ({"levels": {"y": [0, 1, 2], "smoker": ["no", "yes"]}}, SchemaError, ["'y'", "0, 1, 2"]),
    ({"bounds": {"y": (0, 2)}, "levels": None}, SchemaError, ["'y'", "0 and 1", "y > 1 ~"]),
    (
        {"formula": "y ~ C(smoker, contr.treatment('n' + 'o'))"},
        FormulaError,
        ["contr.sum", "constants only"],
    ),
    (
        {"formula": "y ~ C(smoker, contr.poly(scores = [0, 0]))"},
        FormulaError,
        ["'C(smoker, contr.poly(scores = [0, 0]))'", "as a contrast"],
    ),
    ({"eps": np.nan}, GuaranteeError, ["eps=nan"]),
    ({"eps": np.inf}, GuaranteeError, ["eps=inf"]),
    ({"eps": None}, GuaranteeError, ["eps=None"]),
    ({"eps": True}, GuaranteeError, ["eps=True"]),
    ({"delta": 0.6}, GuaranteeError, ["delta=0.6", "1e-30 to 0.5"]),
    ({"delta": 1e-31}, GuaranteeError, ["delta=1e-31", "0 (pure privacy)"]),
    ({"eps": ZCDP(1.0), "delta": 1e-6}, GuaranteeError, ["delta=1e-06", "beside a guarantee"]),
    ({"eps": ZCDP(1e-20)}, GuaranteeError, ["rho=1e-20", "1e-18"]),
    ({"spend": "roc"}, GuaranteeError, ["spend='roc'", "'inference' (the usual shares)"]),
    ({"spend": {"coefficients": 0.5, "auc": 0.5}}, GuaranteeError, ["auc", "no share"]),
    ({"spend": {"roc": 1}}, GuaranteeError, ["spend", "no share for the coefficients"]),
    ({"spend": {"coefficients": 0.5}}, GuaranteeError, ["0.5", "whose sum is 1"]),
    ({"spend": "inference", "eps": 1e-9}, GuaranteeError, ["spend", "6.5e-10", "raise eps"]),
    ({"spend": "inference", "eps": 0, "lambda_": 0}, GuaranteeError, ["lambda_=0", "above 0"]),
    ({"delta": 1e-6, "analysis": "cms11"}, GuaranteeError, ["'cms11'", "'one-log'"]),
    ({"delta": 1e-6, "lambda_": 1e-9, "on_small_lambda": "keep"}, GuaranteeError, ["take lambda_"]),
    ({"eps": ZCDP(0.1), "lambda_": 0, "on_small_lambda": "keep"}, GuaranteeError, ["lambda_=0"]),
    ({"lambda_": 1e-300}, GuaranteeError, ["1e-300", "1e-15"]),
    ({"lambda_": "best"}, GuaranteeError, ["'best'", "'PrivateLR'"]),
    ({"lambda_": 1e-9, "on_small_lambda": "keep"}, GuaranteeError, ["1e-09", "above"]),
    ({"op": 1}, ArgumentError, ["op=1"]),
    ({"threshold": "best"}, ArgumentError, ["'best'", "'youden'"]),
    ({"rp_dim": 1.5}, SchemaError, ["rp_dim=1.5"]),
    ({"do_scale": "yes"}, ArgumentError, ["do_scale='yes'", "None (", "'private' (", "False ("]),
    ({"do_scale": 1}, ArgumentError, ["do_scale=1", "True (", "voids the guarantee"]),
    (
        {"rp_dim": 2, "spend": {"scale": 0.1, "coefficients": 0.9}},
        ArgumentError,
        ["rp_dim=2 and spend={'scale': ...}", "projected"],
    ),
    ({"solver": 3}, ArgumentError, ["solver=3"]),
    ({"seed": -1}, ArgumentError, ["seed=-1"]),
    ({"ledger": 3.0}, ArgumentError, ["ledger=3.0", "a Ledger"]),
]


def call(change):
    arguments = {"formula": FORMULA, "data": clinic(), **SCHEMA, **change}
    return dplr(arguments.pop("formula"), arguments.pop("data"), **arguments)


@pytest.mark.parametrize(("change", "error", "words"), CASES, ids=lambda x: str(x)[:50])
def test_one_sentence(change, error, words):
    with pytest.raises(error) as caught:
        call(change)
    message = str(caught.value)
    for word in words:
        assert word in message
    assert message.endswith(".") or re.search(r"; did you mean '\S+'\?$", message)
    assert "\n" not in message
    # one sentence: no full stop followed by a capital
    assert not re.search(r"[a-z]\. [A-Z]", message)
    assert caught.value.__cause__ is None


MISSPELT = [
    (dplr, {"bounds": {"Age": (18, 90)}}, "'age'"),
    (dplr, {"levels": {"smokr": ["no", "yes"]}}, "'smoker'"),
    (dplr, {"spend": {"coeficients": 1.0}}, "'coefficients'"),
    (dplr, {"lambda_": "privatelr"}, "'PrivateLR'"),
    (dplr, {"do_scale": "prviate"}, "'private'"),
    (dpsvm, {"loss": "hubber"}, "'huber'"),
    (predicting, {"type": "respnse"}, "'response'"),
    (inferring, {"mode": "conservativ"}, "'conservative'"),
    (asking, {"hypotheses": "agee = 0"}, "'age'"),
    (having_effects, {"variables": ["does"]}, "'dose'"),
    (plot_coefficients, {"scale": "coeficient"}, "'coefficient'"),
    (comparing, {"statistic": "std_eror"}, "'std_error'"),
    (load_dataset, {"name": "irsi"}, "'iris'"),
    (load_schema, {"name": "Adult"}, "'adult'"),
    (planning, {"bounds": {"agee": (18, 90)}}, "'age'"),
    (needing, {"term": "doze"}, "'dose'"),
]


@pytest.mark.parametrize(
    ("function", "change", "meant"), MISSPELT, ids=[str(change) for _, change, _ in MISSPELT]
)
def test_a_value_that_is_near_is_suggested(function, change, meant):
    given = {"formula": FORMULA, "data": clinic(), **SCHEMA} if function in (dplr, dpsvm) else {}
    given |= {"fit": FIT} if function is plot_coefficients else {}
    with pytest.raises(PrivateLRError) as caught:
        function(**{**given, **change})
    assert str(caught.value).endswith(f"did you mean {meant}?")


def test_what_is_far_is_not_suggested():
    with pytest.raises(SchemaError) as caught:
        call({"bounds": {"zzz": (0, 1)}})
    assert str(caught.value).endswith("it has 'age', 'dose', 'smoker', 'y'.")


def test_every_error_is_also_a_builtin():
    for error, builtin in (
        (FormulaError, ValueError),
        (SchemaError, ValueError),
        (GuaranteeError, ValueError),
        (ArgumentError, ValueError),
        (NotConvergedError, RuntimeError),
        (MissingDependencyError, ImportError),
    ):
        assert issubclass(error, builtin)
        assert issubclass(error, PrivateLRError)


SLIPS = [
    {"levels": {"smoker": clinic()["smoker"]}},
    {"levels": clinic()},
    {"bounds": {"age": clinic()["age"]}},
    {"lambda_": clinic()["age"]},
    {"op": clinic()["y"]},
    {"row_norm": clinic()["age"]},
    {"intercept_scale": clinic()["age"].to_numpy()},
    {"threshold": clinic()["age"]},
    {"seed": clinic()["y"]},
    {"spend": clinic()["y"]},
    {"rp_dim": clinic()["y"]},
    {"target": clinic()["y"]},
    {"analysis": clinic()["age"]},
    {"do_scale": clinic()["age"]},
    {"solver": clinic()["age"]},
    {"ledger": clinic()["age"]},
    {"formula": clinic()["age"], "data": "y ~ age"},
]


@pytest.mark.parametrize("change", SLIPS, ids=lambda change: str(list(change)))
def test_a_column_passed_by_mistake_is_not_printed(change):
    with pytest.raises(PrivateLRError) as caught:
        call(change)
    message = str(caught.value)
    assert "\n" not in message
    for column in ("age", "dose"):
        for value in clinic()[column]:
            assert f"{value:.3f}"[:5] not in message


@pytest.mark.parametrize("value", [2, -1, 0.5, np.nan, np.inf])
def test_an_unheard_of_response_value_is_no_error(value):
    """It would tell that the value is there: the record counts as missing."""
    frame = clinic()
    frame.loc[3, "y"] = value
    assert dplr(FORMULA, frame, **SCHEMA).nobs == len(frame)


@pytest.mark.parametrize(("change", "error", "words"), CASES, ids=lambda x: str(x)[:50])
def test_errors_do_not_depend_on_values(change, error, words):
    """The same call on other values of the same types gives the same sentence."""
    if isinstance(change.get("data"), pd.DataFrame) or "data" in change:
        return
    messages = set()
    for frame in (clinic(), clinic(seed=8), clinic().assign(age=np.nan, dose=1e300, y=7.0)):
        with pytest.raises(error) as caught:
            call({**change, "data": frame})
        messages.add(str(caught.value))
    assert len(messages) == 1


@pytest.mark.parametrize("asked", [True, False])
def test_truth_values_of_numpy_are_truth_values(asked):
    assert require_flag("op", np.bool_(asked)) is asked
    assert read_do_scale(np.bool_(asked)) is asked
    assert read_request(1.0, 0.0, None, None, np.bool_(asked), None, "keep").placement == (
        "objective" if asked else "output"
    )


@pytest.mark.parametrize("value", [1, 0.0, "True", None, [True]])
def test_other_values_are_no_truth_values(value):
    with pytest.raises(ArgumentError, match=r"^op=.*: op takes True or False\.$"):
        require_flag("op", value)


LONG = [
    ({"row_norm": 1e6, "do_scale": "private"}, "row_norm=1e+06: where the scale of columns is rel"),
    ({"row_norm": 1e6, "bounds": None}, "in the units of 'age', 'dose'"),
    ({"row_norm": 1e6, "bounds": {"age": (18, 90)}}, "in the units of 'dose'"),
]


@pytest.mark.parametrize(("declared", "words"), LONG, ids=["scaled", "bare", "one"])
def test_a_limit_on_rows_that_is_likely_in_other_units_is_doubted(declared, words):
    frame = clinic(400)
    with pytest.warns(SchemaWarning) as caught:
        dplr(FORMULA, frame, 5.0, **SCHEMA | declared)
    (said,) = [str(one.message) for one in caught if "row_norm=" in str(one.message)]
    assert words in said
    assert said.endswith(".")
    # the sentence is of public facts: another table of as many records has the same
    other = frame.assign(age=frame["age"] * 0 + 50, dose=1e9)
    with pytest.warns(SchemaWarning) as again:
        dplr(FORMULA, other, 5.0, **SCHEMA | declared)
    assert said in [str(one.message) for one in again]


@pytest.mark.parametrize("declared", [{"row_norm": 3.0, "do_scale": "private"}, {"row_norm": 1e6}])
def test_a_limit_of_rows_of_a_usual_kind_is_not_doubted(declared):
    with warnings.catch_warnings():
        warnings.simplefilter("error", SchemaWarning)
        dplr(FORMULA, clinic(4000), 5.0, **SCHEMA | declared)
