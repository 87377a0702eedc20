"""Tables as text: compressed or not, their encoding, their numbered lines, their records.

Every line is one record, so the number of records is the number of lines and a quote that is
not closed cannot swallow the records after it. Each cell is read by itself.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import math
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from io import TextIOWrapper
from itertools import count
from pathlib import PurePath
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from privatelr.cli.outcomes import InputError, reason_of
from privatelr.errors import MissingDependencyError

if TYPE_CHECKING:
    from privatelr.cli.table_files import DeclaredColumn, Reading


_DAMAGE = (EOFError, OSError, ValueError, zlib.error, lzma.LZMAError)


def unpacked(stream: IO[bytes], path: str) -> tuple[IO[bytes], str]:
    """The content of a file, and the ending of its name without that of a compression.

    Raises
    ------
    InputError
        On reading, if the content is damaged or not compressed.
    MissingDependencyError
        If it takes a library that is not installed.
    """
    name = PurePath(path)
    ending = name.suffix.lower()
    if ending not in _UNPACKERS:
        return stream, ending
    source = _UNPACKERS[ending](stream)
    return io.BufferedReader(_Guarded(source, repr(path), ending)), name.with_suffix(
        ""
    ).suffix.lower()


def _unzstd(stream: IO[bytes]) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise MissingDependencyError(
            "reading .zst takes pyarrow; install it with `pip install 'privatelr[parquet]'`, or "
            "unpack the file, as in: unzstd FILE."
        ) from None
    return pyarrow.CompressedInputStream(stream, "zstd")


_UNPACKERS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": lambda stream: gzip.GzipFile(fileobj=stream),
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
    ".zst": _unzstd,
}


class _Guarded(io.RawIOBase):
    """What a decompressor reads; its errors quote bytes of the file, and these do not."""

    def __init__(self, source: Any, shown: str, ending: str) -> None:
        self._source, self._shown, self._ending = source, shown, ending

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            return int(self._source.readinto(buffer))
        except _DAMAGE:
            raise InputError(
                f"{self._shown}: the file is damaged, or not of the kind that {self._ending} tells."
            ) from None


LONGEST_LINE = 2**24
UTF8 = "utf-8"
_PACKED = "it is compressed by {}; unpack it, or let its name end in {}"
_UTF = "it is text in {}; pass --encoding {}"
_MARKS = {
    b"\xff\xfe\0\0": _UTF.format("UTF-32", "utf-32"),
    b"\0\0\xfe\xff": _UTF.format("UTF-32", "utf-32"),
    b"\xff\xfe": _UTF.format("UTF-16", "utf-16"),
    b"\xfe\xff": _UTF.format("UTF-16", "utf-16"),
    b"\x1f\x8b": _PACKED.format("gzip", ".gz"),
    b"BZh": _PACKED.format("bzip2", ".bz2"),
    b"\xfd7zXZ\0": _PACKED.format("xz", ".xz"),
    b"\x28\xb5\x2f\xfd": _PACKED.format("zstd", ".zst"),
    b"PAR1": "it is a Parquet file; let its name end in .parquet",
    b"PK\x03\x04": "it is an archive or a spreadsheet; save the table in it as CSV",
    b"\xd0\xcf\x11\xe0": "it is a spreadsheet; save the table in it as CSV",
}
"""The first bytes of files that are not text in UTF-8, and what to do about them."""


def wrong_line(shown: str, number: int, what: str) -> InputError:
    """An error about a line, which quotes nothing of it."""
    return InputError(f"{shown}, line {number}: {what}.")


def text_lines(stream: IO[bytes], shown: str, encoding: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers from 1, without what ends them; `shown` names the file.

    Raises
    ------
    InputError
        At a line that is too long, blank, in another encoding, or holds control codes.
    """
    lines = _by_bytes if _ends_lines_as_ascii(encoding) else _by_characters
    for number, line, start in lines(stream, shown, encoding):
        line = line.removesuffix("\n").removesuffix("\r")
        if "\0" in line or "\r" in line:
            raise wrong_line(
                shown,
                number,
                _hint(start) or "this is not a line of a table, but holds control codes",
            )
        if not line.strip(" "):
            raise wrong_line(shown, number, "the line is blank, and every line is a record")
        yield number, line


def _ends_lines_as_ascii(encoding: str) -> bool:
    probe = '\n,"1'
    return probe.encode(encoding, "replace") == probe.encode()


def _by_bytes(stream: IO[bytes], shown: str, encoding: str) -> Iterator[tuple[int, str, bytes]]:
    """Lines that are found before they are decoded, so that a wrong one has its number."""
    for number in count(1):
        try:
            raw = stream.readline(LONGEST_LINE)
        except OSError as error:
            raise _unreadable(shown, error) from None
        if not raw:
            return
        if len(raw) == LONGEST_LINE:
            raise _too_long(shown, number)
        start = raw[:8] if number == 1 else b""
        try:
            line = raw.decode(encoding)
        except UnicodeError:
            raise wrong_line(shown, number, _hint(start) or _not_text(encoding)) from None
        yield number, line.removeprefix("\ufeff") if number == 1 else line, start


def _by_characters(
    stream: IO[bytes], shown: str, encoding: str
) -> Iterator[tuple[int, str, bytes]]:
    """Lines of what is decoded in pieces: in UTF-16, say, a line ends in two bytes."""
    text = TextIOWrapper(stream, encoding, newline="\n")
    try:
        for number in count(1):
            try:
                line = text.readline(LONGEST_LINE)
            except UnicodeError:
                what = f"from here on this is {_not_text(encoding).removeprefix('this is ')}"
                raise wrong_line(shown, number, what) from None
            except OSError as error:
                raise _unreadable(shown, error) from None
            if not line:
                return
            if len(line) == LONGEST_LINE:
                raise _too_long(shown, number)
            yield number, line.removeprefix("\ufeff") if number == 1 else line, b""
    finally:
        with suppress(OSError, ValueError):
            text.detach()


def _hint(start: bytes) -> str | None:
    """What the first bytes of a file tell about what it is."""
    for mark, what in _MARKS.items():
        if start.startswith(mark):
            return f"this is not text in UTF-8: {what}"
    for ending, pair in (("le", start[1:2]), ("be", start[:1])):
        if pair == b"\0":
            return f"this holds zeros as UTF-16 does; pass --encoding utf-16-{ending}"
    return None


def _not_text(encoding: str) -> str:
    shown = "UTF-8" if encoding == UTF8 else encoding
    return f"this is not text in {shown}; --encoding names another, such as latin-1 or utf-16"


def _too_long(shown: str, number: int) -> InputError:
    return wrong_line(shown, number, f"the line is longer than {LONGEST_LINE - 1} bytes")


def _unreadable(shown: str, error: OSError) -> InputError:
    return InputError(f"{shown}: the file cannot be read ({reason_of(error)}).")


csv.field_size_limit(LONGEST_LINE)  # or a long cell would be an error, though its line is none
TRUTH = {"true": True, "false": False}
UNDECLARED = "\0undeclared"
"""A category of every column with levels, for texts that are none of them; no level has a NUL."""


def levelled(codes: Sequence[int], levels: Iterable[Hashable]) -> pd.Categorical:
    """A column of places among levels: -1 is missing, and one beyond them is undeclared."""
    places = np.asarray(codes, dtype=np.intp)
    return pd.Categorical.from_codes(places, categories=[*levels, UNDECLARED])


class CsvTable:
    """Text with a separator; `shown` is how errors call the file.

    `decimal` stands in the numbers before their fractions: ``.`` or ``,``.
    """

    def __init__(
        self,
        stream: IO[bytes],
        shown: str,
        separator: str,
        decimal: str = ".",
        encoding: str = UTF8,
    ) -> None:
        self._shown, self._separator = shown, separator
        self._number = _NUMBERS[decimal]
        self._lines = text_lines(stream, shown, encoding)
        header = next(self._lines, None)
        if header is None:
            raise InputError(f"{shown}: the file is empty; its first line takes the column names.")
        self._header = self._cells(*header)
        self._names = tuple(name for name in self._header if name)
        self._require_names()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of columns; one without a name, such as R's row numbers, is not for formulas."""
        return self._names

    @property
    def numbers_note(self) -> str:
        return "text there counts as missing; --levels declares text columns"

    def read(self, wanted: Mapping[str, DeclaredColumn]) -> tuple[pd.DataFrame, dict[str, Reading]]:
        """The wanted columns; see `Table`."""
        columns = {name: _Column(how, self._number) for name, how in wanted.items()}
        places = {name: index for index, name in enumerate(self._header)}
        sinks = [(places[name], column.add) for name, column in columns.items()]
        width = len(self._header)
        for number, line in self._lines:
            cells = self._cells(number, line)
            if len(cells) != width:
                raise self._wrong(number, f"{len(cells)} cells, and the line of names has {width}")
            for index, add in sinks:
                add(cells[index])
        frame = pd.DataFrame({name: column.values() for name, column in columns.items()})
        return frame, {name: how.reading for name, how in wanted.items()}

    def _cells(self, number: int, line: str) -> list[str]:
        if '"' not in line:
            return [cell.strip() for cell in line.split(self._separator)]
        try:
            reader = csv.reader(
                [line], delimiter=self._separator, strict=True, skipinitialspace=True
            )
            return [cell.strip() for cell in next(reader)]
        except csv.Error:
            raise self._wrong(
                number, "a quote is not closed on its line, or something follows it"
            ) from None

    def _require_names(self) -> None:
        names = self.names
        if not names:
            raise self._wrong(1, "the first line takes the column names, and there are none")
        if 2 * sum(math.isfinite(self._number(name)) for name in names) > len(names):
            raise self._wrong(1, "the first line takes the column names, and these are numbers")
        if len(set(names)) < len(names):
            twice = next(name for name, often in Counter(names).items() if often > 1)
            raise self._wrong(1, f"two columns are called {twice!r}, and names must differ")

    def _wrong(self, number: int, what: str) -> InputError:
        return wrong_line(self._shown, number, what)


def number(cell: str) -> float:
    """The number that a cell spells, NaN if it spells none."""
    try:
        return math.nan if "_" in cell else float(cell)  # Python alone reads 1_000
    except ValueError:
        return math.nan


def _comma_number(cell: str) -> float:
    """As `number` with a decimal comma; a point could stand between thousands."""
    return math.nan if "." in cell else number(cell.replace(",", "."))


_NUMBERS: dict[str, Callable[[str], float]] = {".": number, ",": _comma_number}


class _Column:
    """Collects the cells of one column, as the declaration says and not as they look."""

    def __init__(self, wanted: DeclaredColumn, number: Callable[[str], float]) -> None:
        self._wanted = wanted
        self._parse = number if wanted.reading == "numbers" else _PARSERS[wanted.reading]
        self._position = {level: index for index, level in enumerate(wanted.levels)}
        self._found: Any = []
        if wanted.levels:
            self._found = array("l")
        elif wanted.reading == "numbers":
            self._found = array("d")

    def add(self, cell: str) -> None:
        value = self._parse(cell)
        self._found.append(self._code(value) if self._position else value)

    def _code(self, value: Any) -> int:
        """The place of a level, -1 of a missing value, and after all levels of anything else."""
        absent = value is None or value == "" or value != value
        return self._position.get(value, -1 if absent else len(self._position))

    def values(self) -> Any:
        """All that was added, in a type that follows from the declaration."""
        wanted = self._wanted
        if wanted.levels:
            return levelled(self._found, wanted.levels)
        if wanted.reading == "numbers":
            return np.asarray(self._found, dtype=np.float64)
        if wanted.reading == "text":
            return pd.array([cell or None for cell in self._found], dtype="string")
        return pd.array(self._found, dtype="boolean")


_PARSERS: dict[Reading, Callable[[str], Any]] = {
    "text": str,
    "true or false": lambda cell: TRUTH.get(cell.lower()),
}
