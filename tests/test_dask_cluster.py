"""Fits on a cluster of processes: the same coefficients, also when one of them is killed."""

import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from dask_for_tests import (
    EVERY_MEMORY,
    in_parts,
    local_cluster,
    one_noise,
)
from frames_for_laws import FORMULA, SCHEMA, clinic
from repeated_noise import trial

from privatelr import (
    ClusterError,
    NotConvergedError,
    PrivateLRError,
    SchemaError,
    dask_cluster,
    dplr,
)
from privatelr.numerics import value_and_gradient
from privatelr.numerics.solve import Newton

dask = pytest.importorskip("dask", reason="needs the extra [dask]")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra [dask]")
distributed = pytest.importorskip("distributed", reason="needs the extra [dask]")

pytestmark = pytest.mark.usefixtures(one_noise.__name__)


@pytest.fixture(scope="module")
def cluster():
    """Two workers, each a process of one thread."""
    with local_cluster(2, processes=True) as (_, client):
        yield client


@pytest.fixture
def on(cluster):
    with dask.config.set(scheduler="distributed"):
        yield cluster


@EVERY_MEMORY
def test_a_cluster_finds_the_same_coefficients(on, memory):
    frame = trial(700)
    with dask.config.set({"privatelr.memory": memory}):
        found = dplr(FORMULA, in_parts(frame, 90, 0, 300, 1), spend="inference", **SCHEMA)
    expected = dplr(FORMULA, frame, spend="inference", **SCHEMA)
    np.testing.assert_allclose(found.coef, expected.coef, rtol=0, atol=1e-9)
    moments = (fit.release.moments.values for fit in (found, expected))
    np.testing.assert_allclose(*moments, rtol=0, atol=1e-9)


@EVERY_MEMORY
def test_a_worker_that_is_killed_changes_nothing(on, memory):
    frame, killed = trial(2000), []

    def deadly(objective):
        start = value_and_gradient(objective, np.zeros(4))[0]
        assert start > 0
        (pid, *_) = on.run(os.getpid).values()
        os.kill(pid, signal.SIGKILL)
        killed.append(pid)
        return Newton()(objective)

    with dask.config.set({"privatelr.memory": memory}):
        found = dplr(FORMULA, in_parts(frame, *[200] * 7), solver=deadly, **SCHEMA)
    assert len(killed) == 1
    assert killed[0] not in on.run(os.getpid).values()
    expected = dplr(FORMULA, frame, **SCHEMA)
    np.testing.assert_allclose(found.coef, expected.coef, rtol=0, atol=1e-9)


@pytest.mark.parametrize("error", [ValueError, SchemaError, ClusterError, NotConvergedError])
@EVERY_MEMORY
def test_errors_of_other_peoples_tasks_quote_nothing(on, memory, error):
    """Errors of this package among them, which their code may raise in words of its own."""
    frame = clinic(50)

    def broken(part):
        raise error(f"SECRET {part.iloc[0].to_dict()}")

    lazy = in_parts(frame, 20).map_partitions(broken, meta=frame.iloc[:0])
    with dask.config.set({"privatelr.memory": memory}), pytest.raises(PrivateLRError) as told:
        dplr(FORMULA, lazy, **SCHEMA)
    assert "SECRET" not in f"{told.value}{told.value.__cause__}"
    assert told.value.__context__ is None


def test_workers_read_files_and_predict(on, tmp_path):
    """Fits and what reads files travel; workers get the columns that are asked for, apart."""
    frame = trial(300)
    for i in range(3):
        frame[100 * i : 100 * (i + 1)].assign(unread=1).to_parquet(tmp_path / f"{i}.parquet")
    lazy = dd.read_parquet(tmp_path)
    fit = dplr(FORMULA, lazy, spend="inference", **SCHEMA)
    expected = dplr(FORMULA, frame, spend="inference", **SCHEMA)
    np.testing.assert_allclose(fit.coef, expected.coef, rtol=0, atol=1e-9)
    for asked in ({}, {"interval": 0.9}):
        np.testing.assert_array_equal(fit.predict(lazy, **asked), fit.predict(frame, **asked))


@pytest.fixture
def impatient():
    with dask.config.set({"privatelr.timeout": "1s", "scheduler": "distributed"}):
        yield


def test_a_cluster_without_workers_is_given_up(cluster, impatient):
    """Counting the records waits first, before anything is charged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            distributed.LocalCluster(n_workers=0, dashboard_address=None) as empty,
            distributed.Client(empty, set_as_default=False) as client,
            client.as_current(),
            pytest.raises(ClusterError, match="no worker") as told,
        ):
            dplr(FORMULA, in_parts(trial(100), 30), **SCHEMA)
    assert "privatelr.timeout" in str(told.value)


SCHEDULER_DIES = """
import os, signal, sys, time, warnings
import dask, distributed
sys.path.insert(0, {tests!r})
from dask_for_tests import in_parts
from frames_for_laws import FORMULA, SCHEMA
from repeated_noise import trial
from privatelr import ClusterError, Ledger, dask_cluster, dplr
from privatelr.numerics.solve import Newton

def kill(*_, **__):
    scheduler.kill()
    scheduler.wait()

def deadly(objective):
    kill()
    return Newton()(objective)

def ask(dask_scheduler, **_):
    os._exit(1)

def slow(part):
    time.sleep(1)
    return part

if __name__ == "__main__":
    import logging, subprocess
    logging.disable(logging.CRITICAL)
    start = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
    scheduler = subprocess.Popen(
        [*start, "--port", "0", "--scheduler-file", {file!r}], stderr=subprocess.DEVNULL
    )
    worker = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", {file!r},
         "--no-dashboard", "--no-nanny", "--nthreads", "1"], stderr=subprocess.DEVNULL
    )
    client = distributed.Client(scheduler_file={file!r}, timeout=30)
    client.wait_for_workers(1, timeout=30)
    ledger, frame, more = Ledger(1.0), trial(100), {{}}
    lazy = in_parts(frame, 30)
    when = {when!r}
    if when == "in a pass":
        more = {{"solver": deadly}}
    elif when == "while it is asked":
        lazy = lazy.map_partitions(slow, meta=frame.iloc[:0])
        dask_cluster._state = ask
    else:
        dask_cluster.wait_for = kill
    with dask.config.set({{"privatelr.timeout": "2s", "scheduler": "distributed"}}):
        begun = time.monotonic()
        try:
            dplr(FORMULA, lazy, ledger=ledger, **more, **SCHEMA)
        except ClusterError as error:
            print("told:", error, "after", time.monotonic() - begun < 20, ledger.left())
    worker.kill()
    os._exit(0)
"""


@pytest.mark.parametrize(("when", "left"), [("in a pass", 0.0), ("before it answers", 1.0)])
def test_a_scheduler_that_dies_ends_a_fit(tmp_path, when, left):
    """A charge stands; while the records are counted, nothing is charged yet."""
    script = tmp_path / "dies.py"
    file = str(tmp_path / "scheduler.json")
    script.write_text(
        SCHEDULER_DIES.format(tests=str(Path(__file__).parent / "support"), file=file, when=when)
    )
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.stdout.startswith("told: data: the Dask cluster could not go on"), done.stderr
    assert "a charge that was made for this call stands" in done.stdout
    assert done.stdout.endswith(f"after True {left}\n")


# Python reports what is raised while an object is finalised; the next alarm ends the fit then
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("where", ["synchronous", "threads", "distributed"])
def test_a_time_limit_of_the_caller_is_the_callers(cluster, where):
    """An alarm that goes off while a fit waits is neither hidden nor taken for one of Dask's."""

    def slow(part):
        time.sleep(0.4)
        return part

    class Alarm:
        def __call__(self, number, frame):
            raise TimeoutError("mine")

    frame = trial(100)
    lazy = in_parts(frame, 30).map_partitions(slow, meta=frame.iloc[:0])
    before = signal.signal(signal.SIGALRM, Alarm())
    try:
        for seconds in (0.2, 1.3):  # while records are counted, and later
            # again after two seconds: Python drops what is raised while an object is finalised
            signal.setitimer(signal.ITIMER_REAL, seconds, 2.0)
            with (
                dask.config.set({"scheduler": where, "privatelr.memory": "0"}),
                pytest.raises(TimeoutError, match=r"^mine$"),
            ):
                dplr(FORMULA, lazy, **SCHEMA)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_an_interrupted_graph_is_not_computed_on(on, monkeypatch):
    """Though a notebook keeps the traceback, and with it all that was asked for."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    def tasks() -> set[str]:  # those of tests before this one may still be kept by a cycle
        return set(on.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks)))

    monkeypatch.setattr(dask_cluster, "wait_for", interrupted)
    before = tasks()
    asked = [dask.delayed(time.sleep)(0.3 + second / 1000) for second in range(400)]
    with pytest.raises(KeyboardInterrupt) as kept:
        dask_cluster.evaluated(asked, "read")
    for _ in range(300):  # all of them would take a minute and a half
        left = tasks() - before
        if not left:
            break
        time.sleep(0.1)
    assert not left
    assert kept.value is not None
