"""What is checked where rows and calibration meet."""

import numpy as np
import pytest
from frames_for_laws import clinic, fit_clinic, fixed_noise

from privatelr import ZCDP, ApproxDP, ArgumentError, NotConvergedError
from privatelr.numerics.solve import Minimum, Newton


def liar(objective):
    return Minimum(np.full(objective.rows.d, 9.0), 0.0)


def hopeless(objective):
    raise ArithmeticError(f"{objective.rows.n} rows")


@pytest.mark.parametrize("op", [True, False])
@pytest.mark.parametrize("target", [1.0, ZCDP(0.1), ApproxDP(1.0, 1e-6)], ids=str)
@pytest.mark.parametrize("solver", [liar, hopeless, Newton(max_iterations=1)])
def test_a_solver_that_fails_changes_nothing(monkeypatch, op, target, solver):
    """The certificate is checked on the rows; where it fails, a slower method goes on."""
    with fixed_noise(monkeypatch):
        fits = [
            fit_clinic(clinic(n=200), eps=target, op=op, lambda_=1e-2, solver=used)
            for used in (Newton(), solver)
        ]
    reach = fits[0].calibration.distance + fits[0].calibration.grid * len(fits[0].coef)
    first, second = (fit.release.coef for fit in fits)
    assert np.linalg.norm(first - second) <= reach


@pytest.mark.parametrize("op", [True, False])
def test_the_plain_fit_says_that_a_solver_failed(op):
    """It promises nothing, so it may speak of the data."""
    for solver in (liar, Newton(max_iterations=1)):
        with pytest.raises(NotConvergedError, match="nothing was released"):
            fit_clinic(clinic(n=200), eps=0, op=op, solver=solver, lambda_=1e-3)


def test_another_honest_solver_is_welcome():
    def patient(objective):
        return Newton(tolerance=1e-13)(objective)

    fit = fit_clinic(clinic(), eps=0, solver=patient)
    np.testing.assert_allclose(fit.coef, fit_clinic(clinic(), eps=0).coef, rtol=1e-6)


def test_the_class_in_place_of_a_solver():
    """Calling it would make a tolerance of the objective, noise included."""
    with pytest.raises(ArgumentError, match=r"such as Newton\(\)"):
        fit_clinic(clinic(), solver=Newton)


@pytest.mark.parametrize("eps", [1e-9, 1e-6, 1e-3, 1e4])
@pytest.mark.parametrize("analysis", ["joint", "one-log", "cms11"])
def test_the_ends_of_the_range_of_epsilon(eps, analysis):
    for op in (True, False):
        for lambda_ in (None, "free", "PrivateLR", 1e-15, 1e6):
            fit = fit_clinic(clinic(), eps=eps, analysis=analysis, op=op, lambda_=lambda_)
            assert np.isfinite(fit.coef).all()


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_the_ends_of_the_range_of_lengths(scale):
    for options in ({"intercept_scale": scale}, {"row_norm": scale, "bounds": None}):
        assert np.isfinite(fit_clinic(clinic(), **options).coef).all()


@pytest.mark.parametrize("op", [True, False])
def test_a_solver_cannot_change_what_is_certified(monkeypatch, op):
    """It gets an objective of its own; the certificate is about ours."""

    def meddling(objective):
        object.__setattr__(objective, "lambda_", 1e-9)
        return Newton()(objective)

    with fixed_noise(monkeypatch):
        fits = [
            fit_clinic(clinic(n=200), eps=9999.0, lambda_=0.1, op=op, solver=solver)
            for solver in (Newton(), meddling)
        ]
    np.testing.assert_allclose(fits[0].release.coef, fits[1].release.coef, atol=1e-6)
