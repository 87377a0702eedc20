"""Dask collections for tests, and their rows beside the same rows in memory."""

import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from flint import arb
from frames_for_laws import FORMULA, SCHEMA, FixedRandomness
from repeated_noise import trial

import privatelr.call_data
import privatelr.fitting
from privatelr.design import plan_design, read_dask_design, read_dask_source, read_design
from privatelr.formula import parse_formula
from privatelr.numerics import LOSSES, Objective
from privatelr.numerics.rows import DaskRows, DenseRows
from privatelr.sources import as_batch, declare_schema

dask = pytest.importorskip("dask", reason="needs the extra [dask]")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra [dask]")

KEPT, STREAMED = "1GiB", "0"
EVERY_MEMORY = pytest.mark.parametrize("memory", [KEPT, STREAMED], ids=["kept", "streamed"])


@pytest.fixture
def one_noise(monkeypatch):
    """One noise for all fits; this process computes, unless a test has a cluster."""
    monkeypatch.setattr(privatelr.fitting, "SystemRandomness", FixedRandomness)
    with dask.config.set({"scheduler": "synchronous", "privatelr.memory": STREAMED}):
        yield


@contextmanager
def local_cluster(workers, *, processes):
    """A cluster of workers of one thread each, and its client, which is the one in charge."""
    import distributed

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=processes,
                dashboard_address=None,
            ) as made,
            distributed.Client(made) as client,
        ):
            yield made, client


def in_parts(frame, *lengths):
    """A Dask frame whose partitions have these lengths, without divisions."""
    ends = np.cumsum([*lengths, len(frame) - sum(lengths)])
    starts = np.concatenate([[0], ends[:-1]])
    parts = [
        dask.delayed(frame.iloc[a:b], traverse=False) for a, b in zip(starts, ends, strict=True)
    ]
    return dd.from_delayed(parts, meta=frame.iloc[:0], verify_meta=False)


def planned(text, frame, schema, memory=STREAMED):
    """Rows of a Dask frame, under a plan of its public facts."""
    formula, table = read_dask_source(text, frame, None)
    spec = plan_design(parse_formula(formula, list(table.typed.names)), table.typed, schema)
    with dask.config.set({"privatelr.memory": memory}):
        return spec, read_dask_design(spec, table, DaskRows)


def both(frame, *lengths, memory=STREAMED, text=FORMULA, schema=None):
    """Rows in partitions and the same in memory."""
    declared = declare_schema(**(SCHEMA if schema is None else schema))
    spec, rows = planned(text, in_parts(frame, *lengths), declared, memory)
    return rows, read_design(spec, as_batch(frame), DenseRows)


def objectives(frame, *lengths, loss="logistic", lambda_=1e-3, memory=STREAMED):
    """The same objective over partitions and in memory."""
    tilt = np.array([0.01, -0.02, 0.0, 0.03])
    rows = both(frame, *lengths, memory=memory)
    return [Objective(r, LOSSES[loss], lambda_, tilt) for r in rows]


def balls(tilt, n):
    """Enclosures of n times a tilt."""
    return lambda precision: [n * arb(float(entry)) for entry in tilt]


def check_that_a_bar_moves_and_goes_away(capfd):
    """One fold with a bar, of which nothing is left on the screen."""
    formula, table = read_dask_source(FORMULA, in_parts(trial(300), 100, 50), None)
    schema = declare_schema(**SCHEMA)
    spec = plan_design(parse_formula(formula, list(table.typed.names)), table.typed, schema)
    with dask.config.set({"privatelr.memory": KEPT}):
        rows = read_dask_design(spec, table, DaskRows, bar=True)
        assert rows.fold(lambda x, y: (len(x),)) == (300,)
    printed = "".join(capfd.readouterr())
    assert "|" in printed
    assert "\n" not in printed
    assert printed.endswith("\r")
    erased = printed.split("\r")[-2]
    assert not erased.strip() or erased.endswith("\33[2K")
