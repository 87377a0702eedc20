"""Output perturbation: noise for how far the minimiser moves (privacy.md 3.3 and 4.1)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from privatelr.privacy import ZCDP, ApproxDP, Guarantee, Promise, PureDP, pure_within, to_zcdp
from privatelr.privacy.noise import (
    GaussianNoise,
    NoiseLaw,
    SphericalLaplace,
    gaussian_sd,
    log_delta,
    mean_square,
)

if TYPE_CHECKING:
    from privatelr.mechanisms.problem import Problem

UP, DOWN = 1 + 2.0**-50, 1 - 2.0**-50
"""Factors that round a number away from and towards zero: always towards more noise."""


def output_sensitivity(problem: Problem, tau: float = 0.0) -> float:
    """``(2 L R + 2 tau) / Lambda`` (Chaudhuri et al. 2011, Lemma 1).

    tau is the certified gradient norm of the sum form: what the solver returns is within
    ``tau / Lambda`` of the minimiser for either neighbour.
    """
    return 2 * (problem.reach + tau) / problem.penalty * UP


def output_laws(problem: Problem, target: Promise, tau: float) -> list[NoiseLaw]:
    """Every law that is proven for what is added to the minimiser."""
    return laws_hiding(output_sensitivity(problem, tau), problem.d, target)


def noise_hiding(sensitivity: float, d: int, target: Promise) -> NoiseLaw:
    """The shortest of `laws_hiding`."""
    return min(laws_hiding(sensitivity, d, target), key=mean_square)


def laws_hiding(sensitivity: float, d: int, target: Promise) -> list[NoiseLaw]:
    """Laws of noise that hide a vector ``(d,)`` moved by this Euclidean distance.

    Spherical Laplace noise by the pure epsilon that implies the target, and Gaussian noise by
    the exact profile.
    """
    match target:
        case PureDP():
            return [_laplace(sensitivity, d, target.epsilon)]
        case ZCDP():
            laplace = _laplace(sensitivity, d, pure_within(target.rho))
            return [laplace, gaussian_within(sensitivity, d, target)]
    sd = gaussian_sd(target.epsilon, target.delta, sensitivity) * UP
    return [_laplace(sensitivity, d, target.epsilon), GaussianNoise(d, sd)]


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
            return ZCDP((reach / noise.sd) ** 2 / 2, target.neighbours)
        case GaussianNoise(), ApproxDP():
            delta = math.exp(log_delta(target.epsilon, reach / noise.sd))
            return ApproxDP(target.epsilon, max(delta, 5e-324), target.neighbours)
    return None


def gaussian_within(sensitivity: float, d: int, target: ZCDP) -> GaussianNoise:
    """Gaussian noise for rho (Bun and Steinke 2016, Proposition 1.6)."""
    return GaussianNoise(d, sensitivity / math.sqrt(2 * target.rho) * UP)


def _laplace(sensitivity: float, d: int, epsilon: float) -> SphericalLaplace:
    return SphericalLaplace(d, epsilon / sensitivity * DOWN)
