"""The privacy loss between two laws over a finite list of outcomes, such as all paths.

A path is the sequence of options that a mechanism chose, one in each round. A law is an array of
log probabilities ``(k,)``; minus infinity stands for an outcome that cannot occur. A function of
two laws computes its number in both directions, and returns the larger one.

`path_log_probabilities` enumerates all paths by the definition of the mechanism, and takes only
public numbers from the calibration. `path_log_probability` computes a single path, of a fit of any
size, with the functions of the release; tests compare the two on tiny datasets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special, stats

from privatelr.audit.density.loss import SLACK, no_claim
from privatelr.design import DesignSpec
from privatelr.errors import ArgumentError
from privatelr.model_data import FrameData
from privatelr.numerics.rows import EntryRows
from privatelr.privacy import ZCDP, ApproxDP, Guarantee, PureDP, to_approximate
from privatelr.selection.choices import require_x_bound
from privatelr.selection.dense_weights import dense_projection
from privatelr.selection.multiplicative_weights import ProgramCalibration, lower, scorer
from privatelr.selection.selected_fit import SelectedFit
from privatelr.selection.simplex import SimplexCalibration, minimiser_logs
from privatelr.sources import as_batch
from privatelr.types import FloatArray, IntArray

_DELTA = 1e-6
"""A zCDP claim is converted to an epsilon at this delta."""
_MOST_NUMBERS = 5e7
"""An enumeration holds at most this number of log weights at once."""
_ORDERS = 1 + np.geomspace(1e-3, 1e5, 321)
"""Rho is the largest ratio of a Renyi divergence to its order, over these orders."""
_MODERATE = 30.0
"""Below this size of all exponents, a moment is computed without logarithms."""
_ENOUGH = 8.0
"""Outcomes are tested in groups that are expected about this number of times."""


# -- two laws ---------------------------------------------------------------------------------


def loss_of_outcomes(log_p: FloatArray, log_q: FloatArray, claim: Guarantee) -> float:
    """The privacy loss between two laws, in the unit of the claim.

    Parameters
    ----------
    log_p, log_q
        Log probabilities of shape ``(k,)``.
    claim : PureDP, ZCDP or ApproxDP

    Returns
    -------
    float
        For a pure claim, the largest log ratio of two probabilities. For a zCDP claim, the
        largest ratio of a Renyi divergence to its order. For an approximate claim, the delta at
        the epsilon of the claim.
    """
    match claim:
        case PureDP():
            return epsilon_of_outcomes(log_p, log_q, 0.0)
        case ZCDP():
            ways = _both_ways(log_p, log_q)
            return max(float((_renyi(p, q, _ORDERS) / _ORDERS).max()) for p, q in ways)
        case ApproxDP(epsilon=epsilon):
            return max(_delta(p, q, epsilon) for p, q in _both_ways(log_p, log_q))
    raise no_claim(claim)


def epsilon_of_outcomes(log_p: FloatArray, log_q: FloatArray, delta: float) -> float:
    """The smallest epsilon, at least 0, at which the two laws satisfy (epsilon, delta).

    With ``delta=0`` it is the epsilon of pure differential privacy. For a given number of
    outcomes, the event with the largest loss consists of the outcomes with the largest ratios. So
    it is enough to look at as many events as there are outcomes.
    """
    found = 0.0
    for p, q in _both_ways(log_p, log_q):
        if delta == 0:
            found = max(found, float((p - q).max()))
            continue
        order = np.argsort(q - p, kind="stable")
        more, less = np.cumsum(np.exp(p[order])), np.cumsum(np.exp(q[order]))
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(np.maximum(more - delta, 0.0)) - np.log(less)
        found = max(found, float(np.where(more > delta, logs, 0.0).max()))
    return found


def renyi_of_outcomes(log_p: FloatArray, log_q: FloatArray, order: float) -> float:
    """Renyi divergence of an order above 1, the larger one of the two directions."""
    orders = np.array([order])
    return max(float(_renyi(p, q, orders)[0]) for p, q in _both_ways(log_p, log_q))


def _both_ways(
    log_p: FloatArray, log_q: FloatArray
) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
    p, q = np.ravel(log_p), np.ravel(log_q)
    if p.shape != q.shape:
        raise ArgumentError(f"log_q: takes as many outcomes as log_p has, {len(p)}, not {len(q)}.")
    if np.isnan(p).any() or np.isnan(q).any():
        raise ArgumentError("log_p, log_q: take logarithms of probabilities, and one is NaN.")
    possible = (p > -math.inf) | (q > -math.inf)
    return (p[possible], q[possible]), (q[possible], p[possible])


def _delta(log_p: FloatArray, log_q: FloatArray, epsilon: float) -> float:
    with np.errstate(over="ignore"):
        kept = -np.expm1(np.minimum(epsilon + log_q - log_p, 0.0))
    return float((np.exp(log_p) * np.where(log_p > -math.inf, kept, 0.0)).sum())


def _renyi(log_p: FloatArray, log_q: FloatArray, orders: FloatArray) -> FloatArray:
    """Divergences ``(m,)`` of orders above 1."""
    if (log_q == -math.inf).any():
        return np.full_like(orders, math.inf)
    ratio = log_p - log_q
    moments = np.empty_like(orders)
    for place, order in enumerate(orders.tolist()):
        exponent = order * ratio
        if order * np.abs(ratio).max() < _MODERATE:
            # q expm1(ratio) is p - q, which sums to zero; a multiple of it is subtracted from each
            # term, because rounding would otherwise hide a small difference between the laws
            parts = np.exp(log_q) * (np.expm1(exponent) - order * np.expm1(ratio))
            moments[place] = math.log1p(max(float(parts.sum()), 0.0))
        else:
            moments[place] = float(np.logaddexp.reduce(exponent + log_q))
    return np.asarray(moments / (orders - 1))


def path_pvalue(found: IntArray, log_chances: FloatArray) -> float:
    """The p-value of a chi-square test that paths have these probabilities.

    Rare paths are tested as groups.

    Parameters
    ----------
    found
        Positions of the observed paths in `log_chances`, ``(m,)``.
    log_chances
        Log probabilities of all paths, ``(k,)``.
    """
    expected = np.exp(log_chances) * len(found)
    counts = np.bincount(found, minlength=len(expected)).astype(np.float64)
    order = np.argsort(expected)
    # a group takes paths of similar probability, until it is expected often enough for the test
    group = np.floor(np.cumsum(expected[order]) / _ENOUGH * (1 - 1e-12)).astype(np.intp)
    observed = np.bincount(group, weights=counts[order])
    wanted = np.bincount(group, weights=expected[order])
    kept = wanted > 0
    if int(kept.sum()) < 2:
        return 1.0
    total = wanted[kept].sum()
    return float(stats.chisquare(observed[kept], wanted[kept] * counts.sum() / total).pvalue)


# -- the choices of a fit ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChoiceLoss:
    """The privacy loss of the released choices between two datasets.

    Attributes
    ----------
    claim : Guarantee
    found : float
        The absolute log ratio of the probabilities of the choices under the two datasets. It is
        exact.
    epsilon : float
        The largest loss that the claim allows. Under a pure claim no loss exceeds it; under the
        others a loss exceeds it with a probability of about `delta`.
    delta : float
        The delta of the claim, 0 for a pure one.

    Examples
    --------
    >>> from privatelr import audit, dpsimplex, load_dataset, load_schema
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dpsimplex("vote ~ age", votes, eps=1.0, **public)
    >>> loss = audit.privacy_loss(fit, votes, votes)  # a ChoiceLoss
    >>> loss.found, loss.holds  # from a dataset to itself nothing is lost
    (0.0, True)
    """

    claim: Guarantee
    found: float
    epsilon: float
    delta: float

    @property
    def ratio(self) -> float:
        """``found / epsilon``."""
        return self.found / self.epsilon

    @property
    def holds(self) -> bool:
        """Whether the loss is within epsilon, up to rounding."""
        return self.ratio <= 1 + SLACK

    def __str__(self) -> str:
        chance = f", exceeded with a chance of about {self.delta:g}" if self.delta else ""
        verdict = "ok" if self.holds else "VIOLATION" if not self.delta else "above it"
        return (
            f"privacy loss {self.found:.6g} of the released choices on this pair, claim epsilon "
            f"{self.epsilon:.6g}{chance}, ratio {self.ratio:.4f}: {verdict}"
        )


def choice_loss(fit: SelectedFit, data: Any, neighbour: Any) -> ChoiceLoss:
    """The privacy loss of the choices of a fit between two frames, for `audit.privacy_loss`."""
    spec, release, claim = fit.spec, fit.release, fit.guarantee
    if not isinstance(spec, DesignSpec):
        raise ArgumentError("subject: takes a fit of a formula, and not of a sparse matrix.")
    sides: list[Any] = []
    for name, side in (("data", data), ("neighbour", neighbour)):
        batch = as_batch(side)
        if len(batch) != fit.nobs:
            raise ArgumentError(f"{name} of {len(batch)} rows: takes n={fit.nobs}.")
        sides.append(FrameData(spec.formula.text, batch).entries(spec)[0])
    first, second = sides
    differ = np.any(first.signed() != second.signed(), axis=1)
    if differ.sum() > 1:
        raise ArgumentError(
            f"data and neighbour differ in {int(differ.sum())} rows: they take one, as neighbours."
        )
    match release.calibration:
        case ProgramCalibration() as program if release.path is not None:
            found = path_loss(first, second, program, release.path)
        case SimplexCalibration() as simplex:
            found = histogram_loss(first, second, simplex, release.counts)
        case _:
            raise ArgumentError("subject: takes a fit of a registered mechanism.")
    delta = claim.delta if isinstance(claim, ApproxDP) else 0.0
    if isinstance(claim, ZCDP):
        delta = _DELTA
        claim = to_approximate(claim, delta)
    if not isinstance(claim, PureDP | ApproxDP):
        raise ArgumentError(f"subject: {claim} claims nothing.")
    return ChoiceLoss(fit.guarantee, abs(found), claim.epsilon, delta)


def histogram_loss(
    first: EntryRows, second: EntryRows, calibration: SimplexCalibration, counts: IntArray
) -> float:
    """Log ratio of the probabilities of a released histogram, first dataset over second.

    It uses the minimisers that a release computes, and so it is the loss of the release itself.

    Notes
    -----
    **Privacy.** *Covered*: nothing; run it on made-up rows. *Neighbours*, *Assumed public*: none.
    *Not covered*: the result.
    """
    logs = (special.log_softmax(minimiser_logs(rows, calibration)) for rows in (first, second))
    ours, theirs = logs
    return float(counts @ (ours - theirs))


def path_log_probability(
    rows: EntryRows, calibration: ProgramCalibration, path: Sequence[int] | IntArray
) -> float:
    """Log probability of one path.

    Without noise it is 0 for the one path that is possible, and minus infinity for any other.

    Notes
    -----
    **Privacy.** *Covered*: nothing. *Neighbours*, *Assumed public*: none. *Not covered*: the
    result, which is a function of the rows.
    """
    require_x_bound(rows, calibration)
    if len(path) != calibration.rounds:
        raise ArgumentError(
            f"path: takes one option for each of {calibration.rounds} rounds, not {len(path)}."
        )
    score, log_weights, total = scorer(rows, calibration), np.zeros(rows.n), 0.0
    for option in path:
        scores = score(dense_projection(log_weights, calibration.problem.s))
        total += float(log_chances_of(scores[None], calibration)[0, option])
        lower(log_weights, rows, int(option), calibration.step)
    return total


def path_loss(
    first: EntryRows,
    second: EntryRows,
    calibration: ProgramCalibration,
    path: Sequence[int] | IntArray,
) -> float:
    """Exact log ratio of the probabilities of one path, first dataset over second.

    Notes
    -----
    **Privacy.** *Covered*: nothing. *Neighbours*: the given pair. *Assumed public*: both
    datasets. *Not covered*: the result.
    """
    return path_log_probability(first, calibration, path) - path_log_probability(
        second, calibration, path
    )


# -- all paths of a tiny dataset --------------------------------------------------------------


def path_log_probabilities(rows: EntryRows, calibration: ProgramCalibration) -> FloatArray:
    """Log probabilities of all paths, of shape ``(2 d,) * rounds``, with one axis for each round.

    Notes
    -----
    **Privacy.** *Covered*: nothing; run it on made-up rows. *Neighbours*, *Assumed public*: none.
    *Not covered*: the result.
    """
    require_x_bound(rows, calibration)
    options, rounds = 2 * rows.d, calibration.rounds
    if rounds * math.log(options) > math.log(_MOST_NUMBERS / rows.n):
        raise ArgumentError(
            f"calibration: {options} options in {rounds} rounds are too many paths to enumerate; "
            "take fewer rounds or columns."
        )
    signed = rows.signed()
    both = np.concatenate([signed, -signed], axis=1)
    judged = both if calibration.score == "margin" else (both >= calibration.threshold) * 1.0
    log_weights, log_chances = np.zeros((1, rows.n)), np.zeros(1)
    for _ in range(rounds):
        scores = nearest_dense(log_weights, calibration.problem.s) @ judged
        log_chances = (log_chances[:, None] + log_chances_of(scores, calibration)).reshape(-1)
        log_weights = log_weights[:, None, :] - calibration.step * both.T
        log_weights = log_weights.reshape(-1, rows.n)
    return log_chances.reshape((options,) * rounds)


def log_chances_of(scores: FloatArray, calibration: ProgramCalibration) -> FloatArray:
    """Log probabilities ``(m, k)`` of k options by their scores ``(m, k)``."""
    if math.isinf(calibration.eta):
        chosen = np.argmax(scores, axis=1)[:, None] == np.arange(scores.shape[1])
        return np.where(chosen, 0.0, -math.inf)
    exponents = calibration.eta * scores / (2 * calibration.sensitivity)
    return np.asarray(exponents - np.logaddexp.reduce(exponents, axis=1, keepdims=True))


def nearest_dense(log_weights: FloatArray, s: float) -> FloatArray:
    """The nearest laws ``(m, n)`` of which no weight exceeds ``1 / s``.

    It tries every number of weights that may be cut off at the limit.
    """
    ranked = -np.sort(-log_weights, axis=1)
    log_zeta = np.full(len(ranked), np.nan)
    for cut in range(math.ceil(s)):
        level = ranked[:, cut : cut + 1]
        rest = np.log(s - cut) - np.logaddexp.reduce(ranked[:, cut:] - level, axis=1)
        fits = np.isnan(log_zeta) & (rest <= 1e-12)
        log_zeta = np.where(fits, rest - level[:, 0], log_zeta)
    # if s is an integer and s weights are far above the others, all s of them are at the limit, and
    # rounding alone can have refused every number above
    last = -ranked[:, math.ceil(s) - 1]
    log_zeta = np.where(np.isnan(log_zeta), last, log_zeta)
    return np.asarray(np.exp(np.minimum(log_weights + log_zeta[:, None], 0.0)) / s)
