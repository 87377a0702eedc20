"""Sparse matrices with bounded rows, from the response and the matrix to the release."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from privatelr import Newton, dplr
from privatelr.design import plan_wide, read_wide
from privatelr.mechanisms import Problem, calibrate_all, draw_all, read_request, release_all
from privatelr.numerics import LOSSES
from privatelr.numerics.rows import DenseRows, sparse_backend
from privatelr.privacy.noise import SeededRandomness, SystemRandomness
from privatelr.sources import as_batch, declare_schema


def fit_matrix(
    y, x, eps, delta=0.0, *, lambda_=None, op=True, randomness=None, dense=False, **schema
):
    """What the front door will do with a sparse matrix; its spec and the release."""
    frame = pd.DataFrame({"y": y})
    loss = LOSSES["logistic"]
    spec = plan_wide("y", as_batch(frame), x.shape[1], declare_schema(**schema))
    request = read_request(eps, delta, None, lambda_, op, None, "increase")
    plan = calibrate_all(request, Problem(len(frame), spec.d, loss, spec.radius, spec.blocks))
    draws = draw_all(plan, randomness or SystemRandomness())
    covariates, labels = read_wide(spec, x, as_batch(frame))
    limits = {"bound": spec.bound, "intercept": spec.intercept, "blocks": spec.blocks}
    if dense:
        rows = DenseRows(covariates.toarray(), labels, **limits)
    else:
        rows = sparse_backend(covariates, labels, projection=spec.projection, **limits)
    return spec, release_all(rows, plan, draws, Newton())


def table(n=300, p=700, seed=0):
    rng = np.random.default_rng(seed)
    x = sparse.random_array((n, p), density=0.02, rng=rng, format="csr")
    y = np.where(x[:, :50].sum(axis=1) > x[:, 50:100].sum(axis=1), 1.0, 0.0)
    y[3] = np.nan
    x = sparse.csr_array(x)
    x.data[40] = np.inf
    return y, x


@pytest.mark.parametrize("op", [True, False])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_same_release_as_of_dense_rows(op, delta):
    """Each certified by itself: apart by what the shield hides, and a grid."""
    found = [
        fit_matrix(*table(), 1.0, delta, op=op, randomness=SeededRandomness(3), dense=dense)[1]
        for dense in (True, False)
    ]
    problem = found[0].calibration.problem
    apart = np.linalg.norm(found[0].coef - found[1].coef)
    grid = found[0].calibration.grid
    assert apart <= found[0].calibration.distance + grid * np.sqrt(problem.d)
    assert apart <= 1e-8 + grid * np.sqrt(problem.d)


@pytest.mark.parametrize("op", [True, False])
def test_secret_noise_of_many_columns(op):
    y, x = table(200, 20_000)
    spec, release = fit_matrix(y, x, 1.0, 1e-6, op=op)
    assert release.coef.shape == (spec.d,) == (20_001,)
    assert not np.fmod(release.coef, release.calibration.grid).any()
    assert np.isfinite(release.coef).all()
    assert release.calibration.distance * release.calibration.problem.penalty < 1e-3


def test_a_sparse_matrix_has_the_standard_errors_of_its_table():
    rng = np.random.default_rng(3)
    x = rng.uniform(-0.4, 0.4, (400, 5))
    y = (rng.random(400) < 1 / (1 + np.exp(-5 * x[:, 0]))).astype(float)
    given = {"eps": 0, "lambda_": 1e-4, "row_norm": 1.0, "spend": "inference"}
    table, matrix = (dplr(y, kind(x), **given) for kind in (np.asarray, sparse.csr_array))
    np.testing.assert_allclose(matrix.bse, table.bse, rtol=1e-6)
    np.testing.assert_allclose(matrix.conf_int(), table.conf_int(), rtol=1e-6)


def test_what_is_public_about_a_matrix():
    spec = plan_wide("y", as_batch({"y": np.array([0.0, 1.0])}), 5, declare_schema(row_norm=3.0))
    assert (spec.p, spec.d, spec.bound, spec.intercept) == (5, 6, 3.0, 0.5)
    assert spec.radius >= np.hypot(3.0, 0.5)
    assert tuple(spec.columns.names) == ("(Intercept)", "X1", "X2", "X3", "X4", "X5")
    assert (spec.user_map() @ np.ones(6)).tolist() == [0.5, 1, 1, 1, 1, 1]
    assert plan_wide("y", as_batch({"y": np.array([0.0, 1.0])}), 5, declare_schema()).bound == 1.0
