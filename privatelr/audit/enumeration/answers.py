"""Private answers about fits: the exact laws of counts and choices of tiny cases."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
from scipy import stats

from privatelr.audit.checks import Check, claims_of_size, guarded, largest, short
from privatelr.audit.density.loss import claimed_number
from privatelr.audit.enumeration.discrete import epsilon_of_outcomes
from privatelr.mechanisms import candidate_choice
from privatelr.mechanisms.candidate_choice import ScoreName, calibrate_choice
from privatelr.mechanisms.score_histogram import calibrate_histogram, counts_in, release_histogram
from privatelr.privacy import ApproxDP, Promise, PureDP
from privatelr.privacy.noise import NoiseLaw, SystemRandomness
from privatelr.privacy.noise.exponential_mechanism import PermuteAndFlip
from privatelr.privacy.noise.gaussian_delta import log_delta
from privatelr.types import FloatArray

PART = "answers"
_RECORDS = 60
_NEAR = np.arange(-6, 7)
"""Released counts less the true one, over which the loss of a count is enumerated."""
_SCORES: tuple[ScoreName, ...] = ("auc", "accuracy", "brier")
_Scored = tuple[FloatArray, FloatArray]
"""Outcomes ``(n,)``, and the predictions ``(candidates, n)`` of several fits."""
_DRAWN, _CRITICAL = 4000, 6.0
"""This number of real choices is made, and their frequencies may be off by this number of standard
deviations; counts are drawn about as often."""


def audit_answers(rng: np.random.Generator, epsilon: float, cases: int = 6) -> Iterator[Check]:
    """Checks of score histograms and choices among fits."""
    for claim in claims_of_size(epsilon):
        yield from guarded(PART, f"score counts, {short(claim)}", _counts, claim)
    for score in _SCORES:
        yield from guarded(PART, f"choice of a fit, {score}", _choice, score, rng, epsilon, cases)
    yield from guarded(PART, "draws of counts", _drawn_counts, epsilon)
    yield from guarded(PART, "one choice by permute-and-flip", _one_choice)


# -- counts ---------------------------------------------------------------------------------------


def _counts(claim: Promise) -> Iterator[Check]:
    """The loss of the two counts that move when one record is replaced."""
    made = calibrate_histogram(_RECORDS, claim)
    subject = f"score counts, {short(claim)}: loss of two counts"
    if not made.noise.is_pure:
        mu = math.hypot(1, -1) / made.noise.scale
        found = mu**2 / 2
        if isinstance(claim, ApproxDP):
            found = math.exp(log_delta(claim.epsilon, mu))
        yield Check(PART, subject, found, claimed_number(claim))
        return
    assert isinstance(made.proven, PureDP)
    here, moved = _log_law(made.noise, 0), _log_law(made.noise, 1)
    yield Check(PART, subject, 2 * float(np.abs(here - moved).max()), made.proven.epsilon)


def _log_law(noise: NoiseLaw, true: int) -> FloatArray:
    """Log probabilities of a rounded count, by the tails on the side where they are small."""
    tail = stats.laplace(scale=noise.scale)
    upper, lower = _NEAR + 0.5 - true, _NEAR - 0.5 - true
    by_above, by_below = tail.sf(lower) - tail.sf(upper), tail.cdf(upper) - tail.cdf(lower)
    return np.asarray(np.log(np.where(true < _NEAR, by_above, by_below)))


def _drawn_counts(epsilon: float) -> Iterator[Check]:
    made = calibrate_histogram(_RECORDS, PureDP(max(epsilon, 0.5)))
    cells, source = np.zeros(_RECORDS, dtype=np.intp), SystemRandomness()
    exact = counts_in(cells, made.bins)
    rounds = _DRAWN // made.noise.dimension
    drawn = [release_histogram(exact, made, source.draw(made.noise)) - exact for _ in range(rounds)]
    off = np.concatenate(drawn)
    chances = np.exp(_log_law(made.noise, 0))
    counts = np.array([np.count_nonzero(off == number) for number in _NEAR], dtype=np.float64)
    yield _deviation("draws of counts: deviations from their chances", counts, chances, len(off))


def _deviation(subject: str, counts: FloatArray, chances: FloatArray, n: int) -> Check:
    off = np.abs(counts - n * chances) / np.sqrt(n * chances * (1 - chances))
    return Check(PART, subject, float(off.max()), _CRITICAL)


# -- fits -----------------------------------------------------------------------------------------


def law_of_flips(exponents: FloatArray) -> FloatArray:
    """Probabilities of permute-and-flip, over all orders in which options are looked at."""
    chances = np.exp(exponents - exponents.max())
    found = np.zeros(len(chances))
    for order in itertools.permutations(range(len(chances))):
        left = 1.0 / math.factorial(len(chances))
        for option in order:
            found[option] += left * chances[option]
            left *= 1 - chances[option]
    return found


def _choice(
    score: ScoreName, rng: np.random.Generator, epsilon: float, cases: int
) -> Iterator[Check]:
    """The loss over all fits: of pairs that move scores the furthest, and of random tiny ones."""
    apart = _turned(score, np.where(np.arange(_RECORDS) < _RECORDS // 4, 1.0, -1.0), 1.0)
    flipped = _turned(score, np.where(np.arange(_RECORDS) < _RECORDS // 2, 1.0, -1.0), -1.0)
    worst = 0.0
    for one, other in (apart, flipped, *(_random_pair(score, rng) for _ in range(8 * cases))):
        first, second = (_log_law_of_choice(score, side, epsilon) for side in (one, other))
        worst = largest((worst, epsilon_of_outcomes(first, second, 0.0)))
    yield Check(PART, f"choice of a fit, {score}: loss over all fits", worst, epsilon)


def _log_law_of_choice(score: ScoreName, data: _Scored, epsilon: float) -> FloatArray:
    label, predictions = data
    made = calibrate_choice(len(label), len(predictions), score, PureDP(epsilon))
    totals = [candidate_choice.total_score(score, label, each) for each in predictions]
    mechanism = made.mechanism
    return np.log(law_of_flips(mechanism.epsilon * np.array(totals) / mechanism.width))


def _turned(score: ScoreName, label: FloatArray, after: float) -> tuple[_Scored, _Scored]:
    """A fit that is always wrong, one that is always right, and a positive record at the start.

    It is replaced by one with the outcome `after`, about which the first fit is right, by as much
    as there is to gain, and the second one is wrong.
    """
    before, turned = np.array([-label, label]), np.array([-label, label])
    turned[:, 0] = 2 * after, -2 * after
    if score != "auc":
        turned = np.sign(turned)
    if score == "brier":
        before, turned = (1 + before) / 2, (1 + turned) / 2
    return (label, before), (np.append(after, label[1:]), turned)


def _random_pair(score: ScoreName, rng: np.random.Generator) -> tuple[_Scored, _Scored]:
    known = {"auc": [0.0, 1.0, 2.0], "accuracy": [-1.0, 1.0], "brier": [0.0, 0.3, 1.0]}[score]
    n, fits = int(rng.integers(1, 7)), int(rng.integers(2, 5))
    label = rng.choice([-1.0, 0.0, 1.0], n + 1)
    rows = rng.choice([*known, np.nan], (fits, n + 1))
    return (label[1:], rows[:, 1:]), (label[:-1], rows[:, :-1])


# -- draws ----------------------------------------------------------------------------------------


def _one_choice() -> Iterator[Check]:
    """Compare frequencies of real choices with their probabilities, in standard deviations."""
    choice, scores = PermuteAndFlip(2.0, 1.0), np.array([0.0, 0.4, 1.0])
    source = SystemRandomness()
    chosen = [choice.choose(scores, source) for _ in range(_DRAWN)]
    counts = np.bincount(chosen, minlength=3).astype(np.float64)
    subject = "permute-and-flip: deviations from its chances, three options"
    yield _deviation(subject, counts, law_of_flips(2.0 * scores), _DRAWN)
