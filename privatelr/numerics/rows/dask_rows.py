"""Rows in the partitions of a Dask collection: one fold is one graph.

A partition becomes bounded rows by itself, under one plan, and they become one tuple of sums;
only sums are sent. Rows that fit into memory are kept there; others are read for every fold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any

from privatelr.dask_cluster import Counted, memory_for_rows
from privatelr.errors import SchemaError
from privatelr.numerics.parallel import alone
from privatelr.numerics.rows import dask_partitions as graph
from privatelr.numerics.rows.dense_rows import DenseRows, added
from privatelr.numerics.rows.partition_work import Held, Work, changed, in_any_order
from privatelr.numerics.rows.partitioned_rows import PartitionedRows
from privatelr.numerics.rows.row_bounds import RowBounds
from privatelr.types import Block, IntArray, Kernel

MOST_PARTITIONS = 2**16
"""Largest number of partitions, for which `numerics.rows.additions` bounds the tree of sums."""


def require_few(parts: Sequence[Any]) -> None:
    """Refuse more partitions than a tree of sums is proven for."""
    if len(parts) > MOST_PARTITIONS:
        raise SchemaError(
            f"data in {len(parts)} partitions: a fit takes at most {MOST_PARTITIONS}; call "
            "repartition() on it first."
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DaskRows(PartitionedRows):
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
    bar : Counted
        What the line of a graph counts.
    persons : int or None
        The number of persons, all of whose records are in one partition; None if each row is of its
        own.
    source : tuple of Delayed
        The partitions as they were given.
    client : Client or None
        The client of the cluster that was in charge when the call began.

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
    bar: Counted
    persons: int | None = None
    source: tuple[Any, ...] = ()
    client: Any = None
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
            so holds no data; `bar`, whether to show how far a graph is; and the `client`.
        **limits
            The bounds of rows: arguments of `RowBounds`.
        """
        require_few(reader.parts)
        bounds = RowBounds(**limits)
        d, parts, lengths = bounds.width(reader.p), tuple(reader.parts), tuple(reader.lengths)
        counted: Counted = (
            (sum(lengths),) if reader.persons is None else (reader.persons, "persons")
        )
        bar = counted if reader.bar else ()
        work = graph.constant(Work(reader.open, bounds), "plan")
        facts = d, bounds.radius, bounds.blocks, bounds.offset_bound
        client = reader.client
        made = cls(parts, lengths, work, *facts, bar, reader.persons, parts, client)
        if sum(lengths) * (d + 1) * 8 <= memory_for_rows(client):
            held = made._tasks(Work.hold, graph.new_name("rows"))
            parts = graph.persisted(held, bar, client)
        return replace(made, parts=parts)

    @property
    def records(self) -> int:
        """The number of rows."""
        return sum(self.lengths)

    def watched(self) -> Callable[[], Any]:
        """Also of rows that are kept, whose source may have another order at each reading."""
        if self.parts is self.source:
            return PartitionedRows.watched(self)
        expected = self.fold(in_any_order)
        again = replace(self, parts=self.source, _seen=[], _thin=[])
        return partial(_require_equal, again, expected)

    def _tasks(self, step: Callable[..., Any], name: str, *given: Any) -> list[Any]:
        """A task for each partition, which takes the same step."""
        return [
            graph.task(graph.attempt, name, (0, i), step, self.work, part, length, *given)
            for i, (part, length) in enumerate(zip(self.parts, self.lengths, strict=True))
        ]

    def _every(self, step: Callable[..., Any], *given: Any) -> list[Any]:
        constants = [graph.constant(value, "given") for value in given]
        return self._computed(self._tasks(step, graph.new_name("step"), *constants))

    def _computed(self, nodes: Sequence[Any]) -> list[Any]:
        return graph.computed(nodes, self.bar, self.client)

    def _sums(self, kernel: Kernel) -> tuple[Any, ...]:
        """Sum in a fixed tree.

        Under ``threads(1)`` the rows are sent to this thread, because some kernels, such as those
        of balls, cannot be sent.
        """
        if alone():
            return self._folded_here(kernel)
        return self._added(Work.fold, "fold", kernel)

    def _added(self, step: Callable[..., Any], name: str, kernel: Any) -> tuple[Any, ...]:
        leaves = self._tasks(step, graph.new_name(name), graph.constant(kernel, "kernel"))
        found: tuple[Any, ...]
        (found,) = self._computed([graph.tree_sum(leaves, graph.new_name(name))])
        return found

    def over_persons(self, function: Callable[[DenseRows], tuple[Any, ...]]) -> tuple[Any, ...]:
        """Sum what a function returns of the rows of each partition, which hold whole persons."""
        *sums, checksum = self._added(Work.of_persons, "persons", function)
        self._require_unchanged(checksum)
        return tuple(sums)

    def fold_with_shares(self, kernel: Kernel) -> tuple[Any, ...]:
        """Sum what a kernel returns that takes the shares of persons after the tables."""
        return self.over_persons(partial(_fold_shares, kernel))

    def _folded_here(self, kernel: Kernel) -> tuple[Any, ...]:
        """The same sum in this thread, with one partition in memory at a time."""
        heights: list[tuple[int, tuple[Any, ...]]] = []
        for node in self._tasks(Work.hold, graph.new_name("rows")):
            (held,) = graph.computed([node], before=self.client)
            height, sums = 0, (*held.rows.fold(kernel), held.checksum)
            while heights and heights[-1][0] == height:
                height, sums = height + 1, added(heights.pop()[1], sums)
            heights.append((height, sums))
        last_first = (sums for _, sums in reversed(heights))
        return reduce(lambda last, before: added(before, last), last_first)

    def _thinned(self, stride: int) -> list[Held]:
        name, first, tasks = graph.new_name("thin"), 0, []
        for i, (part, length) in enumerate(zip(self.parts, self.lengths, strict=True)):
            start = -first % stride
            if start < length:
                given = (Work.thin, self.work, part, length, start, stride)
                tasks.append(graph.task(graph.attempt, name, (i,), *given))
            first += length
        return self._computed(tasks)


def _require_equal(rows: DaskRows, expected: tuple[IntArray, ...]) -> None:
    if int(rows.fold(in_any_order)[0][0]) != int(expected[0][0]):
        raise changed()


def _fold_shares(kernel: Kernel, rows: DenseRows) -> tuple[Any, ...]:
    return rows.fold_with_shares(kernel)
