"""The lengths of the intervals that studies will report, by simulated releases.

Each simulated release has noise and a sample of its own, and is read by the functions that read
real ones. Intervals of a few releases are computed. Those of the others follow from standard errors
that cost little and vary with the release as intervals do.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from privatelr import inference, mechanisms
from privatelr.design import prior_of
from privatelr.inference import PUBLIC_SEED, Mode, Question
from privatelr.inference.intervals import factors_of
from privatelr.inference.noisy_moments import divided, undivided
from privatelr.mechanisms.request import INFERENCE, LENGTHS, SCALE
from privatelr.mechanisms.signed_rows import SignedRows, matrix_weights, minimisers
from privatelr.mechanisms.stages.lengths import LengthRelease
from privatelr.mechanisms.stages.matrices import matrix_units
from privatelr.planning.forecast import Simulator, moments_of, simulate
from privatelr.privacy.noise import NoiseLaw, draw_many
from privatelr.types import FloatArray, IntArray

MOST_COLUMNS = 20
"""Intervals are forecast for designs of at most so many columns. Their time is that of a posterior
of two matrices, and grows with the third power of the columns."""
_PAIRS = 40
"""This number of pairs of releases with opposite noise is simulated."""
_FEW = 5
"""Intervals are computed for so many of them."""
_LIFT = 0.5
"""What noise adds to small eigenvalues, in squares of its deviation; see `_lifted`."""
_SLOPES = (0.25, 3.0)
"""Limits to the power of an approximate length that an interval is in proportion to."""
ASKED = Question(target=None)
"""What the intervals of a fit answer by default; a release decides on their mode and target."""
_WITHHELD = 2
"""The kind of a release that has no intervals."""
TYPICAL, NEARLY_ALL = 0.5, 0.9
"""Shares of studies: half of them, for what is typical, and those that a pessimist counts on."""
_SMALLEST = 1e-300
"""In a logarithm, this replaces a length of 0."""
_FLAT = 1e-12
"""Share of the largest curvature below which a direction counts as flat."""


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """The expected intervals of m coefficients.

    Attributes
    ----------
    width : ndarray of shape (m,)
        The length in the user's units that a share of the studies reach, half unless told
        otherwise. It is infinite if fewer studies have intervals.
    widest : float
        The length that so many studies reach in all their intervals.
    mode, target : str
        Those of the intervals with these lengths.
    sturdy : float
        The share of simulated releases that have intervals, and not conservative ones.
    noise_to_signal : float
        The median ratio of noise to signal of the released curvature.
    thin : tuple of int
        Positions of the covariates of which most of these releases do not show that they vary.
    """

    width: FloatArray
    widest: float
    mode: Mode
    target: str
    sturdy: float
    noise_to_signal: float
    thin: tuple[int, ...] = ()


def intervals(sim: Simulator, rows: Sequence[int], share: float = TYPICAL) -> Intervals:
    """The lengths that a share of the studies reach, by simulated releases.

    Conservative intervals count as longer than others, so that the share decides of which kind the
    longest of these lengths is. Intervals of that kind are computed for a few of the releases, from
    the shortest approximate lengths to the longest. On logarithmic scales a straight line through
    these leads from approximate lengths to those of all releases, and what is left over of the few
    may be left over of each.

    Parameters
    ----------
    rows
        Positions of the coefficients.
    """
    simulated, contrasts = _simulated(sim), sim.units[list(rows)]
    kinds = np.array([one.kind for one in simulated])
    kind = min(kind for kind in {*kinds.tolist()} if (kinds <= kind).mean() >= share)
    having = np.flatnonzero(kinds == kind)
    rank = (share - float((kinds < kind).mean())) / float((kinds == kind).mean())
    targets = Counter(str(simulated[at].question.target) for at in having)
    ratios = [one.noise_to_signal for one in simulated]
    facts: dict[str, Any] = {
        "mode": simulated[having[0]].question.mode,
        "target": targets.most_common(1)[0][0],
        "sturdy": float((kinds == 0).mean()),
        "noise_to_signal": math.exp(np.median(np.log(np.maximum(ratios, _SMALLEST)))),
        "thin": _mostly([one.thin for one in simulated]),
    }
    if kind == _WITHHELD:
        return Intervals(width=np.full(len(contrasts), np.inf), widest=np.inf, **facts)
    near = _log_errors(simulated, contrasts)[having]
    order = np.argsort(near.mean(axis=1), kind="stable")
    places = order[_spread_evenly(_FEW, len(order))]
    few = [simulated[at] for at in having[places]]
    answers = [inference.infer(one.release, contrasts, one.question) for one in few]
    each = np.log([np.maximum(one.upper - one.lower, _SMALLEST) for one in answers])
    slope = _slope(near[places], each)
    lengths = (slope * near[:, None] + each - slope * near[places]).reshape(-1, len(contrasts))
    return Intervals(
        width=np.exp(np.quantile(lengths, rank, axis=0)),
        widest=math.exp(np.quantile(lengths.max(axis=1), rank)),
        **facts,
    )


def has_intervals(sim: Simulator) -> bool:
    """Whether a fit reports intervals that can be forecast."""
    return sim.stages.moments is not None and sim.spec.d <= MOST_COLUMNS


def typical_errors(sim: Simulator, rows: Sequence[int]) -> FloatArray:
    """The median standard errors ``(m,)`` that fits report; infinite if most have none."""
    if not has_intervals(sim):
        return np.full(len(rows), np.inf)
    simulated = _simulated(sim)
    near = np.exp(_log_errors(simulated, sim.units[list(rows)]))
    near[[one.kind == _WITHHELD for one in simulated]] = np.inf
    return np.asarray(np.median(near, axis=0))


def pessimistic(sim: Simulator, usual: Intervals) -> Intervals:
    """What nine of ten studies reach under pessimistic guesses, at least what is usual.

    A pilot with a response leaves nothing to guess, so the guesses are the same.
    """
    worse = simulate(replace(sim.study, population=sim.study.worse))
    found = intervals(worse, range(len(sim.units)), NEARLY_ALL)
    return replace(found, width=np.maximum(found.width, usual.width))


@dataclass(frozen=True, slots=True, eq=False)
class _SimulatedRelease:
    """A simulated release, and what was read from it.

    Attributes
    ----------
    release : Release
    evidence : NoisyMoments
    question : Question
        What its intervals answer.
    noise_to_signal : float
    thin : list of int
        Positions of thin numbers.
    """

    release: mechanisms.Release
    evidence: inference.NoisyMoments
    question: Question
    noise_to_signal: float
    thin: list[int]

    @property
    def kind(self) -> int:
        """How long its intervals are: averaged, conservative, or none, in this order."""
        return _WITHHELD if self.question.withheld else int(self.question.mode == "conservative")


def _read(release: mechanisms.Release) -> _SimulatedRelease:
    """Ask all of a release at once, because evidence is kept of a few releases only."""
    evidence = inference.evidence_of(release)
    return _SimulatedRelease(
        release,
        evidence,
        inference.answerable(release, ASKED),
        inference.quality(release).noise_to_signal,
        inference.thin_numbers(release.scale, evidence),
    )


@lru_cache(maxsize=1)  # the intervals of a plan and what compares them with other promises
def _simulated(sim: Simulator) -> tuple[_SimulatedRelease, ...]:
    return tuple(map(_read, _releases(sim)))


def _mostly(places: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Those that more than half of the sequences hold."""
    found = Counter(place for each in places for place in each)
    return tuple(sorted(place for place, count in found.items() if 2 * count > len(places)))


def nonconservative_share(sim: Simulator) -> float:
    """The share of simulated releases that have intervals, and not conservative ones."""
    return float(np.mean([one.kind == 0 for one in _simulated(sim)]))


def _spread_evenly(count: int, of: int) -> IntArray:
    """At most `count` places in a list of length `of`, in the middles of equal parts of it."""
    return np.unique(((np.arange(count) + 0.5) / count * of).astype(int))


def _slope(near: FloatArray, each: FloatArray) -> float:
    """The common slope of m straight lines through points ``(k, m)``; 1 if there is none."""
    off = near - near.mean(axis=0)
    square = float((off**2).sum())
    if square < _FLAT:
        return 1.0
    return float(np.clip((off * (each - each.mean(axis=0))).sum() / square, *_SLOPES))


def _log_errors(simulated: Sequence[_SimulatedRelease], contrasts: FloatArray) -> FloatArray:
    """Log standard errors ``(h, m)`` of h releases of one calibration, each of its own target.

    They are those at one pair of matrices of a release, near the mean of what it leaves possible.
    """
    first = simulated[0].evidence
    read = [undivided(one.evidence) for one in simulated]
    targets = np.array([str(one.question.target) for one in simulated])
    found = np.empty((len(read), len(contrasts)))
    least, penalty = _FLAT * first.largest_trace, read[0].penalty
    bare = np.array([one.curvature for one in read]) - penalty
    curvature = divided(_lifted(bare, first.curvature_sd, least) + penalty, first.units)
    scores = _lifted(np.array([one.scores for one in read]), first.scores_sd, 0.0)
    scores = divided(scores, first.units)
    for target in set(targets.tolist()):
        those = targets == target
        matrices = inference.Matrices(curvature[those], scores[those])
        # of the evidence it takes what all releases of a calibration have in common
        solved, carried, _ = factors_of(first, matrices, contrasts, target)
        sampling = (solved * (matrices.scores @ solved)).sum(axis=1) / first.problem.n
        privacy = (first.calibration.noise.variances[:, None] * carried**2).sum(axis=1)
        found[those] = np.log(np.maximum(sampling + privacy, _SMALLEST)) / 2
    return found


def _lifted(matrices: FloatArray, sd: float, least: float) -> FloatArray:
    """Noisy matrices ``(h, d, d)`` whose eigenvalues are moved to where they may be.

    The noisy eigenvalue a becomes ``a / 2 + (a**2 / 4 + c sd**2)**.5``, the mode of a law of an
    eigenvalue x that is in proportion to ``x**c exp(-(x - a)**2 / (2 sd**2))``.
    """
    values, vectors = np.linalg.eigh(matrices)
    moved = values / 2 + np.sqrt(values**2 / 4 + _LIFT * sd**2)
    raised = np.maximum(moved, least)[:, None, :]
    return np.asarray((vectors * raised) @ np.swapaxes(vectors, 1, 2))


def _releases(sim: Simulator) -> list[mechanisms.Release]:
    """Simulated releases, in pairs with opposite noise and samples with opposite errors."""
    calibration, moments, data = sim.stages.coefficients, sim.stages.moments, sim.data
    assert moments is not None
    assert isinstance(data, SignedRows)
    problem, rows, rng = sim.problem, data.rows, np.random.default_rng(PUBLIC_SEED)
    noise, is_tilt = _opposite(calibration.noise, rng), calibration.placement == "objective"
    off = rng.multinomial(problem.n, data.counts / data.counts.sum(), _PAIRS) - data.counts
    off = np.concatenate([off, -off])
    # the sample moves the minimiser as a tilt by its gradient would, up to its share in H
    slopes = problem.loss.slope(data.margins(sim.moved)) / data.sizes
    sampled = (off * slopes) @ rows
    w = minimisers(data, problem, sampled + noise if is_tilt else sampled)
    w = w if is_tilt else w + noise
    before: dict[str, Any] = {}
    if (held := sim.stages.scale) is not None:
        before[SCALE] = mechanisms.ScaleRelease(moments_of(sim.study, held), held)
        before[LENGTHS] = sim.length and LengthRelease(sim.length, sim.stages.parts[LENGTHS])
    prior: dict[str, Any] = {} if sim.spec.prior is None else prior_of(sim.spec, problem)
    plain = mechanisms.Release(w[0], sim.stages.target, calibration, **prior).having(before)
    units = matrix_units(plain, moments)
    whole = rows if units is None else rows * units
    squares = mechanisms.vector_of(whole[:, :, None] * whole[:, None, :])
    weights = matrix_weights(moments, data.margins(w), (whole**2).sum(axis=1), data.sizes)
    values = np.hstack([(part * (data.counts + off)) @ squares for part in weights]) / problem.n
    values += _opposite(moments.noise, rng)
    return [
        replace(plain, coef=coef).having({INFERENCE: mechanisms.Moments(value, moments)})
        for coef, value in zip(w + sim.drawn, values, strict=True)
    ]


def _opposite(law: NoiseLaw, rng: np.random.Generator) -> FloatArray:
    """Draws from a law and their negatives, of shape ``(2 _PAIRS, dimension)``."""
    drawn = draw_many(law, _PAIRS, rng)
    return np.concatenate([drawn, -drawn])
