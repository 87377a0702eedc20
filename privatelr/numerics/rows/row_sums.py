"""Sums along rows, exact to the last bit or as fast as memory allows, and extremes of columns."""

from __future__ import annotations

import numpy as np

from privatelr.types import FloatArray, IntArray

_LONG = 32
"""Number of entries of a row from which on one sum per row is faster than a matrix product."""


def some_columns(x: FloatArray, columns: IntArray) -> FloatArray:
    """Columns of a table that is stored by columns, without a copy if they are neighbours."""
    first, stop = int(columns[0]), int(columns[-1]) + 1
    if np.array_equal(columns, np.arange(first, stop)):
        return x[:, first:stop]
    return x.T[columns].T


def row_lengths(x: FloatArray) -> FloatArray:
    """Euclidean length of each row, the same whatever rows stand next to it."""
    total = np.zeros(len(x))
    for column in x.T:
        total += column * column
    return np.sqrt(total)


def linear_predictor(x: FloatArray, coef: FloatArray) -> FloatArray:
    """``x @ coef`` of shape ``(n,)``, the same to the last bit for a row alone or in a batch.

    BLAS picks its order of summation by the shape of the batch; prediction may not.
    """
    total = np.zeros(len(x))
    for column, weight in zip(x.T, coef, strict=True):
        total += column * weight
    return total


def fast_products(x: FloatArray, w: FloatArray) -> FloatArray:
    """``x @ w`` of shape ``(n,)``, in any order of summation."""
    # matrix libraries read several rows at a time, which memory serves more slowly
    return np.asarray(x @ w if x.shape[1] < _LONG else np.vecdot(x, w))


def largest_entries(x: FloatArray) -> tuple[FloatArray, bool]:
    """Size ``(p,)`` of the largest number in each column of ``(n, p)``, and whether none is NaN."""
    if x.size == 0:
        return np.zeros(x.shape[1]), True
    with np.errstate(all="ignore"):
        most, least = np.maximum.reduce(x, axis=0), np.minimum.reduce(x, axis=0)
        complete = not np.isnan(most).any()
        if not complete:
            most, least = np.fmax.reduce(x, axis=0), np.fmin.reduce(x, axis=0)
        return np.maximum(most, -least), complete
