"""Which loss classifies best under pure epsilon: Adult, bank marketing and a9a.

    PRIVATELR_DATA_HOME=folder python -m tests.studies.losses [--runs N] [--data adult]
        [--multiples]

prints the test error of objective perturbation with the automatic lambda for several losses,
what moving the threshold could change, and which differences between losses are clear. With
``--multiples`` it prints what multiples of the automatic lambda would have done, which tells a
better loss from one that is served better by the rule for lambda.

Every entry rests on whole releases, as `dplr` and `dpsvm` make them with ``do_scale=False``. Noise
has the shape of the blocks of a design: one block for each number, and one for the columns of each
factor. a9a is Adult in 123 columns of zeros and ones; its blocks are the 14 attributes that they
come from, which the code book tells, and rows are held to one in each, so the guarantee does not
rest on it.
In every run all losses see the same split and the same uniform numbers behind the noise, so that
differences are known better than errors. `tables` says what the folder holds. One thread of
linear algebra (``OPENBLAS_NUM_THREADS=1``) is the fastest on a machine that does other things.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from privatelr.mechanisms import Problem, Request, calibrate
from privatelr.numerics import Huber, Logistic, SoftplusHinge
from privatelr.privacy import PureDP
from privatelr.privacy.noise import SeededRandomness

from .block_noise import INTERVALS, ShiftedLogistic, private_coef
from .tables import HOME, a9a_splits, adult_splits, bank_splits, data_home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from privatelr.mechanisms.calibration import Calibration
    from privatelr.numerics import Loss
    from privatelr.numerics.rows import DenseRows
    from privatelr.types import FloatArray

    from .tables import Interval, Split

SPLITS: dict[str, Callable[[Path, Interval], Iterator[Split]]] = {
    "adult": adult_splits,
    "bank": bank_splits,
    "a9a": a9a_splits,
}
LOSSES: dict[str, Loss] = {
    "logistic": Logistic(),
    "softplus h=.5": SoftplusHinge(0.5),
    "softplus h=.25": SoftplusHinge(0.25),
    "huber h=.5": Huber(0.5),
    "huber h=.1": Huber(0.1),
    "logistic z-2": ShiftedLogistic(),
}
"""The last is the logistic loss of a margin less two: ``log(1 + exp(2 - z))``."""
PUBLISHED = {
    ("adult", "logistic"): (0.246, 0.216, 0.196, 0.179),
    ("adult", "logistic z-2"): (0.230, 0.194, 0.182, 0.172),
}
"""Block noise, 4 or more runs."""
EPSILONS = (0.05, 0.1, 0.2, 0.5)
MULTIPLES = (0.25, 0.5, 1.0, 2.0, 4.0)
MULTIPLES_EPSILONS = (0.1, 0.5)
CONFIDENCE = 0.95
"""That no difference is called clear by chance, over the whole table."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is fitted: a loss of `LOSSES`, epsilon, and a multiple of the automatic lambda."""

    loss: str
    epsilon: float
    multiple: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """The runs of one setting.

    Attributes
    ----------
    errors : ndarray of shape (runs,)
        Share of test records on the wrong side of zero.
    moved : ndarray of shape (runs,)
        The same at the threshold that is best for the test records, which is not private and
        no threshold beats.
    """

    data: str
    setting: Setting
    errors: FloatArray
    moved: FloatArray


def calibrate_for(setting: Setting, rows: DenseRows) -> Calibration:
    """As the front door calibrates; a multiple of the automatic lambda pays for its curvature."""
    target = PureDP(setting.epsilon)
    facts = Problem(rows.n, rows.d, LOSSES[setting.loss], rows.radius, rows.blocks)
    automatic = calibrate(Request(target, "objective", None, "auto", "increase"), facts)
    if setting.multiple == 1.0:
        return automatic
    lambda_ = setting.multiple * automatic.lambda_
    return calibrate(Request(target, "objective", None, lambda_, "keep"), facts)


def error_rates(link: FloatArray, labels: FloatArray) -> tuple[float, float]:
    """Share of records on the wrong side of zero, and of the best threshold there is."""
    order = np.argsort(link)
    sorted_link, positive = link[order], labels[order] > 0
    # below[k]: records on the wrong side if the first k are called negative
    below = np.concatenate([[0], np.cumsum(positive)])
    above = np.concatenate([[0], np.cumsum(~positive)])
    wrong = below + above[-1] - above
    cuts = np.concatenate([[True], np.diff(sorted_link) > 0, [True]])
    return float(np.mean(labels * link <= 0)), float(wrong[cuts].min()) / len(link)


def measure(
    data: str, settings: Sequence[Setting], runs: int, splits: Iterator[Split]
) -> tuple[list[Cell], float]:
    """A cell for every setting, and the error of the majority class."""
    found, majority = np.empty((len(settings), runs, 2)), np.empty(runs)
    calibrations: list[Calibration] = []
    for run, (train, test) in zip(range(runs), splits, strict=False):
        # public facts are those of the first split
        calibrations = calibrations or [calibrate_for(setting, train) for setting in settings]
        share = np.mean(test.y > 0)
        majority[run] = min(share, 1 - share)
        for place, (setting, calibration) in enumerate(zip(settings, calibrations, strict=True)):
            seed = run * len(EPSILONS) + EPSILONS.index(setting.epsilon)
            coef = private_coef(train, calibration, SeededRandomness(seed))
            found[place, run] = error_rates(*test.scores(coef))
    cells = [Cell(data, setting, *rates.T) for setting, rates in zip(settings, found, strict=True)]
    return cells, float(majority.mean())


def mean_and_error(numbers: FloatArray) -> tuple[float, float]:
    """Mean, and its standard error."""
    return float(np.mean(numbers)), float(np.std(numbers, ddof=1)) / math.sqrt(len(numbers))


def _entry(numbers: FloatArray) -> str:
    mean, error = mean_and_error(numbers)
    return f"{mean:.4f} ({error:.4f})"


def error_table(cells: Sequence[Cell], majority: float) -> Iterator[str]:
    """Rows of losses, columns of epsilon; published means below where there are any."""
    data = cells[0].data
    yield f"{data}: test error (s.e.), {len(cells[0].errors)} runs; majority class {majority:.4f}"
    yield f"{'':<16}" + "".join(f"{f'eps {epsilon:g}':<18}" for epsilon in EPSILONS).rstrip()
    for loss in LOSSES:
        row = [cell for cell in cells if cell.setting.loss == loss]
        yield f"{loss:<16}" + "".join(f"{_entry(cell.errors):<18}" for cell in row).rstrip()
        if published := PUBLISHED.get((data, loss)):
            yield f"{'  published':<16}" + "".join(f"{x:<18.3f}" for x in published).rstrip()
    yield "at the threshold that is best for the test records:"
    for loss in LOSSES:
        row = [cell for cell in cells if cell.setting.loss == loss]
        yield f"{loss:<16}" + "".join(f"{_entry(cell.moved):<18}" for cell in row).rstrip()


def comparisons() -> int:
    """How many differences the whole table holds."""
    return len(SPLITS) * len(EPSILONS) * math.comb(len(LOSSES), 2)


def clear_difference(first: Cell, second: Cell) -> float:
    """Mean paired difference of errors, or 0 if it may be chance (Bonferroni)."""
    mean, error = mean_and_error(first.errors - second.errors)
    runs = len(first.errors)
    limit = float(stats.t.isf((1 - CONFIDENCE) / 2 / comparisons(), runs - 1))
    return mean if abs(mean) > limit * error else 0.0


def verdict(cells: Sequence[Cell]) -> Iterator[str]:
    """For every epsilon, the best loss, those that may be as good, and by how much others err."""
    yield f"{cells[0].data}: the best loss, what may be as good, and what is clearly worse"
    for epsilon in EPSILONS:
        column = [cell for cell in cells if cell.setting.epsilon == epsilon]
        best, *others = sorted(column, key=lambda cell: float(cell.errors.mean()))
        gaps = {cell.setting.loss: clear_difference(cell, best) for cell in others}
        close = [best.setting.loss, *(loss for loss, gap in gaps.items() if gap == 0)]
        worse = [f"{loss} +{gap:.4f}" for loss, gap in gaps.items() if gap > 0]
        yield f"  eps {epsilon:<5g} {', '.join(close)} | {', '.join(worse)}"


def table_settings() -> list[Setting]:
    """Every loss at every epsilon, lambda as it comes."""
    return [Setting(loss, epsilon) for loss in LOSSES for epsilon in EPSILONS]


def multiples_settings() -> list[Setting]:
    """Every loss at some epsilons and all multiples."""
    return [
        Setting(loss, epsilon, multiple)
        for loss in LOSSES
        for epsilon in MULTIPLES_EPSILONS
        for multiple in MULTIPLES
    ]


def multiples_table(cells: Sequence[Cell]) -> Iterator[str]:
    """Rows of losses and epsilons, columns of multiples of the automatic lambda."""
    known = {cell.setting: cell for cell in cells}
    yield f"{cells[0].data}: test error (s.e.), {len(cells[0].errors)} runs"
    heading = "".join(f"{f'{multiple:g} lambda':<18}" for multiple in MULTIPLES)
    yield f"{'':<16}{'eps':<6}" + heading.rstrip()
    for loss in LOSSES:
        for epsilon in MULTIPLES_EPSILONS:
            row = [known[Setting(loss, epsilon, multiple)] for multiple in MULTIPLES]
            entries = "".join(f"{_entry(cell.errors):<18}" for cell in row)
            yield f"{loss:<16}{epsilon:<6g}" + entries.rstrip()


def main() -> None:
    """Print the tables, one data set after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100, help="fits per cell, 2 or more")
    parser.add_argument("--data", choices=tuple(SPLITS), help="one of the data sets")
    parser.add_argument("--numbers", choices=tuple(INTERVALS), default="symmetric", help="as coded")
    parser.add_argument(
        "--multiples", action="store_true", help="multiples of lambda instead of the table"
    )
    chosen = parser.parse_args()
    home = data_home()
    if home is None:
        parser.error(f"{HOME} is not set; it names the folder of the tables.")
    if chosen.runs < 2:
        parser.error("--runs takes 2 or more, for a standard error.")
    settings = multiples_settings() if chosen.multiples else table_settings()
    for data in (chosen.data,) if chosen.data else SPLITS:
        splits = SPLITS[data](home, INTERVALS[chosen.numbers])
        cells, majority = measure(data, settings, chosen.runs, splits)
        if chosen.multiples:
            lines = [*multiples_table(cells)]
        else:
            lines = [*error_table(cells, majority), *verdict(cells)]
        print("\n".join(lines), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
