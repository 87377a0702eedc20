"""What is in charge of a Dask graph: how far it is, and how much memory it has."""

from __future__ import annotations

import sys
import time
from typing import Any

from privatelr.errors import ArgumentError, show

_OFTEN = 0.5
"""Seconds between two looks at a bar."""
_LENGTH = 40
_SHARE = 0.4
"""Of the memory there is, for rows that are kept."""


class Bar:
    """How much of a graph is done, on one line that is gone at the end.

    It is drawn by the clock and never counts passes: their number is a function of the data,
    and shows in the time that a fit takes, as ever.
    """

    def __enter__(self) -> None:
        from dask.callbacks import Callback

        self._drawn = time.monotonic()
        self._width = 0
        self._callback = Callback(posttask=self._look)
        self._callback.__enter__()

    def __exit__(self, *error: object) -> None:
        self._callback.__exit__(*error)
        self._draw("")

    def _look(self, key: Any, result: Any, graph: Any, state: Any, worker: Any) -> None:
        if time.monotonic() - self._drawn >= _OFTEN:
            done = len(state["finished"])
            left = sum(len(state[kind]) for kind in ("ready", "waiting", "running"))
            full = _LENGTH * done // max(done + left, 1)
            self._draw(f"reading partitions |{'#' * full:<{_LENGTH}}|")

    def _draw(self, line: str) -> None:
        if line or self._width:
            sys.stderr.write(f"\r{line:<{self._width}}" + ("" if line else "\r"))
            sys.stderr.flush()
            self._drawn, self._width = time.monotonic(), len(line)


def follow(futures: Any) -> None:
    """Wait under the bar of the cluster, which goes away at the end too."""
    from distributed import progress

    progress(futures, notebook=False)


def client_in_charge() -> Any:
    """The client of the cluster in charge, or None."""
    import dask

    client = getattr(dask.base.get_scheduler(), "__self__", None)
    return client if hasattr(client, "run_on_scheduler") else None


def memory_for_rows() -> float:
    """Bytes that rows may take: of this process, or of all workers of the cluster in charge.

    ``dask.config.set({"privatelr.memory": "4GiB"})`` says otherwise. Where nothing is known, 0.
    """
    import dask
    from dask.utils import parse_bytes

    asked = dask.config.get("privatelr.memory", None)
    if asked is not None:
        try:
            return float(parse_bytes(asked))
        except (TypeError, ValueError):
            raise ArgumentError(
                f"privatelr.memory={show(asked)}: Dask's setting takes a number of bytes such as "
                '"4GiB".'
            ) from None
    client = client_in_charge()
    if client is not None:
        return _SHARE * float(client.run_on_scheduler(_of_workers))
    try:
        from distributed.system import MEMORY_LIMIT
    except ImportError:
        return 0.0
    return _SHARE * float(MEMORY_LIMIT)


def _of_workers(dask_scheduler: Any) -> float:
    return float(sum(state.memory_limit or 0 for state in dask_scheduler.workers.values()))
