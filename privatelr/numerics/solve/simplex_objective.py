"""The entropy-penalised objective over the simplex of signed columns, and its certificate.

    F(theta) = sum_i loss(y_i x_i.w) + lam sum_k theta_k log(theta_k / prior_k)
    w = radius (theta[:d] - theta[d:]),    theta >= 0, sum theta = 1

over the 2 d options theta, which are the columns and the columns with their signs turned. A
minimiser has one number in all entries of ``gradient of the losses + lam log(theta / prior)``;
by how much they differ (the spread) says how exact a point is. A point of spread r is the exact
minimiser after a linear term with coefficients in an interval of length r was added, so r enters
the stability of the minimiser, and a tolerance for it is fixed before the data is seen.

At the minimiser the logarithms of theta are linear in q, the gradient ``(d,)`` of the losses by
w, so a point is a vector q here: ``theta_k`` in proportion to ``prior_k exp(-+ radius q_j / lam)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from privatelr.types import FloatArray

if TYPE_CHECKING:
    from privatelr.numerics.rows.entries import EntryRows

_UNIT = 2.0**-53
_GRAIN = 2.0**-46
"""The part of the terms of F that rounding changes it by, or somewhat more."""


class Bent(Protocol):
    """What the solver asks of a loss."""

    @property
    def slope_bound(self) -> float: ...
    @property
    def curvature_bound(self) -> float: ...
    def value(self, margin: FloatArray) -> FloatArray: ...
    def slope(self, margin: FloatArray) -> FloatArray: ...
    def curvature(self, margin: FloatArray) -> FloatArray: ...


@dataclass(frozen=True, slots=True, eq=False)
class Entropic:
    """F as a value.

    Attributes
    ----------
    rows : EntryRows
    loss : Loss
    radius : float
        Sum of sizes that the coefficients reach at most.
    penalty : float
        lam of the sum form, above 0.
    log_prior : ndarray of shape (2 d,)
        Logarithms of the priors, which need not sum to one: an option that stands for z equal
        ones has the prior z.
    """

    rows: EntryRows
    loss: Bent
    radius: float
    penalty: float
    log_prior: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class SimplexPoint:
    """A vector q ``(d,)`` and what belongs to it.

    Attributes
    ----------
    theta : ndarray of shape (2 d,)
    margins : ndarray of shape (n,)
    residual : ndarray of shape (d,)
        The gradient of the losses at ``w(q)``, less q.
    value, grain : float
        F, and about what rounding may do to it.
    """

    q: FloatArray
    theta: FloatArray
    margins: FloatArray
    residual: FloatArray
    value: float
    grain: float


def point_at(problem: Entropic, q: FloatArray) -> SimplexPoint:
    """The point of q: two passes over the entries."""
    logs = log_weights(problem, q)
    theta = shares(logs)
    margins = problem.rows.margins(coefficients(theta, problem.radius))
    gradient = problem.rows.weighted_sum(problem.loss.slope(margins))
    top = logs.max()
    excess = logs - problem.log_prior
    # theta log(theta / prior), without the logarithm of a weight that vanished
    log_total = top + math.log(float(np.exp(logs - top).sum()))
    lost = float(problem.loss.value(margins).sum())
    value = lost + problem.penalty * (float(theta @ excess) - log_total)
    size = lost + problem.penalty * (float(theta @ np.abs(excess)) + abs(log_total))
    return SimplexPoint(q, theta, margins, gradient - q, value, _GRAIN * size)


def log_weights(problem: Entropic, q: FloatArray) -> FloatArray:
    """Logarithms ``(2 d,)`` of the weights that belong to q."""
    tilt = problem.radius * q / problem.penalty
    return np.concatenate([-tilt, tilt]) + problem.log_prior


def shares(logs: FloatArray) -> FloatArray:
    """Weights that sum to one, from logarithms of any size."""
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def coefficients(theta: FloatArray, radius: float) -> FloatArray:
    """The coefficients w ``(d,)`` of options ``(2 d,)``."""
    d = len(theta) // 2
    return np.asarray(radius * (theta[:d] - theta[d:]))


def rounding_spread(n: int, d: int, x_bound: float, loss: Bent, radius: float) -> float:
    """What rounding may add to a spread at most, as a function of public facts.

    Let u = 2**-53, R = radius times the largest entry, and let logs be the log weights as they
    are returned. Each weight is an exponential of a difference, good to ``8 u`` and to u times
    the difference, which weighs at most ``log(2 d)`` in the sum; all sums are good to u times
    the number of their terms, in any order. So a margin is off by at most
    ``(4 d + 2 log(2 d) + 24) u R``, and by the contract of `Loss` belongs to a slope that is off by
    c times that and times ``4 u (1 + R)``, and by ``8 u L``. The gradient adds n of these and the
    rounding of its own sum, ``(n + 4) u n L`` times an entry, and the spread is twice the radius
    times that. A hundredth covers products of errors. The rounding of the log weights is
    added where they are known, in `spread_bound`.
    """
    reach = radius * x_bound
    margin = (4 * d + 2 * math.log(2 * d) + 24) * reach + 4 * (1 + reach)
    slope = loss.curvature_bound * margin + 8 * loss.slope_bound
    gradient = n * slope + (n + 4) * n * loss.slope_bound
    return 1.01 * 2 * reach * gradient * _UNIT


def smallest_tolerance(
    n: int, d: int, x_bound: float, loss: Bent, radius: float, penalty: float
) -> float:
    """A spread that can be reached in doubles whatever the rows hold; a function of public facts.

    Log weights are as large as ``n L R / lam``. Their rounding moves the weights, these the
    margins, and these the gradient, by up to ``n c R**2`` for a change of one; some times that
    on top of what the certificate allows for rounding leaves the solver a margin.
    """
    reach = radius * x_bound
    rounding = rounding_spread(n, d, x_bound, loss, radius)
    size = 1 + math.log(2 * d) + n * loss.slope_bound * reach / penalty
    moved = (n * loss.curvature_bound * reach**2 + penalty) * size * _UNIT
    return 4 * rounding + 4 * moved


def spread_bound(problem: Entropic, point: SimplexPoint, floor: float) -> float:
    """An upper bound on the spread of the point whose logs are those that would be returned."""
    logs = log_weights(problem, point.q)
    slopes = problem.radius * (point.residual + point.q)
    pull = problem.penalty * (logs - problem.log_prior)
    differences = np.concatenate([slopes, -slopes]) + pull
    # the prior is added and taken off again: two roundings of the logs, and three of each term
    sizes = problem.penalty * (np.abs(logs) + np.abs(problem.log_prior)).max()
    rounding = 2 * 8 * _UNIT * (float(sizes) + float(np.abs(slopes).max()))
    bound = float(np.ptp(differences)) + rounding + floor
    return bound if math.isfinite(bound) else math.inf
