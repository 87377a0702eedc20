"""Fits on a cluster of processes: the same coefficients, also when one of them is killed."""

import os
import signal

import numpy as np
import pytest
from dask_for_tests import (
    EVERY_MEMORY,
    KEPT,
    in_parts,
    local_cluster,
    one_noise,
)
from frames_for_laws import FORMULA, SCHEMA, clinic
from repeated_noise import trial

from privatelr import (
    Ledger,
    NotConvergedError,
    PrivateLRError,
    SchemaError,
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


@pytest.mark.parametrize("error", [ValueError, SchemaError, NotConvergedError])
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


@pytest.mark.parametrize("scheduler", ["nosuch", "closed"])
def test_a_scheduler_that_is_not_there_is_refused_unpaid(scheduler):
    """It tells of no record, and an error of a reader may."""
    charged = Ledger(1.0)
    with local_cluster(1, processes=False) as (_, client):
        client.close()
    with (
        dask.config.set(scheduler=client if scheduler == "closed" else scheduler),
        pytest.raises(SchemaError, match="connects a cluster for the next call"),
    ):
        dplr(FORMULA, in_parts(trial(100), 30), ledger=charged, **SCHEMA)
    assert charged.left() == 1.0


@pytest.mark.parametrize("what", [0, 1], ids=["cluster", "client"])
def test_a_cluster_that_is_closed_during_a_fit_ends_it_in_a_sentence(what):
    charged = Ledger(1.0)

    def closing(objective):
        made[what].close()
        return Newton()(objective)

    with (
        local_cluster(1, processes=False) as made,
        dask.config.set({"privatelr.memory": KEPT, "scheduler": made[1]}),
        pytest.raises(SchemaError) as told,
    ):
        dplr(FORMULA, in_parts(trial(100), 30), solver=closing, ledger=charged, **SCHEMA)
    assert str(told.value).startswith("data: ")
    assert told.value.__context__ is None
    assert charged.left() == 0.0


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
