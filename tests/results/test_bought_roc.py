"""``spend={"coefficients": .75, "roc": .25}``: a ROC curve that is a stage of the fit."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from frames_for_laws import MODELS, SCHEMA, clinic_by_age, fixed_noise, replaced

from privatelr import (
    ZCDP,
    ApproxDP,
    ArgumentError,
    Ledger,
    PureDP,
    dplr,
    load,
    plan,
)
from privatelr.mechanisms import stages
from privatelr.mechanisms.request import LENGTHS
from privatelr.mechanisms.stages.histogram import ScoreScale, cells_of
from privatelr.privacy import join
from privatelr.privacy.noise import GaussianNoise
from privatelr.results import predict

FORMULA = "y ~ age + dose + smoker"
SPEND = {"coefficients": 0.75, "roc": 0.25}
ALL = {"scale": 0.1, "coefficients": 0.5, "inference": 0.3, "roc": 0.1}
SCALED = {"scale": 0.1, "coefficients": 0.7, "roc": 0.2}
MANY = 400
PRICES = [PureDP(4.0), ZCDP(1.0), ApproxDP(4.0, 1e-6)]


@pytest.fixture(scope="module")
def frame():
    return clinic_by_age(MANY)


@pytest.fixture(scope="module")
def fit(frame):
    return dplr(FORMULA, frame, eps=4.0, spend=SPEND, threshold="youden", **SCHEMA)


def on_a_page(fit):
    return " ".join(str(fit).split())


@pytest.mark.filterwarnings("ignore::privatelr.errors.PrivacyWarning")
def test_a_page_says_where_the_curve_has_no_threshold(frame):
    """With three records the noise leaves a class empty in some fits."""
    few = frame.head(3)
    for seed in range(60):
        fit = dplr(FORMULA, few, eps=1.0, spend=SPEND, threshold="youden", seed=seed, **SCHEMA)
        if np.isnan(fit.roc.youden):
            break
    assert np.isnan(fit.roc.youden)
    text = on_a_page(fit)
    assert "so that there is no C-index, and no threshold but 0.5" in text
    assert "The threshold of predict(type='classes') is 0.5, since the curve has none" in text
    assert "the paid one" not in text


# -- what is counted -------------------------------------------------------------------------------


def exact_counts(fit, data, label):
    """The counts of the records by the scores that `predict` gives them."""
    release = fit.roc.release
    link = predict.linear_predictors(fit, data)
    edges = release.scale.edges(release.calibration.bins)
    cells = cells_of(link, np.where(np.isnan(link), 0.0, label), edges)
    return np.bincount(cells, minlength=len(release.counts))


@pytest.mark.parametrize("spend", [SPEND, SCALED, ALL], ids=len)
@pytest.mark.parametrize("name", MODELS)
def test_the_scores_are_those_of_predict(frame, name, spend):
    """With hardly any noise: each record stands where `predict` puts it, unusable ones apart."""
    odd = frame.assign(age=frame.age.where(np.arange(MANY) % 9 > 0))
    given = {"do_scale": False} if spend is SPEND else {}
    fit = MODELS[name](FORMULA, odd, eps=1e4, spend=spend, **given, **SCHEMA)
    assert (fit.scale is None) == (spend is SPEND)
    exact = exact_counts(fit, odd, 2 * odd.y.to_numpy() - 1)
    assert fit.roc.release.counts.tolist() == exact.tolist()
    assert exact[-1] == len(range(0, MANY, 9))
    assert fit.roc.auc == pytest.approx(fit.diagnostics.c_index, abs=0.01)


def test_replacing_a_record_moves_two_counts_by_one(frame, monkeypatch):
    """Under the same coefficients: the same noise, and a tilt that hides the rest of the record."""
    honest = stages.histogram.count_scores

    def at_zero(rows, release, scale, *given):
        still = replace(release, coef=np.zeros_like(release.coef))
        return honest(rows, still, ScoreScale(0.0, 1.0), *given)

    monkeypatch.setattr(stages.histogram, "count_scores", at_zero)
    for change in ({"y": 1.0}, {"age": np.nan}, {"y": 7.0}, {"smoker": "never"}):
        with fixed_noise(monkeypatch):
            both = [
                dplr(FORMULA, data, 4.0, spend=SPEND, **SCHEMA).release.histogram.counts
                for data in (frame, replaced(frame, 0, **change))
            ]
        moved = np.abs(both[0] - both[1])
        assert moved.sum() <= 2
        assert moved.max() <= 1


# -- what it costs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("spend", [SPEND, SCALED, ALL], ids=len)
@pytest.mark.parametrize("price", PRICES, ids=str)
@pytest.mark.parametrize("name", ["dplr", "dpsvm"])
def test_one_charge_for_all_stages(frame, name, price, spend):
    ledger = Ledger(100.0, 1e-5)
    fit = MODELS[name](FORMULA, frame, price, spend=spend, ledger=ledger, **SCHEMA)
    release = fit.release
    counts = release.histogram.calibration
    assert fit.guarantee == fit.roc.guarantee == price
    assert ledger.entries == (release.entry,)
    assert release.histogram.entry is release.entry
    stages = [stage.calibration for stage in (release, *release.parts.values())]
    assert counts.events[0] in release.entry.events
    if isinstance(price, ApproxDP) and LENGTHS in release.parts:  # it is taken off beforehand
        return
    whole = join([stage.target for stage in stages])
    assert whole == price or (isinstance(whole, PureDP) and whole.epsilon == price.epsilon)


def test_under_a_delta_few_columns_have_pure_parts(frame):
    """Two counts move by one: Laplace noise hides that better than Gaussian noise does."""
    fit = dplr(FORMULA, frame, 1.0, delta=1e-6, spend=SPEND, **SCHEMA)
    assert fit.release.histogram.calibration.target == PureDP(0.25)
    assert fit.calibration.target == PureDP(0.75)
    pure = dplr(FORMULA, frame, 1.0, spend=SPEND, **SCHEMA)
    assert fit.calibration.noise == pure.calibration.noise
    assert fit.guarantee == ApproxDP(1.0, 1e-6)


def test_under_a_delta_many_columns_have_gaussian_noise():
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.uniform(-1, 1, (200, 120))).add_prefix("x")
    declared = {name: (-1, 1) for name in table}
    table["y"] = rng.integers(0, 2, 200)
    fit = dplr("y ~ .", table, 1.0, delta=1e-6, spend=SPEND, bounds=declared, levels={"y": [0, 1]})
    assert isinstance(fit.calibration.noise, GaussianNoise)
    assert isinstance(fit.release.histogram.calibration.noise, GaussianNoise)


def test_a_plain_fit_has_the_exact_counts(frame, tmp_path):
    fit = dplr(FORMULA, frame, 0, spend=SPEND, **SCHEMA)
    exact = exact_counts(fit, frame, 2 * frame.y.to_numpy() - 1)
    assert fit.roc.release.counts.tolist() == exact.tolist()
    assert "not private" in str(fit.roc)
    assert "by exact counts of scores" in on_a_page(fit)
    fit.save(tmp_path / "model.json")
    assert str(load(tmp_path / "model.json").roc) == str(fit.roc)


# -- where it is read ------------------------------------------------------------------------------


def test_the_page_has_it_above_the_rule(fit):
    page = str(fit.summary(diagnostics=True))
    above, below = (" ".join(part.split()) for part in page.split("- not private -"))
    assert f"C-index (AUC) {fit.roc.auc:.3f} with standard error" in above
    assert f"{fit.roc.youden:.3f} (youden)" in above
    assert "paid for with epsilon = 1 (pure)" in above
    assert "coefficients epsilon = 3, roc epsilon = 1" in above
    assert "the paid one (youden)" in above
    assert "the numbers under ROC curve was computed from the data" in above
    assert "C-index" in below
    assert "(youden)" not in below
    assert "The exact C-index and the counts of the training data are not private" in on_a_page(fit)
    assert max(map(len, page.splitlines())) <= 79


def test_its_own_page_tells_the_price(fit):
    page = " ".join(str(fit.roc).split())
    assert "Promise epsilon = 4 (pure)" in page
    assert "of its price, epsilon = 1 (pure) bought these counts" in page
    assert "paid apart" not in page
    assert json.loads(json.dumps(fit.roc.to_dict()))["fit_guarantee"] is None


def test_classes_are_split_by_the_paid_threshold(fit, frame):
    cut = fit.roc.youden
    expected = fit.predict(frame, "classes", threshold=cut)
    assert fit.predict(frame, "classes").equals(expected)
    fixed = dplr(FORMULA, frame, 4.0, spend=SPEND, **SCHEMA)
    with_rule = fixed.predict(frame, "classes", threshold="topleft")
    assert with_rule.equals(fixed.predict(frame, "classes", threshold=fixed.roc.topleft))
    with pytest.raises(ArgumentError, match="bought a ROC curve"):
        dplr(FORMULA, frame, 4.0, **SCHEMA).predict(frame, "classes", threshold="topleft")
    kept = pickle.loads(pickle.dumps(fit))
    assert kept.predict(frame, "classes").equals(expected)
    assert not kept.has_diagnostics


@pytest.mark.parametrize("spend", [SPEND, ALL, {"coefficients": 0.6, "inference": 0.3, "roc": 0.1}])
@pytest.mark.parametrize("price", PRICES, ids=str)
def test_a_plan_has_the_calibration_of_the_fit(frame, price, spend):
    foreseen = plan(FORMULA, MANY, price, spend=spend, **SCHEMA)
    fit = dplr(FORMULA, frame, price, spend=spend, **SCHEMA)
    counts = fit.release.histogram.calibration
    assert foreseen.calibration.histogram == counts
