"""The audit of mechanisms that choose columns, on tiny datasets with a list of all outcomes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from privatelr.audit.audit_table import Row, row_or_failure
from privatelr.audit.checks import claimed_number, claims_of_size, label, short
from privatelr.audit.enumeration.discrete import (
    loss_of_outcomes,
    path_log_probabilities,
)
from privatelr.errors import ArgumentError
from privatelr.numerics import LOSSES, Loss
from privatelr.numerics.rows import EntryRows
from privatelr.privacy import Promise, PureDP
from privatelr.selection.multiplicative_weights import (
    SCORES,
    ProgramFacts,
    calibrate_program,
)
from privatelr.selection.simplex import SimplexProblem, calibrate_simplex
from privatelr.types import FloatArray, IntArray

_RECORDS, _DENSITY = 4, 0.75
"""A linear program has this number of records, and a density under which one of them soon reaches
the largest weight that it may have."""
_PATHS = ((1, 8), (2, 4))
"""Linear programs have these numbers of columns and of rounds, and each has 256 paths."""
_SIMPLEX_RECORDS = 6
"""A minimiser on the simplex has this number of records."""
_HISTOGRAMS = ((1, 1), (1, 5), (1, 40), (2, 1), (2, 8))
"""With these numbers of columns and of draws, there are few enough histograms to list."""
_MOST_HISTOGRAMS = 2_000_000
"""At most this number of histograms is listed."""
_STEPS = 100_000
"""The search for an exact minimiser stops after this number of Newton steps."""
_EXACT = 1e-12
"""The Karush-Kuhn-Tucker (KKT) conditions are satisfied up to this relative error."""


@dataclass(frozen=True, slots=True, eq=False)
class OutcomePair:
    """Two neighbouring datasets, and the exact laws of a release on both.

    Attributes
    ----------
    first, second : EntryRows
        Datasets that differ in one record.
    calibration : ProgramCalibration or SimplexCalibration
    log_p, log_q : ndarray of shape (k,)
        Log probabilities of all outcomes under the first and under the second dataset.
    where : str
        A description of the case.
    """

    first: EntryRows
    second: EntryRows
    calibration: Any
    log_p: FloatArray
    log_q: FloatArray
    where: str

    @property
    def loss(self) -> float:
        """The privacy loss between the two laws, in the unit of the claim."""
        return loss_of_outcomes(self.log_p, self.log_q, self.calibration.target)


def audit_programs(epsilon: float, rng: np.random.Generator, pairs: int = 30) -> list[Row]:
    """Rows of an audit's table for linear programs: one for each kind of claim and each score.

    Parameters
    ----------
    epsilon : float
        The epsilon of the claims; claims of zCDP and of a delta have about the same strength.
    rng : Generator
        The source of random numbers for the search.
    pairs : int
        Number of pairs that are searched, for each shape.

    Returns
    -------
    list of Row
        ``exact`` is the loss of the worst pair by enumeration.

    Notes
    -----
    **Privacy.** *Covered*: no data is involved. *Neighbours*: replace one record. *Assumed
    public*: everything. *Not covered*: time and memory of the mechanisms.
    """
    claims = claims_of_size(epsilon)
    subjects = [(claim, score, f"worst margins, {score}") for claim in claims for score in SCORES]
    return _rows("selection", subjects, worst_pair, rng, pairs)


def audit_simplex(
    epsilon: float,
    rng: np.random.Generator,
    pairs: int = 20,
    losses: Sequence[Loss] | None = None,
) -> list[Row]:
    """Rows of an audit's table for the simplex: one for each kind of claim and each loss.

    Parameters
    ----------
    epsilon, rng, pairs
        The same as in `audit_programs`.
    losses : sequence of Loss, optional
        By default all registered losses.

    Returns
    -------
    list of Row
        The same as from `audit_programs`; the enumeration is that of multinomial draws.

    Notes
    -----
    **Privacy.** *Covered*: no data is involved. *Neighbours*: replace one record. *Assumed
    public*: everything. *Not covered*: time and memory of the mechanisms.
    """
    known, claims = LOSSES.values() if losses is None else losses, claims_of_size(epsilon)
    subjects = [(claim, loss, label(loss)) for loss in known for claim in claims]
    return _rows("simplex", subjects, worst_histograms, rng, pairs)


def _rows(
    placement: str,
    subjects: list[tuple[Promise, Any, str]],
    worst_of: Callable[..., OutcomePair],
    rng: np.random.Generator,
    pairs: int,
) -> list[Row]:
    """One row for each claim and its loss or score, about the worst of a number of pairs."""

    def row(claim: Promise, what: Any, loss: str) -> Row:
        pair = worst_of(claim, what, rng, pairs)
        claimed = claimed_number(claim)
        numbers = claimed, pair.loss, pair.loss / claimed
        return Row(placement, loss, short(claim), *numbers, pair.where, buys="choices")

    return [
        row_or_failure(placement, loss, claim, row, claim, what, loss, buys="choices")
        for claim, what, loss in subjects
    ]


def worst_pair(claim: Promise, score: str, rng: np.random.Generator, pairs: int) -> OutcomePair:
    """The pair of tiny neighbours with the largest privacy loss of a linear program."""
    return _worst(
        _program(claim, score, rng, shape, index) for shape in _PATHS for index in range(pairs)
    )


def worst_histograms(
    claim: Promise, loss: Loss, rng: np.random.Generator, pairs: int
) -> OutcomePair:
    """The pair of tiny neighbours with the largest privacy loss of draws from the simplex."""
    return _worst(
        _simplex(claim, loss, rng, shape, index) for shape in _HISTOGRAMS for index in range(pairs)
    )


def _worst(found: Iterable[OutcomePair]) -> OutcomePair:
    """The pair with the largest loss; log ratios decide where the delta of every pair is zero."""
    return max(
        found, key=lambda pair: (pair.loss, loss_of_outcomes(pair.log_p, pair.log_q, PureDP(1.0)))
    )


def _near_bounds(rng: np.random.Generator, index: int, n: int, d: int) -> FloatArray:
    """Covariates ``(n, d)``: at the bound 1 if the index is odd, else near it or beyond.

    If the index is a multiple of three, all records but the first are equal.
    """
    x = rng.choice([-1.0, 1.0], (n, d)) if index % 2 else rng.uniform(-1.5, 1.5, (n, d))
    x[0] = rng.choice([-1.0, 1.0], d)
    if index % 3 == 0:  # the choice then depends most on the first record
        x[1:] = -x[0]
    return x


def _sides(x: FloatArray, record: FloatArray) -> tuple[EntryRows, EntryRows]:
    """Two datasets: the covariates as they are, and with another first record."""
    moved = x.copy()
    moved[0] = record
    first, second = (EntryRows(rows, np.ones(len(rows)), x_bound=1.0) for rows in (x, moved))
    return first, second


# -- linear programs --------------------------------------------------------------------------


def _program(
    claim: Promise, score: str, rng: np.random.Generator, shape: tuple[int, int], index: int
) -> OutcomePair:
    """A pair of neighbours near the bound, with a random step, and its laws under the program."""
    (d, rounds), n = shape, _RECORDS
    step = float(10.0 ** rng.uniform(-1, 1.5)) if index else "auto"
    facts = ProgramFacts(n, d, 1.0, _DENSITY)
    made = calibrate_program(facts, claim, rounds, step, score, slack=0.25)
    x = _near_bounds(rng, index, n, d)
    first, second = _sides(x, -x[0] if index % 4 else rng.choice([-1.0, 1.0, math.nan], d))
    log_p, log_q = (path_log_probabilities(rows, made).reshape(-1) for rows in (first, second))
    where = f"{score} score, n={n}, d={d}, T={made.rounds}"
    return OutcomePair(first, second, made, log_p, log_q, where)


# -- the simplex ------------------------------------------------------------------------------


def _simplex(
    claim: Promise, loss: Loss, rng: np.random.Generator, shape: tuple[int, int], index: int
) -> OutcomePair:
    """A pair of neighbours near the bound, with a random radius, and its laws of histograms."""
    (d, draws), n = shape, _SIMPLEX_RECORDS
    radius = float(10.0 ** rng.uniform(-2, 1))
    made = calibrate_simplex(SimplexProblem(n, d, 1.0, radius, loss), claim, "auto", draws)
    histograms = histograms_of(2 * d, made.draws)  # a wrong calibration may change the number
    x = _near_bounds(rng, index, n, d)
    first, second = _sides(x, -x[0])
    log_p, log_q = (
        log_chances(histograms, exact_minimiser(rows, made.problem)) for rows in (first, second)
    )
    where = f"n={n}, d={d}, m={made.draws}, radius={radius:.3g}"
    return OutcomePair(first, second, made, log_p, log_q, where)


def histograms_of(options: int, draws: int) -> IntArray:
    """All histograms ``(k, options)`` of a number of draws."""
    count = math.comb(draws + options - 1, options - 1)
    if count > _MOST_HISTOGRAMS:
        raise ArgumentError(
            f"draws={draws}: {options} options have too many histograms to list; take fewer draws."
        )
    # every histogram is a choice of the places of bars among the draws
    places = draws + options - 1
    bars = np.array(list(itertools.combinations(range(places), options - 1)), dtype=np.intp)
    edges = np.pad(bars, ((0, 0), (1, 1)), constant_values=((0, 0), (-1, places)))
    return np.diff(edges, axis=1) - 1


def log_chances(histograms: IntArray, log_theta: FloatArray) -> FloatArray:
    """Log probabilities ``(k,)`` of histograms of independent draws."""
    draws = histograms.sum(axis=1)
    ways = special.gammaln(draws + 1) - special.gammaln(histograms + 1).sum(axis=1)
    return np.asarray(ways + histograms @ log_theta)


def exact_minimiser(rows: EntryRows, problem: SimplexProblem) -> FloatArray:
    """Log theta ``(2 d,)`` of the minimiser on the simplex, computed from the definition alone.

    It applies Newton's method to the KKT conditions in ``log theta``, and takes a step of mirror
    descent where Newton's step does not halve their error.
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
            # Newton's step was too long; a step of mirror descent this short never is
            ahead = special.log_softmax(logs - share / lam * conditions)
            found = conditions_at(ahead)
        logs, conditions = ahead, found
    return np.asarray(logs)
