"""Dask frames from Parquet: as they are anywhere else, whatever Dask does to read less of them."""

import numpy as np
import pytest
from dask_for_tests import KEPT, STREAMED, one_noise
from frames_for_laws import FORMULA, SCHEMA
from repeated_noise import trial

from privatelr import dplr

dask = pytest.importorskip("dask", reason="needs the extra [dask]")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra [dask]")
pa = pytest.importorskip("pyarrow", reason="needs the extra [parquet]")
pq = pytest.importorskip("pyarrow.parquet", reason="needs the extra [parquet]")

pytestmark = pytest.mark.usefixtures(one_noise.__name__)


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


def test_a_dictionary_of_a_file_takes_declared_levels(tmp_path):
    """Its type lists no levels, as Arrow's dictionaries are of the data."""
    frame = trial(300)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    place = table.column_names.index("smoker")
    coded = table.set_column(place, "smoker", table["smoker"].dictionary_encode())
    pq.write_table(coded.replace_schema_metadata(None), tmp_path / "0.parquet")
    found = dplr(FORMULA, dd.read_parquet(tmp_path, filesystem="arrow"), **SCHEMA)
    np.testing.assert_allclose(found.coef, dplr(FORMULA, frame, **SCHEMA).coef, rtol=0, atol=1e-9)
