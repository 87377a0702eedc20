"""Minimisation of many rows by gradients, steered by a curvature that is read once or twice.

The minimum of a thinned table is near that of the whole, and its curvature is nearly the same,
so a step of it leaves a small part of the error: for m rows about ``2 sqrt(d / m)``. What is left
of it is learned from the steps (limited-memory BFGS, Liu and Nocedal 1989, started from that
curvature). A step reads every row once. Where steps come to little, as where the thinned table
knows nothing of a rare column, the curvature of all rows is read, and they go on from there.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy import linalg

from privatelr.numerics.objective import Objective, gradient_of, hessian, norm_of
from privatelr.types import FloatArray, Rows

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


def lbfgs_minimum(
    objective: Objective,
    solve: Callable[[Objective, FloatArray], FloatArray],
    enough: float,
) -> tuple[FloatArray, float]:
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


def _beginning(
    objective: Objective, solve: Callable[[Objective, FloatArray], FloatArray]
) -> tuple[FloatArray, Callable[[FloatArray], FloatArray] | None]:
    """Where to begin, and a curvature: of few rows, or else of all of them around zero."""
    rows = objective.rows
    few = thinned_rows(rows.n, rows.d)
    if few is None:
        zeros = np.zeros(rows.d)
        return zeros, _inverse(hessian(objective, zeros, _WIDE))
    thin, thinner = (
        replace(objective, rows=rows.thinned(size))
        for size in (few, max(few // 8, min(few, _FOR_START * rows.d)))
    )
    start, norm = _quick(thinner, ROUGH)
    if norm > _ASTRAY:
        start = solve(thinner, start)
    steer = _inverse(hessian(thinner, start)) if few * _NEARER <= rows.n else None
    if steer is not None:
        start, _ = _descend(thin, start, steer, _NEAR)
    return start, _inverse(hessian(thin, start))


def _quick(objective: Objective, enough: float) -> tuple[FloatArray, float]:
    """The minimum of a few rows from zero, steered by the mean curvature of wide surroundings."""
    start = np.zeros(objective.rows.d)
    steer = _inverse(hessian(objective, start, _WIDE))
    return (start, math.inf) if steer is None else _descend(objective, start, steer, enough)


def _inverse(matrix: FloatArray) -> Callable[[FloatArray], FloatArray] | None:
    """What multiplies by the inverse of a matrix, or None where it has none in doubles."""
    try:
        factor = linalg.cho_factor(matrix)
    except (linalg.LinAlgError, ValueError):
        return None

    def solve(vector: FloatArray) -> FloatArray:
        return np.asarray(linalg.cho_solve(factor, vector))

    return solve


def _descend(
    objective: Objective,
    w: FloatArray,
    precondition: Callable[[FloatArray], FloatArray],
    enough: float,
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
    gradient: FloatArray,
    pairs: deque[tuple[FloatArray, FloatArray]],
    precondition: Callable[[FloatArray], FloatArray],
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
