"""The guarantee that follows from the numbers of a calibration, computed from them alone."""

from __future__ import annotations

from dataclasses import replace

from privatelr.errors import GuaranteeError
from privatelr.mechanisms.calibration import Calibration, gaussian_objective, proven_noise, pure
from privatelr.privacy import ZCDP, ApproxDP, GaussianEvent, Guarantee, PureDP, to_zcdp
from privatelr.privacy.noise import NoNoise

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
    copies = len(noise.parts)
    if (copies > 1 and copies != problem.classes) or (
        problem.is_multinomial and {noise.dimension, calibration.shield.dimension} != {problem.size}
    ):
        raise GuaranteeError(
            f"noise: a law of {noise.dimension} coordinates is not one for {problem.classes} "
            "classes."
        )
    tilt = noise if calibration.placement == "objective" else NoNoise(1)
    if not calibration.tau >= proven_noise.certified_norm(problem, tilt) * (1 - _ROUNDING):
        raise GuaranteeError(
            f"tau={calibration.tau:g}: no minimum is certified to a gradient as small as that."
        )
    if calibration.placement == "output":
        reach = proven_noise.output_sensitivity(problem, calibration.tau)
        return proven_noise.worth_hiding(noise, reach, target, "output perturbation")
    found = None
    if calibration.analysis in pure.ANALYSES and noise.fits(problem.blocks):
        found = _worth_of_tilt(calibration)
    if found is None:
        raise GuaranteeError(
            f"objective perturbation with {noise.title} noise under {target}: nothing is proven "
            "about it."
        )
    return found


def _worth_of_tilt(calibration: Calibration) -> Guarantee | None:
    """Return the guarantee of a tilt and its shield together; None if nothing is proven."""
    problem, noise, target = calibration.problem, calibration.noise, calibration.target
    analysis = calibration.analysis
    shield = calibration.shield.event(calibration.distance, target.neighbours)
    if noise.is_pure:
        spent = proven_noise.tilt_epsilon(noise, problem, analysis)
        match shield, target:
            case PureDP(), PureDP() | ApproxDP():
                both = PureDP(spent + shield.epsilon, target.neighbours)
                return proven_noise.worth_of(both, target, "a tilt")
            case GaussianEvent(), ZCDP():
                return replace(target, rho=to_zcdp(PureDP(spent)).rho + shield.mu**2 / 2)
        return None
    match noise.event(problem.reach, target.neighbours), shield, target:
        case GaussianEvent(), GaussianEvent(), ZCDP():
            rho = gaussian_objective.objective_rho(problem, noise.scale, analysis)
            return replace(target, rho=rho + shield.mu**2 / 2)
        case GaussianEvent(mu=mu), GaussianEvent(), ApproxDP():
            beside = {"shield_ratio": shield.mu / mu, "beside": target.beside}
            log_delta = gaussian_objective.objective_log_delta(
                problem, target.epsilon, noise.scale, analysis=analysis, **beside
            )
            return replace(target, delta=proven_noise.delta_of(log_delta))
    return None
