"""The audit of linear programs: tiny cases of which every path is known."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from privatelr.audit.audit_table import row_or_failure
from privatelr.audit.checks import ALPHA, claims_of_size
from privatelr.audit.enumeration.choice_paths import path_log_probabilities
from privatelr.audit.enumeration.discrete import OutcomePair, row_of, rows_near_bounds
from privatelr.mechanisms.linear_programs import (
    SCORES,
    ProgramCalibration,
    ProgramFacts,
    calibrate_program,
    release_program,
)
from privatelr.numerics.rows import EntryRows
from privatelr.privacy import Promise
from privatelr.privacy.noise import SystemRandomness
from privatelr.types import IntArray

if TYPE_CHECKING:
    from privatelr.audit.audit_table import Row

_RECORDS, _DENSITY = 4, 0.75
"""Records, and a density at which one has most of its largest weight from the first round on."""
_SHAPES = ((1, 8), (2, 4))
"""Columns and rounds, so that there are 256 paths."""
_PAIRS = 30


def audit_programs(
    epsilon: float, rng: np.random.Generator, trials: int = 400, pairs: int = _PAIRS
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
    subjects = [(claim, score) for claim in claims_of_size(epsilon) for score in SCORES]
    alpha = ALPHA / len(subjects)
    return [
        row_or_failure(
            "selection", _loss(score), claim, _row, claim, score, rng, pairs, trials, alpha
        )
        for claim, score in subjects
    ]


def _loss(score: str) -> str:
    return f"worst margins, {score}"


def _row(
    claim: Promise, score: str, rng: np.random.Generator, pairs: int, trials: int, alpha: float
) -> Row:
    worst = worst_pair(claim, score, rng, pairs)
    calibration = worst.calibration
    problem = calibration.problem
    paths = [_releases(rows, calibration, trials) for rows in (worst.first, worst.second)]
    return row_of(
        worst,
        paths,
        alpha,
        placement="selection",
        loss=_loss(score),
        where=f"{score} score, n={problem.n}, d={problem.d}, T={calibration.rounds}",
    )


def worst_pair(claim: Promise, score: str, rng: np.random.Generator, pairs: int) -> OutcomePair:
    """The pair of tiny neighbours that shows most of the claim, among random ones.

    By the number of the claim, and for a delta of which none shows anything by log ratios.
    """
    found = [
        pair for d, rounds in _SHAPES for pair in _pairs(claim, score, rng, (d, rounds, pairs))
    ]
    return max(found, key=lambda pair: (pair.loss, pair.size))


def _pairs(
    claim: Promise, score: str, rng: np.random.Generator, shape: tuple[int, int, int]
) -> Iterator[OutcomePair]:
    """Neighbours with entries mostly at the bound, under steps of many sizes."""
    d, rounds, count = shape
    n = _RECORDS
    facts = ProgramFacts(n, d, 1.0, _DENSITY)
    for index in range(count):
        step = float(10.0 ** rng.uniform(-1, 1.5)) if index else "auto"
        calibration = calibrate_program(facts, claim, rounds, step, score, slack=0.25)
        x = rows_near_bounds(rng, index, n, d)
        moved = x.copy()
        moved[0] = -x[0] if index % 4 else rng.choice([-1.0, 1.0, math.nan], d)
        first, second = (EntryRows(rows, np.ones(n), x_bound=1.0) for rows in (x, moved))
        log_p, log_q = (
            path_log_probabilities(rows, calibration).reshape(-1) for rows in (first, second)
        )
        yield OutcomePair(first, second, calibration, log_p, log_q)


def _releases(rows: EntryRows, calibration: ProgramCalibration, trials: int) -> IntArray:
    """Positions ``(trials,)`` of the paths of real releases."""
    shape = (2 * rows.d,) * calibration.rounds
    paths = [release_program(rows, calibration, SystemRandomness()).path for _ in range(trials)]
    return np.asarray(np.ravel_multi_index(tuple(np.array(paths).T), shape))
