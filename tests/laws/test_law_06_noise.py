"""Law 6: each noise law draws what its density says, and d counts the intercept."""

import math

import numpy as np
import pytest
from flint import arb
from frames_for_laws import MODELS, clinic, fit_clinic
from scipy import integrate, special, stats

from privatelr.privacy.noise import (
    BlockLaplace,
    ExactDraw,
    GaussianNoise,
    SeededRandomness,
    SphericalLaplace,
    SystemRandomness,
    drawn_normals,
)
from privatelr.privacy.noise.randomness import cell
from privatelr.types import Block

LEVEL = 1e-7  # a fresh draw of the system may look odd once in ten million runs
BLOCKS = (Block(1, 0.5), Block(1, 1.0), Block(4, 1.0), Block(3, 2.0))
WITH_A_BALL = (
    *(Block(1, 0.5), Block(2, 1.5, "l2"), Block(4, 1.0)),
    *(Block(1, 1.5, "l2"), Block(1, 1.0), Block(1, 1.5, "l2")),
)
"""Columns 1, 2, 7 and 9 have a length together."""
LAWS = [
    *(SphericalLaplace(d, 0.25) for d in (1, 2, 5, 30)),
    GaussianNoise(1, 3.0),
    GaussianNoise(6, 0.2),
    BlockLaplace(BLOCKS, 0.25),
    BlockLaplace((Block(1, 2.0),), 3.0),
    BlockLaplace((Block(30, 1.0),), 1.0),
    BlockLaplace(WITH_A_BALL, 0.25),
    BlockLaplace((Block(1, 2.0, "l2"), Block(2, 0.1)), 3.0),
    BlockLaplace((Block(9, 1.0, "l2"),), 1.0),
]


def size_law(law):
    """What the norm of a draw is, and how that is distributed: from the density alone."""
    if isinstance(law, GaussianNoise):
        return np.linalg.norm, stats.chi(law.dimension, scale=law.sd)
    gamma = stats.gamma(law.dimension, scale=1 / law.rate)
    return (law.norm if isinstance(law, BlockLaplace) else np.linalg.norm), gamma


def check_noise(law, randomness=None, count=8000):
    randomness = randomness or SeededRandomness(law.dimension)
    draws = np.array([randomness.draw(law).nearest() for _ in range(count)])
    norm, distribution = size_law(law)
    sizes = [norm(b) for b in draws]
    assert stats.kstest(sizes, distribution.cdf).pvalue > LEVEL
    np.testing.assert_allclose(draws.var(axis=0), law.variances, rtol=6 * math.sqrt(10 / count))
    assert abs(stats.norm.ppf((draws > 0).mean(axis=0))).max() < 6.9 / math.sqrt(count)
    correlated = np.corrcoef(draws.T) if law.dimension > 1 else np.eye(1)
    assert abs(correlated - np.eye(law.dimension)).max() < 7 / math.sqrt(count)
    length = np.linalg.norm(draws, axis=1).mean()
    assert 0.75 * law.mean_length < length < 1.05 * law.mean_length
    # no function of slope one spreads by more than the law says
    for f in (np.linalg.norm(draws, axis=1), *draws.T):
        assert f.std() <= law.lipschitz_sd * 1.1


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_law(law):
    check_noise(law)


@pytest.mark.slow
@pytest.mark.parametrize("law", [LAWS[2], LAWS[5], LAWS[6], LAWS[9]], ids=repr)
def test_secret_draws_are_of_the_same_law(law):
    check_noise(law, SystemRandomness(), count=3000)


@pytest.mark.slow
def test_direction_is_uniform():
    randomness = SeededRandomness(5)
    for d in (2, 5, 30):
        draws = np.array([randomness.draw(SphericalLaplace(d, 1.0)).nearest() for _ in range(4000)])
        squared = (draws[:, 0] / np.linalg.norm(draws, axis=1)) ** 2
        assert stats.kstest(squared, stats.beta(0.5, (d - 1) / 2).cdf).pvalue > LEVEL


@pytest.mark.slow
def test_columns_with_a_length_together_are_a_ball_in_a_product():
    """Their size, relative to that of the rest, and their direction are those of a product.

    Uniform in the ball, a part of k columns has size ``U**(1 / k)``, whatever the others have.
    """
    law, ball = BlockLaplace(WITH_A_BALL, 1.0), [1, 2, 7, 9]
    rest = [(Block(1, 0.5), [0]), (Block(4, 1.0), [3, 4, 5, 6]), (Block(1, 1.0), [8])]
    randomness = SeededRandomness(11)
    draws = np.array([randomness.draw(law).nearest() for _ in range(8000)])
    size = np.linalg.norm(draws[:, ball], axis=1) / 1.5
    others = np.max([abs(draws[:, at]).sum(axis=1) / block.bound for block, at in rest], axis=0)
    ratio = size / others
    assert stats.binomtest(int((ratio > 1).sum()), len(ratio), 4 / law.dimension).pvalue > LEVEL
    assert stats.kstest(ratio[ratio < 1] ** 4, "uniform").pvalue > LEVEL
    for column in ball:
        squared = (draws[:, column] / size / 1.5) ** 2
        assert stats.kstest(squared, stats.beta(0.5, 1.5).cdf).pvalue > LEVEL


def test_blocks_with_a_length_together_have_one_length():
    with pytest.raises(ValueError, match="one bound for all of them"):
        BlockLaplace((Block(1, 1.0, "l2"), Block(1, 2.0, "l2")), 1.0).norm(np.ones(2))


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_dimension_counts_the_intercept(model):
    calibration = fit_clinic(clinic(), model=model).calibration
    assert calibration.noise.dimension == calibration.shield.dimension == 4


@pytest.mark.parametrize("randomness", [SystemRandomness(), SeededRandomness(3)])
def test_uniforms_are_uniform_and_never_reach_the_ends(randomness):
    numbers = randomness.uniforms(200_000)
    assert numbers.min() > 0
    assert numbers.max() < 1
    assert stats.kstest(numbers, "uniform").pvalue > LEVEL
    assert stats.kstest(drawn_normals(randomness, 100_000), "norm").pvalue > LEVEL


@pytest.mark.slow
@pytest.mark.parametrize("bug", ["length Gamma(1)", "length Gamma(d - 1)", "one sign", "half"])
def test_planted_bug_is_caught(monkeypatch, bug):
    """A length that is Gamma(1), as in PSI, or that forgets the intercept, and two more."""
    law = BlockLaplace(BLOCKS, 1.0) if bug == "one sign" else SphericalLaplace(5, 1.0)
    honest = type(law).transform

    def transform(self, uniforms, signs, arithmetic):
        if bug == "one sign":
            return honest(self, uniforms, [signs[0]] * len(signs), arithmetic)
        used = {"length Gamma(1)": 1, "length Gamma(d - 1)": 4, "half": 5}[bug]
        kept = [*uniforms[:used], *[1.0] * (5 - used), *uniforms[5:]]
        shrink = 0.5 if bug == "half" else 1.0
        return [shrink * x for x in honest(self, kept, signs, arithmetic)]

    monkeypatch.setattr(type(law), "transform", transform)
    with pytest.raises(AssertionError):
        check_noise(law)


@pytest.mark.slow
@pytest.mark.parametrize("bug", ["sphere", "two lengths", "sum of sizes"])
def test_planted_bug_of_a_ball_is_caught(monkeypatch, bug):
    """A point of the surface, blocks that are balls each, and the wrong norm in the density."""
    blocks = (Block(1, 0.5), Block(2, 1.5, "l2"), Block(2, 1.5, "l2"))
    law, honest = BlockLaplace(blocks, 1.0), BlockLaplace.transform

    def transform(self, uniforms, signs, arithmetic):
        if bug == "sphere":  # six numbers for r, two for the first block
            uniforms = [*uniforms[:8], 1.0, *uniforms[9:]]
        if bug == "sum of sizes":
            self = BlockLaplace((Block(1, 0.5), Block(4, 1.5)), 1.0)
            uniforms, signs = [*uniforms, *uniforms][: self.uniforms], [*signs, 1, -1, 1, -1]
        x = honest(self, uniforms, signs, arithmetic)
        return [x[0], 0.5 * x[1], 0.5 * x[2], *x[3:]] if bug == "two lengths" else x

    monkeypatch.setattr(BlockLaplace, "transform", transform)
    with pytest.raises(AssertionError):
        check_noise(law)


@pytest.mark.slow
@pytest.mark.parametrize(("norm", "base"), [("l1", 2.0**2 / 2), ("l2", math.pi)])
def test_block_density_integrates_to_the_volume_of_its_ball(norm, base):
    """``int exp(-N) = d! vol(N <= 1)``: a block of one and a block of two, by quadrature."""
    law = BlockLaplace((Block(1, 0.5), Block(2, 1.0, norm)), 1.0)
    volume = (2 * 0.5) * base

    def shell(x, y, z):
        return math.exp(law.log_density(np.array([x, y, z])))

    # by symmetry one octant; the tail beyond 40 is below 1e-12
    found, _ = integrate.tplquad(shell, 0, 25, 0, 25, 0, 12.5, epsabs=1e-4, epsrel=1e-4)
    assert 8 * found == pytest.approx(special.factorial(3) * volume, rel=2e-3)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_an_exact_draw_is_one_number_at_every_precision(law):
    draw = SystemRandomness().draw(law)
    wide, narrow = draw.enclose(128), draw.enclose(512)
    again = draw.enclose(128)
    for first, second, third in zip(wide, narrow, again, strict=True):
        assert first.overlaps(second)
        assert third.overlaps(second)
        assert second.rad() < first.rad() or first.is_exact()
    np.testing.assert_array_equal(draw.nearest(), draw.nearest())


def test_an_exact_draw_asks_for_each_bit_once():
    asked = []

    def bits(count):
        asked.append(count)
        return (1 << count) - 1

    law = SphericalLaplace(3, 1.0)
    draw = ExactDraw(law, bits)
    draw.enclose(128)
    draw.enclose(96)
    draw.enclose(300)
    assert sum(asked) == law.uniforms * (300 - 32)
    # all bits one: the ball of a uniform ends at one and holds every longer prefix of ones
    ball = cell((1 << 268) - 1, 268)
    assert ball.contains(arb(1))
    assert not ball.contains(arb(0))
