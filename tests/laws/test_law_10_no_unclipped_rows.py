"""Law 10: rows cannot exist unclipped, by construction and for good."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from privatelr.numerics.rows import DenseRows

ANYTHING = st.floats(allow_nan=True, allow_infinity=True, width=64)


def check_bounded(make, covariates, bound, intercept):
    labels = np.ones(len(covariates))
    rows = make(covariates, labels, bound=bound, intercept=intercept)
    lengths = np.sqrt((rows.x.astype(np.longdouble) ** 2).sum(axis=1))
    assert (lengths <= np.longdouble(rows.radius)).all()
    assert np.isfinite(rows.x).all()
    unusable = ~np.isfinite(covariates).all(axis=1)
    assert (rows.x[unusable] == 0).all()
    assert (rows.y[unusable] == 0).all()
    # folds see the bounded rows and nothing else
    (total,) = rows.fold(lambda x, y: ((x * x).sum(),))
    assert total <= len(covariates) * rows.radius**2 * (1 + 1e-12)


@given(
    npst.arrays(
        np.float64, npst.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=ANYTHING
    ),
    st.floats(1e-3, 1e3),
    st.one_of(st.none(), st.floats(1e-3, 10)),
)
def test_law(covariates, bound, intercept):
    check_bounded(DenseRows, covariates, bound, intercept)


def test_direction_is_kept_and_short_rows_are_untouched():
    covariates = np.array([[3.0, 4.0], [0.3, 0.4], [3e300, 4e300], [0.0, 0.0]])
    rows = DenseRows(covariates, np.ones(4), bound=1.0, intercept=None)
    np.testing.assert_allclose(rows.x, [[0.6, 0.8], [0.3, 0.4], [0.6, 0.8], [0, 0]], rtol=1e-11)
    np.testing.assert_array_equal(rows.x[1], covariates[1])


def test_rows_cannot_be_changed_later():
    source = np.ones((3, 2))
    rows = DenseRows(source, np.ones(3), bound=10.0, intercept=0.5)
    source[:] = 1e6
    assert rows.x.max() == 1.0
    with pytest.raises(ValueError, match="read-only"):
        rows.x[0, 0] = 100.0
    with pytest.raises(ValueError, match="read-only"):
        rows.y[0] = 100.0
    with pytest.raises(AttributeError):
        rows.x = source


def test_planted_unbounded_row_is_caught():
    """A subclass that clips a copy and keeps the original, as in SmartNoise."""

    class Careless(DenseRows):
        def __init__(self, covariates, labels, *, bound, intercept, projection=None):
            super().__init__(covariates, labels, bound=bound, intercept=intercept)
            object.__setattr__(self, "x", covariates)

    with pytest.raises(AssertionError):
        check_bounded(Careless, np.array([[0.1, 0.2], [30.0, 40.0]]), 1.0, None)
