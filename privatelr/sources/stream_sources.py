"""What a stream is made of: who holds record batches, and how they are asked for them.

An adapter of a few lines makes `RecordBatches` of a dataset of pyarrow, a relation of DuckDB, a
lazy frame of polars, files, or a function that returns a reader. Types are told by
the names of their modules, so that no library is imported to see that something is not of it.
What a library or a function of the user raises is not quoted, whatever its class: their code may
call this package, or raise its errors, in words that tell a value.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import pandas as pd

from privatelr.arguments import suggests_arguments
from privatelr.errors import MissingDependencyError, SchemaError, redact_errors, show
from privatelr.sources import arrow_files
from privatelr.sources.columns import Batch
from privatelr.sources.dask_collections import empty
from privatelr.sources.data_source import as_batch, is_dask, not_a_table
from privatelr.sources.record_batches import (
    UNREAD,
    RecordBatches,
    empty_table,
    read_bytes,
    width_of,
)

_AT_ONCE, _AHEAD = 2**17, 2
"""Rows of a batch of a dataset, and how many batches are decoded before they are asked for."""
_TEXTS_AT_ONCE, _WIDE = 2**13, 64
"""Rows of a batch with a column of more bits than this: pyarrow decodes up to 1 GiB ahead."""
_PREDICTED = 2**17
"""Rows of a piece that a function of each row is applied to."""
_UNTYPED = "its columns and their types could not be read"


@suggests_arguments
def stream(data: Any, *, memory: float | str | None = None) -> RecordBatches:
    """Hand over data that are read batch by batch, and say how much memory their rows may take.

    `dplr` and the like take the same data without it, and keep rows that fit into 40 % of the
    memory of the machine.

    Parameters
    ----------
    data
        A dataset of pyarrow, a relation of DuckDB, a lazy frame of polars,
        the path of a Parquet or Feather file, of a folder or of several files
        (``"data/*.parquet"``, or a list), or a function that returns a new
        ``pyarrow.RecordBatchReader`` each time it is called. If such a function has an argument
        `columns`, it is told which columns are read, as a list.
    memory : float or str, optional
        Bytes, as a number or as in ``"4GiB"``; 0 keeps no rows. Rows that do not fit are read anew
        for each of the ten or so passes of a fit; `dplpsvm` and `dpsimplex` refuse them. Numbers of
        persons that are kept next to them do not count, 4 bytes for each record. Nor does what a
        library holds while it reads: pyarrow has all texts of a row group in memory at once, so
        write Parquet of long texts in short ones.

    Returns
    -------
    RecordBatches

    Raises
    ------
    ArgumentError, SchemaError, MissingDependencyError
        One sentence each, on public facts only.

    Notes
    -----
    **Privacy.** *Covered*: nothing is read but names and types. *Neighbours*, *assumed public*: as
    for a frame. *Not covered*: time and memory.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from privatelr import dplr, stream
    >>> visits = pa.table({"age": [20.0, 40.0, 60.0, 80.0] * 25, "y": [False, True] * 50})
    >>> data = stream(visits.to_reader, memory="1GiB")  # or stream("visits/*.parquet")
    >>> print(dplr("y ~ age", data, eps=1.0, bounds={"age": (18, 90)}).guarantee)
    epsilon = 1 (pure)
    """
    made = as_stream(data)
    if memory is None:
        return made
    return replace(made, memory=read_bytes(memory))


def is_stream(data: Any) -> bool:
    """Whether this is read batch by batch; does not import the library that made it."""
    return _adapter(data) is not None


def as_stream(data: Any) -> RecordBatches:
    """Return record batches of data that `is_stream` knows; raises `SchemaError` for others."""
    is_list = isinstance(data, list | tuple) and arrow_files.are_paths(data)
    made = _of_path if is_list else _adapter(data)
    if made is None and isinstance(data, str | os.PathLike | list | tuple):
        raise SchemaError(not_a_table(data))
    if made is None:
        raise SchemaError(
            f"data={show(data)}: a stream takes a dataset of pyarrow, a relation of DuckDB, a lazy "
            "frame of polars, a path of Parquet files, or a function that returns a "
            "pyarrow.RecordBatchReader."
        )
    if find_spec("pyarrow") is None:
        raise MissingDependencyError(
            "data: reading record batches takes pyarrow; install it with "
            "`pip install 'privatelr[parquet]'`."
        )
    with redact_errors(_UNTYPED):
        return made(data)


def typed_batch(data: Any) -> Batch:
    """Return the columns of data of any kind, whose types are those of the whole table."""
    if is_dask(data):
        return as_batch(empty(data))
    return as_stream(data).typed if is_stream(data) else as_batch(data)


def over_pieces(function: Callable[[Any], Any], data: Any, names: Sequence[str] | None) -> Any:
    """Apply a function to each row of a stream; returns the results of all rows, in their order.

    Parameters
    ----------
    function
        Takes a table and returns a series or a frame with as many rows, whose types do not depend
        on the rows.
    data
        What `is_stream` knows.
    names : sequence of str, optional
        The columns that `function` reads; no others are read.
    """
    source = as_stream(data)
    empty = function(source.typed.frame)  # refuses unsuitable names and types before data is read
    with closing(source.pieces(source.columns if names is None else names, _PREDICTED)) as pieces:
        found = [function(table) for table in pieces]
    return pd.concat(found, ignore_index=True) if found else empty


def _adapter(data: Any) -> Callable[[Any], RecordBatches] | None:
    if arrow_files.is_path(data):
        return _of_path
    for kind in type(data).__mro__:
        found = _ADAPTERS.get((kind.__module__.split(".")[0].lstrip("_"), kind.__name__))
        if found is not None:
            return found
    is_function = callable(data) and not isinstance(data, type) and not is_dask(data)
    return _of_function if is_function else None


def _of_schema(
    schema: Any, opened: Any, counted: Callable[[], int] | None = None, required: Any = None
) -> RecordBatches:
    return RecordBatches(schema, as_batch(empty_table(schema)), opened, counted, required)


def _of_dataset(data: Any, *, all_of_them: bool = False) -> RecordBatches:
    """Batches of a dataset whose files have its types, and the same columns if so asked."""
    arrow_files.require_typed(data)

    def required(columns: Sequence[str]) -> None:
        arrow_files.require_types(data, columns, all_of_them=all_of_them)

    def batches(columns: Sequence[str]) -> Iterator[Any]:
        texts = any(width_of(data.schema.field(name)) > _WIDE for name in columns)
        size = _TEXTS_AT_ONCE if texts else _AT_ONCE
        how = {"batch_size": size, "batch_readahead": _AHEAD, "fragment_readahead": 1}
        return iter(data.to_batches(columns=list(columns), **how))

    def counted() -> int:
        return sum(batch.num_rows for batch in batches([]))

    return _of_schema(data.schema, batches, counted, required)


def _of_path(path: Any) -> RecordBatches:
    path = arrow_files.from_home(path)
    return _of_dataset(arrow_files.dataset_of(path), all_of_them=True)


def _of_relation(relation: Any) -> RecordBatches:
    """Batches of a relation of DuckDB, which computes it anew for each pass."""

    def reader(part: Any) -> Any:
        make = getattr(part, "to_arrow_reader", None) or part.fetch_record_batch
        return make(_AT_ONCE)

    def opened(columns: Sequence[str]) -> Any:
        quoted = ('"{}"'.format(name.replace('"', '""')) for name in columns)
        return reader(relation.select(*quoted))

    def counted() -> int:
        return int(relation.aggregate("count(*)").fetchall()[0][0])

    with redact_errors(_UNTYPED, ours=()):
        schema = reader(relation.limit(0)).schema
    return _of_schema(schema, opened, counted)


def _of_lazy_frame(frame: Any) -> RecordBatches:
    """Batches of a lazy frame of polars, which collects the columns that are read in each pass."""
    with redact_errors(_UNTYPED, ours=()):
        empty = frame.collect_schema().to_frame()
    typed = as_batch(empty)  # names a column whose type has no place in Arrow

    def opened(columns: Sequence[str]) -> Iterator[Any]:
        few = frame.select(list(columns)).collect(engine="streaming")
        for chunk in few.iter_slices(_AT_ONCE):
            yield from chunk.to_arrow().to_batches()

    def counted() -> int:
        return int(frame.sql("select count(*) from self").collect().item())

    # an Enum of polars has its levels in its type, which a type of Arrow has not
    return RecordBatches(empty.to_arrow().schema, typed, opened, counted)


def _of_function(function: Callable[..., Any]) -> RecordBatches:
    import pyarrow as pa

    takes_columns = False
    with suppress(TypeError, ValueError):
        takes_columns = "columns" in inspect.signature(function).parameters

    def made(columns: Sequence[str] | None) -> Any:
        wanted = None if columns is None else list(columns)
        with redact_errors(_UNTYPED if columns is None else UNREAD, ours=()):
            found = function(columns=wanted) if takes_columns else function()
        # a reader that the function keeps has no more records when it is asked again
        if not isinstance(found, pa.RecordBatchReader) or found is first:
            raise SchemaError(  # what it returned instead, and its type, may tell of the data
                "data: the function returned no new pyarrow.RecordBatchReader; it returns a new "
                "one each time it is called."
            )
        return found

    first: Any = None
    first = made(None)
    return _of_schema(first.schema, made)


_ADAPTERS: dict[tuple[str, str], Callable[[Any], RecordBatches]] = {
    ("privatelr", "RecordBatches"): lambda data: data,
    ("pyarrow", "Dataset"): _of_dataset,
    ("duckdb", "DuckDBPyRelation"): _of_relation,
    ("polars", "LazyFrame"): _of_lazy_frame,
}
