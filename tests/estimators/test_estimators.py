"""Estimators of scikit-learn: what they hand over, what they pay, what they tell."""

from __future__ import annotations

import inspect
import pickle
import sys
import warnings
from collections import deque
from copy import copy
from functools import partial
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from frames_for_laws import fixed_noise
from scipy import sparse

pytest.importorskip("sklearn", reason="needs scikit-learn")

import sklearn
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, KFold, check_cv, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import privatelr as lr
import privatelr.fitting
from privatelr.arguments import OF_FIT
from privatelr.errors import CallError, PrivateLRError
from privatelr.estimators import (
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateLPSVC,
    PrivateSimplexClassifier,
    private_classifiers,
)

QUICK = {
    "PrivateLogisticRegression": PrivateLogisticRegression,
    "PrivateLinearSVC": PrivateLinearSVC,
    "PrivateLPSVC": partial(PrivateLPSVC, rounds=5),
    "PrivateSimplexClassifier": partial(PrivateSimplexClassifier, draws=2, lambda_=10),
}
FUNCTIONS = {
    "PrivateLogisticRegression": lr.dplr,
    "PrivateLinearSVC": lr.dpsvm,
    "PrivateLPSVC": partial(lr.dplpsvm, rounds=5),
    "PrivateSimplexClassifier": partial(lr.dpsimplex, draws=2, lambda_=10),
}
KINDS = pytest.mark.parametrize("name", QUICK)
BOUNDS = {"age": (18, 90), "dose": (0, 5)}
PUBLIC = {"bounds": BOUNDS, "levels": {"smoker": ["no", "yes"]}, "classes": (0, 1)}


def patients(n=60, seed=1):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.uniform(18, 90, n),
            "dose": rng.uniform(0, 5, n),
            "smoker": rng.choice(["no", "yes"], n),
        },
        index=np.arange(n)[::-1],  # rows are matched by place, never by label
    )
    chance = 1 / (1 + np.exp(-(frame.age - 54) / 8))
    return frame, pd.Series((rng.random(n) < chance.to_numpy()).astype(int), name="died")


X, Y = patients()
NUMBERS = X[["age", "dose"]]
JOINED = X.assign(died=Y.to_numpy())


# -- the same fit as the function's ----------------------------------------------------------------


@pytest.mark.quick
@KINDS
def test_the_fit_is_that_of_the_function(monkeypatch, name):
    declared = {"bounds": BOUNDS, "levels": {**PUBLIC["levels"], "died": (0, 1)}}
    with fixed_noise(monkeypatch):
        model = QUICK[name](**PUBLIC).fit(X, Y)
        fit = FUNCTIONS[name]("died ~ .", JOINED, **declared)
    assert (model.result_.coef == fit.coef).all()
    assert model.result_.formula == fit.formula == "died ~ age + dose + smoker"
    assert model.result_.guarantee == fit.guarantee
    assert model.coef_.shape == (1, 3)
    assert [*model.intercept_, *model.coef_[0]] == [*fit.coef]
    assert (model.predict(X) == fit.predict(X, type="classes")).all()
    assert [*model.classes_] == [0, 1]
    assert [*model.feature_names_in_] == [*X]


@pytest.mark.quick
def test_weights_and_persons_reach_the_function(monkeypatch):
    weights, persons = np.linspace(0.1, 3, len(X)), [f"p{i // 2}" for i in range(len(X))]
    columns = {"w": weights, "patient": pd.Series(persons, dtype=object).array}
    with fixed_noise(monkeypatch):
        model = PrivateLogisticRegression(**PUBLIC, largest_weight=4, records_per_person=2)
        model.fit(X, Y, sample_weight=weights, person=persons)
        fit = lr.dplr(
            *("died ~ .", JOINED.assign(**columns)),
            **{"weights": "w", "person": "patient", "records_per_person": 2},
            bounds={**BOUNDS, "w": (0, 4)},
            levels={**PUBLIC["levels"], "died": (0, 1)},
        )
    assert (model.result_.coef == fit.coef).all()
    assert model.result_.guarantee == fit.guarantee
    assert model.result_.guarantee.neighbours is lr.REPLACE_PERSON


CONTAINERS = {
    "array": lambda frame: frame.to_numpy(),
    "lists": lambda frame: frame.to_numpy().tolist(),
    "rows in a list": lambda frame: [*frame.to_numpy()],
    "objects": lambda frame: frame.to_numpy().astype(object),
    "sparse": lambda frame: sparse.csr_array(frame.to_numpy()),
    "mask": lambda frame: np.ma.masked_invalid(frame.to_numpy()),
}


@KINDS
@pytest.mark.parametrize("container", CONTAINERS)
def test_a_table_in_any_container_is_the_same_table(monkeypatch, name, container):
    held = CONTAINERS[container](NUMBERS)
    with fixed_noise(monkeypatch):
        model = QUICK[name](bounds=[(18, 90), (0, 5)], classes=(0, 1)).fit(held, Y.tolist())
        same = QUICK[name](bounds=BOUNDS, classes=(0, 1)).fit(NUMBERS, Y)
    assert (model.coef_ == same.coef_).all()
    assert not hasattr(model, "feature_names_in_")
    np.testing.assert_allclose(model.decision_function(held), same.decision_function(NUMBERS))


@pytest.mark.quick
@KINDS
def test_a_sparse_matrix_without_bounds_stays_sparse(monkeypatch, name):
    matrix = sparse.csr_array(NUMBERS.to_numpy() / 100)
    with fixed_noise(monkeypatch):
        model = QUICK[name](classes=(0, 1)).fit(matrix, Y)
        fit = FUNCTIONS[name](Y, matrix, levels={"died": [0, 1]})
    assert (model.result_.coef == fit.coef).all()
    assert (model.predict(matrix) == model.predict(matrix.toarray())).all()


def test_persons_of_a_sparse_matrix_reach_the_function(monkeypatch):
    matrix, persons = sparse.csr_array(NUMBERS.to_numpy() / 100), np.arange(60) // 2
    with fixed_noise(monkeypatch):
        model = PrivateLinearSVC(classes=(0, 1)).fit(matrix, Y, person=persons)
        fit = lr.dpsvm(Y, matrix, person=persons, levels={"died": [0, 1]})
    assert (model.result_.coef == fit.coef).all()
    with pytest.raises(lr.FormulaError, match="have no names"):
        model.fit(matrix, Y, person="patient")


APART = {"formula", "data", "target", "weights", "subset", "by", "person", "na_action", "solver"}
"""Arguments of functions that are handed over with the data, or have no choice."""


@pytest.mark.parametrize(
    ("kind", "function", "renamed"),
    [
        (PrivateLogisticRegression, lr.dplr, {"largest_weight": None}),
        (PrivateLinearSVC, lr.dpsvm, {"largest_weight": None}),
        (PrivateLPSVC, lr.dplpsvm, {"round_score": "score"}),
        (PrivateSimplexClassifier, lr.dpsimplex, {}),
    ],
    ids=QUICK,
)
def test_every_argument_of_a_function_is_a_parameter_with_its_default(kind, function, renamed):
    usual = {
        name: one.default
        for name, one in inspect.signature(function).parameters.items()
        if name not in APART
    }
    found = {renamed.get(name, name): value for name, value in kind().get_params().items()}
    found.pop(None, None)
    assert found.pop("classes") is None
    assert found.pop("missing") == "constant"
    assert found == usual


# -- classes ---------------------------------------------------------------------------------------

THREE = np.digitize(X.age, [40, 65])


@pytest.mark.quick
@pytest.mark.parametrize("values", [(0, 1, 2), ("a", "b", "c"), (0.5, 1.5, 2.5), (-3, 10, 2)])
def test_three_classes_are_fitted_together(monkeypatch, values):
    y = np.array(values)[THREE]
    with fixed_noise(monkeypatch):
        model = PrivateLogisticRegression(bounds=BOUNDS, classes=values, eps=50).fit(NUMBERS, y)
        names = pd.Categorical([str(v) for v in y], categories=[str(v) for v in sorted(values)])
        fit = lr.dpmultinom("y ~ age + dose", NUMBERS.assign(y=names), bounds=BOUNDS, eps=50)
    assert [*model.classes_] == sorted(values)
    assert (model.coef_[0] == 0).all()
    assert (fit.coef.iloc[1:] == model.coef_[1:].T).all().all()
    link = NUMBERS.to_numpy() @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(model.decision_function(NUMBERS), link, atol=1e-9)
    chances = model.predict_proba(NUMBERS)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert (model.predict(NUMBERS) == model.classes_[chances.argmax(axis=1)]).all()


@pytest.mark.parametrize("kind", [PrivateLinearSVC, PrivateLPSVC, PrivateSimplexClassifier])
def test_others_refuse_three_classes_and_go_with_one_against_the_rest(kind):
    with pytest.raises(ValueError, match="OneVsRestClassifier"):
        kind(bounds=BOUNDS, classes=(0, 1, 2)).fit(NUMBERS, THREE)


def test_one_against_the_rest_pays_for_each_class():
    ledger = lr.Ledger(3.0)
    model = OneVsRestClassifier(PrivateLinearSVC(bounds=BOUNDS, classes=(0, 1), ledger=ledger))
    assert set(model.fit(NUMBERS, THREE).predict(NUMBERS)) <= {0, 1, 2}
    assert ledger.spent() == 3.0


def test_classes_of_a_type_are_public():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PrivateLogisticRegression(bounds=BOUNDS)
        assert model.fit(NUMBERS, Y.to_numpy() == 1).classes_.tolist() == [False, True]
        assert model.predict(NUMBERS).dtype == bool
        texts = pd.Categorical(np.where(Y, "dead", "alive"), categories=["dead", "alive", "lost"])
        assert model.fit(NUMBERS, texts).classes_.tolist() == ["alive", "dead", "lost"]
        model = PrivateLogisticRegression(bounds=BOUNDS, levels={"died": (1, 0)})
        assert model.fit(NUMBERS, Y).classes_.tolist() == [0, 1]


@pytest.mark.quick
@KINDS
def test_an_argument_that_fit_lacks_is_told_in_one_sentence(name):
    model = QUICK[name](bounds=BOUNDS, classes=(0, 1))
    takes = inspect.signature(model.fit).parameters
    assert [*takes][:2] == ["X", "y"]  # scikit-learn reads it, to route weights
    for argument, sentence in OF_FIT.items():
        if argument not in takes:
            with pytest.raises(CallError, match="is not an argument of fit; ") as told:
                model.fit(NUMBERS, Y, **{argument: Y})
            assert str(told.value) == f"{argument} is not an argument of fit; {sentence}."
            assert isinstance(told.value, TypeError)
    assert not hasattr(model, "result_")


UNDECLARED = {
    "numbers": (Y.to_numpy(), np.where(np.arange(60) == 3, 7, Y)),
    "texts": (np.where(Y, "yes", "no"), np.where(np.arange(60) == 3, "HIV+", "no")),
    "objects": ([*Y], [*Y[:-1], "HIV+"]),
    "texts of arrow": (pd.Series(["no", "yes"] * 30), pd.Series(["no"] * 59 + ["HIV+"])),
    "nothing": ([None] * 60, [None] * 59 + ["HIV+"]),
}
"""Labels without declared classes, and neighbours with another class."""


@pytest.mark.quick
@pytest.mark.parametrize("labels", UNDECLARED)
@KINDS
def test_undeclared_classes_are_refused_before_the_charge(name, labels):
    told = set()
    for y in UNDECLARED[labels]:
        with lr.Ledger(9.0) as ledger, pytest.raises(lr.SchemaError) as refused:
            QUICK[name](bounds=BOUNDS, eps=2).fit(NUMBERS, y)
        assert ledger.entries == ()
        told.add(str(refused.value))
    (sentence,) = told
    assert "classes=(0, 1)" in sentence


def test_a_fit_that_promises_nothing_reads_classes():
    model = PrivateLogisticRegression(bounds=BOUNDS, eps=0)
    assert model.fit(NUMBERS, UNDECLARED["texts"][1]).classes_.tolist() == ["HIV+", "no"]


@pytest.mark.parametrize("kinds", [2, 3])
def test_classes_from_data_void_the_guarantee_and_every_page_says_why(tmp_path, kinds):
    why = "void: classes read off the data"
    model = PrivateLogisticRegression(bounds=BOUNDS, eps=2, classes="from data")
    with lr.Ledger(9.0) as ledger, pytest.raises(lr.GuaranteeError, match=why):
        model.fit(NUMBERS, [object()] * 60)  # refused before y is read
    assert ledger.entries == ()
    y = np.where(np.arange(60) < 1, "HIV+", np.where(Y, "yes", "no")) if kinds == 3 else Y
    fit = model.fit(NUMBERS, y).result_
    assert len(model.classes_) == kinds
    assert not fit.guarantee.is_private
    fit.save(path := tmp_path / "fit.json")
    read = lr.load(path)
    for text in (fit.guarantee, fit, fit.card(), path.read_text(), read.guarantee, read):
        assert why in " ".join(str(text).split())
    assert "holds no row" not in path.read_text()
    assert "without a look" not in str(read.origin)
    assert "drawn from the operating system" in fit.card()
    assert "enough for" not in fit.card()


@pytest.mark.parametrize("y", [[7] * 60, [None] * 60, pd.Series([None] * 60, dtype="str")])
def test_one_class_is_refused_where_classes_are_read(y):
    with pytest.raises(lr.SchemaError, match="one class or none"):
        PrivateLPSVC(bounds=BOUNDS, eps=2, classes="from data").fit(NUMBERS, y)


def test_numbers_with_a_point_are_declared():
    floats = Y.astype(float).where(Y.index > 3)
    with pytest.raises(lr.SchemaError, match=r"float64.*classes=\(0, 1\)"):
        PrivateLogisticRegression(bounds=BOUNDS).fit(NUMBERS, floats)
    model = PrivateLogisticRegression(bounds=BOUNDS, classes=(0, 1)).fit(NUMBERS, floats)
    assert model.result_.diagnostics.counts.zero_rows == 4


# -- what is told of the data ----------------------------------------------------------------------

ODD = [None, np.nan, np.inf, "x", b"x", 10**400, {"a": 1}, [1], object, pd.NaT, 1 + 2j]
"""Cells that are no numbers, one in one record."""


def outcome(model, table, y):
    """What a fit tells, apart from what it paid for: an error, warnings, attributes."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            model.fit(table, y)
        except PrivateLRError as error:
            return type(error), str(error), [str(one.message) for one in told]
    known = {k: v for k, v in vars(model).items() if k not in {"coef_", "intercept_", "result_"}}
    calibration = model.result_.calibration
    return repr(known), repr(calibration), [str(one.message) for one in told]


def check_one_odd_cell(name, place, rows):
    def told(cell):
        cells, labels = NUMBERS.to_numpy().astype(object), Y.to_numpy().astype(object)
        if place == "X":
            cells[5, 1] = cell
        else:
            labels[5] = cell
        model = QUICK[name](bounds=(0, 90), classes=(0, 1))
        return outcome(model, cells.tolist() if rows == "list" else cells, [*labels])

    usual = told(1)
    assert isinstance(usual[0], str)
    for cell in ODD:
        assert told(cell) == usual


@KINDS
@pytest.mark.parametrize("place", ["X", "y"])
@pytest.mark.parametrize("rows", ["list", "array"])
def test_one_odd_cell_is_seen_in_nothing(name, place, rows):
    check_one_odd_cell(name, place, rows)


@KINDS
def test_one_class_in_y_is_seen_in_nothing(name):
    model = QUICK[name](bounds=BOUNDS, classes=(0, 1))
    usual = outcome(model, NUMBERS, Y)
    for y in (np.zeros(60, dtype=int), np.ones(60, dtype=int), np.full(60, 5)):
        assert outcome(model, NUMBERS, y) == usual


def test_a_short_row_of_a_list_is_seen_in_nothing():
    rows = NUMBERS.to_numpy().tolist()
    model = PrivateLogisticRegression(bounds=(0, 90), classes=(0, 1))
    usual = outcome(model, rows, Y)
    for row in ([1.0], [], [1.0, 2.0, 3.0], None, "ab", np.array(3.0), np.ones((2, 2))):
        assert outcome(model, [*rows[:7], row, *rows[8:]], Y) == usual


@pytest.mark.parametrize("weights", [np.zeros(60), np.full(60, np.nan), np.full(60, -1.0)])
def test_weights_of_nothing_are_seen_in_nothing(weights):
    def told(given):
        model = PrivateLogisticRegression(bounds=BOUNDS, classes=(0, 1))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.fit(NUMBERS, Y, sample_weight=given)
        return repr(model.result_.calibration)

    assert told(weights) == told(np.ones(60))


SECRET = 86753
REFUSED = {
    "a short y": lambda model: model.fit(NUMBERS, [SECRET] * 59),
    "a table as y": lambda model: model.fit(NUMBERS, np.full((60, 2), SECRET)),
    "y of one number": lambda model: model.fit(NUMBERS, SECRET),
    "complex": lambda model: model.fit(NUMBERS.to_numpy() * (1j + SECRET), Y),
    "one dimension": lambda model: model.fit(np.full(60, SECRET), Y),
    "a list of numbers": lambda model: model.fit([SECRET] * 60, Y),
    "a mapping": lambda model: model.fit({"age": [SECRET] * 60}, Y),
    "a queue": lambda model: model.fit(deque([[SECRET, 1]] * 60), Y),
    "no table": lambda model: model.fit(None, Y),
    "a series": lambda model: model.fit(NUMBERS.age + SECRET, Y),
    "a longer weight": lambda model: model.fit(NUMBERS, Y, sample_weight=[SECRET] * 61),
    "a table of weights": lambda model: model.fit(NUMBERS, Y, np.full((60, 2), SECRET)),
    "a shorter person": lambda model: model.fit(NUMBERS, Y, person=[SECRET] * 59),
    "texts as y": lambda model: model.fit(NUMBERS, np.full(60, f"{SECRET}")),
    "too few columns": lambda model: model.fit(NUMBERS, Y).predict(NUMBERS[["age"]] + SECRET),
    "no y": lambda model: model.fit(NUMBERS, None),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_quote_nothing_of_the_data(case):
    with pytest.raises(ValueError, match=r".") as refused:
        REFUSED[case](PrivateLogisticRegression(bounds=BOUNDS, classes=(0, 1)))
    said = str(refused.value)
    assert not any(word in said for word in (str(SECRET), "59", "60", "61"))


SLIPS = {
    "one class": {"classes": (0,)},
    "a class twice": {"classes": (0, 0)},
    "texts and numbers": {"classes": ("a", 1)},
    "a text": {"classes": "ab"},
    "classes of another type": {"classes": ("a", "b")},
    "a column as classes": {"classes": pd.Series([0, 1])},
    "too many pairs": {"bounds": [(0, 1)] * 3},
    "a number as bounds": {"bounds": 3},
    "eps": {"eps": -1},
    "ledger": {"ledger": 5},
    "largest_weight": {"largest_weight": -1},
    "missing": {"missing": "drop"},
    "threshold": {"threshold": 2},
    "a list as levels": {"levels": ["no", "yes"]},
    "levels of one value": {"levels": {"smoker": ["no"]}},
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_public_slip_costs_nothing(slip):
    with lr.Ledger(1.0) as ledger:
        model = PrivateLogisticRegression(**{"bounds": BOUNDS, "classes": (0, 1), **SLIPS[slip]})
        with pytest.raises(ValueError, match=r"."):
            model.fit(NUMBERS, Y, sample_weight=np.ones(60))
    assert ledger.entries == ()


@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateLinearSVC])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("largest_weight", value) for value in (-1, 0, "a", np.inf, True)),
        *(("records_per_person", value) for value in (0, 1.5, True)),
    ],
)
def test_limits_that_nothing_uses_are_checked_before_the_charge(kind, name, value):
    with lr.Ledger(1.0) as ledger:
        model = kind(bounds=BOUNDS, classes=(0, 1), **{name: value})
        with pytest.raises(PrivateLRError, match=f"{name}=.*: {name} takes a"):
            model.fit(NUMBERS, Y)
    assert ledger.entries == ()


LABELS = {
    "an array of bytes": np.array([b"no", b"yes"] * 30),
    "a list of bytes": [b"no", b"yes"] * 30,
    "a series of tuples": pd.Series([(1, 2), (3, 4)] * 30),
    "a list of lists": [["no"], ["yes"]] * 30,
}


@pytest.mark.parametrize("labels", LABELS)
def test_labels_that_are_no_classes_are_refused(labels):
    with pytest.raises(lr.SchemaError, match="classes are numbers, booleans or texts"):
        PrivateLogisticRegression(bounds=BOUNDS, classes="from data").fit(NUMBERS, LABELS[labels])


def test_bytes_are_refused_before_the_charge():
    with lr.Ledger(1.0) as ledger, pytest.raises(lr.SchemaError, match="classes are numbers, bool"):
        PrivateLinearSVC(bounds=BOUNDS, classes=("no", "yes")).fit(
            NUMBERS, LABELS["an array of bytes"]
        )
    assert ledger.entries == ()


# -- predictions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("y", [Y, THREE], ids=["two", "three"])
def test_logarithms_of_probabilities(y):
    classes = tuple(range(len(np.unique(y))))
    model = PrivateLogisticRegression(bounds=BOUNDS, classes=classes, missing="nan").fit(NUMBERS, y)
    gaps = NUMBERS.assign(age=NUMBERS["age"].where(np.arange(60) > 3))
    found = model.predict_log_proba(gaps)
    np.testing.assert_allclose(np.exp(found), model.predict_proba(gaps), rtol=1e-12)
    assert np.isnan(found[:4]).all()
    far = private_classifiers.log_softmax(np.array([[0.0, 800.0]]), axis=1)
    assert far.tolist() == [[-800.0, 0.0]]
    assert not hasattr(PrivateLinearSVC(), "predict_log_proba")
    assert not hasattr(PrivateSimplexClassifier(loss="huber"), "predict_log_proba")
    assert hasattr(PrivateSimplexClassifier(loss="logistic"), "predict_log_proba")


def test_rows_that_cannot_be_used_may_be_predicted_as_missing():
    for y, classes in ((Y, (0, 1)), (np.where(Y, "b", "a"), ("a", "b")), (THREE, (0, 1, 2))):
        model = PrivateLogisticRegression(bounds=BOUNDS, classes=classes, missing="nan")
        model.fit(NUMBERS, y)
        holes = NUMBERS.to_numpy()[:4].copy()
        holes[2, 0] = np.nan
        holes = pd.DataFrame(holes, columns=[*NUMBERS])
        whole = np.array([0, 1, 3])
        assert pd.isna(model.predict(holes)).tolist() == [False, False, True, False]
        assert (model.predict(holes)[whole] == model.predict(holes.iloc[whole])).all()
        assert np.isnan(model.predict_proba(holes)[2]).all()
        assert np.isnan(model.decision_function(holes)[2]).all()


CONSTANTS = {"age": 54.0, "dose": 2.5, "smoker": "no"}
"""What stands for a value of PUBLIC that cannot be used: middles of bounds, and the first level."""
HOLES = [("age", np.nan), ("age", np.inf), ("dose", None), ("smoker", None), ("smoker", "often")]


def with_holes():
    """Records with values that cannot be used in some rows, and the same with constants there."""
    holes, whole = X.astype({"smoker": object}), X.astype({"smoker": object})
    for row, (name, value) in enumerate([*HOLES, ("age", -np.inf)]):
        holes.iloc[2 * row, holes.columns.get_loc(name)] = value
        whole.iloc[2 * row, whole.columns.get_loc(name)] = CONSTANTS[name]
    for name, constant in CONSTANTS.items():  # a row without a single value
        holes.iloc[20, holes.columns.get_loc(name)] = None
        whole.iloc[20, whole.columns.get_loc(name)] = constant
    return holes, whole


def check_constants(name, y, classes):
    holes, whole = with_holes()
    model = QUICK[name](**{**PUBLIC, "classes": classes}).fit(holes, y)
    for say in ("decision_function", "predict", "predict_proba"):
        if hasattr(model, say):
            found, expected = (getattr(model, say)(table) for table in (holes, whole))
            assert found.dtype == expected.dtype
            assert (found == expected).all()


@pytest.mark.quick
@KINDS
def test_a_value_that_cannot_be_used_is_predicted_as_its_constant(name):
    check_constants(name, Y, (0, 1))
    check_constants(name, np.where(Y, "dead", "alive"), ("alive", "dead"))
    check_constants(name, Y == 1, (False, True))


@KINDS
def test_a_fit_does_not_depend_on_what_is_missing_in_predictions(monkeypatch, name):
    holes, _ = with_holes()
    with fixed_noise(monkeypatch):
        found = [QUICK[name](**PUBLIC, missing=m).fit(holes, Y) for m in ("constant", "nan")]
    assert (found[0].coef_ == found[1].coef_).all()
    assert repr(found[0].result_.diagnostics.counts) == repr(found[1].result_.diagnostics.counts)


def test_missing_values_of_other_tables_have_constants():
    polars = pytest.importorskip("polars", reason="needs polars")
    holes, whole = with_holes()
    model = PrivateLogisticRegression(**PUBLIC).fit(X, Y)
    expected = model.decision_function(whole)
    typed = holes.assign(smoker=pd.Categorical(holes.smoker, categories=["yes", "no", "often"]))
    assert (model.decision_function(typed) == expected).all()
    assert (model.decision_function(polars.from_pandas(typed)) == expected).all()
    flags = pd.DataFrame({"on": pd.array([True, False, None] * 20, dtype="boolean")})
    model = PrivateLogisticRegression(classes=(0, 1)).fit(flags, Y)
    off = model.decision_function(flags.fillna(False))
    assert (model.decision_function(flags) == off).all()
    rows = [[*row] for row in NUMBERS.to_numpy().astype(object)]
    model = PrivateLogisticRegression(bounds=[(18, 90), (0, 5)], classes=(0, 1)).fit(rows, Y)
    middle, rows[0], rows[1] = [[54.0, 1.0], [1.0, 2.5]], [None, 1.0], [1.0, "x"]
    assert (model.decision_function(rows)[:2] == model.decision_function(middle)).all()


@pytest.mark.quick
@KINDS
def test_folds_with_missing_values_have_scores(name):
    holes, _ = with_holes()
    texts = np.where(Y, "dead", "alive").astype(object)
    model = QUICK[name](**{**PUBLIC, "classes": ("alive", "dead")})
    score = partial(cross_val_score, cv=KFold(3), error_score="raise")
    for measure in ("roc_auc", "accuracy"):
        assert np.isfinite(score(model, holes, texts, scoring=measure)).all()
    steps = make_pipeline(FunctionTransformer(), model)
    search = GridSearchCV(steps, {f"{name.lower()}__eps": [0.5, 1.0]}, cv=KFold(3))
    with pytest.warns(lr.PrivacyWarning, match="score"):
        assert np.isfinite(search.fit(holes, texts).cv_results_["mean_test_score"]).all()
    with pytest.raises((ValueError, TypeError), match=r"NaN|not supported between|unknown"):
        score(clone(model).set_params(missing="nan"), holes, texts, scoring="accuracy")


@KINDS
def test_two_classes_are_split_where_the_decision_is_0(name):
    model = QUICK[name](**PUBLIC).fit(X, Y)
    assert ((model.decision_function(X) > 0) == (model.predict(X) == 1)).all()
    has = name == "PrivateLogisticRegression"
    assert hasattr(model, "predict_proba") is has
    if has:
        assert (model.predict_proba(X)[:, 1] == model.result_.predict(X)).all()


def test_the_threshold_of_the_fit_splits_the_classes():
    model = PrivateLogisticRegression(**PUBLIC, threshold=0.8).fit(X, Y)
    assert ((model.predict_proba(X)[:, 1] > 0.8) == (model.predict(X) == 1)).all()


@pytest.mark.quick
@KINDS
def test_a_pickle_predicts_and_holds_no_record(name):
    model = QUICK[name](**PUBLIC).fit(X, Y)
    stored = pickle.dumps(model)
    assert all(value.tobytes() not in stored for value in X.age.to_numpy()[:, None])
    again = pickle.loads(stored)
    assert (again.predict(X) == model.predict(X)).all()
    assert not again.result_.has_diagnostics


# -- payment ---------------------------------------------------------------------------------------


def check_paid_before(monkeypatch, name):
    ledger = lr.Ledger(2.0, 1e-5)

    def read(*_, **__):
        raise AssertionError("the data was read")

    with monkeypatch.context() as patch:
        for kind in ("FrameData", "MatrixData"):
            for way in ("rows", "loose", "entries"):
                patch.setattr(f"privatelr.call_data.{kind}.{way}", read)
        with pytest.raises(AssertionError, match="was read"):
            QUICK[name](**PUBLIC, ledger=ledger).fit(X, Y)
    assert ledger.spent() > 0


@KINDS
def test_a_fit_is_paid_before_its_rows_are_read(monkeypatch, name):
    check_paid_before(monkeypatch, name)


def test_a_clone_has_the_same_part_of_a_ledger():
    ledger = lr.Ledger(1.0)
    part = ledger.part("s")
    model = clone(PrivateLogisticRegression(bounds=BOUNDS, classes=(0, 1), ledger=part))
    assert model.ledger is part is copy(part)
    model.fit(NUMBERS, Y)
    assert [entry.part for entry in ledger.entries] == ["s"]
    assert part.left() == 0.0


@pytest.mark.quick
@pytest.mark.filterwarnings("ignore:score:privatelr.PrivacyWarning")
def test_every_fit_of_a_search_is_charged_or_refused():
    ledger = lr.Ledger(0.7)
    model = PrivateLogisticRegression(bounds=BOUNDS, classes=(0, 1), eps=0.1, ledger=ledger)
    search = GridSearchCV(model, {"op": [True, False]}, cv=3, error_score="raise")
    search.fit(NUMBERS, Y)
    assert len(ledger.entries) == 7
    assert ledger.spent() == pytest.approx(0.7)
    assert search.best_estimator_.ledger is ledger
    with pytest.raises(lr.GuaranteeError, match=r"ledger: .* of 0\.7"):
        cross_val_score(model, NUMBERS, Y, cv=3, error_score="raise")
    with pytest.raises(ValueError, match=r"(?s)All the 3 fits failed.*ledger: eps=0\.1 more"):
        cross_val_score(clone(model), NUMBERS, Y, cv=3)  # as scikit-learn does by default
    assert len(ledger.entries) == 7


@pytest.mark.slow
def test_workers_charge_a_ledger_on_disk_and_are_refused_by_one_in_memory(tmp_path):
    memory, disk = lr.Ledger(5.0), lr.Ledger.create(tmp_path / "study.ledger", 5.0)
    model = PrivateLogisticRegression(bounds=BOUNDS, classes=(0, 1), eps=0.5)
    whole = partial(cross_val_score, cv=2, n_jobs=2, error_score="raise", scoring="roc_auc")
    assert np.isfinite(whole(model.set_params(ledger=disk), NUMBERS, Y)).all()
    assert disk.spent() == 1.0
    with pytest.raises(lr.GuaranteeError, match="kept in another process"):
        whole(clone(model).set_params(ledger=memory), NUMBERS, Y)
    assert memory.entries == ()


def test_a_score_warns_that_it_is_exact():
    model = PrivateLogisticRegression(**PUBLIC).fit(X, Y)
    with pytest.warns(lr.PrivacyWarning, match="no guarantee covers it") as told:
        share = model.score(X, Y)
    assert share == (model.predict(X) == Y.to_numpy()).mean()
    assert told[0].filename == __file__


@pytest.mark.quick
@KINDS
def test_folds_by_labels_are_said_to_be_uncovered(name):
    """An estimator cannot see who chose its records, so its help, its page and scores say it."""
    model = QUICK[name](bounds=BOUNDS, classes=(0, 1))
    usual = check_cv(3, Y, classifier=is_classifier(model))
    neighbour = Y.where(Y.index != 50, 1 - Y)
    parts = [[[*train] for train, _ in usual.split(NUMBERS, y)] for y in (Y, neighbour)]
    assert parts[0] != parts[1]  # one label moves other records
    parts = [[[*train] for train, _ in KFold(3).split(NUMBERS, y)] for y in (Y, neighbour)]
    assert parts[0] == parts[1]
    privacy = type(model).__doc__.partition("**Privacy.**")[2].partition("Examples\n")[0]
    assert "``cv=KFold(3)``" in privacy
    assert "``cv=3``" in privacy
    with pytest.warns(lr.PrivacyWarning, match=r"by the labels, as by cv=3; cv=KFold\(3\)"):
        cross_val_score(model, NUMBERS, Y, cv=3)


# -- pipelines -------------------------------------------------------------------------------------


@pytest.mark.quick
def test_a_pipeline_of_public_steps_hands_on_names(monkeypatch):
    kept = make_column_transformer(
        (SimpleImputer(strategy="constant", fill_value=50.0), ["age"]),
        (FunctionTransformer(np.sqrt, feature_names_out="one-to-one"), ["dose"]),
        ("passthrough", make_column_selector(dtype_exclude=np.number)),
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    public = {**PUBLIC, "bounds": {"age": (18, 90), "dose": (0, 5**0.5)}}
    holes = X.assign(age=X.age.where(X.age < 80))
    with fixed_noise(monkeypatch):
        pipe = make_pipeline(kept, PrivateLogisticRegression(**public)).fit(holes, Y)
        by_hand = holes.assign(age=holes.age.fillna(50.0), dose=np.sqrt(holes.dose))
        model = PrivateLogisticRegression(**public).fit(by_hand, Y)
    assert [*pipe[-1].feature_names_in_] == ["age", "dose", "smoker"]
    assert (pipe[-1].coef_ == model.coef_).all()
    assert (pipe.predict(holes) == model.predict(by_hand)).all()
    assert not pd.isna(pipe.predict(holes)).any()


@pytest.mark.quick
def test_names_of_columns_are_those_of_the_fit():
    model = PrivateLogisticRegression(bounds=BOUNDS, classes=(0, 1)).fit(NUMBERS, Y)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(NUMBERS[["dose", "age"]])
    with pytest.warns(UserWarning, match="valid feature names"):
        found = model.predict(NUMBERS.to_numpy())
    assert (found == model.predict(NUMBERS)).all()


@pytest.mark.quick
def test_metadata_is_routed(monkeypatch):
    weights, persons = np.linspace(0.1, 1, 60), np.arange(60) // 2
    model = PrivateLogisticRegression(bounds=BOUNDS, classes=(0, 1))
    with sklearn.config_context(enable_metadata_routing=True), fixed_noise(monkeypatch):
        asks = clone(model).set_fit_request(sample_weight=True, person=True)
        pipe = make_pipeline(FunctionTransformer(), asks)
        pipe.fit(NUMBERS, Y, sample_weight=weights, person=persons)
        same = model.fit(NUMBERS, Y, sample_weight=weights, person=persons)
    assert (pipe[-1].coef_ == same.coef_).all()
    assert pipe[-1].result_.guarantee.neighbours is lr.REPLACE_PERSON


def test_dask_is_refused_in_a_sentence():
    dask = pytest.importorskip("dask.array", reason="needs dask")
    with pytest.raises(lr.SchemaError, match="Dask"):
        PrivateLogisticRegression(classes=(0, 1)).fit(dask.ones((60, 2)), Y)


def test_scikit_learn_is_asked_for_where_it_is_missing(monkeypatch):
    for module in [one for one in sys.modules if one.startswith("privatelr.estimators")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    with pytest.raises(lr.MissingDependencyError, match=r"privatelr\[sklearn\]"):
        import_module("privatelr.estimators")


@pytest.mark.filterwarnings("ignore:score", "ignore:seed=")
@pytest.mark.parametrize("blank", [None, np.nan, pd.NA])
def test_records_without_a_class_are_left_out_of_a_score(blank):
    y = pd.Series(np.where(np.asarray(Y) == np.asarray(Y).max(), "yes", "no"), dtype=object)
    model = PrivateLogisticRegression(**{**PUBLIC, "classes": ["no", "yes"]}).fit(X, y)
    gaps = y.copy()
    gaps.iloc[[0, 3, 5]] = blank
    known = gaps.notna().to_numpy()
    rows = X[known] if isinstance(X, np.ndarray | pd.DataFrame) else None
    assert model.score(X, gaps) == model.score(rows, y[known])
    weights = np.arange(1.0, len(y) + 1)
    expected = model.score(rows, y[known], sample_weight=weights[known])
    assert model.score(X, gaps, sample_weight=weights) == expected


ENCODING = {
    "hard votes": lambda one: VotingClassifier([("one", one)], voting="hard"),
    "soft votes": lambda one: VotingClassifier([("one", one)], voting="soft"),
    "stack": lambda one: StackingClassifier([("one", one)], cv=KFold(3)),
    "calibrated": lambda one: CalibratedClassifierCV(one, cv=KFold(3), ensemble=False),
    "one against the rest": OneVsRestClassifier,
}
"""Meta-estimators that fit clones to the places of classes."""


@pytest.mark.parametrize("make", ENCODING.values(), ids=ENCODING)
def test_clones_take_encoded_labels_for_texts_and_refuse_numbers_that_may_be_encoded(make):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"x": rng.uniform(0, 10, 300)})
    positive = (rng.random(300) < 1 / (1 + np.exp(4 - 0.8 * frame.x))).astype(int)
    options = {"eps": 0, "lambda_": 1e-6, "bounds": {"x": (0, 10)}}
    predicted = {}
    for classes in ((0, 1), ("no", "yes"), (1, 2), (-1, 1)):
        one, y = PrivateLogisticRegression(**options, classes=classes), np.array(classes)[positive]
        alone = one.fit(frame, y).predict(frame)
        assert (alone == y).mean() > 0.7
        if classes[0] in (0, "no"):
            predicted[classes] = make(one).fit(frame, y).predict(frame) == classes[1]
            assert (predicted[classes] == (alone == classes[1])).mean() > 0.9
            continue
        with pytest.raises(lr.SchemaError, match="Write the classes as texts"):
            clone(one).fit(frame, y)
    assert np.array_equal(*predicted.values())
