"""Where lambda comes from: data-free rules, and what happens to one that is too small.

privacy.md 3.2 and 3.2b for pure epsilon, 4.2 for Gaussian noise.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from privatelr.errors import GuaranteeError
from privatelr.mechanisms.calibration import concentrated, gaussian, pure
from privatelr.mechanisms.calibration.shield import SHIELD_RATIO, tilt_rho
from privatelr.mechanisms.calibration.tilt import laplace_tilts, smallest_tilt
from privatelr.privacy.conversions import pure_within
from privatelr.privacy.guarantees import ZCDP, Promise, PureDP

if TYPE_CHECKING:
    from privatelr.mechanisms.calibration.pure import Analysis
    from privatelr.mechanisms.problem import Facts, Problem
    from privatelr.privacy.noise import NoiseLaw

SmallLambda = Literal["increase", "keep"]
LambdaRule = Literal["auto", "free", "PrivateLR"]
LAMBDA_RULES: tuple[LambdaRule, ...] = ("auto", "free", "PrivateLR")
PLAIN_LAMBDA = 0.001
"""Penalty of the plain fit when none is given, as in R."""
ROUNDING = 1e-12
"""A lambda this close below its limit is the limit; the noise is always computed from lambda."""


def nominal_epsilon(target: Promise) -> float:
    """An epsilon of the size of the target, for rules that need one and no proof."""
    return math.sqrt(2 * target.rho) if isinstance(target, ZCDP) else target.epsilon


def free_penalty(facts: Facts, target: Promise, analysis: Analysis) -> float:
    """Smallest Lambda (sum form) at which the curvature costs little or nothing."""
    match target:
        case PureDP():
            return pure.free_penalty(facts, target.epsilon, analysis)
        case ZCDP():
            return pure.free_penalty(facts, pure_within(target.rho), analysis)
    return gaussian.free_penalty(facts, target, shield_ratio=SHIELD_RATIO, analysis=analysis)


def smallest_feasible_penalty(facts: Facts, target: Promise, analysis: Analysis) -> float:
    """Lambda (sum form) below which no noise suffices."""
    match target:
        case PureDP():
            return pure.smallest_feasible_penalty(facts, target.epsilon, analysis)
        case ZCDP():
            rho = tilt_rho(target.rho)
            laplace = pure.smallest_feasible_penalty(facts, pure_within(rho), analysis)
            return min(laplace, concentrated.smallest_feasible_penalty(facts, rho))
    return gaussian.smallest_feasible_penalty(
        facts, target, shield_ratio=SHIELD_RATIO, analysis=analysis
    )


def lambda_by_rule(rule: LambdaRule, facts: Facts, target: Promise, analysis: Analysis) -> float:
    """Penalty of the mean objective by a data-free rule.

    ``"PrivateLR"`` solves ``2 log(1 + c kappa) = eps / 10``; ``"free"`` is `free_penalty`;
    ``"auto"`` balances noise and shrinkage at ``E|b| / W``, with the public guess
    ``W = sqrt(eps n / 6) / R`` of the length of the coefficients (privacy.md 3.2b), and never
    goes below the free penalty. Under ``analysis="cms11"`` all rules are R's.
    """
    epsilon = nominal_epsilon(target)
    if rule == "PrivateLR" or analysis == "cms11":
        return pure.penalty_costing(facts, min(epsilon / 20, pure.LARGEST_SHARE)) / facts.n
    free = free_penalty(facts, target, analysis)
    if rule == "free":
        return free / facts.n
    problem = facts.with_lambda(free / facts.n)
    guess = math.sqrt(epsilon * facts.n / 6) / facts.radius
    if isinstance(target, PureDP):
        # by the whole of epsilon, so that the rule is the published one whatever a shield takes
        noise = laplace_tilts(problem, epsilon, analysis)[0]
    else:
        noise = require_tilt(problem, target, analysis)
    return max(free, noise.mean_length / guess) / facts.n


def all_rules(facts: Facts, target: Promise, analysis: Analysis) -> tuple[tuple[str, float], ...]:
    """What each rule would choose, for the record."""
    found = []
    for rule in LAMBDA_RULES:
        with suppress(GuaranteeError):  # a rule that has no answer is not listed
            found.append((rule, lambda_by_rule(rule, facts, target, analysis)))
    return tuple(found)


def settle_lambda(
    problem: Problem, target: Promise, analysis: Analysis, on_small_lambda: SmallLambda
) -> Problem:
    """Apply the small-lambda rule; returns the problem with the lambda that is used.

    Under ``"keep"`` that is the one asked for, and whether any noise suffices there is for
    `require_tilt` to say.
    """
    if on_small_lambda == "keep":
        return problem
    if analysis == "cms11" and isinstance(target, PureDP):
        # as in R: only where nothing is left for the noise
        epsilon = target.epsilon
        feasible = bool(laplace_tilts(problem, epsilon, analysis))
        least = 0.0 if feasible else pure.penalty_costing(problem, min(epsilon / 4, 700.0))
    else:
        least = free_penalty(problem, target, analysis)
    enough = problem.penalty >= least * (1 - ROUNDING)
    return problem if enough else replace(problem, lambda_=least / problem.n)


def require_tilt(problem: Problem, target: Promise, analysis: Analysis) -> NoiseLaw:
    """The smallest tilt; raises `GuaranteeError`, naming the smallest feasible lambda."""
    noise = smallest_tilt(problem, target, analysis)
    if noise is None:
        least = smallest_feasible_penalty(problem, target, analysis) / problem.n
        raise GuaranteeError(
            f"lambda_={problem.lambda_:g} is too small for {target} by the {analysis} bound; take "
            f"lambda_ above {least:.6g}, where the noise becomes finite, or "
            "on_small_lambda='increase'."
        )
    return noise
