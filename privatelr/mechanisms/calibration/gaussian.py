"""Gaussian objective perturbation: the smallest noise that Theorem 4.2 of privacy.md allows.

Symbols as in `privatelr.mechanisms.calibration.pure`; ``m = L R / sigma`` for a tilt of
standard deviation sigma per coordinate, in the sum form. With a Gaussian shield of mu_out on
the minimiser, losses of two independent Gaussians add: ``v`` becomes ``sqrt(v^2 + mu_out^2)``,
and the case of no change in the tilt, which costs nothing without a shield, is counted
(privacy.md 5; (c) by the argument that is given there for (b)).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import scipy

from privatelr.errors import GuaranteeError
from privatelr.mechanisms.calibration.pure import (
    LARGEST_SHARE,
    curvature_cost,
    penalty_costing,
)
from privatelr.privacy.gaussian import RESOLUTION, log_delta, smallest

if TYPE_CHECKING:
    from privatelr.mechanisms.calibration.pure import Analysis
    from privatelr.mechanisms.problem import Facts, Problem
    from privatelr.privacy.guarantees import ApproxDP

_LARGEST = 1e9
"""Noise beyond this multiple of ``L R`` is no use to anyone: the target is infeasible."""
_NEVER = -1e6
"""Logarithm of a delta that is as good as none."""
_FLAT = 1e30
"""Lambda over R^2 at which no curvature is left to speak of."""
_NEARLY_FREE = 1.02
"""A curvature counts as free where it adds no more than this factor to the noise."""


def objective_log_delta(
    problem: Problem,
    epsilon: float,
    sigma: float,
    *,
    shield_ratio: float = 0.0,
    analysis: Analysis = "joint",
) -> float:
    """Logarithm of delta at epsilon, by the best of the bounds (a), (b) and (c).

    `shield_ratio` is ``mu_out / m``; ``analysis="one-log"`` takes (a) alone.
    """
    m = problem.reach / sigma
    out = shield_ratio * m
    bounds = [any_loss_log_delta(problem, epsilon, m, out)]
    if problem.loss.joint_factor is not None and analysis == "joint":
        kappa = problem.kappa * problem.loss.joint_factor
        bounds += [
            _free_curvature(kappa, epsilon, m, out),
            _split_curvature(kappa, epsilon, m, out),
        ]
    return min(bounds)


def any_loss_log_delta(problem: Problem, epsilon: float, m: float, out: float = 0.0) -> float:
    """(a): any loss, the curvature paid in full; 0, no claim, where epsilon does not cover it."""
    rest = epsilon - curvature_cost(problem)
    if rest < 0:
        return 0.0
    return _log_sum(
        log_delta(rest, math.hypot(2 * m, out)),
        math.log(2) + log_delta(rest, math.hypot(m, out)),
        log_delta(rest, out),
    )


def _free_curvature(kappa: float, epsilon: float, m: float, out: float) -> float:
    """(b): the curvature vanishes where the slope is one; little is left for the other cases."""
    gap, worst = max(0.0, kappa - m * m / 2), math.log1p(kappa / 4)
    if epsilon < max(gap, worst):
        return 0.0
    one = math.hypot(m, out)
    return _log_sum(
        log_delta(epsilon, math.hypot(2 * m, out)),
        log_delta(epsilon - worst, one),
        log_delta(epsilon - gap, one),
        log_delta(epsilon - worst, out),
    )


def _split_curvature(kappa: float, epsilon: float, m: float, out: float) -> float:
    """(c): slopes above and below a split are treated apart; any split is valid."""
    worst = math.log1p(kappa / 4)
    if epsilon < worst:
        return 0.0

    def bound(split: float) -> float:
        paid = math.log1p(kappa * split * (1 - split))
        part = math.hypot((1 + split) * m, out)
        return _log_sum(
            log_delta(epsilon - paid, math.hypot(2 * m, out)),
            log_delta(epsilon - paid, part),
            log_delta(epsilon - worst, part),
            math.log(2) + log_delta(epsilon - worst, math.hypot(m, out)),
            log_delta(epsilon - worst, out),
        )

    # the search subtracts values, and minus infinity from itself is nothing
    found = scipy.optimize.minimize_scalar(
        lambda split: max(bound(split), _NEVER), bounds=(0.5, 1.0), method="bounded"
    )
    return min(bound(float(found.x)), bound(0.5), bound(1.0))


def _log_sum(*logs: float) -> float:
    return min(0.0, float(np.logaddexp.reduce(logs)))


@lru_cache(maxsize=256)  # of public facts; a fit asks for the same number several times
def objective_sigma(
    problem: Problem,
    epsilon: float,
    delta: float,
    *,
    shield_ratio: float = 0.0,
    analysis: Analysis = "joint",
) -> float:
    """Smallest sigma seen to satisfy the bound; infinity if none below 1e9 L R does."""
    unit = problem.reach
    target = math.log(delta) - RESOLUTION

    def holds(sigma: float) -> bool:
        found = objective_log_delta(
            problem, epsilon, sigma * unit, shield_ratio=shield_ratio, analysis=analysis
        )
        return found <= target

    return unit * smallest(holds, 1.0, _LARGEST)


def feasible_penalty(
    facts: Facts,
    target: ApproxDP,
    sigma: float,
    *,
    shield_ratio: float,
    analysis: Analysis,
) -> float:
    """Smallest Lambda (sum form) at which noise of this sigma satisfies the bound."""
    r2 = facts.radius**2
    goal = math.log(target.delta) - RESOLUTION

    def holds(penalty: float) -> bool:
        problem = facts.with_lambda(penalty * r2 / facts.n)
        found = objective_log_delta(
            problem, target.epsilon, sigma, shield_ratio=shield_ratio, analysis=analysis
        )
        return found <= goal

    found = smallest(holds, 1.0, _FLAT)
    if math.isinf(found):
        raise GuaranteeError(f"eps={target.epsilon:g}, delta={target.delta:g}: no noise suffices.")
    return found * r2


@lru_cache(maxsize=256)
def free_penalty(
    facts: Facts, target: ApproxDP, *, shield_ratio: float, analysis: Analysis
) -> float:
    """Smallest Lambda whose curvature adds at most a fiftieth to the noise (privacy.md 4.2)."""
    # at a large delta this is more than the Gaussian mechanism with sensitivity 2 L R needs
    flat = facts.with_lambda(_FLAT * facts.radius**2 / facts.n)
    least = objective_sigma(
        flat, target.epsilon, target.delta, shield_ratio=shield_ratio, analysis=analysis
    )
    found = feasible_penalty(
        facts, target, _NEARLY_FREE * least, shield_ratio=shield_ratio, analysis=analysis
    )
    return max(found, penalty_costing(facts, LARGEST_SHARE))


def smallest_feasible_penalty(
    facts: Facts, target: ApproxDP, *, shield_ratio: float, analysis: Analysis
) -> float:
    """Smallest Lambda for which any noise suffices."""
    return feasible_penalty(
        facts, target, _LARGEST * facts.reach, shield_ratio=shield_ratio, analysis=analysis
    )
