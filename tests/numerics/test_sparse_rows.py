"""Sparse rows are bounded as dense ones are, and every kernel finds the same numbers in them."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from exact_minimum import exact_gradient, exact_norm
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from privatelr import Newton
from privatelr.locks import working_precision
from privatelr.mechanisms import Problem, mean_moments
from privatelr.mechanisms.stages.matrices import calibrate_moments
from privatelr.numerics import (
    LOSSES,
    Objective,
    gradient_of,
    hessian,
    mean_change,
    threads,
    value_and_gradient,
)
from privatelr.numerics.rows import (
    DenseRows,
    SparseRows,
    additions,
    block_rows,
    gram,
    sparse_rows,
)
from privatelr.numerics.solve import certified_minimum, gradient_bound, precise_minimum
from privatelr.privacy import PureDP
from privatelr.types import Block

LOGISTIC = LOSSES["logistic"]


def table(n=60, p=9, density=0.3, seed=0, long=1.0):
    """Covariates with rows of all kinds, and labels."""
    rng = np.random.default_rng(seed)
    x = np.where(rng.uniform(size=(n, p)) < density, long * rng.standard_normal((n, p)), 0.0)
    return x, np.where(rng.uniform(size=n) < 0.5, 1.0, -1.0)


def both(x, y, **options):
    options = {"bound": 1.0, "intercept": 0.5, **options}
    return DenseRows(x, y, **options), SparseRows(sparse.csr_array(x), y, **options)


def objectives(n=300, p=40, lambda_=0.01, loss=LOGISTIC, seed=0):
    tilt = np.random.default_rng(seed).standard_normal(p + 1) / n
    return [Objective(rows, loss, lambda_, tilt) for rows in both(*table(n, p, seed=seed))]


def no_tilt(objective):
    def tilt(precision):
        with working_precision(precision):
            return [objective.rows.n * arb(float(entry)) for entry in objective.tilt]

    return tilt


# --- rows -----------------------------------------------------------------------------------


@given(
    st.integers(1, 40),
    st.integers(1, 12),
    st.floats(0, 1),
    st.floats(-200, 200),
    st.sampled_from([None, 0.5]),
    st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None)
def test_same_rows_as_dense(n, p, density, exponent, intercept, seed):
    x, y = table(n, p, density, seed, 10.0**exponent)
    x[seed % n, seed % p] = [np.nan, np.inf, -np.inf, 1e308][seed % 4]
    dense, held = both(x, y, intercept=intercept)
    np.testing.assert_allclose(held.x.toarray(), dense.x, rtol=1e-11)
    assert (held.y == dense.y).all()
    assert (held.n, held.d, held.radius) == (dense.n, dense.d, dense.radius)


def exact_lengths(rows):
    return [
        sum(Fraction(float(v)) ** 2 for v in rows.x.data[a:b])
        for a, b in zip(rows.x.indptr, rows.x.indptr[1:], strict=False)
    ]


def check_lengths(p):
    rng = np.random.default_rng(p)
    x = sparse.csr_array(rng.uniform(0.1, 1, (2, p)) * [[1.0], [1e-3]])
    rows = SparseRows(x, np.ones(2), bound=1.0, intercept=None)
    assert max(exact_lengths(rows)) <= 1


@pytest.mark.parametrize("p", [1, 2, 1000, 30_000])
def test_no_row_is_longer_than_its_bound(p):
    check_lengths(p)


def drowning(p=40_000):
    """A row whose small squares all drown, one after the other, in that of the first entry."""
    x = np.full((1, p), np.sqrt(0.9) * 2.0**-26.5)
    x[0, 0] = 1.0
    return x


def drowning_sparsely():
    x = sparse.csr_array(drowning())
    return exact_lengths(SparseRows(x, np.ones(1), bound=1.0, intercept=None))[0]


def test_sums_of_many_squares_are_allowed_for(monkeypatch):
    """They lose more digits than what short rows are held below."""
    dense = DenseRows(drowning(), np.ones(1), bound=1.0, intercept=None)
    assert sum(Fraction(float(v)) ** 2 for v in dense.x[0]) <= 1
    assert drowning_sparsely() <= 1
    monkeypatch.setattr(sparse_rows, "_UNIT", 0.0)
    assert drowning_sparsely() > 1


def test_input_is_neither_changed_nor_kept():
    x, y = table(long=100.0)
    for kind in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array):
        given_ = kind(x)
        before = given_.toarray()
        rows = SparseRows(given_, y, bound=1.0, intercept=0.5)
        assert (given_.toarray() == before).all()
        assert not np.shares_memory(rows.x.data, given_.data)
        dense = DenseRows(x, y, bound=1.0, intercept=0.5)
        np.testing.assert_allclose(rows.x.toarray(), dense.x, rtol=1e-12)
    with pytest.raises(ValueError, match="read-only"):
        rows.x.data[0] = 1.0


def test_entries_given_twice_and_numbers_of_other_types():
    x = sparse.csr_array(
        (np.array([3, 1, -3, 2], dtype=np.int8), np.array([2, 0, 2, 1]), np.array([0, 3, 4])),
        shape=(2, 3),
    )
    rows = SparseRows(x, np.ones(2), bound=5.0, intercept=None)
    assert rows.x.toarray().tolist() == [[1, 0, 0], [0, 2, 0]]
    assert rows.x.indices.dtype == np.int32


def test_a_row_depends_on_nothing_but_itself():
    """To the last bit, whatever stands around it."""
    x, y = table(80, 50, long=3.0)
    alone = [
        SparseRows(sparse.csr_array(x[i : i + 1]), y[i : i + 1], bound=1.0, intercept=0.5)
        for i in range(80)
    ]
    together = SparseRows(sparse.csr_array(x), y, bound=1.0, intercept=0.5)
    for i, row in enumerate(alone):
        assert (row.x.toarray()[0] == together.x.toarray()[i]).all()


def test_rows_without_a_label_are_zero():
    x, y = table()
    y[3], y[5] = 0.0, np.nan
    rows = SparseRows(sparse.csr_array(x), y, bound=1.0, intercept=0.5)
    assert not rows.x.toarray()[[3, 5]].any()
    assert rows.y[3] == rows.y[5] == 0


def test_blocks_are_held():
    blocks = (Block(1, 0.5), Block(4, 0.8), Block(5, 0.3))
    x, y = table(long=2.0)
    dense, held = both(x, y, bound=2.0, blocks=blocks)
    np.testing.assert_allclose(held.x.toarray(), dense.x, rtol=1e-11)
    sizes = np.add.reduceat(np.abs(held.x.toarray()), [0, 1, 5], axis=1)
    assert (sizes <= [block.bound for block in blocks]).all()
    assert (sizes.max(axis=0) > [0.49, 0.79, 0.29]).all()


def test_scores():
    x, y = table()
    y[2] = 0
    dense, held = both(x, y)
    coef = np.arange(10.0)
    kept = dense.y != 0
    link, label = held.scores(coef)
    np.testing.assert_allclose(link, (dense.x @ coef)[kept], rtol=1e-12)
    assert (label == y[kept]).all()


# --- kernels --------------------------------------------------------------------------------


@pytest.fixture(params=[1, 3, 1000])
def small_blocks(request, monkeypatch):
    monkeypatch.setattr(sparse_rows, "_ROWS", request.param)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("loss", LOSSES.values(), ids=str)
def test_kernels_find_the_same_numbers(loss):
    dense, held = objectives(loss=loss)
    w = np.random.default_rng(3).standard_normal(41)
    for reach in (0.0, 0.7):
        np.testing.assert_allclose(hessian(held, w, reach), hessian(dense, w, reach), atol=1e-14)
    found, expected = value_and_gradient(held, w), value_and_gradient(dense, w)
    assert found[0] == pytest.approx(expected[0], rel=1e-13)
    np.testing.assert_allclose(found[1], expected[1], atol=1e-14)
    np.testing.assert_allclose(gradient_of(held, w), expected[1], atol=1e-14)
    assert mean_change(held, w) == pytest.approx(mean_change(dense, w), rel=1e-13)
    facts = Problem(300, 41, loss, dense.rows.radius).with_lambda(0.01)
    calibration = calibrate_moments(facts, PureDP(1.0))
    np.testing.assert_allclose(
        mean_moments(held.rows, w, calibration),
        mean_moments(dense.rows, w, calibration),
        atol=1e-14,
    )


def test_nothing_depends_on_threads():
    x, y = table(9000, 30)
    objective = Objective(both(x, y)[1], LOGISTIC, 1e-3, np.zeros(31))
    found = []
    for limit in (1, 2, 3):
        with threads(limit):
            found.append(Newton()(objective).w)
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()


def test_products_of_columns_lose_no_more_than_those_of_dense_rows():
    """One term is small; what it loses tells through how many additions it went."""
    n, d = 5 * block_rows(300), 300
    x = sparse.csr_array((np.ones(n), np.zeros(n, dtype=np.int32), np.arange(n + 1)), shape=(n, d))
    weight = np.random.default_rng(0).uniform(size=n)
    exact = float(sum(map(Fraction, weight.tolist())))
    off = abs(gram(x, weight)[0, 0] - exact) / exact
    assert off <= additions(n, d) * 2.0**-53


# --- certificates ---------------------------------------------------------------------------


def exactly(objective, w, tilt):
    """The length of the exact gradient of sparse rows."""
    rows = objective.rows
    dense = object.__new__(DenseRows)
    for name, value in (
        ("x", rows.x.toarray()),
        ("y", rows.y),
        ("radius", rows.radius),
        ("blocks", ()),
        ("persons", None),
    ):
        object.__setattr__(dense, name, value)
    return exact_norm(exact_gradient(replace(objective, rows=dense), w, tilt(300), 300), 300)


@given(
    st.integers(1, 200),
    st.integers(1, 90),
    st.floats(0, 1),
    st.floats(-8, 2),
    st.floats(-8, 10),
    st.integers(0, 10**6),
)
@settings(max_examples=50, deadline=None)
def test_bound_holds(n, p, density, log_lambda, log_w, seed):
    x, y = table(n, p, density, seed)
    rng = np.random.default_rng(seed)
    rows = SparseRows(sparse.csr_array(x), y, bound=2.0, intercept=0.5)
    objective = Objective(rows, LOGISTIC, 10.0**log_lambda, rng.standard_normal(p + 1) / n)
    w = 10.0**log_w * rng.standard_normal(p + 1)
    assert exactly(objective, map(float, w), no_tilt(objective)) <= gradient_bound(objective, w)


def test_bound_holds_at_minima_and_is_of_use():
    for seed in range(5):
        _, objective = objectives(n=500, p=20, lambda_=1e-4, seed=seed)
        w = Newton()(objective, 0.0).w
        bound = gradient_bound(objective, w)
        assert exactly(objective, map(float, w), no_tilt(objective)) <= bound <= 1e-9


@pytest.mark.usefixtures("small_blocks")
def test_balls_go_on_with_sparse_rows():
    _, objective = objectives(n=40, p=4)
    tilt = no_tilt(objective)
    w = precise_minimum(objective, np.zeros(5), 1e-30, tilt)
    assert exactly(objective, w, tilt) <= 1e-30
    w = certified_minimum(objective, Newton(), 1e-9, tilt)
    assert exactly(objective, w, tilt) <= 1e-9
