"""Graphs of tasks over the partitions of a Dask collection, and what may leave a task.

Tasks are named by chance and by their place, never by what they read. One that fails returns
why: a scheduler that hears of an exception writes the arguments of the task to its log.
"""

from __future__ import annotations

import uuid
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from privatelr.dask_cluster import Bar, client_in_charge, evaluated, wait_for
from privatelr.errors import PrivateLRError, quoting_nothing
from privatelr.numerics.rows import added
from privatelr.numerics.threads import in_order, threads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")
_UNREAD = "a partition could not be read or summed"
_FAN = 8
"""Results that one task adds up, in pairs."""


class Failure(NamedTuple):
    """What a task returns that could not be done; public facts only."""

    kind: type[PrivateLRError]
    message: str


def guarded(compute: Callable[[], T]) -> T | Failure:
    """What `compute` returns, or its failure, in words that quote no data.

    A task has one thread: others are busy with other partitions.
    """
    try:
        with np.errstate(all="ignore"), threads(1), quoting_nothing(_UNREAD):
            return compute()
    except PrivateLRError as error:
        return Failure(type(error), str(error))


def new_name(purpose: str) -> str:
    """A name for the tasks of one graph."""
    return f"privatelr-{purpose}-{uuid.uuid4().hex}"


def constant(value: Any, purpose: str) -> Any:
    """A node that holds `value`, which every task of a graph can share."""
    from dask.delayed import delayed

    return delayed(value, name=new_name(purpose), pure=False, traverse=False)


def task(function: Callable[..., Any], name: str, place: tuple[int, ...], *given: Any) -> Any:
    """The node that calls a function, under a name and its place in the graph."""
    from dask.delayed import delayed

    return delayed(function, pure=False)(*given, dask_key_name="-".join([name, *map(str, place)]))


def tree_sum(nodes: Sequence[Any], name: str) -> Any:
    """A node that adds up tuples: a term goes through the logarithm to base 2 of additions.

    Who adds what to what is fixed, so the sum does not depend on who is done first.
    """
    level = 0
    while len(nodes) > 1:
        level += 1
        groups = [nodes[start : start + _FAN] for start in range(0, len(nodes), _FAN)]
        nodes = [task(_pairwise, name, (level, i), *group) for i, group in enumerate(groups)]
    return nodes[0]


def _pairwise(*given: Any) -> Any:
    results = list(given)
    failed = next((result for result in results if isinstance(result, Failure)), None)
    if failed is not None:
        return failed
    while len(results) > 1:
        pairs = [results[start : start + 2] for start in range(0, len(results), 2)]
        results = [added(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return results[0]


def computed(nodes: Sequence[Any], bar: bool = False) -> list[Any]:
    """What the nodes evaluate to on the scheduler in charge, in one graph.

    Raises
    ------
    PrivateLRError
        If a task failed: the first failure, in the order of the nodes.
    """

    def run(_: int) -> Sequence[Any]:
        return evaluated(nodes, bar=bar)

    # the library's threads are held back here and not in each task: a process has one setting
    with quoting_nothing(_UNREAD):
        (results,) = in_order(run, (0,))
    for result in results:
        if isinstance(result, Failure):
            raise result.kind(result.message)
    return list(results)


def persisted(nodes: Sequence[Any], bar: bool = False) -> tuple[Any, ...]:
    """The nodes, whose values stay where they are computed."""
    import dask

    client = client_in_charge()

    def run(_: int) -> Sequence[Any]:
        with Bar() if bar and client is None else nullcontext():
            return tuple(dask.persist(*nodes))

    with quoting_nothing(_UNREAD):
        (found,) = in_order(run, (0,))
        if bar and client is not None:
            wait_for(client, _futures(found), bar=True)
    return tuple(found)


def _futures(nodes: Sequence[Any]) -> Any:
    from distributed import futures_of

    return futures_of(nodes)
