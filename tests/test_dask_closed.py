"""A cluster, or a client, that was closed: a fit ends in one sentence that says so."""

import re
import warnings
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
from dask_for_tests import KEPT, STREAMED, in_parts, one_noise
from frames_for_laws import FORMULA, SCHEMA
from repeated_noise import trial

from privatelr import ClusterError, Ledger, SchemaError, dplr
from privatelr.numerics.solve import Newton

dask = pytest.importorskip("dask", reason="needs the extra [dask]")
distributed = pytest.importorskip("distributed", reason="needs the extra [dask]")

CLOSED = r"because (its client was closed|no client is connected to it);"

pytestmark = pytest.mark.usefixtures(one_noise.__name__)


@contextmanager
def cluster():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            distributed.LocalCluster(
                n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
            ) as made,
            distributed.Client(made) as client,
        ):
            yield made, client


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


@pytest.mark.parametrize("what", ["cluster", "client"])
@pytest.mark.parametrize("named", [True, False])
def test_what_was_closed_before_a_fit_is_named(what, named):
    with cluster() as (made, client), dask.config.set(scheduler=client):
        (made if what == "cluster" else client).close()
        charged = Ledger(1.0)
        with (
            nullcontext() if named else dask.config.set(scheduler="distributed"),
            client.as_current() if named else nullcontext(),
            pytest.raises(ClusterError, match=CLOSED),
        ):
            fit(ledger=charged)
        assert charged.left() == 1.0  # the records are counted before anything is charged


@pytest.mark.parametrize("scheduler", [True, False], ids=["named", "found"])
@pytest.mark.parametrize("what", ["cluster", "client"])
def test_what_is_closed_while_it_keeps_rows_is_named(what, scheduler):
    with cluster() as (made, client), dask.config.set({"privatelr.memory": KEPT}):

        def closing(objective):
            (made if what == "cluster" else client).close()
            return Newton()(objective)

        charged = Ledger(1.0)
        with (
            dask.config.set(scheduler=client if scheduler else None),
            pytest.raises(ClusterError, match=CLOSED),
        ):
            fit(solver=closing, ledger=charged)
        assert charged.left() == 0.0


@pytest.mark.parametrize("what", ["cluster", "client"])
def test_rows_that_are_read_again_need_no_cluster(what):
    """Dask goes on with threads once its client is closed: a right fit, or one sentence."""
    expected = fit()
    with cluster() as (made, client), dask.config.set({"privatelr.memory": STREAMED}):

        def closing(objective):
            (made if what == "cluster" else client).close()
            return Newton()(objective)

        found, told = None, None
        try:
            found = fit(solver=closing)
        except ClusterError as error:
            told = str(error)
    if found is None:
        assert re.search(CLOSED, told)
    else:
        np.testing.assert_allclose(found.coef, expected.coef, rtol=0, atol=1e-9)
