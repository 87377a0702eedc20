"""The privacy loss between laws over a finite list of outcomes, and cases that are so small.

A law is an array of log probabilities ``(k,)`` that add up to one; minus infinity is an outcome
that cannot occur. Everything is the larger of the two ways round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from privatelr.audit.audit_table import Row
from privatelr.audit.checks import sampled_bound, short
from privatelr.audit.density.loss import claimed_number, no_claim
from privatelr.errors import ArgumentError
from privatelr.numerics.rows import EntryRows
from privatelr.privacy import ZCDP, ApproxDP, Guarantee, PureDP
from privatelr.types import FloatArray, IntArray

_ORDERS = 1 + np.geomspace(1e-3, 1e5, 321)
_MODERATE = 30.0
"""Exponents up to which a moment is formed without logarithms."""


def loss_of_outcomes(log_p: FloatArray, log_q: FloatArray, claim: Guarantee) -> float:
    """What the pair of laws shows of a claim, in the unit of the claim.

    Parameters
    ----------
    log_p, log_q
        Log probabilities of shape ``(k,)``.
    claim : PureDP, ZCDP or ApproxDP

    Returns
    -------
    float
        The largest log ratio for pure epsilon; for rho, the largest Renyi divergence over its
        order; for an approximate claim, delta at its epsilon.
    """
    ways = _both_ways(log_p, log_q)
    match claim:
        case PureDP():
            return max(_largest_ratio(p, q) for p, q in ways)
        case ZCDP():
            return max(_rho(p, q) for p, q in ways)
        case ApproxDP(epsilon=epsilon):
            return max(_delta(p, q, epsilon) for p, q in ways)
    raise no_claim(claim)


def epsilon_of_outcomes(log_p: FloatArray, log_q: FloatArray, delta: float) -> float:
    """Smallest epsilon from 0 at which the pair of laws keeps to this delta; 0 for a pure one.

    The event that shows most holds the outcomes of the largest ratios, so it is enough to look
    at as many events as there are outcomes.
    """
    return max(_epsilon(p, q, delta) for p, q in _both_ways(log_p, log_q))


def renyi_of_outcomes(log_p: FloatArray, log_q: FloatArray, order: float) -> float:
    """Renyi divergence of an order above 1, the larger of the two ways round."""
    orders = np.array([order])
    return max(float(_renyi(p, q, orders)[0]) for p, q in _both_ways(log_p, log_q))


def _both_ways(
    log_p: FloatArray, log_q: FloatArray
) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
    p, q = np.ravel(log_p), np.ravel(log_q)
    if p.shape != q.shape:
        raise ArgumentError(f"log_q: takes as many outcomes as log_p has, {len(p)}, not {len(q)}.")
    possible = (p > -math.inf) | (q > -math.inf)
    return (p[possible], q[possible]), (q[possible], p[possible])


def _largest_ratio(log_p: FloatArray, log_q: FloatArray) -> float:
    return float((log_p - log_q).max())


def _delta(log_p: FloatArray, log_q: FloatArray, epsilon: float) -> float:
    with np.errstate(over="ignore"):
        kept = -np.expm1(np.minimum(epsilon + log_q - log_p, 0.0))
    return float((np.exp(log_p) * np.where(log_p > -math.inf, kept, 0.0)).sum())


def _epsilon(log_p: FloatArray, log_q: FloatArray, delta: float) -> float:
    order = np.argsort(log_q - log_p, kind="stable")
    p, q = np.cumsum(np.exp(log_p[order])), np.cumsum(np.exp(log_q[order]))
    if delta == 0:
        return max(0.0, _largest_ratio(log_p, log_q))
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(p > delta, np.log(np.maximum(p - delta, 0.0)) - np.log(q), 0.0)
    return max(0.0, float(found.max()))


def _rho(log_p: FloatArray, log_q: FloatArray) -> float:
    if (log_q == -math.inf).any():
        return math.inf
    return float((_renyi(log_p, log_q, _ORDERS) / _ORDERS).max())


def _renyi(log_p: FloatArray, log_q: FloatArray, orders: FloatArray) -> FloatArray:
    """Divergences ``(m,)`` of orders above 1."""
    if (log_q == -math.inf).any():
        return np.full_like(orders, math.inf)
    ratio = log_p - log_q
    moments = np.empty_like(orders)
    for place, order in enumerate(orders.tolist()):
        exponent = order * ratio
        if order * np.abs(ratio).max() < _MODERATE:
            # what adds up to zero is left out, so that laws which are nearly alike show
            parts = np.exp(log_q) * (np.expm1(exponent) - order * np.expm1(ratio))
            moments[place] = math.log1p(max(float(parts.sum()), 0.0))
        else:
            moments[place] = float(np.logaddexp.reduce(exponent + log_q))
    return np.asarray(moments / (orders - 1))


_ENOUGH = 8.0
"""Smallest number of expected releases of an outcome that is compared by itself."""


@dataclass(frozen=True, slots=True, eq=False)
class OutcomePair:
    """Neighbouring rows, a calibration, and log chances ``(k,)`` of all outcomes under either."""

    first: EntryRows
    second: EntryRows
    calibration: Any
    log_p: FloatArray
    log_q: FloatArray

    @property
    def loss(self) -> float:
        """In the unit of the claim."""
        return loss_of_outcomes(self.log_p, self.log_q, self.calibration.target)

    @property
    def size(self) -> float:
        """The largest log ratio, by which pairs compare whatever is claimed."""
        return loss_of_outcomes(self.log_p, self.log_q, PureDP(1.0))


def rows_near_bounds(rng: np.random.Generator, index: int, n: int, d: int) -> FloatArray:
    """Covariates ``(n, d)`` mostly at the bound 1: each second time at it, each third alike."""
    x = rng.choice([-1.0, 1.0], (n, d)) if index % 2 else rng.uniform(-1.5, 1.5, (n, d))
    x[0] = rng.choice([-1.0, 1.0], d)
    if index % 3 == 0:  # all alike but the first: what is chosen rests on it
        x[1:] = -x[0]
    return x


def row_of(
    pair: OutcomePair, seen: list[IntArray], alpha: float, *, placement: str, loss: str, where: str
) -> Row:
    """The row of a pair; `seen` are positions ``(trials,)`` of what was released on either side."""
    claim = pair.calibration.target
    claimed, ratio = claimed_number(claim), pair.log_p - pair.log_q

    def score(values: FloatArray) -> FloatArray:
        return np.asarray(ratio[values[:, 0].astype(np.intp)])

    first, second = (side[:, None].astype(np.float64) for side in seen)
    return Row(
        placement=placement,
        loss=loss,
        claim=short(claim),
        claimed=claimed,
        exact=pair.loss,
        attained=pair.loss / claimed,
        where=where,
        sampled=sampled_bound(claim, first, second, alpha, score),
        differs=min(1.0, 2 * min(map(path_pvalue, seen, (pair.log_p, pair.log_q)))),
    )


def path_pvalue(found: IntArray, log_chances: FloatArray) -> float:
    """Evidence that paths do not have these chances, rare ones taken together (chi-square).

    Parameters
    ----------
    found
        Positions of the paths that were seen, ``(m,)``.
    log_chances
        Of all paths, ``(k,)``.
    """
    expected = np.exp(log_chances) * len(found)
    counts = np.bincount(found, minlength=len(expected)).astype(np.float64)
    order = np.argsort(expected)
    # groups of neighbours in rank, each expected often enough
    group = np.floor(np.cumsum(expected[order]) / _ENOUGH * (1 - 1e-12)).astype(np.intp)
    observed = np.bincount(group, weights=counts[order])
    wanted = np.bincount(group, weights=expected[order])
    kept = wanted > 0
    if int(kept.sum()) < 2:
        return 1.0
    total = wanted[kept].sum()
    return float(stats.chisquare(observed[kept], wanted[kept] * counts.sum() / total).pvalue)
