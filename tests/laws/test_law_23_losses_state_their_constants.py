"""Law 23: every registered loss states its own constants, and they are tested."""

from dataclasses import dataclass

import numpy as np
import pytest
from broken_mechanisms import AUDITED_LOSSES, claiming

from privatelr import audit
from privatelr.mechanisms import Problem, Request, calibrate
from privatelr.numerics import LOSSES, Huber, Logistic, SoftplusHinge
from privatelr.privacy import PureDP

MARGINS = np.concatenate([np.linspace(-60, 60, 600_001), [-1e6, 1e6]])


def check_constants(loss):
    """L and c are the suprema, and k the smallest factor of the joint bound, to a percent."""
    size, curvature = -loss.slope(MARGINS) / loss.slope_bound, loss.curvature(MARGINS)
    assert size.min() >= 0
    assert 0.99 <= size.max() <= 1
    assert curvature.min() >= 0
    assert 0.99 * loss.curvature_bound <= curvature.max() <= loss.curvature_bound
    rise = np.diff(loss.slope(MARGINS[:-2])) / np.diff(MARGINS[:-2])
    assert 0.99 * loss.curvature_bound <= rise.max() <= loss.curvature_bound * (1 + 1e-6)
    if loss.joint_factor is not None:
        arch = size * (1 - size)
        assert (curvature <= loss.joint_factor * arch + 1e-12).all()
        steep = arch > 1e-3
        assert (curvature[steep] / arch[steep]).max() >= 0.99 * loss.joint_factor


def check_epsilon(loss, analysis):
    """What the constants are for: the exact loss, on pairs that attain the bounds."""
    facts = Problem(10**8, 2, loss, 1.0)
    request = Request(PureDP(1.0), "objective", analysis, "free", "keep")
    for small in (1.0, 4.0):
        free = calibrate(request, facts).lambda_
        asked = Request(PureDP(1.0), "objective", analysis, free / small, "keep")
        assert audit.search(calibrate(asked, facts), np.random.default_rng(0), 0).loss.holds


def analyses(loss):
    return ["one-log"] if loss.joint_factor is None else ["joint", "one-log"]


def test_the_table_is_what_is_checked():
    assert set(LOSSES.values()) <= set(AUDITED_LOSSES.values())


@pytest.mark.parametrize("loss", AUDITED_LOSSES.values(), ids=AUDITED_LOSSES)
def test_law(loss):
    check_constants(loss)
    for analysis in analyses(loss):
        check_epsilon(loss, analysis)


@dataclass(frozen=True)
class Careless(Logistic):
    pass


@pytest.mark.parametrize("field", ["slope_bound", "curvature_bound", "joint_factor"])
@pytest.mark.parametrize("factor", [0.5, 0.97, 1.03])
def test_planted_constants_are_caught(field, factor):
    with pytest.raises(AssertionError):
        check_constants(Careless(**{field: factor * getattr(Logistic(), field)}))


@pytest.mark.parametrize("field", ["slope_bound", "curvature_bound", "joint_factor"])
@pytest.mark.parametrize("loss", [Huber(0.5), Huber(0.1), SoftplusHinge(0.1)], ids=str)
def test_planted_constants_of_hinges_are_caught(loss, field):
    """The Huber loss has no joint factor: any that it states is wrong."""
    right = getattr(loss, field)
    for factor in (0.5, 0.97, 1.03) if right else (1 / loss.h, 100 / loss.h):
        with pytest.raises(AssertionError):
            check_constants(claiming(loss, **{field: factor * (right or 1.0)}))


@pytest.mark.parametrize(
    ("loss", "field", "analysis"),
    [
        (Huber(0.1), "slope_bound", "one-log"),
        (Huber(0.1), "curvature_bound", "one-log"),
        (SoftplusHinge(0.1), "slope_bound", "joint"),
        (SoftplusHinge(0.1), "joint_factor", "joint"),
    ],
    ids=str,
)
def test_a_planted_constant_of_a_hinge_breaks_the_guarantee(loss, field, analysis):
    with pytest.raises(AssertionError):
        check_epsilon(claiming(loss, **{field: 0.5 * getattr(loss, field)}), analysis)


@pytest.mark.parametrize(
    ("field", "analysis"), [("slope_bound", "joint"), ("joint_factor", "joint")]
)
def test_a_planted_constant_breaks_the_guarantee(field, analysis):
    """The root of the missing factor in others' losses of several classes."""
    with pytest.raises(AssertionError):
        check_epsilon(Careless(**{field: 0.5 * getattr(Logistic(), field)}), analysis)
