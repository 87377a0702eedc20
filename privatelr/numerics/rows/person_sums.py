"""Sums over persons of what is not linear in their records."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy import sparse

from privatelr.numerics.rows.dense_rows import SUMMED_BLOCKS, TableRows, block_rows
from privatelr.numerics.rows.products import gram, scaled_rows
from privatelr.types import FloatArray, IntArray

Weigh = Callable[..., FloatArray]


def gram_of_persons(
    rows: TableRows, weigh: Callable[..., FloatArray], longest: float
) -> FloatArray:
    """``sum_u g_u g_u'`` of shape ``(d, d)``, with g_u the sum of the weighted rows of a person.

    Parameters
    ----------
    rows : TableRows
        Rows of persons.
    weigh : callable
        It takes blocks of the tables of rows, and returns a weight for each of them.
    longest : float
        Each g_u is held to this length, which it exceeds by rounding alone.

    Notes
    -----
    **Privacy.** *Covered*: nothing. A person changes one term only, to the last bit: the rows of a
    person are added by themselves, in their order, however many others have. *Not covered*: time
    and memory, which depend on who has many records.
    """
    assert rows.owners is not None
    order = np.argsort(rows.owners, kind="stable")
    ends = np.cumsum(np.bincount(rows.owners, minlength=rows.n))
    size = block_rows(rows.d)
    total = np.zeros((rows.d, rows.d))
    for first in range(0, rows.n, SUMMED_BLOCKS * size):
        # as many additions as in a fold over as many rows
        held = np.empty((min(SUMMED_BLOCKS * size, rows.n - first), rows.d))
        for few, taken, starts in _whole_persons(order, ends, first, first + len(held), size):
            held[few - first] = _sums(rows, weigh, taken, starts)
        length = np.sqrt(np.einsum("ij,ij->i", held, held))
        held *= np.minimum(1.0, longest / np.maximum(length, longest))[:, None]
        part = (held[a : a + size] for a in range(0, len(held), size))
        total += sum((gram(one, np.ones(len(one))) for one in part), np.zeros_like(total))
    return total


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


def _sums(
    rows: TableRows, weigh: Callable[..., FloatArray], taken: IntArray, starts: IntArray
) -> FloatArray:
    """The sum of the weighted rows of each person ``(m, d)``."""
    tables = [table[taken] for table in rows.tables]
    weights = weigh(*tables)
    whose = sparse.csr_array(
        (np.ones(len(taken)), np.arange(len(taken)), starts), shape=(len(starts) - 1, len(taken))
    )
    if sparse.issparse(tables[0]):
        return np.asarray((whose @ scaled_rows(tables[0], weights)).toarray())
    return np.asarray(whose @ (tables[0] * weights[:, None]))
