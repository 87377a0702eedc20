"""Objective and output perturbation: the one place where promise meets data, and what leaves it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from privatelr.arguments import suggests_arguments
from privatelr.errors import GuaranteeError, NotConvergedError
from privatelr.lazy_import import lazy_import
from privatelr.locks import FIRST_PRECISION, working_precision
from privatelr.mechanisms.calibration import Calibration, MomentsCalibration
from privatelr.numerics import Objective, value_and_gradient
from privatelr.numerics.solve import Solver, certificate, certified_minimum
from privatelr.privacy import Guarantee
from privatelr.privacy.accounting import Entry
from privatelr.privacy.noise import MANY, BlockwiseDraw, Draw, FloatDraw, Randomness
from privatelr.types import FloatArray, Rows

if TYPE_CHECKING:
    import flint

    from privatelr.mechanisms.moments_release import Moments
else:
    flint = lazy_import("flint")

_ROUNDED_UP = 1 + 1e-6
"""Factor above what the length of any vector in memory can lose to rounding."""


@suggests_arguments
@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """Paid for, and free to publish.

    Attributes
    ----------
    coef : ndarray of shape (d,), read-only
        Coefficients in scaled units, the intercept first.
    guarantee : Guarantee
        What holds for `coef` and `moments` together.
    calibration : Calibration
        How it was reached for `coef`.
    entry : Entry or None
        What a ledger was charged for both.
    moments : Moments or None
        What inference is made of, if it was bought.
    """

    coef: FloatArray
    guarantee: Guarantee
    calibration: Calibration
    entry: Entry | None = None
    moments: Moments | None = None

    def __post_init__(self) -> None:
        self.coef.flags.writeable = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Draws:
    """The noise of one release, drawn once: of the calibration's `noise` and of its `shield`.

    And of the moments, if they were requested.
    """

    noise: Draw
    shield: Draw
    moments: Draw | None = None


def draw(calibration: Calibration, randomness: Randomness) -> Draws:
    """All the noise that a release under this calibration takes."""
    return Draws(randomness.draw(calibration.noise), randomness.draw(calibration.shield))


def distance_from(noise: Draw) -> Callable[[FloatArray], float] | None:
    """What tells how far many columns of noise are from a vector at most; None for few columns."""
    if isinstance(noise, BlockwiseDraw):
        return noise.distance
    if not isinstance(noise, FloatDraw) or len(noise.vector) <= MANY:
        return None
    held = noise.vector
    return lambda vector: float(np.linalg.norm(held - vector)) * _ROUNDED_UP


def rounded_sum(centre: Sequence[flint.arb] | FloatArray, noise: Draw, grid: float) -> FloatArray:
    """Multiples of `grid` nearest to ``centre + noise``, decided exactly (privacy.md 10.1).

    Rounding an ideal real number is a function of it, so its privacy is that of the ideal
    mechanism, whatever doubles would have done to the sum.

    Parameters
    ----------
    centre
        Exact numbers, d of them: doubles or balls.
    noise
        Enclosed as tightly as it takes until no coordinate is in doubt.
    """
    if isinstance(centre, np.ndarray):
        if isinstance(noise, BlockwiseDraw):
            return noise.rounded(centre, grid)
        centre = [flint.arb(float(number)) for number in centre]
    precision = FIRST_PRECISION
    while True:
        enclosed = noise.enclose(precision)
        with working_precision(precision):
            step, half = flint.arb(grid), flint.arb(0.5)
            cells = [
                ((number + ball) / step + half).floor().unique_fmpz()
                for number, ball in zip(centre, enclosed, strict=True)
            ]
        known = [int(cell) for cell in cells if cell is not None]
        if len(known) == len(cells):
            return np.array([float(cell) * grid for cell in known])
        precision *= 2


def require_match(rows: Rows, calibration: Calibration | MomentsCalibration) -> None:
    """Refuse rows that the calibration was not made for; compares public facts only."""
    problem = calibration.problem
    if rows.n != problem.n or rows.d != problem.d:
        raise GuaranteeError(
            f"rows of shape ({rows.n}, {rows.d}) do not fit a calibration for n={problem.n}, "
            f"d={problem.d}."
        )
    if rows.radius > problem.radius:
        raise GuaranteeError(
            f"rows of radius {rows.radius:g} are longer than the radius {problem.radius:g} that "
            "the noise was calibrated for."
        )
    if problem.blocks and rows.blocks != problem.blocks:
        raise GuaranteeError(
            "rows: they are not held in the blocks of columns that the noise was calibrated for."
        )


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
