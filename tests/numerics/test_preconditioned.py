"""Gradients that are steered by a curvature of few rows lead where Newton's method leads."""

import numpy as np
import pytest
from scipy import sparse

from privatelr.numerics import LOSSES, Huber, Logistic, Objective, hessian
from privatelr.numerics.rows import DenseRows, SparseRows, rough_gram
from privatelr.numerics.solve import Newton, certificate, descend, newton
from privatelr.numerics.solve.newton import lbfgs_minimum, thinned_rows


def labels(margin, rng):
    return np.where(rng.random(len(margin)) < 1 / (1 + np.exp(-margin)), 1.0, -1.0)


def rare(n=20_000, factors=12, levels=8):
    """Levels of factors, most of which hardly occur: a thinned table has never seen some."""
    rng = np.random.default_rng(5)
    codes = np.minimum(rng.geometric(0.6, (n, factors)) - 1, levels - 1)
    columns = codes + levels * np.arange(factors)
    starts = np.arange(0, n * factors + 1, factors)
    shape = (n, factors * levels)
    x = sparse.csr_array((np.ones(n * factors), columns.ravel(), starts), shape=shape)
    return x, labels(x @ rng.standard_normal(factors * levels), rng)


def powers(n=20_000):
    rng = np.random.default_rng(6)
    u = rng.uniform(-1, 1, n)
    return u[:, None] ** np.arange(1, 10), labels(4 * u - 3 * u**4, rng)


def twins(n=9_000):
    rng = np.random.default_rng(7)
    x = rng.uniform(-1, 1, (n, 6))
    return np.column_stack([x, x[:, 0], np.zeros(n)]), labels(3 * x[:, 0], rng)


def separated(n=9_000):
    rng = np.random.default_rng(8)
    x = rng.uniform(-1, 1, (n, 4))
    return x, np.where(x[:, 0] > 0, 1.0, -1.0)


def periodic(n=16_384):
    """Every fourth row is another kind: equal distances see one kind only."""
    rng = np.random.default_rng(9)
    x = rng.uniform(-1, 1, (n, 8))
    x[::4] *= 1e-3
    return x, labels(5 * x[:, 1], rng)


TABLES = {f.__name__: f for f in (rare, powers, twins, separated, periodic)}
EVERY_TABLE = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)


def objective_of(table, loss, lambda_=1e-4, tilt=0.0):
    x, y = table()
    held = {"bound": 4.0, "intercept": 0.5}
    rows = SparseRows(x, y, **held) if sparse.issparse(x) else DenseRows(x, y, **held)
    return Objective(rows, loss, lambda_, tilt * np.cos(np.arange(rows.d)))


@EVERY_TABLE
@pytest.mark.parametrize("tilt", [0.0, 0.3])
@pytest.mark.parametrize("loss", [*LOSSES.values(), Huber(0.01)], ids=[*LOSSES, "sharp"])
def test_the_minimum_is_that_of_newton(table, loss, tilt):
    objective = objective_of(table, loss, tilt=tilt)
    assert objective.rows.n * objective.rows.d >= 2**14  # steps by gradients alone come first
    minimum = Newton()(objective)
    assert minimum.gradient_norm <= certificate(objective)
    alone = descend(objective, np.zeros(objective.rows.d), 1e-10, 500)
    apart = np.linalg.norm(minimum.w - alone.w)
    reach = (minimum.gradient_norm + alone.gradient_norm) / objective.lambda_
    assert apart <= reach + 1e-13 * np.linalg.norm(alone.w)


def test_a_column_that_thinned_rows_do_not_show_takes_one_more_curvature(monkeypatch):
    rng = np.random.default_rng(12)
    x = rng.uniform(-1, 1, (16_000, 4))
    x[:, 0] = np.arange(16_000) % 4 == 1
    y = labels(3 * x[:, 0] - x[:, 1], rng)
    objective = objective_of(lambda: (x, y), Logistic())
    few = thinned_rows(objective.rows.n, objective.rows.d)
    assert not objective.rows.thinned(few).x[:, 1].any()

    def left():
        return lbfgs_minimum(objective, 1e-10)[1]

    assert left() <= 1e-10
    monkeypatch.setattr(newton, "_AGAIN", 0)
    assert left() > 1e-10


@pytest.mark.parametrize("factor", [0.01, 100.0])
def test_a_wrong_curvature_costs_time_and_no_digits(monkeypatch, factor):
    wrong = [True]
    inverse = newton._inverse

    def spoiled(matrix):
        return inverse(matrix * factor if wrong else matrix)

    monkeypatch.setattr(newton, "_inverse", spoiled)
    objective = objective_of(powers, Logistic())
    assert Newton()(objective).gradient_norm <= 1e-10


@pytest.mark.parametrize("filled", [0.01, 0.1, 0.5])
def test_a_curvature_of_sparse_rows_is_that_of_dense_ones(filled):
    rng = np.random.default_rng(11)
    x = sparse.random_array((700, 30), density=filled, rng=rng, format="csr")
    weight = rng.random(700)
    expected = x.toarray().T @ (weight[:, None] * x.toarray())
    np.testing.assert_allclose(rough_gram(x, weight), expected, atol=1e-12)
    y = np.ones(700)
    dense, thin = (
        Objective(kind(data, y, bound=9.0, intercept=0.5), Logistic(), 1e-3, np.zeros(31))
        for kind, data in ((DenseRows, x.toarray()), (SparseRows, x))
    )
    w = rng.standard_normal(31)
    np.testing.assert_allclose(hessian(thin, w), hessian(dense, w), atol=1e-14)
