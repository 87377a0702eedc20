"""The lengths of the intervals that studies will report, by simulated releases.

Each simulated release has noise and a sample of its own, and is read by the functions that read
real ones. Intervals of a few releases are computed. Those of the others follow from standard errors
that cost little and vary with the release as intervals do.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from privatelr import inference, mechanisms
from privatelr.audit.density.exact import matrix_weights, minimisers
from privatelr.audit.density.pairs import SignedRows
from privatelr.design import prior_of
from privatelr.inference import PUBLIC_SEED, Mode, Question
from privatelr.inference.intervals import factors_of
from privatelr.planning.forecast import Errors, Simulator, errors, moments_of, simulate
from privatelr.privacy.noise import NoiseLaw, draw_many
from privatelr.types import FloatArray, IntArray

_PAIRS = 40
"""This number of pairs of releases with opposite noise is simulated."""
_NEAR_ENOUGH = 0.05
"""Standard deviation of a log length because intervals are computed for a part of them only."""
_FEW, MOST, _ENTRIES = 5, 16, 100
"""They are computed for the first number of them, and for more, up to the second, if what they
leave over needs it, but for d columns up to the third over d."""
_LIFT = 0.5
"""What noise adds to small eigenvalues, in squares of its deviation; see `_lifted`."""
_SLOPES = (0.25, 3.0)
"""Limits to the power of an approximate length that an interval is in proportion to."""
ASKED = Question(target=None)
"""What the intervals of a fit answer by default; a release decides on their mode and target."""
TYPICAL, NEARLY_ALL = 0.5, 0.9
"""Shares of studies: half of them, for what is typical, and those that a pessimist counts on."""
_PLANS = 16
"""What was computed for so many plans is kept."""
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
        otherwise.
    widest : float
        The length that so many studies reach in all their intervals.
    mode, target : str
        Those of the intervals with these lengths.
    sturdy : float
        The share of simulated releases whose intervals are not conservative.
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


def intervals(
    sim: Simulator, rows: Sequence[int], share: float = TYPICAL, most: int = MOST
) -> Intervals:
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
    most
        Intervals of so many releases are computed at most.
    """
    releases, contrasts = _releases(sim), sim.units[list(rows)]
    asked, ratios, thin = zip(*map(_read, releases), strict=True)
    sturdy = np.array([one.mode != "conservative" for one in asked])
    short, likely = float(sturdy.mean()), float(sturdy.mean()) >= share
    having = np.flatnonzero(sturdy == likely)
    rank = share / short if likely else (share - short) / (1 - short)
    near = np.array([_log_errors(releases[at], contrasts, asked[at].target) for at in having])

    def log_lengths(places: IntArray) -> FloatArray:
        found = [inference.infer(releases[at], contrasts, asked[at]) for at in having[places]]
        return np.log([np.maximum(one.upper - one.lower, _SMALLEST) for one in found])

    affordable = int(np.clip(_ENTRIES / sim.problem.d, _FEW, most))
    lengths = _lengths_of_all(near, log_lengths, affordable).reshape(-1, len(contrasts))
    targets = Counter(str(asked[at].target) for at in having)
    return Intervals(
        width=np.exp(np.quantile(lengths, rank, axis=0)),
        widest=math.exp(np.quantile(lengths.max(axis=1), rank)),
        mode=asked[having[0]].mode,
        target=targets.most_common(1)[0][0],
        sturdy=short,
        noise_to_signal=math.exp(np.median(np.log(np.maximum(ratios, _SMALLEST)))),
        thin=_mostly(thin),
    )


@lru_cache(maxsize=_PLANS)
def expected(sim: Simulator) -> Intervals:
    """The lengths of all intervals of a study that a half of the studies reach."""
    return intervals(sim, range(len(sim.study.terms)))


@lru_cache(maxsize=_PLANS)
def pessimistic(sim: Simulator) -> Intervals:
    """What nine of ten studies reach under pessimistic guesses, at least what is expected."""
    doubtful = sim.study.worse or sim.study.population
    usual, worst = expected(sim), simulate(replace(sim.study, population=doubtful))
    found = intervals(worst, range(len(sim.study.terms)), NEARLY_ALL)
    return replace(found, width=np.maximum(found.width, usual.width))


@lru_cache(maxsize=_PLANS)
def expected_errors(sim: Simulator) -> Errors:
    """The errors of the coefficients for the target of their intervals."""
    if sim.stages.moments is None:
        return errors(sim, target="penalised")
    return errors(sim, target=expected(sim).target)


def _read(release: mechanisms.Release) -> tuple[Question, float, list[int]]:
    """What intervals of a release answer, its ratio of noise to signal, and its thin numbers."""
    asked, ratio = inference.answerable(release, ASKED), inference.quality(release).noise_to_signal
    return asked, ratio, inference.thin_numbers(release.scale, inference.evidence_of(release))


def _mostly(places: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Those that more than half of the sequences hold."""
    found = Counter(place for each in places for place in each)
    return tuple(sorted(place for place, count in found.items() if 2 * count > len(places)))


def nonconservative_share(sim: Simulator) -> float:
    """The share of simulated releases whose intervals are not conservative."""
    modes = [inference.answerable(release, ASKED).mode for release in _releases(sim)]
    return float(np.mean([mode != "conservative" for mode in modes]))


def _lengths_of_all(
    near: FloatArray, log_lengths: Callable[[IntArray], FloatArray], most: int
) -> FloatArray:
    """Log lengths ``(h, k, m)`` of h releases, of each with what is left over of k of them.

    Parameters
    ----------
    near : ndarray of shape (h, m)
        Approximate log lengths.
    log_lengths : callable
        Returns the log lengths ``(k, m)`` of k releases, given their places.
    most
        The largest k.
    """
    order = np.argsort(near.mean(axis=1), kind="stable")
    places = order[_spread_evenly(_FEW, len(order))]
    each = log_lengths(places)
    slope = _slope(near[places], each)
    sd = float((each - slope * near[places]).std(axis=0).mean())
    more = int(min((sd / _NEAR_ENOUGH) ** 2, most)) - len(places)
    others = order[~np.isin(order, places)]
    if more > 0 and len(others):
        added = others[_spread_evenly(more, len(others))]
        places, each = np.append(places, added), np.concatenate([each, log_lengths(added)])
        slope = _slope(near[places], each)
    return np.asarray(slope * near[:, None] + each - slope * near[places])


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


def _log_errors(
    release: mechanisms.Release, contrasts: FloatArray, target: str | None
) -> FloatArray:
    """Log standard errors ``(m,)`` of a target at one pair of matrices, near the mean of them."""
    evidence = inference.evidence_of(release)
    least, identity = _FLAT * evidence.largest_trace, np.eye(len(evidence.w))
    bare = _lifted(evidence.curvature - evidence.floor * identity, evidence.curvature_sd, least)
    curvature = (bare + evidence.floor * identity)[None]
    scores = _lifted(evidence.scores, evidence.scores_sd, 0.0)[None]
    matrices = inference.Matrices(curvature, scores)
    solved, carried, _ = factors_of(evidence, matrices, contrasts, target)
    sampling = np.einsum("dm,de,em->m", solved[0], scores[0], solved[0]) / evidence.problem.n
    privacy = evidence.calibration.noise.variances @ carried[0] ** 2
    return np.asarray(np.log(np.maximum(sampling + privacy, _SMALLEST)) / 2)


def _lifted(matrix: FloatArray, sd: float, least: float) -> FloatArray:
    """A noisy matrix ``(d, d)`` whose eigenvalues are moved to where they may be.

    The noisy eigenvalue a becomes ``a / 2 + (a**2 / 4 + c sd**2)**.5``, the mode of a law of an
    eigenvalue x that is in proportion to ``x**c exp(-(x - a)**2 / (2 sd**2))``.
    """
    values, vectors = np.linalg.eigh(matrix)
    moved = values / 2 + np.sqrt(values**2 / 4 + _LIFT * sd**2)
    return np.asarray((vectors * np.maximum(moved, least)) @ vectors.T)


def _releases(sim: Simulator) -> list[mechanisms.Release]:
    """Simulated releases, in pairs with opposite noise and samples with opposite errors."""
    calibration, moments = sim.stages.coefficients, sim.stages.moments
    assert moments is not None
    assert isinstance(sim.data, SignedRows)
    problem, rows, rng = sim.problem, sim.data.rows, np.random.default_rng(PUBLIC_SEED)
    sizes = sim.data.sizes
    noise, is_tilt = _opposite(calibration.noise, rng), calibration.placement == "objective"
    shares = sim.data.counts / sim.data.counts.sum()
    off = rng.multinomial(problem.n, shares, _PAIRS) - sim.data.counts
    off = np.concatenate([off, -off])
    # the sample moves the minimiser as a tilt by its gradient would, up to its share in H
    slopes = problem.loss.slope(sim.data.margins(sim.moved)) / sizes
    sampled = (off * slopes) @ rows
    w = minimisers(sim.data, problem, sampled + noise if is_tilt else sampled)
    w = w if is_tilt else w + noise
    squares = mechanisms.vector_of(rows[:, :, None] * rows[:, None, :])
    weights = matrix_weights(moments, sim.data.margins(w), (rows**2).sum(axis=1), sizes)
    values = np.hstack([(part * (sim.data.counts + off)) @ squares for part in weights]) / problem.n
    values += _opposite(moments.noise, rng)
    noisy, held = [mechanisms.Moments(value, moments) for value in values], sim.stages.scale
    scale = None if held is None else mechanisms.ScaleRelease(moments_of(sim.study, held), held)
    prior: dict[str, Any] = {}
    if sim.spec.prior is not None:
        prior = prior_of(sim.spec, problem)
    return [
        mechanisms.Release(coef, sim.stages.target, calibration, moments=one, scale=scale, **prior)
        for coef, one in zip(w + sim.drawn, noisy, strict=True)
    ]


def _opposite(law: NoiseLaw, rng: np.random.Generator) -> FloatArray:
    """Draws from a law and their negatives, of shape ``(2 _PAIRS, dimension)``."""
    drawn = draw_many(law, _PAIRS, rng)
    return np.concatenate([drawn, -drawn])
