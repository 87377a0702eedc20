"""Where lambda comes from: data-free rules, and what happens to one that is too small.

privacy.md 3.2 and 3.2b for pure epsilon, 4.2 for Gaussian noise; under (epsilon, delta) either.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from privatelr.errors import GuaranteeError
from privatelr.mechanisms.calibration import gaussian_objective, pure, zcdp
from privatelr.mechanisms.calibration.approximate_minimum import (
    SHIELD_RATIO,
    certified_norm,
    tilt_rho,
)
from privatelr.mechanisms.calibration.objective_noise import (
    BESIDE_SHIELD,
    candidates,
    gaussian_tilts,
    laplace_tilts,
)
from privatelr.mechanisms.calibration.output_noise import output_laws
from privatelr.privacy import ZCDP, ApproxDP, Promise, PureDP, pure_within
from privatelr.privacy.noise import (
    BlockLaplace,
    GaussianNoise,
    NoiseLaw,
    NoNoise,
    SphericalLaplace,
    mean_square,
    shortest,
)
from privatelr.types import Placement

if TYPE_CHECKING:
    from privatelr.mechanisms.calibration.pure import Analysis
    from privatelr.mechanisms.problem import Facts, Problem

SmallLambda = Literal["increase", "keep"]
LambdaRule = Literal["auto", "free", "PrivateLR"]
LAMBDA_RULES: tuple[LambdaRule, ...] = ("auto", "free", "PrivateLR")
PLAIN_LAMBDA = 0.001
"""Penalty of the plain fit when none is given, as in R."""
LAPLACE: tuple[type[NoiseLaw], ...] = (SphericalLaplace, BlockLaplace)
GAUSSIAN: tuple[type[NoiseLaw], ...] = (GaussianNoise,)
ROUNDING = 1e-12
"""A lambda this close below its limit is the limit; the noise is always computed from lambda."""


def nominal_epsilon(target: Promise) -> float:
    """An epsilon of the size of the target, for rules that need one and no proof."""
    return math.sqrt(2 * target.rho) if isinstance(target, ZCDP) else target.epsilon


def free_penalty(
    facts: Facts,
    target: Promise,
    analysis: Analysis,
    at_least: float = 0.0,
    kinds: tuple[type[NoiseLaw], ...] = (),
) -> float:
    """Smallest Lambda (sum form), from `at_least` on, whose curvature costs little or nothing.

    Under (epsilon, delta) each kind of noise has its own; it is that of the kind which is then
    the shorter one, if given among `kinds`.
    """
    match target:
        case PureDP():
            return max(at_least, pure.free_penalty(facts, target.epsilon, analysis))
        case ZCDP():
            return max(at_least, pure.free_penalty(facts, pure_within(target.rho), analysis))
    laplace = max(at_least, pure.free_penalty(facts, target.epsilon, analysis))
    found = [
        (laplace, laplace_tilts(_with(facts, laplace), target.epsilon, analysis, BESIDE_SHIELD))
    ]
    with suppress(GuaranteeError):  # Laplace noise may be the only one that suffices
        normal = max(at_least, _free_of_gaussian(facts, target, analysis))
        found.append((normal, gaussian_tilts(_with(facts, normal), target, analysis)))
    sizes = {penalty: mean_square(law) for penalty, laws in found if (law := shortest(laws, kinds))}
    return min(sizes, key=lambda penalty: sizes[penalty], default=laplace)


def _free_of_gaussian(facts: Facts, target: ApproxDP, analysis: Analysis) -> float:
    return gaussian_objective.free_penalty(
        facts, target, shield_ratio=SHIELD_RATIO, analysis=analysis
    )


def _with(facts: Facts, penalty: float) -> Problem:
    return facts.with_lambda(penalty / facts.n)


def smallest_feasible_penalty(facts: Facts, target: Promise, analysis: Analysis) -> float:
    """Lambda (sum form) below which no noise suffices."""
    match target:
        case PureDP():
            return pure.smallest_feasible_penalty(facts, target.epsilon, analysis)
        case ZCDP():
            rho = tilt_rho(target.rho)
            laplace = pure.smallest_feasible_penalty(facts, pure_within(rho), analysis)
            return min(laplace, zcdp.smallest_feasible_penalty(facts, rho))
    laplace = pure.smallest_feasible_penalty(facts, target.epsilon, analysis)
    with suppress(GuaranteeError):
        normal = gaussian_objective.smallest_feasible_penalty(
            facts, target, shield_ratio=SHIELD_RATIO, analysis=analysis
        )
        return min(laplace, normal)
    return laplace


def lambda_by_rule(
    rule: LambdaRule,
    facts: Facts,
    target: Promise,
    analysis: Analysis,
    placement: Placement = "objective",
) -> float:
    """Penalty of the mean objective by a data-free rule.

    ``"PrivateLR"`` solves ``2 log(1 + c kappa) = eps / 10``; ``"free"`` is `free_penalty`;
    ``"auto"`` balances noise and shrinkage at ``E|b| / W``, with the public guess
    ``W = sqrt(eps n / 6) / R`` of the length of the coefficients (privacy.md 3.2b), and never
    goes below the free penalty. Under (epsilon, delta) Laplace and Gaussian noise each have a
    penalty of their own by ``"auto"``, and the one with the least `expected_excess` is taken.
    Under ``analysis="cms11"`` all rules are R's.
    """
    epsilon = nominal_epsilon(target)
    if rule == "PrivateLR" or analysis == "cms11":
        return pure.penalty_costing(facts, min(epsilon / 20, pure.LARGEST_SHARE)) / facts.n
    if rule == "free":
        return free_penalty(facts, target, analysis) / facts.n
    match target:
        case PureDP():
            free = free_penalty(facts, target, analysis)
            # by the whole of epsilon, so that the rule is the published one whatever a shield takes
            noise = laplace_tilts(_with(facts, free), epsilon, analysis)[0]
            return _balanced(facts, epsilon, free, noise)
        case ZCDP():
            free = free_penalty(facts, target, analysis)
            noise = require_tilt(_with(facts, free), target, analysis)
            return _balanced(facts, epsilon, free, noise)
    found = [(lambda_by_rule("auto", facts, PureDP(epsilon), analysis), LAPLACE)]
    with suppress(GuaranteeError):
        free = _free_of_gaussian(facts, target, analysis)
        for noise in gaussian_tilts(_with(facts, free), target, analysis):
            found.append((_balanced(facts, epsilon, free, noise), GAUSSIAN))

    def excess(candidate: tuple[float, tuple[type[NoiseLaw], ...]]) -> float:
        value, kinds = candidate
        return expected_excess(facts.with_lambda(value), target, analysis, placement, kinds)

    return min(found, key=excess)[0]


def _balanced(facts: Facts, epsilon: float, free: float, noise: NoiseLaw) -> float:
    return max(free, noise.mean_length / guessed_length(facts, epsilon)) / facts.n


def guessed_length(facts: Facts, epsilon: float) -> float:
    """W, a public guess of how long the coefficients are."""
    return math.sqrt(epsilon * facts.n / 6) / facts.radius


def expected_excess(
    problem: Problem,
    target: Promise,
    analysis: Analysis,
    placement: Placement,
    kinds: tuple[type[NoiseLaw], ...] = (),
) -> float:
    """``E|b|^2 / (2 Lambda) + Lambda W^2 / 2``: what noise and shrinkage cost, by the guess W.

    Of the shortest noise, if given of one of these kinds.

    Noise z on the minimiser counts as the tilt ``Lambda z``, which would move it as far where
    the penalty is all the curvature there is (privacy.md 4.2).
    """
    penalty = problem.penalty
    if placement == "objective":
        size = mean_square(require_tilt(problem, target, analysis, kinds))
    else:
        laws = output_laws(problem, target, certified_norm(problem, NoNoise(problem.d)))
        size = penalty**2 * min(
            mean_square(law) for law in laws if not kinds or isinstance(law, kinds)
        )
    guess = guessed_length(problem, nominal_epsilon(target))
    return size / (2 * penalty) + penalty * guess**2 / 2


def all_rules(
    facts: Facts, target: Promise, analysis: Analysis, placement: Placement
) -> tuple[tuple[str, float], ...]:
    """What each rule would choose, for the record."""
    found = []
    for rule in LAMBDA_RULES:
        with suppress(GuaranteeError):  # a rule that has no answer is not listed
            found.append((rule, lambda_by_rule(rule, facts, target, analysis, placement)))
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
        least = free_penalty(problem, target, analysis, at_least=problem.penalty)
    enough = problem.penalty >= least * (1 - ROUNDING)
    return problem if enough else replace(problem, lambda_=least / problem.n)


def require_tilt(
    problem: Problem, target: Promise, analysis: Analysis, kinds: tuple[type[NoiseLaw], ...] = ()
) -> NoiseLaw:
    """The smallest tilt; raises `GuaranteeError`, naming the smallest feasible lambda."""
    noise = shortest(candidates(problem, target, analysis), kinds)
    if noise is None:
        least = smallest_feasible_penalty(problem, target, analysis) / problem.n
        raise GuaranteeError(
            f"lambda_={problem.lambda_:g} is too small for {target} under analysis={analysis!r}; "
            f"take lambda_ above {least:.6g}, where the noise becomes finite, or "
            "on_small_lambda='increase'."
        )
    return noise
