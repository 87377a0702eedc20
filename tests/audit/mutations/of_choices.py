"""Planted bugs in mechanisms that choose columns, corners or experts, and in ledgers."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from privatelr.errors import GuaranteeError
from privatelr.mechanisms import (
    level_selection,
    range_selection,
)
from privatelr.mechanisms.stages.lengths import LengthCalibration
from privatelr.mechanisms.stages.ranges import RangeCalibrations
from privatelr.numerics.rows import PartitionedRows
from privatelr.privacy import accounting, renyi_divergence
from privatelr.privacy.accounting import ledger_entry
from privatelr.privacy.noise.exponential_mechanism import (
    Exponential,
    ExponentialMechanism,
    Gumbel,
)
from privatelr.results.answers import scored_records
from privatelr.selection import constraint_private, multiplicative_weights, online, simplex, thesis
from privatelr.selection.multiplicative_weights import dense_projection
from privatelr.selection.online import OnlineProblem, PrivateFTRL
from privatelr.sources import of_array
from privatelr.types import FloatArray, IntArray
from tests.audit.mutations.planted import (
    ANSWERS,
    CHOICES,
    DECLARED,
    LEDGER,
    SIMPLEX,
    TABLES,
    Mutation,
    list_bug,
    noise,
    nothing,
    times,
)

OF_CHOICES: list[Mutation] = []
bug = partial(list_bug, OF_CHOICES)
_COLUMNS, _CORNERS, _EXPERTS = (
    noise(f"choices of {what}*") for what in ("columns", "corners", "experts")
)

# -- the price of a choice ----------------------------------------------------------------------


bug("choices are worth twice their range", renyi_divergence.range_within, _COLUMNS)(times(2))


bug("the sensitivity of a score is halved", multiplicative_weights.score_sensitivity, _COLUMNS)(
    times(1 / 2)
)


bug(
    "the published program says a tenth too little",
    thesis.true_epsilon,
    noise("published program"),
)(times(1 / 1.1))


@bug(
    "scores are taken to move one way",
    (multiplicative_weights.SequentialChoices, "choice"),
    CHOICES,
)
def _(honest: Any, made: Any) -> ExponentialMechanism:
    return ExponentialMechanism(made.eta, made.sensitivity)


def _halved(law: type[Gumbel] | type[Exponential]) -> Iterable[Any]:
    def near(honest: Any, leading: Any) -> tuple[FloatArray, FloatArray]:
        numbers, errors = honest(leading)
        return numbers / 2, errors

    yield (law, "transform"), lambda honest, *given: [x / 2 for x in honest(*given)]
    yield (law, "near"), near


bug("Gumbel numbers are half as large", None, CHOICES)(partial(_halved, Gumbel))
bug("exponential numbers are half as large", None, ANSWERS)(partial(_halved, Exponential))


# -- columns and corners ------------------------------------------------------------------------


@bug("weights are not held to their density", dense_projection, CHOICES)
def _(honest: Any, log_weights: FloatArray, s: float) -> FloatArray:
    return np.asarray(special.softmax(log_weights))


def _fed_back(honest: Any, n: int, score: Any, fall: Any, s: float, *rest: Any) -> IntArray:
    """Every round starts from the dense weights of the round before, not from its log weights."""
    made, randomness = rest
    log_weights = np.zeros(n)
    path = np.empty(made.rounds, dtype=np.intp)
    for turn in range(made.rounds):
        weights = dense_projection(log_weights, s)
        path[turn] = made.choice.choose(score(weights), randomness)
        log_weights = np.log(weights)
        fall(log_weights, int(path[turn]))
    return path


bug("dense weights are fed back to columns", (multiplicative_weights, "play"), CHOICES)(_fed_back)
bug("dense weights are fed back to corners", (constraint_private, "play"), CHOICES)(_fed_back)


@bug("the reach of a private row is halved", constraint_private.calibrate_constraints, _CORNERS)
def _(honest: Any, *given: Any, reach: float, **named: Any) -> Any:
    return honest(*given, reach=reach / 2, **named)


# -- experts ------------------------------------------------------------------------------------


@bug("a replaced loss costs as a zeroed one", (OnlineProblem, "moved_steps"), _EXPERTS)
def _(honest: Any, problem: Any) -> Any:
    return problem.steps


@bug("one round is paid for all", (online, "range_within"), _EXPERTS)
def _(honest: Any, target: Any, times: int) -> Any:
    return honest(target, 1)


@bug("a round that is asked twice draws twice", (PrivateFTRL, "predict"), CHOICES)
def _(honest: Any, play: PrivateFTRL) -> Any:
    play._state.choice = None
    return honest(play)


@bug("losses are not clipped", (PrivateFTRL, "update"), CHOICES)
def _(honest: Any, play: PrivateFTRL, losses: Any) -> None:
    before = play._state.sums
    honest(play, losses)
    wild = np.nan_to_num(np.asarray(losses, dtype=np.float64), nan=1e6, posinf=1e6, neginf=-1e6)
    steps = np.clip(wild, -1e6, 1e6) * play.calibration.problem.steps
    play._state.sums = before + steps.astype(np.int64)


# -- the simplex --------------------------------------------------------------------------------


@bug("the minimiser on the simplex is too cold", (simplex, "Entropic"), CHOICES)
def _(honest: Any, given: Any, loss: Any, radius: float, penalty: float, start: Any) -> Any:
    return honest(given, loss, radius, penalty / 2, start)


@bug("four draws are made for one", simplex.calibrate_simplex, SIMPLEX)
def _(honest: Any, *given: Any, **named: Any) -> Any:
    found = honest(*given, **named)
    return replace(found, draws=4 * found.draws)


@bug("the minimiser on the simplex moves half as far", simplex.simplex_stability, SIMPLEX)
def _(honest: Any, *given: Any) -> Any:
    found = honest(*given)
    return replace(found, largest=found.largest / 2, width=found.width / 2, sd=found.sd / 2)


# -- bounds and levels ---------------------------------------------------------------------------

_THIN = (RangeCalibrations, "mechanism")
_RANGES, _LEVELS = range_selection.RangeCalibration, level_selection.LevelCalibration


@bug("scores of an end are taken to move one way", (_RANGES, "mechanism"), DECLARED)
def _(honest: Any, made: Any) -> ExponentialMechanism:
    return ExponentialMechanism(made.eta, range_selection.TOO_LOOSE)


@bug("scores of a length are taken to move one way", (LengthCalibration, "mechanism"), DECLARED)
def _(honest: Any, made: Any) -> ExponentialMechanism:
    return ExponentialMechanism(made.eta, range_selection.TOO_LOOSE)


@bug("one end of the range of a thin number is paid for both", _THIN, DECLARED)
def _(honest: Any, made: Any, numbers: int) -> ExponentialMechanism:
    choice = honest(made, numbers)
    return ExponentialMechanism(2 * choice.epsilon, choice.width)


@bug("one end of a range is paid for both", range_selection.calibrate_ranges, DECLARED)
def _(honest: Any, *given: Any) -> Any:
    found = honest(*given)
    return replace(found, eta=2 * found.eta)


@bug("a range ends at the least and the greatest value", range_selection.choose_range, DECLARED)
def _(honest: Any, slots: IntArray, ends: FloatArray, *rest: Any) -> tuple[float, float]:
    held = np.flatnonzero(slots[1:-1]) // 2
    return float(ends[held[0]]), float(ends[held[-1] + 1])


@bug("all of delta is spent on either count of a level", (_LEVELS, "_each"), DECLARED)
def _(honest: Any, made: Any) -> tuple[float, float]:
    return made.target.epsilon / 2, made.target.delta


@bug("every level that occurs is released", (_LEVELS, "releases"), DECLARED)
def _(honest: Any, made: Any, count: int, randomness: Any) -> bool:
    return count > 0


@bug("suggestions are not charged", (scored_records.Price, "pay"), DECLARED)
def _(honest: Any, *given: Any) -> None:
    return None


# -- accounts -----------------------------------------------------------------------------------

_CHARGE = (accounting.Account, "charge")


bug("a ledger counts half", (accounting.Ledger, "spent"), LEDGER)(times(1 / 2))


@bug("a ledger counts many releases as one", _CHARGE, LEDGER)
def _(honest: Any, *given: Any, times: int = 1, person: str | None = None) -> Any:
    return honest(*given, person=person)


@bug("a ledger lets a refused charge through", _CHARGE, LEDGER)
def _(
    honest: Any,
    account: Any,
    guarantee: Any,
    events: Any = (),
    label: str = "",
    times: int = 1,
    person: str | None = None,
) -> Any:
    """The refused charge is not recorded, and no error is raised."""
    try:
        return honest(account, guarantee, events, label, times=times, person=person)
    except GuaranteeError:
        return accounting.Entry(
            label, guarantee, tuple(events), account.places[0][1], times, person
        )


@bug("a ledger of a block is not charged", accounting.account_with, LEDGER)
def _(honest: Any, ledger: Any) -> Any:
    return ledger


@bug("charges to one part are kept apart", (accounting.PartAccount, "places"), LEDGER)
def _(honest: Any, part: Any) -> Any:
    """Two charges to one part count as charges to two different parts."""
    ((ledger, name),) = part._places
    return ((ledger, f"{name} {uuid.uuid4().hex}"),)


@bug("a ledger says that all of its budget is left", (accounting.Ledger, "left"), LEDGER)
def _(honest: Any, ledger: Any, delta: float = 0.0) -> Any:
    return ledger.epsilon


@bug("a ledger that is named hides the one of its block", accounting.account_with, LEDGER)
def _(honest: Any, ledger: Any) -> Any:
    return honest(None) if ledger is None else ledger


bug("a ledger adds up persons of any columns", ledger_entry.column_of_persons, LEDGER)(nothing)
bug("a ledger believes the events of a file", (accounting.statement, "require_agreement"), LEDGER)(
    nothing
)


@bug("a ledger spends its delta twice", accounting.kept_delta, LEDGER)
def _(honest: Any, rule: Any, delta: float) -> float:
    """The whole delta is available twice: to releases with a delta, and to the conversion."""
    return delta


@bug("types are read off values", of_array, TABLES)
def _(honest: Any, values: Any) -> pd.Series:
    """The type of an array of objects is inferred by pandas from all of its values."""
    return pd.Series(values.tolist())


bug("a ledger believes events that cost too little", accounting.require_agreement, LEDGER)(nothing)


if find_spec("dask"):

    @bug("data may change between passes", (PartitionedRows, "_require_unchanged"), TABLES)
    def _unchanged(honest: Any, rows: Any, checksum: Any) -> None:
        return None


if find_spec("dp_accounting"):  # without it the accounts differ too little for a test to show it

    @bug("a ledger takes the least of accounts afterwards", accounting.is_within, LEDGER)
    def _least(honest: Any, kept: Any) -> Any:
        """The least of several accounts is taken after the prices were chosen by results."""
        return accounting.epsilon_of(kept.entries, kept.delta or 0.0) <= kept.epsilon
