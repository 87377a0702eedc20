"""Rows that cannot be longer than they say."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from privatelr.numerics.threads import in_order
from privatelr.numerics.within import BlockRun, block_runs, keep_blocks, keep_length
from privatelr.types import RowLimit

if TYPE_CHECKING:
    from privatelr.types import Block, BoolArray, FloatArray, Kernel, Reader

BLOCK_ROWS = 2**14
"""Rows that a kernel sees at once, at most."""
_BLOCK_ENTRIES = 2**18
"""Entries of a block: two megabytes, most of which a cache holds while a kernel reads it twice.
Smaller ones would be nearer, and leave threads waiting for each other's turn in the interpreter."""
_SHORTEST = 64
_SMALL = 2**14
"""Entries of a table that no library would use a second thread for."""
_PIECE = 2**13
"""Rows that are read at once, at most."""
_PIECE_ENTRIES = 2**18
"""Entries that are read at once: what is made of them on the way stays in a cache."""
_TILE = 2**9
"""Rows that are copied at once from columns: those stay in the nearest cache meanwhile."""
_LINE = 8
"""Numbers that are moved together between memory and a processor."""
_NEAR = 5
"""One in so many rows is read where it is: a copy would be a large part of the memory of all."""
_LEAST = 2**8
"""Rows for which it is worth calling a function on a column."""
SUMMED_BLOCKS = 2
"""Blocks whose sums are added up before they are added to those of others."""
_SAFETY = 1.0 - 2.0**-40
"""Rows are shortened to just below the bound, so that rounding cannot carry them beyond it."""


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """What a row is held to, whatever it was; see `DenseRows`."""

    bound: float
    intercept: float | None
    projection: FloatArray | None = None
    blocks: tuple[Block, ...] = ()
    _runs: tuple[BlockRun, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_runs", block_runs(self.blocks))

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
        if p == 0:  # there is no value to tell a row of no use by
            x[labels == 0] = 0.0
        return x, labels

    def _kept(self, covariates: FloatArray) -> BoolArray:
        """Rows ``(n,)`` that are finite and that `_held` certainly leaves as they are."""
        if self.projection is not None:
            return np.zeros(len(covariates), dtype=bool)
        kept = keep_length(covariates, _longest(self.bound, covariates.shape[1]))
        return kept & keep_blocks(covariates, self._runs, self.intercept)

    def _held(self, covariates: FloatArray) -> FloatArray:
        """Bounded rows of any rows, in full."""
        x = bounded_rows(covariates, self.bound, self.intercept, self.projection)
        within = np.all(keep_blocks(x, self._runs, None))
        return x if within else held_in_blocks(x, self.blocks)


def _copy(columns: FloatArray, rows: FloatArray) -> None:
    """Write a table ``(n, p)`` that is held by columns to where it is held by rows."""
    for start in range(0, len(rows), _TILE):
        rows[start : start + _TILE] = columns[start : start + _TILE]


def bounded_rows(
    covariates: FloatArray,
    bound: float,
    intercept: float | None,
    projection: FloatArray | None = None,
) -> FloatArray:
    """Shorten covariates to length `bound` and put the intercept column before them.

    Each row is treated by itself. A row with a missing or infinite entry becomes a row of
    zeros, its intercept entry included; a longer row is scaled down along its direction.

    Parameters
    ----------
    covariates : ndarray of shape (n, p)
    bound : float
        Largest length of the covariates of a row.
    intercept : float or None
        Constant of the intercept column; None for no such column.
    projection : ndarray of shape (p, q), optional
        Applied to the shortened covariates, whose images are shortened again.

    Returns
    -------
    ndarray of shape (n, p) or (n, p + 1), with q for p after a projection; read-only
        No row is longer than ``sqrt(bound**2 + intercept**2)``.
    """
    usable: BoolArray = np.asarray(np.isfinite(covariates).all(axis=1))
    short = _shortened(np.where(usable[:, None], covariates, 0.0), bound)
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
    """Rows ``(n, d)`` with each block of columns scaled down to its bound where it exceeds it."""
    held = x.copy(order="K")
    start = 0
    for block in blocks:
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


def block_rows(d: int) -> int:
    """Rows of a block of so many columns: a multiple of 64, and a function of public facts."""
    fitting = _BLOCK_ENTRIES // max(d, 1) // _SHORTEST * _SHORTEST
    return min(max(fitting, _SHORTEST), BLOCK_ROWS)


def _piece_rows(width: int) -> int:
    """Rows that are read at once of so many columns; a function of public facts.

    An odd number of cache lines: were columns a power of two apart, the entries of a row would
    take each other's place in the cache.
    """
    fitting = min(max(_PIECE_ENTRIES // max(width, 1), _LEAST), _PIECE)
    return (fitting // _LINE - 1 | 1) * _LINE


def additions(n: int, d: int) -> int:
    """How many additions a term of a folded sum goes through, at most: limits what doubles lose."""
    size = block_rows(d)
    return min(n, size) + SUMMED_BLOCKS + n // (size * SUMMED_BLOCKS) + 16


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class DenseRows:
    """Labelled rows in memory, bounded on construction.

    Parameters
    ----------
    covariates : ndarray of shape (n, p)
        Anything at all; see `bounded_rows` for what becomes of it.
    labels : ndarray of shape (n,)
        -1 or +1.
    bound : float
        Largest length of the covariates of a row.
    intercept : float or None
        Constant of the intercept column.
    projection : ndarray of shape (p, q), optional
        Applied to the covariates between two shortenings.
    blocks : tuple of Block, optional
        Blocks of the d columns, whose sums of sizes are held to their bounds.

    Attributes
    ----------
    x : ndarray of shape (n, d), read-only
    y : ndarray of shape (n,), read-only
        -1 or +1, and 0 for a row that was not usable.
    radius : float
        No row is longer, the intercept entry included.
    """

    x: FloatArray
    y: FloatArray
    radius: float
    blocks: tuple[Block, ...]

    def __init__(
        self,
        covariates: FloatArray,
        labels: FloatArray,
        *,
        bound: float,
        intercept: float | None,
        projection: FloatArray | None = None,
        blocks: tuple[Block, ...] = (),
    ) -> None:
        limits = Limits(bound, intercept, projection, blocks)
        self._set(*limits.hold(covariates, labels), limits)

    def _set(self, x: FloatArray, y: FloatArray, limits: Limits) -> None:
        x = np.ascontiguousarray(x)  # kernels read it by rows
        x.flags.writeable = y.flags.writeable = False
        object.__setattr__(self, "x", x)
        object.__setattr__(self, "y", y)
        object.__setattr__(self, "radius", RowLimit(limits.bound, limits.intercept).radius)
        object.__setattr__(self, "blocks", limits.blocks)

    @classmethod
    def of(
        cls,
        reader: Reader,
        *,
        bound: float,
        intercept: float | None,
        projection: FloatArray | None = None,
        blocks: tuple[Block, ...] = (),
    ) -> DenseRows:
        """Rows of what a reader reads, by pieces, so that the whole is in memory once."""
        return cls.held(reader, Limits(bound, intercept, projection, blocks))

    @classmethod
    def held(cls, reader: Reader, limits: Limits) -> DenseRows:
        """The same, of limits that are written down."""
        made = object.__new__(cls)
        size = _piece_rows(max(reader.p, limits.width(reader.p)))
        if reader.n <= size:
            made._set(*limits.hold(*reader.read(0, reader.n)), limits)
            return made
        x, y = np.empty((reader.n, limits.width(reader.p))), np.empty(reader.n)

        def read(start: int) -> None:
            stop = min(start + size, reader.n)
            _, y[start:stop] = limits.hold(*reader.read(start, stop), x[start:stop])

        in_order(read, range(0, reader.n, size))
        made._set(x, y, limits)
        return made

    @property
    def n(self) -> int:
        return int(self.x.shape[0])

    @property
    def d(self) -> int:
        return int(self.x.shape[1])

    def fold(self, kernel: Kernel) -> tuple[Any, ...]:
        """Sum what `kernel` returns over blocks of rows, in order; blocks may run side by side."""
        size = block_rows(self.d)

        def part(first: int) -> tuple[Any, ...]:
            stop = min(first + SUMMED_BLOCKS * size, self.n)
            sums = (
                kernel(self.x[start : start + size], self.y[start : start + size])
                for start in range(first, stop, size)
            )
            return reduce(added, sums)

        if self.n <= SUMMED_BLOCKS * size and self.n * self.d <= _SMALL:
            return part(0)  # not worth asking how many threads there are
        return reduce(added, in_order(part, range(0, self.n, SUMMED_BLOCKS * size)))

    def thinned(self, m: int) -> DenseRows:
        """About m of the rows, at equal distances: which ones depends on n and m alone."""
        stride = max(self.n // m, 1)
        x = self.x[::stride]
        if stride > _NEAR:
            x = _gathered(x)
        return self.with_table(x, np.ascontiguousarray(self.y[::stride]))

    def with_table(self, x: FloatArray, y: FloatArray) -> DenseRows:
        """Rows under the same bounds: of these, or of others that were held to them."""
        made = copy.copy(self)
        for name, value in (("x", x), ("y", y)):
            value.flags.writeable = False
            object.__setattr__(made, name, value)
        return made

    def scores(self, coef: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Linear predictor and label of each usable row."""
        usable = self.y != 0
        link = np.empty(self.n)

        def score(start: int) -> None:
            np.matmul(self.x[start : start + _PIECE], coef, out=link[start : start + _PIECE])

        in_order(score, range(0, self.n, _PIECE))
        return (link, self.y) if usable.all() else (link[usable], self.y[usable])


def _gathered(far_apart: FloatArray) -> FloatArray:
    """A copy of rows that are far apart, each of which is a wait for memory."""
    x = np.empty(far_apart.shape)

    def gather(start: int) -> None:
        x[start : start + _PIECE] = far_apart[start : start + _PIECE]

    in_order(gather, range(0, len(x), _PIECE))
    return x


def added(total: tuple[Any, ...], part: tuple[Any, ...]) -> tuple[Any, ...]:
    """The sum of what a kernel returned of two parts, entry by entry."""
    return tuple(a + b for a, b in zip(total, part, strict=True))
