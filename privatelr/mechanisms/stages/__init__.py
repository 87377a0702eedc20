"""The released stages of a fit, one module each: what it costs, what it releases, what pages say.

A new stage is one module, and one line in the table here.
"""

from privatelr.mechanisms.request import STAGES
from privatelr.mechanisms.stages.coefficients import CoefficientStage
from privatelr.mechanisms.stages.histogram import HistogramStage
from privatelr.mechanisms.stages.lengths import LengthStage
from privatelr.mechanisms.stages.matrices import MatrixStage
from privatelr.mechanisms.stages.ranges import RangeStage
from privatelr.mechanisms.stages.scale import ScaleStage
from privatelr.mechanisms.stages.stage import Stage, StageCalibration

_BEFORE = (ScaleStage(), RangeStage(), LengthStage())
_ALL = (*_BEFORE, CoefficientStage(), MatrixStage(), HistogramStage())
for stage in _ALL:
    STAGES[stage.name] = stage
