"""Fits on a cluster whose workers freeze."""

import os
import signal
import time
from types import SimpleNamespace

import pytest
from dask_for_tests import in_parts, local_cluster, one_noise
from frames_for_laws import FORMULA, SCHEMA
from repeated_noise import trial

from privatelr import ClusterError, dask_cluster, dplr

dask = pytest.importorskip("dask", reason="needs the extra [dask]")
distributed = pytest.importorskip("distributed", reason="needs the extra [dask]")

pytestmark = pytest.mark.usefixtures(one_noise.__name__)


def slow(part):
    time.sleep(0.5)
    return part


def lazy():
    frame = trial(100)
    return in_parts(frame, 20, 20, 20).map_partitions(slow, meta=frame.iloc[:0])


# --- workers that freeze --------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(dask_cluster, "_BEATS", 4)
    with dask.config.set({"privatelr.timeout": "1s"}):
        yield


def test_a_frozen_worker_is_given_up(quick):
    """Long before its scheduler gives it up, which by default is after five minutes."""
    with (
        local_cluster(1, processes=True) as (_, client),
        dask.config.set(scheduler="distributed"),
    ):
        (pid,) = client.run(os.getpid).values()
        # a worker that is busy for longer than it may be silent is not frozen
        assert dask_cluster.evaluated([dask.delayed(time.sleep)(4)], "read") == [None]
        os.kill(pid, signal.SIGSTOP)
        begun = time.monotonic()
        try:
            with pytest.raises(ClusterError, match=r"no worker.*privatelr\.timeout"):
                dplr(FORMULA, lazy(), **SCHEMA)
        finally:
            os.kill(pid, signal.SIGCONT)
        assert time.monotonic() - begun < 30


@pytest.mark.parametrize(
    ("number", "patience", "silent", "heard"),
    [
        (1, 8.0, 7.0, 1),
        (1, 8.0, 9.0, 0),
        (1, 0.1, 4.0, 1),  # a few heartbeats of half a second
        (1, 0.1, 6.0, 0),
        (1000, 8.0, 50.0, 1000),  # a heartbeat every six seconds
        (1000, 8.0, 70.0, 0),
        (0, 8.0, 0.0, 0),
    ],
)
def test_workers_are_counted_while_they_are_heard_of(number, patience, silent, heard):
    seen = SimpleNamespace(last_seen=distributed.metrics.time() - silent)
    scheduler = SimpleNamespace(workers=dict.fromkeys(range(number), seen), tasks={})
    assert dask_cluster._state(scheduler, [], patience) == (heard, 0, 0)
