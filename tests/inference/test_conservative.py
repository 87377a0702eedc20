"""The conservative mode: its limits hold, and nothing within them is worse than the bound."""

from dataclasses import replace

import numpy as np
import pytest
from releases_for_inference import infer, release_of, row_errors
from scipy import stats

import privatelr.inference.conservative as subject
from privatelr.inference import (
    NoiseLimits,
    evidence_of,
    heaviest_tail,
    limits_of,
    worst_errors,
    worst_p_values,
)
from privatelr.mechanisms import matrix_of
from privatelr.privacy import ZCDP, NonPrivate, PureDP
from privatelr.privacy.noise import GaussianNoise, SphericalLaplace, draw_many


def random_truth(rng, d):
    """A curvature above its floor, near it in some directions, and scores."""
    vectors = np.linalg.qr(rng.standard_normal((d, d)))[0]
    floor = 0.1
    values = floor + rng.exponential(1.0, d) * rng.choice([0.01, 1.0], d)
    spread = rng.standard_normal((d, d))
    return (vectors * values) @ vectors.T, floor, spread @ spread.T


def noise_within(limits, v, rng):
    """Symmetric noise that does to v as much as the limits allow, or a random part of it."""
    d, unit = len(v), v / np.linalg.norm(v)
    noise = matrix_of(rng.standard_normal(d * (d + 1) // 2))
    along, across = abs(unit @ noise @ unit), np.linalg.norm(noise @ unit)
    return noise * min(limits.along / along, limits.across / across) * rng.choice([1.0, 0.5])


def evidence_with(curvature, floor):
    base = evidence_of(release_of(PureDP(1.0)))
    problem = replace(base.problem, d=len(curvature), lambda_=floor)
    return replace(
        base,
        w=np.zeros(len(curvature)),
        curvature=curvature,
        calibration=replace(base.calibration, problem=problem),
    )


def check_bound(d, size):
    rng = np.random.default_rng(int(10 * d + 100 * size))
    limits = NoiseLimits(across=1.2 * size, along=size, scores=0.0)
    for _ in range(30):
        truth, floor, form = random_truth(rng, d)
        a = rng.standard_normal(d)
        v = np.linalg.solve(truth, a)
        noisy = evidence_with(truth + noise_within(limits, v, rng), floor)
        bound, _ = subject.largest_form(form, noisy, limits, a)
        assert bound >= v @ form @ v * (1 - 1e-9)
        assert bound <= np.linalg.norm(form, 2) * a @ a / floor**2 * 1.2


@pytest.mark.parametrize("d", [1, 2, 3, 6])
@pytest.mark.parametrize("size", [0.01, 0.1, 0.5, 3.0])
def test_no_truth_within_the_limits_is_worse_than_the_bound(d, size):
    check_bound(d, size)


def test_the_bound_is_attained_in_one_dimension():
    evidence, a = evidence_with(np.array([[1.0]]), 0.1), np.array([3.0])
    form = np.array([[2.0]])
    for limit, expected in ((0.4, 50), (5.0, 1800)):
        assert subject.largest_form(form, evidence, NoiseLimits(limit, limit, 0), a)[
            0
        ] == pytest.approx(expected, rel=0.02)
    assert subject.largest_form(form, evidence, NoiseLimits(0.0, 0.0, 0.0), a)[0] == pytest.approx(
        18
    )


@pytest.mark.parametrize("d", [1, 4])
def test_noise_beyond_its_limits_leaves_the_floor(d):
    """A released curvature that no H within the limits can have been."""
    evidence = evidence_with(-0.5 * np.eye(d), 0.3)
    a = np.arange(1.0, d + 1)
    bound, _ = subject.largest_form(np.eye(d), evidence, NoiseLimits(0.4, 0.3, 0.0), a)
    assert bound == pytest.approx(a @ a / 0.3**2)


@pytest.mark.parametrize("size", [0.1, 3.0])
def test_a_planted_bound_is_caught(monkeypatch, size):
    """A form that is a tenth too small."""
    honest = subject.LagrangeDual
    monkeypatch.setattr(
        subject,
        "LagrangeDual",
        lambda form, quadratic, linear, constant: honest(form * 0.9, quadratic, linear, constant),
    )
    with pytest.raises(AssertionError):
        check_bound(1, size)


@pytest.mark.parametrize("d", [1, 2, 3, 10])
@pytest.mark.parametrize("beta", [0.05, 0.005])
@pytest.mark.parametrize("laplace", [True, False])
def test_noise_stays_within_its_limits(d, beta, laplace):
    size = d * (d + 1)
    law = SphericalLaplace(size, 0.5) if laplace else GaussianNoise(size, 2.0)
    evidence = replace(evidence_with(np.eye(d), 0.1), noise=law, balance=0.25)
    limits = limits_of(evidence, beta)
    drawn = draw_many(law, 40_000, np.random.default_rng(2))
    curvature, scores = (matrix_of(part) for part in np.split(drawn, 2, axis=1))
    v = np.ones(d) / np.sqrt(d)
    images = curvature @ v
    outside = [
        np.linalg.norm(images, axis=1) > limits.across,
        np.abs(images @ v) > limits.along,
        -(scores @ v) @ v / 0.25 > limits.scores,
    ]
    for beyond in outside:  # each by a third of beta
        assert beyond.mean() == pytest.approx(beta / 3, abs=4 * np.sqrt(beta / 3 / len(drawn)))
    assert np.any(outside, axis=0).mean() <= beta


def test_limits_grow_as_beta_falls():
    evidence = evidence_of(release_of(PureDP(1.0)))
    found = [limits_of(evidence, beta) for beta in (1e-1, 1e-2, 1e-3, 1e-5, 1e-7)]
    for name in ("across", "along", "scores"):
        assert all(np.diff([getattr(limits, name) for limits in found]) > 0)


@pytest.mark.parametrize("target", [PureDP(1.0), ZCDP(0.2)], ids=str)
@pytest.mark.parametrize("op", [True, False])
@pytest.mark.parametrize("blocks", [True, False])
def test_conservative_intervals_contain_the_others(target, op, blocks):
    release = release_of(target, op=op, blocks=blocks, n=5000)
    wide = infer(release, np.eye(3), mode="conservative")
    for mode in ("posterior", "plug-in"):
        narrow = infer(release, np.eye(3), mode=mode)
        assert (wide.upper > narrow.upper).all()
        assert (wide.lower < narrow.lower).all()
        assert (wide.p_value >= 0.9 * narrow.p_value).all()


@pytest.mark.parametrize("op", [True, False])
def test_p_values_agree_with_intervals(op):
    evidence = evidence_of(release_of(PureDP(1.0), op=op))
    a = np.eye(3)
    for alpha in (0.2, 0.05, 0.005):
        law = worst_errors(evidence, a, alpha / 10)
        half = law.half_width(0.9 * alpha)
        assert (worst_p_values(law, a, half * 1.001, alpha) <= alpha + 1e-9).all()
        assert (worst_p_values(law, a, half * 0.999, alpha) > alpha).all()
    law = worst_errors(evidence, a, 0.005)
    half = law.half_width(0.045)
    sizes = [worst_p_values(law, a, half * k, 0.05) for k in (0, 0.5, 1, 2, 4, 8)]
    assert (np.diff(sizes, axis=0) <= 0).all()
    np.testing.assert_array_equal(sizes[0], 1)
    # what all levels together give, none of them left out
    for size, found in zip((0, 0.5, 1, 2, 4, 8), sizes, strict=True):
        every = [
            np.maximum(worst_errors(evidence, a, level / 10).beyond(half * size) / 0.9, level)
            for level in subject._LEVELS
        ]
        np.testing.assert_allclose(found, np.minimum(1, np.min(every, axis=0)), rtol=5e-3)


def test_without_noise_there_is_nothing_to_be_worst():
    release = release_of(NonPrivate(), lambda_=1e-3)
    assert limits_of(evidence_of(release), 0.005) == NoiseLimits(0.0, 0.0, 0.0)
    plain, wide = (infer(release, np.eye(3), mode=m) for m in ("plug-in", "conservative"))
    np.testing.assert_allclose(wide.sd, plain.sd, rtol=1e-6)


@pytest.mark.parametrize(
    "law",
    [stats.norm, stats.laplace, stats.uniform(-1, 2), stats.logistic, stats.triang(0.5, -1, 2)],
    ids=["normal", "laplace", "uniform", "logistic", "triangle"],
)
def test_no_symmetric_log_concave_law_has_heavier_tails(law):
    sizes = np.linspace(0, 8, 161)
    assert (heaviest_tail(sizes) >= 2 * law.sf(sizes * law.std()) - 1e-6).all()


def test_no_density_that_bends_twice_has_a_heavier_tail():
    """Log-concave densities of three straight pieces, at any sizes of errors."""
    rng, x = np.random.default_rng(4), np.linspace(0, 1, 4001)
    sizes = np.linspace(0.05, 6, 120)
    most = heaviest_tail(sizes)
    for _ in range(300):
        first, second = np.sort(rng.uniform(size=2))
        bends = 10 ** rng.uniform(-3, 2, 3)
        log = [x, np.maximum(0, x - first), np.maximum(0, x - second)]
        density = np.exp(-bends @ log)
        mass = np.append(0.0, np.cumsum((density[1:] + density[:-1]) / 2))
        squares = density * x**2
        sd = np.sqrt((squares[1:] + squares[:-1]).sum() / 2 / mass[-1])
        tail = 1 - np.interp(sizes * sd, x, mass / mass[-1])
        assert (tail <= most + 2e-5).all()


def test_the_heaviest_tail_is_that_of_some_law():
    """Of the uniform law near the middle, and of the Laplace law far out."""
    near, far = np.array([0.0, 0.3]), np.array([8.0, 10.0])
    np.testing.assert_allclose(heaviest_tail(near), 1 - near / np.sqrt(3), atol=0.01)
    np.testing.assert_allclose(heaviest_tail(far), np.exp(-np.sqrt(2) * far), rtol=1e-3)
    between = np.array([1.0, 1.645, 2.2, 3.0])
    uniform, laplace = 1 - between / np.sqrt(3), np.exp(-np.sqrt(2) * between)
    assert (heaviest_tail(between) <= 1.3 * np.maximum(uniform, laplace)).all()


@pytest.mark.parametrize(
    ("release", "level"),
    [
        ({"target": PureDP(1.0), "blocks": True}, 0.8),
        ({"target": PureDP(1.0)}, 0.99),
        ({"target": ZCDP(0.5), "d": 8}, 0.95),
    ],
    ids=["blocks", "ball", "eight"],
)
def test_the_search_for_multipliers_does_not_stop_early(release, level):
    """One matrix that bounds all combinations at once is no better than a search for each."""
    found = release_of(**release)
    rng = np.random.default_rng(1)
    contrasts = rng.standard_normal((24, len(found.coef))) * 10.0 ** rng.uniform(-3, 3, (24, 1))
    each = infer(found, contrasts, level=level, mode="conservative")
    at_once = row_errors(found, level=level, mode="conservative").half_width(contrasts)
    assert (each.upper - each.lower <= 2 * at_once * 1.01).all()
