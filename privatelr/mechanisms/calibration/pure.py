"""Pure epsilon-DP: the rate of Laplace noise by the three published and proven bounds.

The symbols are those of theory.md#setting: R is the row radius, L and c bound the slope and the
curvature of the loss, Lambda = n lambda, kappa = R^2 / Lambda, and eps is the target. A rate is
relative to R: the noise has density ``exp(-rate |b| / R)``, or ``exp(-rate N(b))`` for the norm N
of the blocks, and every bound is the same function of it (Theorems 3.1, 3.2 and 3.1b). Rates are
rounded towards more noise.

Where neighbours replace a person with any number of records, each bound takes kappa a for
``log(1 + kappa a)`` (theory.md#persons has the proof). Without the logarithm the bound is attained
as records in many directions share the weight.
"""

from __future__ import annotations

import math
from typing import Literal

import scipy

from privatelr.errors import GuaranteeError
from privatelr.mechanisms.calibration import softmax
from privatelr.mechanisms.problem import Problem
from privatelr.numerics import Loss

Analysis = Literal["joint", "one-log", "cms11"]
ANALYSES: tuple[Analysis, ...] = ("joint", "one-log", "cms11")
LARGEST_EXPONENT = 700.0
"""Largest epsilon or rho whose exponential is computed; larger ones would overflow."""
LARGEST_SHARE = 20.0
"""Largest epsilon that a rule spends on the curvature; above it lambda is lost to rounding."""
SHARE_KEPT = 0.9
"""Share of the rate without curvature that a nearly free penalty leaves for several classes."""
_LOGS = {"one-log": 1, "cms11": 2}
"""How many times a bound adds ``log(1 + c kappa)`` to epsilon.

Wang, Kifer and Lee (2019, Algorithm 1) add it once. The first publication adds it twice
(Chaudhuri, Monteleoni and Sarwate 2011, Theorem 9); so do R and the published programs.
"""


def proven(analysis: Analysis | None, loss: Loss) -> Analysis:
    """Return the analysis that was asked for, or else the tightest that is proven for a loss."""
    if analysis is None:
        return "one-log" if loss.joint_factor is None else "joint"
    if analysis == "joint" and loss.joint_factor is None:
        raise GuaranteeError(
            f"analysis='joint': nothing joint is proven about the {loss.name} loss; analysis takes "
            "None (the tightest bound there is), 'one-log' or 'cms11'."
        )
    return analysis


def curvature_cost(problem: Problem) -> float:
    """Return ``log(1 + c kappa)``, the most that one row changes the log determinant (Lemma 1).

    A person changes it by at most ``c kappa``.
    """
    if problem.is_multinomial:
        cost = softmax.person_cost if problem.persons else softmax.curvature_cost
        return cost(problem.kappa, problem.classes)
    most = problem.loss.curvature_bound * problem.kappa
    return most if problem.persons else math.log1p(most)


def joint_epsilon(rate: float, problem: Problem) -> float:
    """Return epsilon of objective perturbation at this noise rate, by the joint bound.

    Theorem 3.2 of theory.md: ``g + max_s [g s + log(1 + kappa a(s))]`` with ``g = rate L``. Here
    ``a(s) = k s (1 - s)`` bounds the curvature at slopes of size s. Large slopes have little
    curvature, so the two are never paid in full together.
    """
    factor = problem.loss.joint_factor
    if factor is None:
        raise GuaranteeError(f"analysis='joint': the {problem.loss.name} loss has no joint bound.")
    g = rate * problem.pull
    if problem.is_multinomial:
        price = softmax.person_epsilon if problem.persons else softmax.joint_epsilon
        return price(g, problem.kappa, problem.classes)
    kappa = problem.kappa * factor
    if kappa <= g:
        return 2 * g
    if problem.persons:
        return g + (g + kappa) ** 2 / (4 * kappa)
    # the stationary point solves g s^2 - (g - 2) s - (1 + g / kappa) = 0; the form of the root
    # depends on the sign of g - 2, so that nothing cancels
    linear, constant = g - 2, 1 + g / kappa
    root = math.sqrt(linear**2 + 4 * g * constant)
    s = min((linear + root) / (2 * g) if linear > 0 else 2 * constant / (root - linear), 1.0)
    return g + max(g * s + math.log1p(kappa * s * (1 - s)), g)


def objective_epsilon(rate: float, problem: Problem, analysis: str) -> float:
    """Return epsilon of objective perturbation at this noise rate, by any of the analyses.

    It is ``2 L rate`` plus ``log(1 + c kappa)``, once by "one-log" (Theorem 3.1 of theory.md) and
    twice by "cms11", or `joint_epsilon` by "joint".
    """
    if analysis == "joint":
        return joint_epsilon(rate, problem)
    return 2 * problem.pull * rate + _LOGS[analysis] * curvature_cost(problem)


def objective_rate(problem: Problem, epsilon: float, analysis: str) -> float:
    """Return the largest noise rate that is epsilon-DP by this analysis; at most 0 if none is.

    For "one-log" it is ``(eps - log(1 + c kappa)) / (2 L)`` (Theorem 3.1 of theory.md), for
    "joint" the solution of Theorem 3.2.
    """
    full = 2 * problem.pull
    if analysis != "joint":
        return (epsilon - _LOGS[analysis] * curvature_cost(problem)) / full
    low, high = 0.0, epsilon / full
    if joint_epsilon(high, problem) <= epsilon:
        return high
    # bisection returns the end whose epsilon is small enough, so that it errs towards privacy
    while high - low > 1e-15 * high and low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if joint_epsilon(middle, problem) <= epsilon else (low, middle)
    return low


def smallest_feasible_penalty(facts: Problem, epsilon: float, analysis: str) -> float:
    """Return the Lambda (sum form) at which the noise of this analysis becomes infinite."""
    if analysis == "joint" and not facts.is_multinomial:
        factor = facts.loss.joint_factor or 0.0
        cost = epsilon if facts.persons else math.expm1(min(epsilon, LARGEST_EXPONENT))
        return factor * facts.radius**2 / (4 * cost)
    return penalty_costing(facts, min(epsilon / _LOGS.get(analysis, 1), LARGEST_EXPONENT))


def penalty_costing(facts: Problem, share: float) -> float:
    """Return the Lambda (sum form) at which the curvature costs this share of epsilon."""
    if facts.is_multinomial:
        kappa = softmax.kappa_costing(share, facts.classes, persons=facts.persons)
        return facts.radius**2 / kappa
    cost = share if facts.persons else math.expm1(share)
    return facts.loss.curvature_bound * facts.radius**2 / cost


def laplace_free_penalty(facts: Problem, epsilon: float, analysis: str, kept: float = 1.0) -> float:
    """Return the smallest Lambda whose curvature is free, or costs a tenth of epsilon.

    By "joint" it may cost a part of the rate of the noise, of which `kept` is left.

    By "joint" it is free from ``2 k R^2 / eps`` on (theory.md#theorem-32); by the other analyses it
    is never free. Nor is it for several classes, where it takes a tenth of the rate of the noise.
    """
    if facts.is_multinomial and analysis == "joint":
        given = SHARE_KEPT, epsilon, facts.radius, facts.classes
        return softmax.penalty_keeping(*given, persons=facts.persons)
    if analysis == "joint":
        free = 2 * (facts.loss.joint_factor or 0.0) * facts.radius**2 / epsilon
        return free if kept == 1 else _penalty_at(facts, epsilon, kept, free)
    return penalty_costing(facts, min(epsilon / (10 * _LOGS[analysis]), LARGEST_SHARE))


def _penalty_at(facts: Problem, epsilon: float, kept: float, free: float) -> float:
    """Return the smallest Lambda at which a share of the rate that is free is epsilon-DP."""
    rate = kept * epsilon / (2 * facts.pull)

    def excess(penalty: float) -> float:
        return joint_epsilon(rate, facts.with_lambda(penalty / facts.n)) - epsilon

    least = smallest_feasible_penalty(facts, epsilon, "joint")
    if excess(least) <= 0:  # an epsilon so large that its exponential is not computed
        return least
    return float(scipy.optimize.brentq(excess, least, free, xtol=1e-12 * free))
