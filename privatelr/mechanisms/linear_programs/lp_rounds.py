"""Rounds of multiplicative weights: weigh the records, choose an option, lower the weights.

A round lowers the weights as they were before they were made dense. So the influence of each
record stays apart: given the choices so far, the weight of a record depends on this record alone
(theory.md, Lemma D3).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from privatelr.mechanisms.linear_programs.lp_calibration import (
    ProgramCalibration,
    SequentialChoices,
)
from privatelr.mechanisms.selection_release import Selections, require_x_bound
from privatelr.numerics.rows import BoundedEntries
from privatelr.numerics.solve.dense_weights import dense_projection
from privatelr.privacy.noise import Randomness
from privatelr.types import FloatArray, IntArray

Scorer = Callable[[FloatArray], FloatArray]
"""A function that returns the scores ``(options,)`` under weights ``(n,)`` of sum one."""
Lowering = Callable[[FloatArray, int], None]
"""A function that lowers, in place, the log weights ``(n,)`` of what an option serves well."""


def release_program(
    rows: BoundedEntries, calibration: ProgramCalibration, randomness: Randomness
) -> Selections:
    """Choose one signed column in each round, and release all choices in their order.

    Parameters
    ----------
    rows : BoundedEntries
        The private rows.
    calibration : ProgramCalibration
        It was made for rows of this shape.
    randomness : Randomness
        The source of the noise.

    Returns
    -------
    Selections
        A coefficient is the share of rounds that chose its column as it is, less the share of
        rounds that chose it with the opposite sign.

    Notes
    -----
    **Privacy.** *Covered*: choices and order, by ``calibration.target``. *Neighbours*: replace
    one record. *Assumed public*: everything in ``calibration.problem``. *Not covered*: time
    and memory.
    """
    require_x_bound(rows, calibration)
    path = play_columns(rows, scorer(rows, calibration), calibration, randomness)
    counts = np.bincount(path, minlength=2 * rows.d)
    return Selections(counts, calibration, calibration.target, path=path)


def play(
    n: int,
    score: Scorer,
    fall: Lowering,
    s: float,
    made: SequentialChoices,
    randomness: Randomness,
) -> IntArray:
    """Play all rounds and return the chosen options ``(rounds,)``; see Lemma D3.

    Without a mechanism each round takes the largest score.
    """
    log_weights, choice = np.zeros(n), made.choice
    path = np.empty(made.rounds, dtype=np.intp)
    for turn in range(made.rounds):
        # no dense weight is above 1/s, so no record moves a score by more than the sensitivity
        scores = score(dense_projection(log_weights, s))
        option = int(np.argmax(scores)) if choice is None else choice.choose(scores, randomness)
        path[turn] = option
        # records that the option serves well lose weight, so that later rounds serve the others;
        # the raw weights fall, because dense ones would pass the change of one record on to all
        fall(log_weights, option)
    return path


def play_columns(
    rows: BoundedEntries, score: Scorer, made: ProgramCalibration, randomness: Randomness
) -> IntArray:
    """Play all rounds with signed columns as options; see `play`."""

    def fall(log_weights: FloatArray, option: int) -> None:
        lower(log_weights, rows, option, made.step)

    return play(rows.n, score, fall, made.problem.s, made, randomness)


def scorer(rows: BoundedEntries, calibration: ProgramCalibration) -> Scorer:
    """Return the function that computes the scores of a calibration."""
    if calibration.score == "margin":

        def margins(weights: FloatArray) -> FloatArray:
            one_way = rows.weighted_sum(weights)
            return np.concatenate([one_way, -one_way])

        return margins
    right, wrong = rows.at_least(calibration.threshold)
    return lambda weights: np.concatenate(
        [right.weighted_sum(weights), wrong.weighted_sum(weights)]
    )


def lower(log_weights: FloatArray, rows: BoundedEntries, option: int, step: float) -> None:
    """Lower, in place, the log weights of the records that a signed column classifies well."""
    index, values = rows.column(option % rows.d)
    change = step * values
    log_weights[index] -= change if option < rows.d else -change
