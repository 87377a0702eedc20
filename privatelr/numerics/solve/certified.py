"""Minima with a certificate: a bound on the gradient that no rounding can break.

    F(w) = n J(w) = sum_i loss(y_i x_i.w) + (Lambda/2) |w|^2 + n |G w|^2 / 2 + b.w,

with Lambda = n lambda, and the matrix G of a prior, if there is one.

A point where the gradient of F is no longer than tau lies within tau / Lambda of the minimiser,
and that distance enters the guarantee (theory.md 5). Whether a solver succeeds is a function of
the data, so nothing here gives up: what the solver returns is checked, and what does not pass is
minimised further, in ball arithmetic at the end. The tilt is never drawn again. Beyond a few
hundred columns ball arithmetic would not end in time; there `resolved_norm`, a function of
public facts, is a tau that doubles reach whatever the rows hold.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from privatelr.errors import ArgumentError, ClusterError, require_number
from privatelr.locks import FIRST_PRECISION, ForkSafeLock, flint, working_precision
from privatelr.numerics.losses import EVALUATION_ERROR, MARGIN_ERROR, Loss
from privatelr.numerics.objective import Objective
from privatelr.numerics.rows import products
from privatelr.numerics.rows.row_bounds import weights_of
from privatelr.numerics.solve.ball_newton import Tilt, length_bound, precise_minimum
from privatelr.numerics.solve.newton import Newton, Solver, descend
from privatelr.types import FloatArray, Offset

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
    except ClusterError:
        raise  # the error is about the cluster, not about the data
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
