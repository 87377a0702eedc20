"""What the scale of columns adds to the time of a fit: ``python -m tests.benchmarks.scale_stage``.

    python -m tests.benchmarks.scale_stage [--n 1000000] [--columns 50] [--pairs 7]

prints the median of paired ratios, with the stage over without, of ``dplr("y ~ .", frame)`` and of
``dpsvm``. The order within a pair changes from pair to pair.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pandas as pd

from privatelr import dplr, dpsvm

from .race import Ratios


def table(n: int, columns: int) -> pd.DataFrame:
    """Columns of several spreads within bounds of -1 and 1, and labels from five of them."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (n, columns)) * rng.uniform(0.05, 1, columns)
    y = rng.random(n) < 1 / (1 + np.exp(-3 * x[:, :5].sum(axis=1)))
    return pd.DataFrame(x).add_prefix("x").assign(y=y.astype(float))


def ratios(fit_by, frame: pd.DataFrame, pairs: int) -> Ratios:
    """Seconds with the stage over seconds without it."""
    bounds = {name: (-1, 1) for name in frame.columns if name != "y"}

    def seconds(do_scale: str | bool) -> float:
        start = time.perf_counter()
        fit_by("y ~ .", frame, 1.0, bounds=bounds, do_scale=do_scale)
        return time.perf_counter() - start

    seconds(False)
    found = []
    for turn in range(pairs):
        order = ("private", False) if turn % 2 else (False, "private")
        taken = {do_scale: seconds(do_scale) for do_scale in order}
        found.append((taken["private"], taken[False]))
    return Ratios.of(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=10**6)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--pairs", type=int, default=7)
    asked = parser.parse_args()
    frame = table(asked.n, asked.columns)
    for fit_by in (dplr, dpsvm):
        found = ratios(fit_by, frame, asked.pairs)
        print(
            f"{fit_by.__name__} of {asked.n:,} x {asked.columns}: {found.median:.2f} times "
            f"(quartiles {found.low:.2f} to {found.high:.2f}, {found.pairs} pairs)"
        )


if __name__ == "__main__":
    main()
