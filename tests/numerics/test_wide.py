"""Many columns: the same minima without a matrix of all their pairs, certified as ever."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from flint import arb
from scipy import linalg, sparse

from privatelr import Newton
from privatelr.locks import working_precision
from privatelr.mechanisms import Problem
from privatelr.mechanisms.calibration import certified_norm
from privatelr.numerics import (
    LOSSES,
    Huber,
    Objective,
    SoftplusHinge,
    hessian,
    threads,
    value_and_gradient,
)
from privatelr.numerics.rows import DenseRows, SparseRows
from privatelr.numerics.solve import (
    Minimum,
    certified,
    certified_minimum,
    gradient_bound,
    newton,
    resolved_norm,
)
from privatelr.privacy.noise import GaussianNoise

LOGISTIC = LOSSES["logistic"]
EVERY_LOSS = [*LOSSES.values(), Huber(0.01), SoftplusHinge(0.01)]


def problem(n, p, kind=SparseRows, loss=LOGISTIC, filled=10, penalty=2.0, noise=8.0, seed=0):
    """Rows of a few entries, and a tilt that is a match for them."""
    rng = np.random.default_rng(seed)
    places = rng.integers(0, p, n * filled)
    x = sparse.csr_array(
        (rng.standard_normal(n * filled), places, np.arange(0, n * filled + 1, filled)),
        shape=(n, p),
    )
    y = np.where(rng.uniform(size=n) < 0.5, 1.0, -1.0)
    given = x if kind is SparseRows else x.toarray()
    rows = kind(given, y, bound=1.0, intercept=0.5)
    return Objective(rows, loss, penalty / n, noise * rng.standard_normal(p + 1) / n)


def exact_tilt(objective):
    n = objective.rows.n

    def tilt(precision):
        with working_precision(precision):
            return [n * arb(float(entry)) for entry in objective.tilt]

    return tilt


@dataclass(eq=False)
class Folded:
    """Rows that show nothing but folds."""

    rows: SparseRows

    @property
    def n(self):
        return self.rows.n

    @property
    def records(self):
        return self.rows.records

    @property
    def d(self):
        return self.rows.d

    @property
    def radius(self):
        return self.rows.radius

    tables = None

    def filled(self, held):
        return None

    def fold(self, kernel):
        return self.rows.fold(kernel)


# --- steps ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [DenseRows, SparseRows])
@pytest.mark.parametrize("pairs", [True, False])
@pytest.mark.parametrize("reach", [0.0, 1.0])
def test_steps_by_rows_are_newton_steps(kind, pairs, reach, monkeypatch):
    monkeypatch.setattr(newton, "_ROWS", 1000 if pairs else 0)
    monkeypatch.setattr(newton, "_LOOSE", 1e-12)
    monkeypatch.setattr(newton, "_TIGHT", 1e-12)
    objective = problem(100, 300, kind)
    w = np.random.default_rng(1).standard_normal(301)
    gradient = value_and_gradient(objective, w)[1]
    expected = -linalg.solve(hessian(objective, w, reach), gradient)
    step = newton.wide_steps(objective)(w, gradient, reach)
    np.testing.assert_allclose(step, expected, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("part", [0.3, 1e-3])
def test_conjugate_gradients_of_rows_leave_no_more_than_they_say(part):
    """The rest of the system of columns is known from that of rows."""
    objective = problem(200, 400, filled=30, penalty=0.2)
    x, n = objective.rows.x, objective.rows.n
    root = np.sqrt(np.random.default_rng(2).uniform(0, 0.25, n) / n)
    gradient = np.random.default_rng(3).standard_normal(200) @ x
    enough = part * np.linalg.norm(gradient)
    v = newton._conjugate_rows(x, root, objective.lambda_, root * (x @ gradient), enough)
    step = ((root * v) @ x - gradient) / objective.lambda_
    left = (root**2 * (x @ step)) @ x + objective.lambda_ * step + gradient
    assert 0.01 * enough < np.linalg.norm(left) <= enough * (1 + 1e-9)


# --- minima ---------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", EVERY_LOSS, ids=str)
@pytest.mark.parametrize("shape", [(120, 400), (600, 400)])
@pytest.mark.parametrize("pairs", [True, False])
def test_minima_equal_those_of_the_matrix_of_columns(loss, shape, pairs, monkeypatch):
    objective = problem(*shape, loss=loss)
    monkeypatch.setattr(newton, "_WIDER", 10**6)
    expected = Newton()(objective).w
    monkeypatch.setattr(newton, "_ROWS", 2500 if pairs else 0)
    monkeypatch.setattr(newton, "_COLUMNS", 300)
    monkeypatch.setattr(newton, "_WIDER", 256)
    for rows in (objective.rows, Folded(objective.rows)):
        found = Newton()(replace(objective, rows=rows)).w
        np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())


def test_dense_rows_and_sparse_rows_have_the_same_minimum():
    a, b = (Newton()(problem(300, 1000, kind)).w for kind in (DenseRows, SparseRows))
    np.testing.assert_allclose(a, b, atol=1e-8 * np.abs(a).max())


def test_nothing_depends_on_threads():
    objective = problem(700, 900, DenseRows)
    found = []
    for limit in (1, 2, 3):
        with threads(limit):
            found.append(Newton()(objective).w)
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()


def test_a_million_columns():
    objective = problem(2000, 10**6, filled=100)
    minimum = Newton()(objective)
    noise = GaussianNoise(10**6 + 1, 8.0)
    facts = Problem(2000, 10**6 + 1, LOGISTIC, objective.rows.radius)
    tau = certified_norm(facts.with_lambda(objective.lambda_), noise)
    assert gradient_bound(objective, minimum.w) <= tau


# --- certificates ---------------------------------------------------------------------------


def hard(n=60, p=520, loss=LOGISTIC, copies=True):
    """All rows along one direction, some of them against their labels."""
    rng = np.random.default_rng(7)
    x = np.outer(np.ones(n), rng.standard_normal(p)) if copies else rng.standard_normal((n, p))
    y = np.where(np.arange(n) % 7 > 0, 1.0, -1.0)
    rows = SparseRows(sparse.csr_array(x), y, bound=1.0, intercept=0.5)
    return Objective(rows, loss, 1.0 / n, 2.0 * rng.standard_normal(p + 1) / n)


def useless(objective):
    return Minimum(np.full(objective.rows.d, 1e3), 0.0)


@pytest.mark.parametrize(
    ("loss", "copies"), [*((loss, True) for loss in EVERY_LOSS), (LOGISTIC, False)], ids=str
)
def test_gradient_steps_come_to_what_is_certified(loss, copies, monkeypatch):
    """Where nothing else leads there, and balls are out of reach."""
    objective = hard(loss=loss, copies=copies)
    rows = objective.rows
    longest = rows.n * float(np.linalg.norm(objective.tilt))
    tau = resolved_norm(loss, rows.n, rows.d, rows.radius, objective.lambda_, longest)

    def unreached(*arguments):
        raise AssertionError("balls")

    monkeypatch.setattr(certified, "precise_minimum", unreached)
    monkeypatch.setattr(certified, "descend", lambda objective, w, *rest: Minimum(w, np.inf))
    w = certified_minimum(objective, useless, tau * (1 + 1e-6), exact_tilt(objective))
    found = np.array([float(entry) for entry in w])
    assert gradient_bound(objective, found) <= tau * (1 + 1e-6)


def test_resolved_norm_allows_for_the_worst_rows():
    """At the minimum the bound is far below it, whatever the rows hold."""
    for loss in EVERY_LOSS:
        for copies in (True, False):
            objective = hard(loss=loss, copies=copies)
            rows = objective.rows
            longest = rows.n * float(np.linalg.norm(objective.tilt))
            tau = resolved_norm(loss, rows.n, rows.d, rows.radius, objective.lambda_, longest)
            assert gradient_bound(objective, Newton()(objective).w) <= tau / 2
