"""Output perturbation: minimise, then add noise to the minimiser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privatelr.later import later
from privatelr.mechanisms.release import Release, distance_from, require_match, rounded_sum
from privatelr.numerics.certified import certified_minimum
from privatelr.numerics.objective import Objective
from privatelr.privacy.draws import FloatDraw

if TYPE_CHECKING:
    import flint

    from privatelr.mechanisms.calibration.record import Calibration
    from privatelr.mechanisms.release import Draws
    from privatelr.numerics.newton import Solver
    from privatelr.types import Rows
else:
    flint = later("flint")


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

    def no_tilt(precision: int) -> list[flint.arb]:
        return [flint.arb(0)] * problem.d

    zero = FloatDraw(objective.tilt.copy())  # a solver may write into the other
    distance = distance_from(zero)
    minimum = certified_minimum(objective, solver, calibration.tau, no_tilt, distance)
    coef = rounded_sum(minimum, draws.noise, calibration.grid)
    return Release(coef, calibration.target, calibration)
