"""Pure epsilon-DP: the rate of Laplace noise by the three published and proven bounds.

Symbols as in the derivation: R the row radius, L and c the bounds on slope and curvature of
the loss, Lambda = n lambda, kappa = R^2 / Lambda, eps the target. A rate is relative to R: the
noise has density ``exp(-rate |b| / R)``, or ``exp(-rate N(b))`` for the norm N of the blocks,
and every bound is the same function of it (privacy.md 3.1 and 3.1b). Rates are rounded towards
more noise.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from privatelr.errors import GuaranteeError

if TYPE_CHECKING:
    from privatelr.mechanisms.problem import Facts, Problem
    from privatelr.numerics import Loss

Analysis = Literal["joint", "one-log", "cms11"]
ANALYSES: tuple[Analysis, ...] = ("joint", "one-log", "cms11")
LARGEST_EXPONENT = 700.0
LARGEST_SHARE = 20.0
"""No rule lets the curvature cost more: beyond, lambda would be lost against rounding."""


def named(analysis: str) -> Analysis:
    """The analysis of that name."""
    return next(found for found in ANALYSES if found == analysis)


def proven(analysis: Analysis | None, loss: Loss) -> Analysis:
    """The analysis that was asked for, or else the tightest that is proven for a loss."""
    if analysis is None:
        return "one-log" if loss.joint_factor is None else "joint"
    if analysis == "joint" and loss.joint_factor is None:
        raise GuaranteeError(
            f"analysis='joint': nothing joint is proven about the {loss.name} loss; analysis takes "
            "None (the tightest bound there is), 'one-log' or 'cms11'."
        )
    return analysis


def curvature_cost(problem: Problem) -> float:
    """``log(1 + c kappa)``, what one row can do to the determinant (Lemma 1)."""
    return math.log1p(problem.loss.curvature_bound * problem.kappa)


def joint_epsilon(rate: float, problem: Problem) -> float:
    """Epsilon of objective perturbation at this noise rate, by the joint bound (Theorem 3.2).

    ``g + max_s [g s + log(1 + kappa a(s))]`` with ``g = rate L`` and the curvature
    ``a(s) = k s (1 - s)`` where the slope has size s.
    """
    factor = problem.loss.joint_factor
    if factor is None:
        raise GuaranteeError(f"analysis='joint': the {problem.loss.name} loss has no joint bound.")
    g = rate * problem.loss.slope_bound
    kappa = problem.kappa * factor
    if kappa <= g:
        return 2 * g
    # stationary point: g s^2 - (g - 2) s - (1 + g / kappa) = 0, without cancellation
    linear, constant = g - 2, 1 + g / kappa
    root = math.sqrt(linear**2 + 4 * g * constant)
    s = min((linear + root) / (2 * g) if linear > 0 else 2 * constant / (root - linear), 1.0)
    return g + max(g * s + math.log1p(kappa * s * (1 - s)), g)


def objective_epsilon(rate: float, problem: Problem, analysis: Analysis) -> float:
    """Epsilon of objective perturbation at this noise rate, by any of the analyses."""
    if analysis == "joint":
        return joint_epsilon(rate, problem)
    noise = 2 * problem.loss.slope_bound * rate
    return noise + (2 if analysis == "cms11" else 1) * curvature_cost(problem)


def objective_rate(problem: Problem, epsilon: float, analysis: Analysis) -> float:
    """Largest noise rate that is epsilon-DP by this analysis; at most 0 if none is."""
    full = 2 * problem.loss.slope_bound
    if analysis == "cms11":  # Chaudhuri, Monteleoni and Sarwate 2011, Theorem 9
        return (epsilon - 2 * curvature_cost(problem)) / full
    if analysis == "one-log":  # Wang, Kifer and Lee 2019, Algorithm 1
        return (epsilon - curvature_cost(problem)) / full
    return _joint_rate(problem, epsilon, epsilon / full)


def _joint_rate(problem: Problem, epsilon: float, ceiling: float) -> float:
    """Invert `joint_epsilon` by bisection, keeping the end that is below epsilon."""
    if joint_epsilon(ceiling, problem) <= epsilon:
        return ceiling
    low, high = 0.0, ceiling
    while high - low > 1e-15 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if joint_epsilon(middle, problem) <= epsilon:
            low = middle
        else:
            high = middle
    return low


def smallest_feasible_penalty(facts: Facts, epsilon: float, analysis: Analysis) -> float:
    """Lambda (sum form) at which the noise of this analysis becomes infinite."""
    if analysis == "joint":
        factor = facts.loss.joint_factor or 0.0
        return factor * facts.radius**2 / (4 * math.expm1(min(epsilon, LARGEST_EXPONENT)))
    share = epsilon / (2 if analysis == "cms11" else 1)
    return penalty_costing(facts, min(share, LARGEST_EXPONENT))


def penalty_costing(facts: Facts, share: float) -> float:
    """Lambda at which the curvature costs ``log(1 + c kappa) = share``."""
    return facts.loss.curvature_bound * facts.radius**2 / math.expm1(share)


def free_penalty(facts: Facts, epsilon: float, analysis: Analysis) -> float:
    """Smallest Lambda whose curvature is free (joint) or costs a tenth of epsilon."""
    if analysis == "joint":
        return 2 * (facts.loss.joint_factor or 0.0) * facts.radius**2 / epsilon
    share = epsilon / (20 if analysis == "cms11" else 10)
    return penalty_costing(facts, min(share, LARGEST_SHARE))
