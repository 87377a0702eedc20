"""Rows in the partitions of a Dask collection: one fold is one graph.

Tasks and their arguments can be sent to workers. Their names are random and never depend on what
they read. A task that fails returns the reason: a scheduler that receives an exception writes the
arguments of the task to its log.

A partition becomes bounded rows by itself, under one plan, and they become one tuple of sums;
only sums are sent. Rows that fit into memory are kept there; others are read for every fold.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import methodcaller
from typing import Any

import numpy as np

from privatelr.dask_cluster import (
    Bar,
    Counted,
    Failure,
    evaluated,
    memory_for_rows,
    outcome,
)
from privatelr.errors import SchemaError, redact_errors
from privatelr.numerics.parallel import alone, in_order, threads
from privatelr.numerics.rows.dense_rows import DenseRows, added
from privatelr.numerics.rows.partition_work import (
    Held,
    KeptWork,
    PartOpener,
    Work,
    changed,
    in_any_order,
)
from privatelr.numerics.rows.partitioned_rows import PartitionedRows
from privatelr.numerics.rows.row_bounds import RowBounds
from privatelr.types import IntArray, Kernel

MOST_PARTITIONS = 2**16
"""Largest number of partitions, for which `numerics.rows.additions` bounds the tree of sums."""


def require_few(parts: Sequence[Any]) -> None:
    """Refuse more partitions than a tree of sums is proven for."""
    if len(parts) > MOST_PARTITIONS:
        raise SchemaError(
            f"data in {len(parts)} partitions: a fit takes at most {MOST_PARTITIONS}; call "
            "repartition() on it first."
        )


_UNREAD = "a partition could not be read or summed"
_FAN = 8
"""Number of results that one task adds up, in pairs."""


# --- graphs ---------------------------------------------------------------------------------


def attempt(step: str, work: Work, part: Any, *given: Any) -> Any:
    """Do a step of the work on a partition; returns a failure, which quotes no data, on error.

    A task has one thread: others are busy with other partitions.
    """
    if isinstance(part, Failure):
        return part
    with np.errstate(all="ignore"), threads(1):
        return outcome(_UNREAD, getattr(work, step), part, *given)


def new_name(purpose: str) -> str:
    """A name for the tasks of one graph."""
    return f"privatelr-{purpose}-{uuid.uuid4().hex}"


def constant(value: Any, purpose: str) -> Any:
    """Return a node that holds `value`, which every task of a graph can share."""
    from dask.delayed import delayed

    return delayed(value, name=new_name(purpose), pure=False, traverse=False)


def task(function: Callable[..., Any], name: str, place: tuple[int, ...], *given: Any) -> Any:
    """The node that calls a function, under a name and its place in the graph."""
    from dask.delayed import delayed

    return delayed(function, pure=False)(*given, dask_key_name="-".join([name, *map(str, place)]))


def tree_sum(nodes: Sequence[Any], name: str) -> Any:
    """Return a node that adds up k tuples; a term goes through about ``log2(k)`` additions.

    The order of additions is fixed, so the sum does not depend on which task is done first.
    """
    level = 0
    while len(nodes) > 1:
        level += 1
        groups = [nodes[start : start + _FAN] for start in range(0, len(nodes), _FAN)]
        nodes = [task(_pairwise, name, (level, i), *group) for i, group in enumerate(groups)]
    return nodes[0]


def _pairwise(*given: Any) -> Any:
    failed = next((result for result in given if isinstance(result, Failure)), None)
    if failed is not None:
        return failed
    results: Sequence[Any] = given
    while len(results) > 1:
        pairs = [results[start : start + 2] for start in range(0, len(results), 2)]
        results = [reduce(added, pair) for pair in pairs]
    return results[0]


def computed(nodes: Sequence[Any], bar: Counted = ()) -> list[Any]:
    """What the nodes evaluate to on the scheduler in charge, in one graph; see `evaluated`.

    Raises
    ------
    PrivateLRError
        If a task failed: the first failure, in the order of the nodes.
    """
    # threads of the library are limited here and not in each task: a process has one setting
    with redact_errors(_UNREAD):
        (results,) = in_order(lambda _: evaluated(nodes, _UNREAD, bar=bar), (0,))
    return results


def persisted(nodes: Sequence[Any], bar: Counted = ()) -> tuple[Any, ...]:
    """The nodes, whose values stay where they are computed."""
    import dask

    # tasks of this package return their failures, so that what is raised is of others
    with redact_errors(_UNREAD, ours=()), Bar(*bar) if bar else nullcontext():
        (found,) = in_order(lambda _: dask.persist(*nodes), (0,))
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
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
    bar : Counted
        What the line of a graph counts.
    persons : int or None
        The number of persons, all of whose records are in one partition; None if each row is of its
        own.
    unread : DaskRows or None
        The rows of the partitions as they were given, if these are kept.

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
    bar: Counted
    unread: DaskRows | None = None

    @classmethod
    def of(
        cls,
        parts: tuple[Any, ...],
        opener: PartOpener,
        p: int,
        lengths: tuple[int, ...],
        *,
        bar: bool = False,
        persons: int | None = None,
        **limits: Any,
    ) -> DaskRows:
        """Make rows of partitions; they are kept if they fit into the memory for rows.

        Parameters
        ----------
        parts : tuple of Delayed
            Partitions that have records.
        opener
            Travels to the tasks, and so holds no data.
        p : int
            The number of covariates.
        lengths : tuple of int
            Records of each partition.
        bar : bool
            Whether to show how far a graph is.
        persons
            As the attribute.
        **limits
            The bounds of rows: arguments of `RowBounds`.
        """
        require_few(parts)
        bounds = RowBounds(**limits)
        counted: Counted = (sum(lengths),) if persons is None else (persons, "persons")
        made = cls(
            parts=parts,
            lengths=lengths,
            records=sum(lengths),
            work=constant(Work(opener, bounds), "plan"),
            d=bounds.width(p),
            radius=bounds.radius,
            blocks=bounds.blocks,
            offset_bound=bounds.offset_bound,
            bar=counted if bar else (),
            persons=persons,
        )
        if made.records * (made.d + 1) * 8 > memory_for_rows():
            return made
        kept = persisted(made._tasks("hold", new_name("rows")), made.bar)
        work = constant(KeptWork(opener, bounds), "plan")
        return replace(made, parts=kept, work=work, unread=made, _thin=[], _seen=[])

    def watched(self) -> Callable[[], Any] | None:
        """Also of rows that are kept, whose source may have another order at each reading."""
        if self.unread is None:
            return PartitionedRows.watched(self)
        return partial(_require_equal, self.unread, self.fold(in_any_order))

    def _tasks(self, step: str, name: str, *given: Any) -> list[Any]:
        """A task for each partition, which takes the same step."""
        return [
            task(attempt, name, (0, i), step, self.work, part, length, *given)
            for i, (part, length) in enumerate(zip(self.parts, self.lengths, strict=True))
        ]

    def _every(self, step: str, *given: Any) -> list[Any]:
        constants = [constant(value, "given") for value in given]
        return computed(self._tasks(step, new_name("step"), *constants), self.bar)

    def _sums(self, kernel: Kernel) -> tuple[Any, ...]:
        """Sum in a fixed tree.

        Under ``threads(1)`` the rows are sent to this thread, because some kernels, such as those
        of balls, cannot be sent.
        """
        if alone():
            return self._folded_here(kernel)
        return self._added("fold", kernel)

    def _added(self, step: str, kernel: Any) -> tuple[Any, ...]:
        leaves = self._tasks(step, new_name(step), constant(kernel, "kernel"))
        found: tuple[Any, ...]
        (found,) = computed([tree_sum(leaves, new_name(step))], self.bar)
        return found

    def over_persons(self, function: Callable[[DenseRows], tuple[Any, ...]]) -> tuple[Any, ...]:
        """Sum what a function returns of the rows of each partition, which hold whole persons."""
        *sums, checksum = self._added("of_persons", function)
        self._require_unchanged(checksum)
        return tuple(sums)

    def fold_with_shares(self, kernel: Kernel) -> tuple[Any, ...]:
        """Sum what a kernel returns that takes the shares of persons after the tables."""
        return self.over_persons(methodcaller("fold_with_shares", kernel))

    def _folded_here(self, kernel: Kernel) -> tuple[Any, ...]:
        """The same sum in this thread, with one partition in memory at a time."""
        heights: list[tuple[int, tuple[Any, ...]]] = []
        for node in self._tasks("hold", new_name("rows")):
            (held,) = computed([node])
            height, sums = 0, (*held.rows.fold(kernel), held.checksum)
            while heights and heights[-1][0] == height:
                height, sums = height + 1, added(heights.pop()[1], sums)
            heights.append((height, sums))
        last_first = (sums for _, sums in reversed(heights))
        return reduce(lambda last, before: added(before, last), last_first)

    def _thinned(self, stride: int) -> list[Held]:
        name, first, tasks = new_name("thin"), 0, []
        for i, (part, length) in enumerate(zip(self.parts, self.lengths, strict=True)):
            start = -first % stride
            if start < length:
                given = ("thin", self.work, part, length, start, stride)
                tasks.append(task(attempt, name, (i,), *given))
            first += length
        return computed(tasks, self.bar)


def _require_equal(rows: DaskRows, expected: tuple[IntArray, ...]) -> None:
    if int(rows.fold(in_any_order)[0][0]) != int(expected[0][0]):
        raise changed()
