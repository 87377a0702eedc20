"""The exact law of suggested ranges: within the claim on all small tables, and close to it."""

import math
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from scipy import special

from privatelr import ZCDP, ApproxDP, GuaranteeError, PureDP
from privatelr.mechanisms import range_selection
from privatelr.mechanisms.range_selection import (
    RangeCalibration,
    calibrate_ranges,
    candidate_ends,
    choose_range,
    scores_of_high,
    scores_of_low,
    slots_of,
)
from privatelr.privacy.noise import SeededRandomness, SystemRandomness
from privatelr.sources import declare_schema

pytestmark = pytest.mark.quick
ENDS = np.array([0.0, 1.0, 2.0, 4.0])
MISSING = math.nan
VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, MISSING)
CLAIM = 3.0


def made(n, beyond, eta=CLAIM / 2):
    return RangeCalibration(n, PureDP(2 * eta), eta, 1, beyond)


def slots(table):
    values = np.array(table)
    return slots_of(values[~np.isnan(values)], ENDS)


def by_definition(table, beyond, low):
    """Scores of cells, each counted value by value; a missing value is on neither side."""
    values, ends = [v for v in table if v == v], list(ENDS)
    if not low:
        values, ends = [-v for v in values], [-end for end in ends[::-1]]
    found = []
    for left, right in pairwise(ends):
        less, more = sum(v < left for v in values), sum(v < right for v in values)
        loss = max(0.25 * (less - beyond), 0.75 * (beyond - more), 0.0)
        found.append(-loss)
    return np.array(found if low else found[::-1])


def laws(table, calibration):
    """Log probabilities of the cell of either end."""
    beyond, rate = calibration.beyond, calibration.eta / range_selection.WIDTH
    scores = (score(slots(table), beyond) for score in (scores_of_low, scores_of_high))
    return [special.log_softmax(rate * each) for each in scores]


def worst_loss(n, beyond, ends=(0, 1)):
    calibration, worst = made(n, beyond), 0.0
    for others in product(VALUES, repeat=n - 1):
        found = [laws((value, *others), calibration) for value in VALUES]
        for first, second in product(found, found):
            worst = max(worst, sum((first[end] - second[end]).max() for end in ends))
    return worst


@pytest.mark.parametrize("n", [1, 2, 3])
def test_scores_are_those_of_the_definition(n):
    for table, beyond in product(product(VALUES, repeat=n), (0, 1, 2)):
        found = slots(table)
        assert np.array_equal(scores_of_low(found, beyond), by_definition(table, beyond, True))
        assert np.array_equal(scores_of_high(found, beyond), by_definition(table, beyond, False))


@pytest.mark.parametrize(("n", "beyond"), [(1, 1), (2, 1), (3, 1), (3, 2)])
def test_no_small_table_loses_more_than_the_claim(n, beyond):
    assert worst_loss(n, beyond) <= CLAIM * (1 + 1e-12)


def tight_loss():
    """One record leaves the first of many cells, and the m-th smallest value goes with it."""
    ends, calibration = np.arange(20_000.0), made(2, 1, eta=1.0)
    rate = calibration.eta / range_selection.WIDTH
    first, second = (
        special.log_softmax(rate * scores_of_low(slots_of(np.array([x, 1.5]), ends), 1))
        for x in (0.5, 19_998.5)
    )
    return np.abs(first - second).max()


def test_one_end_can_cost_all_of_its_price():
    assert 0.999 < tight_loss() <= 1.0


def test_changes_of_scores_lie_in_an_interval_of_the_width():
    for beyond in (0, 1, 2):
        tables = {table: slots(table) for table in product(VALUES, repeat=3)}
        widest = 0.0
        for table in tables:
            for value in VALUES:
                other = tables[(value, *table[1:])]
                for score in (scores_of_low, scores_of_high):
                    change = score(other, beyond) - score(tables[table], beyond)
                    widest = max(widest, np.ptp(change))
        assert widest == range_selection.WIDTH if beyond == 1 else widest <= range_selection.WIDTH


def of_person(values, units):
    """Slots of one person whose records count so many quarters of one together, 4 or less."""
    return slots_of(np.array(values), ENDS, np.array(units, dtype=float)) / 4


def test_changes_of_scores_by_a_person_lie_in_an_interval_of_the_width():
    """A person may have records at several places, so that counts rise here and fall there."""
    places = [0.5, 1.5, 3.0]
    shares = [units for units in product(range(5), repeat=3) if sum(units) <= 4]
    persons = [of_person(places, units) for units in shares]
    rest, widest = slots([0.5, 1.5, 3.0]), 0.0
    for beyond, first, second in product((0, 1, 2), persons, persons):
        for score in (scores_of_low, scores_of_high):
            change = score(rest + first, beyond) - score(rest + second, beyond)
            widest = max(widest, np.ptp(np.append(change, 0.0)))
    assert widest == range_selection.WIDTH


def test_a_person_with_more_than_one_share_would_be_caught():
    """The bug that the law is for: shares that add up to two."""
    rest = slots([0.5, 1.5, 3.0])
    change = [scores_of_low(rest + 2 * of_person([x], [4]), 2) for x in (0.5, 3.0)]
    assert np.ptp(np.append(change[0] - change[1], 0.0)) > range_selection.WIDTH


def test_less_than_the_width_would_be_too_little(monkeypatch):
    """Scores move up and down: the larger of the two costs alone does not cover them."""
    monkeypatch.setattr(range_selection, "WIDTH", range_selection.TOO_LOOSE)
    assert tight_loss() > 1.3


def test_a_price_is_divided_exactly():
    for columns in (1, 3, 7):
        calibration = calibrate_ranges(100_000, [200] * columns, PureDP(0.7))
        total = Fraction(calibration.eta) * 2 * columns
        assert Fraction(0.7) * (1 - Fraction(1, 10**6)) < total <= Fraction(0.7)


@pytest.mark.parametrize("target", [PureDP(1.0), ZCDP(0.05), ApproxDP(1.0, 1e-6)])
def test_events_account_for_the_price(target):
    calibration = calibrate_ranges(100_000, [200] * 6, target)
    (event,) = calibration.events
    assert event.times == calibration.choices == 12


def test_what_would_be_noise_is_refused_and_the_price_that_is_named_is_enough():
    with pytest.raises(GuaranteeError, match="mostly noise") as refused:
        calibrate_ranges(150, [200, 200], PureDP(0.1))
    named = float(str(refused.value).split("at least ")[1].split(",")[0])
    calibrate_ranges(150, [200, 200], PureDP(named))
    with pytest.raises(GuaranteeError):
        calibrate_ranges(150, [200, 200], PureDP(0.97 * named))
    with pytest.raises(GuaranteeError, match="rho=1e-06"):
        calibrate_ranges(150, [200], ZCDP(1e-6))
    with pytest.raises(GuaranteeError):
        calibrate_ranges(1, [200], PureDP(1.0))


OUTER = [
    *[(0, 150), (0, 1e7), (-1e6, 1e6), (0, 1), (1900, 2100), (13_492, 149e6), (0, 2e9), (-3, 5)],
    *[(1e15, 1e15 + 2000), (0, 1e-20), (-1e100, 1e100), (-5.5, -5.4), (0.1, 0.3), (-7, 0)],
]


@pytest.mark.parametrize("outer", OUTER)
def test_any_two_candidates_are_bounds(outer):
    ends = candidate_ends(*outer)
    assert (ends[0], ends[-1]) == outer
    assert len(ends) < 350
    for low, high in pairwise(ends):
        declare_schema({"x": (float(low), float(high))})


def test_candidates_are_fine_near_zero_and_everywhere():
    ends = candidate_ends(0, 1e7)
    assert max(np.diff(ends)) <= 1e5
    above = ends[ends >= 1]
    assert (above[1:] / above[:-1]).max() <= 1.5


def test_a_range_far_beyond_all_records_is_unlikely():
    values, ends = np.random.default_rng(0).lognormal(10, 1, 20_000), candidate_ends(0, 1e9)
    found = slots_of(values, ends)
    calibration = calibrate_ranges(20_000, [len(ends) - 1], PureDP(0.2))
    rate, beyond = calibration.eta / range_selection.WIDTH, calibration.beyond
    chances = special.softmax(rate * scores_of_high(found, beyond))
    assert chances[ends[:-1] > values.max()].sum() < math.exp(-range_selection.CERTAINTY)
    clipped = np.array([np.count_nonzero(values > end) for end in ends[1:]])
    assert chances @ clipped < 2.5 * beyond
    low, high = choose_range(found, ends, calibration, SystemRandomness())
    assert low < np.median(values) < high


def test_choices_that_cross_give_a_range():
    ends = candidate_ends(0, 1)
    nothing = slots_of(np.array([]), ends)
    calibration = made(10, 3)
    for seed in range(50):
        low, high = choose_range(nothing, ends, calibration, SeededRandomness(seed))
        assert low < high
