"""Codings of responses and factors that are easy to get silently wrong."""

import numpy as np
import pandas as pd
import pytest

from privatelr import FormulaError, PrivacyWarning, SchemaError, dplr, load_dataset, scaled
from privatelr.design import read_design
from privatelr.numerics.rows import DenseRows
from privatelr.sources import as_batch

FRAME = pd.DataFrame(
    {
        "x": [0.5, 2.0, 6.0, 8.0, -1.0, 7.0],
        "z": [0.1, 0.9, 0.4, 0.3, 0.2, 0.8],
        "flag": [True, False, True, True, False, False],
        "f": pd.Categorical(list("ababab")),
        "y": [0, 1, 1, 0, 1, 0],
    }
)


def labels(formula, **options):
    fit = dplr(formula, FRAME, eps=0, **{"bounds": {"y": (0, 1)}, **options})
    return fit, read_design(fit.spec, as_batch(FRAME), DenseRows).y.tolist()


@pytest.mark.parametrize(
    ("response", "positive", "classes"),
    [
        ("flag", [1, -1, 1, 1, -1, -1], (False, True)),
        ("factor(flag, levels = c(TRUE, FALSE))", [-1, 1, -1, -1, 1, 1], (True, False)),
        ("factor(x > 5, levels = c(TRUE, FALSE))", [1, 1, -1, -1, 1, -1], (True, False)),
        ("factor(f, c('b', 'a'))", [1, -1, 1, -1, 1, -1], ("b", "a")),
        ("factor(f, levels = c('b', 'a'))", [1, -1, 1, -1, 1, -1], ("b", "a")),
        ("!flag", [-1, 1, -1, -1, 1, 1], (False, True)),
        ("1 - y", [1, -1, -1, 1, -1, 1], (0, 1)),
        ("ifelse(x > 5, 1, 0)", [-1, -1, 1, 1, -1, 1], (0, 1)),
        # undefined is neither true nor false, as R's NA
        ("log(x) > 1", [-1, -1, 1, 1, 0, 1], (False, True)),
        ("!(log(x) > 1)", [1, 1, -1, -1, 0, -1], (False, True)),
        ("log(x) > 1 | flag", [1, -1, 1, 1, 0, 1], (False, True)),
        ("log(x) > 1 & flag", [-1, -1, 1, 1, -1, -1], (False, True)),
        ("log(x) %in% c(1, 2)", [-1, -1, -1, -1, 0, -1], (False, True)),
        ("ifelse(log(x) > 1, 1, 0)", [-1, -1, 1, 1, 0, 1], (0, 1)),
    ],
)
def test_responses(response, positive, classes):
    fit, found = labels(f"{response} ~ z")
    assert found == positive
    assert fit.spec.response.classes == classes


@pytest.mark.parametrize(
    ("formula", "names"),
    [
        ("y ~ I(x > 5)", ["(Intercept)", "I(x > 5)[T.True]"]),
        ("y ~ 0 + I(x > 5)", ["I(x > 5)[False]", "I(x > 5)[True]"]),
        ("y ~ I(x > 5):z", ["(Intercept)", "I(x > 5)[False]:z", "I(x > 5)[True]:z"]),
        ("y ~ flag:z", ["(Intercept)", "flag[False]:z", "flag[True]:z"]),
        (
            "y ~ factor(x > 5, levels = c(TRUE, FALSE))",
            ["(Intercept)", "factor(x > 5, levels = c(TRUE, FALSE))[T.False]"],
        ),
        ("y ~ C(f, contr.sum)", ["(Intercept)", "C(f, contr.sum)[S.a]"]),
    ],
)
def test_factors_are_coded_as_in_r(formula, names):
    assert list(dplr(formula, FRAME, levels={"y": [0, 1]}).coef.index) == names


def test_an_undefined_comparison_is_a_row_of_zeros():
    fit = dplr("y ~ I(log(x) > 1)", FRAME, eps=0, levels={"y": [0, 1]})
    rows = read_design(fit.spec, as_batch(FRAME), DenseRows)
    assert (rows.x[4] == 0).all()
    assert np.isnan(fit.predict(FRAME).iloc[4])


@pytest.mark.parametrize(
    ("formula", "error"),
    [
        ("factor(flag, labels = c('a', 'b')) ~ x", FormulaError),
        ("C(f, contr.sum) ~ x", FormulaError),
        ("ifelse(y == 1, 2, 1) ~ x", SchemaError),
    ],
)
def test_refused_responses(formula, error):
    with pytest.raises(error):
        dplr(formula, FRAME, levels={"y": [0, 1]})


def test_levels_need_an_order():
    frame = FRAME.astype({"f": object})
    with pytest.raises(SchemaError, match="reference level first"):
        dplr("y ~ f", frame, levels={"f": {"a", "b"}, "y": [0, 1]})


def test_levels_that_no_category_equals_are_refused():
    iris = load_dataset("iris")
    with pytest.raises(SchemaError, match="none of these levels"):
        dplr("Species ~ Sepal.Length", iris, levels={"Species": ["Setosa", "Versicolor"]})
    assert dplr("Species ~ Sepal.Length", iris, levels={"Species": ["virginica", "setosa"]})


def test_scaled_refuses_a_column_with_two_parts():
    with pytest.warns(PrivacyWarning), pytest.raises(FormulaError, match="'x'"):
        scaled("x > 5 ~ x + z", FRAME)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "the smallest that adds nothing to the noise"),
        ({"analysis": "one-log", "lambda_": "free"}, "the smallest that costs a tenth of eps"),
        ({"analysis": "cms11"}, "PrivateLR's rule"),
        ({"analysis": "cms11", "lambda_": "free"}, "PrivateLR's rule"),
        ({"op": False, "lambda_": "free"}, "what would be free in objective perturbation"),
        ({"lambda_": "PrivateLR"}, "PrivateLR's rule"),
    ],
)
def test_the_words_on_lambda_are_true(options, words):
    calibration = dplr("flag ~ x", FRAME, **{"lambda_": "free", **options}).calibration
    assert words in calibration.lambda_origin
    if "no privacy" in calibration.lambda_origin:
        assert calibration.epsilon_effective == pytest.approx(1.0, abs=1e-4)
    if "tenth of eps" in words:
        assert calibration.epsilon_effective == pytest.approx(0.9)


def test_diagnostics_keep_their_label_in_a_dictionary():
    import dataclasses

    fit = dplr("y ~ x", FRAME, levels={"y": [0, 1]})
    assert dataclasses.asdict(fit)["_diagnostics"] is fit.diagnostics
