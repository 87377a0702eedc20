"""The guarantee that follows from the numbers of a calibration, recomputed from them alone."""

from __future__ import annotations

import math

from privatelr.errors import GuaranteeError
from privatelr.mechanisms.calibration import gaussian_objective, pure, zcdp
from privatelr.mechanisms.calibration.approximate_minimum import certified_norm
from privatelr.mechanisms.calibration.calibration_record import Calibration
from privatelr.mechanisms.calibration.objective_noise import relative_rate
from privatelr.mechanisms.calibration.output_noise import output_sensitivity, worth_hiding
from privatelr.privacy import ZCDP, ApproxDP, Guarantee, PureDP, to_zcdp
from privatelr.privacy.noise import BlockLaplace, GaussianNoise, NoNoise, SphericalLaplace

_ROUNDING = 1e-9
"""Numbers from a file may have been worked out on another machine."""


def achieved(calibration: Calibration) -> Guarantee:
    """What the noise of a calibration is worth for its problem; takes no data.

    The way back from noise to guarantee: whoever is handed a release can redo it, and the
    audit does.

    Raises
    ------
    GuaranteeError
        If the noise is of no kind that a proof speaks of.
    """
    if not calibration.target.is_private:
        return calibration.target
    tilt = calibration.noise if calibration.placement == "objective" else NoNoise(1)
    if not calibration.tau >= certified_norm(calibration.problem, tilt) * (1 - _ROUNDING):
        raise GuaranteeError(
            f"tau={calibration.tau:g}: no minimum is certified to a gradient as small as that."
        )
    if calibration.placement == "output":
        return _output(calibration)
    return _objective(calibration)


def _output(calibration: Calibration) -> Guarantee:
    reach = output_sensitivity(calibration.problem, calibration.tau)
    found = worth_hiding(calibration.noise, reach, calibration.target)
    if found is None:
        raise _unproven(calibration)
    return found


def _objective(calibration: Calibration) -> Guarantee:
    problem, noise, target = calibration.problem, calibration.noise, calibration.target
    shield = calibration.shield
    if calibration.analysis not in pure.ANALYSES:
        raise _unproven(calibration)
    analysis = pure.named(calibration.analysis)
    match noise, shield, target:
        case (SphericalLaplace() | BlockLaplace(), SphericalLaplace(), PureDP() | ApproxDP()):
            # under (epsilon, delta) too: whatever is pure says more
            tilt = _laplace_epsilon(calibration)
            return PureDP(tilt + calibration.distance * shield.rate, target.neighbours)
        case (SphericalLaplace() | BlockLaplace(), GaussianNoise(), ZCDP()):
            rho = to_zcdp(PureDP(_laplace_epsilon(calibration))).rho
            return ZCDP(rho + (calibration.distance / shield.sd) ** 2 / 2, target.neighbours)
        case GaussianNoise(), GaussianNoise(), ZCDP():
            rho = zcdp.objective_rho(problem, noise.sd, analysis)
            return ZCDP(rho + (calibration.distance / shield.sd) ** 2 / 2, target.neighbours)
        case GaussianNoise(), GaussianNoise(), ApproxDP():
            m = problem.reach / noise.sd
            ratio = calibration.distance / shield.sd / m
            delta = math.exp(
                gaussian_objective.objective_log_delta(
                    problem, target.epsilon, noise.sd, shield_ratio=ratio, analysis=analysis
                )
            )
            return ApproxDP(target.epsilon, max(delta, 5e-324), target.neighbours)
    raise _unproven(calibration)


def _laplace_epsilon(calibration: Calibration) -> float:
    problem, noise = calibration.problem, calibration.noise
    if isinstance(noise, BlockLaplace) and noise.blocks != problem.blocks:
        raise _unproven(calibration)
    analysis = pure.named(calibration.analysis)
    return pure.objective_epsilon(relative_rate(noise, problem), problem, analysis)


def _unproven(calibration: Calibration) -> GuaranteeError:
    return GuaranteeError(
        f"{calibration.placement} perturbation with {calibration.noise.title} noise under "
        f"{calibration.target}: nothing is proven about it."
    )
