"""Epsilon of every mechanism, computed from its density on adversarial neighbours."""

from dataclasses import replace

import exact_loss
import numpy as np
import pytest
from scipy import integrate

from privatelr.mechanisms.problem import Facts
from privatelr.mechanisms.registry import calibrate
from privatelr.mechanisms.request import read_request
from privatelr.numerics.losses import LOSSES

EPSILONS = [0.1, 1.0, 4.0]
RADII = [0.1, 1.0, 12.0, 100.0]
LOGISTIC = LOSSES["logistic"]


def calibration_for(
    n, d, radius, eps, *, loss=LOGISTIC, op=True, analysis="joint", lambda_=None, small="increase"
):
    request = read_request(eps, 0, None, lambda_, op, analysis, small)
    return calibrate(request, Facts(n, d, loss, radius))


@pytest.mark.parametrize("eps", EPSILONS)
@pytest.mark.parametrize("radius", RADII)
def test_joint_bound_is_attained_and_not_exceeded(eps, radius):
    calibration = calibration_for(10**6, 2, radius, eps, lambda_="free")
    pair, w = exact_loss.attaining_pair(radius, calibration.problem.penalty)
    found = exact_loss.worst_objective_loss(pair, calibration, [w])
    assert 0.95 * eps < found <= eps * (1 + 1e-9)


@pytest.mark.parametrize("kappa", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("eps", EPSILONS)
def test_joint_bound_on_both_sides_of_the_free_penalty(eps, kappa):
    """Where the curvature costs something, the bisection pays for it, and for nothing else."""
    n = 10**6
    lambda_ = 1 / (kappa * eps / 2) / n
    calibration = calibration_for(n, 2, 1.0, eps, lambda_=lambda_, small="keep")
    penalty = calibration.problem.penalty
    assert 1 / penalty == pytest.approx(kappa * eps / 2)
    worst = 0.0
    for old in [0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 7.0]:
        pair, w = exact_loss.attaining_pair(1.0, penalty, old=old)
        worst = max(worst, exact_loss.worst_objective_loss(pair, calibration, [w]))
    assert 0.95 * eps < worst <= eps * (1 + 1e-9)


def test_dropping_the_curvature_beyond_its_condition_violates():
    """privacy.md 3.4: far below the free penalty, half of epsilon is not the noise's alone."""
    honest = calibration_for(10**6, 2, 1.0, 1.0, lambda_=0.5e-6, small="keep")
    careless = replace(honest, noise=replace(honest.noise, rate=0.5))
    pair, w = exact_loss.attaining_pair(1.0, honest.problem.penalty, old=0.5)
    assert exact_loss.worst_objective_loss(pair, honest, [w]) <= 1
    assert exact_loss.worst_objective_loss(pair, careless, [w]) > 1.1


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("analysis", ["joint", "one-log", "cms11"])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_objective_perturbation_in_an_adversarial_search(loss, analysis, d):
    rng = np.random.default_rng([d, len(analysis)])
    for trial in range(25):
        radius, eps = RADII[trial % len(RADII)], EPSILONS[trial % len(EPSILONS)]
        pair = exact_loss.random_pair(rng, d, radius)
        lambda_ = [None, "free", 1e-6 * radius**2, radius**2][trial % 4]
        calibration = calibration_for(
            pair.n, d, radius, eps, loss=loss, analysis=analysis, lambda_=lambda_
        )
        outputs = exact_loss.random_outputs(rng, d, radius)
        assert exact_loss.worst_objective_loss(pair, calibration, outputs) <= eps * (1 + 1e-9)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_output_perturbation_in_an_adversarial_search(loss, d):
    rng = np.random.default_rng(d)
    worst = 0.0
    for trial in range(60):
        radius = RADII[trial % len(RADII)]
        pair = exact_loss.random_pair(rng, d, radius)
        lambda_ = [None, 1e-4 * radius**2][trial % 2]
        calibration = calibration_for(pair.n, d, radius, 1.0, loss=loss, op=False, lambda_=lambda_)
        worst = max(worst, exact_loss.output_loss(pair, calibration))
    assert 0.05 < worst <= 1 + 1e-9  # above: the search looks at pairs that differ


@pytest.mark.parametrize("radius", RADII)
def test_output_perturbation_reaches_its_claim(radius):
    """Nothing but the penalty holds the minimiser in the direction of the two records."""
    calibration = calibration_for(10**6, 2, radius, 1.0, op=False)
    pair, _ = exact_loss.attaining_pair(radius, calibration.problem.penalty)
    alone = exact_loss.Pair(pair.rows[:1], pair.counts[:1], pair.old, pair.new)
    assert 0.95 < exact_loss.output_loss(alone, calibration) <= 1


def test_the_density_integrates_to_one():
    """The certificate itself: Lemma 0 gives a probability density, here in one dimension."""
    calibration = calibration_for(8, 1, 1.5, 2.0)
    problem = calibration.problem
    rows, counts = np.array([[1.5], [-0.4], [0.9]]), np.array([3.0, 4.0, 1.0])
    pair = exact_loss.Pair(rows, counts, rows[0], rows[0])
    grid = np.linspace(-60, 60, 20_001)
    tilt = np.array([-exact_loss.shared_gradient(pair, problem, np.array([w]))[0] for w in grid])
    slope = [exact_loss.shared_hessian(pair, problem, np.array([w]))[0, 0] for w in grid]
    density = calibration.noise.rate / 2 * np.exp(-calibration.noise.rate * np.abs(tilt)) * slope
    assert integrate.trapezoid(density, grid) == pytest.approx(1, abs=1e-4)
