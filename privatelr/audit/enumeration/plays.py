"""The audit of mechanisms that choose one option in each round.

It checks that a run of a mechanism has the law of its definition, and that the privacy loss over
all paths of that law is within the claim. The definitions are implemented here a second time, in
the plainest way: losses are summed, weights are recomputed from the whole path, and the nearest
dense law is found by trial.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import special

from privatelr.audit.checks import (
    Check,
    claimed_number,
    claims_of_size,
    guarded,
    largest,
    measured,
    short,
)
from privatelr.audit.enumeration.discrete import (
    DRAWN,
    Laws,
    all_paths,
    deviation,
    laws_of_columns,
    log_chances_of,
    loss_of_outcomes,
    nearest_dense,
)
from privatelr.audit.enumeration.tiny_cases import exact_minimiser
from privatelr.numerics import LOSSES
from privatelr.numerics.rows import EntryRows
from privatelr.privacy import ZERO_OUT, Promise, PureDP
from privatelr.privacy.noise import Draw, FloatDraw, Randomness, RandomVector, SystemRandomness
from privatelr.privacy.noise.exponential_mechanism import ExponentialMechanism
from privatelr.selection import constraint_private as lp
from privatelr.selection import multiplicative_weights as programs
from privatelr.selection import online, simplex
from privatelr.types import FloatArray, IntArray

PART = "choices"
_EXPERTS, _ROUNDS = 2, 4
"""A run of which all paths are listed has these numbers of experts and of rounds."""
_WILD = (1e300, -1e300, math.nan, math.inf, -math.inf)
"""These losses lie outside of any range that can be declared, or are not numbers."""
_RECORDS = 6
"""A scripted run has this number of records."""
_LARGE = 1e6
"""An epsilon that affords many draws from one minimiser."""
_SAME = 1e-8
"""Two computations of one minimiser may differ by this much in log theta, by rounding."""
_HAIR, _TIE = 1e-6, 1e-9
"""The noisy exponent of the scripted option is larger than the others by the first number. These
differ by the second, because an exact tie would never be resolved."""


@dataclass(frozen=True, slots=True, eq=False)
class Script:
    """Randomness under which a mechanism chooses a given path, if its scores are right.

    In each round the given option wins by a tiny difference, so that a wrong score changes the
    choice.

    Attributes
    ----------
    laws : callable
        The log probabilities of the next round's options after a path, by the definition.
    path : list of int
        The options that the mechanism is to choose.
    done : list of int
        The rounds for which numbers have been drawn.
    """

    laws: Laws
    path: list[int]
    done: list[int] = field(default_factory=list)

    def draw(self, recipe: RandomVector) -> Draw:
        """Numbers under which all options tie, except that the scripted one wins."""
        turn = min(len(self.done), len(self.path) - 1)
        self.done.append(turn)
        numbers = -self.laws(np.array([self.path[:turn]], dtype=np.intp))[0]
        numbers += _TIE * np.arange(len(numbers))
        numbers[self.path[turn]] += _HAIR
        return FloatDraw(numbers)

    @property
    def is_secret(self) -> bool:
        """False: anyone can compute the numbers."""
        return False

    def uniforms(self, count: int) -> FloatArray:
        """Raise an error: a choice needs no uniform numbers."""
        raise NotImplementedError


def follows(
    play: Callable[[Script], Iterable[int]],
    laws: Laws,
    shape: tuple[int, int],
    rng: np.random.Generator,
    scripts: int = 20,
) -> int:
    """Count the random scripts that a run does not follow.

    A run that does not follow a script has other scores than the definition.

    Parameters
    ----------
    play
        Runs the mechanism with a script, and returns the options that it chose.
    laws
        The same as in `Script`.
    shape : (int, int)
        The number of options and the number of rounds.
    """
    options, rounds = shape
    paths = (rng.integers(options, size=rounds).tolist() for _ in range(scripts))
    return sum(list(play(Script(laws, path))) != path for path in paths)


def audit_plays(rng: np.random.Generator, epsilon: float, cases: int = 6) -> Iterator[Check]:
    """Checks of linear programs, experts, corners, and the minimiser on the simplex."""
    yield from guarded(PART, "one choice", _one_choice)
    for subject, work in (
        ("columns", _columns),
        ("simplex", _simplex),
        ("experts", _experts),
        ("corners", _corners),
    ):
        yield from guarded(PART, subject, work, rng, epsilon)
    for claim in claims_of_size(epsilon):
        most, paths = claimed_number(claim), f"{short(claim)}: loss over all paths"
        for name, neighbours in online.RELATIONS.items():
            given: Any = replace(claim, neighbours=neighbours), rng, cases
            subject = f"experts, {name}, {paths}"
            yield from measured(PART, subject, _paths_of_experts, *given, allowed=most)
        for private in lp.PRIVATE:
            subject, given = (
                f"corners, private {private}, {paths}",
                (claim, private, rng, 2 * cases),
            )
            yield from measured(PART, subject, _paths_of_corners, *given, allowed=most)


def _followed(subject: str, missed: int) -> Check:
    return Check(PART, f"{subject}: plays that differ from the definition", missed)


# -- choices of columns -------------------------------------------------------------------------


def _one_choice() -> Iterator[Check]:
    """Compare frequencies of real choices with their probabilities, in standard deviations."""
    scores, source = np.array([0.0, 0.4, 1.0]), SystemRandomness()
    chosen = [ExponentialMechanism(2.0, 1.0).choose(scores, source) for _ in range(DRAWN)]
    chances = special.softmax(2.0 * scores)
    yield deviation(PART, "one choice", np.bincount(chosen, minlength=3), chances, DRAWN)


def _columns(rng: np.random.Generator, epsilon: float) -> Iterator[Check]:
    for score in programs.SCORES:
        facts = programs.ProgramFacts(_RECORDS, 2, 1.0, 0.6)
        made = programs.calibrate_program(facts, PureDP(epsilon), 6, 0.8, score, slack=0.25)
        rows = _random_rows(rng)
        play = partial(_play_columns, rows, made)
        missed = follows(play, partial(laws_of_columns, rows, made), (4, 6), rng)
        yield _followed(f"columns, {score} score", missed)


def _random_rows(rng: np.random.Generator) -> EntryRows:
    return EntryRows(rng.uniform(-1.5, 1.5, (_RECORDS, 2)), np.ones(_RECORDS), x_bound=1.0)


def _play_columns(rows: EntryRows, made: programs.ProgramCalibration, script: Script) -> list[int]:
    path = programs.release_program(rows, made, script).path
    return [] if path is None else path.tolist()


def _simplex(rng: np.random.Generator, epsilon: float) -> Iterator[Check]:
    for loss in LOSSES.values():
        facts = simplex.SimplexProblem(_RECORDS, 2, 1.0, 0.7, loss)
        made = simplex.calibrate_simplex(facts, PureDP(epsilon), "auto", 2)
        rows = _random_rows(rng)
        ours, exact = simplex.minimiser_logs(rows, made), exact_minimiser(rows, made.problem)
        apart = float(np.ptp(ours - exact))
        most = _SAME + 2 * made.tolerance / made.problem.penalty
        yield Check(PART, f"simplex, {loss.name}: distance to the exact minimum", apart, most)
    many = simplex.calibrate_simplex(facts, PureDP(_LARGE), 0.05, DRAWN)
    counts = simplex.release_simplex(rows, many, SystemRandomness()).counts
    chances = np.exp(exact_minimiser(rows, many.problem))
    yield deviation(PART, "draws from the simplex", counts, chances, DRAWN)


# -- experts ------------------------------------------------------------------------------------


class _Scripted(online.PrivateFTRL):
    """An online mechanism whose choices are scripted."""

    def __init__(self, calibration: online.OnlineCalibration, script: Script) -> None:
        self._go_on(online.opening_state(calibration))
        self._script = script

    def _randomness(self) -> Randomness:
        return self._script


def _experts(rng: np.random.Generator, epsilon: float) -> Iterator[Check]:
    for name, neighbours in online.RELATIONS.items():
        made = online.calibrate_online(
            online.OnlineProblem(3, 5, 0.0, 1.0, neighbours), PureDP(epsilon, neighbours)
        )
        table = rng.integers(2, size=(5, 3, 3)).astype(np.float64)
        losses = partial(_losses_against, table[0, 0], table[:, :, None].repeat(3, axis=2))
        play = partial(_play_experts, made, losses)
        missed = follows(play, partial(_laws_of_experts, made, losses), (3, 5), rng)
        yield _followed(f"experts, {name}", missed)
    # how far a sum leaves the interval that one round of losses within the range can reach; 0 is
    # right
    wild = online.PrivateFTRL(len(_WILD), 3, epsilon, 0.0, loss_range=(-1.0, 3.0))
    wild.predict()
    wild.update(_WILD)
    sums = wild._state.sums / wild.calibration.problem.steps
    wildest = float(np.maximum(sums - 1.0, -sums).max(initial=0.0))
    yield Check(PART, "experts: how far wild losses move a sum, over the range", wildest)


def _play_experts(made: online.OnlineCalibration, losses: Laws, script: Script) -> list[int]:
    """The choices of a run; none if the same round answers differently when it is asked again."""
    run, path = _Scripted(made, script), list[int]()
    for _ in range(5):
        path.append(run.predict())
        if run.predict() != path[-1]:
            return []
        run.update(losses(np.array([path[:-1]], dtype=np.intp))[0])
    return path


def _laws_of_experts(made: online.OnlineCalibration, losses: Laws, paths: IntArray) -> FloatArray:
    sums = sum(losses(paths[:, :turn]) for turn in range(paths.shape[1]))
    exponents = np.zeros((len(paths), made.problem.n_experts)) - sums / made.lambda_
    return np.asarray(special.log_softmax(exponents, axis=1))


def _paths_of_experts(claim: Promise, rng: np.random.Generator, cases: int) -> float:
    """The largest loss over all paths, of random adversaries and of one that loses always."""
    problem = online.OnlineProblem(_EXPERTS, _ROUNDS, 0.0, 1.0, claim.neighbours)
    made, losses = online.calibrate_online(problem, claim), []
    other = np.zeros(2) if claim.neighbours is ZERO_OUT else np.array([0.0, 1.0])
    for case in range(cases):
        shape = (_ROUNDS, _EXPERTS, _EXPERTS, _EXPERTS)
        table = rng.integers(2, size=shape).astype(float) if case else np.ones(shape)
        against = (partial(_losses_against, side, table) for side in (np.eye(2)[0], other))
        laws = (partial(_laws_of_experts, made, each) for each in against)
        p, q = (all_paths(law, _EXPERTS, _ROUNDS) for law in laws)
        losses.append(loss_of_outcomes(p, q, claim))
    return largest(losses)


def _losses_against(first: FloatArray, table: FloatArray, paths: IntArray) -> FloatArray:
    """Losses of an adversary: after round one they depend on the last and on the first choice."""
    turn = paths.shape[1]
    return np.asarray(table[turn, paths[:, -1], paths[:, 0]] if turn else first[None])


# -- corners ------------------------------------------------------------------------------------


def _corners(rng: np.random.Generator, epsilon: float) -> Iterator[Check]:
    for private in lp.PRIVATE:
        a, b = rng.uniform(-1, 1, (_RECORDS, 3)), rng.uniform(-1, 1, _RECORDS)
        corners, made = _corners_of(a, PureDP(epsilon), private)
        play = partial(lp.play_constraints, corners, b, made)
        missed = follows(play, partial(_laws_of_corners, corners, b, made), (3, 5), rng)
        yield _followed(f"corners, {private}", missed)


def _corners_of(
    a: FloatArray, claim: Promise, private: lp.Private
) -> tuple[lp.Corners, lp.ConstraintCalibration]:
    """The corners of constraints ``(n, d)``, and a calibration of five rounds on them."""
    ones = np.ones(a.shape[1])
    if private == "bounds":
        corners = lp.public_corners(a, ones)
    else:
        corners = lp.private_corners(a, ones, 1.0, (-1.0, 1.0))
    made = lp.calibrate_constraints(
        corners.values.shape,
        claim,
        private,
        width=2.0,
        violated=0.85 * len(corners.values),
        reach=corners.reach,
        size=corners.size,
        rounds=5,
    )
    return corners, made


def _laws_of_corners(
    corners: lp.Corners,
    b: FloatArray,
    made: lp.ConstraintCalibration,
    paths: IntArray,
) -> FloatArray:
    held = lp.held_bounds(b, corners, made.width)
    missed = held[:, None, None] - corners.values[:, paths]
    slack = np.clip(missed, -made.width, made.width).sum(axis=2).T
    return log_chances_of(-nearest_dense(-made.step * slack, made.s) @ corners.values, made)


def _paths_of_corners(
    claim: Promise, private: lp.Private, rng: np.random.Generator, cases: int
) -> float:
    losses = []
    for _ in range(cases):
        a, b = rng.choice([-1.0, 1.0], (4, 2)), rng.uniform(-1, 1, 4)
        moved, other = a.copy(), b.copy()
        other[0] = rng.choice([-1.0, 1.0])
        if private == "rows":
            moved[0] = -a[0]
        first, made = _corners_of(a, claim, private)
        second, _ = _corners_of(moved, claim, private)
        p, q = (
            all_paths(partial(_laws_of_corners, corners, bounds, made), 2, 5)
            for corners, bounds in ((first, b), (second, other))
        )
        losses.append(loss_of_outcomes(p, q, claim))
    return largest(losses)
