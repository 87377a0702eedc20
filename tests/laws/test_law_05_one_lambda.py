"""Law 5: the lambda of the objective is the lambda of the noise; eps = 0 is the plain fit."""

from dataclasses import replace

import numpy as np
import pytest
from frames_for_laws import ONE_STAGE, FixedRandomness, clinic, fit_clinic, fixed_noise
from scipy import optimize

from privatelr.design import read_design
from privatelr.mechanisms import MECHANISMS, Mechanism, perturbation
from privatelr.mechanisms import perturbation as objective
from privatelr.mechanisms.calibration import output_sensitivity
from privatelr.numerics.rows import DenseRows
from privatelr.privacy import PureDP
from privatelr.privacy.noise import FloatDraw
from privatelr.sources import as_batch


def logistic(z):
    return np.logaddexp(0, -z), -1 / (1 + np.exp(z))


def huber(h):
    def loss(z):
        bent = (1 + h - z) ** 2 / (4 * h)
        value = np.select([z > 1 + h, z < 1 - h], [0.0, 1 - z], bent)
        return value, np.select([z > 1 + h, z < 1 - h], [0.0, -1.0], (z - 1 - h) / (2 * h))

    return loss


def softplus(z):
    return 0.5 * np.log1p(np.exp(2 * (1 - z))), -1 / (1 + np.exp(2 * (z - 1)))


FORMULAS = {"dplr": logistic, "dpsvm": huber(0.5), "narrow": huber(0.1), "softplus": softplus}
"""Value and slope of the loss of each model, written down again."""
EVERY_MODEL = pytest.mark.parametrize("name", ONE_STAGE)


def plain_minimiser(x, y, lambda_, tilt, name="dplr"):
    """The same problem written down again and handed to SciPy."""

    def objective(w):
        return FORMULAS[name](y * (x @ w))[0].mean() + lambda_ / 2 * w @ w + tilt @ w

    def slope(w):
        return (y * FORMULAS[name](y * (x @ w))[1]) @ x / len(y) + lambda_ * w + tilt

    start = np.zeros(x.shape[1])
    found = optimize.minimize(objective, start, jac=slope, method="BFGS", options={"gtol": 1e-12})
    return optimize.root(slope, found.x, tol=1e-14).x


def check_one_lambda(monkeypatch, name="dplr"):
    """The released coefficients minimise the objective of the lambda that is reported."""
    frame = clinic()
    with fixed_noise(monkeypatch):
        fit = fit_clinic(frame, model=ONE_STAGE[name], lambda_=0.7)
        again = fit_clinic(frame, model=ONE_STAGE[name], lambda_=0.7)
        noise = FixedRandomness().draw(fit.calibration.noise).nearest()
        shield = FixedRandomness().draw(fit.calibration.shield).nearest()
    rows = read_design(fit.spec, as_batch(frame), DenseRows)
    expected = plain_minimiser(rows.x, rows.y, fit.calibration.lambda_, noise / rows.n, name)
    np.testing.assert_array_equal(fit.coef, again.coef)
    np.testing.assert_allclose(fit.release.coef, expected + shield, atol=1e-7)


def check_output_noise(monkeypatch, name="dplr"):
    """The released coefficients are the plain fit plus one draw of the calibrated noise."""
    frame = clinic()
    with fixed_noise(monkeypatch):
        fit = fit_clinic(frame, model=ONE_STAGE[name], lambda_=0.7, op=False)
    calibration = fit.calibration
    noise = FixedRandomness().draw(calibration.noise).nearest()
    reach = output_sensitivity(calibration.problem, calibration.tau)
    assert calibration.noise.rate == pytest.approx(1.0 / reach, rel=1e-14)
    assert calibration.noise.rate <= 1.0 / reach
    plain = fit_clinic(frame, model=ONE_STAGE[name], eps=0, lambda_=0.7, op=False)
    found = fit.release.coef - plain.release.coef
    np.testing.assert_allclose(found, noise, rtol=1e-9, atol=calibration.grid)


@EVERY_MODEL
def test_law(monkeypatch, name):
    check_one_lambda(monkeypatch, name)
    check_output_noise(monkeypatch, name)


@EVERY_MODEL
@pytest.mark.parametrize("op", [True, False])
@pytest.mark.parametrize("lambda_", [1e-3, 0.1, 5.0])
def test_no_privacy_is_the_plain_fit(name, op, lambda_):
    frame = clinic(n=200)
    fit = fit_clinic(frame, model=ONE_STAGE[name], eps=0, op=op, lambda_=lambda_)
    rows = read_design(fit.spec, as_batch(frame), DenseRows)
    expected = plain_minimiser(rows.x, rows.y, lambda_, np.zeros(rows.d), name)
    np.testing.assert_allclose(fit.release.coef, expected, atol=1e-8)


@EVERY_MODEL
def test_large_epsilon_tends_to_the_plain_fit(name):
    frame = clinic(n=400)
    plain = fit_clinic(frame, model=ONE_STAGE[name], eps=0, lambda_=0.01)
    for op in (True, False):
        near = fit_clinic(frame, model=ONE_STAGE[name], eps=9999.0, lambda_=0.01, op=op)
        np.testing.assert_allclose(near.coef, plain.coef, atol=0.05)


@EVERY_MODEL
def test_coefficients_shrink_in_lambda(name):
    frame = clinic(n=200)
    options = {"model": ONE_STAGE[name], "eps": 0}
    lengths = [
        np.linalg.norm(fit_clinic(frame, lambda_=lambda_, **options).release.coef)
        for lambda_ in (1e-4, 1e-2, 1.0, 100.0)
    ]
    assert lengths == sorted(lengths, reverse=True)


@EVERY_MODEL
def test_planted_output_noise_is_caught(monkeypatch, name):
    """Noise a tenth too small."""

    def meagre(rows, calibration, draws, solver):
        less = FloatDraw(0.9 * draws.noise.nearest())
        return perturbation.release_minimiser(rows, calibration, replace(draws, noise=less), solver)

    key = ("output", PureDP)
    monkeypatch.setitem(MECHANISMS, key, Mechanism(MECHANISMS[key].calibrate, meagre))
    with pytest.raises(AssertionError):
        check_output_noise(monkeypatch, name)


@EVERY_MODEL
def test_planted_bug_is_caught(monkeypatch, name):
    """Another lambda in the objective than in the noise, as in DPpack."""

    def mismatched(rows, calibration, draws, solver):
        problem = replace(calibration.problem, lambda_=calibration.lambda_ / rows.n)
        broken = replace(calibration, problem=problem)
        return replace(
            objective.release_minimiser(rows, broken, draws, solver), calibration=calibration
        )

    key = ("objective", PureDP)
    monkeypatch.setitem(MECHANISMS, key, Mechanism(MECHANISMS[key].calibrate, mismatched))
    with pytest.raises(AssertionError):
        check_one_lambda(monkeypatch, name)


@EVERY_MODEL
def test_lambda_zero_without_privacy_is_allowed_and_with_privacy_is_raised(name):
    frame, model = clinic(n=200), ONE_STAGE[name]
    assert fit_clinic(frame, model=model, eps=0, lambda_=0).calibration.lambda_ == 0
    assert fit_clinic(frame, model=model, lambda_=0).calibration.lambda_ > 0
    with pytest.raises(ValueError, match="lambda_=0"):
        fit_clinic(frame, model=model, lambda_=0, op=False)
    with pytest.raises(ValueError, match="too small"):
        model("y ~ age", frame, lambda_=0, on_small_lambda="keep", levels={"y": [0, 1]})
