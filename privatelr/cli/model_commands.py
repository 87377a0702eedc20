"""The commands ``check``, ``fit``, ``predict`` and ``card``: a model and its use."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any, get_args

import pandas as pd

from privatelr.cli import files
from privatelr.cli.ledger_commands import ledger_of
from privatelr.cli.option_readers import Parser
from privatelr.cli.options import METHODS, TEXT, add_command, given
from privatelr.cli.outcomes import (
    DONE,
    STATUSES,
    InputError,
    NotWrittenError,
    in_shell,
    note,
)
from privatelr.cli.predictions import predicted_text
from privatelr.cli.study_file import read_declarations
from privatelr.cli.tables import (
    DeclaredColumn,
    by_levels,
    by_variable,
    describe,
    open_table,
)
from privatelr.errors import (
    ArgumentError,
    GuaranteeError,
    PrivacyWarning,
    ReleaseFileError,
    SchemaError,
    listed,
)
from privatelr.formula import (
    Formula,
    Token,
    parse_formula,
    tokenize,
    with_person,
    with_terms,
)
from privatelr.lazy_import import lazy_import
from privatelr.mechanisms import USUAL_DELTA, read_request, read_target
from privatelr.model import check as check_data
from privatelr.model import dplr, dpsvm
from privatelr.numerics import ThresholdRule, find_hinge
from privatelr.privacy import REPLACE_PERSON, ZCDP
from privatelr.results import DataCheck
from privatelr.results.release_files import charge_of, file_bytes, hash_in
from privatelr.results.strata_of_fits import Strata
from privatelr.selection.choices import read_roc_share

if TYPE_CHECKING:
    from privatelr import multinomial_model
    from privatelr.selection import models as selection_models
else:
    multinomial_model = lazy_import("privatelr.multinomial_model")
    selection_models = lazy_import("privatelr.selection.models")

_RECORDS = "records_per_person"
OF_RECORDS = ("weights", "subset", "by", "person", _RECORDS)
_MOST_VARIABLES = 2000
_LIMIT = (
    f"fit takes up to {_MOST_VARIABLES}, because a solver holds their square in memory; name fewer "
    "columns, or leave some out of the file"
)
_FIT = f"""\
Fit a private model to a table, and print its page. The table is Parquet (by its
ending .parquet or .pq), Feather (.feather, .arrow, .ipc) or text: CSV in UTF-8, a first
line of names, then one record a line; --encoding names another encoding, and .gz,
.bz2, .xz and .zst at the end of its name a compression. Several files of Parquet, a
folder of them, or a pattern such as 'data/*.parquet' are one table, which is read
piece by piece if it does not fit into memory. With --out the model is also written to
a file, which holds no data.

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
  privatelr fit data/*.parquet "chd ~ age" --bounds age=18:90
  privatelr fit data.csv "y ~ age" --bounds age=18:90 --eps 2 --spend inference
  privatelr fit data.csv --schema study.toml --out model.json
  privatelr fit data.csv --schema study.toml --method svm --out svm.json
  privatelr fit iris.csv "Species ~ ." --method multinomial --schema iris.toml

a schema file, whose keys are the options; those of one call, such as --out and
--seed, are none:
  formula = "y ~ age + smoker"
  eps = 1.0
  spend = "inference"
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
    line = "fit a private model to a CSV, Parquet or Feather file"
    add_command(commands, "fit", fit, line, _FIT)
    line = "predict the records of a table by a saved model"
    add_command(commands, "predict", predict, line, _PREDICT)
    line = "print the privacy card of a saved model"
    add_command(commands, "card", card, line, _CARD)


def check(chosen: argparse.Namespace) -> int:
    """Read a table as `fit` does, and print its check on standard error."""
    if sys.stderr is None:
        raise InputError("standard error is closed, and the page of a check goes nowhere else.")
    formula, frame, declared = _read_table(chosen)
    found = check_data(formula, frame, **declared)
    page = json.dumps(_counted(found), indent=1) if chosen.json else in_shell(found)
    print(page, file=sys.stderr, flush=True)
    return DONE


def _counted(found: DataCheck) -> dict[str, Any]:
    """The numbers of a check, which are not private, as plain values."""
    table = found.table.astype(object).where(found.table.notna(), None)
    return {
        "private": False,
        "formula": found.formula,
        "n": found.counts.n,
        "classes": found.classes.to_dict(),
        "unusable": found.counts.zero_rows,
        "persons": found.persons,
        "variables": table.to_dict(orient="index"),
        "doubts": list(found.doubts),
    }


def fit(chosen: argparse.Namespace) -> int:
    """Read a table, fit a model, write the model, and print its page."""
    arguments = read_arguments(chosen) | read_prior(chosen.prior) | ledger_of(chosen)
    with files.reserved(chosen.out, chosen.force):  # before a budget is spent
        formula, frame, declared = _read_table(chosen)
        if formula.person is not None and isinstance(arguments.get("eps"), ZCDP):
            arguments["eps"] = ZCDP(chosen.rho, REPLACE_PERSON)
        if chosen.seed is not None:
            note(
                "privatelr",
                f"--seed {chosen.seed}: the noise can be replayed, so this fit has no privacy; "
                "a release takes no --seed.",
            )
        with warnings.catch_warnings():
            # the line above says the same
            warnings.filterwarnings("ignore", message="seed=", category=PrivacyWarning)
            model = _fitter(chosen)(formula, frame, **arguments, **declared)
        made, entry = partial(_file_of, model), charge_of(model)
        files.deliver_paid(in_shell(model), made, chosen, entry, chosen.json, hash_in)
    return DONE


def read_prior(given: list[tuple[str, Any]]) -> dict[str, Any]:
    """The keyword for coefficients to which a penalty draws: numbers by names, or a model."""
    named = {name: mean for name, mean in given if mean is not None}
    if len(given) == 1 and not named:
        return {"prior": files.read_model(given[0][0])}
    if len(named) < len(given):
        raise ArgumentError("--prior: it takes NAME=X for each of some coefficients, or one FILE.")
    return {"prior": named} if named else {}


def _file_of(model: Any) -> bytes:
    try:
        return file_bytes(model)
    except ReleaseFileError as error:
        raise NotWrittenError(f"the model cannot be saved: {error}.") from None


def _fitters() -> dict[str, Callable[..., Any]]:
    """The function behind each ``--method``, and behind ``--model logistic``."""
    chosen: dict[str, Callable[..., Any]] = {
        "lp": selection_models.dplpsvm,
        "simplex": selection_models.dpsimplex,
        "multinomial": multinomial_model.dpmultinom,
    }
    return {"lr": dplr, "svm": dpsvm, "logistic": dplr} | chosen


def _fitter(chosen: argparse.Namespace) -> Callable[..., Any]:
    return _fitters()[chosen.method or "lr"]


def read_arguments(chosen: argparse.Namespace) -> dict[str, Any]:
    """Keywords for the function that fits, checked before the table is read, which may take long.

    Declarations are no part of them, nor is the data; ``--rho`` is `eps`.
    """
    if chosen.rho is not None and chosen.delta is not None:
        raise ArgumentError("--delta goes with --eps, and --rho has none.")
    every = {name for fitter in _fitters().values() for name in signature(fitter).parameters}
    found = given(chosen, *sorted(every - _READ_APART - {*_OF_TABLE}))
    if chosen.output_perturbation is not None:
        found["op"] = not chosen.output_perturbation
    if chosen.do_scale is not None:
        found["do_scale"] = chosen.do_scale == "private" and "private"
    apart = given(chosen, *_OF_TABLE) | ({"prior": 0} if getattr(chosen, "prior", []) else {})
    _require_taken(chosen, [*found, *apart, *chosen.declared])
    try:
        if chosen.rho is not None:
            found["eps"] = ZCDP(chosen.rho)
        _require_price(chosen, found)
    except GuaranteeError as error:
        raise InputError(str(error)) from None  # a number on the command line is out of its range
    if found.get("threshold") in get_args(ThresholdRule) and "roc" not in (chosen.spend or ()):
        raise ArgumentError(
            f"--threshold {found['threshold']}: it is read from a curve, which --spend roc=0.25 "
            "buys; without one it would be learned from the table, and could not be saved."
        )
    return found


_OF_TABLE = (*OF_RECORDS, "row_norm")
_READ_APART = {
    *("formula", "data", "bounds", "levels", "intercept_scale", "do_scale", "prior", "ledger")
}
"""Arguments that are read with the table, or are spelled in another way."""


def _require_price(chosen: argparse.Namespace, found: Mapping[str, Any]) -> None:
    """Refuse prices, penalties and losses that no table could make right."""
    if chosen.method == "svm":
        find_hinge(found.get("loss"), found.get("h", 0.5))
    eps, delta, op = found.get("eps", 1.0), found.get("delta"), found.get("op", True)
    if chosen.method in ("lp", "simplex"):
        read_target(eps, USUAL_DELTA if delta is None else delta, USUAL_DELTA)
        read_roc_share(chosen.spend)
        return
    small = found.get("on_small_lambda", "increase")
    read_request(eps, delta or 0.0, chosen.spend, chosen.lambda_, op, chosen.analysis, small)


def _require_taken(chosen: argparse.Namespace, found: Iterable[str]) -> None:
    """Refuse an option that the function of another method takes, and this one does not."""
    own = signature(_fitter(chosen)).parameters
    for name in found:
        if name in own:
            continue
        takers = [one for one in METHODS if name in signature(_fitters()[one]).parameters]
        option = {"op": "output_perturbation", "lambda_": "lambda"}.get(name, name)
        raise ArgumentError(
            f"--{option.replace('_', '-')} goes with --method {' or '.join(takers)}, and this is "
            f"--method {chosen.method or 'lr'}."
        )


def _read_table(chosen: argparse.Namespace) -> tuple[Formula, pd.DataFrame, dict[str, Any]]:
    """The formula without ``.``, the columns that it names, and their declarations.

    It has terms for the keywords of `dplr` that are asked for.
    """
    with open_table(chosen.data, **given(chosen, *TEXT)) as table:
        # a dot for far too many columns is refused before a formula is made of them
        terms = given(chosen, *OF_RECORDS)
        whose = [terms.pop(name, usual) for name, usual in (("person", None), (_RECORDS, 1))]
        text = with_terms(with_person(chosen.formula, *whose), table.names, **terms)
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
        if getattr(chosen, "eps", None) != 0:
            _require_declared(table, formula, declared)
        wanted = {
            name: by_levels(name, levels.get(name)) for name in table.names if name in mentioned
        }
        read = formula.variables
        if formula.person is not None and (own := formula.person.column) not in read:
            # as it is written, since the numbers 1 and 1.0 may be two persons
            wanted[own], read = DeclaredColumn("text"), (*read, own)
        frame, readings = rows_of(table, wanted, formula)
    used = {name: readings[name] for name in read}
    note("privatelr", f"{describe(used, table.numbers_note)}.")
    for argument in ("bounds", "levels"):
        known = declared[argument].items()
        declared[argument] = {name: value for name, value in known if name in wanted}
    return formula, frame, declared


def _require_declared(table: Any, formula: Formula, declared: Mapping[str, Any]) -> None:
    """Refuse columns of a file without types that nobody declared, as any of them may be text."""
    known = {**declared["bounds"], **declared["levels"]}
    left = [name for name in formula.variables if name not in known]
    if table.numbers_note and left and declared.get("row_norm") is None:
        raise SchemaError(
            f"no declaration of {listed(left)}: the file does not say what holds numbers or texts; "
            f"add --bounds {left[0]}=LOW:HIGH or --levels {left[0]}=NO,YES, or --row-norm, which "
            "takes columns without a declaration as numbers."
        )


def rows_of(table: Any, wanted: dict[str, DeclaredColumn], formula: Formula) -> Any:
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
        files.deliver(predicted_text(model, frame, chosen), chosen)
    return DONE


def card(chosen: argparse.Namespace) -> int:
    """Print or write the privacy card of a saved model."""
    with files.reserved(chosen.out, chosen.force):
        text = files.read_release(chosen.model)[0].card(chosen.format)
        if chosen.json:
            told = {"format": chosen.format, "card": text}
            text = json.dumps(told, indent=1, ensure_ascii=False)
        files.deliver(text, chosen)
    return DONE
