"""Output perturbation: minimise, then add noise to the minimiser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privatelr.mechanisms.release import Release, certified_minimum, require_match
from privatelr.numerics.objective import Objective

if TYPE_CHECKING:
    from privatelr.mechanisms.calibration import Calibration
    from privatelr.numerics.newton import Solver
    from privatelr.types import FloatArray, Rows


def release(rows: Rows, calibration: Calibration, noise: FloatArray, solver: Solver) -> Release:
    """Minimise J and release the minimiser plus `noise`, one draw from ``calibration.noise``.

    Notes
    -----
    **Privacy.** *Covered*: the coefficients, by ``calibration.target``. *Neighbours*: replace
    one record. *Assumed public*: everything in ``calibration.problem``. *Not covered*: the
    distance to the exact minimiser that the proof is about, time and memory.
    """
    require_match(rows, calibration, noise)
    problem = calibration.problem
    objective = Objective(rows, problem.loss, problem.lambda_, np.zeros(problem.d))
    return Release(certified_minimum(objective, solver) + noise, calibration.target, calibration)
