"""Output perturbation: minimise, then add noise to the minimiser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from flint import arb

from privatelr.mechanisms.release import Release, require_match, rounded_sum
from privatelr.numerics.certified import certified_minimum
from privatelr.numerics.objective import Objective

if TYPE_CHECKING:
    from privatelr.mechanisms.calibration.record import Calibration
    from privatelr.mechanisms.release import Draws
    from privatelr.numerics.newton import Solver
    from privatelr.types import Rows


def release(rows: Rows, calibration: Calibration, draws: Draws, solver: Solver) -> Release:
    """Minimise J to a certified gradient, add a draw of ``calibration.noise``, release the sum.

    Notes
    -----
    **Privacy.** *Covered*: the coefficients, by ``calibration.target``. *Neighbours*: replace
    one record. *Assumed public*: everything in ``calibration.problem``. *Not covered*: time
    and memory.
    """
    require_match(rows, calibration)
    problem = calibration.problem
    objective = Objective(rows, problem.loss, problem.lambda_, np.zeros(problem.d))

    def no_tilt(precision: int) -> list[arb]:
        return [arb(0)] * problem.d

    minimum = certified_minimum(objective, solver, calibration.tau, no_tilt)
    coef = rounded_sum(minimum, draws.noise, calibration.grid)
    return Release(coef, calibration.target, calibration)
