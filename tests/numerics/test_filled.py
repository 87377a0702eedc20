"""Columns without entries are minimised apart from the others, and by a formula."""

import numpy as np
import pytest
from scipy import sparse

from privatelr.numerics import Logistic, Objective, filled_part, gradient_of
from privatelr.numerics.rows import DenseRows, SparseRows
from privatelr.numerics.solve import Newton, descend


def objective(n=60, d=20_000, each=5, tilt=0.01, lambda_=0.1, seed=0):
    rng = np.random.default_rng(seed)
    places = rng.integers(0, d, n * each)
    starts = np.arange(0, n * each + 1, each)
    x = sparse.csr_array((rng.uniform(-1, 1, n * each), places, starts), shape=(n, d))
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    rows = SparseRows(x, y, bound=1.0, intercept=0.5)
    return Objective(rows, Logistic(), lambda_, tilt * rng.standard_normal(d + 1))


@pytest.mark.parametrize("tilt", [0.0, 0.01, 3.0])
def test_the_minimum_is_that_of_the_whole(tilt):
    whole = objective(tilt=tilt)
    part, _ = filled_part(whole)
    assert 0 < part.rows.d <= 60 * 5 + 1
    minimum = Newton()(whole)
    alone = descend(whole, np.zeros(whole.rows.d), 1e-10, 500)
    exact = np.linalg.norm(gradient_of(whole, minimum.w))
    assert exact <= minimum.gradient_norm * (1 + 1e-6) + 1e-13 * (1 + tilt)
    apart = np.linalg.norm(minimum.w - alone.w)
    assert apart <= (minimum.gradient_norm + alone.gradient_norm) / whole.lambda_ + 1e-12


def test_tables_that_gain_nothing_are_left_alone():
    assert filled_part(objective(d=1_000)) is None
    assert filled_part(objective(d=20_000, n=20_000, each=8)) is None
    assert filled_part(objective(lambda_=0.0)) is None
    dense = DenseRows(np.zeros((2, 20_000)), np.ones(2), bound=1.0, intercept=None)
    assert filled_part(Objective(dense, Logistic(), 1.0, np.zeros(20_000))) is None
