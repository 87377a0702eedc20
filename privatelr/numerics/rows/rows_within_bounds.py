"""Which rows are within their bounds already, and sums along rows.

Bounding a row that keeps its bounds leaves it as it is, to the last bit. So a row that certainly
keeps them need not be bounded, and sums in any order can tell, if their rounding is allowed for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from privatelr.types import Block, BoolArray, FloatArray, IntArray

_LONG = 32
"""Entries of a row from which on a sum for each row is read from memory faster."""


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


_SHORTEST = 1e-100
"""Length below which squares may lose more than a few roundings, being next to nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class BlockRun:
    """One block of several columns, or neighbouring blocks of one column each; sums of sizes.

    Attributes
    ----------
    start, stop : int
        Columns of the whole row.
    bounds : ndarray of shape (k,)
        One for the block, or one for each of the columns.
    """

    start: int
    stop: int
    bounds: FloatArray

    @property
    def is_one_block(self) -> bool:
        return len(self.bounds) < self.stop - self.start


def block_runs(blocks: Sequence[Block]) -> tuple[BlockRun, ...]:
    """The blocks under "l1" in order, those of one column put together."""
    found: list[BlockRun] = []
    start = 0
    for (norm, single), group in groupby(blocks, key=lambda b: (b.norm, b.size == 1)):
        members = list(group)
        if norm == "l2":
            start += sum(block.size for block in members)
            continue
        for part in [members] if single else [[block] for block in members]:
            stop = start + sum(block.size for block in part)
            found.append(BlockRun(start, stop, np.array([block.bound for block in part])))
            start = stop
    return tuple(found)


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


def keep_rows_within_bounds(
    x: FloatArray,
    limit: float,
    parts: Sequence[BlockRun],
    intercept: float | None,
    together: tuple[IntArray, float] | None = None,
) -> BoolArray:
    """Rows of `x` ``(n, p)`` that are finite and certainly keep their length and their blocks.

    Parameters
    ----------
    limit : float
        Length that a row stays below, in whatever order one adds.
    parts : sequence of BlockRun
        The blocks of the intercept, if there is one, and of the columns.
    together : tuple of ndarray and float, optional
        Columns of `x` that have a limit to their own length, and that limit.
    """
    largest, complete = largest_entries(x)
    # a row of the largest entries of all columns is longer than any that there is
    if complete:
        one = largest[None]
        if np.all(_keep_all(one, limit, parts, intercept, together, largest)):
            return np.ones(len(x), dtype=bool)
    return _keep_all(x, limit, parts, intercept, together, largest)


def _keep_all(
    x: FloatArray,
    limit: float,
    parts: Sequence[BlockRun],
    intercept: float | None,
    together: tuple[IntArray, float] | None,
    largest: FloatArray,
) -> BoolArray:
    kept = keep_length(x, limit)
    if together is not None:
        columns, own = together
        kept &= keep_length(x.T[columns].T, own)
    return kept & keep_blocks(x, parts, intercept, largest)


def keep_length(x: FloatArray, limit: float) -> BoolArray:
    """Rows of `x` ``(n, p)`` that are finite and, in whatever order one adds, below `limit`."""
    if not limit > _SHORTEST:
        return np.zeros(len(x), dtype=bool)
    with np.errstate(all="ignore"):
        square = np.einsum("ij,ij->i", x, x)
        return np.asarray(square < limit * limit * (1.0 - _slack(x.shape[1])))


def keep_blocks(
    x: FloatArray, parts: Sequence[BlockRun], intercept: float | None, largest: FloatArray
) -> BoolArray | np.bool_:
    """Rows ``(n,)``, or all, that certainly keep the bounds of their blocks.

    `largest` are the `largest_entries` of the columns. A row with a NaN may be found either way.
    """
    first = int(intercept is not None)
    constant = abs(intercept or 0.0)
    kept: BoolArray | np.bool_ = np.True_
    with np.errstate(all="ignore"):
        for part in parts:
            begins = part.start < first
            columns = slice(max(part.start - first, 0), part.stop - first)
            table = x.T[columns]
            if part.is_one_block:
                size = np.abs(table).sum(axis=0) + (constant if begins else 0.0)
                kept = kept & (size <= part.bounds[0] * (1.0 - _slack(part.stop - part.start)))
            else:
                kept = kept & _keep_entries(table, largest[columns], part.bounds[int(begins) :])
                kept = kept & np.bool_(not begins or constant <= part.bounds[0])
    return kept


def _keep_entries(
    table: FloatArray, largest: FloatArray, bounds: FloatArray
) -> BoolArray | np.bool_:
    """Columns of ``(k, n)`` whose entries are no larger than the bound of their line."""
    if (largest <= bounds).all():
        return np.True_
    return np.asarray((np.abs(table) <= bounds[:, None]).all(axis=0))


def _slack(terms: int) -> float:
    """By how much two sums of so many terms, each rounded, may differ; a share of the sum."""
    return (4 * terms + 16) * 2.0**-53
