"""Laws of a loss; a new one is tested by being listed in `LOSSES`."""

from dataclasses import dataclass

import numpy as np
import pytest

from privatelr.numerics.losses import LOSSES, Logistic

MARGINS = np.concatenate([np.linspace(-30, 30, 2001), [-1e3, -745, 745, 1e3, 1e300, -1e300]])


def check_loss(loss):
    z = MARGINS[:2001]
    step = 1e-5
    value, slope, curvature = loss.value(z), loss.slope(z), loss.curvature(z)
    numeric = (loss.value(z + step) - loss.value(z - step)) / (2 * step)
    np.testing.assert_allclose(slope, numeric, atol=1e-6)
    numeric = (loss.slope(z + step) - loss.slope(z - step)) / (2 * step)
    np.testing.assert_allclose(curvature, numeric, atol=1e-6)
    # the two constants dominate
    assert ((-loss.slope_bound <= slope) & (slope <= 0)).all()
    assert ((curvature >= 0) & (curvature <= loss.curvature_bound)).all()
    # convex: a chord lies above
    middle = loss.value((z[:-2] + z[2:]) / 2)
    assert (middle <= (value[:-2] + value[2:]) / 2 + 1e-12).all()
    if loss.joint_factor is not None:
        s = -slope / loss.slope_bound
        assert (curvature <= loss.joint_factor * s * (1 - s) + 1e-15).all()


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_laws(loss):
    check_loss(loss)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_extreme_margins_are_finite(loss):
    for function in (loss.value, loss.slope, loss.curvature):
        assert np.isfinite(function(MARGINS)).all()


@pytest.mark.parametrize("field", ["slope_bound", "curvature_bound", "joint_factor"])
def test_planted_constants_are_caught(field):
    @dataclass(frozen=True)
    class Careless(Logistic):
        pass

    wrong = Careless(**{field: 0.9 * getattr(Logistic(), field)})
    with pytest.raises(AssertionError):
        check_loss(wrong)
