"""Steps of Newton's method for many columns, without a matrix of all pairs of them.

With D the diagonal of the curvatures over n, the second derivative is ``H = X' D X + lambda``.
Where rows are fewer than columns, by Woodbury's identity and with ``S = D**(1/2)``

    H^-1 g = (g - X' S v) / lambda,    (lambda + S X X' S) v = S X g,

which is a system of n unknowns: an (n, n) matrix for few rows, products by X and X' for many.
Otherwise conjugate gradients solve ``H step = -g`` by folds over the rows. Steps need not be
exact: they are more accurate nearer to the minimum, and certificates do not depend on them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import linalg, sparse

from privatelr.numerics.objective import Objective, curvature_within, pull_of
from privatelr.numerics.parallel import in_order
from privatelr.numerics.rows.products import margins, weighted_sum
from privatelr.numerics.rows.row_bounds import bends_of
from privatelr.types import FloatArray, Offset, Rows

Step = Callable[[FloatArray, FloatArray, float], FloatArray]
Product = Callable[[FloatArray], FloatArray]

_COLUMNS = 2000
"""Number of columns beyond which a ``(d, d)`` Hessian costs more than it saves."""
_WIDE = 256
"""Number of columns from which on an ``(n, n)`` system pays if rows are fewer than columns."""
_ROWS = 2500
"""Largest number of rows for which ``X X'`` is computed."""
_BATCH = 256
"""Number of rows of ``X X'`` that one thread computes at a time."""
_ITERATIONS = 1000
"""Largest number of conjugate gradient steps; an unfinished solution is a descent step, too."""
_LOOSE, _TIGHT = 0.1, 1e-6
"""Share of the gradient that a step may leave, far from the minimum and close to it."""
_RESOLVED = 1e-11
"""Ratio of penalty to curvature below which a division by the penalty loses all digits."""


def is_wide(rows: Rows) -> bool:
    """Whether there are so many columns that this module makes the steps; a public fact."""
    return rows.d > _COLUMNS or (rows.d >= _WIDE and rows.n < rows.d)


def wide_steps(objective: Objective) -> Step:
    """Return a function of a point, its gradient and a reach (see `hessian`) that makes a step."""
    rows = objective.rows
    curvature = objective.loss.curvature_bound * rows.radius**2
    resolved = objective.stiff is None and objective.lambda_ > _RESOLVED * curvature
    if rows.tables is not None and rows.records < rows.d and resolved:
        return _steps_by_rows(objective, *rows.tables)

    def step(w: FloatArray, gradient: FloatArray, reach: float) -> FloatArray:
        product, diagonal = _second_derivative(objective, w, reach)
        return -_conjugate(product, gradient, 1.0 / diagonal, _part_left(objective, gradient))

    return step


def _part_left(objective: Objective, gradient: FloatArray) -> float:
    size = float(np.linalg.norm(gradient)) / max(1.0, float(np.linalg.norm(objective.tilt)))
    return min(_LOOSE, max(_TIGHT, math.sqrt(size))) if math.isfinite(size) else _LOOSE


# --- by columns -----------------------------------------------------------------------------


def _second_derivative(
    objective: Objective, w: FloatArray, reach: float
) -> tuple[Product, FloatArray]:
    """Return a function that multiplies by H at w, and the diagonal of H ``(d,)``."""
    rows, curvature = objective.rows, curvature_within(objective.loss, reach)

    def weights(x: Any, y: FloatArray, z: Offset = 0.0) -> FloatArray:
        return curvature(y * (margins(x, w) + z)) * bends_of(y) / rows.n

    def squares(x: Any, y: FloatArray, z: Offset = 0.0) -> tuple[FloatArray]:
        return (weighted_sum(weights(x, y, z), x * x),)

    (diagonal,) = rows.fold(squares)
    known = None
    if rows.tables is not None and sparse.issparse(rows.tables[0]):
        known = rows.tables[0], weights(*rows.tables)

    def product(v: FloatArray) -> FloatArray:
        def kernel(x: Any, y: FloatArray, z: Offset = 0.0) -> tuple[FloatArray]:
            return (weighted_sum(weights(x, y, z) * margins(x, v), x),)

        found = rows.fold(kernel)[0] if known is None else (known[1] * (known[0] @ v)) @ known[0]
        return np.asarray(found + pull_of(objective, v))

    if objective.stiff is not None:
        diagonal = diagonal + (objective.stiff**2).sum(axis=0)

    # a column of zeros without a penalty has a diagonal entry of 0, so divide by 1 instead
    return product, np.where(diagonal + objective.lambda_ > 0, diagonal + objective.lambda_, 1.0)


def _conjugate(product: Product, right: FloatArray, scale: FloatArray, part: float) -> FloatArray:
    """Solve ``H found = right`` by conjugate gradients, up to a share `part` of `right`."""
    found, rest = np.zeros_like(right), right.copy()
    enough = part * float(np.linalg.norm(right))
    scaled = scale * rest
    direction, size = scaled.copy(), float(rest @ scaled)
    for _ in range(_ITERATIONS):
        image = product(direction)
        bend = float(direction @ image)
        if not bend > 0:  # H is positive definite, so this is rounding, NaN or an overflow
            break
        found += size / bend * direction
        rest -= size / bend * image
        # far from the minimum an inexact step is as good as an exact one, and costs less
        if not float(np.linalg.norm(rest)) > enough:
            break
        # the diagonal of H as a preconditioner evens out columns of different sizes
        np.multiply(scale, rest, out=scaled)
        new = float(rest @ scaled)
        direction *= new / size
        direction += scaled
        size = new
    return found if found.any() else right * scale  # the scaled gradient is a descent step, too


# --- by rows --------------------------------------------------------------------------------


def _steps_by_rows(objective: Objective, x: Any, y: FloatArray, z: Offset = 0.0) -> Step:
    lambda_ = objective.lambda_
    pairs: FloatArray | None = None  # ``X X'`` of shape ``(n, n)``
    if len(y) <= _ROWS and isinstance(x, np.ndarray):
        starts = range(0, len(x), _BATCH)
        pairs = np.concatenate(in_order(lambda start: x[start : start + _BATCH] @ x.T, starts))
    elif len(y) <= _ROWS:
        pairs = np.asarray((x @ x.T).toarray())

    def step(w: FloatArray, gradient: FloatArray, reach: float) -> FloatArray:
        margin = y * (x @ w + z)
        bend = curvature_within(objective.loss, reach)(margin) * bends_of(y)
        root = np.sqrt(bend / objective.rows.n)
        right = root * (x @ gradient)
        if pairs is not None:
            # with fewer rows than columns, an (n, n) system gives the step (Woodbury); the
            # products of rows stay the same in all steps, only their weights change
            matrix = pairs * root[:, None] * root
            matrix[np.diag_indices_from(matrix)] += lambda_
            v = linalg.cho_solve(linalg.cho_factor(matrix, overwrite_a=True), right)
        else:
            enough = _part_left(objective, gradient) * float(np.linalg.norm(gradient))
            v = _conjugate_rows(x, root, lambda_, right, enough)
        found = np.asarray((root * v) @ x)
        found -= gradient
        found /= lambda_
        return found

    # run as an item of a parallel run, so that the linear algebra library uses one thread
    return lambda w, gradient, reach: in_order(lambda _: step(w, gradient, reach), (0,))[0]


def _conjugate_rows(
    x: Any, root: FloatArray, lambda_: float, right: FloatArray, enough: float
) -> FloatArray:
    """Solve for v by conjugate gradients until ``H step + g`` is no longer than `enough`.

    With a residual r of the system of rows, ``H step + g = X' S r / lambda``. Its squared length
    is ``(r' A r - lambda r' r) / lambda**2`` for the matrix A of the system. A direction p is r
    plus t times the direction q before it, to which p is conjugate. Hence
    ``r' A r = p' A p + t**2 q' A q``.
    """
    found, rest = np.zeros_like(right), right.copy()
    direction, size = right.copy(), float(right @ right)
    before, turn = 0.0, 0.0
    for _ in range(_ITERATIONS):
        image = lambda_ * direction + root * (x @ ((root * direction) @ x))
        bend = float(direction @ image)
        # squared length of ``H step + g``, in a form that needs no further product with the rows
        left = (bend + turn * turn * before - lambda_ * size) / lambda_**2
        if not bend > 0 or left <= enough**2:
            break
        found += size / bend * direction
        rest -= size / bend * image
        new = float(rest @ rest)
        before, turn = bend, new / size
        direction = rest + turn * direction
        size = new
    return found
