"""Labelled rows whose entries keep a stated bound, for mechanisms that choose columns.

Where `row_bounds` bounds the length of a row, here every entry is bounded by itself: a score of a
column sees one entry of each row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from privatelr.types import BoolArray, FloatArray, IntArray

_SPARSE = 0.25
"""Share of nonzero entries from which on a dense array is faster."""
_SPARSE_SIGNS = 0.35
"""The same share for indicators; it depends on the data, but affects time and memory only."""


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class EntryRows:
    """Signed rows ``y x`` in memory, each entry bounded on construction.

    Parameters
    ----------
    covariates : ndarray or SciPy sparse array of shape (n, p)
        Anything at all. An entry beyond the bound becomes the bound, and a row with a missing
        or infinite entry becomes a row of zeros, its intercept entry included.
    labels : ndarray of shape (n,)
        -1 or +1; anything else makes a row of zeros.
    x_bound : float
        Largest size of an entry.
    intercept : float or None
        Constant of the intercept column, which is put first; None for no such column.

    Attributes
    ----------
    n, d : int
        Rows and columns, the intercept counted.
    x_bound : float
    y : ndarray of shape (n,), read-only
        -1 or +1, and 0 for a row that was not usable.
    is_sparse : bool
        Whether zeros are left out in memory; no result depends on it beyond rounding.
    """

    n: int
    d: int
    x_bound: float
    y: FloatArray
    is_sparse: bool
    _signed: Any  # (n, d): dense by columns, or CSC
    _transposed: Any  # (d, n): a view of the same, or CSR of the transpose

    def __init__(
        self,
        covariates: Any,
        labels: FloatArray,
        *,
        x_bound: float,
        intercept: float | None = None,
    ) -> None:
        if intercept is not None and not abs(intercept) <= x_bound:
            raise ValueError(f"intercept={intercept:g} is beyond x_bound={x_bound:g}.")
        make, rows = _dense_signed, covariates
        if sparse.issparse(covariates):
            make, rows = _sparse_signed, merged(covariates)
        y = np.where(_finite_rows(rows) & np.isin(labels, (-1.0, 1.0)), labels, 0.0)
        y.flags.writeable = False
        self._set(y, x_bound, make(rows, y, x_bound, intercept))

    def _set(self, y: FloatArray, x_bound: float, signed: Any) -> EntryRows:
        is_sparse = sparse.issparse(signed)
        # rows of the transpose are what a product by weights reads
        transposed = sparse.csr_array(signed.T) if is_sparse else signed.T
        n, d = signed.shape
        values = (int(n), int(d), float(x_bound), y, is_sparse, signed, transposed)
        for name, value in zip(EntryRows.__slots__, values, strict=True):
            object.__setattr__(self, name, value)
        return self

    @property
    def persons(self) -> None:
        """Each row is a record of its own."""

    @property
    def records(self) -> int:
        """The number of rows."""
        return self.n

    @property
    def radius(self) -> float:
        """No row is longer."""
        return self.x_bound * math.sqrt(self.d)

    def weighted_sum(self, weights: FloatArray) -> FloatArray:
        """``sum_i weights_i y_i x_i`` of shape ``(d,)``: one pass over the entries."""
        return np.asarray(self._transposed @ weights)

    def margins(self, w: FloatArray) -> FloatArray:
        """``y_i x_i . w`` of shape ``(n,)``: one pass over the entries."""
        return np.asarray(self._signed @ w)

    def column(self, j: int) -> tuple[slice | IntArray, FloatArray]:
        """Where ``y x[:, j]`` may differ from zero, and its values there."""
        if not self.is_sparse:
            return slice(None), np.asarray(self._signed[:, j])
        start, stop = self._transposed.indptr[j : j + 2]
        return self._transposed.indices[start:stop], self._transposed.data[start:stop]

    def indicators(self, threshold: float, sign: float) -> EntryRows:
        """Indicators of ``sign y x >= threshold``, for a threshold above 0, as rows of label 1."""
        found: Any = (self._signed * sign) >= threshold
        filled = found.nnz if self.is_sparse else np.count_nonzero(found)
        if filled < _SPARSE_SIGNS * self.n * self.d:
            signed = sparse.csc_array(found, dtype=np.float64)
        else:
            dense = found.toarray() if self.is_sparse else found
            signed = np.asfortranarray(dense, dtype=np.float64)
        return object.__new__(EntryRows)._set(np.ones(self.n), 1.0, signed)

    def scores(self, coef: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Linear predictor and label of each usable row; for diagnostics, never released."""
        usable = self.y != 0
        return (self.margins(coef) * self.y)[usable], self.y[usable]

    def at_least(self, threshold: float) -> tuple[EntryRows, EntryRows]:
        """Indicators of ``y x >= threshold`` and of ``-y x >= threshold``.

        They are rows with labels of one, so that `weighted_sum` adds up weights.
        """
        return self.indicators(threshold, 1.0), self.indicators(threshold, -1.0)

    def signed(self) -> FloatArray:
        """A dense copy ``(n, d)`` of ``y x``, for audits of small cases."""
        return np.array(self._signed.toarray() if self.is_sparse else self._signed)


def merged(matrix: Any) -> Any:
    """A copy by rows in which every entry is stored once.

    A sparse matrix may store an entry in several parts, and its value is their sum. A bound that
    was put on the parts would not hold for the entry.
    """
    rows = sparse.csr_array(matrix, dtype=np.float64, copy=True)
    with np.errstate(all="ignore"):
        rows.sum_duplicates()
    return rows


def few_are_filled(density: float) -> bool:
    """Whether entries of this public density, from 0 to 1, are better held without zeros."""
    return density < _SPARSE


def bounded_entries(covariates: FloatArray, x_bound: float, intercept: float | None) -> FloatArray:
    """Entries held to the bound, with the intercept column before them; shape ``(n, d)``.

    Each row is treated by itself; one with a missing or infinite entry becomes a row of zeros.
    """
    usable = _finite_rows(covariates)
    held = np.clip(np.where(usable[:, None], covariates, 0.0), -x_bound, x_bound)
    if intercept is None:
        return held
    return np.column_stack([np.where(usable, intercept, 0.0), held])


def _finite_rows(rows: Any) -> BoolArray:
    if not sparse.issparse(rows):
        return np.asarray(np.isfinite(rows).all(axis=1))
    usable = np.ones(rows.shape[0], dtype=bool)
    bad = ~np.isfinite(rows.data)
    usable[np.repeat(np.arange(len(usable)), np.diff(rows.indptr))[bad]] = False
    return usable


def _dense_signed(
    rows: FloatArray, y: FloatArray, x_bound: float, intercept: float | None
) -> FloatArray:
    first = int(intercept is not None)
    signed = np.empty((len(rows), rows.shape[1] + first), order="F")
    signed[:, :first] = (y * (intercept or 0.0))[:, None]
    usable = y != 0
    for entries, out in zip(rows.T, signed.T[first:], strict=True):  # no second copy of the matrix
        column = np.where(usable, entries, 0.0)
        np.multiply(np.clip(column, -x_bound, x_bound, out=column), y, out=out)
    signed.flags.writeable = False
    return signed


def _sparse_signed(rows: Any, y: FloatArray, x_bound: float, intercept: float | None) -> Any:
    labels = np.repeat(y, np.diff(rows.indptr))
    data = np.clip(np.where(labels != 0, rows.data, 0.0), -x_bound, x_bound) * labels
    signed = sparse.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)
    if intercept is not None:
        constant = sparse.csr_array((y * intercept)[:, None])
        signed = sparse.hstack([constant, signed], format="csr")
    signed.eliminate_zeros()
    return sparse.csc_array(signed)
