"""The exact privacy loss of a scale of columns, alone and together with the coefficients.

The coefficients are released given the scale, so log ratios add up. The rows of the two records
under the map of the released scale are handed in: they differ from scale to scale, and the worst
ones are at the bounds of a row. The loss is exact if they are the same for every scale, as for one
column and rows of one length; otherwise it is an upper bound on that of these two records, and the
claim has to cover it all the same.
"""

from __future__ import annotations

import math

import numpy as np

from privatelr.audit.density.loss import SEED, PrivacyLoss, claimed_number, loss_of, shown
from privatelr.audit.density.loss_profile import loss_law
from privatelr.audit.density.pairs import Pair
from privatelr.mechanisms import StagedCalibration
from privatelr.mechanisms.calibration import Calibration, ScaleCalibration
from privatelr.privacy import ApproxDP, Guarantee, PureDP
from privatelr.privacy.noise import GaussianNoise
from privatelr.types import FloatArray


def scale_of(plan: StagedCalibration) -> ScaleCalibration:
    """The calibration of the scale, for a plan that buys it."""
    assert plan.scale is not None
    return plan.scale


def scale_change(old: FloatArray, new: FloatArray, scale: ScaleCalibration) -> FloatArray:
    """The change of what is released if the covariates ``(p,)`` of a record become others."""
    means, squares = (new - old)[scale.means], (new**2 - old**2)[scale.squares]
    return np.asarray(np.concatenate([means, scale.weight * squares]) / scale.facts.n)


def scale_loss(old: FloatArray, new: FloatArray, scale: ScaleCalibration) -> PrivacyLoss:
    """The loss of the scale alone between two records, in scaled units ``(p,)``.

    Under the noise of a box it is the norm of the change, which the log ratio reaches far out
    along a coordinate that moves most.
    """
    change, claim = scale_change(old, new, scale), scale.proven
    if isinstance(scale.noise, GaussianNoise):
        found = shown(scale.noise, claim, float(np.linalg.norm(change)))
    else:
        found = -scale.noise.log_density(change)
    return PrivacyLoss(claim, found, found, claimed_number(claim))


def loss_with_scale(
    old: FloatArray,
    new: FloatArray,
    mapped: Pair,
    plan: StagedCalibration,
    outputs: FloatArray | None = None,
) -> PrivacyLoss:
    """The loss of scale and coefficients together.

    Parameters
    ----------
    old, new : ndarray of shape (p,)
        The covariates of the replaced record in scaled units, before and after.
    mapped : Pair
        The same neighbours after the map of a released scale.
    plan : StagedCalibration
    outputs : ndarray of shape (m, d), optional
        Further coefficients from which to search; see `loss_of`.

    Returns
    -------
    PrivacyLoss
        Its parts are the losses of either stage alone, each compared with its own claim.
    """
    scale, coefficients = scale_of(plan), plan.coefficients
    parts = loss_of(mapped, coefficients, outputs), scale_loss(old, new, scale)
    claim = plan.proven
    if isinstance(claim, PureDP):
        found = parts[0].found + parts[1].found
        return PrivacyLoss(claim, found, found, claim.epsilon, parts=parts)
    assert isinstance(scale.noise, GaussianNoise)
    mu = float(np.linalg.norm(scale_change(old, new, scale))) / scale.noise.sd
    found = _composed(mapped, coefficients, plan.target, mu)
    return PrivacyLoss(claim, found, found, claimed_number(claim), parts=parts)


def _composed(pair: Pair, calibration: Calibration, claim: Guarantee, mu: float) -> float:
    """The loss of coefficients, with their shield, and of a Gaussian release of this mu."""
    rng = np.random.default_rng(SEED)
    laws = [loss_law(way, calibration, rng) for way in (pair, pair.swapped())]
    shield = calibration.shield.scale
    off = 0.0
    if isinstance(calibration.shield, GaussianNoise) and shield > 0:
        mu = math.hypot(mu, calibration.distance / shield)
    elif shield > 0:
        step = np.eye(1, calibration.problem.d)[0] * calibration.distance
        off = -calibration.shield.log_density(step)
    if isinstance(claim, ApproxDP):
        return max(law.delta(claim.epsilon - off, mu) for law in laws)
    return max(law.rho() for law in laws) + mu * mu / 2
