"""Certified minima of the softmax objective: Newton's method in doubles, then in balls.

    F(w) = n J(w) = sum_i [log sum_k exp(x_i.w_k) - x_i.w_{c_i}] + (Lambda/2) |w|^2 + b.w

As in `certified`, nothing here gives up or warns: whether doubles suffice depends on the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import linalg

from privatelr.errors import NotConvergedError
from privatelr.locks import FIRST_PRECISION, flint, working_precision
from privatelr.numerics.losses import EVALUATION_ERROR, MARGIN_ERROR
from privatelr.numerics.parallel import threads
from privatelr.numerics.rows import products
from privatelr.numerics.softmax_objective import (
    SoftmaxObjective,
    classes_of,
    hessian,
    short_gradient,
    value_and_gradient,
)
from privatelr.numerics.solve.certified import (
    Derivatives,
    ExactObjective,
    Tilt,
    precise_minimum,
    rounding_of_tilt,
)
from privatelr.numerics.solve.newton import CERTIFICATE
from privatelr.types import FloatArray, Rows

_UNIT = 2.0**-53
_SMALLEST = 2.0**-1018
_SECOND_ORDER = 1.01
"""Factor that covers products of two rounding errors."""
_ITERATIONS, _HALVINGS = 500, 60
_ARMIJO = 1e-4
_RESOLUTION = 1e-11
"""Relative change of the objective that doubles resolve."""


def descend_softmax(objective: SoftmaxObjective, goal: float) -> FloatArray:
    """Take Newton steps from zero until the gradient of J is within `goal`, or none helps."""
    w = np.zeros(len(objective.tilt))
    value, gradient = value_and_gradient(objective, w)
    for _ in range(_ITERATIONS):
        norm = float(np.linalg.norm(gradient))
        if not goal < norm < math.inf:
            break
        try:
            step = -linalg.solve(hessian(objective, w), gradient, assume_a="pos")
        except (linalg.LinAlgError, ValueError):
            step = -gradient
        fall, size = -float(gradient @ step), 1.0
        resolved = _RESOLUTION * (abs(value) + abs(float(objective.tilt @ w)))
        for _ in range(_HALVINGS):
            ahead = w + size * step
            new, slope = value_and_gradient(objective, ahead)
            halves = float(np.linalg.norm(slope)) <= norm / 2
            lower = size * fall > resolved and new <= value - _ARMIJO * size * fall
            if halves or lower:
                break
            size /= 2
        else:
            break
        w, value, gradient = ahead, new, slope
    return w


def certified_softmax(
    rows: Rows, classes: int, lambda_: float, nearest: FloatArray, tau: float, tilt: Tilt
) -> list[flint.arb]:
    """Return exact numbers ``(K d,)`` at which the gradient of F is certainly at most `tau`.

    See `certified_minimum`; `tilt` encloses the exact tilt of F, of which `nearest` has the doubles
    nearest to its n-th part, and ``lambda_`` is above 0.

    Notes
    -----
    **Privacy.** As of `certified_minimum`.
    """
    objective = SoftmaxObjective(rows, classes, lambda_, nearest)
    with np.errstate(all="ignore"):
        w = descend_softmax(objective, tau / (2 * rows.n))
    if not np.isfinite(w).all():
        w = np.zeros(len(w))
    rounding = rounding_of_tilt(rows.n, nearest, tilt)
    with working_precision(FIRST_PRECISION):
        enough = bool(flint.arb(softmax_gradient_bound(objective, w)) + rounding <= tau)
    if enough:
        return [flint.arb(float(entry)) for entry in w]
    return precise_minimum(objective, w, tau, tilt, Derivatives(_sums, _hessian))


def plain_softmax(rows: Rows, classes: int, lambda_: float, tilt: FloatArray) -> FloatArray:
    """Return the minimiser of J ``(K d,)`` for a plain fit; raises `NotConvergedError`."""
    objective = SoftmaxObjective(rows, classes, lambda_, tilt)
    with np.errstate(all="ignore"):
        w = descend_softmax(objective, CERTIFICATE / 10)
        norm = float(np.linalg.norm(value_and_gradient(objective, w)[1]))
    if not norm <= CERTIFICATE:
        raise NotConvergedError(
            "lambda_: Newton's method ended above a gradient of 1e-10, so nothing was released; "
            "raise lambda_."
        )
    return w


def softmax_gradient_bound(objective: SoftmaxObjective, w: FloatArray) -> float:
    """Return an upper bound on the length of the gradient of F at `w`, or infinity.

    Notes
    -----
    The symbols and the sums are those of `privatelr.numerics.solve.gradient_bound`. Each of the K
    links of a row is off by at most ``e = g(k) R W`` and one rounding for the label. Moving all
    links by at most e moves the probabilities by at most e in the sum of their sizes: their
    derivative along t is ``p_k (t_k - p.t)``, and the mean of ``|t - p.t|`` is at most e. A
    difference from the largest link is off by another rounding of at most ``2 R W``. An exponential
    and the quotient cost the relative ``EVALUATION_ERROR`` and their rounding, the sum of K of them
    K roundings, and the class of a row one more. So slopes, whose sizes have a sum of at most 2,
    are off by a total of ``e + 4 u (1 + 3 R W) + (8 + K + 4) u`` for each row.
    """
    rows, k = objective.rows, objective.classes
    with np.errstate(all="ignore"):
        length, reach = math.hypot(*w), rows.radius * math.hypot(*w)
        link = (products.margin_roundings(rows.d) + 3) * _UNIT * reach
        slope = link + MARGIN_ERROR * (1 + 3 * reach) + EVALUATION_ERROR + (k + 4) * _UNIT
        terms = 2.0 * rows.records * rows.radius
        summation = (products.slope_roundings(rows.records) + 8) * _UNIT * terms
        linear = rows.n * (objective.lambda_ * length + math.hypot(*objective.tilt))
        vanished = k * rows.records * rows.d * _SMALLEST * (2 + 2 * rows.radius)
        error = rows.records * rows.radius * slope + summation
        error += 4 * _UNIT * (terms + linear) + vanished
        computed = math.hypot(*short_gradient(objective, w)) * (1 + 8 * _UNIT)
        bound = (computed + _SECOND_ORDER * error) * (1 + 4 * _UNIT)
    return bound if math.isfinite(bound) else math.inf


Parts = tuple[Any, int, list[Any], Any]
"""Of a row the size of its label, its class, its probabilities and its loss, as balls."""

# -- balls ----------------------------------------------------------------------------------------


def _rows_of(x: FloatArray, y: FloatArray, z: FloatArray, vectors: flint.arb_mat) -> list[Parts]:
    """For each row the size of its label, its class, its probabilities and its loss, as balls."""
    links, found = (flint.arb_mat(x.tolist()) * vectors).tolist(), []
    for own, label, place in zip(links, y.tolist(), classes_of(y, z).tolist(), strict=True):
        size = flint.arb(max(abs(label), 1.0))
        scaled = [link * size for link in own]
        top = max((link.mid() for link in scaled), key=float)
        shares = [(link - top).exp() for link in scaled]
        total = sum(shares, flint.arb(0))
        lost = total.log() + top - scaled[place]
        found.append((size, place, [share / total for share in shares], lost))
    return found


def _folded(objective: ExactObjective, w: list[flint.arb], kernel: Callable[..., Any]) -> Any:
    d = objective.rows.d
    vectors = flint.arb_mat(len(w) // d, d, w).transpose()

    def of_rows(x: FloatArray, y: FloatArray, z: FloatArray) -> Any:
        return kernel(flint.arb_mat(x.tolist()), _rows_of(x, y, z, vectors))

    with threads(1):  # balls share one global precision, and hold the interpreter lock
        return objective.rows.fold(products.in_dense_pieces(of_rows))


def _sums(objective: ExactObjective, w: list[flint.arb]) -> tuple[flint.arb, flint.arb_mat]:
    """Enclose what rows add to F and to its gradient at w, in one pass over them."""

    def kernel(x: flint.arb_mat, rows: list[Parts]) -> tuple[flint.arb, flint.arb_mat]:
        value, slopes = flint.arb(0), []
        for size, place, shares, lost in rows:
            value += lost / size**2
            slopes.append([(p - (k == place)) / size for k, p in enumerate(shares)])
        return value, flint.arb_mat(slopes).transpose() * x

    found: tuple[flint.arb, flint.arb_mat] = _folded(objective, w, kernel)
    return found


def _hessian(objective: ExactObjective, w: list[flint.arb]) -> flint.arb_mat:
    """Return what rows add to the Hessian ``(K d, K d)`` at w, in one pass over them."""
    d = objective.rows.d
    k = len(w) // d

    def kernel(x: flint.arb_mat, rows: list[Parts]) -> tuple[flint.arb_mat]:
        table, turned = x.tolist(), x.transpose()
        found = flint.arb_mat(k * d, k * d)
        for i in range(k):
            for j in range(i + 1):
                weights = [shares[i].mid() * ((i == j) - shares[j].mid()) for *_, shares, _ in rows]
                weighted = [[w * e for e in row] for w, row in zip(weights, table, strict=True)]
                part = turned * flint.arb_mat(weighted)
                for a in range(d):
                    for b in range(d):
                        found[i * d + a, j * d + b] = found[j * d + b, i * d + a] = part[a, b]
        return (found,)

    matrix: flint.arb_mat = _folded(objective, w, kernel)[0]
    return matrix
