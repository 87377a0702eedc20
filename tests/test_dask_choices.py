"""What chooses, columns or fits, reads partitions of Dask and streams as it reads a frame."""

import numpy as np
import pandas as pd
import pytest
from dask_for_tests import in_parts
from frames_for_laws import FORMULA, SCHEMA
from repeated_noise import drawn, trial

from privatelr import ArgumentError, PrivateLRError, SchemaError, choose, dplpsvm, dplr, dpsimplex
from privatelr import call_data as data_of_calls
from privatelr.numerics.rows.partition_work import in_any_order
from privatelr.results.answers.chosen_fit import scores_of
from privatelr.results.answers.scored_records import open_data

pytest.importorskip("dask", reason="needs the extra [dask]")
pa = pytest.importorskip("pyarrow", reason="needs the extra [parquet]")

MODELS = [
    (dplpsvm, {"rounds": 12}),
    (dpsimplex, {}),
    (dpsimplex, {"loss": "logistic", "eps": 2.0}),
]


def sources(frame):
    """Unequal and empty partitions, and a stream of unequal batches."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return in_parts(frame, 90, 0, 300, 1), lambda: table.to_reader(max_chunksize=37)


@pytest.mark.parametrize(("model", "options"), MODELS)
def test_columns_are_chosen_as_in_memory(model, options):
    frame = trial(700)
    expected = drawn(model, FORMULA, frame, **SCHEMA, **options)
    for source in sources(frame):
        found = drawn(model, FORMULA, source, **SCHEMA, **options)
        pd.testing.assert_frame_equal(found.selected, expected.selected)
        np.testing.assert_allclose(found.coef, expected.coef, rtol=0, atol=1e-9)
        assert str(found) == str(expected)


def test_arrays_in_partitions_are_read_as_arrays():
    da = pytest.importorskip("dask.array")
    x, y = np.random.default_rng(1).uniform(-1, 1, (300, 2)), np.resize([0.0, 1.0, 1.0], 300)
    bounds = {"X1": (-1, 1), "X2": (-1, 1), "y": (0, 1)}
    lazy = da.from_array(y, chunks=70), da.from_array(x, chunks=(70, 2))
    found, expected = (drawn(dpsimplex, *data, bounds=bounds) for data in (lazy, (y, x)))
    pd.testing.assert_frame_equal(found.selected, expected.selected)
    with pytest.raises(SchemaError, match="X is in memory and y is a Dask collection"):
        dpsimplex(lazy[0], x, bounds=bounds)


def test_rows_that_are_too_many_for_this_process_are_refused(monkeypatch):
    monkeypatch.setattr(data_of_calls, "memory_here", lambda: 1000.0)
    with pytest.raises(ArgumentError, match="more than a part of it"):
        dplpsvm(FORMULA, in_parts(trial(300), 100), **SCHEMA)


@pytest.mark.parametrize("score", ["auc", "accuracy", "brier"])
def test_fits_are_scored_as_in_memory(score):
    frame = trial(600)
    fits = {
        "small": drawn(dplr, "y ~ age", frame, **SCHEMA),
        "all": drawn(dplr, FORMULA, frame, **SCHEMA),
    }

    def exact(data):
        return scores_of({name: open_data(fit, data, None) for name, fit in fits.items()}, score)

    for source in sources(frame):
        np.testing.assert_allclose(exact(source), exact(frame), rtol=1e-12)
        assert choose(fits, source, eps=0.5, score=score).label in fits


def test_fits_of_persons_are_scored_in_memory():
    frame = trial(300).assign(who=np.repeat(np.arange(100), 3))
    fit = dplr(FORMULA, frame, person="who", **SCHEMA)
    other = dplr("y ~ age", frame, person="who", **SCHEMA)
    for source in sources(frame):
        with pytest.raises(PrivateLRError, match="persons take a table in memory"):
            choose({"a": fit, "b": other}, source, eps=1.0)


def test_kept_rows_may_come_in_another_order(tmp_path):
    """As after a shuffle: what is kept is read once for each plan, and order changes no sum."""
    dask = pytest.importorskip("dask")
    dd = pytest.importorskip("dask.dataframe")
    frame, rng = trial(3000), np.random.default_rng(1)

    def part():
        return frame.sample(frac=1.0, random_state=int(rng.integers(2**31)))

    lazy = dd.from_delayed([dask.delayed(part, pure=False)()], meta=frame.iloc[:0])
    with dask.config.set({"privatelr.memory": "1GiB", "scheduler": "synchronous"}):
        found = drawn(dplr, FORMULA, lazy, eps=4.0, **SCHEMA)
    assert found.scale is not None
    expected = drawn(dplr, FORMULA, frame, eps=4.0, **SCHEMA)
    np.testing.assert_allclose(found.coef, expected.coef, rtol=0, atol=1e-9)


def test_a_sum_in_any_order_sees_values_and_not_their_places():
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal((50, 3)), np.resize([-1.0, 1.0], 50)
    (whole,) = in_any_order(x, y)
    order = rng.permutation(50)
    assert in_any_order(x[order], y[order])[0] == whole
    first, second = (in_any_order(x[part], y[part])[0] for part in (slice(20), slice(20, None)))
    assert first + second == whole
    for row, column in ((3, 0), (49, 2)):
        changed = x.copy()
        changed[row, column] = -changed[row, column]
        assert in_any_order(changed, y)[0] != whole
    exchanged = x.copy()
    exchanged[[0, 1], 1] = exchanged[[1, 0], 1]  # two rows exchange an entry
    assert in_any_order(exchanged, y)[0] != whole
    assert in_any_order(x, -y)[0] != whole
    assert in_any_order(x[:-1], y[:-1])[0] != whole
    assert in_any_order(x, y, np.ones(50))[0] != whole
