"""A private threshold: the exact law of tiny cases, its privacy loss, and how well it chooses."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, special, stats

from privatelr.audit.enumeration.answers import law_of_flips, log_law_of_threshold
from privatelr.errors import GuaranteeError
from privatelr.mechanisms import threshold_choice
from privatelr.mechanisms.score_histogram import ScoreScale, cells_of, counts_in
from privatelr.mechanisms.threshold_choice import (
    THRESHOLDS,
    calibrate_threshold,
    choose_threshold,
    threshold_scores,
)
from privatelr.privacy import PureDP
from privatelr.privacy.accounting import Ledger
from privatelr.privacy.noise import SeededRandomness, SystemRandomness
from privatelr.privacy.noise.exponential_mechanism import PermuteAndFlip

RULES = ("youden", "topleft")


def loss_between(calibration, one, other, known=None):
    known = {} if known is None else known
    for counts in (one, other):
        if tuple(counts) not in known:
            known[tuple(counts)] = log_law_of_threshold(calibration, np.array(counts, dtype=float))
    laws = [known[tuple(counts)] for counts in (one, other)]
    return float(np.abs(laws[0] - laws[1]).max())


def tiny_pairs(n=3, bins=3):
    for data in itertools.combinations_with_replacement(range(2 * bins + 1), n):
        for place, cell in itertools.product(range(n), range(2 * bins + 1)):
            other = [*data[:place], cell, *data[place + 1 :]]
            size = {"minlength": 2 * bins + 1}
            yield np.bincount(data, **size), np.bincount(other, **size)


def worst_pair(n=60):
    """Classes far apart but for one positive record, which becomes negative."""
    half = n // 2
    return [0, half, 0, 0, 1, n - half - 1, 0], [0, half + 1, 0, 0, 0, n - half - 1, 0]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_no_tiny_case_loses_more_than_the_claim(rule, epsilon):
    calibration = calibrate_threshold(3, PureDP(epsilon), rule)
    known = {}
    worst = max(loss_between(calibration, *pair, known) for pair in tiny_pairs())
    assert 0.2 * epsilon < worst <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_the_worst_pair_loses_nearly_the_claim(rule, epsilon):
    one, other = worst_pair()
    calibration = calibrate_threshold(sum(one), PureDP(epsilon), rule)
    assert 0.9 * epsilon <= loss_between(calibration, one, other) <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_a_width_that_is_a_little_too_small_is_caught(rule, monkeypatch):
    one, other = worst_pair()
    real = threshold_choice.ThresholdCalibration.mechanism

    def narrow(self, positive):
        found = real(self, positive)
        return replace(found, width=0.93 * found.width)

    monkeypatch.setattr(threshold_choice.ThresholdCalibration, "mechanism", narrow)
    calibration = calibrate_threshold(sum(one), PureDP(1.0), rule)
    assert loss_between(calibration, one, other) > 1.03


@pytest.mark.parametrize("planted", ["width", "count", "choice"])
def test_planted_bugs_are_caught(planted, monkeypatch):
    one, other = worst_pair()
    calibration = calibrate_threshold(sum(one), PureDP(1.0), "youden")
    if planted == "width":  # as if only one class moved
        real = threshold_choice.ThresholdCalibration.mechanism
        monkeypatch.setattr(
            threshold_choice.ThresholdCalibration,
            "mechanism",
            lambda self, positive: replace(real(self, positive), width=self.n / 2),
        )
    else:
        part = getattr(calibration, planted)
        calibration = replace(calibration, **{planted: PureDP(part.epsilon + 0.9)})
    assert loss_between(calibration, one, other) > 1.2


@pytest.mark.parametrize("rule", RULES)
def test_scores_move_within_the_width(rule):
    rng = np.random.default_rng(0)
    for _ in range(300):
        n, bins = int(rng.integers(2, 12)), 4
        cells = rng.integers(0, 2 * bins + 1, n)
        other = cells.copy()
        other[0] = rng.integers(0, 2 * bins + 1)
        positive = int(rng.integers(1, n))
        calibration = calibrate_threshold(n, PureDP(1.0), rule)
        both = [
            threshold_scores(
                np.bincount(c, minlength=2 * bins + 1).astype(float), positive, n, rule
            )
            for c in (cells, other)
        ]
        change = np.append(both[1] - both[0], 0.0)  # a score that no record reaches stays
        assert np.ptp(change) <= calibration.mechanism(positive).width
    flip = [np.zeros(9), np.zeros(9)]
    flip[0][7], flip[1][3] = 1.0, 1.0
    widest = [threshold_scores(c, 1, 2, "youden") for c in flip]
    assert np.abs(widest[1] - widest[0]).max() == 2


def test_permute_and_flip_is_what_is_drawn():
    mechanism, scores = PermuteAndFlip(1.0, 1.0), np.array([0.0, 1.0, 2.5, 2.0])
    wanted = law_of_flips(scores)
    by_integral = [
        integrate.quad(
            lambda e, i=i: (
                math.exp(-e)
                * np.prod([-np.expm1(-max(e + scores[i] - q, 0)) for q in np.delete(scores, i)])
            ),
            0,
            60,
            points=[0.5, 1.0, 1.5, 2.0, 2.5],
        )[0]
        for i in range(4)
    ]
    assert by_integral == pytest.approx(wanted, abs=1e-6)
    randomness = SystemRandomness()
    seen = np.bincount([mechanism.choose(scores, randomness) for _ in range(4000)], minlength=4)
    assert stats.chisquare(seen, wanted * 4000).pvalue > 1e-6


def test_draws_have_the_law_that_was_enumerated():
    counts = np.array([2, 1, 0, 1, 0, 3, 1])
    calibration = calibrate_threshold(8, PureDP(2.0), "youden")
    wanted = np.exp(log_law_of_threshold(calibration, counts * 1.0)).sum(axis=0)
    randomness = SystemRandomness()
    drawn = [choose_threshold(counts * 1.0, calibration, randomness) for _ in range(3000)]
    seen = np.bincount(drawn, minlength=2)
    assert stats.chisquare(seen, wanted / wanted.sum() * 3000).pvalue > 1e-6


def test_parts_add_up_and_a_ledger_takes_them():
    calibration = calibrate_threshold(100, PureDP(0.7), "youden")
    assert calibration.count.epsilon + calibration.choice.epsilon == pytest.approx(0.7)
    ledger = Ledger(0.7)
    ledger.charge(calibration.target, calibration.events, "threshold")
    assert ledger.spent() == pytest.approx(0.7)


def test_too_few_or_other_records_are_refused():
    with pytest.raises(GuaranteeError, match="two"):
        calibrate_threshold(1, PureDP(1.0), "youden")
    calibration = calibrate_threshold(5, PureDP(1.0), "youden")
    with pytest.raises(GuaranteeError, match="n=5"):
        choose_threshold(counts_in(np.zeros(4, dtype=int), 3), calibration, SeededRandomness(1))


@pytest.mark.parametrize("label", [-1.0, 0.0, 1.0])
def test_one_class_takes_the_same_path(label):
    cells = cells_of(
        np.linspace(-1, 1, 50), np.full(50, label), ScoreScale(0, 1).edges(THRESHOLDS + 1)
    )
    calibration = calibrate_threshold(50, PureDP(1.0), "topleft")
    counts = counts_in(cells, THRESHOLDS + 1)
    assert 0 <= choose_threshold(counts, calibration, SystemRandomness()) < THRESHOLDS


def regrets(rule, draws):
    """Population regrets of many thresholds at n epsilon = 500: of Youden's J, and of the corner.

    The numbers are seeded, and the draws so many that their mean is known to .0003: a seed decides
    nothing.
    """
    rng, edges = np.random.default_rng(4), ScoreScale(0.0, 1.0).edges(THRESHOLDS + 1)
    grid = np.linspace(-12, 12, 24_001)
    density, share = np.exp(-(grid**2) / 4.5), special.expit(grid)

    def worth(cut):
        high = grid > cut
        hit = (density * share * high).sum() / (density * share).sum()
        alarm = (density * (1 - share) * high).sum() / (density * (1 - share)).sum()
        return hit - alarm if rule == "youden" else -math.hypot(1 - hit, alarm)

    calibration, worths = calibrate_threshold(5000, PureDP(0.1), rule), [worth(e) for e in edges]
    found = []
    for seed in range(draws):
        link = rng.normal(0, 1.5, 5000)
        label = np.where(rng.random(5000) < special.expit(link), 1.0, -1.0)
        counts = counts_in(cells_of(link, label, edges), THRESHOLDS + 1)
        found.append(worths[choose_threshold(counts, calibration, SeededRandomness(seed))])
    return max(worth(cut) for cut in np.linspace(-1, 1, 41)) - np.array(found)


@pytest.mark.parametrize("rule", RULES)
def test_the_threshold_is_a_good_one(rule):
    found = regrets(rule, 1500)
    standard_error = found.std() / math.sqrt(len(found))
    assert standard_error < 0.0003
    assert found.mean() + 6 * standard_error <= 0.01


@pytest.mark.parametrize("rule", RULES)
def test_a_mechanism_that_wastes_half_of_its_price_is_not_as_good(rule, monkeypatch):
    """That the test above can fail: for a width as of scores that move both ways."""
    real = threshold_choice.ThresholdCalibration.mechanism

    def wide(self, positive):
        found = real(self, positive)
        return replace(found, width=2 * found.width)

    monkeypatch.setattr(threshold_choice.ThresholdCalibration, "mechanism", wide)
    assert regrets(rule, 1500).mean() > 0.01
