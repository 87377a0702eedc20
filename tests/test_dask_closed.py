"""A cluster, or a client, that was closed: a fit ends in one sentence that says so."""

import warnings
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
from dask_for_tests import KEPT, STREAMED, in_parts, local_cluster, one_noise
from frames_for_laws import FORMULA, SCHEMA
from repeated_noise import trial

from privatelr import ClusterError, Ledger, SchemaError, dplr
from privatelr.design import read_dask_source
from privatelr.numerics.solve import Newton

dask = pytest.importorskip("dask", reason="needs the extra [dask]")
distributed = pytest.importorskip("distributed", reason="needs the extra [dask]")

CLOSED = r"because (its client was closed|no client is connected to it);"

pytestmark = pytest.mark.usefixtures(one_noise.__name__)


BOTH = pytest.mark.parametrize("what", [0, 1], ids=["cluster", "client"])


def cluster():
    return local_cluster(1, processes=False)


@contextmanager
def default_client():
    """A cluster, and a client that Dask finds by itself and no longer finds once it is closed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
        ) as made:
            client = distributed.Client(made)
            try:
                with dask.config.set(scheduler=None):
                    yield made, client
            finally:
                client.close()


def closing(what):
    """A solver in whose first step the cluster or its client is closed."""

    def solver(objective):
        what.close()
        return Newton()(objective)

    return solver


def fit(**more):
    return dplr(FORMULA, in_parts(trial(100), 30), **SCHEMA, **more)


def test_no_client_is_connected():
    with (
        dask.config.set(scheduler="distributed"),
        pytest.raises(ClusterError, match="because no client is connected to it"),
    ):
        fit()


def test_another_scheduler_is_not_taken_for_a_cluster():
    with (
        dask.config.set(scheduler="nosuch"),
        pytest.raises(SchemaError, match="could not be counted"),
    ):
        fit()


@BOTH
@pytest.mark.parametrize("named", [True, False])
def test_what_was_closed_before_a_fit_is_named(what, named):
    with cluster() as made, dask.config.set(scheduler=made[1]):
        made[what].close()
        charged = Ledger(1.0)
        with (
            nullcontext() if named else dask.config.set(scheduler="distributed"),
            made[1].as_current() if named else nullcontext(),
            pytest.raises(ClusterError, match=CLOSED),
        ):
            fit(ledger=charged)
        assert charged.left() == 1.0  # the records are counted before anything is charged


@pytest.mark.parametrize("scheduler", [True, False], ids=["named", "found"])
@BOTH
def test_what_is_closed_while_it_keeps_rows_is_named(what, scheduler):
    with cluster() as made, dask.config.set({"privatelr.memory": KEPT}):
        charged = Ledger(1.0)
        with (
            dask.config.set(scheduler=made[1] if scheduler else None),
            pytest.raises(ClusterError, match=CLOSED),
        ):
            fit(solver=closing(made[what]), ledger=charged)
        assert charged.left() == 0.0


@BOTH
def test_a_pass_does_not_move_here_once_its_client_is_closed(what):
    """Dask would go on with threads of this process, and nothing would say so."""
    with default_client() as made, dask.config.set({"privatelr.memory": STREAMED}):
        charged = Ledger(1.0)
        with pytest.raises(ClusterError, match=CLOSED):
            fit(solver=closing(made[what]), ledger=charged)
        assert charged.left() == 0.0


def test_another_client_or_scheduler_may_take_over():
    """The caller has chosen it, so that nothing is silent."""
    frame = in_parts(trial(100), 30)
    with default_client() as (made, client):
        _, table = read_dask_source(FORMULA, frame, None)
        with dask.config.set(scheduler="synchronous"):
            assert sum(table.over(["age"], len)) == 100
        client.close()
        with distributed.Client(made):
            assert sum(table.over(["age"], len)) == 100
        assert np.isfinite(dplr(FORMULA, frame, **SCHEMA).coef).all()  # a call of its own
