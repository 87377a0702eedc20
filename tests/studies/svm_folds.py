"""Test errors of the plain Huber support vector machine on Adult and KDDCup99, in ten folds.

    PRIVATELR_DATA_HOME=folder python -m tests.studies.svm_folds [--data adult] [--seed S]

prints mean and standard deviation over the folds beside the published error and the one that
was measured when the method was derived, how far the minimiser is from an independent one, and a
verdict; the exit status is 1 if any of it is off. `tables` says what the folder holds. Nothing in
here is private: bounds and levels are those of the whole table.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import optimize

from privatelr.numerics import Huber, Objective, value_and_gradient
from privatelr.numerics.rows import DenseRows
from privatelr.numerics.solve import Newton

from .tables import ADULT, HOME, adult_files, data_home, labels_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from privatelr.types import BoolArray, FloatArray

H = 0.5
FOLDS = 10
KDD_RECORDS = 70_000
KDD_RESPONSE = 41
LARGEST_OFF = 3.0
"""Standard errors; a difference beyond is a finding."""
LARGEST_GAP = 1e-8
"""Between the minima of two solvers."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the study.

    Attributes
    ----------
    read : callable
        Unit rows ``(n, d)`` and labels from the folder and a seed.
    lambda_ : float
        Penalty of the mean objective.
    columns : int
        d as published.
    published, measured : float
        Mean test errors.
    """

    read: Callable[[Path, int], tuple[FloatArray, FloatArray]]
    lambda_: float
    columns: int
    published: float
    measured: float


def unit_rows(covariates: pd.DataFrame) -> FloatArray:
    """Rows of length one: numbers on [-1, 1], a column for each level, and a column of ones."""
    parts = [np.ones((len(covariates), 1))]
    for _, column in covariates.items():
        if pd.api.types.is_numeric_dtype(column):
            number = column.to_numpy(dtype=np.float64)
            span = number.max() - number.min()
            # a column without a span is a flag that never rises
            parts.append((2 * (number - number.min()) / (span or 1.0) - 1)[:, None])
        else:
            parts.append(pd.get_dummies(column).to_numpy(dtype=np.float64))
    rows = np.hstack(parts)
    return rows / np.linalg.norm(rows, axis=1)[:, None]


def read_adult(home: Path, seed: int) -> tuple[FloatArray, FloatArray]:
    """All complete records; the seed decides about folds alone."""
    frame = pd.concat(adult_files(home), ignore_index=True)
    return unit_rows(frame.drop(columns=ADULT.response)), labels_of(frame, ADULT)


def read_kdd(home: Path, seed: int) -> tuple[FloatArray, FloatArray]:
    """Random records of the ten-percent file, coded by the whole of it; +1 is an attack."""
    frame = pd.read_csv(home / "kddcup99" / "kddcup.data_10_percent.gz", header=None)
    return kdd_design(frame, min(KDD_RECORDS, len(frame)), seed)


def kdd_design(frame: pd.DataFrame, records: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Unit rows and labels of `records` random records."""
    chosen = np.random.default_rng(seed).permutation(len(frame))[:records]
    rows = unit_rows(frame.drop(columns=KDD_RESPONSE))[chosen]
    attack: BoolArray = frame[KDD_RESPONSE].to_numpy()[chosen] != "normal."
    return rows, np.where(attack, 1.0, -1.0)


TABLES = {
    "adult": Table(read_adult, 1e-3, 105, published=0.173, measured=0.1688),
    "kdd": Table(read_kdd, 1e-2, 119, published=0.025, measured=0.0259),
}


def fold_errors(
    x: FloatArray, y: FloatArray, lambda_: float, folds: int, seed: int
) -> tuple[FloatArray, float]:
    """Test errors ``(folds,)``, and the gap between two solvers on the first fold."""
    parts = np.array_split(np.random.default_rng(seed).permutation(len(y)), folds)
    errors, gap = np.empty(folds), math.nan
    for fold, held_out in enumerate(parts):
        kept = np.setdiff1d(np.arange(len(y)), held_out)
        rows = DenseRows(x[kept], y[kept], bound=1.0, intercept=None)
        objective = Objective(rows, Huber(H), lambda_, np.zeros(rows.d))
        w = Newton()(objective).w
        errors[fold] = np.mean(y[held_out] * (x[held_out] @ w) <= 0)
        if fold == 0:
            found = value_and_gradient(objective, w)[0]
            gap = found - independent_minimum(rows.x, rows.y, lambda_)
    return errors, gap


def independent_minimum(x: FloatArray, y: FloatArray, lambda_: float) -> float:
    """The smallest value that a quasi-Newton method finds of the same function, written anew."""
    signed = y[:, None] * x

    def function(w: FloatArray) -> tuple[float, FloatArray]:
        margin = signed @ w
        bent = np.abs(margin - 1) <= H
        loss = np.where(bent, (1 + H - margin) ** 2 / (4 * H), np.maximum(0.0, 1 - margin))
        slope = np.where(bent, -(1 + H - margin) / (2 * H), -1.0 * (margin < 1))
        return loss.mean() + lambda_ / 2 * (w @ w), slope @ signed / len(y) + lambda_ * w

    found = optimize.minimize(
        function,
        np.zeros(x.shape[1]),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 20_000, "maxfun": 20_000, "ftol": 0.0, "gtol": 1e-8, "maxcor": 30},
    )
    return float(found.fun)


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One row of the printed table.

    Attributes
    ----------
    errors : ndarray of shape (folds,)
    gap : float
        Minimum found here minus the independent one, of the mean objective.
    """

    data: str
    shape: tuple[int, int]
    errors: FloatArray
    gap: float

    @property
    def mean(self) -> float:
        return float(np.mean(self.errors))

    @property
    def deviation(self) -> float:
        return float(np.std(self.errors, ddof=1))

    @property
    def tolerance(self) -> float:
        """`LARGEST_OFF` standard errors of a difference of two means over as many folds."""
        return LARGEST_OFF * self.deviation * math.sqrt(2 / len(self.errors))

    @property
    def findings(self) -> list[str]:
        """What is off, in words; empty if nothing is."""
        table = TABLES[self.data]
        found = [
            f"{abs(self.mean - value):.4f} from the {name} error"
            for name, value in (("published", table.published), ("measured", table.measured))
            if abs(self.mean - value) > self.tolerance
        ]
        if self.shape[1] != table.columns:
            found.append(f"{self.shape[1]} columns in place of {table.columns}")
        if not abs(self.gap) <= LARGEST_GAP:
            found.append(f"{self.gap:.1e} from the minimum of an independent solver")
        return found

    def __str__(self) -> str:
        table = TABLES[self.data]
        return (
            f"{self.data:<6} {self.shape[0]:>6} {self.shape[1]:>4} {table.lambda_:>7g}  "
            f"{self.mean:.4f} +- {self.deviation:.4f}  {self.tolerance:.4f}  "
            f"{table.published:>9.3f}  {table.measured:>8.4f}  {self.gap:>+8.0e}  "
            f"{'; '.join(self.findings) or 'agrees'}"
        )


HEADING = (
    "data        n    d  lambda  test error (sd)   within  published  measured  solvers  verdict"
)


def study(data: str, home: Path, folds: int = FOLDS, seed: int = 0) -> Row:
    """One row: read, cut into folds, minimise, test."""
    table = TABLES[data]
    x, y = table.read(home, seed)
    return Row(data, (len(y), x.shape[1]), *fold_errors(x, y, table.lambda_, folds, seed))


def main() -> None:
    """Print the table; leave with status 1 if anything is off."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=tuple(TABLES), help="one of the tables")
    parser.add_argument("--seed", type=int, default=0, help="of folds, and of records for kdd")
    chosen = parser.parse_args()
    home = data_home()
    if home is None:
        parser.error(f"{HOME} is not set; it names the folder of the tables.")
    print(HEADING)
    rows = []
    for data in (chosen.data,) if chosen.data else TABLES:
        rows.append(study(data, home, seed=chosen.seed))
        print(rows[-1], flush=True)
    sys.exit(1 if any(row.findings for row in rows) else 0)


if __name__ == "__main__":
    main()
