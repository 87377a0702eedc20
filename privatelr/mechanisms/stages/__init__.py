"""The released stages of a fit, one module each: what it costs, what it releases, what pages say.

A new stage is one module, and one line in the table here.
"""

from typing import Any

from privatelr.mechanisms.stages.coefficients import CoefficientStage
from privatelr.mechanisms.stages.histogram import HistogramStage
from privatelr.mechanisms.stages.matrices import MatrixStage
from privatelr.mechanisms.stages.scale import ScaleStage
from privatelr.mechanisms.stages.stage import Known, Seen, Stage, StageCalibration

STAGES: dict[str, Stage[Any]] = {
    stage.name: stage
    for stage in (ScaleStage(), CoefficientStage(), MatrixStage(), HistogramStage())
}
"""All stages by the names of their shares, in the order of their releases."""
