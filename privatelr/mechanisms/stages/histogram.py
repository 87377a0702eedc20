"""Noisy counts of scores by class, from which ROC curves, thresholds and calibration are computed.

A record is in one cell: a class and a bin of scores or, if it cannot be used, the last cell. So
replacing one record takes 1 from a cell and adds 1 to another one.

A person with several records is in cells by their shares, and what these lack of 1 is in the last
cell. Two persons differ by no more than two records do: by 2 in all, and by a length of the root of
2 (theory.md#counts-of-scores has the proof). The sums are exact, since shares are whole multiples
of a power of two that depends on the number of persons alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy

from privatelr.errors import GuaranteeError
from privatelr.mechanisms.calibration.calibration_record import StageCalibration
from privatelr.mechanisms.calibration.proven_noise import (
    laws_hiding,
    require_law,
)
from privatelr.mechanisms.perturbation import Release, rounded_sum
from privatelr.mechanisms.problem import Problem
from privatelr.mechanisms.range_selection import share_grid
from privatelr.mechanisms.request import ROC, Request
from privatelr.mechanisms.stages.scale import ScaleFacts
from privatelr.mechanisms.stages.stage import Calibrations, Expected, Part, Stage
from privatelr.numerics.rows import EntryRows, row_products
from privatelr.privacy import (
    REPLACE_PERSON,
    Guarantee,
    NonPrivate,
    PureDP,
)
from privatelr.privacy.accounting import Entry
from privatelr.privacy.noise import DOWN, BlockLaplace, Draw, NoiseLaw, NoNoise, pure_part
from privatelr.types import Block, FloatArray, IntArray, Offset, Rows

L1_SENSITIVITY, L2_SENSITIVITY = 2.0, math.sqrt(2)
"""Largest change of all cells together when one record is replaced, as a sum and as a length."""
_FEWEST, _MOST, _GROWTH = 10, 100, 0.3
"""Least and largest number of bins, and the power of n epsilon in between.

The noise on an AUC grows with the root of the number of bins, and its bias falls with the square
or faster. So few bins are best, but enough for scores that do not lie where they are expected
(``python -m tests.studies.roc --bins``)."""
_STEPS = 80
"""Bisections of an interval of probabilities, far more than doubles resolve."""
_FARTHEST = 700.0
"""Size of a linear predictor at which its probability is 0 or 1 in doubles."""


@dataclass(frozen=True, slots=True)
class ScoreScale:
    """A public guess of where scores lie; bins are equally wide in `position`.

    The guess is a mixture, in equal parts, of two logistic laws. One lies where the declared
    bounds and the released coefficients let linear predictors be expected; it resolves scores
    that are close together. The other one is that of probabilities that are uniform, or narrower
    for small coefficients; it serves if the first one is wrong.

    Attributes
    ----------
    middle, spread : float
        Expected mean and standard deviation of linear predictors.
    """

    middle: float
    spread: float

    def position(self, link: FloatArray) -> FloatArray:
        """Return the place, from 0 to 1, of linear predictors."""
        with np.errstate(over="ignore"):
            usual = scipy.special.expit(link / min(1.0, 2 * self.spread))
            return np.asarray((usual + scipy.special.expit((link - self.middle) / self.spread)) / 2)

    def link_at(self, position: FloatArray) -> FloatArray:
        """Return the linear predictors at places above 0 and below 1, by bisection."""
        reach = abs(self.middle) + _FARTHEST * max(1.0, self.spread)
        low, high = np.full(len(position), -reach), np.full(len(position), reach)
        for _ in range(_STEPS):
            middle = (low + high) / 2
            is_below = self.position(middle) < position
            low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
        return np.asarray((low + high) / 2)

    def edges(self, bins: int) -> FloatArray:
        """Return the ``bins - 1`` rising linear predictors that divide the bins."""
        return self.link_at(np.arange(1, bins) / bins)

    def middles(self, bins: int) -> FloatArray:
        """Return the linear predictor ``(bins,)`` that stands for each bin."""
        return self.link_at((np.arange(bins) + 0.5) / bins)


@dataclass(frozen=True, slots=True)
class HistogramCalibration(StageCalibration):
    """The noise on counts of scores, computed before any data is touched.

    Attributes
    ----------
    n : int
        Number of records that are scored, or of persons.
    bins : int
        Number of bins K. There are ``2 K + 1`` cells: the bins of the negative class, those of
        the positive class, and one cell for records that cannot be used.
    target : Guarantee
        The guarantee that the release will satisfy; none beside a plain fit.
    noise : NoiseLaw
        The law of the noise on all cells, which is independent between cells.
    touched : int
        How many fits, of as many records, neighbours may change at once; see `Problem`. A record
        that leaves a stratum goes to the cell of those that cannot be used.
    """

    n: int
    bins: int
    target: Guarantee
    noise: NoiseLaw
    touched: int = 1
    grid = 1.0

    @property
    def sensitivity(self) -> float:
        """The length by which one record moves the counts of all fits together."""
        return _moved(self.touched)

    @property
    def proven(self) -> Guarantee:
        """The guarantee that the noise is proven to give: that of Laplace noise is pure."""
        if self.noise.is_pure and not isinstance(self.target, NonPrivate):
            return PureDP(pure_part(self.target), self.target.neighbours)
        return self.target

    @property
    def persons(self) -> bool:
        """Whether all records of a person count as one together."""
        return self.target.neighbours is REPLACE_PERSON

    @property
    def count_sd(self) -> float:
        """Standard deviation of the noise on a count, with that of its rounding."""
        rounding = 1 / 12 if self.target.is_private else 0.0
        return math.sqrt(float(self.noise.variances[0]) + rounding)


def calibrate_histogram(
    n: int, target: Guarantee, kinds: tuple[type[NoiseLaw], ...] = (), touched: int = 1
) -> HistogramCalibration:
    """Choose the number of bins and the law with the least noise, from public facts alone.

    Laplace noise on each cell hides the sum of changes; Gaussian noise hides their length. The law
    is of these kinds if any are given.
    """
    bins = _bins(n, _law(1, target, kinds, touched))
    law = _law(2 * bins + 1, target, kinds, touched)
    return HistogramCalibration(n, bins, target, law, touched)


def _moved(touched: int) -> float:
    """The length by which the cells of all fits that are touched move together."""
    return L2_SENSITIVITY * math.sqrt(touched)


def _law(
    cells: int, target: Guarantee, kinds: tuple[type[NoiseLaw], ...], touched: int
) -> NoiseLaw:
    if isinstance(target, NonPrivate):
        return NoNoise(cells)
    laws = [law for law in laws_hiding(_moved(touched), cells, target) if not law.is_pure]
    # one block of all cells is independent Laplace noise on each cell
    rate = pure_part(target) / touched / L1_SENSITIVITY * DOWN
    return require_law([BlockLaplace((Block(cells, 1.0),), rate), *laws], target, kinds)


def _bins(n: int, law: NoiseLaw) -> int:
    """Return the number of bins; Gaussian noise counts as Laplace noise of the same sd."""
    if law.scale == 0:
        return _MOST
    epsilon = L1_SENSITIVITY * math.sqrt(2 / float(law.variances[0]))
    return int(min(max((n * epsilon) ** _GROWTH, _FEWEST), _MOST))


@dataclass(frozen=True, slots=True, eq=False)
class HistogramRelease:
    """Noisy counts, which are paid for and free to publish.

    Attributes
    ----------
    counts : ndarray of shape (2 K + 1,), read-only
        Whole numbers, as they were released; some may be negative.
    scale : ScoreScale
        By which the bins were made.
    calibration : HistogramCalibration
    guarantee : Guarantee
        The guarantee for `counts`.
    entry : Entry or None
        The entry that a ledger was charged with.
    """

    counts: FloatArray
    scale: ScoreScale
    calibration: HistogramCalibration
    guarantee: Guarantee
    entry: Entry | None = None

    def __post_init__(self) -> None:
        self.counts.flags.writeable = False

    @property
    def values(self) -> FloatArray:
        """The counts, by the name that the numbers of every stage have."""
        return self.counts


class Released(Protocol):
    """Coefficients that were paid for."""

    @property
    def coef(self) -> FloatArray: ...

    @property
    def guarantee(self) -> Guarantee: ...

    @property
    def entry(self) -> Entry | None: ...


def cells_of(link: FloatArray, label: FloatArray, edges: FloatArray) -> IntArray:
    """Return the cell ``(n,)`` of each record, which depends on this record alone.

    Parameters
    ----------
    link
        Linear predictors ``(n,)``, NaN where a record cannot be used.
    label
        -1 or 1, or 0 where a record cannot be used.
    edges
        A score at an edge belongs to the bin below, so that the bins above an edge are those of
        ``score > edge``.
    """
    bins = len(edges) + 1
    found = np.searchsorted(edges, link) + np.where(label > 0, bins, 0)
    return np.where((label == 0) | np.isnan(link), 2 * bins, found)


def counts_in(cells: IntArray, bins: int) -> FloatArray:
    """Return the number of records in each cell ``(2 K + 1,)`` without noise; it is private."""
    return np.bincount(cells, minlength=2 * bins + 1).astype(np.float64)


def counts_of_shares(cells: IntArray, shares: FloatArray, bins: int, persons: int) -> FloatArray:
    """Return how many persons are in each cell ``(2 K + 1,)`` by shares ``(n,)``; it is private.

    The last cell lacks what others have, until `filled_up` is called for all records.
    """
    grid = share_grid(persons)
    parts = np.bincount(cells, np.floor(shares / grid), minlength=2 * bins + 1)
    parts[-1] = 0.0
    return np.asarray(parts * grid)


def filled_up(counts: FloatArray, persons: int) -> FloatArray:
    """Put into the last cell what counts by shares ``(2 K + 1,)`` lack of the public sum."""
    return np.append(counts[:-1], persons - counts[:-1].sum())


def release_histogram(
    counts: FloatArray, calibration: HistogramCalibration, noise: Draw
) -> FloatArray:
    """Add the noise to counts ``(2 K + 1,)``, and round the exact sums to whole numbers.

    Notes
    -----
    **Privacy.** *Covered*: the counts, by ``calibration.target``. *Neighbours*: those of the
    target. *Assumed public*: n, the number of bins, and the function that gives a record its
    cell. *Not covered*: time and memory.
    """
    if counts.shape != (calibration.noise.dimension,) or counts.sum() != calibration.n:
        raise GuaranteeError(
            f"counts of cells do not fit a histogram of n={calibration.n} in {calibration.bins} "
            "bins."
        )
    return rounded_sum(counts, noise, 1.0)


def count_scores(
    rows: Rows | EntryRows,
    release: Released,
    scale: ScoreScale,
    calibration: HistogramCalibration,
    noise: Draw,
) -> HistogramRelease:
    """Count the scores by class of the rows that a release was made of, which it paid for.

    Notes
    -----
    **Privacy.** *Covered*: the counts, by ``calibration.target``, next to the coefficients, for
    any of these and any `scale` that were paid for. *Neighbours*: those of the target. *Assumed
    public*: n and the number of bins. *Not covered*: time and memory.
    """
    coef = release.coef
    if rows.n != calibration.n or rows.d != len(coef):
        raise GuaranteeError(
            f"rows of shape ({rows.n}, {rows.d}) do not fit {len(coef)} coefficients and a "
            f"histogram of n={calibration.n}."
        )
    counts = score_counts(rows, coef, scale.edges(calibration.bins))
    if calibration.persons != (rows.persons is not None):
        raise GuaranteeError("rows of persons take counts about persons, and other rows do not.")
    counts = release_histogram(counts, calibration, noise)
    return HistogramRelease(counts, scale, calibration, release.guarantee, release.entry)


def score_counts(rows: Rows | EntryRows, coef: FloatArray, edges: FloatArray) -> FloatArray:
    """Return the number of rows in each cell ``(2 K + 1,)`` without noise; it is private.

    A row of zeros, which stands for a record that cannot be used, has the label 0. A longer label
    is that of a row that was shortened by it (`privatelr.numerics.rows.row_bounds`). Rows of
    persons count by their shares.
    """
    if isinstance(rows, EntryRows):
        found = cells_of(rows.margins(coef) * rows.y, rows.y, edges)
        return counts_in(found, len(edges) + 1)
    bins, persons = len(edges) + 1, rows.persons

    def cells(x: FloatArray, y: FloatArray, z: Offset = 0.0) -> IntArray:
        # each score is computed by itself, so that no record changes the cell of another one
        link = (row_products(x, coef) + z) * np.abs(y)
        return cells_of(link, np.sign(y), edges)

    def kernel(*tables: Any) -> tuple[FloatArray]:
        return (counts_in(cells(*tables), bins),)

    def of_shares(*tables: Any) -> tuple[FloatArray]:
        assert persons is not None
        return (counts_of_shares(cells(*tables[:-1]), tables[-1], bins, persons),)

    if persons is None:
        return np.asarray(rows.fold(kernel)[0])
    return filled_up(rows.fold_with_shares(of_shares)[0], persons)


class HistogramStage(Stage[HistogramCalibration]):
    """Counts in bins that follow from the coefficients."""

    name, part, drawn = ROC, "counts of scores by class", 2

    def calibrate(
        self, request: Request, problem: Problem, columns: ScaleFacts | None, before: Calibrations
    ) -> HistogramCalibration:
        """Choose the bins, and the noise on their counts."""
        return calibrate_histogram(problem.n, request.target, request.kinds, problem.moved)

    def release(
        self,
        calibration: HistogramCalibration,
        rows: Rows,
        release: Release,
        noise: Draw,
        expected: Expected,
    ) -> HistogramRelease:
        """Release the counts by class."""
        assert expected is not None
        return count_scores(rows, release, expected(release), calibration, noise)

    def read(
        self,
        values: FloatArray,
        calibration: HistogramCalibration,
        release: Release | None,
        expected: Expected,
    ) -> HistogramRelease:
        """Return the counts by class, in bins where scores are expected."""
        assert release is not None
        assert expected is not None
        paid = release.guarantee, release.entry
        return HistogramRelease(values, expected(release), calibration, *paid)

    def facts(self, released: Part) -> list[tuple[str, str]]:
        """Return nothing: the page describes the curve."""
        return []
