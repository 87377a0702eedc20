"""Every privacy formula of perturbation; its functions take public facts, never data."""

from privatelr.mechanisms.calibration.calibration_record import (
    Calibration,
    calibrate_objective,
    calibrate_output,
    calibrate_plain,
)
from privatelr.mechanisms.calibration.lambda_rules import (
    GAUSSIAN,
    LAPLACE,
    Kinds,
    expected_excess,
    free_penalty,
    nominal_epsilon,
)
from privatelr.mechanisms.calibration.proven_noise import (
    certified_norm,
    gaussian_tilts,
    laws_hiding,
    output_sensitivity,
)
from privatelr.mechanisms.calibration.pure import (
    curvature_cost,
    objective_rate,
    penalty_costing,
    proven,
)
