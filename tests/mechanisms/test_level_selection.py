"""Chances of levels: within the claim between all neighbouring counts, in exact arithmetic."""

import math
from itertools import product

import flint
import numpy as np
import pytest

from privatelr import ApproxDP, GuaranteeError
from privatelr.mechanisms.level_selection import LevelCalibration, calibrate_levels
from privatelr.privacy.noise import SystemRandomness

pytestmark = pytest.mark.quick
CLAIMS = list(product((1e-6, 1e-3, 0.1, 1.0, 5.0, 30.0), (1e-30, 1e-6, 1e-2, 0.4)))


def chance(odds):
    """The chance and its complement as balls of 200 bits, from the log odds that are drawn by."""
    if math.isinf(odds):
        sure = flint.arb(int(odds > 0))
        return sure, 1 - sure
    return 1 / (1 + (-flint.arb(odds)).exp()), 1 / (1 + flint.arb(odds).exp())


def counts_to_check(calibration):
    """All counts until a level is surely released, or those about which the formula changes."""
    last, turn = calibration.count_of(math.inf), calibration._turn
    if last < 3000:
        return range(last + 2)
    places = np.unique(np.geomspace(1, last, 300).astype(int)).tolist()
    near = [c for spot in (0, turn, last) for c in range(max(0, spot - 3), spot + 4)]
    return sorted({*places, *near})


def excess_delta(calibration, first, second):
    """The delta at epsilon between two pairs of counts, exactly, over the four outcomes."""
    with flint.ctx.workprec(200):
        grown = flint.arb(calibration.target.epsilon).exp()
        (a, b), (c, d) = (
            [chance(calibration.log_odds(count)) for count in counts] for counts in (first, second)
        )
        total = flint.arb(0)
        for i, j in product((0, 1), (0, 1)):
            over = a[i] * b[j] - grown * c[i] * d[j]
            total += over if over > 0 else 0
        return total


@pytest.mark.parametrize(("epsilon", "delta"), CLAIMS)
def test_one_count_costs_half_of_the_promise(epsilon, delta):
    calibration = calibrate_levels(ApproxDP(epsilon, delta))
    with flint.ctx.workprec(200):
        grown, half = (flint.arb(epsilon) / 2).exp(), flint.arb(delta) / 2
        for count in counts_to_check(calibration):
            p, rest = chance(calibration.log_odds(count))
            more, less = chance(calibration.log_odds(count + 1))
            assert more <= grown * p + half
            assert rest <= grown * less + half
            assert more >= p
        assert chance(calibration.log_odds(0))[0] == 0


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-2), (2.0, 1e-3), (6.0, 1e-3)])
def test_a_replaced_record_costs_at_most_the_promise_and_most_of_it(epsilon, delta):
    calibration = calibrate_levels(ApproxDP(epsilon, delta))
    last, worst = calibration.count_of(math.inf) + 1, 0.0
    for old, new in product(range(1, last + 1), range(last + 1)):
        for first, second in (((old, new), (old - 1, new + 1)), ((old - 1, new + 1), (old, new))):
            found = excess_delta(calibration, first, second)
            assert found <= delta
            worst = max(worst, float(found))
    assert worst > 0.5 * delta


def test_a_bug_of_the_threshold_is_caught(monkeypatch):
    """With all of delta for each of the two counts a replacement costs more than delta."""
    each = property(lambda self: (self.target.epsilon / 2, self.target.delta))
    monkeypatch.setattr(LevelCalibration, "_each", each)
    calibration, costs = calibrate_levels(ApproxDP(2.0, 1e-3)), []
    last = calibration.count_of(math.inf)
    for old, new in product(range(1, last), range(last)):
        costs.append(float(excess_delta(calibration, (old, new), (old - 1, new + 1))))
    assert max(costs) > 1e-3


def test_chances_are_those_of_the_recursion():
    calibration, p = calibrate_levels(ApproxDP(0.8, 1e-4)), 0.0
    e, d = calibration._each
    for count in range(1, 200):
        p = min(math.exp(e) * p + d, 1 - math.exp(-e) * (1 - p - d), 1.0)
        odds = calibration.log_odds(count)
        assert 1 / (1 + math.exp(-odds)) == pytest.approx(p, rel=1e-9)
        assert p < 1 or math.isinf(odds)


def test_frequencies_are_the_chances():
    calibration = calibrate_levels(ApproxDP(1.0, 1e-2))
    count, randomness, draws = calibration.count_of(-1.0), SystemRandomness(), 4000
    found = sum(calibration.releases(count, randomness) for _ in range(draws))
    p = 1 / (1 + math.exp(-calibration.log_odds(count)))
    assert abs(found - draws * p) < 6 * math.sqrt(draws * p * (1 - p))
    assert not calibration.releases(0, randomness)
    assert calibration.releases(calibration.count_of(math.inf), randomness)


def test_no_delta_no_levels():
    with pytest.raises(GuaranteeError):
        calibrate_levels(ApproxDP(1.0, 0.0))
