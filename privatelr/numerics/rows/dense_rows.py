"""Rows that cannot be longer than they say."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from privatelr.numerics.parallel import in_order, summed
from privatelr.numerics.rows.row_bounds import RowBounds
from privatelr.numerics.rows.rows_within_bounds import fast_products
from privatelr.types import Block, FloatArray, Kernel, Reader, RowLimit

BLOCK_ROWS = 2**14
"""Rows that a kernel sees at once, at most."""
_BLOCK_ENTRIES = 2**18
"""Entries of a block: two megabytes, most of which a cache holds while a kernel reads it twice.
Smaller ones would be nearer, and leave threads waiting for each other's turn in the interpreter."""
_SHORTEST = 64
_SMALL = 2**14
"""Entries of a table that no library would use a second thread for."""
_PIECE = 2**14
"""Rows that are read at once, at most."""
_PIECE_ENTRIES, _MOST_ENTRIES = 2**18, 2**19
"""Entries that are read at once, and of a long table: what is made of them stays in a cache."""
_PIECES = 64
"""A table is long where one in so many rows has more: on the way a piece takes memory, too."""
_LINE = 8
"""Numbers that are moved together between memory and a processor."""
_NEAR = 5
"""One in so many rows is read where it is: a copy would be a large part of the memory of all."""
_LEAST = 2**8
"""Rows for which it is worth calling a function on a column."""
SUMMED_BLOCKS = 2
"""Blocks whose sums are added up before they are added to those of others."""


def block_rows(d: int) -> int:
    """Rows of a block of so many columns: a multiple of 64, and a function of public facts."""
    fitting = _BLOCK_ENTRIES // max(d, 1) // _SHORTEST * _SHORTEST
    return min(max(fitting, _SHORTEST), BLOCK_ROWS)


def piece_rows(n: int, width: int) -> int:
    """Rows that are read at once of a table; a function of public facts.

    An odd number of cache lines: were columns a power of two apart, the entries of a row would
    take each other's place in the cache.
    """
    few, most = (entries // max(width, 1) for entries in (_PIECE_ENTRIES, _MOST_ENTRIES))
    fitting = min(max(few, min(n // _PIECES, most), _LEAST), _PIECE)
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
        limits = RowBounds(bound, intercept, projection, blocks)
        self._set(*limits.hold(covariates, labels), limits)

    def _set(self, x: FloatArray, y: FloatArray, limits: RowBounds) -> None:
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
        limits = RowBounds(bound, intercept, projection, blocks)
        made = object.__new__(cls)
        size = piece_rows(reader.n, max(reader.p, limits.width(reader.p)))
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

    @classmethod
    def held(cls, reader: Reader, limits: RowBounds) -> DenseRows:
        """The same, of limits that are written down."""
        return cls.of(
            reader,
            bound=limits.bound,
            intercept=limits.intercept,
            projection=limits.projection,
            blocks=limits.blocks,
        )

    @property
    def n(self) -> int:
        return int(self.x.shape[0])

    @property
    def d(self) -> int:
        return int(self.x.shape[1])

    def fold(self, kernel: Kernel) -> tuple[Any, ...]:
        """Sum what `kernel` returns over blocks of rows, in order; blocks may run side by side."""
        size = block_rows(self.d)
        if self.n * self.d <= _SMALL:
            return kernel(self.x, self.y)  # one block, and no threads to ask for

        def part(first: int) -> tuple[Any, ...]:
            stop = min(first + SUMMED_BLOCKS * size, self.n)
            sums = (
                kernel(self.x[start : start + size], self.y[start : start + size])
                for start in range(first, stop, size)
            )
            return reduce(added, sums)

        return summed(part, range(0, self.n, SUMMED_BLOCKS * size), added)

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
            link[start : start + _PIECE] = fast_products(self.x[start : start + _PIECE], coef)

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
