"""The penalised, tilted objective and its derivatives, also without empty columns.

The coefficient of an empty column occurs only in the penalty and the tilt. So its minimum is at
``-tilt / lambda``, and the others do not depend on it. In a wide sparse table most columns may be
empty, and vectors in a solver are shorter without them.

    J(w) = (1/n) sum_i loss(y_i x_i.w) + (lambda/2) |w|^2 + |G w|^2 / 2 + tilt.w

with x of shape ``(n, d)``, y in {-1, +1} (0 for unusable rows, which have x = 0), and w and
tilt of shape ``(d,)``. Every solver and every caller uses this one normalisation. A label whose
size is above 1 is that of a record with a weight (`privatelr.numerics.rows.row_bounds`), which
has the term ``loss(y_i x_i.w) / y_i**2``. Where rows have offsets z, their margin is
``y_i (x_i.w + z_i)``, and kernels take z as a third argument. The public matrix G ``(k, d)`` of a
prior has a row for each coefficient that is held more tightly than by the penalty.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from privatelr.numerics.losses import Loss
from privatelr.numerics.rows.products import margins, rough_gram, weighted_sum
from privatelr.numerics.rows.row_bounds import bends_of, weights_of
from privatelr.types import FloatArray, IntArray, Offset, Rows

_NARROW = 1e-6
"""Reach below which a difference of slopes has too few digits for a mean curvature."""


@dataclass(frozen=True, slots=True, eq=False)
class Objective:
    """The parts of J: rows, loss, ``lambda_ >= 0``, tilt ``(d,)``, and G ``(k, d)`` if any."""

    rows: Rows = field(repr=False)
    loss: Loss
    lambda_: float
    tilt: FloatArray = field(repr=False)
    stiff: FloatArray | None = field(default=None, repr=False)


def pull_of(objective: Objective, w: FloatArray) -> FloatArray:
    """The gradient ``(d,)`` of the penalty and of ``|G w|**2 / 2``."""
    pull = objective.lambda_ * w
    if objective.stiff is not None:
        pull += (objective.stiff @ w) @ objective.stiff
    return pull


def value_and_gradient(objective: Objective, w: FloatArray) -> tuple[float, FloatArray]:
    """J(w) and its gradient ``(d,)``, in one pass over the rows."""
    loss = objective.loss

    def kernel(x: FloatArray, y: FloatArray, z: Offset = 0.0) -> tuple[float, FloatArray]:
        margin, weight = y * (margins(x, w) + z), weights_of(y)
        lost = float((loss.value(margin) * weight).sum())
        return lost, weighted_sum(loss.slope(margin) * (y * weight), x)

    total, slopes = objective.rows.fold(kernel)
    n, lambda_, tilt = objective.rows.n, objective.lambda_, objective.tilt
    value = total / n + lambda_ / 2 * float(w @ w) + float(tilt @ w)
    if objective.stiff is not None:
        value += float(((objective.stiff @ w) ** 2).sum()) / 2
    gradient = slopes / n
    gradient += pull_of(objective, w)
    gradient += tilt
    return value, gradient


def gradient_of(objective: Objective, w: FloatArray) -> FloatArray:
    """The gradient ``(d,)`` alone, in one pass over the rows."""
    loss = objective.loss

    def kernel(x: FloatArray, y: FloatArray, z: Offset = 0.0) -> tuple[FloatArray]:
        margin = margins(x, w)
        if isinstance(z, np.ndarray):  # no pass over margins for a zero
            margin += z
        margin *= y
        slope = loss.slope(margin)
        all_count_fully = y.max(initial=0.0) <= 1.0 and y.min(initial=0.0) >= -1.0
        slope *= y if all_count_fully else y * weights_of(y)
        return (weighted_sum(slope, x),)

    (slopes,) = objective.rows.fold(kernel)
    return np.asarray(slopes / objective.rows.n + pull_of(objective, w) + objective.tilt)


def norm_of(vector: FloatArray) -> float:
    """Euclidean length of a gradient or step; infinite where its square is not a number."""
    square = float(vector @ vector)
    return math.sqrt(square) if math.isfinite(square) else math.inf


def hessian(objective: Objective, w: FloatArray, reach: float = 0.0) -> FloatArray:
    """Second derivative ``(d, d)``, in one pass over the rows.

    With a `reach`, the curvature of each loss is its mean from ``z - reach`` to ``z + reach``
    around the margin z, so that a bend counts for the margins that may come to it.
    """
    curvature = curvature_within(objective.loss, reach)

    def kernel(x: FloatArray, y: FloatArray, z: Offset = 0.0) -> tuple[FloatArray]:
        return (rough_gram(x, curvature(y * (margins(x, w) + z)) * bends_of(y)),)

    (total,) = objective.rows.fold(kernel)
    matrix = np.asarray(total / objective.rows.n)
    matrix.flat[:: len(w) + 1] += objective.lambda_
    if objective.stiff is not None:
        matrix += objective.stiff.T @ objective.stiff
    return matrix


def curvature_within(loss: Loss, reach: float) -> Callable[[FloatArray], FloatArray]:
    """Return a function of margins: the mean curvature within `reach` of each margin."""
    if reach < _NARROW:
        return loss.curvature
    return lambda margin: (loss.slope(margin + reach) - loss.slope(margin - reach)) / (2 * reach)


def mean_change(objective: Objective, step: FloatArray) -> float:
    """Mean size of the change of a margin when w moves by `step`, in one pass over the rows."""

    def kernel(x: FloatArray, y: FloatArray, z: Offset = 0.0) -> tuple[float]:
        return (float(np.abs(y * margins(x, step)).sum()),)

    (total,) = objective.rows.fold(kernel)
    return float(total / objective.rows.n)


def filled_part(objective: Objective) -> tuple[Objective, IntArray] | None:
    """Return the objective restricted to columns with entries, and their positions ``(k,)``.

    None if the whole objective serves as well.
    """
    stiff = objective.stiff
    held = np.flatnonzero(stiff.any(axis=0)) if stiff is not None else np.zeros(0, dtype=np.intp)
    found = objective.rows.filled(held) if objective.lambda_ > 0 else None
    if found is None:
        return None
    rows, columns = found
    kept = None if stiff is None else stiff[:, columns]
    return replace(objective, rows=rows, tilt=objective.tilt[columns], stiff=kept), columns


def spread(
    whole: Objective, columns: IntArray, w: FloatArray, norm: float
) -> tuple[FloatArray, float]:
    """Extend the minimum of the filled columns to all ``(d,)``; returns its gradient norm, too."""
    found = whole.tilt / -whole.lambda_
    rest = whole.tilt + whole.lambda_ * found  # for empty columns this is only rounding
    rest[columns] = 0.0
    found[columns] = w
    return found, math.hypot(norm, norm_of(rest))
