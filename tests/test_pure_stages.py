"""A promise with a delta or rho that pure stages imply, where these have less noise."""

import math
import re

import numpy as np
import pandas as pd
import pytest
from frames_for_laws import clinic, own_stages

import privatelr.method
from privatelr import (
    ZCDP,
    ApproxDP,
    Ledger,
    PureDP,
    ReleaseFileError,
    audit,
    dplr,
    dpsvm,
    implies,
    load,
    plan,
    to_zcdp,
)
from privatelr.mechanisms import read_request
from privatelr.mechanisms.stages.scale import is_worth_it
from privatelr.method import perturbation
from privatelr.numerics import LOSSES
from privatelr.planning.make_plan import formula_design
from privatelr.privacy.noise import SphericalLaplace, log_delta_beside_pure
from privatelr.results.release_files.file_entries import require_standing
from privatelr.sources import declare_schema

FORMULA = "y ~ age + dose + smoker + city"
SCHEMA = {
    "bounds": {"age": (18, 90), "dose": (-1, 9)},
    "levels": {"smoker": ["no", "yes"], "city": list("abcd"), "y": [0, 1]},
}
TARGETS = [ApproxDP(0.3, 1e-6), ZCDP(0.01)]


def people(n=20_000):
    cities = np.random.default_rng(1).choice(list("abcd"), n)
    return clinic(n, 1).assign(city=cities)


def fitted(model, target, **options):
    return model(FORMULA, people(), target, **SCHEMA, **options)


@pytest.mark.parametrize(("model", "target"), [(dplr, TARGETS[0]), (dpsvm, TARGETS[1])])
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
def test_errors_are_smaller_than_with_stages_of_its_own(monkeypatch, target):
    def error():
        study = plan(FORMULA, 20_000, target, spend=None, **SCHEMA)
        return np.exp(np.log(study.to_frame()["std_error"][1:]).mean())

    pure = error()
    own_stages(monkeypatch)
    assert pure < 0.95 * error()


def test_beside_inference_stages_are_of_the_promise():
    for target in TARGETS:
        fit = fitted(dplr, target, spend="inference")
        assert isinstance(fit.release.scale.calibration.target, ZCDP)


def test_a_delta_is_used_where_columns_are_many():
    n = 50_000
    bounds = {f"x{at}": (-1, 1) for at in range(60)}
    study = plan(f"y ~ {' + '.join(bounds)}", n, 0.5, delta=1e-6, bounds=bounds, spend=None)
    assert isinstance(study.calibration.scale.target, ZCDP)


NUMBERS = {f"x{at}": (0, 1) for at in range(10)}
FACTORS = {f"f{at}": list("abcdefgh") for at in range(8)}
OVERTAKING = {
    "numbers": (10_000, NUMBERS, {}, "logistic", (0.06, 0.3)),
    "few numbers": (47_600, dict(list(NUMBERS.items())[:8]), {}, "softplus", (0.01, 0.05)),
    "factors": (36_000, dict(list(NUMBERS.items())[:6]), FACTORS, "logistic", (0.01, 0.2)),
}
"""Tables where, as epsilon rises, ways to pay for the scale overtake each other that have less and
more noise on it."""
RISING_RHO = {
    "three levels": (list("uvw"), 50, (0.5, 30.0)),
    "many levels": (list("abcdefghij"), 200, (0.9, 9.0)),
}
"""Levels of a factor next to two numbers, and records, with which the same goes for rho."""


@pytest.mark.parametrize("name", OVERTAKING)
def test_a_scale_that_is_released_is_released_at_every_larger_epsilon(name):
    n, bounds, levels, loss, (low, high) = OVERTAKING[name]
    schema = declare_schema(bounds, levels)
    spec = formula_design(f"y ~ {' + '.join([*bounds, *levels])}", schema, None)
    found = []
    for epsilon in np.geomspace(low, high, 16):
        asked = read_request(epsilon, 1e-6, None, None, True, None, "increase")
        scaled = perturbation(LOSSES[loss], asked, schema, None).standardised(spec, n)
        found.append(scaled is not None)
        if scaled is not None:
            assert is_worth_it(scaled[1].scale, has_intervals=False)
            assert scaled[1].target == ApproxDP(epsilon, 1e-6)
    assert found == sorted(found)
    assert found[-1]
    assert not found[0]


def check_rising_rho(name):
    levels, n, (low, high) = RISING_RHO[name]
    schema = declare_schema({"x0": (0, 1), "x1": (0, 1)}, {"f": levels})
    spec, found = formula_design("y ~ x0 + x1 + f", schema, None), []
    for rho in np.geomspace(low, high, 16):
        asked = read_request(ZCDP(float(rho)), 0.0, None, None, True, None, "increase")
        method = perturbation(LOSSES["logistic"], asked, schema, None)
        found.append(method.standardised(spec, n) is not None)
    assert found == sorted(found)
    assert found[-1]
    assert not found[0]


@pytest.mark.parametrize("name", RISING_RHO)
def test_a_scale_that_is_released_is_released_at_every_larger_rho(name):
    check_rising_rho(name)


@pytest.mark.parametrize("name", RISING_RHO)
def test_planted_comparison_at_each_rho_is_caught(monkeypatch, name):
    monkeypatch.setattr(privatelr.method, "deciding_price", lambda facts, target: target)
    with pytest.raises(AssertionError):
        check_rising_rho(name)


def test_the_page_tells_laplace_noise_beside_gaussian_stages_by_its_epsilon(monkeypatch):
    """And these numbers compose to the promise."""
    own_stages(monkeypatch)
    fit = dplr(
        "y ~ age + dose", people(), delta=1e-6, bounds=SCHEMA["bounds"], levels={"y": [0, 1]}
    )
    assert isinstance(fit.calibration.noise, SphericalLaplace)
    page = " ".join(str(fit).split())
    told = re.search(
        r"scale by Gaussian noise of mu = (\S+), lengths by the exponential mechanism of "
        r"epsilon = (\S+), coefficients by Laplace noise of epsilon = (\S+), composed exactly",
        page,
    )
    mu, length, epsilon = map(float, told.groups())
    told_delta = math.exp(log_delta_beside_pure(1.0, length + epsilon, mu))
    assert told_delta == pytest.approx(1e-6, rel=0.1)


def test_the_page_says_that_gaussian_stages_share_a_delta():
    many = {f"x{at}": (-1, 1) for at in range(60)}
    study = plan(f"y ~ {' + '.join(many)}", 50_000, 0.5, delta=1e-6, bounds=many, spend=None)
    words = "coefficients by Gaussian noise with what is left, composed exactly: spend='inference'"
    assert words in " ".join(str(study).split())


def test_a_file_of_less_than_its_promise_is_refused():
    fit = fitted(dplr, ZCDP(0.01))
    parts = [fit.calibration, *(part.calibration for part in fit.release.parts.values())]
    total = math.fsum(part.target.epsilon for part in parts)
    assert to_zcdp(PureDP(total)).rho == pytest.approx(0.01, rel=1e-9)
    require_standing(ZCDP(0.01), PureDP(total))
    for stronger in (ZCDP(0.009), ApproxDP(total / 2, 1e-6), PureDP(total / 2)):
        with pytest.raises(ReleaseFileError, match="the noise was made for"):
            require_standing(stronger, PureDP(total))
