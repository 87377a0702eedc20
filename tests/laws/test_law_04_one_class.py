"""Law 4: data with one class takes the same path: noise is added, nothing is raised or warned."""

from dataclasses import replace

import numpy as np
import pytest
from frames_for_laws import MODELS, clinic, fit_clinic, require_fresh

from privatelr import ZCDP, ApproxDP, PureDP, choose
from privatelr.mechanisms import MECHANISMS, Mechanism, Release, stages


def check_one_class(value, **options):
    frame = clinic().assign(y=value)
    fits = first, second, _ = [fit_clinic(frame, **options) for _ in range(3)]
    assert np.isfinite(first.coef).all()
    require_fresh([fit.coef for fit in fits])
    moments = first.release.moments, second.release.moments
    assert (moments[0] is None) == ("spend" not in options)
    if moments[0] is not None:
        assert np.isfinite(moments[0].values).all()
        assert np.count_nonzero(moments[0].values == moments[1].values) < 5  # of twenty
    str(first)
    first.predict(frame, type="classes")


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize("op", [True, False])
@pytest.mark.parametrize("threshold", ["fixed", "youden", "topleft"])
def test_law(model, value, op, threshold):
    check_one_class(value, model=model, op=op, threshold=threshold)


@pytest.mark.parametrize("name", ["dplr", "dpsvm", "softplus"])
@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize("op", [True, False])
@pytest.mark.parametrize("target", [ZCDP(0.1), ApproxDP(1.0, 1e-6)], ids=str)
def test_law_under_every_guarantee(name, value, op, target):
    check_one_class(value, model=MODELS[name], op=op, eps=target)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [0.0, 1.0, np.nan])
@pytest.mark.parametrize("score", ["auc", "accuracy", "brier"])
def test_law_of_answers(value, score):
    frame, fit = clinic().assign(y=value), fit_clinic(clinic())
    bought = fit_clinic(frame, spend={"coefficients": 0.75, "roc": 0.25}, threshold="youden")
    for answer in (bought.roc, fit.private_roc(frame, eps=0.2), bought):
        assert str(answer)
    assert len(bought.predict(frame, "classes")) == len(frame)
    assert choose({"a": fit, "b": fit}, frame, eps=0.5, score=score).label in "ab"


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize("target", [1.0, ZCDP(0.1), ApproxDP(1.0, 1e-6)], ids=str)
def test_law_of_moments(model, value, target):
    check_one_class(value, model=model, eps=target, spend="inference")


def test_planted_moments_of_one_class_are_caught(monkeypatch):
    """Standard errors are not defined for one class, says other software, and returns zeros."""
    honest = stages.matrices.release_moments

    def shortcut(rows, coef, calibration, noise, units):
        released = honest(rows, coef, calibration, noise, units)
        return replace(released, values=released.values * (len(set(rows.y)) > 1))

    monkeypatch.setattr(stages.matrices, "release_moments", shortcut)
    with pytest.raises(AssertionError):
        check_one_class(1, spend="inference")


@pytest.mark.parametrize("model", [MODELS["dplr"], MODELS["dpsvm"]], ids=["dplr", "dpsvm"])
@pytest.mark.parametrize("op", [True, False])
@pytest.mark.parametrize("target", [PureDP(1.0), ZCDP(0.1), ApproxDP(1.0, 1e-6)], ids=str)
def test_planted_bug_is_caught(monkeypatch, model, op, target):
    """A fixed answer for one class, as PrivateLR gives, shows which class it was."""
    key = ("objective" if op else "output", type(target))
    honest = MECHANISMS[key]

    def shortcut(rows, calibration, draws, solver):
        if len(set(rows.y)) == 1:
            return Release(np.zeros(rows.d), calibration.target, calibration)
        return honest.release(rows, calibration, draws, solver)

    monkeypatch.setitem(MECHANISMS, key, Mechanism(honest.calibrate, shortcut))
    with pytest.raises(AssertionError):
        check_one_class(1, model=model, op=op, eps=target)
