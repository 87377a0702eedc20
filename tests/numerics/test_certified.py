"""Bounds on the gradient hold to the last bit, and minimisation goes on until they do."""

import threading
from dataclasses import dataclass, replace

import flint
import numpy as np
import pytest
from exact_minimum import exact_gradient, exact_norm
from flint import arb
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import special

from privatelr import Newton
from privatelr.errors import ArgumentError
from privatelr.locks import working_precision
from privatelr.numerics import (
    EVALUATION_ERROR,
    LOSSES,
    MARGIN_ERROR,
    Huber,
    Logistic,
    Objective,
    SoftplusHinge,
    value_and_gradient,
)
from privatelr.numerics.rows import BLOCK_ROWS, DenseRows
from privatelr.numerics.solve import (
    Minimum,
    certified,
    certified_minimum,
    gradient_bound,
    precise_minimum,
)

LOGISTIC = LOSSES["logistic"]


def problem(n=50, d=3, lambda_=0.01, tilt=1.0, seed=0, kind="noisy", bound=2.0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    y = np.where(rng.uniform(size=n) < 0.5, 1.0, -1.0)
    if kind == "cancelling":  # row i and row i + n / 2 have slopes that add up to nearly nothing
        x[n // 2 :] = x[: n - n // 2]
        y[n // 2 :] = -y[: n - n // 2]
    elif kind == "scales":
        x *= 10.0 ** rng.uniform(-12, 0, (n, 1))
    rows = DenseRows(x, y, bound=bound, intercept=bound / 4)
    return Objective(rows, LOGISTIC, lambda_, tilt * rng.standard_normal(d + 1) / n)


def exact_tilt(objective):
    n = objective.rows.n

    def tilt(precision):
        with working_precision(precision):
            return [n * arb(float(entry)) for entry in objective.tilt]

    return tilt


def check_bound(objective, w):
    bound = gradient_bound(objective, w)
    true = exact_norm(exact_gradient(objective, map(float, w), exact_tilt(objective)(200)))
    assert true <= bound
    return true, bound


# --- the bound ------------------------------------------------------------------------------


@given(
    st.integers(1, 300),
    st.integers(1, 12),
    st.floats(-13, 2),
    st.floats(-3, 12),
    st.floats(-8, 12),
    st.sampled_from(["noisy", "cancelling", "scales"]),
    st.floats(-6, 6),
    st.integers(0, 10**6),
)
@settings(max_examples=100, deadline=None)
@example(65, 3, -13.0, 12.0, 12.0, "cancelling", 0.0, 1)
@example(64, 1, -2.0, -3.0, 200.0, "noisy", 0.0, 1)
def test_bound_holds(n, d, log_lambda, log_tilt, log_w, kind, log_bound, seed):
    objective = problem(n, d, 10.0**log_lambda, 10.0**log_tilt, seed, kind, 10.0**log_bound)
    direction = np.random.default_rng(seed).standard_normal(d + 1)
    check_bound(objective, 10.0**log_w * direction)


@pytest.mark.parametrize("kind", ["noisy", "cancelling", "scales"])
def test_bound_holds_at_minima(kind):
    """Where the gradient is all rounding."""
    for seed in range(20):
        objective = problem(200, 4, 10.0 ** -(seed % 7), seed=seed, kind=kind)
        check_bound(objective, Newton()(objective, 0.0).w)


@pytest.mark.parametrize(("n", "d"), [(10_000, 9), (100_000, 2)])
def test_bound_is_of_use(n, d):
    objective = problem(n, d, kind="cancelling")
    radius = objective.rows.radius
    w = np.full(d + 1, 20 / (radius * np.sqrt(d + 1)))
    true, bound = check_bound(objective, w)
    assert bound - float(true) <= 1e-9 * radius * n / 10_000


def test_planted_bound_without_rounding_is_caught(monkeypatch):
    monkeypatch.setattr(certified, "_rounding_error", lambda objective, w: 0.0)
    objective = problem(n=4000, kind="cancelling")
    w = Newton()(objective, 0.0).w
    with pytest.raises(AssertionError):
        check_bound(objective, w)


@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_has_no_bound(entry):
    assert gradient_bound(problem(), np.array([0.0, 0.0, entry, 0.0])) == np.inf


def test_bound_that_overflows_is_infinite():
    assert gradient_bound(problem(bound=1e308, n=1000), np.ones(4)) == np.inf
    assert gradient_bound(problem(tilt=1e306, lambda_=1e300), np.full(4, 1e300)) == np.inf


def test_bound_adds_up_over_blocks():
    """Digits that a sum over blocks loses are carried along, whatever the shape of the blocks."""
    for n in (1, 63, 64, BLOCK_ROWS - 1, BLOCK_ROWS, 2 * BLOCK_ROWS + 65):
        objective = problem(n=n)
        w = np.array([0.4, -1.0, 2.0, 0.1])
        usual = n * np.linalg.norm(value_and_gradient(objective, w)[1])
        assert gradient_bound(objective, w) == pytest.approx(usual, rel=1e-9)


# --- the losses -----------------------------------------------------------------------------


def check_slopes(loss):
    """The contract that the bound builds on: a slope is exact for a margin close by."""
    rng = np.random.default_rng(5)
    near = rng.uniform(-40, 40, 2000)
    margins = np.concatenate([near, rng.uniform(-800, 800, 500), np.linspace(-2, 3, 501)])
    for z, computed in zip(margins, loss.slope(margins), strict=True):
        with working_precision(120):
            off = arb(MARGIN_ERROR) * (1 + abs(arb(z)))
            steep, flat = (loss.enclose(arb(z) + side * off)[1] for side in (-1, 1))
            low = steep * (1 + arb(EVALUATION_ERROR)) - arb(1e-307)
            high = flat * (1 - arb(EVALUATION_ERROR)) + arb(1e-307)
            assert low <= arb(float(computed)) <= high


def check_enclosures(loss):
    """Balls hold what they should: the exact numbers at points of the margin, and derivatives."""
    rng = np.random.default_rng(6)
    for z in np.concatenate([rng.uniform(-50, 50, 60), np.linspace(-2, 3, 41), [-1e12, 1e12]]):
        for radius in (0.0, 1e-9, 0.3):
            with working_precision(80):
                balls = loss.enclose(arb(float(z), radius))
            for share in (-1, -0.5, 0, 1):
                with working_precision(400):
                    point = arb(float(z)) + share * arb(radius)
                    exact = loss.enclose(point)
                    assert all(
                        ball.overlaps(x) or not ball.is_finite()
                        for ball, x in zip(balls, exact, strict=True)
                    )
                    step = arb(2) ** -100
                    up, down = loss.enclose(point + step), loss.enclose(point - step)
                    for function in (0, 1):
                        rise = (up[function] - down[function]) / (2 * step)
                        wide = exact[function + 1] + arb(0, float(loss.curvature_bound) * 1e-25)
                        assert wide.overlaps(rise)
        with working_precision(80):
            balls = loss.enclose(arb(float(z)))
        for ball, function in zip(balls, (loss.value, loss.slope, loss.curvature), strict=True):
            double = float(function(np.array([z]))[0])
            assert ball.overlaps(arb(double, 1e-9 * abs(double) + 1e-15))


EVERY_LOSS = [*LOSSES.values(), Huber(0.25), Huber(1e-3), SoftplusHinge(1e-3)]


@pytest.mark.parametrize("loss", EVERY_LOSS, ids=str)
def test_slopes_are_as_exact_as_the_bound_takes_them_to_be(loss):
    check_slopes(loss)


@pytest.mark.parametrize("loss", EVERY_LOSS, ids=str)
def test_enclosures(loss):
    check_enclosures(loss)


def test_planted_slope_in_single_precision_is_caught():
    class Single(Logistic):
        def slope(self, margin):
            return -special.expit(-margin.astype(np.float32)).astype(np.float64)

    with pytest.raises(AssertionError):
        check_slopes(Single())


def test_planted_enclosure_is_caught():
    class Rounded(Logistic):
        def enclose(self, margin):
            return tuple(arb(float(ball.mid())) for ball in Logistic.enclose(self, margin))

    with pytest.raises(AssertionError):
        check_enclosures(Rounded())


# --- minimisation ---------------------------------------------------------------------------


@dataclass(eq=False)
class Counted:
    """Rows that count the passes over them."""

    rows: DenseRows
    passes: int = 0

    def __getattr__(self, name):
        return getattr(self.rows, name)

    def fold(self, kernel):
        self.passes += 1
        return self.rows.fold(kernel)


def test_doubles_cost_one_pass_more():
    objective = problem(n=500)
    objective = replace(objective, rows=Counted(objective.rows))
    minimum = Newton()(objective)
    alone, objective.rows.passes = objective.rows.passes, 0
    w = certified_minimum(objective, Newton(), 1e-6, exact_tilt(objective))
    assert objective.rows.passes == alone + 1
    assert [float(entry) for entry in w] == list(minimum.w)


def test_a_certificate_of_many_rows_costs_no_pass():
    """The last gradient of the steps is summed as the certificate takes it."""
    objective = problem(n=20_000)
    objective = replace(objective, rows=Counted(objective.rows))
    tau = 1e-6 * objective.rows.n
    minimum = Newton()(objective, tau / (2 * objective.rows.n))
    alone, objective.rows.passes = objective.rows.passes, 0
    w = certified_minimum(objective, Newton(), tau, exact_tilt(objective))
    assert objective.rows.passes == alone
    np.testing.assert_allclose([float(entry) for entry in w], minimum.w, rtol=0, atol=1e-12)
    assert gradient_bound(objective, np.array([float(entry) for entry in w])) <= tau


def test_a_gradient_is_known_at_its_own_point_alone(monkeypatch):
    """Steps that ended elsewhere than they were expected to end are certified where they ended."""
    steps = Newton.__call__

    def led_away(solver, objective, goal, final):
        minimum = steps(solver, objective, goal)
        final(minimum.w)
        return Minimum(minimum.w + 1.0, 0.0)

    objective = problem()
    monkeypatch.setattr(Newton, "__call__", led_away)
    w = certified_minimum(objective, Newton(), 1e-6, exact_tilt(objective))
    assert gradient_bound(objective, np.array([float(entry) for entry in w])) <= 1e-6


@pytest.mark.parametrize("loss", EVERY_LOSS, ids=str)
@pytest.mark.parametrize("lambda_", [1e-2, 1e-12])
@pytest.mark.parametrize("tau", [1e-6, 1e-40])
def test_ball_arithmetic_reaches_any_tau(loss, lambda_, tau):
    """From zero, for a tilt that is a match for the rows."""
    objective = replace(problem(n=40, lambda_=lambda_, tilt=5.0), loss=loss)
    tilt = exact_tilt(objective)
    w = precise_minimum(objective, np.zeros(4), tau, tilt)
    gradient = exact_gradient(objective, w, tilt(600), 600, lambda z: loss.enclose(z)[1])
    assert exact_norm(gradient, 600) <= tau


def test_extreme_public_numbers_end_too():
    """Radius, penalty and tilt at the ends of what doubles hold."""
    for options in (
        {"bound": 1e300},
        {"bound": 1e-300, "lambda_": 1e-300},
        {"lambda_": 1e-300},
        {"lambda_": 1e300},
        {"tilt": 1e300},
    ):
        objective = problem(n=20, **options)
        tau = 1e-9 * objective.rows.radius
        w = certified_minimum(objective, Newton(), tau, exact_tilt(objective))
        exact = exact_gradient(objective, w, exact_tilt(objective)(3000), 3000)
        assert exact_norm(exact, 3000) <= tau


@pytest.mark.parametrize(
    ("lambda_", "tau"), [(0.0, 1e-6), (1e308, 1e-6), (0.1, 0.0), (0.1, np.nan)]
)
def test_what_cannot_end_is_refused(lambda_, tau):
    objective = problem(lambda_=lambda_)
    with pytest.raises(ArgumentError, match="takes a number above 0"):
        certified_minimum(objective, Newton(), tau, exact_tilt(objective))


def test_precision_is_left_as_it_was():
    before = flint.ctx.prec
    objective = problem(tilt=1e12)
    certified_minimum(objective, Newton(), 1e-6, exact_tilt(objective))
    assert flint.ctx.prec == before


def test_threads_do_not_share_precision():
    objective = problem(n=30, lambda_=1e-12, tilt=5.0)
    results = []

    def fit(tau):
        w = precise_minimum(objective, np.zeros(4), tau, exact_tilt(objective))
        results.append((tau, w))

    threads = [threading.Thread(target=fit, args=(10.0**-k,)) for k in (6, 30, 60, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for tau, w in results:
        exact = exact_gradient(objective, w, exact_tilt(objective)(600), 600)
        assert exact_norm(exact, 600) <= tau
    assert len(results) == 4


def test_a_solver_cannot_move_the_target():
    """What a solver writes into the objective is not what its result is held to."""

    def meddling(objective):
        objective.tilt[:] = 0.0
        return Minimum(np.zeros(objective.rows.d), 0.0)

    objective = problem(tilt=10.0)
    tilt = exact_tilt(replace(objective, tilt=objective.tilt.copy()))
    w = certified_minimum(objective, meddling, 1e-6, tilt)
    assert exact_norm(exact_gradient(objective, w, tilt(200))) <= 1e-6
