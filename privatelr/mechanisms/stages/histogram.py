"""Counts of scores by class, from which a ROC curve is read."""

from __future__ import annotations

from privatelr.mechanisms.request import ROC
from privatelr.mechanisms.score_histogram import (
    HistogramCalibration,
    HistogramRelease,
    calibrate_histogram,
    count_scores,
)
from privatelr.mechanisms.stages.stage import Known, Part, Seen, Stage
from privatelr.privacy import Guarantee


class HistogramStage(Stage[HistogramCalibration]):
    """Counts in bins that follow from the coefficients."""

    name, part, drawn = ROC, "counts of scores by class", 2

    def calibrate(self, target: Guarantee, known: Known) -> HistogramCalibration:
        """Choose the bins, and the noise on their counts."""
        return calibrate_histogram(known.facts.n, target, known.kinds, known.facts.moved)

    def release(self, calibration: HistogramCalibration, seen: Seen) -> HistogramRelease:
        """Release the counts by class."""
        assert seen.expected is not None
        scale = seen.expected(seen.release)
        return count_scores(seen.rows, seen.release, scale, calibration, seen.noise)

    def facts(self, released: Part) -> list[tuple[str, str]]:
        """Return nothing: the page describes the curve."""
        return []
