"""Law 2: the loss is at most epsilon at every radius, and units do not matter."""

import numpy as np
import pytest

from privatelr import audit
from privatelr.mechanisms import Problem, calibrate, read_request
from privatelr.numerics import LOSSES, Huber, Objective, SoftplusHinge
from privatelr.numerics.rows import DenseRows
from privatelr.numerics.solve import Newton
from privatelr.types import Block

RADII = [0.1, 1.0, 12.0, 100.0]
LOSS = LOSSES["logistic"]
CASES = [
    *((LOSS, analysis) for analysis in ("joint", "one-log", "cms11")),
    *((Huber(h), analysis) for h, analysis in ((0.5, "one-log"), (0.1, None), (0.1, "cms11"))),
    (SoftplusHinge(0.5), None),
]


def calibrated(radius, n=1000, lambda_=None, analysis=None, small="increase", blocks=(), loss=LOSS):
    request = read_request(1.0, 0, None, lambda_, True, analysis, small)
    return calibrate(request, Problem(n, 2, loss, radius, blocks))


def check_losses(loss=LOSS, analysis=None, radii=RADII):
    """The loss on the pairs that attain the bounds, where the curvature is not free."""
    n = 10**8
    penalty = 4 * loss.curvature_bound
    for radius in reversed(radii):
        box = (Block(1, 0.6 * radius), Block(1, 0.8 * radius))
        for blocks in ((), box):
            calibration = calibrated(
                np.nextafter(radius, np.inf),
                n,
                penalty * radius**2 / n,
                analysis,
                "keep",
                blocks,
                loss,
            )
            assert audit.search(calibration, np.random.default_rng(0), 0).loss.holds


def check_scaling(loss=LOSS, analysis=None):
    """X -> aX, R -> aR, lambda -> a^2 lambda, w -> w/a leaves the mechanism as it was."""
    for a in (0.1, 12.0, 100.0):
        for rule in (None, "free", "PrivateLR", 0.3):
            lambda_ = rule if rule is None or isinstance(rule, str) else rule * a**2
            plain, scaled = (
                calibrated(radius, lambda_=value, analysis=analysis, loss=loss)
                for radius, value in ((1.0, rule), (a, lambda_))
            )
            assert scaled.lambda_ == pytest.approx(a**2 * plain.lambda_, rel=1e-12)
            assert scaled.noise.scale == pytest.approx(a * plain.noise.scale, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "analysis"), CASES, ids=str)
def test_law(loss, analysis):
    check_losses(loss, analysis, RADII if analysis == "joint" else (12.0,))
    check_scaling(loss, analysis)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_coefficients_scale_with_the_rows(loss):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((60, 3)) / 4
    y = np.where(rng.uniform(size=60) < 0.5, -1.0, 1.0)
    tilt = rng.standard_normal(3) / 10
    small = DenseRows(x, y, bound=2.0, intercept=None)
    large = DenseRows(12 * x, y, bound=24.0, intercept=None)
    w = Newton()(Objective(small, loss, 0.01, tilt)).w
    v = Newton()(Objective(large, loss, 1.44, 12 * tilt)).w
    np.testing.assert_allclose(12 * v, w, rtol=1e-9)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_duplicating_all_rows_at_fixed_penalty_keeps_the_noise(loss):
    once = calibrated(1.0, n=500, lambda_=0.02, loss=loss)
    twice = calibrated(1.0, n=1000, lambda_=0.01, loss=loss)
    assert twice.noise == once.noise


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_planted_bug_is_caught(monkeypatch, loss):
    """kappa = R / Lambda in the place of R^2 / Lambda, as in diffprivlib's Vector."""
    wrong = property(lambda self: self.radius / self.penalty)
    with monkeypatch.context() as patch:
        patch.setattr(Problem, "kappa", wrong)
        with pytest.raises(AssertionError):
            check_scaling(loss)
        with pytest.raises(AssertionError):
            check_losses(loss, radii=(12.0,))
