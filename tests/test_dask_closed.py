"""A cluster, or a client, that was closed: a fit ends in one sentence that says so."""

import re
from contextlib import nullcontext

import numpy as np
import pytest
from dask_for_tests import KEPT, STREAMED, in_parts, local_cluster, one_noise
from frames_for_laws import FORMULA, SCHEMA
from repeated_noise import trial

from privatelr import ClusterError, Ledger, SchemaError, dplr
from privatelr.numerics.solve import Newton

dask = pytest.importorskip("dask", reason="needs the extra [dask]")
distributed = pytest.importorskip("distributed", reason="needs the extra [dask]")

CLOSED = r"because (its client was closed|no client is connected to it);"

pytestmark = pytest.mark.usefixtures(one_noise.__name__)


BOTH = pytest.mark.parametrize("what", [0, 1], ids=["cluster", "client"])


def cluster():
    return local_cluster(1, processes=False)


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
def test_rows_that_are_read_again_need_no_cluster(what):
    """Dask goes on with threads once its client is closed: a right fit, or one sentence."""
    expected = fit()
    with cluster() as made, dask.config.set({"privatelr.memory": STREAMED}):
        found, told = None, None
        try:
            found = fit(solver=closing(made[what]))
        except ClusterError as error:
            told = str(error)
    if found is None:
        assert re.search(CLOSED, told)
    else:
        np.testing.assert_allclose(found.coef, expected.coef, rtol=0, atol=1e-9)
