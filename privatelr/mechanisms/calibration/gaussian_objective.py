"""Gaussian objective perturbation: the smallest noise that theory.md 4.2 and 4.3 allow.

The symbols are those of `privatelr.mechanisms.calibration.pure`, and ``m = L R / sigma`` for a tilt
of standard deviation sigma per coordinate, in the sum form. The bounds of Theorem 4.2 on
(epsilon, delta), with a Gaussian shield of mu_out on the minimiser, are in
`privatelr.privacy.noise.gaussian_delta`; the zCDP of section 4.3 is in `sigma_for_rho`. Where
neighbours replace a person, both have the bounds of `privatelr.privacy.person_tilt`.
"""

from __future__ import annotations

import math
from functools import lru_cache

from privatelr.errors import GuaranteeError
from privatelr.mechanisms.calibration.pure import LARGEST_SHARE, curvature_cost, penalty_costing
from privatelr.mechanisms.problem import Problem
from privatelr.privacy import REPLACE_ONE, ApproxDP, Neighbours, TiltEvent
from privatelr.privacy.noise import RESOLUTION, gaussian_delta, smallest_of

SHIELD_RATIO = 0.2
"""The ratio ``mu_out / m`` of a Gaussian shield: a tenth of the tilt's mu, which is ``2 m``."""
_LARGEST = 1e9
"""Largest sigma over ``L R`` that is tried; a target that needs more noise is infeasible."""
_FLAT = 1e30
"""Ratio of Lambda to R^2 at which the curvature of one row is negligible."""
_NEARLY_FREE = 1.02
"""Largest factor by which a curvature that counts as free may increase the noise."""


def tilt_event(
    problem: Problem,
    sigma: float,
    analysis: str = "joint",
    neighbours: Neighbours = REPLACE_ONE,
) -> TiltEvent:
    """Return what a tilt of this sigma is to a ledger; only "joint" uses the joint bound.

    Persons are neighbours of their own, and their events have bounds of their own
    (`privatelr.privacy.person_tilt`).
    """
    whose = problem.neighbours if problem.persons else neighbours
    m, loss = problem.reach / sigma, problem.loss
    factor = loss.joint_factor if analysis == "joint" else None
    bend = problem.kappa, loss.curvature_bound, factor, problem.weighted
    return TiltEvent(m, *bend, whose, problem.classes)


def objective_log_delta(
    problem: Problem,
    epsilon: float,
    sigma: float,
    *,
    shield_ratio: float = 0.0,
    beside: float = 0.0,
    analysis: str = "joint",
) -> float:
    """Return the logarithm of delta at epsilon (Theorem 4.2 of theory.md; `person_tilt`).

    `shield_ratio` is ``mu_out / m``, and `beside` the mu of other Gaussian releases;
    ``analysis="one-log"`` takes (a) alone.
    """
    event = tilt_event(problem, sigma, analysis)
    out = math.hypot(shield_ratio * event.m, beside)
    return gaussian_delta.tilt_log_delta(event, epsilon, out)


@lru_cache(maxsize=256)  # of public facts; a fit needs the same number several times
def objective_sigma(
    problem: Problem,
    epsilon: float,
    delta: float,
    *,
    shield_ratio: float = 0.0,
    beside: float = 0.0,
    analysis: str = "joint",
) -> float:
    """Find the smallest sigma that keeps (epsilon, delta) by Theorem 4.2 of theory.md.

    It is a sigma for which the bound was seen to hold; infinity if none up to 1e9 L R does.
    """
    unit, goal = problem.reach, math.log(delta) - RESOLUTION
    known = {"shield_ratio": shield_ratio, "beside": beside}

    def log_delta(sigma: float) -> float:
        return objective_log_delta(problem, epsilon, sigma * unit, analysis=analysis, **known)

    return unit * smallest_of(log_delta, goal, 1.0, _LARGEST)


def _penalty_for(facts: Problem, target: ApproxDP, sigma: float, analysis: str) -> float:
    """Find the smallest Lambda (sum form) at which noise of this sigma keeps the target."""
    r2, goal = facts.radius**2, math.log(target.delta) - RESOLUTION
    known = {"shield_ratio": SHIELD_RATIO, "beside": target.beside}

    def log_delta(penalty: float) -> float:
        problem = facts.with_lambda(penalty * r2 / facts.n)
        return objective_log_delta(problem, target.epsilon, sigma, analysis=analysis, **known)

    found = smallest_of(log_delta, goal, 1.0, _FLAT)
    if math.isinf(found):
        raise GuaranteeError(f"eps={target.epsilon:g}, delta={target.delta:g}: no noise suffices.")
    return found * r2


def tilt_sigma(problem: Problem, target: ApproxDP, analysis: str) -> float:
    """The sigma of a tilt beside its shield, and beside what shares the target; see above."""
    known = {"shield_ratio": SHIELD_RATIO, "beside": target.beside, "analysis": analysis}
    return objective_sigma(problem, target.epsilon, target.delta, **known)


@lru_cache(maxsize=256)
def gaussian_free_penalty(
    facts: Problem, target: ApproxDP, analysis: str, kept: float = 1.0
) -> float:
    """Find the smallest Lambda whose curvature adds at most 2 % to the noise.

    It may add more, if `kept` of the precision is left.
    """
    # the noise at a huge Lambda is compared, not that of the Gaussian mechanism of sensitivity
    # 2 L R, which at a large delta is smaller than any noise that the theorem allows
    flat = facts.with_lambda(_FLAT * facts.radius**2 / facts.n)
    sigma = max(_NEARLY_FREE, 1 / kept) * tilt_sigma(flat, target, analysis)
    found = _penalty_for(facts, target, sigma, analysis)
    return max(found, penalty_costing(facts, LARGEST_SHARE))


def smallest_feasible_penalty(facts: Problem, target: ApproxDP, analysis: str) -> float:
    """Find the smallest Lambda (sum form) for which some finite noise suffices."""
    return _penalty_for(facts, target, _LARGEST * facts.reach, analysis)


# -- zCDP ---------------------------------------------------------------------------------------


def sigma_for_rho(problem: Problem, rho: float, analysis: str) -> float:
    """Return the smallest sigma for rho (theory.md 4.3); infinity if the curvature exceeds it.

    The Renyi divergence of order a is at most ``2 a m^2 + cost + min(.1409 / (a - 1), .798 m)``.
    The cost is that of the curvature, or 0 for losses with a joint bound and ``kappa <= m^2 / 2``
    where no record has a weight. The divergence over a is largest as a falls to 1.
    """
    if problem.penalty == 0:
        return math.inf
    first = tilt_event(problem, problem.reach, analysis).first_order
    free = problem.reach / _largest_m(rho, first)
    if tilt_event(problem, free, analysis).rho <= rho:
        return free
    rest = rho - curvature_cost(problem)
    return problem.reach / _largest_m(rest, first) if rest > 0 else math.inf


def _largest_m(rho: float, first: float) -> float:
    """Return the positive root of ``2 m^2 + first m = rho``, rounded down; `first` is .798."""
    root = math.sqrt(first**2 + 8 * rho)
    return 2 * rho / (first + root) * (1 - 2.0**-48)
