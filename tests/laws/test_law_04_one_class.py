"""Law 4: data with one class takes the same path: noise is added, nothing is raised or warned."""

import numpy as np
import pytest
from frames_for_laws import clinic, fit_clinic

import privatelr.mechanisms.objective
from privatelr.mechanisms.release import Release


def check_one_class(value, **options):
    frame = clinic().assign(y=value)
    first, second = (fit_clinic(frame, **options) for _ in range(2))
    assert np.isfinite(first.coef).all()
    assert (first.coef != second.coef).all()
    str(first)
    first.predict(frame, type="classes")


@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize("op", [True, False])
@pytest.mark.parametrize("threshold", ["fixed", "youden", "topleft"])
def test_law(value, op, threshold):
    check_one_class(value, op=op, threshold=threshold)


def test_planted_bug_is_caught(monkeypatch):
    """A fixed answer for one class, as PrivateLR gives, shows which class it was."""
    honest = privatelr.mechanisms.objective.release

    def shortcut(rows, calibration, noise, solver):
        if len(set(rows.y)) == 1:
            return Release(np.zeros(rows.d), calibration.target, calibration)
        return honest(rows, calibration, noise, solver)

    from privatelr.mechanisms.registry import MECHANISMS, Mechanism
    from privatelr.privacy.guarantees import PureDP

    key = ("objective", PureDP)
    broken = Mechanism(MECHANISMS[key].calibrate, shortcut)
    monkeypatch.setitem(MECHANISMS, key, broken)
    with pytest.raises(AssertionError):
        check_one_class(1)
