"""Random projection: drawn without the data, and bounded again afterwards."""

import numpy as np
import pandas as pd
import pytest

from privatelr import dplr
from privatelr.design import plan_design, project, read_covariates, read_design
from privatelr.errors import PrivacyWarning
from privatelr.formula import parse_formula
from privatelr.numerics.rows import DenseRows, bounded_rows
from privatelr.sources import as_batch, declare_schema

FRAME = pd.DataFrame(np.random.default_rng(20).uniform(-1, 1, (40, 6)), columns=list("abcdef"))
FRAME["y"] = np.arange(40) % 2 == 1
BOUNDS = {name: (-1, 1) for name in "abcdef"}


def directions(width):
    return np.random.default_rng(width).standard_normal((6, width))


def plan(**schema):
    return plan_design(
        parse_formula("y ~ .", list(FRAME)), as_batch(FRAME), declare_schema(**schema)
    )


def test_rows_are_bounded_again_after_it():
    spec = plan(bounds=BOUNDS, row_norm=0.5)
    thin = project(spec, directions(1))
    covariates, _, _ = read_covariates(thin, as_batch(FRAME), thin.formula.covariates)
    assert np.abs(covariates).max() > 0.5  # otherwise the next line proves nothing
    made = read_design(thin, as_batch(FRAME), DenseRows).x
    assert np.abs(made[:, 1]).max() <= 0.5
    assert np.linalg.norm(made, axis=1).max() <= thin.radius


def test_rows_are_shortened_before_it_as_well():
    # otherwise a stray value decides the direction and the length of the projected row
    spec = plan(bounds=None)
    thin = project(spec, directions(2))
    wild = FRAME.assign(**{name: 1e6 * FRAME[name] for name in "abcdef"})
    plain = bounded_rows(
        read_covariates(spec, as_batch(wild), spec.formula.covariates)[0], spec.bound, None
    )
    expected = bounded_rows(plain @ thin.projection, spec.bound, spec.intercept)
    np.testing.assert_allclose(read_design(thin, as_batch(wild), DenseRows).x, expected, rtol=1e-9)


def test_prediction_applies_the_projection_of_the_fit():
    fit = dplr("y ~ .", FRAME, eps=0, lambda_=0.1, bounds=BOUNDS, rp_dim=2, levels={"y": [0, 1]})
    assert fit.release.coef.shape == (3,)
    link = fit.predict(FRAME, type="link")
    raw = np.column_stack([np.ones(40), FRAME[list("abcdef")]])
    made = read_design(fit.spec, as_batch(FRAME), DenseRows).x
    np.testing.assert_allclose(link, made @ fit.release.coef, atol=1e-12)
    inside = np.linalg.norm(made[:, 1:], axis=1) < fit.spec.bound * (1 - 1e-9)
    assert inside.any()
    np.testing.assert_allclose(link[inside], (raw @ fit.coef.to_numpy())[inside], atol=1e-12)


def test_more_directions_than_covariates_warn_and_do_nothing():
    with pytest.warns(PrivacyWarning, match="rp_dim=7") as caught:
        wide = dplr(
            "y ~ .", FRAME, eps=0, lambda_=0.1, bounds=BOUNDS, rp_dim=7, levels={"y": [0, 1]}
        )
    assert len(caught) == 1
    plain = dplr("y ~ .", FRAME, eps=0, lambda_=0.1, bounds=BOUNDS, levels={"y": [0, 1]})
    assert wide.spec.projection is None
    np.testing.assert_array_equal(wide.coef, plain.coef)


def test_the_matrix_is_drawn_anew_and_without_the_data():
    with pytest.warns(PrivacyWarning, match="seed"):
        one = dplr("y ~ .", FRAME, bounds=BOUNDS, rp_dim=2, seed=1, levels={"y": [0, 1]})
    with pytest.warns(PrivacyWarning, match="seed"):
        other = dplr(
            "y ~ .",
            FRAME.assign(a=0.25, y=1),
            bounds=BOUNDS,
            rp_dim=2,
            seed=1,
            levels={"y": [0, 1]},
        )
    np.testing.assert_array_equal(one.spec.projection, other.spec.projection)
    fresh = dplr("y ~ .", FRAME, bounds=BOUNDS, rp_dim=2, levels={"y": [0, 1]})
    assert not np.array_equal(one.spec.projection, fresh.spec.projection)
