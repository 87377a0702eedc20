"""Warnings about declarations: from public facts, once per fit, at the line of the user."""

import importlib
import warnings

import numpy as np
import pandas as pd
import pytest
from frames_for_laws import FORMULA, SCHEMA, clinic, fit_clinic, replaced
from scipy import sparse

from privatelr import GuaranteeError, SchemaWarning, dplpsvm, dplr, dpsimplex, dpsvm

MODELS = {"dplr": dplr, "dpsvm": dpsvm, "dplpsvm": dplpsvm, "dpsimplex": dpsimplex}
EVERY_DOOR = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
LEVELS = SCHEMA["levels"]
STATUS = pd.CategoricalDtype(["Alive", "Died"])


def said(formula=FORMULA, frame=None, *, model=dplr, **options):
    """What a fit warns of the declarations, beside those of the response."""
    if "y" not in options.get("bounds", {}):
        options["levels"] = {"y": [0, 1], **options.get("levels", {})}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model(formula, clinic() if frame is None else frame, **options)
    return [str(w.message) for w in caught if issubclass(w.category, SchemaWarning)]


@EVERY_DOOR
def test_a_column_without_bounds_is_named_once_with_the_remedy(model):
    (words,) = said(model=model, levels=LEVELS)
    assert "no bounds are declared for 'age', 'dose', so values are shortened" in words
    assert "declare bounds={'age': (lo, hi)}" in words
    (words,) = said(model=model, levels=LEVELS, bounds={"age": (18, 90)})
    assert "declared for 'dose', so" in words
    assert said(model=model, **SCHEMA) == []


def test_a_sparse_matrix_without_a_limit_on_rows_is_named_once():
    y, x = np.arange(500) % 2, sparse.random(500, 10, 0.2, format="csr") * 50
    (words,) = said(y, x, eps=1)
    assert words.startswith("row_norm=None: no limit on rows is declared for the 10 columns of X")
    assert "a length of 1 in the columns' own units; declare row_norm=" in words
    assert said(y, x * 0, eps=1) == [words]  # whatever the values are
    assert said(y, x, eps=1, row_norm=1.0) == said(y, x, model=dplpsvm) == []
    assert said(y, x, model=dpsvm) == [words]


@pytest.mark.parametrize("name", ["PrivateLogisticRegression", "PrivateLinearSVC"])
def test_an_estimator_warns_of_a_sparse_matrix_once(name):
    pytest.importorskip("sklearn")
    model = getattr(importlib.import_module("privatelr.estimators"), name)
    y, x = np.arange(500) % 2, sparse.random(500, 10, 0.2, format="csr")
    with pytest.warns(SchemaWarning, match="row_norm=None") as caught:
        model(classes=(0, 1)).fit(x, y)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error", SchemaWarning)
        model(classes=(0, 1), row_norm=2).fit(x, y)
        model(classes=(0, 1), bounds=(0, 1)).fit(x, y)


def test_it_is_an_error_where_warnings_are_and_nothing_is_spent():
    with warnings.catch_warnings():
        warnings.simplefilter("error", SchemaWarning)
        with pytest.raises(SchemaWarning, match="no bounds are declared for 'age'"):
            dplr("y ~ age", clinic(), levels=LEVELS)


def test_a_refusal_comes_without_it():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(GuaranteeError):
            dpsvm("y ~ age", clinic(), loss="huber", analysis="joint", levels=LEVELS)


RACES = {"levels": {"race": ["white", "black", "other"]}, "bounds": {"age": (18, 90)}}


@EVERY_DOOR
def test_a_response_of_three_levels(model):
    frame = clinic().assign(race=["white", "black", "other", "other"] * 10)
    (words,) = said("race ~ age", frame, model=model, **RACES)
    assert "'race' has 3 declared levels, and 'white' is fitted against all the others" in words
    assert "\"race == 'white' ~ ...\"" in words
    assert said("race == 'white' ~ age", frame, model=model, **RACES) == []
    assert said("smoker ~ age", frame, model=model, **SCHEMA) == []


BOUNDS = {"age": (18, 90)}


@EVERY_DOOR
@pytest.mark.parametrize(
    ("formula", "levels", "words"),
    [
        ("status ~ age", {"status": ["Alive", "Dead"]}, "levels['status'] has 'Dead', which the"),
        ("y ~ age + status", {"status": ["Alive", "Dead"]}, "type does not list ('Alive', 'Died')"),
        (
            "y ~ age + factor(smoker, levels = c('no', 'ja'))",
            LEVELS,
            "has 'ja', which is none of the declared levels of 'smoker' ('no', 'yes')",
        ),
    ],
)
def test_a_label_that_no_other_declaration_knows(model, formula, levels, words):
    frame = clinic().assign(status=pd.Categorical(["Alive", "Died"] * 20, dtype=STATUS))
    (found,) = said(formula, frame, model=model, levels=levels, bounds=BOUNDS)
    assert words in found
    assert "no record has it" in found


def test_a_numeric_response_whose_range_is_right():
    for formula, pair in (("1 - y ~ age", (0, 1)), ("I(y - 1) ~ age", (1, 2)), ("y ~ age", (0, 1))):
        assert said(formula, bounds={**BOUNDS, "y": pair}) == []


ODD = [{"age": np.nan}, {"age": 1e300}, {"smoker": "undeclared"}, {"y": 2.0}]


def check_same_words(values):
    frame = clinic()
    first, second = (
        said("y ~ age + dose + factor(smoker, levels = c('no', 'ja'))", table, levels=LEVELS)
        for table in (frame, replaced(frame, 3, **values))
    )
    assert first == second
    assert len(first) == 2


@pytest.mark.parametrize("values", ODD, ids=str)
def test_the_words_are_the_same_for_neighbours(values):
    check_same_words(values)


def test_a_fit_with_its_declarations_is_quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_clinic(clinic())
