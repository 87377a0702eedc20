"""The commands ``bounds`` and ``levels``: declarations that are paid for, as a schema file."""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from privatelr.cli import files
from privatelr.cli.ledger_commands import ledger_of
from privatelr.cli.options import TEXT, Parser, add_command, given
from privatelr.cli.outcomes import DONE, STATUSES, InputError, print_page, say
from privatelr.cli.table_files import (
    DeclaredColumn,
    by_levels,
    describe,
    open_table,
    read_declarations,
    schema_entries,
)
from privatelr.errors import ArgumentError, GuaranteeError, PrivacyWarning
from privatelr.lazy_import import lazy_import
from privatelr.mechanisms import read_target
from privatelr.privacy import ZCDP, Guarantee, to_json
from privatelr.privacy.accounting import complete

if TYPE_CHECKING:
    from privatelr import suggestions
    from privatelr.results import declarations
else:
    suggestions = lazy_import("privatelr.suggestions")
    declarations = lazy_import("privatelr.results.declarations")

_WHOLE = """\
What is printed is a schema file, with the price as a comment: the options and the
file of --schema, and what was released. So commands can follow each other."""
_BOUNDS = f"""\
Suggest bounds by private quantiles within outer ranges, and print them as a schema
file. Every column that has --bounds, or bounds in the file of --schema, gets a range
of its own: nearly all values lie inside it, and some records are meant to lie beyond
either end. The price is divided among both ends of all columns, and what a fit costs
is added to it.

{_WHOLE}


examples:
  privatelr bounds data.csv --bounds age=0:150 --bounds income=0:1e7 --eps 0.2 \\
      --out suggested.toml
  privatelr fit data.csv "y ~ age + income" --schema suggested.toml --eps 0.8

{STATUSES}"""
_LEVELS = f"""\
Release the levels of a column that enough records have, and print them as a schema
file. A rare level stays untold; in a fit its records count as rows of zeros. The first
level in the file is the reference.

{_WHOLE}


example:
  privatelr levels data.csv job --eps 0.1 --delta 1e-8 --schema suggested.toml \\
      --out declared.toml

{STATUSES}"""


def add_commands(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the two commands to the subcommands."""
    line = "suggest bounds by private quantiles, and print a schema file"
    add_command(commands, "bounds", bounds, line, _BOUNDS)
    line = "release the frequent levels of a column, and print a schema file"
    add_command(commands, "levels", levels, line, _LEVELS)


def bounds(chosen: argparse.Namespace) -> int:
    """Read the columns with outer ranges, choose ranges within them, and print a schema."""
    price, paid = _read_price(chosen), {"seed": chosen.seed, **ledger_of(chosen)}
    with files.reserved(chosen.out, chosen.force):  # before a budget is spent
        with open_table(chosen.data, **given(chosen, *TEXT)) as table:
            declared = read_declarations(chosen, table.names)
            wanted = {name: by_levels(name, None) for name in declared["bounds"]}
            if not wanted:
                raise ArgumentError("--bounds: takes an outer range for each column, as age=0:150.")
            frame, readings = table.read(wanted)
        say("privatelr", f"{describe(readings, table.numbers_note)}.")
        with _seed_said(chosen):
            found = suggestions.suggest_bounds(frame, declared["bounds"], price, **paid)
        return _deliver(found, {**declared, "bounds": found}, chosen)


def levels(chosen: argparse.Namespace) -> int:
    """Read a column as it is written, release its levels, and print a schema."""
    price, paid = _read_price(chosen), {"seed": chosen.seed, **ledger_of(chosen)}
    with files.reserved(chosen.out, chosen.force):
        with open_table(chosen.data, **given(chosen, *TEXT)) as table:
            declared = read_declarations(chosen, table.names)
            name = chosen.column
            if name not in table.names:
                raise InputError(f"{name!r} is not a column of the table.")
            if name in declared["bounds"]:
                raise ArgumentError(f"{name!r} has bounds, and a column takes bounds or levels.")
            frame, readings = table.read({name: DeclaredColumn("text")})
        say("privatelr", f"{describe(readings, '')}.")
        with _seed_said(chosen):
            found = suggestions.levels_from(frame, name, price, **paid)
        return _deliver(found, {**declared, "levels": {**declared["levels"], **found}}, chosen)


def _read_price(chosen: argparse.Namespace) -> Guarantee:
    """The price, which is checked before the table is read."""
    if chosen.eps is None and chosen.rho is None:
        raise ArgumentError("--eps: a price is needed, such as --eps 0.2.")
    if chosen.rho is not None and chosen.delta is not None:
        raise ArgumentError("--delta goes with --eps, and --rho has none.")
    try:
        asked = chosen.eps if chosen.rho is None else ZCDP(chosen.rho)
        return read_target(asked, chosen.delta or 0.0, plain=None)
    except GuaranteeError as error:
        raise InputError(str(error)) from None


@contextmanager
def _seed_said(chosen: argparse.Namespace) -> Iterator[None]:
    """Say in one line that a seed voids the promise, in place of a warning."""
    if chosen.seed is not None:
        lost = "the choices can be replayed, so this release has no privacy"
        say("privatelr", f"--seed {chosen.seed}: {lost}.")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="seed=", category=PrivacyWarning)
        yield


def _deliver(
    found: declarations.SuggestedBounds | declarations.ReleasedLevels,
    declared: dict[str, Any],
    chosen: argparse.Namespace,
) -> int:
    """Write and print the schema; it is paid for, so it is printed even if it cannot be written."""
    lines = (f"# {_printable(line)}".rstrip() for line in str(found).splitlines())
    asked = "weights", "subset", "by", "person", "records_per_person", "prior"
    declared |= schema_entries(chosen, *asked)  # the schema is written again with all that it had
    schema, written = "\n".join([*lines, declarations.schema_text(**declared)]), None
    try:
        if chosen.out is not None:
            files.write(chosen.out, schema.encode(), chosen.force)
            written = chosen.out
            for told in complete(found.entry, sha256(schema.encode()).hexdigest()):
                say("privatelr", told)
    finally:
        shown = {**declared, "guarantee": to_json(found.guarantee)} if chosen.json else None
        text = json.dumps(shown, indent=1, ensure_ascii=False, default=dict) if shown else schema
        print_page(text.removesuffix("\n"), written)
    return DONE


def _printable(line: str) -> str:
    """Return a line that TOML takes as a comment; names in a Parquet file may be any text."""
    return "".join(character if character.isprintable() else "?" for character in line)
