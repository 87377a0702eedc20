"""Plausible matrices are in the feasible cone, and are those of the posterior."""

from dataclasses import replace

import numpy as np
import pytest
from releases_for_inference import release_of

from privatelr.inference import (
    FRAGILE,
    NoisyMoments,
    evidence_of,
    floored,
    plausible,
    plug_in,
    quality,
    relative_bias,
)
from privatelr.privacy import ZCDP, NonPrivate, PureDP
from privatelr.privacy.noise import GaussianNoise, SphericalLaplace


def test_floors_raise_and_leave_the_rest():
    matrix = np.diag([3.0, -1.0, 0.5])
    np.testing.assert_allclose(floored(matrix, 1.0), np.diag([3.0, 1.0, 1.0]), atol=1e-12)
    np.testing.assert_allclose(floored(np.stack([matrix, np.eye(3)]), 0.0)[1], np.eye(3))


@pytest.mark.parametrize("target", [PureDP(0.2), PureDP(1.0), ZCDP(0.05), ZCDP(2.0)], ids=str)
@pytest.mark.parametrize("loss", ["logistic", "huber"])
def test_every_matrix_is_feasible(target, loss):
    """Floors: H is never below its penalty, S never below 0."""
    evidence = evidence_of(release_of(target, loss=loss))
    for matrices in (
        plug_in(evidence),
        plausible(evidence, FRAGILE / 2),
        plausible(evidence, FRAGILE * 2),
    ):
        assert np.linalg.eigvalsh(matrices.curvature).min() >= evidence.floor * (1 - 1e-6)
        assert np.linalg.eigvalsh(matrices.scores).min() >= -1e-9
    drawn = plausible(evidence, 1.0)
    traces = np.trace(drawn.curvature - evidence.floor * np.eye(3), axis1=1, axis2=2)
    assert traces.max() <= evidence.largest_trace * (1 + 1e-9)
    assert np.trace(drawn.scores, axis1=1, axis2=2).max() <= evidence.largest_scores * (1 + 1e-9)


def one_dimensional(curvature, sd, *, laplace):
    """Evidence about one coefficient with a given noisy curvature."""
    base = evidence_of(release_of(PureDP(1.0), d=2))
    problem = replace(base.problem, d=1, lambda_=0.1)
    noise = SphericalLaplace(2, np.sqrt(3) / sd) if laplace else GaussianNoise(2, sd)
    return NoisyMoments(
        w=np.zeros(1),
        curvature=np.array([[curvature]]),
        scores=np.array([[10.0]]),
        curvature_sd=sd,
        balance=0.25,
        calibration=replace(base.calibration, problem=problem),
        noise=noise,
        largest_trace=base.largest_trace,
        largest_scores=base.largest_scores,
        determinant=0.0,
        resolved=np.ones(1),
        first=0,
        intercept=0.0,
        units=np.ones(1),
        typical=1.0,
        drawn=np.zeros(1),
    )


@pytest.mark.parametrize("laplace", [True, False])
@pytest.mark.parametrize("curvature", [0.3, 0.05, -0.1])
def test_draws_are_those_of_the_posterior(laplace, curvature):
    """In one dimension, against the density on a grid, with the scores far from their floor."""
    evidence = one_dimensional(curvature, 0.1, laplace=laplace)
    evidence = replace(evidence, scores=np.array([[0.6]]))  # its limits are six deviations away
    drawn = np.sort(plausible(evidence, FRAGILE).curvature[:, 0, 0])
    top = evidence.largest_trace + 0.1
    grid = np.linspace(0.1, min(top, 2.0), 4001)
    other = np.linspace(0, evidence.largest_scores, 801)
    off = np.hypot((grid - curvature)[:, None], evidence.balance * (other - 0.6)[None, :])
    log = -evidence.noise.rate * off if laplace else -(off**2) / (2 * 0.1**2)
    weight = np.exp(log - log.max()).sum(axis=1)
    law = np.cumsum(weight) / weight.sum()
    shares = np.interp(drawn, grid, law)
    gap = np.abs(shares - (np.arange(len(drawn)) + 0.5) / len(drawn)).max()
    assert gap < 1.95 / np.sqrt(len(drawn)) * 1.3  # chains of six are nearly independent draws


def test_the_same_release_gives_the_same_matrices():
    evidence = evidence_of(release_of(PureDP(0.3)))
    for ratio in (0.1, 1.0):
        first, second = plausible(evidence, ratio), plausible(evidence, ratio)
        np.testing.assert_array_equal(first.curvature, second.curvature)
        np.testing.assert_array_equal(first.scores, second.scores)


def test_without_noise_there_is_one_matrix():
    release = release_of(NonPrivate(), lambda_=1e-3)
    matrices = plausible(evidence_of(release), 0.0)
    assert matrices.curvature.shape == (1, 3, 3)
    assert quality(release).noise_to_signal == 0


def test_quality_is_a_function_of_the_release():
    release = release_of(ZCDP(0.5))
    evidence, known = evidence_of(release), quality(release)
    values = np.linalg.eigvalsh(evidence.curvature)
    expected = evidence.curvature_sd * np.sqrt(6) / max(values[0], evidence.floor)
    assert known.noise_to_signal == pytest.approx(expected)
    bare = evidence.curvature - evidence.floor * np.eye(3)
    bias = evidence.floor * np.linalg.solve(bare, evidence.w)
    expected = np.linalg.norm(bias) / np.linalg.norm(evidence.w)
    assert relative_bias(evidence) == pytest.approx(expected)
    # a curvature that cannot be told from 0 counts as its noise, and without noise as 0
    weak = replace(evidence, curvature=evidence.floor * np.eye(3))
    assert relative_bias(weak) == pytest.approx(evidence.floor / evidence.curvature_sd)
    assert relative_bias(replace(weak, curvature_sd=0.0)) == np.inf


@pytest.mark.parametrize(("epsilon", "mode"), [(0.1, "conservative"), (20.0, "posterior")])
def test_the_public_warning_sets_the_mode(epsilon, mode):
    """Only the penalised coefficients have limits that hold for every dataset."""
    known = quality(release_of(PureDP(epsilon), d=6))
    assert known.mode_for("penalised") == mode
    assert (known.target, known.mode) == ("unpenalised", "posterior")
    assert replace(known, has_probabilities=False).mode == mode
