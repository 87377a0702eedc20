"""What a user does with a fit."""

import numpy as np
import pandas as pd
import pytest
from frames_for_laws import clinic, fit_clinic

from privatelr import (
    FormulaError,
    NonPrivate,
    PrivacyWarning,
    PureDP,
    dplr,
    load_dataset,
)


def test_the_title_call():
    fit = dplr("Species != 'setosa' ~ .", load_dataset("iris"))
    assert list(fit.coef.index) == [
        "(Intercept)",
        "Sepal.Length",
        "Sepal.Width",
        "Petal.Length",
        "Petal.Width",
    ]
    assert fit.guarantee == PureDP(1.0)
    assert repr(fit.guarantee) == "PureDP(epsilon=1.0, neighbours=REPLACE_ONE)"
    assert fit.formula.endswith("~ Sepal.Length + Sepal.Width + Petal.Length + Petal.Width")
    assert fit.nobs == 150
    pd.testing.assert_series_equal(fit.coef, fit.params)


def test_coefficients_are_in_the_users_units():
    """The linear predictor is the coefficients times the columns as the user has them."""
    frame = clinic()
    fit = fit_clinic(frame)
    coef = fit.coef
    link = (
        coef["(Intercept)"]
        + coef["age"] * frame["age"]
        + coef["dose"] * frame["dose"]
        + coef["smoker[T.yes]"] * (frame["smoker"] == "yes")
    )
    found = fit.predict(frame, type="link")
    np.testing.assert_allclose(found, link, rtol=1e-9, atol=1e-12)  # terms may cancel


def test_a_plain_fit_recovers_a_model_in_the_users_units():
    rng = np.random.default_rng(0)
    frame = clinic(n=40_000)
    link = -3 + 0.05 * frame["age"] + 0.4 * frame["dose"] - 1.0 * (frame["smoker"] == "yes")
    frame["y"] = (rng.uniform(size=len(frame)) < 1 / (1 + np.exp(-link))).astype(int)
    plain = fit_clinic(frame, eps=0, lambda_=1e-7).coef
    np.testing.assert_allclose(plain, [-3, 0.05, 0.4, -1.0], rtol=0.1)
    private = fit_clinic(frame, eps=4.0, lambda_="free").coef
    np.testing.assert_allclose(private, [-3, 0.05, 0.4, -1.0], rtol=0.3)


def test_predictions_agree_with_each_other():
    frame = clinic()
    fit = fit_clinic(frame, threshold=0.3)
    link = fit.predict(frame, type="link")
    probability = fit.predict(frame)
    np.testing.assert_allclose(probability, 1 / (1 + np.exp(-link)))
    classes = fit.predict(frame, type="classes")
    np.testing.assert_array_equal(classes == 1, probability > 0.3)
    half = fit.predict(frame, type="classes", threshold=0.5)
    np.testing.assert_array_equal(half == 1, probability > 0.5)
    assert (probability.index == frame.index).all()


def test_beyond_the_bounds_means_at_the_bound():
    fit = fit_clinic(clinic())
    new = pd.DataFrame({"age": [90, 500, 18, -7], "dose": 1.0, "smoker": "no"})
    found = fit.predict(new)
    assert found[0] == found[1]
    assert found[2] == found[3]


@pytest.mark.parametrize(
    ("response", "levels", "classes"),
    [
        ("y == 1 ~ age", None, {True, False}),
        ("smoker ~ age", {"smoker": ["no", "yes"]}, {"no", "yes"}),
        ("smoker ~ age", {"smoker": ["yes", "no", "unknown"]}, {"yes", "not yes"}),
        ("y ~ age", {"y": [0, 1]}, {0, 1}),
    ],
)
def test_classes_are_those_of_the_response(response, levels, classes):
    fit = dplr(response, clinic(n=400), levels=levels)
    found = {
        value
        for threshold in (0.0, 1.0)
        for value in fit.predict(clinic(), type="classes", threshold=threshold)
    }
    assert found == classes


@pytest.mark.parametrize("rule", ["youden", "topleft"])
def test_learned_thresholds_are_used_and_named(rule):
    frame = clinic(n=300)
    fit = fit_clinic(frame, threshold=rule)
    value = getattr(fit.diagnostics, rule)
    classes = fit.predict(frame, type="classes")
    np.testing.assert_array_equal(classes == 1, fit.predict(frame) > value)
    below = fit.summary(diagnostics=True).as_text().split("not private -----")[1]
    assert f"The threshold {value:.3f} ({rule})" in below
    # the optimum is reached when predict applies the threshold
    positive = frame["y"] == 1
    curve = fit.diagnostics.roc
    reached = ((classes == 1)[positive].mean(), (classes == 1)[~positive].mean())
    if rule == "youden":
        best = (curve["true_positive"] - curve["false_positive"]).max()
        assert reached[0] - reached[1] == pytest.approx(best)
    else:
        best = np.hypot(curve["false_positive"], 1 - curve["true_positive"]).min()
        assert np.hypot(reached[1], 1 - reached[0]) == pytest.approx(best)


def test_diagnostics_say_what_they_are():
    fit = fit_clinic(clinic())
    for text in (str(fit.diagnostics), repr(fit.diagnostics)):
        assert "NOT PRIVATE" in text
    assert {"threshold", "false_positive", "true_positive"} == set(fit.diagnostics.roc)
    assert 0 <= fit.diagnostics.c_index <= 1


def test_tidy_and_glance():
    fit = fit_clinic(clinic(), op=False)
    tidy = fit.tidy()
    assert list(tidy.columns) == ["term", "estimate", "privacy_sd_expected", "privacy_sd_limit"]
    np.testing.assert_array_equal(tidy["estimate"], fit.coef)
    np.testing.assert_allclose(fit.tidy(exponentiate=True)["estimate"], np.exp(fit.coef))
    glance = fit.glance()
    assert len(glance) == 1
    assert glance.loc[0, "epsilon"] == 1.0
    assert glance.loc[0, "radius"] == pytest.approx(np.sqrt(3 + 0.25))
    plain = fit_clinic(clinic(), eps=0).glance()
    assert plain.loc[0, "epsilon"] == np.inf
    assert plain.loc[0, "mechanism"] == "none"


def test_privacy_sd_of_output_perturbation_is_what_the_noise_does():
    frame = clinic()
    fits = [fit_clinic(frame, op=False).coef for _ in range(800)]
    said = fit_clinic(frame, op=False).privacy_sd
    np.testing.assert_allclose(np.std(fits, axis=0), said, rtol=0.2)


@pytest.mark.parametrize(
    "frame",
    [
        clinic(n=1),
        clinic(n=3),
        clinic().assign(age=50.0),
        clinic().assign(dose=lambda f: f["age"]),
        clinic().assign(y=lambda f: (f["age"] > 50).astype(int)),
        clinic().assign(age=1e300),
        clinic().assign(y=0),
    ],
    ids=["n=1", "n<d", "constant", "duplicate", "separable", "huge", "one class"],
)
@pytest.mark.parametrize(
    "options", [{}, {"op": False}, {"eps": 0}, {"eps": 0.01}, {"bounds": None}]
)
def test_hard_data_fits_and_says_nothing(frame, options):
    fit = fit_clinic(frame, **options)
    assert np.isfinite(fit.coef).all()
    assert len(str(fit)) > 100
    assert fit._repr_html_()


def test_scaling_by_the_data_is_void_and_said():
    with pytest.warns(PrivacyWarning, match="void"):
        fit = fit_clinic(clinic(), do_scale=True)
    assert fit.guarantee == NonPrivate("void: scaled by the data")
    assert "void: scaled by the data" in str(fit)
    assert "computed without the data" not in str(fit)


def test_a_missing_column_at_predict_is_named():
    with pytest.raises(FormulaError, match="'dose'"):
        fit_clinic(clinic()).predict(clinic().drop(columns="dose"))


def test_ways_to_call():
    frame = clinic()
    frame = frame.assign(smoker=frame["smoker"] == "yes")[["y", "age", "dose", "smoker"]]
    x = frame[["age", "dose"]].to_numpy()
    assert dplr(frame, target="y", levels={"y": [0, 1]}).formula == "y ~ age + dose + smoker"
    assert dplr(frame, target=0, levels={"y": [0, 1]}).formula == "y ~ age + dose + smoker"
    assert dplr(frame).formula == "smoker ~ y + age + dose"
    assert dplr(np.column_stack([x, frame["y"]]), levels={"X3": [0, 1]}).formula == "X3 ~ X1 + X2"
    assert (
        dplr(frame["y"], frame[["age", "dose"]], levels={"y": [0, 1]}).formula == "y ~ age + dose"
    )
    for y in (frame["y"].to_numpy() == 1, frame["smoker"].to_numpy(), pd.Categorical(frame["y"])):
        assert list(dplr(y, x).coef.index) == ["(Intercept)", "X1", "X2"]
    lists = {"age": (18, 90), "dose": (0, 10)}
    assert dplr(
        "y ~ age + dose", frame.to_dict("list"), bounds=lists, levels={"y": [0, 1]}
    ).nobs == len(frame)
