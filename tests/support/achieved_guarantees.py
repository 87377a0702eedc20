"""The guarantee that follows from the numbers of a calibration, computed from them alone.

Calibrations go from a guarantee to noise. This goes back, for every stage, so that tests see both
agree.
"""

import math
from dataclasses import replace

from privatelr.errors import GuaranteeError
from privatelr.mechanisms.calibration import Calibration, gaussian_objective, proven_noise, pure
from privatelr.mechanisms.stages.histogram import L1_SENSITIVITY, HistogramCalibration
from privatelr.mechanisms.stages.matrices import MomentsCalibration, moments_balance
from privatelr.mechanisms.stages.scale import ScaleCalibration, scale_blocks
from privatelr.privacy import (
    ZCDP,
    ApproxDP,
    Event,
    GaussianEvent,
    Guarantee,
    NonPrivate,
    PureDP,
    SharedApproxDP,
    to_zcdp,
)
from privatelr.privacy.noise import (
    BlockLaplace,
    CopiedNoise,
    NoiseLaw,
    NoNoise,
    log_delta,
    log_delta_beside_pure,
)
from privatelr.types import Block

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
        return worth_hiding(noise, reach, target, "output perturbation")
    found = None
    if calibration.analysis in pure.ANALYSES and _fits(noise, problem.blocks):
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
        spent = pure.objective_epsilon(noise.rate_along(problem), problem, analysis)
        match shield, target:
            case PureDP(), PureDP() | ApproxDP():
                both = PureDP(spent + shield.epsilon, target.neighbours)
                return worth_of(both, target, "a tilt")
            case GaussianEvent(), ZCDP():
                return replace(target, rho=to_zcdp(PureDP(spent)).rho + shield.mu**2 / 2)
        return None
    match noise.event(problem.reach, target.neighbours), shield, target:
        case GaussianEvent(), GaussianEvent(), ZCDP():
            rho = gaussian_objective.tilt_event(problem, noise.scale, analysis).rho
            return replace(target, rho=rho + shield.mu**2 / 2)
        case GaussianEvent(mu=mu), GaussianEvent(), ApproxDP():
            beside = {"shield_ratio": shield.mu / mu, "beside": target.beside}
            log_delta = gaussian_objective.objective_log_delta(
                problem, target.epsilon, noise.scale, analysis=analysis, **beside
            )
            return replace(target, delta=_delta_of(log_delta))
    return None


def achieved_scale(calibration: ScaleCalibration) -> Guarantee:
    """Return what the noise of a calibration is worth, from its numbers alone.

    Raises
    ------
    GuaranteeError
        If no proof covers the noise.
    """
    facts, noise, target = calibration.facts, calibration.noise, calibration.target
    if not isinstance(target, PureDP):
        return worth_hiding(noise, calibration.sensitivity, target, "scale")
    epsilon = _epsilon_within(noise, scale_blocks(facts))
    if math.isinf(epsilon):
        raise GuaranteeError(f"scale with {noise.title} noise under {target}: nothing is proven.")
    return PureDP(epsilon, target.neighbours)


def achieved_histogram(calibration: HistogramCalibration) -> Guarantee:
    """Return what the noise of a calibration is worth, from its numbers alone.

    Raises
    ------
    GuaranteeError
        If no proof covers the noise.
    """
    noise, target = calibration.noise, calibration.target
    all_cells = Block(noise.dimension, L1_SENSITIVITY * calibration.touched)
    epsilon = _epsilon_within(noise, (all_cells,))
    if math.isinf(epsilon):
        return worth_hiding(noise, calibration.sensitivity, target, "score counts")
    return worth_of(PureDP(epsilon, target.neighbours), target, "score counts")


def achieved_moments(calibration: MomentsCalibration) -> Guarantee:
    """Return the guarantee that the noise gives for its problem, from its numbers alone.

    Raises
    ------
    GuaranteeError
        If there is not a proof that covers the noise and the balance.
    """
    target, noise = calibration.target, calibration.noise
    if isinstance(target, NonPrivate):
        return target
    if calibration.balance != moments_balance(calibration.problem):
        raise GuaranteeError(f"moments of balance {calibration.balance:g}: nothing is proven.")
    return worth_hiding(noise, calibration.sensitivity, target, "moments")


def worth_hiding(noise: NoiseLaw, reach: float, target: Guarantee, of: str = "noise") -> Guarantee:
    """Return the guarantee of noise on a vector of sensitivity `reach`, in terms of a target.

    Raises
    ------
    GuaranteeError
        If nothing is proven about the noise for such a target.
    """
    return worth_of(noise.event(reach, target.neighbours), target, f"{of} with {noise.title} noise")


def worth_of(event: Event | None, target: Guarantee, of: str) -> Guarantee:
    """Return the guarantee of an event in terms of a target; `of` is the subject of an error.

    A pure guarantee is stronger than (epsilon, delta) and is returned as it is.
    """
    match event, target:
        case PureDP(epsilon=epsilon), SharedApproxDP():
            return shared_worth(target, epsilon)
        case PureDP(), PureDP() | ApproxDP():
            return event
        case PureDP(), ZCDP():
            return to_zcdp(event)
        case GaussianEvent(mu=mu), ZCDP():
            return replace(target, rho=mu**2 / 2)
        case GaussianEvent(mu=mu), ApproxDP():
            mu = math.hypot(mu, target.beside)
            return replace(target, delta=_delta_of(log_delta(target.epsilon, mu)))
    raise GuaranteeError(f"{of} under {target}: nothing is proven about it.")


def shared_worth(target: SharedApproxDP, epsilon: float) -> SharedApproxDP:
    """What a pure release of this epsilon is worth, in the terms of a shared target."""
    found = log_delta_beside_pure(target.epsilon, epsilon, target.beside)
    return replace(target, delta=_delta_of(found))


def _fits(noise: NoiseLaw, blocks: tuple[Block, ...]) -> bool:
    """Return whether the law is one for rows with these blocks."""
    law = noise.each if isinstance(noise, CopiedNoise) else noise
    return not isinstance(law, BlockLaplace) or law.blocks == blocks


def _epsilon_within(noise: NoiseLaw, blocks: tuple[Block, ...]) -> float:
    """Return the epsilon for a vector that moves within these blocks; infinite if unproven."""
    if not isinstance(noise, BlockLaplace):
        return math.inf
    if [block.size for block in blocks] != [block.size for block in noise.blocks]:
        return math.inf
    pairs = zip(blocks, noise.blocks, strict=True)
    return max(block.bound / own.bound for block, own in pairs) * noise.rate


def _delta_of(log_delta: float) -> float:
    """Return the delta of a logarithm, which may be small but not zero."""
    return max(math.exp(log_delta), 5e-324)
