"""Newton's method in ball arithmetic, for minima that doubles cannot certify.

    F(w) = n J(w) = sum_i loss(y_i x_i.w) + (Lambda/2) |w|^2 + b.w

Rows, penalty and w are exact numbers here, and b is known to as many bits as are asked for, so
every value and gradient is enclosed, and precision is doubled until the enclosure is enough.
F is strongly convex, so this ends for every data set: nothing of the data can make it give up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from privatelr.locks import FIRST_PRECISION, flint, working_precision
from privatelr.numerics.losses import Loss
from privatelr.numerics.objective import Objective
from privatelr.numerics.parallel import threads
from privatelr.numerics.rows.products import in_dense_pieces
from privatelr.types import FloatArray, Rows

Tilt = Callable[[int], "list[flint.arb]"]
_SUFFICIENT_DECREASE = 2.0**-10
_WIDTH = 1 / 16
"""Part of the width of the kink, ``L / c``, within which a loss is as good as quadratic."""
_SEVERAL = 12
_FEW = 3
"""Iterations after which the path allows for larger steps."""


@dataclass(frozen=True, slots=True, eq=False)
class ExactObjective:
    """F as a value: rows, loss, penalty Lambda > 0 and tilt b ``(d,)``, at a precision."""

    rows: Rows = field(repr=False)
    loss: Loss
    penalty: flint.arb
    tilt: list[flint.arb] = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class BallPoint:
    """Exact w ``(d,)`` with enclosures of F and of its gradient ``(d,)`` there."""

    w: list[flint.arb]
    value: flint.arb
    gradient: list[flint.arb]


def precise_minimum(
    objective: Objective, start: FloatArray, tau: float, tilt: Tilt
) -> list[flint.arb]:
    """Exact w ``(d,)`` at which the gradient of F is certainly no longer than `tau`.

    Parameters
    ----------
    objective : Objective
        Rows, loss and ``lambda_ > 0``; Lambda is the double ``n lambda_``, and the tilt, a
        rounded one, is not used.
    start : ndarray of shape (d,)
        Any finite numbers.
    tau : float
        Above 0.
    tilt : callable
        Enclosures of b ``(d,)`` at a number of bits; they tighten as the bits grow.
    """
    w, precision = [flint.arb(float(entry)) for entry in start], FIRST_PRECISION
    rows, loss, penalty = objective.rows, objective.loss, objective.rows.n * objective.lambda_
    while True:
        with working_precision(precision):
            exact = ExactObjective(rows, loss, flint.arb(penalty), tilt(precision))
            for descent in (_direct, _searched, _along_path):
                for point in descent(exact, w, precision // 4):
                    if length_bound(point.gradient) <= tau:
                        return point.w
                    w = point.w
        precision *= 2


def length_bound(vector: list[flint.arb]) -> flint.arb:
    """At least the Euclidean length of every vector in these balls."""
    return sum((entry.abs_upper() ** 2 for entry in vector), flint.arb(0)).sqrt().upper()


def _folded(objective: ExactObjective, w: list[flint.arb], kernel: Callable[..., Any]) -> Any:
    """The sum over blocks of what a kernel makes of rows ``y x`` and of their enclosed losses."""
    column = flint.arb_mat(len(w), 1, w)

    def of_rows(x: FloatArray, y: FloatArray) -> tuple[Any, ...]:
        signed = flint.arb_mat((x * y[:, None]).tolist())
        losses = [objective.loss.enclose(margin) for margin in (signed * column).entries()]
        found: tuple[Any, ...] = kernel(signed, losses)
        return found

    with threads(1):  # balls share one precision, and hold the interpreter
        return objective.rows.fold(in_dense_pieces(of_rows))


def enclose(objective: ExactObjective, w: list[flint.arb]) -> BallPoint:
    """F and its gradient at w, in one pass over the rows."""

    def kernel(signed: flint.arb_mat, losses: Any) -> tuple[flint.arb, flint.arb_mat]:
        slopes = flint.arb_mat(1, len(losses), [slope for _, slope, _ in losses])
        return sum((value for value, _, _ in losses), flint.arb(0)), slopes * signed

    total, slopes = _folded(objective, w, kernel)
    penalty, tilt = objective.penalty, objective.tilt
    terms = zip(slopes.entries(), w, tilt, strict=True)
    gradient = [slope + penalty * entry + b for slope, entry, b in terms]
    return BallPoint(w, total + penalty / 2 * _dot(w, w) + _dot(tilt, w), gradient)


def hessian(objective: ExactObjective, w: list[flint.arb]) -> flint.arb_mat:
    """Second derivative ``(d, d)`` at w, one of its values at kinks; one pass over the rows."""

    def kernel(signed: flint.arb_mat, losses: Any) -> tuple[flint.arb_mat]:
        pairs = zip(losses, signed.tolist(), strict=True)
        weighted = [[curvature.mid() * entry for entry in row] for (*_, curvature), row in pairs]
        return (signed.transpose() * flint.arb_mat(weighted),)

    matrix: flint.arb_mat = _folded(objective, w, kernel)[0]
    for j in range(len(w)):
        matrix[j, j] += objective.penalty
    return matrix


def _newton(objective: ExactObjective, w: list[flint.arb]) -> Iterator[BallPoint]:
    """Newton iterations from `w`, as far as the precision can tell them to be progress."""
    point: BallPoint | None = enclose(objective, w)
    while point is not None:
        yield point
        step = _solve(hessian(objective, point.w), [-entry for entry in point.gradient])
        point = None if step is None else _search(objective, point, step)


def _search(objective: ExactObjective, point: BallPoint, step: list[flint.arb]) -> BallPoint | None:
    """The first of the steps 1, 1/2, ... that certainly makes progress, or None if none can.

    Progress is a lower F, as Armijo asks, or half the gradient where F is no higher as far as
    the precision can tell.
    """
    step = [entry.mid() for entry in step]
    promised = -_dot(point.gradient, step) * _SUFFICIENT_DECREASE
    target = length_bound(point.gradient) / 2
    while True:
        trial = enclose(objective, _moved(point.w, step))
        # a comparison of balls holds only if it holds for all that they contain
        lower = trial.value + promised <= point.value
        if lower or (not trial.value > point.value and length_bound(trial.gradient) <= target):
            return trial
        if not promised > 2 * point.value.rad():
            return None
        promised, step = promised / 2, [entry / 2 for entry in step]


def _searched(objective: ExactObjective, w: list[flint.arb], limit: int) -> Iterator[BallPoint]:
    """A few Newton iterations from `w`, for kinks that lie between it and the minimum."""
    return islice(_newton(objective, w), min(limit, _SEVERAL))


def _direct(objective: ExactObjective, w: list[flint.arb], limit: int) -> Iterator[BallPoint]:
    """Newton iterations from `w` for as long as each halves the gradient."""
    target = flint.arb("inf")
    for point in islice(_newton(objective, w), limit):
        yield point
        length = length_bound(point.gradient)
        if not length <= target:
            return
        target = length / 2


def _along_path(objective: ExactObjective, w: list[flint.arb], limit: int) -> Iterator[BallPoint]:
    """Newton iterations after the minima of larger penalties have led the way, from zero.

    Where margins at the minimum are large, the loss is a sharp kink for Newton's method, which
    then takes forever. With a penalty that keeps margins below 1 it is smooth. As the penalty
    falls by a factor q, minima move along w(Lambda) with ``dw = (q - 1) Lambda H^-1 w``: exactly
    so both for rows beyond the kink, whose margins grow by q, and for rows held in it.
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
        lead = _solve(matrix, [(penalty / ahead - 1) * penalty * entry for entry in point.w])
        if lead is None or not length_bound([entry.rad() for entry in lead]) <= reach:
            return
        w, penalty = _moved(point.w, lead), ahead
        factor = factor * 4 if iterations <= _FEW else 4
    yield from islice(_newton(objective, w), limit)


def _near_minimum(
    objective: ExactObjective, w: list[flint.arb], reach: flint.arb, limit: int
) -> tuple[BallPoint, flint.arb_mat, int] | None:
    """Where Newton's next step is certainly no longer than `reach`, and its matrix there.

    None if the precision or the number of iterations does not suffice.
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
    """The solution, enclosed, or None if the matrix may be singular."""
    try:
        return list(matrix.solve(flint.arb_mat(len(right), 1, right)).entries())
    except ZeroDivisionError:
        return None


def _moved(w: list[flint.arb], step: list[flint.arb]) -> list[flint.arb]:
    return [(entry + change).mid() for entry, change in zip(w, step, strict=True)]


def _dot(a: list[flint.arb], b: list[flint.arb]) -> flint.arb:
    return sum((left * right for left, right in zip(a, b, strict=True)), flint.arb(0))
