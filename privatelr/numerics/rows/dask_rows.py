"""Rows in the partitions of a Dask collection: one fold is one graph.

A partition becomes bounded rows by itself, under one plan, and they become one tuple of sums;
only sums are sent. Rows that fit into memory are kept there; others are read for every fold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any, NoReturn

import numpy as np

from privatelr.dask_cluster import memory_for_rows
from privatelr.errors import SchemaError
from privatelr.numerics.parallel import alone
from privatelr.numerics.rows import dask_partitions as graph
from privatelr.numerics.rows.dask_partitions import Work
from privatelr.numerics.rows.dense_rows import DenseRows, added
from privatelr.numerics.rows.row_bounds import RowBounds
from privatelr.types import Block, FloatArray, IntArray, Kernel

MOST_PARTITIONS = 2**16
"""Largest number of partitions, for which `numerics.rows.additions` bounds the tree of sums."""
MOST_SCORED = 5_000_000
"""Largest number of rows whose scores are all collected."""


@dataclass(frozen=True, slots=True)
class RowFacts:
    """The public facts of rows; a copy of `DaskRows` in a task holds nothing else."""

    n: int
    d: int
    radius: float
    blocks: tuple[Block, ...]
    offset_bound: float

    def fold(self, kernel: Kernel) -> NoReturn:
        """Refuse: a kernel sees blocks, and no more of the rows than these facts."""
        raise SchemaError("rows: a kernel may not fold the rows that it is folded over.")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DaskRows:
    """Labelled rows in partitions, bounded on the workers that hold them.

    Attributes
    ----------
    parts : tuple of Delayed
        Partitions, or what is kept of them.
    lengths : tuple of int
        Rows of each.
    work : Delayed
        How a partition is made into bounded rows.
    d : int
    radius : float
        No row is longer, the intercept entry included.
    blocks : tuple of Block
    offset_bound : float
        No offset is larger; 0 if rows have none.
    bar : bool
        Whether to show how far a graph is.
    persons : int or None
        The number of persons, all of whose records are in one partition; None if each row is of its
        own.

    Notes
    -----
    **Privacy.** *Covered*: nothing by itself, the rows are as private as the data.
    *Neighbours*: changing one record changes one row. *Assumed public*: the number of records,
    and how many of them are in each partition, or the number of persons alone. *Not covered*: time
    and memory, and what Dask shows and logs of them.
    """

    parts: tuple[Any, ...]
    lengths: tuple[int, ...]
    work: Any
    d: int
    radius: float
    blocks: tuple[Block, ...]
    offset_bound: float
    bar: bool
    persons: int | None = None
    _thin: list[DenseRows] = field(default_factory=list)
    _seen: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, reader: Any, **limits: Any) -> DaskRows:
        """Make rows from a reader; they are kept if they fit into the memory for rows.

        Parameters
        ----------
        reader
            Labelled covariates in partitions: `p`, their number; the `lengths` of partitions, all
            above 0; `parts`, nodes of Dask; `open`, a `PartOpener` that travels to the tasks, and
            so holds no data; and `bar`, whether to show how far a graph is.
        **limits
            The bounds of rows: arguments of `RowBounds`.
        """
        if len(reader.parts) > MOST_PARTITIONS:
            raise SchemaError(
                f"data in {len(reader.parts)} partitions: a fit takes at most {MOST_PARTITIONS}; "
                "call repartition() on it first."
            )
        bounds = RowBounds(**limits)
        d, parts, lengths = bounds.width(reader.p), tuple(reader.parts), tuple(reader.lengths)
        work = graph.constant(Work(reader.open, bounds), "plan")
        facts = d, bounds.radius, bounds.blocks, bounds.offset_bound
        made = cls(parts, lengths, work, *facts, reader.bar, reader.persons)
        if sum(lengths) * (d + 1) * 8 <= memory_for_rows():
            parts = graph.persisted(made._tasks(Work.hold, graph.new_name("rows")), reader.bar)
        return replace(made, parts=parts)

    @property
    def n(self) -> int:
        return self.records if self.persons is None else self.persons

    @property
    def records(self) -> int:
        """The number of rows."""
        return sum(self.lengths)

    def _tasks(self, step: Callable[..., Any], name: str, *given: Any) -> list[Any]:
        """A task for each partition, which takes the same step."""
        return [
            graph.task(graph.attempt, name, (0, i), step, self.work, part, length, *given)
            for i, (part, length) in enumerate(zip(self.parts, self.lengths, strict=True))
        ]

    def fold(self, kernel: Kernel) -> tuple[Any, ...]:
        """Sum what `kernel` returns over blocks of rows, partition by partition, in a fixed tree.

        Under ``threads(1)`` the rows are sent to this thread, because some kernels,
        such as those of balls, cannot be sent. Each fold compares a checksum of all rows
        with that of the first, so data that change end a fit in the first pass that meets them.

        Raises
        ------
        SchemaError
            If the rows are not those of the first fold, or could not be read.
        """
        if alone():
            *sums, checksum = self._folded_here(kernel)
        else:
            name = graph.new_name("fold")
            leaves = self._tasks(Work.fold, name, graph.constant(kernel, "kernel"))
            ((*sums, checksum),) = graph.computed([graph.tree_sum(leaves, name)], self.bar)
        self._require_unchanged(checksum)
        return tuple(sums)

    def over_persons(self, function: Callable[[DenseRows], tuple[Any, ...]]) -> tuple[Any, ...]:
        """Sum what a function returns of the rows of each partition, which hold whole persons."""
        name = graph.new_name("persons")
        leaves = self._tasks(Work.of_persons, name, graph.constant(function, "function"))
        ((*sums, checksum),) = graph.computed([graph.tree_sum(leaves, name)], self.bar)
        self._require_unchanged(checksum)
        return tuple(sums)

    def fold_with_shares(self, kernel: Kernel) -> tuple[Any, ...]:
        """Sum what a kernel returns that takes the shares of persons after the tables."""
        return self.over_persons(partial(_fold_shares, kernel))

    def _require_unchanged(self, checksum: IntArray) -> None:
        found = int(checksum[0])
        if not self._seen:
            self._seen.append(found)
        elif found != self._seen[0]:
            raise graph.changed()

    def _folded_here(self, kernel: Kernel) -> tuple[Any, ...]:
        """The same sum in this thread, with one partition in memory at a time."""
        heights: list[tuple[int, tuple[Any, ...]]] = []
        for node in self._tasks(Work.hold, graph.new_name("rows")):
            (held,) = graph.computed([node])
            height, sums = 0, (*held.rows.fold(kernel), held.checksum)
            while heights and heights[-1][0] == height:
                height, sums = height + 1, added(heights.pop()[1], sums)
            heights.append((height, sums))
        last_first = (sums for _, sums in reversed(heights))
        return reduce(lambda last, before: added(before, last), last_first)

    def thinned(self, m: int) -> DenseRows:
        """About m of the rows, at equal distances, in the memory of this process.

        One pass, and none for fewer rows than an earlier call took.
        """
        if self._thin and self._thin[0].records >= min(m, self.records):
            found = self._thin[0]
            return found.thinned(m) if found.records >= 2 * m else found
        stride, name, first, tasks = max(self.records // m, 1), graph.new_name("thin"), 0, []
        for i, (part, length) in enumerate(zip(self.parts, self.lengths, strict=True)):
            start = -first % stride
            if start < length:
                given = (Work.thin, self.work, part, length, start, stride)
                tasks.append(graph.task(graph.attempt, name, (i,), *given))
            first += length
        pieces: list[DenseRows] = [held.rows for held in graph.computed(tasks, self.bar)]
        tables = map(np.concatenate, zip(*(rows.tables for rows in pieces), strict=True))
        made = pieces[0].with_table(*tables)
        if self.persons is not None:
            made = made.of_persons(max(round(self.persons * made.records / self.records), 1))
        self._thin[:] = [made]
        return self.thinned(m)

    def scores(self, coef: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Linear predictor and label of each usable row, all of them in this process."""
        tasks = self._tasks(Work.score, graph.new_name("scores"), graph.constant(coef, "coef"))
        link, label, checksums = zip(*graph.computed(tasks, self.bar), strict=True)
        self._require_unchanged(reduce(np.add, checksums))
        return np.concatenate(link), np.concatenate(label)

    def __reduce__(self) -> tuple[type[RowFacts], tuple[Any, ...]]:
        # kernels are sent with all that their closures hold, which must not include data
        return RowFacts, (self.n, self.d, self.radius, self.blocks, self.offset_bound)


def _fold_shares(kernel: Kernel, rows: DenseRows) -> tuple[Any, ...]:
    return rows.fold_with_shares(kernel)
