"""Counts of scores by class, from which a ROC curve is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from privatelr.mechanisms.calibration.lambda_rules import Kinds
from privatelr.mechanisms.calibration.scale_noise import ScaleFacts
from privatelr.mechanisms.perturbation import Release
from privatelr.mechanisms.problem import Problem
from privatelr.mechanisms.request import ROC, Request
from privatelr.mechanisms.score_histogram import (
    HistogramCalibration,
    HistogramRelease,
    ScoreScale,
    calibrate_histogram,
    count_scores,
)
from privatelr.mechanisms.stages.stage import Part, Stage
from privatelr.privacy import Guarantee
from privatelr.privacy.noise import Draw
from privatelr.types import Rows


class HistogramStage(Stage[HistogramCalibration]):
    """Counts in bins that follow from the coefficients."""

    name, part, drawn = ROC, "counts of scores by class", 2

    def calibrate(
        self,
        target: Guarantee,
        request: Request,
        facts: Problem,
        *,
        columns: ScaleFacts | None,
        kinds: Kinds,
        before: Mapping[str, Any],
    ) -> HistogramCalibration:
        """Choose the bins, and the noise on their counts."""
        return calibrate_histogram(facts.n, target, kinds, facts.moved)

    def release(
        self,
        calibration: HistogramCalibration,
        rows: Rows,
        release: Release,
        noise: Draw,
        expected: Callable[[Release], ScoreScale] | None,
    ) -> HistogramRelease:
        """Release the counts by class."""
        assert expected is not None
        return count_scores(rows, release, expected(release), calibration, noise)

    def facts(self, released: Part) -> list[tuple[str, str]]:
        """Return nothing: the page describes the curve."""
        return []
