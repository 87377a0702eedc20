"""The few products that kernels take of a block of rows, dense or sparse.

A block is an array ``(m, d)`` or a `scipy.sparse.csr_array` of that shape. ``x @ w`` is spelled
alike for both; what is not, or is better not, has a function here.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from scipy import sparse

from privatelr.numerics.parallel import summed
from privatelr.numerics.rows.dense_rows import SUMMED_BLOCKS, block_rows, fast_products, folded
from privatelr.numerics.rows.row_bounds import linear_predictor
from privatelr.types import FloatArray, IntArray, Kernel

_DOT = 64
"""Terms of the sums of dense blocks that are left to the order of the linear algebra library."""
_PIECE = 8
"""Terms of the sums of sparse blocks that are: few, because their sums are summed in turn."""
_FILLED = 0.02
"""Share of entries from which on products of columns are faster dense."""
_CROWDED = 0.12
"""The same where sums may be as long as they are."""
_LONG = 32
"""Entries of a row from which on a product of columns takes longer than what halves it."""


def row_products(x: Any, w: FloatArray) -> FloatArray:
    """Return ``x @ w``; the result for a row does not depend on the other rows."""
    # SciPy adds up the entries of a sparse row one after the other
    return np.asarray(x @ w) if sparse.issparse(x) else linear_predictor(x, w)


def margins(x: Any, w: FloatArray) -> FloatArray:
    """Return ``x @ w``, as fast as x can be read from memory."""
    return np.asarray(x @ w) if sparse.issparse(x) else fast_products(x, w)


def weighted_sum(weights: FloatArray, x: Any) -> FloatArray:
    """Return ``weights @ x``, while other threads can run."""
    # for a vector and a table `@` keeps the interpreter lock (NumPy up to 2.4)
    return np.asarray(weights @ x if sparse.issparse(x) else np.dot(weights, x))


def column_sums(x: Any, weight: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
    """Return the sum of each column ``(d,)``, and the sum of its squares.

    With weights ``(n,)`` the first is the weighted sum; squares are never weighted.
    """
    if not sparse.issparse(x):
        sums = x.sum(axis=0) if weight is None else weight @ x
        by_columns = x.strides[0] < x.strides[1]  # then each is a product of neighbours in memory
        return sums, np.vecdot(x.T, x.T) if by_columns else np.einsum("ij,ij->j", x, x)
    sums = x.sum(axis=0) if weight is None else x.T @ weight
    return np.asarray(sums).ravel(), np.asarray(x.power(2).sum(axis=0)).ravel()


def row_squares(x: Any) -> FloatArray:
    """Return the squared length of each row ``(n,)``."""
    if sparse.issparse(x):
        return np.asarray(x.power(2).sum(axis=1)).ravel()
    return np.asarray(np.einsum("ij,ij->i", x, x))


def gram(x: Any, weight: FloatArray) -> FloatArray:
    """``sum_i weight_i x_i x_i'`` of shape ``(d, d)``, dense.

    No term goes through more additions than in a fold over dense blocks.
    """
    if not sparse.issparse(x):
        return np.asarray((x * weight[:, None]).T @ x)
    size = block_rows(x.shape[1])

    def group(first: int) -> FloatArray:
        starts = range(first, min(first + SUMMED_BLOCKS * size, x.shape[0]), size)
        return reduce(np.add, (_gram_of_few(x[s : s + size], weight[s : s + size]) for s in starts))

    return summed(group, range(0, x.shape[0], SUMMED_BLOCKS * size), np.add)


def rough_gram(x: Any, weight: FloatArray) -> FloatArray:
    """Return the same for weights of at least 0, faster and less exact: sums may be long."""
    if sparse.issparse(x):
        if x.nnz > _CROWDED * x.shape[0] * x.shape[1]:
            return gram(x, weight)
        return np.asarray((x.tocsc().T @ scaled_rows(x, weight)).toarray())
    if x.shape[1] < _LONG:
        return gram(x, weight)
    # a table times its own transpose is half the work; rounding may have made a weight negative
    scaled = x * np.sqrt(np.maximum(weight, 0.0))[:, None]
    return np.asarray(scaled.T @ scaled)


def _gram_of_few(x: Any, weight: FloatArray) -> FloatArray:
    if x.nnz > _FILLED * x.shape[0] * x.shape[1]:
        rows = x.toarray()
        return np.asarray((rows * weight[:, None]).T @ rows)
    weighted = scaled_rows(x, weight)
    return np.asarray((weighted.T @ x).toarray())


def scaled_rows(x: Any, factors: FloatArray) -> Any:
    """Each row of a sparse block times its factor."""
    data = x.data * np.repeat(factors, np.diff(x.indptr))
    return sparse.csr_array((data, x.indices, x.indptr), shape=x.shape)


def in_dense_pieces(kernel: Kernel) -> Kernel:
    """The same kernel for dense and for sparse blocks, of which it sees dense pieces."""

    def of_sparse(x: Any, *others: FloatArray) -> tuple[Any, ...]:
        return kernel(x.toarray(), *others)

    def run(x: Any, y: FloatArray, *offset: FloatArray) -> tuple[Any, ...]:
        if not sparse.issparse(x):
            return kernel(x, y, *offset)
        return tuple(folded(of_sparse, block_rows(x.shape[1]), x, y, *offset))

    return run


def short_margins(x: Any, w: FloatArray) -> FloatArray:
    """``x @ w`` in sums of few terms, for which `margin_roundings` holds."""
    if sparse.issparse(x):
        return _short_sums(x.data * w[x.indices], x.indptr)
    d = x.shape[1]
    if d <= _DOT:
        return fast_products(x, w)
    starts = range(0, d, _DOT)
    return halved(np.stack([fast_products(x[:, s : s + _DOT], w[s : s + _DOT]) for s in starts]))


def margin_roundings(d: int) -> int:
    """Bound the number of roundings that a term of `short_margins` goes through.

    A dense row of up to 64 columns takes d. A longer one takes 64 for its part, and one for each
    time that parts are halved; a sparse one takes one, and 7 for each time that eight terms
    become one. No sum of d terms needs more than d, in whatever order it is taken.
    """
    depth = max(d - 1, 1).bit_length()
    return min(d, max(_DOT + depth, 1 + (_PIECE - 1) * (depth // 3 + 1)))


def short_slopes(x: Any, weights: FloatArray) -> FloatArray:
    """``weights @ x`` in sums of few terms, for which `slope_roundings` holds."""
    if sparse.issparse(x):
        columns = x.tocsc()
        return _short_sums(columns.data * weights[columns.indices], columns.indptr)
    whole = len(x) // _DOT * _DOT
    pieces = x[:whole].reshape(-1, _DOT, x.shape[1])
    parts = weights[:whole].reshape(-1, 1, _DOT) @ pieces
    return halved(np.concatenate([parts[:, 0], weighted_sum(weights[whole:], x[whole:])[None]]))


def slope_roundings(n: int) -> int:
    """Bound the number of roundings that a term of `short_slopes` of up to n rows goes through.

    As in `margin_roundings`: 64 or fewer for a part of a dense block, then one for each halving;
    one and 7 for each time that eight terms of a sparse column become one.
    """
    depth = max(n - 1, 1).bit_length()
    return max(_DOT + depth, 1 + (_PIECE - 1) * (depth // 3 + 1)) + 1


def halved(parts: FloatArray) -> FloatArray:
    """Return the sum of vectors ``(k, d)`` by repeatedly adding one half to the other."""
    while len(parts) > 1:
        half = (len(parts) + 1) // 2
        folded = parts[:half].copy()
        folded[: len(parts) - half] += parts[half:]
        parts = folded
    return np.asarray(parts[0])


def _short_sums(terms: FloatArray, starts: IntArray) -> FloatArray:
    """Sums of consecutive terms from each start to the next, eight at a time again and again."""
    lengths = np.diff(starts)
    found = np.zeros(len(lengths))
    filled = lengths > 0
    if filled.any():
        found[filled] = np.add.reduceat(terms, starts[:-1][filled])
    many = np.flatnonzero(lengths > _PIECE)
    if len(many) == 0:
        return found
    # of these the library's sums are not short: once more, by pieces
    first, stop = starts[:-1][many].astype(np.intp), starts[1:][many].astype(np.intp)
    pieces = -(-lengths[many] // _PIECE)
    ends = np.cumsum(pieces)
    within = np.arange(ends[-1]) - np.repeat(ends - pieces, pieces)
    begin = np.repeat(first, pieces) + _PIECE * within
    end = np.minimum(begin + _PIECE, np.repeat(stop, pieces))
    edges = np.column_stack([begin, end]).ravel()
    # every other sum is of what lies between two pieces
    parts = np.add.reduceat(terms, edges[:-1] if edges[-1] == len(terms) else edges)[::2]
    found[many] = _short_sums(parts, np.append(0, ends))
    return found
