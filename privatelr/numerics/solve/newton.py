"""Newton's method with a certificate: it ends at a small gradient or raises an error.

For many rows, steps by gradients come first, with a Hessian that is computed once or twice. The
minimum of a thinned table is near that of the whole, and its Hessian is nearly the same,
so a step with it leaves a small part of the error: for m rows about ``2 sqrt(d / m)``. The rest
is learned from the steps (limited-memory BFGS, Liu and Nocedal 1989, started from that
Hessian). A step reads every row once. Where steps fail, for example because the thinned table
misses a rare column, the Hessian of all rows is computed, and the steps continue with it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from privatelr.arguments import suggests_arguments
from privatelr.errors import ArgumentError, NotConvergedError, require_number
from privatelr.numerics.objective import (
    Objective,
    filled_part,
    gradient_of,
    hessian,
    mean_change,
    norm_of,
    spread,
    value_and_gradient,
)
from privatelr.numerics.solve.wide_newton import is_wide, wide_steps
from privatelr.types import FloatArray, Rows

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
        limit = require_number(ArgumentError, name, self.max_iterations, takes, at_least=1)
        if not limit.is_integer():
            raise ArgumentError(f"max_iterations={limit:g}: max_iterations takes {takes}.")

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
            starts, norm = [np.zeros(filled.rows.d)], math.nan
            # for many rows a Hessian is expensive, and gradients alone lead near the minimum
            if is_worth_steering(filled.rows) and not is_wide(filled.rows):
                near, norm = lbfgs_minimum(filled, _roughly, goal, None if part else final)
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
Solve = Callable[[Objective, FloatArray], FloatArray]
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


def is_worth_steering(rows: Rows) -> bool:
    """Whether steps by gradients alone should come first; a function of public facts."""
    return rows.n * rows.d >= _WORTH and rows.n >= _TALL * rows.d


def thinned_rows(n: int, d: int) -> int | None:
    """Return the number of rows for the first Hessian, or None if there are too few rows."""
    share = n // _SHARE
    if d <= _CHEAP and share < _PLENTY * d:
        share = n // _LARGER_SHARE
    few = min(max(_ENOUGH, _PER_COLUMN * d), share)
    return few if few >= _LEAST * d else None


def lbfgs_minimum(
    objective: Objective, solve: Solve, enough: float, final: VectorMap | None = None
) -> tuple[FloatArray, float]:
    """Return a point ``(d,)`` near the minimum and its gradient length, mostly below `enough`.

    Parameters
    ----------
    objective : Objective
        An objective of many rows; see `is_worth_steering`.
    solve : callable
        Minimises an objective of few rows from a start, if steps by gradients fail.
    enough : float
        Length of the gradient at which to stop.
    final : callable, optional
        Computes the gradient where the steps will probably stop, for those who need it there.
    """
    start, steer = _beginning(objective, solve)
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


def _roughly(objective: Objective, start: FloatArray) -> FloatArray:
    return descend(objective, start, ROUGH, _ITERATIONS_OF_FEW, goal=ROUGH).w


def _beginning(objective: Objective, solve: Solve) -> tuple[FloatArray, VectorMap | None]:
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
        start = solve(thinner, start)
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
