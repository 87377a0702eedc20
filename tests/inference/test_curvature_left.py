"""One step without the penalty: the curvature that is left where it leads, and its error."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize
import scipy.special
from hypothesis import given
from hypothesis import strategies as st
from studies.coverage_populations import population_of

from privatelr import ZCDP, PrivacyWarning, dplr
from privatelr.design import read_design
from privatelr.inference import evidence_of
from privatelr.inference.noisy_moments import curvature_left, penalty_bias, step_of, undivided
from privatelr.numerics.rows import DenseRows
from privatelr.sources import as_batch


def fitted(name, lambda_):
    """A fit with next to no noise, and its rows."""
    source = population_of(name, 6)
    frame = source.sample(20_000, np.random.default_rng(1))
    public = {"bounds": source.bounds, "levels": source.levels, "do_scale": "private"}
    public["row_norm"] = 1.5
    with pytest.warns(PrivacyWarning):
        fit = dplr(
            source.formula, frame, ZCDP(1e4), spend="inference", lambda_=lambda_, seed=1, **public
        )
    return fit, read_design(fit.spec, as_batch(frame), DenseRows)


def bare_curvature(fit, rows, w):
    loss = fit.calibration.problem.loss
    return float((loss.curvature(rows.y * (rows.x @ w)) * (rows.x**2).sum(axis=1)).mean())


@pytest.mark.parametrize("lambda_", [3e-4, 1e-3])
def test_a_rare_class_leaves_what_rows_leave(lambda_):
    fit, rows = fitted("imbalanced", lambda_)
    evidence = evidence_of(fit.release)
    before = bare_curvature(fit, rows, evidence.w)
    after = bare_curvature(fit, rows, evidence.w + penalty_bias(evidence))
    assert after < 0.97 * before
    assert abs(curvature_left(evidence) - after / before) < 0.35 * (1 - after / before)


def test_classes_of_a_size_lose_nothing():
    fit, _ = fitted("uniform", 1e-4)
    assert curvature_left(evidence_of(fit.release)) > 0.995


def test_without_an_intercept_nothing_is_known():
    fit, _ = fitted("imbalanced", 3e-4)
    assert curvature_left(replace(evidence_of(fit.release), intercept=0.0)) == 1.0


# --- how far the step is from its end (theory.md#one-step) -------------------------------------


def too_short(x, y, lambda_):
    """The change of the longest link, and the share by which the step is too short."""

    def gradient(w):
        return (x * (scipy.special.expit(x * w) - y)).mean()

    def root(penalty):
        return scipy.optimize.brentq(lambda w: gradient(w) + penalty * w, -200, 200, xtol=1e-13)

    w, p = root(lambda_), scipy.special.expit(x * root(lambda_))
    step = lambda_ * w / (x**2 * p * (1 - p)).mean()
    return np.abs(x * step).max(), (root(0.0) - w) / step - 1


@given(st.integers(0, 2**32 - 1), st.floats(0.3, 6.0), st.floats(-4.0, -1.0))
def test_the_step_is_too_short_by_no_more_than_stated(seed, slope, power):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(400)
    y = (rng.random(400) < scipy.special.expit(slope * x)).astype(int)
    y[[x.argmax(), x.argmin()]] = 0, 1  # never separated
    change, short = too_short(x, y, 10**power)
    if change < 0.95:
        assert -change / (1 + change) <= short <= -np.log1p(-change) / change - 1


def test_the_step_may_be_too_short_by_all_that_is_stated():
    """All links of records far away move alike. Half of that, the second order, is too little."""
    x, y = np.full(100_000, 12.0), np.ones(100_000, dtype=int)
    y[:2] = 0
    change, short = too_short(x, y, 2e-4)
    assert 0.2 < change < 0.95
    assert change / 2 < short
    assert short == pytest.approx(-np.log1p(-change) / change - 1, rel=0.05)


@pytest.mark.parametrize("name", ["uniform", "imbalanced"])
def test_the_step_is_as_long_as_the_change_of_links_of_the_rows_says(name):
    fit, rows = fitted(name, 2e-3)
    evidence = evidence_of(fit.release)
    bias = penalty_bias(evidence)
    change = np.sqrt(((rows.x @ bias) ** 2).mean())
    short = -np.log1p(-change) / change - 1
    limit = max(short, 3.5 * np.linalg.norm(bias) / np.linalg.norm(evidence.w))
    length, error = step_of(evidence)
    assert length == pytest.approx(1 + short / 2, rel=0.1)
    least = limit / np.sqrt(12)  # of an error around half of the limit
    assert least < error < 2 * least + 1e-9


def test_noise_leaves_nothing_of_a_longer_step_and_all_of_its_error():
    fit, _ = fitted("uniform", 1e-2)
    evidence = evidence_of(fit.release)
    length, error = step_of(evidence)
    smallest = np.linalg.eigvalsh(undivided(evidence).curvature)[0] - evidence.floor
    noisy = step_of(replace(evidence, curvature_sd=0.9 * smallest))
    assert length > 1.01
    assert noisy[0] - 1 < 0.2 * (length - 1)
    assert noisy[1] > error


def test_the_error_is_as_large_as_the_step_at_most():
    fit, _ = fitted("uniform", 1e-2)
    evidence = evidence_of(fit.release)
    far = step_of(replace(evidence, w=1e6 * evidence.w, drawn=1e6 * evidence.drawn))
    assert far == pytest.approx((1 + np.sqrt(0.75), 0.5), rel=0.01)
