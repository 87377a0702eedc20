"""The nearest dense law: against sorting in exact arithmetic, and the two lemmas it is used for."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privatelr.selection.multiplicative_weights import dense_projection, projection_error

CASES = 20_000


def by_sorting(log_weights, s):
    """Cut off the k largest for the one k that fits, tried one by one."""
    order = np.argsort(-log_weights)
    sorted_ = log_weights[order]
    for k in range(len(sorted_)):
        if k >= s:
            break
        level = sorted_[k]
        zeta = (s - k) / np.exp(sorted_[k:] - level).sum()
        if zeta <= 1 + 1e-13:
            break
    q = np.minimum(np.exp(np.minimum(log_weights - level, 0.0)) * zeta, 1.0) / s
    q[order[:k]] = 1 / s
    return q


@given(
    st.integers(2, 40),
    st.floats(0, 1, exclude_max=True),
    st.sampled_from([0.0, 0.1, 3.0, 100.0, 400.0, 1e5]),
    st.integers(0, 2**32 - 1),
)
def test_against_sorting(n, place, spread, seed):
    s = 1 + place * (n - 1) * (1 - 1e-9)
    log_weights = spread * np.random.default_rng(seed).standard_normal(n)
    q = dense_projection(log_weights, s)
    assert q == pytest.approx(by_sorting(log_weights, s), abs=1e-10 / s + 1e-12)
    assert q.sum() == pytest.approx(1, abs=1e-12)
    assert q.max() <= 1 / s * (1 + 1e-15)
    assert q.min() >= 0


def test_known():
    third = float(Fraction(1, 3))
    assert dense_projection(np.log([1.0, 1.0, 1.0]), 1.5) == pytest.approx([third] * 3)
    assert dense_projection(np.log([8.0, 1.0, 1.0]), 2.0) == pytest.approx([0.5, 0.25, 0.25])
    assert dense_projection(np.log([8.0, 1.0, 1.0]), 1.0) == pytest.approx([0.8, 0.1, 0.1])


@pytest.mark.parametrize("s", [1.0, 1.5, 2.0, 7.3, 50.0, 99.5])
@pytest.mark.parametrize("size", [1e3, 1e5, 1e8])
def test_exponents_of_any_size(size, s):
    """Those far above are cut off, those far below vanish, and the rest share what is left."""
    log_weights = np.concatenate([np.full(2, size), [0.0, 0.0, -1.0], np.full(95, -size)])
    q = dense_projection(log_weights, s)
    assert np.isfinite(q).all()
    assert q.sum() == pytest.approx(1, abs=1e-12)
    assert q == pytest.approx(by_sorting(log_weights, s), abs=1e-12)


def random_case(rng):
    """Weights that differ in one row, often by very much, and scores of every row."""
    n = int(rng.integers(2, 9))
    s = 1 + rng.random() * (n - 1) * (1 - 1e-6)
    first = rng.standard_normal(n) * rng.choice([0.1, 1.0, 5.0, 60.0])
    second, row = first.copy(), int(rng.integers(n))
    second[row] += rng.choice([-1, 1]) * rng.exponential() * rng.choice([0.3, 5.0, 100.0])
    return n, s, row, dense_projection(first, s), dense_projection(second, s)


def test_one_row_moves_the_others_one_way_by_as_much_as_itself():
    """And by at most ``1 / s``, so that the whole moves by at most ``2 / s``."""
    rng, largest = np.random.default_rng(11), 0.0
    for _ in range(CASES):
        _, s, row, q, other = random_case(rng)
        change = np.delete(q - other, row)
        assert (change >= -1e-13).all() or (change <= 1e-13).all()
        assert abs(change).sum() == pytest.approx(abs(q[row] - other[row]), abs=1e-12)
        assert abs(change).sum() <= 1 / s + 1e-12
        largest = max(largest, abs(q - other).sum() * s)
    assert largest > 1.999


def score_moves(rng, low, high):
    """How far a weighted mean of entries in [low, high] moves with one row, over ``1 / s``."""
    n, s, row, q, other = random_case(rng)
    entries = rng.choice([low, high], n) if rng.random() < 0.5 else rng.uniform(low, high, n)
    moved = entries.copy()
    moved[row] = rng.choice([low, high])
    if rng.random() < 0.3:  # where the lemma is tight: all others pull against the one
        entries[:] = rng.choice([low, high])
        moved[:] = entries
        moved[row] = low + high - entries[0]
        entries[row] = moved[row]
    return abs(q @ entries - other @ moved) * s


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (0.0, 1.0)])
def test_a_score_moves_by_its_range_over_s(low, high):
    """Also where the row is replaced: never exceeded, and attained."""
    rng = np.random.default_rng(12)
    moves = np.array([score_moves(rng, low, high) for _ in range(CASES)])
    assert moves.max() <= (high - low) * (1 + 1e-9)
    assert moves.max() > 0.999 * (high - low)


def test_rounding_is_within_what_is_allowed():
    """Against exact sums of the same weights, for a sum of many terms."""
    rng = np.random.default_rng(3)
    n, s = 20_000, 5_000.0
    log_weights = rng.standard_normal(n) * 3
    q = dense_projection(log_weights, s)
    exact = sum(map(Fraction, q.tolist()))
    assert abs(exact - 1) < projection_error(n)
