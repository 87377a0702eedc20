"""Draws from the minimiser on the simplex, on Cod-RNA: accuracy by epsilon, loss and radius.

    PRIVATELR_DATA_HOME=folder python -m tests.studies.simplex_cod_rna [--releases N] [--full]

prints a Markdown table of test accuracies, beside what was measured when the method was derived
and that of the minimiser which is never released, and then the table by the number of columns of
`high_dimension`. Delta is 1e-6 and lambda the data-free suggestion. The records are split once, 70
to 30, by seed 0; numbers lie on [-1, 1] by mean and deviation of the whole table, which are taken
for public; there is a column of ones. ``--full`` takes 20 releases in place of 5, and stores the
means in ``results``. The exit status is 1 if a mean is further from what was measured than 0.01
and three standard errors of the difference.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from privatelr.numerics import Huber, Logistic
from privatelr.numerics.rows import EntryRows
from privatelr.privacy import ApproxDP, NonPrivate
from privatelr.privacy.noise import SeededRandomness
from privatelr.selection.simplex import SimplexProblem, calibrate_simplex, release_simplex

from .high_dimension import simplex_cells, standard_table
from .stored import store

if TYPE_CHECKING:
    from privatelr.numerics import Loss
    from privatelr.types import FloatArray

DELTA = 1e-6
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
RELEASES, FEW_RELEASES = 20, 5
LARGEST_OFF = 3.0
"""Standard errors."""
CLOSE = 0.01


@dataclass(frozen=True, slots=True)
class Case:
    """A loss and a radius.

    Attributes
    ----------
    measured : tuple of float
        Mean accuracy of 20 releases when the method was derived, for each of `EPSILONS`.
    """

    loss: Loss
    radius: float
    measured: tuple[float, ...]


CASES = {
    "huber, radius 20": Case(Huber(), 20.0, (0.809, 0.894, 0.927, 0.932, 0.938)),
    "huber, radius 10": Case(Huber(), 10.0, (0.838, 0.879, 0.921, 0.929, 0.927)),
    "logistic, radius 20": Case(Logistic(), 20.0, (0.755, 0.866, 0.898, 0.926, 0.931)),
}


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Records to learn from, and those to test, with their column of ones."""

    rows: EntryRows
    x: FloatArray
    y: FloatArray

    def accuracy(self, coef: FloatArray) -> float:
        return float(np.mean(self.y * (self.x @ coef) > 0))


@lru_cache(maxsize=1)
def split() -> Split:
    """Seventy of a hundred records to learn from."""
    x, y = standard_table()
    order = np.random.default_rng(0).permutation(len(y))
    cut = len(y) * 7 // 10
    kept, held_out = order[:cut], order[cut:]
    rows = EntryRows(x[kept], y[kept], x_bound=1.0, intercept=1.0)
    return Split(rows, np.column_stack([np.ones(len(held_out)), x[held_out]]), y[held_out])


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One epsilon of one case.

    Attributes
    ----------
    lambda_ : float
        Of the mean objective.
    accuracies : ndarray of shape (releases,)
    hidden : float
        Accuracy of the minimiser.
    """

    case: str
    epsilon: float
    lambda_: float
    draws: int
    accuracies: FloatArray
    hidden: float

    @property
    def mean(self) -> float:
        return float(self.accuracies.mean())

    @property
    def deviation(self) -> float:
        return float(self.accuracies.std(ddof=1))

    @property
    def measured(self) -> float:
        return CASES[self.case].measured[EPSILONS.index(self.epsilon)]

    @property
    def off(self) -> bool:
        """Whether the mean is further from what was measured than chance explains."""
        error = self.deviation * math.sqrt(1 / len(self.accuracies) + 1 / RELEASES)
        return abs(self.mean - self.measured) > LARGEST_OFF * error + CLOSE

    def __str__(self) -> str:
        return (
            f"| {self.case} | {self.epsilon:g} | {self.lambda_:.4g} | {self.draws} | "
            f"{self.mean:.3f} +- {self.deviation:.3f} | {self.measured:.3f} | {self.hidden:.3f} | "
            f"{'off' if self.off else 'agrees'} |"
        )


HEADING = """\
| loss | epsilon | lambda | draws | accuracy | measured before | minimiser | verdict |
|---|---|---|---|---|---|---|---|"""


def measure(name: str, epsilon: float, releases: int) -> Cell:
    """Releases of one case at one epsilon, with the seeds 0, 1, ..."""
    case, data = CASES[name], split()
    facts = SimplexProblem(data.rows.n, data.rows.d, 1.0, case.radius, case.loss)
    calibration = calibrate_simplex(facts, ApproxDP(epsilon, DELTA))
    accuracies = [
        data.accuracy(release_simplex(data.rows, calibration, SeededRandomness(seed)).coef)
        for seed in range(releases)
    ]
    plain = calibrate_simplex(facts, NonPrivate(), calibration.lambda_)
    hidden = data.accuracy(release_simplex(data.rows, plain, SeededRandomness(0)).coef)
    return Cell(name, epsilon, calibration.lambda_, calibration.draws, np.array(accuracies), hidden)


def by_columns(runs: int) -> list[str]:
    """The table by the number of signed columns, at epsilon 10 and delta 1e-3."""
    lines = ["| n lambda | signed columns | accuracy | minimiser |", "|---|---|---|---|"]
    for lambda_, options, released, hidden in simplex_cells(runs):
        lines.append(f"| {lambda_:g} | {options} | {released.mean():.3f} | {hidden.mean():.3f} |")
    return lines


def as_values(cells: list[Cell]) -> dict[str, Any]:
    """What is stored."""
    return {
        "simplex": [
            [cell.case, cell.epsilon, cell.lambda_, cell.draws, cell.mean, cell.hidden]
            for cell in cells
        ]
    }


def main() -> None:
    """Print the tables; leave with status 1 if a mean is off."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=FEW_RELEASES, help="releases of each cell")
    parser.add_argument("--full", action="store_true", help="20 releases, stored")
    chosen = parser.parse_args()
    releases = RELEASES if chosen.full else chosen.releases
    print(HEADING)
    cells = []
    for name in CASES:
        for epsilon in EPSILONS:
            cells.append(measure(name, epsilon, releases))
            print(cells[-1], flush=True)
    print("", *by_columns(releases if chosen.full else 1), sep="\n")
    if chosen.full:
        store("simplex_cod_rna", "python -m tests.studies.simplex_cod_rna --full", as_values(cells))
    sys.exit(1 if any(cell.off for cell in cells) else 0)


if __name__ == "__main__":
    main()
