"""Block-norm noise against spherical noise on Adult and German credit (privacy.md 3.1b).

    PRIVATELR_DATA_HOME=folder python -m tests.studies.block_noise [--runs N] [--data adult]
        [--numbers unit]

prints the test error of objective perturbation under pure epsilon with the automatic lambda,
for two losses and two shapes of noise, beside the published values. The folder holds
``adult/adult.data.gz``, ``adult/adult.test.gz`` and ``clinical/german.data.gz`` of the UCI
repository. Every factor is coded by one column for each of its levels; numbers are mapped onto
[-1, 1], as the package does, or onto [0, 1], within the same bounds. Noise and splits are seeded,
so that a table can be printed again. One thread of linear algebra (``OPENBLAS_NUM_THREADS=1``)
is the fastest on a machine that does other things.
"""

from __future__ import annotations

import argparse
import math
import os
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from privatelr.mechanisms.problem import Facts
from privatelr.mechanisms.registry import MECHANISMS, calibrate
from privatelr.mechanisms.release import draw
from privatelr.mechanisms.request import read_request
from privatelr.numerics.losses import Logistic
from privatelr.numerics.newton import Newton
from privatelr.numerics.rows import DenseRows
from privatelr.privacy.randomness import SeededRandomness
from privatelr.types import Block, RowLimit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from flint import arb

    from privatelr.mechanisms.calibration.record import Calibration
    from privatelr.numerics.losses import Loss
    from privatelr.privacy.randomness import Randomness
    from privatelr.types import FloatArray

    Interval = tuple[float, float]
    Split = tuple[DenseRows, DenseRows]

HOME = "PRIVATELR_DATA_HOME"
INTERVALS = {"symmetric": (-1.0, 1.0), "unit": (0.0, 1.0)}
"""What numbers are mapped onto: the same bounds on a row, a different design."""
INTERCEPT = 0.5
EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)


@dataclass(frozen=True, slots=True)
class ShiftedLogistic:
    """``log(1 + exp(shift - z))``: the logistic loss that asks for a margin."""

    shift: float = 2.0
    name: str = "softplus"
    title: str = "softplus regression"
    slope_bound: float = 1.0
    curvature_bound: float = 0.25
    joint_factor: float | None = 1.0
    probability: None = None

    def value(self, margin: FloatArray) -> FloatArray:
        return Logistic().value(margin - self.shift)

    def slope(self, margin: FloatArray) -> FloatArray:
        return Logistic().slope(margin - self.shift)

    def curvature(self, margin: FloatArray) -> FloatArray:
        return Logistic().curvature(margin - self.shift)

    def enclose(self, margin: arb) -> tuple[arb, arb, arb]:
        return Logistic().enclose(margin - self.shift)


LOSSES: dict[str, Loss] = {"logistic": Logistic(), "softplus": ShiftedLogistic()}
NOISES = ("spherical", "block")


@dataclass(frozen=True, slots=True)
class Schema:
    """What is public about a table: columns by their position in the file.

    Attributes
    ----------
    bounds : mapping
        Numeric column to ``(lo, hi)``.
    levels : mapping
        Factor to its levels, each of which gets a column.
    response, positive : int, str
    """

    bounds: Mapping[int, tuple[float, float]]
    levels: Mapping[int, tuple[str, ...]]
    response: int
    positive: str

    @property
    def blocks(self) -> tuple[Block, ...]:
        return product_of_blocks(len(self.bounds), [len(found) for found in self.levels.values()])


def product_of_blocks(numbers: int, factors: list[int]) -> tuple[Block, ...]:
    """Blocks of an intercept, numbers in [-1, 1], and factors with a column for each level."""
    singles = [Block(1, INTERCEPT)] + [Block(1, 1.0)] * numbers
    return (*singles, *(Block(size, 1.0) for size in factors))


def limit_of(blocks: tuple[Block, ...]) -> RowLimit:
    """The length of a row: one for each number or factor, and the intercept."""
    return RowLimit(math.sqrt(len(blocks) - 1), INTERCEPT)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _codes(attribute: int, last: int, first: int = 1) -> tuple[str, ...]:
    return tuple(f"A{attribute}{code}" for code in range(first, last + 1))


ADULT = Schema(
    bounds={
        0: (17, 90),
        2: (13492, 1490400),
        4: (1, 16),
        10: (0, 99999),
        11: (0, 4356),
        12: (1, 99),
    },
    # the levels that occur in records without a missing value
    levels={
        1: _words(
            "Federal-gov Local-gov Private Self-emp-inc Self-emp-not-inc State-gov Without-pay"
        ),
        3: _words(
            "10th 11th 12th 1st-4th 5th-6th 7th-8th 9th Assoc-acdm Assoc-voc Bachelors Doctorate "
            "HS-grad Masters Preschool Prof-school Some-college"
        ),
        5: _words(
            "Divorced Married-AF-spouse Married-civ-spouse Married-spouse-absent Never-married "
            "Separated Widowed"
        ),
        6: _words(
            "Adm-clerical Armed-Forces Craft-repair Exec-managerial Farming-fishing "
            "Handlers-cleaners Machine-op-inspct Other-service Priv-house-serv Prof-specialty "
            "Protective-serv Sales Tech-support Transport-moving"
        ),
        7: _words("Husband Not-in-family Other-relative Own-child Unmarried Wife"),
        8: _words("Amer-Indian-Eskimo Asian-Pac-Islander Black Other White"),
        9: ("Female", "Male"),
        13: _words(
            "Cambodia Canada China Columbia Cuba Dominican-Republic Ecuador El-Salvador England "
            "France Germany Greece Guatemala Haiti Holand-Netherlands Honduras Hong Hungary India "
            "Iran Ireland Italy Jamaica Japan Laos Mexico Nicaragua Outlying-US(Guam-USVI-etc) "
            "Peru Philippines Poland Portugal Puerto-Rico Scotland South Taiwan Thailand "
            "Trinadad&Tobago United-States Vietnam Yugoslavia"
        ),
    },
    response=14,
    positive=">50K",
)
GERMAN = Schema(
    bounds={
        1: (4, 72),
        4: (250, 18424),
        7: (1, 4),
        10: (1, 4),
        12: (19, 75),
        15: (1, 4),
        17: (1, 2),
    },
    # the levels of the code book that occur
    levels={
        0: _codes(1, 4),
        2: _codes(3, 4, first=0),
        3: tuple(f"A4{code}" for code in (0, 1, 2, 3, 4, 5, 6, 8, 9, 10)),
        5: _codes(6, 5),
        6: _codes(7, 5),
        8: _codes(9, 4),
        9: _codes(10, 3),
        11: _codes(12, 4),
        13: _codes(14, 3),
        14: _codes(15, 3),
        16: _codes(17, 4),
        18: _codes(19, 2, first=1),
        19: _codes(20, 2),
    },
    response=20,
    positive="2",
)
BANK_BLOCKS = product_of_blocks(7, [12, 3, 4, 2, 2, 2, 3, 12, 4])
"""Bank marketing, full file: seven numbers, and factors from job to the previous outcome."""

PUBLISHED = {
    ("adult", "spherical", "logistic"): (0.243, 0.222, 0.201, 0.181, 0.172, 0.167),
    ("adult", "spherical", "softplus"): (0.243, 0.212, 0.187, 0.173, 0.168, 0.164),
    ("adult", "block", "logistic"): (0.246, 0.216, 0.196, 0.179, 0.169, 0.164),
    ("adult", "block", "softplus"): (0.230, 0.194, 0.182, 0.172, 0.166, 0.163),
    ("german", "spherical", "logistic"): (0.467, 0.441, 0.397, 0.350, 0.332, 0.317),
    ("german", "spherical", "softplus"): (0.446, 0.402, 0.344, 0.306, 0.301, 0.293),
    ("german", "block", "logistic"): (0.439, 0.401, 0.358, 0.324, 0.314, 0.300),
    ("german", "block", "softplus"): (0.401, 0.346, 0.307, 0.297, 0.294, 0.287),
}
PUBLISHED_RUNS = {"adult": 4, "german": 30}
"""The ends of the published range of runs, fewer for the larger table."""


def data_home() -> Path | None:
    """The folder of the data sets, or None if the environment names none."""
    home = os.environ.get(HOME)
    return Path(home) if home else None


def read_design(
    frame: pd.DataFrame, schema: Schema, interval: Interval
) -> tuple[FloatArray, FloatArray]:
    """Covariates ``(n, p)`` and labels ``(n,)``; a level that is not declared makes a NaN."""
    numbers, factors = [], []
    first, last = interval
    for column, (low, high) in schema.bounds.items():
        share = (frame[column].to_numpy(dtype=np.float64) - low) / (high - low)
        numbers.append(np.clip(first + (last - first) * share, first, last))
    for column, found in schema.levels.items():
        codes = pd.Index(found).get_indexer(frame[column])
        factors.append(np.vstack([np.eye(len(found)), np.full(len(found), np.nan)])[codes])
    label = frame[schema.response].astype(str).str.rstrip(".") == schema.positive
    return np.column_stack([*numbers, *factors]), np.where(label, 1.0, -1.0)


def read_rows(frame: pd.DataFrame, schema: Schema, interval: Interval) -> DenseRows:
    """Bounded rows of records."""
    covariates, labels = read_design(frame, schema, interval)
    blocks = schema.blocks
    limit = limit_of(blocks)
    return DenseRows(
        covariates, labels, bound=limit.bound, intercept=limit.intercept, blocks=blocks
    )


def adult_splits(home: Path, interval: Interval) -> Iterator[Split]:
    """The two files of Adult, complete records only, in every run."""
    pair = [
        pd.read_csv(
            home / "adult" / name,
            header=None,
            skipinitialspace=True,
            na_values="?",
            skiprows=skipped,
        ).dropna()
        for name, skipped in (("adult.data.gz", 0), ("adult.test.gz", 1))
    ]
    train, test = (read_rows(frame, ADULT, interval) for frame in pair)
    while True:
        yield train, test


def german_splits(home: Path, interval: Interval) -> Iterator[Split]:
    """Four fifths of German credit to learn from and the rest to test, anew in every run."""
    frame = pd.read_csv(home / "clinical" / "german.data.gz", header=None, sep=r"\s+")
    for seed in count():
        order = np.random.default_rng(seed).permutation(len(frame))
        cut = len(frame) * 4 // 5
        parts = (frame.iloc[order[:cut]], frame.iloc[order[cut:]])
        train, test = (read_rows(part, GERMAN, interval) for part in parts)
        yield train, test


SPLITS: dict[str, Callable[[Path, Interval], Iterator[Split]]] = {
    "adult": adult_splits,
    "german": german_splits,
}


def calibrate_for(
    epsilon: float, n: int, blocks: tuple[Block, ...], noise: str, loss: Loss
) -> Calibration:
    """Automatic lambda and joint bound; spherical noise is that of one who knows no blocks."""
    request = read_request(epsilon, 0.0, None, None, True, "joint", "increase")
    d, radius = sum(block.size for block in blocks), limit_of(blocks).radius
    return calibrate(request, Facts(n, d, loss, radius, blocks if noise == "block" else ()))


def private_error(
    train: DenseRows, test: DenseRows, calibration: Calibration, randomness: Randomness
) -> float:
    """Share of test records on the wrong side after one release."""
    mechanism = MECHANISMS[calibration.placement, type(calibration.target)]
    draws = draw(calibration, randomness)
    release = mechanism.release(train, calibration, draws, Newton())
    link, labels = test.scores(release.coef)
    return float(np.mean(labels * link <= 0))


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One entry of the table.

    Attributes
    ----------
    errors : ndarray of shape (runs,)
    published : float
    published_runs : int
        How many runs the published mean is taken to rest on.
    """

    data: str
    noise: str
    loss: str
    epsilon: float
    errors: FloatArray
    published: float
    published_runs: int

    @property
    def mean(self) -> float:
        return float(np.mean(self.errors))

    @property
    def standard_error(self) -> float:
        return self._deviation / math.sqrt(len(self.errors))

    @property
    def off_by(self) -> float:
        """Difference over its standard error: of both means, and of three printed digits."""
        rounding = 1e-3 / math.sqrt(12)
        error = math.hypot(
            self.standard_error, self._deviation / math.sqrt(self.published_runs), rounding
        )
        return (self.mean - self.published) / error

    @property
    def _deviation(self) -> float:
        return float(np.std(self.errors, ddof=1))

    def __str__(self) -> str:
        return (
            f"{self.data:<7} {self.noise:<10} {self.loss:<9} {self.epsilon:>5g}  "
            f"{self.mean:.4f} +- {self.standard_error:.4f}   {self.published:.3f}   "
            f"{self.off_by:+5.1f}"
        )


HEADING = "data    noise      loss        eps  test error (s.e.)  published  off by"


def reproduce(
    data: str,
    runs: int,
    home: Path,
    numbers: str = "symmetric",
    noises: tuple[str, ...] = NOISES,
) -> list[Cell]:
    """All cells of one data set; every cell sees the same splits, and noise of its own."""
    keys = [(noise, loss, eps) for noise in noises for loss in LOSSES for eps in EPSILONS]
    errors = np.empty((runs, len(keys)))
    splits = SPLITS[data](home, INTERVALS[numbers])
    for run, (train, test) in zip(range(runs), splits, strict=False):
        for index, (noise, loss, eps) in enumerate(keys):
            calibration = calibrate_for(eps, train.n, train.blocks, noise, LOSSES[loss])
            randomness = SeededRandomness(run * len(keys) + index)
            errors[run, index] = private_error(train, test, calibration, randomness)
    published_runs = PUBLISHED_RUNS[data]
    cells = []
    for (noise, loss, eps), found in zip(keys, errors.T, strict=True):
        published = PUBLISHED[data, noise, loss][EPSILONS.index(eps)]
        cells.append(Cell(data, noise, loss, eps, found, published, published_runs))
    return cells


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10, help="fits per cell, 2 or more")
    parser.add_argument("--data", choices=tuple(SPLITS), help="one of the data sets")
    parser.add_argument(
        "--numbers", choices=tuple(INTERVALS), default="symmetric", help="[-1, 1] or [0, 1]"
    )
    chosen = parser.parse_args()
    home = data_home()
    if home is None:
        parser.error(f"{HOME} is not set; it names the folder of the data sets.")
    if chosen.runs < 2:
        parser.error("--runs takes 2 or more, for a standard error.")
    print(HEADING)
    for data in (chosen.data,) if chosen.data else SPLITS:
        for cell in reproduce(data, chosen.runs, home, chosen.numbers):
            print(cell, flush=True)


if __name__ == "__main__":
    main()
