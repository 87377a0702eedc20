"""Many releases of a registered mechanism at once, in doubles.

The noise comes from the recipe of its law, as a real release's does; only the arithmetic is
that of arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from privatelr.audit.density.exact import log_ratios, minimisers, tilt_losses
from privatelr.audit.density.joint import moments_of, query, query_change
from privatelr.mechanisms import StagedCalibration
from privatelr.mechanisms.calibration import Calibration
from privatelr.privacy.noise import (
    BlockLaplace,
    GaussianNoise,
    NoiseLaw,
    SphericalLaplace,
    draw_many,
)
from privatelr.types import FloatArray, Part, parts_of

if TYPE_CHECKING:
    from privatelr.audit.density.pairs import Pair, SignedRows
    from privatelr.audit.sampling.outputs import Score

Sampler = Callable[["NoiseLaw", int, np.random.Generator], "FloatArray"]


def draw_by_definition(law: NoiseLaw, count: int, rng: np.random.Generator) -> FloatArray:
    """As `draw_many`, by the definition of the law and NumPy's samplers, not by its recipe."""
    match law:
        case SphericalLaplace():
            direction = rng.standard_normal((count, law.dimension))
            length = rng.gamma(law.dimension, 1 / law.rate, (count, 1))
            return np.asarray(length * direction / np.linalg.norm(direction, axis=1)[:, None])
        case GaussianNoise():
            return law.sd * rng.standard_normal((count, law.dimension))
        case BlockLaplace():
            reach = rng.gamma(law.dimension + 1, 1 / law.rate, (count, 1))
            unit = np.empty((count, law.dimension))
            for part in parts_of(law.blocks):
                unit[:, part.columns] = part.bound * _in_unit_ball(part, count, rng)
            return np.asarray(reach * unit)
    return draw_many(law, count, rng)


def _in_unit_ball(part: Part, count: int, rng: np.random.Generator) -> FloatArray:
    """Points ``(count, size)`` that are uniform in the ball of radius one of a part's norm."""
    if part.norm == "l1":
        sizes = rng.dirichlet(np.ones(part.size + 1), count)[:, :-1]
        return np.asarray(rng.choice(np.array([-1.0, 1.0]), sizes.shape) * sizes)
    direction = rng.standard_normal((count, part.size))
    direction /= np.linalg.norm(direction, axis=1)[:, None]
    return np.asarray(rng.random((count, 1)) ** (1 / part.size) * direction)


def release_many(
    calibration: Calibration,
    data: SignedRows,
    count: int,
    rng: np.random.Generator,
    sampler: Sampler = draw_many,
) -> FloatArray:
    """Independent releases ``(count, d)`` on one dataset."""
    problem = calibration.problem
    noise = sampler(calibration.noise, count, rng)
    if calibration.placement == "objective":
        w = minimisers(data, problem, noise) + sampler(calibration.shield, count, rng)
    else:
        w = minimisers(data, problem, np.zeros((1, problem.d))) + noise
    return np.asarray(np.round(w / calibration.grid) * calibration.grid)


def release_both_many(
    plan: StagedCalibration,
    data: SignedRows,
    count: int,
    rng: np.random.Generator,
    sampler: Sampler = draw_many,
) -> FloatArray:
    """Independent releases ``(count, d + d (d + 1))`` of coefficients and moments at them."""
    moments = moments_of(plan)
    w = release_many(plan.coefficients, data, count, rng, sampler)
    values = query(data, moments, w) + sampler(moments.noise, count, rng)
    return np.hstack([w, np.round(values / moments.grid) * moments.grid])


def likelihood_ratio(calibration: Calibration, pair: Pair) -> Score:
    """Log likelihood ratio of releases, but for the shield and the rounding."""
    problem, noise = calibration.problem, calibration.noise
    if calibration.placement == "objective":
        return lambda w: tilt_losses(pair, problem, noise, w)
    none = np.zeros((1, problem.d))
    first, second = (minimisers(side, problem, none) for side in (pair.first(), pair.second()))
    return lambda w: log_ratios(noise, w - first, np.broadcast_to(second - first, w.shape))


def likelihood_ratio_of_both(plan: StagedCalibration, pair: Pair) -> Score:
    """Log likelihood ratio of releases of both, but for the shield and the rounding."""
    moments, d = moments_of(plan), pair.d
    coefficients = likelihood_ratio(plan.coefficients, pair)

    def score(outputs: FloatArray) -> FloatArray:
        w, values = outputs[:, :d], outputs[:, d:]
        residual = values - query(pair.first(), moments, w)
        change = query_change(pair, moments, w)
        return coefficients(w) + log_ratios(moments.noise, residual, change)

    return score
