"""A promise with a delta or rho that pure stages imply, where these have less noise."""

import numpy as np
import pandas as pd
import pytest
from frames_for_laws import clinic, own_stages

from privatelr import (
    ZCDP,
    ApproxDP,
    Ledger,
    PureDP,
    audit,
    dplr,
    dpsvm,
    implies,
    load,
    plan,
    to_zcdp,
)
from privatelr.results.release_files.restored_fit import is_implied

FORMULA = "y ~ age + dose + smoker + city"
SCHEMA = {
    "bounds": {"age": (18, 90), "dose": (-1, 9)},
    "levels": {"smoker": ["no", "yes"], "city": list("abcd")},
}
TARGETS = [ApproxDP(0.3, 1e-6), ZCDP(0.01)]


def people(n=20_000):
    cities = np.random.default_rng(1).choice(list("abcd"), n)
    return clinic(n, 1).assign(city=cities)


def fitted(model, target, **options):
    return model(FORMULA, people(), target, **SCHEMA, **options)


@pytest.mark.parametrize("model", [dplr, dpsvm])
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_stages_are_pure_and_imply_the_promise(model, target, tmp_path):
    ledger = Ledger(2.0, 1e-6)
    fit = fitted(model, target, ledger=ledger)
    assert 0 < ledger.spent() < 2.0
    stages = [fit.release.scale.calibration, fit.calibration]
    assert all(isinstance(stage.target, PureDP) for stage in stages)
    total = PureDP(sum(stage.target.epsilon for stage in stages))
    assert fit.guarantee == target
    assert implies(PureDP(total.epsilon * (1 - 1e-12)), target)
    assert "delta" in str(fit) or "rho" in str(fit)
    fit.save(tmp_path / "fit.json")
    again = load(tmp_path / "fit.json")
    assert again.guarantee == target
    pd.testing.assert_series_equal(again.coef, fit.coef)
    frame = people()
    other = frame.assign(age=[89.0, *frame["age"][1:]])
    assert audit.privacy_loss(fit, frame, other).holds


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_their_noise_is_less_than_that_of_stages_of_its_own(monkeypatch, target):
    def noise():
        study = plan(FORMULA, 20_000, target, spend=None, **SCHEMA)
        return study.to_frame()["privacy_sd"][1:]

    pure = noise()
    own_stages(monkeypatch)
    assert (pure < 0.9 * noise()).all()


def test_beside_inference_stages_are_of_the_promise():
    for target in TARGETS:
        fit = fitted(dplr, target, spend="inference")
        assert isinstance(fit.release.scale.calibration.target, ZCDP)


def test_a_delta_is_used_where_columns_are_many():
    n = 50_000
    bounds = {f"x{at}": (-1, 1) for at in range(60)}
    study = plan(f"y ~ {' + '.join(bounds)}", n, 0.5, delta=1e-6, bounds=bounds, spend=None)
    assert isinstance(study.calibration.scale.target, ZCDP)


def test_a_file_of_less_than_its_promise_is_refused():
    fit = fitted(dplr, ZCDP(0.01))
    total = fit.calibration.target.epsilon + fit.release.scale.calibration.target.epsilon
    assert to_zcdp(PureDP(total)).rho == pytest.approx(0.01, rel=1e-9)
    assert is_implied(ZCDP(0.01), PureDP(total))
    assert not is_implied(ZCDP(0.009), PureDP(total))
    assert not is_implied(ApproxDP(total / 2, 1e-6), PureDP(total))
    assert not is_implied(PureDP(total), PureDP(total))
