"""Sums over persons: of products of their rows, and of what is not linear in their records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
from scipy import sparse

from privatelr.numerics.parallel import summed
from privatelr.numerics.rows.dense_rows import SUMMED_BLOCKS, TableRows, added, block_rows
from privatelr.numerics.rows.products import gram, scaled_rows
from privatelr.numerics.rows.stream_rows import StreamRows
from privatelr.types import FloatArray, IntArray

_HELD = 2**25
"""Numbers of persons in a stream that are in memory at once: 256 MiB."""
Weigh = Callable[..., tuple[FloatArray, FloatArray]]
"""Takes blocks of the tables of rows, and returns two weights of each row."""


def grams_of_persons(rows: Any, weigh: Weigh, longest: float) -> tuple[FloatArray, FloatArray]:
    """``sum_i c_i x_i x_i'`` over rows, and ``sum_u g_u g_u'``, with g_u a sum over a person's.

    Parameters
    ----------
    rows : Rows
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
    if rows.has_scattered_persons:
        return _of_stream(rows, weigh, longest)
    curvature, total = rows.over_persons(partial(_of_tables, weigh, longest))
    return curvature, total


def _of_tables(weigh: Weigh, longest: float, rows: TableRows) -> tuple[FloatArray, FloatArray]:
    """The same of rows in memory, which hold whole persons."""
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
        return curvature, _gram_of_persons(held, longest, size)

    curvature, total = summed(part, range(0, rows.n, group), added)
    return curvature, total


def _gram_of_persons(sums: FloatArray, longest: float, size: int) -> FloatArray:
    """The sum of products of vectors of persons ``(m, d)``, which are shortened in place."""
    length = np.sqrt(np.einsum("ij,ij->i", sums, sums))
    sums *= np.minimum(1.0, longest / np.maximum(length, longest))[:, None]
    return _gram_in_parts(sums, np.ones(len(sums)), size)


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
    rows: TableRows, weigh: Weigh, taken: IntArray, size: int
) -> tuple[list[Any], FloatArray, FloatArray]:
    """Tables of these records, and both weights of each, so many at once."""
    tables = [
        table[taken] if sparse.issparse(table) else np.take(table, taken, axis=0)
        for table in rows.tables
    ]
    return tables, *_weights(tables, weigh, size)


def _weights(tables: Sequence[Any], weigh: Weigh, size: int) -> tuple[FloatArray, FloatArray]:
    blocks = (slice(a, a + size) for a in range(0, len(tables[1]), size))
    found = [weigh(*(table[block] for table in tables)) for block in blocks]
    bends, weights = map(np.concatenate, zip(*found, strict=True))
    return bends, weights


def _sums(x: Any, weights: FloatArray, starts: IntArray) -> FloatArray:
    """The sum of the weighted rows of each person ``(m, d)``."""
    whose = sparse.csr_array(
        (np.ones(len(weights)), np.arange(len(weights)), starts),
        shape=(len(starts) - 1, len(weights)),
    )
    if sparse.issparse(x):
        return np.asarray((whose @ scaled_rows(x, weights)).toarray())
    return np.asarray(whose @ (x * weights[:, None]))


# -- streams --------------------------------------------------------------------------------------

Waiting = list[tuple[IntArray, FloatArray]]
"""Persons ``(n,)`` and weighted rows ``(n, d)`` of pieces that are not added to others yet."""


def _of_stream(rows: StreamRows, weigh: Weigh, longest: float) -> tuple[FloatArray, FloatArray]:
    """The same where records of a person may be anywhere in a stream, in several passes.

    Each pass holds the vectors of so many persons as fit into memory, by public facts.
    """
    size = block_rows(rows.d)
    group = SUMMED_BLOCKS * size
    most = max(_HELD // rows.d // group, 1) * group
    every, total = [], np.zeros((rows.d, rows.d))
    for first in range(0, rows.n, most):
        held = np.zeros((min(most, rows.n - first), rows.d))

        def weighed(part: TableRows, owners: IntArray, at: int = first) -> tuple[Any, Waiting]:
            bends, weights = _weights(part.tables, weigh, size)
            curvature = _gram_in_parts(part.x, bends, size) if at == 0 else 0.0
            here = (owners >= at) & (owners < at + most)
            return curvature, [(owners[here] - at, part.x[here] * weights[here, None])]

        def joined(
            one: tuple[Any, Waiting], other: tuple[Any, Waiting], held: FloatArray = held
        ) -> tuple[Any, Waiting]:
            for few in (*one[1], *other[1]):
                _add_to_persons(held, *few)
            return one[0] + other[0], []

        curvature, waiting = rows.over_owned(weighed, joined)
        for few in waiting:  # of a single piece
            _add_to_persons(held, *few)
        every.append(curvature)
        for start in range(0, len(held), group):
            total += _gram_of_persons(held[start : start + group], longest, size)
    return np.asarray(every[0]), total


def _add_to_persons(held: FloatArray, owners: IntArray, rows: FloatArray) -> None:
    """Add rows ``(n, d)`` to the sums of their persons, in place.

    The rows of a person are added one after the other, as if they were all there at once.
    """
    order = np.argsort(owners, kind="stable")
    persons, counts = np.unique(owners, return_counts=True)
    ends, m = np.cumsum(counts), len(persons)
    # the sum so far stands before the rows of its person
    before = np.concatenate([[0], ends[:-1]]) if m else ends
    places = np.insert(np.arange(m, m + len(rows)), before, np.arange(m))
    starts = np.concatenate([[0], ends + np.arange(1, m + 1)])
    whose = sparse.csr_array((np.ones(len(places)), places, starts), shape=(m, m + len(rows)))
    held[persons] = whose @ np.concatenate([held[persons], rows[order]])
