"""Newton's method with a certificate: it ends at a small gradient or says that it did not."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

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

if TYPE_CHECKING:
    from privatelr.numerics.solve.wide_newton import Step
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

    def __call__(self, objective: Objective) -> Minimum:
        """Minimise from ``w = 0`` until the gradient is within the tolerance.

        Raises
        ------
        NotConvergedError
            If the gradient norm stays above `tolerance`.
        """
        return self.minimise(objective, math.inf)

    def minimise(self, objective: Objective, goal: float) -> Minimum:
        """The same, until the gradient is no longer than `goal` either, if doubles lead there."""
        enough = certificate(objective, self.tolerance)
        with np.errstate(all="ignore"):
            part = filled_part(objective)
            if part is None:
                found = self._minimum(objective, enough, min(goal, enough))
            else:
                inner = self._minimum(part.objective, enough, min(goal, enough))
                found = Minimum(*part.spread(objective, inner.w, inner.gradient_norm))
        if found.gradient_norm <= enough:
            return found
        raise NotConvergedError(
            f"solver: Newton's method ended above a gradient of {self.tolerance:g}, stalled or "
            f"after {self.max_iterations} iterations, so nothing was released; raise lambda_."
        )

    def _minimum(self, objective: Objective, enough: float, goal: float) -> Minimum:
        """Steered by gradients where that is worth it, and then by Newton's method."""
        starts = [np.zeros(objective.rows.d)]
        if is_worth_steering(objective.rows) and not is_wide(objective.rows):
            near, norm = _steered(objective, goal)
            if norm <= goal:
                return Minimum(near, norm)
            starts = [near, *starts]  # where bends are sharp, a near start may lead nowhere
        for start in starts:
            minimum = descend(objective, start, enough, int(self.max_iterations), goal)
            if minimum.gradient_norm <= enough:
                break
        return minimum


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
    steps = wide_steps if is_wide(objective.rows) else _newton_steps
    with np.errstate(all="ignore"):
        step_from = steps(objective)
        value, gradient = value_and_gradient(objective, w)
        for _ in range(max_iterations):
            norm = norm_of(gradient)
            if norm == math.inf or norm <= goal:
                break
            certified = norm <= enough
            step = step_from(w, gradient, reach)
            smallest = 1.0 if certified else _SMALLEST_STEP
            trial = _search(objective, w, step, value, gradient, smallest)
            if trial is None and not certified and failures < _FAILURES:
                reach, failures = 0.0 if reach > 0 else _FAR, failures + 1
                continue
            if trial is None or (certified and norm_of(trial[2]) >= norm / 2):
                break
            failures = 0
            moved = trial[0] - w
            shortened = norm_of(moved) < 0.75 * norm_of(step)
            if shortened or reach > 0:
                change = mean_change(objective, moved)
                reach = change if shortened else min(reach, change) / 4
            w, value, gradient = trial
        return Minimum(w, norm_of(gradient))


def _newton_steps(objective: Objective) -> Step:
    def step(w: FloatArray, gradient: FloatArray, reach: float) -> FloatArray:
        matrix = hessian(objective, w, reach)
        if math.isfinite(matrix.sum()):
            # called directly: for few columns SciPy's checks take longer than the solution
            _, solution, failed = lapack.dposv(matrix, gradient)
            if not failed:
                return np.asarray(-solution)
            # columns that coincide under a tiny lambda: invert on the part that is resolved
            with suppress(linalg.LinAlgError):
                return np.asarray(-linalg.pinvh(matrix) @ gradient)
        return -gradient

    return step


def _search(
    objective: Objective,
    w: FloatArray,
    step: FloatArray,
    value: float,
    gradient: FloatArray,
    smallest: float,
) -> tuple[FloatArray, float, FloatArray] | None:
    """The first of the steps 1, 1/2, ... down to `smallest` that makes progress, or None."""
    slope = float(gradient @ step)
    tilted = float(objective.tilt @ w)
    resolved = _RESOLUTION * (abs(value - tilted) + abs(tilted))
    target = norm_of(gradient) / 2
    size = 1.0
    while size >= smallest:
        candidate = w + size * step
        new_value, new_gradient = value_and_gradient(objective, candidate)
        promised = -size * slope
        if promised > resolved:
            improves = new_value <= value - _SUFFICIENT_DECREASE * promised
        else:
            improves = norm_of(new_gradient) <= target
        if improves:
            return candidate, new_value, new_gradient
        size /= 2
    return None
