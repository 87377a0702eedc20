"""Standard errors, intervals and tests: functions of a release, free to repeat."""

from privatelr.inference.bootstrap import bootstrap_intervals
from privatelr.inference.conservative import (
    NoiseLimits,
    heaviest_tail,
    limits_of,
    worst_errors,
    worst_p_values,
)
from privatelr.inference.deviance import deviance_test
from privatelr.inference.error_distribution import (
    PUBLIC_SEED,
    Matrices,
    carriers,
    error_law,
    joint_errors,
    mixture_of,
    points_of,
    solved_for,
)
from privatelr.inference.intervals import Inference, covariance, infer, joint_test
from privatelr.inference.noisy_moments import (
    FRAGILE,
    Mode,
    NoisyMoments,
    evidence_of,
    floored,
    plausible,
    plug_in,
    quality,
    relative_bias,
    require_moments,
)
from privatelr.inference.prediction_errors import RowErrors, row_errors
from privatelr.inference.question import (
    BOOTSTRAP,
    LARGEST_BIAS,
    STANDARD_LEVEL,
    Question,
    answerable,
    level_of,
    read_level,
)
