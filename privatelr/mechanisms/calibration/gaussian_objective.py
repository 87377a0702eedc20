"""Gaussian objective perturbation: the smallest noise that Theorem 4.2 of privacy.md allows.

Symbols as in `privatelr.mechanisms.calibration.pure`; ``m = L R / sigma`` for a tilt of
standard deviation sigma per coordinate, in the sum form. The theorem, with a Gaussian shield of
mu_out on the minimiser, stands in `privatelr.privacy.noise.gaussian_delta`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from privatelr.errors import GuaranteeError
from privatelr.mechanisms.calibration.pure import LARGEST_SHARE, penalty_costing
from privatelr.privacy import ApproxDP, TiltEvent
from privatelr.privacy.noise import RESOLUTION, gaussian_delta, smallest

if TYPE_CHECKING:
    from privatelr.mechanisms.calibration.pure import Analysis
    from privatelr.mechanisms.problem import Facts, Problem

_LARGEST = 1e9
"""Multiple of ``L R`` beyond which noise is of no use to anyone, so that the target is infeasible.
"""
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
    loss = problem.loss
    factor = loss.joint_factor if analysis == "joint" else None
    event = TiltEvent(m, problem.kappa, loss.curvature_bound, factor)
    return gaussian_delta.tilt_log_delta(event, epsilon, shield_ratio * m)


def any_loss_log_delta(problem: Problem, epsilon: float, m: float, out: float = 0.0) -> float:
    """Bound (a) alone, which holds for any loss."""
    return gaussian_delta.any_loss_log_delta(
        problem.loss.curvature_bound * problem.kappa, epsilon, m, out
    )


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
