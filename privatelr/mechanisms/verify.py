"""The guarantee that follows from the numbers of a calibration, computed from them alone."""

from __future__ import annotations

from dataclasses import replace

from privatelr.errors import GuaranteeError
from privatelr.mechanisms.calibration import Calibration, gaussian_objective, proven_noise, pure
from privatelr.privacy import ZCDP, ApproxDP, Guarantee, PureDP, SharedApproxDP, to_zcdp
from privatelr.privacy.noise import (
    BlockLaplace,
    CopiedNoise,
    GaussianNoise,
    NoNoise,
    SphericalLaplace,
)

_ROUNDING = 1e-9
"""Largest relative difference that is accepted between the same numbers on two machines."""


def achieved(calibration: Calibration) -> Guarantee:
    """Return the guarantee that the noise of a calibration gives for its problem; takes no data.

    Anyone who has a release can repeat this computation from noise to guarantee, and the audit
    does repeat it.

    Raises
    ------
    GuaranteeError
        If no proof covers noise of this kind.
    """
    problem, noise, target = calibration.problem, calibration.noise, calibration.target
    if not target.is_private:
        return target
    one = noise.each if isinstance(noise, CopiedNoise) else noise
    copies = noise.copies if isinstance(noise, CopiedNoise) else 1
    if (copies > 1 and copies != problem.classes) or (
        problem.is_multinomial and {noise.dimension, calibration.shield.dimension} != {problem.size}
    ):
        raise GuaranteeError(
            f"noise: a law of {noise.dimension} coordinates is not one for {problem.classes} "
            "classes."
        )
    found, tilt = None, noise if calibration.placement == "objective" else NoNoise(1)
    if not calibration.tau >= proven_noise.certified_norm(problem, tilt) * (1 - _ROUNDING):
        raise GuaranteeError(
            f"tau={calibration.tau:g}: no minimum is certified to a gradient as small as that."
        )
    if calibration.placement == "output":
        reach = proven_noise.output_sensitivity(problem, calibration.tau)
        found = proven_noise.worth_hiding(noise, reach, target)
    elif calibration.analysis in pure.ANALYSES and (
        not isinstance(one, BlockLaplace) or one.blocks == problem.blocks
    ):
        found = _worth_of_tilt(calibration)
    if found is None:
        raise GuaranteeError(
            f"{calibration.placement} perturbation with {noise.title} noise under {target}: "
            "nothing is proven about it."
        )
    return found


def _worth_of_tilt(calibration: Calibration) -> Guarantee | None:
    """Return the guarantee of a tilt and its shield together; None if nothing is proven."""
    problem, noise, target = calibration.problem, calibration.noise, calibration.target
    shield, apart, analysis = calibration.shield, calibration.distance, calibration.analysis
    match noise, shield, target:
        case (
            SphericalLaplace() | BlockLaplace() | CopiedNoise(),
            SphericalLaplace(),
            PureDP() | ApproxDP(),
        ):
            # for an (epsilon, delta) target, too, because a pure guarantee is stronger
            tilt = proven_noise.tilt_epsilon(noise, problem, analysis) + apart * shield.rate
            if isinstance(target, SharedApproxDP):
                return proven_noise.shared_worth(target, tilt)
            return PureDP(tilt, target.neighbours)
        case (SphericalLaplace() | BlockLaplace() | CopiedNoise(), GaussianNoise(), ZCDP()):
            rho = to_zcdp(PureDP(proven_noise.tilt_epsilon(noise, problem, analysis))).rho
            return replace(target, rho=rho + (apart / shield.sd) ** 2 / 2)
        case GaussianNoise(), GaussianNoise(), ZCDP():
            rho = gaussian_objective.objective_rho(problem, noise.sd, analysis)
            return replace(target, rho=rho + (apart / shield.sd) ** 2 / 2)
        case GaussianNoise(), GaussianNoise(), ApproxDP():
            ratio = apart / shield.sd / (problem.reach / noise.sd)
            beside = {"shield_ratio": ratio, "beside": target.beside}
            log_delta = gaussian_objective.objective_log_delta(
                problem, target.epsilon, noise.sd, analysis=analysis, **beside
            )
            return replace(target, delta=proven_noise.delta_of(log_delta))
    return None
