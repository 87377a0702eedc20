"""Block-norm noise against spherical noise on Adult and German credit.

    PRIVATELR_DATA_HOME=folder python -m tests.studies.block_noise [--runs N] [--data adult]
        [--numbers unit]

prints the test error of objective perturbation under pure epsilon with the automatic lambda,
for two losses and two shapes of noise, beside the published values. `tables` says what the
folder holds; numbers are mapped onto [-1, 1], as the package does, or onto [0, 1], within the
same bounds. Noise and splits are seeded, so that a table can be printed again. One thread of
linear algebra (``OPENBLAS_NUM_THREADS=1``) is the fastest on a machine that does other things.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from privatelr.mechanisms import MECHANISMS, Problem, calibrate, draw, read_request
from privatelr.numerics import Logistic
from privatelr.numerics.solve import Newton
from privatelr.privacy.noise import SeededRandomness

from .tables import HOME, adult_splits, data_home, german_splits, radius_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from flint import arb

    from privatelr.mechanisms.calibration import Calibration
    from privatelr.numerics import Loss
    from privatelr.numerics.rows import DenseRows
    from privatelr.privacy.noise import Randomness
    from privatelr.types import Block, FloatArray

    from .tables import Interval, Split

INTERVALS = {"symmetric": (-1.0, 1.0), "unit": (0.0, 1.0)}
"""What numbers are mapped onto: the same bounds on a row, a different design."""
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


SPLITS: dict[str, Callable[[Path, Interval], Iterator[Split]]] = {
    "adult": adult_splits,
    "german": german_splits,
}


def calibrate_for(
    epsilon: float, n: int, blocks: tuple[Block, ...], noise: str, loss: Loss
) -> Calibration:
    """Automatic lambda and joint bound; spherical noise is that of one who knows no blocks."""
    request = read_request(epsilon, 0.0, None, None, True, "joint", "increase")
    d, radius = sum(block.size for block in blocks), radius_of(blocks)
    return calibrate(request, Problem(n, d, loss, radius, blocks if noise == "block" else ()))


def private_error(
    train: DenseRows, test: DenseRows, calibration: Calibration, randomness: Randomness
) -> float:
    """Share of test records on the wrong side after one release."""
    link, labels = test.scores(private_coef(train, calibration, randomness))
    return float(np.mean(labels * link <= 0))


def private_coef(train: DenseRows, calibration: Calibration, randomness: Randomness) -> FloatArray:
    """Coefficients ``(d,)`` of one release."""
    mechanism = MECHANISMS[calibration.placement, type(calibration.target)]
    return mechanism.release(train, calibration, draw(calibration, randomness), Newton()).coef


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
        parser.error(f"{HOME} is not set; it names the folder of the tables.")
    if chosen.runs < 2:
        parser.error("--runs takes 2 or more, for a standard error.")
    print(HEADING)
    for data in (chosen.data,) if chosen.data else SPLITS:
        for cell in reproduce(data, chosen.runs, home, chosen.numbers):
            print(cell, flush=True)


if __name__ == "__main__":
    main()
