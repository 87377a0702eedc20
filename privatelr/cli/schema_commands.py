"""Schema files: ``schema init`` writes a template, ``bounds`` and ``levels`` what is paid for."""

from __future__ import annotations

import argparse
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privatelr.cli import files
from privatelr.cli.ledger_commands import ledger_of
from privatelr.cli.option_readers import Parser
from privatelr.cli.options import TEXT, add_command, add_group, given
from privatelr.cli.outcomes import DONE, STATUSES, InputError, NotWrittenError, note
from privatelr.cli.study_file import read_declarations
from privatelr.cli.tables import (
    DeclaredColumn,
    by_levels,
    describe,
    open_table,
)
from privatelr.errors import ArgumentError, GuaranteeError, PrivacyWarning, ReleaseFileError
from privatelr.formula import is_unnamed
from privatelr.lazy_import import lazy_import
from privatelr.mechanisms import read_target
from privatelr.privacy import REPLACE_ONE, ZCDP, Guarantee, Neighbours, neighbours_about, to_json
from privatelr.results.answers.paid_answer import PaidAnswer
from privatelr.results.release_files import file_bytes, hash_in

if TYPE_CHECKING:
    from privatelr import suggestions
    from privatelr.results import declarations
else:
    suggestions = lazy_import("privatelr.suggestions")
    declarations = lazy_import("privatelr.results.declarations")

_WHOLE = """\
What is printed is a schema file, with the price as a comment: the options and the
file of --schema, and what was released. So commands can follow each other. --save
writes the answer itself, with its guarantee, for card, ledger check and load."""
_BOUNDS = f"""\
Suggest bounds by private quantiles within outer ranges, and print them as a schema
file. Every column that has --bounds, or bounds in the file of --schema, gets a range
of its own: nearly all values lie inside it, and some records are meant to lie beyond
either end. The price is divided among both ends of all columns, and what a fit costs
is added to it. A column of text, by the types that Parquet and Feather state, is
refused before it is paid for; a CSV states none, and words in it count as missing.

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


examples:
  privatelr levels data.csv job --eps 0.1 --delta 1e-8 --schema suggested.toml \\
      --out declared.toml

{STATUSES}"""


_INIT = f"""\
Write a template of a schema file: the names of the columns, their types where the
file states them, as Parquet and Feather do, and no value. Nothing is read below the
names of a CSV, nothing is charged, and the template may be shown to anybody who may
know the names.

Every line of it is a comment. Take the # away from what is known of a column without
the table: limits of a number, or the levels of a text, the reference first. The
options of fit, such as formula and eps, stand above the columns.


examples:
  privatelr schema init data.csv --out study.toml
  privatelr fit data.csv --schema study.toml --out model.json

{STATUSES}"""


def add_commands(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the three commands to the subcommands."""
    line = "write a template of a schema file, with names and types and no value"
    within = add_group(commands, "schema", line, _INIT)
    add_command(within, "schema init", init, line, _INIT)
    line = "suggest bounds by private quantiles, and print a schema file"
    add_command(commands, "bounds", bounds, line, _BOUNDS)
    line = "release the frequent levels of a column, and print a schema file"
    add_command(commands, "levels", levels, line, _LEVELS)


_TEMPLATE = """\
# A study of {shown}. The names were read from the file, and no value of it was.
# A line counts once its # is taken away. Declare what is known without the table.

# formula = "RESPONSE ~ FIRST + SECOND"
# eps = 1.0
# spend = "inference"
# ledger = "FILE.ledger"  # the account that is charged; `privatelr ledger create` makes one

[bounds]
# numbers: the smallest and the largest value that is possible
{bounds}

[levels]
# texts: all of them, the reference first
{levels}
"""


def init(chosen: argparse.Namespace) -> int:
    """Read the names of a table, and their types if the file states them; write a template."""
    with files.reserved(chosen.out, chosen.force):
        with open_table(chosen.data, **given(chosen, *TEXT)) as table:
            types = {name: of for name, of in table.types.items() if not is_unnamed(name)}
        if chosen.json:
            columns = [{"name": name, "type": of} for name, of in types.items()]
            text = json.dumps({"columns": columns}, indent=1, ensure_ascii=False)
        else:
            first, *others = (Path(one).name for one in chosen.data)
            shown = f"{first} and {len(others)} more" if others else first
            text = _template("standard input" if shown == "-" else shown, types)
        files.deliver(text, chosen)
    return DONE


def _template(shown: str, types: Mapping[str, str | None]) -> str:
    """A schema file whose lines are comments; a column of no stated type has two of them."""
    is_text = {name: of is not None and _TEXT_TYPE.search(of) for name, of in types.items()}
    lines: dict[str, list[str]] = {"bounds": [], "levels": []}
    for name, of in types.items():
        told = "" if of is None else f"  # {_printable(of)}"
        key = declarations.key_of(name)
        if of is None or not is_text[name]:
            lines["bounds"].append(f"# {key} = [LOWEST, HIGHEST]{told}")
        if of is None or is_text[name]:
            lines["levels"].append(f'# {key} = ["REFERENCE", "OTHER"]{told}')
    found = {title: "\n".join(them) or "# none" for title, them in lines.items()}
    return _TEMPLATE.format(shown=_printable(shown), **found)


_TEXT_TYPE = re.compile("string|binary|bool")
"""Arrow's names of types that take levels."""


def bounds(chosen: argparse.Namespace) -> int:
    """Read the columns with outer ranges, choose ranges within them, and print a schema."""
    price, paid = _price(chosen)
    with _both_reserved(chosen):  # before a budget is spent
        with open_table(chosen.data, **given(chosen, *TEXT)) as table:
            declared = read_declarations(chosen, table.names)
            wanted = {name: by_levels(name, None) for name in declared["bounds"]}
            if not wanted:
                raise ArgumentError("--bounds: takes an outer range for each column, as age=0:150.")
            frame, readings = _rows(table, wanted, chosen)
        note("privatelr", f"{describe(readings, table.numbers_note)}.")
        with seed_said(chosen):
            found = suggestions.suggest_bounds(frame, declared["bounds"], price, **paid)
        return _deliver(found, {**declared, "bounds": found}, chosen)


def levels(chosen: argparse.Namespace) -> int:
    """Read a column as it is written, release its levels, and print a schema."""
    price, paid = _price(chosen)
    with _both_reserved(chosen):
        with open_table(chosen.data, **given(chosen, *TEXT)) as table:
            declared = read_declarations(chosen, table.names)
            name = chosen.column
            if name not in table.names:
                raise InputError(f"{name!r} is not a column of the table.")
            if name in declared["bounds"]:
                raise ArgumentError(f"{name!r} has bounds, and a column takes bounds or levels.")
            frame, readings = _rows(table, {name: DeclaredColumn("text")}, chosen)
        note("privatelr", f"{describe(readings, '')}.")
        with seed_said(chosen):
            found = suggestions.levels_from(frame, name, price, **paid)
        return _deliver(found, {**declared, "levels": {**declared["levels"], **found}}, chosen)


def _price(chosen: argparse.Namespace) -> tuple[Guarantee, dict[str, Any]]:
    """The price of a declaration, who pays it, and whom it is about."""
    price = read_price(chosen, neighbours_about(chosen.person))
    return price, {"seed": chosen.seed, "person": chosen.person, **ledger_of(chosen)}


def _rows(table: Any, wanted: dict[str, DeclaredColumn], chosen: argparse.Namespace) -> Any:
    """Read columns, and the one that tells persons apart, as it is written."""
    person = chosen.person
    if person is None:
        return table.read(wanted)
    if person not in table.names:
        raise InputError(f"{person!r} is not a column of the table.")
    try:
        return table.read({person: DeclaredColumn("text"), **wanted})
    except files.LineError as error:  # the number of records is not public
        raise InputError(error.unnumbered) from None


def read_price(chosen: argparse.Namespace, about: Neighbours = REPLACE_ONE) -> Guarantee:
    """The price, which is checked before the table is read."""
    rho = getattr(chosen, "rho", None)  # not every command takes one
    if chosen.eps is None and rho is None:
        raise ArgumentError("--eps: a price is needed, such as --eps 0.2.")
    if rho is not None and chosen.delta is not None:
        raise ArgumentError("--delta goes with --eps, and --rho has none.")
    try:
        asked = chosen.eps if rho is None else ZCDP(rho, about)
        return read_target(asked, chosen.delta or 0.0, plain=None, neighbours=about)
    except GuaranteeError as error:
        raise InputError(str(error)) from None


@contextmanager
def seed_said(chosen: argparse.Namespace) -> Iterator[None]:
    """Say in one line that a seed voids the promise, in place of a warning."""
    if chosen.seed is not None:
        lost = "the choices can be replayed, so this release has no privacy"
        note("privatelr", f"--seed {chosen.seed}: {lost}.")
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
    schema = "\n".join([*lines, declarations.schema_text(**{**chosen.study, **declared})])
    shown = {**declared, "guarantee": to_json(found.guarantee)} if chosen.json else None
    text = json.dumps(shown, indent=1, ensure_ascii=False, default=dict) if shown else schema
    page, prints_file, is_told = text.removesuffix("\n"), not chosen.json, False
    try:
        is_told = save_paid(found, chosen.save, chosen.force)
    finally:
        entry = None if is_told else found.entry
        files.deliver_paid(page, schema.encode, chosen, entry, prints_file)
    return DONE


def save_paid(answer: PaidAnswer, path: str | None, force: bool) -> bool:
    """Write the file of ``--save``, if it is asked for, and tell the ledgers; whether it was."""
    if path is None:
        return False
    data = content_of(answer)
    files.write(path, data, force, "--save")
    files.tell(answer.entry, hash_in(data))
    return True


def content_of(answer: PaidAnswer) -> bytes:
    """The content of the file of an answer that is paid for."""
    try:
        return file_bytes(answer)
    except ReleaseFileError as error:
        raise NotWrittenError(f"the answer cannot be saved: {error}.") from None


@contextmanager
def _both_reserved(chosen: argparse.Namespace) -> Iterator[None]:
    """Reserve the file of the schema, and that of the answer, by which both prices are known."""
    if chosen.save is not None and chosen.save == chosen.out:
        raise ArgumentError("--save and --out name one file; they take a file each.")
    with (
        files.reserved(chosen.out, chosen.force),
        files.reserved(chosen.save, chosen.force, "--save"),
    ):
        yield


def _printable(line: str) -> str:
    """Return a line that TOML takes as a comment; names in a Parquet file may be any text."""
    return "".join(character if character.isprintable() else "?" for character in line)
