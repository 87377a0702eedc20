"""The commands ``compare`` and ``roc``: fits side by side, and how well one tells classes apart."""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from privatelr.cli import files
from privatelr.cli.ledger_commands import ledger_of
from privatelr.cli.model_commands import rows_of
from privatelr.cli.option_readers import Parser
from privatelr.cli.options import TEXT, add_command, given
from privatelr.cli.outcomes import DONE, STATUSES, OutputError, in_shell, note
from privatelr.cli.schema_commands import read_price, seed_said
from privatelr.cli.table_files import DeclaredColumn, by_variable, describe, open_table
from privatelr.errors import ArgumentError
from privatelr.lazy_import import lazy_import
from privatelr.privacy import REPLACE_ONE, REPLACE_PERSON, to_json
from privatelr.results.strata_of_fits import Strata

if TYPE_CHECKING:
    from privatelr.audit import audit_table
    from privatelr.privacy.accounting import Entry
    from privatelr.results.answers.private_roc import PrivateRoc
    from privatelr.results.pages import comparison
else:
    comparison = lazy_import("privatelr.results.pages.comparison")
    audit_table = lazy_import("privatelr.audit.audit_table")

_COMPARE = f"""\
Show saved models side by side: estimates with their errors, facts of each, and the
guarantee of all of them together, if they used the same records. A file counts once,
also if it is named twice. Nothing is read but the files, and nothing is charged.


examples:
  privatelr compare small.json full.json
  privatelr compare small.json full.json --format latex --out table.tex

{STATUSES}"""
_ROC = f"""\
Release how well a saved model tells the classes of a table apart: a ROC curve, its
area, thresholds and calibration, from noisy counts of scores. The price is for the
records of the table, and is added to that of the model if it was fitted to them.

The table needs the columns of the model and its response; it is read as the model's
own table was. Without a table, the curve is shown that the model has bought with
--spend roc=X; this costs nothing.


examples:
  privatelr roc model.json new.csv --eps 0.2
  privatelr roc model.json data.csv --rho 0.02 --plot roc.png --out roc.json

{STATUSES}"""


def add_commands(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the two commands to the subcommands."""
    line = "release a ROC curve of a saved model on a table with outcomes"
    add_command(commands, "roc", roc, line, _ROC)
    line = "show saved models side by side, with the guarantee of all together"
    add_command(commands, "compare", compare, line, _COMPARE)


def compare(chosen: argparse.Namespace) -> int:
    """Read models, and print or write a table with a column for each."""
    with files.reserved(chosen.out, chosen.force):
        names = [Path(path).stem for path in chosen.models]
        often = Counter(names)
        fits: dict[str, Any] = {}
        read: dict[str, Any] = {}
        for name, path in zip(names, chosen.models, strict=True):
            label = name if often[name] == 1 else path
            fit, content = files.read_release(path)
            found = read.setdefault(content, fit)  # one release costs once
            each = (
                {f"{label}, {level}": one for level, one in found.items()}
                if (isinstance(found, Strata))
                else {label: found}
            )
            fits |= each
        asked = given(chosen, "statistic", "level", "digits")
        table = comparison.compare(fits, exponentiate=chosen.exponentiate, **asked)
        if chosen.json:
            frame = table.to_frame().astype(object)
            told = {
                "terms": frame.where(frame.notna(), None).to_dict(orient="records"),
                "facts": {
                    label: dict(zip(table.facts.names, cells, strict=True))
                    for label, cells in zip(fits, zip(*table.facts.cells, strict=True), strict=True)
                },
                "notes": list(table.notes),
                "guarantee": to_json(table.guarantee),
            }
            text = json.dumps(told, indent=1, ensure_ascii=False, allow_nan=False)
        else:
            text = getattr(table, f"as_{chosen.format}")()
        files.deliver(text, chosen)
    return DONE


def roc(chosen: argparse.Namespace) -> int:
    """Score the records of a table, release the scores by class, and print what follows."""
    if chosen.plot is not None and Path(audit_table.require_plot(chosen.plot)).exists():
        raise OutputError(f"--plot {chosen.plot!r}: the file exists, and roc replaces none.")
    if chosen.data is None:
        for option in given(chosen, "eps", "rho", "delta", "seed", "ledger", "allowance", "note"):
            raise ArgumentError(f"--{option}: it takes a table whose records are scored.")
        with files.reserved(chosen.out, chosen.force):
            return _show(_one_fit(chosen).roc, chosen, None)
    with files.reserved(chosen.out, chosen.force):  # before a budget is spent
        model = _one_fit(chosen)
        variables, formula = model.spec.variables, model.spec.formula
        reads, whose = formula.scored, formula.person
        price = read_price(chosen, REPLACE_ONE if whose is None else REPLACE_PERSON)
        paid = {"seed": chosen.seed, **ledger_of(chosen)}
        with open_table(chosen.data, **given(chosen, *TEXT)) as table:
            wanted = {name: by_variable(variables[name]) for name in reads if name in table.names}
            if whose is not None and whose.column in {*table.names} - {*reads}:
                wanted[whose.column] = DeclaredColumn("text")  # as fit reads it
            frame, readings = rows_of(table, wanted, formula)
        note("privatelr", f"{describe(readings, table.numbers_note)}.")
        with seed_said(chosen):
            found = model.private_roc(frame, price, **paid)
        return _show(found, chosen, found.release.entry)


def _one_fit(chosen: argparse.Namespace) -> Any:
    model = files.read_model(chosen.model)
    if isinstance(model, Strata):
        raise ArgumentError(
            f"{chosen.model!r} has a fit for each level of {model.by}: roc takes one fit."
        )
    return model


def _show(found: PrivateRoc, chosen: argparse.Namespace, entry: Entry | None) -> int:
    """Write, print and draw a curve, which is paid for, so that one failure stops no other."""
    numbers = {**found.to_dict(), "numbers": _records(found.tidy()), "curve": _lists(found.curve)}
    data = json.dumps(numbers, indent=1, ensure_ascii=False, allow_nan=False)
    try:
        made = f"{data}\n".encode
        files.deliver_paid(in_shell(found), made, chosen, entry, chosen.json)
    finally:
        if chosen.plot is not None:
            files.save_picture(found.plot, chosen.plot, (5.0, 5.0))
    return DONE


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    rows = table.to_dict(orient="records")
    return [{str(name): _plain(value) for name, value in row.items()} for row in rows]


def _lists(table: pd.DataFrame) -> dict[str, list[Any]]:
    return {str(name): [*map(_plain, values.tolist())] for name, values in table.items()}


def _plain(value: Any) -> Any:
    """A value for JSON: null for what is no finite number."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
