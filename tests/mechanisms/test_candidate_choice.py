"""A private choice among fits: how far scores move, the exact law of the choice, and its loss."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from privatelr.audit.enumerated_answers import law_of_flips
from privatelr.errors import GuaranteeError
from privatelr.mechanisms import candidate_choice
from privatelr.mechanisms.candidate_choice import (
    calibrate_choice,
    choose_candidate,
    total_score,
)
from privatelr.numerics import c_index
from privatelr.privacy import PureDP
from privatelr.privacy.accounting import Ledger
from privatelr.privacy.noise import SystemRandomness

SCORES = ("auc", "accuracy", "brier")
LABELS = (-1.0, 0.0, 1.0)
PREDICTIONS = {
    "auc": (0.0, 1.0, 2.0, np.nan),
    "accuracy": (-1.0, 1.0, np.nan),
    "brier": (0.0, 0.3, 1.0, np.nan),
}


def widest_move(score, n):
    """The longest interval of changes, over all labels of neighbours and all that fits predict.

    Labels are those of the data, so all fits share them, and each fit predicts what it will.
    """
    known = {}

    def total(label, prediction):
        order = sorted(zip(label, map(repr, prediction), strict=True))
        key = tuple(order)
        if key not in known:
            known[key] = total_score(score, np.array(label), np.array(prediction))
        return known[key]

    values, widest = PREDICTIONS[score], 0.0
    rest = list(itertools.combinations_with_replacement(LABELS, n - 1))
    for others, before, after in itertools.product(rest, LABELS, LABELS):
        changes = [
            total((*others, after), (*same, new)) - total((*others, before), (*same, old))
            for same in itertools.product(values, repeat=n - 1)
            for old, new in itertools.product(values, repeat=2)
        ]
        widest = max(widest, max(changes) - min(changes))
    return widest


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("score", SCORES)
def test_scores_of_all_neighbours_move_within_the_width(score, n):
    widest = widest_move(score, n)
    assert widest <= 2 + 1e-12
    if score != "auc" or n >= 3:
        assert widest > 1.99


def longest_interval(divisor):
    """Over every vertex of the proof: the rest c, the share a before, and the share b after."""
    widest = Fraction(0)
    for n in range(1, 31):
        for positive in range(1, n + 1):
            for negative in range(n - positive + 1):
                rest, g = negative * (positive - 1), divisor(n, positive, negative)
                for flipped in (0, 1):
                    h = divisor(n, positive - 1, negative + flipped)
                    length = rest * abs(1 / h - 1 / g) + flipped * (positive - 1) / h + negative / g
                    widest = max(widest, length)
                widest = max(widest, 2 * negative / g)
    return widest


def test_the_interval_of_a_ranking_is_of_length_two_for_any_classes():
    assert longest_interval(lambda n, p, q: max(Fraction(2 * n, 3), p, q)) == 2


def test_other_divisors_are_caught(monkeypatch):
    assert longest_interval(lambda n, p, q: Fraction(max(p, q, 1))) > 2.7
    assert longest_interval(lambda n, p, q: max(Fraction(n, 2), p, q)) > 2.7
    assert longest_interval(lambda n, p, q: max(Fraction(3 * n, 5), p, q)) > 2.1

    def by_pairs_alone(score, label, prediction):
        return candidate_choice.twice_concordant(label, prediction)[0] / 2

    monkeypatch.setitem(globals(), "total_score", by_pairs_alone)
    assert widest_move("auc", 4) == 6


def test_scores_are_what_their_names_say():
    rng = np.random.default_rng(5)
    label = rng.choice([-1.0, 1.0], 200)
    link = rng.normal(label, 1.5).round(1)
    positive, n1 = label > 0, np.count_nonzero(label > 0)
    divisor = max(n1, 200 - n1, 400 / 3)
    area = c_index(link, positive)
    assert total_score("auc", label, link) == pytest.approx(area * n1 * (200 - n1) / divisor)
    classes = np.where(link > 0, 1.0, -1.0)
    assert total_score("accuracy", label, classes) == np.count_nonzero(classes == label)
    probability = 1 / (1 + np.exp(-link))
    brier = np.sum((probability - positive) ** 2)
    assert total_score("brier", label, probability) == pytest.approx(200 - brier, abs=1e-4)


@pytest.mark.parametrize("score", SCORES)
def test_what_cannot_be_predicted_counts_as_for_a_coin(score):
    label = np.array([1.0, 1.0, -1.0, -1.0, 0.0])
    coin = {"auc": 0.0, "accuracy": 0.0, "brier": 0.5}[score]
    unknown = total_score(score, label, np.full(5, np.nan))
    assert unknown == total_score(score, label, np.full(5, coin))
    if score != "brier":  # whose squares favour a coin against one that is sure
        worst, best = (total_score(score, label, sign * label) for sign in (-1, 1))
        assert unknown == (worst + best) / 2


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("label", LABELS)
def test_one_class_has_a_score(score, label):
    assert np.isfinite(total_score(score, np.full(9, label), np.full(9, 1.0)))


# -- the law --------------------------------------------------------------------------------------


def loss_between(calibration, one, other):
    """Of two data sets: their labels, and a row of predictions for each fit."""
    mechanism = calibration.mechanism
    laws = [
        law_of_flips(
            np.array([total_score(calibration.score, label, row) for row in rows])
            * (mechanism.epsilon / mechanism.width)
        )
        for label, rows in (one, other)
    ]
    return float(np.abs(np.log(laws[0]) - np.log(laws[1])).max())


def random_data(rng, score, n, fits):
    label = rng.choice(LABELS, n)
    return label, rng.choice(PREDICTIONS[score], (fits, n))


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_no_tiny_case_loses_more_than_the_claim(score, epsilon):
    rng = np.random.default_rng(2)
    worst = 0.0
    for _ in range(500):
        n, fits = int(rng.integers(1, 7)), int(rng.integers(2, 5))
        label, rows = random_data(rng, score, n, fits)
        new_label, new_rows = random_data(rng, score, 1, fits)
        other = np.append(label[1:], new_label), np.hstack([rows[:, 1:], new_rows])
        calibration = calibrate_choice(n, fits, score, PureDP(epsilon))
        worst = max(worst, loss_between(calibration, (label, rows), other))
    assert 0.3 * epsilon < worst <= epsilon * (1 + 1e-9)


def worst_pair(score, n=60):
    """Two fits of which one is right and one is wrong; one record turns against both."""
    label = np.where(np.arange(n) < n // 4, 1.0, -1.0)
    rows = np.array([-label, label])
    if score == "brier":
        rows = (1 + rows) / 2
    other = rows.copy()
    other[:, 0] = (1, 0) if score == "brier" else (2, -2)
    if score == "accuracy":
        other = np.sign(other)
    return (label, rows), (label, other)


@pytest.mark.parametrize("score", ["auc", "accuracy", "brier"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_worst_pair_loses_nearly_the_claim(score, epsilon):
    calibration = calibrate_choice(60, 2, score, PureDP(epsilon))
    loss = loss_between(calibration, *worst_pair(score))
    assert 0.9 * epsilon <= loss <= epsilon * (1 + 1e-9)


def test_a_halved_width_is_caught(monkeypatch):
    real = candidate_choice.ChoiceCalibration.mechanism.fget
    monkeypatch.setattr(
        candidate_choice.ChoiceCalibration,
        "mechanism",
        property(lambda self: replace(real(self), width=real(self).width / 2)),
    )
    calibration = calibrate_choice(60, 2, "accuracy", PureDP(1.0))
    assert loss_between(calibration, *worst_pair("accuracy")) > 1.8


def test_draws_have_the_law_that_was_enumerated():
    calibration = calibrate_choice(20, 3, "accuracy", PureDP(0.8))
    scores, source = np.array([10.0, 13.0, 14.5]), SystemRandomness()
    mechanism = calibration.mechanism
    wanted = law_of_flips(scores * mechanism.epsilon / mechanism.width)
    drawn = [choose_candidate(scores, calibration, source) for _ in range(4000)]
    assert stats.chisquare(np.bincount(drawn, minlength=3), wanted * 4000).pvalue > 1e-6


@pytest.mark.parametrize("candidates", [2, 4])
def test_a_fit_that_is_worse_by_the_resolution_is_hardly_chosen(candidates):
    calibration = calibrate_choice(1000, candidates, "accuracy", PureDP(0.5))
    gap = calibration.resolution(0.05) * 1000
    scores = np.append(np.full(candidates - 1, 600 - gap), 600.0)
    mechanism = calibration.mechanism
    chances = law_of_flips(scores * mechanism.epsilon / mechanism.width)
    assert 0.03 < chances[:-1].sum() <= 0.05 * (1 + 1e-9)


@pytest.mark.parametrize("prevalence", [0.5, 0.2])
def test_the_resolution_of_areas_is_in_units_of_areas(prevalence):
    n = 1000
    label = np.where(np.arange(n) < prevalence * n, 1.0, -1.0)
    link = np.random.default_rng(1).normal(label, 2)
    other = np.random.default_rng(2).normal(label, 2)
    area = c_index(link, label > 0) - c_index(other, label > 0)
    records = total_score("auc", label, link) - total_score("auc", label, other)
    by_area = calibrate_choice(n, 2, "auc", PureDP(1.0)).resolution(0.05, prevalence)
    by_records = calibrate_choice(n, 2, "accuracy", PureDP(1.0)).resolution(0.05) * n
    assert area / by_area == pytest.approx(records / by_records)


def test_the_price_is_what_a_ledger_is_charged():
    calibration, ledger = calibrate_choice(10, 2, "auc", PureDP(0.3)), Ledger(0.3)
    ledger.charge(calibration.target, calibration.events, "choice")
    assert ledger.spent() == pytest.approx(0.3)


def test_other_numbers_of_fits_are_refused():
    with pytest.raises(GuaranteeError, match="two fits"):
        calibrate_choice(10, 1, "auc", PureDP(1.0))
    with pytest.raises(GuaranteeError, match="one record"):
        calibrate_choice(0, 2, "auc", PureDP(1.0))
    calibration = calibrate_choice(10, 3, "auc", PureDP(1.0))
    with pytest.raises(GuaranteeError, match="among 3"):
        choose_candidate(np.zeros(2), calibration, SystemRandomness())
