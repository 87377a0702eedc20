"""Every privacy formula of perturbation; its functions take public facts, never data."""

from privatelr.mechanisms.calibration.calibration_record import (
    Calibration,
    calibrate_objective,
    calibrate_output,
    calibrate_plain,
)
from privatelr.mechanisms.calibration.lambda_rules import (
    GAUSSIAN,
    LAMBDA_RULES,
    LAPLACE,
    Kinds,
    expected_excess,
    free_penalty,
    nominal_epsilon,
)
from privatelr.mechanisms.calibration.moment_noise import (
    MOST_COLUMNS,
    MomentsCalibration,
    achieved_moments,
    calibrate_moments,
    clip_for,
    moments_balance,
    moments_sensitivity,
)
from privatelr.mechanisms.calibration.proven_noise import (
    certified_norm,
    gaussian_tilts,
    laws_hiding,
    output_sensitivity,
)
from privatelr.mechanisms.calibration.pure import (
    ANALYSES,
    curvature_cost,
    objective_rate,
    penalty_costing,
    proven,
)
from privatelr.mechanisms.calibration.scale_noise import (
    CORNER,
    ScaleCalibration,
    ScaleFacts,
    achieved_scale,
    calibrate_scale,
    counts_long_rows_less,
    deciding_price,
    is_worth_it,
    scale_blocks,
    scale_floor,
    share_of_price,
    usual_intercept,
    usual_rows,
)
