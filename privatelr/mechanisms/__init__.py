"""Mechanisms calibrate noise from public facts, draw it once, and release."""

from privatelr.mechanisms.perturbation import (
    Draws,
    Moments,
    Release,
    draw,
    mean_moments,
    release_moments,
    rounded_sum,
)
from privatelr.mechanisms.problem import Problem
from privatelr.mechanisms.registry import (
    StagedCalibration,
    calibrate_all,
    divide,
    draw_all,
    promises_for,
    relative_noise,
    release_all,
    shares_of,
)
from privatelr.mechanisms.request import (
    ALL_FOR_COEFFICIENTS,
    LARGEST_EPSILON,
    LARGEST_LAMBDA,
    SMALLEST_EPSILON,
    SMALLEST_LAMBDA,
    USUAL_DELTA,
    Request,
    Spend,
    in_order,
    read_request,
    read_spend,
    read_target,
    require_below_one_record,
    warn_of_large_delta,
    warn_of_one_record,
)
from privatelr.mechanisms.stages import STAGES
from privatelr.mechanisms.stages.coefficients import (
    MECHANISMS,
    Mechanism,
    calibrate,
    mechanism_of,
)
from privatelr.mechanisms.stages.scale import (
    ScaleRelease,
    mean_squares,
    release_scale,
    scale_map,
    scale_moments,
    spread_to_noise,
    variance_sd,
    warn_of_noise,
)
from privatelr.types import matrix_of, vector_of
