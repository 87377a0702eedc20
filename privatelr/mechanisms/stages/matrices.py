"""The two matrices that inference uses, at the released coefficients."""

from __future__ import annotations

from typing import cast

from privatelr.mechanisms.calibration.moment_noise import MomentsCalibration, calibrate_moments
from privatelr.mechanisms.perturbation import Moments, release_moments
from privatelr.mechanisms.request import COEFFICIENTS, INFERENCE, SCALE
from privatelr.mechanisms.stages.stage import Known, Part, Seen, Stage
from privatelr.privacy import Guarantee


class MatrixStage(Stage[MomentsCalibration]):
    """The curvature and the score covariance."""

    name, part, drawn = INFERENCE, "matrices for inference", 0

    def calibrate(self, target: Guarantee, known: Known) -> MomentsCalibration:
        """Calibrate the noise on both matrices together."""
        scale = known.before.get(SCALE)
        typical = None if scale is None else scale.typical
        problem = known.before[COEFFICIENTS].problem
        return calibrate_moments(problem, target, known.kinds, typical)

    def release(self, calibration: MomentsCalibration, seen: Seen) -> Moments:
        """Release both matrices at the coefficients."""
        return release_moments(seen.rows, seen.release.coef, calibration, seen.noise)

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
