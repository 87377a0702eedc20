"""Newton's method with a certificate: it ends at a small gradient or raises an error.

For many rows, steps by gradients come first, with a Hessian that is computed once or twice. The
minimum of a thinned table is near that of the whole, and its Hessian is nearly the same,
so a step with it leaves a small part of the error: for m rows about ``2 sqrt(d / m)``. The rest
is learned from the steps (limited-memory BFGS, Liu and Nocedal 1989, started from that
Hessian). A step reads every row once. Where steps fail, for example because the thinned table
misses a rare column, the Hessian of all rows is computed, and the steps continue with it.

For many columns steps need no matrix of all pairs of them. With D the diagonal of the curvatures
over n, the second derivative is ``H = X' D X + lambda``. Where rows are fewer than columns, by
Woodbury's identity and with ``S = D**(1/2)``

    H^-1 g = (g - X' S v) / lambda,    (lambda + S X X' S) v = S X g,

which is a system of n unknowns: an (n, n) matrix for few rows, products by X and X' for many.
Otherwise conjugate gradients solve ``H step = -g`` by folds over the rows. Steps need not be
exact: they are more accurate nearer to the minimum, and certificates do not depend on them.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from scipy import linalg, sparse
from scipy.linalg import lapack

from privatelr.arguments import suggests_arguments
from privatelr.errors import ArgumentError, NotConvergedError, require_number, require_whole
from privatelr.numerics.objective import (
    Objective,
    curvature_within,
    filled_part,
    gradient_of,
    hessian,
    mean_change,
    norm_of,
    pull_of,
    spread,
    value_and_gradient,
)
from privatelr.numerics.parallel import in_order
from privatelr.numerics.rows.products import margins, weighted_sum
from privatelr.numerics.rows.row_bounds import bends_of
from privatelr.types import FloatArray, Offset, Rows

CERTIFICATE = 1e-10
"""Largest gradient norm of the mean objective at which coefficients are released."""
_SUFFICIENT_DECREASE = 1e-4
_SMALLEST_STEP = 2.0**-60
_RESOLUTION = 1e-11
_FAILURES, _FAR = 2, 2.0
"""Number of changes of reach before a descent ends, and a reach that covers all bends."""


def certificate(objective: Objective, tolerance: float = CERTIFICATE) -> float:
    """Largest gradient norm that certifies a minimum of this objective.

    For a tilt longer than one the norm is relative to its length: doubles of that size are no
    closer together, and compared with the noise the remaining distance is as small as before.
    """
    return tolerance * max(1.0, float(np.linalg.norm(objective.tilt)))


@dataclass(frozen=True, slots=True, eq=False)
class Minimum:
    """The point at which a solver ended.

    `gradient_norm` certifies that the distance to the minimiser is at most
    ``gradient_norm / lambda_``. It depends on the data and is never shown to the user.
    """

    w: FloatArray
    gradient_norm: float


class Solver(Protocol):
    """Anything that minimises an `Objective`; agrees with `Newton` within its certificate."""

    def __call__(self, objective: Objective) -> Minimum: ...


@suggests_arguments
@dataclass(frozen=True, slots=True)
class Newton:
    """Damped Newton iterations from zero.

    Parameters
    ----------
    tolerance : float
        Largest gradient norm of the mean objective at the end, at most 1e-10; see `certificate`.
    max_iterations : int
        Public limit; beyond it `NotConvergedError` is raised and nothing is released.

    Notes
    -----
    The full step is tried first and halved until the objective falls enough (Armijo). Where
    rounding hides differences of the objective, the gradient has to be halved instead. A release
    needs a gradient far below the tolerance, which it requests as `goal`.

    Examples
    --------
    >>> from privatelr import Newton, dplr, load_dataset, load_schema
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> plain = dplr("vote ~ age", votes, eps=0, solver=Newton(tolerance=1e-12), **public)
    >>> print(plain.guarantee)
    none: eps=0 asks for the plain fit
    """

    tolerance: float = CERTIFICATE
    max_iterations: int = 500

    def __post_init__(self) -> None:
        limits = {"above": 0.0, "at_most": CERTIFICATE}
        takes = f"a number above 0 and up to {CERTIFICATE:g}"
        require_number(ArgumentError, "tolerance", self.tolerance, takes, **limits)
        name, takes = "max_iterations", "a whole number from 1"
        require_whole(ArgumentError, name, self.max_iterations, takes, at_least=1)

    def __call__(
        self, objective: Objective, goal: float = math.inf, final: VectorMap | None = None
    ) -> Minimum:
        """Minimise from ``w = 0`` until the gradient is within the tolerance.

        The steps go on until it is no longer than `goal`, if that can be reached in doubles. Where
        they will probably end, the gradient is that which `final` computes.

        Raises
        ------
        NotConvergedError
            If the gradient norm stays above `tolerance`.
        """
        enough = certificate(objective, self.tolerance)
        goal = min(goal, enough)
        with np.errstate(all="ignore"):
            # columns without entries are minimised by a formula
            part = filled_part(objective)
            filled = objective if part is None else part[0]
            n, d = filled.rows.n, filled.rows.d
            starts, norm = [np.zeros(d)], math.nan
            # for many rows a Hessian is expensive, and gradients alone lead near the minimum
            if n * d >= _WORTH and n >= _TALL * d and not is_wide(filled.rows):
                near, norm = lbfgs_minimum(filled, goal, None if part else final)
                found = Minimum(near, norm)
                starts.insert(0, near)  # zero stays as a second start, if this one stalls at bends
            if not norm <= goal:
                for start in starts:
                    found = descend(filled, start, enough, int(self.max_iterations), goal)
                    if found.gradient_norm <= enough:
                        break
            if part is not None:
                found = Minimum(*spread(objective, part[1], found.w, found.gradient_norm))
        if found.gradient_norm <= enough:
            return found
        raise NotConvergedError(
            f"solver: Newton's method ended above a gradient of {self.tolerance:g}, stalled or "
            f"after {self.max_iterations} iterations, so nothing was released; raise lambda_."
        )


def descend(
    objective: Objective, start: FloatArray, enough: float, max_iterations: int, goal: float = 0.0
) -> Minimum:
    """Take Newton steps from `start` as long as they help; the end may be above `enough`.

    Once the gradient is within `enough`, only full steps that halve it are taken, until it is
    within `goal`.

    A step that has to be shortened went past bends of the loss that the curvature at w does not
    show. The next step uses the mean curvature over the distance that the margins moved, called
    the reach. Once steps need not be shortened any more, the reach shrinks to zero. Where no part
    of a step makes progress, a reach of zero is tried, and then one that covers all bends.
    """
    w, reach, failures = start, 0.0, 0
    wide_step = wide_steps(objective) if is_wide(objective.rows) else None
    with np.errstate(all="ignore"):
        value, gradient = value_and_gradient(objective, w)
        for _ in range(max_iterations):
            norm = norm_of(gradient)
            if norm == math.inf or norm <= goal:
                break
            certified = norm <= enough
            # for many columns a step is found without forming the Hessian
            if wide_step is None:
                step = _newton_step(hessian(objective, w, reach), gradient)
            else:
                step = wide_step(w, gradient, reach)

            # take the first of the steps 1, 1/2, ... that makes progress; below `resolved` a
            # change of the objective is not distinguishable from rounding
            slope, tilted = float(gradient @ step), float(objective.tilt @ w)
            resolved = _RESOLUTION * (abs(value - tilted) + abs(tilted))
            size, improves = 1.0, False
            while size >= (1.0 if certified else _SMALLEST_STEP):
                candidate = w + size * step
                new_value, new_gradient = value_and_gradient(objective, candidate)
                promised = -size * slope
                if promised > resolved:
                    improves = bool(new_value <= value - _SUFFICIENT_DECREASE * promised)
                else:  # rounding hides the change of the objective, but not that of the gradient
                    improves = norm_of(new_gradient) <= norm / 2
                if improves:
                    break
                size /= 2

            if not improves and not certified and failures < _FAILURES:
                # this curvature did not help: drop the mean, or else take it over all margins
                reach, failures = 0.0 if reach > 0 else _FAR, failures + 1
                continue
            if not improves or (certified and norm_of(new_gradient) >= norm / 2):
                break
            failures = 0
            moved = candidate - w
            # a shortened step met bends as far away as margins moved, so look that far next time;
            # after a full step look less far, since only the curvature at w converges fast
            shortened = norm_of(moved) < 0.75 * norm_of(step)
            if shortened or reach > 0:
                change = mean_change(objective, moved)
                reach = change if shortened else min(reach, change) / 4
            w, value, gradient = candidate, new_value, new_gradient
        return Minimum(w, norm_of(gradient))


def _newton_step(matrix: FloatArray, gradient: FloatArray) -> FloatArray:
    """Return Newton's step for a Hessian, or minus the gradient if it cannot be inverted."""
    if math.isfinite(matrix.sum()):
        # LAPACK is called directly: for few columns SciPy's checks take longer than the solution
        _, solution, failed = lapack.dposv(matrix, gradient)
        if not failed:
            return np.asarray(-solution)
        # equal columns under a tiny lambda: invert only where eigenvalues exceed rounding
        with suppress(linalg.LinAlgError):
            return np.asarray(-linalg.pinvh(matrix) @ gradient)
    return -gradient


# --- many rows: steps by gradients ----------------------------------------------------------

VectorMap = Callable[[FloatArray], FloatArray]
"""Takes a point or a gradient ``(d,)`` and returns a gradient or a step."""
_ITERATIONS_OF_FEW = 50
"""Largest number of Newton iterations for a thinned table."""
_WORTH = 2**14
"""Number of entries from which on a Hessian costs more than steps by gradients alone."""
_TALL = 2
"""Least number of rows per column; with fewer, steps of Newton's method are as cheap."""
_ENOUGH, _PER_COLUMN, _LEAST = 2**16, 128, 40
"""Number of rows for the first Hessian: in total, or per column, and the least per column."""
_SHARE, _LARGER_SHARE = 4, 2
"""The first Hessian uses at most one row in this many; the second number is for few columns."""
_CHEAP, _PLENTY = 128, 384
"""Number of columns with a cheap Hessian, and of rows per column beyond which more save no step."""
_FOR_START = 20
"""Least number of rows per column of the sample whose minimum is the starting point."""
ROUGH = 1e-4
"""Length of the gradient to which the objective of a sample of rows is minimised."""
_NEARER, _NEAR = 8, 1e-3
"""Where the first Hessian uses at most one row in so many, these rows are minimised over first, to
a gradient of this length: that is cheaper than a step over all, whose minimum is only near."""
_ASTRAY = 0.03
"""Length of the gradient above which steps by gradients have failed."""
_WIDE = 2.0
"""Reach of the first Hessian: curvatures are averaged over margins up to this far from zero."""
_PAIRS = 20
"""Largest number of pairs of changes of point and gradient in memory."""
_PASSES = 40
"""Largest number of passes over the rows."""
_FALLS = 0.8
"""Largest ratio of new to old gradient length after a good step."""
_PROGRESS = 0.1
"""Largest ratio of final to first gradient length for steps that count as successful."""
_POOR = 2
"""Number of poor steps in a row after which a Hessian is given up."""
_AGAIN = 3
"""Number of Hessians over all rows that are tried before Newton's method takes over."""


def thinned_rows(n: int, d: int) -> int | None:
    """Return the number of rows for the first Hessian, or None if there are too few rows."""
    share = n // _SHARE
    if d <= _CHEAP and share < _PLENTY * d:
        share = n // _LARGER_SHARE
    few = min(max(_ENOUGH, _PER_COLUMN * d), share)
    return few if few >= _LEAST * d else None


def lbfgs_minimum(
    objective: Objective, enough: float, final: VectorMap | None = None
) -> tuple[FloatArray, float]:
    """Return a point ``(d,)`` near the minimum and its gradient length, mostly below `enough`.

    Parameters
    ----------
    objective : Objective
        An objective of many rows.
    enough : float
        Length of the gradient at which to stop.
    final : callable, optional
        Computes the gradient where the steps will probably stop, for those who need it there.
    """
    start, steer = _beginning(objective)
    norm = math.inf
    for attempt in range(1 + _AGAIN):
        # the Hessian of a sample was not good enough, so pay for one of all rows at this point
        if attempt > 0:
            steer = _inverse(hessian(objective, start))
        if steer is None:
            break
        before = norm
        start, norm = _descend(objective, start, steer, enough, final)
        if norm <= enough or not norm < before:
            break
    return start, norm


def _beginning(objective: Objective) -> tuple[FloatArray, VectorMap | None]:
    """Return a start and an inverse Hessian: of a sample of rows, or of all rows around zero."""
    rows, start = objective.rows, np.zeros(objective.rows.d)
    few = thinned_rows(rows.n, rows.d)
    if few is None:
        return start, _inverse(hessian(objective, start, _WIDE))
    # the second sample is one of the first, of which all kinds of rows have the same records
    thin = replace(objective, rows=rows.thinned(few))
    fewer = max(few // 8, min(few, _FOR_START * rows.d))
    thinner = replace(thin, rows=thin.rows.thinned(fewer))
    # around zero the curvature averaged over a wide reach suits all points on the way
    steer, norm = _inverse(hessian(thinner, start, _WIDE)), math.inf
    if steer is not None:
        start, norm = _descend(thinner, start, steer, ROUGH)
    if norm > _ASTRAY:
        start = descend(thinner, start, ROUGH, _ITERATIONS_OF_FEW, goal=ROUGH).w
    # the minimum of the smaller sample is a start for the larger one, and that one for all rows
    steer = _inverse(hessian(thinner, start)) if few * _NEARER <= rows.n else None
    if steer is not None:
        start, _ = _descend(thin, start, steer, _NEAR)
    return start, _inverse(hessian(thin, start))


def _inverse(matrix: FloatArray) -> VectorMap | None:
    """Return a function that multiplies by the inverse of a matrix, or None if it is singular."""
    with suppress(linalg.LinAlgError, ValueError):
        return partial(linalg.cho_solve, linalg.cho_factor(matrix))
    return None


def _descend(
    objective: Objective,
    w: FloatArray,
    precondition: VectorMap,
    enough: float,
    final: VectorMap | None = None,
) -> tuple[FloatArray, float]:
    """Take limited-memory BFGS steps from w until they no longer shorten the gradient.

    If they have hardly shortened it at all, they failed, and w itself is returned.
    """
    pairs: deque[tuple[FloatArray, FloatArray]] = deque(maxlen=_PAIRS)
    gradient = gradient_of(objective, w)
    norm, poor, falls = norm_of(gradient), 0, 1.0
    begin = best = w, norm
    for _ in range(_PASSES):
        if norm <= enough or poor >= _POOR or not math.isfinite(norm):
            break
        moved = w - _direction(gradient, pairs, precondition)
        # a step shortens the gradient about as much as the one before
        ending = final if norm * falls <= enough else None
        new = ending(moved) if ending else gradient_of(objective, moved)
        step, change = moved - w, new - gradient
        # only pairs of positive curvature keep the approximate inverse positive definite
        if step @ change > 0:
            pairs.append((step, change))
        length = norm_of(new)
        falls = length / norm
        poor = poor + 1 if falls > _FALLS else 0
        # no line search: a step that lengthens the gradient is taken, but the best point is kept
        w, gradient, norm = moved, new, length
        if norm < best[1]:
            best = w, norm
    return best if best[1] <= max(enough, _PROGRESS * begin[1]) else begin


def _direction(
    gradient: FloatArray, pairs: deque[tuple[FloatArray, FloatArray]], precondition: VectorMap
) -> FloatArray:
    """Multiply the gradient by the approximate inverse Hessian: the two-loop recursion."""
    rest, weights = gradient.copy(), []
    for step, change in reversed(pairs):
        weight = (step @ rest) / (step @ change)
        rest -= weight * change
        weights.append(weight)
    found = precondition(rest)
    for (step, change), weight in zip(pairs, reversed(weights), strict=True):
        found += (weight - (change @ found) / (step @ change)) * step
    return found


# --- many columns: steps without a Hessian -----------------------------------------------------

Step = Callable[[FloatArray, FloatArray, float], FloatArray]
Product = Callable[[FloatArray], FloatArray]

_COLUMNS = 2000
"""Number of columns beyond which a ``(d, d)`` Hessian costs more than it saves."""
_WIDER = 256
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
    return rows.d > _COLUMNS or (rows.d >= _WIDER and rows.n < rows.d)


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
