"""Law 19: a standard error is a function of releases only, and it is what the noise does.

What this version prints is the part of the noise, `privacy_sd`; it is free because it does not
look at the data.
"""

from dataclasses import replace

import numpy as np
import pytest
from frames_for_laws import clinic, fit_clinic, fixed_noise, replaced

import privatelr.results.record
from privatelr.frames.design import read_design
from privatelr.numerics.objective import Objective, hessian
from privatelr.numerics.rows import DenseRows


def check_same_errors(frames, errors=lambda fit, frame: fit.privacy_sd, **options):
    found = [errors(fit_clinic(frame, **options), frame) for frame in frames]
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def frames():
    return [clinic(), replaced(clinic(), 0, age=89.0, y=1.0), clinic(seed=5).assign(dose=5.0)]


@pytest.mark.parametrize("options", [{}, {"op": False}, {"delta": 1e-6}], ids=str)
def test_law(monkeypatch, options):
    with fixed_noise(monkeypatch):
        check_same_errors(frames(), **options)


def test_planted_bug_is_caught():
    """The Hessian of the data, unpaid, as in dp-statsmodels."""

    def from_hessian(fit, frame):
        rows = read_design(fit.spec, frame, DenseRows).rows
        problem = fit.calibration.problem
        objective = Objective(rows, problem.loss, problem.lambda_, np.zeros(rows.d))
        curvature = rows.n * hessian(objective, fit.release.coef)
        return np.sqrt(np.diag(np.linalg.inv(curvature)))

    with pytest.raises(AssertionError):
        check_same_errors(frames(), errors=from_hessian)


def check_coverage(lower, upper, **options):
    """Among fits of one frame, what the noise moves a coefficient by, in its own errors."""
    frame = clinic(n=60)
    plain = fit_clinic(frame, eps=0, op=False, lambda_=0.5).coef
    fits = [fit_clinic(frame, lambda_=0.5, **options) for _ in range(300)]
    moved = np.array([(fit.coef - plain) / fit.privacy_sd for fit in fits])
    within = (abs(moved) <= 1.96).mean(axis=0)
    assert (within >= lower).all()
    assert (within <= upper).all()


def test_errors_of_output_noise_cover():
    # 300 fits: one standard error of the share is 0.013
    check_coverage(0.90, 0.99, op=False, delta=1e-6)


def test_errors_of_objective_noise_are_an_upper_limit():
    frame = clinic(n=60)
    fits = np.array([fit_clinic(frame, lambda_=0.5).coef for _ in range(300)])
    limit = fit_clinic(frame, lambda_=0.5).privacy_sd
    assert (fits.std(axis=0) <= limit * 1.1).all()


def test_planted_small_errors_are_caught(monkeypatch):
    honest = privatelr.results.record.FitRecord.privacy_sd.fget
    monkeypatch.setattr(
        privatelr.results.record.FitRecord, "privacy_sd", property(lambda fit: honest(fit) / 2)
    )
    with pytest.raises(AssertionError):
        check_coverage(0.90, 0.99, op=False, delta=1e-6)


def test_the_error_is_of_the_release_alone():
    fit = fit_clinic(clinic())
    blank = replace(fit, release=replace(fit.release, coef=np.zeros(4)), _diagnostics=None)
    np.testing.assert_array_equal(blank.privacy_sd, fit.privacy_sd)
