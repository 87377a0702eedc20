"""Rows that are stored without their zeros."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from privatelr.numerics.rows.dense_rows import DenseRows, TableRows, folded
from privatelr.numerics.rows.products import scaled_rows
from privatelr.numerics.rows.row_bounds import (
    LEAST_SHARE,
    RowBounds,
    Together,
    held_offset,
    roots_of,
    share_of_bound,
    together_of,
)
from privatelr.types import Block, BoolArray, FloatArray, IntArray, Kernel, Rows

_ROWS = 2**16
"""Least number of rows of a block; SciPy holds the interpreter lock meanwhile."""
_SHARE = 8
"""Largest number of columns per row of a block, because its sums have one entry per column."""
_WIDE = 2**14
"""Number of columns from which on empty columns are looked for."""
_MOST = 0.8
"""Share of columns with entries above which leaving out empty ones gains little."""
_SAFETY = 1.0 - 2.0**-40
_UNIT = 2.0**-53


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class SparseRows(TableRows):
    """Labelled rows in memory without their zeros, bounded on construction.

    They fold blocks of type `scipy.sparse.csr_array`; `privatelr.numerics.rows.products` has the
    products that kernels take of both kinds.

    Parameters
    ----------
    covariates : SciPy sparse array or matrix of shape (n, p)
        Anything at all. A row that is too long is scaled down along its direction; one with a
        missing or infinite entry becomes a row of zeros, its intercept entry included. It is
        neither changed nor kept.
    labels : ndarray of shape (n,)
        -1 or +1, over the root of the weight of a record; 0 makes a row of zeros.
    offset : ndarray of shape (n,), optional
        Finite numbers that are added to the linear predictors.
    **limits
        What they are held to: arguments of `RowBounds`, without a projection.

    Notes
    -----
    Every row is treated by itself. Computed lengths are off by ``d 2**-53`` relative to the exact
    ones at most, so rows are shortened to that much, and a little, less than the bound.
    """

    def __init__(
        self,
        covariates: Any,
        labels: FloatArray,
        offset: FloatArray | None = None,
        **limits: Any,
    ) -> None:
        bounds = RowBounds(**limits)
        blocks, intercept = bounds.blocks, bounds.intercept
        together = together_of(blocks, intercept)
        share = np.ones(len(labels))
        if bounds.weighted:
            covariates, share = _with_shares(covariates, bounds.bound, together)
        x, y = bounded_sparse(covariates, labels, bounds.bound, together)
        if intercept is not None:
            x = _with_intercept(x, np.where(y != 0, intercept * share, 0.0))
        y /= share
        if blocks:
            x = _held_in_blocks(x, blocks)
        if (roots := roots_of(labels)) is not None:
            x = scaled_rows(x, roots)
        held = None if offset is None else held_offset(offset, y, bounds.offset_bound)
        self._put(x, y, bounds, held)

    def fold(self, kernel: Kernel) -> tuple[Any, ...]:
        """Sum what `kernel` returns over blocks of rows, in order."""
        size = max(_ROWS, self.d // _SHARE)
        if self.records <= size:
            return kernel(*self.tables)
        return tuple(folded(kernel, size, *self.tables))

    def thinned(self, m: int) -> SparseRows:
        """About m of the rows, at equal distances: which ones depends on n and m alone."""
        few = slice(None, None, max(self.records // m, 1))
        return self.with_table(*(table[few] for table in self.tables))

    def filled(self, held: IntArray) -> tuple[Rows, IntArray] | None:
        """The same rows without the columns in which they have no entries, if there are many."""
        if self.d < _WIDE:
            return None
        x, used = self.x, np.zeros(self.d, dtype=bool)
        used[x.indices] = used[held] = True
        columns = np.flatnonzero(used)
        if len(columns) > _MOST * self.d:
            return None
        place = np.cumsum(used, dtype=x.indices.dtype)
        place -= 1
        shape = self.records, len(columns)
        table = sparse.csr_array((x.data, place[x.indices], x.indptr), shape=shape)
        made = object.__new__(SparseRows)
        return made._put(table, self.y, self, self.offset, blocks=())._like(self), columns

    def scores(self, coef: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Linear predictor and label of each usable row; for diagnostics, never released."""
        usable = self.y != 0
        shift = 0.0 if self.offset is None else self.offset
        link = np.asarray(self.x @ coef + shift) * np.abs(self.y)
        return link[usable], np.sign(self.y)[usable]


def sparse_backend(
    covariates: Any,
    labels: FloatArray,
    offset: FloatArray | None = None,
    *,
    projection: FloatArray | None,
    **limits: Any,
) -> Rows:
    """Make rows of sparse covariates; rows that are projected to few directions are dense."""
    if projection is None:
        return SparseRows(covariates, labels, offset, **limits)
    x, y = bounded_sparse(covariates, labels, limits["bound"])
    images = np.where((y != 0)[:, None], x @ projection, np.nan)
    return DenseRows(images, y, offset, **limits)


def bounded_sparse(
    covariates: Any, labels: FloatArray, bound: float, together: Together | None = None
) -> tuple[Any, FloatArray]:
    """Covariates ``(n, p)`` shortened to `bound`, in canonical CSR form, and labels ``(n,)``.

    Columns with a limit of their own, `together`, are shortened to it before. The
    arrays are new ones. Rows that are not usable are zero, and so are their labels.
    """
    x = sparse.csr_array(covariates, dtype=np.float64, copy=True)
    with np.errstate(all="ignore"):
        x.sum_duplicates()
    if max(x.nnz, x.shape[1]) < np.iinfo(np.int32).max:
        indices = x.indices.astype(np.int32, copy=False)
        x = sparse.csr_array((x.data, indices, x.indptr.astype(np.int32)), shape=x.shape)
    lengths = np.diff(x.indptr)
    usable = np.abs(labels) >= 1.0  # larger ones are those of records that count less
    usable &= _largest(~np.isfinite(x.data), x.indptr) == 0
    if not usable.all():
        x.data[np.repeat(~usable, lengths)] = 0.0
    if together is not None:
        _shorten_some(x, *together)
    _shorten(x, bound)
    return x, np.where(usable, labels, 0.0)


def shares_within(covariates: Any, bounds: RowBounds) -> FloatArray:
    """Return the share ``(n,)`` of each row that is within its bounds, 1 for rows that keep them.

    Every row is treated by itself.
    """
    together = together_of(bounds.blocks, bounds.intercept)
    if sparse.issparse(covariates):
        return np.asarray(_with_shares(covariates, bounds.bound, together)[1])
    return share_of_bound(covariates, bounds.bound, together)


def _with_shares(
    covariates: Any, bound: float, together: Together | None
) -> tuple[Any, FloatArray]:
    """Multiply each row by the share of it that is within its bounds, which is returned too."""
    x = sparse.csr_array(covariates, dtype=np.float64)
    share = np.ones(x.shape[0])
    with np.errstate(all="ignore"):
        for columns, most in [(slice(None), bound), *([] if together is None else [together])]:
            part = x[:, columns]
            limit = most * (_SAFETY - x.shape[1] * _UNIT)
            share = np.fmin(share, limit / np.sqrt(row_sums(part.data**2, part.indptr)))
        share = np.maximum(share, LEAST_SHARE)
        return scaled_rows(x, share), share


def _shorten(x: Any, bound: float) -> None:
    """Scale rows longer than `bound` down to it, in place."""
    entries = np.diff(x.indptr)
    limit = bound * (_SAFETY - x.shape[1] * _UNIT)
    # dividing by the largest entry first keeps the square of 1e300 from overflowing
    largest = _largest(np.abs(x.data), x.indptr)
    unit = np.where(largest > 0, largest, 1.0)
    shares = x.data / np.repeat(unit, entries)
    length = np.sqrt(row_sums(shares * shares, x.indptr))
    with np.errstate(over="ignore"):
        too_long: BoolArray = np.greater(length * unit, limit)
    if too_long.any():
        entry_too_long = np.repeat(too_long, entries)
        factors = limit / np.where(too_long, length, 1.0)
        x.data[entry_too_long] = (shares * np.repeat(factors, entries))[entry_too_long]


def _shorten_some(x: Any, columns: IntArray, bound: float) -> None:
    """Scale the entries in these columns of each row down to length `bound`, in place."""
    chosen = np.zeros(x.shape[1], dtype=bool)
    chosen[columns] = True
    here = chosen[x.indices]
    counted = np.append(0, np.cumsum(here))
    starts = counted[x.indptr].astype(x.indptr.dtype)
    part = sparse.csr_array((x.data[here], x.indices[here], starts), shape=x.shape)
    _shorten(part, bound)
    x.data[here] = part.data


def row_sums(terms: FloatArray, starts: IntArray) -> FloatArray:
    """Sum of the terms of each row, one after the other: the same whatever rows stand around."""
    zeros = np.zeros(len(terms), dtype=starts.dtype)
    table = sparse.csr_array((terms, zeros, starts), shape=(len(starts) - 1, 1))
    return np.asarray(table @ np.ones(1))


def _largest(terms: Any, starts: IntArray) -> FloatArray:
    """Largest of the terms of each row, none of them below zero; zero for a row without terms."""
    found = np.zeros(len(starts) - 1)
    filled = np.diff(starts) > 0
    if filled.any():
        found[filled] = np.maximum.reduceat(terms, starts[:-1][filled])
    return found


def _with_intercept(x: Any, constants: FloatArray) -> Any:
    """The same rows with one entry before the others, in the first column."""
    n, p = x.shape
    starts = x.indptr + np.arange(n + 1, dtype=x.indptr.dtype)
    data, indices = np.empty(len(x.data) + n), np.zeros(len(x.data) + n, dtype=x.indices.dtype)
    moved = np.ones(len(data), dtype=bool)
    moved[starts[:-1]] = False
    data[starts[:-1]] = constants
    data[moved] = x.data
    indices[moved] = x.indices + 1
    return sparse.csr_array((data, indices, starts), shape=(n, p + 1))


def _held_in_blocks(x: Any, blocks: tuple[Block, ...]) -> Any:
    """Rows with each block under "l1" scaled down to its bound where it exceeds it."""
    block_of = np.repeat(np.arange(len(blocks), dtype=x.indices.dtype), [b.size for b in blocks])
    rows = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
    # entries are sorted, so those of one block of one row are neighbours
    place = rows * len(blocks) + block_of[x.indices]
    first = np.flatnonzero(np.diff(place, prepend=-1))
    starts = np.append(first, len(place)).astype(x.indptr.dtype)
    sums = row_sums(np.abs(x.data), starts)
    limits = [b.bound if b.norm == "l1" else np.inf for b in blocks]
    bounds = np.array(limits)[block_of[x.indices[first]]]
    slack = np.diff(starts) * _UNIT
    too_large = sums > bounds * (1 - slack)
    shares = bounds * (_SAFETY - 2 * slack) / np.where(too_large, sums, 1.0)
    factors = np.where(too_large, shares, 1.0)
    data = x.data * np.repeat(factors, np.diff(starts))
    return sparse.csr_array((data, x.indices, x.indptr), shape=x.shape)
