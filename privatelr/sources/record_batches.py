"""Data that can be read again and again as Arrow record batches: who holds them, and how.

An adapter of a few lines makes `RecordBatches` of a dataset of pyarrow, a relation of DuckDB, a
lazy frame of polars, a Delta table, files, or a function that returns a reader. Types are told by
the names of their modules, so that no library is imported to see that something is not of it.
"""

from __future__ import annotations

import glob
import inspect
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from privatelr.arguments import suggests_arguments
from privatelr.errors import MissingDependencyError, SchemaError, redact_errors, show
from privatelr.sources.columns import Batch
from privatelr.sources.data_source import as_batch, is_dask
from privatelr.sources.memory_limits import LARGEST_SHARE, memory_here, read_bytes

_AT_ONCE, _AHEAD = 2**16, 4
"""Rows of a batch of a dataset, and how many batches are decoded before they are asked for."""
_PREDICTED = 2**17
"""Rows of a piece that a function of each row is applied to."""
_ENDINGS = {
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), "feather"),
}
_STANDS = "a charge that was made for this call stands"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RecordBatches:
    """A table that can be read again and again, batch by batch; nothing of it is kept.

    Attributes
    ----------
    schema : pyarrow.Schema
        Names and types of the columns, read without reading the data.
    typed : Batch
        The same as columns without rows, of which a plan is made.
    opened : callable
        Takes names of columns and returns an iterator of record batches that have them. The records
        come in the same order each time.
    counted : callable, optional
        Returns the number of records, where that is known without reading them.
    memory : float
        Bytes that rows may take in memory; more of them are read anew for every pass.
    """

    schema: Any
    typed: Batch
    opened: Callable[[Sequence[str]], Iterable[Any]]
    counted: Callable[[], int] | None = None
    memory: float = field(default_factory=lambda: LARGEST_SHARE * memory_here())

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(map(str, self.typed.names))

    def read(self, columns: Sequence[str]) -> Generator[Any, None, None]:
        """Read all records once: record batches of these columns, with the types of the schema.

        Raises
        ------
        SchemaError
            If a batch has other types. It quotes no value.
        """
        wanted = [self.schema.field(name) for name in columns]
        with redact_errors(f"its batches could not be read; {_STANDS}"):
            for batch in self.opened(columns):
                found = batch.schema
                places = [found.get_field_index(one.name) for one in wanted]
                if any(
                    place < 0 or found.field(place).type != one.type
                    for place, one in zip(places, wanted, strict=True)
                ):
                    raise SchemaError(
                        "data: a batch has other columns or types than the schema said; cast the "
                        f"columns before they are handed over, and {_STANDS}."
                    )
                yield batch.select(places)

    def count(self) -> int:
        """Return the number of records, which is public; may read the shortest column."""
        with redact_errors("its records could not be counted"):
            if self.counted is not None:
                return int(self.counted())
            return sum(batch.num_rows for batch in self.read([self.shortest]))

    @property
    def shortest(self) -> str:
        """The column with the fewest bits per value; texts and lists have many."""
        if not self.columns:
            raise SchemaError("data has no columns: a fit takes a response and its covariates.")
        return str(min(self.schema, key=_width).name)

    def pieces(self, columns: Sequence[str], size: int) -> Generator[Any, None, None]:
        """Read all records once, as tables of `size` records but for the last."""
        import pyarrow as pa

        held: list[Any] = []
        missing = size
        for batch in self.read(columns or [self.shortest]):
            start = 0
            while start < batch.num_rows:
                held.append(batch.slice(start, missing))
                start += held[-1].num_rows
                missing -= held[-1].num_rows
                if missing == 0:
                    yield pa.Table.from_batches(held).combine_chunks()
                    held, missing = [], size
        if held:
            yield pa.Table.from_batches(held).combine_chunks()


@suggests_arguments
def stream(data: Any, *, memory: float | str | None = None) -> RecordBatches:
    """Hand over data that are read batch by batch, and say how much memory their rows may take.

    `dplr` and the like take the same data without it, and keep rows that fit into 40 % of the
    memory of the machine.

    Parameters
    ----------
    data
        A dataset of pyarrow, a relation of DuckDB, a lazy frame of polars, a Delta table, the path
        of a Parquet or Feather file, of a folder or of several files (``"data/*.parquet"``), or a
        function that returns a ``pyarrow.RecordBatchReader`` each time it is called. If such a
        function has an argument `columns`, it is told which columns are read.
    memory : float or str, optional
        Bytes, as a number or as in ``"4GiB"``; 0 keeps no rows. Rows that do not fit are read anew
        for each of the ten or so passes of a fit.

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
    >>> visits = pa.table({"age": [20.0, 40.0, 60.0, 80.0] * 25, "y": [0.0, 0.0, 1.0, 1.0] * 25})
    >>> data = stream(visits.to_reader, memory="1GiB")  # or stream("visits/*.parquet")
    >>> print(dplr("y ~ age", data, eps=1.0, bounds={"age": (18, 90)}).guarantee)
    epsilon = 1 (pure)
    """
    made = as_stream(data)
    if memory is None:
        return made
    facts = made.schema, made.typed, made.opened, made.counted
    return RecordBatches(*facts, read_bytes(memory))


def is_stream(data: Any) -> bool:
    """Whether this is read batch by batch; does not import the library that made it."""
    return isinstance(data, RecordBatches) or _adapter(data) is not None


def as_stream(data: Any) -> RecordBatches:
    """Return record batches of data that `is_stream` knows; raises `SchemaError` for others."""
    if isinstance(data, RecordBatches):
        return data
    made = _adapter(data)
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
    with redact_errors("its columns and their types could not be read"):
        return made(data)


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
    if isinstance(data, str | os.PathLike):
        is_file = Path(data).suffix.lower() in _ENDINGS
        return _of_path if is_file or os.path.isdir(data) else None
    for kind in type(data).__mro__:
        found = _ADAPTERS.get((kind.__module__.split(".")[0].lstrip("_"), kind.__name__))
        if found is not None:
            return found
    is_function = callable(data) and not isinstance(data, type) and not is_dask(data)
    return _of_function if is_function else None


def _of_schema(schema: Any, opened: Any, counted: Any = None) -> RecordBatches:
    return RecordBatches(schema, as_batch(schema.empty_table()), opened, counted)


def _of_dataset(data: Any) -> RecordBatches:
    """Batches of a dataset, whose files have its types: a cast may fail by what a value is."""

    def opened(columns: Sequence[str]) -> Iterator[Any]:
        _require_types(data, columns)
        how = {"batch_size": _AT_ONCE, "batch_readahead": _AHEAD, "fragment_readahead": 1}
        yield from data.to_batches(columns=list(columns), **how)

    return _of_schema(data.schema, opened, data.count_rows)


def _require_types(data: Any, columns: Sequence[str]) -> None:
    for fragment in _fragments(data):
        file = fragment.physical_schema
        for name in columns:
            place = file.get_field_index(name)
            if place < 0:
                continue  # told by the name of the folder, or missing in this file
            held, said = (_undressed(one.field(name).type) for one in (file, data.schema))
            if held != said:
                raise SchemaError(
                    f"data: a file has the column {name!r} as {held}, and the schema of the "
                    f"dataset says {said}; write files of one type, and {_STANDS}."
                )


def _fragments(data: Any) -> Iterable[Any]:
    """The files of a dataset; one that is filtered tells their names alone, or is in memory."""
    import pyarrow.dataset

    try:
        return list(data.get_fragments())
    except ValueError:
        files = getattr(data, "files", ())
    if not files:
        return ()
    how = {"format": data.format, "filesystem": data.filesystem}
    return list(pyarrow.dataset.dataset(files, **how).get_fragments())


def _undressed(kind: Any) -> str:
    """The type of the values of a column, however it spells text."""
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return "string" if is_text or pa.types.is_string_view(kind) else str(kind)


def _of_delta(table: Any) -> RecordBatches:
    return _of_dataset(table.to_pyarrow_dataset())


def _of_path(path: str | os.PathLike[str]) -> RecordBatches:
    import pyarrow.dataset

    text = os.fspath(path)
    if os.path.isdir(text):
        of_folders = {"format": _format_of("parquet"), "partitioning": "hive"}
        return _of_dataset(pyarrow.dataset.dataset(text, **of_folders))
    is_glob = glob.has_magic(text) and not os.path.exists(text)
    files = sorted(glob.glob(text, recursive=True)) if is_glob else [text]
    if not files or not os.path.exists(files[0]):
        raise SchemaError(f"data={show(text)}: there is no such file.")
    return of_files(files)


def of_files(files: Sequence[str]) -> RecordBatches:
    """Return the records of files of one kind, one file after the other."""
    import pyarrow.dataset

    kinds = {_ENDINGS.get(Path(file).suffix.lower(), "") for file in files}
    if len(kinds) > 1 or "" in kinds:
        raise SchemaError(
            "data: several files are all Parquet, or all Feather, as their endings say."
        )
    return _of_dataset(pyarrow.dataset.dataset(list(files), format=_format_of(kinds.pop())))


def _format_of(kind: str) -> Any:
    """Return a format of pyarrow that does not load a local file of Parquet ahead as a whole."""
    import pyarrow.dataset

    return pyarrow.dataset.ParquetFileFormat(pre_buffer=False) if kind == "parquet" else kind


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

    return _of_schema(reader(relation.limit(0)).schema, opened, counted)


def _of_lazy_frame(frame: Any) -> RecordBatches:
    """Batches of a lazy frame of polars, by its streaming engine."""
    empty = frame.collect_schema().to_frame()

    def opened(columns: Sequence[str]) -> Iterator[Any]:
        few = frame.select(list(columns))
        if hasattr(few, "collect_batches"):
            chunks = few.collect_batches(chunk_size=_AT_ONCE, maintain_order=True)
        else:
            chunks = few.collect(engine="streaming").iter_slices(_AT_ONCE)
        for chunk in chunks:
            yield from chunk.to_arrow().to_batches()

    # an Enum of polars has its levels in its type, which a type of Arrow has not
    return RecordBatches(empty.to_arrow().schema, as_batch(empty), opened)


def _of_function(function: Callable[..., Any]) -> RecordBatches:
    takes_columns = False
    with suppress(TypeError, ValueError):
        takes_columns = "columns" in inspect.signature(function).parameters

    def opened(columns: Sequence[str] | None) -> Any:
        found = function(columns=columns) if takes_columns else function()
        if not (hasattr(found, "schema") and hasattr(found, "read_next_batch")):
            raise SchemaError(
                f"data: the function returned {show(found)}; it returns a "
                "pyarrow.RecordBatchReader each time it is called."
            )
        return found

    return _of_schema(opened(None).schema, opened)


_ADAPTERS: dict[tuple[str, str], Callable[[Any], RecordBatches]] = {
    ("pyarrow", "Dataset"): _of_dataset,
    ("duckdb", "DuckDBPyRelation"): _of_relation,
    ("polars", "LazyFrame"): _of_lazy_frame,
    ("deltalake", "DeltaTable"): _of_delta,
}


def _width(column: Any) -> int:
    try:
        return int(column.type.bit_width)
    except ValueError:
        return 1024
