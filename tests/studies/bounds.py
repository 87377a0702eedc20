"""What bounds buy that are too narrow, right, too wide, or not declared at all.

    python -m tests.studies.bounds [--fits 200] [--write]

Fits of the two tables with numeric columns that come with the package, at epsilon 1 and with
fresh noise each: bounds of all numeric columns about their middle, half as long as declared,
as declared, twice and five times as long; one column left out of `bounds`; and none declared.
Printed is the mean C-index of the fit on its own table with its standard error: the chance that
a record of the one class scores above one of the other, .5 being a guess. ``--write`` keeps the
table beside the other results; README shows it.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np

from privatelr import dplr, load_dataset, load_schema
from tests.studies.stored import store

TABLES = {"anes96": "vote ~ age + educ + income + selfLR", "breast_cancer": "diagnosis ~ ."}
FACTORS = {"half": 0.5, "as declared": 1.0, "twice": 2.0, "five times": 5.0}


def declared(name: str, case: str) -> dict[str, Any]:
    """The schema of a table, its bounds changed."""
    schema = load_schema(name)
    bounds = dict(schema["bounds"])
    if case in FACTORS:
        middle = {key: (low + high) / 2 for key, (low, high) in bounds.items()}
        reach = {key: FACTORS[case] * (high - low) / 2 for key, (low, high) in bounds.items()}
        bounds = {key: (middle[key] - reach[key], middle[key] + reach[key]) for key in bounds}
    elif case == "one forgotten":
        bounds.pop(next(iter(bounds)))
    else:
        bounds = {}
    return {**schema, "bounds": bounds}


def measure(name: str, case: str, fits: int) -> tuple[float, float]:
    """Mean C-index and its standard error."""
    data, schema = load_dataset(name), declared(name, case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of columns without bounds, which are meant here
        found = [
            dplr(TABLES[name], data, eps=1.0, **schema).diagnostics.c_index for _ in range(fits)
        ]
    return float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(fits))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=200)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    found = {}
    print("| bounds | " + " | ".join(TABLES) + " |\n|---" + "|---" * len(TABLES) + "|")
    for case in (*FACTORS, "one forgotten", "none"):
        cells = [measure(name, case, given.fits) for name in TABLES]
        found[case] = dict(zip(TABLES, cells, strict=True))
        shown = " | ".join(f"{mean:.3f} ({error:.3f})" for mean, error in cells)
        print(f"| {case} | {shown} |", flush=True)
    if given.write:
        command = f"python -m tests.studies.bounds --fits {given.fits} --write"
        store("bounds", command, {"c_index": found})


if __name__ == "__main__":
    main()
