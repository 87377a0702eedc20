"""Choices round by round: whether a play has the law of its definition, and what that shows.

The definitions here are written out naively: sums of losses, weights that are recomputed from the
whole path, and the nearest dense law by trial.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from privatelr.audit.checks import Check, claims_of_size, guarded, short
from privatelr.audit.density.loss import claimed_number
from privatelr.audit.enumeration.choice_paths import log_chances_of, nearest_dense
from privatelr.audit.enumeration.discrete import loss_of_outcomes
from privatelr.audit.enumeration.tiny_simplex import exact_minimiser
from privatelr.audit.sampling.known_noise import follows
from privatelr.mechanisms.linear_programs import (
    PRIVATE,
    SCORES,
    ConstraintCalibration,
    Corners,
    Private,
    ProgramCalibration,
    ProgramFacts,
    calibrate_constraints,
    calibrate_program,
    held_bounds,
    play_constraints,
    private_corners,
    public_corners,
    release_program,
)
from privatelr.mechanisms.online import (
    OnlineCalibration,
    OnlineProblem,
    PrivateFTRL,
    calibrate_online,
    opening_state,
)
from privatelr.mechanisms.simplex import SimplexFacts, calibrate_simplex, minimiser_logs
from privatelr.numerics import LOSSES
from privatelr.numerics.rows import EntryRows
from privatelr.privacy import NEIGHBOURS, ZERO_OUT, Promise, PureDP
from privatelr.privacy.noise import Randomness, SystemRandomness
from privatelr.privacy.noise.exponential_mechanism import ExponentialMechanism
from privatelr.types import FloatArray

if TYPE_CHECKING:
    from privatelr.audit.sampling.known_noise import Script

    Exponents = Callable[[list[int]], FloatArray]

PART = "choices"
_EXPERTS, _ROUNDS = 2, 4
_WILD = (1e300, -1e300, math.nan, math.inf, -math.inf)
_RECORDS = 6
_SAME = 1e-8
_DRAWN, _CRITICAL = 4000, 6.0


def audit_plays(rng: np.random.Generator, epsilon: float, cases: int = 6) -> Iterator[Check]:
    """Checks of linear programs, of experts, of corners, and of the minimiser on the simplex."""
    yield from guarded(PART, "one choice", _one_choice, rng)
    yield from guarded(PART, "columns", _columns, rng, epsilon)
    yield from guarded(PART, "simplex", _simplex, rng, epsilon)
    yield from guarded(PART, "experts", _experts, rng, epsilon)
    yield from guarded(PART, "corners", _corners, rng, epsilon)
    for claim in claims_of_size(epsilon):
        yield from guarded(PART, f"experts, {short(claim)}", _laws_of_experts, claim, rng, cases)
        for private in PRIVATE:
            subject = f"corners, private {private}, {short(claim)}"
            yield from guarded(
                PART,
                subject,
                _laws_of_corners,
                claim,
                private,
                subject,
                rng,
                2 * cases,
            )


def all_paths(exponents: Exponents, options: int, rounds: int) -> FloatArray:
    """Log chances ``(options ** rounds,)`` of all paths, from those of each round."""
    found = []
    for path in itertools.product(range(options), repeat=rounds):
        log_laws = (exponents(list(path[:turn])) for turn in range(rounds))
        found.append(sum(float(law[at]) for law, at in zip(log_laws, path, strict=True)))
    return np.array(found)


def _normalised(exponents: FloatArray) -> FloatArray:
    return np.asarray(exponents - np.logaddexp.reduce(exponents))


# -- one choice ---------------------------------------------------------------------------------


def _one_choice(rng: np.random.Generator) -> Iterator[Check]:
    """Frequencies of real choices against the exponentials of their scores, in deviations."""
    choice, scores = ExponentialMechanism(2.0, 1.0), np.array([0.0, 0.4, 1.0])
    source = SystemRandomness()
    chosen = [choice.choose(scores, source) for _ in range(_DRAWN)]
    weights = np.exp(2.0 * scores)
    chances = weights / weights.sum()
    counts = np.bincount(chosen, minlength=3)
    off = np.abs(counts - _DRAWN * chances) / np.sqrt(_DRAWN * chances * (1 - chances))
    yield Check(
        PART, "one choice: deviations from its chances, three options", off.max(), _CRITICAL
    )


# -- columns ------------------------------------------------------------------------------------


def _columns(rng: np.random.Generator, epsilon: float) -> Iterator[Check]:
    for score in SCORES:
        facts = ProgramFacts(_RECORDS, 2, 1.0, 0.6)
        calibration = calibrate_program(facts, PureDP(epsilon), 6, 0.8, score, slack=0.25)
        rows = EntryRows(rng.uniform(-1.5, 1.5, (_RECORDS, 2)), np.ones(_RECORDS), x_bound=1.0)
        exponents = _of_columns(rows, calibration)

        def play(
            script: Script, rows: EntryRows = rows, made: ProgramCalibration = calibration
        ) -> list[int]:
            path = release_program(rows, made, script).path
            return [] if path is None else path.tolist()

        missed = follows(play, exponents, (4, 6), rng)
        yield Check(PART, f"columns, {score} score: plays that differ from the definition", missed)


def _of_columns(rows: EntryRows, calibration: ProgramCalibration) -> Exponents:
    signed = rows.signed()
    both = np.hstack([signed, -signed])
    judged = both if calibration.score == "margin" else (both >= calibration.threshold) * 1.0

    def exponents(past: list[int]) -> FloatArray:
        log_weights = -calibration.step * both[:, past].sum(axis=1)
        scores = nearest_dense(log_weights[None], calibration.problem.s) @ judged
        return np.asarray(log_chances_of(scores, calibration)[0])

    return exponents


def _simplex(rng: np.random.Generator, epsilon: float) -> Iterator[Check]:
    for loss in LOSSES.values():
        facts = SimplexFacts(_RECORDS, 2, 1.0, 0.7, loss)
        made = calibrate_simplex(facts, PureDP(epsilon), "auto", 2)
        rows = EntryRows(rng.uniform(-1.5, 1.5, (_RECORDS, 2)), np.ones(_RECORDS), x_bound=1.0)
        ours, exact = minimiser_logs(rows, made), exact_minimiser(rows, made.problem)
        apart = float(np.ptp(ours - exact))
        most = _SAME + 2 * made.tolerance / made.problem.penalty
        yield Check(PART, f"simplex, {loss.name}: distance to the exact minimum", apart, most)


# -- experts ------------------------------------------------------------------------------------


class _Scripted(PrivateFTRL):
    """A play whose choices are scripted."""

    def __init__(self, calibration: OnlineCalibration, script: Script) -> None:
        self._go_on(opening_state(calibration))
        self._script = script

    def _randomness(self) -> Randomness:
        return self._script


def _experts(rng: np.random.Generator, epsilon: float) -> Iterator[Check]:
    for name, neighbours in NEIGHBOURS.items():
        problem = OnlineProblem(3, 5, 0.0, 1.0, neighbours)
        made = calibrate_online(problem, PureDP(epsilon, neighbours))
        table = rng.integers(2, size=(5, 3, 3)).astype(np.float64)

        def losses(past: list[int], table: FloatArray = table) -> FloatArray:
            """Of the round after a path: they depend on the choice before."""
            return np.asarray(table[len(past), past[-1] if past else 0])

        def play(
            script: Script,
            made: OnlineCalibration = made,
            losses: Exponents = losses,
        ) -> list[int]:
            run, path = _Scripted(made, script), []
            for _ in range(5):
                path.append(run.predict())
                if run.predict() != path[-1]:
                    return []
                run.update(losses(path[:-1]))
            return path

        missed = follows(play, _of_experts(made, losses), (3, 5), rng)
        yield Check(PART, f"experts, {name}: plays that differ from the definition", missed)
    yield Check(PART, "experts: how far wild losses move a sum, over the range", _wildest(epsilon))


def _wildest(epsilon: float) -> float:
    """By how much sums leave what one round of losses in the range can make of them; 0 is right."""
    play = PrivateFTRL(len(_WILD), 3, epsilon, 0.0, loss_range=(-1.0, 3.0))
    play.predict()
    play.update(_WILD)
    sums = play._state.sums / play.calibration.problem.steps
    return float(np.maximum(sums - 1.0, -sums).max(initial=0.0))


def _of_experts(made: OnlineCalibration, losses: Exponents) -> Exponents:
    def exponents(past: list[int]) -> FloatArray:
        sums = np.zeros(made.problem.n_experts)
        for turn in range(len(past)):
            sums += losses(past[:turn])
        return _normalised(-sums / made.lambda_)

    return exponents


def _laws_of_experts(claim: Promise, rng: np.random.Generator, cases: int) -> Iterator[Check]:
    for name, neighbours in NEIGHBOURS.items():
        problem = OnlineProblem(_EXPERTS, _ROUNDS, 0.0, 1.0, neighbours)
        made = calibrate_online(problem, replace(claim, neighbours=neighbours))
        worst = 0.0
        for case in range(cases):
            shape = (_ROUNDS, _EXPERTS, _EXPERTS, _EXPERTS)
            table = rng.integers(2, size=shape).astype(float) if case else np.ones(shape)
            other = np.zeros(2) if neighbours is ZERO_OUT else np.array([0.0, 1.0])
            laws = [
                all_paths(_of_experts(made, _against(first, table)), _EXPERTS, _ROUNDS)
                for first in (np.array([1.0, 0.0]), other)
            ]
            worst = max(worst, loss_of_outcomes(laws[0], laws[1], claim))
        subject = f"experts, {name}, {short(claim)}: loss over all paths"
        yield Check(PART, subject, worst, claimed_number(claim))


def _against(first: FloatArray, table: FloatArray) -> Exponents:
    """Losses of an adversary: the first vector is the record, the others answer the choices."""

    def losses(past: list[int]) -> FloatArray:
        return np.asarray(table[len(past), past[-1], past[0]] if past else first)

    return losses


# -- corners ------------------------------------------------------------------------------------


def _corners(rng: np.random.Generator, epsilon: float) -> Iterator[Check]:
    for private in PRIVATE:
        a, b = rng.uniform(-1, 1, (_RECORDS, 3)), rng.uniform(-1, 1, _RECORDS)
        corners = _of_rows(a, private)
        made = _calibrated(corners, PureDP(epsilon), private, 5)

        def play(
            script: Script,
            corners: Corners = corners,
            b: FloatArray = b,
            made: ConstraintCalibration = made,
        ) -> list[int]:
            return list(play_constraints(corners, b, made, script).tolist())

        missed = follows(play, _of_corners(corners, b, made), (3, 5), rng)
        yield Check(PART, f"corners, {private}: plays that differ from the definition", missed)


def _of_rows(a: FloatArray, private: Private) -> Corners:
    ones = np.ones(a.shape[1])
    if private == "bounds":
        return public_corners(a, ones)
    return private_corners(a, ones, 1.0, (-1.0, 1.0))


def _calibrated(
    corners: Corners, claim: Promise, private: Private, rounds: int
) -> ConstraintCalibration:
    n, d = corners.values.shape
    return calibrate_constraints(
        (n, d),
        claim,
        private,
        width=2.0,
        violated=0.85 * n,
        reach=corners.reach,
        size=corners.size,
        rounds=rounds,
    )


def _of_corners(corners: Corners, b: FloatArray, made: ConstraintCalibration) -> Exponents:
    held = held_bounds(b, corners, made.width)

    def exponents(past: list[int]) -> FloatArray:
        slack = np.zeros(len(held))
        for option in past:
            slack += np.clip(held - corners.values[:, option], -made.width, made.width)
        q = nearest_dense(-made.step * slack[None], made.s)[0]
        return _normalised(-(corners.values.T @ q) * made.eta / (2 * made.sensitivity))

    return exponents


def _laws_of_corners(
    claim: Promise, private: Private, subject: str, rng: np.random.Generator, cases: int
) -> Iterator[Check]:
    worst = 0.0
    for _ in range(cases):
        a, b = rng.choice([-1.0, 1.0], (4, 2)), rng.uniform(-1, 1, 4)
        moved, other = a.copy(), b.copy()
        other[0] = rng.choice([-1.0, 1.0])
        if private == "rows":
            moved[0] = -a[0]
        first, second = _of_rows(a, private), _of_rows(moved, private)
        made = _calibrated(first, claim, private, 5)
        laws = [
            all_paths(_of_corners(corners, bounds, made), 2, 5)
            for corners, bounds in ((first, b), (second, other))
        ]
        worst = max(worst, loss_of_outcomes(laws[0], laws[1], claim))
    yield Check(PART, f"{subject}: loss over all paths", worst, claimed_number(claim))
