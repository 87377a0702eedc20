"""Laws of a loss; a new one is tested by being listed in `LOSSES`."""

import numpy as np
import pytest

from privatelr.errors import ArgumentError
from privatelr.numerics import LOSSES, Huber, Logistic, SoftplusHinge, find_hinge, find_loss

MARGINS = np.concatenate([np.linspace(-30, 30, 2001), [-1e3, -745, 745, 1e3, 1e300, -1e300]])


def check_loss(loss):
    z = MARGINS[:2001]
    step = 1e-5
    value, slope, curvature = loss.value(z), loss.slope(z), loss.curvature(z)
    numeric = (loss.value(z + step) - loss.value(z - step)) / (2 * step)
    np.testing.assert_allclose(slope, numeric, atol=1e-6 + step * loss.curvature_bound)
    numeric = (loss.slope(z + step) - loss.slope(z - step)) / (2 * step)
    before, after = loss.curvature(z - step), loss.curvature(z + step)
    kink = np.abs(after - before) > 0.1 * loss.curvature_bound
    assert kink.sum() <= 2
    np.testing.assert_allclose(curvature[~kink], numeric[~kink], atol=2e-5)
    between = np.minimum(before, after) <= curvature, curvature <= np.maximum(before, after)
    assert np.all(between, axis=0)[kink].all()
    # the two constants dominate
    assert ((-loss.slope_bound <= slope) & (slope <= 0)).all()
    assert ((curvature >= 0) & (curvature <= loss.curvature_bound)).all()
    # convex: a chord lies above
    middle = loss.value((z[:-2] + z[2:]) / 2)
    assert (middle <= (value[:-2] + value[2:]) / 2 + 1e-12).all()
    if loss.joint_factor is not None:
        s = -slope / loss.slope_bound
        assert (curvature <= loss.joint_factor * (s * (1 - s) + 1e-15)).all()


FAMILY = [*LOSSES.values(), Huber(0.1), Huber(0.25), SoftplusHinge(0.1), SoftplusHinge(0.25)]


@pytest.mark.parametrize("loss", FAMILY, ids=str)
def test_laws(loss):
    check_loss(loss)


@pytest.mark.parametrize("loss", FAMILY, ids=str)
def test_extreme_margins_are_finite(loss):
    for function in (loss.value, loss.slope, loss.curvature):
        assert np.isfinite(function(MARGINS)).all()


def test_finding_a_loss():
    assert find_loss("logistic") == Logistic()
    assert find_loss("huber", h=0.25) == Huber(0.25)
    assert find_hinge("softplus", 1 / 4).parameters == {"h": 0.25}
    with pytest.raises(ArgumentError, match="loss='hinge': loss takes one of 'logistic', 'huber'"):
        find_loss("hinge")
    with pytest.raises(ArgumentError, match="width: the huber loss has no such parameter"):
        find_loss("huber", width=1)
    with pytest.raises(ArgumentError, match="loss='logistic': loss takes 'huber', 'softplus'"):
        find_hinge("logistic", 0.5)
