"""Law 19: a standard error is a function of releases only, and it is what the noise does.

The part of the noise, `privacy_sd`, is free because it does not look at the data. The whole is
bought with the moments, and a function of what was bought.
"""

from dataclasses import replace
from operator import attrgetter

import numpy as np
import pytest
from frames_for_laws import MODELS, clinic, fit_clinic, fixed_noise, replaced

import privatelr.results.fit_record
from privatelr import Newton
from privatelr.design import read_design
from privatelr.mechanisms import MECHANISMS, draw
from privatelr.numerics import Objective, hessian
from privatelr.numerics.rows import DenseRows
from privatelr.privacy.noise import SystemRandomness
from privatelr.sources import as_batch

EVERY_MODEL = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def check_same_errors(frames, errors=lambda fit, frame: fit.privacy_sd, **options):
    found = [errors(fit_clinic(frame, **options), frame) for frame in frames]
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def frames():
    return [clinic(), replaced(clinic(), 0, age=89.0, y=1.0), clinic(seed=5).assign(dose=5.0)]


@EVERY_MODEL
@pytest.mark.parametrize("options", [{}, {"op": False}, {"delta": 1e-6}], ids=str)
def test_law(monkeypatch, options, model):
    with fixed_noise(monkeypatch):
        for errors in ("privacy_sd", "privacy_sd_limit", "privacy_sd_expected"):
            of_fit = attrgetter(errors)
            check_same_errors(
                frames(), lambda fit, frame, of_fit=of_fit: of_fit(fit), model=model, **options
            )


@EVERY_MODEL
def test_planted_bug_is_caught(model):
    """The Hessian of the data, unpaid, as in dp-statsmodels."""

    def from_hessian(fit, frame):
        rows = read_design(fit.spec, as_batch(frame), DenseRows)
        problem = fit.calibration.problem
        objective = Objective(rows, problem.loss, problem.lambda_, np.zeros(rows.d))
        curvature = rows.n * hessian(objective, fit.release.coef)
        return np.sqrt(np.diag(np.linalg.inv(curvature)))

    with pytest.raises(AssertionError):
        check_same_errors(frames(), errors=from_hessian, model=model, lambda_=0.05, eps=50)


def released(frame, count=300, **options):
    """A fit, and the coefficients of many releases under its calibration."""
    fit = fit_clinic(frame, lambda_=0.5, **options)
    rows = read_design(fit.spec, as_batch(frame), DenseRows)
    calibration = fit.calibration
    release = MECHANISMS[calibration.placement, type(calibration.target)].release
    found = [
        release(rows, calibration, draw(calibration, SystemRandomness()), Newton()).coef
        for _ in range(count)
    ]
    return fit, np.array(found) @ fit.spec.user_map().T


def check_coverage(lower, upper, **options):
    """Among releases on one frame, what noise moves a coefficient by, in its own errors."""
    frame = clinic(n=60)
    plain = fit_clinic(frame, **{**options, "eps": 0, "delta": 0}, lambda_=0.5).coef
    fit, coefs = released(frame, count=600, **options)
    moved = (coefs - plain.to_numpy()) / fit.privacy_sd.to_numpy()
    within = (abs(moved) <= 1.96).mean(axis=0)
    assert (within >= lower).all()
    assert (within <= upper).all()


@pytest.mark.slow
@pytest.mark.parametrize("model", [MODELS["dplr"], MODELS["dpsvm"]], ids=["dplr", "dpsvm"])
def test_errors_of_output_noise_cover(model):
    # 600 releases: one standard error of the share is 0.009
    check_coverage(0.90, 0.99, op=False, delta=1e-6, model=model)


@pytest.mark.parametrize("model", [MODELS["dplr"], MODELS["dpsvm"]], ids=["dplr", "dpsvm"])
def test_errors_of_objective_noise_are_an_upper_limit(model):
    fit, coefs = released(clinic(n=60), model=model)
    assert (coefs.std(axis=0) <= fit.privacy_sd.to_numpy() * 1.1).all()


@pytest.mark.slow
def test_planted_small_errors_are_caught(monkeypatch):
    honest = privatelr.results.fit_record.FitRecord.privacy_sd.fget
    monkeypatch.setattr(
        privatelr.results.fit_record.FitRecord, "privacy_sd", property(lambda fit: honest(fit) / 2)
    )
    with pytest.raises(AssertionError):
        check_coverage(0.90, 0.99, op=False, delta=1e-6)


def test_the_error_is_of_the_release_alone():
    fit = fit_clinic(clinic())
    blank = replace(fit, release=replace(fit.release, coef=np.zeros(4)), _diagnostics=None)
    np.testing.assert_array_equal(blank.privacy_sd, fit.privacy_sd)


def check_errors_of_the_release(fit, other, errors):
    """What another fit says once it carries this release, and the map of its released scale."""
    carried = replace(other, release=fit.release, spec=fit.spec)
    np.testing.assert_array_equal(errors(carried), errors(fit))


@pytest.mark.slow
@EVERY_MODEL
@pytest.mark.parametrize("options", [{}, {"op": False}, {"delta": 1e-6}], ids=str)
def test_law_of_errors_that_were_bought(options, model):
    options = {"model": model, "spend": "inference", "eps": 20, **options}
    fit, other = (fit_clinic(frame, **options) for frame in frames()[:2])
    for errors in (lambda fit: fit.conf_int(), lambda fit: fit.tidy()[["estimate", "privacy_sd"]]):
        check_errors_of_the_release(fit, other, errors)
        assert not np.array_equal(errors(other), errors(fit))


def test_planted_errors_of_the_training_data_are_caught(monkeypatch):
    """An error that is scaled by the C-index of the fit, which nobody paid for."""
    with fixed_noise(monkeypatch):
        fit, other = (fit_clinic(frame, spend="inference", eps=20) for frame in frames()[::2])
    assert other.diagnostics.c_index != fit.diagnostics.c_index
    with pytest.raises(AssertionError):
        check_errors_of_the_release(
            fit, other, lambda fit: fit.conf_int() * fit.diagnostics.c_index
        )
