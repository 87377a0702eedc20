"""Fits on a cluster whose workers freeze, or whose client is closed on the way."""

import os
import signal
import time
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest
from dask_for_tests import KEPT, STREAMED, in_parts, local_cluster, one_noise
from frames_for_laws import FORMULA, SCHEMA
from repeated_noise import trial

from privatelr import dplr
from privatelr.numerics.solve import Newton

dask = pytest.importorskip("dask", reason="needs the extra [dask]")
distributed = pytest.importorskip("distributed", reason="needs the extra [dask]")

pytestmark = pytest.mark.usefixtures(one_noise.__name__)


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
