"""The law of the privacy loss of objective perturbation on a pair, by integration.

Under the first dataset the tilt b has the law of the noise, the minimiser is a function of it,
and so is the privacy loss. Gaussian tilts are integrated: on a fine grid along the line on
which the two datasets pull apart, and across it on a coarse one (d = 2) or over random normals
(d > 2). Other laws are drawn from. A Gaussian release that follows, whose mu depends on the
minimiser, is composed with it point by point.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from privatelr.audit.density.exact import log_ratios, minimisers, tilt_losses
from privatelr.mechanisms import Problem
from privatelr.privacy.noise import GaussianNoise, NoiseLaw, draw_many
from privatelr.types import FloatArray

if TYPE_CHECKING:
    from privatelr.audit.density.pairs import Pair

ORDERS = (1.0, 1.1, 1.5, 2.0, 3.0, 5.0)
"""Renyi orders at which a zCDP claim is checked; at 1 it is the Kullback-Leibler divergence."""
_FINE, _COARSE = 0.05, 0.8
_BETWEEN = 5
"""Losses between two points of a line are taken to be linear, at this many points."""
_REACH = 10.0
_LINES = 40
_DRAWS = 50_000

Beside = Callable[["FloatArray"], "FloatArray"]
"""The mu ``(m,)`` of what is released next, at each minimiser ``(m, d)``."""


@dataclass(frozen=True, slots=True, eq=False)
class PrivacyLossDistribution:
    """A discrete law of the privacy loss: values and weights ``(m,)``.

    `error` is the standard error of a mean of something of deviation one, 0 for integrals.
    `beside` ``(m,)`` holds the mu of a Gaussian release that follows, given what was released.
    """

    losses: FloatArray
    weights: FloatArray
    error: float = 0.0
    beside: FloatArray | None = None

    def delta(self, epsilon: float, mu: float) -> float:
        """Delta at epsilon after composition with a further Gaussian release of ratio `mu`."""
        rest = epsilon - self.losses
        alone = -np.expm1(np.minimum(rest, 0.0))
        both = np.hypot(mu, 0.0 if self.beside is None else self.beside)
        if not np.any(both > 0):
            return float(self.weights @ alone)
        ratio = np.where(both > 0, both, 1.0)
        a, b = ratio / 2 - rest / ratio, -ratio / 2 - rest / ratio
        composed = special.ndtr(a) - np.exp(rest + special.log_ndtr(b))
        return float(self.weights @ np.where(both > 0, composed, alone))

    def rho(self) -> float:
        """Largest Renyi divergence over its order; where it is drawn, a lower bound on it."""
        return max(self._divergence(order) / order for order in ORDERS)

    def _divergence(self, order: float) -> float:
        """``log E exp((a - 1) loss) / (a - 1)``, and ``E loss`` at order 1.

        The mean of ``exp(-loss)`` is one, so a multiple of its difference from one takes the
        part that is linear in the loss, and most of the variance, out of the mean.
        """
        excess = order - 1
        follows = 0.0 if self.beside is None else order * self.beside**2 / 2
        if excess == 0:
            return max(0.0, self._mean(self.losses + np.expm1(-self.losses) + follows))
        with np.errstate(over="ignore"):
            terms = np.expm1(excess * (self.losses + follows)) + excess * np.expm1(-self.losses)
        return math.log1p(max(0.0, self._mean(terms))) / excess

    def first(self) -> PrivacyLossDistribution:
        """The law without what follows."""
        return replace(self, beside=None)

    def _mean(self, terms: FloatArray) -> float:
        """The mean, less four standard errors."""
        seen = self.weights > 0  # a weight may vanish where a term has no limit
        with np.errstate(over="ignore"):
            mean = float(self.weights[seen] @ terms[seen])
            if self.error == 0 or math.isinf(mean):
                return mean
            spread = math.sqrt(float(self.weights @ (terms / mean - 1) ** 2)) if mean else 0.0
        return mean - 4 * self.error * spread * abs(mean)


def loss_law(
    pair: Pair,
    problem: Problem,
    noise: NoiseLaw,
    rng: np.random.Generator,
    beside: Beside | None = None,
) -> PrivacyLossDistribution:
    """Law of the loss of the tilted minimiser, old record over new, under the first dataset."""
    if isinstance(noise, GaussianNoise):
        return _integrated(pair, problem, noise, rng, beside)
    tilts = draw_many(noise, _DRAWS, rng)
    w = minimisers(pair.first(), problem, tilts)
    losses = tilt_losses(pair, problem, noise, w)
    return _of_draws(losses, None if beside is None else beside(w))


def _of_draws(losses: FloatArray, follows: FloatArray | None) -> PrivacyLossDistribution:
    return PrivacyLossDistribution(
        losses, np.full(_DRAWS, 1 / _DRAWS), 1 / math.sqrt(_DRAWS), follows
    )


def _integrated(
    pair: Pair,
    problem: Problem,
    noise: GaussianNoise,
    rng: np.random.Generator,
    beside: Beside | None,
) -> PrivacyLossDistribution:
    along = _pulling_apart(pair, problem, noise, rng)
    # a divergence of order a weighs losses as they are a shifts of 2 m further out
    furthest = 2 * problem.loss.slope_bound * problem.radius / noise.sd
    tilts, line, shares = _points(along, furthest, rng)
    w = minimisers(pair.first(), problem, noise.sd * tilts.reshape(-1, pair.d))
    losses = tilt_losses(pair, problem, noise, w).reshape(tilts.shape[:2])
    follows = None if beside is None else beside(w).reshape(tilts.shape[:2])
    return _refined(line, shares, losses, follows)


def shift_law(
    centre: FloatArray,
    shift: FloatArray,
    noise: NoiseLaw,
    rng: np.random.Generator,
    beside: Beside,
) -> PrivacyLossDistribution:
    """Law of the loss of noise on a centre ``(d,)`` that the neighbour has shifted.

    Of Gaussian noise the loss is normal, and known without integration; what follows it depends
    on the output.
    """
    if not isinstance(noise, GaussianNoise):
        drawn = draw_many(noise, _DRAWS, rng)
        losses = log_ratios(noise, drawn, np.broadcast_to(shift, drawn.shape))
        return _of_draws(losses, beside(centre + drawn))
    mu = float(np.linalg.norm(shift)) / noise.sd
    along = -shift / (mu * noise.sd) if mu > 0 else np.eye(1, len(shift))[0]
    z, line, shares = _points(along, mu, rng)
    losses = np.broadcast_to(mu * line + mu * mu / 2, z.shape[:2])
    follows = beside((centre + noise.sd * z).reshape(-1, len(shift)))
    return _refined(line, shares, losses, follows.reshape(z.shape[:2]))


def _points(
    along: FloatArray, furthest: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Normals ``(k, m, d)`` on k lines, the places ``(m,)`` along a line, and shares of lines."""
    d = len(along)
    reach = _REACH + ORDERS[-1] * furthest
    line = np.arange(-reach, reach + _FINE, _FINE)
    across, shares = _across(d, rng)
    basis = np.linalg.qr(np.column_stack([along, np.eye(d)]))[0][:, 1:d]
    return (across @ basis.T)[:, None, :] + line[:, None] * along, line, shares


def _refined(
    line: FloatArray, shares: FloatArray, losses: FloatArray, follows: FloatArray | None
) -> PrivacyLossDistribution:
    """The law of losses ``(k, m)`` on lines, which are taken to be linear between points."""
    finer = np.linspace(line[0], line[-1], _BETWEEN * (len(line) - 1) + 1)
    weights = shares[:, None] * (_FINE / _BETWEEN * _normal(finer))
    between, beside = (
        None if values is None else np.array([np.interp(finer, line, row) for row in values])
        for values in (losses, follows)
    )
    assert between is not None
    mu = None if beside is None else beside.reshape(-1)
    return PrivacyLossDistribution(between.reshape(-1), weights.reshape(-1), beside=mu)


def _across(d: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Points ``(m, d - 1)`` beside the line, and their weights."""
    if d == 1:
        return np.zeros((1, 0)), np.ones(1)
    if d == 2:
        points = np.arange(-8.0, 8.1, _COARSE)
        return points[:, None], _COARSE * _normal(points)
    return rng.standard_normal((_LINES, d - 1)), np.full(_LINES, 1 / _LINES)


def _normal(x: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-x * x / 2) / math.sqrt(2 * math.pi))


def _pulling_apart(
    pair: Pair, problem: Problem, noise: GaussianNoise, rng: np.random.Generator
) -> FloatArray:
    """Unit vector of the usual difference of the two tilts."""
    tilts = noise.sd * rng.standard_normal((200, pair.d))
    w = minimisers(pair.first(), problem, tilts)
    slope = problem.loss.slope
    change = slope(w @ pair.new)[:, None] * pair.new - slope(w @ pair.old)[:, None] * pair.old
    mean = change.mean(axis=0)
    length = float(np.linalg.norm(mean))
    return np.asarray(mean / length if length > 0 else np.eye(1, pair.d)[0])
