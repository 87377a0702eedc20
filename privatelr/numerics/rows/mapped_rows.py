"""Rows in the partitions of an engine that maps a function over them, as Spark does.

The engine sends a function to each partition and brings back what it returns: sums, and never the
rows. A fold is one map, whose results go up a tree of fixed additions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any, Protocol

from privatelr.dask_cluster import Failure, require_success
from privatelr.numerics.parallel import alone
from privatelr.numerics.rows.dask_partitions import attempt
from privatelr.numerics.rows.dask_rows import require_few
from privatelr.numerics.rows.dense_rows import DenseRows, added
from privatelr.numerics.rows.partition_work import Held, PartOpener, Work, changed
from privatelr.numerics.rows.partitioned_rows import PartitionedRows
from privatelr.numerics.rows.row_bounds import RowBounds
from privatelr.types import Block, Kernel

Terms = dict[tuple[int, int], Any]
"""Sums of 2^k neighbouring partitions by k and their place among such."""


class MappedReader(Protocol):
    """Labelled covariates in partitions that an engine holds.

    A function that it maps takes the place of a partition, its rows and their number, and returns
    what can be pickled.
    """

    @property
    def p(self) -> int: ...

    @property
    def lengths(self) -> Sequence[int]:
        """Rows of each partition."""
        ...

    @property
    def open(self) -> PartOpener: ...

    def each(self, function: Callable[[int, Any, int], Any]) -> Sequence[Any]:
        """What a function returns of each partition that has rows, in order."""
        ...

    def one_by_one(self, function: Callable[[int, Any, int], Any]) -> Iterable[Any]:
        """The same, one after the other, of which few are in memory at a time."""
        ...

    def reduced(self, function: Callable[[int, Any, int], Any], join: Callable[..., Any]) -> Any:
        """The results joined in pairs up a tree, in any order."""
        ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MappedRows(PartitionedRows):
    """Labelled rows in partitions, bounded where they are, anew in every fold.

    Attributes
    ----------
    reader : MappedReader
    work : Work
    d : int
    radius : float
        No row is longer, the intercept entry included.
    blocks : tuple of Block
    offset_bound : float
        No offset is larger; 0 if rows have none.

    Notes
    -----
    **Privacy.** *Covered*: nothing by itself, the rows are as private as the data.
    *Neighbours*: changing one record changes one row. *Assumed public*: the number of records,
    and how many of them are in each partition. *Not covered*: time and memory, and what the engine
    shows and logs of them.
    """

    reader: MappedReader
    work: Work
    d: int
    radius: float
    blocks: tuple[Block, ...]
    offset_bound: float
    persons: None = None
    _thin: list[DenseRows] = field(default_factory=list)
    _seen: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, reader: MappedReader, **limits: Any) -> MappedRows:
        """Make rows from a reader; `limits` are arguments of `RowBounds`. Nothing is read."""
        require_few(reader.lengths)
        bounds = RowBounds(**limits)
        facts = bounds.width(reader.p), bounds.radius, bounds.blocks, bounds.offset_bound
        return cls(reader, Work(reader.open, bounds), *facts)

    @property
    def records(self) -> int:
        """The number of rows."""
        return sum(self.reader.lengths)

    def _every(self, step: Callable[..., Any], *given: Any) -> list[Any]:
        found = self.reader.each(partial(_step, step, self.work, given))
        if len(found) != len(self.reader.lengths):
            raise changed()
        return [require_success(one) for one in found]

    def _sums(self, kernel: Kernel) -> tuple[Any, ...]:
        if alone():  # such kernels cannot be sent, so the rows come here
            every = self.reader.one_by_one(partial(_step, Work.hold, self.work, ()))
            leaves = enumerate(map(require_success, every))
            sums: Any = ({(0, i): (*one.rows.fold(kernel), one.checksum)} for i, one in leaves)
            found: Any = reduce(joined, sums)
        else:
            found = self.reader.reduced(partial(_leaf, self.work, kernel), joined)
        terms: Terms = require_success(found)
        if sum(1 << height for height, _ in terms) != len(self.reader.lengths):
            raise changed()
        # the last are sums of few partitions, so that no term goes through many additions
        last_first = (terms[key] for key in sorted(terms, key=_first, reverse=True))
        return reduce(lambda last, before: added(before, last), last_first)

    def _thinned(self, stride: int) -> list[Held]:
        starts, first = [], 0
        for length in self.reader.lengths:
            starts.append(-first % stride)
            first += length
        found = self.reader.each(partial(_thin, self.work, tuple(starts), stride))
        kept = (require_success(one) for one in found)
        return [held for held in kept if held is not None]


def _step(
    step: Callable[..., Any], work: Work, given: tuple[Any, ...], place: int, part: Any, length: int
) -> Any:
    return attempt(step, work, part, length, *given)


def _leaf(work: Work, kernel: Kernel, place: int, part: Any, length: int) -> Terms | Failure:
    found = attempt(Work.fold, work, part, length, kernel)
    return found if isinstance(found, Failure) else {(0, place): found}


def _thin(
    work: Work, starts: tuple[int, ...], stride: int, place: int, part: Any, length: int
) -> Held | Failure | None:
    start = starts[place]
    if start >= length:
        return None
    found: Held | Failure = attempt(Work.thin, work, part, length, start, stride)
    return found


def joined(one: Terms | Failure, other: Terms | Failure) -> Terms | Failure:
    """Join sums, adding those that are neighbours in a tree: in any order the same additions."""
    for found in (one, other):
        if isinstance(found, Failure):
            return found
    terms: Terms = {**one, **other}  # type: ignore[dict-item]
    waiting = sorted(terms)
    while waiting:
        height, place = waiting.pop(0)
        pair = (height, place - place % 2), (height, place - place % 2 + 1)
        if all(key in terms for key in pair):
            first, second = (terms.pop(key) for key in pair)
            terms[height + 1, place // 2] = added(first, second)
            waiting = sorted({*waiting, (height + 1, place // 2)} - {*pair})
    return terms


def _first(key: tuple[int, int]) -> int:
    """The first partition that a sum is of."""
    height, place = key
    return place << height
