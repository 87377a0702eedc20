"""Bugs in mechanisms that choose, and in the account of what was spent."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from privatelr.audit.mutations.planted import (
    CHOICES,
    LEDGER,
    SIMPLEX,
    TABLES,
    Mutation,
    Swap,
    everywhere,
    noise,
)
from privatelr.errors import GuaranteeError
from privatelr.mechanisms.linear_programs import (
    constraint_private,
    lp_calibration,
    lp_rounds,
    thesis_svm,
)
from privatelr.mechanisms.linear_programs import lp_calibration as programs
from privatelr.mechanisms.online import PrivateFTRL
from privatelr.mechanisms.online import online_calibration as online
from privatelr.mechanisms.simplex import number_of_draws
from privatelr.mechanisms.simplex import simplex_calibration as draws
from privatelr.mechanisms.simplex import simplex_release as simplex
from privatelr.numerics.rows import DaskRows
from privatelr.numerics.solve.dense_weights import dense_projection
from privatelr.numerics.solve.entropic import Entropic
from privatelr.privacy import renyi_divergence
from privatelr.privacy.accounting import (
    Account,
    Entry,
    Ledger,
    PartAccount,
    account_with,
    fits,
    is_within,
    kept_delta,
    ledger_page,
    require_agreement,
)
from privatelr.privacy.noise.exponential_mechanism import ExponentialMechanism, Gumbel
from privatelr.sources import of_array
from privatelr.types import FloatArray, IntArray

# -- the price of a choice ----------------------------------------------------------------------


def _ranges_doubled() -> Iterable[Swap]:
    honest = renyi_divergence.range_within
    yield from everywhere(honest, lambda target, times: 2 * honest(target, times))


def _one_round_paid() -> Iterable[Swap]:
    honest = renyi_divergence.range_within
    yield Swap(online, "range_within", lambda target, times: honest(target, 1))


def _published_cheaper() -> Iterable[Swap]:
    honest = thesis_svm.true_epsilon
    yield from everywhere(honest, lambda *given: honest(*given) / 1.1)


def _scores_halved() -> Iterable[Swap]:
    honest = programs.score_sensitivity
    yield from everywhere(honest, lambda facts, score: honest(facts, score) / 2)


def _one_way() -> Iterable[Swap]:
    """Scores are taken to move one way only."""

    def choice(made: Any) -> ExponentialMechanism:
        return ExponentialMechanism(made.eta, made.sensitivity)

    yield Swap(lp_calibration.SequentialChoices, "choice", property(choice))


def _gumbels_halved() -> Iterable[Swap]:
    honest, near = Gumbel.transform, Gumbel.near

    def transform(law: Gumbel, uniforms: Any, signs: Any, arithmetic: Any) -> Any:
        return [number / 2 for number in honest(law, uniforms, signs, arithmetic)]

    def halved(leading: Any) -> tuple[FloatArray, FloatArray]:
        numbers, errors = near(leading)
        return numbers / 2, errors

    yield Swap(Gumbel, "transform", transform)
    yield Swap(Gumbel, "near", staticmethod(halved))


# -- columns and corners ------------------------------------------------------------------------


def _not_dense() -> Iterable[Swap]:
    yield from everywhere(
        dense_projection, lambda log_weights, s: np.asarray(special.softmax(log_weights))
    )


def _fed_back() -> Iterable[Swap]:
    """Every round starts from the dense weights of the round before, and not from the others."""

    def play(given: Any, score: Any, pace: Any, choice: Any, randomness: Any) -> IntArray:
        log_weights = np.zeros(given.n)
        path = np.empty(pace.rounds, dtype=np.intp)
        for turn in range(pace.rounds):
            weights = dense_projection(log_weights, pace.s)
            path[turn] = choice.choose(score(weights), randomness)
            log_weights = np.log(weights)
            lp_rounds.lower(log_weights, given, int(path[turn]), pace.step)
        return path

    yield from everywhere(lp_rounds.play, play)


def _corners_fed_back() -> Iterable[Swap]:
    honest = dense_projection

    def projected(log_weights: FloatArray, s: float) -> FloatArray:
        found = honest(log_weights, s)
        log_weights[:] = np.log(found)  # the caller goes on with these
        return found

    yield Swap(constraint_private, "dense_projection", projected)


def _reach_halved() -> Iterable[Swap]:
    honest = constraint_private.calibrate_constraints

    def calibrated(*given: Any, reach: float, **named: Any) -> Any:
        return honest(*given, reach=reach / 2, **named)

    yield from everywhere(honest, calibrated)


# -- experts ------------------------------------------------------------------------------------


def _zeros_for_any() -> Iterable[Swap]:
    """A record that is replaced costs as one that is zeroed."""
    yield Swap(online.OnlineProblem, "moved_steps", property(lambda problem: problem.steps))


def _asked_twice() -> Iterable[Swap]:
    """Each question draws again."""
    honest = PrivateFTRL.predict

    def predict(play: PrivateFTRL) -> int:
        play._choice = None
        return honest(play)

    yield Swap(PrivateFTRL, "predict", predict)


def _losses_not_clipped() -> Iterable[Swap]:
    honest = PrivateFTRL.update

    def update(play: PrivateFTRL, losses: Any) -> None:
        before = play._sums
        honest(play, losses)
        wild = np.nan_to_num(np.asarray(losses, dtype=np.float64), nan=1e6, posinf=1e6, neginf=-1e6)
        steps = np.clip(wild, -1e6, 1e6) * play.calibration.problem.steps
        play._sums = before + steps.astype(np.int64)

    yield Swap(PrivateFTRL, "update", update)


# -- the simplex --------------------------------------------------------------------------------


def _too_cold() -> Iterable[Swap]:
    honest = Entropic

    def entropic(given: Any, loss: Any, radius: float, penalty: float, start: Any) -> Any:
        return honest(given, loss, radius, penalty / 2, start)

    yield Swap(simplex, "Entropic", entropic)


def _draws_times_four() -> Iterable[Swap]:
    honest = draws.calibrate_simplex

    def calibrated(facts: Any, target: Any, lambda_: Any = "auto", times: Any = "auto") -> Any:
        found = honest(facts, target, lambda_, times)
        return replace(found, draws=4 * found.draws)

    yield from everywhere(honest, calibrated)


def _half_as_far() -> Iterable[Swap]:
    honest = number_of_draws.simplex_stability

    def halved(*given: Any) -> Any:
        found = honest(*given)
        return replace(found, largest=found.largest / 2, width=found.width / 2, sd=found.sd / 2)

    yield from everywhere(honest, halved)


# -- accounts -----------------------------------------------------------------------------------


def _half_counted() -> Iterable[Swap]:
    honest = Ledger.spent
    yield Swap(Ledger, "spent", lambda ledger, delta=None: honest(ledger, delta) / 2)


def _charged(change: Any) -> Iterable[Swap]:
    honest = Account.charge

    def charge(
        account: Account, guarantee: Any, events: Any = (), label: str = "", *, times: int = 1
    ) -> Entry:
        return change(honest, account, guarantee, events, label, times)  # type: ignore[no-any-return]

    yield Swap(Account, "charge", charge)


def _times_ignored() -> Iterable[Swap]:
    def change(
        honest: Any, account: Any, guarantee: Any, events: Any, label: Any, times: int
    ) -> Any:
        return honest(account, guarantee, events, label)

    yield from _charged(change)


def _refusals_ignored() -> Iterable[Swap]:
    """A charge that does not fit is let through, and forgotten."""

    def change(
        honest: Any, account: Any, guarantee: Any, events: Any, label: Any, times: int
    ) -> Any:
        try:
            return honest(account, guarantee, events, label, times=times)
        except GuaranteeError:
            return Entry(label, guarantee, tuple(events), account.places[0][1], times)

    yield from _charged(change)


def _blocks_ignored() -> Iterable[Swap]:
    yield from everywhere(account_with, lambda ledger: ledger)


def _parts_apart() -> Iterable[Swap]:
    """Two charges to one part count as if they were to two."""
    apart = property(lambda part: ((part._ledger, f"{part._name} {uuid.uuid4().hex}"),))
    yield Swap(PartAccount, "places", apart)


def _named_alone() -> Iterable[Swap]:
    """A ledger that is named takes the place of the one whose block is open."""
    honest = account_with
    yield from everywhere(honest, lambda ledger: honest(None) if ledger is None else ledger)


def _events_believed() -> Iterable[Swap]:
    yield from everywhere(require_agreement, lambda guarantee, events: None)


def _least_of_accounts() -> Iterable[Swap]:
    """After the prices, the least of sums, divergences and distributions of losses is taken."""
    yield from everywhere(
        is_within, lambda kept: fits(kept.entries, kept.epsilon, kept.delta or 0.0)
    )


def _files_believed() -> Iterable[Swap]:
    yield Swap(ledger_page, "require_agreement", lambda guarantee, events: None)


def _delta_spent_twice() -> Iterable[Swap]:
    """Deltas of releases may take all of delta, beside the conversion of the others."""
    yield from everywhere(kept_delta, lambda rule, delta: delta)


def _types_inferred() -> Iterable[Swap]:
    """Arrays of objects become what pandas makes of all their values."""
    yield from everywhere(of_array, lambda values: pd.Series(values.tolist()))


def _changes_ignored() -> Iterable[Swap]:
    yield Swap(DaskRows, "_require_unchanged", lambda rows, checksum: None)


def _all_is_left() -> Iterable[Swap]:
    yield Swap(Ledger, "left", lambda ledger, delta=0.0: ledger.epsilon)


_COLUMNS, _CORNERS, _EXPERTS = (
    noise(f"choices of {what}*") for what in ("columns", "corners", "experts")
)
_PUBLISHED = noise("published program")
OF_CHOICES: tuple[Mutation, ...] = (
    Mutation("choices are worth twice their range", _ranges_doubled, (_COLUMNS,)),
    Mutation("the sensitivity of a score is halved", _scores_halved, (_COLUMNS,)),
    Mutation("the published program says a tenth too little", _published_cheaper, (_PUBLISHED,)),
    Mutation("scores are taken to move one way", _one_way, (CHOICES,)),
    Mutation("Gumbel numbers are half as large", _gumbels_halved, (CHOICES,)),
    Mutation("weights are not held to their density", _not_dense, (CHOICES,)),
    Mutation("dense weights are fed back to columns", _fed_back, (CHOICES,)),
    Mutation("dense weights are fed back to corners", _corners_fed_back, (CHOICES,)),
    Mutation("the reach of a private row is halved", _reach_halved, (_CORNERS,)),
    Mutation("a replaced loss costs as a zeroed one", _zeros_for_any, (_EXPERTS,)),
    Mutation("one round is paid for all", _one_round_paid, (_EXPERTS,)),
    Mutation("a round that is asked twice draws twice", _asked_twice, (CHOICES,)),
    Mutation("losses are not clipped", _losses_not_clipped, (CHOICES,)),
    Mutation("the minimiser on the simplex is too cold", _too_cold, (CHOICES,)),
    Mutation("four draws are made for one", _draws_times_four, (SIMPLEX,)),
    Mutation("the minimiser on the simplex moves half as far", _half_as_far, (SIMPLEX,)),
    Mutation("a ledger counts half", _half_counted, (LEDGER,)),
    Mutation("a ledger counts many releases as one", _times_ignored, (LEDGER,)),
    Mutation("a ledger lets a refused charge through", _refusals_ignored, (LEDGER,)),
    Mutation("a ledger of a block is not charged", _blocks_ignored, (LEDGER,)),
    Mutation("charges to one part are kept apart", _parts_apart, (LEDGER,)),
    Mutation("a ledger says that all of its budget is left", _all_is_left, (LEDGER,)),
    Mutation("a ledger that is named hides the one of its block", _named_alone, (LEDGER,)),
    Mutation("a ledger believes the events of a file", _files_believed, (LEDGER,)),
    Mutation("a ledger spends its delta twice", _delta_spent_twice, (LEDGER,)),
    Mutation("types are read off values", _types_inferred, (TABLES,)),
    Mutation("a ledger believes events that cost too little", _events_believed, (LEDGER,)),
)
if find_spec("dask"):
    OF_CHOICES = (
        *OF_CHOICES,
        Mutation("data may change between passes", _changes_ignored, (TABLES,)),
    )
if find_spec("dp_accounting"):  # without it the accounts are too close for one game to tell
    _LEAST = "a ledger takes the least of accounts afterwards"
    OF_CHOICES = (*OF_CHOICES, Mutation(_LEAST, _least_of_accounts, (LEDGER,)))
