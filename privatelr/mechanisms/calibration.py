"""Every privacy formula of the package; a function here takes public facts, never data.

Symbols as in the derivation: R the row radius, L and c the bounds on slope and curvature of
the loss, Lambda = n lambda, kappa = R^2 / Lambda, gamma the rate of the noise, eps the
target. Rates are rounded towards more noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from privatelr.errors import GuaranteeError
from privatelr.privacy.noise import NoiseLaw, SphericalLaplace

if TYPE_CHECKING:
    from privatelr.mechanisms.problem import Facts, Problem
    from privatelr.privacy.guarantees import Guarantee, PureDP
    from privatelr.types import Placement

Analysis = Literal["joint", "one-log", "cms11"]
ANALYSES: tuple[Analysis, ...] = ("joint", "one-log", "cms11")
SmallLambda = Literal["increase", "keep"]
LambdaRule = Literal["auto", "free", "PrivateLR"]
LAMBDA_RULES: tuple[LambdaRule, ...] = ("auto", "free", "PrivateLR")
PLAIN_LAMBDA = 0.001
"""Penalty of the plain fit when none is given, as in R."""
LARGEST_EXPONENT = 700.0
LARGEST_SHARE = 20.0
"""No rule lets the curvature cost more: beyond, lambda would be lost against rounding."""
ROUNDING = 1e-12
"""A lambda this close below its limit is the limit; the rate is always computed from lambda."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """A mechanism with all its numbers, computed before any data is touched.

    Attributes
    ----------
    problem : Problem
        With the lambda that is used.
    target : Guarantee
        What the release will satisfy.
    placement : str
        ``"objective"`` or ``"output"``.
    analysis : str
        The bound that fixed the rate of the noise.
    noise : NoiseLaw
        Law of the tilt b of the sum form, or of what is added to the minimiser.
    lambda_origin : str
        Where lambda comes from, in words.
    lambda_rules : tuple of (str, float)
        What each automatic rule would choose.
    alternatives : tuple of (str, float)
        Noise scale under the other analyses at this lambda.
    """

    problem: Problem
    target: Guarantee
    placement: Placement
    analysis: str
    noise: NoiseLaw
    lambda_origin: str
    lambda_rules: tuple[tuple[str, float], ...] = ()
    alternatives: tuple[tuple[str, float], ...] = ()

    @property
    def lambda_(self) -> float:
        return self.problem.lambda_

    @property
    def epsilon_effective(self) -> float:
        """The part of epsilon that buys noise; the rest pays for the curvature."""
        if self.noise.scale == 0:
            return 0.0
        problem = self.problem
        if self.placement == "output":
            return output_sensitivity(problem) / self.noise.scale
        return 2 * problem.loss.slope_bound * problem.radius / self.noise.scale

    @property
    def coefficient_sd(self) -> float:
        """Standard deviation that the noise gives a design coefficient, at most.

        Exact for output perturbation. Under objective perturbation the coefficients are a
        function of the noise with slope at most ``1 / Lambda``, so their deviation is at most
        the noise's `lipschitz_sd` over Lambda; how much smaller it is depends on the data and
        is not free. The same holds for a combination of coefficients of length one.
        """
        if self.placement == "output" or self.noise.scale == 0:
            return self.noise.coordinate_sd
        return self.noise.lipschitz_sd / self.problem.penalty

    def __str__(self) -> str:
        problem = self.problem
        lines = [
            f"{self.placement} perturbation, {self.noise.title}, target {self.target}",
            f"n = {problem.n}, d = {problem.d}, R = {problem.radius:.6g}",
            f"lambda = {self.lambda_:.6g}, {self.lambda_origin}",
        ]
        if self.noise.scale > 0:
            lines.append(
                f"noise scale {self.noise.scale:.6g} ({self.analysis} bound), "
                f"effective epsilon {self.epsilon_effective:.6g}"
            )
        if self.alternatives:
            listed = ", ".join(f"{name} {scale:.4g}" for name, scale in self.alternatives)
            lines.append(f"noise scale under other bounds at this lambda: {listed}")
        if self.lambda_rules:
            listed = ", ".join(f"{name} {value:.4g}" for name, value in self.lambda_rules)
            lines.append(f"lambda by rule: {listed}")
        return "\n".join(lines)


# -- objective perturbation: rate of the noise (privacy.md 3.1) ------------------------------


def joint_epsilon(rate: float, problem: Problem) -> float:
    """Epsilon of objective perturbation at this noise rate, by the joint bound (Theorem 3.2).

    ``g + max_s [g s + log(1 + kappa a(s))]`` with ``g = rate R L`` and the curvature
    ``a(s) = k s (1 - s)`` where the slope has size s.
    """
    factor = problem.loss.joint_factor
    if factor is None:
        raise GuaranteeError(f"analysis='joint': the {problem.loss.name} loss has no joint bound.")
    g = rate * problem.radius * problem.loss.slope_bound
    kappa = problem.kappa * factor
    if kappa <= g:
        return 2 * g
    # stationary point: g s^2 - (g - 2) s - (1 + g / kappa) = 0, without cancellation
    linear, constant = g - 2, 1 + g / kappa
    root = math.sqrt(linear**2 + 4 * g * constant)
    s = min((linear + root) / (2 * g) if linear > 0 else 2 * constant / (root - linear), 1.0)
    return g + max(g * s + math.log1p(kappa * s * (1 - s)), g)


def curvature_cost(problem: Problem) -> float:
    """``log(1 + c kappa)``, what one row can do to the determinant (Lemma 1)."""
    return math.log1p(problem.loss.curvature_bound * problem.kappa)


def objective_rate(problem: Problem, epsilon: float, analysis: Analysis) -> float:
    """Largest noise rate gamma that is epsilon-DP by this analysis; at most 0 if none is."""
    full = 2 * problem.loss.slope_bound * problem.radius
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


def smallest_feasible_penalty(problem: Problem, epsilon: float, analysis: Analysis) -> float:
    """Lambda (sum form) at which the noise of this analysis becomes infinite."""
    r2 = problem.radius**2
    if analysis == "joint":
        return (
            (problem.loss.joint_factor or 0.0)
            * r2
            / (4 * math.expm1(min(epsilon, LARGEST_EXPONENT)))
        )
    share = epsilon / (2 if analysis == "cms11" else 1)
    return _penalty_costing(problem, min(share, LARGEST_EXPONENT))


# -- lambda (privacy.md 3.2, 3.2b) -----------------------------------------------------------


def _penalty_costing(facts: Facts, share: float) -> float:
    """Lambda at which the curvature costs ``log(1 + c kappa) = share``."""
    return facts.loss.curvature_bound * facts.radius**2 / math.expm1(share)


def free_penalty(facts: Facts, epsilon: float, analysis: Analysis) -> float:
    """Smallest Lambda whose curvature is free (joint) or costs a tenth of epsilon."""
    if analysis == "joint":
        return 2 * (facts.loss.joint_factor or 0.0) * facts.radius**2 / epsilon
    share = epsilon / (20 if analysis == "cms11" else 10)
    return _penalty_costing(facts, min(share, LARGEST_SHARE))


def lambda_by_rule(rule: LambdaRule, facts: Facts, epsilon: float, analysis: Analysis) -> float:
    """Penalty of the mean objective by a data-free rule.

    ``"PrivateLR"`` solves ``2 log(1 + c kappa) = eps / 10``; ``"free"`` is `free_penalty`;
    ``"auto"`` balances noise and shrinkage at ``E|b| / W``, with the public guess
    ``W = sqrt(eps n / 6) / R`` of the length of the coefficients (privacy.md 3.2b), and never
    goes below the free penalty. Under ``analysis="cms11"`` all rules are R's.
    """
    if rule == "PrivateLR" or analysis == "cms11":
        return _penalty_costing(facts, min(epsilon / 20, LARGEST_SHARE)) / facts.n
    free = free_penalty(facts, epsilon, analysis)
    if rule == "free":
        return free / facts.n
    rate = objective_rate(facts.with_lambda(free / facts.n), epsilon, analysis)
    guess = math.sqrt(epsilon * facts.n / 6) / facts.radius
    return max(free, facts.d / rate / guess) / facts.n


def settle_lambda(
    problem: Problem, epsilon: float, analysis: Analysis, on_small_lambda: SmallLambda
) -> Problem:
    """Apply the small-lambda rule; returns the problem with the lambda that is used.

    Raises
    ------
    GuaranteeError
        Under ``"keep"``, if the curvature alone exceeds epsilon.
    """
    rate = objective_rate(problem, epsilon, analysis)
    if on_small_lambda == "keep":
        if rate <= 0:
            least = smallest_feasible_penalty(problem, epsilon, analysis) / problem.n
            raise GuaranteeError(
                f"lambda_={problem.lambda_:g} is too small for eps={epsilon:g} by the {analysis} "
                f"bound; take lambda_ above {least:.6g}, or on_small_lambda='increase'."
            )
        return problem
    if analysis == "cms11":  # as in R: only where nothing is left for the noise
        least = _penalty_costing(problem, epsilon / 4) if rate <= 0 else 0.0
    else:
        least = free_penalty(problem, epsilon, analysis)
    enough = problem.penalty >= least * (1 - ROUNDING)
    return problem if enough else replace(problem, lambda_=least / problem.n)


# -- output perturbation (privacy.md 3.3) ----------------------------------------------------


def output_sensitivity(problem: Problem) -> float:
    """``2 L R / Lambda``: how far the minimiser moves (Chaudhuri et al. 2011, Lemma 1)."""
    return 2 * problem.loss.slope_bound * problem.radius / problem.penalty


# -- from a target to a calibration ----------------------------------------------------------


def calibrate_objective(
    problem: Problem,
    target: PureDP,
    *,
    analysis: Analysis,
    on_small_lambda: SmallLambda,
    lambda_origin: str,
) -> Calibration:
    """Objective perturbation under pure epsilon-DP."""
    epsilon = target.epsilon
    settled = settle_lambda(problem, epsilon, analysis, on_small_lambda)
    if settled is not problem:
        lambda_origin = f"raised from {problem.lambda_:.6g}, which is too small for this eps"
    return Calibration(
        problem=settled,
        target=target,
        placement="objective",
        analysis=analysis,
        noise=SphericalLaplace(problem.d, objective_rate(settled, epsilon, analysis)),
        lambda_origin=lambda_origin,
        lambda_rules=_rules(problem, epsilon, analysis),
        alternatives=_alternatives(settled, epsilon, analysis),
    )


def calibrate_output(
    problem: Problem, target: PureDP, *, analysis: Analysis, lambda_origin: str
) -> Calibration:
    """Output perturbation under pure epsilon-DP; needs no condition but lambda above 0."""
    if problem.lambda_ <= 0:
        raise GuaranteeError(
            "lambda_=0: output perturbation takes lambda_ above 0, since the minimiser of an "
            "unregularised fit can move without limit."
        )
    return Calibration(
        problem=problem,
        target=target,
        placement="output",
        analysis="sensitivity",
        noise=SphericalLaplace(problem.d, target.epsilon / output_sensitivity(problem)),
        lambda_origin=lambda_origin,
        lambda_rules=_rules(problem, target.epsilon, analysis),
    )


def _rules(facts: Facts, epsilon: float, analysis: Analysis) -> tuple[tuple[str, float], ...]:
    return tuple((rule, lambda_by_rule(rule, facts, epsilon, analysis)) for rule in LAMBDA_RULES)


def _alternatives(
    problem: Problem, epsilon: float, chosen: Analysis
) -> tuple[tuple[str, float], ...]:
    others = []
    for analysis in ANALYSES:
        if analysis == chosen or (analysis == "joint" and problem.loss.joint_factor is None):
            continue
        rate = objective_rate(problem, epsilon, analysis)
        others.append((analysis, 1 / rate if rate > 0 else math.inf))
    return tuple(others)
