"""Blocks of lines of a text table, split by pyarrow where every line is plain.

A line never changes how another one is read. So pyarrow gets no quotes, whose ends it may look for
on later lines, and no types to find; what it does not split as `CsvTable` does, it does not get.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from typing import IO, Any

import numpy as np

from privatelr.cli.files import LONGEST_LINE, unreadable
from privatelr.types import FloatArray

_BLOCK = 2**22
"""Bytes of a block, to which the rest of its last line is added."""
_SPACES = (
    "\t\x0b\x0c\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006"
    "\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
"""What `str.strip` removes at both ends."""
_ABSENT = ["", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "."]
"""Cells that are no number, as most are spelled; all others are not, too, but take longer."""


def can_split(separator: str, width: int) -> bool:
    """Whether pyarrow is there, and splits such lines; one cell may be a blank line."""
    is_plain = len(separator) == 1 and separator.isascii() and separator not in '" \r\n'
    return is_plain and width > 1 and find_spec("pyarrow") is not None


def blocks(stream: IO[bytes], shown: str) -> Iterator[bytes]:
    """Yield the rest of a stream in blocks of whole lines, but for one that is too long.

    Raises
    ------
    InputError
        If it cannot be read; `shown` names the file.
    """
    while True:
        try:
            block = stream.read(_BLOCK)
            if not block.endswith(b"\n"):
                block += stream.readline(LONGEST_LINE)
        except OSError as error:
            raise unreadable(shown, error) from None
        if not block:
            return
        yield block


def plain_cells(
    block: bytes, separator: str, width: int, places: Mapping[int, bool]
) -> Mapping[int, Any] | None:
    """Return the columns at these places, if all lines of a block are plain.

    Plain lines are text in UTF-8 of so many cells, without control codes. Each quote of theirs is
    around a whole cell, in which there is no separator.

    Parameters
    ----------
    places : mapping
        For each place, whether its cells are numbers. They come as such if all of them are spelled
        as usual; else as texts without blanks at their ends, as other cells do.
    """
    import pyarrow as pa

    block = block.replace(b"\r\n", b"\n")
    if b"\0" in block or b"\r" in block or len(block) >= LONGEST_LINE:
        return None
    if b'"' in block:
        block = _without_quotes(block, separator)
    # pyarrow takes a blank line for a record of empty cells, and drops a mark at the start
    if not block or b"\n\n" in block or block.startswith((b"\n", BOM_UTF8)):
        return None
    try:
        if not block.isascii():
            block.decode()  # pyarrow does not look at columns that it leaves out
        try:
            return _columns(block, separator, width, places)
        except pa.ArrowInvalid:
            return _columns(block, separator, width, dict.fromkeys(places, False))
    except (pa.ArrowException, UnicodeDecodeError):
        return None


def _columns(
    block: bytes, separator: str, width: int, places: Mapping[int, bool]
) -> Mapping[int, Any]:
    import pyarrow as pa
    from pyarrow import compute, csv

    texts = pa.dictionary(pa.int32(), pa.string())
    table = csv.read_csv(
        pa.BufferReader(block),
        read_options=csv.ReadOptions(
            column_names=list(map(str, range(width))), use_threads=False, block_size=len(block) + 1
        ),
        parse_options=csv.ParseOptions(
            delimiter=separator,
            quote_char=False,
            double_quote=False,
            escape_char=False,
            newlines_in_values=False,
            ignore_empty_lines=False,
        ),
        convert_options=csv.ConvertOptions(
            include_columns=list(map(str, places)),
            column_types={
                str(place): pa.float64() if is_number else texts
                for place, is_number in places.items()
            },
            null_values=_ABSENT,
            strings_can_be_null=False,
        ),
    ).combine_chunks()
    found = {place: table.column(str(place)).combine_chunks() for place in places}
    for place, column in found.items():
        if pa.types.is_dictionary(column.type):
            trimmed = compute.utf8_trim(column.dictionary, _SPACES)
            found[place] = pa.DictionaryArray.from_arrays(column.indices, trimmed)
    return found


def _without_quotes(block: bytes, separator: str) -> bytes:
    """Leave out quotes that are around whole cells; nothing is left of others."""
    every = np.frombuffer(block, dtype=np.uint8)
    ends = (every == ord(separator)) | (every == ord("\n"))
    quotes = np.flatnonzero(every == ord('"'))
    opening, closing = quotes[::2], quotes[1::2]
    if len(opening) != len(closing):
        return b""
    before, after = np.append(ends, True)[opening - 1], np.append(ends, True)[closing + 1]
    places = np.flatnonzero(ends)
    is_whole = np.array_equal(np.searchsorted(places, opening), np.searchsorted(places, closing))
    if not (is_whole and before.all() and after.all()):
        return b""
    return bytes(every[every != ord('"')])


def as_numbers(column: Any, number: Callable[[str], float]) -> FloatArray:
    """Return a number for each cell ``(n,)``; `number` reads what is not spelled as usual."""
    import pyarrow as pa

    if pa.types.is_floating(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
    return np.asarray(each(column, number), dtype=np.float64)


def each(column: Any, parse: Callable[[str], Any]) -> list[Any]:
    """Return what each cell is; cells that are the same text are parsed once."""
    values = [parse(text) for text in column.dictionary.to_pylist()]
    return [values[place] for place in column.indices.to_pylist()]
