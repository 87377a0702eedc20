"""The law of the choices of a linear program, exactly: every path of a tiny case, or one path.

All paths at once are enumerated from the definition, with nothing of the release but its public
numbers. The log chance of a single path, of a fit of any size, goes by the functions of the
release, which the comparison with all paths of tiny cases vouches for.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from privatelr.errors import ArgumentError
from privatelr.mechanisms.programs.release import lower, require_match, scorer
from privatelr.numerics.dense_weights import dense_projection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from privatelr.mechanisms.programs.calibration import ProgramCalibration
    from privatelr.numerics.entries import EntryRows
    from privatelr.types import FloatArray, IntArray

_MOST_NUMBERS = 5e7
"""Log weights that an enumeration may hold at once."""


def path_log_probabilities(rows: EntryRows, calibration: ProgramCalibration) -> FloatArray:
    """Log chance of every path, of shape ``(2 d,) * rounds``: one axis for each round.

    Notes
    -----
    **Privacy.** *Covered*: nothing; run it on made-up rows. *Neighbours*, *Assumed public*: none.
    *Not covered*: the result.
    """
    require_match(rows, calibration)
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


def path_log_probability(
    rows: EntryRows, calibration: ProgramCalibration, path: Sequence[int] | IntArray
) -> float:
    """Log chance of one path; minus infinity where there is no noise and it is not the one.

    Notes
    -----
    **Privacy.** *Covered*: nothing. *Neighbours*, *Assumed public*: none. *Not covered*: the
    result, which is a function of the rows.
    """
    require_match(rows, calibration)
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
    """Exact log ratio of the chances of one path, first dataset over second.

    Notes
    -----
    **Privacy.** *Covered*: nothing. *Neighbours*: whatever pair is given. *Assumed public*: both
    datasets. *Not covered*: the result.
    """
    return path_log_probability(first, calibration, path) - path_log_probability(
        second, calibration, path
    )


def log_chances_of(scores: FloatArray, calibration: ProgramCalibration) -> FloatArray:
    """Log chances of the options ``(m, k)`` by their scores."""
    if math.isinf(calibration.eta):
        chosen = np.argmax(scores, axis=1)[:, None] == np.arange(scores.shape[1])
        return np.where(chosen, 0.0, -math.inf)
    exponents = calibration.eta * scores / (2 * calibration.sensitivity)
    return np.asarray(exponents - np.logaddexp.reduce(exponents, axis=1, keepdims=True))


def nearest_dense(log_weights: FloatArray, s: float) -> FloatArray:
    """The nearest dense laws ``(m, n)``, by trying how many weights are cut off."""
    ranked = -np.sort(-log_weights, axis=1)
    log_zeta = np.full(len(ranked), np.nan)
    for cut in range(math.ceil(s)):
        level = ranked[:, cut : cut + 1]
        rest = np.log(s - cut) - np.logaddexp.reduce(ranked[:, cut:] - level, axis=1)
        fits = np.isnan(log_zeta) & (rest <= 1e-12)
        log_zeta = np.where(fits, rest - level[:, 0], log_zeta)
    # where s is whole and as many weights tower over the others, only rounding is in the way
    last = -ranked[:, math.ceil(s) - 1]
    log_zeta = np.where(np.isnan(log_zeta), last, log_zeta)
    return np.asarray(np.exp(np.minimum(log_weights + log_zeta[:, None], 0.0)) / s)
