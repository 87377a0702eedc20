"""From a request and public facts to a calibration."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from privatelr.errors import GuaranteeError
from privatelr.mechanisms.calibration import pure
from privatelr.mechanisms.calibration.approximate_minimum import (
    SHIELD_RATIO,
    certified_norm,
    grid_for,
    shield_for,
    shield_rho,
)
from privatelr.mechanisms.calibration.calibration_record import Alternative, Calibration
from privatelr.mechanisms.calibration.lambda_rules import require_tilt, settle_lambda
from privatelr.mechanisms.calibration.objective_noise import (
    candidates,
    relative_rate,
)
from privatelr.mechanisms.calibration.output_noise import output_laws
from privatelr.privacy import ZCDP, ApproxDP, Promise, PureDP
from privatelr.privacy.noise import GaussianNoise, NoiseLaw, NoNoise, mean_square, shortest

if TYPE_CHECKING:
    from privatelr.mechanisms.problem import Problem
    from privatelr.mechanisms.request import Request


_ROUNDING = 2.0**-50
"""Share of epsilon that a few operations in doubles may lose."""
_SAME = 1e-3
"""Relative difference in size below which two kinds of noise count as the same."""


def calibrate_objective(problem: Problem, request: Request, lambda_origin: str) -> Calibration:
    """Objective perturbation under any target; lambda is raised or refused as requested."""
    target = cast("Promise", request.target)
    analysis = pure.proven(request.analysis, problem.loss)
    settled = settle_lambda(problem, target, analysis, request.on_small_lambda)
    if settled is not problem:
        lambda_origin = f"raised from {problem.lambda_:.6g}, which is too small for this target"
    noise = require_tilt(settled, target, analysis, request.kinds)
    tau = certified_norm(settled, noise)
    shield = shield_for(settled, tau, _shield_share(settled, target, analysis, noise))
    return Calibration(
        problem=settled,
        target=target,
        placement="objective",
        analysis=analysis,
        noise=noise,
        shield=shield,
        tau=tau,
        grid=grid_for(shield),
        lambda_origin=lambda_origin,
        alternatives=tuple(_other_tilts(settled, target, analysis, noise)),
    )


def _shield_share(
    problem: Problem, target: Promise, analysis: pure.Analysis, noise: NoiseLaw
) -> PureDP | ZCDP | float:
    """A shield of the tilt's own kind; of rho, which both kinds have, it is Gaussian."""
    if isinstance(target, ZCDP):
        return ZCDP(shield_rho(target.rho), target.neighbours)
    if isinstance(noise, GaussianNoise):
        return SHIELD_RATIO * problem.reach / noise.scale
    epsilon = target.epsilon
    spent = pure.objective_epsilon(relative_rate(noise, problem), problem, analysis)
    return PureDP(epsilon - spent - _ROUNDING * epsilon, target.neighbours)


def calibrate_output(problem: Problem, request: Request, lambda_origin: str) -> Calibration:
    """Output perturbation under any target; needs no condition but lambda above 0."""
    if problem.lambda_ <= 0:
        raise GuaranteeError(
            "lambda_=0: output perturbation takes lambda_ above 0, since the minimiser of an "
            "unpenalised fit can move without limit."
        )
    target = cast("Promise", request.target)
    tau = certified_norm(problem, NoNoise(problem.d))
    laws = output_laws(problem, target, tau)
    noise = _require_kind(shortest(laws, request.kinds), target)
    return Calibration(
        problem=problem,
        target=target,
        placement="output",
        analysis="analytic" if _is_by_profile(noise, target) else "sensitivity",
        noise=noise,
        shield=NoNoise(problem.d),
        tau=tau,
        grid=grid_for(noise),
        lambda_origin=lambda_origin,
        alternatives=tuple(_others(laws, noise)),
    )


def _is_by_profile(noise: NoiseLaw, target: Promise) -> bool:
    """Whether the analytic Gaussian mechanism fixed the size of the noise."""
    return isinstance(target, ApproxDP) and isinstance(noise, GaussianNoise)


def _require_kind(noise: NoiseLaw | None, target: Promise) -> NoiseLaw:
    if noise is None:
        raise GuaranteeError(f"{target}: no noise of that kind is proven for it.")
    return noise


def calibrate_plain(problem: Problem, request: Request, lambda_origin: str) -> Calibration:
    """No noise at all: the penalised fit itself."""
    nothing = NoNoise(problem.d)
    return Calibration(
        problem=problem,
        target=request.target,
        placement=request.placement,
        analysis="none",
        noise=nothing,
        shield=nothing,
        tau=0.0,
        grid=0.0,
        lambda_origin=lambda_origin,
    )


def _other_tilts(
    problem: Problem, target: Promise, chosen: pure.Analysis, noise: NoiseLaw
) -> Iterator[Alternative]:
    """Other shapes of noise under the same bound, then the same shape under other bounds."""
    laws = candidates(problem, target, chosen)
    yield from _others(laws, noise)
    may_be_gaussian = isinstance(target, ZCDP | ApproxDP)
    if may_be_gaussian and not any(isinstance(law, GaussianNoise) for law in laws):
        yield _compared("Gaussian noise", None, noise)
    for analysis in pure.ANALYSES:
        unproven = analysis == "joint" and problem.loss.joint_factor is None
        # R's bound is about pure epsilon
        other_noise = isinstance(target, ApproxDP) or isinstance(noise, GaussianNoise)
        unproven |= other_noise and analysis == "cms11"
        if analysis != chosen and not unproven:
            smallest = shortest(candidates(problem, target, analysis))
            other = _compared(f"analysis={analysis!r}", smallest, noise)
            if not math.isclose(other.ratio, 1.0, rel_tol=_SAME):
                yield other


def _others(laws: list[NoiseLaw], noise: NoiseLaw) -> Iterator[Alternative]:
    """Laws of other kinds than the chosen one."""
    for law in laws:
        if type(law) is not type(noise):
            yield _compared(f"{law.title} noise", law, noise)


def _compared(title: str, law: NoiseLaw | None, chosen: NoiseLaw) -> Alternative:
    if law is None:
        return Alternative(title, math.inf)
    return Alternative(title, math.sqrt(mean_square(law) / mean_square(chosen)))
