"""R's data-driven scaling: the same numbers as R, and a warning that it is not private."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privatelr import dplr
from privatelr.datasets import load_dataset
from privatelr.design import plan_design, read_covariates, scale_by_data, scaled
from privatelr.errors import PrivacyWarning
from privatelr.formula import parse_formula
from privatelr.sources import as_batch, declare_schema

REFERENCE = Path(__file__).parents[1] / "reference" / "privatelr_r" / "iris_unit.csv"


def scaled_quietly(formula, data, **options):
    with pytest.warns(PrivacyWarning, match="not private"):
        return scaled(formula, data, **options)


def learn(formula, frame, **schema):
    spec = plan_design(
        parse_formula(formula, list(frame)), as_batch(frame), declare_schema(**schema)
    )
    return scale_by_data(spec, as_batch(frame))


def test_iris_is_scaled_as_in_r():
    data, scale = scaled_quietly("Species ~ .", load_dataset("iris"))
    expected = pd.read_csv(REFERENCE)
    assert list(data.columns) == list(expected.columns)
    assert data["Species"].astype(str).tolist() == expected["Species"].tolist()
    covariates = data.drop(columns="Species").to_numpy()
    np.testing.assert_allclose(
        covariates, expected.drop(columns="Species").to_numpy(), rtol=0, atol=1e-13
    )
    assert np.linalg.norm(covariates, axis=1).max() == pytest.approx(1.0)
    iris = load_dataset("iris").drop(columns="Species").to_numpy()
    standard = (iris - iris.mean(axis=0)) / iris.std(axis=0, ddof=1)
    assert scale == pytest.approx(1 / np.linalg.norm(standard, axis=1).max())


def test_the_learned_map_is_reused_row_by_row():
    iris = load_dataset("iris")
    spec, _ = learn("Species ~ .", iris)
    assert spec.scaled_by_data
    whole, _, _ = read_covariates(spec, as_batch(iris), spec.formula.covariates)
    # R standardises each new batch by itself, and gives NaN for one row
    for part in (slice(0, 1), slice(70, 73)):
        piece, _, _ = read_covariates(spec, as_batch(iris.iloc[part]), spec.formula.covariates)
        np.testing.assert_allclose(piece, whole[part], rtol=1e-14)


def test_the_user_map_undoes_the_learned_map():
    iris = load_dataset("iris")
    spec, _ = learn("Species ~ .", iris)
    covariates, _, _ = read_covariates(spec, as_batch(iris), spec.formula.covariates)
    design = np.column_stack([np.full(150, spec.intercept), covariates])
    raw = np.column_stack([np.ones(150), iris.drop(columns="Species")])
    weights = np.array([0.3, -1, 2, 0.5, 4])
    np.testing.assert_allclose(raw @ (spec.user_map() @ weights), design @ weights, atol=1e-11)


@pytest.mark.parametrize(
    ("formula", "columns"),
    [
        ("y ~ x + g", ["x", "g[T.b]", "y"]),
        ("y > 0 ~ I(x^2) - 1", ["I(x^2)", "y"]),
        ("y ~ constant + x", ["constant", "x", "y"]),
        ("y ~ hole", ["hole", "y"]),
    ],
)
def test_any_column_can_be_scaled(formula, columns):
    frame = pd.DataFrame(
        {
            "y": [False, True, False, True],
            "x": [1.0, 2, 3, 5],
            "g": pd.Categorical(list("abab")),
            "constant": 7.0,
            "hole": [1.0, np.nan, 3.0, 4.0],
        },
        index=list("klmn"),
    )
    data, scale = scaled_quietly(formula, frame)
    assert list(data.columns) == columns
    assert list(data.index) == list("klmn")
    covariates = data.drop(columns="y").to_numpy()
    usable = np.isfinite(covariates).all(axis=1)
    assert usable.tolist() == [True, "hole" not in columns, True, True]
    assert np.linalg.norm(covariates[usable], axis=1).max() == pytest.approx(1.0)
    assert scale > 0


@pytest.mark.parametrize("values", [[2.0], [np.nan, np.nan], [1e300, -1e300], [np.inf, 1.0]])
def test_no_data_stop_it(values):
    frame = pd.DataFrame({"x": values, "y": False})
    spec, factor = learn("y ~ x", frame)
    assert np.isfinite(spec.user_map()).all()
    assert np.isfinite(factor)


@pytest.mark.parametrize("formula", ["y ~ place + dose", "y ~ place * dose"])
def test_scaled_columns_of_a_wide_factor_count_from_their_means(formula):
    """Nothing of them is zero, so they are neither fitted nor predicted without zeros."""
    levels = [f"p{number}" for number in range(90)]
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"place": rng.choice(levels, 900), "dose": rng.uniform(-1, 3, 900)})
    frame["y"] = rng.integers(0, 2, 900)
    schema = {"bounds": {"dose": (-1, 3)}, "levels": {"y": [0, 1], "place": levels}}
    with pytest.warns(PrivacyWarning):
        fit = dplr(formula, frame, eps=0, do_scale=True, **schema)
    names = fit.coef.index
    rows = np.zeros((len(frame), len(names)))
    rows[:, 0] = 1.0
    rows[:, names.get_loc("dose")] = frame["dose"]
    for row, (place, dose) in enumerate(zip(frame["place"], frame["dose"], strict=True)):
        for name, value in ((f"place[T.{place}]", 1.0), (f"place[T.{place}]:dose", dose)):
            if name in names:
                rows[row, names.get_loc(name)] = value
    np.testing.assert_allclose(fit.predict(frame, type="link"), rows @ fit.coef, atol=1e-9)
