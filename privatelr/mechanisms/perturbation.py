"""Objective and output perturbation: noise meets what was computed from the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from privatelr.arguments import suggests_arguments
from privatelr.errors import GuaranteeError, NotConvergedError
from privatelr.locks import FIRST_PRECISION, flint, working_precision
from privatelr.mechanisms.calibration import Calibration
from privatelr.mechanisms.problem import Problem
from privatelr.mechanisms.request import INFERENCE, LENGTHS, ROC, SCALE, in_order
from privatelr.numerics import Objective, value_and_gradient
from privatelr.numerics.rows import (
    bends_of,
    gram,
    grams_of_persons,
    row_products,
    row_squares,
    weights_of,
)
from privatelr.numerics.solve import Solver, certificate, certified_minimum, softmax_minimum
from privatelr.privacy import Guarantee
from privatelr.privacy.accounting import Entry
from privatelr.privacy.noise import (
    Draw,
    FloatDraw,
    Randomness,
    ShiftedDraw,
)
from privatelr.types import FloatArray, Offset, Rows, matrix_of, vector_of

if TYPE_CHECKING:
    from privatelr.mechanisms.request import Request
    from privatelr.mechanisms.stages.histogram import HistogramRelease
    from privatelr.mechanisms.stages.matrices import MomentsCalibration
    from privatelr.mechanisms.stages.scale import ScaleRelease

_ROUNDED_UP = 1 + 1e-6
"""Factor that covers the relative rounding error in the length of any vector in memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Two noisy matrices at the released coefficients w, which are paid for and free to publish.

    Attributes
    ----------
    values : ndarray of shape (d (d + 1),), read-only
        ``(svec H, eta svec S)`` with noise, where H is the mean of ``l'' x x'`` and S the mean of
        ``l'^2 x x'``, without penalty; see `MomentsCalibration`. A row x is as it was before a
        released length divided it, but for persons. Because of the noise the matrices may fail to
        be positive definite.
    calibration : MomentsCalibration
        The price, and the law of the noise.
    """

    values: FloatArray
    calibration: MomentsCalibration

    def __post_init__(self) -> None:
        self.values.flags.writeable = False

    @property
    def curvature(self) -> FloatArray:
        """The noisy H ``(d, d)`` in scaled units."""
        return matrix_of(self.values[: len(self.values) // 2])

    @property
    def scores(self) -> FloatArray:
        """The noisy S ``(d, d)`` in scaled units."""
        return matrix_of(self.values[len(self.values) // 2 :]) / self.calibration.balance


@suggests_arguments
@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """The results of a mechanism, which are paid for and free to publish.

    Attributes
    ----------
    coef : ndarray of shape (d,), read-only
        The coefficients in scaled units, the intercept first; ``(K d,)`` for K classes, one after
        the other.
    guarantee : Guarantee
        The guarantee for everything in the release together.
    calibration : Calibration
        All numbers of the mechanism that released `coef`.
    entry : Entry or None
        The entry that a ledger was charged with, for all of it.
    parts : mapping
        What the other stages released, by the names of their shares.
    centre : ndarray of shape (d,) or None
        The coefficients to which the penalty draws, in scaled units; None for zero.
    stiff : ndarray of shape (k, d) or None
        G of a prior, which adds ``|G (w - centre)|**2 / 2`` to the mean objective.
    request : Request or None
        What was calibrated for, from which a release file calibrates again.

    Examples
    --------
    >>> from privatelr import dplr, load_dataset, load_schema
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> release = dplr("vote ~ age", votes, eps=1.0, **public).release
    >>> print(release.coef.shape, release.guarantee)
    (2,) epsilon = 1 (pure)
    """

    coef: FloatArray
    guarantee: Guarantee
    calibration: Calibration
    entry: Entry | None = None
    parts: Mapping[str, Any] = field(default_factory=dict)
    centre: FloatArray | None = None
    stiff: FloatArray | None = None
    request: Request | None = None

    def __post_init__(self) -> None:
        self.coef.flags.writeable = False

    def having(self, parts: Mapping[str, Any]) -> Release:
        """Return the same release with other parts by name; None leaves a part out."""
        return replace(self, parts=in_order({**self.parts, **parts}))

    @property
    def moments(self) -> Moments | None:
        """The noisy matrices for inference, if they were requested."""
        return self.parts.get(INFERENCE)

    @property
    def scale(self) -> ScaleRelease | None:
        """The noisy moments of the columns that standardised the rows, if they were released."""
        return self.parts.get(SCALE)

    @property
    def length(self) -> float | None:
        """The released length of rows, in lengths of a typical one."""
        released = self.parts.get(LENGTHS)
        return None if released is None else float(released.length)

    @property
    def histogram(self) -> HistogramRelease | None:
        """The noisy counts of the rows' scores by class, if a ROC curve was requested."""
        return self.parts.get(ROC)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Draws:
    """The noise of one release, drawn once.

    There is a draw of the calibration's `noise`, one of its `shield`, and one for each of the
    `others` that are released, by the names of their shares.
    """

    noise: Draw
    shield: Draw
    others: Mapping[str, Draw] = field(default_factory=dict)


def draw(calibration: Calibration, randomness: Randomness) -> Draws:
    """Draw all the noise that a release under this calibration needs."""
    return Draws(randomness.draw(calibration.noise), randomness.draw(calibration.shield))


def _towards(tilt: Draw, centre: FloatArray, stiff: FloatArray | None, problem: Problem) -> Draw:
    """Return the tilt with ``-Lambda w0 - n G' G w0``, by which penalties are about w0."""
    if not float(np.linalg.norm(centre)) <= problem.centre:
        bound = f"{problem.centre:g}, for which minima are certified"
        raise GuaranteeError(f"prior: its coefficients are longer than {bound}.")
    shift = -problem.penalty * centre
    if stiff is not None:
        if not problem.n * float((stiff**2).sum()) <= problem.stiffness * _ROUNDED_UP:
            bound = f"a trace of {problem.stiffness:g}, for which minima are certified"
            raise GuaranteeError(f"prior: its deviations are smaller than those of {bound}.")
        shift -= problem.n * ((stiff @ centre) @ stiff)
    return ShiftedDraw(tilt, shift)


def rounded_sum(centre: Sequence[flint.arb] | FloatArray, noise: Draw, grid: float) -> FloatArray:
    """Return the multiples of `grid` nearest to ``centre + noise``, exactly.

    The rounded number is a function of the exact real sum. So it has the guarantee of the ideal
    mechanism, which releases the sum itself; the rounding of a sum in doubles has no such proof.

    Parameters
    ----------
    centre
        The d exact numbers, as doubles or balls.
    noise
        A draw, which is enclosed more and more tightly until no coordinate is in doubt.
    grid
        The distance of two multiples, a power of two.
    """
    if isinstance(centre, np.ndarray):
        decided = noise.rounded(centre, grid)
        if decided is not None:
            return decided
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


def require_shape(rows: Any, problem: Any) -> None:
    """Refuse rows of another shape than a calibration was made for; compares public facts only."""
    if rows.n != problem.n or rows.d != problem.d:
        raise GuaranteeError(
            f"rows of shape ({rows.n}, {rows.d}) do not fit a calibration for n={problem.n}, "
            f"d={problem.d}."
        )


def require_radius(rows: Rows, calibration: Calibration | MomentsCalibration) -> None:
    """Refuse rows that the calibration was not made for; compares public facts only."""
    problem = calibration.problem
    require_shape(rows, problem)
    if rows.radius > problem.radius:
        raise GuaranteeError(
            f"rows of radius {rows.radius:g} are longer than the radius {problem.radius:g} that "
            "the noise was calibrated for."
        )
    if rows.offset_bound > problem.offset:
        raise GuaranteeError(
            f"rows with offsets up to {rows.offset_bound:g} do not fit a calibration for offsets "
            f"up to {problem.offset:g}."
        )
    if problem.blocks and rows.blocks != problem.blocks:
        raise GuaranteeError(
            "rows: they are not held in the blocks of columns that the noise was calibrated for."
        )


def release_minimiser(
    rows: Rows,
    calibration: Calibration,
    draws: Draws,
    solver: Solver,
    centre: FloatArray | None = None,
    stiff: FloatArray | None = None,
) -> Release:
    """Minimise the objective, with noise in it or on its minimum, and release the coefficients.

    Objective perturbation minimises ``J(w) + b.w / n`` and adds a shield to the result. Output
    perturbation minimises J and adds the noise. Both need the exact minimum: what a certified
    gradient of norm tau leaves open is hidden by the shield, or by the noise (theory.md 5).

    Parameters
    ----------
    rows : Rows
        The private rows.
    calibration : Calibration
        It was made for rows of this shape and radius.
    draws : Draws
        Draws of ``calibration.noise`` (the tilt b in the sum form, or the noise that is added)
        and of ``calibration.shield``.
    solver : Solver
        The solver that is tried first. If it does not reach tau, a slower method continues; the
        result is the same up to tau.
    centre : ndarray of shape (d,), optional
        Public coefficients w0 to which the penalty draws, by default zero.
    stiff : ndarray of shape (k, d), optional
        A public matrix G; the mean objective has ``|G (w - w0)|**2 / 2``, too.

    Notes
    -----
    **Privacy.** *Covered*: the coefficients, by ``calibration.target``. *Neighbours*: replace
    one record. *Assumed public*: everything in ``calibration.problem``. *Not covered*: time
    and memory.
    """
    require_radius(rows, calibration)
    problem, tilt, added = calibration.problem, draws.noise, draws.shield
    if calibration.placement == "output":
        tilt, added = FloatDraw(np.zeros(problem.size)), draws.noise
    if centre is not None:
        tilt = _towards(tilt, centre, stiff, problem)
    if problem.is_multinomial:
        several = rows, problem.classes, problem.lambda_, tilt.nearest() / problem.n
        exact = softmax_minimum.certified_softmax(*several, calibration.tau, tilt.enclose)
        coef = rounded_sum(exact, added, calibration.grid)
        return Release(coef, calibration.target, calibration)
    # the solver gets an array of its own, because it may write into it
    objective = Objective(rows, problem.loss, problem.lambda_, tilt.nearest() / problem.n, stiff)
    minimum = certified_minimum(objective, solver, calibration.tau, tilt.enclose, tilt.distance)
    coef = rounded_sum(minimum, added, calibration.grid)
    return Release(coef, calibration.target, calibration, centre=centre, stiff=stiff)


def release_plain(
    rows: Rows,
    calibration: Calibration,
    draws: Draws,
    solver: Solver,
    centre: FloatArray | None = None,
    stiff: FloatArray | None = None,
) -> Release:
    """Minimise J and release the minimiser without any protection: the plain fit.

    Raises
    ------
    NotConvergedError
        If the gradient at the solver's result is above `certificate`. The gradient is computed
        again from the rows, whatever the solver reports.

    Notes
    -----
    **Privacy.** *Covered*: nothing. *Neighbours*, *Assumed public*: none. *Not covered*:
    everything.
    """
    require_radius(rows, calibration)
    problem = calibration.problem
    nothing: Draw = FloatDraw(np.zeros(problem.size))
    tilt = (nothing if centre is None else _towards(nothing, centre, stiff, problem)).nearest()
    if problem.is_multinomial:
        several = rows, problem.classes, problem.lambda_, tilt / problem.n
        return Release(softmax_minimum.plain_softmax(*several), calibration.target, calibration)
    objective = Objective(rows, problem.loss, problem.lambda_, tilt / problem.n, stiff)
    w = solver(objective).w
    with np.errstate(all="ignore"):
        norm = float(np.linalg.norm(value_and_gradient(objective, w)[1]))
    if not norm <= certificate(objective):
        raise NotConvergedError(
            "solver: what it returned is not certified to a gradient of 1e-10, so nothing was "
            "released; leave solver=Newton()."
        )
    return Release(w, calibration.target, calibration, centre=centre, stiff=stiff)


# -- moments --------------------------------------------------------------------------------------


def release_moments(
    rows: Rows,
    coef: FloatArray,
    calibration: MomentsCalibration,
    noise: Draw,
    units: FloatArray | None = None,
) -> Moments:
    """Compute both matrices in one pass over the rows, add noise, round, and release.

    Parameters
    ----------
    rows : Rows
        The private rows.
    coef : ndarray of shape (d,)
        The coefficients that were released before, from the same rows.
    calibration : MomentsCalibration
        It was made for rows of this shape and radius.
    noise : Draw
        A draw of ``calibration.noise``.
    units : ndarray of shape (d,), optional
        Public factors of the columns, in whose units the matrices are.

    Notes
    -----
    **Privacy.** *Covered*: the matrices, by ``calibration.target``, for any `coef` that was paid
    for. *Neighbours*: replace one record. *Assumed public*: everything in
    ``calibration.problem``. *Not covered*: time and memory.
    """
    require_radius(rows, calibration)
    values = mean_moments(rows, coef, calibration, units)
    if calibration.grid != 0:  # a grid that is not a number is refused there
        values = rounded_sum(values, noise, calibration.grid)
    return Moments(values, calibration)


def mean_moments(
    rows: Rows,
    coef: FloatArray,
    calibration: MomentsCalibration,
    units: FloatArray | None = None,
) -> FloatArray:
    """Return ``(svec H, eta svec S)`` of the rows without noise; it is private.

    Where the calibration has a typical length, a record that would add a larger trace than
    ``calibration.largest`` counts less, so that it adds this one. `units` ``(d,)`` are those of
    `release_moments`.
    """
    loss, balance = calibration.problem.loss, calibration.balance

    def kernel(x: FloatArray, y: FloatArray, z: Offset = 0.0) -> tuple[FloatArray, FloatArray]:
        # each margin is computed by itself, so that no record changes the part of another one
        margin = y * (row_products(x, coef) + z)
        used = bends_of(y)
        bend = loss.curvature(margin) * used
        steep = loss.slope(margin) ** 2 * used * weights_of(y)
        if calibration.typical is not None:
            own = x if units is None else x @ sparse.diags_array(units)
            counted = calibration.counted((bend + balance * steep) * row_squares(own))
            bend, steep = counted * bend, counted * steep
        return gram(x, bend), gram(x, steep)

    def pull(x: Any, y: FloatArray, z: Offset = 0.0) -> tuple[FloatArray, FloatArray]:
        margin, used = y * (row_products(x, coef) + z), bends_of(y)
        return loss.curvature(margin) * used, loss.slope(margin) * y * weights_of(y) * used

    if rows.persons is not None:  # one gradient for each person
        curvature, scores = grams_of_persons(rows, pull, calibration.problem.reach)
    else:
        curvature, scores = rows.fold(kernel)
        if units is not None:
            curvature, scores = (units[:, None] * part * units for part in (curvature, scores))
    weighted = [vector_of(curvature), balance * vector_of(scores)]
    return np.concatenate(weighted) / rows.n
