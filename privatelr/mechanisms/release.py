"""What leaves a mechanism, and the checks at the one place where promise meets data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from privatelr.errors import GuaranteeError, NotConvergedError
from privatelr.numerics.newton import certificate
from privatelr.numerics.objective import value_and_gradient

if TYPE_CHECKING:
    from privatelr.mechanisms.calibration import Calibration
    from privatelr.numerics.newton import Solver
    from privatelr.numerics.objective import Objective
    from privatelr.privacy.guarantees import Guarantee
    from privatelr.types import FloatArray, Rows


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """Paid for, and free to publish.

    Attributes
    ----------
    coef : ndarray of shape (d,), read-only
        Coefficients in design units, the intercept first.
    guarantee : Guarantee
        What holds for `coef`.
    calibration : Calibration
        How it was reached.
    """

    coef: FloatArray
    guarantee: Guarantee
    calibration: Calibration

    def __post_init__(self) -> None:
        self.coef.flags.writeable = False


def certified_minimum(objective: Objective, solver: Solver) -> FloatArray:
    """Minimise, and check here what the proof needs: that the gradient vanishes.

    Raises
    ------
    NotConvergedError
        If the gradient at what the solver returned is above `certificate`; nothing is released
        then. The check is made on the rows themselves, whatever the solver says of itself.
    """
    w = solver(objective).w
    with np.errstate(all="ignore"):
        norm = float(np.linalg.norm(value_and_gradient(objective, w)[1]))
    if not norm <= certificate(objective):
        raise NotConvergedError(
            "solver: what it returned is not certified to a gradient of 1e-10, so nothing was "
            "released; leave solver=Newton()."
        )
    return w


def require_match(rows: Rows, calibration: Calibration, noise: FloatArray) -> None:
    """Refuse rows that the calibration was not made for; compares public facts only."""
    problem = calibration.problem
    if rows.n != problem.n or rows.d != problem.d or noise.shape != (problem.d,):
        raise GuaranteeError(
            f"rows of shape ({rows.n}, {rows.d}) and noise of shape {noise.shape} do not fit a "
            f"calibration for n={problem.n}, d={problem.d}."
        )
    if rows.radius > problem.radius:
        raise GuaranteeError(
            f"rows of radius {rows.radius:g} are longer than the radius {problem.radius:g} that "
            "the noise was calibrated for."
        )
