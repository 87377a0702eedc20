"""The options that name a table and say what is public about it."""

from __future__ import annotations

import argparse
import codecs
import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privatelr.datasets import load_schema
from privatelr.errors import SchemaError, listed, or_meant
from privatelr.sources import declare_schema

if TYPE_CHECKING:
    from privatelr.cli.outcomes import Parser


def number(text: str) -> float:
    """An option that takes a number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def add_table(parser: Parser) -> None:
    """Add the table, and the options that `text_options` reads."""
    parser.add_argument("data", metavar="FILE", help="the table; - reads CSV from standard input")
    parser.add_argument(
        "--separator",
        metavar="X",
        type=_separator,
        help="between the cells of a text file: a character or tab; default comma, semicolon "
        "with --decimal , or tab in .tsv",
    )
    parser.add_argument(
        "--decimal",
        metavar="X",
        choices=(".", ","),
        help="what the numbers of a text file have before their fraction; default point. A "
        "number with the other one counts as missing, and so does 1 234",
    )
    parser.add_argument(
        "--encoding",
        metavar="NAME",
        type=_encoding,
        help="of a text file, such as latin-1, cp1252 or utf-16; default utf-8",
    )


def text_options(chosen: argparse.Namespace) -> dict[str, Any]:
    """What `open_table` is told about a text file."""
    return {name: getattr(chosen, name) for name in ("separator", "decimal", "encoding")}


def _encoding(text: str) -> str:
    try:
        "text".encode(text)  # a codec for anything else than text raises, too
        return codecs.lookup(text).name
    except (LookupError, UnicodeError, ValueError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an encoding such as latin-1, cp1252 or utf-16"
        ) from None


def _separator(text: str) -> str:
    character = {"tab": "\t", "\\t": "\t"}.get(text, text)
    if len(character) != 1 or character.isalnum() or character in "\"' .+-_\r\n\0":
        raise argparse.ArgumentTypeError(f"{text!r} is not a character such as ';', or tab")
    return character


def add_declarations(parser: Parser) -> None:
    """Add ``--schema``, ``--bounds``, ``--levels``, ``--row-norm`` and ``--intercept-scale``."""
    group = parser.add_argument_group("what is public about the table")
    group.add_argument(
        "--schema",
        metavar="FILE.toml",
        help="bounds and levels in a file, to which the options add",
    )
    group.add_argument(
        "--bounds",
        metavar="NAME=LO:HI",
        type=_bounds,
        action="append",
        default=[],
        help="limits of a numeric column, as in age=18:90; may be repeated",
    )
    group.add_argument(
        "--levels",
        metavar="NAME=A,B",
        type=_levels,
        action="append",
        default=[],
        help="levels of a column of text, the reference first, as in smoker=no,yes; quoted as in "
        "CSV where a level has a comma; may be repeated",
    )
    group.add_argument(
        "--row-norm", metavar="X", type=number, help="limit to the length of a row of covariates"
    )
    group.add_argument(
        "--intercept-scale",
        metavar="X",
        type=number,
        help="constant in the intercept column; default 0.5",
    )


def read_declarations(chosen: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """Keywords for `dplr`: the schema file, and over it the options.

    Raises
    ------
    SchemaError
        If something is declared about a column that is not among `names`.
    """
    declared: dict[str, Any] = {"bounds": {}, "levels": {}}
    if chosen.schema is not None:
        declared = load_schema(Path(chosen.schema))
    declared = {**declared, "bounds": {**declared["bounds"]}, "levels": {**declared["levels"]}}
    for here, there in (("bounds", "levels"), ("levels", "bounds")):
        for name, value in getattr(chosen, here):
            declared[there].pop(name, None)
            declared[here][name] = value
    for option in ("row_norm", "intercept_scale"):
        if getattr(chosen, option) is not None:
            declared[option] = getattr(chosen, option)
    declare_schema(**declared)
    known = frozenset(names)
    for argument in ("bounds", "levels"):
        for name in declared[argument]:
            if name not in known:
                raise SchemaError(
                    f"{argument} names {name!r}, which is not a column of the table; it has "
                    f"{listed(names)}{or_meant(name, names)}"
                )
    return declared


def _bounds(text: str) -> tuple[str, tuple[float, float]]:
    name, equals, pair = text.rpartition("=")
    low, colon, high = pair.partition(":")
    try:
        if not (name.strip() and equals and colon):
            raise ValueError
        return name.strip(), (float(low), float(high))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not of the form NAME=LO:HI, such as age=18:90"
        ) from None


def _levels(text: str) -> tuple[str, list[str]]:
    name, equals, listed = text.partition("=")
    try:
        if not (name.strip() and equals and listed.strip()):
            raise ValueError
        levels = next(csv.reader([listed], strict=True, skipinitialspace=True))
    except (ValueError, csv.Error):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not of the form NAME=A,B, such as smoker=no,yes"
        ) from None
    return name.strip(), [level.strip() for level in levels]
