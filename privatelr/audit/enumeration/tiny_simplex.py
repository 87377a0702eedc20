"""The audit of draws from a minimiser on the simplex: tiny cases of which the law is known."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from privatelr.audit.audit_table import row_or_failure
from privatelr.audit.checks import ALPHA, claims_of_size, label
from privatelr.audit.enumeration.discrete import OutcomePair, row_of, rows_near_bounds
from privatelr.errors import ArgumentError
from privatelr.mechanisms.simplex import (
    SimplexCalibration,
    SimplexFacts,
    SimplexProblem,
    calibrate_simplex,
    minimiser_logs,
    release_simplex,
)
from privatelr.numerics import LOSSES, Loss
from privatelr.numerics.rows import EntryRows
from privatelr.privacy import Promise
from privatelr.privacy.noise import SystemRandomness
from privatelr.types import FloatArray, IntArray

if TYPE_CHECKING:
    from privatelr.audit.audit_table import Row

_RECORDS = 6
_SHAPES = ((1, (1, 5, 40)), (2, (1, 8)))
"""Columns, and numbers of draws whose histograms are few enough to list."""
_PAIRS = 20
_MOST_HISTOGRAMS = 2_000_000
_STEPS = 100_000
_EXACT = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class HistogramPair(OutcomePair):
    """A pair whose outcomes are `histograms` ``(k, 2 d)``: all there are."""

    histograms: IntArray


def audit_simplex(
    epsilon: float,
    rng: np.random.Generator,
    trials: int = 400,
    pairs: int = _PAIRS,
    losses: Sequence[Loss] | None = None,
) -> list[Row]:
    """Rows of the table of an audit: every kind of claim, under every registered loss.

    Parameters
    ----------
    epsilon : float
        Of the claims; those of zCDP and of small delta are of the same size.
    rng : Generator
        For the search; a real release draws from the system.
    trials : int
        Real releases on each dataset of the worst pair.
    pairs : int
        Neighbours that are searched, for each number of columns and draws.
    losses : sequence of Loss, optional
        By default those that are registered.

    Returns
    -------
    list of Row
        ``exact`` is by multinomial enumeration, over the worst pair; ``sampled`` a lower bound
        from real releases; ``differs`` the p-value of real releases under the enumerated law.

    Notes
    -----
    **Privacy.** *Covered*: no data is involved. *Neighbours*: replace one record. *Assumed
    public*: everything. *Not covered*: time and memory of the mechanisms.
    """
    known = list(LOSSES.values()) if losses is None else losses
    subjects = [(claim, loss) for loss in known for claim in claims_of_size(epsilon)]
    alpha = ALPHA / len(subjects)
    return [
        row_or_failure("simplex", label(loss), claim, _row, claim, loss, rng, pairs, trials, alpha)
        for claim, loss in subjects
    ]


def histogram_loss(
    first: EntryRows, second: EntryRows, calibration: SimplexCalibration, counts: IntArray
) -> float:
    """Log ratio of the chances of a released histogram, of one dataset over the other.

    By the minimisers as a release computes them, so it is the loss of the release itself.

    Notes
    -----
    **Privacy.** *Covered*: nothing; run it on made-up rows. *Neighbours*, *Assumed public*: none.
    *Not covered*: the result.
    """
    ours, theirs = (
        special.log_softmax(minimiser_logs(rows, calibration)) for rows in (first, second)
    )
    return float(counts @ (ours - theirs))


def histograms_of(options: int, draws: int) -> IntArray:
    """Every histogram ``(k, options)`` of so many draws."""
    count = math.comb(draws + options - 1, options - 1)
    if count > _MOST_HISTOGRAMS:
        raise ArgumentError(
            f"draws={draws}: {options} options have too many histograms to list; take fewer draws."
        )
    # each by the positions of its dividers among draws and dividers
    found = np.zeros((1, 0), dtype=np.intp)
    left = np.array([draws], dtype=np.intp)
    for _ in range(options - 1):
        taken = [np.arange(rest + 1) for rest in left.tolist()]
        source = np.repeat(np.arange(len(left)), left + 1)
        chosen = np.concatenate(taken)
        found = np.column_stack([found[source], chosen])
        left = left[source] - chosen
    return np.asarray(np.column_stack([found, left]), dtype=np.intp)


def log_chances(histograms: IntArray, log_theta: FloatArray) -> FloatArray:
    """Log probabilities ``(k,)`` of histograms of independent draws."""
    draws = histograms.sum(axis=1)
    ways = special.gammaln(draws + 1) - special.gammaln(histograms + 1).sum(axis=1)
    return np.asarray(ways + histograms @ log_theta)


def exact_minimiser(rows: EntryRows, problem: SimplexProblem) -> FloatArray:
    """Log theta ``(2 d,)`` of a small case, from the definition alone.

    Newton's method on the KKT conditions in ``log theta``, with a step of mirror descent where
    they do not get closer to being met.
    """
    signed, lam = problem.radius * rows.signed(), problem.penalty
    both = np.concatenate([signed, -signed], axis=1)
    logs = np.full(2 * rows.d, -math.log(2 * rows.d))
    share = lam / (lam + problem.n * problem.loss.curvature_bound * problem.reach**2)
    conditions = _conditions(logs, both, problem)
    for _ in range(_STEPS):
        if np.ptp(conditions) <= _EXACT * (lam + problem.n * problem.reach):
            break
        theta = np.exp(logs)
        bends = problem.loss.curvature(both @ theta)
        matrix = both.T @ (bends[:, None] * both) @ (np.diag(theta) - np.outer(theta, theta))
        step = np.linalg.solve(lam * np.eye(len(logs)) + matrix, -conditions)
        ahead = special.log_softmax(logs + step)
        found = _conditions(ahead, both, problem)
        if not np.ptp(found) <= np.ptp(conditions) / 2:
            ahead = special.log_softmax(logs - share / lam * conditions)
            found = _conditions(ahead, both, problem)
        logs, conditions = ahead, found
    return np.asarray(logs)


def _conditions(logs: FloatArray, both: FloatArray, problem: SimplexProblem) -> FloatArray:
    slopes = problem.loss.slope(both @ np.exp(logs))
    return np.asarray(slopes @ both + problem.penalty * logs)


def worst_histograms(
    claim: Promise, loss: Loss, rng: np.random.Generator, pairs: int = _PAIRS
) -> HistogramPair:
    """The pair of tiny neighbours that shows most of the claim, among random ones."""
    found = [
        pair
        for d, numbers in _SHAPES
        for draws in numbers
        for pair in _pairs(claim, loss, rng, (d, draws, pairs))
    ]
    return max(found, key=lambda pair: (pair.loss, pair.size))


def _pairs(
    claim: Promise, loss: Loss, rng: np.random.Generator, shape: tuple[int, int, int]
) -> Iterator[HistogramPair]:
    """Neighbours with entries mostly at the bound, at radii of many sizes."""
    d, draws, count = shape
    for index in range(count):
        radius = float(10.0 ** rng.uniform(-2, 1))
        facts = SimplexFacts(_RECORDS, d, 1.0, radius, loss)
        calibration = calibrate_simplex(facts, claim, "auto", draws)
        histograms = histograms_of(2 * d, calibration.draws)  # as many as are made
        x = rows_near_bounds(rng, index, _RECORDS, d)
        moved = x.copy()
        moved[0] = -x[0]
        first, second = (EntryRows(side, np.ones(_RECORDS), x_bound=1.0) for side in (x, moved))
        log_p, log_q = (
            log_chances(histograms, exact_minimiser(side, calibration.problem))
            for side in (first, second)
        )
        yield HistogramPair(first, second, calibration, log_p, log_q, histograms)


def _row(
    claim: Promise, loss: Loss, rng: np.random.Generator, pairs: int, trials: int, alpha: float
) -> Row:
    worst = worst_histograms(claim, loss, rng, pairs)
    calibration = worst.calibration
    problem = calibration.problem
    return row_of(
        worst,
        [_releases(rows, worst, trials) for rows in (worst.first, worst.second)],
        alpha,
        placement="simplex",
        loss=label(loss),
        where=f"n={problem.n}, d={problem.d}, m={calibration.draws}, radius={problem.radius:.3g}",
    )


def _releases(rows: EntryRows, pair: HistogramPair, trials: int) -> IntArray:
    """Positions ``(trials,)`` of the histograms of real releases."""
    place = {tuple(histogram): at for at, histogram in enumerate(pair.histograms.tolist())}
    released = (
        release_simplex(rows, pair.calibration, SystemRandomness()).counts for _ in range(trials)
    )
    return np.array([place[tuple(counts.tolist())] for counts in released], dtype=np.intp)
