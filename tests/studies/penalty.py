"""What tuning lambda could gain: the automatic penalty beside the best one in hindsight.

    PRIVATELR_DATA_HOME=folder python -m tests.studies.penalty [--runs N] [--tables bank german]

fits `dplr` and `dpsvm` with the automatic lambda and with multiples of it, from an eighth to eight
times, on four fifths of a table, and counts the classes that are wrong on the rest; about ten
minutes. In every run all multiples see the same split and the same seed. A penalty too small for
epsilon is paid for in noise (``on_small_lambda="keep"``), or is left out where no noise suffices.

An oracle takes for each table, model and epsilon the multiple with the fewest errors. In hindsight
it knows the very errors that it is judged by, which flatters it: the least of several noisy means
is too small. So it is also asked to choose by half of the runs and judged by the other half. It
pays nothing for what it knows; private tuning over a few candidates by random stopping leaves each
of them half of epsilon (Papernot and Steinke 2022), which is the last column.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from privatelr import GuaranteeError, PrivacyWarning, dplr, dpsvm

from .scale import METHODS, calibrated_once, mean_and_error, runs_of, split
from .scale_tables import TABLES, read_table
from .tables import HOME, data_home

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

    from privatelr.types import FloatArray

    from .scale import Method
    from .scale_tables import Table

FACTORS = (1.0, 1 / 8, 1 / 4, 1 / 2, 2.0, 4.0, 8.0)
"""Multiples of the automatic lambda, which is the first."""
EPSILONS = (0.25, 0.5, 1.0, 2.0)
SLOW = ("a9a", "kddcup99", "w8a")
"""Tables that are left out unless they are named: they take most of the time."""
Errors = dict[tuple[str, "Method", float], "FloatArray"]
"""Test errors ``(runs, factors)`` of each table, model and epsilon; NaN where no noise suffices."""


def errors_of_run(
    method: Method, table: Table, parts: tuple[pd.DataFrame, pd.DataFrame], epsilon: float, run: int
) -> list[float]:
    """Return the test error with each multiple of the automatic lambda."""
    train, test = parts
    call: Any = dplr if method == "dplr" else partial(dpsvm, loss="softplus")
    known: dict[str, Any] = {"bounds": table.bounds, "levels": table.levels, "seed": run}
    usual = call(table.formula, train, eps=epsilon, **known)
    lambda_, found = usual.release.calibration.lambda_, []
    for factor in FACTORS:
        made = usual
        if factor != 1:
            given = {"lambda_": factor * lambda_, "on_small_lambda": "keep"}
            try:
                made = call(table.formula, train, eps=epsilon, **given, **known)
            except GuaranteeError:  # no noise suffices
                found.append(np.nan)
                continue
        wrong = np.asarray(made.predict(test, type="classes")) != test[table.response].to_numpy()
        found.append(float(np.mean(wrong)))
    return found


def measure(tables: Iterable[str], runs: int) -> Errors:
    """Fit all of it, one table after the other."""
    found: Errors = {}
    with calibrated_once(), warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        for name in tables:
            print(name, file=sys.stderr, flush=True)
            table, frame = TABLES[name], read_table(name, data_home())
            splits = [split(frame, name, run) for run in range(runs_of(name, runs))]
            for method, epsilon in product(METHODS, EPSILONS):
                rows = [
                    errors_of_run(method, table, parts, epsilon, run)
                    for run, parts in enumerate(splits)
                ]
                found[name, method, epsilon] = np.array(rows)
    return found


def best(errors: FloatArray) -> int:
    """Return the position of the multiple with the least mean error, of those that always fit."""
    return int(np.nanargmin(errors.mean(axis=0)))


def gain_in_hindsight(errors: FloatArray) -> float:
    """Return what the oracle takes off the mean error, judged by what it chose by."""
    return float(np.mean(errors[:, 0] - errors[:, best(errors)]))


def gain_on_other_runs(errors: FloatArray, at: FloatArray | None = None) -> float:
    """Return the same, where each half of the runs is judged by the choice of the other half.

    With `at`, the chosen multiple is that of these errors, and so is the error with it.
    """
    tuned = errors if at is None else at
    first = np.arange(len(errors)) % 2 == 0
    gains = np.empty(len(errors))
    for half in (first, ~first):
        gains[half] = errors[half, 0] - tuned[half, best(tuned[~half])]
    return float(np.mean(gains))


def lines(found: Errors) -> list[str]:
    """Return a row for each model and epsilon, of means over tables with their standard errors."""
    header = ("wrong classes", "oracle in hindsight", "oracle by other runs", "at half of epsilon")
    told = [f"{'':<14}" + "".join(f"{title:>24}" for title in header)]
    tables = list(dict.fromkeys(name for name, _, _ in found))
    for method, epsilon in product(METHODS, EPSILONS):
        cells = [found[name, method, epsilon] for name in tables]
        columns = [
            [float(np.mean(errors[:, 0])) for errors in cells],
            [-gain_in_hindsight(errors) for errors in cells],
            [-gain_on_other_runs(errors) for errors in cells],
        ]
        row = f"{method:<6}eps {epsilon:<4g}"
        for place, column in enumerate(columns):
            row += f"{_entry(column, signed=place > 0):>24}"
        if epsilon / 2 in EPSILONS:
            halves = [found[name, method, epsilon / 2] for name in tables]
            pairs = zip(cells, halves, strict=True)
            lost = [-gain_on_other_runs(errors, half) for errors, half in pairs]
            row += f"{_entry(lost, signed=True):>24}"
        told.append(row)
    return told


def lines_of_tables(found: Errors) -> list[str]:
    """Return a row for each table and model: the gain by other runs, and the multiple of all."""
    told = [f"{'oracle by other runs':<22}" + "".join(f"{f'eps {e:g}':>18}" for e in EPSILONS)]
    for name, method in product(dict.fromkeys(name for name, _, _ in found), METHODS):
        row = f"{name:<14}  {method:<6}"
        for epsilon in EPSILONS:
            errors = found[name, method, epsilon]
            cell = f"{-gain_on_other_runs(errors):+.4f} (x {FACTORS[best(errors)]:g})"
            row += f"{cell:>18}"
        told.append(row)
    return told


def _entry(column: list[float], *, signed: bool) -> str:
    mean, error = mean_and_error(np.array(column))
    return f"{mean:{'+' if signed else ''}.4f} ({error:.4f})"


def main() -> None:
    """Fit, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=24, help="splits; a quarter of a large table")
    usual = tuple(name for name in TABLES if name not in SLOW)
    parser.add_argument("--tables", nargs="+", choices=tuple(TABLES), default=usual)
    chosen = parser.parse_args()
    if data_home() is None:
        parser.error(f"{HOME} is not set; it names the folder of the tables.")
    found = measure(chosen.tables, chosen.runs)
    print("\n".join([*lines(found), "", *lines_of_tables(found)]))


if __name__ == "__main__":
    main()
