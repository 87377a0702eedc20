"""Law 2: the loss is at most epsilon at every radius, and units do not matter."""

import numpy as np
import pytest

from privatelr import audit
from privatelr.mechanisms.problem import Facts, Problem
from privatelr.mechanisms.registry import calibrate
from privatelr.mechanisms.request import read_request
from privatelr.numerics.losses import LOSSES
from privatelr.numerics.newton import Newton
from privatelr.numerics.objective import Objective
from privatelr.numerics.rows import DenseRows
from privatelr.types import Block

RADII = [0.1, 1.0, 12.0, 100.0]
LOSS = LOSSES["logistic"]


def calibrated(radius, n=1000, lambda_=None, analysis="joint", small="increase", blocks=()):
    request = read_request(1.0, 0, None, lambda_, True, analysis, small)
    return calibrate(request, Facts(n, 2, LOSS, radius, blocks))


def check_losses(analysis="joint"):
    """The loss on the pairs that attain the joint bound, where the curvature is not free."""
    n = 10**8
    for radius in reversed(RADII):
        box = (Block(1, 0.6 * radius), Block(1, 0.8 * radius))
        for blocks in ((), box):
            calibration = calibrated(
                np.nextafter(radius, np.inf), n, radius**2 / n, analysis, "keep", blocks
            )
            assert audit.search(calibration, np.random.default_rng(0), 0).loss.holds


def check_scaling():
    """X -> aX, R -> aR, lambda -> a^2 lambda, w -> w/a leaves the mechanism as it was."""
    for a in (0.1, 12.0, 100.0):
        for rule in (None, "free", "PrivateLR", 0.3):
            lambda_ = rule if rule is None or isinstance(rule, str) else rule * a**2
            plain, scaled = calibrated(1.0, lambda_=rule), calibrated(a, lambda_=lambda_)
            assert scaled.lambda_ == pytest.approx(a**2 * plain.lambda_, rel=1e-12)
            assert scaled.noise.scale == pytest.approx(a * plain.noise.scale, rel=1e-12)


@pytest.mark.parametrize("analysis", ["joint", "one-log", "cms11"])
def test_law(analysis):
    check_losses(analysis)
    check_scaling()


def test_coefficients_scale_with_the_rows():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((60, 3)) / 4
    y = np.where(rng.uniform(size=60) < 0.5, -1.0, 1.0)
    tilt = rng.standard_normal(3) / 10
    small = DenseRows(x, y, bound=2.0, intercept=None)
    large = DenseRows(12 * x, y, bound=24.0, intercept=None)
    w = Newton()(Objective(small, LOSS, 0.01, tilt)).w
    v = Newton()(Objective(large, LOSS, 1.44, 12 * tilt)).w
    np.testing.assert_allclose(12 * v, w, rtol=1e-9)


def test_duplicating_all_rows_at_fixed_penalty_keeps_the_noise():
    once = calibrated(1.0, n=500, lambda_=0.02)
    twice = calibrated(1.0, n=1000, lambda_=0.01)
    assert twice.noise == once.noise


def test_planted_bug_is_caught(monkeypatch):
    """kappa = R / Lambda in the place of R^2 / Lambda, as in diffprivlib's Vector."""
    wrong = property(lambda self: self.radius / self.penalty)
    with monkeypatch.context() as patch:
        patch.setattr(Problem, "kappa", wrong)
        with pytest.raises(AssertionError):
            check_scaling()
        with pytest.raises(AssertionError):
            check_losses()
