"""Tables in files, as text, Parquet or Feather: the requested columns, typed by declarations.

No type is inferred from values. A single value could change an inferred type, and a fit could be
refused because of it, so that the refusal would reveal one record. A cell that does not fit the
declaration of its column counts as missing, and its record remains.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import math
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from os.path import exists, isdir
from pathlib import PurePath
from typing import IO, TYPE_CHECKING, Any, Literal

from privatelr.cli.files import open_to_read
from privatelr.cli.outcomes import STDIN, InputError
from privatelr.design import Variable
from privatelr.errors import MissingDependencyError, SchemaError, show
from privatelr.lazy_import import lazy_import
from privatelr.sources import (
    RecordBatches,
    as_batch,
    as_stream,
    decoded,
    files_of,
    is_pattern,
    kind_of,
    undressed,
)
from privatelr.sources.record_batches import empty_table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import compute
    from pyarrow import csv as arrow_csv
else:
    pa = lazy_import("pyarrow")
    arrow_csv = lazy_import("pyarrow.csv")
    compute = lazy_import("pyarrow.compute")

Reading = Literal["numbers", "text", "true or false"]
UNDECLARED = "\0undeclared"
"""Stands for texts that are not a level; it contains a NUL, which no level can contain."""
_TRUTHS = {"true": True, "false": False}
_MISSING = ["", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "."]
"""Common spellings of a missing number. Other spellings are recognised too, more slowly."""
_UNPACKERS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": lambda stream: pa.CompressedInputStream(stream, "zstd"),
}
"""The end of a name tells how a text file is compressed."""
_BLOCK = 2**22


@dataclass(frozen=True, slots=True)
class DeclaredColumn:
    """The declared content of a column; `levels` is empty if no levels are declared."""

    reading: Reading
    levels: tuple[Hashable, ...] = ()


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
        names = [name for name, own in readings.items() if own == reading]
        if names:
            shown = ", ".join(name if name.isprintable() else repr(name) for name in names)
            note = f" ({numbers_note})" if numbers_note and reading == "numbers" else ""
            parts.append(f"as {reading}: {shown}{note}")
    return f"read {'; '.join(parts)}"


# -- opening -------------------------------------------------------------------------------------


def is_file(word: str) -> bool:
    """Whether a word of the command line is a table, and not a formula."""
    is_named = "~" not in word and bool(PurePath(word).suffix)
    return word == STDIN or exists(word) or (is_pattern(word) and bool(kind_of(word))) or is_named


@contextmanager
def open_table(
    paths: Sequence[str],
    *,
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
) -> Iterator[TextTable | ArrowTable]:
    """Open a table: Parquet or Feather if its name ends like one, otherwise text.

    The default separator is a comma, or a semicolon if the decimal mark is a comma. The table has
    the names of its columns, and can be read once. Several files, a folder and a pattern such as
    ``data/*.parquet`` are Parquet or Feather.

    Notes
    -----
    **Privacy.** *Covered*: nothing; a table that is read is as private as the file.
    *Neighbours*: changing one record changes the values of one row, and no types.
    *Assumed public*: the number of records, the names, the types of a file that has them, and
    that the file is well formed; an error about its form names a record. *Not covered*: time and
    memory.
    """
    files = [file for path in paths for file in files_of(path)]
    shown = "standard input" if paths[0] == STDIN else repr(paths[0])
    shown = f"{shown} and {len(paths) - 1} more" if len(paths) > 1 else shown
    for path in (files or paths) if files != [STDIN] else ():
        if path == STDIN:
            raise InputError("'-': standard input is a table of its own, and not among files.")
        if not exists(path):
            raise InputError(f"{path!r}: there is no such file.")
    kinds = {kind_of(path) for path in files}
    _require_arrow(shown)
    if len(files) != 1 or isdir(files[0]) or kinds != {""}:
        options = {"--separator": separator, "--decimal": decimal, "--encoding": encoding}
        for option, value in options.items():
            if value is not None:
                raise InputError(f"{shown}: {option} goes with text, and this is not a text file.")
        yield ArrowTable(list(paths), shown)
        return
    name = PurePath(files[0])
    suffix = PurePath(name.stem).suffix if name.suffix.lower() in _UNPACKERS else name.suffix
    usual = ";" if decimal == "," else "\t" if suffix.lower() == ".tsv" else ","
    with _unpacked(files[0]) as stream:
        yield TextTable(stream, shown, separator or usual, decimal or ".", encoding or "utf-8")


def _require_arrow(shown: str) -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingDependencyError(
            f"{shown}: reading a table takes pyarrow; install it with "
            "`pip install 'privatelr[parquet]'`."
        ) from None


@contextmanager
def _unpacked(path: str) -> Iterator[IO[bytes]]:
    """Open a text file, and decompress it if its name says so."""
    if path == STDIN:
        if sys.stdin is None:
            raise InputError("-: there is no standard input.")
        # read here, because an interrupt would end pyarrow's threads in the middle of a read
        yield io.BytesIO(sys.stdin.buffer.read())
        return
    with open_to_read(path) as stream:
        unpack = _UNPACKERS.get(PurePath(path).suffix.lower())
        yield stream if unpack is None else unpack(stream)


# -- text ----------------------------------------------------------------------------------------


class TextTable:
    """A table as text with a separator, after RFC 4180; error messages call the file `shown`.

    A column without a name, such as the row numbers that R writes, cannot be used in formulas.
    """

    numbers_note = "text there counts as missing; --levels declares text columns"
    types: Mapping[str, str | None]
    """The type of each column; None, because a text does not say it."""

    def __init__(
        self, stream: IO[bytes], shown: str, separator: str, decimal: str, encoding: str
    ) -> None:
        self.shown, self._separator, self._decimal = shown, separator, decimal
        self._encoding = "utf-8-sig" if encoding == "utf-8" else encoding
        self._text = io.TextIOWrapper(stream, self._encoding, newline="")
        with self._errors():
            header = next(csv.reader(self._text, delimiter=separator), [])
        self._header = [name.strip() for name in header]
        takes = f"{shown}: the first line takes the column names, and"
        if not any(self._header):
            raise InputError(f"{takes} there are none.")
        numbers = sum(math.isfinite(_number(name, decimal)) for name in self._header)
        if 2 * numbers > sum(map(bool, self._header)):
            raise InputError(f"{takes} these are numbers.")
        self.names = _names_of(self._header, shown)
        self.types = dict.fromkeys(self.names)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Replace the errors of a reader, which may quote data."""
        try:
            yield
        except UnicodeError:
            told = self._encoding.removesuffix("-sig").upper()
            wrong = f"this is not text in {told}; --encoding names another, such as latin-1"
        except (OSError, EOFError, zlib.error, lzma.LZMAError):
            wrong = "the file cannot be read, or is damaged"
        except (csv.Error, pa.ArrowException):
            wrong = "this is not a table of text with one line of names, and a line for each record"
        else:
            return
        raise InputError(f"{self.shown}: {wrong}.") from None

    def read(
        self, wanted: Mapping[str, DeclaredColumn], *, numbered: bool = True
    ) -> tuple[pa.Table, dict[str, Reading]]:
        """The requested columns, and how each of them is read.

        Errors do not number records if that is not public.
        """
        rest, refused, batches = _Rest(self._text), list[Any](), list[Any]()
        places = [str(self._header.index(name)) for name in wanted]
        kinds = {"numbers": pa.float64(), "text": pa.string(), "true or false": pa.bool_()}
        schema = pa.schema([(name, kinds[how.reading]) for name, how in wanted.items()])
        with self._errors():
            try:
                for batch in self._batches(rest, places, refused):
                    columns = map(self._typed, map(batch.column, places), wanted.values())
                    batches.append(pa.RecordBatch.from_arrays([*columns], schema=schema))
            except pa.ArrowInvalid:
                if refused:
                    where = f"record {refused[0].number:,}" if numbered else "a record"
                    cells = refused[0].actual_columns
                    raise InputError(
                        f"{self.shown}: {where} has {cells} cells, and the line of names has "
                        f"{len(self._header)}."
                    ) from None
                if rest.size:
                    raise
        if rest.quotes % 2:
            raise InputError(f"{self.shown}: a quote is not closed.")
        readings = {name: how.reading for name, how in wanted.items()}
        return pa.Table.from_batches(batches, schema=schema), readings

    def _batches(self, rest: _Rest, places: list[str], refused: list[Any]) -> Iterable[Any]:
        """Batches of texts; a record of another width ends them, and is `refused`."""

        def refuse(row: Any) -> str:
            refused.append(row)
            return "error"

        names = [*map(str, range(len(self._header)))]
        how = arrow_csv.ReadOptions(column_names=names, use_threads=False, block_size=_BLOCK)
        form = arrow_csv.ParseOptions(
            delimiter=self._separator,
            newlines_in_values=True,
            ignore_empty_lines=False,
            invalid_row_handler=refuse,
        )
        types = arrow_csv.ConvertOptions(
            include_columns=places, column_types=dict.fromkeys(places, pa.string())
        )
        batches: Iterable[Any] = arrow_csv.open_csv(pa.PythonFile(rest, "r"), how, form, types)
        return batches

    def _typed(self, column: Any, how: DeclaredColumn) -> Any:
        """A column of texts as its declaration says."""
        column = compute.utf8_trim_whitespace(column)
        if how.reading == "text":
            return _among_levels(column, how.levels)
        if how.reading == "numbers":
            return self._numbers(column)
        return _each(column, lambda cell: _TRUTHS.get(cell.lower()), pa.bool_())

    def _numbers(self, column: Any) -> Any:
        """Texts as numbers; what is not a number is missing."""
        if self._decimal == ".":
            with suppress(pa.ArrowInvalid):
                absent = compute.is_in(column, pa.array(_MISSING))
                numbers = compute.if_else(absent, None, column).cast("float64")
                return compute.if_else(compute.is_nan(numbers), None, numbers)
        cells = _each(column, partial(_number, decimal=self._decimal), pa.float64())
        return compute.if_else(compute.is_nan(cells), None, cells)


def _number(cell: str, decimal: str = ".") -> float:
    """The number in a cell, NaN if the cell is not a number."""
    if decimal == ",":
        cell = cell.replace(".", "_").replace(",", ".")
    try:
        return math.nan if "_" in cell else float(cell)  # only Python accepts 1_000
    except ValueError:
        return math.nan


def _each(column: Any, parse: Callable[[Any], Any], kind: Any) -> Any:
    """What each cell is; equal cells are parsed once."""
    coded = column.dictionary_encode()
    return pa.array(map(parse, coded.dictionary.to_pylist()), kind).take(coded.indices)


def _among_levels(column: Any, levels: Sequence[Hashable]) -> Any:
    """Texts, numbers or truths as the levels that they spell; other texts remain undeclared."""
    level_of: dict[Any, Hashable] = {level: level for level in levels}
    truths = {_TRUTHS.get(str(level).lower()): level for level in levels}
    numbers = {_number(str(level)): level for level in levels}
    if len(numbers) == len(levels) and all(map(math.isfinite, numbers)):
        level_of |= numbers

    def parse(cell: Any) -> Any:
        if cell is None or cell == "" or cell != cell:
            return None
        if isinstance(cell, bool):
            return truths[cell]
        if isinstance(cell, str):
            return level_of.get(cell) or level_of.get(_number(cell), cell)
        return level_of.get(cell, UNDECLARED if levels else str(cell))

    return _each(column, parse, pa.string())


class _Rest(io.RawIOBase):
    """The rest of a text, as bytes of UTF-8 whose quotes are counted."""

    def __init__(self, text: io.TextIOWrapper) -> None:
        self._text = text
        self.size = self.quotes = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        block = self._text.read(size).encode()
        self.size += len(block)
        self.quotes += block.count(b'"')
        return block


# -- Parquet and Feather -------------------------------------------------------------------------


class ArrowTable:
    """Parquet or Feather files of the same types, which are public and which no null changes."""

    numbers_note = ""

    def __init__(self, paths: list[str], shown: str) -> None:
        self.shown = shown
        try:
            self._source = as_stream(paths[0] if isdir(paths[0]) else paths)
        except SchemaError as error:
            raise InputError(f"{shown}: {str(error).removeprefix('data: ')}") from None
        self.names = _names_of(self._source.schema.names, shown)
        if not self.names:
            raise InputError(f"{shown}: there is no Parquet file with a column.")
        self.types = {name: str(self._source.schema.field(name).type) for name in self.names}

    def read(
        self, wanted: Mapping[str, DeclaredColumn], *, numbered: bool = True
    ) -> tuple[RecordBatches, dict[str, Reading]]:
        """The requested columns, batch by batch, and how each of them is read."""
        source = self._source
        own = {name: decoded(pa.nulls(0, source.schema.field(name).type)).type for name in wanted}
        readings: dict[str, Reading] = {
            name: _reading_of(own[name], how, f"{self.shown}: the column {name!r}")
            for name, how in wanted.items()
        }
        kinds = {"text": pa.string(), "true or false": pa.bool_()}
        schema = pa.schema([(name, kinds.get(how, own[name])) for name, how in readings.items()])

        def opened(columns: Sequence[str]) -> Iterator[Any]:
            shown = pa.schema([schema.field(name) for name in columns])
            for batch in source.read(columns):
                typed = [
                    _in_arrow(batch.column(place), readings[name], wanted[name])
                    for place, name in enumerate(columns)
                ]
                yield pa.RecordBatch.from_arrays(typed, schema=shown)

        facts = opened, source.count, source.required
        return RecordBatches(schema, as_batch(empty_table(schema)), *facts), readings


def in_memory(table: pa.Table | RecordBatches) -> pa.Table:
    """All records of a table that was read, together."""
    if not isinstance(table, RecordBatches):
        return table
    return pa.Table.from_batches(table.read(table.columns), schema=table.schema)


def _reading_of(kind: Any, how: DeclaredColumn, where: str) -> Reading:
    """How a column of Arrow is read, by its type and by its declared levels."""
    if undressed(kind) == "string":
        return "text"
    if pa.types.is_boolean(kind):
        spells = {str(level).lower() for level in how.levels} == _TRUTHS.keys()
        return "text" if how.reading == "text" and spells else "true or false"
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_floating(kind):
        numbers = {_number(str(level)) for level in how.levels}
        spells = len(numbers) == len(how.levels) and all(map(math.isfinite, numbers))
        as_text = spells if how.levels else pa.types.is_integer(kind)
        return "text" if how.reading == "text" and as_text else "numbers"
    raise InputError(f"{where} has the type {kind}; a model takes numbers, texts and booleans.")


def _in_arrow(column: Any, reading: Reading, how: DeclaredColumn) -> Any:
    column = decoded(column)
    if reading != "text":
        return column
    if undressed(column.type) == "string" or not how.levels:
        return column.cast(pa.string())
    return _among_levels(column, how.levels)


def _names_of(names: Sequence[str], shown: str) -> tuple[str, ...]:
    """Names of columns, which must differ; a column without one cannot be used in formulas."""
    for name, often in Counter(names).items():
        if often > 1 and name:
            raise InputError(f"{shown}: two columns are called {name!r}, and names must differ.")
    return tuple(filter(None, names))
