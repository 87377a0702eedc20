"""Fits of frames of Spark: the numbers of the same rows in memory, on a real local session.

Takes pyspark and Java; `.ci/run` installs the one and looks for the other.
"""

import os
import random
import shutil
import sys
from functools import reduce
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from frames_for_laws import FORMULA, SCHEMA
from repeated_noise import drawn, trial

from privatelr import (
    ArgumentError,
    ClusterError,
    SchemaError,
    check,
    choose,
    dplpsvm,
    dplr,
    dpmultinom,
    dpsvm,
    levels_from,
    suggest_bounds,
)
from privatelr.dask_cluster import Failure
from privatelr.numerics.rows.mapped_rows import joined
from privatelr.sources import spark_frames


def start():
    sql = pytest.importorskip("pyspark.sql", reason="takes the extra spark")
    if shutil.which("java") is None:
        pytest.skip("Spark takes Java, and there is none")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1")
    made = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    return made


@pytest.fixture(scope="module")
def spark():
    session = start()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def both(spark):
    """A frame in four partitions of other lengths, of which one is empty, and the same rows."""
    from pyspark.sql import functions

    frame = trial(400).assign(stage=np.resize(["one", "two", "three"], 400))
    part = functions.when(functions.col("age") < 40, 0).otherwise(2).cast("int")
    held = spark.createDataFrame(frame).repartition(4, part).persist()
    assert held.count() == 400
    assert 0 in held.rdd.glom().map(len).collect()
    return held, held.toPandas()


pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


@pytest.mark.parametrize(
    ("model", "formula", "options"),
    [
        (dplr, FORMULA, {"eps": 2.0, "delta": 1e-6, "spend": "inference"}),
        pytest.param(dpsvm, FORMULA, {"h": 0.1}, marks=pytest.mark.full),
        pytest.param(dpmultinom, "stage ~ age + dose", {}, marks=pytest.mark.full),
    ],
)
def test_coefficients_are_those_of_a_fit_in_memory(both, model, formula, options):
    levels = SCHEMA["levels"] | {"stage": ["one", "two", "three"]}
    schema = {**SCHEMA, **options, "levels": levels}
    found, expected = (drawn(model, formula, data, **schema) for data in both)
    np.testing.assert_allclose(found.coef, expected.coef, rtol=0, atol=1e-9)
    assert (found.formula, found.nobs) == (expected.formula, 400)


def test_answers_and_predictions_are_those_in_memory(both):
    spark_frame, frame = both
    fit = drawn(dplr, FORMULA, frame, **SCHEMA)
    for kind in (None, "classes"):
        made = fit.predict(spark_frame, kind)
        assert made.columns[:-1] == spark_frame.columns
        found = made.toPandas().iloc[:, -1]
        pd.testing.assert_series_equal(found, fit.predict(frame, kind), check_dtype=False)
    assert str(check(FORMULA, spark_frame, **SCHEMA)) == str(check(FORMULA, frame, **SCHEMA))
    other = drawn(dplr, "y ~ age", frame, **SCHEMA)
    assert choose({"a": fit, "b": other}, spark_frame, eps=1.0).label in ("a", "b")
    assert fit.private_auc(spark_frame, eps=1.0).nobs == 400
    assert dict(suggest_bounds(spark_frame, {"age": (0, 150)}, 0.5))["age"][1] > 18
    assert levels_from(spark_frame, "smoker", 5.0, 1e-6)


def test_rows_that_change_between_passes_are_noticed(both):
    from pyspark.sql import functions

    made = functions.udf(lambda: random.SystemRandom().random(), "double")
    drawn_anew = made.asNondeterministic()
    changing = both[0].withColumn("dose", drawn_anew())
    with pytest.raises(SchemaError, match="changed while they were read"):
        dplr(FORMULA, changing, **SCHEMA)


def test_an_executor_that_fails_tells_no_value(both):
    from pyspark.sql import functions

    broken = both[0].withColumn("dose", functions.raise_error(functions.lit("secret 17")))
    with pytest.raises(SchemaError, match="a partition could not be read") as told:
        dplr(FORMULA, broken.withColumn("dose", functions.lit(1.0) + broken["dose"]), **SCHEMA)
    assert "secret" not in str(told.value)
    assert "17" not in str(told.value)
    assert told.value.__cause__ is None


def test_what_needs_rows_in_memory_says_so(both):
    frame = both[0]
    for call, words in (
        (lambda: dplpsvm(FORMULA, frame, **SCHEMA), "take rows in memory"),
        (lambda: dplr("y ~ age", frame, person="smoker", **SCHEMA), "several partitions"),
        (lambda: dplr(frame, frame), "holds the response as well"),
    ):
        with pytest.raises((ArgumentError, SchemaError), match=words):
            call()


def test_names_with_dots_and_quotes_are_names(both):
    """Of columns that are read and of others; Spark takes a dot for a field of a column."""
    frame, held = (
        data.rename(columns=NAMES)
        if isinstance(data, pd.DataFrame)
        else data.withColumnsRenamed(NAMES)
        for data in both
    )
    schema = {"bounds": {"a.b": SCHEMA["bounds"]["age"]}}
    found, expected = (drawn(dplr, "y ~ `a.b`", data, **schema) for data in (frame, held))
    np.testing.assert_allclose(found.coef, expected.coef, rtol=0, atol=1e-9)
    made = found.predict(frame)
    assert made.columns == [*held.columns, "probability"]
    np.testing.assert_allclose(made.toPandas()["probability"], found.predict(held), atol=1e-9)


NAMES = {"age": "a.b", "dose": "a", "stage": "`z`.z"}


def test_names_that_two_columns_have_are_refused(both):
    """Before a charge, and as of pandas; a name that differs by its case is another one."""
    from pyspark.sql import functions

    frame, one = both[0], functions.lit(1.0)
    fit = drawn(dplr, FORMULA, both[1], **SCHEMA)
    for column in ("age", "stage"):
        twice = frame.select("*", one.alias(column))
        for call in (lambda data: dplr(FORMULA, data, **SCHEMA), fit.predict):
            with pytest.raises(SchemaError, match=f"two columns named '{column}'"):
                call(twice)
    assert fit.predict(frame.select("*", one.alias("AGE"))).count() == 400
    for column in ("probability", "Probability"):
        with pytest.raises(SchemaError, match=f"a column named '{column}', as predictions are"):
            fit.predict(frame.withColumn(column, one))
    assert fit.predict(frame.withColumn("probability", one), "classes").columns[-1] == "class"


def test_a_type_without_a_place_in_arrow_is_refused_by_the_name_of_its_column(both):
    of_months = both[0].selectExpr("*", "interval 1 month as months")
    with pytest.raises(
        SchemaError, match=r"^data: the type of column 'months' has no place in Arrow"
    ):
        dplr("y ~ age", of_months, eps=1.0, bounds={"age": (18, 90)})


def test_a_check_of_no_record_is_refused_as_in_memory(both):
    for data in (both[0].filter("age < 0"), both[1].iloc[:0]):
        with pytest.raises(SchemaError, match="data is empty"):
            check(FORMULA, data, **SCHEMA)


def test_a_file_that_is_gone_is_said(spark, tmp_path):
    for part in ("a", "b"):
        trial(50).to_parquet(tmp_path / f"{part}.parquet")
    frame = spark.read.parquet(str(tmp_path))
    (tmp_path / "b.parquet").unlink()
    for call in (dplr, check):
        with pytest.raises(SchemaError, match="a file of it is gone or damaged") as told:
            call(FORMULA, frame, **SCHEMA)
        assert str(tmp_path) not in str(told.value)


class PythonException(Exception):  # noqa: N818
    """As Spark calls what a process of Python raised."""


class JavaError(Exception):
    """An error that comes from Java, with its causes by the names of their classes."""

    def __init__(self, *names):
        super().__init__("secret")
        self.names, self.java_exception = names, self if names else None

    def getClass(self):  # noqa: N802
        return self

    def getName(self):  # noqa: N802
        return self.names[0]

    def getCause(self):  # noqa: N802
        return JavaError(*self.names[1:]).java_exception

    def getErrorClass(self):  # noqa: N802
        return None


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PythonException("No module named 'secret'"), "if no function .* executors take privatelr"),
        (JavaError("org.apache.spark.SparkException", "java.io.IOException"), "executors take"),
        (JavaError("java.lang.Error", "java.io.FileNotFoundException"), r"read \(JavaError\)\.$"),
        (RuntimeError("secret"), r"could not be read \(RuntimeError\)\.$"),
    ],
)
def test_advice_is_about_what_went_wrong(both, error, said):
    with (
        pytest.raises(SchemaError, match=said) as told,
        spark_frames._from_spark(both[0], "a partition could not be read"),
    ):
        raise error
    assert "secret" not in str(told.value)


def test_advice_does_not_depend_on_what_a_value_is(spark):
    """A cast that fails quotes the value, which may be what Spark says of something else."""
    said = set()
    for value in ("zzz", "[FAILED_READ_FILE", "ModuleNotFoundError", "Cannot run program"):
        frame = spark.createDataFrame([(value, 1.0)] * 4, "a string, y double")
        with pytest.raises(SchemaError) as told:
            dplr("y ~ a", frame.selectExpr("cast(a as double) a", "y"), bounds={"a": (0, 1)})
        said.add(str(told.value))
    assert len(said) == 1


@pytest.mark.full
def test_a_session_that_was_stopped_ends_in_a_sentence():
    session = start()
    frame = session.createDataFrame(trial(50))
    fit = drawn(dplr, FORMULA, trial(50), **SCHEMA)
    session.stop()
    for call in (lambda: dplr(FORMULA, frame, **SCHEMA), lambda: fit.predict(frame)):
        with pytest.raises(ClusterError, match="the session of Spark"):
            call()


def test_sums_are_joined_alike_in_any_order():
    """To the last bit, whatever comes first; a failure stays one."""
    rng = np.random.default_rng(1)
    leaves = [{(0, place): (rng.standard_normal(2) * 10.0**place,)} for place in range(5)]
    found = {
        tuple(np.concatenate([terms[key][0] for key in sorted(terms)]))
        for order in permutations(leaves)
        for terms in [reduce(joined, order)]
    }
    assert len(found) == 1
    assert sorted(reduce(joined, leaves)) == [(0, 4), (2, 0)]
    failed = Failure(SchemaError, "gone")
    assert joined(joined(leaves[0], failed), leaves[1]) == failed
