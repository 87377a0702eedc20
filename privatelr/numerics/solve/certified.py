"""Minima with a certificate: a bound on the gradient that no rounding can break.

    F(w) = n J(w) = sum_i loss(y_i x_i.w) + (Lambda/2) |w|^2 + n |G w|^2 / 2 + b.w,

with Lambda = n lambda, and the matrix G of a prior, if there is one.

A point where the gradient of F is no longer than tau lies within tau / Lambda of the minimiser,
and that distance enters the guarantee (theory.md 5). Whether a solver succeeds is a function of
the data, so nothing here gives up: what the solver returns is checked, and what does not pass is
minimised further, in ball arithmetic at the end. The tilt is never drawn again. Beyond a few
hundred columns ball arithmetic would not end in time; there `resolved_norm`, a function of
public facts, is a tau that doubles reach whatever the rows hold.

In ball arithmetic rows, penalty and w are exact numbers, and b is known to any number of bits. So
every value and gradient is enclosed, and the precision is doubled until enclosures are tight.
F is strongly convex, so this ends for every data set; it never gives up because of the data.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from privatelr.errors import ArgumentError, require_number
from privatelr.locks import FIRST_PRECISION, ForkSafeLock, flint, working_precision
from privatelr.numerics.losses import EVALUATION_ERROR, MARGIN_ERROR, Loss
from privatelr.numerics.objective import Objective
from privatelr.numerics.parallel import threads
from privatelr.numerics.rows import products
from privatelr.numerics.rows.row_bounds import weights_of
from privatelr.numerics.solve.newton import Newton, Solver, descend
from privatelr.types import FloatArray, Offset, Rows

Tilt = Callable[[int], "list[flint.arb]"]
"""Encloses the exact tilt of F, at a number of bits."""
_UNIT = 2.0**-53
_SMALLEST = 2.0**-1018
"""A double larger than any number that a processor may flush to zero."""
_SQUARABLE = 2.0**-400
"""Vectors of a length between this and its inverse have a sum of squares within doubles."""
_SECOND_ORDER = 1.01
"""Factor that covers products of two rounding errors, each far below 1e-3."""
_ITERATIONS = 500
"""Largest number of Newton steps in doubles after a solver that did not reach the certificate."""
EXACT_COLUMNS = 500
"""Number of columns beyond which doubles are used for millions of steps before balls."""
_FILTERS = ForkSafeLock()
_STEPS = 64
"""Number of gradient steps in the first round of `persistent`."""
_LONGEST = 2**22
"""Number of gradient steps in its longest round."""
_ROOM = 6
"""Goal over e, the error of a gradient: plain steps end below 2 e, with a bound below 4 e."""


def certified_minimum(
    objective: Objective,
    solver: Solver,
    tau: float,
    tilt: Tilt,
    distance: Callable[[FloatArray], float] | None = None,
) -> list[flint.arb] | FloatArray:
    """Return a point at which the gradient of F is certainly no longer than `tau`.

    The result of `solver` is used if it is such a point. If it is not, if it is not a vector of
    finite numbers, or if the solver raises, Newton's method continues from there or from zero,
    first in doubles, then in ball arithmetic. This ends, and never raises or warns, whatever
    the rows hold.

    Parameters
    ----------
    objective : Objective
        An objective with ``lambda_ > 0``, whose tilt has the doubles nearest to ``b / n``.
    solver : Solver
    tau : float
        Largest gradient norm of F, above 0.
    tilt : callable
        Enclosures of b ``(d,)``, the exact tilt of F, at a number of bits.
    distance : callable, optional
        Bounds the distance from b to a vector of doubles from above. It serves for many columns,
        for which enclosures take long.

    Returns
    -------
    list of arb, of length d, or ndarray of shape (d,) for many columns
        Exact numbers, within ``tau / Lambda`` of the minimiser of F for the exact tilt.

    Notes
    -----
    **Privacy.** *Covered*: nothing by itself; the distance ``tau / Lambda`` holds for every
    data set, and a mechanism pays for it. *Neighbours*: any. *Assumed public*: tau, the solver,
    n, d, radius and ``lambda_``. *Not covered*: time and memory, which show how far the
    escalation went.
    """
    largest = sys.float_info.max / objective.rows.n
    takes = f"a number above 0 and up to {largest:g}"
    require_number(ArgumentError, "lambda_", objective.lambda_, takes, above=0, at_most=largest)
    require_number(ArgumentError, "tau", tau, "a number above 0", above=0)
    rows = objective.rows
    w = zeros = np.zeros(rows.d)
    half = tau / (2 * rows.n)  # the other half of tau is left for rounding
    known: dict[bytes, FloatArray] = {}

    def final(w: FloatArray) -> FloatArray:
        """Compute the gradient that the certificate takes where it is likely to be asked for."""
        known[w.tobytes()] = gradient = _gradient(objective, w)
        return gradient / rows.n

    try:
        with np.errstate(all="ignore"):
            # a copy, so that the solver cannot change the objective that is certified
            own = replace(objective)
            if type(solver) is Newton:
                found = solver(own, half, final)
            else:  # one thread at a time drops warnings: all threads share the filters
                with _FILTERS.lock, warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = solver(own)
            w = np.array(found.w, dtype=np.float64)
    except Exception:  # it depends on the data, so it is not shown
        pass
    if w.shape != zeros.shape or not np.isfinite(w).all():
        w = zeros
    # the certificate is about the exact tilt, but the solver used the nearest doubles
    if distance is None:
        rounding = rounding_of_tilt(rows.n, objective.tilt, tilt)
    else:
        rounding = _rounding_in_doubles(objective, distance)

    def is_enough(w: FloatArray) -> bool:
        with working_precision(FIRST_PRECISION):
            bound = gradient_bound(objective, w, known.get(w.tobytes()))
            return bool(flint.arb(bound) + rounding <= tau)

    # each stage costs more than the one before, and the last one succeeds whatever the rows hold
    if not is_enough(w):
        # a solver may return a point so far away that Newton's method would not come back
        start = min(w, zeros, key=lambda point: gradient_bound(objective, point))
        w = descend(objective, start, half, _ITERATIONS).w
        if not is_enough(w):
            further = persistent(objective, w, is_enough) if rows.d > EXACT_COLUMNS else None
            if further is None:
                return precise_minimum(objective, w, tau, tilt)
            w = further
    return w if rows.d > EXACT_COLUMNS else [flint.arb(float(entry)) for entry in w]


def rounding_of_tilt(n: int, used: FloatArray, tilt: Tilt) -> flint.arb:
    """Bound the distance between b and n times the tilt that an objective uses from above."""
    with working_precision(FIRST_PRECISION):
        exact = tilt(FIRST_PRECISION)
        nearest = [n * flint.arb(float(entry)) for entry in used]
        return length_bound([a - b for a, b in zip(exact, nearest, strict=True)])


def _rounding_in_doubles(
    objective: Objective, distance: Callable[[FloatArray], float]
) -> flint.arb:
    """Bound the same distance by the function `distance`; the product by n rounds once."""
    nearest = objective.rows.n * objective.tilt
    product = 2 * _UNIT * _length(nearest) + len(nearest) * _SMALLEST
    with working_precision(FIRST_PRECISION):
        return flint.arb(distance(nearest)) + flint.arb(product)


def gradient_bound(
    objective: Objective, w: FloatArray, gradient: FloatArray | None = None
) -> float:
    """Return an upper bound on the length of the gradient of F at `w`, or infinity.

    The tilt of F is n times the tilt of the objective here, and Lambda the double
    ``n lambda_``; one pass over the rows, or none where `_gradient` at `w` is given.

    Notes
    -----
    Let u = 2**-53 and g(k) = k u / (1 - k u), which bounds the relative error of k roundings.
    Rows are exact and no longer than R; the length of w is W. For one row

    - the margin is a sum of d products in which none goes through more than
      ``k = margin_roundings(d)`` roundings: off by at most ``g(k) R W``. An offset of size up to
      Z is one rounding more, of a number of size up to ``R W + Z``, which is put in the place
      of ``R W`` here and below;
    - the slope is the exact one at a margin within ``4 u (1 + R W)`` of that, times ``1 + 8 u``
      (a contract of `Loss`), and slopes are Lipschitz with constant c and at most L:
      off by at most ``e = c (g(k) R W + 4 u (1 + R W)) + 8 u L``.

    The terms ``slope y x`` are each at most ``L R`` long, so the sizes of what is summed have, by
    columns, a sum of length ``n L R`` at most, and a column that goes through q roundings is
    off by ``g(q)`` of its own sum. ``q = slope_roundings(n)`` within a block; the blocks of a
    fold are added with the lost digits carried along (off by 2 u relative to the sum of the
    lengths, for up to 2**26 blocks). This adds ``n g(q + 2) L R`` to ``n e R``. Adding
    ``Lambda w`` and ``n tilt`` costs three more roundings of each term, and taking the length
    one relative rounding. The k rows of G are of length ``|G|`` together. A term of ``n G' (G w)``
    goes through at most ``d + k + 3`` roundings, and the sizes of what is summed have, by
    columns, a sum of length ``n |G|**2 W`` at most. Products that vanish by underflow are below
    `_SMALLEST`. Everything is rounded up, by a hundredth for products of errors.
    """
    with np.errstate(all="ignore"):
        gradient = _gradient(objective, w) if gradient is None else gradient
        computed = _length(gradient) * (1 + 8 * _UNIT)
        bound = (computed + _SECOND_ORDER * _rounding_error(objective, w)) * (1 + 4 * _UNIT)
    return bound if math.isfinite(bound) else math.inf


def _rounding_error(objective: Objective, w: FloatArray) -> float:
    """Return the sum of first-order errors in the notes of `gradient_bound`."""
    rows, length = objective.rows, _length(w)
    linear = rows.n * objective.lambda_ * length + rows.n * _length(objective.tilt)
    if objective.stiff is not None:
        held = rows.n * float((objective.stiff**2).sum())
        linear += _held_roundings(*objective.stiff.shape) * held * length
    shape = rows.n, rows.d, rows.radius
    return _error_at(objective.loss, *shape, length, linear, rows.offset_bound, rows.records)


def _held_roundings(k: int, d: int) -> int:
    """Roundings of a term of ``n G' (G w)``, and of those that add it up; more than there are."""
    return d + k + 8


def _length(vector: FloatArray) -> float:
    """Return the Euclidean length, at most eight roundings below the exact one."""
    if len(vector) <= EXACT_COLUMNS:
        return math.hypot(*vector)
    length = float(np.linalg.norm(vector)) * (1 + len(vector) * _UNIT)
    if _SQUARABLE < length < 1 / _SQUARABLE:
        return length
    largest = float(np.abs(vector).max(initial=0.0))
    if not 0 < largest < math.inf:
        return largest
    # the squares of these entries underflow or overflow, those of scaled entries do not
    return largest * float(np.linalg.norm(vector / largest)) * (1 + len(vector) * _UNIT)


def _error_at(
    loss: Loss,
    n: int,
    d: int,
    radius: float,
    length: float,
    linear: float,
    offset: float,
    records: int,
) -> float:
    """Bound the errors at a point of this length, given the total length of linear terms.

    The sizes of what is summed add up to those of n rows, but there are `records` of them.
    """
    reach = radius * length + offset
    margin = (products.margin_roundings(d) + 3) * _UNIT * reach + MARGIN_ERROR * (1 + reach)
    slope = EVALUATION_ERROR * loss.slope_bound + loss.curvature_bound * margin
    terms = n * radius * loss.slope_bound
    summation = (products.slope_roundings(records) + 8) * _UNIT * terms
    vanished = records * d * _SMALLEST * (1 + (1 + loss.curvature_bound) * radius)
    return n * radius * slope + summation + 4 * _UNIT * (terms + linear) + vanished


def resolved_norm(
    loss: Loss,
    n: int,
    d: int,
    radius: float,
    lambda_: float,
    tilt: float,
    offset: float = 0.0,
    records: int | None = None,
    stiffness: float = 0.0,
) -> float:
    """Return a gradient norm of F that doubles can certify whatever the rows hold; a public fact.

    Parameters
    ----------
    loss, n, d, radius, lambda_
        Public facts, with ``lambda_ > 0``.
    tilt : float
        At least the length of b.
    offset : float
        At least the size of every offset.
    records : int, optional
        At least the number of rows, by default n.
    stiffness : float
        At least ``n |G|**2``, which has at most d rows.

    Notes
    -----
    Losses are not negative, so ``F(w) <= F(0)`` gives ``Lambda W**2 / 2 - |b| W <= n loss(-Z)`` at
    the minimum, hence ``W <= 2 |b| / Lambda + sqrt(2 n loss(-Z) / Lambda)`` for its length, since
    no margin at 0 is below ``-Z`` and losses fall. With
    e the error of a gradient at points up to twice as long, plain gradient steps reach
    gradients of less than ``2 e`` (see `persistent`), computed ones of less than ``3 e``, with a
    bound of less than ``4 e``. That w is a vector of doubles moves its gradient by at most
    ``(Lambda + c n R**2) u W``, which is a small part of e.
    """
    penalty = n * lambda_
    if not penalty > 0:
        return math.inf
    at_zero = float(loss.value(np.full(1, -offset))[0])
    length = 2 * (2 * tilt / penalty + math.sqrt(2 * n * at_zero / penalty))
    linear = penalty * length + tilt
    linear += _held_roundings(d, d) * stiffness * length
    return _ROOM * _error_at(loss, n, d, radius, length, linear, offset, records or n)


def _gradient(objective: Objective, w: FloatArray) -> FloatArray:
    """Compute the gradient of F ``(d,)`` at w, in short sums."""
    n = objective.rows.n

    def kernel(
        x: FloatArray, y: FloatArray, z: Offset = 0.0
    ) -> tuple[tuple[FloatArray, FloatArray]]:
        slopes = objective.loss.slope(y * (products.short_margins(x, w) + z))
        weights = slopes * (y * weights_of(y))
        total = products.short_slopes(x, weights)
        return ((total, np.zeros_like(total)),)  # a sum, and the digits that rounding takes from it

    ((high, lost),) = objective.rows.fold(kernel)
    gradient: FloatArray = high + lost
    gradient += n * objective.lambda_ * w
    gradient += n * objective.tilt
    if objective.stiff is not None:
        gradient += n * ((objective.stiff @ w) @ objective.stiff)
    return gradient


def persistent(
    objective: Objective, w: FloatArray, is_enough: Callable[[FloatArray], bool]
) -> FloatArray | None:
    """Take gradient steps from `w` until `is_enough`, but at most some millions of steps.

    Momentum for smooth and strongly convex functions (Nesterov 2004, 2.2.11) and plain steps by
    turns, each time for twice as long. A plain step of ``1 / M`` along a gradient that is off
    by e lowers F by ``(|g|**2 - e**2) / (2 M)``, so that they come to a gradient of little more
    than e whatever the rows hold.

    Parameters
    ----------
    objective : Objective
        With ``lambda_ > 0``.
    w : ndarray of shape (d,)
    is_enough : callable
        Returns whether a point is near enough to the minimum.

    Returns
    -------
    ndarray of shape (d,) or None
        None if millions of steps were not enough.
    """
    rows, lambda_ = objective.rows, objective.lambda_
    held = 0.0 if objective.stiff is None else float((objective.stiff**2).sum())
    steepest = rows.n * (lambda_ + objective.loss.curvature_bound * rows.radius**2 + held)
    ratio = math.sqrt(rows.n * lambda_ / steepest)
    momentum, steps = (1 - ratio) / (1 + ratio), _STEPS
    with np.errstate(all="ignore"):
        while steps <= _LONGEST:
            # momentum is fast, but its gradients may stay above 2 e; plain steps then end below 2 e
            for weight in (momentum, 0.0):
                ahead = w
                for _ in range(steps):
                    new = ahead - _gradient(objective, ahead) / steepest
                    ahead = new + weight * (new - w)
                    w = new
                if not np.isfinite(w).all():  # after an overflow start again from zero
                    w = np.zeros(rows.d)
                if is_enough(w):
                    return w
            steps *= 2  # a certificate costs a pass over the rows, so rounds get longer
    return None


# -- ball arithmetic ------------------------------------------------------------------------------

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
    """What rows add to an objective of another form than that of one margin.

    The first returns enclosures of their sum and of its gradient at a point, the second a Hessian.
    """

    sums: Callable[[ExactObjective, list[flint.arb]], tuple[flint.arb, flint.arb_mat]]
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
        losses = []
        for margin, size, shift in zip((signed * column).entries(), sizes, shifts, strict=True):
            # of a record with the weight ``1 / size**2``, with its derivatives by the margin
            value, slope, curvature = objective.loss.enclose(size * (margin + shift))
            losses.append((value / size**2, slope / size, curvature))
        found: tuple[Any, ...] = kernel(signed, losses)
        return found

    with threads(1):  # balls share one global precision, and hold the interpreter lock
        return objective.rows.fold(products.in_dense_pieces(of_rows))


def enclose(objective: ExactObjective, w: list[flint.arb]) -> BallPoint:
    """Enclose F and its gradient at w, in one pass over the rows."""

    def kernel(signed: flint.arb_mat, losses: Any) -> tuple[flint.arb, flint.arb_mat]:
        slopes = flint.arb_mat(1, len(losses), [slope for _, slope, _ in losses])
        return sum((value for value, _, _ in losses), flint.arb(0)), slopes * signed

    other = objective.derivatives
    total, slopes = other.sums(objective, w) if other else _folded(objective, w, kernel)
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

    def kernel(signed: flint.arb_mat, losses: Any) -> tuple[flint.arb_mat]:
        pairs = zip(losses, signed.tolist(), strict=True)
        weighted = [[curvature.mid() * entry for entry in row] for (*_, curvature), row in pairs]
        return (signed.transpose() * flint.arb_mat(weighted),)

    other = objective.derivatives
    matrix = other.hessian(objective, w) if other else _folded(objective, w, kernel)[0]
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
