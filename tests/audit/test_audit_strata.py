"""The loss of fits to strata together, when a record leaves one stratum and joins another."""

from dataclasses import replace

import numpy as np
import pytest
from achieved_guarantees import achieved

from privatelr.audit.density.exact import tilt_losses
from privatelr.audit.density.pairs import Pair, pair_of_rows
from privatelr.audit.density.persons_and_classes import (
    adversarial,
    calibrated,
    log_ratio_at,
    loss_of_strata,
    worst_move,
    worst_spread,
)
from privatelr.mechanisms import Problem
from privatelr.mechanisms.signed_rows import SignedRows
from privatelr.mechanisms.stages.histogram import L1_SENSITIVITY, L2_SENSITIVITY
from privatelr.mechanisms.stages.matrices import moments_balance, moments_sensitivity
from privatelr.numerics import LOSSES
from privatelr.privacy import REPLACE_PERSON, PureDP
from privatelr.privacy.noise import GaussianNoise, SphericalLaplace

LOGISTIC = LOSSES["logistic"]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_two_strata_together_keep_the_claim_of_one_and_attain_it(loss, epsilon):
    """Above .9 of epsilon for the worst pair, so that no part of it is left to give away."""
    for small in (1.0, 7.0):
        found = worst_move(calibrated(loss, PureDP(epsilon), 2, small, touched=2)) / epsilon
        assert 0.9 < found <= 1


def test_a_record_that_moves_loses_as_much_as_one_that_is_replaced():
    """Halving epsilon for each stratum would waste half of it."""
    made = calibrated(LOGISTIC, PureDP(1.0), 2, 1.0, touched=2)
    assert achieved(made).epsilon <= 1
    halved = calibrated(LOGISTIC, PureDP(0.5), 2, 1.0, touched=2)
    assert worst_move(made) > 0.99
    assert worst_move(halved) < 0.51


def test_strata_are_one_fit_of_longer_rows():
    """The loss of two fits is that of one fit, in which records have a block for each stratum."""
    made = calibrated(LOGISTIC, PureDP(1.0), 2, 3.0, touched=2)
    both_ends, w = adversarial(made, np.array([0.2]), np.array([-0.7]), 1)
    nobody = SignedRows(np.zeros((1, 2)), np.ones(1))
    shared, old, new = both_ends.shared, both_ends.old, both_ends.new
    ends = Pair(shared, old, nobody), Pair(shared, nobody, new)
    apart = sum(log_ratio_at(made, end, w) for end in ends)
    both = np.kron(np.eye(2), shared.rows)  # the rows of either stratum, in its own block
    counts = np.concatenate([shared.counts, shared.counts])
    first, second = np.append(old.rows[0], np.zeros(2)), np.append(np.zeros(2), new.rows[0])
    noise, stacked = GaussianNoise(4, 3.0), replace(made.problem, d=4)
    pair, at = pair_of_rows(both, counts, first, second), np.tile(w, 2)[None]
    joint = tilt_losses(pair, stacked, noise, at)[0]
    gaussian = replace(made, noise=GaussianNoise(2, 3.0))
    parts = [log_ratio_at(gaussian, end, w) for end in ends]
    assert sum(parts) == pytest.approx(joint, rel=1e-9)
    assert apart < 1.0


@pytest.mark.parametrize(
    ("loss", "small"),
    [*((loss, 1.0) for loss in LOSSES.values()), (LOGISTIC, 7.0)],
    ids=[*LOSSES, "small penalty"],
)
def test_a_person_in_several_strata_keeps_the_claim_and_attains_it(loss, small):
    """The weights of all strata together add up to 1, whichever they are."""
    for strata in (2, 4):
        made = calibrated(loss, PureDP(1.0, REPLACE_PERSON), 2, small, touched=strata)
        assert 0.85 < worst_spread(made, strata) <= 1
    if small == 1:  # were weights those of each stratum by itself, there would be four persons
        whole = loss_of_strata(made, np.full(1, -30.0), np.ones(1), np.ones(1))
        assert 4 * whole > 3


def test_two_shields_are_counted():
    made = calibrated(LOGISTIC, PureDP(1.0), 2, 1.0, touched=2)
    one = replace(made, problem=replace(made.problem, touched=1))
    assert made.distance == 2 * one.distance
    assert loss_of_strata(made, np.full(2, -30.0), *np.eye(2)) > 0.99


def added(rng, strata, loss, eta):
    """What a person adds to the matrices of all strata ``(K, 8)``, from three records on a circle.

    Weights add up to 1 and slopes are near those of the longest pair, so that bounds are attained.
    """
    weights, where = rng.dirichlet(np.full(3, 0.3)), rng.integers(0, strata, 3)
    x = np.eye(2)[rng.integers(0, 2, 3)] if rng.random() < 0.5 else rng.normal(size=(3, 2))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    margins = rng.normal(-1.2 if rng.random() < 0.7 else 0.0, 0.2, 3)
    bends, pulls = weights * loss.curvature(margins), weights * loss.slope(margins)
    found = np.zeros((strata, 8))
    for k in range(strata):
        own = where == k
        score = pulls[own] @ x[own]
        h, s = (x[own].T * bends[own]) @ x[own], eta * np.outer(score, score)
        found[k] = np.concatenate([h.ravel(), s.ravel()])
    return found


@pytest.mark.parametrize("strata", [3])
def test_sums_of_strata_move_as_those_of_a_record_in_two_fits(strata):
    """The matrices and the counts of all strata together, of any persons: at most, and as far."""
    rng = np.random.default_rng(strata)
    facts = Problem(1, 2, LOGISTIC, 1.0, lambda_=1.0, persons=True, touched=strata)
    eta = moments_balance(facts)
    lengths, whole, counted, cells = [], [], [], []
    for _ in range(20_000):
        change = added(rng, strata, LOGISTIC, eta) - added(rng, strata, LOGISTIC, eta)
        lengths.append(np.linalg.norm(change, axis=1).sum())
        whole.append(np.linalg.norm(change))
        old, new = (rng.dirichlet(np.full(2 * strata, 0.2)).reshape(strata, 2) for _ in range(2))
        change = np.column_stack([old - new, new.sum(axis=1) - old.sum(axis=1)])
        counted.append(np.abs(change).sum())
        cells.append(np.linalg.norm(change))
    assert 0.97 < max(lengths) / moments_sensitivity(facts, None, SphericalLaplace) <= 1
    assert 0.97 < max(whole) / moments_sensitivity(facts, None, GaussianNoise) <= 1
    assert 0.97 < max(counted) / (L1_SENSITIVITY * facts.moved) <= 1
    assert 0.97 < max(cells) / (L2_SENSITIVITY * np.sqrt(facts.moved)) <= 1
