"""Rows that are left as they are without being bounded are those that bounding would not change."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privatelr.numerics.rows import RowBounds, bounded_rows, held_in_blocks
from privatelr.numerics.rows.row_bounds import (
    block_runs,
    keep_blocks,
    keep_length,
    largest_entries,
)
from privatelr.types import Block

ODD = [0.0, -0.0, 1e300, -1e-300, 5e-324, np.nan, np.inf, -np.inf]
ENTRY = st.one_of(st.floats(-3, 3), st.sampled_from([1.0, -1.0, 0.5, *ODD]))
SIZES = st.lists(st.integers(1, 3), min_size=1, max_size=4)


@st.composite
def problems(draw):
    """Covariates, limits to their rows, and where some rows stop being within them."""
    sizes = draw(SIZES)
    intercept = draw(st.sampled_from([None, 1.0, 0.25]))
    p = sum(sizes) - (intercept is not None)
    n = draw(st.integers(1, 6))
    values = draw(st.lists(ENTRY, min_size=n * p, max_size=n * p))
    bound = draw(st.sampled_from([0.5, 1.0, 2.0, 1e-120]))
    limits = st.sampled_from([0.3, 1.0, 1.5, 4.0])
    # one length for all blocks that have a length; the intercept has none
    balls, length = draw(st.lists(st.booleans(), min_size=4, max_size=4)), draw(limits)
    balls[0] &= intercept is None
    blocks = tuple(
        Block(size, length, "l2") if ball else Block(size, draw(limits))
        for size, ball in zip(sizes, balls, strict=False)
    )
    x = np.array(values).reshape(n, p)
    return x, RowBounds(bound, intercept, blocks=draw(st.sampled_from([(), blocks])))


def in_full(x, limits):
    """Every row bounded, whether it has to be or not."""
    bounded = bounded_rows(x, limits.bound, limits.intercept, blocks=limits.blocks)
    return held_in_blocks(bounded, limits.blocks) if limits.blocks else bounded


def check_hold(x, limits, order):
    labels = np.where(np.arange(len(x)) % 2, 1.0, -1.0)
    before = x.copy(), labels.copy()
    rows, y = limits.hold(np.asarray(x, order=order), labels)
    np.testing.assert_array_equal(rows, in_full(x, limits))
    np.testing.assert_array_equal(y, np.where(np.isfinite(x).all(axis=1), labels, 0.0))
    np.testing.assert_array_equal(x, before[0])
    np.testing.assert_array_equal(labels, before[1])
    assert y is not labels
    for i in range(len(x)):
        alone, label = limits.hold(x[i : i + 1], labels[i : i + 1])
        np.testing.assert_array_equal(alone[0], rows[i])
        assert label[0] == y[i]


@given(problems(), st.sampled_from("CF"))
@settings(max_examples=300, deadline=None)
def test_rows_are_those_that_are_bounded_in_full(problem, order):
    check_hold(*problem, order)


def test_rows_at_the_bound_are_bounded():
    """Rows within a few roundings of their limit, on either side, where a sum may err."""
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((4000, 7))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    scales = 1 + rng.integers(-20, 20, 4000)[:, None] * 2.0**-53
    for shift in (1.0, 1 - 2.0**-40, 1 - 2.0**-39):
        x = directions * scales * shift
        check_hold(x[:200], RowBounds(1.0, None), "C")
        rows, _ = RowBounds(1.0, 1.0).hold(x, np.ones(len(x)))
        np.testing.assert_array_equal(rows, in_full(x, RowBounds(1.0, 1.0)))


def test_what_is_kept_is_kept_for_sure():
    x = np.array([[0.6, 0.8], [0.6, 0.7], [np.nan, 0.0], [np.inf, 0.0], [1e200, 0.0]])
    np.testing.assert_array_equal(keep_length(x, 1.0), [False, True, False, False, False])
    assert not keep_length(x, 1e-110).any()
    x, blocks = x[:2], block_runs([Block(1, 0.5), Block(2, 1.35)])
    largest, complete = largest_entries(x)
    assert largest.tolist() == [0.6, 0.8]
    assert complete
    np.testing.assert_array_equal(keep_blocks(x, blocks, 0.5, largest), [False, True])
    assert not keep_blocks(x, blocks, 0.75, largest).any()
    assert not keep_blocks(x, block_runs([Block(3, 1.0)]), 0.1, largest).any()


def test_columns_tell_what_is_kept_by_all_rows_only_where_no_entry_is_missing():
    """Of a column with a NaN the others count, and the row of the NaN is not kept."""
    x = np.array([[0.1, -0.2], [np.nan, 0.0], [0.3, 0.1]])
    largest, complete = largest_entries(x)
    assert largest.tolist() == [0.3, 0.2]
    assert not complete
    assert RowBounds(1.0, None).kept(x).tolist() == [True, False, True]
    assert RowBounds(1.0, None).kept(x[::2]).all()
    assert not RowBounds(0.1, None).kept(x[::2]).any()
    assert RowBounds(1.0, None).kept(np.empty((2, 0))).all()
    assert RowBounds(1.0, None).kept(np.empty((0, 2))).shape == (0,)


@pytest.mark.parametrize("columns", [3, 20_000])
def test_blocks_hold_exactly_where_their_sums_lose_digits(columns):
    x = np.full((2, columns), 2.0**-54)  # each is lost when it is added to one
    x[:, 0] = 1.0
    x[1] *= -3.0
    held = held_in_blocks(x, (Block(columns, 1.0),))
    for row in held:
        assert 1 - 1e-11 <= math.fsum(np.abs(row)) <= 1.0


def test_a_row_of_no_use_is_zero_without_covariates():
    rows, y = RowBounds(1.0, 0.5).hold(np.empty((3, 0)), np.array([1.0, 0.0, -1.0]))
    assert rows.ravel().tolist() == [0.5, 0.0, 0.5]
    assert y.tolist() == [1.0, 0.0, -1.0]


def test_a_sum_that_is_exactly_the_bound_is_left_alone():
    x = np.eye(16)[np.arange(40) % 16]
    np.testing.assert_array_equal(held_in_blocks(x, (Block(5, 1.0), Block(11, 1.0))), x)
    halves = np.full((3, 4), 0.25)
    np.testing.assert_array_equal(held_in_blocks(halves, (Block(4, 1.0),)), halves)


def test_a_sum_beyond_all_numbers_is_held():
    held = held_in_blocks(np.array([[1e308, 1e308, 1.0]]), (Block(3, 1.0),))
    assert np.isfinite(held).all()
    assert np.abs(held).sum() <= 1.0
