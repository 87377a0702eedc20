"""Tables in files, as text or as Parquet: columns that are asked for, typed by declarations.

No type is read off the values. One odd value would change it, and with it whether the fit is
refused, so that a refusal would tell of one record. A cell that is not what its column was
declared to hold is missing, and its record stays.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, Literal, Protocol

import pandas as pd

from privatelr.cli.csv_files import TRUTH, UTF8, CsvTable, levelled, unpacked
from privatelr.cli.files import open_to_read
from privatelr.cli.outcomes import InputError
from privatelr.design import Variable
from privatelr.errors import MissingDependencyError, SchemaError, show

Reading = Literal["numbers", "text", "true or false"]


@dataclass(frozen=True, slots=True)
class DeclaredColumn:
    """What a column is declared to hold; `levels` is empty where none are declared."""

    reading: Reading
    levels: tuple[Hashable, ...] = ()


class TableFile(Protocol):
    """A file that knows the names of its columns and can be read once."""

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def numbers_note(self) -> str:
        """What a user should know about columns that are read as numbers, or nothing."""
        ...

    def read(self, wanted: Mapping[str, DeclaredColumn]) -> tuple[pd.DataFrame, dict[str, Reading]]:
        """The wanted columns, and how each was read in the end.

        Notes
        -----
        **Privacy.** *Covered*: nothing by itself, the frame is as private as the file.
        *Neighbours*: changing one record changes one row, in its values and not in its types.
        *Assumed public*: the number of records, the names, the types of a file that has them,
        and that the file is well formed; an error about its form names a line. *Not covered*:
        time and memory.
        """
        ...


@contextmanager
def open_table(
    path: str,
    separator: str | None,
    *,
    decimal: str | None = None,
    encoding: str | None = None,
) -> Iterator[TableFile]:
    """A Parquet file by its ending, or else text; ``-`` is standard input.

    The usual separator goes with the decimal point; beside a decimal comma it is a semicolon.
    """
    options = {"--separator": separator, "--decimal": decimal, "--encoding": encoding}
    spelled = (separator or (";" if decimal == "," else ","), decimal or ".", encoding or UTF8)
    if path == "-":
        if sys.stdin is None:
            raise InputError("-: there is no standard input.")
        yield CsvTable(sys.stdin.buffer, "standard input", *spelled)
        return
    shown = repr(path)
    with open_to_read(path) as raw:
        stream, ending = unpacked(raw, path)
        if ending not in (".parquet", ".pq"):
            if ending == ".tsv" and separator is None:
                spelled = ("\t", *spelled[1:])
            yield CsvTable(stream, shown, *spelled)
            return
        if stream is not raw:
            raise InputError(f"{shown}: a Parquet file is compressed inside; unpack this one.")
        for option, value in options.items():
            if value is not None:
                raise InputError(f"{shown}: {option} goes with text, and this is a Parquet file.")
        yield ParquetTable(stream, shown)


def by_levels(name: str, levels: Iterable[Hashable] | None) -> DeclaredColumn:
    """What a column holds that is declared to have these levels, or none."""
    if levels is None:
        return DeclaredColumn("numbers")
    declared = tuple(levels)
    if all(isinstance(level, bool) for level in declared):
        return DeclaredColumn("true or false", declared)
    if all(isinstance(level, int | float) and not isinstance(level, bool) for level in declared):
        return DeclaredColumn("numbers", declared)
    if not all(isinstance(level, str) for level in declared):
        raise SchemaError(
            f"levels[{name!r}]={show(list(declared))}: in a file, the levels of a column are all "
            "texts, all numbers, or all true and false."
        )
    if any(str(level).strip() != level for level in declared):
        raise SchemaError(
            f"levels[{name!r}]={show(list(declared))}: a level in a file has no blank at its ends."
        )
    return DeclaredColumn("text", declared)


def by_variable(variable: Variable) -> DeclaredColumn:
    """What a column holds that a model knows."""
    match variable.kind:
        case "categorical":
            return by_levels(variable.name, variable.levels)
        case "logical":
            return DeclaredColumn("true or false")
        case "text":
            return DeclaredColumn("text")
    return DeclaredColumn("numbers")


def describe(readings: Mapping[str, Reading], numbers_note: str) -> str:
    """How columns were read, in one line without a value: ``read as numbers: y, age``."""
    parts = []
    for reading in ("numbers", "text", "true or false"):
        names = [name for name, found in readings.items() if found == reading]
        if names:
            shown = ", ".join(name if name.isprintable() else repr(name) for name in names)
            note = f" ({numbers_note})" if numbers_note and reading == "numbers" else ""
            parts.append(f"as {reading}: {shown}{note}")
    return f"read {'; '.join(parts)}"


class ParquetTable:
    """A Parquet file; its types are public, and nulls do not change them."""

    def __init__(self, stream: IO[bytes], shown: str) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise MissingDependencyError(
                f"{shown}: reading Parquet takes pyarrow; install it with "
                "`pip install 'privatelr[parquet]'`, or pass the table as CSV."
            ) from None
        self._shown = shown
        self._errors = (pyarrow.ArrowException, OSError, UnicodeDecodeError)
        self._types = pyarrow.types
        try:
            self._file = pyarrow.parquet.ParquetFile(stream)
        except self._errors:
            raise InputError(f"{shown}: the file is not a Parquet table.") from None
        self._schema = self._file.schema_arrow
        named = [name for name in self._schema.names if name not in _index_of_pandas(self._schema)]
        if len(set(named)) < len(named):
            twice = next(name for name in named if named.count(name) > 1)
            raise InputError(f"{shown}: two columns are called {twice!r}, and names must differ.")
        self._names = tuple(named)

    @property
    def names(self) -> tuple[str, ...]:
        return self._names

    @property
    def numbers_note(self) -> str:
        return ""

    def read(self, wanted: Mapping[str, DeclaredColumn]) -> tuple[pd.DataFrame, dict[str, Reading]]:
        """The wanted columns; see `Table`."""
        columns: dict[str, Any] = {}
        readings: dict[str, Reading] = {}
        try:
            table = self._file.read(columns=list(wanted))
            for name, how in wanted.items():
                columns[name], readings[name] = self._column(table.column(name), name, how)
        except self._errors:
            raise InputError(f"{self._shown}: the file is damaged.") from None
        return pd.DataFrame(columns), readings

    def _column(self, column: Any, name: str, how: DeclaredColumn) -> tuple[Any, Reading]:
        """Values whose type follows from the type of the column and from its declared levels."""
        types, of = self._types, column.type
        if types.is_dictionary(of):
            # the dictionary is a list of values that occur, and so no declaration of levels
            of = of.value_type
            column = column.cast(of)
        if types.is_string(of) or types.is_large_string(of):
            if how.reading == "text":
                return _coded(column, how, str, str), "text"
            return pd.array(_values(column), dtype="string"), "text"
        if types.is_boolean(of):
            if (
                how.reading == "text"
                and {str(level).lower() for level in how.levels} == TRUTH.keys()
            ):
                return _coded(column, how, lambda cell: str(cell).lower(), str.lower), "text"
            return pd.array(column.to_pylist(), dtype="boolean"), "true or false"
        if types.is_integer(of) and how.reading == "text" and all(map(_is_whole, how.levels)):
            return _coded(column, how, str, str), "text"
        if types.is_integer(of) or types.is_decimal(of):
            return column.cast("float64", safe=False).to_numpy(), "numbers"
        if types.is_floating(of):
            return column.to_numpy(), "numbers"
        raise InputError(
            f"{self._shown}: the column {name!r} has the type {of}; a model takes numbers, texts "
            "and booleans."
        )


def _index_of_pandas(schema: Any) -> set[str]:
    """Names under which pandas has stored row labels, which are not a column of the table."""
    stored = (schema.pandas_metadata or {}).get("index_columns", [])
    return {name for name in stored if isinstance(name, str)}


def _is_whole(level: Any) -> bool:
    return bool(level.isascii() and level.lstrip("-").isdigit() and str(int(level)) == level)


def _values(column: Any) -> list[Any]:
    """Values, None for a null and for bytes that are not text, which one record may hold."""
    try:
        found: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        return [_decoded(cell) for cell in column.cast("large_binary").to_pylist()]
    return found


def _decoded(cell: bytes | None) -> str | None:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return None


def _coded(
    column: Any, how: DeclaredColumn, spell: Callable[[Any], str], fold: Callable[[Any], str]
) -> Any:
    """Values as texts: as the levels that they spell, where levels are declared."""
    spelled = [None if value is None else spell(value) for value in _values(column)]
    if not how.levels:
        return pd.array(spelled, dtype="string")
    position = {fold(level): index for index, level in enumerate(how.levels)}
    other = len(position)
    codes = [-1 if text is None else position.get(text, other) for text in spelled]
    return levelled(codes, how.levels)
