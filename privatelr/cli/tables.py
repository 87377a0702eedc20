"""Tables in files: names first, then the columns that are asked for, typed by declarations.

No type is read off the values. One odd value would change it, and with it whether the fit is
refused, so that a refusal would tell of one record. A cell that is not what its column was
declared to hold is missing, and its record stays.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from privatelr.cli.csv_table import CsvTable
from privatelr.cli.files import open_to_read
from privatelr.cli.outcomes import InputError
from privatelr.cli.packed import unpacked
from privatelr.cli.parquet_table import ParquetTable
from privatelr.cli.text_lines import UTF8
from privatelr.errors import SchemaError, show

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping

    import pandas as pd

    from privatelr.frames.variables import Variable

Reading = Literal["numbers", "text", "true or false"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a column is declared to hold; `levels` is empty where nobody declared them."""

    reading: Reading
    levels: tuple[Hashable, ...] = ()


class Table(Protocol):
    """A file that knows the names of its columns and can be read once."""

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def numbers_note(self) -> str:
        """What a user should know about columns that are read as numbers, or nothing."""
        ...

    def read(self, wanted: Mapping[str, Wanted]) -> tuple[pd.DataFrame, dict[str, Reading]]:
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
) -> Iterator[Table]:
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


def by_levels(name: str, levels: Iterable[Hashable] | None) -> Wanted:
    """What a column holds that is declared to have these levels, or none."""
    if levels is None:
        return Wanted("numbers")
    declared = tuple(levels)
    if all(isinstance(level, bool) for level in declared):
        return Wanted("true or false", declared)
    if all(isinstance(level, int | float) and not isinstance(level, bool) for level in declared):
        return Wanted("numbers", declared)
    if not all(isinstance(level, str) for level in declared):
        raise SchemaError(
            f"levels[{name!r}]={show(list(declared))}: in a file, the levels of a column are all "
            "texts, all numbers, or all true and false."
        )
    if any(str(level).strip() != level for level in declared):
        raise SchemaError(
            f"levels[{name!r}]={show(list(declared))}: a level in a file has no blank at its ends."
        )
    return Wanted("text", declared)


def by_variable(variable: Variable) -> Wanted:
    """What a column holds that a model knows."""
    match variable.kind:
        case "categorical":
            return by_levels(variable.name, variable.levels)
        case "logical":
            return Wanted("true or false")
        case "text":
            return Wanted("text")
    return Wanted("numbers")


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
