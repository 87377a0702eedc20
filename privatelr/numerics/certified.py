"""Minima with a certificate: a bound on the gradient that no rounding can break.

    F(w) = n J(w) = sum_i loss(y_i x_i.w) + (Lambda/2) |w|^2 + b.w,    Lambda = n lambda

A point where the gradient of F is no longer than tau lies within tau / Lambda of the minimiser,
and that distance enters the guarantee (privacy.md 5). Whether a solver succeeds is a function of
the data, so nothing here gives up: what the solver returns is checked, and what does not pass is
minimised further, in ball arithmetic at the end. The tilt is never drawn again.
"""

from __future__ import annotations

import math
import sys
import warnings
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from flint import arb

from privatelr.errors import ArgumentError, require_number
from privatelr.locks import ForkSafeLock
from privatelr.numerics.losses import EVALUATION_ERROR, MARGIN_ERROR
from privatelr.numerics.newton import Newton, descend
from privatelr.numerics.precise import length_bound, precise_minimum
from privatelr.precision import FIRST_PRECISION, working_precision

if TYPE_CHECKING:
    from collections.abc import Iterator

    from privatelr.numerics.newton import Solver
    from privatelr.numerics.objective import Objective
    from privatelr.numerics.precise import Tilt
    from privatelr.types import FloatArray

_UNIT = 2.0**-53
_SMALLEST = 2.0**-1018
"""Above everything that a processor may flush to zero."""
_DOT = 64
"""Terms of the sums that are left to the order of the linear algebra library."""
_SECOND_ORDER = 1.01
"""Covers products of two rounding errors, each far below 1e-3."""
_ITERATIONS = 500


def certified_minimum(objective: Objective, solver: Solver, tau: float, tilt: Tilt) -> list[arb]:
    """A point at which the gradient of F is certainly no longer than `tau`.

    What `solver` returns is taken if it is such a point. If it is not, if it is no vector of
    finite numbers, or if the solver raises, Newton's method goes on from there or from zero,
    first in doubles, then in ball arithmetic. That ends, and never raises or warns, whatever
    the rows hold.

    Parameters
    ----------
    objective : Objective
        With ``lambda_ > 0``, and with the doubles nearest to ``b / n`` for its tilt.
    solver : Solver
    tau : float
        Largest gradient norm of F, above 0.
    tilt : callable
        Enclosures of b ``(d,)``, the exact tilt of F, at a number of bits.

    Returns
    -------
    list of arb, of length d
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
    w = _attempt(objective, solver)
    rounding = _rounding_of_tilt(objective, tilt)
    if not _is_enough(gradient_bound(objective, w), rounding, tau):
        w = _continue(objective, w, tau)
        if not _is_enough(gradient_bound(objective, w), rounding, tau):
            return precise_minimum(objective, w, tau, tilt)
    return [arb(float(entry)) for entry in w]


def _is_enough(bound: float, rounding: arb, tau: float) -> bool:
    with working_precision(FIRST_PRECISION):
        return bool(arb(bound) + rounding <= tau)


def _rounding_of_tilt(objective: Objective, tilt: Tilt) -> arb:
    """At least the distance between b and n times the tilt of the objective."""
    n = objective.rows.n
    with working_precision(FIRST_PRECISION):
        exact = tilt(FIRST_PRECISION)
        nearest = [n * arb(float(entry)) for entry in objective.tilt]
        return length_bound([a - b for a, b in zip(exact, nearest, strict=True)])


def _attempt(objective: Objective, solver: Solver) -> FloatArray:
    """What the solver returns, or zeros if that is no finite vector ``(d,)``."""
    d = objective.rows.d
    try:
        with np.errstate(all="ignore"), nullcontext() if type(solver) is Newton else _quiet():
            # a copy: the certificate is about the objective, whatever the solver does to its own
            w = np.array(solver(replace(objective)).w, dtype=np.float64)
    except Exception:
        # whether it raises, and what, is a function of the data
        return np.zeros(d)
    return w if w.shape == (d,) and np.isfinite(w).all() else np.zeros(d)


_FILTERS = ForkSafeLock()


@contextmanager
def _quiet() -> Iterator[None]:
    """Drop warnings; one thread at a time, because their filters belong to all."""
    with _FILTERS.held(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _continue(objective: Objective, w: FloatArray, tau: float) -> FloatArray:
    """Newton's method in doubles, from `w` or from zero, where the gradient is shorter."""
    zeros = np.zeros(objective.rows.d)
    start = min(w, zeros, key=lambda point: gradient_bound(objective, point))
    return descend(objective, start, tau / (2 * objective.rows.n), _ITERATIONS).w


def gradient_bound(objective: Objective, w: FloatArray) -> float:
    """An upper bound on the length of the gradient of F at `w`, or infinity.

    The tilt of F is n times the tilt of the objective here, and Lambda the double
    ``n lambda_``; one pass over the rows.

    Notes
    -----
    Let u = 2**-53 and g(k) = k u / (1 - k u), which bounds the relative error of k roundings.
    Rows are exact and no longer than R; the length of w is W. For one row

    - the margin is a sum of d products, in any order: off by at most ``g(d) R W``;
    - the slope is the exact one at a margin within ``4 u (1 + R W)`` of that, times ``1 + 8 u``
      (a contract of `Loss`), and slopes are Lipschitz with constant c and at most L:
      off by at most ``e = c (g(d) R W + 4 u (1 + R W)) + 8 u L``.

    The terms ``slope y x`` are each at most ``L R`` long. They are summed 64 at a time in an
    order that is up to the library, then by halves, at most log2(n) deep, and over the blocks
    of a fold with the lost digits carried along (off by 2 u relative to the sum of the lengths,
    for up to 2**26 blocks). This adds ``n g(64 + log2 n + 2) L R`` to ``n e R``. Adding
    ``Lambda w`` and ``n tilt`` costs three more roundings of each term, and taking the length
    one relative rounding. Products that vanish by underflow are below `_SMALLEST`. Everything
    is rounded up, by a hundredth for products of errors.
    """
    with np.errstate(all="ignore"):
        n = objective.rows.n
        gradient = _slopes(objective, w) + n * objective.lambda_ * w + n * objective.tilt
        computed = math.hypot(*gradient) * (1 + 8 * _UNIT)
        bound = (computed + _SECOND_ORDER * _rounding_error(objective, w)) * (1 + 4 * _UNIT)
    return bound if math.isfinite(bound) else math.inf


def _rounding_error(objective: Objective, w: FloatArray) -> float:
    """The sum of first-order errors in the notes of `gradient_bound`."""
    rows, loss = objective.rows, objective.loss
    n, d, radius = rows.n, rows.d, rows.radius
    length = math.hypot(*w)
    reach = radius * length
    margin = (d + 2) * _UNIT * reach + MARGIN_ERROR * (1 + reach)
    slope = EVALUATION_ERROR * loss.slope_bound + loss.curvature_bound * margin
    terms = n * radius * loss.slope_bound
    summation = (_DOT + n.bit_length() + 4) * _UNIT * terms
    linear = n * objective.lambda_ * length + n * math.hypot(*objective.tilt)
    vanished = n * d * _SMALLEST * (1 + (1 + loss.curvature_bound) * radius)
    return n * radius * slope + summation + 4 * _UNIT * (terms + linear) + vanished


def _slopes(objective: Objective, w: FloatArray) -> FloatArray:
    """The gradient of the sum of losses ``(d,)``, in short sums."""

    def kernel(x: FloatArray, y: FloatArray) -> tuple[_Sum]:
        weights = objective.loss.slope(y * (x @ w)) * y
        whole = len(x) // _DOT * _DOT
        pieces = x[:whole].reshape(-1, _DOT, objective.rows.d)
        parts = weights[:whole].reshape(-1, 1, _DOT) @ pieces
        total = _halved(np.concatenate([parts[:, 0], (weights[whole:] @ x[whole:])[None]]))
        return (_Sum(total, np.zeros_like(total)),)

    (total,) = objective.rows.fold(kernel)
    return np.asarray(total.high + total.low)


def _halved(parts: FloatArray) -> FloatArray:
    """The sum of vectors ``(k, d)``, one half added to the other again and again."""
    while len(parts) > 1:
        half = (len(parts) + 1) // 2
        folded = parts[:half].copy()
        folded[: len(parts) - half] += parts[half:]
        parts = folded
    return np.asarray(parts[0])


@dataclass(frozen=True, slots=True, eq=False)
class _Sum:
    """A running sum of vectors ``(d,)``, and the digits that it has lost."""

    high: FloatArray
    low: FloatArray

    def __add__(self, other: _Sum) -> _Sum:
        high = self.high + other.high
        added = high - self.high
        lost = (self.high - (high - added)) + (other.high - added)
        return _Sum(high, self.low + other.low + lost)
