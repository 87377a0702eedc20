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
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os.path import exists, isdir
from pathlib import PurePath
from typing import IO, TYPE_CHECKING, Any, Literal

from privatelr.cli.outcomes import STDIN, InputError, note
from privatelr.design import Variable
from privatelr.errors import MissingDependencyError, SchemaError, show
from privatelr.lazy_import import lazy_import
from privatelr.sources import RecordBatches, as_stream, files_of, is_pattern, kind_of, undressed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import compute
    from pyarrow import csv as arrow_csv
else:
    pa = lazy_import("pyarrow")
    arrow_csv = lazy_import("pyarrow.csv")
    compute = lazy_import("pyarrow.compute")

Reading = Literal["numbers", "text", "true or false"]
_NUMBER = r"^[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?)$"
"""A number in a text, in any case."""
_UNPACKERS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": lambda stream: pa.CompressedInputStream(stream, "zstd"),
}
"""The end of a name tells how a text file is compressed."""
_BLOCK = 2**22


def reading_of(name: str, levels: Iterable[Hashable] | None) -> Reading:
    """How a column with these declared levels is read, or one without any."""
    if levels is None:
        return "numbers"
    declared = tuple(levels)
    kinds = {type(level) for level in declared}
    if kinds == {bool}:
        return "true or false"
    if kinds <= {int, float}:
        return "numbers"
    if kinds == {str} and all(str(level).strip() == level for level in declared):
        return "text"
    raise SchemaError(
        f"levels[{name!r}]={show(list(declared))}: in a file, the levels of a column are all texts "
        "without a blank at their ends, all numbers, or all true and false."
    )


def reading_of_variable(variable: Variable) -> Reading:
    """How a column is read that is a variable of a model."""
    if variable.kind == "categorical":
        return reading_of(variable.name, variable.levels)
    kinds: dict[str, Reading] = {"logical": "true or false", "text": "text"}
    return kinds.get(variable.kind, "numbers")


def read_columns(
    table: TextTable | ArrowTable, wanted: Mapping[str, Reading], person: str | None = None
) -> pa.Table | RecordBatches:
    """Read columns, and the one that tells persons apart as it is written; say how in one line."""
    columns = dict(wanted)
    if person is not None:  # the numbers 1 and 1.0 may be two persons
        columns[person] = "text"
    for name in columns:
        if name not in table.names:
            raise InputError(f"{name!r} is not a column of the table.")
    frame, readings = table.read(columns, numbered=person is None)
    parts = []
    for reading in ("numbers", "text", "true or false"):
        names = [name for name, own in readings.items() if own == reading]
        if names:
            shown = ", ".join(name if name.isprintable() else repr(name) for name in names)
            untyped = table.numbers_note and reading == "numbers"
            parts.append(f"as {reading}: {shown}{f' ({table.numbers_note})' * bool(untyped)}")
    note("privatelr", f"read {'; '.join(parts)}.")
    return frame


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
    with open(path, "rb") as stream:
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
        numbers = self._numbers(pa.array(self._header, pa.string()))
        if 2 * (len(numbers) - numbers.null_count) > sum(map(bool, self._header)):
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
        self, wanted: Mapping[str, Reading], *, numbered: bool = True
    ) -> tuple[pa.Table, Mapping[str, Reading]]:
        """The requested columns, and how each of them is read.

        Errors do not number records if that is not public.
        """
        rest, refused, batches = _Rest(self._text), list[Any](), list[Any]()
        places = [str(self._header.index(name)) for name in wanted]
        kinds = {"numbers": pa.float64(), "text": pa.string(), "true or false": pa.bool_()}
        schema = pa.schema([(name, kinds[how]) for name, how in wanted.items()])
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
        return pa.Table.from_batches(batches, schema=schema), wanted

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

    def _typed(self, column: Any, reading: Reading) -> Any:
        """A column of texts as its declaration says; what it cannot be is missing."""
        column = compute.ascii_trim_whitespace(column)
        if reading == "text":
            return compute.if_else(compute.equal(column, ""), None, column)
        if reading == "numbers":
            return self._numbers(column)
        truths = pa.array(["false", "true"])
        return compute.index_in(compute.ascii_lower(column), truths).cast(pa.bool_())

    def _numbers(self, column: Any) -> Any:
        if self._decimal == ",":
            column = compute.replace_substring(column, ".", "_")
            column = compute.replace_substring(column, ",", ".")
        is_number = compute.match_substring_regex(column, _NUMBER, ignore_case=True)
        return compute.if_else(is_number, column, None).cast(pa.float64())


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
        self.names = _names_of(self._source.typed.names, shown)
        self.types = {name: undressed(self._source.schema.field(name).type) for name in self.names}

    def read(
        self, wanted: Mapping[str, Reading], *, numbered: bool = True
    ) -> tuple[RecordBatches, Mapping[str, Reading]]:
        """The files as a stream, and how the requested columns are read by their types."""
        kinds: dict[str, Reading] = {"string": "text", "bool": "true or false"}
        return self._source, {name: kinds.get(self.types[name], "numbers") for name in wanted}


def in_memory(frame: pa.Table | RecordBatches, names: Sequence[str]) -> pa.Table:
    """Columns of all records, together."""
    if not isinstance(frame, RecordBatches):
        return frame
    schema = pa.schema([frame.schema.field(name) for name in names])
    return pa.Table.from_batches(frame.read(names), schema=schema)


def _names_of(names: Sequence[str], shown: str) -> tuple[str, ...]:
    """Names of columns, which must differ; a column without one cannot be used in formulas."""
    for name, often in Counter(names).items():
        if often > 1 and name:
            raise InputError(f"{shown}: two columns are called {name!r}, and names must differ.")
    return tuple(filter(None, names))
