"""Commands about saved fits: ``compare`` them, ``choose`` one, or release a ``roc`` of one."""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from privatelr.cli import files
from privatelr.cli.ledger_commands import ledger_of
from privatelr.cli.model_commands import rows_of
from privatelr.cli.option_readers import Parser
from privatelr.cli.options import TEXT, add_command, given
from privatelr.cli.outcomes import DONE, STATUSES, OutputError, in_shell, note
from privatelr.cli.schema_commands import content_of, read_price, seed_said
from privatelr.cli.tables import DeclaredColumn, by_variable, describe, open_table
from privatelr.errors import ArgumentError
from privatelr.lazy_import import lazy_import
from privatelr.plot_style import require_plot
from privatelr.privacy import Guarantee, neighbours_about, to_json
from privatelr.results.answers.paid_answer import PaidAnswer
from privatelr.results.release_files import charge_of, hash_in
from privatelr.results.strata_of_fits import Strata

if TYPE_CHECKING:
    from privatelr.results import declarations
    from privatelr.results.answers import chosen_fit, private_roc
    from privatelr.results.pages import comparison
else:
    chosen_fit = lazy_import("privatelr.results.answers.chosen_fit")
    private_roc = lazy_import("privatelr.results.answers.private_roc")
    comparison = lazy_import("privatelr.results.pages.comparison")
    declarations = lazy_import("privatelr.results.declarations")

_COMPARE = f"""\
Show saved models side by side: estimates with their errors, facts of each, and the
guarantee of all of them together, if they used the same records. A file counts once,
also if it is named twice. Nothing is read but the files, and nothing is charged.


examples:
  privatelr compare small.json full.json
  privatelr compare small.json full.json --format html --out table.html

{STATUSES}"""
_CHOOSE = f"""\
Choose one of several saved models privately, by how well each predicts the records of
a table. The price is for the choice. Together with all models it is a promise for every
record; scores are not told.


examples:
  privatelr choose small.json full.json test.csv --eps 0.2
  privatelr choose small.json full.json test.csv --eps 0.2 --score brier --out chosen.json
  privatelr predict chosen.json new.csv

{STATUSES}"""
_ROC = f"""\
Release how well a saved model tells the classes of a table apart: a ROC curve, its
area, thresholds and calibration, from noisy counts of scores. The price is for the
records of the table, and is added to that of the model if it was fitted to them.

The table needs the columns of the model and its response; it is read as the model's
own table was. Without a table, the curve is shown that the model has bought with
--spend roc=X, or an answer that --out has written; this costs nothing.


examples:
  privatelr roc model.json new.csv --eps 0.2
  privatelr roc model.json data.csv --rho 0.02 --plot roc.png --out roc.json

{STATUSES}"""


def add_commands(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the three commands to the subcommands."""
    line = "release a ROC curve of a saved model on a table with outcomes"
    add_command(commands, "roc", roc, line, _ROC)
    line = "choose one of several saved models by a private score on a table"
    add_command(commands, "choose", choose, line, _CHOOSE)
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
            found = read.setdefault(content, files.model_in(fit, path))  # one release costs once
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
    _require_options(chosen)
    if not chosen.data:
        for option in given(chosen, *("eps", "rho", "delta", "seed", "ledger", "note", "out")):
            raise ArgumentError(f"--{option}: it takes a table whose records are scored.")
        found, _ = files.read_release(chosen.model)
        if isinstance(found, declarations.ReleasedDeclaration):
            raise ArgumentError(
                f"{chosen.model!r} declares columns: roc takes what is about a model."
            )
        found = found if isinstance(found, PaidAnswer) else _one_fit(chosen).roc
        if chosen.plot is not None and not isinstance(found, private_roc.PrivateRoc):
            raise ArgumentError(f"--plot: it draws a curve, and {chosen.model!r} has none.")
        return _show(found, chosen)
    with files.reserved(chosen.out, chosen.force):  # before a budget is spent
        model = _one_fit(chosen)
        price, paid = _price(chosen, model)
        frame = _scored(chosen, {chosen.model: model})
        with seed_said(chosen):
            return _show(model.private_roc(frame, price, **paid), chosen)


def _require_options(chosen: argparse.Namespace) -> None:
    """Refuse options that have no part in what is released, before anything is read."""
    if chosen.plot is None:
        return
    if Path(require_plot(chosen.plot)).exists():
        raise OutputError(f"--plot {chosen.plot!r}: the file exists, and roc replaces none.")


def choose(chosen: argparse.Namespace) -> int:
    """Score the records of a table by each model, and print which one was chosen."""
    with files.reserved(chosen.out, chosen.force):
        names = [Path(path).stem for path in chosen.models]
        labels = names if len({*names}) == len(names) else chosen.models
        if len({*labels}) < len(labels):
            raise ArgumentError("MODEL: a model is named twice.")
        fits = {
            label: _require_one(files.read_model(path), path, "choose")
            for label, path in zip(labels, chosen.models, strict=True)
        }
        price, paid = _price(chosen, next(iter(fits.values())))
        frame = _scored(chosen, fits)
        with seed_said(chosen):
            found = chosen_fit.choose(fits, frame, price, **given(chosen, "score"), **paid)
        return _show(found, chosen)


def _price(chosen: argparse.Namespace, model: Any) -> tuple[Guarantee, dict[str, Any]]:
    """The price of an answer about a model, and who pays it."""
    whose = model.spec.formula.person
    price = read_price(chosen, neighbours_about(whose))
    return price, {"seed": chosen.seed, **ledger_of(chosen)}


def _scored(chosen: argparse.Namespace, fits: Mapping[str, Any]) -> pd.DataFrame:
    """The columns of a table that models read, as each was declared."""
    wanted: dict[str, DeclaredColumn] = {}
    with open_table(chosen.data, **given(chosen, *TEXT)) as table:
        for label, fit in fits.items():
            variables, formula = fit.spec.variables, fit.spec.formula
            reads, whose = formula.scored, formula.person
            own = {name: by_variable(variables[name]) for name in reads if name in table.names}
            if whose is not None and whose.column in {*table.names} - {*reads}:
                own[whose.column] = DeclaredColumn("text")  # as fit reads it
            for name, column in own.items():
                if wanted.setdefault(name, column) != column:
                    raise ArgumentError(
                        f"{label!r} reads the column {name!r} in another way than the models "
                        "before it."
                    )
        frame, readings = rows_of(table, wanted, formula)
    note("privatelr", f"{describe(readings, table.numbers_note)}.")
    found: pd.DataFrame = frame
    return found


def _one_fit(chosen: argparse.Namespace) -> Any:
    return _require_one(files.read_model(chosen.model), chosen.model, "roc")


def _require_one(model: Any, path: str, command: str) -> Any:
    if isinstance(model, Strata):
        takes = "fits that are not strata" if command == "choose" else "one fit"
        raise ArgumentError(
            f"{path!r} has a fit for each level of {model.by}: {command} takes {takes}."
        )
    return model


def _show(found: Any, chosen: argparse.Namespace) -> int:
    """Write, print and draw an answer, which is paid for, so that one failure stops no other."""
    page = in_shell(found)
    if chosen.json:
        numbers = found.to_dict()
        if isinstance(found, private_roc.PrivateRoc):
            numbers |= {"numbers": _records(found.tidy()), "curve": _lists(found.curve)}
        plain = {name: _plain(value) for name, value in numbers.items()}
        page = json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False)
    try:
        made, entry = partial(content_of, found), charge_of(found)
        files.deliver_paid(page, made, chosen, entry, False, hash_in)
    finally:
        if getattr(chosen, "plot", None) is not None:
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
