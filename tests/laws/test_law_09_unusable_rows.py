"""Law 9: a record that cannot be used becomes a row of zeros; n stays, and nothing is said."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from case_names import case_name
from frames_for_laws import MODELS, SVMS, clinic, fit_clinic, replaced

import privatelr.design.formula_design
from privatelr.design import read_design
from privatelr.mechanisms import stages
from privatelr.numerics.rows import DenseRows
from privatelr.sources import as_batch

BAD_NUMBERS = [np.nan, np.inf, -np.inf, None, pd.NA, "abc", [1, 2], {}, 10**400, 1j, object()]
BAD_LEVELS = ["perhaps", None, np.nan, pd.NA, 3, ["no"], b"no"]
BAD_RESPONSES = [np.nan, None, 2, -2, 0.5, "yes", [1]]
CASES = [
    *(("age", value) for value in BAD_NUMBERS),
    *(("smoker", value) for value in BAD_LEVELS),
    *(("y", value) for value in BAD_RESPONSES),
]


def as_objects(frame):
    """All columns as objects, so that one record cannot change a type."""
    return frame.astype({"age": object, "smoker": object})


def check_zero_row(column, value, **options):
    frame = as_objects(clinic())
    bad = replaced(frame, 3, **{column: value})
    if column == "y":  # the response is numeric: what is not a number is missing
        bad["y"] = pd.to_numeric(
            pd.Series([v if np.isscalar(v) else None for v in bad["y"]]), errors="coerce"
        )
    fit = fit_clinic(bad, **options)
    rows = read_design(fit.spec, as_batch(bad), DenseRows)
    assert rows.n == fit.nobs == len(frame)
    np.testing.assert_array_equal(rows.x[3], 0.0)
    kept = np.arange(len(frame)) != 3
    clean = read_design(fit.spec, as_batch(frame), DenseRows)
    np.testing.assert_array_equal(rows.x[kept], clean.x[kept])
    assert len(fit.predict(bad)) == len(bad)


@pytest.mark.parametrize(("column", "value"), CASES, ids=map(case_name, CASES))
def test_law(column, value):
    check_zero_row(column, value)


@pytest.mark.parametrize("model", SVMS.values(), ids=SVMS)
@pytest.mark.parametrize("op", [True, False])
@pytest.mark.parametrize(("column", "value"), [("age", np.nan), ("smoker", "perhaps"), ("y", 2)])
def test_law_of_hinges(column, value, op, model):
    check_zero_row(column, value, op=op, model=model)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("spend", [None, "inference"])
def test_all_records_unusable(model, spend):
    fit = fit_clinic(clinic().assign(age=np.nan), model=model, spend=spend)
    assert np.isfinite(fit.coef).all()
    assert fit.nobs == 40
    assert spend is None or np.isfinite(fit.release.moments.values).all()


@pytest.mark.parametrize("model", SVMS.values(), ids=SVMS)
def test_unusable_records_do_not_pull(model):
    """The slope of a hinge at margin 0 is not 0; a row of zeros has nothing to pull at."""
    frame = clinic()
    half = frame.assign(age=np.where(np.arange(len(frame)) % 2, np.nan, frame["age"]))
    used = half.dropna()
    options = {"model": model, "eps": 0, "op": False}
    whole = fit_clinic(half, lambda_=0.1, **options)
    part = fit_clinic(used, lambda_=0.1 * len(half) / len(used), **options)
    np.testing.assert_allclose(whole.coef, part.coef, rtol=1e-6)


def check_moments_of_unusable(model):
    """As many records, half of them unusable: half of the moments, whose mean is over n."""
    frame = clinic()
    half = frame.assign(age=np.where(np.arange(len(frame)) % 2, np.nan, frame["age"]))
    used = half.dropna()
    options = {"model": model, "eps": 0, "spend": "inference"}
    whole = fit_clinic(half, lambda_=0.1, **options)
    part = fit_clinic(used, lambda_=0.1 * len(half) / len(used), **options)
    expected = part.release.moments.values * len(used) / len(half)
    np.testing.assert_allclose(whole.release.moments.values, expected, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_unusable_records_add_nothing_to_the_moments(model):
    check_moments_of_unusable(model)


def test_planted_mean_over_usable_records_is_caught(monkeypatch):
    """It would tell how many records are unusable, without noise."""
    honest = stages.matrices.release_moments

    def learned(rows, coef, calibration, noise, units):
        released = honest(rows, coef, calibration, noise, units)
        return replace(released, values=released.values * rows.n / np.count_nonzero(rows.y))

    monkeypatch.setattr(stages.matrices, "release_moments", learned)
    with pytest.raises(AssertionError):
        check_moments_of_unusable(MODELS["dplr"])


@pytest.mark.parametrize("formula", ["log(dose)", "1/dose", "sqrt(dose - 2)", "I(dose^-1)"])
def test_undefined_values_of_a_term(formula):
    """A value that a function is not defined for is like a missing one; no warning either."""
    from privatelr import dplr

    frame = clinic()
    frame.loc[[2, 5], "dose"] = [0.0, -3.0]
    text = f"y ~ I({formula})" if "/" in formula or "^" not in formula else f"y ~ {formula}"
    assert np.isfinite(dplr(text, frame, levels={"y": [0, 1]}).coef).all()


def test_planted_bug_is_caught(monkeypatch):
    """Dropping the record changes n."""
    honest = privatelr.design.formula_design._covariates

    def dropping(spec, frame, names):
        covariates, usable, values = honest(spec, frame, names)
        return covariates[usable], usable[usable], {k: v[usable] for k, v in values.items()}

    monkeypatch.setattr(privatelr.design.formula_design, "_covariates", dropping)
    with pytest.raises(ValueError, match="do not fit"):
        check_zero_row("age", np.nan)


def test_planted_imputation_is_caught(monkeypatch):
    """Keeping the record with an invented value is not a row of zeros."""
    honest = privatelr.design.formula_design._covariates

    def imputing(spec, frame, names):
        covariates, usable, values = honest(spec, frame, names)
        return np.nan_to_num(covariates), np.ones_like(usable), values

    monkeypatch.setattr(privatelr.design.formula_design, "_covariates", imputing)
    with pytest.raises(AssertionError):
        check_zero_row("age", np.nan)


@pytest.mark.parametrize("value", [5e-324, 1e-200, 1e300, np.inf, np.nan])
@pytest.mark.parametrize("op", [True, False])
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_arithmetic_that_the_user_made_strict_tells_nothing(value, op, model):
    """With NumPy set to raise, an underflow in one record would be an exception about it."""
    frame = clinic()
    frame.loc[0, "age"] = value
    with np.errstate(all="raise"):
        bounds = {"age": (-1, 1), "dose": (0, 5)}
        fit = fit_clinic(frame, bounds=bounds, op=op, model=model, spend="inference")
    assert fit.nobs == len(frame)
