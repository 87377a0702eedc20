"""Objective and output perturbation, each as one release."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privatelr.errors import NotConvergedError
from privatelr.lazy_import import lazy_import
from privatelr.mechanisms.release import Release, distance_from, require_match, rounded_sum
from privatelr.numerics import Objective, value_and_gradient
from privatelr.numerics.solve import certificate, certified_minimum
from privatelr.privacy.noise import FloatDraw

if TYPE_CHECKING:
    import flint

    from privatelr.mechanisms.calibration.calibration_record import Calibration
    from privatelr.mechanisms.release import Draws
    from privatelr.numerics.solve import Solver
    from privatelr.types import Rows

else:
    flint = lazy_import("flint")


def release_tilted_minimiser(
    rows: Rows, calibration: Calibration, draws: Draws, solver: Solver
) -> Release:
    """Minimise ``J(w) + b.w / n`` to a certified gradient, shield the result, release it.

    Parameters
    ----------
    rows : Rows
    calibration : Calibration
    draws : Draws
        Of ``calibration.noise``, the tilt b in the sum form, and of ``calibration.shield``.
    solver : Solver
        Where it stops short, a slower method goes on; the result is the same to tau.

    Notes
    -----
    **Privacy.** *Covered*: the coefficients, by ``calibration.target``. *Neighbours*: replace
    one record. *Assumed public*: everything in ``calibration.problem``. *Not covered*: time
    and memory.
    """
    require_match(rows, calibration)
    problem = calibration.problem
    tilt = draws.noise.nearest() / problem.n
    objective = Objective(rows, problem.loss, problem.lambda_, tilt)
    known = draws.noise.enclose, distance_from(draws.noise)
    minimum = certified_minimum(objective, solver, calibration.tau, *known)
    coef = rounded_sum(minimum, draws.shield, calibration.grid)
    return Release(coef, calibration.target, calibration)


def release_plain(rows: Rows, calibration: Calibration, draws: Draws, solver: Solver) -> Release:
    """The plain fit: minimise J and release the minimiser, which nothing protects.

    Raises
    ------
    NotConvergedError
        If the gradient at what the solver returned is above `certificate`. The check is made on
        the rows themselves, whatever the solver says of itself.

    Notes
    -----
    **Privacy.** *Covered*: nothing. *Neighbours*, *Assumed public*: none. *Not covered*:
    everything.
    """
    require_match(rows, calibration)
    problem = calibration.problem
    objective = Objective(rows, problem.loss, problem.lambda_, np.zeros(problem.d))
    w = solver(objective).w
    with np.errstate(all="ignore"):
        norm = float(np.linalg.norm(value_and_gradient(objective, w)[1]))
    if not norm <= certificate(objective):
        raise NotConvergedError(
            "solver: what it returned is not certified to a gradient of 1e-10, so nothing was "
            "released; leave solver=Newton()."
        )
    return Release(w, calibration.target, calibration)


def release_noisy_minimiser(
    rows: Rows, calibration: Calibration, draws: Draws, solver: Solver
) -> Release:
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
