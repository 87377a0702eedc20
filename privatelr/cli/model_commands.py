"""The commands ``privatelr predict`` and ``privatelr card``, which read a saved model."""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from typing import TYPE_CHECKING, Any, get_args

import pandas as pd

from privatelr.cli.declarations import add_table, number, text_options
from privatelr.cli.files import add_output, read_model, reserved, write
from privatelr.cli.outcomes import DONE, STATUSES
from privatelr.cli.table_files import by_levels, by_variable, open_table
from privatelr.errors import ArgumentError
from privatelr.results import Fit, PredictionType
from privatelr.results.selected import SelectedFit

if TYPE_CHECKING:
    from privatelr.cli.outcomes import Parser

_PREDICT = """\
Predict each record of a table by a saved model, in the order of the table. The
output is CSV: a line with the name of the prediction, then one line a record. Where
a value is missing or a level is unknown it is an empty cell, spelled "", so that no
reader of CSV skips the line. The table is read as the model's own table was.
"""
_PREDICT_EXAMPLE = """\
examples:
  privatelr predict model.json new.csv
  privatelr predict model.json new.csv --type classes --threshold 0.3 --out classes.csv
  head -5 new.csv | privatelr predict model.json - --json
"""
_CARD = """\
Print the privacy card of a saved model: what is promised to whom, what is not, and
how to check it.
"""
_CARD_EXAMPLE = """\
example:
  privatelr card model.json --format html --out card.html
"""


def add_commands(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add ``predict`` and ``card`` to the subcommands."""
    _add_predict(commands)
    parser = commands.add_parser(
        "card",
        help="print the privacy card of a saved model",
        description=_CARD,
        epilog=f"{_CARD_EXAMPLE}\n{STATUSES}",
    )
    parser.add_argument("model", metavar="MODEL", help="a file that fit has written")
    parser.add_argument(
        "--format", choices=("markdown", "html"), default="markdown", help="default: markdown"
    )
    add_output(parser, "write the card to a file, and print nothing")
    parser.add_argument("--json", action="store_true", help="print the card as one JSON text")
    parser.set_defaults(run=card)


def _add_predict(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "predict",
        help="predict the records of a CSV or Parquet file by a saved model",
        description=_PREDICT,
        epilog=f"{_PREDICT_EXAMPLE}\n{STATUSES}",
    )
    parser.add_argument("model", metavar="MODEL", help="a file that fit has written")
    add_table(parser)
    parser.add_argument(
        "--type",
        choices=get_args(PredictionType),
        help="default: probabilities, or the classes of an svm, which has no probabilities; "
        "response, class and prob are R's names",
    )
    parser.add_argument(
        "--threshold",
        metavar="X",
        type=number,
        help="split classes here: a probability, or a margin of an svm",
    )
    add_output(parser, "write the predictions to a file, and print nothing")
    parser.add_argument(
        "--json", action="store_true", help="write JSON: the name of the prediction and a list"
    )
    parser.set_defaults(run=predict)


def predict(chosen: argparse.Namespace) -> int:
    """Predict the records of a table."""
    with reserved(chosen.out, chosen.force):
        model, kind = read_model(chosen.model), chosen.type
        predicted = model.predict(_read_table(model, chosen), kind, threshold=chosen.threshold)
        if chosen.threshold is not None and predicted.name != "class":
            raise ArgumentError("--threshold goes with --type classes.")
        plain = [None if value != value else value for value in predicted.tolist()]
        _deliver(_as_json(predicted, plain) if chosen.json else _as_csv(predicted, plain), chosen)
    return DONE


def card(chosen: argparse.Namespace) -> int:
    """Print the privacy card."""
    with reserved(chosen.out, chosen.force):
        text = read_model(chosen.model).card(chosen.format)
        told = {"format": chosen.format, "card": text}
        _deliver(json.dumps(told, indent=1, ensure_ascii=False) if chosen.json else text, chosen)
    return DONE


def _deliver(text: str, chosen: argparse.Namespace) -> None:
    complete = text if text.endswith("\n") else f"{text}\n"
    if chosen.out is None:
        sys.stdout.write(complete)
    else:
        write(chosen.out, complete.encode(), chosen.force)


def _read_table(model: Fit | SelectedFit, chosen: argparse.Namespace) -> pd.DataFrame:
    """The columns that the model reads; a missing one is the model's to refuse."""
    variables, reads = model.spec.variables, model.spec.formula.covariates
    with open_table(chosen.data, **text_options(chosen)) as table:
        wanted = {name: by_variable(variables[name]) for name in reads if name in table.names}
        # without covariates there are still records to count
        first = {table.names[0]: by_levels(table.names[0], None)}
        frame, _ = table.read(wanted or first)
    return frame


def _as_csv(predicted: pd.Series[Any], plain: list[Any]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([predicted.name])
    writer.writerows([value] for value in plain)
    return text.getvalue()


def _as_json(predicted: pd.Series[Any], plain: list[Any]) -> str:
    lines = ",\n".join(f"  {json.dumps(value, ensure_ascii=False)}" for value in plain)
    return f'{{\n "name": {json.dumps(predicted.name)},\n "predictions": [\n{lines}\n ]\n}}'
