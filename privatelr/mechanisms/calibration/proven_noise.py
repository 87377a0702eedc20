"""All laws of noise that are proven for a target: for tilts, for output noise, and for shields.

A certified gradient of norm tau (sum form) puts the solver's result within ``tau / Lambda`` of
the minimiser, so neighbours with the same minimiser differ by at most ``2 tau / Lambda``, and a
shield of noise for that sensitivity hides it (approximate minima perturbation, Iyengar et al.
2019, with the factor 2 of privacy.md 5). It takes a hundredth of what the budget has for noise.
"""

from __future__ import annotations

import math
from dataclasses import replace

from privatelr.errors import GuaranteeError
from privatelr.mechanisms.calibration import gaussian_objective, pure
from privatelr.mechanisms.calibration.gaussian_objective import SHIELD_RATIO
from privatelr.mechanisms.problem import Problem
from privatelr.numerics.solve import EXACT_COLUMNS, resolved_norm
from privatelr.privacy import ZCDP, ApproxDP, Guarantee, Promise, PureDP, pure_within, to_zcdp
from privatelr.privacy.noise import (
    BlockLaplace,
    GaussianNoise,
    NoiseLaw,
    NoNoise,
    SphericalLaplace,
    gaussian_sd,
    log_delta,
    mean_square,
    shortest,
)

UP, DOWN = 1 + 2.0**-50, 1 - 2.0**-50
"""Factors that round a positive number up and down, used in the direction of more noise."""
_SHIELD_SHARE = 0.01
"""Share of the rate of a Laplace tilt, or of rho, that the shield gets."""
BESIDE_SHIELD = 1 - _SHIELD_SHARE
"""Share of a rate that the tilt gets, so that a part of epsilon is left for the shield."""
_NO_USE = 1e-9
"""Smallest useful rate, relative to the rate that all of epsilon would give."""
_ROUNDING = 2.0**-50
"""Share of epsilon that a few operations in doubles may lose."""


# -- tilts of the objective -----------------------------------------------------------------------


def candidates(problem: Problem, target: Promise, analysis: pure.Analysis) -> list[NoiseLaw]:
    """Every law of the tilt that is proven for a target at this lambda.

    Laplace under pure epsilon; Laplace and Gaussian under (epsilon, delta) and under zCDP, both
    of which a pure guarantee implies.
    """
    if isinstance(target, ZCDP):
        rho = tilt_rho(target.rho)
        sigma = gaussian_objective.sigma_for_rho(problem, rho, analysis)
        return laplace_tilts(problem, pure_within(rho), analysis) + _gaussian(problem, sigma)
    laplace = laplace_tilts(problem, target.epsilon, analysis, BESIDE_SHIELD)
    if isinstance(target, PureDP):
        return laplace
    return laplace + gaussian_tilts(problem, target, analysis)


def laplace_tilts(
    problem: Problem, epsilon: float, analysis: pure.Analysis, share: float = 1.0
) -> list[NoiseLaw]:
    """The Laplace laws that are epsilon-DP for these rows, the shortest first.

    Spherical noise is always valid; noise in the shape of the blocks where the design has
    blocks (Theorem 3.1b). They are compared by ``E|b|^2``, which is a public fact. Empty if
    the curvature leaves nothing of epsilon. The rate is `share` of the largest.
    """
    rate = pure.objective_rate(problem, epsilon, analysis) * share * DOWN
    if not rate * 2 * problem.loss.slope_bound > _NO_USE * epsilon:
        return []
    laws: list[NoiseLaw] = [SphericalLaplace(problem.d, rate / problem.radius * DOWN)]
    if problem.blocks:
        laws.append(BlockLaplace(problem.blocks, rate))
    return sorted(laws, key=mean_square)


def gaussian_tilts(problem: Problem, target: ApproxDP, analysis: pure.Analysis) -> list[NoiseLaw]:
    """The Gaussian law for (epsilon, delta), beside a shield; empty if none suffices."""
    if analysis == "cms11":
        raise GuaranteeError(
            "analysis='cms11': that bound is about pure epsilon; with delta above 0 analysis takes "
            "'joint' or 'one-log'."
        )
    sigma = gaussian_objective.objective_sigma(
        problem, target.epsilon, target.delta, shield_ratio=SHIELD_RATIO, analysis=analysis
    )
    return _gaussian(problem, sigma)


def _gaussian(problem: Problem, sigma: float) -> list[NoiseLaw]:
    return [GaussianNoise(problem.d, sigma)] if math.isfinite(sigma) else []


def tilt_epsilon(noise: NoiseLaw, problem: Problem, analysis: str) -> float:
    """Return the epsilon that a Laplace tilt spends."""
    return pure.objective_epsilon(relative_rate(noise, problem), problem, analysis)


def relative_rate(noise: NoiseLaw, problem: Problem) -> float:
    """Rate of a Laplace tilt relative to R, whatever its shape; see `calibration.pure`."""
    rate = 1.0 / noise.scale
    return rate * problem.radius if isinstance(noise, SphericalLaplace) else rate


# -- noise on a vector ----------------------------------------------------------------------------


def output_sensitivity(problem: Problem, tau: float = 0.0) -> float:
    """``(2 L R + 2 tau) / Lambda`` (Chaudhuri et al. 2011, Lemma 1; privacy.md 3.3).

    tau is the certified gradient norm of the sum form: what the solver returns is within
    ``tau / Lambda`` of the minimiser for either neighbour.
    """
    return 2 * (problem.reach + tau) / problem.penalty * UP


def laws_hiding(sensitivity: float, d: int, target: Promise) -> list[NoiseLaw]:
    """Laws of noise that hide a vector ``(d,)`` moved by this Euclidean distance.

    Spherical Laplace noise by the pure epsilon that implies the target, and Gaussian noise by
    the exact profile (privacy.md 4.1).
    """
    epsilon = pure_within(target.rho) if isinstance(target, ZCDP) else target.epsilon
    laplace = SphericalLaplace(d, epsilon / sensitivity * DOWN)
    match target:
        case PureDP():
            return [laplace]
        case ZCDP():
            return [laplace, gaussian_within(sensitivity, d, target)]
    sd = gaussian_sd(target.epsilon, target.delta, sensitivity) * UP
    return [laplace, GaussianNoise(d, sd)]


def require_law(
    laws: list[NoiseLaw], target: Promise, kinds: tuple[type[NoiseLaw], ...] = ()
) -> NoiseLaw:
    """Return the shortest law, of one of the `kinds` if given; raises an error if there is none."""
    noise = shortest(laws, kinds)
    if noise is None:
        raise GuaranteeError(f"{target}: no noise of that kind is proven for it.")
    return noise


def gaussian_within(sensitivity: float, d: int, target: ZCDP) -> GaussianNoise:
    """Gaussian noise for rho (Bun and Steinke 2016, Proposition 1.6)."""
    return GaussianNoise(d, sensitivity / math.sqrt(2 * target.rho) * UP)


def worth_hiding(noise: NoiseLaw, reach: float, target: Guarantee) -> Guarantee | None:
    """What noise is worth that hides a vector moved by `reach`, in the terms of a target.

    A pure guarantee says more than (epsilon, delta), and is stated as it is. None if nothing is
    proven about the noise for such a target.
    """
    match noise, target:
        case SphericalLaplace(), PureDP() | ApproxDP():
            return PureDP(reach * noise.rate, target.neighbours)
        case SphericalLaplace(), ZCDP():
            return to_zcdp(PureDP(reach * noise.rate, target.neighbours))
        case GaussianNoise(), ZCDP():
            return replace(target, rho=(reach / noise.sd) ** 2 / 2)
        case GaussianNoise(), ApproxDP():
            delta = math.exp(log_delta(target.epsilon, reach / noise.sd))
            return replace(target, delta=max(delta, 5e-324))
    return None


# -- what a solver leaves open --------------------------------------------------------------------

_RESOLUTION = 2.0**-47
"""Relative resolution of a sum over rows in doubles, with a margin of a few bits."""
_BASE_COLUMNS = 16
"""Number of columns that is added to d, for the operations whose number does not depend on d."""
_USUAL_CURVATURE = 0.25
"""Largest curvature of the logistic loss; losses of larger curvature are resolved less well."""
_GRID = 1e-3
"""Largest grid step of a release, relative to the standard deviation of the noise."""
_LONGER = 2.0
"""Ratio of length to root mean square length that a tilt of many columns never exceeds."""
_DRAWN = 16
"""Bound on the relative error of a tilt of many columns in doubles, over `_RESOLUTION`."""


def certified_norm(problem: Problem, noise: NoiseLaw) -> float:
    """tau: the gradient norm of the sum form that a release is certified to; public.

    A multiple of what doubles resolve: n rows of length R in d columns, and the tilt. Slopes
    are resolved the less the more sharply the loss bends. For many columns it is what doubles
    reach whatever the rows hold, as nothing else would in time: the shield pays.
    """
    tilt = math.sqrt(mean_square(noise))
    n, d, loss = problem.n, problem.d, problem.loss
    if d > EXACT_COLUMNS:
        longest = _LONGER * tilt
        least = resolved_norm(loss, n, d, problem.radius, problem.lambda_, longest)
        return least + _DRAWN * _RESOLUTION * longest
    bend = max(1.0, loss.curvature_bound / _USUAL_CURVATURE)
    return _RESOLUTION * ((d + _BASE_COLUMNS) * n * problem.reach * bend + tilt)


def tilt_rho(rho: float) -> float:
    """What is left of rho for the tilt; with the shield's share at most the whole."""
    return math.nextafter(rho - _SHIELD_SHARE * rho, 0.0)


def shield_for(
    problem: Problem, target: Promise, analysis: pure.Analysis, noise: NoiseLaw, tau: float
) -> NoiseLaw:
    """Noise for sensitivity ``2 tau / Lambda`` by what a tilt leaves of the target.

    It is of the tilt's own kind; but of rho, which both kinds have, it is Gaussian.
    """
    reach = 2 * tau / problem.penalty
    if isinstance(target, ZCDP):
        return gaussian_within(reach, problem.d, replace(target, rho=_SHIELD_SHARE * target.rho))
    if isinstance(noise, GaussianNoise):
        mu = SHIELD_RATIO * problem.reach / noise.scale
        return GaussianNoise(problem.d, reach / mu * UP)
    epsilon = target.epsilon
    left = epsilon - tilt_epsilon(noise, problem, analysis) - _ROUNDING * epsilon
    return laws_hiding(reach, problem.d, PureDP(left))[0]


def grid_for(noise: NoiseLaw) -> float:
    """Power of two at most a thousandth of the noise's deviation: what releases are rounded to."""
    if isinstance(noise, NoNoise):
        return 0.0
    spread = math.sqrt(float(noise.variances.min()))
    return float(2.0 ** math.floor(math.log2(_GRID * spread)))
