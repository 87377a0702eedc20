"""A table as text: a line of names, then one record a line.

Every line is one record, so the number of records is the number of lines and a quote that is
not closed cannot swallow the records after it. Each cell is read by itself.
"""

from __future__ import annotations

import csv
import math
from array import array
from collections import Counter
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from privatelr.cli.outcomes import InputError
from privatelr.cli.text_lines import LONGEST_LINE, UTF8, text_lines, wrong_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from privatelr.cli.tables import Reading, Wanted

csv.field_size_limit(LONGEST_LINE)  # or a long cell would be an error, though its line is none
_TRUTH = {"true": True, "false": False}


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

    def read(self, wanted: Mapping[str, Wanted]) -> tuple[pd.DataFrame, dict[str, Reading]]:
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

    def __init__(self, wanted: Wanted, number: Callable[[str], float]) -> None:
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
        self._found.append(self._position.get(value, -1) if self._position else value)

    def values(self) -> Any:
        """All that was added, in a type that follows from the declaration."""
        wanted = self._wanted
        if wanted.levels:
            codes = np.asarray(self._found, dtype=np.intp)
            return pd.Categorical.from_codes(codes, categories=list(wanted.levels))
        if wanted.reading == "numbers":
            return np.asarray(self._found, dtype=np.float64)
        if wanted.reading == "text":
            return pd.array([cell or None for cell in self._found], dtype="string")
        return pd.array(self._found, dtype="boolean")


_PARSERS: dict[Reading, Callable[[str], Any]] = {
    "text": str,
    "true or false": lambda cell: _TRUTH.get(cell.lower()),
}
