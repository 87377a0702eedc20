"""The exact loss of the softmax objective, all vectors of coefficients together."""

from dataclasses import replace

import numpy as np
import pytest

from privatelr.audit.density.persons_and_classes import (
    ClassedRows,
    adversarial_classes,
    calibrated,
    classes_loss,
    one_record,
    worst_classes,
)
from privatelr.mechanisms import Request, calibrate
from privatelr.mechanisms.calibration import pure
from privatelr.numerics import LOSSES
from privatelr.privacy import REPLACE_PERSON, PureDP
from privatelr.privacy.noise import BlockLaplace, CopiedNoise
from privatelr.types import Block

LOGISTIC = LOSSES["logistic"]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("small", [1.0, 7.0])
def test_no_pair_exceeds_the_claim_and_the_bound_is_attained(epsilon, small):
    """In two columns more than .9 of epsilon is found; a hundredth of it is for the shield."""
    made = calibrated(LOGISTIC, PureDP(epsilon), 2, small, classes=3)
    found = worst_classes(made, np.random.default_rng(3))
    spent = pure.joint_epsilon(made.problem.radius / made.noise.scale, made.problem)
    assert 0.9 * epsilon < found <= spent < epsilon


@pytest.mark.parametrize("small", [1.0, 7.0])
def test_no_person_exceeds_the_claim_and_the_price_of_a_record_is_too_low(small):
    """Of up to four records in three columns; two cost more than one if the curvature is paid."""
    rng, made = (
        np.random.default_rng(2),
        calibrated(LOGISTIC, PureDP(1.0, REPLACE_PERSON), 3, small, classes=3),
    )
    one, two, four = (worst_classes(made, rng, size) for size in (1, 2, 4))
    assert 0.8 < one <= two + 1e-6 <= 1
    assert 0.88 < max(two, four) <= 1
    if small > 1:
        assert two > 1.05 * one
        rate = pure.objective_rate(replace(made.problem, persons=False), 1.0, "joint")
        each = replace(made.noise.each, rate=0.99 * rate / made.problem.radius)
        record = replace(made, noise=replace(made.noise, each=each))
        assert worst_classes(record, rng, 2) > 1.02


def test_noise_in_the_shape_of_blocks_keeps_the_claim():
    facts = calibrated(LOGISTIC, PureDP(1.0), 2, 1.0, classes=3).problem
    blocks = (Block(1, facts.radius / np.sqrt(2)),) * 2
    penalty = pure.laplace_free_penalty(facts, 1.0, "joint")
    request = Request(PureDP(1.0), "objective", None, penalty / facts.n, "keep")
    made = calibrate(request, replace(facts, blocks=blocks))
    assert isinstance(made.noise, CopiedNoise)
    assert isinstance(made.noise.each, BlockLaplace)
    rng, worst, bound = np.random.default_rng(6), 0.0, blocks[0].bound
    for _ in range(2000):
        links, along = 4 * rng.standard_normal(3), rng.uniform(-1, 1, 2)
        shared, _, _, vectors = adversarial_classes(made, links, 300.0)
        old, new = (
            one_record(bound * np.array([sign, side]), 0)
            for sign, side in zip((1.0, -1.0), along / 2000, strict=True)
        )
        worst = max(worst, classes_loss(made, shared, old, new, vectors))
    assert 0.5 < worst <= 1


def test_the_loss_is_the_ratio_of_densities_that_are_integrated():
    """In one column of three classes: the density of each side has the integral 1.

    It is integrated over the differences of vectors, because their mean is the tilt's alone.
    """
    made = calibrated(LOGISTIC, PureDP(1.0), 1, 1.0, classes=3)
    made = replace(made, noise=replace(made.noise, each=replace(made.noise.each, rate=2.0)))
    rows, classes = np.array([0.7, -0.4]), np.array([0, 2])
    rng = np.random.default_rng(7)
    # E over the new side of exp(loss) is the integral of the old density: by change of variables
    # vectors are drawn by solving for tilts of the new side
    old, new = (one_record(made.problem.radius * rows[i : i + 1], classes[i]) for i in range(2))
    nobody = ClassedRows(np.zeros((1, 1)), np.zeros(1, dtype=int), np.ones(1))
    tilts = rng.laplace(scale=0.5, size=(4000, 3))
    ratios = []
    for b in tilts:
        vectors = minimiser(made, rows[1], classes[1], b)
        ratios.append(np.exp(classes_loss(made, nobody, old, new, vectors)))
    error = np.std(ratios) / np.sqrt(len(ratios))
    assert np.mean(ratios) == pytest.approx(1.0, abs=4 * error)
    assert np.std(ratios) > 0.01


def minimiser(made, entry, place, b):
    """Vectors ``(3, 1)`` that minimise the new side's objective under this tilt."""
    from scipy import optimize

    x, penalty = made.problem.radius * entry, made.problem.penalty

    def gradient(w):
        p = np.exp(w * x - (w * x).max())
        p /= p.sum()
        return (p - np.eye(3)[place]) * x + penalty * w + b

    return optimize.root(gradient, np.zeros(3), tol=1e-12).x[:, None]
