"""Fits on a cluster whose workers freeze, or whose client is closed on the way."""

import os
import signal
import threading
import time
import warnings
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest
from dask_for_tests import KEPT, STREAMED, in_parts, local_cluster, one_noise
from frames_for_laws import FORMULA, SCHEMA
from repeated_noise import trial

from privatelr import ClusterError, dplr
from privatelr.numerics.solve import Newton

dask = pytest.importorskip("dask", reason="needs the extra [dask]")
distributed = pytest.importorskip("distributed", reason="needs the extra [dask]")

pytestmark = pytest.mark.usefixtures(one_noise.__name__)

CLOSED = "its client was closed"
BEGUN = threading.Event()
"""Whether a task of a worker in this process has begun."""


def slow(part):
    BEGUN.set()
    time.sleep(0.5)
    return part


def lazy():
    frame = trial(100)
    return in_parts(frame, 20, 20, 20).map_partitions(slow, meta=frame.iloc[:0])


# --- workers that freeze --------------------------------------------------------------------


@contextmanager
def frozen(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.fixture
def patient():
    """Long enough for processes that wait for those of other tests."""
    with dask.config.set({"privatelr.timeout": "3s"}):
        yield


@pytest.mark.parametrize(("memory", "when"), [(KEPT, "between"), (STREAMED, "before")])
def test_the_tasks_of_a_frozen_worker_move_to_the_others(patient, memory, when):
    """Rows that it keeps are read again, and long before its scheduler gives it up."""
    frame, held = trial(100), ExitStack()

    def slow(part):  # travels whole, as processes of the cluster cannot import this module
        time.sleep(0.05)
        return part

    lazy_frame = in_parts(frame, 20, 20, 20).map_partitions(slow, meta=frame.iloc[:0])

    def freezing(objective):
        held.enter_context(frozen(pid))
        return Newton()(objective)

    with (
        local_cluster(2, processes=True) as (_, client),
        dask.config.set({"scheduler": "distributed", "privatelr.memory": memory}),
        held,
    ):
        dplr(FORMULA, in_parts(frame, 50), **SCHEMA)  # imports keep a worker silent, too
        pid = min(client.run(os.getpid).values())
        if when == "before":
            held.enter_context(frozen(pid))
        begun = time.monotonic()
        solver = {} if when == "before" else {"solver": freezing}
        found = dplr(FORMULA, lazy_frame, **solver, **SCHEMA)
        assert time.monotonic() - begun < 40
        assert len(client.scheduler_info()["workers"]) == 1
    expected = dplr(FORMULA, frame, **SCHEMA)
    np.testing.assert_allclose(found.coef, expected.coef, rtol=0, atol=1e-9)


# --- clients that are closed ----------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster():
    """A worker in this process, without a client."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
        ) as made:
            yield made


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster.scheduler_address) as made:
        yield made


@pytest.mark.parametrize(("memory", "seconds"), [(KEPT, 0.0), (STREAMED, 0.1), (KEPT, 0.7)])
def test_a_client_that_is_closed_during_a_fit_is_named(client, memory, seconds):
    """It is the default client, so that there is none afterwards."""

    def close():
        assert BEGUN.wait(30)
        time.sleep(seconds)
        client.close()

    BEGUN.clear()
    closing = threading.Thread(target=close)
    closing.start()
    begun = time.monotonic()
    with (
        dask.config.set({"scheduler": "distributed", "privatelr.memory": memory}),
        pytest.raises(ClusterError, match=CLOSED),
    ):
        dplr(FORMULA, lazy(), **SCHEMA)
    assert time.monotonic() - begun < 30
    closing.join()
