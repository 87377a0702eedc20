"""Rows in a stream of record batches: one fold reads the stream once, in this process.

Batches are cut anew into pieces of a length that follows from public facts. So sums do not depend
on the batches, and are to the last bit those of the same rows in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, TypeVar

import numpy as np

from privatelr.errors import redact_errors
from privatelr.numerics.parallel import in_order, summed, threads
from privatelr.numerics.rows.dense_rows import DenseRows, added, block_rows
from privatelr.numerics.rows.partition_work import (
    Held,
    PartOpener,
    Work,
)
from privatelr.numerics.rows.partitioned_rows import PartitionedRows
from privatelr.numerics.rows.row_bounds import RowBounds
from privatelr.types import FloatArray, IntArray, Kernel

T = TypeVar("T")
_ROWS, _ENTRIES = 2**15, 2**22
"""A piece has about this number of rows, and no more than this number of entries."""
_CACHED, _FEW = 2**18, 2**10
"""Entries of a piece of rows that choose columns, which stay in a cache; and rows it has anyway."""
_UNREAD = "its batches could not be read again; a charge that was made for this call stands"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class StreamRows(PartitionedRows):
    """Labelled rows that are read and bounded anew in every fold, a few of them at a time.

    Attributes
    ----------
    batches : callable
        Takes a number of records, and reads all of them anew: parts of so many but for the last.
    work : Work
    size : int
        Rows of a piece.
    owners : ndarray of shape (n,) or None
        The number of the person, from 0, whose row it is.

    Notes
    -----
    **Privacy.** *Covered*: nothing by itself, the rows are as private as the data.
    *Neighbours*: changing one record changes one row. *Assumed public*: the number of records, or
    that of persons alone. *Not covered*: time and memory.
    """

    batches: Callable[[int], Generator[Any, None, None]]
    work: Work
    size: int
    owners: IntArray | None = None
    has_scattered_persons: ClassVar[bool] = True

    @classmethod
    def of(
        cls,
        batches: Callable[[int], Generator[Any, None, None]],
        opener: PartOpener,
        p: int,
        records: int,
        *,
        persons: int | None = None,
        owners: IntArray | None = None,
        **limits: Any,
    ) -> StreamRows:
        """Make rows of p covariates; `limits` are arguments of `RowBounds`. Nothing is read."""
        bounds = RowBounds(**limits)
        d, work = bounds.width(p), Work(opener, bounds)
        group = work.group_rows(p)
        size = max(min(_ROWS, _ENTRIES // max(d, p)) // group, 1) * group
        return cls(
            batches=batches,
            records=records,
            work=work,
            d=d,
            radius=bounds.radius,
            blocks=bounds.blocks,
            offset_bound=bounds.offset_bound,
            size=size,
            persons=persons,
            owners=owners,
        )

    def _sums(self, kernel: Kernel) -> tuple[Any, ...]:
        shape = block_rows(self.d), self.d
        free: list[FloatArray] = []

        def groups(part: Any) -> list[tuple[Any, ...]]:
            # memory that was used is used again: a system takes as long to give out new memory as
            # the rows take to be read into it
            try:
                memory = free.pop()
            except IndexError:  # none was given back yet, or another thread was faster
                memory = np.empty(shape)
            with threads(1):  # others are busy with other parts
                found = self.work.group_sums(part, len(part), kernel, memory)
            free.append(memory)
            return found

        def joined(
            total: list[tuple[Any, ...]], found: list[tuple[Any, ...]]
        ) -> list[tuple[Any, ...]]:
            return [reduce(added, [*total, *found])]

        with self._pass() as parts, redact_errors(_UNREAD):
            every = summed(groups, parts, joined)
        return reduce(added, every)

    def _over(self, take: Callable[[int, Any], T]) -> list[T]:
        """Return, in order, what a function returns of the place of each part and of the part."""

        def taken(numbered: tuple[int, Any]) -> T:
            with threads(1):
                return take(*numbered)

        with self._pass() as parts, redact_errors(_UNREAD):
            return in_order(taken, enumerate(parts))

    def _every(self, step: str, *given: Any) -> list[Any]:
        return self._over(lambda _, part: getattr(self.work, step)(part, len(part), *given))

    def fold_with_shares(self, kernel: Kernel) -> tuple[Any, ...]:
        """Sum what a kernel returns that takes the shares of persons after the tables."""
        *sums, checksum = reduce(added, self._every("fold_with_shares", kernel))
        self._require_unchanged(checksum)
        return tuple(sums)

    def over_owned(
        self, function: Callable[[DenseRows, IntArray], T], add: Callable[[T, T], T]
    ) -> T:
        """Add up, in order, what a function returns of the rows of a part and their owners."""
        every = self.owners
        assert every is not None

        def taken(numbered: tuple[int, Any]) -> tuple[T, IntArray]:
            place, part = numbered
            owners = every[place * self.size : place * self.size + len(part)]
            with threads(1):
                held = self.work.hold(part, len(part))
                assert held.checksum is not None
                return function(held.rows, owners), held.checksum

        def both(one: tuple[T, IntArray], other: tuple[T, IntArray]) -> tuple[T, IntArray]:
            return add(one[0], other[0]), one[1] + other[1]

        with self._pass() as parts, redact_errors(_UNREAD):
            found, checksum = summed(taken, enumerate(parts), both)
        self._require_unchanged(checksum)
        return found

    def _thinned(self, stride: int) -> list[Held]:
        def thin(place: int, part: Any) -> Held | None:
            start = -place * self.size % stride
            return self.work.thin(part, len(part), start, stride) if start < len(part) else None

        return [held for held in self._over(thin) if held is not None]

    def _pass(self) -> Any:
        return closing(self.batches(self.size))
