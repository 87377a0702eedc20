"""Choices of bounded range: the exact curve, its two neighbours, and what fits in a target."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, optimize

from privatelr import GuaranteeError, PureDP
from privatelr.privacy import (
    ORDERS,
    ZCDP,
    ApproxDP,
    BoundedRangeEvent,
    SimplexDrawEvent,
    epsilon_of_choices,
    epsilon_of_curve,
    event_from_json,
    event_to_json,
    grouped,
    pure_cap,
    range_within,
    renyi,
    renyi_curve,
    renyi_of_draw,
    renyi_of_range,
)
from privatelr.privacy.accounting import Entry, Ledger, epsilon_of

ETA = st.floats(-6, 1.5).map(lambda x: 10.0**x)
EXCESS = st.floats(-3, 3).map(lambda x: 10.0**x)
TARGETS = [PureDP(0.7), ZCDP(0.02), ApproxDP(0.1, 1e-6), ApproxDP(3.0, 1e-5), ApproxDP(0.0, 1e-3)]


def two_point(eta, order):
    """The largest divergence over the place of the interval, by search."""

    def divergence(t):
        q = -math.expm1(t - eta) / (math.exp(t) * -math.expm1(-eta))
        return math.log(q * math.exp(order * t) + (1 - q) * math.exp(order * (t - eta)))

    found = optimize.minimize_scalar(
        lambda t: -divergence(t), bounds=(0, eta), method="bounded", options={"xatol": 1e-12}
    )
    return -found.fun / (order - 1)


@pytest.mark.parametrize("eta", [0.05, 0.5, 2.0, 8.0])
@pytest.mark.parametrize("order", [1.05, 2.0, 7.0, 30.0])
def test_curve_is_that_of_the_worst_two_point_law(eta, order):
    found = renyi_of_range(eta, np.array([order]))[0]
    assert found == pytest.approx(two_point(eta, order), rel=1e-9)


@given(ETA, EXCESS, st.integers(0, 2**32 - 1))
def test_no_law_of_bounded_range_diverges_more(eta, excess, seed):
    """Random laws with all ratios in an interval, among them those of the exponential mechanism."""
    rng = np.random.default_rng(seed)
    order = 1 + excess
    log_q = -rng.exponential(size=6) * 3
    shift = rng.choice([0.0, eta], 6) if seed % 2 else rng.uniform(0, eta, 6)
    log_q -= np.logaddexp.reduce(log_q)
    log_p = log_q + shift - np.logaddexp.reduce(log_q + shift)
    found = np.logaddexp.reduce(order * log_p + (1 - order) * log_q) / excess
    bound = renyi_of_range(eta, np.array([order]))[0]
    assert found <= bound + 1e-15 * (1 + 1 / excess) * 20


@given(ETA, EXCESS)
def test_caps(eta, excess):
    found = renyi_of_range(eta, np.array([1 + excess]))[0]
    assert 0 < found <= min(eta, (1 + excess) * eta**2 / 8)


def test_curve_of_any_size_is_finite():
    for eta in (1e-300, 1e-9, 1e-4, 300.0, 1e5, 1e100):
        found = renyi_of_range(eta, ORDERS)
        assert np.isfinite(found).all()
        assert (np.diff(found) >= -1e-9 * found[1:]).all()
        draw = renyi_of_draw(1e101, eta, eta / 3, ORDERS)
        assert (draw <= found).all()
        assert np.isfinite(draw).all()


@pytest.mark.parametrize(("width", "sd"), [(1e-4, 1e-5), (0.3, 0.05), (2.0, 0.1), (9.0, 0.01)])
@pytest.mark.parametrize("order", [1.01, 2.0, 5.0])
def test_bound_by_the_speed_is_its_integral(width, sd, order):
    def inner(s):
        grown = math.exp(s * (order - 1) * width) - 1
        return math.exp(s * width / 2) * grown

    integral = integrate.quad(inner, 0, 1, epsabs=0, epsrel=1e-12)[0]
    expected = order / (order - 1) * sd**2 / width * integral
    found = renyi_of_draw(1e9, width, sd, np.array([order]))[0]
    cap = renyi_of_range(width, np.array([order]))[0]
    assert found == pytest.approx(min(expected, cap), rel=1e-9)


def test_slow_draws_cost_what_their_deviation_says():
    """For a small interval, half of the order times the variance; sd is at most half the width."""
    found = renyi_of_draw(1.0, 1e-6, 1e-7, np.array([2.0, 8.0]))
    assert found == pytest.approx([1e-14, 4e-14], rel=1e-5)
    whole = renyi_of_draw(1.0, 1e-6, 5e-7, np.array([2.0]))[0]
    assert whole == pytest.approx(renyi_of_range(1e-6, np.array([2.0]))[0], rel=1e-5)
    assert (renyi_of_draw(1e-3, 1.0, 1.0, ORDERS) <= 1e-3).all()


# -- what fits --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "times", "expected"),
    [
        (ApproxDP(0.1, 1e-6), 100, 0.00509),
        (ApproxDP(1.0, 2.46e-5), 100, 0.05229),
        (PureDP(0.5), 10, 0.05),
        (ZCDP(0.02), 4, 0.2),
    ],
)
def test_range_within_known(target, times, expected):
    assert range_within(target, times) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("times", [1, 7, 1000, 10**9])
def test_range_within_is_on_the_private_side_and_close(target, times):
    eta = range_within(target, times)

    def cost(eta):
        match target:
            case PureDP():
                return times * eta / target.epsilon
            case ZCDP():
                return times * eta**2 / 8 / target.rho
        spent = epsilon_of_choices(eta, times, target.delta)
        return spent / target.epsilon if target.epsilon else 1 + spent

    assert cost(eta) <= 1
    assert cost(eta * (1 + 1e-7)) > 1
    if isinstance(target, ApproxDP):
        assert eta >= target.epsilon / times * (1 - 1e-9)


def test_twice_the_range_is_caught():
    """The planted slip: beta for a score that moves one way, used where it moves both ways."""
    eta = range_within(ApproxDP(1.0, 1e-6), 50)
    assert epsilon_of_choices(eta, 50, 1e-6) <= 1
    assert epsilon_of_choices(2 * eta, 50, 1e-6) > 1.9


@pytest.mark.parametrize("times", [0, -1, 1.0, True, 10**10])
def test_times_are_checked(times):
    with pytest.raises(GuaranteeError, match="integer from 1"):
        range_within(PureDP(1.0), times)
    with pytest.raises(GuaranteeError, match="integer from 1"):
        BoundedRangeEvent(0.1, times)


def test_nothing_left():
    with pytest.raises(GuaranteeError, match="leaves no range"):
        range_within(PureDP(5e-324), 100)


# -- events -----------------------------------------------------------------------------------

EVENTS = [BoundedRangeEvent(0.2, 30), SimplexDrawEvent(0.3, 0.2, 0.05, 40)]


@pytest.mark.parametrize("event", EVENTS, ids=str)
def test_events_through_json_and_a_ledger(event):
    assert event_from_json(json.loads(json.dumps(event_to_json(event)))) == event
    guarantee = ApproxDP(epsilon_of([Entry("x", pure_cap(event), (event,))], 1e-6), 1e-6)
    ledger = Ledger(10.0, 1e-5)
    ledger.charge(guarantee, (event,), "choices")
    again = Ledger.from_json(ledger.to_json())
    assert again.spent(1e-6) == ledger.spent(1e-6) < 10
    assert epsilon_of(again.entries, 1e-6) <= guarantee.epsilon


@pytest.mark.parametrize("event", EVENTS, ids=str)
def test_renyi_of_events(event):
    curve = renyi_curve(event, ORDERS)
    assert curve[300] == renyi(event, ORDERS[300])
    single = renyi_curve(type(event)(**{**event_to_json_numbers(event), "times": 1}), ORDERS)
    assert curve == pytest.approx(event.times * single)


def event_to_json_numbers(event):
    return {k: v for k, v in event_to_json(event).items() if k not in ("kind", "neighbours")}


def test_group_price():
    assert grouped(BoundedRangeEvent(0.25, 30), 3) == BoundedRangeEvent(0.75, 30)
    one = SimplexDrawEvent(0.5, 0.25, 0.125)
    three = grouped(one, 3)
    assert three == SimplexDrawEvent(1.5, 0.75, 0.375)
    assert renyi(three, 2.0) > 3 * renyi(one, 2.0)


def test_composition_takes_the_cheaper_reading():
    """Few choices are cheapest as pure ones, many by their curve; the claim says less."""
    few, many = BoundedRangeEvent(0.5), BoundedRangeEvent(0.01, 1000)
    claim = ApproxDP(99.0, 1e-6)
    assert epsilon_of([Entry("few", claim, (few,))], 1e-6) <= 0.5
    assert epsilon_of_choices(0.5, 1, 1e-14) == 0.5
    found = epsilon_of([Entry("many", claim, (many,))], 1e-6)
    assert (
        found
        == epsilon_of_choices(0.01, 1000, 1e-6)
        == epsilon_of_curve(1000 * renyi_of_range(0.01, ORDERS), 1e-6)
    )
    pair = [Entry("a", claim, (many,)), Entry("b", claim, (many,))]
    assert epsilon_of(pair, 1e-6) == pytest.approx(epsilon_of_choices(0.01, 2000, 1e-6))
    assert epsilon_of([Entry("few", PureDP(1.0), (few,))] * 2, 0.0) == 1.0
