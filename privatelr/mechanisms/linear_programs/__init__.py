"""Linear programs, solved by multiplicative weights over their constraints."""

from privatelr.mechanisms.linear_programs.constraint_private import (
    PRIVATE,
    ConstraintCalibration,
    Corners,
    Private,
    calibrate_constraints,
    constraint_private_lp,
    held_bounds,
    play_constraints,
    private_corners,
    public_corners,
)
from privatelr.mechanisms.linear_programs.lp_calibration import (
    SCORES,
    ProgramCalibration,
    ProgramFacts,
    WorstMargins,
    calibrate_program,
)
from privatelr.mechanisms.linear_programs.lp_rounds import lower, release_program, scorer
from privatelr.mechanisms.published import ThesisFit, dmw_svm_thesis, true_epsilon
from privatelr.mechanisms.selection_release import require_x_bound
