"""Folds that run side by side give the same numbers, to the last bit, as folds that do not."""

import operator
import threading
import time

import numpy as np
import pytest

from privatelr.numerics import (
    LOSSES,
    Objective,
    gradient_of,
    hessian,
    in_order,
    summed,
    threads,
    value_and_gradient,
)
from privatelr.numerics.rows import DenseRows, additions, block_rows
from privatelr.numerics.solve import CERTIFICATE, Newton, descend
from privatelr.numerics.solve.newton import thinned_rows

EVERY_LOSS = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def table(n=120_000, d=12, seed=0, tilt=0.0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)) / np.sqrt(d)
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-x.sum(axis=1))), 1.0, -1.0)
    y[::13] = 0.0
    rows = DenseRows(x, y, bound=1.0, intercept=0.5)
    return rows, tilt * rng.standard_normal(d + 1)


@EVERY_LOSS
def test_the_number_of_threads_changes_no_bit(loss):
    rows, tilt = table()
    objective = Objective(rows, loss, 1e-3, tilt)
    w = np.linspace(-1, 1, rows.d)
    found = []
    for limit in (1, 2, 5):
        with threads(limit):
            found.append((value_and_gradient(objective, w), hessian(objective, w)))
    for (value, gradient), matrix in found[1:]:
        assert value == found[0][0][0]
        np.testing.assert_array_equal(gradient, found[0][0][1])
        np.testing.assert_array_equal(matrix, found[0][1])


def test_work_is_done_by_several_threads_and_in_order():
    barrier = threading.Barrier(2, timeout=10)

    def both(item):
        barrier.wait()  # ends only if two items are at work at once
        return item * item

    with threads(2):
        assert in_order(both, range(8)) == [item * item for item in range(8)]


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_sums_are_added_up_in_order_whoever_ends_first(limit):
    """Were they not, words would be in another order."""
    ended = []

    def slow_at_first(item):
        time.sleep(0.02 if item % 5 == 0 else 0.001)
        ended.append(item)
        return f"{item} "

    with threads(limit):
        found = summed(slow_at_first, range(20), operator.add)
    assert found == "".join(f"{item} " for item in range(20))
    assert limit == 1 or ended != list(range(20))


@EVERY_LOSS
@pytest.mark.parametrize("tilt", [0.0, 1e-2, 30.0])
def test_many_rows_are_minimised_as_by_newton(loss, tilt):
    rows, tilts = table(tilt=tilt)
    objective = Objective(rows, loss, 1e-3, tilts)
    assert thinned_rows(rows.n, rows.d) is not None
    minimum = Newton()(objective)
    by_newton = descend(objective, np.zeros(rows.d), CERTIFICATE, 500)
    enough = CERTIFICATE * max(1.0, np.linalg.norm(tilts))
    assert minimum.gradient_norm <= enough
    np.testing.assert_allclose(
        gradient_of(objective, minimum.w),
        value_and_gradient(objective, minimum.w)[1],
        atol=1e-15 * (1 + np.linalg.norm(tilts)),
    )
    apart = np.linalg.norm(minimum.w - by_newton.w)
    rounding = 1e-14 * np.linalg.norm(minimum.w)
    assert apart <= (minimum.gradient_norm + by_newton.gradient_norm) / 1e-3 + rounding


class Counted:
    """Rows that count the folds over all of them."""

    def __init__(self, rows):
        self.rows, self.folds = rows, 0

    def __getattr__(self, name):
        return getattr(self.rows, name)

    def fold(self, kernel):
        self.folds += 1
        return self.rows.fold(kernel)


@pytest.mark.parametrize(
    ("name", "n", "d"),
    [("logistic", 400_000, 12), ("softplus", 400_000, 12), ("logistic", 100_000, 100)],
)
def test_few_passes_are_enough_where_data_is_well_conditioned(name, n, d):
    rows, tilt = table(n, d)
    counted = Counted(rows)
    objective = Objective(counted, LOSSES[name], 1e-3, tilt)
    assert Newton()(objective).gradient_norm <= CERTIFICATE
    assert counted.folds <= 8


def test_sorted_rows_and_useless_rows_still_lead_to_the_minimum():
    rng = np.random.default_rng(1)
    x = np.sort(rng.standard_normal((80_000, 3)), axis=0)
    y = np.where(np.arange(80_000) < 40_000, -1.0, 1.0)
    x[::2] = np.nan  # every other row, which an equal distance may fall on
    rows = DenseRows(x, y, bound=1.0, intercept=0.5)
    objective = Objective(rows, LOSSES["huber"], 1e-4, np.zeros(4))
    assert Newton()(objective).gradient_norm <= CERTIFICATE


@pytest.mark.parametrize("d", [1, 5, 51, 700, 10_000])
def test_a_sum_goes_through_no_more_additions_than_stated(d):
    """Counted: each term adds one to the depth of the sum that it is in."""

    class Depth:
        def __init__(self, depth):
            self.depth = depth

        def __add__(self, other):
            return Depth(max(self.depth, other.depth) + 1)

    n = 100_003
    rows = object.__new__(DenseRows)
    for name, value in (
        ("x", np.lib.stride_tricks.as_strided(np.zeros(1), (n, d), (0, 0))),
        ("y", np.zeros(n)),
        ("radius", 1.0),
        ("blocks", ()),
        ("offset", None),
        ("persons", None),
    ):
        object.__setattr__(rows, name, value)
    (found,) = rows.fold(lambda x, y: (Depth(len(x)),))
    assert found.depth <= additions(n, d)
    assert block_rows(d) % 64 == 0
