"""`fit.private_threshold`: a threshold and its price, and nothing else."""

import pickle

import numpy as np
import pytest
from frames_for_laws import MODELS, SCHEMA, FixedRandomness, clinic, fixed_noise

from privatelr import (
    ZCDP,
    ApproxDP,
    ArgumentError,
    GuaranteeError,
    Ledger,
    NonPrivate,
    PrivacyWarning,
    PureDP,
    dplr,
    implies,
    to_zcdp,
)
from privatelr.results import predict
from privatelr.results.answers import scored_records

FORMULA = "y ~ age + dose + smoker"


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(3)
    found = clinic(n=400)
    found["y"] = (rng.random(400) < 1 / (1 + np.exp(-(found.age - 54) / 8))).astype(float)
    return found


@pytest.fixture(scope="module")
def fit(frame):
    return dplr(FORMULA, frame, eps=4.0, **SCHEMA)


@pytest.mark.parametrize("rule", ["youden", "topleft"])
@pytest.mark.parametrize("name", MODELS)
def test_at_a_high_price_it_is_about_the_best(name, rule, frame, monkeypatch):
    monkeypatch.setattr(scored_records, "SystemRandomness", FixedRandomness)
    with fixed_noise(monkeypatch):
        fit = MODELS[name](FORMULA, frame, eps=4.0, **SCHEMA)
    cut = float(fit.private_threshold(frame, eps=500.0, rule=rule))
    curve = fit.diagnostics.roc
    here = curve[curve.threshold <= cut].iloc[0]
    hit, alarm = curve.true_positive, curve.false_positive
    if rule == "youden":
        assert here.true_positive - here.false_positive > (hit - alarm).max() - 0.03
    else:
        distance = np.hypot(1 - here.true_positive, here.false_positive)
        assert distance < np.hypot(1 - hit, alarm).min() + 0.03
    assert len(fit.predict(frame, "classes", threshold=cut)) == 400


def test_the_ledger_is_charged_first(fit, frame, monkeypatch):
    ledger, seen, real = Ledger(1.0), [], predict.linear_predictors

    def watched(model, data):
        if data is frame:
            seen.append(len(ledger.entries))
        return real(model, data)

    monkeypatch.setattr(predict, "linear_predictors", watched)
    found = fit.private_threshold(frame, eps=0.6, ledger=ledger)
    with pytest.raises(GuaranteeError):
        fit.private_threshold(frame, eps=0.6, ledger=ledger)
    assert seen == [1]
    assert found.entry == ledger.entries[0]
    assert ledger.spent() == pytest.approx(0.6)


def test_its_page_tells_the_price_and_its_pickle_no_record(fit, frame):
    found = fit.private_threshold(frame.assign(age=61.12345678901234), eps=0.5)
    page = " ".join(str(found).split())
    assert "epsilon = 0.5 (pure)" in page
    assert "epsilon = 4 (pure), paid apart" in page
    assert f"Probability {found.value:.4g}" in page
    assert max(map(len, str(found).splitlines())) <= 79
    kept = pickle.dumps(found)
    assert np.float64(61.12345678901234).tobytes() not in kept
    assert float(pickle.loads(kept)) == found.value
    assert found.guarantee == PureDP(0.5)


def test_a_seed_voids_it(fit, frame):
    with pytest.warns(PrivacyWarning, match="seed") as caught:
        found = fit.private_threshold(frame, seed=1)
    assert caught[0].filename == __file__
    assert isinstance(found.guarantee, NonPrivate)


@pytest.mark.parametrize("y", [0.0, 1.0, np.nan])
def test_one_class_takes_the_same_path(fit, frame, y):
    assert 0 < float(fit.private_threshold(frame.assign(y=y), eps=0.5)) < 1


def test_a_rho_buys_the_pure_epsilon_that_implies_it(fit, frame):
    ledger = Ledger(10.0, 1e-6)
    found = fit.private_threshold(frame, ZCDP(0.1), ledger=ledger)
    assert found.guarantee == ZCDP(0.1)
    assert ledger.entries[-1].guarantee == ZCDP(0.1)
    bought = found.calibration.target
    assert to_zcdp(bought).rho == pytest.approx(0.1)
    assert implies(bought, ZCDP(0.1))
    assert not implies(PureDP(bought.epsilon * 1.001), ZCDP(0.1))


def test_wrong_arguments_are_refused(fit, frame):
    with pytest.raises(ArgumentError, match="rule"):
        fit.private_threshold(frame, rule="best")
    with pytest.raises(GuaranteeError, match="no use for a delta"):
        fit.private_threshold(frame, ApproxDP(1.0, 1e-6))
    with pytest.raises(GuaranteeError, match="two"):
        fit.private_threshold(frame[:1])
