"""Standard errors, intervals and tests: functions of a release, free to repeat."""

from privatelr.inference.bootstrap import bootstrap_intervals
from privatelr.inference.conservative import (
    NoiseLimits,
    heaviest_tail,
    limits_of,
    worst_errors,
    worst_p_values,
)
from privatelr.inference.error_distribution import (
    PUBLIC_SEED,
    Matrices,
    points_of,
)
from privatelr.inference.guessed_columns import Guesses, spread_quantiles
from privatelr.inference.intervals import (
    Inference,
    coefficient_rows,
    covariance,
    estimates,
    infer,
)
from privatelr.inference.joint_tests import Equations, JointTest, deviance_test, joint_test
from privatelr.inference.noise_forecast import expected_noise
from privatelr.inference.noisy_moments import (
    FRAGILE,
    Mode,
    NoisyMoments,
    evidence_of,
    floored,
    penalty_bias,
    plausible,
    plug_in,
    quality,
    relative_bias,
    require_moments,
)
from privatelr.inference.prediction_errors import RowErrors, row_errors
from privatelr.inference.question import (
    BOOTSTRAP,
    STANDARD_LEVEL,
    Question,
    answerable,
)
from privatelr.inference.unresolved_columns import thin_numbers
