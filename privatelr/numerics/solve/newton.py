"""Newton's method with a certificate: it ends at a small gradient or says that it did not.

Many rows are minimised by gradients first, steered by a curvature that is read once or twice. The
minimum of a thinned table is near that of the whole, and its curvature is nearly the same,
so a step of it leaves a small part of the error: for m rows about ``2 sqrt(d / m)``. What is left
of it is learned from the steps (limited-memory BFGS, Liu and Nocedal 1989, started from that
curvature). A step reads every row once. Where steps come to little, as where the thinned table
knows nothing of a rare column, the curvature of all rows is read, and they go on from there.
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
"""Changes of reach before a descent is given up, and a reach for where there is no curvature."""


def certificate(objective: Objective, tolerance: float = CERTIFICATE) -> float:
    """Largest gradient norm that certifies a minimum of this objective.

    A tilt longer than one is met relative to its length: doubles that represent it are no
    closer together, and next to its noise the remaining distance is as small as ever.
    """
    return tolerance * max(1.0, float(np.linalg.norm(objective.tilt)))


@dataclass(frozen=True, slots=True, eq=False)
class Minimum:
    """Where a solver ended.

    `gradient_norm` certifies the distance to the minimiser: at most
    ``gradient_norm / lambda_``. It is a function of the data and is not for the user.
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
    differences of the objective drown in rounding, the gradient has to be halved instead.
    A release is certified to a gradient far below the tolerance, and asks for that.
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

    def __call__(self, objective: Objective, goal: float = math.inf) -> Minimum:
        """Minimise from ``w = 0`` until the gradient is within the tolerance.

        And until it is no longer than `goal` either, if doubles lead there.

        Raises
        ------
        NotConvergedError
            If the gradient norm stays above `tolerance`.
        """
        enough = certificate(objective, self.tolerance)
        goal = min(goal, enough)
        with np.errstate(all="ignore"):
            # columns without entries have their minimum by a formula
            part = filled_part(objective)
            filled = objective if part is None else part[0]
            starts, norm = [np.zeros(filled.rows.d)], math.nan
            # gradients alone lead to the minimum of many rows, or near it
            if is_worth_steering(filled.rows) and not is_wide(filled.rows):
                near, norm = lbfgs_minimum(filled, _roughly, goal)
                found = Minimum(near, norm)
                starts.insert(0, near)  # where bends are sharp, a near start may lead nowhere
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
    """Newton iterations from `start` as far as they lead; the end may be above `enough`.

    Once the gradient is within `enough`, only full steps that halve it are taken, until it is
    within `goal`.

    A step that has to be shortened went past bends of the loss that the curvature at w does
    not show. The next one takes its mean over as far as margins moved, and once steps need
    not be shortened any more, this reach is taken back to nothing. Where a step leads nowhere,
    no reach is tried, and then one that no bend is beyond.
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
            if wide_step is None:
                step = _newton_step(hessian(objective, w, reach), gradient)
            else:
                step = wide_step(w, gradient, reach)

            # of the steps 1, 1/2, ... the first that makes progress
            slope, tilted = float(gradient @ step), float(objective.tilt @ w)
            resolved = _RESOLUTION * (abs(value - tilted) + abs(tilted))
            size, improves = 1.0, False
            while size >= (1.0 if certified else _SMALLEST_STEP):
                candidate = w + size * step
                new_value, new_gradient = value_and_gradient(objective, candidate)
                promised = -size * slope
                if promised > resolved:
                    improves = bool(new_value <= value - _SUFFICIENT_DECREASE * promised)
                else:  # differences of the objective drown in rounding
                    improves = norm_of(new_gradient) <= norm / 2
                if improves:
                    break
                size /= 2

            if not improves and not certified and failures < _FAILURES:
                # the curvature was no guide here: without a mean of it, then with one of all
                reach, failures = 0.0 if reach > 0 else _FAR, failures + 1
                continue
            if not improves or (certified and norm_of(new_gradient) >= norm / 2):
                break
            failures = 0
            moved = candidate - w
            shortened = norm_of(moved) < 0.75 * norm_of(step)
            if shortened or reach > 0:
                change = mean_change(objective, moved)
                reach = change if shortened else min(reach, change) / 4
            w, value, gradient = candidate, new_value, new_gradient
        return Minimum(w, norm_of(gradient))


def _newton_step(matrix: FloatArray, gradient: FloatArray) -> FloatArray:
    """The step of a second derivative; downhill where that has no inverse."""
    if math.isfinite(matrix.sum()):
        # called directly: for few columns SciPy's checks take longer than the solution
        _, solution, failed = lapack.dposv(matrix, gradient)
        if not failed:
            return np.asarray(-solution)
        # columns that coincide under a tiny lambda: invert on the part that is resolved
        with suppress(linalg.LinAlgError):
            return np.asarray(-linalg.pinvh(matrix) @ gradient)
    return -gradient


# --- many rows: steps by gradients ----------------------------------------------------------

Product = Callable[[FloatArray], FloatArray]
Solve = Callable[[Objective, FloatArray], FloatArray]
_ITERATIONS_OF_FEW = 50
"""Iterations of Newton's method for a thinned table, at most."""
_WORTH = 2**14
"""Entries of a table from which on its curvature costs more than steps that do without it."""
_TALL = 2
"""Rows for a column, at least: with fewer, steps of Newton's method are as cheap."""
_ENOUGH, _PER_COLUMN, _LEAST = 2**16, 128, 40
"""Rows that curvature is read from: as many, or so many for a column; and the least for one."""
_SHARE, _LARGER_SHARE = 4, 2
"""One in so many rows, at most; and where curvature is cheap."""
_CHEAP, _PLENTY = 128, 384
"""Columns up to which it is; and rows for a column beyond which more of them save no step."""
_FOR_START = 20
"""Rows for a column of which the minimum is where to begin, at least."""
ROUGH = 1e-4
"""Gradient at which they have told all."""
_NEARER, _NEAR = 8, 1e-3
"""Where curvature is read from one in so many rows or fewer, their own minimum is cheaper than a
step of all rows, and so far from theirs that such a gradient is enough."""
_ASTRAY = 0.03
"""Gradient above which they have been led astray."""
_WIDE = 2.0
"""The distance from zero of the margins that count for the first curvature, at most."""
_PAIRS = 20
"""Changes of point and gradient that are remembered, at most."""
_PASSES = 40
"""Passes over the rows that steps may take, at most."""
_FALLS = 0.8
"""The part of the gradient that a good step leaves, at most."""
_PROGRESS = 0.1
"""The part of the gradient that is left where steps led somewhere."""
_POOR = 2
"""Poor steps in a row after which a curvature has done what it could."""
_AGAIN = 3
"""Curvatures of all rows that are tried before Newton's method goes on instead."""


def is_worth_steering(rows: Rows) -> bool:
    """Whether gradients alone should lead to the minimum; a function of public facts."""
    return rows.n * rows.d >= _WORTH and rows.n >= _TALL * rows.d


def thinned_rows(n: int, d: int) -> int | None:
    """Rows to read the first curvature from, or None where there are too few for that."""
    share = n // _SHARE
    if d <= _CHEAP and share < _PLENTY * d:
        share = n // _LARGER_SHARE
    few = min(max(_ENOUGH, _PER_COLUMN * d), share)
    return few if few >= _LEAST * d else None


def lbfgs_minimum(objective: Objective, solve: Solve, enough: float) -> tuple[FloatArray, float]:
    """A point ``(d,)`` near the minimum and the length of its gradient, mostly below `enough`.

    Parameters
    ----------
    objective : Objective
        Of many rows; see `is_worth_steering`.
    solve : callable
        Minimises the objective of few rows from a start, where gradients do not lead there.
    enough : float
        Length of the gradient at which to stop.
    """
    start, steer = _beginning(objective, solve)
    norm = math.inf
    for attempt in range(1 + _AGAIN):
        if attempt > 0:
            steer = _inverse(hessian(objective, start))
        if steer is None:
            break
        before = norm
        start, norm = _descend(objective, start, steer, enough)
        if norm <= enough or not norm < before:
            break
    return start, norm


def _roughly(objective: Objective, start: FloatArray) -> FloatArray:
    return descend(objective, start, ROUGH, _ITERATIONS_OF_FEW, goal=ROUGH).w


def _beginning(objective: Objective, solve: Solve) -> tuple[FloatArray, Product | None]:
    """Where to begin, and a curvature: of few rows, or else of all of them around zero."""
    rows, start = objective.rows, np.zeros(objective.rows.d)
    few = thinned_rows(rows.n, rows.d)
    if few is None:
        return start, _inverse(hessian(objective, start, _WIDE))
    thin, thinner = (
        replace(objective, rows=rows.thinned(size))
        for size in (few, max(few // 8, min(few, _FOR_START * rows.d)))
    )
    # steered by the mean curvature of wide surroundings
    steer, norm = _inverse(hessian(thinner, start, _WIDE)), math.inf
    if steer is not None:
        start, norm = _descend(thinner, start, steer, ROUGH)
    if norm > _ASTRAY:
        start = solve(thinner, start)
    steer = _inverse(hessian(thinner, start)) if few * _NEARER <= rows.n else None
    if steer is not None:
        start, _ = _descend(thin, start, steer, _NEAR)
    return start, _inverse(hessian(thin, start))


def _inverse(matrix: FloatArray) -> Product | None:
    """What multiplies by the inverse of a matrix, or None where it has none in doubles."""
    with suppress(linalg.LinAlgError, ValueError):
        return partial(linalg.cho_solve, linalg.cho_factor(matrix))
    return None


def _descend(
    objective: Objective, w: FloatArray, precondition: Product, enough: float
) -> tuple[FloatArray, float]:
    """Limited-memory steps from w; ends where they stop to shorten the gradient.

    Where they have hardly shortened it, they went astray, and w is as good a place to be.
    """
    pairs: deque[tuple[FloatArray, FloatArray]] = deque(maxlen=_PAIRS)
    gradient = gradient_of(objective, w)
    norm, poor = norm_of(gradient), 0
    begin = best = w, norm
    for _ in range(_PASSES):
        if norm <= enough or poor >= _POOR or not math.isfinite(norm):
            break
        moved = w - _direction(gradient, pairs, precondition)
        new = gradient_of(objective, moved)
        step, change = moved - w, new - gradient
        if step @ change > 0:
            pairs.append((step, change))
        length = norm_of(new)
        poor = poor + 1 if length > _FALLS * norm else 0
        w, gradient, norm = moved, new, length
        if norm < best[1]:
            best = w, norm
    return best if best[1] <= max(enough, _PROGRESS * begin[1]) else begin


def _direction(
    gradient: FloatArray, pairs: deque[tuple[FloatArray, FloatArray]], precondition: Product
) -> FloatArray:
    """The inverse curvature, as far as it is known, times the gradient: two loops."""
    rest, weights = gradient.copy(), []
    for step, change in reversed(pairs):
        weight = (step @ rest) / (step @ change)
        rest -= weight * change
        weights.append(weight)
    found = precondition(rest)
    for (step, change), weight in zip(pairs, reversed(weights), strict=True):
        found += (weight - (change @ found) / (step @ change)) * step
    return found
