"""Linear programs by multiplicative weights over their constraints."""

from privatelr.mechanisms.linear_programs.constraint_private import (
    PRIVATE,
    ConstraintCalibration,
    Private,
    calibrate_constraints,
    constraint_private_lp,
    play_constraints,
)
from privatelr.mechanisms.linear_programs.constraint_vertices import (
    Corners,
    held_bounds,
    private_corners,
    public_corners,
)
from privatelr.mechanisms.linear_programs.lp_calibration import (
    MOST_ROUNDS,
    SCORES,
    ProgramCalibration,
    calibrate_program,
)
from privatelr.mechanisms.linear_programs.lp_problem import MOST_RECORDS, ProgramFacts, WorstMargins
from privatelr.mechanisms.linear_programs.lp_rounds import (
    lower,
    release_program,
    require_match,
    scorer,
)
from privatelr.mechanisms.linear_programs.thesis_svm import ThesisFit, dmw_svm_thesis, true_epsilon
