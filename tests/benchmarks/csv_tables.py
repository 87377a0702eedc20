"""How long the commands read a CSV file: ``python -m tests.benchmarks.csv_tables``.

    python -m tests.benchmarks.csv_tables [--n 300000] [--pairs 7]

prints the median of paired ratios and its quartiles, for ten numbers, two levels and a response:
over pandas, which infers types. Quotes are around no cell, or around every text, as R writes them.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from privatelr.cli.tables import DeclaredColumn, open_table

if TYPE_CHECKING:
    from collections.abc import Callable

NUMBERS = [f"x{index}" for index in range(10)]
WANTED = {
    **dict.fromkeys([*NUMBERS, "y"], DeclaredColumn("numbers")),
    "sex": DeclaredColumn("text", ("f", "m")),
}


def table(n: int) -> pd.DataFrame:
    """Return a made-up table."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n, len(NUMBERS))).round(6), columns=NUMBERS)
    return frame.assign(sex=rng.choice(["m", "f"], n), y=rng.integers(0, 2, n))


def seconds(function: Callable[[], object]) -> float:
    """Return how long a call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def main() -> None:
    """Print a line for each kind of file and each peer."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--n", type=int, default=300_000)
    parser.add_argument("--pairs", type=int, default=7)
    asked = parser.parse_args()
    frame = table(asked.n)
    with tempfile.TemporaryDirectory() as folder:
        for quotes, how in (("none", csv.QUOTE_MINIMAL), ("texts", csv.QUOTE_NONNUMERIC)):
            path = Path(folder) / f"{quotes}.csv"
            frame.to_csv(path, index=False, quoting=how)

            def ours(path: Path = path) -> None:
                with open_table([str(path)]) as opened:
                    opened.read(WANTED)

            peers = {
                "over pandas": lambda path=path: pd.read_csv(path, usecols=[*WANTED]),
            }
            for name, peer in peers.items():
                ratios = [seconds(ours) / seconds(peer) for _ in range(asked.pairs)]
                low, middle, high = statistics.quantiles(ratios, n=4)
                print(f"quotes around {quotes}, {name}: {middle:.2f} ({low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main()
