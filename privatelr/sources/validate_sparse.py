"""Sparse matrices whose indices lie within their shape.

SciPy does not look at the indices that it is given, and then reads memory that is not its own.
Whether they are sound is a fact about the data, so a row with an index of a column that is not
there becomes a row that is of no use, as one with a missing value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from privatelr.errors import SchemaError

_NUMBERS = "fiub"


def validated_sparse(matrix: Any) -> Any:
    """A sparse matrix of numbers by rows, by columns or by entries; itself, if it is sound.

    Raises
    ------
    SchemaError
        If its entries are no numbers, or where its rows start says nothing.
    """
    if matrix.dtype.kind not in _NUMBERS:
        raise SchemaError(f"X of type {matrix.dtype}: a matrix takes real numbers.")
    match matrix.format:
        case "csr" | "csc":
            return _sound_compressed(matrix)
        case "coo":
            return _sound_entries(matrix)
        case "bsr":
            return _sound_compressed_blocks(matrix)
    return matrix.tocsr()  # kept as Python's own containers, or by diagonals


def _sound_compressed(matrix: Any) -> Any:
    major, minor = matrix.shape if matrix.format == "csr" else matrix.shape[::-1]
    starts, indices = matrix.indptr, matrix.indices
    _require_starts(starts, major, min(len(indices), len(matrix.data)))
    used = indices[: starts[-1]]
    if len(used) == 0 or (used.min() >= 0 and used.max() < minor):
        return matrix
    outer = np.repeat(np.arange(major), np.diff(starts))
    rows, columns = (outer, used) if matrix.format == "csr" else (used, outer)
    return _marked(matrix.data[: len(used)], rows, columns, matrix.shape)


def _sound_entries(matrix: Any) -> Any:
    rows, columns = matrix.coords
    n, p = matrix.shape
    inside = np.all((rows >= 0) & (rows < n) & (columns >= 0) & (columns < p))
    return matrix if inside else _marked(matrix.data, rows, columns, matrix.shape)


def _sound_compressed_blocks(matrix: Any) -> Any:
    height, width = matrix.blocksize
    _require_starts(matrix.indptr, matrix.shape[0] // height, len(matrix.indices))
    used = matrix.indices[: matrix.indptr[-1]]
    if len(used) and not (used.min() >= 0 and used.max() < matrix.shape[1] // width):
        raise SchemaError("X: blocks of the matrix lie beyond its columns.")
    return matrix.tocsr()


def _require_starts(starts: Any, major: int, entries: int) -> None:
    if len(starts) != major + 1 or starts[0] != 0 or starts[-1] > entries:
        raise SchemaError("X: where rows or columns of the matrix start does not fit its entries.")
    if (np.diff(starts) < 0).any():
        raise SchemaError("X: rows or columns of the matrix start after they end.")


def _marked(data: Any, rows: Any, columns: Any, shape: tuple[int, int]) -> Any:
    """A matrix in which a row with a column that is not there has a missing value.

    An entry of a row that is not there belongs to nobody.
    """
    there = (rows >= 0) & (rows < shape[0])
    rows, columns, data = rows[there], columns[there], data[there].astype(np.float64)
    beyond = (columns < 0) | (columns >= shape[1])
    values = np.where(beyond, np.nan, data)
    return sparse.coo_array((values, (rows, np.where(beyond, 0, columns))), shape=shape).tocsr()
