"""Output perturbation: noise for how far the minimiser moves (privacy.md 3.3 and 4.1)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from privatelr.privacy.gaussian import gaussian_sd
from privatelr.privacy.guarantees import ZCDP, Promise, PureDP
from privatelr.privacy.noise import GaussianNoise, NoiseLaw, SphericalLaplace

if TYPE_CHECKING:
    from privatelr.mechanisms.problem import Problem

UP, DOWN = 1 + 2.0**-50, 1 - 2.0**-50
"""Rounding, always towards more noise."""


def output_sensitivity(problem: Problem, tau: float = 0.0) -> float:
    """``(2 L R + 2 tau) / Lambda`` (Chaudhuri et al. 2011, Lemma 1).

    tau is the certified gradient norm of the sum form: what the solver returns is within
    ``tau / Lambda`` of the minimiser for either neighbour.
    """
    return 2 * (problem.reach + tau) / problem.penalty * UP


def output_noise(problem: Problem, target: Promise, tau: float) -> NoiseLaw:
    """Noise to add to the minimiser."""
    return noise_hiding(output_sensitivity(problem, tau), problem.d, target)


def noise_hiding(sensitivity: float, d: int, target: Promise) -> NoiseLaw:
    """Noise that hides a vector ``(d,)`` moved by this Euclidean distance.

    Spherical Laplace, or Gaussian by the exact profile.
    """
    match target:
        case PureDP():
            return SphericalLaplace(d, target.epsilon / sensitivity * DOWN)
        case ZCDP():  # Bun and Steinke 2016, Proposition 1.6
            return GaussianNoise(d, sensitivity / math.sqrt(2 * target.rho) * UP)
    return GaussianNoise(d, gaussian_sd(target.epsilon, target.delta, sensitivity) * UP)
