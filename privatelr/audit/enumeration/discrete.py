"""The privacy loss between two laws over a finite list of outcomes, such as all paths.

A path is the sequence of options that a mechanism chose, one in each round. A law is an array of
log probabilities ``(k,)``; minus infinity stands for an outcome that cannot occur. A function of
two laws computes its number in both directions, and returns the larger one.

`path_log_probabilities` enumerates all paths by the definition of the mechanism, and takes only
public numbers from the calibration.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy import stats

from privatelr.audit.checks import Check
from privatelr.audit.worth import PrivacyLossDistribution
from privatelr.errors import ArgumentError
from privatelr.numerics.rows import EntryRows
from privatelr.privacy import Guarantee
from privatelr.selection.multiplicative_weights import ProgramCalibration, SequentialChoices
from privatelr.types import FloatArray, IntArray

_ENOUGH = 8.0
"""Outcomes are tested in groups that are expected about this number of times."""
DRAWN, _CRITICAL = 4000, 6.0
"""This number of real choices is made, and their frequencies may be off by this number of standard
deviations; counts are drawn about as often."""


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
    p, q = np.ravel(log_p), np.ravel(log_q)
    if np.isnan(p).any() or np.isnan(q).any():
        raise ArgumentError("log_p, log_q: take logarithms of probabilities, and one is NaN.")
    possible = (p > -math.inf) | (q > -math.inf)
    p, q = p[possible], q[possible]
    laws = PrivacyLossDistribution(p - q, np.exp(p)), PrivacyLossDistribution(q - p, np.exp(q))
    return max(law.in_unit_of(claim) for law in laws)


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


def deviation(
    part: str, subject: str, counts: FloatArray | IntArray, chances: FloatArray, n: int
) -> Check:
    """Compare frequencies among n draws with their probabilities, in standard deviations."""
    off = np.abs(counts - n * chances) / np.sqrt(n * chances * (1 - chances))
    return Check(part, f"{subject}: deviations from their chances", float(off.max()), _CRITICAL)


# -- all paths of a tiny dataset --------------------------------------------------------------

Laws = Callable[[IntArray], FloatArray]
"""A function from paths ``(m, t)`` to the log probabilities ``(m, k)`` of their next option."""


def all_paths(laws: Laws, options: int, rounds: int) -> FloatArray:
    """Log probabilities ``(options ** rounds,)`` of all paths, from those of each round."""
    paths, log_chances = np.zeros((1, 0), dtype=np.intp), np.zeros(1)
    for _ in range(rounds):
        log_chances = (log_chances[:, None] + laws(paths)).ravel()
        last = np.tile(np.arange(options), len(paths))
        paths = np.column_stack([paths.repeat(options, axis=0), last])
    return log_chances


def path_log_probabilities(rows: EntryRows, calibration: ProgramCalibration) -> FloatArray:
    """Log probabilities of all paths, of shape ``(2 d,) * rounds``, with one axis for each round.

    Notes
    -----
    **Privacy.** *Covered*: nothing; run it on made-up rows. *Neighbours*, *Assumed public*: none.
    *Not covered*: the result.
    """
    options, laws = 2 * rows.d, partial(laws_of_columns, rows, calibration)
    found = all_paths(laws, options, calibration.rounds)
    return found.reshape((options,) * calibration.rounds)


def laws_of_columns(
    rows: EntryRows, calibration: ProgramCalibration, paths: IntArray
) -> FloatArray:
    """The `Laws` of a linear program: its weights are recomputed from the whole path."""
    signed = rows.signed()
    both = np.hstack([signed, -signed])
    judged = both if calibration.score == "margin" else (both >= calibration.threshold) * 1.0
    log_weights = -calibration.step * both[:, paths].sum(axis=2).T
    return log_chances_of(nearest_dense(log_weights, calibration.problem.s) @ judged, calibration)


def log_chances_of(scores: FloatArray, calibration: SequentialChoices) -> FloatArray:
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
