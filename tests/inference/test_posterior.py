"""Draws of the moments are those of the posterior, of which small cases are known exactly."""

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from elliptical_slices import moved_by_slices
from releases_for_inference import infer, law_of_errors, noisy_evidence, release_of

from privatelr.inference import FRAGILE, Matrices, posterior, quality, question
from privatelr.inference.noisy_moments import prior_power
from privatelr.inference.posterior import MomentsPosterior, energy, sampled
from privatelr.mechanisms import matrix_of, vector_of
from privatelr.privacy import ZCDP, PureDP
from privatelr.privacy.noise import GaussianNoise, SphericalLaplace, draw_many

RATIOS = (0.3, 1.0, 3.0, 10.0, 30.0)
SEEDS = 12
RUNS, FEW, STEPS = 12, 256, 200


def law_of(noisy, largest, determinant=0.0, *, laplace):
    """Two laws of the same matrices, or one that has both."""
    noisy = np.broadcast_to(np.asarray(noisy, float), (2, np.shape(noisy)[-1]))
    dimension = noisy.shape[-1] * (noisy.shape[-1] + 1)
    rate = math.sqrt(dimension + 1) if laplace else None
    powers = np.array([determinant, 0.0])
    return MomentsPosterior(noisy, np.asarray(largest, float), rate, powers)


LAWS = {
    "far inside": ([6.0, 5.0], [40.0, 60.0]),
    "at the edge": ([3.0, 0.0], [40.0, 60.0]),
    "beyond it": ([1.0, -0.7], [40.0, 60.0]),
    "at the largest trace": ([3.0, 0.5], [3.0, 4.0]),
    "hardly more than the cone": ([0.3, 0.1], [1.5, 1.2]),
    "both differ": ([[8.0, 1.0], [1.0, -1.0]], [9.0, 2.0]),
    "three dimensions": ([4.0, 1.0, 0.0], [8.0, 30.0]),
    "away from singular ones": ([1.0, -0.7], [40.0, 60.0], 1.0),
    "away from them, near the trace": ([3.0, 0.5], [3.0, 4.0], 2.0),
}
EACH_LAW = pytest.mark.parametrize("name", LAWS)
EACH_NOISE = pytest.mark.parametrize("laplace", [False, True], ids=["normal", "Laplace"])


def places_of(law, count, rng):
    """Places around matrices of about the size of the noisy ones, where the bound lets them."""
    size = np.minimum(1.0, law.largest / (np.abs(law.noisy) + 1).sum(axis=1))[:, None]
    found = 0.4 * np.sqrt(size[..., None]) * np.tril(rng.standard_normal((count, 2, law.d, law.d)))
    logs = 0.5 * np.log(size * (np.abs(law.noisy) + 1))
    found[..., np.arange(law.d), np.arange(law.d)] += logs
    return found


def slopes(function, place, width=1e-5):
    """Derivatives of ``(c, ...)`` values by the lower entries of one place, in the last axis."""
    found = []
    for index in zip(*np.nonzero(np.tril(np.ones_like(place))), strict=True):
        step = np.zeros_like(place)
        step[index] = width
        high, low = function(np.stack([place + step, place - step]))
        found.append((high - low) / (2 * width))
    return np.stack(found, axis=-1)


@EACH_NOISE
@EACH_LAW
def test_energy_is_the_posterior_in_other_coordinates(name, laplace):
    """The flat prior, the law of the noise, and the determinant of the map to the matrices."""
    law = law_of(*LAWS[name], laplace=laplace)
    places = places_of(law, 5, np.random.default_rng(1))
    value, gradient, matrices = energy(law, places)
    values = np.linalg.eigvalsh(matrices)
    assert values.min() > 0
    assert (values.sum(axis=-1) <= law.largest).all()
    off = matrices - law.noisy[..., None] * np.eye(law.d)
    square = (off**2).sum(axis=(1, 2, 3))
    expected = law.rate * np.sqrt(square) if laplace else square / 2
    expected = expected - np.log(values).sum(axis=-1) @ law.determinants
    for i, place in enumerate(places):
        mapped = slopes(lambda p: vector_of(energy(law, p)[2]).reshape(len(p), -1), place)
        expected[i] -= np.linalg.slogdet(mapped)[1]
        found = gradient[i][np.tril(np.ones_like(place)) > 0]
        np.testing.assert_allclose(found, slopes(lambda p: energy(law, p)[0], place), rtol=2e-5)
    np.testing.assert_allclose(np.diff(value), np.diff(expected), rtol=1e-6, atol=1e-6)


def accepted_noise(law, wanted, rng):
    """Matrices in the cone, from independent draws of the noise of which the rest is left out.

    The power of a determinant in the prior is the weight with which they are drawn once more.
    """
    if law.determinants.any():
        known = accepted_noise(replace(law, determinants=np.zeros(2)), 20 * wanted, rng)
        weight = np.exp(np.linalg.slogdet(known)[1] @ law.determinants)
        return known[rng.choice(len(known), wanted, p=weight / weight.sum())]
    d, found = law.d, []
    size = d * (d + 1)
    noise = GaussianNoise(size, 1.0) if law.rate is None else SphericalLaplace(size, law.rate)
    while sum(map(len, found)) < wanted:
        drawn = draw_many(noise, 200_000, rng).reshape(-1, 2, size // 2)
        matrices = matrix_of(drawn) + law.noisy[..., None] * np.eye(d)
        matrices = matrices[(np.einsum("...ii->...i", matrices) > 0).all(axis=(1, 2))]
        traces = np.trace(matrices, axis1=-2, axis2=-1)
        matrices = matrices[(traces <= law.largest).all(axis=1)]
        found.append(matrices[(np.linalg.eigvalsh(matrices)[..., 0] > 0).all(axis=1)])
    return np.concatenate(found)


def views(matrices):
    """What intervals depend on ``(..., v)``: sizes, and entries of inverses, of each matrix."""
    inverse = np.linalg.inv(matrices)
    corners = np.log(inverse[..., 0, 0]), np.log(inverse[..., -1, -1])
    sizes = np.linalg.slogdet(matrices)[1], np.trace(matrices, axis1=-2, axis2=-1)
    return np.concatenate([*corners, *sizes, np.abs(matrices[..., 0, -1])], axis=-1)


def check(law):
    """Means and shares below quartiles, against independent draws, by the spread of runs."""
    exact = views(accepted_noise(law, 20_000, np.random.default_rng(0)))
    runs = [views(sampled(law, np.random.default_rng(seed))) for seed in range(SEEDS)]
    limits = np.quantile(exact, [0.05, 0.25, 0.5, 0.75, 0.95], axis=0)
    summary = [
        lambda v: v.mean(axis=0),
        *[lambda v, limit=limit: (v <= limit).mean(axis=0) for limit in limits],
    ]
    for each in summary:
        found = np.array([each(run) for run in runs])
        others = np.array([each(part) for part in np.array_split(exact, SEEDS)])
        error = np.sqrt((found.var(axis=0, ddof=1) + others.var(axis=0, ddof=1)) / SEEDS)
        # with 21 degrees of freedom, one in ten thousand of some thousands of comparisons is beyond
        assert (np.abs(found.mean(axis=0) - others.mean(axis=0)) <= 6 * error).all()


LONG = [
    ("away from singular ones", False),
    ("away from singular ones", True),
    ("away from them, near the trace", True),
]
# the draws by rejection take long of laws with determinants; one of them is here
DRAWN = [
    pytest.param(name, laplace, marks=[pytest.mark.full] * ((name, laplace) in LONG))
    for name in LAWS
    for laplace in (False, True)
]


@pytest.mark.parametrize(("name", "laplace"), DRAWN)
def test_draws_are_those_of_the_posterior(name, laplace):
    check(law_of(*LAWS[name], laplace=laplace))


def with_a_power_less(law, place):
    value, gradient, matrices = energy(law, place)
    logs = np.einsum("...ii->...i", place)
    return value + logs.sum(axis=(1, 2)), gradient + np.eye(law.d), matrices


def without_map_of_trace(law, place):
    far = replace(law, largest=law.largest * 1e6)
    value, gradient, _ = energy(far, place)
    return value, gradient, energy(law, place)[2]


def of_half_the_noise(law, place):
    value, gradient, matrices = energy(law, place)
    return 2 * value, 2 * gradient, matrices


def accepting_by_speed(law, place):
    value, gradient, matrices = energy(law, place)
    return 0 * value, gradient, matrices


BUGS = [with_a_power_less, without_map_of_trace, of_half_the_noise, accepting_by_speed]


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bug_is_caught(bug, monkeypatch):
    monkeypatch.setattr(posterior, "energy", bug)
    with pytest.raises(AssertionError):
        check(law_of(*LAWS["at the largest trace"], laplace=False))


def effective(values, chains):
    """Number of independent draws with the same error of the mean, from the spread of chains."""
    values = values.reshape(-1, chains, values.shape[-1])
    return chains * values.var(axis=(0, 1)) / values.mean(axis=0).var(axis=0, ddof=1)


def pair_of(matrices, evidence):
    """H without its penalty and S, in one array ``(k, 2, d, d)``."""
    bare = matrices.curvature - evidence.floor * np.eye(len(evidence.w))
    return np.stack([bare, matrices.scores], axis=1)


@pytest.mark.parametrize("ratio", RATIOS)
@EACH_NOISE
def test_draws_are_many(ratio, laplace):
    """Of 612 draws, over four seeds."""
    evidence = noisy_evidence(15, ratio, laplace=laplace)
    found = []
    for seed in range(4):
        drawn = posterior.posterior(evidence, np.random.default_rng(seed))
        found.append(effective(views(pair_of(drawn, evidence)), 51))
    assert np.mean(found, axis=0).min() > 150


FAR = [
    law_of([-50.0, -60.0], [1e3, 1e3], laplace=False),
    law_of([-50.0, -60.0], [1e3, 1e3], laplace=True),
    law_of([1e7, -30.0], [1e9, 1e8], laplace=True),
    law_of([1e7, 1e6, 1e-3], [1e9, 1e8], laplace=False),
    law_of([1e3, 0.0], [1.0, 1e-3], laplace=False),
    law_of([0.0], [1e-6, 1e9], laplace=True),
]


@pytest.mark.parametrize("law", FAR)
def test_far_cases_move_and_stay_inside(law):
    drawn = sampled(law, np.random.default_rng(0))
    assert np.isfinite(drawn).all()
    values = np.linalg.eigvalsh(drawn)
    assert (values.min(axis=-1) >= -1e-12 * np.abs(values).max(axis=-1)).all()
    assert (values.sum(axis=-1) <= law.largest * (1 + 1e-9)).all()
    assert min(map(len, map(np.unique, np.moveaxis(drawn[..., -1, -1], 0, 1)))) > len(drawn) / 3
    chains = drawn[..., -1, -1].reshape(12, -1, 2)
    assert (effective(np.log(chains.reshape(-1, 2)), chains.shape[1]) > 100).all()


@pytest.mark.full
@pytest.mark.parametrize("d", [3, 6, 15])
@pytest.mark.parametrize("ratio", RATIOS)
@EACH_NOISE
def test_slices_leave_the_draws_as_they_are(d, ratio, laplace):
    """A second sampler, started from the draws, would move them if their law were another.

    The intervals that they give are as wide, too.
    """
    evidence = noisy_evidence(d, ratio, laplace=laplace)
    means, widths = [], []
    for seed in range(RUNS):
        drawn = posterior.posterior(evidence, np.random.default_rng(seed))
        drawn = Matrices(drawn.curvature[-FEW:], drawn.scores[-FEW:])
        moved = moved_by_slices(evidence, drawn, STEPS, np.random.default_rng(100 + seed))
        pair = [views(pair_of(each, evidence)).mean(axis=0) for each in (drawn, moved)]
        means.append(pair[1] - pair[0])
        widths.append(np.log(half_width(evidence, moved) / half_width(evidence, drawn)))
    for gaps, least in ((np.array(means), 0.0), (np.array(widths), 0.02)):
        error = gaps.std(axis=0, ddof=1) / math.sqrt(RUNS)
        assert (np.abs(gaps.mean(axis=0)) <= least + 6 * error).all()


def half_width(evidence, matrices):
    return law_of_errors(evidence, matrices, np.eye(len(evidence.w)))[0].half_width(0.95)


@pytest.mark.parametrize("target", [PureDP(1.0), ZCDP(0.05)], ids=str)
def test_the_first_intervals_are_soon_there(target, monkeypatch):
    """Counted and not timed: the energy of all chains is what the draws consist of.

    Two or three hundred evaluations were a tenth of a second at 15 columns; slices of a density and
    halvings took several times as many.
    """
    counted = []

    def counting(law, place):
        counted[-1] += 1
        return energy(law, place)

    monkeypatch.setattr(posterior, "energy", counting)
    for noise in range(5):
        release = release_of(target, 8000, 15, noise=noise)
        assert quality(release).noise_to_signal > FRAGILE
        counted.append(0)
        infer(release, np.eye(15), mode="posterior")
        infer(release, np.eye(15)[:3], mode="posterior")
    assert min(counted) > 0
    assert max(counted) < 300


AGAIN = """
import sys
sys.path[:0] = {paths}
from test_posterior import intervals_of
print(intervals_of())
"""


def intervals_of():
    """The intervals of a release in which chains are drawn, to the last bit."""
    found = infer(release_of(PureDP(1.0), 8000, 15), np.eye(15), mode="posterior")
    return [float(x).hex() for x in np.concatenate([found.lower, found.upper, found.p_value])]


def test_intervals_are_the_same_in_another_process():
    here = intervals_of()
    question._plausible.cache_clear()
    assert intervals_of() == here
    done = subprocess.run(
        [sys.executable, "-c", AGAIN.format(paths=[str(Path(__file__).parent), *sys.path])],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(here)


@pytest.mark.parametrize("d", [6, 15, 40])
def test_in_the_prior_others_explain_half_of_a_column(d):
    """Under a power p of the determinant, correlations are those of ``d + 1 + 2 p`` records."""
    power, rng = prior_power(d), np.random.default_rng(d)
    records = round(d + 1 + 2 * power)
    draws = rng.standard_normal((600, records, d))
    matrices = np.swapaxes(draws, 1, 2) @ draws
    inverse = np.linalg.inv(matrices)
    explained = 1 - 1 / (matrices[:, 0, 0] * inverse[:, 0, 0])
    assert explained.mean() == pytest.approx(0.5, abs=0.04)


def test_few_columns_have_a_power_of_one():
    assert [prior_power(d) for d in (1, 2, 5)] == [1, 1, 1]
