"""The commands ``privatelr predict`` and ``privatelr card``, which read a saved model."""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys

from privatelr.cli import files
from privatelr.cli.options import Parser, add_command, text_options
from privatelr.cli.outcomes import DONE, STATUSES
from privatelr.cli.table_files import by_levels, by_variable, open_table
from privatelr.errors import ArgumentError

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
    line = "predict the records of a CSV or Parquet file by a saved model"
    add_command(commands, "predict", predict, line, _PREDICT, f"{_PREDICT_EXAMPLE}\n{STATUSES}")
    line = "print the privacy card of a saved model"
    add_command(commands, "card", card, line, _CARD, f"{_CARD_EXAMPLE}\n{STATUSES}")


def predict(chosen: argparse.Namespace) -> int:
    """Predict the records of a table; a column that is missing is the model's to refuse."""
    with files.reserved(chosen.out, chosen.force):
        model = files.read_model(chosen.model)
        variables, reads = model.spec.variables, model.spec.formula.covariates
        with open_table(chosen.data, **text_options(chosen)) as table:
            wanted = {name: by_variable(variables[name]) for name in reads if name in table.names}
            # without covariates there are still records to count
            first = {table.names[0]: by_levels(table.names[0], None)}
            frame, _ = table.read(wanted or first)
        predicted = model.predict(frame, chosen.type, threshold=chosen.threshold)
        if chosen.threshold is not None and predicted.name != "class":
            raise ArgumentError("--threshold goes with --type classes.")
        name = predicted.name
        values = [None if value != value else value for value in predicted.tolist()]
        if chosen.json:
            lines = ",\n".join(f"  {json.dumps(value, ensure_ascii=False)}" for value in values)
            text = f'{{\n "name": {json.dumps(name)},\n "predictions": [\n{lines}\n ]\n}}'
        else:
            stream = io.StringIO()
            csv.writer(stream, lineterminator="\n").writerows([value] for value in [name, *values])
            text = stream.getvalue()
        _deliver(text, chosen)
    return DONE


def card(chosen: argparse.Namespace) -> int:
    """Print the privacy card."""
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
