"""Many releases of a registered mechanism at once, in doubles.

The noise comes from the recipe of its law, as a real release's does; only the arithmetic is
that of arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from privatelr.audit.exact import log_ratios, minimisers, tilt_losses
from privatelr.privacy.blocks import BlockLaplace
from privatelr.privacy.noise import GaussianNoise, NoiseLaw, SphericalLaplace

if TYPE_CHECKING:
    from privatelr.audit.pairs import Pair, SignedRows
    from privatelr.audit.scores import Score
    from privatelr.mechanisms.calibration.record import Calibration
    from privatelr.types import FloatArray

Sampler = Callable[["NoiseLaw", int, np.random.Generator], "FloatArray"]


class Arrays:
    """The arithmetic of `privatelr.privacy.draws`, elementwise."""

    def log(self, x: FloatArray) -> FloatArray:
        return np.asarray(np.log(x))

    def sqrt(self, x: FloatArray) -> FloatArray:
        return np.asarray(np.sqrt(x))

    def cos_pi(self, x: FloatArray) -> FloatArray:
        return np.asarray(np.cos(np.pi * x))

    def sin_pi(self, x: FloatArray) -> FloatArray:
        return np.asarray(np.sin(np.pi * x))


def draw_many(law: NoiseLaw, count: int, rng: np.random.Generator) -> FloatArray:
    """Independent draws ``(count, d)`` of a noise law."""
    uniforms = 1.0 - rng.random((law.uniforms, count))  # never 0
    signs = rng.choice(np.array([-1, 1]), size=(law.signs, count))
    drawn = law.transform(list(uniforms), list(signs), Arrays())
    return np.column_stack([np.broadcast_to(x, count) for x in drawn])


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
            unit = [
                block.bound * rng.dirichlet(np.ones(block.size + 1), count)[:, :-1]
                for block in law.blocks
            ]
            signs = rng.choice(np.array([-1.0, 1.0]), (count, law.dimension))
            return np.asarray(reach * signs * np.hstack(unit))
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


def likelihood_ratio(calibration: Calibration, pair: Pair) -> Score:
    """Log likelihood ratio of releases, but for the shield and the rounding."""
    problem, noise = calibration.problem, calibration.noise
    if calibration.placement == "objective":
        return lambda w: tilt_losses(pair, problem, noise, w)
    none = np.zeros((1, problem.d))
    first, second = (minimisers(side, problem, none) for side in (pair.first(), pair.second()))
    return lambda w: log_ratios(noise, w - first, np.broadcast_to(second - first, w.shape))
