"""The law of a release, exactly: densities at outputs, and minimisers of given tilts.

By the change of variables of privacy.md, Lemma 0, the minimiser w of the tilted objective has
the density of the tilt ``b(w) = -Lambda w - sum loss'(u.w) u`` times the determinant of the
Hessian. Everything here takes many outputs at once, as arrays ``(m, d)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privatelr.errors import NotConvergedError
from privatelr.privacy.noise import BlockLaplace, GaussianNoise, NoiseLaw, SphericalLaplace
from privatelr.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from privatelr.audit.density.pairs import Pair, SignedRows
    from privatelr.mechanisms import Problem
    from privatelr.numerics import Loss

_CHUNK = 20_000
_SLACK = 1e-7
_ENOUGH = 1e-11
"""A Newton step of this relative length ends a solve."""
_PATIENCE, _COARSE = 100, 1e-7
"""A step of this relative length ends a solve after so many steps."""
_LONGEST = 500
_WIDEST = 60.0
"""No loss bends at margins beyond."""
_SMALL, _MANY = 8, 100
"""Sizes of matrices up to which, and numbers from which, it is fast to eliminate in all at once."""


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
    solved = solve_each(hessian(shared, problem, w), records)
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
    """N of each row, from the blocks themselves and not by the code of the law."""
    starts = np.cumsum([0, *(block.size for block in noise.blocks[:-1])])
    bounds = np.array([block.bound for block in noise.blocks])
    ball = np.array([block.norm == "l2" for block in noise.blocks])
    sums = np.add.reduceat(np.abs(b), starts, axis=1) / bounds
    if ball.any():
        squares = np.add.reduceat(b * b, starts, axis=1)[:, ball] / bounds[ball] ** 2
        sums[:, ball] = np.sqrt(squares.sum(axis=1))[:, None]
    return np.asarray(sums.max(axis=1))


def solve_each(matrices: FloatArray, right: FloatArray) -> FloatArray:
    """Solutions ``(m, d, k)`` for positive definite ``(m, d, d)``, by elimination all at once.

    For many small matrices this is several times as fast as the linear algebra library.
    """
    d = matrices.shape[1]
    if d > _SMALL or len(matrices) < _MANY:
        return np.asarray(np.linalg.solve(matrices, right))
    a, x = (np.array(np.moveaxis(part, 0, -1), order="C") for part in (matrices, right))
    for i in range(d):
        for j in range(i + 1, d):
            share = a[j, i] / a[i, i]
            a[j, i + 1 :] -= share * a[i, i + 1 :]
            x[j] -= share * x[i]
    for i in reversed(range(d)):
        for j in range(i + 1, d):
            x[i] -= a[i, j] * x[j]
        x[i] /= a[i, i]
    return np.asarray(np.moveaxis(x, -1, 0))


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
    g = gradient(data, problem, w) + b
    least = 1e-3 / problem.radius
    for taken in range(_LONGEST):
        step = -solve_each(hessian(data, problem, w), g[:, :, None])[:, :, 0]
        step, g = _shortened(data, problem, w, b, step, np.einsum("ij,ij->i", g, step))
        w = w + step
        found[left] = w
        # large counts leave more rounding in a step than the usual resolution
        enough = _ENOUGH if taken < _PATIENCE else _COARSE
        size = np.linalg.norm(step, axis=1) / (np.linalg.norm(w, axis=1) + least)
        more: BoolArray = size > enough
        if not more.any():
            return found
        left, w, b, g = left[more], w[more], b[more], g[more]
    raise NotConvergedError(f"audit: a minimiser was not found in {_LONGEST} Newton steps.")


def _shortened(
    data: SignedRows,
    problem: Problem,
    w: FloatArray,
    b: FloatArray,
    step: FloatArray,
    descent: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Steps ``(m, d)`` times 1, 1/2, 1/4, ... until the slope has not turned; gradients there."""
    step = step.copy()
    g = gradient(data, problem, w + step) + b
    along, turned = np.einsum("ij,ij->i", g, step), 0.5 * np.abs(descent)
    left = np.flatnonzero(along > turned)
    for _ in range(50):
        if left.size == 0:
            break
        step[left] /= 2
        turned[left] /= 2
        g[left] = gradient(data, problem, w[left] + step[left]) + b[left]
        left = left[np.einsum("ij,ij->i", g[left], step[left]) > turned[left]]
    return step, g


def margin_at(loss: Loss, share: float) -> float:
    """A margin at which the slope has this share of its largest size, by bisection."""
    low, high = -_WIDEST, _WIDEST
    for _ in range(200):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if -float(loss.slope(np.array([middle]))[0]) >= share * loss.slope_bound:
            low = middle
        else:
            high = middle
    return low


def margins_of_most(loss: Loss, unit: float, kappa: float) -> tuple[float, float]:
    """Margins of the old and of the new record at which the privacy loss is largest.

    The old record adds ``unit s + log(1 + kappa l'')`` with s the size of its slope, the new
    one ``unit s - log(1 + kappa l'')``; `unit` is what the noise charges for a slope of one.
    """
    margins = candidate_margins(loss)
    charge = unit * np.abs(loss.slope(margins))
    curvature = np.log1p(kappa * loss.curvature(margins))
    return most(margins, charge + curvature), most(margins, charge - curvature)


def candidate_margins(loss: Loss) -> FloatArray:
    """Margins ``(m,)``, as dense where the loss bends as its bend is narrow."""
    middle, width = margin_at(loss, 0.5), loss.slope_bound / loss.curvature_bound
    bend = middle + width * np.linspace(-20.0, 20.0, 20_001)
    edges = [margin_at(loss, share) for share in 1 - 10.0 ** -np.arange(1.0, 10.0)]
    return np.concatenate([np.linspace(-40.0, 40.0, 801), bend, edges])


def most(margins: FloatArray, charged: FloatArray) -> float:
    """Of the margins that all but attain the maximum, the one nearest to zero."""
    close = margins[charged >= charged.max() - _SLACK * np.abs(charged).max()]
    return float(close[np.argmin(np.abs(close))])
