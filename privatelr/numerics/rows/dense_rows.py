"""Rows whose length keeps a stated bound, and sums over blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from privatelr.numerics.parallel import in_order, summed
from privatelr.numerics.rows.row_bounds import RowBounds, held_offset
from privatelr.types import Block, FloatArray, IntArray, Kernel, Reader, Rows

_LONG = 32
"""Number of entries of a row from which on one sum per row is faster than a matrix product."""
BLOCK_ROWS = 2**14
"""Largest number of rows that a kernel sees at once."""
_BLOCK_ENTRIES = 2**18
"""Number of entries of a block: two megabytes, which mostly stay in a cache between two reads.
With smaller blocks threads would wait for each other in the interpreter."""
_SHORTEST = 64
_SMALL = 2**14
"""Number of entries up to which libraries use one thread for a table."""
_PIECE = 2**14
"""Largest number of rows that are read at once."""
_PIECE_ENTRIES = 2**19
"""Number of entries that are read at once: few enough to stay in a cache, and enough for what each
piece costs beside its rows."""
_LINE = 8
"""Number of doubles in a cache line."""
_NEAR = 5
"""From one row in this many on, rows are not copied: a copy would take too much memory."""
_LEAST = 2**8
"""Least number of rows for which a call per column pays."""
SUMMED_BLOCKS = 2
"""Number of blocks whose sums are added up before they are added to the total."""


def block_rows(d: int) -> int:
    """Return the rows of a block of d columns: a multiple of 64, and a function of public facts."""
    fitting = _BLOCK_ENTRIES // max(d, 1) // _SHORTEST * _SHORTEST
    return min(max(fitting, _SHORTEST), BLOCK_ROWS)


def piece_rows(n: int, width: int) -> int:
    """Return how many rows of a table are read at once; a function of public facts.

    Pieces are about equally long, as a short one takes almost the time of a long one. The length is
    an odd number of cache lines: if columns were a power of two apart, the entries of a row would
    share one place in the cache.
    """
    fitting = min(max(_PIECE_ENTRIES // max(width, 1), _LEAST), _PIECE)
    equal = -(-n // max(round(n / fitting), 1))
    return (-(-equal // _LINE) | 1) * _LINE


def additions(n: int, d: int) -> int:
    """Bound the additions that a term of a folded sum goes through, and with it the rounding."""
    size = block_rows(d)
    return min(n, size) + SUMMED_BLOCKS + n // (size * SUMMED_BLOCKS) + 16


def added(total: tuple[Any, ...], part: tuple[Any, ...]) -> tuple[Any, ...]:
    """Add the results of a kernel for two parts, entry by entry.

    An entry that is a pair is a sum and its rounding error, which is carried along.
    """
    pairs = zip(total, part, strict=True)
    return tuple(_carried(a, b) if isinstance(a, tuple) else a + b for a, b in pairs)


def _carried(first: tuple[Any, Any], second: tuple[Any, Any]) -> tuple[Any, Any]:
    # Knuth's sum of two numbers: only the rounding error itself is rounded
    high = first[0] + second[0]
    gained = high - first[0]
    lost = (first[0] - (high - gained)) + (second[0] - gained)
    return high, first[1] + second[1] + lost


def fast_products(x: FloatArray, w: FloatArray) -> FloatArray:
    """``x @ w`` of shape ``(n,)``, in any order of summation."""
    # matrix libraries read several rows at a time, which memory serves more slowly
    return np.asarray(x @ w if x.shape[1] < _LONG else np.vecdot(x, w))


def folded(kernel: Kernel, size: int, x: Any, y: FloatArray, *offset: FloatArray) -> Any:
    """Sum what `kernel` returns over blocks of so many rows, one after the other."""
    blocks: Iterable[Any] = (slice(start, start + size) for start in range(0, len(y), size))
    tables = (x, y, *offset)
    return reduce(added, (kernel(*(table[block] for table in tables)) for block in blocks))


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class TableRows:
    """The common part of dense and sparse rows in memory.

    Attributes
    ----------
    x : ndarray or csr_array of shape (n, d), read-only
    y : ndarray of shape (n,), read-only
        -1 or +1, and 0 for a row that was not usable; larger sizes are those of weighted rows
        (`privatelr.numerics.rows.row_bounds`).
    radius : float
        No row is longer, the intercept entry included.
    blocks : tuple of Block
        Every row keeps the bound of each block.
    offset : ndarray of shape (n,), read-only, or None
        What is added to the linear predictor of each row, over the size of its label. Kernels
        take blocks of it as a third argument, so one that does not know of offsets cannot run.
    offset_bound : float
        No offset is larger.
    persons : int or None
        The number of persons, by which sums are divided in place of that of the rows; None if
        each row is of its own.
    owners : ndarray of shape (n,) or None
        The number of the person, from 0, whose row it is.
    shares : ndarray of shape (n,) or None
        How much of a person each row is, whatever else it counts.
    """

    is_bounded: ClassVar[bool] = True
    x: Any
    y: FloatArray
    radius: float
    blocks: tuple[Block, ...]
    offset: FloatArray | None
    offset_bound: float
    persons: int | None
    owners: IntArray | None
    shares: FloatArray | None
    has_scattered_persons: ClassVar[bool] = False

    def watched(self) -> None:
        """In memory nothing can change; see `PartitionedRows.watched`."""

    @property
    def tables(self) -> tuple[Any, ...]:
        """What kernels take blocks of: x, y, and the offset if there is one."""
        return (self.x, self.y) if self.offset is None else (self.x, self.y, self.offset)

    def filled(self, held: IntArray) -> tuple[Rows, IntArray] | None:
        """Leave out columns without entries, of which dense rows have few."""
        return None

    @property
    def n(self) -> int:
        return self.records if self.persons is None else self.persons

    @property
    def records(self) -> int:
        """The number of rows, which is private where a person may have several."""
        return int(self.x.shape[0])

    @property
    def d(self) -> int:
        return int(self.x.shape[1])

    def _put(
        self,
        x: Any,
        y: FloatArray,
        limits: RowBounds | TableRows,
        offset: FloatArray | None = None,
        *,
        blocks: tuple[Block, ...] | None = None,
    ) -> Self:
        """Set the tables, and the limits that they keep but for other `blocks`."""
        for table in (x.data if sparse.issparse(x) else x, y, offset):
            if table is not None:
                table.flags.writeable = False
        kept = limits.blocks if blocks is None else blocks
        values = x, y, limits.radius, kept, offset, limits.offset_bound, None, None, None
        for name, value in zip(TableRows.__slots__, values, strict=True):
            object.__setattr__(self, name, value)
        return self

    def of_persons(
        self, m: int, owners: IntArray | None = None, shares: FloatArray | None = None
    ) -> Self:
        """The same rows, of m persons, the weights of each of whom add up to at most 1."""
        made = object.__new__(type(self))
        new = {"persons": m, "owners": owners, "shares": shares}
        for name in TableRows.__slots__:
            object.__setattr__(made, name, new[name] if name in new else getattr(self, name))
        return made

    def over_persons(self, function: Callable[[Self], tuple[Any, ...]]) -> tuple[Any, ...]:
        """What a function returns of rows that hold whole persons."""
        return function(self)

    def fold_with_shares(self, kernel: Kernel) -> tuple[Any, ...]:
        """Sum what a kernel returns that takes the shares of persons after the tables."""
        assert self.shares is not None
        return tuple(folded(kernel, block_rows(self.d), *self.tables, self.shares))

    def with_table(self, x: Any, y: FloatArray, offset: FloatArray | None = None) -> Self:
        """Rows under the same bounds: of these, or of others that were held to them."""
        return object.__new__(type(self))._put(x, y, self, offset)._like(self)

    def _like(self, other: TableRows) -> Self:
        """These rows, which are some of others, with as many persons for each record."""
        if other.persons is None:
            return self
        return self.of_persons(max(round(other.persons * self.records / other.records), 1))


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class DenseRows(TableRows):
    """Labelled rows in memory, bounded on construction.

    Parameters
    ----------
    covariates : ndarray of shape (n, p)
        Any values; `bounded_rows` bounds them.
    labels : ndarray of shape (n,)
        -1 or +1, over the root of the weight of a record.
    offset : ndarray of shape (n,), optional
        Finite numbers that are added to the linear predictors.
    **limits
        The bounds of the rows: arguments of `RowBounds`.
    """

    def __init__(
        self,
        covariates: FloatArray,
        labels: FloatArray,
        offset: FloatArray | None = None,
        **limits: Any,
    ) -> None:
        bounds = RowBounds(**limits)
        x, y = bounds.hold(covariates, labels)
        held = None if offset is None else held_offset(offset, y, bounds.offset_bound)
        self._put(x, y, bounds, held)

    @classmethod
    def of(
        cls,
        reader: Reader,
        first: int = 0,
        stop: int | None = None,
        *,
        bounds: RowBounds | None = None,
        memory: FloatArray | None = None,
        **limits: Any,
    ) -> DenseRows:
        """Rows of what a reader reads from `first` to `stop`.

        They are held to `bounds`, or to limits that are arguments of `RowBounds`, and read by
        pieces, so that the whole is in memory once: in `memory`, a table of as many columns and at
        least as many rows, where it is given.
        """
        bounds = bounds or RowBounds(**limits)
        n = (reader.n if stop is None else stop) - first
        made, width = object.__new__(cls), bounds.width(reader.p)
        size = piece_rows(n, max(reader.p, width))
        if n <= size:
            covariates, labels, *offsets = reader.read(first, first + n)
            x, y = bounds.hold(covariates, labels, None if memory is None else memory[:n])
            held = (held_offset(part, y, bounds.offset_bound) for part in offsets)
            return made._put(x, y, bounds, *held)
        x = np.empty((n, width)) if memory is None else memory[:n]
        y = np.empty(n)
        offset = np.empty(n) if bounds.offset_bound > 0 else None

        def read(start: int) -> None:
            stop = min(start + size, n)
            piece = slice(start, stop)
            found = reader.read(first + start, first + stop)
            _, y[piece] = bounds.hold(found[0], found[1], x[piece])
            if offset is not None:
                offset[piece] = held_offset(found[2], y[piece], bounds.offset_bound)

        in_order(read, range(0, n, size))
        return made._put(x, y, bounds, offset)

    def fold(self, kernel: Kernel) -> tuple[Any, ...]:
        """Sum what `kernel` returns over blocks of rows, in order; blocks may run side by side."""
        if self.records * self.d <= _SMALL:
            return kernel(*self.tables)  # one block, and no threads to ask for
        size = block_rows(self.d)
        group = SUMMED_BLOCKS * size

        def part(first: int) -> Any:
            stop = min(first + group, self.records)
            return folded(kernel, size, *(table[first:stop] for table in self.tables))

        return summed(part, range(0, self.records, group), added)

    def thinned(self, m: int) -> DenseRows:
        """About m of the rows, at equal distances: which ones depends on n and m alone."""
        stride = max(self.records // m, 1)
        x = self.x[::stride]
        if stride > _NEAR:  # copied, because each row that is far away costs a wait for memory
            x = np.ascontiguousarray(x)
        return self.with_table(x, *(np.ascontiguousarray(t[::stride]) for t in self.tables[1:]))

    def scores(self, coef: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Linear predictor and label of each usable row."""
        usable = self.y != 0
        link = np.empty(self.records)

        def score(start: int) -> None:
            link[start : start + _PIECE] = fast_products(self.x[start : start + _PIECE], coef)

        in_order(score, range(0, self.records, _PIECE))
        if self.offset is not None:
            link += self.offset
        link, label = link * np.abs(self.y), np.sign(self.y)
        return (link, label) if usable.all() else (link[usable], label[usable])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LooseRows:
    """Labelled covariates before they are bounded, in the memory that bounded rows will take.

    Attributes
    ----------
    x : ndarray of shape (n, width)
        The memory. Of each piece of rows it holds the covariates by columns, as they were read.
    y : ndarray of shape (n,)
        Labels, 0 for rows that cannot be used, which are rows of zeros.
    d : int
        Number of covariates.
    size : int
        Number of rows of a piece.
    kernel, sums : callable and tuple
        A kernel, and what it returned, summed with as many additions as over bounded rows, while
        pieces were in a cache.
    offset : ndarray of shape (n,) or None
        What is added to the linear predictors.
    persons : int or None
        As for `TableRows`.
    """

    is_bounded: ClassVar[bool] = False
    x: FloatArray
    y: FloatArray
    d: int
    size: int
    kernel: Kernel | None = None
    sums: tuple[Any, ...] = ()
    offset: FloatArray | None = None
    persons: int | None = None

    def watched(self) -> None:
        """In memory nothing can change; see `PartitionedRows.watched`."""

    @property
    def n(self) -> int:
        return len(self.y) if self.persons is None else self.persons

    @classmethod
    def of(
        cls, reader: Reader, width: int, kernel: Kernel, *, has_offset: bool = False
    ) -> LooseRows:
        """Read all rows, for bounded rows of this width, and their offsets if they have any.

        The kernel sees covariates and labels, and no offset. It returns the sums of columns first.
        """
        size = piece_rows(reader.n, width)
        offset = np.empty(reader.n) if has_offset else None
        table = np.empty((reader.n, width)), np.empty(reader.n)
        made = cls(*table, reader.p, size, offset=offset)

        def read(start: int) -> tuple[Any, ...]:
            covariates, labels = made.piece(start)
            found = reader.read(start, start + len(labels))
            covariates[:], labels[:] = found[:2]
            if offset is not None:
                offset[start : start + len(labels)] = found[2]
            sums = folded(kernel, block_rows(made.d), covariates, labels)
            if not np.isfinite(sums[0]).all():  # a sum is finite only if all its terms are
                lost = ~np.isfinite(covariates).all(axis=1)
                covariates[lost] = labels[lost] = 0.0
                sums = folded(kernel, block_rows(made.d), covariates, labels)
            return tuple(sums)

        def part(first: int) -> tuple[Any, ...]:
            return reduce(added, map(read, range(first, min(first + group, reader.n), size)))

        group = SUMMED_BLOCKS * size
        with np.errstate(all="ignore"):
            sums = summed(part, range(0, reader.n, group), added)
            return replace(made, kernel=kernel, sums=sums)

    def fold(self, kernel: Kernel) -> tuple[Any, ...]:
        """Sum what a kernel returns of the covariates and labels of pieces, in order."""
        if kernel == self.kernel:
            return self.sums
        pieces = range(0, len(self.y), self.size)
        return summed(lambda start: kernel(*self.piece(start)), pieces, added)

    def piece(self, start: int) -> tuple[FloatArray, FloatArray]:
        """Return covariates ``(m, d)`` and labels ``(m,)`` of the piece that begins there."""
        labels = self.y[start : start + self.size]
        memory = self.x[start : start + self.size].reshape(-1)
        return memory[: len(labels) * self.d].reshape(self.d, len(labels)).T, labels

    def bounded(self, change: Callable[[FloatArray], FloatArray], **limits: Any) -> DenseRows:
        """Bound the covariates that `change` makes of these, in their memory, which is then gone.

        `change` takes ``(m, d)`` and returns as many; `limits` are arguments of `RowBounds`.
        """
        bounds = RowBounds(**limits)

        def bound(start: int) -> None:
            covariates, labels = self.piece(start)
            changed = change(covariates)
            changed[labels == 0] = np.nan
            _, labels[:] = bounds.hold(changed, labels, self.x[start : start + self.size])

        in_order(bound, range(0, len(self.y), self.size))
        offset = (
            None if self.offset is None else held_offset(self.offset, self.y, bounds.offset_bound)
        )
        return object.__new__(DenseRows)._put(self.x, self.y, bounds, offset)
