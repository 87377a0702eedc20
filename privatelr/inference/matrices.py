"""Curvatures and scores that a noisy release leaves possible.

A flat prior on the feasible cone and the known law of the noise give a posterior; where the noise
is small it is that of the noise alone, carried back into the cone (inference.md 5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import lapack

from privatelr.inference.error_law import PUBLIC_SEED, Matrices
from privatelr.inference.evidence import FRAGILE, Evidence, is_exact
from privatelr.mechanisms.moments import matrix_of, vector_of
from privatelr.privacy.noise import SphericalLaplace

if TYPE_CHECKING:
    from privatelr.types import BoolArray, FloatArray

_CHAINS = 64
_WARM_UP = 60
_KEPT, _APART = 6, 8
_SHRINKS = 60
_SHORTEST = 1e-9
_INSIDE = 0.05
"""Where chains start, in deviations of the noise above the floor."""


def floored(matrices: FloatArray, floor: float) -> FloatArray:
    """Symmetric matrices ``(..., d, d)`` with eigenvalues below `floor` raised to it."""
    values, vectors = np.linalg.eigh(matrices)
    raised = np.maximum(values, floor)[..., None, :]
    return np.asarray((vectors * raised) @ np.swapaxes(vectors, -1, -2))


def plug_in(evidence: Evidence, scores_floor: float = 0.0) -> Matrices:
    """The released matrices, carried into the feasible cone (inference.md 4.4)."""
    return Matrices(
        floored(evidence.curvature, evidence.floor)[None],
        floored(evidence.scores, scores_floor)[None],
    )


def plausible(evidence: Evidence, noise_to_signal: float) -> Matrices:
    """Draws from the posterior of both matrices; the same at every call."""
    if is_exact(evidence):
        return plug_in(evidence)
    if noise_to_signal < FRAGILE:
        return _perturbed(evidence)
    return _posterior(evidence)


def _noise_scales(evidence: Evidence, count: int, rng: np.random.Generator) -> FloatArray:
    """Deviations ``(count,)`` of the normal laws that the noise of the moments mixes."""
    noise = evidence.noise
    if isinstance(noise, SphericalLaplace):
        shape = (noise.dimension + 1) / 2
        return np.sqrt(rng.gamma(shape, 2 / noise.rate / noise.rate, count))
    return np.full(count, noise.scale)


def _perturbed(evidence: Evidence) -> Matrices:
    """What the release could have been made from if all were possible, carried into the cone."""
    rng = np.random.default_rng(PUBLIC_SEED)
    count = _CHAINS * _KEPT
    sd = _noise_scales(evidence, count, rng)[:, None]
    k = evidence.noise.dimension // 2
    curvature = evidence.curvature - matrix_of(sd * rng.standard_normal((count, k)))
    scores = evidence.scores - matrix_of(sd / evidence.balance * rng.standard_normal((count, k)))
    return Matrices(floored(curvature, evidence.floor), floored(scores, 0.0))


def _posterior(evidence: Evidence) -> Matrices:
    """Elliptical slice sampling in the cone, the scale of Laplace noise sampled along.

    Many chains run side by side. Given the scale, the noise is normal (Murray, Adams and MacKay
    2010); given the noise, the reciprocal of the squared scale is inverse Gaussian.
    """
    rng = np.random.default_rng(PUBLIC_SEED)
    balance, d = evidence.balance, len(evidence.w)
    curvature = _Cone(evidence.curvature - evidence.floor * np.eye(d), evidence.largest_trace)
    scores = _Cone(evidence.scores, evidence.largest_scores)
    x = np.tile(curvature.start(evidence.curvature_sd), (_CHAINS, 1))
    y = np.tile(scores.start(evidence.scores_sd), (_CHAINS, 1))
    kept = []
    for step in range(_WARM_UP + _KEPT * _APART):
        sd = _scales_given(evidence, np.hstack([x, balance * y]), rng)[:, None]
        x = _sliced(x, sd * rng.standard_normal(x.shape), curvature, rng)
        y = _sliced(y, sd / balance * rng.standard_normal(y.shape), scores, rng)
        if step >= _WARM_UP and (step - _WARM_UP) % _APART == _APART - 1:
            kept.append((x, y))
    xs, ys = (np.concatenate(part) for part in zip(*kept, strict=True))
    return Matrices(evidence.curvature + matrix_of(xs), evidence.scores + matrix_of(ys))


def _scales_given(evidence: Evidence, noise: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Deviations ``(c,)`` of the normal laws, given noise ``(c, 2 k)`` that they made."""
    law = evidence.noise
    if isinstance(law, SphericalLaplace):
        length = np.maximum(np.linalg.norm(noise, axis=1), _SHORTEST / law.rate)
        return np.asarray(1 / np.sqrt(rng.wald(law.rate / length, law.rate**2)))
    return np.full(len(noise), law.scale)


@dataclass(frozen=True, slots=True, eq=False)
class _Cone:
    """Offsets from a noisy matrix ``(d, d)`` to positive definite ones of bounded trace."""

    noisy: FloatArray
    largest_trace: float

    def start(self, sd: float) -> FloatArray:
        """An offset ``(k,)`` well inside, near the noisy matrix."""
        least = min(_INSIDE * sd, self.largest_trace / (2 * len(self.noisy)))
        inside = floored(self.noisy, least)
        excess = float(np.trace(inside)) / (0.99 * self.largest_trace)
        return vector_of(inside / max(excess, 1.0) - self.noisy)

    def holds(self, offset: FloatArray) -> BoolArray:
        """Whether noisy matrix plus offset ``(c, k)`` is in the cone."""
        matrices = self.noisy + matrix_of(offset)
        small = np.trace(matrices, axis1=1, axis2=2) <= self.largest_trace
        # a factor for each matrix by itself, because one failure ends a stack of them
        return np.array(
            [
                ok and lapack.dpotrf(one, clean=0)[1] == 0
                for ok, one in zip(small, matrices, strict=True)
            ]
        )


def _sliced(x: FloatArray, y: FloatArray, cone: _Cone, rng: np.random.Generator) -> FloatArray:
    """One step for each chain: a point of the ellipse through x and y that is in the cone."""
    angle = rng.uniform(0, 2 * math.pi, len(x))
    low, high = angle - 2 * math.pi, angle.copy()
    found, left = x.copy(), np.arange(len(x))
    for _ in range(_SHRINKS):
        turn = angle[left, None]
        proposal = x[left] * np.cos(turn) + y[left] * np.sin(turn)
        inside = cone.holds(proposal)
        found[left[inside]] = proposal[inside]
        left = left[~inside]
        if left.size == 0:
            break
        beyond = angle[left] < 0
        low[left] = np.where(beyond, angle[left], low[left])
        high[left] = np.where(beyond, high[left], angle[left])
        angle[left] = rng.uniform(low[left], high[left])
    return found
