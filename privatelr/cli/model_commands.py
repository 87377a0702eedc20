"""The commands ``check``, ``fit``, ``predict`` and ``card``: a model and its use."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from typing import Any

import pandas as pd

from privatelr.cli import files, outcomes
from privatelr.cli.options import TEXT, Parser, add_command, given
from privatelr.cli.outcomes import (
    DONE,
    STATUSES,
    InputError,
    NotWrittenError,
    in_shell,
    say,
)
from privatelr.cli.predictions import predicted_text
from privatelr.cli.table_files import (
    DeclaredColumn,
    by_levels,
    by_variable,
    describe,
    open_table,
    read_asked,
    read_declarations,
)
from privatelr.errors import ArgumentError, GuaranteeError, PrivacyWarning, ReleaseFileError
from privatelr.formula import (
    Formula,
    Token,
    parse_formula,
    tokenize,
    with_person,
    with_terms,
)
from privatelr.mechanisms import read_request
from privatelr.model import check as check_data
from privatelr.model import dplr, dpsvm
from privatelr.multinomial_model import dpmultinom
from privatelr.numerics import find_hinge
from privatelr.privacy import REPLACE_PERSON, ZCDP
from privatelr.results.release_files import file_bytes
from privatelr.results.strata_of_fits import Strata

_COUNTING, _RECORDS = ("weights", "subset", "by"), "records_per_person"
_MOST_VARIABLES = 2000
_LIMIT = (
    f"fit takes up to {_MOST_VARIABLES}, because a solver holds their square in memory; name fewer "
    "columns, or leave some out of the file"
)
_FIT = f"""\
Fit a private model to a table, and print its page. The table is Parquet (by its
ending .parquet or .pq) or text: CSV in UTF-8, a first line of names, then one
record a line; --encoding names another encoding, and .gz, .bz2, .xz and .zst at the
end of its name a compression. With --out the model is also written to a file, which
holds no data.

Nothing about the types of a CSV is read off its values. A column with levels is
read as its levels are written, every other column of the formula as numbers, and
one line on standard error says which. A cell that is no number (written with a decimal
point, or as --decimal says) or none of the levels is missing, and its record counts as
a row of zeros. So a date, 1 234 and 5% are missing, and a response such as no/yes takes
--levels.

Public are the number of records, the names, all options, and that the table is
well formed. Records of the wrong width, blank lines, lines of more than 16 MiB,
quotes that are not closed, control codes and text in another encoding are errors that
name the line.


examples:
  privatelr fit data.csv "y ~ age + smoker" --eps 1 --bounds age=18:90 \\
      --levels smoker=no,yes --out model.json
  privatelr fit heart.parquet "chd ~ ." --rho 0.1 --schema heart.toml --json
  privatelr fit data.csv "y ~ age" --bounds age=18:90 --eps 2 --spend inference
  privatelr fit iris.csv "Species ~ ." --model multinomial --schema iris.toml

a schema file:
  row_norm = 2.5              # this line and intercept_scale may be left out
  [bounds]
  age = [18, 90]
  [levels]
  smoker = ["no", "yes"]

{STATUSES}"""
_CHECK = f"""\
Count what a fit would use of a table: of each variable the usable, missing,
clipped and undeclared values, and of the response the records of each class.

The page is NOT PRIVATE. It goes to standard error, for those who hold the table;
nothing is charged, and nothing is written. Do not publish it, and declare bounds
and levels from public knowledge and not from this page.


examples:
  privatelr check data.csv "y ~ age + smoker" --bounds age=18:90 \\
      --levels smoker=no,yes
  privatelr check heart.parquet "chd ~ ." --schema heart.toml

{STATUSES}"""
_PREDICT = f"""\
Predict each record of a table by a saved model, in the order of the table. The
output is CSV: a line with the name of the prediction, then one line a record. Where
a value is missing or a level is unknown it is an empty cell, spelled "", so that no
reader of CSV skips the line. The table is read as the model's own table was.


examples:
  privatelr predict model.json new.csv
  privatelr predict model.json new.csv --type classes --threshold 0.3 --out classes.csv
  head -5 new.csv | privatelr predict model.json - --json

{STATUSES}"""
_CARD = f"""\
Print the privacy card of a saved model: what is promised to whom, what is not, and
how to check it.


example:
  privatelr card model.json --format html --out card.html

{STATUSES}"""


def add_commands(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the four commands to the subcommands."""
    line = "count, locally and not privately, what a fit would use of a table"
    add_command(commands, "check", check, line, _CHECK)
    line = "fit a private model to a CSV or Parquet file"
    add_command(commands, "fit", fit, line, _FIT)
    line = "predict the records of a CSV or Parquet file by a saved model"
    add_command(commands, "predict", predict, line, _PREDICT)
    line = "print the privacy card of a saved model"
    add_command(commands, "card", card, line, _CARD)


def check(chosen: argparse.Namespace) -> int:
    """Read a table as `fit` does, and print its check on standard error."""
    if sys.stderr is None:
        raise InputError("standard error is closed, and the page of a check goes nowhere else.")
    formula, frame, declared = _read_table(chosen, *_COUNTING)
    print(in_shell(check_data(formula, frame, **declared)), file=sys.stderr)
    return DONE


def fit(chosen: argparse.Namespace) -> int:
    """Read a table, fit a model, write the model, and print its page."""
    arguments = read_arguments(chosen) | read_asked(chosen, "prior")
    if chosen.model == "multinomial" and "prior" in arguments:
        raise ArgumentError("--prior, by option or by schema, goes with models of two classes.")
    with files.reserved(chosen.out, chosen.force):  # before a budget is spent
        formula, frame, declared = _read_table(chosen, *_COUNTING, "person", "records_per_person")
        if formula.person is not None and isinstance(arguments.get("eps"), ZCDP):
            arguments["eps"] = ZCDP(chosen.rho, REPLACE_PERSON)
        if chosen.seed is not None:
            say(
                "privatelr",
                f"--seed {chosen.seed}: the noise can be replayed, so this fit has no privacy; "
                "a release takes no --seed.",
            )
        with warnings.catch_warnings():
            # the line above says the same
            warnings.filterwarnings("ignore", message="seed=", category=PrivacyWarning)
            fitter: Any = {"svm": dpsvm, "multinomial": dpmultinom}.get(chosen.model, dplr)
            model = fitter(formula, frame, **arguments, **declared)
        page, written = in_shell(model), None
        try:
            if chosen.out is not None or chosen.json:
                data = file_bytes(model)
                page = data.decode().removesuffix("\n") if chosen.json else page
                if chosen.out is not None:
                    files.write(chosen.out, data, chosen.force)
                    written = chosen.out
        except ReleaseFileError as error:
            raise NotWrittenError(f"the model cannot be saved: {error}.") from None
        finally:  # the budget is spent, so the page is printed even if the file cannot be written
            print_page(page, written)
    return DONE


def print_page(page: str, written: str | None) -> None:
    """Print a page; if a file was written, a closed output is no error.

    A user who sees an error would fit again, and would spend the budget twice.
    """
    try:
        print(page)
        if written is not None:
            outcomes.flush_output()
    except OSError as error:
        if written is None:
            raise
        outcomes.drop_output()
        if not isinstance(error, BrokenPipeError):
            raise NotWrittenError(
                f"--out {written!r} was written, but not the page ({outcomes.reason_of(error)})."
            ) from None


def read_arguments(chosen: argparse.Namespace) -> dict[str, Any]:
    """Keywords for `dplr`, checked before the table is read, which may take long."""
    if chosen.rho is not None and chosen.delta is not None:
        raise ArgumentError("--delta goes with --eps, and --rho has none.")
    for option in given(chosen, "h", "loss") if chosen.model != "svm" else ():
        raise ArgumentError(f"--{option} goes with --model svm.")
    found = given(chosen, "eps", "delta", "spend", "lambda_", "seed", "analysis", "h", "loss")
    found["op"] = not chosen.output_perturbation
    if chosen.do_scale is not None:
        found["do_scale"] = chosen.do_scale == "private" and "private"
    if chosen.model == "svm":
        find_hinge(found.get("loss"), found.get("h", 0.5))
    try:
        if chosen.rho is not None:
            found["eps"] = ZCDP(chosen.rho)
        eps, delta, op = found.get("eps", 1.0), found.get("delta", 0.0), found["op"]
        read_request(eps, delta, chosen.spend, chosen.lambda_, op, chosen.analysis, "increase")
    except GuaranteeError as error:
        raise InputError(str(error)) from None  # a number on the command line is out of its range
    return found


def _read_table(
    chosen: argparse.Namespace, *asked: str
) -> tuple[Formula, pd.DataFrame, dict[str, Any]]:
    """The formula without ``.``, the columns that it names, and their declarations.

    It has terms for the keywords of `dplr` that are `asked` for.
    """
    with open_table(chosen.data, **given(chosen, *TEXT)) as table:
        # a dot for far too many columns is refused before a formula is made of them
        terms = read_asked(chosen, *asked)
        whose = [terms.pop(name, usual) for name, usual in (("person", None), (_RECORDS, 1))]
        text = with_person(with_terms(chosen.formula, table.names, **terms), *whose)
        tokens = tokenize(text)
        undotted = len(table.names) - len({token.text for token in tokens if token.is_name})
        if Token("name", ".") in tokens and undotted > _MOST_VARIABLES:
            raise InputError(f"the dot stands for {len(table.names):,} columns here, and {_LIMIT}.")
        declared = read_declarations(chosen, table.names)
        formula = parse_formula(text, table.names)
        if len(formula.variables) > _MOST_VARIABLES:
            raise InputError(f"the formula has {len(formula.variables)} variables, and {_LIMIT}.")
        # a term that is removed, as in . - age, is in the text of the formula but not in the model
        mentioned = {token.text for token in tokenize(formula.text) if token.is_name}
        levels = declared["levels"]
        wanted = {
            name: by_levels(name, levels.get(name)) for name in table.names if name in mentioned
        }
        read = formula.variables
        if formula.person is not None and (own := formula.person.column) not in read:
            # as it is written, since the numbers 1 and 1.0 may be two persons
            wanted[own], read = DeclaredColumn("text"), (*read, own)
        frame, readings = _rows_of(table, wanted, formula)
    used = {name: readings[name] for name in read}
    say("privatelr", f"{describe(used, table.numbers_note)}.")
    for argument in ("bounds", "levels"):
        known = declared[argument].items()
        declared[argument] = {name: value for name, value in known if name in wanted}
    return formula, frame, declared


def _rows_of(table: Any, wanted: dict[str, DeclaredColumn], formula: Formula) -> Any:
    """Read a table; where the number of records is not public, no error has that of a line."""
    try:
        return table.read(wanted)
    except files.LineError as error:
        if formula.person is None:
            raise
        raise InputError(error.unnumbered) from None


def predict(chosen: argparse.Namespace) -> int:
    """Predict the records of a table; the model raises an error if a column is missing."""
    with files.reserved(chosen.out, chosen.force):
        model = files.read_model(chosen.model)
        spec = model.first.spec if isinstance(model, Strata) else model.spec
        strata = (model.by,) if isinstance(model, Strata) else ()
        variables, reads = spec.variables, (*spec.formula.covariates, *strata)
        with open_table(chosen.data, **given(chosen, *TEXT)) as table:
            wanted = {name: by_variable(variables[name]) for name in reads if name in table.names}
            # a model without covariates still needs the number of records
            first = {table.names[0]: by_levels(table.names[0], None)}
            frame, _ = table.read(wanted or first)
        text = predicted_text(model, frame, chosen)
        _deliver(text, chosen)
    return DONE


def card(chosen: argparse.Namespace) -> int:
    """Print or write the privacy card of a saved model."""
    with files.reserved(chosen.out, chosen.force):
        text = files.read_model(chosen.model).card(chosen.format)
        if chosen.json:
            told = {"format": chosen.format, "card": text}
            text = json.dumps(told, indent=1, ensure_ascii=False)
        _deliver(text, chosen)
    return DONE


def _deliver(text: str, chosen: argparse.Namespace) -> None:
    complete = text if text.endswith("\n") else f"{text}\n"
    if chosen.out is None:
        sys.stdout.write(complete)
    else:
        files.write(chosen.out, complete.encode(), chosen.force)
