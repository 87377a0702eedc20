"""Graphs of work on the partitions of a Dask collection, on the workers that hold them.

Tasks and their arguments can be sent to workers. Their names are random and never depend
on what they read. A task that fails returns the reason: a scheduler that receives an exception
writes the arguments of the task to its log.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import reduce
from typing import Any

import numpy as np

from privatelr.dask_cluster import (
    Bar,
    Counted,
    Failure,
    client_in_charge,
    evaluated,
    while_open,
)
from privatelr.errors import PrivateLRError, redact_errors
from privatelr.numerics.parallel import in_order, threads
from privatelr.numerics.rows.dense_rows import added
from privatelr.numerics.rows.partition_work import Work

_UNREAD = "a partition could not be read or summed"
_FAN = 8
"""Number of results that one task adds up, in pairs."""


# --- graphs ---------------------------------------------------------------------------------


def attempt(step: Callable[..., Any], work: Work, part: Any, *given: Any) -> Any:
    """Do a step of the work on a partition; returns a failure, which quotes no data, on error.

    A task has one thread: others are busy with other partitions.
    """
    if isinstance(part, Failure):
        return part
    try:
        with np.errstate(all="ignore"), threads(1), redact_errors(_UNREAD):
            return step(work, part, *given)
    except PrivateLRError as error:
        return Failure(type(error), str(error))


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


def computed(nodes: Sequence[Any], bar: Counted = (), before: Any = None) -> list[Any]:
    """What the nodes evaluate to on the scheduler in charge, in one graph; see `evaluated`.

    Raises
    ------
    PrivateLRError
        If a task failed: the first failure, in the order of the nodes.
    """
    # threads of the library are limited here and not in each task: a process has one setting
    with redact_errors(_UNREAD):
        (results,) = in_order(lambda _: evaluated(nodes, _UNREAD, bar=bar, before=before), (0,))
    return results


def persisted(nodes: Sequence[Any], bar: Counted = (), before: Any = None) -> tuple[Any, ...]:
    """The nodes, whose values stay where they are computed."""
    import dask

    client = client_in_charge(before)
    # tasks of this package return their failures, so that what is raised is of others
    shown = Bar(*bar) if bar and client is None else nullcontext()
    with while_open(client), redact_errors(_UNREAD, ours=()), shown:
        (found,) = in_order(lambda _: dask.persist(*nodes), (0,))
    return tuple(found)
