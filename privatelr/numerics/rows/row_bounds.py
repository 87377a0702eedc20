"""What a row is held to: a length, and the sizes of blocks of its columns."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from privatelr.numerics.rows.rows_within_bounds import (
    BlockRun,
    block_runs,
    keep_blocks,
    keep_rows_within_bounds,
    largest_entries,
    linear_predictor,
    row_lengths,
)
from privatelr.types import Block, BoolArray, FloatArray, IntArray, euclidean_part

_TILE = 2**9
"""Rows that are copied at once from columns: those stay in the nearest cache meanwhile."""
_SAFETY = 1.0 - 2.0**-40
"""Rows are shortened to just below the bound, so that rounding cannot carry them beyond it."""


@dataclass(frozen=True, slots=True, eq=False)
class RowBounds:
    """What a row is held to, whatever it was; see `DenseRows`."""

    bound: float
    intercept: float | None
    projection: FloatArray | None = None
    blocks: tuple[Block, ...] = ()
    _runs: tuple[BlockRun, ...] = field(init=False, repr=False)
    _together: tuple[IntArray, float] | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        together = together_of(self.blocks, self.intercept)
        if together is not None:
            columns, own = together
            together = columns, _longest(own, len(columns))
        object.__setattr__(self, "_runs", block_runs(self.blocks))
        object.__setattr__(self, "_together", together)

    def width(self, p: int) -> int:
        """Columns of a bounded row of p covariates."""
        covariates = p if self.projection is None else self.projection.shape[1]
        return covariates + (self.intercept is not None)

    def hold(
        self, covariates: FloatArray, labels: FloatArray, out: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Bounded rows ``(n, d)``, in `out` if given, and labels with 0 for unusable rows."""
        covariates = np.asarray(covariates, dtype=np.float64)
        labels = np.array(labels, dtype=np.float64)
        n, p = covariates.shape
        x = np.empty((n, self.width(p))) if out is None else out
        kept = self._kept(covariates)
        if kept.any():
            if self.intercept is not None:
                x[:, 0] = self.intercept
            _copy(covariates, x[:, int(self.intercept is not None) :])
        if not kept.all():
            rest = np.flatnonzero(~kept)
            # column by column, which is how rows are bounded
            others = covariates if len(rest) == n else np.take(covariates.T, rest, axis=1).T
            x[rest if len(rest) < n else slice(None)] = self._held(others)
            labels[rest[~np.isfinite(others).all(axis=1)]] = 0.0
        if p == 0:  # without a value, nothing tells that a row cannot be used
            x[labels == 0] = 0.0
        return x, labels

    def _kept(self, covariates: FloatArray) -> BoolArray:
        """Rows ``(n,)`` that are finite and that `_held` certainly leaves as they are."""
        if self.projection is not None:
            return np.zeros(len(covariates), dtype=bool)
        limit = _longest(self.bound, covariates.shape[1])
        return keep_rows_within_bounds(
            covariates, limit, self._runs, self.intercept, self._together
        )

    def _held(self, covariates: FloatArray) -> FloatArray:
        """Bounded rows of any rows, in full."""
        x = bounded_rows(covariates, self.bound, self.intercept, self.projection, self.blocks)
        if not self.blocks:
            return x
        within = np.all(keep_blocks(x, self._runs, None, largest_entries(x)[0]))
        return x if within else held_in_blocks(x, self.blocks)


def _copy(columns: FloatArray, rows: FloatArray) -> None:
    """Write a table ``(n, p)`` that is held by columns to where it is held by rows."""
    for start in range(0, len(rows), _TILE):
        rows[start : start + _TILE] = columns[start : start + _TILE]


def together_of(
    blocks: tuple[Block, ...], intercept: float | None
) -> tuple[IntArray, float] | None:
    """Covariates that have a limit to their own length, and that limit; None if there are none.

    An intercept is the first column of the blocks, and none of the covariates.
    """
    part = euclidean_part(blocks)
    return None if part is None else (part.columns - (intercept is not None), part.bound)


def bounded_rows(
    covariates: FloatArray,
    bound: float,
    intercept: float | None,
    projection: FloatArray | None = None,
    blocks: tuple[Block, ...] = (),
) -> FloatArray:
    """Shorten covariates to length `bound` and put the intercept column before them.

    Each row is treated by itself. A row with a missing or infinite entry becomes a row of
    zeros, its intercept entry included; a longer row is scaled down along its direction. Columns
    of blocks under "l2" are shortened together before that, and the others are left alone: a
    large value among them takes nothing from a column that has bounds.

    Parameters
    ----------
    covariates : ndarray of shape (n, p)
    bound : float
        Largest length of the covariates of a row.
    intercept : float or None
        Constant of the intercept column; None for no such column.
    projection : ndarray of shape (p, q), optional
        Applied to the shortened covariates, whose images are shortened again.
    blocks : tuple of Block, optional
        Of all columns. Those under "l1" are for `held_in_blocks`.

    Returns
    -------
    ndarray of shape (n, p) or (n, p + 1), with q for p after a projection; read-only
        No row is longer than ``sqrt(bound**2 + intercept**2)``.
    """
    usable: BoolArray = np.asarray(np.isfinite(covariates).all(axis=1))
    short = np.where(usable[:, None], covariates, 0.0)
    together = together_of(blocks, intercept)
    if together is not None:
        columns, own = together
        short[:, columns] = _shortened(short[:, columns], own)
    short = _shortened(short, bound)
    if projection is not None:
        short = _shortened(_product(short, projection), bound)
    if intercept is not None:
        table = np.empty((short.shape[1] + 1, len(short)))
        np.multiply(usable, intercept, out=table[0])
        table[1:] = short.T
        short = table.T
    short.flags.writeable = False
    return short


def held_in_blocks(x: FloatArray, blocks: tuple[Block, ...]) -> FloatArray:
    """Rows ``(n, d)`` with each block of columns scaled down to its bound where it exceeds it.

    Blocks under "l2" are left as `bounded_rows` made them: shortening, which rounds, kept them
    away from their bound by more than what follows can add.
    """
    held = x.copy(order="K")
    start = 0
    for block in blocks:
        if block.norm == "l2":
            start += block.size
            continue
        part = held[:, start : start + block.size]
        size, lost = _sum_of_sizes(part)
        # twice, for sums of what was lost are rounded too
        too_large: BoolArray = (size > block.bound) | (
            (lost > 0) & (size + 2 * lost >= block.bound)
        )
        largest = size[too_large] + 2 * lost[too_large]
        part[too_large] *= (block.bound * _SAFETY / largest)[:, None]
        start += block.size
    held.flags.writeable = False
    return held


def _sum_of_sizes(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sum of the sizes of entries of each row, and at most how much of it was lost by rounding."""
    size, lost = np.zeros(len(x)), np.zeros(len(x))
    with np.errstate(all="ignore"):
        for column in x.T:
            entry = np.abs(column)
            total = size + entry
            gained = total - size
            lost += np.abs((size - (total - gained)) + (entry - gained))  # without an error (Knuth)
            size = total
    return size, np.where(np.isfinite(size), lost, 0.0)


def _shortened(x: FloatArray, bound: float) -> FloatArray:
    """Scale rows longer than `bound` down to it, in place."""
    limit = _longest(bound, x.shape[1])
    with np.errstate(over="ignore", under="ignore"):
        length = row_lengths(x)
    too_long: BoolArray = np.greater(length, limit)
    if not too_long.any():
        return x
    table = x.T  # rows are held by columns here
    rows = np.compress(too_long, table, axis=1)
    # dividing by the largest entry first keeps the square of 1e300 from overflowing
    rows /= np.abs(rows).max(axis=0)
    rows *= limit / row_lengths(rows.T)
    table[:, too_long] = rows
    return x


def _longest(bound: float, p: int) -> float:
    """The computed length of p entries up to which they are within the bound."""
    # it is off by as many roundings
    return bound * (_SAFETY - p * 2.0**-53)


def _product(x: FloatArray, matrix: FloatArray) -> FloatArray:
    """``x @ matrix``, each row by itself; see `linear_predictor`."""
    return np.column_stack([linear_predictor(x, column) for column in matrix.T])
