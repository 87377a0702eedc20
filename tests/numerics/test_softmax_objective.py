"""The softmax objective, its derivatives, and minima with a certificate."""

import numpy as np
import pytest
from flint import arb, ctx
from scipy import sparse

from privatelr.numerics.rows import DenseRows, sparse_backend
from privatelr.numerics.softmax_objective import (
    SoftmaxObjective,
    classes_of,
    hessian,
    short_gradient,
    softmax,
    value_and_gradient,
)
from privatelr.numerics.solve import softmax_minimum as solving
from privatelr.numerics.solve.certified import Derivatives, enclose, precise_minimum
from privatelr.privacy.noise import FloatDraw

K, P = 3, 4
BALLS = Derivatives(solving._sums, solving._hessian)


def table(n=400, seed=0, weighted=True, large=1.0):
    rng = np.random.default_rng(seed)
    x, c = large * rng.uniform(-1, 1, (n, P)), rng.integers(0, K, n).astype(float)
    labels = 1 / np.sqrt(rng.uniform(0.1, 1, n)) if weighted else np.ones(n)
    x[:5], labels[:5] = np.nan, 0.0
    return x, labels, c


def rows_of(*given, **options):
    limits = {"bound": 2.0, "intercept": 0.5, "offset_bound": K - 1.0}
    return DenseRows(*table(*given, **options), **limits)


def case(scale=20.0, lambda_=0.02, **options):
    rows = rows_of(**options)
    tilt = scale * np.random.default_rng(9).standard_normal(K * rows.d)
    return SoftmaxObjective(rows, K, lambda_, tilt / rows.n), tilt


def test_rows_carry_their_classes_through_weights_and_shortening():
    _, _, classes = table(large=3.0)
    rows = rows_of(large=3.0)
    assert (classes_of(rows.y, rows.offset)[5:] == classes[5:]).all()
    assert (rows.x[:5] == 0).all()
    assert np.linalg.norm(rows.x, axis=1).max() <= rows.radius
    assert (np.abs(rows.y[5:]) > 1).all()


@pytest.mark.parametrize("seed", range(3))
def test_derivatives_are_those_of_the_value(seed):
    objective, _ = case(seed=seed)
    w, step = np.random.default_rng(seed).standard_normal(K * objective.rows.d), 1e-5
    each = step * np.eye(len(w))
    _, gradient = value_and_gradient(objective, w)
    moved = [
        (value_and_gradient(objective, w + e), value_and_gradient(objective, w - e)) for e in each
    ]
    slopes = [(up[0] - down[0]) / (2 * step) for up, down in moved]
    bends = [(up[1] - down[1]) / (2 * step) for up, down in moved]
    np.testing.assert_allclose(gradient, slopes, atol=1e-9)
    np.testing.assert_allclose(hessian(objective, w), bends, atol=1e-8)
    np.testing.assert_allclose(
        short_gradient(objective, w) / objective.rows.n, gradient, atol=1e-14
    )


def test_a_weight_counts_as_so_many_records():
    x, _, c = table(weighted=False)
    w = np.random.default_rng(1).standard_normal(K * (P + 1))
    limits = {"bound": 2.0, "intercept": 0.5, "offset_bound": K - 1.0}
    labels = np.where(np.isnan(x[:, 0]), 0.0, 1.0)
    half = DenseRows(np.tile(x, (2, 1)), np.tile(labels * np.sqrt(2), 2), np.tile(c, 2), **limits)
    whole = DenseRows(x, labels, c, **limits)
    tilt = np.zeros(len(w))
    one = value_and_gradient(SoftmaxObjective(whole, K, 0.0, tilt), w)
    two = value_and_gradient(SoftmaxObjective(half, K, 0.0, tilt), w)
    # rows of zeros have the constant loss log K, whatever their number
    np.testing.assert_allclose(2 * two[1], one[1], atol=1e-14)


def test_sparse_rows_have_the_same_derivatives():
    x, labels, c = table(weighted=False)
    x = np.where(np.isnan(x), 0.0, x) * (np.abs(x) > 0.5)
    limits = {"bound": 2.0, "intercept": 0.5, "offset_bound": K - 1.0}
    dense = DenseRows(np.where(labels[:, None] == 0, np.nan, x), labels, c, **limits)
    thin = sparse_backend(sparse.csr_array(x), labels, c, projection=None, **limits)
    w = np.random.default_rng(2).standard_normal(K * dense.d)
    ours, theirs = (SoftmaxObjective(rows, K, 0.1, 0 * w) for rows in (dense, thin))
    np.testing.assert_allclose(
        value_and_gradient(ours, w)[1], value_and_gradient(theirs, w)[1], atol=1e-14
    )
    np.testing.assert_allclose(hessian(ours, w), hessian(theirs, w), atol=1e-14)
    np.testing.assert_allclose(short_gradient(ours, w), short_gradient(theirs, w), atol=1e-11)


def test_probabilities_of_a_row_do_not_depend_on_other_rows():
    links = 300 * np.random.default_rng(3).standard_normal((50, 5))
    whole = softmax(links)
    assert all((softmax(links[i : i + 1]) == whole[i]).all() for i in range(50))
    np.testing.assert_allclose(whole.sum(axis=1), 1.0, rtol=1e-14)


def exact_length(objective, tilt, w):
    """The length of the gradient of F at doubles w, in balls of 200 bits."""
    before, ctx.prec = ctx.prec, 200
    try:
        parts = objective.rows, objective.loss, arb(objective.rows.n * objective.lambda_)
        made = solving.ExactObjective(*parts, [arb(float(b)) for b in tilt], derivatives=BALLS)
        found = enclose(made, [arb(float(v)) for v in w]).gradient
        return float(sum((entry**2 for entry in found), arb(0)).sqrt())
    finally:
        ctx.prec = before


@pytest.mark.parametrize("scale", [0.0, 20.0, 1e6])
@pytest.mark.parametrize("lambda_", [1e-6, 0.02, 10.0])
def test_the_bound_on_a_gradient_covers_the_exact_one(scale, lambda_):
    objective, tilt = case(scale=scale, lambda_=lambda_)
    nearest = objective.rows.n * objective.tilt
    rng = np.random.default_rng(4)
    at_minimum = solving.descend_softmax(objective, 0.0)
    for w in (at_minimum, rng.standard_normal(len(tilt)), 1e4 * rng.standard_normal(len(tilt))):
        bound = solving.softmax_gradient_bound(objective, w)
        exact = exact_length(objective, nearest, w)
        size = objective.rows.n * (1 + objective.rows.radius * np.linalg.norm(w))
        size += np.linalg.norm(nearest) * objective.rows.radius
        assert exact <= bound <= exact * (1 + 1e-12) + 1e-12 * size


def test_a_certified_minimum_is_one_in_doubles_and_in_balls(monkeypatch):
    objective, tilt = case()
    draw = FloatDraw(tilt)
    exact = precise_minimum(objective, np.zeros(len(tilt)), 1e-30, draw.enclose, BALLS)
    given = objective.rows, K, objective.lambda_, objective.tilt
    tau = 1e-9
    near = tau / (objective.rows.n * objective.lambda_)
    for broken in (False, True):
        if broken:  # doubles that do not get there: balls go on
            monkeypatch.setattr(solving, "descend_softmax", lambda o, goal: 0 * o.tilt)
        found = solving.certified_softmax(*given, tau, draw.enclose)
        apart = [float(a - b) for a, b in zip(found, exact, strict=True)]
        assert np.linalg.norm(apart) <= near


def test_a_bound_without_rounding_is_caught(monkeypatch):
    objective, _ = case(scale=1e6, lambda_=1e-6)
    monkeypatch.setattr(solving, "EVALUATION_ERROR", 0.0)
    monkeypatch.setattr(solving, "_UNIT", 0.0)
    monkeypatch.setattr(solving, "MARGIN_ERROR", 0.0)
    w = solving.descend_softmax(objective, 0.0)
    exact = exact_length(objective, objective.rows.n * objective.tilt, w)
    assert exact > solving.softmax_gradient_bound(objective, w)
