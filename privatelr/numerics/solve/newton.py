"""Newton's method with a certificate: it ends at a small gradient or says that it did not."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from privatelr.arguments import suggests_arguments
from privatelr.errors import ArgumentError, NotConvergedError, require_number
from privatelr.numerics.objective import (
    Objective,
    filled_part,
    hessian,
    mean_change,
    norm_of,
    value_and_gradient,
)
from privatelr.numerics.solve.lbfgs import ROUGH, is_worth_steering, lbfgs_minimum
from privatelr.numerics.solve.wide_newton import is_wide, wide_steps
from privatelr.types import FloatArray

CERTIFICATE = 1e-10
"""Largest gradient norm of the mean objective at which coefficients are released."""
_SUFFICIENT_DECREASE = 1e-4
_SMALLEST_STEP = 2.0**-60
_RESOLUTION = 1e-11
_ITERATIONS_OF_FEW = 50
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
    Many rows are minimised by gradients first; see `privatelr.numerics.solve.lbfgs`. A
    release is certified to a gradient far below the tolerance, and asks for that.
    """

    tolerance: float = CERTIFICATE
    max_iterations: int = 500

    def __post_init__(self) -> None:
        takes = f"a number above 0 and up to {CERTIFICATE:g}"
        require_number(
            ArgumentError, "tolerance", self.tolerance, takes, above=0, at_most=CERTIFICATE
        )
        takes = "a whole number from 1"
        limit = require_number(
            ArgumentError, "max_iterations", self.max_iterations, takes, at_least=1
        )
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
            filled = objective if part is None else part.objective
            starts = [np.zeros(filled.rows.d)]
            # gradients alone lead to the minimum of many rows, or near it
            steered = is_worth_steering(filled.rows) and not is_wide(filled.rows)
            if steered:
                near, norm = _steered(filled, goal)
                found = Minimum(near, norm)
                starts = [near, *starts]  # where bends are sharp, a near start may lead nowhere
            if not (steered and norm <= goal):
                for start in starts:
                    found = descend(filled, start, enough, int(self.max_iterations), goal)
                    if found.gradient_norm <= enough:
                        break
            if part is not None:
                found = Minimum(*part.spread(objective, found.w, found.gradient_norm))
        if found.gradient_norm <= enough:
            return found
        raise NotConvergedError(
            f"solver: Newton's method ended above a gradient of {self.tolerance:g}, stalled or "
            f"after {self.max_iterations} iterations, so nothing was released; raise lambda_."
        )


def _steered(objective: Objective, enough: float) -> tuple[FloatArray, float]:
    """As far as gradients of many rows lead, and the length of the gradient there."""

    def solve(thin: Objective, start: FloatArray) -> FloatArray:
        return descend(thin, start, ROUGH, _ITERATIONS_OF_FEW, goal=ROUGH).w

    return lbfgs_minimum(objective, solve, enough)


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
