"""Predictions for Dask collections: lazy, and to the last bit those of the same rows in memory."""

import pickle

import numpy as np
import pandas as pd
import pytest
from dask_for_tests import in_parts, one_noise
from frames_for_laws import FORMULA, SCHEMA
from repeated_noise import trial

from privatelr import FormulaError, dplr

dask = pytest.importorskip("dask", reason="needs the extra [dask]")
da = pytest.importorskip("dask.array", reason="needs the extra [dask]")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra [dask]")

pytestmark = pytest.mark.usefixtures(one_noise.__name__)

BOUNDS = {f"X{i}": (-1, 1) for i in (1, 2, 3)}
ASKED = [{}, {"type": "classes"}, {"type": "link"}, {"type": "classes", "threshold": 0.3}]
INTERVAL = {"interval": 0.9}


@pytest.fixture(scope="module")
def fit():
    """A fit with inference, whose threshold was learned, and so is not kept where it travels."""
    return dplr(FORMULA, trial(400), spend="inference", threshold="youden", eps=3.0, **SCHEMA)


def with_gaps(n):
    """Rows of which some cannot be used, under an index of their own."""
    frame = trial(n).drop(columns="y").set_index(pd.Index(np.arange(n)[::-1], name="record"))
    frame.iloc[[3, 50], frame.columns.get_loc("age")] = [np.nan, 1e9]
    return frame.assign(unread="text")


@pytest.mark.parametrize("asked", [*ASKED, INTERVAL], ids=str)
def test_partitions_are_predicted_as_in_memory(fit, asked):
    frame = with_gaps(100)
    found = fit.predict(in_parts(frame, 20, 0, 1), **asked)
    expected = fit.predict(frame, **asked)
    assert isinstance(found, dd.DataFrame if asked == INTERVAL else dd.Series)
    same = pd.testing.assert_frame_equal if asked == INTERVAL else pd.testing.assert_series_equal
    same(found.compute(), expected, check_exact=True)
    same(found._meta, found.compute().iloc[:0])


@pytest.mark.parametrize("asked", [*ASKED[:3], INTERVAL], ids=str)
def test_arrays_are_predicted_as_in_memory(asked):
    x = np.random.default_rng(1).uniform(-1.2, 1.2, (90, 3))
    x[[0, 70], 1] = np.nan
    fit = dplr(x[:, 0] > 0, x, bounds=BOUNDS, spend="inference", eps=3.0)
    found = fit.predict(da.from_array(x, chunks=(40, 2)), **asked)
    expected = fit.predict(x, **asked)
    if asked == INTERVAL:
        pd.testing.assert_frame_equal(found.compute(), expected, check_exact=True)
        return
    assert isinstance(found, da.Array)
    assert found.chunks == ((40, 40, 10),)
    assert found.dtype == expected.dtype
    shown = pd.Series(found.compute(), name=expected.name)
    pd.testing.assert_series_equal(shown, expected, check_exact=True)


def test_classes_have_one_type_whatever_the_rows(fit):
    """In memory their type depends on whether all rows are usable; a plan cannot."""
    frame = with_gaps(100).iloc[4:80]
    found = fit.predict(in_parts(frame, 30), type="classes")
    assert found.dtype == object
    assert found.compute().tolist() == fit.predict(frame, type="classes").tolist()


def counting(frame, *lengths):
    """A Dask frame, and what its partitions hold when they are read."""
    read = []

    def look(part):
        read.append(list(part.columns))
        return part

    return in_parts(frame, *lengths).map_partitions(look, meta=frame.iloc[:0]), read


def test_nothing_is_read_before_it_is_asked_for(fit):
    lazy, read = counting(with_gaps(60), 20, 20)
    found = fit.predict(lazy)
    fit.predict(lazy, **INTERVAL)
    with pytest.raises(FormulaError, match="missing"):
        fit.predict(lazy[["dose", "unread"]])
    assert not read
    found.partitions[1].compute()
    assert len(read) == 1


def test_only_columns_of_the_model_are_loaded(fit, tmp_path):
    frame = with_gaps(60)
    frame.to_parquet(tmp_path / "a.parquet")
    graph = fit.predict(dd.read_parquet(tmp_path)).optimize(fuse=False).expr
    (files,) = [node for node in graph.walk() if not node.dependencies()]
    assert sorted(files.columns) == sorted(fit.spec.formula.covariates)


def test_what_is_not_private_does_not_travel(fit):
    """Diagnostics are computed from the training data; workers and names know nothing of them."""
    lazy = in_parts(with_gaps(60), 20)
    names = [str(key) for key in fit.predict(lazy, type="classes").__dask_graph__()]
    again = [str(key) for key in fit.predict(lazy, type="classes").__dask_graph__()]
    ours, others = ({n for n in found if "privatelr" in n} for found in (names, again))
    assert len(ours) == len(others) > 0
    assert not ours & others, "named by chance, not by content"
    assert not any("Fit" in name or "function" in name for name in names)
    tasks = pickle.dumps(fit.predict(lazy, type="classes").expr)
    assert b"diagnostics" not in tasks.lower()
