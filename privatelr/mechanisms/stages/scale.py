"""The scale of the columns, which is released first and standardises the rows."""

from __future__ import annotations

from typing import cast

from privatelr.mechanisms.calibration.scale_noise import ScaleCalibration, calibrate_scale
from privatelr.mechanisms.request import SCALE
from privatelr.mechanisms.stages.stage import Known, Part, Stage
from privatelr.privacy import Guarantee, Promise


class ScaleStage(Stage[ScaleCalibration]):
    """Means and mean squares of columns; `release_scale` releases them from unscaled rows."""

    name, part, at_coefficients, drawn = SCALE, "scale of the columns", False, 1

    def calibrate(self, target: Guarantee, known: Known) -> ScaleCalibration:
        """Calibrate the noise on means and mean squares."""
        assert known.columns is not None
        return calibrate_scale(known.columns, cast("Promise", target))

    def seen(self) -> str:
        """Name the moments, by which readers know them."""
        return "the moments that standardised the rows"

    def facts(self, released: Part) -> list[tuple[str, str]]:
        """Return nothing: the page compares the price with that of the other stages."""
        return []
