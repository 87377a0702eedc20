"""The scheduler that computes a Dask graph: its progress, its failures, its memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from typing import Any, NamedTuple, TypeAlias

from privatelr.errors import ArgumentError, PrivateLRError, SchemaError, redact_errors, show
from privatelr.progress_line import ProgressLine

_SHARE = 0.4
"""Largest share of the cluster's memory that rows in memory may take."""


Counted: TypeAlias = tuple[()] | tuple[int] | tuple[int, str]
"""What a line counts, and of what unless it is records; nothing for no line. It is public: the
records of persons are private, and the persons are counted."""


class Bar:
    """Shows how much of a graph over so many records is done; see `ProgressLine`."""

    def __init__(self, number: int, of: str = "records") -> None:
        self._line = ProgressLine("reading partitions", number, of)

    def __enter__(self) -> Bar:
        from dask.callbacks import Callback

        self._callback = Callback(posttask=self._look)
        self._callback.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._callback.__exit__(*error)
        self._line.remove()

    def _look(self, key: Any, result: Any, graph: Any, state: Any, worker: Any) -> None:
        done = len(state["finished"])
        left = sum(len(state[kind]) for kind in ("ready", "waiting", "running"))
        self._line.show(done / max(done + left, 1))


class Failure(NamedTuple):
    """The result of a task of this package that failed; it holds public facts only."""

    kind: type[PrivateLRError]
    message: str


def require_success(result: Any) -> Any:
    """The result of a task; raises the error of one that failed."""
    if isinstance(result, Failure):
        raise result.kind(result.message)
    return result


def outcome(what: str, function: Callable[..., Any], *given: Any) -> Any:
    """Call a function of this package in a task; returns a failure if it raises an error.

    An error that it raises on purpose is told, and of others `what` could not be done. `evaluated`
    tells it from what tasks of others raise, who may raise errors of the same classes.
    """
    try:
        with redact_errors(what):
            return function(*given)
    except PrivateLRError as error:
        return Failure(type(error), str(error))


def evaluated(nodes: Sequence[Any], what: str, *, bar: Counted = ()) -> list[Any]:
    """Evaluate Dask nodes in one graph, on the scheduler in charge, and return their values.

    Parameters
    ----------
    nodes : sequence of Delayed
    what : str
        What could not be done if a task raises an error, or a cluster is lost. Words of others are
        not quoted.
    bar : Counted
        What the progress line counts; a cluster has a page of its own, and no line.

    Raises
    ------
    PrivateLRError
        The first failure that a task returned, or a `SchemaError` if one raised an error, or if
        Dask has no scheduler.
    """
    import dask

    client_in_charge()
    with redact_errors(what, ours=()), Bar(*bar) if bar else nullcontext():
        values = dask.compute(*nodes)
    return list(map(require_success, values))


def client_in_charge() -> Any:
    """Return the client of the cluster in charge, or None if this process computes.

    Raises
    ------
    SchemaError
        If the scheduler is not there, which tells of no record.
    """
    import dask

    with suppress(RuntimeError, TypeError, ValueError):  # no client is connected, or a wrong name
        client = getattr(dask.base.get_scheduler(), "__self__", None)
        if getattr(client, "status", "running") not in ("closing", "closed"):
            return client
    raise SchemaError(
        "data: Dask's scheduler is closed, or is none that Dask knows; distributed.Client(...) "
        "connects a cluster for the next call."
    )


def memory_for_rows() -> float:
    """Return the bytes that rows may take in this process, or in all workers of the cluster.

    ``dask.config.set({"privatelr.memory": "4GiB"})`` sets them. The result is 0 if the memory is
    not known.
    """
    import dask
    from dask.utils import parse_bytes

    asked = dask.config.get("privatelr.memory", None)
    if asked is not None:
        try:
            return float(parse_bytes(asked))
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ArgumentError(
                f"privatelr.memory={show(asked)}: Dask's setting takes a number of bytes such as "
                '"4GiB".'
            ) from None
    client = client_in_charge()
    if hasattr(client, "run_on_scheduler"):
        with redact_errors("the memory of the cluster is not known", ours=()):
            return _SHARE * float(client.run_on_scheduler(_of_workers))
    try:
        from distributed.system import MEMORY_LIMIT
    except ImportError:
        return 0.0
    return _SHARE * float(MEMORY_LIMIT)


def _of_workers(dask_scheduler: Any) -> float:
    return float(sum(state.memory_limit or 0 for state in dask_scheduler.workers.values()))
