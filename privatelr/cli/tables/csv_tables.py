"""Tables as text: every line is one record, and each cell is read by itself.

So the number of records is the number of lines, and a quote that is not closed does not affect the
following records.
"""

from __future__ import annotations

import csv
import io
import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

import numpy as np
import pandas as pd

from privatelr.cli.files import LONGEST_LINE, UTF8, text_lines, wrong_line
from privatelr.cli.outcomes import InputError
from privatelr.cli.tables.csv_blocks import as_numbers, blocks, can_split, each, plain_cells
from privatelr.cli.tables.declared_columns import (
    TRUTH,
    DeclaredColumn,
    Reading,
    require_different,
)

csv.field_size_limit(LONGEST_LINE)  # a cell may be as long as a line


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
            "true or false": lambda cell: TRUTH.get(cell.lower()),
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
        require_different(names, f"{shown}, line 1")

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
        # --levels ill=0,1 are texts, and a cell may spell these numbers as 0.0 and 1.0
        numbers = {self._number(str(level)): index for level, index in position.items()}
        if len(numbers) == len(position) and all(map(math.isfinite, numbers)):
            position |= numbers

        def code(cell: str) -> int:
            value = parse(cell)
            if value not in position and (spelled := self._number(cell)) in position:
                return position[spelled]
            absent = value is None or value == "" or value != value
            return position.get(value, -1 if absent else len(how.levels))

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
