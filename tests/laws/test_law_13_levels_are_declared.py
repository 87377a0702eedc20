"""Law 13: levels come from the type or from levels=; an unseen level predicts NaN."""

import numpy as np
import pandas as pd
import pytest
from frames_for_laws import MODELS, clinic, fit_clinic, scores

import privatelr.design.variables
from privatelr import SchemaError, dplr


def categorical(frame):
    return frame.astype({"smoker": pd.CategoricalDtype(["no", "yes"])})


def check_unseen(fit):
    new = pd.DataFrame({"age": 40.0, "dose": 1.0, "smoker": ["no", "sometimes", "yes", None]})
    predicted = scores(fit, new)
    np.testing.assert_array_equal(predicted.isna(), [False, True, False, True])
    classes = fit.predict(new, type="classes")
    np.testing.assert_array_equal(classes.isna(), [False, True, False, True])
    assert predicted.iloc[0] != predicted.iloc[2]


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_law(model):
    check_unseen(fit_clinic(clinic(), model=model))
    check_unseen(model("y ~ age + dose + smoker", categorical(clinic()), levels={"y": [0, 1]}))


def test_levels_do_not_depend_on_what_occurs():
    """A declared level that nobody has keeps its column."""
    frame = clinic().assign(smoker="no")
    assert list(fit_clinic(frame).coef.index) == list(fit_clinic(clinic()).coef.index)
    assert (
        "smoker[T.yes]" in dplr("y ~ smoker", categorical(frame), levels={"y": [0, 1]}).coef.index
    )


@pytest.mark.parametrize("formula", ["y ~ smoker", "y ~ C(smoker)", "smoker ~ age", "y ~ ."])
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_undeclared_strings_are_refused_with_the_remedy(formula, model):
    with pytest.raises(SchemaError, match="levels=") as caught:
        model(formula, clinic(), levels={"y": [0, 1]})
    assert "smoker" in str(caught.value)


def test_undeclared_numbers_as_levels_are_refused():
    with pytest.raises(SchemaError, match="levels="):
        dplr("y ~ factor(age)", clinic(), levels={"y": [0, 1]})
    fit = dplr("y ~ factor(age)", clinic(), levels={"age": [20.0, 30.0, 40.0], "y": [0, 1]})
    assert len(fit.coef) == 3


def test_planted_bug_is_caught(monkeypatch):
    """An unseen level that becomes the reference level, as in formulaic."""
    honest = privatelr.design.variables._codes
    monkeypatch.setattr(
        privatelr.design.variables, "_codes", lambda s, levels: np.maximum(honest(s, levels), 0)
    )
    with pytest.raises(AssertionError):
        check_unseen(fit_clinic(clinic()))
