"""Frames of Spark: their public facts, and maps over their partitions by `mapInArrow`.

What a partition returns comes back pickled in a column of bytes, with the partition's number. A
frame must hold the same records in each partition at every reading, as files and `persist()` do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial, reduce
from typing import Any

from privatelr.errors import ClusterError, MissingDependencyError, SchemaError, redact_errors
from privatelr.sources.columns import Batch, of_table, require_distinct
from privatelr.sources.data_source import as_batch

_RETURNED = "place int, found binary"
_EXECUTORS = "executors take privatelr and the driver's Python, as PYSPARK_PYTHON says"
_GONE = "a file of it is gone or damaged; write it anew, or make the frame anew"
_REASONS = {
    "FAILED_READ_FILE": _GONE,
    # a process of Python could not do, or read, what it was sent; only words say what it was
    "PythonException": f"if no function that makes a column failed, {_EXECUTORS}",
    "java.io.IOException": _EXECUTORS,  # it could not be started
}
"""What is said of errors of Spark of such a class or condition, and nothing else of them."""
_DEPTH = 2
"""Levels of Spark's tree of joins."""


def is_spark(data: Any) -> bool:
    """Whether this is a frame of Spark; does not import it."""
    return hasattr(type(data), "mapInArrow") and type(data).__module__.startswith("pyspark.")


def typed(frame: Any) -> Batch:
    """Return the columns and their types, without rows."""
    with _from_spark(frame, "its columns could not be listed"):
        require_distinct(frame.columns)
    return as_batch(of_table(_schema(frame).empty_table()))


def _schema(frame: Any) -> Any:
    try:
        import pyarrow  # noqa: F401
        from pyspark.sql.pandas.types import to_arrow_schema
    except ImportError as missing:
        raise MissingDependencyError(
            "data: a frame of Spark takes pyarrow beside it; install privatelr[spark]."
        ) from missing
    for field in frame.schema:  # one by one, as the error names none
        with _from_spark(frame, f"the type of column {field.name!r} has no place in Arrow"):
            to_arrow_schema(type(frame.schema)([field]))
    return to_arrow_schema(frame.schema)


def each(frame: Any, names: Sequence[str], function: Callable[[int, Any], Any]) -> list[Any]:
    """What a function returns of each partition, given its number and its rows, in order.

    The function is sent to the executors, and gets a table of pyarrow with the columns `names`.
    """
    with _from_spark(frame, "a partition could not be read"):
        rows = _mapped(frame, names, function).collect()
    return [_unpickled(row.found) for row in sorted(rows, key=lambda row: row.place)]


def one_by_one(
    frame: Any, names: Sequence[str], function: Callable[[int, Any], Any]
) -> Iterator[Any]:
    """The same, one partition after the other."""
    with _from_spark(frame, "a partition could not be read"):
        for row in _mapped(frame, names, function).toLocalIterator():
            yield _unpickled(row.found)


def reduced(
    frame: Any,
    names: Sequence[str],
    function: Callable[[int, Any], Any],
    join: Callable[[Any, Any], Any],
) -> Any:
    """Join the results in pairs, up a tree of Spark where the session has one."""
    with _from_spark(frame, "a partition could not be read or summed"):
        mapped = _mapped(frame, names, function)
        try:
            found = mapped.rdd.map(_found_of)
        except Exception:  # Spark Connect has no RDDs
            return reduce(join, each(frame, names, function))
        return found.treeReduce(join, _DEPTH)


def with_columns(frame: Any, made: Any, function: Callable[[Any], Any]) -> Any:
    """Return the frame with more columns, which a function makes of each batch when it is read.

    Parameters
    ----------
    made : pyarrow.Schema
        Names and types of the new columns.
    function
        Takes a record batch and returns arrays, in the order of `made`.
    """
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    for name in frame.columns:
        if name.lower() in made.names:  # Spark does not tell cases apart
            raise SchemaError(
                f"data has a column named {name!r}, as predictions are; rename or drop it."
            )
    with _from_spark(frame, "its columns could not be predicted"):
        schema = StructType([*frame.schema.fields, *from_arrow_schema(made).fields])
        extended = partial(_extended, function, made, frame.columns)
        return _numbered(frame).mapInArrow(extended, schema)


def _extended(function: Any, made: Any, names: Any, batches: Iterable[Any]) -> Iterator[Any]:
    import pyarrow as pa

    for batch in batches:
        table = pa.Table.from_batches([batch]).rename_columns(names)
        with redact_errors("a batch could not be predicted"):
            arrays = [*batch.columns, *function(table)]
        yield pa.RecordBatch.from_arrays(arrays, names=[*names, *made.names])


def _numbered(frame: Any) -> Any:
    """Name columns by their places; `mapInArrow` takes a dot in a name for a field of a column."""
    return frame.toDF(*(f"c{place}" for place in range(len(frame.columns))))


def _mapped(frame: Any, names: Sequence[str], function: Callable[[int, Any], Any]) -> Any:
    places = list(map(frame.columns.index, names))
    chosen = _numbered(frame).select([f"c{place}" for place in places])
    named = _schema(chosen).empty_table().rename_columns(list(names)).schema
    return chosen.mapInArrow(partial(_of_partition, function, named), _RETURNED)


def _of_partition(function: Any, schema: Any, batches: Iterable[Any]) -> Iterator[Any]:
    """Run on an executor: the number of its partition, and what the function returns of it."""
    import pyarrow as pa
    from pyspark import TaskContext

    context: Any = TaskContext.get()
    place = context.partitionId()
    held = list(batches)
    table = schema.empty_table()
    if held:
        table = pa.Table.from_batches(held).rename_columns(schema.names).cast(schema)
    found = function(place, table)
    yield pa.record_batch(
        [pa.array([place], pa.int32()), pa.array([_pickled(found)], pa.binary())],
        names=["place", "found"],
    )


def _found_of(row: Any) -> Any:
    return _unpickled(row.found)


def _pickled(found: Any) -> bytes:
    from pyspark import cloudpickle

    pickle: Any = cloudpickle
    return bytes(pickle.dumps(found))


def _unpickled(found: Any) -> Any:
    from pyspark import cloudpickle

    return cloudpickle.loads(bytes(found))


@contextmanager
def _from_spark(frame: Any, what: str) -> Iterator[None]:
    """Replace errors of Spark, which may quote rows, by a sentence."""
    try:
        with redact_errors(what):
            yield
    except SchemaError as error:
        if _is_stopped(frame):
            raise ClusterError(
                "data: the session of Spark that holds it was stopped, or was lost; a charge that "
                "was made for this call stands."
            ) from None
        kinds = _kinds(error.__context__)
        reason = next((why for kind, why in _REASONS.items() if kind in kinds), None)
        raise (SchemaError(f"data: {what}; {reason}.") if reason else error) from None


def _kinds(error: Any) -> set[str]:
    """Return the classes of an error and of its causes, and Spark's conditions, but no words.

    The words of an error may quote a row, and what is said must not depend on it.
    """
    found = {type(error).__name__}
    with suppress(Exception):  # Java may be gone
        cause = getattr(error, "java_exception", None)
        while cause is not None:
            found.add(cause.getClass().getName())
            if "org.apache.spark.SparkException" in found:
                found.add(str(cause.getErrorClass()).partition(".")[0])
            cause = cause.getCause()
    return found


def _is_stopped(frame: Any) -> bool:
    """Whether the session of a frame is over, or its process of Java is gone."""
    session = frame.sparkSession
    if ".connect." in type(session).__module__:
        return False  # a remote one says so itself, in an error that is not quoted
    try:
        return bool(session.sparkContext._jsc.sc().isStopped())
    except Exception:
        return True
