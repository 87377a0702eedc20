"""DuckDB and polars as sources, and all that streams go to beside a fit."""

import numpy as np
import pandas as pd
import pytest
from frames_for_laws import FORMULA, SCHEMA, FixedRandomness, clinic
from repeated_noise import trial
from streams_for_tests import EVERY_MEMORY, arrow, ds, pa

import privatelr.fitting
from privatelr import (
    ArgumentError,
    FormulaError,
    Ledger,
    SchemaError,
    check,
    dplpsvm,
    dplr,
    dpsimplex,
    levels_from,
    stream,
    suggest_bounds,
)


@pytest.fixture(autouse=True)
def _one_noise(monkeypatch):
    monkeypatch.setattr(privatelr.fitting, "SystemRandomness", FixedRandomness)


def of_polars(frame, folder):
    return pytest.importorskip("polars").from_pandas(frame).lazy()


def of_duckdb(frame, folder):
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    pytest.importorskip("pyarrow.parquet").write_table(arrow(frame), folder / "t.parquet")
    return duckdb.connect().sql(f"select *, 1 as \"an other\" from '{folder / 't.parquet'}'")


SOURCES = {
    "dataset": lambda frame, folder: ds.dataset(arrow(frame)),
    "reader": lambda frame, folder: arrow(frame).to_reader,
    "polars": of_polars,
    "duckdb": of_duckdb,
}
EVERY_SOURCE = pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)


@EVERY_MEMORY
@EVERY_SOURCE
def test_coefficients_and_predictions_are_those_of_a_frame(make, memory, tmp_path):
    frame = trial(3000).rename(columns={"dose": "the dose"})
    frame.loc[[5, 90], "age"] = np.nan
    text = "y ~ age + `the dose` + smoker"
    bounds = {"age": (18, 90), "the dose": (0, 5)}
    schema = {"bounds": bounds, "levels": SCHEMA["levels"]}
    source = stream(make(frame, tmp_path), memory=memory)
    found, expected = (dplr(text, data, **schema) for data in (source, frame))
    np.testing.assert_allclose(found.coef, expected.coef, rtol=0, atol=1e-9)
    for kind in ("link", "classes"):
        pd.testing.assert_series_equal(
            found.predict(source, kind), found.predict(frame, kind), check_dtype=kind == "link"
        )


@EVERY_SOURCE
def test_sources_need_no_wrapping(make, tmp_path):
    frame = trial(200)
    source = make(frame, tmp_path)
    assert dplr(FORMULA, source, **SCHEMA).coef.equals(dplr(FORMULA, frame, **SCHEMA).coef)
    few = stream(source, memory=0)
    assert dplr(few, target="y", bounds=SCHEMA["bounds"], levels=SCHEMA["levels"]).nobs == 200


def test_a_lazy_frame_of_files_that_have_become_shorter_is_refused(tmp_path):
    pl = pytest.importorskip("polars")
    frame = pl.from_pandas(trial(3000))
    frame.write_parquet(tmp_path / "t.parquet")
    lazy = pl.scan_parquet(tmp_path / "t.parquet")
    model = dplr("y ~ age", lazy, bounds={"age": (18, 90), "y": (0, 1)})
    frame.head(1000).write_parquet(tmp_path / "t.parquet")
    for call in (
        lambda: dplr("y ~ age", lazy, bounds={"age": (18, 90), "y": (0, 1)}),
        lambda: model.predict(lazy),
    ):
        with pytest.raises(SchemaError, match=r"could not be (read|counted)"):
            call()


@EVERY_MEMORY
def test_a_check_counts_as_of_a_frame(memory):
    frame = clinic(300)
    frame.loc[[3, 200], "age"], frame.loc[7, "smoker"], frame.loc[9, "dose"] = np.nan, "x", 9.0
    source = stream(ds.dataset(arrow(frame)), memory=memory)
    found, expected = check(FORMULA, source, **SCHEMA), check(FORMULA, frame, **SCHEMA)
    pd.testing.assert_frame_equal(found.table, expected.table)
    pd.testing.assert_series_equal(found.classes, expected.classes)


@pytest.mark.filterwarnings("ignore:seed=")
@pytest.mark.parametrize("model", [dplpsvm, dpsimplex], ids=["dplpsvm", "dpsimplex"])
def test_columns_are_chosen_of_rows_in_memory(model):
    frame = trial(400)
    found = model(FORMULA, ds.dataset(arrow(frame)), 1.0, seed=1, **SCHEMA)
    assert found.coef.equals(model(FORMULA, frame, 1.0, seed=1, **SCHEMA).coef)


@pytest.mark.parametrize("model", [dplpsvm, dpsimplex], ids=["dplpsvm", "dpsimplex"])
def test_columns_of_rows_beyond_memory_are_refused_before_the_charge(model):
    ledger, source = Ledger(1.0), stream(ds.dataset(arrow(trial(400))), memory=0)
    with pytest.raises(ArgumentError, match="more than a part of it"):
        model(FORMULA, source, 1.0, ledger=ledger, **SCHEMA)
    assert ledger.left() == 1.0


@pytest.mark.filterwarnings("ignore:seed=")
def test_texts_that_take_more_than_rows_are_read_once():
    """What texts take is known once they are read."""
    levels = ["a" * 900, "b" * 900, "c" * 900]
    frame = trial(400).assign(smoker=np.resize(levels, 400))
    source = stream(ds.dataset(arrow(frame)), memory=400 * 8 * 30)
    declared = {**SCHEMA, "levels": {**SCHEMA["levels"], "smoker": levels}}
    found, expected = (
        dpsimplex(FORMULA, data, 1.0, seed=1, **declared) for data in (source, frame)
    )
    np.testing.assert_allclose(found.coef, expected.coef, rtol=0, atol=1e-9)


@EVERY_MEMORY
@EVERY_SOURCE
def test_persons_of_a_stream_are_those_of_a_frame(make, memory, tmp_path):
    frame = trial(600).assign(who=np.repeat(np.arange(200), 3))
    expected = dplr(FORMULA, frame, person="who", **SCHEMA)
    source = stream(make(frame, tmp_path), memory=memory)
    found = dplr(FORMULA, source, person="who", **SCHEMA)
    np.testing.assert_allclose(found.coef, expected.coef, rtol=0, atol=1e-9)
    assert found.guarantee == expected.guarantee


@EVERY_MEMORY
@pytest.mark.filterwarnings("ignore:seed=")
def test_private_answers_and_suggestions_read_streams(memory):
    frame = trial(2000)
    source = stream(ds.dataset(arrow(frame)), memory=memory)
    fit = dplr(FORMULA, frame, **SCHEMA)
    answers = [fit.private_roc(data, eps=1.0, seed=3) for data in (source, frame)]
    assert str(answers[0]) == str(answers[1])
    asked = {"bounds": {"age": (0, 150), "y": (0, 1)}, "eps": 0.5, "seed": 1}
    assert dict(suggest_bounds(source, **asked)) == dict(suggest_bounds(frame, **asked))
    levels = [levels_from(data, "smoker", 1.0, 1e-5, seed=2) for data in (source, frame)]
    assert dict(levels[0]) == dict(levels[1])


def test_what_takes_tables_in_memory_says_so():
    frame = trial(300).assign(who=np.repeat(np.arange(100), 3))
    source, fit = ds.dataset(arrow(frame)), dplr(FORMULA, trial(300), **SCHEMA)
    grouped = dplr(FORMULA, frame, person="who", **SCHEMA)
    for call, error in (
        (lambda: grouped.private_roc(source, eps=1.0), ArgumentError),
        (lambda: suggest_bounds(source, {"age": (0, 99)}, 1.0, person="who"), ArgumentError),
        (lambda: fit.predict(source.replace_schema(pa.schema([("a", pa.int8())]))), FormulaError),
        (lambda: fit.private_roc(source, frame["y"], eps=1.0), (ArgumentError, SchemaError)),
    ):
        with pytest.raises(error) as told:
            call()
        assert str(told.value).endswith(".")
