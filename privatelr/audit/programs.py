"""The audit of linear programs: tiny cases of which every path is known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from privatelr.audit.discrete import loss_of_outcomes
from privatelr.audit.loss import claimed_number
from privatelr.audit.outputs import outputs_of
from privatelr.audit.paths import path_log_probabilities
from privatelr.audit.sampled import delta_from_outputs, epsilon_from_outputs, rho_from_outputs
from privatelr.audit.table import Row
from privatelr.mechanisms.programs.calibration import SCORES, calibrate_program
from privatelr.mechanisms.programs.problem import ProgramFacts
from privatelr.mechanisms.programs.release import release_program
from privatelr.numerics.entries import EntryRows
from privatelr.privacy.guarantees import ZCDP, ApproxDP, PureDP
from privatelr.privacy.randomness import SystemRandomness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from privatelr.mechanisms.programs.calibration import ProgramCalibration
    from privatelr.privacy.guarantees import Promise
    from privatelr.types import FloatArray, IntArray

_RECORDS, _DENSITY = 4, 0.75
"""So dense that a record has most of its largest weight from the first round on."""
_SHAPES = ((1, 8), (2, 4))
"""Columns and rounds, so that there are 256 paths."""
_PAIRS = 30
_FEWEST = 100
_ENOUGH = 8.0
"""Smallest number of expected releases of a path that is compared by itself."""


@dataclass(frozen=True, slots=True, eq=False)
class PathPair:
    """Neighbouring rows, a calibration, and the log chances of all paths ``(k,)`` under either."""

    first: EntryRows
    second: EntryRows
    calibration: ProgramCalibration
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
    claims: list[Promise] = [
        PureDP(epsilon),
        ZCDP(epsilon**2 / 2),
        ApproxDP(epsilon, 1e-6),
        ApproxDP(epsilon, 1e-2),
    ]
    subjects = [(claim, score) for claim in claims for score in SCORES]
    alpha = 1e-3 / len(subjects)
    return [
        _row(claim, worst_pair(claim, score, rng, pairs), trials, alpha)
        for claim, score in subjects
    ]


def _row(claim: Promise, worst: PathPair, trials: int, alpha: float) -> Row:
    calibration = worst.calibration
    problem, claimed = calibration.problem, claimed_number(claim)
    paths = [_releases(rows, calibration, trials) for rows in (worst.first, worst.second)]
    chances = (worst.log_p, worst.log_q)
    differs = min(1.0, 2 * min(map(path_pvalue, paths, chances)))
    return Row(
        placement="selection",
        loss=f"worst margins, {calibration.score}",
        claim=_short(claim),
        claimed=claimed,
        exact=worst.loss,
        attained=worst.loss / claimed,
        where=f"{calibration.score} score, n={problem.n}, d={problem.d}, T={calibration.rounds}",
        sampled=_sampled(worst, paths, alpha),
        differs=differs,
    )


def worst_pair(claim: Promise, score: str, rng: np.random.Generator, pairs: int) -> PathPair:
    """The pair of tiny neighbours that shows most of the claim, among random ones.

    By the number of the claim, and for a delta of which none shows anything by log ratios.
    """
    found = [
        pair for d, rounds in _SHAPES for pair in _pairs(claim, score, rng, (d, rounds, pairs))
    ]
    return max(found, key=lambda pair: (pair.loss, pair.size))


def _pairs(
    claim: Promise, score: str, rng: np.random.Generator, shape: tuple[int, int, int]
) -> Iterator[PathPair]:
    """Neighbours with entries mostly at the bound, under steps of many sizes."""
    d, rounds, count = shape
    n = _RECORDS
    facts = ProgramFacts(n, d, 1.0, _DENSITY)
    for index in range(count):
        step = float(10.0 ** rng.uniform(-1, 1.5)) if index else "auto"
        calibration = calibrate_program(facts, claim, rounds, step, score, slack=0.25)
        x = rng.choice([-1.0, 1.0], (n, d)) if index % 2 else rng.uniform(-1.5, 1.5, (n, d))
        x[0] = rng.choice([-1.0, 1.0], d)
        if index % 3 == 0:  # all alike but the one: its weight decides
            x[1:] = -x[0]
        moved = x.copy()
        moved[0] = -x[0] if index % 4 else rng.choice([-1.0, 1.0, math.nan], d)
        first, second = (EntryRows(rows, np.ones(n), x_bound=1.0) for rows in (x, moved))
        log_p, log_q = (
            path_log_probabilities(rows, calibration).reshape(-1) for rows in (first, second)
        )
        yield PathPair(first, second, calibration, log_p, log_q)


def _releases(rows: EntryRows, calibration: ProgramCalibration, trials: int) -> IntArray:
    """Positions ``(trials,)`` of the paths of real releases."""
    shape = (2 * rows.d,) * calibration.rounds
    paths = [release_program(rows, calibration, SystemRandomness()).path for _ in range(trials)]
    return np.asarray(np.ravel_multi_index(tuple(np.array(paths).T), shape))


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


def _sampled(worst: PathPair, paths: list[IntArray], alpha: float) -> float:
    """Lower bound on the number of the claim; NaN for a delta that so few can show nothing of."""
    claim, trials = worst.calibration.target, len(paths[0])
    ratio = worst.log_p - worst.log_q

    def score(values: FloatArray) -> FloatArray:
        return np.asarray(ratio[values[:, 0].astype(np.intp)])

    first, second = (outputs_of(side[:, None].astype(np.float64)) for side in paths)
    match claim:
        case PureDP():
            return epsilon_from_outputs(first, second, alpha=alpha, score=score)
        case ZCDP():
            return rho_from_outputs(first, second, alpha=alpha, score=score)
        case ApproxDP(epsilon=epsilon, delta=delta) if delta * trials >= _FEWEST:
            return delta_from_outputs(first, second, epsilon, alpha=alpha, score=score)
    return math.nan


def _short(claim: Promise) -> str:
    match claim:
        case PureDP():
            return f"epsilon = {claim.epsilon:g}"
        case ZCDP():
            return f"rho = {claim.rho:g}"
    return f"epsilon = {claim.epsilon:g}, delta = {claim.delta:g}"
