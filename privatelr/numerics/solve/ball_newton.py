"""Newton's method in ball arithmetic, for minima that doubles cannot certify.

    F(w) = n J(w) = sum_i loss(y_i x_i.w) + (Lambda/2) |w|^2 + n |G w|^2 / 2 + b.w

Rows, penalty and w are exact numbers here, and b is known to any number of bits. So
every value and gradient is enclosed, and the precision is doubled until enclosures are tight.
F is strongly convex, so this ends for every data set; it never gives up because of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from privatelr.locks import FIRST_PRECISION, flint, working_precision
from privatelr.numerics.losses import Loss
from privatelr.numerics.parallel import threads
from privatelr.numerics.rows.products import in_dense_pieces
from privatelr.types import FloatArray, Offset, Rows

Tilt = Callable[[int], "list[flint.arb]"]
_SUFFICIENT_DECREASE = 2.0**-10
_WIDTH = 1 / 16
"""Share of the width of the kink, ``L / c``, within which a loss is nearly quadratic."""
_SEVERAL = 12
_FEW = 3
"""Largest number of Newton steps per penalty for which the next penalty may fall faster."""


@dataclass(frozen=True, slots=True, eq=False)
class ExactObjective:
    """The parts of F: rows, loss, penalty Lambda > 0, tilt b ``(d,)`` and, if any, ``n G'G``.

    The last two are at some precision.
    """

    rows: Rows = field(repr=False)
    loss: Loss
    penalty: flint.arb
    tilt: list[flint.arb] = field(repr=False)
    stiff: flint.arb_mat | None = field(default=None, repr=False)
    derivatives: Derivatives | None = None


class Derivatives(NamedTuple):
    """How an objective of another form than that of one margin is enclosed, and its Hessian."""

    enclose: Callable[[ExactObjective, list[flint.arb]], BallPoint]
    hessian: Callable[[ExactObjective, list[flint.arb]], flint.arb_mat]


@dataclass(frozen=True, slots=True, eq=False)
class BallPoint:
    """Exact w ``(d,)`` with enclosures of F and of its gradient ``(d,)`` there."""

    w: list[flint.arb]
    value: flint.arb
    gradient: list[flint.arb]


def precise_minimum(
    objective: Any,
    start: FloatArray,
    tau: float,
    tilt: Tilt,
    derivatives: Derivatives | None = None,
) -> list[flint.arb]:
    """Return an exact w ``(d,)`` at which the gradient of F is certainly no longer than `tau`.

    Parameters
    ----------
    objective : Objective or SoftmaxObjective
        Rows, loss and ``lambda_ > 0``. Lambda is the double ``n lambda_``. The tilt of the
        objective is rounded, and is not used.
    start : ndarray of shape (d,)
        Any finite numbers.
    tau : float
        Above 0.
    tilt : callable
        Enclosures of b ``(d,)`` at a number of bits; they tighten as the bits grow.
    derivatives : Derivatives, optional
        Of an objective of several classes.
    """
    w, precision = [flint.arb(float(entry)) for entry in start], FIRST_PRECISION
    rows, loss, penalty = objective.rows, objective.loss, objective.rows.n * objective.lambda_
    stiff = None if derivatives is not None else objective.stiff
    # doubling the precision ends: at some precision the balls are small enough for the steps
    while True:
        with working_precision(precision):
            held = None if stiff is None else flint.arb_mat(stiff.tolist())
            held = None if held is None else held.transpose() * held * rows.n
            parts = rows, loss, flint.arb(penalty), tilt(precision), held
            exact = ExactObjective(*parts, derivatives)
            # from cheap to robust: full steps, a few damped steps, then a path of penalties
            for descent in (_direct, _searched, _along_path):
                for point in descent(exact, w, precision // 4):
                    if length_bound(point.gradient) <= tau:
                        return point.w
                    w = point.w
        precision *= 2


def length_bound(vector: list[flint.arb]) -> flint.arb:
    """Return an upper bound on the Euclidean length of every vector in these balls."""
    return sum((entry.abs_upper() ** 2 for entry in vector), flint.arb(0)).sqrt().upper()


def _folded(objective: ExactObjective, w: list[flint.arb], kernel: Callable[..., Any]) -> Any:
    """Sum a kernel of rows ``y x`` and of their enclosed losses over blocks of rows."""
    column = flint.arb_mat(len(w), 1, w)

    def of_rows(x: FloatArray, y: FloatArray, z: Offset = 0.0) -> tuple[Any, ...]:
        signed = flint.arb_mat((x * np.sign(y)[:, None]).tolist())
        sizes = [flint.arb(float(max(abs(label), 1.0))) for label in y]
        shifts = np.broadcast_to(np.sign(y) * z, len(y)).tolist()
        losses = [
            _weighted(objective.loss.enclose(size * (margin + shift)), size)
            for margin, size, shift in zip((signed * column).entries(), sizes, shifts, strict=True)
        ]
        found: tuple[Any, ...] = kernel(signed, losses)
        return found

    with threads(1):  # balls share one global precision, and hold the interpreter lock
        return objective.rows.fold(in_dense_pieces(of_rows))


def _weighted(
    enclosed: tuple[flint.arb, flint.arb, flint.arb], size: flint.arb
) -> tuple[flint.arb, flint.arb, flint.arb]:
    """The loss of a record with the weight ``1 / size**2``, and its derivatives by its margin."""
    value, slope, curvature = enclosed
    return value / size**2, slope / size, curvature


def enclose(objective: ExactObjective, w: list[flint.arb]) -> BallPoint:
    """Enclose F and its gradient at w, in one pass over the rows."""
    if objective.derivatives is not None:
        return objective.derivatives.enclose(objective, w)

    def kernel(signed: flint.arb_mat, losses: Any) -> tuple[flint.arb, flint.arb_mat]:
        slopes = flint.arb_mat(1, len(losses), [slope for _, slope, _ in losses])
        return sum((value for value, _, _ in losses), flint.arb(0)), slopes * signed

    total, slopes = _folded(objective, w, kernel)
    penalty, tilt = objective.penalty, objective.tilt
    terms = zip(slopes.entries(), w, tilt, strict=True)
    gradient = [slope + penalty * entry + b for slope, entry, b in terms]
    total += penalty / 2 * _dot(w, w) + _dot(tilt, w)
    if objective.stiff is not None:
        pull = (objective.stiff * flint.arb_mat(len(w), 1, w)).entries()
        gradient = [entry + more for entry, more in zip(gradient, pull, strict=True)]
        total += _dot(pull, w) / 2
    return BallPoint(w, total, gradient)


def hessian(objective: ExactObjective, w: list[flint.arb]) -> flint.arb_mat:
    """Return a second derivative ``(d, d)`` at w; at kinks one of several. One pass over rows."""
    if objective.derivatives is not None:
        return objective.derivatives.hessian(objective, w)

    def kernel(signed: flint.arb_mat, losses: Any) -> tuple[flint.arb_mat]:
        pairs = zip(losses, signed.tolist(), strict=True)
        weighted = [[curvature.mid() * entry for entry in row] for (*_, curvature), row in pairs]
        return (signed.transpose() * flint.arb_mat(weighted),)

    matrix: flint.arb_mat = _folded(objective, w, kernel)[0]
    for j in range(len(w)):
        matrix[j, j] += objective.penalty
    return matrix if objective.stiff is None else matrix + objective.stiff


def _newton(objective: ExactObjective, w: list[flint.arb]) -> Iterator[BallPoint]:
    """Take Newton steps from `w`, as long as the precision suffices to see progress."""
    point: BallPoint | None = enclose(objective, w)
    while point is not None:
        yield point
        step = _solve(hessian(objective, point.w), [-entry for entry in point.gradient])
        point = None if step is None else _search(objective, point, step)


def _search(objective: ExactObjective, point: BallPoint, step: list[flint.arb]) -> BallPoint | None:
    """Take the first of the steps 1, 1/2, ... that certainly makes progress, or return None.

    Progress is a value of F that is low enough by Armijo's rule. It is also a gradient of at most
    half the length, if F is not certainly higher.
    """
    # the step need not be exact, but the point that it leads to has to be
    step = [entry.mid() for entry in step]
    promised = -_dot(point.gradient, step) * _SUFFICIENT_DECREASE
    target = length_bound(point.gradient) / 2
    while True:
        trial = enclose(objective, _moved(point.w, step))
        # a comparison of balls holds only if it holds for all that they contain
        lower = trial.value + promised <= point.value
        if lower or (not trial.value > point.value and length_bound(trial.gradient) <= target):
            return trial
        # a smaller decrease of F would be hidden by the radius of its ball
        if not promised > 2 * point.value.rad():
            return None
        promised, step = promised / 2, [entry / 2 for entry in step]


def _searched(objective: ExactObjective, w: list[flint.arb], limit: int) -> Iterator[BallPoint]:
    """Take a few Newton steps from `w`, which suffices for kinks between `w` and the minimum."""
    return islice(_newton(objective, w), min(limit, _SEVERAL))


def _direct(objective: ExactObjective, w: list[flint.arb], limit: int) -> Iterator[BallPoint]:
    """Take Newton steps from `w` for as long as each halves the gradient."""
    target = flint.arb("inf")
    for point in islice(_newton(objective, w), limit):
        yield point
        length = length_bound(point.gradient)
        if not length <= target:
            return
        target = length / 2


def _along_path(objective: ExactObjective, w: list[flint.arb], limit: int) -> Iterator[BallPoint]:
    """Follow the minima of falling penalties from zero, then take Newton steps.

    Where margins at the minimum are large, the loss acts as a sharp kink, and Newton's method
    needs very many steps. A large penalty keeps margins below 1, where the loss is smooth. As the
    penalty falls by a factor q, the minimum w(Lambda) moves by ``dw = (q - 1) Lambda H^-1 w``.
    This is exact both for rows beyond the kink, whose margins grow by q, and for rows held in it.
    """
    radius, slope_bound = flint.arb(objective.rows.radius), objective.loss.slope_bound
    reach = _WIDTH * slope_bound / objective.loss.curvature_bound / radius
    slopes = objective.rows.n * slope_bound * radius
    penalty = radius * (length_bound(objective.tilt) + slopes)
    w, factor = [flint.arb(0) for _ in w], 4
    while penalty > objective.penalty:
        relaxed = replace(objective, penalty=penalty)
        near = _near_minimum(relaxed, w, reach, limit)
        if near is None:
            return
        point, matrix, iterations = near
        ahead = (penalty / factor).max(objective.penalty)
        # predict the minimum of the next penalty along the path; an uncertain prediction ends it
        lead = _solve(matrix, [(penalty / ahead - 1) * penalty * entry for entry in point.w])
        if lead is None or not length_bound([entry.rad() for entry in lead]) <= reach:
            return
        w, penalty = _moved(point.w, lead), ahead
        # a prediction that few steps corrected allows a larger fall of the penalty next time
        factor = factor * 4 if iterations <= _FEW else 4
    yield from islice(_newton(objective, w), limit)


def _near_minimum(
    objective: ExactObjective, w: list[flint.arb], reach: flint.arb, limit: int
) -> tuple[BallPoint, flint.arb_mat, int] | None:
    """Find a point whose Newton step is certainly no longer than `reach`.

    Returns the point, its Hessian and the number of iterations, or None if the precision or the
    number of iterations does not suffice.
    """
    point: BallPoint | None = enclose(objective, w)
    for iterations in range(limit):
        if point is None:
            break
        matrix = hessian(objective, point.w)
        step = _solve(matrix, [-entry for entry in point.gradient])
        if step is None:
            break
        if length_bound(step) <= reach:
            return point, matrix, iterations
        point = _search(objective, point, step)
    return None


def _solve(matrix: flint.arb_mat, right: list[flint.arb]) -> list[flint.arb] | None:
    """Return an enclosure of the solution, or None if the matrix may be singular."""
    try:
        return list(matrix.solve(flint.arb_mat(len(right), 1, right)).entries())
    except ZeroDivisionError:
        return None


def _moved(w: list[flint.arb], step: list[flint.arb]) -> list[flint.arb]:
    return [(entry + change).mid() for entry, change in zip(w, step, strict=True)]


def _dot(a: list[flint.arb], b: list[flint.arb]) -> flint.arb:
    return sum((left * right for left, right in zip(a, b, strict=True)), flint.arb(0))
