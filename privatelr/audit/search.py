"""Adversarial search: the pair of datasets on which a mechanism does worst."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from privatelr.audit.exact import margins_of_most
from privatelr.audit.loss import loss_of
from privatelr.audit.pairs import (
    Pair,
    longest_row,
    opposed_pair,
    pinned_boundary,
    random_pair,
)
from privatelr.privacy.guarantees import ApproxDP
from privatelr.privacy.noise import GaussianNoise

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from privatelr.audit.loss import PrivacyLoss
    from privatelr.mechanisms.calibration.record import Calibration
    from privatelr.types import FloatArray

_MARGINS = (-40.0, -8.0, -4.0, -1.0)
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


def search(calibration: Calibration, rng: np.random.Generator, random_pairs: int) -> Finding:
    """Try the pairs on which the bounds are attained, a realistic one, and random ones."""
    findings = [
        Finding(calibration, pair, loss_of(pair, calibration, outputs), family)
        for family, pair, outputs in _candidates(calibration, rng, random_pairs)
    ]
    return max(findings, key=lambda finding: finding.loss.ratio)


def _candidates(
    calibration: Calibration, rng: np.random.Generator, random_pairs: int
) -> Iterator[Candidate]:
    problem = calibration.problem
    if problem.d > 1:
        yield from _opposed(calibration)
    if problem.d == 2 and problem.n >= _PINNED:
        yield "pinned boundary", _pinned(calibration), None
    for _ in range(random_pairs):
        yield "random", random_pair(rng, calibration), None


def _opposed(calibration: Calibration) -> Iterator[Candidate]:
    yield "opposed", deep_pair(calibration), None
    noise, problem = calibration.noise, calibration.problem
    if calibration.placement == "output":
        return
    if isinstance(noise, GaussianNoise):
        turns = _tail(calibration, noise)
        for old in _MARGINS:
            pair, _ = opposed_pair(calibration, old=old, new=min(old, -15.0), turns=turns)
            yield "opposed", pair, None
        return
    charge = -noise.log_density(longest_row(calibration))
    old, new = margins_of_most(problem.loss, charge, problem.kappa)
    pair, w = opposed_pair(calibration, old=old, new=new, turns=2.0)
    yield "opposed", pair, w[None]


def deep_pair(calibration: Calibration) -> Pair:
    """Opposite records that stay on the wrong side whatever the noise, in d > 1."""
    problem = calibration.problem
    moves = 2.0 * problem.loss.slope_bound * problem.radius
    if calibration.placement == "objective":
        moves = math.sqrt(float(calibration.noise.variances.max()))
    margin = -20.0 - 12.0 * problem.kappa * moves / problem.radius
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
