"""Adversarial search: the pair of datasets on which a mechanism does worst."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from privatelr.arguments import suggests_arguments
from privatelr.audit.density.exact import margin_at, margins_of_most
from privatelr.audit.density.joint import joint_loss_of, moments_loss, moments_of
from privatelr.audit.density.loss import loss_of
from privatelr.audit.density.pairs import (
    RIGHT,
    WIDER,
    Pair,
    longest_row,
    opposed_pair,
    pinned_boundary,
    random_pair,
    straight_pair,
    usual_pair,
)
from privatelr.mechanisms import StagedCalibration
from privatelr.mechanisms.calibration import Calibration
from privatelr.privacy import ApproxDP
from privatelr.privacy.noise import GaussianNoise
from privatelr.types import FloatArray

if TYPE_CHECKING:
    from privatelr.audit.density.loss import PrivacyLoss

_STEEP = 1 - 1e-9
_SHARES = (0.9997, 0.98)
"""Parts of the largest slope at which the old record lies in the tail of a Gaussian loss."""
_PINNED = 100_001

Candidate = tuple[str, Pair, "FloatArray | None"]
"""A family, a pair, and outputs ``(m, d)`` to start from."""


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """The worst pair that a search met.

    Attributes
    ----------
    calibration : Calibration
    pair : Pair
    loss : PrivacyLoss
    family : str
        Where the pair comes from.
    """

    calibration: Calibration
    pair: Pair
    loss: PrivacyLoss
    family: str


@suggests_arguments
def search(
    subject: Calibration | StagedCalibration, rng: np.random.Generator, random_pairs: int
) -> Finding:
    """Try the pairs on which the bounds are attained, a realistic one, and random ones.

    Of a plan that buys moments, the release of both is attacked (`joint_loss_of`).
    """
    if isinstance(subject, StagedCalibration):
        if subject.moments is not None:
            return search_both(subject, rng, random_pairs)
        subject = subject.coefficients
    findings = [
        Finding(subject, pair, loss_of(pair, subject, outputs), family)
        for family, pair, outputs in _candidates(subject, rng, random_pairs)
    ]
    return max(findings, key=_size)


def search_both(plan: StagedCalibration, rng: np.random.Generator, random_pairs: int) -> Finding:
    """Try the pair on which the coefficients do worst, one at an angle, and random ones.

    The parts of the loss are each the worst that was met, the moments also on records at a
    right angle.
    """
    calibration = plan.coefficients
    findings = [
        Finding(calibration, pair, joint_loss_of(pair, plan, outputs), family)
        for family, pair, outputs in _candidates_for_both(calibration, rng, random_pairs)
    ]
    right = moments_loss(usual_pair(calibration, RIGHT)[0], moments_of(plan))
    coefficients, moments = zip(*(found.loss.parts for found in findings), strict=True)
    parts = max(coefficients, key=_ratio), max(*moments, right, key=_ratio)
    worst = max(findings, key=_size)
    return replace(worst, loss=replace(worst.loss, parts=parts))


def _candidates_for_both(
    calibration: Calibration, rng: np.random.Generator, random_pairs: int
) -> Iterator[Candidate]:
    yield list(_attaining(calibration))[-1]
    # of records at an angle noise on the minimiser shows little, and delta is far below the claim
    if calibration.placement == "objective" and not isinstance(calibration.proven, ApproxDP):
        pair, w = usual_pair(calibration, WIDER)
        yield "crossed", pair, w[None]
    for _ in range(random_pairs):
        yield "random", random_pair(rng, calibration), None


def _size(finding: Finding) -> float:
    return _ratio(finding.loss)


def _ratio(loss: PrivacyLoss) -> float:
    """Whatever has no number is worse than anything that has one."""
    return math.inf if math.isnan(loss.ratio) else loss.ratio


def _candidates(
    calibration: Calibration, rng: np.random.Generator, random_pairs: int
) -> Iterator[Candidate]:
    problem = calibration.problem
    yield from _attaining(calibration)
    if problem.d == 2 and problem.n >= _PINNED:
        yield "pinned boundary", _pinned(calibration), None
    for _ in range(random_pairs):
        yield "random", random_pair(rng, calibration), None


def _attaining(calibration: Calibration) -> Iterator[Candidate]:
    """Pairs on which the bounds are attained as n grows."""
    noise = calibration.noise
    if calibration.placement == "output":
        yield "straight", straight_pair(calibration, 0.0)[0], None
    if calibration.problem.d > 1:
        yield "opposed", deep_pair(calibration), None
    if calibration.placement == "output":
        return
    if isinstance(noise, GaussianNoise):
        yield from _in_the_tail(calibration, noise)
    else:
        yield from _of_most(calibration)


def _of_most(calibration: Calibration) -> Iterator[Candidate]:
    """Where slopes and curvatures together make the loss of a Laplace tilt largest."""
    problem = calibration.problem
    charge = -calibration.noise.log_density(longest_row(calibration))
    old, new = margins_of_most(problem.loss, charge, problem.kappa)
    pair, w = straight_pair(calibration, old)
    yield "straight", pair, w[None]
    if problem.d > 1:
        pair, w = opposed_pair(calibration, old=old, new=new, turns=2.0)
        yield "opposed", pair, w[None]


def _in_the_tail(calibration: Calibration, noise: GaussianNoise) -> Iterator[Candidate]:
    """Where slopes and curvatures make the loss of a Gaussian tilt large where it counts."""
    loss, turns = calibration.problem.loss, _tail(calibration, noise)
    yield "straight", straight_pair(calibration, 0.0, turns)[0], None
    if calibration.problem.d > 1:
        steep = margin_at(loss, _STEEP)
        for share in _SHARES:
            old = margin_at(loss, share)
            pair, _ = opposed_pair(calibration, old=old, new=min(old, steep), turns=turns)
            yield "opposed", pair, None


def deep_pair(calibration: Calibration) -> Pair:
    """Opposite records that stay on the wrong side whatever the noise, in d > 1."""
    problem = calibration.problem
    moves = 2.0 * problem.loss.slope_bound * problem.radius
    if calibration.placement == "objective":
        moves = 12.0 * math.sqrt(float(calibration.noise.variances.max()))
    margin = margin_at(problem.loss, _STEEP) - problem.kappa * moves / problem.radius
    return opposed_pair(calibration, old=margin, new=margin)[0]


def _tail(calibration: Calibration, noise: GaussianNoise) -> float:
    """Number of turning rows at which a Gaussian loss is as large as the claim's epsilon."""
    reach = calibration.problem.loss.slope_bound * calibration.problem.radius
    target = calibration.target
    epsilon = target.epsilon if isinstance(target, ApproxDP) else 0.0
    return max(2.0, (epsilon * noise.sd**2 / reach - 2 * reach) / (2 * reach))


def _pinned(calibration: Calibration) -> Pair:
    """The realistic pair of one covariate and an intercept, its rows as long as they may be."""
    axis = longest_row(calibration)
    scale = axis[0] / axis[1] if axis[1] > 0 else 0.5
    unit = pinned_boundary(_PINNED, scale=scale)
    size = calibration.problem.radius / math.hypot(scale, 1.0)
    return Pair(size * unit.rows, unit.counts, size * unit.old, size * unit.new)
