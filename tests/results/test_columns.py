"""Columns of tidy, glance and augment, which scripts of users hold on to: a law, kind by kind."""

import numpy as np
import pandas as pd
import pytest
from results.test_views_of_several import CLASSES, FRAME, ONE, PUBLIC, STRATA

from privatelr import ArgumentError, dplpsvm, dplr, dpsimplex, dpsvm

BOUNDS = {"bounds": PUBLIC["bounds"]}
FORMULA = "y ~ age + dose"
FITS = {
    "coefficients": dplr(FORMULA, FRAME, 2, **BOUNDS),
    "inference": ONE,
    "strata": STRATA,
    "classes": CLASSES,
    "svm": dpsvm(FORMULA, FRAME, 2, loss="huber", h=0.3, **BOUNDS),
    "lp": dplpsvm(FORMULA, FRAME, 2, rounds=10, **BOUNDS),
    "simplex": dpsimplex(FORMULA, FRAME, 2, **BOUNDS),
}
ERRORS = "estimate std_error sampling_sd privacy_sd unknown_sd statistic p_value"
LIMITS = "estimate privacy_sd_expected privacy_sd_limit"
TIDY = {
    "coefficients": f"term {LIMITS}",
    "inference": f"term {ERRORS}",
    "strata": f"stratum term {ERRORS}",
    "classes": "class term estimate privacy_sd_limit",
    "svm": f"term {LIMITS}",
    "lp": "term estimate times_plus times_minus",
    "simplex": "term estimate times_plus times_minus",
}
SIZES = "nobs d guarantee epsilon delta rho mechanism"
NOISE = f"{SIZES} analysis noise noise_scale lambda radius"
QUALITY = "inference target noise_to_signal relative_bias"
GLANCE = {
    "coefficients": f"{NOISE} loss {QUALITY}",
    "inference": f"{NOISE} loss {QUALITY}",
    "strata": f"stratum {NOISE} loss {QUALITY}",
    "classes": f"{NOISE} loss {QUALITY} classes",
    "svm": f"{NOISE} loss h {QUALITY}",
    "lp": f"{SIZES} choices nonzero x_bound loss density",
    "simplex": f"{SIZES} choices nonzero x_bound loss h",
}
USUAL = ".fitted .class"
AUGMENT = dict.fromkeys(FITS, USUAL) | {"classes": ".fitted_one .fitted_two .fitted_three .class"}


def columns(table):
    return " ".join(map(str, table.columns))


@pytest.mark.parametrize("name", FITS)
def test_columns_of_each_kind_of_fit(name):
    fit, rows = FITS[name], FRAME.head(5)
    assert columns(fit.tidy()) == TIDY[name]
    assert columns(fit.glance()) == GLANCE[name]
    assert columns(fit.augment(rows)) == f"{columns(rows)} {AUGMENT[name]}"


def test_columns_that_are_asked_for():
    assert columns(ONE.tidy(conf_int=True)) == f"{TIDY['inference']} conf_low conf_high"
    on_odds = TIDY["inference"].replace("error", "error_log").replace("_sd", "_sd_log")
    assert columns(ONE.tidy(exponentiate=True)) == on_odds
    rows = FRAME.head(5)
    asked = f"{columns(rows)} .fitted .lower .upper .class .std_error"
    for fit in (ONE, STRATA):
        assert columns(fit.augment(rows, interval=0.9)) == asked


@pytest.mark.parametrize("name", FITS)
def test_augment_says_what_predict_does(name):
    fit = FITS[name]
    rows = FRAME.head(40).set_axis(np.repeat([7, 3], 20))  # names of rows need not differ
    rows.loc[rows.index[0], "age"] = np.nan
    found = fit.augment(rows)
    scores = fit.predict(rows, "margins" if name in ("svm", "lp", "simplex") else None)
    made = found[[one for one in found.columns if one.startswith(".fitted")]].to_numpy()
    np.testing.assert_array_equal(made.squeeze(), scores.to_numpy())
    assert np.isnan(made).any()
    pd.testing.assert_series_equal(found[".class"], fit.predict(rows, "classes"), check_names=False)
    pd.testing.assert_frame_equal(found[rows.columns], rows)


def test_augment_of_intervals_and_thresholds():
    rows = FRAME.head(50)
    interval = ONE.predict(rows, interval=0.9)
    found = ONE.augment(rows, interval=0.9, threshold=0.9)
    for mine, theirs in ((".fitted", "probability"), (".lower", "probability_lower")):
        np.testing.assert_array_equal(found[mine], interval[theirs])
    assert found[".class"].sum() < ONE.augment(rows)[".class"].sum()


def test_a_model_matrix_times_the_coefficients_is_the_link():
    fit = dplr("y ~ bs(age, knots = c(35, 60)) * sex + offset(dose)", FRAME, 2, **PUBLIC)
    rows = FRAME.head(40).set_axis(np.repeat([7, 3], 20)).assign(age=np.linspace(0, 99, 40))
    rows.iloc[3, rows.columns.get_loc("sex")] = None
    found = fit.model_matrix(rows)
    assert list(found.columns) == list(fit.coef.index)
    expected = fit.predict(rows, "link")
    np.testing.assert_allclose(found @ fit.coef + rows["dose"], expected, atol=1e-9)
    assert expected.isna().sum() == 1
    plain = ONE.model_matrix(FRAME.head(5))
    np.testing.assert_allclose(plain["age"], FRAME["age"].head(5), rtol=1e-12)
    np.testing.assert_allclose(plain["(Intercept)"], 1.0, rtol=1e-12)
    odds = CLASSES.model_matrix(FRAME.head(5)) @ CLASSES.coef
    np.testing.assert_allclose(odds, CLASSES.predict(FRAME.head(5), "link")[odds.columns])
    numbered = dplr(
        FRAME["y"].to_numpy(float), FRAME[["dose"]].to_numpy(), 2, row_norm=5, levels={"y": [0, 1]}
    )
    projected = dplr(FORMULA, FRAME, 2, rp_dim=1, **BOUNDS)
    with pytest.raises(ArgumentError, match="without rp_dim"):
        projected.model_matrix(FRAME)
    assert numbered.model_matrix(pd.DataFrame({"X1": [1.0]})).shape == (1, 2)


def test_augment_refuses_in_a_sentence():
    again = ONE.augment(FRAME.head(3))
    with pytest.raises(ArgumentError, match=r"data has a column '\.fitted' already"):
        ONE.augment(again)
    with pytest.raises(ArgumentError, match="no intervals"):
        FITS["lp"].augment(FRAME, interval=0.9)
    with pytest.raises(ArgumentError, match="predict reads streams"):
        ONE.augment(lambda: None)
