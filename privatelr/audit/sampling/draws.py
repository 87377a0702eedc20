"""Many releases of a registered mechanism at once, in doubles.

The noise comes from the recipe of its law, as a real release's does, or from the definition of the
law; only the arithmetic is that of arrays.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from privatelr.audit.density.exact import minimisers, moments_of, query
from privatelr.audit.density.pairs import SignedRows
from privatelr.mechanisms import StagedCalibration
from privatelr.mechanisms.calibration import Calibration
from privatelr.privacy.noise import (
    BlockLaplace,
    GaussianNoise,
    NoiseLaw,
    SphericalLaplace,
    draw_many,
)
from privatelr.types import FloatArray, parts_of

Sampler = Callable[[NoiseLaw, int, np.random.Generator], FloatArray]
"""Draws ``(count, dimension)`` of a law."""


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
                # uniform in the ball of radius one of the norm of the part
                if part.norm == "l1":
                    sizes = rng.dirichlet(np.ones(part.size + 1), count)[:, :-1]
                    within = rng.choice(np.array([-1.0, 1.0]), sizes.shape) * sizes
                else:
                    within = rng.standard_normal((count, part.size))
                    within /= np.linalg.norm(within, axis=1)[:, None]
                    within *= rng.random((count, 1)) ** (1 / part.size)
                unit[:, part.columns] = part.bound * within
            return np.asarray(reach * unit)
    return draw_many(law, count, rng)


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
