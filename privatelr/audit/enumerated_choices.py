"""The audit of mechanisms that choose, on cases so tiny that all outcomes are listed.

It checks that a run of a mechanism has the law of its definition, and that the privacy loss over
all paths of that law is within the claim. The definitions are implemented here a second time, in
the plainest way: losses are summed, weights are recomputed from the whole path, and the nearest
dense law is found by trial.

A path is the sequence of options that a mechanism chose, one in each round. A law is an array of
log probabilities ``(k,)``; minus infinity stands for an outcome that cannot occur.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from privatelr.audit.audit_table import Row, row_or_failure
from privatelr.audit.checks import (
    Check,
    claimed_number,
    claims_of_size,
    guarded,
    label,
    largest,
    measured,
    short,
)
from privatelr.audit.worth import PrivacyLossDistribution
from privatelr.errors import ArgumentError
from privatelr.numerics import LOSSES, Loss
from privatelr.numerics.rows import EntryRows
from privatelr.privacy import ZERO_OUT, Guarantee, Promise, PureDP
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
_FEW, _DENSITY = 4, 0.75
"""A linear program has this number of records, and a density under which one of them soon reaches
the largest weight that it may have."""
_PATHS = ((1, 8), (2, 4))
"""Linear programs have these numbers of columns and of rounds, and each has 256 paths."""
_HISTOGRAMS = ((1, 1), (1, 5), (1, 40), (2, 1), (2, 8))
"""With these numbers of columns and of draws, there are few enough histograms to list."""
_MOST_HISTOGRAMS = 2_000_000
"""At most this number of histograms is listed."""
_STEPS = 100_000
"""The search for an exact minimiser stops after this number of Newton steps."""
_EXACT = 1e-12
"""The Karush-Kuhn-Tucker (KKT) conditions are satisfied up to this relative error."""
DRAWN, _CRITICAL = 4000, 6.0
"""This number of real choices is made, and their frequencies may be off by this number of standard
deviations; counts are drawn about as often."""


# -- two laws ---------------------------------------------------------------------------------


def loss_of_outcomes(log_p: FloatArray, log_q: FloatArray, claim: Guarantee) -> float:
    """The privacy loss between two laws, in the unit of the claim.

    Parameters
    ----------
    log_p, log_q
        Log probabilities of shape ``(k,)``.
    claim : PureDP, ZCDP or ApproxDP

    Returns
    -------
    float
        For a pure claim, the largest log ratio of two probabilities. For a zCDP claim, the
        largest ratio of a Renyi divergence to its order. For an approximate claim, the delta at
        the epsilon of the claim.
    """
    p, q = np.ravel(log_p), np.ravel(log_q)
    if np.isnan(p).any() or np.isnan(q).any():
        raise ArgumentError("log_p, log_q: take logarithms of probabilities, and one is NaN.")
    laws = (
        PrivacyLossDistribution(one[seen] - other[seen], np.exp(one[seen]))
        for one, other in ((p, q), (q, p))
        for seen in [one > -math.inf]
    )
    return max(law.in_unit_of(claim) for law in laws)


def deviation(
    part: str, subject: str, counts: FloatArray | IntArray, chances: FloatArray, n: int
) -> Check:
    """Compare frequencies among n draws with their probabilities, in standard deviations."""
    off = np.abs(counts - n * chances) / np.sqrt(n * chances * (1 - chances))
    return Check(part, f"{subject}: deviations from their chances", float(off.max()), _CRITICAL)


# -- all paths of a tiny dataset --------------------------------------------------------------

Laws = Callable[[IntArray], FloatArray]
"""A function from paths ``(m, t)`` to the log probabilities ``(m, k)`` of their next option."""


def all_paths(laws: Laws, options: int, rounds: int) -> FloatArray:
    """Log probabilities ``(options ** rounds,)`` of all paths, from those of each round."""
    paths, log_chances = np.zeros((1, 0), dtype=np.intp), np.zeros(1)
    for _ in range(rounds):
        log_chances = (log_chances[:, None] + laws(paths)).ravel()
        last = np.tile(np.arange(options), len(paths))
        paths = np.column_stack([paths.repeat(options, axis=0), last])
    return log_chances


@dataclass(frozen=True, eq=False)
class Script(SystemRandomness):
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
    given: Any = PART, "one choice", ExponentialMechanism(2.0, 1.0), special.softmax
    yield from guarded(PART, "one choice", one_choice, *given)
    for subject, work in (
        ("columns", _columns),
        ("simplex", _minimisers),
        ("experts", _experts),
        ("corners", _corners),
    ):
        yield from guarded(PART, subject, work, rng, epsilon)
    for claim in claims_of_size(epsilon):
        most, paths = claimed_number(claim), f"{short(claim)}: loss over all paths"
        for name, neighbours in online.RELATIONS.items():
            given = replace(claim, neighbours=neighbours), rng, cases
            subject = f"experts, {name}, {paths}"
            yield from measured(PART, subject, _paths_of_experts, *given, allowed=most)
        for private in lp.PRIVATE:
            subject = f"corners, private {private}, {paths}"
            given = claim, private, rng, 2 * cases
            yield from measured(PART, subject, _paths_of_corners, *given, allowed=most)


def _followed(subject: str, missed: int) -> Check:
    return Check(PART, f"{subject}: plays that differ from the definition", missed)


# -- choices of columns -------------------------------------------------------------------------


def one_choice(
    part: str, subject: str, mechanism: Any, law: Callable[[FloatArray], FloatArray]
) -> Iterator[Check]:
    """Compare frequencies of real choices with their probabilities, in standard deviations.

    The mechanism takes an epsilon of 2 and scores within an interval of length 1.
    """
    scores, source = np.array([0.0, 0.4, 1.0]), SystemRandomness()
    chosen = [mechanism.choose(scores, source) for _ in range(DRAWN)]
    yield deviation(part, subject, np.bincount(chosen, minlength=3), law(2.0 * scores), DRAWN)


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


def laws_of_columns(
    rows: EntryRows, calibration: programs.ProgramCalibration, paths: IntArray
) -> FloatArray:
    """The `Laws` of a linear program: its weights are recomputed from the whole path."""
    signed = rows.signed()
    both = np.hstack([signed, -signed])
    judged = both if calibration.score == "margin" else (both >= calibration.threshold) * 1.0
    log_weights = -calibration.step * both[:, paths].sum(axis=2).T
    return log_chances_of(nearest_dense(log_weights, calibration.problem.s) @ judged, calibration)


def log_chances_of(scores: FloatArray, calibration: programs.SequentialChoices) -> FloatArray:
    """Log probabilities ``(m, k)`` of k options by their scores ``(m, k)``."""
    if math.isinf(calibration.eta):
        chosen = np.argmax(scores, axis=1)[:, None] == np.arange(scores.shape[1])
        return np.where(chosen, 0.0, -math.inf)
    exponents = calibration.eta * scores / (2 * calibration.sensitivity)
    return np.asarray(exponents - np.logaddexp.reduce(exponents, axis=1, keepdims=True))


def nearest_dense(log_weights: FloatArray, s: float) -> FloatArray:
    """The nearest laws ``(m, n)`` of which no weight exceeds ``1 / s``.

    It tries every number of weights that may be cut off at the limit.
    """
    ranked = -np.sort(-log_weights, axis=1)
    log_zeta = np.full(len(ranked), np.nan)
    for cut in range(math.ceil(s)):
        level = ranked[:, cut : cut + 1]
        rest = np.log(s - cut) - np.logaddexp.reduce(ranked[:, cut:] - level, axis=1)
        fits = np.isnan(log_zeta) & (rest <= 1e-12)
        log_zeta = np.where(fits, rest - level[:, 0], log_zeta)
    # if s is an integer and s weights are far above the others, all s of them are at the limit, and
    # rounding alone can have refused every number above
    last = -ranked[:, math.ceil(s) - 1]
    log_zeta = np.where(np.isnan(log_zeta), last, log_zeta)
    return np.asarray(np.exp(np.minimum(log_weights + log_zeta[:, None], 0.0)) / s)


# -- the simplex --------------------------------------------------------------------------------


def _minimisers(rng: np.random.Generator, epsilon: float) -> Iterator[Check]:
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


def histograms_of(options: int, draws: int) -> IntArray:
    """All histograms ``(k, options)`` of a number of draws."""
    count = math.comb(draws + options - 1, options - 1)
    if count > _MOST_HISTOGRAMS:
        raise ArgumentError(
            f"draws={draws}: {options} options have too many histograms to list; take fewer draws."
        )
    # every histogram is a choice of the places of bars among the draws
    places = draws + options - 1
    bars = np.array(list(itertools.combinations(range(places), options - 1)), dtype=np.intp)
    edges = np.pad(bars, ((0, 0), (1, 1)), constant_values=((0, 0), (-1, places)))
    return np.diff(edges, axis=1) - 1


def log_chances(histograms: IntArray, log_theta: FloatArray) -> FloatArray:
    """Log probabilities ``(k,)`` of histograms of independent draws."""
    draws = histograms.sum(axis=1)
    ways = special.gammaln(draws + 1) - special.gammaln(histograms + 1).sum(axis=1)
    return np.asarray(ways + histograms @ log_theta)


def exact_minimiser(rows: EntryRows, problem: simplex.SimplexProblem) -> FloatArray:
    """Log theta ``(2 d,)`` of the minimiser on the simplex, computed from the definition alone.

    It applies Newton's method to the KKT conditions in ``log theta``, and takes a step of mirror
    descent where Newton's step does not halve their error.
    """
    signed, lam = problem.radius * rows.signed(), problem.penalty
    both = np.concatenate([signed, -signed], axis=1)
    share = lam / (lam + problem.n * problem.loss.curvature_bound * problem.reach**2)

    def conditions_at(logs: FloatArray) -> FloatArray:
        return np.asarray(problem.loss.slope(both @ np.exp(logs)) @ both + lam * logs)

    logs = np.full(2 * rows.d, -math.log(2 * rows.d))
    conditions = conditions_at(logs)
    for _ in range(_STEPS):
        if np.ptp(conditions) <= _EXACT * (lam + problem.n * problem.reach):
            break
        theta = np.exp(logs)
        bends = problem.loss.curvature(both @ theta)
        matrix = both.T @ (bends[:, None] * both) @ (np.diag(theta) - np.outer(theta, theta))
        step = np.linalg.solve(lam * np.eye(len(logs)) + matrix, -conditions)
        ahead = special.log_softmax(logs + step)
        found = conditions_at(ahead)
        if not np.ptp(found) <= np.ptp(conditions) / 2:
            # Newton's step was too long; a step of mirror descent this short never is
            ahead = special.log_softmax(logs - share / lam * conditions)
            found = conditions_at(ahead)
        logs, conditions = ahead, found
    return np.asarray(logs)


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


# -- rows of the table ---------------------------------------------------------------------------


class Outcomes(NamedTuple):
    """The loss between two tiny neighbours in the unit of a claim, as an epsilon, and the case."""

    loss: float
    epsilon: float
    where: str


_Case = Callable[[Promise, Any, np.random.Generator, tuple[int, int], int], Outcomes]
"""Makes a case of a claim, a loss or score, a shape, and an index."""


def audit_programs(epsilon: float, rng: np.random.Generator, pairs: int = 30) -> list[Row]:
    """Rows of an audit's table for linear programs: one for each kind of claim and each score.

    Parameters
    ----------
    epsilon : float
        The epsilon of the claims; claims of zCDP and of a delta have about the same strength.
    rng : Generator
        The source of random numbers for the search.
    pairs : int
        Number of pairs that are searched, for each shape.

    Returns
    -------
    list of Row
        ``exact`` is the loss of the worst pair by enumeration.

    Notes
    -----
    **Privacy.** *Covered*: no data is involved. *Neighbours*: replace one record. *Assumed
    public*: everything. *Not covered*: time and memory of the mechanisms.
    """
    claims = claims_of_size(epsilon)
    subjects = [
        (claim, score, f"worst margins, {score}") for claim in claims for score in programs.SCORES
    ]
    return _rows("selection", subjects, partial(_worst, _program, _PATHS, rng, pairs))


def audit_simplex(
    epsilon: float,
    rng: np.random.Generator,
    pairs: int = 20,
    losses: Sequence[Loss] | None = None,
) -> list[Row]:
    """Rows of an audit's table for the simplex: one for each kind of claim and each loss.

    Parameters
    ----------
    epsilon, rng, pairs
        The same as in `audit_programs`.
    losses : sequence of Loss, optional
        By default all registered losses.

    Returns
    -------
    list of Row
        The same as from `audit_programs`; the enumeration is that of multinomial draws.

    Notes
    -----
    **Privacy.** *Covered*: no data is involved. *Neighbours*: replace one record. *Assumed
    public*: everything. *Not covered*: time and memory of the mechanisms.
    """
    known, claims = LOSSES.values() if losses is None else losses, claims_of_size(epsilon)
    subjects = [(claim, loss, label(loss)) for loss in known for claim in claims]
    return _rows("simplex", subjects, partial(_worst, _draws, _HISTOGRAMS, rng, pairs))


def _rows(
    placement: str,
    subjects: list[tuple[Promise, Any, str]],
    worst_of: Callable[[Promise, Any], Outcomes],
) -> list[Row]:
    """One row for each claim and its loss or score, about the worst case."""

    def row(claim: Promise, what: Any, loss: str) -> Row:
        worst, claimed = worst_of(claim, what), claimed_number(claim)
        numbers = claimed, worst.loss, worst.loss / claimed
        return Row(placement, loss, short(claim), *numbers, worst.where, buys="choices")

    return [
        row_or_failure(placement, loss, claim, row, claim, what, loss, buys="choices")
        for claim, what, loss in subjects
    ]


def _worst(
    case: _Case,
    shapes: tuple[tuple[int, int], ...],
    rng: np.random.Generator,
    pairs: int,
    claim: Promise,
    what: Any,
) -> Outcomes:
    """The case with the largest loss; epsilons decide where the delta of every pair is zero."""
    return max(case(claim, what, rng, shape, index) for shape in shapes for index in range(pairs))


def _near_bounds(rng: np.random.Generator, index: int, n: int, d: int) -> FloatArray:
    """Covariates ``(n, d)``: at the bound 1 if the index is odd, else near it or beyond.

    If the index is a multiple of three, all records but the first are equal.
    """
    x = rng.choice([-1.0, 1.0], (n, d)) if index % 2 else rng.uniform(-1.5, 1.5, (n, d))
    x[0] = rng.choice([-1.0, 1.0], d)
    if index % 3 == 0:  # the choice then depends most on the first record
        x[1:] = -x[0]
    return x


def _sides(x: FloatArray, record: FloatArray) -> tuple[EntryRows, EntryRows]:
    """Two datasets: the covariates as they are, and with another first record."""
    moved = x.copy()
    moved[0] = record
    first, second = (EntryRows(rows, np.ones(len(rows)), x_bound=1.0) for rows in (x, moved))
    return first, second


def _outcomes(log_p: FloatArray, log_q: FloatArray, claim: Promise, where: str) -> Outcomes:
    loss, epsilon = (loss_of_outcomes(log_p, log_q, each) for each in (claim, PureDP(1.0)))
    return Outcomes(loss, epsilon, where)


def _program(
    claim: Promise, score: str, rng: np.random.Generator, shape: tuple[int, int], index: int
) -> Outcomes:
    """Neighbours near the bound under a linear program with a random step."""
    (d, rounds), n = shape, _FEW
    step = float(10.0 ** rng.uniform(-1, 1.5)) if index else "auto"
    facts = programs.ProgramFacts(n, d, 1.0, _DENSITY)
    made = programs.calibrate_program(facts, claim, rounds, step, score, slack=0.25)
    x = _near_bounds(rng, index, n, d)
    sides = _sides(x, -x[0] if index % 4 else rng.choice([-1.0, 1.0, math.nan], d))
    log_p, log_q = (
        all_paths(partial(laws_of_columns, rows, made), 2 * d, made.rounds) for rows in sides
    )
    return _outcomes(log_p, log_q, claim, f"{score} score, n={n}, d={d}, T={made.rounds}")


def _draws(
    claim: Promise, loss: Loss, rng: np.random.Generator, shape: tuple[int, int], index: int
) -> Outcomes:
    """Neighbours near the bound under draws from the simplex with a random radius."""
    (d, draws), n = shape, _RECORDS
    radius = float(10.0 ** rng.uniform(-2, 1))
    facts = simplex.SimplexProblem(n, d, 1.0, radius, loss)
    made = simplex.calibrate_simplex(facts, claim, "auto", draws)
    histograms = histograms_of(2 * d, made.draws)  # a wrong calibration may change the number
    x = _near_bounds(rng, index, n, d)
    log_p, log_q = (
        log_chances(histograms, exact_minimiser(rows, made.problem)) for rows in _sides(x, -x[0])
    )
    where = f"n={n}, d={d}, m={made.draws}, radius={radius:.3g}"
    return _outcomes(log_p, log_q, claim, where)
