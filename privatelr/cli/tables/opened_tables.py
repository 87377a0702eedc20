"""Tables in files are opened by what their names end in: text, Parquet or Feather."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os.path import exists, isdir
from pathlib import PurePath

from privatelr.cli.files import UTF8, open_to_read, unpacked
from privatelr.cli.outcomes import InputError
from privatelr.cli.tables.arrow_tables import ArrowFiles, ArrowTable
from privatelr.cli.tables.csv_tables import CsvTable
from privatelr.sources import files_of, is_pattern, kind_of


@contextmanager
def open_table(
    path: str | Sequence[str],
    separator: str | None = None,
    *,
    decimal: str | None = None,
    encoding: str | None = None,
) -> Iterator[CsvTable | ArrowTable | ArrowFiles]:
    """Open a table: Parquet or Feather if its name ends like one, otherwise text; ``-`` is stdin.

    The default separator is a comma, or a semicolon if the decimal mark is a comma. The table has
    the names of its columns, and can be read once. Several files, a folder and a pattern such as
    ``data/*.parquet`` are Parquet or Feather, and their records are not held together.

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
    asked = [path] if isinstance(path, str) else path
    paths = [file for one in asked for file in files_of(one) or [one]]
    if len(paths) > 1 or is_several(asked[0]):
        for one in paths:
            if one == "-" or (isdir(one) and len(paths) > 1):
                what = "standard input" if one == "-" else "a folder"
                raise InputError(f"{one!r}: {what} is a table of its own, and not among files.")
            if not exists(one):
                raise InputError(f"{one!r}: there is no such file.")
        table = ArrowFiles(asked, _shown(asked))
        _refuse_options(_shown(asked), "Parquet or Feather table", options)
        yield table
        return
    (path,) = paths
    if path == "-":
        if sys.stdin is None:
            raise InputError("-: there is no standard input.")
        yield CsvTable(sys.stdin.buffer, "standard input", *spelled)
        return
    shown = repr(path)
    with open_to_read(path) as raw:
        stream, ending = unpacked(raw, path)
        kind = kind_of(f"table{ending}").title()
        if not kind:
            if ending == ".tsv" and separator is None:
                spelled = ("\t", *spelled[1:])
            yield CsvTable(stream, shown, *spelled)
            return
        if stream is not raw:
            raise InputError(f"{shown}: a {kind} file is compressed inside; unpack this one.")
        _refuse_options(shown, f"{kind} file", options)
        yield ArrowTable(stream, shown, kind)


def is_file(word: str) -> bool:
    """Whether a word of the command line is a table, and not a formula."""
    path = PurePath(word)
    return (
        word == "-" or exists(word) or is_several(word) or ("~" not in word and bool(path.suffix))
    )


def is_several(path: str) -> bool:
    """Whether a path stands for several files: a folder, or a pattern."""
    return isdir(path) or (is_pattern(path) and bool(kind_of(path)))


def _shown(paths: Sequence[str]) -> str:
    return repr(paths[0]) if len(paths) == 1 else f"{paths[0]!r} and {len(paths) - 1} more"


def _refuse_options(shown: str, what: str, options: dict[str, str | None]) -> None:
    for option, value in options.items():
        if value is not None:
            raise InputError(f"{shown}: {option} goes with text, and this is a {what}.")
