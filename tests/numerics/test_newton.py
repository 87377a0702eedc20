"""The solver ends at its certificate, everywhere a fit can lead it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privatelr import Newton, NotConvergedError
from privatelr.numerics import (
    LOSSES,
    Huber,
    Objective,
    SoftplusHinge,
    hessian,
    mean_change,
    value_and_gradient,
)
from privatelr.numerics.rows import BLOCK_ROWS, DenseRows
from privatelr.numerics.solve import certificate, descend

LOSS = LOSSES["logistic"]


def problem(n=50, d=3, lambda_=0.01, tilt=0.0, seed=0, separable=False, loss=LOSS):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    y = np.where(x[:, 0] > 0 if separable else rng.uniform(size=n) < 0.5, 1.0, -1.0)
    rows = DenseRows(x, y, bound=2.0, intercept=0.5)
    return Objective(rows, loss, lambda_, np.full(d + 1, tilt))


def test_derivatives_agree_with_differences():
    objective = problem(tilt=0.3)
    w, step = np.array([0.4, -1.0, 2.0, 0.1]), 1e-6
    gradient = value_and_gradient(objective, w)[1]
    for j, unit in enumerate(np.eye(4) * step):
        up, down = value_and_gradient(objective, w + unit), value_and_gradient(objective, w - unit)
        assert gradient[j] == pytest.approx((up[0] - down[0]) / (2 * step), abs=1e-8)
        np.testing.assert_allclose(
            hessian(objective, w)[j], (up[1] - down[1]) / (2 * step), atol=1e-7
        )


def test_folds_over_blocks_add_up():
    n = 2 * BLOCK_ROWS + 7
    objective = problem(n=n)
    rows = objective.rows
    (count,) = rows.fold(lambda x, y: (len(x),))
    assert count == n
    w = np.array([0.1, 0.2, -0.3, 0.4])
    margin = rows.y * (rows.x @ w)
    expected = np.logaddexp(0, -margin).mean() + objective.lambda_ / 2 * w @ w
    assert value_and_gradient(objective, w)[0] == pytest.approx(expected, rel=1e-12)


@given(
    st.integers(1, 30),
    st.integers(1, 6),
    st.floats(-7, 0),
    st.floats(-3, 5),
    st.booleans(),
    st.integers(0, 10**6),
    st.sampled_from(list(LOSSES.values())),
)
@settings(max_examples=200, deadline=None)
def test_certificate(n, d, log_lambda, log_tilt, separable, seed, loss):
    """Few rows, many columns, separation, tiny penalties, tilts that dwarf the data.

    The tilt goes up to 1e5 times the penalty, more than any calibration makes of it: far
    beyond, neighbouring doubles for w are too far apart for the certificate.
    """
    tilt = 10.0 ** (log_lambda + log_tilt) * (-1) ** seed
    objective = problem(n, d, 10.0**log_lambda, tilt, seed, separable, loss)
    assert Newton()(objective).gradient_norm <= certificate(objective)
    minimum = Newton()(objective, 0.0)
    assert minimum.gradient_norm <= 1e-10
    assert np.isfinite(minimum.w).all()


def test_the_certificate_is_the_gradient_at_the_end():
    objective = problem(tilt=0.2)
    minimum = Newton()(objective)
    norm = np.linalg.norm(value_and_gradient(objective, minimum.w)[1])
    assert minimum.gradient_norm == norm <= 1e-10


SHARP = [Huber(0.1), Huber(1e-2), Huber(1e-4), SoftplusHinge(1e-2)]


def iterations(objective):
    """How many Newton iterations it takes; 500 if it takes more."""
    for limit in (5, 10, 20, 40, 80, 160, 320):
        if descend(objective, np.zeros(objective.rows.d), 1e-10, limit).gradient_norm <= 1e-10:
            return limit
    return 500


@pytest.mark.parametrize("loss", SHARP, ids=str)
@pytest.mark.parametrize("lambda_", [1e-2, 1e-5, 1e-8])
@pytest.mark.parametrize("separable", [False, True])
def test_sharp_bends_take_few_iterations(loss, lambda_, separable):
    objective = problem(1000, 5, lambda_, separable=separable, loss=loss)
    assert iterations(objective) <= 80


def test_curvature_within_reach_is_a_mean():
    objective = problem(loss=Huber(0.1))
    w, reach = np.array([0.5, 1.0, -0.3, 0.2]), 0.37
    around = np.linspace(-reach, reach, 20001)
    rows = objective.rows
    margin = rows.y * (rows.x @ w)
    weight = Huber(0.1).curvature(margin[:, None] + around).mean(axis=1)
    expected = (rows.x * weight[:, None]).T @ rows.x / rows.n + objective.lambda_ * np.eye(4)
    np.testing.assert_allclose(hessian(objective, w, reach), expected, atol=2e-4)
    change = np.abs(rows.x @ w).mean()
    assert mean_change(objective, w) == pytest.approx(change)


def test_giving_up_releases_nothing():
    with pytest.raises(NotConvergedError, match="nothing was released"):
        Newton(max_iterations=1)(problem(lambda_=1e-6, separable=True))


def test_a_start_without_curvature_or_penalty():
    """All margins begin on the straight part of a hinge, where the Hessian is zero."""
    for loss in (Huber(0.5), Huber(1e-2)):
        objective = problem(300, 3, 0.0, loss=loss)
        assert not hessian(objective, np.zeros(4)).any()
        assert Newton()(objective).gradient_norm <= 1e-10
