"""Tables in files, as text, Parquet or Feather: the requested columns, with types by declarations.

No type is inferred from values. A single value could change an inferred type, and a fit could be
refused because of it, so that the refusal would reveal one record. A cell that does not fit the
declaration of its column counts as missing, and its record remains.

Every line of a text is one record. So the number of records is the number of lines, and a quote
that is not closed does not affect the following records. Each cell is read independently.
"""

from __future__ import annotations

import csv
import io
import math
import sys
from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import IO, Any, Literal

import numpy as np
import pandas as pd

from privatelr.cli.csv_blocks import as_numbers, blocks, can_split, each, plain_cells
from privatelr.cli.files import LONGEST_LINE, UTF8, open_to_read, text_lines, unpacked, wrong_line
from privatelr.cli.outcomes import InputError
from privatelr.design import Variable
from privatelr.errors import MissingDependencyError, SchemaError, show

Reading = Literal["numbers", "text", "true or false"]
UNDECLARED = "\0undeclared"
"""Texts that are not a level get this category; it contains a NUL, which no level can contain."""
_TRUTH = {"true": True, "false": False}
_KINDS = {
    **dict.fromkeys((".parquet", ".pq"), "Parquet"),
    **dict.fromkeys((".feather", ".arrow"), "Feather"),
}
csv.field_size_limit(LONGEST_LINE)  # a cell may be as long as a line


@dataclass(frozen=True, slots=True)
class DeclaredColumn:
    """The declared content of a column; `levels` is empty if no levels are declared."""

    reading: Reading
    levels: tuple[Hashable, ...] = ()

    def among_levels(self, codes: Sequence[int]) -> pd.Categorical:
        """A column by positions among the levels: -1 is missing, one beyond them is undeclared."""
        places = np.asarray(codes, dtype=np.intp)
        return pd.Categorical.from_codes(places, categories=[*self.levels, UNDECLARED])


def by_levels(name: str, levels: Iterable[Hashable] | None) -> DeclaredColumn:
    """The content of a column with these declared levels, or without any."""
    if levels is None:
        return DeclaredColumn("numbers")
    declared = tuple(levels)
    truths = [isinstance(level, bool) for level in declared]
    if all(truths):
        return DeclaredColumn("true or false", declared)
    if all(isinstance(level, int | float) for level in declared) and not any(truths):
        return DeclaredColumn("numbers", declared)
    wrong = ""
    if not all(isinstance(level, str) for level in declared):
        wrong = (
            "in a file, the levels of a column are all texts, all numbers, or all true and false"
        )
    elif any(str(level).strip() != level for level in declared):
        wrong = "a level in a file has no blank at its ends"
    if wrong:
        raise SchemaError(f"levels[{name!r}]={show(list(declared))}: {wrong}.")
    return DeclaredColumn("text", declared)


def by_variable(variable: Variable) -> DeclaredColumn:
    """The content of a column that is a variable of a model."""
    match variable.kind:
        case "categorical":
            return by_levels(variable.name, variable.levels)
        case "logical":
            return DeclaredColumn("true or false")
        case "text":
            return DeclaredColumn("text")
    return DeclaredColumn("numbers")


def describe(readings: Mapping[str, Reading], numbers_note: str) -> str:
    """A line that says how columns were read, such as ``read as numbers: y, age``."""
    parts = []
    for reading in ("numbers", "text", "true or false"):
        names = [name for name, found in readings.items() if found == reading]
        if names:
            shown = ", ".join(name if name.isprintable() else repr(name) for name in names)
            note = f" ({numbers_note})" if numbers_note and reading == "numbers" else ""
            parts.append(f"as {reading}: {shown}{note}")
    return f"read {'; '.join(parts)}"


@contextmanager
def open_table(
    path: str,
    separator: str | None = None,
    *,
    decimal: str | None = None,
    encoding: str | None = None,
) -> Iterator[CsvTable | ArrowTable]:
    """Open a table: Parquet or Feather if its name ends like one, otherwise text; ``-`` is stdin.

    The default separator is a comma, or a semicolon if the decimal mark is a comma. The table has
    the names of its columns, and can be read once.

    Notes
    -----
    **Privacy.** *Covered*: nothing; a frame that is read is as private as the file.
    *Neighbours*: changing one record changes the values of one row, and no types.
    *Assumed public*: the number of records, the names, the types of a file that has them, and
    that the file is well formed; an error about its form names a line. *Not covered*: time and
    memory.
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
        kind = _KINDS.get(ending)
        if kind is None:
            if ending == ".tsv" and separator is None:
                spelled = ("\t", *spelled[1:])
            yield CsvTable(stream, shown, *spelled)
            return
        if stream is not raw:
            raise InputError(f"{shown}: a {kind} file is compressed inside; unpack this one.")
        for option, value in options.items():
            if value is not None:
                raise InputError(f"{shown}: {option} goes with text, and this is a {kind} file.")
        yield ArrowTable(stream, shown, kind)


class CsvTable:
    """A table as text with a separator; error messages call the file `shown`.

    The decimal mark of numbers is ``.`` or ``,``. A column without a name, such as the row numbers
    that R writes, cannot be used in formulas.
    """

    numbers_note = "text there counts as missing; --levels declares text columns"
    types: Mapping[str, str | None]
    """The type of each column; None, because a text does not say it."""

    def __init__(
        self,
        stream: IO[bytes],
        shown: str,
        separator: str,
        decimal: str = ".",
        encoding: str = UTF8,
    ) -> None:
        self._shown, self._separator = shown, separator
        self._number = number if decimal == "." else _comma_number
        self._parsers: dict[Reading, Callable[[str], Any]] = {
            "numbers": self._number,
            "text": str,
            "true or false": lambda cell: _TRUTH.get(cell.lower()),
        }
        self._stream, self._encoding = stream, encoding
        self._lines = text_lines(stream, shown, encoding)
        header = next(self._lines, None)
        if header is None:
            raise InputError(f"{shown}: the file is empty; its first line takes the column names.")
        self._header = self._cells(*header)
        self.names = names = tuple(name for name in self._header if name)
        self.types = dict.fromkeys(names)
        takes = "the first line takes the column names, and"
        if not names:
            raise wrong_line(shown, 1, f"{takes} there are none")
        if 2 * sum(math.isfinite(self._number(name)) for name in names) > len(names):
            raise wrong_line(shown, 1, f"{takes} these are numbers")
        _require_different(names, f"{shown}, line 1")

    def read(self, wanted: Mapping[str, DeclaredColumn]) -> tuple[pd.DataFrame, dict[str, Reading]]:
        """The requested columns, and how each of them was read."""
        found: dict[str, Any] = {name: [] for name in wanted}
        places, sinks = {name: index for index, name in enumerate(self._header)}, []
        for name, how in wanted.items():
            if how.levels or how.reading == "numbers":
                found[name] = array("l" if how.levels else "d")
            sinks.append((places[name], self._parser(how), found[name]))
        if wanted and self._encoding == UTF8 and can_split(self._separator, len(self._header)):
            self._read_blocks(sinks)
        else:
            self._read_lines(self._lines, sinks)
        frame = pd.DataFrame({name: _typed(how, found[name]) for name, how in wanted.items()})
        return frame, {name: how.reading for name, how in wanted.items()}

    def _read_blocks(self, sinks: Sequence[tuple[int, Callable[[str], Any], Any]]) -> None:
        """Read what follows the header, by pyarrow where all lines of a block are plain."""
        places, line_number = {place: parse is number for place, parse, _ in sinks}, 2
        for block in blocks(self._stream, self._shown):
            cells = plain_cells(block, self._separator, len(self._header), places)
            if cells is None:
                lines = text_lines(io.BytesIO(block), self._shown, UTF8, line_number)
                self._read_lines(lines, sinks)
            else:
                for place, parse, found in sinks:
                    if parse is number:
                        found.frombytes(as_numbers(cells[place], parse).tobytes())
                    else:
                        found.extend(each(cells[place], parse))
            line_number += block.count(b"\n")

    def _read_lines(
        self, lines: Iterator[tuple[int, str]], sinks: Sequence[tuple[int, Any, Any]]
    ) -> None:
        adding = [(place, parse, found.append) for place, parse, found in sinks]
        width = len(self._header)
        for line_number, line in lines:
            cells = self._cells(line_number, line)
            if len(cells) != width:
                what = f"{len(cells)} cells, and the line of names has {width}"
                raise wrong_line(self._shown, line_number, what)
            for index, parse, add in adding:
                add(parse(cells[index]))

    def _cells(self, line_number: int, line: str) -> list[str]:
        if '"' not in line:
            return [cell.strip() for cell in line.split(self._separator)]
        how: Any = {"delimiter": self._separator, "strict": True, "skipinitialspace": True}
        try:
            return [cell.strip() for cell in next(csv.reader([line], **how))]
        except csv.Error:
            what = "a quote is not closed on its line, or something follows it"
            raise wrong_line(self._shown, line_number, what) from None

    def _parser(self, how: DeclaredColumn) -> Callable[[str], Any]:
        """A function from a cell to its value, or to the position of its level, by declaration.

        The position of a missing value is -1, and that of an undeclared one is after all levels.
        """
        parse = self._parsers[how.reading]
        if not how.levels:
            return parse
        position: dict[Any, int] = {level: index for index, level in enumerate(how.levels)}

        def code(cell: str) -> int:
            value = parse(cell)
            absent = value is None or value == "" or value != value
            return position.get(value, -1 if absent else len(position))

        return code


def number(cell: str) -> float:
    """The number in a cell, NaN if the cell is not a number."""
    try:
        return math.nan if "_" in cell else float(cell)  # only Python accepts 1_000
    except ValueError:
        return math.nan


def _comma_number(cell: str) -> float:
    """The same as `number` with a decimal comma; a cell with a point, as in 1.000, is NaN."""
    return math.nan if "." in cell else number(cell.replace(",", "."))


def _typed(how: DeclaredColumn, found: Any) -> Any:
    """The cells of a column, with the type that its declaration implies."""
    if how.levels:
        return how.among_levels(found)
    if how.reading == "numbers":
        return np.asarray(found, dtype=np.float64)
    if how.reading == "text":
        return pd.array([cell or None for cell in found], dtype="string")
    return pd.array(found, dtype="boolean")


def _require_different(names: Sequence[str], shown: str) -> None:
    for name, often in Counter(names).items():
        if often > 1:
            raise InputError(f"{shown}: two columns are called {name!r}, and names must differ.")


class ArrowTable:
    """A Parquet or Feather file, whose types are public and do not depend on nulls."""

    numbers_note = ""

    def __init__(self, stream: IO[bytes], shown: str, kind: str) -> None:
        try:
            import pyarrow
            import pyarrow.ipc
            import pyarrow.parquet
        except ImportError:
            raise MissingDependencyError(
                f"{shown}: reading {kind} takes pyarrow; install it with "
                "`pip install 'privatelr[parquet]'`, or pass the table as CSV."
            ) from None
        self._shown, self._kinds = shown, pyarrow.types
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
        # pandas may have stored row labels, which are not a column of the table
        stored = (schema.pandas_metadata or {}).get("index_columns", [])
        labels = {name for name in stored if isinstance(name, str)}
        self.names = tuple(name for name in schema.names if name not in labels)
        _require_different(self.names, shown)
        self.types = {name: str(schema.field(name).type) for name in self.names}

    def read(self, wanted: Mapping[str, DeclaredColumn]) -> tuple[pd.DataFrame, dict[str, Reading]]:
        """The requested columns, and how each of them was read in view of its type."""
        columns: dict[str, Any] = {}
        readings: dict[str, Reading] = {}
        try:
            table = self._read(columns=list(wanted))
            for name, how in wanted.items():
                columns[name], readings[name] = self._column(table.column(name), name, how)
        except self._errors:
            raise InputError(f"{self._shown}: the file is damaged.") from None
        return pd.DataFrame(columns), readings

    def _column(self, column: Any, name: str, how: DeclaredColumn) -> tuple[Any, Reading]:
        """The values of a column, with a type by that of the column and by its declared levels."""
        types, of, declared = self._kinds, column.type, how.reading == "text"
        if types.is_dictionary(of):
            # a dictionary lists the values that occur, which are not declared levels
            of = of.value_type
            column = column.cast(of)
        if types.is_string(of) or types.is_large_string(of):
            return _coded(column, how if declared else DeclaredColumn("text"), str), "text"
        if types.is_boolean(of):
            if declared and {str(level).lower() for level in how.levels} == _TRUTH.keys():
                return _coded(column, how, lambda value: str(value).lower()), "text"
            return pd.array(column.to_pylist(), dtype="boolean"), "true or false"
        if types.is_integer(of) and declared and all(map(_is_whole, how.levels)):
            return _coded(column, how, str), "text"
        if types.is_integer(of) or types.is_decimal(of):
            return column.cast("float64", safe=False).to_numpy(), "numbers"
        if types.is_floating(of):
            return column.to_numpy(), "numbers"
        raise InputError(
            f"{self._shown}: the column {name!r} has the type {of}; a model takes numbers, texts "
            "and booleans."
        )


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
