"""Law 18: Gaussian noise is found for every epsilon and delta, and no price is negative."""

import math

import numpy as np
import pytest

from privatelr import ZCDP, ApproxDP, PureDP
from privatelr.mechanisms import Problem
from privatelr.mechanisms.calibration import gaussian_objective
from privatelr.numerics import LOSSES, Huber
from privatelr.privacy import to_approximate, to_zcdp
from privatelr.privacy.noise import gaussian_sd, log_delta

EPSILONS = np.logspace(-6, 3, 28)
DELTAS = [1e-30, 1e-15, 1e-6, 1e-3, 0.1, 0.5]


def classical_sd(epsilon, delta):
    """Holds below epsilon = 1 only."""
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def check_sd(solve):
    for delta in DELTAS:
        found = [solve(epsilon, delta) for epsilon in EPSILONS]
        assert np.isfinite(found).all()
        assert (np.diff(found) < 0).all()
        for epsilon, sd in zip(EPSILONS, found, strict=True):
            # enough, and a thousandth less would not be
            assert log_delta(epsilon, 1 / sd) <= math.log(delta)
            assert log_delta(epsilon, 1 / (0.999 * sd)) > math.log(delta)
    for epsilon in EPSILONS:
        assert (np.diff([solve(epsilon, delta) for delta in DELTAS]) < 0).all()


def test_law():
    check_sd(lambda epsilon, delta: gaussian_sd(epsilon, delta, 1.0))


def test_planted_bug_is_caught():
    with pytest.raises(AssertionError):
        check_sd(classical_sd)


@pytest.mark.parametrize("loss", [*LOSSES.values(), Huber(1e-3)], ids=[*LOSSES, "narrow"])
def test_noise_of_every_loss_is_found(loss):
    """For a penalty that costs a tenth of epsilon at most, whatever epsilon and delta are."""
    for delta in (1e-30, 1e-6, 0.5):
        found = []
        for epsilon in np.logspace(-6, 3, 7):
            penalty = loss.curvature_bound / math.expm1(min(epsilon / 10, 1.0))
            problem = Problem(10**4, 3, loss, 1.0).with_lambda(penalty / 10**4)
            sigma = gaussian_objective.objective_sigma(problem, epsilon, delta)
            reached = gaussian_objective.objective_log_delta(problem, epsilon, sigma)
            assert reached <= math.log(delta)
            assert gaussian_objective.objective_log_delta(
                problem, epsilon, sigma / 1.01
            ) > math.log(delta)
            assert sigma >= gaussian_sd(epsilon, delta, 2.0) * (1 - 1e-9)
            found.append(sigma)
        assert (np.diff(found) < 0).all()


def check_conversion(convert):
    for rho in np.logspace(-9, 3, 40):
        for delta in DELTAS:
            assert convert(rho, delta) >= 0
    for delta in DELTAS:
        assert (np.diff([convert(rho, delta) for rho in np.logspace(-9, 3, 40)]) >= 0).all()


def test_no_price_is_negative():
    check_conversion(lambda rho, delta: to_approximate(ZCDP(rho), delta).epsilon)
    for epsilon in EPSILONS:
        assert 0 < to_zcdp(PureDP(epsilon)).rho <= min(epsilon**2 / 2, epsilon) * (1 + 1e-12)
        for delta in DELTAS:
            assert 0 <= to_approximate(PureDP(epsilon), delta).epsilon <= epsilon
    assert to_approximate(ApproxDP(0.0, 1e-6), 1e-3).epsilon == 0


def test_planted_negative_price_is_caught():
    """The minimum over orders without a floor, as in smooth conversions at a large delta."""

    def unfloored(rho, delta):
        orders = 1 + np.logspace(-3, 6, 2000)
        shrink = orders * np.log1p(-1 / orders) - np.log(orders - 1)
        return float((orders * rho + (-math.log(delta) + shrink) / (orders - 1)).min())

    with pytest.raises(AssertionError):
        check_conversion(unfloored)
