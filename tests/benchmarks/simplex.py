"""How long the simplex takes: lambda and draws, the minimum, and the draws from it.

    python -m tests.benchmarks.simplex [--records N]

prints seconds for dense rows of a few columns, and for sparse rows of up to 100,000 columns, at
penalties from strong to weak. Options are twice the columns. No data is needed.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy import sparse

from privatelr.numerics import Huber
from privatelr.numerics.rows import EntryRows
from privatelr.privacy import ApproxDP
from privatelr.privacy.noise import SystemRandomness
from privatelr.selection.simplex import (
    SimplexProblem,
    calibrate_simplex,
    minimiser_logs,
    release_simplex,
)

RECORDS = 40_000
FILLED = 20
"""Entries of a sparse row that are not zero."""
INFORMATIVE = 50


def dense_rows(n: int, d: int, rng: np.random.Generator) -> EntryRows:
    """Numbers on [-1, 1], of which the first say what the label is."""
    x = rng.uniform(-1, 1, (n, d))
    return EntryRows(x, labels(x[:, :INFORMATIVE], rng), x_bound=1.0, intercept=1.0)


def sparse_rows(n: int, d: int, rng: np.random.Generator) -> EntryRows:
    """Flags, of which the first are frequent and say what the label is."""
    first = sparse.csr_array((rng.random((n, INFORMATIVE)) < 0.2).astype(float))
    rest = sparse.random_array((n, d - INFORMATIVE), density=FILLED / d, rng=rng, format="csr")
    rest.data[:] = 1.0
    x = sparse.hstack([first, rest], format="csr")
    return EntryRows(x, labels(first.toarray(), rng), x_bound=1.0, intercept=1.0)


def labels(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    signal = x @ rng.standard_normal(x.shape[1])
    return np.where(signal + rng.standard_normal(len(x)) > np.median(signal), 1.0, -1.0)


def timed(function):
    """What it returns, and the seconds that it took."""
    start = time.perf_counter()
    found = function()
    return found, time.perf_counter() - start


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=RECORDS)
    n = parser.parse_args().records
    print("| rows | columns | radius | epsilon | draws | calibrate | minimise | release |")
    print("|---|---|---|---|---|---|---|---|")
    for kind, make, d in (
        ("dense", dense_rows, 9),
        ("dense", dense_rows, 105),
        ("sparse", sparse_rows, 10_000),
        ("sparse", sparse_rows, 100_000),
    ):
        rows = make(n, d, np.random.default_rng(0))
        for radius in (1.0, 20.0):
            for epsilon in (1.0, 10.0):
                facts = SimplexProblem(rows.n, rows.d, 1.0, radius, Huber())
                target = ApproxDP(epsilon, 1e-6)
                chosen, first = timed(lambda f=facts, t=target: calibrate_simplex(f, t))
                _, second = timed(lambda r=rows, c=chosen: minimiser_logs(r, c))
                _, third = timed(lambda r=rows, c=chosen: release_simplex(r, c, SystemRandomness()))
                print(
                    f"| {kind} | {d} | {radius:g} | {epsilon:g} | {chosen.draws} | {first:.2f} s | "
                    f"{second:.3f} s | {third:.3f} s |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
