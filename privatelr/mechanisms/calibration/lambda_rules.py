"""Data-free rules for lambda, and the treatment of a lambda that is too small.

Some rules are for pure epsilon, and some for Gaussian noise. Under (epsilon, delta) both are tried.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Literal

from privatelr.errors import GuaranteeError
from privatelr.mechanisms.calibration import gaussian_objective, proven_noise, pure
from privatelr.mechanisms.calibration.proven_noise import gaussian_tilts, laplace_tilts
from privatelr.mechanisms.problem import Problem
from privatelr.privacy import ZCDP, ApproxDP, Promise, PureDP, pure_within
from privatelr.privacy.noise import (
    GaussianNoise,
    LaplaceNoise,
    NoiseLaw,
    mean_square,
    pure_part,
    shortest,
)
from privatelr.types import Placement

SmallLambda = Literal["increase", "keep"]
LambdaRule = Literal["auto", "free", "PrivateLR"]
LAMBDA_RULES: tuple[LambdaRule, ...] = ("auto", "free", "PrivateLR")
Kinds = tuple[type[NoiseLaw], ...]
"""Laws of noise to choose from; all of them if there are none."""
GAUSSIAN: Kinds = (GaussianNoise,)
LAPLACE: Kinds = (LaplaceNoise,)
PLAIN_LAMBDA = 0.001
"""Penalty of the mean objective of a plain fit for which none is given, as in R."""
_KEPT, _SMALLER = 0.9, 4.0
"""Share of the precision of the noise that is left where a step takes the penalty off, and how much
smaller than a free penalty one may be for it."""
_KEPT_OF_ALL = 0.993
"""Share of the precision of a sample that is left with output noise where a step follows: the
noise is then a twelfth of a standard error (``python -m tests.studies.lengths``)."""
_ROUNDING = 1e-12
"""Largest relative distance below its limit at which lambda is still taken for large enough."""


def nominal_epsilon(target: Promise) -> float:
    """Return an epsilon that is comparable with the target, for rules that do not need a proof."""
    return math.sqrt(2 * target.rho) if isinstance(target, ZCDP) else target.epsilon


def guessed_length(facts: Problem, target: Promise) -> float:
    """Return W, a public guess of the length of the coefficients."""
    return math.sqrt(nominal_epsilon(target) * facts.n / 6) / facts.radius


def free_penalty(
    facts: Problem,
    target: Promise,
    analysis: pure.Analysis,
    at_least: float = 0.0,
    kinds: Kinds = (),
    kept: float = 1.0,
) -> float:
    """Return the smallest Lambda (sum form) from `at_least` whose curvature costs almost nothing.

    Under (epsilon, delta) each kind of noise has such a Lambda, and the result is that of the kind
    whose noise is shorter at its own Lambda, among `kinds` if given.
    The curvature may cost more, if `kept` of the precision of the noise is left.
    """
    epsilon = pure_part(target)
    laplace = max(at_least, pure.laplace_free_penalty(facts, epsilon, analysis, kept))
    if not isinstance(target, ApproxDP) or not within(kinds, GAUSSIAN):
        return laplace
    at = facts.with_lambda(laplace / facts.n)
    found = {laplace: laplace_tilts(at, epsilon, analysis, proven_noise.BESIDE_SHIELD)}
    with suppress(GuaranteeError):  # perhaps only Laplace noise suffices
        least = gaussian_objective.gaussian_free_penalty(facts, target, analysis, kept)
        normal = max(at_least, least)
        at = facts.with_lambda(normal / facts.n)
        found[normal] = found.get(normal, []) + gaussian_tilts(at, target, analysis)
    sizes = {
        penalty: mean_square(law)
        for penalty, laws in found.items()
        if (law := shortest(laws, kinds))
    }
    return min(sizes, key=lambda penalty: sizes[penalty], default=laplace)


def lambda_by_rule(
    rule: LambdaRule,
    facts: Problem,
    target: Promise,
    analysis: pure.Analysis,
    placement: Placement = "objective",
    kinds: Kinds = (),
    *,
    corrected: bool = False,
) -> float:
    """Return the penalty of the mean objective by a data-free rule.

    A rule is a function of public facts, so its lambda costs nothing and may be published.
    ``"PrivateLR"`` solves ``2 log(1 + c kappa) = eps / 10``. ``"free"`` is `free_penalty`.
    ``"auto"`` balances noise and shrinkage at ``E|b| / W``, with the public guess
    ``W = sqrt(eps n / 6) / R`` of the length of the coefficients, and is never below the free
    penalty. Under (epsilon, delta) Laplace and Gaussian noise each have a penalty of their own by
    ``"auto"``, and the one with the least `expected_excess` is returned, of the laws in `kinds` if
    these are given. If a step takes the penalty off the estimates (`corrected`), it is the smallest
    penalty that leaves `_KEPT` of the precision of the noise, because the step is right to first
    order only. In output placement ``"auto"`` is `output_balance`. Under ``analysis="cms11"``
    all rules are R's.
    """
    if rule == "PrivateLR" or analysis == "cms11":
        share = min(nominal_epsilon(target) / 20, pure.LARGEST_SHARE)
        return pure.penalty_costing(facts, share) / facts.n
    if rule == "free":
        return free_penalty(facts, target, analysis, kinds=kinds) / facts.n
    if placement == "output":
        return output_balance(facts, target, kinds, corrected=corrected) / facts.n
    if corrected:
        free = free_penalty(facts, target, analysis, kinds=kinds)
        kept = free_penalty(facts, target, analysis, kinds=kinds, kept=_KEPT)
        return max(kept, free / _SMALLER) / facts.n

    length = guessed_length(facts, target)
    if not isinstance(target, ApproxDP):
        free = free_penalty(facts, target, analysis)
        at = facts.with_lambda(free / facts.n)
        # E|b| is that of noise with the whole epsilon, as the rule was studied, although a shield
        # takes a part of it
        laws = (
            laplace_tilts(at, target.epsilon, analysis)
            if isinstance(target, PureDP)
            else proven_noise.candidates(at, target, analysis)
        )
        noise = shortest(laws)
        if noise is None:
            raise no_tilt(at, target, analysis)
        return max(free, noise.mean_length / length) / facts.n
    laplace = lambda_by_rule("auto", facts, PureDP(pure_part(target)), analysis)
    if not within(kinds, GAUSSIAN):
        return laplace
    found = [(laplace, LAPLACE)]
    with suppress(GuaranteeError):
        free = gaussian_objective.gaussian_free_penalty(facts, target, analysis)
        at = facts.with_lambda(free / facts.n)
        for noise in gaussian_tilts(at, target, analysis):
            found.append((max(free, noise.mean_length / length) / facts.n, GAUSSIAN))

    def excess(candidate: tuple[float, Kinds]) -> float:
        value, kinds = candidate
        return expected_excess(facts.with_lambda(value), target, analysis, kinds)

    meant = [one for one in found if within(kinds, one[1])]
    return min(meant or found, key=excess)[0]


def output_balance(
    facts: Problem, target: Promise, kinds: Kinds = (), *, corrected: bool = False
) -> float:
    """Return the Lambda (sum form) at which output noise is as large as the shrinkage.

    A step may take the shrinkage off, but only to first order (`corrected`). Then Lambda is smaller
    if noise can be larger: `_KEPT_OF_ALL` of the precision of a usual sample has to be left.

    Noise on a minimiser is ``B / Lambda``, where B is the same for each Lambda. The penalty shrinks
    the coefficients by ``Lambda W / (n h)``. Both are public guesses: a column has the mean square
    ``s = R**2 / (16 d)``, coefficients have the length ``W = s**-0.5``, with which the linear
    predictor has variance 1, and the loss half of its largest curvature c, so that ``h = c s / 2``.
    """
    laws = proven_noise.laws_hiding(2 * facts.reach, facts.size, target)
    noise = shortest(laws, kinds) or proven_noise.require_law(laws, target)
    square = facts.radius**2 / (16 * facts.d)
    curvature = facts.loss.curvature_bound / 2 * square
    size, sampling = math.sqrt(mean_square(noise)), math.sqrt(facts.d / (facts.n * curvature))
    balance = math.sqrt(size * facts.n * curvature * math.sqrt(square))
    most = size / sampling * math.sqrt(_KEPT_OF_ALL / (1 - _KEPT_OF_ALL)) if corrected else balance
    return min(balance, most)


def within(kinds: Kinds, meant: Kinds) -> Kinds:
    """Return those of these kinds that are also of a kind in `meant`; no kinds stand for all."""
    return tuple(kind for kind in kinds if issubclass(kind, meant)) if kinds else meant


def expected_excess(
    problem: Problem, target: Promise, analysis: pure.Analysis, kinds: Kinds = ()
) -> float:
    """Return ``E|b|^2 / (2 Lambda) + Lambda W^2 / 2``: what noise and shrinkage cost, by the guess.

    theory.md 4.2. W is `guessed_length`, and b is the shortest noise of objective perturbation, of
    these kinds if any are given.
    """
    noise = shortest(proven_noise.candidates(problem, target, analysis), kinds)
    if noise is None:
        raise no_tilt(problem, target, analysis)
    size = mean_square(noise)
    penalty = problem.penalty
    return size / (2 * penalty) + penalty * guessed_length(problem, target) ** 2 / 2


def origin_of(
    rule: LambdaRule,
    rules: dict[LambdaRule, float],
    facts: Problem,
    target: Promise,
    analysis: pure.Analysis,
    placement: Placement,
    *,
    corrected: bool = False,
) -> str:
    """Say in words where a lambda by one of these rules comes from.

    ``"auto"`` is described as ``"free"`` if it is equal to the free penalty; under
    (epsilon, delta) that of either kind of noise counts.
    """
    if rule == "PrivateLR" or analysis == "cms11":
        return "automatic, PrivateLR's rule"
    if corrected and rule == "auto" and placement == "objective":
        return "automatic, small because one step takes it off the estimates"

    agrees = partial(math.isclose, rules[rule], rel_tol=1e-9)
    by_laplace = isinstance(target, ApproxDP) and agrees(
        pure.laplace_free_penalty(facts, pure_part(target), analysis) / facts.n
    )
    if not by_laplace and not agrees(rules["free"]):
        return "automatic, balances noise and shrinkage for a guess of the coefficients"
    joint = analysis == "joint"
    if placement == "output":
        told = "would be free in objective perturbation"
        free = joint and not facts.is_multinomial
        return f"automatic, what {told if free else 'objective perturbation would take'}"
    if isinstance(target, ZCDP):
        free = joint and not facts.is_multinomial
        cost = "be free under" if free else "cost a tenth of"
        return f"automatic, what would {cost} the pure epsilon that implies this rho"
    if isinstance(target, ApproxDP) and not by_laplace:
        return "automatic, the smallest that adds at most 2 % to the noise"
    cost = "adds nothing to the noise" if joint else "costs a tenth of eps"
    if joint and facts.is_multinomial:
        cost = "leaves nine tenths of the rate of the noise"
    return f"automatic, the smallest that {cost}"


def settle_lambda(
    problem: Problem, target: Promise, analysis: pure.Analysis, on_small_lambda: SmallLambda
) -> Problem:
    """Return the problem with the lambda that is used: raised if it is too small.

    Under ``"keep"`` it is the one that was asked for; it is refused if no noise
    suffices.
    """
    if on_small_lambda == "keep":
        return problem
    if analysis == "cms11" and isinstance(target, PureDP):
        # as in R, lambda is raised only if the curvature leaves nothing of epsilon for the noise
        feasible = laplace_tilts(problem, target.epsilon, analysis)
        share = min(target.epsilon / 4, pure.LARGEST_EXPONENT)
        least = 0.0 if feasible else pure.penalty_costing(problem, share)
    else:
        least = free_penalty(problem, target, analysis, at_least=problem.penalty)
    enough = problem.penalty >= least * (1 - _ROUNDING)
    return problem if enough else replace(problem, lambda_=least / problem.n)


def no_tilt(problem: Problem, target: Promise, analysis: pure.Analysis) -> GuaranteeError:
    """Return the error that names the smallest feasible lambda."""
    least = _smallest_feasible_penalty(problem, target, analysis) / problem.n
    return GuaranteeError(
        f"lambda_={problem.lambda_:g} is too small for {target} under analysis={analysis!r}; take "
        f"lambda_ above {least:.6g}, where the noise becomes finite, or on_small_lambda='increase'."
    )


def _smallest_feasible_penalty(facts: Problem, target: Promise, analysis: pure.Analysis) -> float:
    """Return the Lambda (sum form) below which no noise suffices."""
    if isinstance(target, ZCDP):
        rho = proven_noise.tilt_rho(target.rho)
        laplace = pure.smallest_feasible_penalty(facts, pure_within(rho), analysis)
        # above the second one some Gaussian noise suffices, even if curvature is paid in full
        return min(laplace, pure.penalty_costing(facts, min(rho, pure.LARGEST_EXPONENT)))
    laplace = pure.smallest_feasible_penalty(facts, pure_part(target), analysis)
    if isinstance(target, ApproxDP):
        with suppress(GuaranteeError):
            normal = gaussian_objective.smallest_feasible_penalty(facts, target, analysis)
            return min(laplace, normal)
    return laplace
