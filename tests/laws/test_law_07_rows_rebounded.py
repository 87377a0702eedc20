"""Law 7: rows are inside the radius after projection, interactions, contrasts and transforms."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from frames_for_laws import clinic
from raw_designs import raw_design

import privatelr.numerics.rows.row_bounds
from privatelr import dplr
from privatelr.design import project, read_design, read_values
from privatelr.numerics.rows import DenseRows
from privatelr.sources import as_batch

FORMULAS = [
    "y ~ age + dose + smoker",
    "y ~ age * dose * smoker",
    "y ~ C(smoker, contr.sum) * age",
    "y ~ C(smoker, Treatment('yes')) * age + I(dose * !(age > 40)) + I(-!dose)",
    "y ~ I(age^2) + log(dose + 1) + age:smoker",
    "y ~ (age + dose + smoker)^2 - 1",
]
BOUNDS = {"age": (18, 90), "dose": (0, 5)}
LEVELS = {"smoker": ["no", "yes"], "y": [0, 1]}


def check_lengths(formula, bounds, rp_dim):
    frame = wild()
    shares = []
    for _ in range(2 if rp_dim else 1):  # one plane may happen to be far from all long rows
        fit = dplr(formula, clinic(), levels=LEVELS, bounds=bounds, rp_dim=rp_dim)
        longest = np.linalg.norm(read_design(fit.spec, as_batch(frame), DenseRows).x, axis=1).max()
        limit = fit.calibration.problem.radius
        assert longest <= limit
        shares.append(longest / limit)
    # some row comes near the limit, or the limit would be wasteful
    assert max(shares) > 1 / 4


def wild():
    """A clinic with values far beyond the bounds."""
    frame = clinic(n=60)
    frame.loc[:5, "age"] = [-1e300, 1e300, np.inf, np.nan, 1e9, -4.0]
    frame.loc[3:8, "dose"] = [1e12, -1e12, 1e300, -np.inf, 700.0, 0.0]
    return frame


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("bounds", [None, BOUNDS, {"age": (18, 90)}])
@pytest.mark.parametrize("rp_dim", [0, 2])
def test_law(formula, bounds, rp_dim):
    check_lengths(formula, bounds, rp_dim)


def test_projection_alone_would_lengthen_rows():
    """Unless rows are bounded again, many of them leave the ball."""
    frame = pd.DataFrame(np.eye(20), columns=[f"x{i}" for i in range(20)]).assign(y=0)
    spec = dplr("y ~ .", frame, levels={"y": [0, 1]}).spec
    projected = project(spec, np.random.default_rng(0).standard_normal((20, 5)))
    rows = read_design(projected, as_batch(frame), DenseRows)
    assert np.linalg.norm(np.eye(20) @ projected.projection, axis=1).max() > 1
    assert np.linalg.norm(rows.x, axis=1).max() <= rows.radius


def test_a_term_is_clipped_to_its_range():
    """Should a range ever be too narrow, the column keeps to it all the same."""
    frame = clinic()
    spec = dplr("y ~ log(dose + 1)", frame, bounds=BOUNDS, levels=LEVELS).spec
    narrow = replace(spec, factors=(replace(spec.factors[0], interval=(0.5, 1.0)),))
    values, _ = read_values(narrow.variables, as_batch(frame), narrow.formula.covariates)
    raw, _ = raw_design(narrow, values, len(frame))
    assert raw[:, 1].min() == 0.5
    assert raw[:, 1].max() == 1.0


def test_planted_bug_is_caught(monkeypatch):
    """Rows that keep their length after projection, as in PrivateLR."""

    def unbounded(covariates, bound, intercept, projection=None, blocks=()):
        covariates = covariates if projection is None else covariates @ projection
        first = np.full((len(covariates), 1), intercept)
        return np.hstack([first, np.nan_to_num(covariates).clip(-1e3, 1e3)])

    monkeypatch.setattr(privatelr.numerics.rows.row_bounds, "bounded_rows", unbounded)
    with pytest.raises(AssertionError):
        check_lengths(FORMULAS[0], None, 2)
