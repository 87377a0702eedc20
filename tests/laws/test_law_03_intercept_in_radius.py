"""Law 3: the radius includes the intercept column, and the intercept is regularised."""

import numpy as np
import pytest
from frames_for_laws import MODELS, clinic, fit_clinic

from privatelr import Newton
from privatelr.design import DesignSpec, read_design
from privatelr.mechanisms import Problem, calibrate, perturbation, read_request
from privatelr.numerics import LOSSES
from privatelr.numerics.rows import DenseRows
from privatelr.sources import as_batch


def check_radius(**options):
    frame = clinic()
    fit = fit_clinic(frame, **options)
    rows = read_design(fit.spec, as_batch(frame), DenseRows)
    longest = np.linalg.norm(rows.x, axis=1).max()
    assert longest <= fit.calibration.problem.radius
    assert rows.radius <= fit.calibration.problem.radius


@pytest.mark.parametrize("scale", [0.25, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("row_norm", [None, 0.5])
def test_law(scale, row_norm):
    check_radius(intercept_scale=scale, row_norm=row_norm)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_law_of_every_model(model):
    check_radius(intercept_scale=4.0, model=model)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_the_intercept_is_regularised(model):
    """One class only: an unregularised intercept would run away; ours shrinks in lambda."""
    frame = clinic().assign(y=True)
    intercepts = [
        model("y ~ 1", frame, eps=0, lambda_=lambda_).coef["(Intercept)"]
        for lambda_ in (1e-3, 1e-1, 10.0)
    ]
    assert np.isfinite(intercepts).all()
    assert intercepts[0] > intercepts[1] > intercepts[2] > 0


def test_planted_bug_is_caught(monkeypatch):
    """A radius of the covariates alone is refused where rows and calibration meet."""
    monkeypatch.setattr(DesignSpec, "radius", property(lambda self: self.bound))
    with pytest.raises(ValueError, match="longer than the radius"):
        check_radius()


def test_planted_bug_in_the_rows_is_caught(monkeypatch):
    """Rows that hide their intercept from the check are still caught by their length."""
    original = DenseRows._put

    def understated(self, x, y, limits):
        made = original(self, x, y, limits)
        object.__setattr__(made, "radius", limits.bound)
        return made

    monkeypatch.setattr(DesignSpec, "radius", property(lambda self: self.bound))
    monkeypatch.setattr(DenseRows, "_put", understated)
    with pytest.raises(AssertionError):
        check_radius(intercept_scale=4.0)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_a_calibration_for_shorter_rows_is_refused(loss):
    frame = clinic()
    fit = fit_clinic(frame)
    facts = Problem(len(frame), fit.spec.d, loss, fit.spec.radius * 0.99)
    small = calibrate(read_request(1.0, 0, None, None, True, None, "increase"), facts)
    rows = read_design(fit.spec, as_batch(frame), DenseRows)
    with pytest.raises(ValueError, match="longer than the radius"):
        perturbation.release_minimiser(rows, small, np.zeros(rows.d), Newton())
