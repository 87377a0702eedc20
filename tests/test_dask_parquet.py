"""Dask frames from Parquet: as they are anywhere else, whatever Dask does to read less of them."""

import copy

import numpy as np
import pandas as pd
import pytest
from dask_for_tests import KEPT, STREAMED, one_noise
from frames_for_laws import FORMULA, SCHEMA
from repeated_noise import trial

from privatelr import dplr
from privatelr.sources import columns_apart

dask = pytest.importorskip("dask", reason="needs the extra [dask]")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra [dask]")
pa = pytest.importorskip("pyarrow", reason="needs the extra [parquet]")
pq = pytest.importorskip("pyarrow.parquet", reason="needs the extra [parquet]")

pytestmark = pytest.mark.usefixtures(one_noise.__name__)

SYSTEMS = pytest.mark.parametrize("system", ["fsspec", "arrow"])


def written(folder, frame, size, **options):
    """A folder of files of `size` records."""
    for number, start in enumerate(range(0, len(frame), size)):
        frame.iloc[start : start + size].to_parquet(folder / f"{number:03d}.parquet", **options)
    return folder


@pytest.mark.parametrize(("system", "memory"), [("fsspec", KEPT), ("arrow", STREAMED)])
def test_few_columns_of_many_small_files(tmp_path, system, memory):
    """Dask reads several such files at once, and more of them the fewer columns are asked for.

    The records are counted along one column, the shortest.
    """
    frame = trial(600).astype({"y": "int8"})
    wide = frame.assign(**{f"unread{i}": np.arange(600.0) for i in range(20)})
    lazy = dd.read_parquet(written(tmp_path, wide, 30), filesystem=system)
    expected = dplr(FORMULA, frame, **SCHEMA).coef
    with dask.config.set({"privatelr.memory": memory}):
        for table in (lazy, lazy.assign(age=lambda f: f["age"] * 1.0), lazy[lazy["age"] > 0]):
            found = dplr(FORMULA, table, **SCHEMA)
            assert found.nobs == 600
            np.testing.assert_allclose(found.coef, expected, rtol=0, atol=1e-9)


def everything(n):
    """Columns of many types, some of them with gaps."""
    whole = pd.Series(np.arange(n))
    return pd.DataFrame(
        {
            "x": whole / 7,
            "short": (whole / 3).astype("float32"),
            "gaps": (whole / 7).where(whole % 5 > 0),
            "whole": whole,
            "some": whole.astype("Int64").where(whole % 4 > 0),
            "flag": whole % 3 == 0,
            "maybe": (whole % 3 == 0).astype("boolean").where(whole % 7 > 0),
            "text": whole.astype(str),
            "kind": pd.Categorical.from_codes(whole % 3, ["a", "b", "c"]),
            "when": pd.Timestamp("2020-01-01") + pd.to_timedelta(whole, unit="D"),
        }
    )


WAYS = {
    "plain": {},
    "filtered": {"filters": [("x", ">", 5.0)]},
    "an index": {"index": "whole"},
    "asked otherwise": {"arrow_to_pandas": {"split_blocks": False}},
    "some columns": {"columns": ["x", "kind", "gaps"]},
}


@SYSTEMS
@pytest.mark.filterwarnings("ignore:The inplace keyword")
@pytest.mark.parametrize("way", WAYS)
def test_columns_apart_are_the_same_columns(tmp_path, system, way):
    folder = written(tmp_path, everything(100), 40, row_group_size=17)
    lazy = dd.read_parquet(folder, filesystem=system, **copy.deepcopy(WAYS[way]))
    apart = columns_apart(lazy)
    assert apart.npartitions == lazy.npartitions
    pd.testing.assert_frame_equal(apart.compute(), lazy.compute(), check_exact=True)
    pd.testing.assert_frame_equal(apart._meta, lazy._meta)
    asked = way == "asked otherwise"
    assert (parts_of(apart) < len(lazy.columns)) is asked
    assert parts_of(apart) > parts_of(lazy) or way in ("asked otherwise", "an index")


def parts_of(lazy):
    """Number of arrays in which pandas holds the first partition."""
    return lazy.partitions[0].compute()._mgr.nblocks


@SYSTEMS
def test_what_is_read_of_parquet_is_chosen_behind_other_steps(tmp_path, system):
    """Steps between the files and the fit are kept, and so is what each file is asked for."""
    frame = trial(90)
    folder = written(tmp_path, frame, 40)
    lazy = dd.read_parquet(folder, filesystem=system)
    lazy = lazy[lazy["age"] > 30].rename(columns={"dose": "amount"})
    expected = frame[frame["age"] > 30].rename(columns={"dose": "amount"})
    apart = columns_apart(lazy).compute()
    pd.testing.assert_frame_equal(
        apart.reset_index(drop=True),
        lazy.compute().reset_index(drop=True),
        check_exact=True,
    )
    assert len(apart) == len(expected)


def test_a_dictionary_of_a_file_takes_declared_levels(tmp_path):
    """Its type lists no levels, as Arrow's dictionaries are of the data."""
    frame = trial(300)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    place = table.column_names.index("smoker")
    coded = table.set_column(place, "smoker", table["smoker"].dictionary_encode())
    pq.write_table(coded.replace_schema_metadata(None), tmp_path / "0.parquet")
    found = dplr(FORMULA, dd.read_parquet(tmp_path, filesystem="arrow"), **SCHEMA)
    np.testing.assert_allclose(found.coef, dplr(FORMULA, frame, **SCHEMA).coef, rtol=0, atol=1e-9)
