"""Minima over the simplex: against other solvers, against balls, and for whatever rows hold."""

from dataclasses import replace

import numpy as np
import pytest
from flint import arb
from scipy import optimize, sparse, special

from privatelr.errors import ArgumentError, NotConvergedError
from privatelr.locks import working_precision
from privatelr.numerics import LOSSES, Huber, Logistic, SoftplusHinge
from privatelr.numerics.rows import EntryRows
from privatelr.selection import entropic
from privatelr.selection.entropic import (
    Entropic,
    coefficients,
    entropic_minimum,
    log_weights,
    point_at,
    rounding_spread,
    shares,
    smallest_tolerance,
    spread_bound,
)


def made(n=60, d=4, loss=None, radius=3.0, penalty=5.0, seed=0, x_bound=1.0, kind="noisy"):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.2, 1.2, (n, d)) * x_bound
    y = np.where(x[:, 0] + rng.standard_normal(n) * x_bound / 2 > 0, 1.0, -1.0)
    if kind == "alike":
        x[:] = x_bound
    elif kind == "copies":
        x[:] = x[:, :1]
    elif kind == "one class":
        y[:] = 1.0
    elif kind == "unusable":
        y[:] = 0.0
    elif kind == "corners":
        x = np.sign(x) * x_bound
    elif kind == "scales":
        x = x * 10.0 ** rng.uniform(-8, 0, d)
    rows = EntryRows(x, y, x_bound=x_bound)
    return Entropic(rows, loss or Logistic(), radius, penalty, np.zeros(2 * d))


def least(problem):
    rows = problem.rows
    return smallest_tolerance(
        rows.n, rows.d, rows.x_bound, problem.loss, problem.radius, problem.penalty
    )


def slow_minimum(problem):
    """By a quasi-Newton method on the log weights, with a gradient written anew."""
    both = problem.radius * np.concatenate([problem.rows.signed(), -problem.rows.signed()], axis=1)

    def function(logs):
        log_theta = special.log_softmax(logs)
        theta = np.exp(log_theta)
        margins = both @ theta
        value = problem.loss.value(margins).sum()
        value += problem.penalty * (theta @ (log_theta - problem.log_prior))
        by_theta = problem.loss.slope(margins) @ both
        by_theta = by_theta + problem.penalty * (log_theta + 1 - problem.log_prior)
        return value, theta * (by_theta - theta @ by_theta)

    start, options = np.zeros(both.shape[1]), {"maxiter": 10_000, "ftol": 0.0, "gtol": 1e-11}
    return special.softmax(
        optimize.minimize(function, start, jac=True, method="L-BFGS-B", options=options).x
    )


@pytest.mark.parametrize("loss", [*LOSSES.values(), Huber(0.05)], ids=str)
@pytest.mark.parametrize(("penalty", "radius"), [(50.0, 1.0), (5.0, 3.0), (2.0, 20.0)])
def test_agrees_with_a_slow_method(loss, penalty, radius):
    problem = made(loss=loss, penalty=penalty, radius=radius)
    theta = shares(entropic_minimum(problem, least(problem)))
    np.testing.assert_allclose(theta, slow_minimum(problem), atol=2e-8)


def exact_spread(problem, logs, bits=300):
    """The spread at these logs, in balls."""
    signed = problem.rows.signed()
    n, d = signed.shape
    with working_precision(bits):
        radius, penalty = arb(problem.radius), arb(problem.penalty)
        weights = [arb(float(log)).exp() for log in logs]
        total = sum(weights, arb(0))
        theta = [weight / total for weight in weights]
        w = [radius * (theta[j] - theta[d + j]) for j in range(d)]
        gradient = [arb(0)] * d
        for i in range(n):
            row = [arb(float(entry)) for entry in signed[i]]
            margin = sum((a * b for a, b in zip(row, w, strict=True)), arb(0))
            slope = problem.loss.enclose(margin)[1]
            gradient = [g + slope * entry for g, entry in zip(gradient, row, strict=True)]
        signs = [*gradient, *(-g for g in gradient)]
        entries = [
            float(
                (radius * g + penalty * (arb(float(log)) - arb(float(prior)))).mid()
                - (radius * signs[0] + penalty * arb(float(logs[0]))).mid()
            )
            for g, log, prior in zip(signs, logs, problem.log_prior, strict=True)
        ]
    return max(entries) - min(entries)


@pytest.mark.parametrize("seed", range(6))
def test_the_certificate_holds_to_the_last_bit(seed):
    """At points that are exact up to rounding, where nothing but the bound covers it."""
    rng = np.random.default_rng(seed)
    loss = [Logistic(), Huber(0.01), SoftplusHinge(0.1)][seed % 3]
    problem = made(n=80, d=3, loss=loss, radius=10.0 ** rng.uniform(-1, 2), penalty=2.0, seed=seed)
    rows = problem.rows
    floor = rounding_spread(rows.n, rows.d, rows.x_bound, loss, problem.radius)
    near = entropic_minimum(problem, least(problem))
    q = (near[3:] - near[:3]) / 2 * problem.penalty / problem.radius
    for moved in (q, q * (1 + 1e-9), q + 0.1, np.zeros(3)):
        point = point_at(problem, moved)
        true = exact_spread(problem, log_weights(problem, moved))
        assert true <= spread_bound(problem, point, floor)
        assert spread_bound(problem, point, floor) <= true + 100 * floor + 1e-10 * (1 + true)


def test_what_is_returned_keeps_the_tolerance():
    problem = made(n=50, d=3, loss=Huber(0.1), radius=10.0, penalty=1.0)
    for tolerance in (1e-8, 1e-3, 10.0):
        assert exact_spread(problem, entropic_minimum(problem, tolerance)) <= tolerance


KINDS = ("noisy", "alike", "copies", "one class", "unusable", "corners", "scales")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", [Logistic(), Huber(), Huber(1e-4), SoftplusHinge(1e-4)], ids=str)
def test_every_minimum_is_found_soon(kind, loss, monkeypatch):
    """Whatever the rows hold, at penalties that a guarantee can pay for."""
    slow = []
    step = entropic._mirror_step

    def counted(*arguments):
        slow.append(1)
        assert len(slow) < 200
        return step(*arguments)

    monkeypatch.setattr(entropic, "_mirror_step", counted)
    for n, d, radius in ((1, 1, 1.0), (40, 3, 0.1), (40, 30, 500.0), (300, 8, 50.0)):
        kappa_of_one = n * loss.curvature_bound * radius**2
        penalty = max(radius, (radius**2 * kappa_of_one) ** (1 / 3) / 3)
        problem = made(n, d, loss, radius, penalty, kind=kind)
        tolerance = max(1e-6 * 2 * radius, least(problem))
        assert np.isfinite(entropic_minimum(problem, tolerance)).all()
        slow.clear()


def test_a_prior_stands_for_equal_columns():
    rng = np.random.default_rng(5)
    x, y = rng.uniform(-1, 1, (50, 2)), rng.choice([-1.0, 1.0], 50)
    padded = EntryRows(np.column_stack([x, np.zeros((50, 40))]), y, x_bound=1.0)
    merged = EntryRows(np.column_stack([x, np.zeros(50)]), y, x_bound=1.0)
    prior = np.log([1.0, 1, 40, 1, 1, 40])
    many = Entropic(padded, Huber(), 4.0, 3.0, np.zeros(84))
    few = Entropic(merged, Huber(), 4.0, 3.0, prior)
    long, short = (shares(entropic_minimum(each, 1e-9)) for each in (many, few))
    np.testing.assert_allclose(long[:2], short[:2], rtol=1e-7)
    assert long[2:42].sum() == pytest.approx(short[2], rel=1e-7)
    assert long[44:].sum() == pytest.approx(short[5], rel=1e-7)


def test_more_columns_than_rows_and_no_zeros_in_memory():
    rng = np.random.default_rng(6)
    x = sparse.random_array((60, 3000), density=0.01, rng=rng, format="csr")
    y = rng.choice([-1.0, 1.0], 60)
    held = Entropic(EntryRows(x, y, x_bound=1.0), Logistic(), 20.0, 1.0, np.zeros(6000))
    dense = replace(held, rows=EntryRows(x.toarray(), y, x_bound=1.0))
    thetas = [shares(entropic_minimum(each, 1e-7)) for each in (held, dense)]
    np.testing.assert_allclose(*thetas, atol=1e-8)
    assert np.abs(coefficients(thetas[0], 20.0)).sum() <= 20.0 * (1 + 1e-12)


def test_options_that_are_all_but_impossible_do_not_vanish():
    """Logs run into the thousands, and still keep the conditions of the minimum."""
    problem = made(n=400, d=5, loss=Logistic(), radius=2.0, penalty=0.05)
    logs = entropic_minimum(problem, max(1e-6, least(problem)))
    assert np.ptp(logs) > 1000
    assert exact_spread(problem, logs) <= max(1e-6, least(problem))


def test_patience_ends_only_where_it_was_given(monkeypatch):
    problem = made()
    stuck = point_at(problem, np.full(4, 1e3))
    monkeypatch.setattr(entropic, "_along_penalties", lambda *a: stuck)
    monkeypatch.setattr(entropic, "_along_bends", lambda *a: stuck)
    with pytest.raises(NotConvergedError, match="lambda_"):
        entropic_minimum(problem, 1e-6, patience=2)
    theta = shares(entropic_minimum(problem, 1e-6))  # mirror descent gets there alone
    np.testing.assert_allclose(theta, slow_minimum(problem), atol=1e-6)


@pytest.mark.parametrize("tolerance", [0.0, 1e-300, np.inf, np.nan])
def test_a_tolerance_below_rounding_is_refused(tolerance):
    with pytest.raises(ArgumentError, match="tolerance"):
        entropic_minimum(made(), tolerance)
