"""What rows in partitions have in common: one fold is one pass over all of them.

Each pass compares a checksum of all rows with that of the first, so data that change end a fit in
the first pass that meets them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any, ClassVar

import numpy as np

from privatelr.numerics.rows.dense_rows import DenseRows
from privatelr.numerics.rows.partition_work import Held, changed
from privatelr.types import Block, FloatArray, IntArray, Kernel, Rows

MOST_SCORED = 5_000_000
"""Largest number of rows whose scores are all collected."""


@dataclass(frozen=True, slots=True)
class RowFacts:
    """The public facts of rows; a copy of `PartitionedRows` in a task holds nothing else."""

    n: int
    d: int
    radius: float
    blocks: tuple[Block, ...]
    offset_bound: float


def no_sums(*block: Any) -> tuple[Any, ...]:
    """A kernel of which only the checksum of the rows is left."""
    return ()


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class PartitionedRows(ABC):
    """Labelled rows in partitions, of which a few are bounded at a time.

    A class of its own for each kind of partition says how all of them take a step of `Work`.

    Attributes
    ----------
    records : int
        The number of rows.
    d : int
    radius : float
        No row is longer, the intercept entry included.
    blocks : tuple of Block
    offset_bound : float
        No offset is larger; 0 if rows have none.
    persons : int or None
        The number of persons; None if each row is of its own.
    """

    is_bounded: ClassVar[bool] = True
    has_scattered_persons: ClassVar[bool] = False
    """Whether records of a person may be in several parts."""
    records: int
    d: int
    radius: float
    blocks: tuple[Block, ...]
    offset_bound: float
    persons: int | None = None
    _thin: list[DenseRows] = field(default_factory=list)
    _seen: list[int] = field(default_factory=list)

    @property
    def n(self) -> int:
        return self.records if self.persons is None else self.persons

    @property
    def tables(self) -> tuple[Any, ...] | None:
        return None

    def filled(self, held: IntArray) -> tuple[Rows, IntArray] | None:
        return None

    @abstractmethod
    def _sums(self, kernel: Kernel) -> tuple[Any, ...]:
        """Sum what `kernel` returns over blocks of rows, and their checksum, in a fixed order."""

    @abstractmethod
    def _every(self, step: str, *given: Any) -> Sequence[Any]:
        """What a step of `Work` returns for each partition, in order."""

    @abstractmethod
    def _thinned(self, stride: int) -> Sequence[Held]:
        """The rows 0, `stride`, ... of all partitions together, in order."""

    def fold(self, kernel: Kernel) -> tuple[Any, ...]:
        """Sum what `kernel` returns over blocks of rows, in a fixed order.

        Raises
        ------
        SchemaError
            If the rows are not those of the first fold, or could not be read.
        """
        *sums, checksum = self._sums(kernel)
        self._require_unchanged(checksum)
        return tuple(sums)

    def watched(self) -> Callable[[], Any] | None:
        """Return a function that reads the rows once more, and raises if they have changed.

        Rows under one plan are compared at every pass over them. What rows of the next plan were
        read in between is then of the same table, too.
        """
        return partial(self.fold, no_sums)

    def _require_unchanged(self, checksum: IntArray) -> None:
        """Refuse rows whose checksum ``(1,)`` is not that of the first pass, which is noted."""
        if not self._seen:
            self._seen.append(int(checksum[0]))
        elif int(checksum[0]) != self._seen[0]:
            raise changed()

    def thinned(self, m: int) -> DenseRows:
        """About m of the rows, at equal distances, in the memory of this process.

        One pass, and none for fewer rows than an earlier call took.
        """
        if self._thin and self._thin[0].records >= min(m, self.records):
            found = self._thin[0]
            return found.thinned(m) if found.records >= 2 * m else found
        pieces = [held.rows for held in self._thinned(max(self.records // m, 1))]
        tables = map(np.concatenate, zip(*(rows.tables for rows in pieces), strict=True))
        made = pieces[0].with_table(*tables)
        if self.persons is not None:
            made = made.of_persons(max(round(self.persons * made.records / self.records), 1))
        self._thin[:] = [made]
        return self.thinned(m)

    def scores(self, coef: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Linear predictor and label of each usable row, all of them in this process."""
        link, label, checksums = zip(*self._every("score", coef), strict=True)
        self._require_unchanged(reduce(np.add, checksums))
        return np.concatenate(link), np.concatenate(label)

    def __reduce__(self) -> tuple[type[RowFacts], tuple[Any, ...]]:
        # kernels are sent with all that their closures hold, which must not include data
        return RowFacts, (self.n, self.d, self.radius, self.blocks, self.offset_bound)
