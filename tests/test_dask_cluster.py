"""Fits on a cluster of processes: the same coefficients, also when one of them is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from dask_for_tests import (
    EVERY_MEMORY,
    KEPT,
    balls,
    both,
    in_parts,
    local_cluster,
    objectives,
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
from privatelr.numerics.solve import Newton, precise_minimum

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


def test_balls_stay_in_this_process_on_a_cluster(on):
    parts, dense = objectives(trial(40), 20, 5, loss="huber", lambda_=1e-2, memory=KEPT)

    tilt = balls(parts.tilt, 40)
    found, expected = (
        [float(w) for w in precise_minimum(o, np.zeros(4), 1e-25, tilt)] for o in (parts, dense)
    )
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-15)


def test_a_cluster_says_how_much_memory_it_has(on):
    frame, passes = trial(100), []
    with dask.config.set({"privatelr.memory": None}):
        rows, _ = both(frame, 50, memory=None)
    passes.append(rows.fold(lambda x, y: (len(x),)))
    assert passes == [(100,)]
    assert distributed.futures_of(rows.parts[0]), "kept by the workers"


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


SCHEDULER_DIES = """
import os, signal, sys, time, warnings
import dask, distributed
sys.path.insert(0, {tests!r})
from dask_for_tests import in_parts
from frames_for_laws import FORMULA, SCHEMA
from repeated_noise import trial
from privatelr import ClusterError, Ledger, dplr
from privatelr.numerics.solve import Newton

def kill(*_, **__):
    scheduler.kill()
    scheduler.wait()

def deadly(objective):
    kill()
    return Newton()(objective)

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
    else:
        wait = distributed.wait
        distributed.wait = lambda futures: (kill(), wait(futures))
    with dask.config.set({{"scheduler": "distributed"}}):
        begun = time.monotonic()
        try:
            dplr(FORMULA, lazy, ledger=ledger, **more, **SCHEMA)
        except ClusterError as error:
            print("told:", error, "after", time.monotonic() - begun < 60, ledger.left())
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


def test_an_interrupted_graph_is_not_computed_on(on, monkeypatch):
    """Though a notebook keeps the traceback, and with it all that was asked for."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    def tasks() -> set[str]:  # those of tests before this one may still be kept by a cycle
        return set(on.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks)))

    monkeypatch.setattr(distributed, "wait", interrupted)
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
