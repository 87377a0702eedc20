"""Fits on a cluster whose client is closed on the way."""

import warnings

import pytest
from dask_for_tests import one_noise

from privatelr import ClusterError, dask_cluster
from privatelr.numerics.rows import dask_rows

dask = pytest.importorskip("dask", reason="needs the extra [dask]")
distributed = pytest.importorskip("distributed", reason="needs the extra [dask]")

pytestmark = pytest.mark.usefixtures(one_noise.__name__)

CLOSED = "its client was closed"


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


class ClosedFirst:
    """A function that is called once a client is closed."""

    def __init__(self, client, function):
        self.client, self.function = client, function

    def __call__(self, *given, **more):
        self.client.close()
        return self.function(*given, **more)


@pytest.mark.parametrize("where", ["compute", "gather"])
def test_a_closed_client_is_named_wherever_a_graph_is(client, monkeypatch, where):
    in_charge = dask_cluster.client_in_charge()
    monkeypatch.setattr(dask_cluster, "client_in_charge", lambda *_: in_charge)
    monkeypatch.setattr(in_charge, where, ClosedFirst(client, getattr(in_charge, where)))
    with pytest.raises(ClusterError, match=CLOSED):
        dask_cluster.evaluated([dask.delayed(float)(1)], "read", bar=(1,))


def test_a_closed_client_is_named_where_rows_are_kept(client, monkeypatch):
    def closed(*_):
        client.close()
        raise distributed.client.ClosedClientError

    monkeypatch.setattr(dask, "persist", closed)
    with pytest.raises(ClusterError, match=CLOSED):
        dask_rows.persisted([dask.delayed(float)(1)])


def test_a_closed_client_is_named_where_memory_is_asked_for(client, monkeypatch):
    asked = ClosedFirst(client, client.run_on_scheduler)
    monkeypatch.setattr(client, "run_on_scheduler", asked)
    with dask.config.set({"privatelr.memory": None}), pytest.raises(ClusterError, match=CLOSED):
        dask_cluster.memory_for_rows()


def test_results_are_awaited_by_the_client_in_charge(cluster, client):
    """Not by the default client, which here is another one and is closed."""
    with (
        distributed.Client(cluster.scheduler_address, set_as_default=False) as mine,
        mine.as_current(),
    ):
        client.close()
        assert dask_cluster.evaluated([dask.delayed(float)(1)], "read") == [1.0]


def test_an_error_is_told_as_it_is_while_the_client_is_open(client):
    with pytest.raises(ZeroDivisionError), dask_cluster.while_open(client):
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), dask_cluster.while_open(None):
        raise ZeroDivisionError
