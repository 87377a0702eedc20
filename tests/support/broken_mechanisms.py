"""Mechanisms that are wrong the way others were, for the audit to catch; and losses to audit."""

import math
import warnings
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from privatelr.audit.checks import label
from privatelr.audit.density.pairs import signed_rows
from privatelr.mechanisms import Problem, Request, calibrate, calibrate_all
from privatelr.mechanisms.calibration import free_penalty, laws_hiding, proven
from privatelr.mechanisms.signed_rows import minimisers
from privatelr.mechanisms.stages.matrices import moments_sensitivity
from privatelr.numerics import LOSSES, Huber, SoftplusHinge
from privatelr.privacy import ApproxDP, PureDP
from privatelr.privacy.noise import (
    BlockLaplace,
    GaussianNoise,
    NoNoise,
    SphericalLaplace,
    shortest,
)

LOGISTIC = LOSSES["logistic"]
RECORDS = 10**8
GAUSSIAN, LAPLACE = (GaussianNoise,), (SphericalLaplace, BlockLaplace)
WIDTHS = [Huber(0.1), Huber(0.01), SoftplusHinge(0.1)]
AUDITED_LOSSES = {label(loss): loss for loss in [*LOSSES.values(), *WIDTHS]}
"""Every registered loss, and others of its family."""


def kinds_of(target):
    """The noise of the bounds on delta: a fit takes Laplace noise where that is less."""
    return GAUSSIAN if isinstance(target, ApproxDP) else ()


def calibrated(
    target,
    *,
    placement="objective",
    radius=1.0,
    small=1.0,
    loss=LOGISTIC,
    n=RECORDS,
    d=2,
    blocks=(),
    analysis=None,
    kinds=(),
):
    """A registered mechanism at the free lambda over `small`; under a delta with Gaussian noise."""
    facts = Problem(n, d, loss, radius, blocks)
    kinds = kinds or kinds_of(target)
    free = free_penalty(facts, target, proven(analysis, loss), kinds=kinds) / n
    request = Request(target, placement, analysis, free / small, "keep", kinds=kinds)
    return calibrate(request, facts)


def bare(calibration, **changes):
    """A calibration with other noise and no shield, as papers and peers have it."""
    noise = changes.get("noise", calibration.noise)
    return replace(
        calibration, **{**changes, "shield": NoNoise(noise.dimension), "tau": 0.0, "grid": 2.0**-40}
    )


def private_lr(n, epsilon=1.0):
    """R's PrivateLR: R = 1 in every formula, and an intercept of 1 beside rows of length 1."""
    penalty = 0.25 / math.expm1(epsilon / 20)
    rest = epsilon - 2 * math.log1p(0.25 / penalty)
    facts = Problem(n, 2, LOGISTIC, 1.0)
    return bare(
        calibrated(PureDP(epsilon), n=n),
        problem=facts.with_lambda(penalty / n),
        noise=SphericalLaplace(2, rest / 2),
    )


def diffprivlib_vector(radius, epsilon=1.0):
    """c R in the place of c R^2, on the branch that its default penalty takes."""
    penalty = 0.25 * radius / math.expm1(epsilon / 4)
    facts = Problem(RECORDS, 2, LOGISTIC, radius)
    return bare(
        calibrated(PureDP(epsilon), radius=radius),
        problem=facts.with_lambda(penalty / RECORDS),
        noise=SphericalLaplace(2, epsilon / 2 / (2 * radius)),
    )


def claiming(loss, **constants):
    """The same loss, which states other constants."""
    family = type(loss)
    kept = {"curvature": lambda _, margin: loss.curvature(margin)}
    return type(family.__name__, (family,), {**kept, **constants})(**loss.parameters)


def believing(target, loss, constants, **options):
    """A mechanism that is calibrated for other constants than its loss has."""
    wrong = calibrated(target, loss=claiming(loss, **constants), **options)
    return replace(wrong, problem=replace(wrong.problem, loss=loss))


def radius_not_squared(loss, radius, epsilon=1.0):
    """c R in the place of c R^2 throughout: as if the rows had length sqrt(R)."""
    unit = calibrated(PureDP(epsilon), loss=loss, radius=math.sqrt(radius))
    rate = (epsilon - math.log1p(loss.curvature_bound * unit.problem.kappa)) / 2
    problem = replace(unit.problem, radius=radius)
    return bare(unit, problem=problem, noise=SphericalLaplace(2, rate / radius))


def halved(calibration):
    """Half the noise."""
    return replace(calibration, noise=replace(calibration.noise, rate=2 * calibration.noise.rate))


def jain_thakurta_sigma(radius, epsilon, delta):
    """Jain and Thakurta 2014, Theorem 2, as printed."""
    return 2 * radius * math.sqrt(math.log(1 / delta) + epsilon) / epsilon


class FreeIntercept(Problem):
    """A problem whose first coefficient is not penalised."""

    @property
    def penalty(self):
        return np.array([0.0, *[self.n * self.lambda_] * (self.d - 1)])


# -- mechanisms of one coefficient, as callables: data is a list of signed records ------------


@dataclass(frozen=True)
class Scalar:
    """Output perturbation of one coefficient, epsilon = 1, records of length one at most."""

    penalty: float = 2.0
    radius: float = 1.0

    def __call__(self, data, rng):
        scale = 2 * self.radius / self.penalty
        return scalar_minimiser(tuple(data), self.penalty) + rng.laplace(scale=scale)


@lru_cache
def scalar_minimiser(data, penalty):
    problem = Problem(len(data), 1, LOGISTIC, 1.0, (), penalty / len(data))
    rows = np.array(data)[:, None]
    return minimisers(signed_rows(rows, np.ones(len(data))), problem, np.zeros((1, 1)))[0, 0]


def redraws(data, rng):
    """Draws again until more than half of the records are classified correctly."""
    while True:
        w = Scalar()(data, rng)
        if np.mean(np.array(data) * w > 0) > 0.5:
            return w


def one_class_shortcut(data, rng):
    """Data of one class gets a constant, as PrivateLR's `unique.outcome` does."""
    return 0.5 if len(np.unique(np.sign(data))) == 1 else Scalar()(data, rng)


def radius_from_data(data, rng):
    """The largest record stands in for the declared bound."""
    return Scalar(radius=np.abs(data).max())(data, rng)


def refuses_outliers(data, rng):
    """Raises where a record is beyond the bound, which only the data can tell."""
    if np.abs(data).max() > 1:
        raise ValueError("a record is too long")
    return Scalar()(data, rng)


def warns_of_one_class(data, rng):
    if len(np.unique(np.sign(data))) == 1:
        warnings.warn("only one class", stacklevel=1)
    return Scalar()(data, rng)


# -- releases with moments --------------------------------------------------------------------


def planned(
    target, *, placement="objective", small=1.0, n=10**6, loss=LOGISTIC, kinds=None, **facts
):
    """A plan that buys moments, at the free lambda over `small`."""
    shape = {"d": 2, "radius": 1.0, "blocks": (), **facts}
    public = Problem(n, shape["d"], loss, shape["radius"], shape["blocks"])
    kinds = kinds_of(target) if kinds is None else kinds
    request = Request(target, placement, None, "free", "keep", "inference", kinds)
    free = calibrate_all(request, public).coefficients.lambda_
    return calibrate_all(replace(request, lambda_=free / small), public)


def with_moments(plan, **changes):
    """A plan whose moments have other noise, or weigh their two matrices otherwise."""
    return plan.having({"inference": replace(plan.moments, **changes)})


def hiding_moments(plan, distance):
    """Noise for moments that were this far apart."""
    moments = plan.moments
    laws = laws_hiding(distance, moments.noise.dimension, moments.target)
    noise = shortest(laws, (type(moments.noise),))
    return with_moments(plan, noise=noise)


def moments_for_add_or_remove(plan):
    """Sensitivity of a record more or less, as for X'X in private linear models: no root of 2."""
    return hiding_moments(plan, moments_sensitivity(plan.moments.problem) / math.sqrt(2))


def moments_radius_not_squared(plan):
    problem = plan.moments.problem
    return hiding_moments(plan, moments_sensitivity(problem) / problem.radius)


def curvature_alone_paid(plan):
    """Noise for H, and S beside it for nothing."""
    problem = plan.moments.problem
    reach = problem.loss.curvature_bound * problem.radius**2
    return hiding_moments(plan, math.sqrt(2) * reach / problem.n)


def moments_of_another_loss(plan, other):
    """Noise for the constants of another loss, and the balance of the right one."""
    problem = plan.moments.problem
    return hiding_moments(plan, moments_sensitivity(replace(problem, loss=other)))


def scores_summed(plan):
    """S without 1/n."""
    return with_moments(plan, balance=plan.moments.problem.n * plan.moments.balance)
