"""The printed sampling error of a private fit, beside the one that there is without privacy.

    python -m tests.studies.error_parts [--runs 100]

Cells are small studies, in which the noise hides the curvature or nearly does. A row has the
sampling sd of the page over the true one, which is that of a large sample without privacy scaled
to n: its median over fits and terms, the medians of the lowest and of the highest term, and the
share of all that is below a half; and the same median of the whole standard error."""

from __future__ import annotations

import argparse
import itertools
from typing import TYPE_CHECKING

import numpy as np

from .coverage_populations import population_of
from .coverage_runs import Cell, replicate

if TYPE_CHECKING:
    import pandas as pd

    from privatelr.results.fit import Fit
    from privatelr.types import FloatArray

LARGE = 200_000
SIZES = ((500, 0.5), (2000, 0.5), (2000, 2.0))
POPULATIONS = ("skewed", "levels")


def cells() -> list[Cell]:
    """The small studies, each under both promises."""
    found = itertools.product(POPULATIONS, ("pure", "approx"), SIZES)
    return [Cell(name, promise, 5, n, epsilon) for name, promise, (n, epsilon) in found]


def true_sampling_sd(cell: Cell) -> FloatArray:
    """Standard errors without privacy of n records, by the terms of the population."""
    source = population_of(cell.population, cell.d)
    plain = source.fit_without_privacy(source.sample(LARGE, np.random.default_rng(0)))
    return np.asarray(plain.sd * np.sqrt(LARGE / cell.n))


def parts(fit: Fit) -> pd.DataFrame:
    """What the page prints: the sampling error, and the whole standard error."""
    return fit.tidy().set_index("term")[["sampling_sd", "std_error"]]


def row(cell: Cell, runs: int) -> str:
    """A line of the table."""
    lines = [replicate(cell, run, parts) for run in range(runs)]
    made = np.array([[line["lower"], line["upper"]] for line in lines if "lower" in line])
    ratio = made / true_sampling_sd(cell)
    sampling, whole = ratio[:, 0], ratio[:, 1]
    terms = np.median(sampling, axis=0)
    numbers = (np.median(sampling), terms.min(), terms.max(), np.mean(sampling < 0.5))
    told = " | ".join(f"{number:.2f}" for number in numbers)
    return f"| {cell.name} | {told} | {np.median(whole):.1f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100, help="fits of each cell")
    chosen = parser.parse_args()
    print(
        "| cell | sampling sd / true | lowest term | highest term | below .5 | Std. Error / true |"
    )
    print("|---|---|---|---|---|---|")
    for cell in cells():
        print(row(cell, chosen.runs), flush=True)


if __name__ == "__main__":
    main()
