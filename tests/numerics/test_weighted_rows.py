"""A record that is longer than its bound has a weight, and is otherwise as it was."""

import numpy as np
import pytest
from scipy import sparse, special

from privatelr.locks import flint, working_precision
from privatelr.numerics import LOSSES, Objective, value_and_gradient
from privatelr.numerics.objective import gradient_of, hessian
from privatelr.numerics.rows import DenseRows, SparseRows
from privatelr.numerics.solve import Newton, certified
from privatelr.numerics.solve.certified import ExactObjective
from privatelr.types import Block, row_radius

BOUND, INTERCEPT = 1.5, 0.5
LOGISTIC = LOSSES["logistic"]
NUMBERS = (Block(1, INTERCEPT), Block(1, 1.0, "l2"), Block(1, 1.0, "l2"), Block(1, 1.0))


def records(n=400, seed=1):
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.normal(size=(n, 2)) * 2, rng.random(n) < 0.3])
    x[0], x[1], x[2] = 0.0, [1e4, 0, 0], [np.nan, 0, 0]
    return x, np.where(rng.random(n) < 0.4, 1.0, -1.0)


def rows_of(x, y, **options):
    limits = {"bound": BOUND, "intercept": INTERCEPT, "weighted": True} | options
    return DenseRows(x, y, **limits)


def by_hand(x, y, w, blocks):
    """Sum of loss, gradient and curvature of whole records, each with its weight."""
    total, gradient, bend = 0.0, np.zeros(4), np.zeros((4, 4))
    for record, label in zip(x, y, strict=True):
        if not np.isfinite(record).all():
            total += np.log(2)
            continue
        share = min(1.0, BOUND / max(np.linalg.norm(record), 1e-300))
        if blocks:
            share = min(share, 1 / max(np.linalg.norm(record[:2]), 1e-300))
        row = np.append(INTERCEPT, record)
        margin = label * float(row @ w)
        total += share**2 * np.logaddexp(0, -margin)
        p = special.expit(-margin)
        gradient -= share**2 * p * label * row
        bend += share**2 * p * (1 - p) * np.outer(row, row)
    return total / len(x), gradient / len(x), bend / len(x)


@pytest.mark.parametrize("blocks", [(), NUMBERS], ids=["whole", "blocks"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_objective_is_that_of_whole_records_with_weights(kind, blocks):
    x, y = records()
    rows = rows_of(x, y, blocks=blocks)
    if kind == "sparse":
        table = sparse.csr_array(x)
        rows = SparseRows(table, y, bound=BOUND, intercept=INTERCEPT, blocks=blocks, weighted=True)
    w = np.array([0.3, -0.5, 0.2, 1.0])
    found = Objective(rows, LOGISTIC, 0.0, np.zeros(4))
    total, gradient, bend = by_hand(x, y, w, blocks)
    value, slope = value_and_gradient(found, w)
    assert value == pytest.approx(total, rel=1e-7)
    np.testing.assert_allclose(slope, gradient, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(gradient_of(found, w), gradient, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(hessian(found, w), bend, rtol=1e-6, atol=1e-9)


def check_sensitivity(blocks):
    """The gradient and the curvature of a record are within those of a bounded row."""
    x, y = records(4000, 2)
    rows = rows_of(x * 100, y, blocks=blocks)
    limit = row_radius(BOUND, INTERCEPT)
    assert (np.linalg.norm(rows.x, axis=1) <= limit).all()
    for start, block in enumerate(blocks):
        if block.norm == "l1":
            assert (np.abs(rows.x[:, start]) <= block.bound).all()
    if blocks:
        assert (np.linalg.norm(rows.x[:, 1:3], axis=1) <= 1).all()
    used = rows.y != 0
    assert (np.abs(rows.y[used]) >= 1).all()
    w = np.array([0.3, -0.5, 0.2, 1.0])
    for at in np.flatnonzero(used)[:50]:
        one = rows.with_table(rows.x[[at]].copy(), rows.y[[at]].copy())
        found = Objective(one, LOGISTIC, 0.0, np.zeros(4))
        assert np.linalg.norm(gradient_of(found, w)) <= limit
        assert np.linalg.norm(value_and_gradient(found, w)[1]) <= limit
        assert np.linalg.eigvalsh(hessian(found, w))[-1] <= limit**2 / 4


@pytest.mark.parametrize("blocks", [(), NUMBERS], ids=["whole", "blocks"])
def test_no_record_adds_more_than_one_within_the_bounds(blocks):
    check_sensitivity(blocks)


def test_rows_within_their_bounds_are_not_changed_by_a_bit():
    x, y = records()
    short = x[np.linalg.norm(x, axis=1) < 1]
    y = y[: len(short)]
    plain, weighted = rows_of(short, y, weighted=False), rows_of(short, y)
    np.testing.assert_array_equal(plain.x, weighted.x)
    np.testing.assert_array_equal(plain.y, weighted.y)


def test_a_row_does_not_depend_on_the_rows_around_it():
    x, y = records()
    whole = rows_of(x, y)
    for at in (0, 1, 2, 3, 77):
        alone = rows_of(x[[at]], y[[at]])
        np.testing.assert_array_equal(alone.x[0], whole.x[at])
        assert alone.y[0] == whole.y[at]


def test_balls_enclose_the_objective_of_doubles():
    x, y = records(30)
    rows = rows_of(x, y)
    w = np.array([0.3, -0.5, 0.2, 1.0])
    value, gradient = value_and_gradient(Objective(rows, LOGISTIC, 0.01, np.zeros(4)), w)
    with working_precision(200):
        exact = ExactObjective(rows, LOGISTIC, flint.arb(30 * 0.01), [flint.arb(0)] * 4)
        point = certified.enclose(exact, [flint.arb(float(entry)) for entry in w])
        assert float(point.value.mid()) / 30 == pytest.approx(value, rel=1e-12)
        ball = [float(entry.mid()) / 30 for entry in point.gradient]
    np.testing.assert_allclose(ball, gradient, rtol=1e-10, atol=1e-14)


def test_weights_keep_the_coefficients_and_shortening_does_not():
    """The bias of shortened rows, which the weights are for, is seen by the same test."""
    rng = np.random.default_rng(5)
    n, truth = 60_000, np.array([-0.4, 1.0, -0.7])
    x = np.column_stack([rng.exponential(size=n) - 1, rng.normal(size=n)])
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-truth[0] - x @ truth[1:])), 1.0, -1.0)
    off = {}
    for weighted in (True, False):
        rows = rows_of(x, y, bound=1.0, intercept=1.0, weighted=weighted)
        whole = Objective(rows, LOGISTIC, 1e-9, np.zeros(3))
        off[weighted] = np.abs(Newton()(whole).w - truth).max()
    assert off[True] < 0.06 < 0.15 < off[False]


def test_scores_are_those_of_whole_records():
    x, y = records()
    w = np.array([0.3, -0.5, 0.2, 1.0])
    link, label = rows_of(x, y).scores(w)
    usable = np.isfinite(x).all(axis=1)
    np.testing.assert_allclose(link, INTERCEPT * w[0] + x[usable] @ w[1:], rtol=1e-7)
    np.testing.assert_array_equal(label, y[usable])
