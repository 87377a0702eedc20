"""Rows of wide factors without their zeros are the rows of the formula."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from privatelr.design import plan_design, read_design, read_sparse, worth_sparse
from privatelr.formula import parse_formula
from privatelr.numerics.rows import DenseRows, SparseRows, sparse_backend
from privatelr.sources import as_batch, declare_schema

CITIES = [f"c{index}" for index in range(150)]


def people(n=400, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "y": rng.integers(0, 2, n).astype(float),
            "age": rng.uniform(10, 100, n),
            "dose": rng.uniform(-1, 3, n),
            "city": rng.choice([*CITIES, "nowhere"], n),
            "smoker": rng.choice(["no", "yes"], n),
        }
    )
    frame.loc[3, "age"] = np.nan
    frame.loc[5, "y"] = np.nan
    frame.loc[7, "dose"] = np.inf
    return frame


def planned(formula, frame, **options):
    bounds = options.get("bounds", {"age": (18, 90), "dose": (0, 2)})
    levels = {"city": CITIES, "smoker": ["no", "yes"]}
    schema = declare_schema(bounds, levels, options.get("row_norm"), 0.5)
    return plan_design(parse_formula(formula, list(frame.columns)), as_batch(frame), schema)


def sparsely(spec, frame):
    covariates, label = read_sparse(spec, as_batch(frame))
    return sparse_backend(
        covariates,
        label,
        bound=spec.bound,
        intercept=spec.intercept,
        projection=spec.projection,
        blocks=spec.blocks,
    )


FORMULAS = [
    "y ~ city",
    "y ~ age + city + smoker",
    "y ~ 0 + city + age",
    "y ~ city * smoker + age:city",
    "y ~ age * smoker + log(age) + dose:city:smoker",
    "y ~ C(city, contr.sum) + I(age**2)",
]


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("row_norm", [None, 0.7])
def test_the_same_rows(formula, row_norm):
    frame = people()
    spec = planned(formula, frame, row_norm=row_norm)
    dense = read_design(spec, as_batch(frame), DenseRows)
    held = sparsely(spec, frame)
    assert isinstance(held, SparseRows)
    np.testing.assert_allclose(held.x.toarray(), dense.x, rtol=1e-9, atol=1e-14)
    assert (held.y == dense.y).all()
    assert (held.radius, held.blocks) == (dense.radius, dense.blocks)


def test_a_term_that_is_not_defined_leaves_a_row_of_zeros():
    frame = people()
    spec = planned("y ~ city + log(dose)", frame, bounds={}, row_norm=0.7)
    dense, held = read_design(spec, as_batch(frame), DenseRows), sparsely(spec, frame)
    undefined = (frame["dose"] <= 0).to_numpy()
    assert undefined.sum() > 50
    assert (held.y[undefined] == 0).all()
    assert (held.y == dense.y).all()
    np.testing.assert_allclose(held.x.toarray(), dense.x, rtol=1e-9, atol=1e-14)


def test_no_zero_is_held():
    frame = people()
    covariates, _ = read_sparse(planned("y ~ age + city", frame), as_batch(frame))
    assert isinstance(covariates, sparse.csr_array)
    assert covariates.shape == (400, 150)
    assert covariates.nnz <= 2 * 400


def test_what_is_worth_it_is_public():
    frame = people()
    assert worth_sparse(planned("y ~ age + city", frame))
    assert not worth_sparse(planned("y ~ age + smoker", frame))
    assert not worth_sparse(planned("y ~ C(city, contr.sum)", frame))
