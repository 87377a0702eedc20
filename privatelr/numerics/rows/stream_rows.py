"""Rows in a stream of record batches: one fold reads the stream once, in this process.

Batches are cut anew into pieces of a length that follows from public facts. So sums do not depend
on the batches, and are to the last bit those of the same rows in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache, reduce
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from privatelr.errors import redact_errors
from privatelr.lazy_import import lazy_import
from privatelr.numerics.parallel import in_order, summed, threads
from privatelr.numerics.rows.dense_rows import DenseRows, added, block_rows
from privatelr.numerics.rows.partition_work import Held, PartOpener, Work, lane_weights, number_of
from privatelr.numerics.rows.partitioned_rows import PartitionedRows, require_same
from privatelr.numerics.rows.products import LossSums, SlopeSums
from privatelr.numerics.rows.row_bounds import RowBounds
from privatelr.types import Block, FloatArray, Kernel, RawColumns

if TYPE_CHECKING:
    from privatelr.numerics.rows import compiled_sums
else:
    compiled_sums = lazy_import("privatelr.numerics.rows.compiled_sums")

_ROWS, _ENTRIES = 2**15, 2**22
"""A piece has about this number of rows, and no more than this number of entries."""
_WORTH = 2**24
"""Entries from which on a compiled function is worth the seconds until it is loaded."""
_UNREAD = "its batches could not be read again; a charge that was made for this call stands"


class StreamReader(Protocol):
    """Labelled covariates of n records that are read one piece after the other."""

    n: int
    open: PartOpener

    @property
    def p(self) -> int: ...

    def pieces(self, size: int) -> Generator[tuple[Any, int], None, None]:
        """Read all records anew: pieces for `open`, of `size` records but for the last."""
        ...

    @property
    def raw(self) -> Callable[[Any], RawColumns] | None:
        """Return a function that reads a batch as it is; None for a design that has no such way."""
        ...

    def batches(self) -> Generator[tuple[Any, int], None, None]:
        """Read all records anew: batches for `raw`, and the number of the first record of each."""
        ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StreamRows(PartitionedRows):
    """Labelled rows that are read and bounded anew in every fold, a few of them at a time.

    Attributes
    ----------
    reader : StreamReader
    work : Work
    d : int
    radius : float
        No row is longer, the intercept entry included.
    blocks : tuple of Block
    offset_bound : float
        No offset is larger; 0 if rows have none.
    size : int
        Rows of a piece.

    Notes
    -----
    **Privacy.** *Covered*: nothing by itself, the rows are as private as the data.
    *Neighbours*: changing one record changes one row. *Assumed public*: the number of records.
    *Not covered*: time and memory.
    """

    reader: StreamReader
    work: Work
    d: int
    radius: float
    blocks: tuple[Block, ...]
    offset_bound: float
    size: int
    persons: None = None
    _thin: list[DenseRows] = field(default_factory=list)
    _seen: list[int] = field(default_factory=list)
    _seen_raw: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, reader: StreamReader, **limits: Any) -> StreamRows:
        """Make rows from a reader; `limits` are arguments of `RowBounds`. Nothing is read."""
        bounds = RowBounds(**limits)
        d, work = bounds.width(reader.p), Work(reader.open, bounds)
        group = work.group_rows(reader.p)
        size = max(min(_ROWS, _ENTRIES // max(d, reader.p)) // group, 1) * group
        facts = d, bounds.radius, bounds.blocks, bounds.offset_bound
        return cls(reader, work, *facts, size)

    @property
    def records(self) -> int:
        """The number of rows."""
        return self.reader.n

    def fold(self, kernel: Kernel) -> tuple[Any, ...]:
        """Sum as other rows do; sums of losses are taken in compiled code where there is some."""
        if isinstance(kernel, LossSums | SlopeSums) and self.records * self.d >= _WORTH:
            found = self._compiled(kernel)
            if found is not None:
                return found
        return PartitionedRows.fold(self, kernel)

    def _compiled(self, kernel: LossSums | SlopeSums) -> tuple[Any, ...] | None:
        read = self.reader.raw
        if read is None or not has_compiler():
            return None
        sums = compiled_sums.under(self.work.limits, self.reader.p, kernel.loss)
        if sums is None:
            return None
        valued = isinstance(kernel, LossSums)

        def of_batch(batch: tuple[Any, int]) -> tuple[Any, ...]:
            return sums(read(batch[0]), batch[1], kernel.w, valued=valued)

        with closing(self.reader.batches()) as batches, redact_errors(_UNREAD):
            lost, slopes, lanes = summed(of_batch, batches, added)
        # a checksum of columns, which is compared with others of columns
        require_same(self._seen_raw, number_of(lanes.reshape(-1), lane_weights(lanes.size)))
        return (lost, slopes) if valued else (slopes,)

    def _sums(self, kernel: Kernel) -> tuple[Any, ...]:
        shape = block_rows(self.d), self.d
        free: list[FloatArray] = []

        def groups(piece: tuple[Any, int]) -> list[tuple[Any, ...]]:
            # memory that was used is used again: a system takes as long to give out new memory as
            # the rows take to be read into it
            try:
                memory = free.pop()
            except IndexError:  # none was given back yet, or another thread was faster
                memory = np.empty(shape)
            with threads(1):  # others are busy with other pieces
                found = self.work.group_sums(*piece, kernel, memory)
            free.append(memory)
            return found

        def joined(
            total: list[tuple[Any, ...]], found: list[tuple[Any, ...]]
        ) -> list[tuple[Any, ...]]:
            return [reduce(added, [*total, *found])]

        with self._pass() as pieces, redact_errors(_UNREAD):
            every = summed(groups, pieces, joined)
        return reduce(added, every)

    def _every(self, step: Callable[..., Any], *given: Any) -> list[Any]:
        def taken(piece: tuple[Any, int]) -> Any:
            with threads(1):
                return step(self.work, *piece, *given)

        with self._pass() as pieces, redact_errors(_UNREAD):
            return in_order(taken, pieces)

    def _thinned(self, stride: int) -> list[Held]:
        def taken(numbered: tuple[int, tuple[Any, int]]) -> Held | None:
            place, (part, length) = numbered
            start = -place * self.size % stride
            with threads(1):
                return self.work.thin(part, length, start, stride) if start < length else None

        with self._pass() as pieces, redact_errors(_UNREAD):
            found = in_order(taken, enumerate(pieces))
        return [held for held in found if held is not None]

    def _pass(self) -> Any:
        return closing(self.reader.pieces(self.size))


@cache
def has_compiler() -> bool:
    """Whether there is a numba that goes with this NumPy."""
    try:
        return callable(compiled_sums.under)
    except ImportError:
        return False
