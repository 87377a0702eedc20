"""Many releases of a registered mechanism at once, in doubles.

The noise comes from the recipe of its law, as a real release's does; only the arithmetic is
that of arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privatelr.audit.exact import log_ratios, minimisers, tilt_losses

if TYPE_CHECKING:
    from privatelr.audit.pairs import Pair, SignedRows
    from privatelr.audit.scores import Score
    from privatelr.mechanisms.calibration.record import Calibration
    from privatelr.privacy.noise import NoiseLaw
    from privatelr.types import FloatArray


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


def release_many(
    calibration: Calibration, data: SignedRows, count: int, rng: np.random.Generator
) -> FloatArray:
    """Independent releases ``(count, d)`` on one dataset."""
    problem = calibration.problem
    noise = draw_many(calibration.noise, count, rng)
    if calibration.placement == "objective":
        w = minimisers(data, problem, noise) + draw_many(calibration.shield, count, rng)
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
