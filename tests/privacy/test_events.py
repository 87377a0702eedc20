"""Accounting events: Renyi divergences that bound, group prices, JSON."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from privatelr import GuaranteeError, NonPrivate, PureDP
from privatelr.privacy import (
    ZCDP,
    ApproxDP,
    GaussianEvent,
    TiltEvent,
    event_from_json,
    event_to_json,
    grouped,
    renyi,
    to_json,
)
from privatelr.privacy.events import FIRST_ORDER, tilt_survival

PRICE = st.floats(-6, 2).map(lambda x: 10.0**x)
ORDER = st.floats(-2, 3).map(lambda x: 1 + 10.0**x)
TILT = st.builds(
    TiltEvent,
    m=st.floats(0.01, 2),
    kappa=st.floats(0, 5),
    curvature_bound=st.just(0.25),
    joint_factor=st.sampled_from([None, 1.0]),
    weighted=st.booleans(),
)
EXACT = st.one_of(PRICE.map(PureDP), PRICE.map(ZCDP), PRICE.map(GaussianEvent))
EVENT = st.one_of(EXACT, st.builds(ApproxDP, PRICE, st.floats(1e-9, 0.1)), TILT)


@given(PRICE, ORDER)
def test_renyi_of_the_kinds(price, order):
    assert renyi(ZCDP(price), order) == order * price
    assert renyi(GaussianEvent(price), order) == order * price**2 / 2
    assert renyi(ApproxDP(price, 1e-6), order) == math.inf


@given(st.floats(-3, 1.5).map(lambda x: 10.0**x), ORDER)
def test_renyi_of_pure_is_that_of_randomised_response(epsilon, order):
    p, q = -np.logaddexp(0, -epsilon), -np.logaddexp(0, epsilon)
    exact = np.logaddexp(order * p + (1 - order) * q, order * q + (1 - order) * p) / (order - 1)
    assert renyi(PureDP(epsilon), order) == pytest.approx(exact, rel=1e-6, abs=1e-13)
    assert renyi(PureDP(epsilon), order) <= epsilon


@given(PRICE, ORDER)
def test_renyi_of_pure_never_falls_below_what_rounding_allows(epsilon, order):
    """The leading terms of the divergence, an alternating series, where it would cancel."""
    small = min(epsilon, 1e-3 / order)
    series = order * small**2 / 2
    assert renyi(PureDP(small), order) >= series * (1 - (order * small) ** 2)


def tilt_moment(m, kappa, angle, order, steps=500, length=1.0):
    """Renyi divergence of the relaxed loss in theory.md#theorem-42, by quadrature over the plane.

    The slopes are at the vertices, and the curvature is paid in full: the largest loss is
    ``a + max(0, x1, x2, x12)``, for two gradients at an angle, of length m and `length` of it.
    """
    reach = 8 + 2 * m * order
    grid = np.linspace(-reach, reach, steps)
    x, y = np.meshgrid(grid, grid, indexing="ij")
    old, new = np.array([m, 0.0]), m * length * np.array([math.cos(angle), math.sin(angle)])
    loss = np.zeros_like(x)
    for change in (old, new, old + new):
        loss = np.maximum(loss, change[0] * x + change[1] * y + change @ change / 2)
    weights = -(x**2 + y**2) / 2 - math.log(2 * math.pi) + 2 * math.log(grid[1] - grid[0])
    moment = special.logsumexp((order - 1) * loss + weights) / (order - 1)
    return moment + math.log1p(kappa / 4)


@pytest.mark.parametrize("m", [0.1, 0.5, 1.5])
@pytest.mark.parametrize("order", [1.1, 2, 12])
def test_renyi_of_a_tilt_bounds_every_angle(m, order):
    bound = renyi(TiltEvent(m, 0.5, 0.25), order)
    for angle in np.linspace(0, math.pi, 5):
        assert tilt_moment(m, 0.5, angle, order) <= bound * (1 + 1e-6)
    assert tilt_moment(m, 0.5, 0.0, order) > renyi(GaussianEvent(2 * m), order) * (1 - 1e-6)


@settings(max_examples=25)
@given(st.floats(0.02, 2), ORDER.filter(lambda order: order < 20), st.floats(0, 7), st.floats(0, 1))
def test_renyi_of_a_tilt_bounds_every_pair_of_gradients(m, order, angle, length):
    bound = renyi(TiltEvent(m, 0.5, 0.25), order)
    assert tilt_moment(m, 0.5, angle, order, length=length) <= bound * (1 + 1e-6)


@pytest.mark.parametrize("least", [0.1407, 0.1409])
def test_the_constant_of_a_tilt_is_the_largest_of_its_proof(least):
    x = np.linspace(0, 8, 100_001)
    found = np.log(special.ndtr(x) + np.exp(-(x**2) / 2) / 2)
    assert (found.max() <= least) == (least == 0.1409)
    assert np.all(found <= FIRST_ORDER * x / 2)


def largest_losses(event, share, z):
    """The relaxed loss of theory.md#theorem-42 at tilts z, for rows along one line.

    The new row has `share` of the length of the old one, and the other sign.
    """
    m, kappa = event.m, event.kappa
    slopes = np.linspace(0, 1, 401)[:, None]
    bends = np.log1p(kappa * slopes * (1 - slopes))
    moved = (m * (share * new + slopes) for new in (0.0, 1.0))
    return np.max([(bends + move * z + move**2 / 2).max(axis=0) for move in moved], axis=0)


TAILS = [
    TiltEvent(m, ratio * m**2, 0.25, 1.0) for m in (0.1, 0.5, 1.5) for ratio in (0.3, 1, 4, 20)
]


@pytest.mark.parametrize("event", TAILS, ids=str)
def test_the_tail_of_a_tilt_is_bounded_for_every_row(event):
    """By the exact law of a normal number at 20,000 of its quantiles."""
    z = special.ndtri((np.arange(20_000) + 0.5) / 20_000)
    at = np.linspace(0, 2 * event.small_slope_cost + 4 * event.m, 60)
    bound = tilt_survival(event, at)
    for share in (0.0, 0.1, 0.5, 1.0):
        found = (largest_losses(event, share, z)[:, None] > at).mean(axis=0)
        assert np.all(found <= bound + 1e-4)


def test_a_tail_says_nothing_below_what_curvature_may_cost():
    """A short gradient exceeds a number below g0 more often than the longest."""
    event = TiltEvent(0.5, 5.0, 0.25, 1.0)
    gap, worst = event.small_slope_cost, math.log1p(5.0 / 4)
    assert worst < gap
    at = np.array([worst + 1e-3, gap - 1e-3])
    alone = replace(event, curvature_bound=1e9)  # what the first bound says is then 1
    assert np.all(tilt_survival(alone, at) == 1)
    assert tilt_survival(alone, np.array([gap + 20 * event.m])) < 1e-3


@given(TILT, ORDER)
def test_a_tilt_costs_more_than_the_gaussian_release(event, order):
    assert renyi(event, order) > renyi(GaussianEvent(2 * event.m), order)


def test_the_curvature_is_free_only_where_the_joint_bound_is_convex():
    assert TiltEvent(1.0, 0.5, 0.25, 1.0).curvature_cost == 0
    assert TiltEvent(1.0, 0.5, 0.25, 1.01).curvature_cost == math.log1p(0.125)
    assert TiltEvent(1.0, 0.5, 0.25).curvature_cost == math.log1p(0.125)


WEIGHTED = [
    TiltEvent(m, ratio * m**2, 0.25, 1.0, weighted=True)
    for m in (0.03, 0.3, 1.2)
    for ratio in (0.05, 0.5, 0.6, 2.0, 20.0)
]


def check_curvature(event):
    """What the proof of theory.md#theorem-42 needs of a row at angle tau, by search over weights.

    The row of a record with the weight s**2 adds a gradient of size ``s t`` and the curvature of
    slope t, from which the new record's gradient is apart.
    """
    m, kappa = event.m, event.kappa
    slopes = np.linspace(0, 1, 401)
    share = np.linspace(0, 1, 101)[:, None] if event.weighted else np.ones((1, 1))
    sizes, bends = share * slopes, np.log1p(kappa * slopes * (1 - slopes))
    for tau in np.linspace(-3, 3, 121) * (m**2 + kappa):
        largest = (bends + sizes * tau + sizes**2 * m**2 / 2).max()
        steep = tau + m**2 / 2
        assert largest <= max(event.small_slope_cost, steep) + 1e-12
        assert largest <= event.curvature_cost + max(0.0, steep) + 1e-12
    for split in np.linspace(0.5, 1, 11):
        steep = np.broadcast_to(bends, sizes.shape)[sizes >= split - 1e-12]
        assert steep.max(initial=0.0) <= math.log1p(kappa * split * (1 - split)) + 1e-12


@pytest.mark.parametrize("event", WEIGHTED, ids=str)
def test_the_curvature_of_records_with_weights_is_paid(event):
    check_curvature(event)
    check_curvature(replace(event, weighted=False))


@pytest.mark.parametrize("cost", ["small_slope_cost", "curvature_cost"])
def test_planted_curvature_free_of_charge_beside_weights_is_caught(monkeypatch, cost):
    event = TiltEvent(0.3, 0.3**2 / 2, 0.25, 1.0, weighted=True)
    without_weights = getattr(replace(event, weighted=False), cost)
    monkeypatch.setattr(TiltEvent, cost, without_weights)
    with pytest.raises(AssertionError):
        check_curvature(event)


@given(EXACT, ORDER)
def test_a_larger_order_costs_more(event, order):
    assert 0 <= renyi(event, order) <= renyi(event, order * 1.5) + 1e-9


def test_prices_of_a_record_in_several_rows():
    assert grouped(PureDP(0.5), 3) == PureDP(1.5)
    assert grouped(ZCDP(0.5), 3) == ZCDP(4.5)
    assert grouped(GaussianEvent(0.5), 3) == GaussianEvent(1.5)
    found = grouped(ApproxDP(0.5, 1e-6), 3)
    assert found.epsilon == 1.5
    assert found.delta == pytest.approx(1e-6 * (1 + math.exp(0.5) + math.exp(1)))
    assert grouped(ApproxDP(400, 1e-6), 3).delta == 1
    with pytest.raises(GuaranteeError, match="no proven price"):
        grouped(TiltEvent(1, 1, 0.25), 2)
    for rows in (0, 1.5, True):
        with pytest.raises(GuaranteeError, match="from 1"):
            grouped(PureDP(1), rows)


@given(EVENT)
def test_json(event):
    assert event_from_json(json.loads(json.dumps(event_to_json(event)))) == event


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"kind": []},
        {"kind": "laplace"},
        {"kind": "gaussian", "neighbours": "REPLACE_ONE"},
        {"kind": "gaussian", "mu": 1},
        {"kind": "gaussian", "mu": -1, "neighbours": "REPLACE_ONE"},
        {"kind": "gaussian", "mu": "1", "neighbours": "REPLACE_ONE"},
        {"kind": "gaussian", "mu": 1, "neighbours": "OTHER"},
        {"kind": "tilt", "m": 1, "kappa": 1, "neighbours": "REPLACE_ONE"},
        {"kind": "gaussian", "mu": 1, "sigma": 1, "neighbours": "REPLACE_ONE"},
        to_json(NonPrivate()),
    ],
)
def test_json_that_is_no_event(value):
    with pytest.raises(GuaranteeError):
        event_from_json(value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: GaussianEvent(0),
        lambda: GaussianEvent(math.inf),
        lambda: TiltEvent(0, 1, 0.25),
        lambda: TiltEvent(1, math.inf, 0.25),
        lambda: TiltEvent(1, 1, -1),
        lambda: TiltEvent(1, 1, 1, 0),
    ],
)
def test_numbers_that_are_no_event(make):
    with pytest.raises(GuaranteeError, match="takes"):
        make()
