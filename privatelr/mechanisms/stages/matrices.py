"""The two matrices that inference uses, at the released coefficients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from privatelr.mechanisms.calibration.lambda_rules import Kinds
from privatelr.mechanisms.calibration.moment_noise import MomentsCalibration, calibrate_moments
from privatelr.mechanisms.calibration.scale_noise import ScaleFacts
from privatelr.mechanisms.perturbation import Moments, Release, release_moments
from privatelr.mechanisms.problem import Problem
from privatelr.mechanisms.request import COEFFICIENTS, INFERENCE, SCALE, Request
from privatelr.mechanisms.score_histogram import ScoreScale
from privatelr.mechanisms.stages.stage import Part, Stage
from privatelr.privacy import Guarantee
from privatelr.privacy.noise import Draw
from privatelr.types import Rows


class MatrixStage(Stage[MomentsCalibration]):
    """The curvature and the score covariance."""

    name, part, drawn = INFERENCE, "matrices for inference", 0

    def calibrate(
        self,
        target: Guarantee,
        request: Request,
        facts: Problem,
        *,
        columns: ScaleFacts | None,
        kinds: Kinds,
        before: Mapping[str, Any],
    ) -> MomentsCalibration:
        """Calibrate the noise on both matrices together."""
        scale = before.get(SCALE)
        typical = None if scale is None else scale.typical
        problem = before[COEFFICIENTS].problem
        return calibrate_moments(problem, target, kinds, typical)

    def release(
        self,
        calibration: MomentsCalibration,
        rows: Rows,
        release: Release,
        noise: Draw,
        expected: Callable[[Release], ScoreScale] | None,
    ) -> Moments:
        """Release both matrices at the coefficients."""
        return release_moments(rows, release.coef, calibration, noise)

    def facts(self, released: Part) -> list[tuple[str, str]]:
        """Return the law of the noise, and how the sums were rounded."""
        made = cast("MomentsCalibration", released.calibration)
        noise, grid = made.noise, made.grid
        if noise.scale == 0:
            return []
        text = (
            f"{noise.title} noise, scale {noise.scale:.6g}, added to their {noise.dimension} "
            f"numbers together; rounded to multiples of {grid:.6g}, decided exactly"
        )
        return [("Matrices for inference", text)]
