"""`plan(loss="softmax")`: several classes, as `dpmultinom` fits them."""

import inspect
import json
import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from privatelr import (
    ZCDP,
    ArgumentError,
    FormulaError,
    PrivacyWarning,
    SchemaError,
    dpmultinom,
    plan,
)
from privatelr.inference import Guesses
from privatelr.numerics import c_index
from privatelr.planning.made_up_records import class_shares

N = 4000
FORMULA = "y ~ age + dose"
CLASSES = ["a", "b", "c"]
PUBLIC = {"bounds": {"age": (20, 80), "dose": (0, 5)}, "levels": {"y": CLASSES}}


def study(n=N, seed=1):
    rng = np.random.default_rng(seed)
    age, dose = rng.uniform(20, 80, n), rng.uniform(0, 5, n)
    links = np.column_stack([np.zeros(n), 0.04 * (age - 50), 0.8 * (dose - 2.5) - 0.5])
    place = (links + rng.gumbel(size=links.shape)).argmax(axis=1)
    return pd.DataFrame({"y": np.array(CLASSES)[place], "age": age, "dose": dose})


FRAME = study()
SETTINGS = [
    {},
    {"eps": ZCDP(0.1)},
    {"eps": 0.5, "delta": 1e-6, "op": False},
    {"do_scale": "private"},
    {"weights": "w", "bounds": {**PUBLIC["bounds"], "w": (0, 2)}},
]


@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_the_calibration_is_the_one_of_a_fit(options):
    fit = dpmultinom(FORMULA, FRAME.assign(w=1.0), **{**PUBLIC, **options})
    outlook = plan(FORMULA, N, loss="softmax", **{**PUBLIC, **options})
    assert outlook.calibration.coefficients == fit.calibration
    scale = fit.release.scale
    assert outlook.calibration.scale == (None if scale is None else scale.calibration)
    named = fit.tidy()
    assert list(outlook.terms) == list(named["class"] + ": " + named["term"])
    frame = outlook.to_frame()
    assert list(frame["class"]) == list(named["class"])
    assert list(frame["term"]) == list(named["term"])
    limits = fit.privacy_sd_limit.T.to_numpy().ravel()
    if options.get("do_scale") is None and fit.scale is None:
        assert (frame["privacy_sd"] <= limits).all()


def test_sampling_errors_are_those_of_statsmodels():
    outlook = plan(FORMULA, N, 0, lambda_=1e-8, loss="softmax", pilot=FRAME, **PUBLIC)
    codes = FRAME["y"].map({level: place for place, level in enumerate(CLASSES)})
    x = sm.add_constant(FRAME[["age", "dose"]])
    expected = sm.MNLogit(codes, x).fit(disp=0, cov_type="HC0").bse.T.to_numpy().ravel()
    np.testing.assert_allclose(outlook.errors.sampling_sd, expected, rtol=1e-3)
    assert (outlook.errors.privacy_sd == 0).all()


@pytest.mark.parametrize(
    "options",
    [{"eps": 2.0}, {"eps": ZCDP(0.2)}, {"eps": 2.0, "op": False}, {"eps": 4.0, "do_scale": None}],
    ids=str,
)
def test_the_noise_is_that_of_releases(options):
    options = {"do_scale": False, **options}
    outlook = plan(FORMULA, N, loss="softmax", pilot=FRAME, **options, **PUBLIC)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # of the seed
        fits = [dpmultinom(FORMULA, FRAME, seed=run, **options, **PUBLIC) for run in range(150)]
    found = np.std([fit.coef.T.to_numpy().ravel() for fit in fits], axis=0)
    ratio = outlook.errors.privacy_sd / found
    assert np.abs(np.log(ratio)).max() < 0.25
    assert abs(np.log(ratio).mean()) < 0.1


@pytest.mark.parametrize("classes", [3, 5])
def test_made_up_classes_are_what_was_guessed(classes):
    rng = np.random.default_rng(0)
    x = np.column_stack([np.full(4000, 0.5), rng.uniform(-1, 1, (4000, 3))])
    shares = class_shares(x, Guesses(c_index=0.7), classes)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    means = shares.mean(axis=0)
    assert means[0] == means.max()
    np.testing.assert_allclose(means[1:] / means[:-1], means[1] / means[0])
    assert means[-1] / means[0] == pytest.approx(classes**-1.5)
    drawn = (rng.random((4000, 1)) > np.cumsum(shares, axis=1)).sum(axis=1)
    for k in range(1, classes):
        pair = (drawn == 0) | (drawn == k)
        link = np.log(shares[:, k] / shares[:, 0])
        assert c_index(link[pair], drawn[pair] == k) == pytest.approx(0.7, abs=0.05)
    rare = class_shares(x, Guesses(rare_first=True), classes).mean(axis=0)
    assert rare[0] == rare.min()


def test_the_page_and_its_json():
    outlook = plan(FORMULA, N, loss="softmax", **PUBLIC)
    page = " ".join(str(outlook).split())
    assert page.startswith("Plan of a multinomial logistic regression, before any data")
    assert "epsilon = 0.85: standard errors of several classes are not built" in page
    assert "spend='inference'" not in page
    assert "b: age" in page
    assert "shares of classes fall by one factor, from the reference to the rarest: 0.1" in page
    assert "epsilon = 2 (pure)" in page
    assert all(len(line) <= 79 for line in str(outlook).splitlines())
    document = json.loads(outlook.to_json())
    assert document["classes"] == CLASSES
    assert len(document["terms"]) == 6
    assert outlook._repr_html_()


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"levels": None}, SchemaError, "takes its levels"),
        ({"levels": {"y": ["a", "b"]}}, SchemaError, "three or more"),
        ({"spend": {"coefficients": 0.5, "inference": 0.5}}, ArgumentError, "not built"),
        ({"prior": {"age": 1.0}}, ArgumentError, "prior"),
        ({"balance": 0.5}, ArgumentError, "balance=0.5: balance is a guess about two classes"),
        ({"formula": 3, "bounds": None, "levels": None}, SchemaError, "takes its levels"),
        ({"h": 0.5}, ArgumentError, "h=0.5"),
    ],
)
def test_what_is_refused(changed, error, words):
    asked = {"formula": FORMULA, "n": N, "loss": "softmax", **PUBLIC, **changed}
    with pytest.raises(error, match=words) as refused:
        plan(**asked)
    assert str(refused.value).endswith(".")


def test_persons_are_planned_where_they_are_fitted():
    frame = FRAME.assign(who=np.arange(N) // 2)
    asked = {"person": "who", "records_per_person": 2, **PUBLIC}
    if "person" not in inspect.signature(dpmultinom).parameters:
        with pytest.raises(FormulaError, match="person"):
            plan(FORMULA, N // 2, loss="softmax", **asked)
        return
    fit, outlook = (
        dpmultinom(FORMULA, frame, **asked),
        plan(FORMULA, N // 2, loss="softmax", **asked),
    )
    assert outlook.calibration.coefficients == fit.calibration
