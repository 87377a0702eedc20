"""Sums over persons: of products of their rows, and of what is not linear in their records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, reduce
from typing import Any

import numpy as np
from scipy import sparse

from privatelr.numerics.parallel import summed
from privatelr.numerics.rows.dask_rows import DaskRows
from privatelr.numerics.rows.dense_rows import SUMMED_BLOCKS, TableRows, added, block_rows
from privatelr.numerics.rows.products import gram, scaled_rows
from privatelr.types import FloatArray, IntArray


def grams_of_persons(
    rows: TableRows | DaskRows, weigh: Callable[..., tuple[FloatArray, FloatArray]], longest: float
) -> tuple[FloatArray, FloatArray]:
    """``sum_i c_i x_i x_i'`` over rows, and ``sum_u g_u g_u'``, with g_u a sum over a person's.

    Parameters
    ----------
    rows : TableRows
        Rows of persons.
    weigh : callable
        It takes blocks of the tables of rows, and returns weights of each: c_i, and that of the row
        in g_u.
    longest : float
        Each g_u is held to this length, which it exceeds by rounding alone.

    Returns
    -------
    Two arrays of shape (d, d).

    Notes
    -----
    **Privacy.** *Covered*: nothing. A person changes one term of the second sum only, to the last
    bit: the rows of a person are added by themselves, in their order, however many others have.
    *Not covered*: time and memory, which depend on who has many records.
    """
    if isinstance(rows, DaskRows):
        curvature, total = rows.over_persons(partial(_grams, weigh, longest))
        return curvature, total
    assert rows.owners is not None
    order = _by_person(rows.owners, rows.n)
    ends = np.cumsum(np.bincount(rows.owners, minlength=rows.n))
    size = block_rows(rows.d)
    group = SUMMED_BLOCKS * size  # as many additions as in a fold over as many rows

    def part(first: int) -> tuple[FloatArray, FloatArray]:
        curvature = np.zeros((rows.d, rows.d))
        held = np.empty((min(group, rows.n - first), rows.d))
        for few, taken, starts in _whole_persons(order, ends, first, first + len(held), size):
            tables, bends, weights = _weighed(rows, weigh, taken, size)
            curvature += _gram_in_parts(tables[0], bends, size)
            held[few - first] = _sums(tables[0], weights, starts)
        length = np.sqrt(np.einsum("ij,ij->i", held, held))
        held *= np.minimum(1.0, longest / np.maximum(length, longest))[:, None]
        return curvature, _gram_in_parts(held, np.ones(len(held)), size)

    curvature, total = summed(part, range(0, rows.n, group), added)
    return curvature, total


def _grams(weigh: Any, longest: float, rows: TableRows) -> tuple[FloatArray, FloatArray]:
    return grams_of_persons(rows, weigh, longest)


def _gram_in_parts(x: Any, weights: FloatArray, size: int) -> FloatArray:
    """A sum of products of rows, of which so many are added at once."""
    parts = [gram(x[a : a + size], weights[a : a + size]) for a in range(0, len(weights), size)]
    return np.asarray(reduce(np.add, parts))


def _by_person(owners: IntArray, m: int) -> IntArray:
    """Return the places ``(n,)`` of records by persons, each one's in their order.

    SciPy counts the entries of columns, which takes less time than sorting does.
    """
    n = len(owners)
    found = sparse.csr_array((np.ones(n, dtype=bool), owners, np.arange(n + 1)), shape=(n, m))
    return np.asarray(found.tocsc().indices)


def _whole_persons(
    order: IntArray, ends: IntArray, first: int, stop: int, size: int
) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """Part persons into groups of about so many records, or one person of more.

    Yields the numbers of the persons, the places of their records, and where those of each begin.
    """
    while first < stop:
        begin = int(ends[first - 1]) if first else 0
        after = min(max(int(np.searchsorted(ends, begin + size, "right")), first + 1), stop)
        starts = np.append(begin, ends[first:after]) - begin
        yield np.arange(first, after), order[begin : int(ends[after - 1])], starts
        first = after


def _weighed(
    rows: TableRows,
    weigh: Callable[..., tuple[FloatArray, FloatArray]],
    taken: IntArray,
    size: int,
) -> tuple[list[Any], FloatArray, FloatArray]:
    """Tables of these records, and both weights of each, so many at once."""
    tables = [
        table[taken] if sparse.issparse(table) else np.take(table, taken, axis=0)
        for table in rows.tables
    ]
    blocks = (slice(a, a + size) for a in range(0, len(taken), size))
    found = [weigh(*(table[block] for table in tables)) for block in blocks]
    bends, weights = map(np.concatenate, zip(*found, strict=True))
    return tables, bends, weights


def _sums(x: Any, weights: FloatArray, starts: IntArray) -> FloatArray:
    """The sum of the weighted rows of each person ``(m, d)``."""
    whose = sparse.csr_array(
        (np.ones(len(weights)), np.arange(len(weights)), starts),
        shape=(len(starts) - 1, len(weights)),
    )
    if sparse.issparse(x):
        return np.asarray((whose @ scaled_rows(x, weights)).toarray())
    return np.asarray(whose @ (x * weights[:, None]))
