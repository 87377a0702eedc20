"""The curvature that is left at the coefficients to which one step without the penalty leads."""

from dataclasses import replace

import numpy as np
import pytest
from studies.coverage_populations import population_of

from privatelr import ZCDP, PrivacyWarning, dplr
from privatelr.design import read_design
from privatelr.inference import evidence_of
from privatelr.inference.noisy_moments import curvature_left, penalty_bias
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
