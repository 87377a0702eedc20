"""The bounds of a row: its length, and the sizes of blocks of its columns.

Bounding does not change a row that keeps its bounds, to the last bit, so that one that certainly
keeps them can be skipped. Sums in any order decide that, with an allowance for rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from privatelr.types import Block, BoolArray, FloatArray, IntArray, euclidean_part, row_radius

_SAFETY = 1.0 - 2.0**-40
"""Factor of the bound to which rows are shortened, so that rounding cannot exceed the bound."""
_SHORTEST = 1e-100
"""Length below which squares may underflow and lose accuracy."""
BlockRun = tuple[int, int, FloatArray]
"""First column and the one after the last of the whole row, and bounds: one for a block of several
columns, or one for each of neighbouring blocks of one column."""
Together = tuple[IntArray, float]
"""Positions of covariates whose length has its own limit, and that limit."""


@dataclass(frozen=True, slots=True, eq=False)
class RowBounds:
    """The bounds to which every row is held; see `bounded_rows`.

    Attributes
    ----------
    bound : float
        Largest length of the covariates of a row.
    intercept : float or None
        Constant of the intercept column; None for no such column.
    projection : ndarray of shape (p, q), optional
        Applied to the covariates between two shortenings.
    blocks : tuple of Block
        Blocks of the d columns, whose sums of sizes are held to their bounds.
    weighted : bool
        Whether a row that is too long counts less, instead of being another row.
    offset_bound : float
        Largest size of an offset; 0 for rows that have none.
    """

    bound: float
    intercept: float | None
    projection: FloatArray | None = None
    blocks: tuple[Block, ...] = ()
    weighted: bool = False
    offset_bound: float = 0.0
    _runs: tuple[BlockRun, ...] = field(init=False, repr=False)
    _together: Together | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        together = together_of(self.blocks, self.intercept)
        if together is not None:
            columns, own = together
            together = columns, _longest(own, len(columns))
        object.__setattr__(self, "_runs", block_runs(self.blocks))
        object.__setattr__(self, "_together", together)

    @property
    def radius(self) -> float:
        """R, the largest length of a bounded row."""
        return row_radius(self.bound, self.intercept)

    def width(self, p: int) -> int:
        """Columns of a bounded row of p covariates."""
        covariates = p if self.projection is None else self.projection.shape[1]
        return covariates + (self.intercept is not None)

    def hold(
        self, covariates: FloatArray, labels: FloatArray, out: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Bounded rows ``(n, d)``, in `out` if given, and labels with 0 for unusable rows.

        A label above 1 has the root of its record's weight: the bounded row is multiplied by it.
        """
        covariates = np.asarray(covariates, dtype=np.float64)
        labels = np.array(labels, dtype=np.float64)
        roots = roots_of(labels)
        n, p = covariates.shape
        x = np.empty((n, self.width(p))) if out is None else out
        kept, share = self.kept(covariates), np.ones(n)
        if self.weighted and not kept.all():
            # whether a row is certainly within its bounds may hang on others, its weight does not
            long = np.flatnonzero(~kept)
            few = np.take(covariates.T, long, axis=1).T
            share[long] = share_of_bound(few, self.bound, self._together)
            covariates, labels = (covariates.T * share).T, labels / share
            kept = self.kept(covariates)
        if kept.any():
            first = int(self.intercept is not None)
            x[:, :first] = self.intercept or 0.0
            x[:, first:] = covariates
        if not kept.all():
            rest = np.flatnonzero(~kept)
            # column by column, which is how rows are bounded
            others = covariates if len(rest) == n else np.take(covariates.T, rest, axis=1).T
            held = bounded_rows(others, self.bound, self.intercept, self.projection, self.blocks)
            if self.blocks and not np.all(
                keep_blocks(held, self._runs, None, largest_entries(held)[0])
            ):
                held = held_in_blocks(held, self.blocks)
            x[rest if len(rest) < n else slice(None)] = held
            labels[rest[~np.isfinite(others).all(axis=1)]] = 0.0
        if p == 0:  # without covariates only the label shows that a row is unusable
            x[labels == 0] = 0.0
        if self.weighted and self.intercept is not None:
            x[:, 0] *= share
        return x if roots is None else np.multiply(x, roots[:, None], out=x), labels

    def lengths(self, p: int) -> tuple[IntArray, float, float] | None:
        """Covariates with a length of their own, that length, and that of all; or None."""
        every = _longest(self.bound, p)
        columns, own = self._together or (np.arange(p), every)
        own = _longest(own, len(columns)) if self.weighted and self._together else own
        return None if self.projection is not None else (columns, own, every)

    def kept(self, x: FloatArray) -> BoolArray:
        """Return which rows of `x` ``(n, p)`` are finite and certainly keep their bounds."""
        if self.projection is not None:
            return np.zeros(len(x), dtype=bool)
        first = int(self.intercept is not None)
        beyond = [stop - start > len(bounds) for start, stop, bounds in self._runs if stop > first]
        if not beyond or (self._together is not None and all(beyond)):
            # no covariate has a bound of its own, so that their largest entries need not be found;
            # a row of them would seldom be short enough where several columns are held together
            return self._keep(x, np.zeros(x.shape[1]))
        largest, complete = largest_entries(x)
        # a row of the largest entries of all columns is longer than any that there is
        if complete and np.all(self._keep(largest[None], largest)):
            return np.ones(len(x), dtype=bool)
        return self._keep(x, largest)

    def _keep(self, x: FloatArray, largest: FloatArray) -> BoolArray:
        """The same by the `largest_entries` of columns."""
        limit = _longest(self.bound, x.shape[1])
        blocks = keep_blocks(x, self._runs, self.intercept, largest)
        if self._together is None:
            return keep_length(x, limit) & blocks
        columns, own = self._together
        if len(columns) == x.shape[1]:
            return keep_length(x, min(limit, own)) & blocks
        return keep_length(x, limit) & keep_length(some_columns(x, columns), own) & blocks


def together_of(blocks: tuple[Block, ...], intercept: float | None) -> Together | None:
    """Covariates that have a limit to their own length, and that limit; None if there are none.

    An intercept is the first column of the blocks, and none of the covariates.
    """
    part = euclidean_part(blocks)
    return None if part is None else (part[0] - (intercept is not None), part[1])


# --- weights --------------------------------------------------------------------------------
#
# A record x that is 1 / s times as long as its bound has the weight s**2: its gradient
# s**2 l'(y x.w) y x and its curvature s**2 l''(y x.w) x x' are no larger than within the bound. It
# is the row s x with the label y / s, and adds l(label row.w) / label**2. The expected gradient is
# still zero at the coefficients of the model, which shortening would move.
#
# A weight that was declared (`privatelr.design.Weight`) multiplies this one; labels bring it.

LEAST_SHARE = 1e-9
"""Least s, which keeps labels finite; a row that is even longer is shortened, too."""
BELOW = 1.0 - 2.0**-30
"""Factor that brings a long row so far below its bound that it certainly keeps it."""


def share_of_bound(covariates: FloatArray, bound: float, together: Together | None) -> FloatArray:
    """Return s ``(n,)``, 1 for rows that keep their bounds; rows are treated by themselves."""
    parts, share = [(covariates, bound)], np.ones(len(covariates))
    if together is not None and len(together[0]) == covariates.shape[1]:
        parts = [(covariates, min(bound, together[1]))]
    elif together is not None:
        parts.append((covariates[:, together[0]], together[1]))
    with np.errstate(all="ignore"):
        for part, most in parts:
            limit, length = _longest(most, part.shape[1]), row_lengths(part)
            share = np.fmin(share, np.where(length > limit, limit * BELOW / length, 1.0))
    return np.maximum(share, LEAST_SHARE)


def weights_of(labels: FloatArray) -> FloatArray:
    """Return ``s**2`` for each label ``(n,)``, or 1 for all; that of a row of zeros is 1."""
    squares = labels * labels
    if squares.max(initial=0.0) <= 1.0:  # as in most fits: a pass over the labels is saved
        return np.ones(1)
    return np.asarray(1.0 / np.maximum(squares, 1.0))


def roots_of(labels: FloatArray) -> FloatArray | None:
    """Return the roots ``(n,)`` of declared weights, or None if all records count fully."""
    roots = 1.0 / np.fmax(np.abs(labels), 1.0)
    return None if roots.min(initial=1.0) == 1.0 else roots


def bends_of(labels: FloatArray) -> FloatArray:
    """Return the factors ``(n,)`` of a row's curvature: 0 for a row of zeros, else 1."""
    return np.minimum(labels * labels, 1.0)


# --- bounding -------------------------------------------------------------------------------


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
    large value among them takes nothing from a column that has bounds. Images under a projection
    are shortened again.

    Parameters
    ----------
    covariates : ndarray of shape (n, p)
    bound, intercept, projection
        As in `RowBounds`.
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
        images = [linear_predictor(short, column) for column in projection.T]
        short = _shortened(np.column_stack(images), bound)
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
    stop = 0
    for block in blocks:
        part = held[:, stop : stop + block.size]
        stop += block.size
        if block.norm == "l2":
            continue
        size, lost = _sum_of_sizes(part)
        # twice the loss, because the sum of losses is rounded, too
        most = size + 2 * lost
        too_large: BoolArray = (size > block.bound) | ((lost > 0) & (most >= block.bound))
        part[too_large] *= (block.bound * _SAFETY / most[too_large])[:, None]
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
        too_long: BoolArray = np.greater(row_lengths(x), limit)
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
    """The computed length of p entries, off by as many roundings, that is within the bound."""
    return bound * (_SAFETY - p * 2.0**-53)


# --- rows that are within their bounds already ----------------------------------------------


def block_runs(blocks: Sequence[Block]) -> tuple[BlockRun, ...]:
    """The blocks under "l1" in order, those of one column put together."""
    found: list[BlockRun] = []
    start = 0
    for (norm, single), group in groupby(blocks, key=lambda b: (b.norm, b.size == 1)):
        members = list(group)
        for part in [members] if single else [[block] for block in members]:
            stop = start + sum(block.size for block in part)
            if norm == "l1":
                found.append((start, stop, np.array([block.bound for block in part])))
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
    x: FloatArray, runs: Sequence[BlockRun], intercept: float | None, largest: FloatArray
) -> BoolArray | np.bool_:
    """Rows ``(n,)``, or all, that certainly keep the bounds of their blocks.

    `largest` are the `largest_entries` of the columns. A row with a NaN may be found either way.
    """
    first, constant = int(intercept is not None), abs(intercept or 0.0)
    kept: BoolArray | np.bool_ = np.True_
    with np.errstate(all="ignore"):
        for start, stop, bounds in runs:
            begins = start < first
            columns = slice(max(start - first, 0), stop - first)
            table = x.T[columns]
            if len(bounds) < stop - start:  # one block of several columns
                size = np.abs(table).sum(axis=0) + (constant if begins else 0.0)
                kept = kept & (size <= bounds[0] * (1.0 - _slack(stop - start)))
                continue
            kept = kept & np.bool_(not begins or constant <= bounds[0])
            own = bounds[int(begins) :]
            if not (largest[columns] <= own).all():
                kept = kept & (np.abs(table) <= own[:, None]).all(axis=0)
    return kept


def _slack(terms: int) -> float:
    """Bound the relative difference of two rounded sums of `terms` terms."""
    return (4 * terms + 16) * 2.0**-53


def held_offset(offset: FloatArray, labels: FloatArray, bound: float) -> FloatArray:
    """Return offsets ``(n,)`` over the sizes of the labels of bounded rows, 0 for rows of zeros.

    They are clipped to the bound, and none may be missing.

    The label of a row that was shortened multiplies its offset, too, so that the margin is
    ``label (row.w + offset)`` for all rows.

    Notes
    -----
    **Privacy.** No noise depends on an offset, of whatever size: it moves a margin and nothing
    else, and all that the theorems use of a loss holds at every margin. The proof is in
    theory.md#weights-offsets-and-priors. Only the rounding of a margin grows with the size of an
    offset, for which certificates take the declared bounds (`privatelr.mechanisms.Problem`).
    """
    held = np.minimum(np.maximum(offset, -bound), bound) / np.maximum(np.abs(labels), 1.0)
    return np.asarray(np.where(labels != 0, held, 0.0))


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
