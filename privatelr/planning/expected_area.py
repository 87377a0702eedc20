"""The expected error of an area under a private ROC curve, by made-up records and their scores."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from privatelr.arguments import suggests_arguments
from privatelr.errors import ArgumentError
from privatelr.inference import released_roc as roc
from privatelr.mechanisms import read_target
from privatelr.mechanisms.score_histogram import (
    HistogramCalibration,
    HistogramRelease,
    ScoreScale,
    calibrate_histogram,
    cells_of,
)
from privatelr.planning.forecast import Simulator
from privatelr.planning.needed_records import read_size
from privatelr.privacy import Guarantee
from privatelr.types import FloatArray

if TYPE_CHECKING:
    from privatelr.mechanisms import StagedCalibration
    from privatelr.planning.study import Study

_LEAST_SPREAD = 1e-6
"""Smallest spread of scores that is told from none."""


@dataclass(frozen=True, eq=False)
class ExpectedArea:
    """What a curve will say of made-up records, with the parts of its error.

    Attributes
    ----------
    release : HistogramRelease
        The expected counts of scores, without noise, and the calibration of their noise.
    """

    release: HistogramRelease

    @property
    def calibration(self) -> HistogramCalibration:
        """The number of bins and the noise on a count."""
        return self.release.calibration

    @cached_property
    def value(self) -> float:
        """The area of the model without noise."""
        return float(roc.areas(roc.counts_of(self.release)))

    @cached_property
    def sampling_sd(self) -> float:
        """Standard deviation by the choice of the records."""
        return roc.sampling_sd_of_area(roc.counts_of(self.release))

    @cached_property
    def privacy_sd(self) -> float:
        """Standard deviation by the noise, as root mean square of what it does to the area."""
        return float(roc.parts_of(self.release, roc.areas).privacy)

    @cached_property
    def binning_sd(self) -> float:
        """Standard deviation by the places of scores within bins."""
        return roc.binning_sd_of_area(self.release)

    @property
    def std_error(self) -> float:
        """Standard error of the area, of all parts together."""
        return float(np.linalg.norm([self.sampling_sd, self.privacy_sd, self.binning_sd]))

    def __str__(self) -> str:
        return (
            f"an AUC near {self.value:.2f} with a Std. Error near {self.std_error:.2g}, of "
            f"sampling {self.sampling_sd:.2g}, noise {self.privacy_sd:.2g} and bins "
            f"{self.binning_sd:.2g}"
        )


@suggests_arguments
class ExpectedCurves:
    """Methods of a plan about answers that score records, which take no data."""

    __slots__ = ()

    if TYPE_CHECKING:  # attributes of a plan
        study: Study
        calibration: StagedCalibration
        simulator: Simulator

    @property
    def roc(self) -> ExpectedArea | None:
        """What the curve that the fit buys is expected to say; None if it buys none.

        It has the ``value`` of the area, its ``std_error``, and the parts of that: ``sampling_sd``,
        ``privacy_sd`` and ``binning_sd``.
        """
        counts = None if self.study.classes else self.calibration.histogram
        return None if counts is None else expected_area(self.simulator, counts)

    def private_roc(
        self, eps: float | Guarantee = 1.0, *, delta: float = 0.0, n: int | None = None
    ) -> ExpectedArea:
        """What `Fit.private_roc` is expected to say of other records, at a price of its own.

        Parameters
        ----------
        eps, delta
            The price, as in `Fit.private_roc`.
        n : int, optional
            The number of records that are scored; by default that of the plan.

        Raises
        ------
        ArgumentError, GuaranteeError
            As in `Fit.private_roc`.
        """
        size, target = self._asked(eps, delta, n)
        return expected_area(self.simulator, calibrate_histogram(size, target))

    def _asked(self, eps: Any, delta: Any, n: Any) -> tuple[int, Guarantee]:
        """Read the price of an answer, and how many records it scores."""
        if self.study.classes:
            raise ArgumentError("a ROC curve is about two classes, and this plan is about more.")
        size = read_size(self.study.n if n is None else n)
        about = self.study.request.target.neighbours
        return size, read_target(eps, delta, plain=None, neighbours=about)


def entries_of(expected: ExpectedArea | None) -> dict[str, float | None]:
    """The area and its errors as entries of JSON, which are null without a curve."""
    names = ("value", "std_error", "sampling_sd", "privacy_sd", "binning_sd")
    found = {name: None if expected is None else getattr(expected, name) for name in names}
    return {"auc" if name == "value" else f"auc_{name}": x for name, x in found.items()}


def expected_area(sim: Simulator, calibration: HistogramCalibration) -> ExpectedArea:
    """Return what counts of scores of this calibration are expected to say.

    Scores are those of the model without noise, and bins lie where such scores are expected. The
    noise on coefficients moves the area, and its error by little.
    """
    counts, scale = expected_counts(sim, calibration.bins, calibration.n)
    return ExpectedArea(HistogramRelease(counts, scale, calibration, calibration.target))


def expected_counts(sim: Simulator, bins: int, n: int) -> tuple[FloatArray, ScoreScale]:
    """Return the expected counts ``(2 K + 1,)`` of n scores in K bins, and where the bins lie."""
    link, positive, usable = _scores(sim)
    spread = float(link[usable].std()) if usable.any() else 0.0
    middle = float(link[usable].mean()) if usable.any() else 0.0
    scale = ScoreScale(middle, max(spread, _LEAST_SPREAD))
    edges, cells = scale.edges(bins), 2 * bins + 1
    counts = np.zeros(cells)
    for sign, shares in ((-1.0, 1 - positive), (1.0, positive)):
        label = np.where(usable, sign, 0.0)
        counts += np.bincount(cells_of(link, label, edges), shares, minlength=cells)
    return counts * (n / counts.sum()), scale


def _scores(sim: Simulator) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return of made-up records ``(m,)`` the score, the chance of being positive, and its use."""
    population = sim.study.population
    rows = population.rows(sim.spec)
    offset = 0.0 if rows.offset is None else rows.offset
    link = (rows.x @ sim.centre + offset) * np.maximum(np.abs(rows.y), 1.0)
    usable = rows.y != 0
    positive = (rows.y > 0).astype(float) if population.positive is None else population.positive
    return np.asarray(link), np.asarray(positive), np.asarray(usable)
