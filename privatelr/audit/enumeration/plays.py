"""The audit of mechanisms that choose one option in each round.

It checks that a run of a mechanism has the law of its definition, and that the privacy loss over
all paths of that law is within the claim. The definitions are implemented here a second time, in
the plainest way: losses are summed, weights are recomputed from the whole path, and the nearest
dense law is found by trial.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from privatelr.audit.checks import Check, claims_of_size, guarded, largest, short
from privatelr.audit.density.loss import claimed_number
from privatelr.audit.enumeration.discrete import log_chances_of, loss_of_outcomes, nearest_dense
from privatelr.audit.enumeration.tiny_cases import exact_minimiser
from privatelr.numerics import LOSSES
from privatelr.numerics.rows import EntryRows
from privatelr.privacy import ZERO_OUT, Promise, PureDP
from privatelr.privacy.noise import Draw, FloatDraw, Randomness, RandomVector, SystemRandomness
from privatelr.privacy.noise.exponential_mechanism import ExponentialMechanism
from privatelr.selection import constraint_private as lp
from privatelr.selection import multiplicative_weights as programs
from privatelr.selection import online, simplex
from privatelr.types import FloatArray

PART = "choices"
_EXPERTS, _ROUNDS = 2, 4
"""A run of which all paths are listed has these numbers of experts and of rounds."""
_WILD = (1e300, -1e300, math.nan, math.inf, -math.inf)
"""These losses lie outside of any range that can be declared, or are not numbers."""
_RECORDS = 6
"""A scripted run has this number of records."""
_SAME = 1e-8
"""Two computations of one minimiser may differ by this much in log theta, by rounding."""
_DRAWN, _CRITICAL = 4000, 6.0
"""This number of real choices is made, and their frequencies may be off by this number of standard
deviations."""
_HAIR = 1e-6
"""The noisy exponent of the scripted option is larger than the others by this much."""

Exponents = Callable[[list[int]], FloatArray]
"""A function from a path to the log probabilities ``(k,)`` of the options of its next round."""


@dataclass(frozen=True, slots=True, eq=False)
class Script:
    """Randomness under which a mechanism chooses a given path, if its scores are right.

    In each round the given option wins by a tiny difference, so that a wrong score changes the
    choice.

    Attributes
    ----------
    exponents : callable
        The log probabilities ``(k,)`` of the next round's options after a path, by the definition.
    path : list of int
        The options that the mechanism is to choose.
    done : list of int
        The rounds for which numbers have been drawn.
    """

    exponents: Exponents
    path: list[int]
    done: list[int] = field(default_factory=list)

    def draw(self, recipe: RandomVector) -> Draw:
        """Numbers under which all options tie, except that the scripted one wins."""
        turn = min(len(self.done), len(self.path) - 1)
        self.done.append(turn)
        numbers = -np.asarray(self.exponents(self.path[:turn]), dtype=np.float64)
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
    exponents: Exponents,
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
    exponents
        The same as in `Script`.
    shape : (int, int)
        The number of options and the number of rounds.
    """
    options, rounds = shape
    paths = (rng.integers(options, size=rounds).tolist() for _ in range(scripts))
    return sum(list(play(Script(exponents, path))) != path for path in paths)


def all_paths(exponents: Exponents, options: int, rounds: int) -> FloatArray:
    """Log probabilities ``(options ** rounds,)`` of all paths, from those of each round."""
    found = []
    for path in itertools.product(range(options), repeat=rounds):
        log_laws = (exponents(list(path[:turn])) for turn in range(rounds))
        found.append(sum(float(law[at]) for law, at in zip(log_laws, path, strict=True)))
    return np.array(found)


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
        yield from guarded(PART, f"experts, {short(claim)}", _laws_of_experts, claim, rng, cases)
        for private in lp.PRIVATE:
            subject = f"corners, private {private}, {short(claim)}"
            given = claim, private, subject, rng, 2 * cases
            yield from guarded(PART, subject, _laws_of_corners, *given)


def _followed(subject: str, missed: int) -> Check:
    return Check(PART, f"{subject}: plays that differ from the definition", missed)


def _normalised(exponents: FloatArray) -> FloatArray:
    return np.asarray(exponents - np.logaddexp.reduce(exponents))


# -- choices of columns -------------------------------------------------------------------------


def _one_choice() -> Iterator[Check]:
    """Compare frequencies of real choices with their probabilities, in standard deviations."""
    choice, scores = ExponentialMechanism(2.0, 1.0), np.array([0.0, 0.4, 1.0])
    source = SystemRandomness()
    chosen = [choice.choose(scores, source) for _ in range(_DRAWN)]
    weights = np.exp(2.0 * scores)
    chances = weights / weights.sum()
    counts = np.bincount(chosen, minlength=3)
    off = np.abs(counts - _DRAWN * chances) / np.sqrt(_DRAWN * chances * (1 - chances))
    subject = "one choice: deviations from its chances, three options"
    yield Check(PART, subject, off.max(), _CRITICAL)


def _columns(rng: np.random.Generator, epsilon: float) -> Iterator[Check]:
    for score in programs.SCORES:
        facts = programs.ProgramFacts(_RECORDS, 2, 1.0, 0.6)
        made = programs.calibrate_program(facts, PureDP(epsilon), 6, 0.8, score, slack=0.25)
        rows = _random_rows(rng)
        play = partial(_play_columns, rows, made)
        missed = follows(play, partial(_exponents_of_columns, rows, made), (4, 6), rng)
        yield _followed(f"columns, {score} score", missed)


def _random_rows(rng: np.random.Generator) -> EntryRows:
    return EntryRows(rng.uniform(-1.5, 1.5, (_RECORDS, 2)), np.ones(_RECORDS), x_bound=1.0)


def _play_columns(rows: EntryRows, made: programs.ProgramCalibration, script: Script) -> list[int]:
    path = programs.release_program(rows, made, script).path
    return [] if path is None else path.tolist()


def _exponents_of_columns(
    rows: EntryRows, made: programs.ProgramCalibration, past: list[int]
) -> FloatArray:
    signed = rows.signed()
    both = np.hstack([signed, -signed])
    judged = both if made.score == "margin" else (both >= made.threshold) * 1.0
    log_weights = -made.step * both[:, past].sum(axis=1)
    scores = nearest_dense(log_weights[None], made.problem.s) @ judged
    return np.asarray(log_chances_of(scores, made)[0])


def _simplex(rng: np.random.Generator, epsilon: float) -> Iterator[Check]:
    for loss in LOSSES.values():
        facts = simplex.SimplexProblem(_RECORDS, 2, 1.0, 0.7, loss)
        made = simplex.calibrate_simplex(facts, PureDP(epsilon), "auto", 2)
        rows = _random_rows(rng)
        ours, exact = simplex.minimiser_logs(rows, made), exact_minimiser(rows, made.problem)
        apart = float(np.ptp(ours - exact))
        most = _SAME + 2 * made.tolerance / made.problem.penalty
        yield Check(PART, f"simplex, {loss.name}: distance to the exact minimum", apart, most)


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
        missed = follows(play, partial(_exponents_of_experts, made, losses), (3, 5), rng)
        yield _followed(f"experts, {name}", missed)
    # how far a sum leaves the interval that one round of losses within the range can reach; 0 is
    # right
    wild = online.PrivateFTRL(len(_WILD), 3, epsilon, 0.0, loss_range=(-1.0, 3.0))
    wild.predict()
    wild.update(_WILD)
    sums = wild._state.sums / wild.calibration.problem.steps
    wildest = float(np.maximum(sums - 1.0, -sums).max(initial=0.0))
    yield Check(PART, "experts: how far wild losses move a sum, over the range", wildest)


def _play_experts(made: online.OnlineCalibration, losses: Exponents, script: Script) -> list[int]:
    """The choices of a run; none if the same round answers differently when it is asked again."""
    run, path = _Scripted(made, script), list[int]()
    for _ in range(5):
        path.append(run.predict())
        if run.predict() != path[-1]:
            return []
        run.update(losses(path[:-1]))
    return path


def _exponents_of_experts(
    made: online.OnlineCalibration, losses: Exponents, past: list[int]
) -> FloatArray:
    sums = np.zeros(made.problem.n_experts)
    for turn in range(len(past)):
        sums += losses(past[:turn])
    return _normalised(-sums / made.lambda_)


def _laws_of_experts(claim: Promise, rng: np.random.Generator, cases: int) -> Iterator[Check]:
    for name, neighbours in online.RELATIONS.items():
        problem = online.OnlineProblem(_EXPERTS, _ROUNDS, 0.0, 1.0, neighbours)
        made = online.calibrate_online(problem, replace(claim, neighbours=neighbours))
        other = np.zeros(2) if neighbours is ZERO_OUT else np.array([0.0, 1.0])
        worst = 0.0
        for case in range(cases):
            shape = (_ROUNDS, _EXPERTS, _EXPERTS, _EXPERTS)
            table = rng.integers(2, size=shape).astype(float) if case else np.ones(shape)
            against = (partial(_losses_against, side, table) for side in (np.eye(2)[0], other))
            laws = (partial(_exponents_of_experts, made, losses) for losses in against)
            p, q = (all_paths(law, _EXPERTS, _ROUNDS) for law in laws)
            worst = largest((worst, loss_of_outcomes(p, q, claim)))
        subject = f"experts, {name}, {short(claim)}: loss over all paths"
        yield Check(PART, subject, worst, claimed_number(claim))


def _losses_against(first: FloatArray, table: FloatArray, past: list[int]) -> FloatArray:
    """Losses of an adversary: after round one they depend on the last and on the first choice."""
    return np.asarray(table[len(past), past[-1], past[0]] if past else first)


# -- corners ------------------------------------------------------------------------------------


def _corners(rng: np.random.Generator, epsilon: float) -> Iterator[Check]:
    for private in lp.PRIVATE:
        a, b = rng.uniform(-1, 1, (_RECORDS, 3)), rng.uniform(-1, 1, _RECORDS)
        corners, made = _corners_of(a, PureDP(epsilon), private)
        play = partial(lp.play_constraints, corners, b, made)
        missed = follows(play, partial(_exponents_of_corners, corners, b, made), (3, 5), rng)
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


def _exponents_of_corners(
    corners: lp.Corners,
    b: FloatArray,
    made: lp.ConstraintCalibration,
    past: list[int],
) -> FloatArray:
    held = lp.held_bounds(b, corners, made.width)
    slack = np.zeros(len(held))
    for option in past:
        slack += np.clip(held - corners.values[:, option], -made.width, made.width)
    q = nearest_dense(-made.step * slack[None], made.s)[0]
    return _normalised(-(corners.values.T @ q) * made.eta / (2 * made.sensitivity))


def _laws_of_corners(
    claim: Promise,
    private: lp.Private,
    subject: str,
    rng: np.random.Generator,
    cases: int,
) -> Iterator[Check]:
    worst = 0.0
    for _ in range(cases):
        a, b = rng.choice([-1.0, 1.0], (4, 2)), rng.uniform(-1, 1, 4)
        moved, other = a.copy(), b.copy()
        other[0] = rng.choice([-1.0, 1.0])
        if private == "rows":
            moved[0] = -a[0]
        first, made = _corners_of(a, claim, private)
        second, _ = _corners_of(moved, claim, private)
        p, q = (
            all_paths(partial(_exponents_of_corners, corners, bounds, made), 2, 5)
            for corners, bounds in ((first, b), (second, other))
        )
        worst = largest((worst, loss_of_outcomes(p, q, claim)))
    yield Check(PART, f"{subject}: loss over all paths", worst, claimed_number(claim))
