"""``spend={"coefficients": .75, "roc": .25}`` for fits that choose columns."""

import json
import pickle
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from achieved_guarantees import achieved_histogram
from frames_for_laws import SCHEMA, clinic_by_age, fixed_noise, replaced
from scipy import sparse

import privatelr.call_data
from privatelr import (
    ZCDP,
    ApproxDP,
    GuaranteeError,
    Ledger,
    NonPrivate,
    PrivacyWarning,
    PureDP,
    ReleaseFileError,
    compare,
    dplpsvm,
    dpsimplex,
    load,
)
from privatelr.mechanisms.stages.histogram import ScoreScale, cells_of
from privatelr.privacy import implies, join
from privatelr.results import predict
from privatelr.results.release_files import content_hash
from privatelr.selection import models

FORMULA, MANY = "y ~ age + dose + smoker", 600
SPEND = {"coefficients": 0.75, "roc": 0.25}
MODELS = {
    "dplpsvm": partial(dplpsvm, rounds=20),
    "dpsimplex": partial(dpsimplex, loss="logistic", lambda_=0.5, draws=5),
}
PRICES = [PureDP(20.0), ZCDP(2.0), ApproxDP(20.0, 1e-6)]


@pytest.fixture(scope="module")
def frame():
    return clinic_by_age(MANY)


@pytest.fixture(scope="module", params=MODELS)
def fit(frame, request):
    price = ApproxDP(20.0, 1e-6)
    return MODELS[request.param](FORMULA, frame, price, spend=SPEND, threshold="youden", **SCHEMA)


def exact_counts(fit, data, label):
    release = fit.roc.release
    edges = release.scale.edges(release.calibration.bins)
    cells = cells_of(predict.linear_predictors(fit, data), label, edges)
    return np.bincount(cells, minlength=len(release.counts))


@pytest.mark.parametrize("name", MODELS)
def test_the_scores_are_those_of_predict(frame, name):
    odd = frame.assign(age=frame.age.where(np.arange(MANY) % 9 > 0))
    fit = MODELS[name](FORMULA, odd, PureDP(1e4), spend=SPEND, **SCHEMA)
    exact = exact_counts(fit, odd, 2 * odd.y.to_numpy() - 1)
    assert fit.roc.release.counts.tolist() == exact.tolist()
    assert exact[-1] == len(range(0, MANY, 9))


def test_sparse_rows_are_scored():
    rng = np.random.default_rng(1)
    x = sparse.random_array((300, 20), density=0.3, rng=rng, format="csr")
    y = np.where(x @ np.ones(20) + rng.normal(0, 0.5, 300) > 3, 1.0, 0.0)
    fit = dplpsvm(y, x, PureDP(1e4), rounds=20, spend=SPEND, levels={"y": [0, 1]})
    assert fit.roc.release.counts.tolist() == exact_counts(fit, x, 2 * y - 1).tolist()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("price", PRICES, ids=str)
def test_one_charge_for_both_stages(frame, name, price):
    ledger = Ledger(100.0, 1e-5)
    fit = MODELS[name](FORMULA, frame, price, spend=SPEND, ledger=ledger, **SCHEMA)
    counts = fit.release.histogram.calibration
    assert fit.guarantee == fit.roc.guarantee == price
    assert ledger.entries == (fit.release.entry,)
    chosen = fit.calibration.events  # draws from a minimiser have none, and are charged whole
    assert fit.release.entry.events == ((*chosen, *counts.events) if chosen else ())
    assert join([fit.calibration.target, counts.target]) == price
    assert implies(achieved_histogram(counts), counts.target)


def test_choices_that_kept_the_whole_price_are_caught(frame, monkeypatch, tmp_path):
    """As if counts of scores were free: neither a ledger nor a file takes such a release."""

    def whole(target, shares):
        return {name: target for name in shares}

    monkeypatch.setattr(models, "split", whole)
    given = FORMULA, frame, PureDP(20.0)
    with pytest.raises(GuaranteeError):
        MODELS["dplpsvm"](*given, spend=SPEND, ledger=Ledger(100.0), **SCHEMA)
    fit = MODELS["dplpsvm"](*given, spend=SPEND, **SCHEMA)
    with pytest.raises(ReleaseFileError):
        fit.save(tmp_path / "model.json", overwrite=True)


def test_replacing_a_record_moves_two_counts_by_one(frame, monkeypatch):
    """Under the same coefficients, as choices hide the rest of the record."""
    honest = models.count_scores

    def at_one(rows, release, scale, *given):
        options = np.arange(2 * rows.d) < 2
        one = replace(release, counts=options.astype(int))
        return honest(rows, one, ScoreScale(0.0, 1.0), *given)

    monkeypatch.setattr(models, "count_scores", at_one)
    for change in ({"y": 0.0}, {"age": np.nan}, {"y": 7.0}, {"smoker": "never"}, {"dose": 1e300}):
        with fixed_noise(monkeypatch):
            both = [
                MODELS["dplpsvm"](
                    FORMULA, data, 4.0, spend=SPEND, **SCHEMA
                ).release.histogram.counts
                for data in (frame, replaced(frame, 0, **change))
            ]
        moved = np.abs(both[0] - both[1])
        assert 0 < moved.sum() <= 2 or "dose" in change
        assert moved.max() <= 1


def test_a_ledger_that_cannot_pay_ends_it_before_data_is_read(frame, monkeypatch):
    def unread(*_):
        raise AssertionError("a row was read")

    monkeypatch.setattr(privatelr.call_data.FrameData, "entries", unread)
    ledger = Ledger(3.0, 1e-5)
    with pytest.raises(GuaranteeError):
        MODELS["dplpsvm"](FORMULA, frame, 4.0, spend=SPEND, ledger=ledger, **SCHEMA)
    assert ledger.entries == ()


def test_a_seed_voids_the_curve_too(frame):
    with pytest.warns(PrivacyWarning, match="seed"):
        fits = [
            MODELS["dplpsvm"](FORMULA, frame, 4.0, spend=SPEND, seed=1, **SCHEMA) for _ in range(2)
        ]
    assert fits[0].roc.guarantee == NonPrivate("void: seeded noise")
    assert fits[0].roc.release.counts.tolist() == fits[1].roc.release.counts.tolist()


def test_a_plain_fit_has_the_exact_counts(frame):
    fit = MODELS["dplpsvm"](FORMULA, frame, 0, spend=SPEND, **SCHEMA)
    exact = exact_counts(fit, frame, 2 * frame.y.to_numpy() - 1)
    assert fit.roc.release.counts.tolist() == exact.tolist()


@pytest.mark.parametrize("y", [0.0, 1.0, np.nan])
def test_one_class_takes_the_same_path(frame, y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = MODELS["dplpsvm"](
            FORMULA, frame.assign(y=y), 2.0, spend=SPEND, threshold="youden", **SCHEMA
        )
        assert str(fit)
        assert fit.card()
        assert len(fit.predict(frame, "classes")) == MANY


def test_the_page_has_it_above_the_rule(fit):
    page = str(fit.summary(diagnostics=True))
    above, below = (" ".join(part.split()) for part in page.split("- not private -"))
    assert f"C-index (AUC) {fit.roc.auc:.3f} with standard error" in above
    assert f"{fit.roc.youden:.3f} (youden)" in above
    assert "and counts of scores; choices epsilon = 15" in above
    assert "the paid one (youden)" in above
    assert "(youden)" not in below
    assert max(map(len, page.splitlines())) <= 79


def test_classes_are_split_by_the_paid_threshold(fit, frame):
    expected = fit.predict(frame, "classes", threshold=fit.roc.youden)
    assert fit.predict(frame, "classes").equals(expected)
    top = fit.predict(frame, "classes", threshold="topleft")
    assert top.equals(fit.predict(frame, "classes", threshold=fit.roc.topleft))
    assert pickle.loads(pickle.dumps(fit)).predict(frame, "classes").equals(expected)


@pytest.mark.parametrize("price", PRICES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_a_saved_fit_has_the_same_curve(frame, name, price, tmp_path):
    options = {"spend": SPEND, "ledger": Ledger(100.0, 1e-5), "threshold": "topleft"}
    fit = MODELS[name](FORMULA, frame, price, **options, **SCHEMA)
    fit.save(tmp_path / "model.json")
    read = load(tmp_path / "model.json")
    pd.testing.assert_frame_equal(read.roc.curve, fit.roc.curve)
    assert str(read.roc) == str(fit.roc)
    assert read.roc.guarantee == read.guarantee == price
    assert read.release.entry == fit.release.entry
    assert read.predict(frame, "classes").equals(fit.predict(frame, "classes"))
    assert "the counts of scores by class" in read.card()
    assert "its part, and the parts add up to the whole" in " ".join(read.card().split())


def louder(entry):
    entry["derived"]["roc_noise"]["rate"] *= 2


def dearer(entry):
    entry["call"]["roc_target"]["epsilon"] *= 2


@pytest.mark.parametrize("change", [louder, dearer])
def test_a_file_whose_noise_is_not_enough_is_refused(fit, tmp_path, change):
    path = tmp_path / "model.json"
    fit.save(path)
    document = json.loads(path.read_text("utf-8"))
    change(document)
    document["sha256"] = content_hash(document)
    path.write_text(json.dumps(document), "utf-8")
    with pytest.raises(ReleaseFileError, match=r"the other entries give|guarantee|next to"):
        load(path)


def test_all_that_was_bought_is_compared(frame):
    for model in MODELS.values():
        fits = [model(FORMULA, frame, PureDP(20.0), spend=SPEND, **SCHEMA) for _ in "ab"]
        assert "epsilon = 40" in " ".join(str(compare(*fits)).split())


@pytest.mark.parametrize(
    "spend", ["inference", {"coefficients": 0.5, "scale": 0.5}, {"roc": 1.0}, {"coefficients": 0.5}]
)
@pytest.mark.parametrize("name", MODELS)
def test_other_parts_are_refused(frame, name, spend):
    with pytest.raises(GuaranteeError, match=r"spend|shares"):
        MODELS[name](FORMULA, frame, 4.0, spend=spend, **SCHEMA)
