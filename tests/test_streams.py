"""Fits of streams of record batches: the numbers of a fit in memory, whatever the batches are."""

import re
import signal

import numpy as np
import pytest
from changed_tables import fewer
from frames_for_laws import FORMULA, SCHEMA, FixedRandomness, clinic
from repeated_noise import trial
from streams_for_tests import (
    CHANGES,
    EVERY_MEMORY,
    KEPT,
    STREAMED,
    arrow,
    changing,
    ds,
    in_batches,
    pa,
)

import privatelr.fitting
from privatelr import (
    ArgumentError,
    FormulaError,
    Ledger,
    SchemaError,
    dplr,
    stream,
)
from privatelr.numerics import threads, value_and_gradient
from privatelr.numerics.solve import Newton

pc = pytest.importorskip("pyarrow.compute", reason="needs the extra [parquet]")
pq = pytest.importorskip("pyarrow.parquet", reason="needs the extra [parquet]")


@pytest.fixture(autouse=True)
def _one_noise(monkeypatch):
    monkeypatch.setattr(privatelr.fitting, "SystemRandomness", FixedRandomness)


def written(folder, frame, size, **options):
    for number, start in enumerate(range(0, len(frame), size)):
        pq.write_table(
            arrow(frame.iloc[start : start + size]), folder / f"{number:03d}.parquet", **options
        )
    return folder


@pytest.mark.parametrize("lengths", [(), (1, 0, 0, 2), (70_000, 1), (16_384,) * 5, (999,) * 100])
@pytest.mark.parametrize("limit", [1, 3])
def test_batches_and_threads_change_no_bit(lengths, limit):
    """Pieces are cut anew, so that sums are those of rows in memory, in the same order."""
    frame = trial(100_000)
    with threads(limit):
        found = dplr(FORMULA, stream(in_batches(arrow(frame), *lengths), memory=0), **SCHEMA)
    np.testing.assert_array_equal(found.coef, dplr(FORMULA, frame, **SCHEMA).coef)


@EVERY_MEMORY
@pytest.mark.parametrize("size", [1, 7, 100])
def test_types_and_nulls_are_read_as_in_memory(memory, size):
    """Dictionaries that differ from batch to batch, nulls, decimals, short numbers, booleans."""
    frame, rng = trial(300), np.random.default_rng(4)
    gone = rng.random(300) < 0.1
    columns = {
        "age": pa.array(np.round(frame["age"], 2).map(str)).cast(pa.decimal128(6, 2)),
        "dose": pa.array(frame["dose"].to_numpy(), mask=gone),
        "smoker": pa.array(frame["smoker"]).dictionary_encode(),
        "y": pa.array(frame["y"].astype("int8")),
        "flag": pa.array(rng.random(300) < 0.5, mask=gone),
        "runs": pc.run_end_encode(pa.array(np.repeat([1.0, 2.0, 3.0], 100))),
        "few": pa.array(rng.integers(0, 9, 300).astype("int16"), mask=gone),
        "when": pa.array(np.datetime64("2020-01-01") + np.arange(300).astype("m8[D]")).cast(
            pa.timestamp("ns")
        ),
    }
    table = pa.table(columns)
    batches = [
        pa.RecordBatch.from_arrays(
            [
                column.combine_chunks().dictionary_decode().slice(a, size).dictionary_encode()
                if pa.types.is_dictionary(column.type)
                else column.combine_chunks().slice(a, size)
                for column in table.columns
            ],
            schema=table.schema,
        )
        for a in range(0, 300, size)
    ]
    text = f"{FORMULA} + flag + few + runs"
    schema = {**SCHEMA, "bounds": {**SCHEMA["bounds"], "few": (0, 9), "runs": (0, 5)}}
    source = stream(lambda: pa.RecordBatchReader.from_batches(table.schema, batches), memory=memory)
    found = dplr(text, source, **schema)
    np.testing.assert_allclose(found.coef, dplr(text, table, **schema).coef, rtol=0, atol=1e-9)
    with pytest.raises(SchemaError) as told:
        dplr(f"{FORMULA} + when", source, **SCHEMA)
    with pytest.raises(SchemaError, match=re.escape(str(told.value))):
        dplr(f"{FORMULA} + when", table, **SCHEMA)


@EVERY_MEMORY
@pytest.mark.parametrize("way", ["folder", "glob", "one file", "dataset"])
def test_files_of_parquet_are_read_in_their_order(tmp_path, memory, way):
    frame = trial(250)
    written(tmp_path, frame, 90 if way != "one file" else 250, row_group_size=40)
    data = {
        "folder": tmp_path,
        "glob": str(tmp_path / "*.parquet"),
        "one file": str(tmp_path / "000.parquet"),
        "dataset": ds.dataset(tmp_path),
    }[way]
    expected = dplr(FORMULA, frame, **SCHEMA).coef
    np.testing.assert_allclose(
        dplr(FORMULA, stream(data, memory=memory), **SCHEMA).coef, expected, rtol=0, atol=1e-9
    )
    if memory == KEPT:
        np.testing.assert_array_equal(dplr(FORMULA, data, **SCHEMA).coef, expected)


def test_only_the_columns_of_the_formula_are_read(tmp_path):
    """Another column has pages that cannot be read, and a function is told what is read."""
    frame, asked = trial(90).assign(other="x" * 50), []
    path = written(tmp_path, frame, 90, compression="none") / "000.parquet"
    path.write_bytes(path.read_bytes().replace(b"x" * 50, b"\xff" * 50))
    expected = dplr(FORMULA, frame.drop(columns="other"), **SCHEMA).coef

    def reader(columns=None):
        asked.append(columns)
        table = arrow(frame)
        return (table if columns is None else table.select(columns)).to_reader()

    for source in (str(path), reader):
        for memory in (KEPT, STREAMED):
            found = dplr(FORMULA, stream(source, memory=memory), **SCHEMA)
            np.testing.assert_allclose(found.coef, expected, rtol=0, atol=1e-9)
    read = {name for columns in asked if columns is not None for name in columns}
    assert read == {"age", "dose", "smoker", "y"}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("after", [3, 4])
def test_a_source_that_changes_between_reads_is_refused(change, after):
    """The first two readings tell the columns and count the records."""
    source, readings = changing(clinic(50), change, after)
    with pytest.raises(SchemaError, match="they changed while they were read") as told:
        dplr(FORMULA, stream(source, memory=0), do_scale=False, **SCHEMA)
    assert not re.search(r"\d", str(told.value)), "nothing of how"
    assert len(readings) <= after + 2


def test_what_fits_is_read_once():
    for memory, most in ((KEPT, 3), (STREAMED, 30)):
        source, readings = changing(clinic(50), None, 10**9)
        dplr(FORMULA, stream(source, memory=memory), do_scale=False, **SCHEMA)
        assert (len(readings) == 3) is (memory == KEPT), "columns, records, and all once"
        assert len(readings) <= most
    source, readings = changing(clinic(50), fewer, 2)
    with pytest.raises(SchemaError, match="they changed while they were read"):
        dplr(FORMULA, source, **SCHEMA)


def test_nothing_is_read_to_plan_and_refuse():
    table = arrow(clinic(60))

    def never():
        raise AssertionError("a batch was read")
        yield

    def source():
        return pa.RecordBatchReader.from_batches(table.schema, never())

    for text, error in (("y ~ nothing", FormulaError), ("y ~ scale(age)", SchemaError)):
        with pytest.raises(error):
            dplr(text, source, **SCHEMA)
    with pytest.raises(SchemaError, match="levels"):
        dplr(FORMULA, source, bounds=SCHEMA["bounds"], levels={"y": [0, 1]})


@EVERY_MEMORY
@pytest.mark.parametrize("after", range(3))
def test_an_interrupt_passes_through_a_reader(memory, after):
    table, calls = arrow(clinic(50)), []

    def source():
        calls.append(1)
        if len(calls) > after:
            signal.raise_signal(signal.SIGINT)
        return table.to_reader()

    with pytest.raises(KeyboardInterrupt):
        dplr(FORMULA, stream(source, memory=memory), **SCHEMA)


def test_what_a_function_returns_in_place_of_a_reader_has_no_name():
    for found in (type("PatientSecret", (), {})(), None):
        with pytest.raises(
            SchemaError, match=r"^data: the function returned no new pyarrow"
        ) as told:
            stream(lambda found=found: found)
        assert "<" not in str(told.value)


def test_what_is_no_stream_is_refused_in_one_sentence(tmp_path):
    frame = clinic(40)
    table = arrow(frame)
    written(tmp_path, frame, 40)
    (tmp_path / "b.feather").write_bytes(b"")
    for call, error in (
        (lambda: dplr(FORMULA, str(tmp_path / "nothing.parquet"), **SCHEMA), SchemaError),
        (lambda: dplr(FORMULA, str(tmp_path / "x*.parquet"), **SCHEMA), SchemaError),
        (lambda: dplr(FORMULA, "nothing.txt", **SCHEMA), SchemaError),
        (lambda: dplr(FORMULA, lambda: table, **SCHEMA), SchemaError),
        (lambda: dplr(frame["y"], ds.dataset(table), **SCHEMA), SchemaError),
        (lambda: dplr(FORMULA, ds.dataset(table.slice(0, 0)), **SCHEMA), SchemaError),
        (lambda: stream(frame), SchemaError),
        (lambda: stream(ds.dataset(table), memory="much"), ArgumentError),
        (lambda: stream(ds.dataset(table), memory=-1), ArgumentError),
        (lambda: dplr(FORMULA, ds.dataset(table), do_scale=True, **SCHEMA), ArgumentError),
    ):
        with pytest.raises(error) as told:
            call()
        assert str(told.value).endswith(".")


def test_files_of_other_types_are_refused_whatever_their_values_are(tmp_path):
    """A cast of whole numbers to shorter ones fails by a value, and an error would tell it."""
    frame = clinic(40).astype({"y": "int8"})
    written(tmp_path, frame, 20)
    pq.write_table(arrow(frame.astype({"y": "int64"})), tmp_path / "900.parquet")
    whole = ds.dataset(tmp_path)
    for data in (tmp_path, whole, whole.filter(ds.field("age") > 0)):
        with pytest.raises(SchemaError, match=r"900.parquet' has the column 'y' as int64, .* int8"):
            dplr(FORMULA, data, **SCHEMA)


@EVERY_MEMORY
def test_a_dataset_may_be_filtered(tmp_path, memory):
    frame = trial(200)
    data = ds.dataset(written(tmp_path, frame, 70)).filter(ds.field("age") > 50)
    found = dplr(FORMULA, stream(data, memory=memory), **SCHEMA)
    expected = dplr(FORMULA, frame[frame["age"] > 50], **SCHEMA)
    np.testing.assert_allclose(found.coef, expected.coef, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "kind",
    [
        lambda: pa.sparse_union([pa.field("a", pa.int64())]),
        lambda: pa.run_end_encoded(pa.int32(), pa.dictionary(pa.int32(), pa.string())),
        pa.month_day_nano_interval,
    ],
)
def test_types_that_pandas_does_not_know_matter_where_they_are_used(kind):
    """pyarrow makes no empty table of some, and pandas says so in an error of its own."""
    frame = trial(200)
    table = arrow(frame).append_column("odd", pa.nulls(200, kind()))
    for data in (table, stream(table.to_reader)):
        assert dplr("y ~ age", data, eps=0, bounds={"age": (18, 90), "y": (0, 1)}).nobs == 200
        with pytest.raises(SchemaError, match=r"^column 'odd' has the type "):
            dplr("y ~ age + odd", data, eps=0, bounds={"age": (18, 90), "y": (0, 1)})


def faults(folder, frame):
    """Ways in which a source fails once it was read: a file is gone, or has other types."""
    last = folder / "001.parquet"
    return {
        "removed": last.unlink,
        "truncated": lambda: last.write_bytes(last.read_bytes()[:200]),
        "another type": lambda: pq.write_table(arrow(frame.astype({"age": "float32"})), last),
        "no such column": lambda: pq.write_table(arrow(frame.drop(columns="dose")), last),
    }


@pytest.mark.parametrize("fault", ["removed", "truncated", "another type", "no such column"])
def test_a_file_that_fails_after_the_payment_ends_in_one_sentence(tmp_path, fault):
    frame, ledger = clinic(60), Ledger(epsilon=3.0)
    written(tmp_path, frame, 40)
    break_it = faults(tmp_path, frame.iloc[40:])[fault]

    def breaking(objective):
        value_and_gradient(objective, np.zeros(4))
        break_it()
        return Newton()(objective)

    source = stream(str(tmp_path / "*.parquet"), memory=0)
    with pytest.raises(SchemaError, match="a charge that was made for this") as told:
        dplr(FORMULA, source, do_scale=False, solver=breaking, ledger=ledger, **SCHEMA)
    assert len(ledger.entries) == 1
    assert str(told.value).count(". ") == 0
    assert not any(f"{age:.4f}" in str(told.value) for age in frame["age"])


def test_a_reader_of_other_types_is_refused():
    frame, readings = clinic(60), []

    def source():
        readings.append(1)
        return arrow(frame if len(readings) < 3 else frame.astype({"y": "int8"})).to_reader()

    for memory in (KEPT, STREAMED):
        readings.clear()
        with pytest.raises(SchemaError, match=r"other columns or types.*a charge"):
            dplr(FORMULA, stream(source, memory=memory), **SCHEMA)
