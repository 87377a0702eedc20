"""The law of the tilt b of objective perturbation: the smallest noise for a target."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from privatelr.errors import GuaranteeError
from privatelr.mechanisms.calibration import gaussian_objective, pure, zcdp
from privatelr.mechanisms.calibration.approximate_minimum import SHARE, SHIELD_RATIO, tilt_rho
from privatelr.mechanisms.calibration.output_noise import DOWN
from privatelr.privacy import ZCDP, ApproxDP, Promise, PureDP, pure_within
from privatelr.privacy.noise import (
    BlockLaplace,
    GaussianNoise,
    NoiseLaw,
    SphericalLaplace,
    mean_square,
)

if TYPE_CHECKING:
    from privatelr.mechanisms.calibration.pure import Analysis
    from privatelr.mechanisms.problem import Problem


BESIDE_SHIELD = 1 - SHARE
"""Share of a rate that leaves a part of epsilon to a shield, however little there is for noise."""
_NO_USE = 1e-9
"""Share of the rate that epsilon alone would give, below which a rate is as good as none."""


def laplace_tilts(
    problem: Problem, epsilon: float, analysis: Analysis, share: float = 1.0
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


def relative_rate(noise: NoiseLaw, problem: Problem) -> float:
    """Rate of a Laplace tilt relative to R, whatever its shape; see `calibration.pure`."""
    rate = 1.0 / noise.scale
    return rate * problem.radius if isinstance(noise, SphericalLaplace) else rate


def candidates(problem: Problem, target: Promise, analysis: Analysis) -> list[NoiseLaw]:
    """Every law that is proven for a target at this lambda.

    Laplace under pure epsilon; Laplace and Gaussian under (epsilon, delta) and under zCDP, both
    of which a pure guarantee implies.
    """
    match target:
        case PureDP():
            return laplace_tilts(problem, target.epsilon, analysis, BESIDE_SHIELD)
        case ZCDP():
            rho = tilt_rho(target.rho)
            sigma = zcdp.objective_sigma(problem, rho, analysis)
            laplace = laplace_tilts(problem, pure_within(rho), analysis)
            return laplace + _gaussian(problem, sigma)
    laplace = laplace_tilts(problem, target.epsilon, analysis, BESIDE_SHIELD)
    return laplace + gaussian_tilts(problem, target, analysis)


def gaussian_tilts(problem: Problem, target: ApproxDP, analysis: Analysis) -> list[NoiseLaw]:
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
