"""The law of a release, exactly: densities at outputs, and minimisers of given tilts.

By the change of variables of privacy.md, Lemma 0, the minimiser w of the tilted objective has
the density of the tilt ``b(w) = -Lambda w - sum loss'(u.w) u`` times the determinant of the
Hessian. Everything here takes many outputs at once, as arrays ``(m, d)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privatelr.errors import NotConvergedError
from privatelr.privacy.blocks import BlockLaplace
from privatelr.privacy.noise import GaussianNoise, SphericalLaplace

if TYPE_CHECKING:
    from privatelr.audit.pairs import Pair, SignedRows
    from privatelr.mechanisms.problem import Problem
    from privatelr.numerics.losses import Loss
    from privatelr.privacy.noise import NoiseLaw
    from privatelr.types import BoolArray, FloatArray

_CHUNK = 20_000
_SLACK = 1e-7
_ENOUGH = 1e-11
"""A Newton step of this relative length ends a solve."""
_PATIENCE, _COARSE = 100, 1e-7
"""After so many steps, this length does."""
_LONGEST = 500


def gradient(data: SignedRows, problem: Problem, w: FloatArray) -> FloatArray:
    """Gradient ``(m, d)`` of the sum form without tilt."""
    slopes = problem.loss.slope(w @ data.rows.T) * data.counts
    return slopes @ data.rows + problem.penalty * w


def hessian(data: SignedRows, problem: Problem, w: FloatArray) -> FloatArray:
    """Second derivative ``(m, d, d)`` of the sum form."""
    weight = problem.loss.curvature(w @ data.rows.T) * data.counts
    products = data.rows[:, :, None] * data.rows[:, None, :]
    d = data.rows.shape[1]
    total = (weight @ products.reshape(len(products), d * d)).reshape(-1, d, d)
    return np.asarray(total + problem.penalty * np.eye(d))


def tilt_losses(pair: Pair, problem: Problem, noise: NoiseLaw, w: FloatArray) -> FloatArray:
    """Log ratio ``(m,)`` of the densities of the minimiser at w, old record over new.

    The difference of the tilts is formed from the two records alone, and the ratio of the
    determinants from the rank-one terms (Lemma 1), so that large shared sums do not matter.
    """
    shared, loss = pair.shared(), problem.loss
    before, after = w @ pair.old, w @ pair.new
    b = -gradient(shared, problem, w) - loss.slope(before)[:, None] * pair.old
    change = loss.slope(after)[:, None] * pair.new - loss.slope(before)[:, None] * pair.old
    records = np.broadcast_to(np.column_stack([pair.old, pair.new]), (len(w), pair.d, 2))
    solved = np.linalg.solve(hessian(shared, problem, w), records)
    old = np.log1p(loss.curvature(before) * (solved[:, :, 0] @ pair.old))
    new = np.log1p(loss.curvature(after) * (solved[:, :, 1] @ pair.new))
    return np.asarray(log_ratios(noise, b, change) + old - new)


def log_ratios(noise: NoiseLaw, b: FloatArray, change: FloatArray) -> FloatArray:
    """``noise.log_ratio`` for each row of b and change ``(m, d)``."""
    match noise:
        case SphericalLaplace():
            both = np.linalg.norm(b, axis=1) + np.linalg.norm(b - change, axis=1)
            products = np.einsum("ij,ij->i", change, 2 * b - change)
            return np.asarray(-noise.rate * products / np.where(both > 0, both, 1.0))
        case GaussianNoise():
            products = np.einsum("ij,ij->i", change, 2 * b - change)
            return np.asarray(-products / (2 * noise.sd**2))
        case BlockLaplace():
            return np.asarray(noise.rate * (_norms(noise, b - change) - _norms(noise, b)))
    return np.array([noise.log_ratio(*both) for both in zip(b, change, strict=True)])


def _norms(noise: BlockLaplace, b: FloatArray) -> FloatArray:
    starts = np.cumsum([0, *(block.size for block in noise.blocks[:-1])])
    sums = np.add.reduceat(np.abs(b), starts, axis=1)
    return np.asarray((sums / [block.bound for block in noise.blocks]).max(axis=1))


def minimisers(data: SignedRows, problem: Problem, tilts: FloatArray) -> FloatArray:
    """Exact minimisers ``(m, d)`` of the sum form under the tilts ``(m, d)``."""
    start = _solve(data, problem, np.zeros((1, tilts.shape[1])), np.zeros((1, tilts.shape[1])))
    parts = [
        _solve(data, problem, tilts[at : at + _CHUNK], start) for at in range(0, len(tilts), _CHUNK)
    ]
    return np.concatenate(parts) if parts else tilts


def _solve(data: SignedRows, problem: Problem, tilts: FloatArray, start: FloatArray) -> FloatArray:
    """Newton steps for all tilts; a step is halved until it does not overshoot.

    A step is judged by the slope along it, not by the objective, whose changes drown in
    rounding where counts are large.
    """
    found = np.repeat(start, len(tilts), axis=0)
    left = np.arange(len(tilts))
    w, b = found, tilts
    least = 1e-3 / problem.radius
    for taken in range(_LONGEST):
        g = gradient(data, problem, w) + b
        step = np.asarray(-np.linalg.solve(hessian(data, problem, w), g[:, :, None])[:, :, 0])
        descent = np.einsum("ij,ij->i", g, step)
        w = w + step * _step_sizes(data, problem, w, b, step, descent)
        found[left] = w
        # large counts leave more rounding in a step than the usual resolution
        enough = _ENOUGH if taken < _PATIENCE else _COARSE
        size = np.linalg.norm(step, axis=1) / (np.linalg.norm(w, axis=1) + least)
        more: BoolArray = size > enough
        if not more.any():
            return found
        left, w, b = left[more], w[more], b[more]
    raise NotConvergedError(f"audit: a minimiser was not found in {_LONGEST} Newton steps.")


def _step_sizes(
    data: SignedRows,
    problem: Problem,
    w: FloatArray,
    b: FloatArray,
    step: FloatArray,
    descent: FloatArray,
) -> FloatArray:
    """Sizes ``(m, 1)`` of 1, 1/2, 1/4, ... after which the slope along the step has not turned."""
    sizes = np.ones((len(w), 1))
    left = np.arange(len(w))
    for _ in range(50):
        reached = gradient(data, problem, w[left] + sizes[left] * step[left]) + b[left]
        along = np.einsum("ij,ij->i", reached, step[left])
        left = left[along > 0.5 * np.abs(descent[left])]
        if left.size == 0:
            break
        sizes[left] /= 2
    return sizes


def margins_of_most(loss: Loss, unit: float, kappa: float) -> tuple[float, float]:
    """Margins of the old and of the new record at which the privacy loss is largest.

    The old record adds ``unit s + log(1 + kappa l'')`` with s the size of its slope, the new
    one ``unit s - log(1 + kappa l'')``; `unit` is what the noise charges for a slope of one.
    """
    margins = np.linspace(-40.0, 40.0, 160_001)
    charge = unit * np.abs(loss.slope(margins))
    curvature = np.log1p(kappa * loss.curvature(margins))
    return _most(margins, charge + curvature), _most(margins, charge - curvature)


def _most(margins: FloatArray, charged: FloatArray) -> float:
    """Of the margins that all but attain the maximum, the one nearest to zero."""
    close = margins[charged >= charged.max() - _SLACK * np.abs(charged).max()]
    return float(close[np.argmin(np.abs(close))])
