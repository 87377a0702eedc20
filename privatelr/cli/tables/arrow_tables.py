"""Parquet and Feather: tables with types of their own, which are public and no null changes.

One file is read as a frame. Several are a stream of record batches, whose types are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from os.path import isdir
from typing import IO, Any

import pandas as pd

from privatelr.cli.outcomes import InputError
from privatelr.cli.tables.declared_columns import (
    TRUTH,
    DeclaredColumn,
    Reading,
    require_different,
)
from privatelr.errors import MissingDependencyError, SchemaError
from privatelr.sources import RecordBatches, as_batch, as_stream, decoded, undressed
from privatelr.sources.record_batches import empty_table


class ArrowTable:
    """A Parquet or Feather file, whose types are public and do not depend on nulls."""

    numbers_note = ""

    def __init__(self, stream: IO[bytes], shown: str, kind: str) -> None:
        pyarrow = _pyarrow(shown, kind)
        self._shown = shown
        self._errors = (pyarrow.ArrowException, OSError, UnicodeDecodeError)
        try:
            if kind == "Parquet":
                file = pyarrow.parquet.ParquetFile(stream)
                schema, self._read = file.schema_arrow, file.read
            else:
                schema = pyarrow.ipc.open_file(stream).schema
                self._read = partial(_read_feather, stream)
        except self._errors:
            raise InputError(f"{shown}: the file is not a {kind} table.") from None
        self.names = _names_of(schema, shown)
        self.types = {name: str(schema.field(name).type) for name in self.names}

    def read(self, wanted: Mapping[str, DeclaredColumn]) -> tuple[pd.DataFrame, dict[str, Reading]]:
        """The requested columns, and how each of them was read in view of its type."""
        columns: dict[str, Any] = {}
        readings: dict[str, Reading] = {}
        try:
            table = self._read(columns=list(wanted))
            for name, how in wanted.items():
                column = table.column(name)
                where = f"{self._shown}: the column {name!r}"
                readings[name] = reading = _reading_of(column.type, how, where)
                columns[name] = _in_pandas(column, reading, how)
        except self._errors:
            raise InputError(f"{self._shown}: the file is damaged.") from None
        return pd.DataFrame(columns), readings


class ArrowFiles:
    """Several Parquet or Feather files of the same types, as one table."""

    numbers_note = ""

    def __init__(self, paths: Sequence[str], shown: str) -> None:
        self._shown = shown
        _pyarrow(shown, "Parquet")
        try:
            self._source = as_stream(paths[0] if isdir(paths[0]) else list(paths))
        except SchemaError as error:
            raise InputError(f"{shown}: {str(error).removeprefix('data: ')}") from None
        self.names = _names_of(self._source.schema, shown)
        if not self.names:
            raise InputError(f"{shown}: there is no Parquet file with a column.")
        self.types = {name: str(self._source.schema.field(name).type) for name in self.names}

    def read(
        self, wanted: Mapping[str, DeclaredColumn]
    ) -> tuple[RecordBatches, dict[str, Reading]]:
        """The requested columns, batch by batch, and how each of them is read."""
        import pyarrow as pa

        source, readings = self._source, dict[str, Reading]()
        for name, how in wanted.items():
            where = f"{self._shown}: the column {name!r}"
            readings[name] = _reading_of(source.schema.field(name).type, how, where)
        kinds = {"numbers": pa.float64(), "text": pa.string(), "true or false": pa.bool_()}
        schema = pa.schema([(name, kinds[reading]) for name, reading in readings.items()])

        def opened(columns: Sequence[str]) -> Iterator[Any]:
            shown = pa.schema([schema.field(name) for name in columns])
            for batch in source.read(columns):
                found = [
                    _in_arrow(batch.column(place), readings[name], wanted[name])
                    for place, name in enumerate(columns)
                ]
                yield pa.RecordBatch.from_arrays(found, schema=shown)

        facts = opened, source.count, source.required
        return RecordBatches(schema, as_batch(empty_table(schema)), *facts), readings


def _pyarrow(shown: str, kind: str) -> Any:
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise MissingDependencyError(
            f"{shown}: reading {kind} takes pyarrow; install it with "
            "`pip install 'privatelr[parquet]'`, or pass the table as CSV."
        ) from None
    return pyarrow


def _names_of(schema: Any, shown: str) -> tuple[str, ...]:
    """Names of columns; pandas may have stored row labels, which are not a column of the table."""
    stored = (schema.pandas_metadata or {}).get("index_columns", [])
    labels = {name for name in stored if isinstance(name, str)}
    names = tuple(name for name in schema.names if name not in labels)
    require_different(names, shown)
    return names


def _reading_of(of: Any, how: DeclaredColumn, where: str) -> Reading:
    """Return how a column is read, by its type and by its declared levels."""
    import pyarrow

    types, declared = pyarrow.types, how.reading == "text"
    if types.is_dictionary(of):
        of = of.value_type  # a dictionary lists the values that occur, which are not levels
    if undressed(of) == "string":
        return "text"
    if types.is_boolean(of):
        return "text" if declared and _spelled_truths(how) else "true or false"
    if types.is_integer(of) and declared and all(map(_is_whole, how.levels)):
        return "text"
    if types.is_integer(of) or types.is_decimal(of) or types.is_floating(of):
        return "numbers"
    raise InputError(f"{where} has the type {of}; a model takes numbers, texts and booleans.")


def _spelled_truths(how: DeclaredColumn) -> dict[str, str]:
    """Return the levels that spell true and false, by these; none if there are others."""
    found = {str(level).lower(): str(level) for level in how.levels}
    return found if found.keys() == TRUTH.keys() else {}


def _in_pandas(column: Any, reading: Reading, how: DeclaredColumn) -> Any:
    """The values of a column, with a type by that of the column and by its declared levels."""
    import pyarrow

    column, types = decoded(column), pyarrow.types
    if reading == "numbers":
        is_floating = types.is_floating(column.type)
        return (column if is_floating else column.cast("float64", safe=False)).to_numpy()
    if reading == "true or false":
        return pd.array(column.to_pylist(), dtype="boolean")
    if types.is_boolean(column.type):
        return _coded(column, how, lambda value: str(value).lower())
    return _coded(column, how if how.reading == "text" else DeclaredColumn("text"), str)


def _in_arrow(column: Any, reading: Reading, how: DeclaredColumn) -> Any:
    """The same values in Arrow; a text that is no level remains, and is undeclared as such."""
    import pyarrow as pa
    from pyarrow import compute

    column = decoded(column)
    if reading == "numbers":
        return column.cast(pa.float64(), safe=False)
    if reading == "text" and pa.types.is_boolean(column.type):
        spelled = _spelled_truths(how)
        return compute.if_else(column, spelled["true"], spelled["false"]).cast(pa.string())
    return column if reading == "true or false" else column.cast(pa.string())


def _read_feather(stream: IO[bytes], columns: list[str]) -> Any:
    """The named columns of a Feather file; the other ones are not unpacked."""
    import pyarrow.ipc

    stream.seek(0)
    names = pyarrow.ipc.open_file(stream).schema.names
    places = sorted(map(names.index, columns))
    options = pyarrow.ipc.IpcReadOptions(included_fields=places)
    stream.seek(0)
    return pyarrow.ipc.open_file(stream, options=options).read_all()


def _is_whole(level: Any) -> bool:
    return bool(level.isascii() and level.lstrip("-").isdigit() and str(int(level)) == level)


def _values(column: Any) -> list[Any]:
    """The values of a column, with None for nulls and for bytes that are not text."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        return [_decoded(cell) for cell in column.cast("large_binary").to_pylist()]


def _decoded(cell: bytes | None) -> str | None:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return None


def _coded(column: Any, how: DeclaredColumn, spell: Callable[[Any], str]) -> Any:
    """The values of a column as texts, or as levels if levels are declared."""
    spelled = [None if value is None else spell(value) for value in _values(column)]
    if not how.levels:
        return pd.array(spelled, dtype="string")
    position = {spell(level): index for index, level in enumerate(how.levels)}
    codes = [-1 if text is None else position.get(text, len(position)) for text in spelled]
    return how.among_levels(codes)
