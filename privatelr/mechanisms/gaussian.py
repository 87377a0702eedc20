"""Gaussian objective perturbation: the smallest noise that Theorem 4.2 of privacy.md allows.

Symbols as in `privatelr.mechanisms.calibration`; ``m = L R / sigma`` for a tilt of standard
deviation sigma per coordinate, in the sum form. Takes public facts, never data.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import optimize

from privatelr.mechanisms.calibration import curvature_cost
from privatelr.privacy.gaussian import log_delta, smallest

if TYPE_CHECKING:
    from privatelr.mechanisms.problem import Problem

_LARGEST = 1e9
"""Noise beyond this multiple of ``L R`` is no use to anyone: the target is infeasible."""


def objective_log_delta(problem: Problem, epsilon: float, sigma: float) -> float:
    """Logarithm of delta at epsilon, by the best of the bounds (a), (b) and (c)."""
    m = problem.loss.slope_bound * problem.radius / sigma
    bounds = [any_loss_log_delta(problem, epsilon, m)]
    if problem.loss.joint_factor is not None:
        kappa = problem.kappa * problem.loss.joint_factor
        bounds += [_free_curvature(kappa, epsilon, m), _split_curvature(kappa, epsilon, m)]
    return min(bounds)


def any_loss_log_delta(problem: Problem, epsilon: float, m: float) -> float:
    """(a): any loss, the curvature paid in full; 0, no claim, where epsilon does not cover it."""
    rest = epsilon - curvature_cost(problem)
    if rest < 0:
        return 0.0
    return _log_sum(log_delta(rest, 2 * m), math.log(2) + log_delta(rest, m))


def _free_curvature(kappa: float, epsilon: float, m: float) -> float:
    """(b): the curvature vanishes where the slope is one; little is left for the other cases."""
    gap, worst = max(0.0, kappa - m * m / 2), math.log1p(kappa / 4)
    if epsilon < max(gap, worst):
        return 0.0
    return _log_sum(
        log_delta(epsilon, 2 * m), log_delta(epsilon - worst, m), log_delta(epsilon - gap, m)
    )


def _split_curvature(kappa: float, epsilon: float, m: float) -> float:
    """(c): slopes above and below a split are treated apart; any split is valid."""
    worst = math.log1p(kappa / 4)
    if epsilon < worst:
        return 0.0

    def bound(split: float) -> float:
        paid = math.log1p(kappa * split * (1 - split))
        return _log_sum(
            log_delta(epsilon - paid, 2 * m),
            log_delta(epsilon - paid, (1 + split) * m),
            log_delta(epsilon - worst, (1 + split) * m),
            math.log(2) + log_delta(epsilon - worst, m),
        )

    found = optimize.minimize_scalar(bound, bounds=(0.5, 1.0), method="bounded")
    return min(float(found.fun), bound(0.5), bound(1.0))


def _log_sum(*logs: float) -> float:
    return min(0.0, float(np.logaddexp.reduce(logs)))


def objective_sigma(problem: Problem, epsilon: float, delta: float) -> float:
    """Smallest sigma seen to satisfy the bound; infinity if none below 1e9 L R does."""
    unit = problem.loss.slope_bound * problem.radius
    target = math.log(delta)

    def holds(sigma: float) -> bool:
        return objective_log_delta(problem, epsilon, sigma * unit) <= target

    return unit * smallest(holds, 1.0, _LARGEST)
