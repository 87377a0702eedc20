"""From a request and public facts to a calibration."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import cast

from privatelr.errors import GuaranteeError
from privatelr.mechanisms.calibration import proven_noise, pure
from privatelr.mechanisms.calibration.calibration_record import Alternative, Calibration
from privatelr.mechanisms.calibration.lambda_rules import require_tilt, settle_lambda
from privatelr.mechanisms.problem import Problem
from privatelr.mechanisms.request import Request
from privatelr.privacy import ZCDP, ApproxDP, Promise
from privatelr.privacy.noise import GaussianNoise, NoiseLaw, NoNoise, mean_square, shortest

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
    tau = proven_noise.certified_norm(settled, noise)
    shield = proven_noise.shield_for(settled, target, analysis, noise, tau)
    return Calibration(
        problem=settled,
        target=target,
        placement="objective",
        analysis=analysis,
        noise=noise,
        shield=shield,
        tau=tau,
        grid=proven_noise.grid_for(shield),
        lambda_origin=lambda_origin,
        alternatives=tuple(_other_tilts(settled, target, analysis, noise)),
    )


def calibrate_output(problem: Problem, request: Request, lambda_origin: str) -> Calibration:
    """Output perturbation under any target; needs no condition but lambda above 0."""
    if problem.lambda_ <= 0:
        raise GuaranteeError(
            "lambda_=0: output perturbation takes lambda_ above 0, since the minimiser of an "
            "unpenalised fit can move without limit."
        )
    target, nothing = cast("Promise", request.target), NoNoise(problem.d)
    tau = proven_noise.certified_norm(problem, nothing)
    reach = proven_noise.output_sensitivity(problem, tau)
    laws = proven_noise.laws_hiding(reach, problem.d, target)
    noise = proven_noise.require_law(laws, target, request.kinds)
    by_profile = isinstance(target, ApproxDP) and isinstance(noise, GaussianNoise)
    return Calibration(
        problem=problem,
        target=target,
        placement="output",
        analysis="analytic" if by_profile else "sensitivity",
        noise=noise,
        shield=nothing,
        tau=tau,
        grid=proven_noise.grid_for(noise),
        lambda_origin=lambda_origin,
        alternatives=tuple(_others(laws, noise)),
    )


def calibrate_plain(problem: Problem, request: Request, lambda_origin: str) -> Calibration:
    """No noise at all: the penalised fit itself."""
    nothing, target, placement = NoNoise(problem.d), request.target, request.placement
    return Calibration(
        problem, target, placement, "none", nothing, nothing, 0.0, 0.0, lambda_origin
    )


def _other_tilts(
    problem: Problem, target: Promise, chosen: pure.Analysis, noise: NoiseLaw
) -> Iterator[Alternative]:
    """Other shapes of noise under the same bound, then the same shape under other bounds."""
    laws = proven_noise.candidates(problem, target, chosen)
    yield from _others(laws, noise)
    may_be_gaussian = isinstance(target, ZCDP | ApproxDP)
    if may_be_gaussian and not any(isinstance(law, GaussianNoise) for law in laws):
        yield Alternative("Gaussian noise", math.inf)
    for analysis in pure.ANALYSES:
        unproven = analysis == "joint" and problem.loss.joint_factor is None
        # R's bound is about pure epsilon
        other_noise = isinstance(target, ApproxDP) or isinstance(noise, GaussianNoise)
        unproven |= other_noise and analysis == "cms11"
        if analysis != chosen and not unproven:
            law = shortest(proven_noise.candidates(problem, target, analysis))
            ratio = _ratio(law, noise) if law else math.inf
            if not math.isclose(ratio, 1.0, rel_tol=_SAME):
                yield Alternative(f"analysis={analysis!r}", ratio)


def _others(laws: list[NoiseLaw], noise: NoiseLaw) -> Iterator[Alternative]:
    """Laws of other kinds than the chosen one."""
    for law in laws:
        if type(law) is not type(noise):
            yield Alternative(f"{law.title} noise", _ratio(law, noise))


def _ratio(law: NoiseLaw, chosen: NoiseLaw) -> float:
    return math.sqrt(mean_square(law) / mean_square(chosen))
