"""Output perturbation: noise for how far the minimiser moves (privacy.md 3.3 and 4.1)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from privatelr.privacy.gaussian import gaussian_sd
from privatelr.privacy.guarantees import ZCDP, ApproxDP, PureDP
from privatelr.privacy.noise import GaussianNoise, NoiseLaw, SphericalLaplace

if TYPE_CHECKING:
    from privatelr.mechanisms.problem import Problem

_UP, _DOWN = 1 + 2.0**-50, 1 - 2.0**-50


def output_sensitivity(problem: Problem, tau: float = 0.0) -> float:
    """``(2 L R + 2 tau) / Lambda`` (Chaudhuri et al. 2011, Lemma 1).

    tau is the certified gradient norm of the sum form: what the solver returns is within
    ``tau / Lambda`` of the minimiser for either neighbour.
    """
    return 2 * (problem.loss.slope_bound * problem.radius + tau) / problem.penalty * _UP


def output_noise(problem: Problem, target: PureDP | ZCDP | ApproxDP, tau: float) -> NoiseLaw:
    """Noise to add to the minimiser: spherical Laplace, or Gaussian by the exact profile."""
    reach = output_sensitivity(problem, tau)
    match target:
        case PureDP():
            return SphericalLaplace(problem.d, target.epsilon / reach * _DOWN)
        case ZCDP():  # Bun and Steinke 2016, Proposition 1.6
            return GaussianNoise(problem.d, reach / math.sqrt(2 * target.rho) * _UP)
    return GaussianNoise(problem.d, gaussian_sd(target.epsilon, target.delta, reach) * _UP)
