"""Data that can be read again and again as Arrow record batches: who holds them, and how.

An adapter of a few lines makes `RecordBatches` of a dataset of pyarrow, a relation of DuckDB, a
lazy frame of polars, a Delta table, files, or a function that returns a reader. Types are told by
the names of their modules, so that no library is imported to see that something is not of it.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence, Sized
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any, TypeVar

import pandas as pd

from privatelr.arguments import suggests_arguments
from privatelr.errors import MissingDependencyError, SchemaError, redact_errors, show
from privatelr.sources import arrow_files
from privatelr.sources.columns import Batch
from privatelr.sources.data_source import as_batch, is_dask
from privatelr.sources.memory_limits import LARGEST_SHARE, memory_here, read_bytes

T = TypeVar("T", bound=Sized)
_AT_ONCE, _AHEAD = 2**16, 4
"""Rows of a batch of a dataset, and how many batches are decoded before they are asked for."""
_TEXTS_AT_ONCE, _WIDE = 2**13, 64
"""Rows of a batch with a column of more bits than this: pyarrow decodes up to 1 GiB ahead."""
_PREDICTED = 2**17
"""Rows of a piece that a function of each row is applied to."""
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
    required : callable, optional
        Takes names of columns and raises `SchemaError` if a file has not got them, or others of
        that name; reads what files say of themselves.
    memory : float
        Bytes that rows may take in memory; more of them are read anew for every pass.
    """

    schema: Any
    typed: Batch
    opened: Callable[[Sequence[str]], Iterable[Any]]
    counted: Callable[[], int] | None = None
    required: Callable[[Sequence[str]], None] | None = None
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
        yield from map(_joined, _cut(self.read(columns or [self.shortest]), size, _slice))

    def parts(
        self,
        columns: Sequence[str],
        size: int,
        change: Callable[[Batch], Batch] | None = None,
    ) -> Generator[list[Batch], None, None]:
        """Read all records once, as rows of neighbouring batches: `size` together but for the last.

        Rows of a batch share what is found of its columns. Only short batches are copied: they are
        joined, since what a batch costs beside its rows would be paid for each of them. `change`
        makes another batch of each whole one, before rows are taken of it.
        """

        def joined() -> Generator[Batch, None, None]:
            short: list[Any] = []
            records = 0
            for batch in filter(len, self.read(columns or [self.shortest])):
                short.append(batch)
                records += len(batch)
                if records >= size:
                    yield as_batch(_joined(short))
                    short, records = [], 0
            if short:
                yield as_batch(_joined(short))

        whole = joined() if change is None else map(change, joined())
        yield from _cut(whole, size, Batch.cut)


def _cut(
    batches: Iterable[T], size: int, cut: Callable[[T, slice], T]
) -> Generator[list[T], None, None]:
    """Cut batches anew, into lists of parts of them with `size` records together."""
    held: list[T] = []
    missing = size
    for batch in batches:
        start = 0
        while start < len(batch):
            held.append(cut(batch, slice(start, start + missing)))
            start += len(held[-1])
            missing -= len(held[-1])
            if missing == 0:
                yield held
                held, missing = [], size
    if held:
        yield held


def _joined(batches: Sequence[Any]) -> Any:
    import pyarrow as pa

    return pa.Table.from_batches(batches).combine_chunks()


def _slice(batch: Any, rows: slice) -> Any:
    return batch.slice(rows.start, rows.stop - rows.start)


@suggests_arguments
def stream(data: Any, *, memory: float | str | None = None) -> RecordBatches:
    """Hand over data that are read batch by batch, and say how much memory their rows may take.

    `dplr` and the like take the same data without it, and keep rows that fit into 40 % of the
    memory of the machine.

    Parameters
    ----------
    data
        A dataset of pyarrow, a relation of DuckDB, a lazy frame of polars, a table of deltalake or
        pyiceberg, the path of a Parquet or Feather file, of a folder or of several files
        (``"data/*.parquet"``, or a list), or a function that returns a new
        ``pyarrow.RecordBatchReader`` each time it is called. If such a function has an argument
        `columns`, it is told which columns are read, as a list.
    memory : float or str, optional
        Bytes, as a number or as in ``"4GiB"``; 0 keeps no rows. Rows that do not fit are read anew
        for each of the ten or so passes of a fit; `dplpsvm` takes two for each round. Numbers of
        records that are kept beside them do not count: up to 64 bytes each in `dplpsvm` and
        `dpsimplex`, and 4 with persons.

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
    return replace(made, memory=read_bytes(memory))


def is_stream(data: Any) -> bool:
    """Whether this is read batch by batch; does not import the library that made it."""
    return isinstance(data, RecordBatches) or _adapter(data) is not None


def as_stream(data: Any) -> RecordBatches:
    """Return record batches of data that `is_stream` knows; raises `SchemaError` for others."""
    if isinstance(data, RecordBatches):
        return data
    made = _adapter(data) or (_of_path if isinstance(data, list) else None)
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
    if arrow_files.is_path(data):
        return _of_path
    for kind in type(data).__mro__:
        found = _ADAPTERS.get((kind.__module__.split(".")[0].lstrip("_"), kind.__name__))
        if found is not None:
            return found
    is_function = callable(data) and not isinstance(data, type) and not is_dask(data)
    return _of_function if is_function else None


def _of_schema(schema: Any, opened: Any, *counted_and_required: Any) -> RecordBatches:
    return RecordBatches(schema, as_batch(schema.empty_table()), opened, *counted_and_required)


def _of_dataset(data: Any, *, all_of_them: bool = False) -> RecordBatches:
    """Batches of a dataset whose files have its types, and the same columns if so asked."""

    def required(columns: Sequence[str]) -> None:
        arrow_files.require_types(data, columns, all_of_them=all_of_them)

    def opened(columns: Sequence[str]) -> Iterator[Any]:
        required(columns)
        texts = any(_width(data.schema.field(name)) > _WIDE for name in columns)
        size = _TEXTS_AT_ONCE if texts else _AT_ONCE
        how = {"batch_size": size, "batch_readahead": _AHEAD, "fragment_readahead": 1}
        yield from data.to_batches(columns=list(columns), **how)

    return _of_schema(data.schema, opened, data.count_rows, required)


def _of_delta(table: Any) -> RecordBatches:
    return _of_dataset(table.to_pyarrow_dataset())


def _of_path(path: Any) -> RecordBatches:
    if arrow_files.is_delta(path):
        return _of_delta(arrow_files.delta_table(path))
    return _of_dataset(arrow_files.dataset_of(path), all_of_them=True)


def _of_iceberg(table: Any) -> RecordBatches:
    """Batches of a table or a scan of pyiceberg, of the snapshot that it has now."""
    scan = table if hasattr(table, "to_arrow_batch_reader") else table.scan()

    def opened(columns: Sequence[str]) -> Any:
        return scan.select(*columns).to_arrow_batch_reader()

    return _of_schema(scan.to_arrow_batch_reader().schema, opened, scan.count)


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

    # the reader before, if the function keeps it: it has no more records
    before: weakref.ref[Any] | None = None

    def opened(columns: Sequence[str] | None) -> Any:
        nonlocal before
        wanted = None if columns is None else list(columns)
        found = function(columns=wanted) if takes_columns else function()
        is_reader = hasattr(found, "schema") and hasattr(found, "read_next_batch")
        if not is_reader or (before is not None and before() is found):
            raise SchemaError(
                f"data: the function returned {show(found)}; it returns a "
                "new pyarrow.RecordBatchReader each time it is called."
            )
        with suppress(TypeError):  # few classes of others have no weak references
            before = weakref.ref(found)
        return found

    return _of_schema(opened(None).schema, opened)


_ADAPTERS: dict[tuple[str, str], Callable[[Any], RecordBatches]] = {
    ("pyarrow", "Dataset"): _of_dataset,
    ("duckdb", "DuckDBPyRelation"): _of_relation,
    ("polars", "LazyFrame"): _of_lazy_frame,
    ("deltalake", "DeltaTable"): _of_delta,
    ("pyiceberg", "Table"): _of_iceberg,
    ("pyiceberg", "DataScan"): _of_iceberg,
}


def _width(column: Any) -> int:
    try:
        return int(column.type.bit_width)
    except ValueError:
        return 1024
