"""Noise for many columns: doubles with bounds that hold, and roundings that are exact."""

import copy
import math
import pickle
import secrets

import numpy as np
import pytest
from flint import arb
from scipy import stats

from privatelr.locks import working_precision
from privatelr.mechanisms import rounded_sum
from privatelr.privacy.noise import (
    BALLS,
    MANY,
    BlockwiseDraw,
    ExactDraw,
    FloatDraw,
    GaussianNoise,
    NoNoise,
    SeededRandomness,
    SphericalLaplace,
    SystemRandomness,
    randomness,
)

LAWS = [GaussianNoise(1000, 3.7), GaussianNoise(333, 1e-9), SphericalLaplace(400, 0.3)]
LAWS += [SphericalLaplace(77, 1e6)]


@pytest.fixture(params=[64, 2**16])
def block(request, monkeypatch):
    monkeypatch.setattr(randomness, "_BLOCK", request.param)


def repeated(seed):
    """The same bits for the same seed."""
    generator = np.random.default_rng(seed)

    def bits(count):
        return int.from_bytes(generator.bytes(-(-count // 8)), "little") >> (-count % 8)

    return bits


def made_of(law, words):
    """A draw of which the first uniforms begin with these words."""
    first = sum(word << (64 * place) for place, word in enumerate(words))
    asked = []

    def bits(count):
        asked.append(count)
        drawn = secrets.randbits(count)
        if len(asked) > 1:
            return drawn
        return (drawn >> (64 * len(words)) << (64 * len(words))) | first

    return BlockwiseDraw(law, bits)


def check_bounds(draw, precision=200):
    """Exact numbers are as near to the doubles as they are said to be."""
    blocks = list(draw._blocks())
    values, errors = (np.concatenate([b[part] for b in blocks]) for part in (1, 2))
    exact = draw.enclose(precision)
    with working_precision(precision):
        off = [abs(arb(float(v)) - ball) for v, ball in zip(values, exact, strict=True)]
        assert all(a <= arb(float(e)) for a, e in zip(off, errors, strict=True))
        length = sum((a**2 for a in off), arb(0)).sqrt()
        assert length <= draw.distance(values)
    return values, errors


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_doubles_are_as_near_as_they_say(law):
    values, errors = check_bounds(BlockwiseDraw(law, secrets.randbits))
    assert errors.max() <= 1e-12 * np.abs(values).max()


@pytest.mark.parametrize("law", [GaussianNoise(MANY, 1.0), SphericalLaplace(MANY, 1.0)], ids=str)
def test_distance_is_what_tau_allows_for(law):
    draw = BlockwiseDraw(law, secrets.randbits)
    values = draw.nearest()
    assert draw.distance(values) <= 2.0**-44 * np.linalg.norm(values)
    moved = values + 1e-3
    assert 0.1 <= draw.distance(moved) <= 0.1 * (1 + 1e-7)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_words_at_the_ends_and_in_the_middle(law):
    half, end = 2**63, 2**64 - 1
    words = [1, half, 2, half - 1, half, 0, half - 1, half // 2, end, 3, end - 1, half + half // 2]
    check_bounds(made_of(law, words), 600)


@pytest.mark.parametrize("law", LAWS[:1], ids=str)
def test_a_word_of_zeros_is_left_to_balls(law):
    draw = made_of(law, [0, 5])
    assert draw.distance(draw.nearest()) == math.inf
    centre = np.zeros(law.dimension)
    assert (draw.rounded(centre, 0.25) == by_balls(draw, centre, 0.25)).all()


def test_planted_bounds_of_nothing_are_caught(monkeypatch):
    honest = randomness._normal_doubles
    monkeypatch.setattr(randomness, "_normal_doubles", lambda w: (honest(w)[0], 0 * honest(w)[1]))
    with pytest.raises(AssertionError):
        check_bounds(BlockwiseDraw(LAWS[0], secrets.randbits))


# --- rounding -------------------------------------------------------------------------------


def by_balls(draw, centre, grid):
    """What every coordinate is rounded to, by the rule for few columns."""
    return rounded_sum([arb(float(c)) for c in centre], draw, grid)


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("exponent", [-10, -46, -60, -200])
def test_roundings_are_exact(law, exponent):
    """Of grids that leave nothing in doubt, some, and everything."""
    scale = 2.0 ** math.floor(math.log2(math.sqrt(law.variances[0])))
    draw = BlockwiseDraw(law, secrets.randbits)
    centre = scale * np.random.default_rng(0).standard_normal(law.dimension)
    grid = scale * 2.0**exponent
    found = rounded_sum(centre, draw, grid)
    assert (found == by_balls(draw, centre, grid)).all()
    assert (found == draw.rounded(centre, grid)).all()


def test_centres_that_cancel_or_drown_the_noise():
    law = LAWS[0]
    draw = BlockwiseDraw(law, secrets.randbits)
    for centre in (-draw.nearest(), np.full(law.dimension, 1e12), np.full(law.dimension, 1e30)):
        assert (draw.rounded(centre, 2.0**-12) == by_balls(draw, centre, 2.0**-12)).all()


def test_zero_has_no_sign():
    """A minus zero would tell on which side of it the exact number lies."""
    draw = BlockwiseDraw(LAWS[0], secrets.randbits)
    found = draw.rounded(np.zeros(1000), 2.0**20)
    assert not found.any()
    assert not np.signbit(found).any()


def test_planted_rounding_of_doubles_is_caught(monkeypatch):
    honest = randomness._normal_doubles
    monkeypatch.setattr(randomness, "_normal_doubles", lambda w: (honest(w)[0], 0 * honest(w)[1]))
    draw = BlockwiseDraw(LAWS[0], secrets.randbits)
    assert (
        draw.rounded(np.zeros(1000), 2.0**-50) != by_balls(draw, np.zeros(1000), 2.0**-50)
    ).any()


# --- the law --------------------------------------------------------------------------------


def test_it_is_the_same_function_of_bits_as_for_few_columns():
    for law in LAWS:
        draw = BlockwiseDraw(law, repeated(1))
        with working_precision(200):
            uniforms = [(arb(int(w)) + 0.5) / arb(2) ** 64 for w in draw._words]
            expected = [float(x.mid()) for x in law.transform(uniforms, (), BALLS)]
        np.testing.assert_allclose(draw.nearest(), expected, rtol=1e-9)


def test_normal_numbers():
    values = BlockwiseDraw(GaussianNoise(100_000, 2.0), repeated(5)).nearest()
    assert stats.kstest(values / 2, "norm").pvalue > 1e-3


def test_lengths_of_spherical_noise():
    lengths = [
        np.linalg.norm(BlockwiseDraw(SphericalLaplace(5, 2.0), repeated(seed)).nearest())
        for seed in range(2000)
    ]
    assert stats.kstest(lengths, stats.gamma(5, scale=0.5).cdf).pvalue > 1e-3


def test_who_is_drawn_here():
    system = SystemRandomness()
    assert isinstance(system.draw(GaussianNoise(MANY + 1, 1.0)), BlockwiseDraw)
    assert isinstance(system.draw(SphericalLaplace(MANY + 1, 1.0)), BlockwiseDraw)
    assert isinstance(system.draw(GaussianNoise(MANY, 1.0)), ExactDraw)
    assert isinstance(system.draw(NoNoise(MANY + 1)), ExactDraw)
    first = system.draw(GaussianNoise(MANY + 1, 1.0)).nearest()
    assert (first != system.draw(GaussianNoise(MANY + 1, 1.0)).nearest()).all()


def test_seeds_repeat():
    law = SphericalLaplace(MANY + 1, 1.0)
    one, two = (SeededRandomness(4).draw(law) for _ in range(2))
    assert isinstance(one, FloatDraw)
    assert (one.nearest() == two.nearest()).all()
    distance = one.distance
    assert distance(one.nearest()) == 0
    assert distance(one.nearest() + 1.0) >= math.sqrt(MANY + 1)
    assert FloatDraw(np.zeros(3)).distance is None


def test_a_draw_is_not_copied():
    draw = BlockwiseDraw(LAWS[0], secrets.randbits)
    for copying in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="not copied"):
            copying(draw)
    assert "draw" in repr(draw).lower()
    assert str(draw._words[0]) not in repr(draw)
