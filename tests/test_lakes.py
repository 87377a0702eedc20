"""Tables of Delta and Iceberg as data: the records that count now, and no deleted ones."""

import numpy as np
import pandas as pd
import pytest
from frames_for_laws import FORMULA, SCHEMA, FixedRandomness
from repeated_noise import trial
from streams_for_tests import EVERY_MEMORY, arrow

import privatelr.fitting
from privatelr import SchemaError, check, dplr, stream

deltalake = pytest.importorskip("deltalake", reason="needs the extra [lakes]")
catalogs = pytest.importorskip("pyiceberg.catalog.sql", reason="needs the extra [lakes]")


@pytest.fixture(autouse=True)
def _one_noise(monkeypatch):
    monkeypatch.setattr(privatelr.fitting, "SystemRandomness", FixedRandomness)


def of_delta(frame, folder):
    """A table with records that were deleted, whose files are still there."""
    place = str(folder / "delta")
    deltalake.write_deltalake(place, arrow(frame).slice(0, 50))
    deltalake.write_deltalake(place, arrow(frame), mode="overwrite")
    assert len(list((folder / "delta").glob("*.parquet"))) > 1
    return deltalake.DeltaTable(place)


def folder_of_delta(frame, folder):
    of_delta(frame, folder)
    return folder / "delta"


def of_iceberg(frame, folder):
    place = {"uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}"}
    catalog = catalogs.SqlCatalog("c", **place)
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", arrow(frame).schema)
    table.append(arrow(frame).slice(0, 40))
    table.overwrite(arrow(frame))
    return table


SOURCES = {
    "delta": of_delta,
    "folder of delta": folder_of_delta,
    "iceberg": of_iceberg,
    "scan of iceberg": lambda frame, folder: of_iceberg(frame, folder).scan(),
}
EVERY_SOURCE = pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)


@EVERY_MEMORY
@EVERY_SOURCE
def test_coefficients_and_predictions_are_those_of_a_frame(make, memory, tmp_path):
    frame = trial(300).rename(columns={"dose": "the dose"})
    frame.loc[[5, 90], "age"] = np.nan
    schema = {"bounds": {"age": (18, 90), "the dose": (0, 5)}, "levels": SCHEMA["levels"]}
    source = stream(make(frame, tmp_path), memory=memory)
    found, expected = (
        dplr("y ~ age + `the dose` + smoker", data, **schema) for data in (source, frame)
    )
    np.testing.assert_allclose(found.coef, expected.coef, rtol=0, atol=1e-9)
    pd.testing.assert_series_equal(found.predict(source), found.predict(frame))


@EVERY_SOURCE
def test_tables_need_no_wrapping(make, tmp_path):
    frame = trial(200)
    source = make(frame, tmp_path)
    assert dplr(FORMULA, source, **SCHEMA).coef.equals(dplr(FORMULA, frame, **SCHEMA).coef)
    assert str(check(FORMULA, source, **SCHEMA)) == str(check(FORMULA, frame, **SCHEMA))


def test_files_of_iceberg_are_refused(tmp_path):
    of_iceberg(trial(200), tmp_path)
    with pytest.raises(SchemaError, match="the Iceberg table"):
        dplr(FORMULA, tmp_path / "n" / "t" / "data", **SCHEMA)


@EVERY_MEMORY
def test_a_scan_of_iceberg_with_a_limit_has_that_many_records(memory, tmp_path):
    """pyiceberg counts all records of such a scan, and reads fewer."""
    scan = of_iceberg(trial(300), tmp_path).scan(limit=200)
    source = stream(scan, memory=memory)
    assert source.count() == 200
    found, expected = (dplr(FORMULA, data, **SCHEMA) for data in (source, trial(300)[:200]))
    np.testing.assert_allclose(found.coef, expected.coef, rtol=0, atol=1e-9)
