"""The scheduler that computes a Dask graph: its progress, whether it answers, its memory."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, NamedTuple, TypeAlias

from privatelr.errors import (
    ArgumentError,
    ClusterError,
    PrivateLRError,
    redact_errors,
    show,
)
from privatelr.progress_line import OFTEN, ProgressLine

_ANSWER = 5.0
"""Seconds within which a working scheduler answers a request."""
_PATIENCE = "5 minutes"
"""Default time that a fit waits for a cluster that has no worker or does not answer."""
_BEATS = 10
"""Heartbeats that a working worker may miss; its scheduler gives it up after as many at least."""
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

    def show(self, done: int, left: int) -> None:
        """Draw how many of the known tasks are done."""
        self._line.draw(done / max(done + left, 1))


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
        What the progress line counts.
    before : Client, optional
        As for `client_in_charge`.

    Raises
    ------
    ClusterError
        If the cluster had no worker, or did not answer, for as long as
        ``dask.config.get("privatelr.timeout")`` says; or if no client is connected to it.
    PrivateLRError
        The first failure that a task returned, or a `SchemaError` if one raised an error.
    """
    with redact_errors(what):
        client = client_in_charge(before)
    if client is None:
        with Bar(*bar) if bar else nullcontext():
            return list(map(require_success, _evaluated_here(nodes, what)))
    with while_open(client):
        gathered = _gathered(client, nodes, what, bar)
    return list(map(require_success, gathered))


def _gathered(client: Any, nodes: Sequence[Any], what: str, bar: Counted) -> list[Any]:
    patience = _patience()
    with redact_errors(what, ours=()):  # nodes of others are pickled
        futures = client.compute(list(nodes))
    try:
        wait_for(client, futures, bar=bar)
        # what a task raises is no ClusterError: `_asked` has words of its own for such an error
        with redact_errors(what, ours=(ClusterError,)):
            return list(_asked(client, client.gather, patience, futures, asynchronous=True))
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


def wait_for(client: Any, futures: Any, *, bar: Counted = ()) -> None:
    """Wait for a cluster's results, as long as it has workers and its scheduler answers.

    Tasks of a worker that freezes go to the others, as the scheduler itself would move them later.
    """
    from distributed.client import FuturesCancelledError

    patience, heard = _patience(), time.monotonic()
    keys = [future.key for future in futures]
    wanted = keys if bar else []
    done, left = 0, len(futures)
    with while_open(client), Bar(*bar) if bar else nullcontext() as shown:
        if shown is not None:
            shown.show(done, left)
        while True:
            try:
                # a client that is closed meanwhile may never end what it was asked
                client.sync(_finished, client, futures, callback_timeout=_ANSWER)
                return
            except FuturesCancelledError:
                lost = "its scheduler was lost, or has not got rows that another cluster keeps"
                raise _closed(lost) from None
            except TimeoutError:
                pass  # it is asked below whether the cluster still works
            _require_open(client)
            ask, seconds = client.run_on_scheduler, min(_ANSWER, patience)
            try:
                workers, silent, done, left = _asked(
                    client, ask, seconds, _state, wanted=wanted, patience=patience
                )
                if workers and silent:
                    _asked(client, ask, seconds, _let_go, wanted=keys, patience=patience)
            except ClusterError:
                workers = 0
            if workers:
                heard = time.monotonic()
            elif time.monotonic() - heard >= patience:
                raise _lost(f"it had no worker, or did not answer, for {patience:g} seconds")
            if shown is not None:
                shown.show(done, left)


def _finished(client: Any, futures: Any) -> Any:
    """What the thread of a client awaits, for a short time, until all results are there."""
    from distributed import wait

    with client.as_current():  # the default client may be another one, or none
        return wait(futures, timeout=OFTEN)


def _asked(
    client: Any, question: Callable[..., Any], seconds: float, *given: Any, **more: Any
) -> Any:
    """Call a method of a cluster's client, and return its answer within so many seconds."""
    from distributed.comm import CommClosedError

    # a result may be an OSError of its task, and a question to the scheduler has no such error
    gone = (CommClosedError, CancelledError) if question == client.gather else (OSError,)
    try:
        return client.sync(lambda: question(*given, **more), callback_timeout=seconds)
    except (TimeoutError, *gone) as error:
        is_late = isinstance(error, TimeoutError)
        what = f"did not answer for {seconds:g} seconds" if is_late else "was lost"
        raise _lost(f"its scheduler {what}") from None


@contextmanager
def while_open(client: Any) -> Iterator[None]:
    """Say of an error within the block that the client was closed, if it was; it may be None.

    Dask raises errors of many classes then.
    """
    try:
        yield
    except Exception:
        if client is not None:
            _require_open(client)
        raise


def _require_open(client: Any) -> None:
    if client.status in ("closing", "closed"):
        raise _closed("its client was closed") from None


def _lost(how: str) -> ClusterError:
    return _ended(how, "dask.config.set({'privatelr.timeout': '1 hour'}) waits longer")


def _closed(how: str) -> ClusterError:
    return _ended(how, "distributed.Client(...) connects one for the next call")


def _ended(how: str, remedy: str) -> ClusterError:
    return ClusterError(
        f"data: the Dask cluster could not go on, because {how}; {remedy}, and a charge that was "
        "made for this call stands."
    )


def _setting(asked: Any, name: str, parse: Callable[[Any], float], above: float, say: str) -> float:
    """Return the number in a Dask setting of this package."""
    try:
        found = float(parse(asked))
    except (AttributeError, KeyError, TypeError, ValueError):
        found = math.nan
    if found > above:
        return found
    raise ArgumentError(f"privatelr.{name}={show(asked)}: Dask's setting takes {say}.")


def _patience() -> float:
    """Return the seconds to wait for an idle cluster; Dask's setting ``privatelr.timeout``."""
    import dask
    from dask.utils import parse_timedelta

    asked = dask.config.get("privatelr.timeout", _PATIENCE)
    return _setting(asked, "timeout", parse_timedelta, 0.0, 'a time above 0 such as "5 minutes"')


def _silent(dask_scheduler: Any, patience: float) -> list[Any]:
    """Return the workers that a scheduler does not hear of.

    A worker that is busy is heard of, and one that is frozen is not, for as many seconds as the
    patience, or for ten heartbeats if that is longer, as in a large cluster.
    """
    from distributed.metrics import time as now
    from distributed.scheduler import heartbeat_interval

    workers = dask_scheduler.workers
    since = now() - max(patience, _BEATS * heartbeat_interval(len(workers)))
    return [state for state in workers.values() if state.last_seen < since]


async def _let_go(dask_scheduler: Any, wanted: Sequence[Any], patience: float) -> None:
    """Take the silent workers from a scheduler that have what the wanted tasks wait for.

    A task that took several workers with it ends in an error of the scheduler's.
    """
    tasks = dask_scheduler.tasks
    needed = {tasks[key] for key in wanted if key in tasks}
    fresh = list(needed)
    while fresh:
        one = fresh.pop()
        more = set() if one.state == "memory" else one.dependencies - needed
        needed |= more
        fresh += more
    for state in _silent(dask_scheduler, patience):
        if not (needed.isdisjoint(state.processing) and needed.isdisjoint(state.has_what)):
            await dask_scheduler.remove_worker(state.address, stimulus_id="privatelr-silent")


def _state(
    dask_scheduler: Any, wanted: Sequence[Any], patience: float
) -> tuple[int, int, int, int]:
    """Return workers that are heard of and silent, and tasks of a graph that are done and left.

    The graph is what leads to the wanted tasks, up to results that somebody keeps, such as rows.
    """
    tasks, silent = dask_scheduler.tasks, len(_silent(dask_scheduler, patience))
    found = {tasks[key] for key in wanted if key in tasks}
    fresh, done = list(found), 0
    while fresh:
        one = fresh.pop()
        # a result that its dependents have used is let go of, and the task is then "released"
        done += one.state in ("memory", "released", "erred")
        more = {task for task in one.dependencies if not task.who_wants} - found
        found |= more
        fresh += more
    return len(dask_scheduler.workers) - silent, silent, done, len(found) - done


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
        takes = 'a number of bytes such as "4GiB"'
        return _setting(asked, "memory", parse_bytes, -math.inf, takes)
    client = client_in_charge(before)
    if client is not None:
        with while_open(client):
            return _SHARE * float(_asked(client, client.run_on_scheduler, _patience(), _of_workers))
    try:
        from distributed.system import MEMORY_LIMIT
    except ImportError:
        return 0.0
    return _SHARE * float(MEMORY_LIMIT)


def _of_workers(dask_scheduler: Any) -> float:
    return float(sum(state.memory_limit or 0 for state in dask_scheduler.workers.values()))
