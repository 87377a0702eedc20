"""Rows that cannot be longer than they say."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from privatelr.numerics.threads import in_order
from privatelr.types import RowLimit

if TYPE_CHECKING:
    from privatelr.types import Block, BoolArray, FloatArray, Kernel, Reader

BLOCK_ROWS = 4096
"""Rows that a kernel sees at once, at most."""
_BLOCK_ENTRIES = 2**16
"""Entries of a block: half a megabyte, which the nearer caches of a processor hold while a kernel
reads it twice."""
_SHORTEST = 64
_SMALL = 2**14
"""Entries of a table that no library would use a second thread for."""
_PIECE = 2**13
"""Rows that are read at once."""
_SUMMED = 8
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

    def hold(self, covariates: FloatArray, labels: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bounded rows ``(n, d)``, and labels with 0 for the rows that are not usable."""
        x = bounded_rows(covariates, self.bound, self.intercept, self.projection)
        if self.blocks:
            x = held_in_blocks(x, self.blocks)
        return x, np.where(np.isfinite(covariates).all(axis=1), labels, 0.0)


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
        short = np.column_stack([np.where(usable, intercept, 0.0), short])
    short.flags.writeable = False
    return short


def held_in_blocks(x: FloatArray, blocks: tuple[Block, ...]) -> FloatArray:
    """Rows ``(n, d)`` with each block of columns scaled down to its bound where it exceeds it."""
    held = x.copy(order="K")
    start = 0
    for block in blocks:
        part = held[:, start : start + block.size]
        size = np.zeros(len(x))
        for column in part.T:
            size += np.abs(column)
        too_large: BoolArray = np.greater(size, block.bound)
        part[too_large] *= (block.bound * _SAFETY / size[too_large])[:, None]
        start += block.size
    held.flags.writeable = False
    return held


def _shortened(x: FloatArray, bound: float) -> FloatArray:
    """Scale rows longer than `bound` down to it, in place."""
    # the computed length of so many entries is off by as many roundings
    limit = bound * (_SAFETY - x.shape[1] * 2.0**-53)
    with np.errstate(over="ignore", under="ignore"):
        length = row_lengths(x)
    too_long: BoolArray = np.greater(length, limit)
    if not too_long.any():
        return x
    rows = x[too_long]
    # dividing by the largest entry first keeps the square of 1e300 from overflowing
    rows /= np.abs(rows).max(axis=1, keepdims=True)
    rows *= (limit / row_lengths(rows))[:, None]
    x[too_long] = rows
    return x


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


def additions(n: int, d: int) -> int:
    """How many additions a term of a folded sum goes through, at most: limits what doubles lose."""
    size = block_rows(d)
    return min(n, size) + _SUMMED + n // (size * _SUMMED) + 16


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
        limits = Limits(bound, intercept, projection, blocks)
        made = object.__new__(cls)
        if reader.n <= _PIECE:
            made._set(*limits.hold(*reader.read(0, reader.n)), limits)
            return made
        width = reader.p if projection is None else projection.shape[1]
        x = np.empty((reader.n, width + (intercept is not None)))
        y = np.empty(reader.n)

        def read(start: int) -> None:
            stop = min(start + _PIECE, reader.n)
            x[start:stop], y[start:stop] = limits.hold(*reader.read(start, stop))

        in_order(read, range(0, reader.n, _PIECE))
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
            stop = min(first + _SUMMED * size, self.n)
            sums = (
                kernel(self.x[start : start + size], self.y[start : start + size])
                for start in range(first, stop, size)
            )
            return reduce(_added, sums)

        if self.n <= _SUMMED * size and self.n * self.d <= _SMALL:
            return part(0)  # not worth asking how many threads there are
        return reduce(_added, in_order(part, range(0, self.n, _SUMMED * size)))

    def thinned(self, m: int) -> DenseRows:
        """About m of the rows, at equal distances: which ones depends on n and m alone."""
        stride = max(self.n // m, 1)
        thin = object.__new__(DenseRows)
        for name, value in (
            ("x", np.ascontiguousarray(self.x[::stride])),
            ("y", np.ascontiguousarray(self.y[::stride])),
            ("radius", self.radius),
            ("blocks", self.blocks),
        ):
            object.__setattr__(thin, name, value)
        return thin

    def scores(self, coef: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Linear predictor and label of each usable row."""
        usable = self.y != 0
        link = np.empty(self.n)

        def score(start: int) -> None:
            np.matmul(self.x[start : start + _PIECE], coef, out=link[start : start + _PIECE])

        in_order(score, range(0, self.n, _PIECE))
        return link[usable], self.y[usable]


def _added(total: tuple[Any, ...], part: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(a + b for a, b in zip(total, part, strict=True))
