"""Which rows need nothing done to them, by a test that reads them once.

Bounding a row that keeps its bounds leaves it as it is, to the last bit. So a row that certainly
keeps them need not be bounded, and sums in any order can tell, if their rounding is allowed for.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from privatelr.types import Block, BoolArray, FloatArray

_SHORTEST = 1e-100
"""Length below which squares may lose more than a few roundings, being next to nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class BlockRun:
    """One block of several columns, or neighbouring blocks of one column each.

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
    """The blocks in order, those of one column put together."""
    found: list[BlockRun] = []
    start = 0
    for single, group in groupby(blocks, key=lambda block: block.size == 1):
        members = list(group)
        for part in [members] if single else [[block] for block in members]:
            stop = start + sum(block.size for block in part)
            found.append(BlockRun(start, stop, np.array([block.bound for block in part])))
            start = stop
    return tuple(found)


def keep_length(x: FloatArray, limit: float) -> BoolArray:
    """Rows of `x` ``(n, p)`` that are finite and, in whatever order one adds, below `limit`."""
    if not limit > _SHORTEST:
        return np.zeros(len(x), dtype=bool)
    with np.errstate(all="ignore"):
        square = np.einsum("ij,ij->i", x, x)
        return np.asarray(square < limit * limit * (1.0 - _slack(x.shape[1])))


def keep_blocks(
    x: FloatArray, parts: Sequence[BlockRun], intercept: float | None
) -> BoolArray | np.bool_:
    """Rows ``(n,)``, or all, that certainly keep the bounds of their blocks.

    The blocks are those of the intercept, if there is one, and of the columns of `x` ``(n, p)``.
    A row with a NaN may be found either way.
    """
    first = int(intercept is not None)
    constant = abs(intercept or 0.0)
    kept: BoolArray | np.bool_ = np.True_
    with np.errstate(all="ignore"):
        for part in parts:
            begins = part.start < first
            table = x.T[max(part.start - first, 0) : part.stop - first]
            if part.is_one_block:
                size = np.abs(table).sum(axis=0) + (constant if begins else 0.0)
                kept = kept & (size <= part.bounds[0] * (1.0 - _slack(part.stop - part.start)))
            else:
                kept = kept & _keep_entries(table, part.bounds[int(begins) :])
                kept = kept & np.bool_(not begins or constant <= part.bounds[0])
    return kept


def _keep_entries(table: FloatArray, bounds: FloatArray) -> BoolArray | np.bool_:
    """Columns of ``(k, n)`` whose entries are no larger than the bound of their line."""
    if table.size == 0:
        return np.True_
    largest = np.maximum(np.fmax.reduce(table, axis=1), -np.fmin.reduce(table, axis=1))
    if (largest <= bounds).all():
        return np.True_
    return np.asarray((np.abs(table) <= bounds[:, None]).all(axis=0))


def _slack(terms: int) -> float:
    """By how much two sums of so many terms, each rounded, may differ; a share of the sum."""
    return (4 * terms + 16) * 2.0**-53
