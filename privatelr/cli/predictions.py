"""Predictions of a saved model as CSV or JSON."""

from __future__ import annotations

import argparse
import csv
import io
import json
from typing import Any

import pandas as pd

from privatelr.errors import ArgumentError
from privatelr.results import Fit
from privatelr.results.multinomial_fit import MultinomialFit
from privatelr.selection.selected_fit import SelectedFit


def predicted_text(
    model: Fit | SelectedFit | MultinomialFit, frame: pd.DataFrame, chosen: argparse.Namespace
) -> str:
    """The predictions of a table: one column, or one for each of several classes."""
    if isinstance(model, MultinomialFit):
        if chosen.threshold is not None:
            raise ArgumentError("--threshold: the most probable of several classes has none.")
        predicted: Any = model.predict(frame, chosen.type)
    else:
        predicted = model.predict(frame, chosen.type, threshold=chosen.threshold)
        if chosen.threshold is not None and predicted.name != "class":
            raise ArgumentError("--threshold goes with --type classes.")
    if isinstance(predicted, pd.Series):
        name: Any = predicted.name
        values = [None if value != value else value for value in predicted.tolist()]
        table = [[name], *([value] for value in values)]
    else:
        name = [str(one) for one in predicted.columns]
        values = [
            None if any(value != value for value in row) else row
            for row in predicted.to_numpy().tolist()
        ]
        table = [name, *(row or [None] * len(name) for row in values)]
    if chosen.json:
        lines = ",\n".join(f"  {json.dumps(value, ensure_ascii=False)}" for value in values)
        return f'{{\n "name": {json.dumps(name)},\n "predictions": [\n{lines}\n ]\n}}'
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(table)
    return stream.getvalue()
