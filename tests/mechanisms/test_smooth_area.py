"""A private area by its smooth sensitivity: its bound, its exact losses, and planted bugs."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from privatelr.audit.enumeration.areas import log_law_of_area, loss_of_areas, turn_of
from privatelr.errors import GuaranteeError
from privatelr.mechanisms import smooth_area
from privatelr.mechanisms.score_histogram import calibrate_histogram
from privatelr.mechanisms.smooth_area import (
    AreaRelease,
    calibrate_area,
    exact_area,
    is_better_than_counts,
    release_area,
    smooth_sensitivity,
)
from privatelr.numerics import c_index
from privatelr.privacy import PureDP
from privatelr.privacy.accounting import Ledger
from privatelr.privacy.noise import SeededRandomness, SystemRandomness, draw_many
from privatelr.privacy.noise.student_noise import SHIFT_LOSS, STRETCH_LOSS, StudentNoise

RECORDS = [*itertools.product((0.0, 1.0, 2.0), (-1.0, 1.0)), (1.0, 0.0)]
"""Scores and labels; a label of 0 is that of a record that cannot be used."""


def area_of(data):
    score, label = (np.array(column) for column in zip(*data, strict=True))
    return exact_area(score, label)


def tiny_pairs(n):
    """All datasets of n records, as multisets, with all of their neighbours."""
    for data in itertools.combinations_with_replacement(RECORDS, n):
        for place, record in itertools.product(range(n), RECORDS):
            yield data, (*data[:place], record, *data[place + 1 :])


# -- the bound ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_no_record_moves_an_area_by_more_than_the_bound(n):
    """For any beta, as the first term does not depend on it; and nearly so far."""
    known, closest = {}, 0.0
    for data, other in tiny_pairs(n):
        for one in (data, other):
            if one not in known:
                known[one] = area_of(one)
        (area, p, q), (moved, _, _) = known[data], known[other]
        bound = smooth_sensitivity(min(p, q), 50.0)
        assert abs(area - moved) <= bound
        if min(p, q) > 1:
            closest = max(closest, abs(area - moved) / bound)
    assert n < 4 or closest == pytest.approx(1.0)


def test_the_bound_of_the_note_is_twice_as_large_for_classes_of_one_size():
    """privacy.md 7 adds what a record takes from one class and gives to the other."""
    p = q = 500
    assert 1 / p + 1 / (q + 1) > 1.99 * smooth_sensitivity(p, 1.0)


@pytest.mark.parametrize("beta", [1e-4, 0.01, 0.3, 3.0])
def test_the_bound_changes_by_the_factor_that_is_paid(beta):
    sizes = [*range(400), 10**4, 10**6, 10**8]
    for smaller in sizes:
        ratio = smooth_sensitivity(smaller, beta) / smooth_sensitivity(smaller + 1, beta)
        assert 1 <= ratio <= math.exp(beta) * (1 + 2.0**-42)
        terms = [
            math.exp(-beta * k) * min(1.0, 1 / max(smaller - k, 1))
            for k in range(min(smaller, 400))
        ]
        assert smooth_sensitivity(smaller, beta) >= max(terms, default=1.0)


def test_areas_are_those_of_usable_records():
    rng = np.random.default_rng(1)
    link, label = rng.normal(size=50).round(1), rng.choice([-1.0, 0.0, 1.0], 50)
    link[:5] = np.nan
    area, p, q = exact_area(link, label)
    kept = (label != 0) & ~np.isnan(link)
    assert (p, q) == tuple(np.count_nonzero(kept & (label == side)) for side in (1, -1))
    assert area == pytest.approx(c_index(link[kept], label[kept] > 0))
    high, low = link[kept & (label > 0)].round(1), link[kept & (label < 0)].round(1)
    pairs = sum(Fraction(int(a > b) * 2 + int(a == b), 2) for a in high for b in low)
    assert area == float(pairs / (p * q))
    assert exact_area(link, np.ones(50))[0] == 0.5


# -- the noise ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [0.03, 0.5, 2.0])
def test_student_noise_hides_a_shift_and_a_stretch(shift):
    x, law = np.linspace(-60, 60, 200_001), stats.t(4)
    moved = np.abs(law.logpdf(x) - law.logpdf(x - shift)).max()
    assert 0.6 * SHIFT_LOSS * shift < moved <= SHIFT_LOSS * shift
    for stretch in (shift, -shift):
        scale = math.exp(stretch)
        wider = np.abs(law.logpdf(x) - law.logpdf(x / scale) + stretch).max()
        assert 0.6 * STRETCH_LOSS * shift < wider <= STRETCH_LOSS * shift


def test_student_noise_has_its_law():
    drawn = draw_many(StudentNoise(2.0), 200_000, np.random.default_rng(1))[:, 0]
    assert stats.kstest(drawn / 2.0, stats.t(4).cdf).pvalue > 1e-3
    assert StudentNoise(2.0).sd == pytest.approx(2.0 * stats.t(4).std())


def test_draws_of_the_real_source_have_it_too():
    source, law = SystemRandomness(), StudentNoise(1.0)
    drawn = np.array([source.draw(law).nearest()[0] for _ in range(3000)])
    assert stats.kstest(drawn, stats.t(4).cdf).pvalue > 1e-6


# -- the loss -------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.3, 4.0])
def test_no_tiny_case_loses_more_than_the_claim(epsilon):
    calibration, known, worst = calibrate_area(4, PureDP(epsilon)), {}, 0.0
    for data, other in tiny_pairs(4):
        pair = tuple(sorted(area_of(one) for one in (data, other)))
        if pair[0] != pair[1] and pair not in known:
            known[pair] = loss_of_areas(calibration, *pair)
        worst = max(worst, known.get(pair, 0.0))
    assert 0.5 * epsilon < worst <= epsilon * (1 + 1e-9)


def worst_pair(half):
    """A perfect order, and a positive record that becomes a negative one above all others."""
    return (1.0, half, half), (1 - 1 / (half + 1), half - 1, half + 1)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_the_worst_pair_loses_most_of_the_claim(epsilon):
    half = 500_000
    score = np.concatenate([np.full(half, 1.0), np.full(half, 0.0)])
    label = np.where(score > 0, 1.0, -1.0)
    other_score, other_label = score.copy(), label.copy()
    other_score[0], other_label[0] = 2.0, -1.0
    one, other = exact_area(score, label), exact_area(other_score, other_label)
    assert one == worst_pair(half)[0]
    assert other == pytest.approx(worst_pair(half)[1])
    calibration = calibrate_area(2 * half, PureDP(epsilon))
    assert 0.9 * epsilon < loss_of_areas(calibration, one, other) <= epsilon * (1 + 1e-9)


def test_released_areas_have_the_law_that_was_enumerated():
    score, label = np.arange(12.0), np.array([-1.0, -1, -1, 1, -1, 1, -1, 1, 1, -1, 1, 1])
    calibration, source = calibrate_area(12, PureDP(30.0), 0.5), SystemRandomness()
    found = [release_area(score, label, calibration, source) for _ in range(1500)]
    area, p, q = exact_area(score, label)
    law = stats.t(4, loc=area, scale=calibration.noise(6).scale)
    inside = np.array([one.area for one in found if 0 < one.area < 1])
    assert len(inside) > 300
    spread = law.cdf(1) - law.cdf(0)
    assert stats.kstest((law.cdf(inside) - law.cdf(0)) / spread, "uniform").pvalue > 1e-6
    assert np.all(inside % smooth_area.AREA_GRID == 0)
    assert abs(np.mean([one.positive for one in found]) - p) < 0.5
    assert abs(np.mean([one.negative for one in found]) - q) < 0.5
    at = np.linspace(-1, 2, 7)
    assert log_law_of_area(calibration, (area, p, q), at) == pytest.approx(law.logpdf(at))


def pairs_and_prices(epsilon=1.0):
    """Pairs of small and large classes, and of the size at which the scale changes most."""
    for half in (1, 2, 20, 2000):
        made = calibrate_area(2 * half, PureDP(epsilon))
        yield made, (1 / half, half, half), (0.0 if half > 1 else 0.5, half - 1, half + 1)
    made = calibrate_area(10**6, PureDP(epsilon), 1e-6)
    m = turn_of(made)
    yield made, (1 / m, m, 10**6 - m), (0.0, m - 1, 10**6 - m + 1)


@pytest.mark.parametrize("planted", ["local", "stretch", "shift", "sizes"])
def test_planted_bugs_are_caught(planted, monkeypatch):
    made, one, other = (list(each) for each in zip(*pairs_and_prices(), strict=True))
    if planted == "local":  # the sensitivity of these data alone, which tells of them
        monkeypatch.setattr(smooth_area, "smooth_sensitivity", lambda m, beta: 1 / max(m, 1))
    elif planted == "stretch":  # the price of the changing scale forgotten
        made = [replace(each, shift=each.area.epsilon / SHIFT_LOSS) for each in made]
    elif planted == "shift":
        made = [replace(each, shift=1.3 * each.shift) for each in made]
    else:
        made = [replace(each, sizes=each.target) for each in made]
    worst = max(loss_of_areas(each, *pair) for each, *pair in zip(made, one, other, strict=True))
    assert worst > 1.02


def test_they_hold_without_a_bug():
    for made, one, other in pairs_and_prices():
        assert loss_of_areas(made, one, other) <= 1 + 1e-9


# -- the price ------------------------------------------------------------------------------------


def test_parts_add_up_and_a_ledger_takes_them():
    calibration, ledger = calibrate_area(1000, PureDP(0.7)), Ledger(0.7)
    assert calibration.sizes.epsilon + calibration.area.epsilon == pytest.approx(0.7)
    spent = SHIFT_LOSS * calibration.shift + STRETCH_LOSS * calibration.beta
    assert 0.999 * calibration.area.epsilon < spent < calibration.area.epsilon
    ledger.charge(calibration.target, calibration.events, "area")
    assert ledger.spent() == pytest.approx(0.7)


def test_too_small_a_price_and_other_records_are_refused():
    with pytest.raises(GuaranteeError, match="epsilon"):
        calibrate_area(1000, PureDP(1e-9))
    with pytest.raises(GuaranteeError, match="n=5"):
        release_area(np.zeros(4), np.ones(4), calibrate_area(5, PureDP(1.0)), SeededRandomness(1))


@pytest.mark.parametrize(
    ("n", "epsilon", "better"),
    [(10_000, 1.0, True), (10_000, 0.5, True), (10_000, 0.1, False), (1000, 0.5, False)],
)
def test_public_facts_alone_say_which_is_better(n, epsilon, better):
    made, counts = calibrate_area(n, PureDP(epsilon)), calibrate_histogram(n, PureDP(epsilon))
    assert is_better_than_counts(made, counts, 0.1) == better


@pytest.mark.parametrize(("p", "q"), [(5000, 5000), (1000, 9000), (400, 9600), (30, 9970)])
@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_the_stated_error_is_what_the_noise_does(p, q, epsilon):
    made, rng = calibrate_area(p + q, PureDP(epsilon)), np.random.default_rng(p)
    area, noise = 0.8, made.noise(min(p, q))
    off = np.clip(area + draw_many(noise, 4000, rng)[:, 0], 0, 1) - area
    sizes = np.rint(np.array([p, q]) + draw_many(made.size_noise, 20, rng)).astype(int)
    stated = [AreaRelease(area, *pair, made).privacy_sd for pair in sizes.tolist()]
    true = float(np.sqrt(np.mean(off**2)))
    assert 0.8 * true < float(np.sqrt(np.mean(np.square(stated)))) < 1.6 * true + 0.03


def test_sampling_errors_are_those_of_samples():
    rng, areas = np.random.default_rng(2), []
    for _ in range(400):
        label = np.where(rng.random(500) < 0.3, 1.0, -1.0)
        areas.append(exact_area(rng.normal(label, 2.0), label)[0])
    stated = AreaRelease(float(np.mean(areas)), 150, 350, calibrate_area(500, PureDP(1.0)))
    assert stated.sampling_sd == pytest.approx(np.std(areas), rel=0.15)
