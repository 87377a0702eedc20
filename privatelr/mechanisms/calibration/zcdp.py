"""Zero-concentrated DP: Gaussian noise by the Renyi bound of privacy.md 4.3."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from privatelr.mechanisms.calibration.pure import LARGEST_EXPONENT, curvature_cost, penalty_costing
from privatelr.privacy import FIRST_ORDER

if TYPE_CHECKING:
    from privatelr.mechanisms.calibration.pure import Analysis
    from privatelr.mechanisms.problem import Facts, Problem


def objective_rho(problem: Problem, sigma: float, analysis: Analysis) -> float:
    """The rho of Gaussian objective perturbation.

    Its Renyi divergence of order a is at most ``2 a m^2 + cost + min(.1409 / (a - 1), .798 m)``,
    the cost being that of the curvature, or 0 for losses with a joint bound and
    ``kappa <= m^2 / 2``. Over a, the most is asked as a falls to 1.
    """
    m = problem.reach / sigma
    return 2 * m * m + FIRST_ORDER * m + _cost(problem, m, analysis)


def _cost(problem: Problem, m: float, analysis: Analysis) -> float:
    factor = problem.loss.joint_factor
    free = factor is not None and analysis == "joint" and problem.kappa * factor <= m * m / 2
    return 0.0 if free else curvature_cost(problem)


def objective_sigma(problem: Problem, rho: float, analysis: Analysis) -> float:
    """Smallest sigma for rho; infinity if the curvature alone exceeds it."""
    unit = problem.reach
    free = _largest_m(rho)
    if objective_rho(problem, unit / free, analysis) <= rho:
        return unit / free
    rest = rho - curvature_cost(problem)
    return unit / _largest_m(rest) if rest > 0 else math.inf


def _largest_m(rho: float) -> float:
    """Positive root of ``2 m^2 + .798 m = rho``, rounded downwards."""
    root = math.sqrt(FIRST_ORDER**2 + 8 * rho)
    return 2 * rho / (FIRST_ORDER + root) * (1 - 2.0**-48)


def smallest_feasible_penalty(facts: Facts, rho: float) -> float:
    """Lambda (sum form) above which some noise suffices, the curvature paid in full."""
    return penalty_costing(facts, min(rho, LARGEST_EXPONENT))
