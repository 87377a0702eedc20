"""Parquet and Feather: tables with types of their own, which are public and no null changes.

One file is read as a frame. Several are a stream of record batches, whose types are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from os.path import isdir
from typing import IO, Any

import numpy as np
import pandas as pd

from privatelr.cli.outcomes import InputError
from privatelr.cli.tables.declared_columns import (
    TRUTH,
    UNDECLARED,
    DeclaredColumn,
    Reading,
    require_different,
)
from privatelr.design import Variable, read_values
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
        kinds = {"text": pa.string(), "true or false": pa.bool_()}
        own = {name: decoded(pa.nulls(0, source.schema.field(name).type)).type for name in wanted}
        schema = pa.schema([(name, kinds.get(how, own[name])) for name, how in readings.items()])

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
    """Names of columns; a column without one cannot be used in formulas."""
    require_different(schema.names, shown)
    return tuple(filter(None, schema.names))


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
    if types.is_integer(of) or types.is_decimal(of) or types.is_floating(of):
        as_text = _spelled_numbers(how) if how.levels else types.is_integer(of)
        return "text" if declared and as_text else "numbers"
    raise InputError(f"{where} has the type {of}; a model takes numbers, texts and booleans.")


def _spelled_truths(how: DeclaredColumn) -> dict[str, str]:
    """Return the levels that spell true and false, by these; none if there are others."""
    found = {str(level).lower(): str(level) for level in how.levels}
    return found if found.keys() == TRUTH.keys() else {}


def _spelled_numbers(how: DeclaredColumn) -> tuple[float, ...]:
    """Return the different numbers that the levels spell; none if they do not."""
    texts = map(str, how.levels)
    try:
        found = [int(one) if one.lstrip("-").isdecimal() else float(one) for one in texts]
    except ValueError:
        return ()
    return tuple(found) if len(set(found)) == len(found) else ()


def _places(column: Any, how: DeclaredColumn) -> Any:
    """Return the places of numbers among levels that spell some, as `_coded` has those of texts."""
    from pyarrow import compute

    variable = Variable("x", "categorical", levels=_spelled_numbers(how))
    values, known = read_values({"x": variable}, as_batch({"x": column}), ("x",))
    missing = np.asarray(compute.is_null(column, nan_is_null=True))
    return np.where(known, values["x"].codes, np.where(missing, -1, len(how.levels)))


def _in_pandas(column: Any, reading: Reading, how: DeclaredColumn) -> Any:
    """The values of a column, with a type by that of the column and by its declared levels."""
    import pyarrow

    column, types = decoded(column), pyarrow.types
    if reading == "numbers":
        is_long = column.type == pyarrow.float64()
        return column.to_numpy() if is_long else pd.arrays.ArrowExtensionArray(column)
    if reading == "true or false":
        return pd.array(column.to_pylist(), dtype="boolean")
    if types.is_boolean(column.type):
        return _coded(column, how, lambda value: str(value).lower())
    if how.levels and undressed(column.type) != "string":
        return how.among_levels(_places(column, how))
    return _coded(column, how if how.reading == "text" else DeclaredColumn("text"), str)


def _in_arrow(column: Any, reading: Reading, how: DeclaredColumn) -> Any:
    """The same values in Arrow; a text that is no level remains, and is undeclared as such."""
    import pyarrow as pa
    from pyarrow import compute

    column = decoded(column)
    if reading == "numbers":
        return column
    if how.levels and undressed(column.type) not in ("string", "bool"):
        places = _places(column, how)
        return pa.array([*how.levels, UNDECLARED]).take(pa.array(places, mask=places < 0))
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
