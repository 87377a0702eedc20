"""The scheduler that computes a Dask graph: its progress, whether it is there, its memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, NamedTuple, TypeAlias

from privatelr.errors import (
    ArgumentError,
    ClusterError,
    PrivateLRError,
    raised_by_signal_handler,
    redact_errors,
    show,
)
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


def outcome(function: Callable[..., Any], *given: Any) -> Any:
    """Call a function of this package in a task; returns a failure if it refuses what is given.

    `evaluated` tells it from what tasks of others raise, who may raise errors of the same classes.
    """
    try:
        return function(*given)
    except PrivateLRError as error:
        return Failure(type(error), str(error))


def evaluated(
    nodes: Sequence[Any], what: str, *, bar: Counted = (), before: Any = None
) -> list[Any]:
    """Evaluate Dask nodes in one graph, on the scheduler in charge, and return their values.

    Parameters
    ----------
    nodes : sequence of Delayed
    what : str
        What could not be done if a task raises an error, whose words are not quoted.
    bar : Counted
        What the progress line counts; a cluster has a page of its own, and no line.
    before : Client, optional
        As for `client_in_charge`.

    Raises
    ------
    ClusterError
        If the cluster or its client was closed or lost, or if no client is connected to it.
    PrivateLRError
        The first failure that a task returned, or a `SchemaError` if one raised an error.
    """
    with redact_errors(what):
        client = client_in_charge(before)
    if client is None:
        with Bar(*bar) if bar else nullcontext():
            return list(map(require_success, _evaluated_here(nodes, what)))
    with while_open(client):
        gathered = _gathered(client, nodes, what)
    return list(map(require_success, gathered))


def _gathered(client: Any, nodes: Sequence[Any], what: str) -> list[Any]:
    from distributed import wait

    with redact_errors(what, ours=()):  # nodes of others are pickled
        futures = client.compute(list(nodes))
    try:
        with client.as_current():  # the default client may be another one, or none
            wait(futures)
        with redact_errors(what, ours=()):
            return list(client.gather(futures))
    finally:  # a notebook keeps the traceback of an interrupt, and the cluster would go on
        for future in futures:
            future.release()


def _evaluated_here(nodes: Sequence[Any], what: str) -> list[Any]:
    import dask

    with redact_errors(what, ours=()):
        try:
            return list(dask.compute(*nodes))
        except ValueError:  # of rows that a cluster keeps, once it was closed
            if not _has_futures(nodes):
                raise
    raise _closed("no client is connected to it")


def _has_futures(nodes: Sequence[Any]) -> bool:
    with suppress(ImportError):
        from distributed import futures_of

        return bool(futures_of(list(nodes)))
    return False


@contextmanager
def while_open(client: Any) -> Iterator[None]:
    """Say of an error within the block that the cluster or its client is gone, if that is so.

    Dask raises errors of many classes then. The client may be None.
    """
    try:
        yield
    except Exception as error:
        if client is not None and not raised_by_signal_handler(error):
            _require_open(client)
            if isinstance(error, CancelledError):
                raise _closed(
                    "its scheduler was lost, or has not got rows that another cluster keeps"
                ) from None
        raise


def _require_open(client: Any) -> None:
    if client.status in ("closing", "closed"):
        raise _closed("its client was closed") from None


def _closed(how: str) -> ClusterError:
    return ClusterError(
        f"data: the Dask cluster could not go on, because {how}; distributed.Client(...) connects "
        "one for the next call, and a charge that was made for this call stands."
    )


def client_in_charge(before: Any = None) -> Any:
    """Return the client of the cluster in charge, or None.

    Parameters
    ----------
    before : Client, optional
        The one that was in charge when the call began. Once the default client is closed, Dask
        would go on with threads of this process.

    Raises
    ------
    ClusterError
        If the client was closed, or a cluster is asked for and no client is connected.
    """
    import dask

    try:
        client: Any = getattr(dask.base.get_scheduler(), "__self__", None)
    except RuntimeError:  # Dask is told to use a cluster, and finds no open client
        raise _closed("no client is connected to it") from None
    if not hasattr(client, "run_on_scheduler"):
        if before is not None:
            _require_open(before)
        return None
    _require_open(client)
    return client


def client_at_start() -> Any:
    """Return the client in charge as a call begins; None if there is none, also for an error.

    What is wrong with the settings of Dask is said by the first pass.
    """
    with suppress(ClusterError, TypeError, ValueError):
        return client_in_charge()
    return None


def memory_for_rows(before: Any = None) -> float:
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
    client = client_in_charge(before)
    if client is not None:
        with while_open(client):
            return _SHARE * float(client.run_on_scheduler(_of_workers))
    try:
        from distributed.system import MEMORY_LIMIT
    except ImportError:
        return 0.0
    return _SHARE * float(MEMORY_LIMIT)


def _of_workers(dask_scheduler: Any) -> float:
    return float(sum(state.memory_limit or 0 for state in dask_scheduler.workers.values()))
