"""`fit.private_roc`: what it releases, what it costs, and what it must not tell."""

import copy
import json
import pickle
import re
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from frames_for_laws import MODELS, SCHEMA, FixedRandomness, clinic, clinic_by_age

import privatelr.fitting
import privatelr.results.answers.scored_records
from privatelr import (
    ArgumentError,
    FormulaError,
    GuaranteeError,
    Ledger,
    PrivacyWarning,
    PrivateLRError,
    PureDP,
    dplr,
)
from privatelr.mechanisms.stages.histogram import HistogramCalibration
from privatelr.privacy import ZCDP, ApproxDP
from privatelr.results import predict

FORMULA = "y ~ age + dose + smoker"
MARK = 61.12345678901234
MANY = 400


@pytest.fixture(scope="module")
def frame():
    return clinic_by_age(MANY)


@pytest.fixture(scope="module")
def fit(frame):
    return dplr(FORMULA, frame, eps=4.0, **SCHEMA)


@pytest.fixture(scope="module")
def answer(fit, frame):
    return fit.private_roc(frame, eps=200.0)


@contextmanager
def fixed_noise(monkeypatch):
    """The same noise for fits and for answers: what comes out is no matter of chance."""
    with monkeypatch.context() as patch:
        patch.setattr(privatelr.fitting, "SystemRandomness", FixedRandomness)
        patch.setattr(privatelr.results.answers.scored_records, "SystemRandomness", FixedRandomness)
        yield


# -- what is released ------------------------------------------------------------------------------


def test_with_little_noise_it_is_the_exact_curve(answer, fit):
    exact = fit.diagnostics
    assert answer.auc == pytest.approx(exact.c_index, abs=0.01)
    assert answer.prevalence == pytest.approx(exact.counts.positive / MANY, abs=0.005)
    probability = fit.predict(clinic(n=MANY))
    assert len(probability) == MANY
    sensitivity = answer.at(0.5).sensitivity[0]
    roc = exact.roc
    near = roc[roc.threshold <= 0.5].iloc[0]
    assert sensitivity == pytest.approx(near.true_positive, abs=0.06)


def test_the_curve_rises_from_zero_to_one(answer):
    curve = answer.curve
    assert list(curve.columns) == ["threshold", "false_positive", "true_positive"]
    assert np.all(np.diff(curve.false_positive) >= 0)
    assert np.all(np.diff(curve.true_positive) >= 0)
    assert np.all(np.diff(curve.threshold) < 0)
    ends = curve[["false_positive", "true_positive"]].iloc[[0, -1]].to_numpy()
    assert ends == pytest.approx(np.array([[0, 0], [1, 1]]))


def test_a_threshold_is_one_for_predict(answer, fit, frame):
    assert set(fit.predict(frame, "classes", threshold=answer.youden)) == {0, 1}
    assert 0 < answer.topleft < 1
    with pytest.raises(ArgumentError, match="youden"):
        answer.threshold("best")


def test_the_brier_score_and_the_slope_are_near_the_exact_ones(answer, fit, frame):
    probability = fit.predict(frame)
    assert answer.brier == pytest.approx(((probability - frame.y) ** 2).mean(), abs=0.01)
    table = answer.calibration(5)
    assert list(table.columns[:5]) == ["low", "high", "records", "predicted", "observed"]
    assert table.records.sum() == pytest.approx(MANY, rel=0.01)
    assert table.low.iloc[0] == 0
    assert table.high.iloc[-1] == 1
    assert (table.predicted > table.low).all()
    assert (table.predicted < table.high).all()
    assert len(answer.calibration(100)) > 40


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_one(name, frame, monkeypatch):
    with fixed_noise(monkeypatch):
        fit = MODELS[name](FORMULA, frame, eps=4.0, **SCHEMA)
        found = fit.private_roc(frame, eps=50.0)
    assert found.auc == pytest.approx(fit.diagnostics.c_index, abs=0.02)
    assert found.nobs == MANY
    assert "Private ROC curve" in str(found)


def test_outcomes_may_stand_beside_the_data(fit, frame, monkeypatch):
    with fixed_noise(monkeypatch):
        inside = fit.private_roc(frame)
        beside = fit.private_roc(frame.drop(columns="y"), response=frame.y)
    assert np.array_equal(inside.release.counts, beside.release.counts)


def test_margins_have_no_calibration(frame):
    found = MODELS["dpsvm"](FORMULA, frame, eps=4.0, **SCHEMA).private_roc(frame)
    for ask in (lambda: found.brier, found.calibration, lambda: found.calibration_slope):
        with pytest.raises(ArgumentError, match="margins"):
            ask()
    assert list(found.tidy().term) == ["auc", "prevalence"]
    assert found.at([-1e6, 1e6]).sensitivity.tolist() == pytest.approx([1.0, 0.0])
    assert found.curve.threshold.iloc[0] == np.inf


# -- what it costs ---------------------------------------------------------------------------------


def test_the_ledger_is_charged_before_a_score_is_computed(fit, frame, monkeypatch):
    ledger, seen = Ledger(1.0), []
    real = predict.linear_predictors

    def watched(model, data):
        if len(data) == len(frame):
            seen.append(len(ledger.entries))
        return real(model, data)

    monkeypatch.setattr(predict, "linear_predictors", watched)
    found = fit.private_roc(frame, eps=0.75, ledger=ledger)
    assert seen == [1]
    assert found.release.entry == ledger.entries[0]
    with pytest.raises(GuaranteeError):
        fit.private_roc(frame, eps=0.75, ledger=ledger)
    assert seen == [1]
    assert ledger.spent() == 0.75


@pytest.mark.parametrize("price", [PureDP(0.5), ZCDP(0.1), ApproxDP(1e-3, 1e-4)], ids=str)
def test_every_guarantee_is_sold(fit, frame, price):
    found = fit.private_roc(frame, price)
    assert found.guarantee == price
    assert isinstance(found.release.calibration, HistogramCalibration)


def test_a_large_delta_is_told_where_it_was_written(fit, frame):
    with pytest.warns(PrivacyWarning, match="delta") as caught:
        fit.private_roc(frame, delta=0.001)
    assert caught[0].filename == __file__
    with pytest.raises(GuaranteeError, match="delta"):
        fit.private_roc(frame, delta=0.1)


def test_the_page_tells_both_prices(fit, frame):
    page = str(fit.private_roc(frame, eps=0.5))
    assert "epsilon = 0.5 (pure)" in page
    assert "epsilon = 4 (pure), paid apart" in " ".join(page.split())
    assert max(map(len, page.splitlines())) <= 79
    plain = dplr(FORMULA, frame, eps=0, **SCHEMA).private_roc(frame, eps=0.5)
    assert "void for the records that the fit was trained on" in " ".join(str(plain).split())


# -- what it must not tell -------------------------------------------------------------------------


def told(fit, frame, **options):
    """The counts, and all that a user can see or store of an answer without its counts."""
    ledger = Ledger(5.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answer = fit.private_roc(frame, ledger=ledger, **options)
    release = answer.release
    seen = {**answer.to_dict(), "counts": None}
    rest = (repr(answer), json.dumps(seen), str(ledger), release.calibration, release.scale)
    return release.counts, rest, [str(w.message) for w in caught]


@pytest.mark.parametrize(
    "change",
    [
        {"age": MARK},
        {"age": 1e300},
        {"age": np.nan},
        {"age": np.inf},
        {"smoker": "never"},
        {"smoker": None},
        {"y": np.nan},
        {"y": 7.0},
        {"y": 1.0, "age": 90.0, "smoker": "yes"},
    ],
    ids=str,
)
def test_changing_a_record_moves_two_counts_by_one(fit, frame, change, monkeypatch):
    other = frame.copy()
    for name, value in change.items():
        other.loc[other.index[0], name] = value
    with fixed_noise(monkeypatch):
        first, second = told(fit, frame), told(fit, other)
    moved = np.abs(first[0] - second[0])
    assert moved.sum() <= 2
    assert moved.max() <= 1
    assert first[1:] == second[1:]
    assert first[2] == []


def test_a_record_that_cannot_be_used_counts(fit, frame, monkeypatch):
    half = frame.assign(age=frame.age.where(np.arange(MANY) % 2 == 0))
    found = fit.private_roc(half, eps=500.0)
    assert found.nobs == MANY
    assert found.release.counts[-1] == pytest.approx(MANY / 2, abs=1)
    assert re.search(
        r"(49|50)\.\d % of the records could not be used", " ".join(str(found).split())
    )
    assert found.release.counts.sum() == pytest.approx(MANY, abs=5)


def test_nothing_of_the_data_is_stored(fit, frame):
    marked = frame.assign(age=MARK)
    answer = fit.private_roc(marked)
    for kept in (pickle.dumps(answer), pickle.dumps(copy.deepcopy(answer))):
        assert np.float64(MARK).tobytes() not in kept
        assert len(kept) < 4000
    again = pickle.loads(pickle.dumps(answer))
    assert str(again) == str(answer)
    assert again.auc == answer.auc
    assert json.loads(json.dumps(answer.to_dict()))["n"] == MANY


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"eps": 0}, GuaranteeError, "eps=0"),
        ({"eps": -1}, GuaranteeError, "eps"),
        ({"delta": 0.5}, GuaranteeError, "delta"),
        ({"ledger": 3}, ArgumentError, "ledger"),
        ({"seed": -1}, ArgumentError, "seed"),
        ({"response": [0, 1]}, PrivateLRError, "2"),
        ({"epsilon": 1}, PrivateLRError, "eps"),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused_before_data_is_read(fit, frame, options, error, words):
    with pytest.raises(error, match=words):
        fit.private_roc(frame, **options)


def test_data_without_a_column_costs_nothing(fit, frame):
    ledger = Ledger(1.0)
    for name in ("y", "dose"):
        with pytest.raises(FormulaError, match=name):
            fit.private_roc(frame.drop(columns=name), eps=0.5, ledger=ledger)
    with pytest.raises(ArgumentError, match="empty"):
        fit.private_roc(frame[:0], eps=0.5, ledger=ledger)
    assert ledger.entries == ()


def in_parts(frame, npartitions=3):
    return pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=npartitions)


@pytest.mark.parametrize("change", [{}, {"age": np.nan}, {"y": 7.0}, {"age": 1e300}], ids=str)
def test_partitions_are_counted_like_a_frame(fit, frame, change, monkeypatch):
    """Also with a record that cannot be used in one of them, and with an empty one."""
    for name, value in change.items():
        frame = frame.copy()
        frame.loc[frame.index[0], name] = value
    with fixed_noise(monkeypatch), warnings.catch_warnings():
        warnings.simplefilter("error")
        whole, parts = fit.private_roc(frame), fit.private_roc(in_parts(frame))
        some = fit.private_roc(in_parts(frame).map_partitions(lambda part: part[part.index > 200]))
    assert np.array_equal(whole.release.counts, parts.release.counts)
    assert str(whole) == str(parts)
    assert some.nobs == MANY - 201


# -- the plot --------------------------------------------------------------------------------------


# -- records that a fit is not about ----------------------------------------------------------


@pytest.mark.parametrize("asked", [{"by": "smoker"}, {"subset": "age > 50"}], ids=str)
@pytest.mark.parametrize("lazy", [False, True], ids=["frame", "dask"])
def test_records_outside_of_a_stratum_or_a_subset_are_not_usable(asked, lazy, frame, monkeypatch):
    # cells of scores are as wide as the number of records allows, and so the two areas differ by
    # a standard deviation of .004 over fits: one fit, with the same noise, is compared
    with fixed_noise(monkeypatch):
        fits = dplr("y ~ age + dose", frame, eps=4.0, **asked, **SCHEMA)
    one = fits["yes"] if "by" in asked else fits
    kept = frame[frame["smoker"] == "yes" if "by" in asked else frame["age"] > 50]
    assert 20 < len(kept) < MANY - 20
    given = in_parts(frame) if lazy else frame
    with fixed_noise(monkeypatch):
        found, alone = one.private_roc(given, eps=200.0), one.private_roc(kept, eps=200.0)
    assert found.auc == pytest.approx(alone.auc, abs=0.01)
    assert found.nobs == MANY
    with pytest.raises(FormulaError, match="smoker" if "by" in asked else "age"):
        one.private_roc(frame.drop(columns=["smoker" if "by" in asked else "age"]), eps=1.0)


def test_scores_of_choices_leave_out_what_a_fit_is_not_about(frame):
    fits = dplr("y ~ age + dose", frame, eps=4.0, by="smoker", **SCHEMA)
    opened = privatelr.results.answers.scored_records.open_data(fits["yes"], frame, None)
    _, label = opened.scores()
    np.testing.assert_array_equal(label == 0, frame["smoker"] != "yes")
