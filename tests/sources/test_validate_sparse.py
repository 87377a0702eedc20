"""Sparse matrices whose indices lie outside their shape do no harm, and say nothing."""

import numpy as np
import pytest
from scipy import sparse

from privatelr import SchemaError, dplr
from privatelr.sources import validated_sparse

N, P = 40, 6


def matrix(form):
    rng = np.random.default_rng(0)
    return sparse.random_array((N, P), density=0.3, rng=rng, format=form)


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_a_sound_matrix_is_left_alone(form):
    x = matrix(form)
    assert validated_sparse(x) is x


@pytest.mark.parametrize("form", ["bsr", "lil", "dok", "dia"])
def test_other_forms_come_by_rows(form):
    x = matrix("csr")
    made = validated_sparse(x.asformat(form))
    np.testing.assert_array_equal(made.toarray(), x.toarray())


@pytest.mark.parametrize("index", [P, 10**6, -1, -(10**6)])
@pytest.mark.parametrize("form", ["csr", "coo"])
def test_a_row_with_a_column_that_is_not_there_is_of_no_use(form, index):
    x = matrix(form)
    row = int(x.coords[0][3]) if form == "coo" else int(np.searchsorted(x.indptr, 3, "right")) - 1
    held = x.coords[1] if form == "coo" else x.indices
    whole = x.toarray()
    held[3] = index
    made = validated_sparse(x).toarray()
    assert np.isnan(made[row]).any()
    others = np.arange(N) != row
    np.testing.assert_array_equal(made[others], whole[others])


@pytest.mark.parametrize("index", [N, -1])
def test_an_entry_of_a_row_that_is_not_there_is_nobodys(index):
    x = matrix("csc")
    whole, row = x.toarray(), int(x.indices[3])
    column = int(np.searchsorted(x.indptr, 3, "right")) - 1
    x.indices[3] = index
    whole[row, column] = 0.0
    np.testing.assert_array_equal(validated_sparse(x).toarray(), whole)


@pytest.mark.filterwarnings("ignore:seed=1")
def test_a_fit_ends_as_with_that_row_missing():
    y = np.arange(N) % 2 == 1
    x, missing = matrix("csr"), matrix("csr")
    x.indices[0] = 10**6
    missing.data[: missing.indptr[1]] = np.nan
    assert missing.indptr[1] > 0
    coefs = [dplr(y, data, eps=1.0, delta=1e-6, seed=1).coef for data in (x, missing)]
    np.testing.assert_array_equal(*coefs)


def test_starts_that_do_not_fit_are_refused():
    for place, value in ((-1, 10**6), (0, 1), (3, 10**5)):
        x = matrix("csr")
        x.indptr[place] = value
        with pytest.raises(SchemaError, match="start"):
            validated_sparse(x)


def test_complex_numbers_are_refused():
    with pytest.raises(SchemaError, match="real numbers"):
        dplr(np.arange(N) % 2, matrix("csr").astype(complex), eps=1.0)
