"""Rounds of multiplicative weights: weigh the records, choose a column, lower the weights.

The weights that fall are the ones before they are made dense. That is what keeps the influence of
a record apart: given the choices so far, the weight of a record depends on this record alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from privatelr.errors import GuaranteeError
from privatelr.mechanisms.selection_release import Selections, require_shape
from privatelr.numerics.rows import EntryRows
from privatelr.numerics.solve.dense_weights import dense_projection
from privatelr.privacy.noise import Randomness
from privatelr.types import FloatArray, IntArray

if TYPE_CHECKING:
    from privatelr.mechanisms.linear_programs.lp_calibration import ProgramCalibration
    from privatelr.privacy.noise.exponential_mechanism import ExponentialMechanism

Scorer = Callable[["FloatArray"], "FloatArray"]
"""Scores ``(2 d,)`` of all options under weights ``(n,)`` that add up to one."""


@dataclass(frozen=True, slots=True)
class Pace:
    """No weight above ``1 / s``; by how much log weights fall; how many rounds."""

    s: float
    step: float
    rounds: int


def release_program(
    rows: EntryRows, calibration: ProgramCalibration, randomness: Randomness
) -> Selections:
    """Choose one signed column a round, and release all choices in their order.

    Parameters
    ----------
    rows : EntryRows
    calibration : ProgramCalibration
        For rows of this shape.
    randomness : Randomness

    Returns
    -------
    Selections
        The coefficients are the share of rounds in which a column was chosen with its sign,
        less the share with the other.

    Notes
    -----
    **Privacy.** *Covered*: choices and order, by ``calibration.target``. *Neighbours*: replace
    one record. *Assumed public*: everything in ``calibration.problem``. *Not covered*: time
    and memory.
    """
    require_match(rows, calibration)
    path = play(
        rows,
        scorer(rows, calibration),
        Pace(calibration.problem.s, calibration.step, calibration.rounds),
        calibration.choice,
        randomness,
    )
    counts = np.bincount(path, minlength=2 * rows.d)
    return Selections(counts, calibration, calibration.target, path=path)


def play(
    rows: EntryRows,
    score: Scorer,
    pace: Pace,
    choice: ExponentialMechanism | None,
    randomness: Randomness,
) -> IntArray:
    """The options ``(rounds,)`` that are chosen, by scores alone where there is no mechanism."""
    log_weights = np.zeros(rows.n)
    path = np.empty(pace.rounds, dtype=np.intp)
    for turn in range(pace.rounds):
        scores = score(dense_projection(log_weights, pace.s))
        option = int(np.argmax(scores)) if choice is None else choice.choose(scores, randomness)
        path[turn] = option
        lower(log_weights, rows, option, pace.step)
    return path


def scorer(rows: EntryRows, calibration: ProgramCalibration) -> Scorer:
    """The scores that a calibration asks for."""
    if calibration.score == "margin":

        def margins(weights: FloatArray) -> FloatArray:
            one_way = rows.weighted_sum(weights)
            return np.concatenate([one_way, -one_way])

        return margins
    right, wrong = rows.at_least(calibration.threshold)

    def counts(weights: FloatArray) -> FloatArray:
        return np.concatenate([right.weighted_sum(weights), wrong.weighted_sum(weights)])

    return counts


def lower(log_weights: FloatArray, rows: EntryRows, option: int, step: float) -> None:
    """Lower, in place, the log weights of the records that a signed column classifies well."""
    index, values = rows.column(option % rows.d)
    change = step * values
    if option < rows.d:
        log_weights[index] -= change
    else:
        log_weights[index] += change


def require_match(rows: EntryRows, calibration: ProgramCalibration) -> None:
    """Refuse rows that the calibration was not made for; compares public facts only."""
    problem = calibration.problem
    require_shape(rows, problem)
    if rows.x_bound > problem.x_bound:
        raise GuaranteeError(
            f"rows with entries up to {rows.x_bound:g} are beyond x_bound={problem.x_bound:g}, "
            "which the choices were calibrated for."
        )
