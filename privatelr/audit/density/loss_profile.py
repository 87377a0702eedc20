"""The law of the privacy loss of coefficients on a pair, by integration.

The noise has a known law. The release on the first dataset is a function of it, and so is the
privacy loss. Gaussian noise is integrated: on a fine grid along the direction in which the two
datasets differ, and across it on a coarse grid (d = 2) or over random normal vectors (d > 2).
Other noise laws are sampled. If a Gaussian release follows whose mu depends on the coefficients,
it is composed with them at each point.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from privatelr.audit.density.exact import (
    centres,
    log_ratios,
    record_gradients,
    tilt_losses,
)
from privatelr.audit.density.pairs import Pair
from privatelr.mechanisms.calibration import Calibration
from privatelr.mechanisms.signed_rows import minimisers
from privatelr.privacy.noise import NoiseLaw, draw_many
from privatelr.types import FloatArray

ORDERS = (1.0, 1.1, 1.5, 2.0, 3.0, 5.0)
"""A zCDP claim is checked at these Renyi orders; order 1 is the Kullback-Leibler divergence."""
FINE, _COARSE = 0.05, 0.8
"""The grid along the direction has the first step, and the grid across it the second, in standard
deviations of the noise."""
_BETWEEN = 5
"""Each interval between two points of a line is divided into this number of parts, by linear
interpolation of the losses."""
_REACH = 10.0
"""A line ends after this number of standard deviations of the noise, plus those of a shift."""
_LINES = 40
"""If d > 2, this number of random lines is integrated."""
_DRAWS = 50_000
"""A noise law that is not Gaussian is sampled with this number of draws."""

Beside = Callable[[FloatArray], FloatArray]
"""A function from coefficients ``(m, d)`` to the mu ``(m,)`` of a Gaussian release that follows."""


@dataclass(frozen=True, slots=True, eq=False)
class PrivacyLossDistribution:
    """A discrete law of the privacy loss.

    Attributes
    ----------
    losses, weights : ndarray of shape (m,)
        Values of the loss, and their probabilities.
    error : float
        The standard error of the mean of a variable with standard deviation one. It is 0 if the
        law is an integral and not a sample.
    beside : ndarray of shape (m,) or None
        The mu of a Gaussian release that follows, at each value.
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
        """Largest ratio of a Renyi divergence to its order; a lower bound if the law is sampled."""
        return max(self.divergence(order) / order for order in ORDERS)

    def divergence(self, order: float) -> float:
        """``log E exp((a - 1) loss) / (a - 1)``, and ``E loss`` at order 1.

        The mean of ``exp(-loss)`` is one, so a multiple of ``exp(-loss) - 1`` may be added to the
        terms. It cancels the part that is linear in the loss, and with it most of the variance.
        """
        excess = order - 1
        follows = 0.0 if self.beside is None else order * self.beside**2 / 2
        if excess == 0:
            return max(0.0, self._mean(self.losses + np.expm1(-self.losses) + follows))
        with np.errstate(over="ignore"):
            terms = np.expm1(excess * (self.losses + follows)) + excess * np.expm1(-self.losses)
        return math.log1p(max(0.0, self._mean(terms))) / excess

    def first(self) -> PrivacyLossDistribution:
        """The law of the loss without the releases that follow."""
        return replace(self, beside=None)

    def _mean(self, terms: FloatArray) -> float:
        """The weighted mean of terms, less four standard errors."""
        seen = self.weights > 0  # a weight may be zero where a term is infinite
        with np.errstate(over="ignore"):
            mean = float(self.weights[seen] @ terms[seen])
            if self.error == 0 or math.isinf(mean):
                return mean
            spread = math.sqrt(float(self.weights @ (terms / mean - 1) ** 2)) if mean else 0.0
        return mean - 4 * self.error * spread * abs(mean)


Released = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""A function from noise ``(m, d)`` to coefficients ``(m, d)`` and privacy losses ``(m,)``."""


def loss_law(
    pair: Pair, calibration: Calibration, rng: np.random.Generator, beside: Beside | None = None
) -> PrivacyLossDistribution:
    """The law of the loss of coefficients, old record over new, under the first dataset.

    Under objective perturbation it is the loss of the tilted minimiser without the shield. Under
    output perturbation it is the loss of noise on the minimiser, where the distance between the
    minimisers of the two datasets is increased by their numerical errors.
    """
    problem, noise = calibration.problem, calibration.noise
    if calibration.placement == "objective":

        def released(drawn: FloatArray) -> tuple[FloatArray, FloatArray]:
            w = minimisers(pair.first(), problem, drawn)
            return w, tilt_losses(pair, problem, noise, w)

    else:
        first, second = centres(pair, problem)
        length = float(np.linalg.norm(second - first))
        shift = (second - first) * (1 + calibration.distance / length if length > 0 else 1.0)

        def released(drawn: FloatArray) -> tuple[FloatArray, FloatArray]:
            return first + drawn, log_ratios(noise, drawn, np.broadcast_to(shift, drawn.shape))

    if noise.is_pure:
        w, losses = released(draw_many(noise, _DRAWS, rng))
        weights, follows = np.full(_DRAWS, 1 / _DRAWS), None if beside is None else beside(w)
        return PrivacyLossDistribution(losses, weights, 1 / math.sqrt(_DRAWS), follows)
    if calibration.placement == "output":
        furthest = float(np.linalg.norm(shift)) / noise.scale
        return integrated(released, noise, -shift, furthest, rng, beside)
    w, _ = released(noise.scale * rng.standard_normal((200, pair.d)))
    old, new = record_gradients(pair, problem.loss, w)
    change = new - old
    # a Renyi divergence of order a weighs losses by a density that is shifted by a times 2 m
    furthest = 2 * problem.loss.slope_bound * problem.radius / noise.scale
    return integrated(released, noise, change.mean(axis=0), furthest, rng, beside)


def integrated(
    released: Released,
    noise: NoiseLaw,
    apart: FloatArray,
    furthest: float,
    rng: np.random.Generator,
    beside: Beside | None = None,
    step: float = FINE,
) -> PrivacyLossDistribution:
    """The law of the loss from points on lines along `apart` ``(d,)``, where the datasets differ.

    Losses are linear between the points, of which neighbours are `step` deviations apart. The lines
    are so long that the rest has no weight in a divergence, whose density is shifted by `furthest`
    standard deviations per order.
    """
    d, length = len(apart), float(np.linalg.norm(apart))
    along = apart / length if length > 0 else np.eye(1, d)[0]
    reach = _REACH + ORDERS[-1] * furthest
    line = np.arange(-reach, reach + step, step)
    if d == 1:
        across, shares = np.zeros((1, 0)), np.ones(1)
    elif d == 2:
        places = np.arange(-8.0, 8.1, _COARSE)
        across, shares = places[:, None], _COARSE * _normal(places)
    else:
        across, shares = rng.standard_normal((_LINES, d - 1)), np.full(_LINES, 1 / _LINES)
    basis = np.linalg.qr(np.column_stack([along, np.eye(d)]))[0][:, 1:d]
    z = (across @ basis.T)[:, None, :] + line[:, None] * along
    w, losses = released(noise.scale * z.reshape(-1, d))
    finer = np.linspace(line[0], line[-1], _BETWEEN * (len(line) - 1) + 1)

    def between(values: FloatArray) -> FloatArray:
        rows = values.reshape(len(shares), -1)
        return np.concatenate([np.interp(finer, line, row) for row in rows])

    weights = (shares[:, None] * (step / _BETWEEN * _normal(finer))).reshape(-1)
    follows = None if beside is None else between(beside(w))
    return PrivacyLossDistribution(between(losses), weights, beside=follows)


def _normal(x: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-x * x / 2) / math.sqrt(2 * math.pi))
