"""The products of a block: what each computes, and that other threads run meanwhile."""

import numpy as np
import pytest
from scipy import sparse

from privatelr.numerics.rows import gram, margins, rough_gram, weighted_sum

N, D = 300, 40


def block(share=1.0, n=N, d=D):
    rng = np.random.default_rng(2)
    dense = rng.standard_normal((n, d)) * (rng.random((n, d)) < share)
    return dense, rng.random(n)


@pytest.mark.parametrize("share", [0.01, 0.08, 0.5, 1.0])
@pytest.mark.parametrize("d", [5, D])
def test_products_are_those_of_the_definition(share, d):
    dense, weight = block(share, d=d)
    w = np.linspace(-1, 1, d)
    expected = np.einsum("ki,k,kj->ij", dense, weight, dense)
    for x in (dense, sparse.csr_array(dense)):
        np.testing.assert_allclose(margins(x, w), dense @ w, rtol=0, atol=1e-13)
        np.testing.assert_allclose(weighted_sum(weight, x), weight @ dense, rtol=0, atol=1e-13)
        np.testing.assert_allclose(gram(x, weight), expected, rtol=0, atol=1e-11)
        np.testing.assert_allclose(rough_gram(x, weight), expected, rtol=0, atol=1e-11)


def test_a_weight_that_was_rounded_to_below_zero_counts_as_zero():
    x, weight = block()
    below = np.where(np.arange(N) < 5, -1e-18, weight)
    np.testing.assert_array_equal(rough_gram(x, below), rough_gram(x, np.maximum(below, 0)))
