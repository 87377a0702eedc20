"""The audit of mechanisms that choose columns: tiny cases of which every outcome is listed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import special

from privatelr.audit.audit_table import Row, row_or_failure
from privatelr.audit.checks import ALPHA, claims_of_size, label, sampled_bound, short
from privatelr.audit.density.loss import claimed_number
from privatelr.audit.enumeration.discrete import (
    loss_of_outcomes,
    path_log_probabilities,
    path_pvalue,
)
from privatelr.errors import ArgumentError
from privatelr.mechanisms.linear_programs import (
    SCORES,
    ProgramCalibration,
    ProgramFacts,
    calibrate_program,
    release_program,
)
from privatelr.mechanisms.simplex import (
    SimplexProblem,
    calibrate_simplex,
    release_simplex,
)
from privatelr.numerics import LOSSES, Loss
from privatelr.numerics.rows import EntryRows
from privatelr.privacy import Promise, PureDP
from privatelr.privacy.noise import SystemRandomness
from privatelr.types import FloatArray, IntArray

_RECORDS, _DENSITY = 4, 0.75
"""Records of a linear program, and a density at which one soon has most of its largest weight."""
_PATHS = ((1, 8), (2, 4))
"""Columns and rounds of a linear program, so that there are 256 paths."""
_SIMPLEX_RECORDS = 6
"""Records of a minimiser on the simplex."""
_HISTOGRAMS = ((1, 1), (1, 5), (1, 40), (2, 1), (2, 8))
"""Columns, and numbers of draws whose histograms are few enough to list."""
_MOST_HISTOGRAMS = 2_000_000
"""Number of histograms from which on they are not listed."""
_STEPS = 100_000
"""Number of Newton steps after which an exact minimiser is taken as it is."""
_EXACT = 1e-12
"""Part of the size of the KKT conditions by which they may be missed."""


@dataclass(frozen=True, slots=True, eq=False)
class OutcomePair:
    """Neighbouring rows, a calibration, and log chances ``(k,)`` of all outcomes under either.

    `where` is the case in words; `release` makes a number of real releases of rows, and gives the
    positions ``(trials,)`` of what came out.
    """

    first: EntryRows
    second: EntryRows
    calibration: Any
    log_p: FloatArray
    log_q: FloatArray
    where: str
    release: Callable[[EntryRows, int], IntArray]

    @property
    def loss(self) -> float:
        """In the unit of the claim."""
        return loss_of_outcomes(self.log_p, self.log_q, self.calibration.target)


def audit_programs(
    epsilon: float, rng: np.random.Generator, trials: int = 400, pairs: int = 30
) -> list[Row]:
    """Rows of the table of an audit: every kind of claim, with either score.

    Parameters
    ----------
    epsilon : float
        Of the claims; those of zCDP and of small delta are of the same size.
    rng : Generator
        For the search; a real release draws from the system.
    trials : int
        Real releases on each dataset of the worst pair.
    pairs : int
        Neighbours that are searched, for each shape.

    Returns
    -------
    list of Row
        ``exact`` is by enumeration, over the worst pair; ``sampled`` a lower bound from real
        releases; ``differs`` the p-value of real releases under the enumerated law.

    Notes
    -----
    **Privacy.** *Covered*: no data is involved. *Neighbours*: replace one record. *Assumed
    public*: everything. *Not covered*: time and memory of the mechanisms.
    """
    claims = claims_of_size(epsilon)
    subjects = [(claim, score, f"worst margins, {score}") for claim in claims for score in SCORES]
    return _rows("selection", subjects, worst_pair, rng, trials, pairs)


def audit_simplex(
    epsilon: float,
    rng: np.random.Generator,
    trials: int = 400,
    pairs: int = 20,
    losses: Sequence[Loss] | None = None,
) -> list[Row]:
    """Rows of the table of an audit: every kind of claim, under every registered loss.

    Parameters
    ----------
    epsilon, rng, trials, pairs
        As `audit_programs` takes them.
    losses : sequence of Loss, optional
        By default those that are registered.

    Returns
    -------
    list of Row
        As `audit_programs` returns them; ``exact`` is by multinomial enumeration.

    Notes
    -----
    **Privacy.** *Covered*: no data is involved. *Neighbours*: replace one record. *Assumed
    public*: everything. *Not covered*: time and memory of the mechanisms.
    """
    known, claims = LOSSES.values() if losses is None else losses, claims_of_size(epsilon)
    subjects = [(claim, loss, label(loss)) for loss in known for claim in claims]
    return _rows("simplex", subjects, worst_histograms, rng, trials, pairs)


def _rows(
    placement: str,
    subjects: list[tuple[Promise, Any, str]],
    worst_of: Callable[..., OutcomePair],
    rng: np.random.Generator,
    trials: int,
    pairs: int,
) -> list[Row]:
    """A row for each claim on what it is about, from the worst of so many pairs."""
    alpha = ALPHA / len(subjects)

    def row(claim: Promise, what: Any, loss: str) -> Row:
        pair = worst_of(claim, what, rng, pairs)
        claimed, ratio = claimed_number(claim), pair.log_p - pair.log_q
        seen = [pair.release(rows, trials) for rows in (pair.first, pair.second)]
        first, second = (side[:, None].astype(np.float64) for side in seen)

        def score(outputs: FloatArray) -> FloatArray:
            return np.asarray(ratio[outputs[:, 0].astype(np.intp)])

        return Row(
            placement=placement,
            loss=loss,
            claim=short(claim),
            claimed=claimed,
            exact=pair.loss,
            attained=pair.loss / claimed,
            where=pair.where,
            sampled=sampled_bound(claim, first, second, alpha, score),
            differs=min(1.0, 2 * min(map(path_pvalue, seen, (pair.log_p, pair.log_q)))),
        )

    return [
        row_or_failure(placement, loss, claim, row, claim, what, loss)
        for claim, what, loss in subjects
    ]


def worst_pair(claim: Promise, score: str, rng: np.random.Generator, pairs: int) -> OutcomePair:
    """The pair of tiny neighbours that shows most of the claim on a linear program."""
    return _worst(
        _program(claim, score, rng, shape, index) for shape in _PATHS for index in range(pairs)
    )


def worst_histograms(
    claim: Promise, loss: Loss, rng: np.random.Generator, pairs: int
) -> OutcomePair:
    """The pair of tiny neighbours that shows most of the claim by draws from the simplex."""
    return _worst(
        _simplex(claim, loss, rng, shape, index) for shape in _HISTOGRAMS for index in range(pairs)
    )


def _worst(found: Iterable[OutcomePair]) -> OutcomePair:
    """By the number of the claim, and by log ratios for a delta of which no pair shows anything."""
    return max(
        found, key=lambda pair: (pair.loss, loss_of_outcomes(pair.log_p, pair.log_q, PureDP(1.0)))
    )


def _near_bounds(rng: np.random.Generator, index: int, n: int, d: int) -> FloatArray:
    """Covariates ``(n, d)`` mostly at the bound 1: each second time at it, each third alike."""
    x = rng.choice([-1.0, 1.0], (n, d)) if index % 2 else rng.uniform(-1.5, 1.5, (n, d))
    x[0] = rng.choice([-1.0, 1.0], d)
    if index % 3 == 0:  # all alike but the first: what is chosen rests on it
        x[1:] = -x[0]
    return x


def _sides(x: FloatArray, record: FloatArray) -> tuple[EntryRows, EntryRows]:
    """Rows, and the same with another first record."""
    moved = x.copy()
    moved[0] = record
    first, second = (EntryRows(rows, np.ones(len(rows)), x_bound=1.0) for rows in (x, moved))
    return first, second


# -- linear programs --------------------------------------------------------------------------


def _program(
    claim: Promise, score: str, rng: np.random.Generator, shape: tuple[int, int], index: int
) -> OutcomePair:
    """Neighbours with entries mostly at the bound, under steps of many sizes."""
    (d, rounds), n = shape, _RECORDS
    step = float(10.0 ** rng.uniform(-1, 1.5)) if index else "auto"
    facts = ProgramFacts(n, d, 1.0, _DENSITY)
    made = calibrate_program(facts, claim, rounds, step, score, slack=0.25)
    x = _near_bounds(rng, index, n, d)
    first, second = _sides(x, -x[0] if index % 4 else rng.choice([-1.0, 1.0, math.nan], d))
    log_p, log_q = (path_log_probabilities(rows, made).reshape(-1) for rows in (first, second))
    where = f"{score} score, n={n}, d={d}, T={made.rounds}"
    released = partial(released_paths, made)
    return OutcomePair(first, second, made, log_p, log_q, where, released)


def released_paths(calibration: ProgramCalibration, rows: EntryRows, trials: int) -> IntArray:
    """Positions ``(trials,)`` of the paths of real releases."""
    shape = (2 * rows.d,) * calibration.rounds
    paths = [release_program(rows, calibration, SystemRandomness()).path for _ in range(trials)]
    return np.asarray(np.ravel_multi_index(tuple(np.array(paths).T), shape))


# -- the simplex ------------------------------------------------------------------------------


def _simplex(
    claim: Promise, loss: Loss, rng: np.random.Generator, shape: tuple[int, int], index: int
) -> OutcomePair:
    """Neighbours with entries mostly at the bound, at radii of many sizes."""
    (d, draws), n = shape, _SIMPLEX_RECORDS
    radius = float(10.0 ** rng.uniform(-2, 1))
    made = calibrate_simplex(SimplexProblem(n, d, 1.0, radius, loss), claim, "auto", draws)
    histograms = histograms_of(2 * d, made.draws)  # as many as are made
    x = _near_bounds(rng, index, n, d)
    first, second = _sides(x, -x[0])
    log_p, log_q = (
        log_chances(histograms, exact_minimiser(rows, made.problem)) for rows in (first, second)
    )
    where = f"n={n}, d={d}, m={made.draws}, radius={radius:.3g}"

    def released(rows: EntryRows, trials: int) -> IntArray:
        place = {tuple(histogram): at for at, histogram in enumerate(histograms.tolist())}
        found = (release_simplex(rows, made, SystemRandomness()).counts for _ in range(trials))
        return np.array([place[tuple(counts.tolist())] for counts in found], dtype=np.intp)

    return OutcomePair(first, second, made, log_p, log_q, where, released)


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
    share = lam / (lam + problem.n * problem.loss.curvature_bound * problem.reach**2)

    def conditions_at(logs: FloatArray) -> FloatArray:
        return np.asarray(problem.loss.slope(both @ np.exp(logs)) @ both + lam * logs)

    logs = np.full(2 * rows.d, -math.log(2 * rows.d))
    conditions = conditions_at(logs)
    for _ in range(_STEPS):
        if np.ptp(conditions) <= _EXACT * (lam + problem.n * problem.reach):
            break
        theta = np.exp(logs)
        bends = problem.loss.curvature(both @ theta)
        matrix = both.T @ (bends[:, None] * both) @ (np.diag(theta) - np.outer(theta, theta))
        step = np.linalg.solve(lam * np.eye(len(logs)) + matrix, -conditions)
        ahead = special.log_softmax(logs + step)
        found = conditions_at(ahead)
        if not np.ptp(found) <= np.ptp(conditions) / 2:
            # Newton's step overshot, which a step this short never does
            ahead = special.log_softmax(logs - share / lam * conditions)
            found = conditions_at(ahead)
        logs, conditions = ahead, found
    return np.asarray(logs)
