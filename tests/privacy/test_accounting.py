"""Composition: known numbers, and bounds that hold."""

import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from privatelr import GuaranteeError, PureDP
from privatelr.privacy import ZCDP, ApproxDP, GaussianEvent, TiltEvent, to_approximate
from privatelr.privacy.accounting import Entry, Ledger, epsilon_of, filters
from privatelr.privacy.accounting.composition_bounds import (
    composition,
    epsilon_by_losses,
    epsilon_by_renyi,
    epsilon_by_sum,
)
from privatelr.privacy.noise import gaussian_sd, log_delta

M = 1 / 8.449
MU = 2 * M
"""Of the Gaussian release that has epsilon 1 at delta 1e-6."""


def charge(*prices, times=1):
    return [Entry("", price, times=times) for price in prices]


def gaussian(mu, guarantee=None, times=1):
    return Entry("", guarantee or ZCDP(mu**2 / 2), (GaussianEvent(mu),), times=times)


@pytest.fixture
def without_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)


@pytest.fixture
def library():
    return pytest.importorskip("dp_accounting", reason="needs the extra [accounting]")


def test_pure_prices_are_decimals():
    assert epsilon_of(charge(PureDP(0.1), times=3), 0) == 0.3
    assert epsilon_of(charge(*[PureDP(0.1)] * 3), 0) == 0.3
    assert epsilon_of(charge(*[PureDP(0.1)] * 3, PureDP(1e-17)), 0) > 0.3


def test_nothing_costs_nothing():
    assert epsilon_of([], 0) == 0


def test_twenty_pure_releases(library):
    entries = charge(PureDP(0.1), times=20)
    assert epsilon_of(entries, 0) == 2.0
    assert epsilon_of(entries, 1e-6) == pytest.approx(1.789, abs=5e-4)
    ledger = Ledger.plan([PureDP(0.1)] * 20, 1e-6)
    for _ in range(20):
        ledger.charge(PureDP(0.1))
    assert ledger.spent() == ledger.epsilon == epsilon_of(entries, 1e-6)
    assert ledger.left() == 0


def test_twenty_pure_releases_without_the_library(without_library):
    """Sums, or randomised response by its divergences; zCDP alone says 2.141."""
    entries = charge(PureDP(0.1), times=20)
    assert epsilon_of(entries, 1e-6) == pytest.approx(1.861, abs=5e-4)
    assert epsilon_of(entries, 1e-15) == 2.0


def test_zcdp(without_library):
    assert epsilon_of(charge(ZCDP(0.1)), 1e-6) == pytest.approx(2.142, abs=5e-4)
    assert epsilon_of(charge(ZCDP(0.05), ZCDP(0.05)), 1e-6) == epsilon_of(charge(ZCDP(0.1)), 1e-6)
    assert epsilon_of(charge(ZCDP(0.1)), 0) == math.inf


@given(st.floats(-4, 1).map(lambda x: 10.0**x), st.floats(-12, -2).map(lambda x: 10.0**x))
def test_one_zcdp_release_costs_its_conversion(rho, delta):
    budget = to_approximate(ZCDP(rho), delta).epsilon
    assert epsilon_of(charge(ZCDP(rho)), delta) <= budget


def test_plain_gaussian_releases_are_exact(without_library):
    assert epsilon_of([gaussian(MU)], 1e-6) == pytest.approx(1, abs=1e-4)
    four = epsilon_of([gaussian(MU, times=4)], 1e-6)
    assert four == pytest.approx(2.123, abs=5e-4)
    assert log_delta(four, 2 * MU) == pytest.approx(math.log(1e-6), abs=1e-6)
    assert epsilon_of([gaussian(0.3), gaussian(0.4)], 1e-5) == pytest.approx(
        epsilon_of([gaussian(0.5)], 1e-5), rel=1e-9
    )


def test_the_trap_of_replace_one(library):
    """dp-accounting has REPLACE_ONE in one accountant, not in the other; mu has it already."""
    from dp_accounting import NeighboringRelation, dp_event
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    event, relation = dp_event.GaussianDpEvent(4.2247), NeighboringRelation.REPLACE_ONE
    by_renyi = RdpAccountant(neighboring_relation=relation).compose(event).get_epsilon(1e-6)
    by_losses = PLDAccountant(neighboring_relation=relation).compose(event).get_epsilon(1e-6)
    assert by_renyi == pytest.approx(1.078, abs=1e-3)
    assert by_losses == pytest.approx(2.123, abs=1e-3)
    total = composition({GaussianEvent(1 / 4.2247): 1})
    check_trap(total)
    assert epsilon_by_renyi(total, 1e-6) == pytest.approx(1.078, abs=1e-3)


def check_trap(total):
    """The loss distribution agrees with the exact profile."""
    exact = epsilon_by_sum(total, 1e-6)
    assert exact == pytest.approx(1.0, abs=1e-3)
    assert epsilon_by_losses(total, 1e-6) == pytest.approx(exact, rel=1e-5)


def test_the_trap_is_caught(library, monkeypatch):
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import privacy_loss_distribution as library_pld

    honest = library_pld.from_gaussian_mechanism

    def doubled(**options):
        return honest(**options, neighboring_relation=NeighboringRelation.REPLACE_ONE)

    monkeypatch.setattr(library_pld, "from_gaussian_mechanism", doubled)
    with pytest.raises(AssertionError):
        check_trap(composition({GaussianEvent(1 / 4.2247): 1}))


def test_a_tilt_without_curvature_cost(library):
    event = TiltEvent(M, M**2 / 2, 0.25, 1.0)
    assert epsilon_by_losses(composition({event: 1}), 1.005e-6) == pytest.approx(1.0, rel=0.01)
    four = epsilon_by_losses(composition({event: 4}), 1e-6)
    assert 2.123 < four < 2.163


def test_a_tilt_is_no_gaussian_release(library):
    """The proven relaxation composes to 2.8e-6 at 4 where the Gaussian curve says 9.3e-7."""
    entry = Entry("", ApproxDP(1, 1e-6), (TiltEvent(M, 0.5, 0.25, 1.0),), times=4)
    assert math.exp(log_delta(2.13, 2 * MU)) == pytest.approx(9.3e-7, rel=0.01)
    assert epsilon_of([entry], 2.8e-6) > 2.13


def test_a_tilt_fits_by_its_guarantee():
    """Theorem 4.2 promises more than the divergences of the same tilt."""
    entry = Entry("", ApproxDP(1, 1e-6), (TiltEvent(M, 0.5, 0.25, 1.0), GaussianEvent(0.02)))
    assert epsilon_by_renyi(composition(dict.fromkeys(entry.events, 1)), 1e-6) > 1.1
    assert epsilon_of([entry], 1e-6) == 1
    # next to plain Gaussian releases too, which are exact at what the tilt leaves of delta
    mixed = [entry, gaussian(MU / 10, ApproxDP(0.09, 1e-6))]
    assert epsilon_of(mixed, 2e-6) <= 1 + epsilon_of([mixed[1]], 1e-6)


def test_many_tilts_compose_by_their_events(without_library):
    entry = Entry("", ApproxDP(1, 1e-6), (TiltEvent(M, 0.5, 0.25, 1.0),), times=20)
    assert epsilon_of([entry], 2.1e-5) < 9 < 20


def test_a_gaussian_release_fits_by_its_guarantee():
    mu = 1 / gaussian_sd(1.0, 1e-6, 1.0)
    assert epsilon_of([gaussian(mu, ApproxDP(1, 1e-6))], 1e-6) <= 1
    assert epsilon_of([gaussian(mu, ApproxDP(1, 1e-6))], 1e-7) > 1


def test_deltas_come_off_the_top():
    entries = charge(ApproxDP(1, 3e-7), times=2)
    assert epsilon_of(entries, 6e-7) == 2
    assert epsilon_of(entries, 5.9e-7) == math.inf
    both = [*entries, gaussian(MU)]
    assert epsilon_of(both, 6e-7) == math.inf
    assert 2 < epsilon_of(both, 1.6e-6) <= 2 + epsilon_of([gaussian(MU)], 1e-6) + 1e-9


def test_losses_bound_randomised_response(library):
    for epsilon, times in ((0.1, 20), (0.013, 200), (1.0, 10)):
        found = epsilon_by_losses(composition({PureDP(epsilon): times}), 1e-6)
        lies = np.arange(times + 1)
        masses = stats.binom.pmf(lies, times, 1 / (1 + math.exp(-epsilon)))
        loss = (2 * lies - times) * epsilon
        exact = float(masses @ np.maximum(0, -np.expm1(found - loss)))
        assert 0.98e-6 < exact <= 1e-6


@pytest.mark.parametrize(("mu", "delta"), [(0.05, 1e-9), (0.5, 1e-6), (2, 1e-3), (1, 0.2)])
def test_losses_bound_the_gaussian_curve(library, mu, delta):
    total = composition({GaussianEvent(mu): 1})
    exact = epsilon_by_sum(total, delta)
    assert exact <= epsilon_by_losses(total, delta) < exact * (1 + 1e-4)


def test_losses_take_mixed_releases(library):
    """Randomised response next to a Gaussian: below sums and divergences, above either alone."""
    total = composition({PureDP(0.1): 10, GaussianEvent(0.3): 2})
    found = epsilon_by_losses(total, 1e-6)
    assert found < min(epsilon_by_sum(total, 1e-6), epsilon_by_renyi(total, 1e-6))
    masses = stats.binom.pmf(np.arange(11), 10, 1 / (1 + math.exp(-0.1)))
    losses = (2 * np.arange(11) - 10) * 0.1
    exact = sum(
        mass * math.exp(log_delta(found - loss, math.sqrt(0.18)))
        for mass, loss in zip(masses, losses, strict=True)
    )
    assert 0.99e-6 < exact <= 1e-6


def test_losses_are_silent_where_they_cannot_speak(library):
    assert epsilon_by_losses(composition({GaussianEvent(0.1): 1}), 1e-15) == math.inf
    assert epsilon_by_losses(composition({ZCDP(0.1): 1}), 1e-6) == math.inf
    assert epsilon_by_losses(composition({PureDP(900.0): 2}), 1e-6) == math.inf


PRICE = st.floats(-3, 1).map(lambda x: 10.0**x)
GUARANTEE = st.one_of(
    PRICE.map(PureDP), PRICE.map(ZCDP), st.builds(ApproxDP, PRICE, st.floats(1e-9, 1e-6))
)
EVENTS = st.lists(
    st.one_of(PRICE.map(GaussianEvent), st.builds(TiltEvent, PRICE, PRICE, st.just(0.25))),
    max_size=2,
).map(tuple)
ENTRY = st.builds(
    Entry, label=st.just(""), guarantee=GUARANTEE, events=EVENTS, times=st.integers(1, 5)
)
ENTRIES = st.lists(ENTRY, min_size=1, max_size=4)


@settings(max_examples=30)
@given(ENTRIES, ENTRY, st.floats(-6, -1).map(lambda x: 10.0**x), st.randoms())
def test_bounds_are_sane(entries, more, delta, random):
    """Never negative, the same in any order, more for more entries, less for a larger delta."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "dp_accounting.pld", None)
        epsilon = epsilon_of(entries, delta)
        assert epsilon >= 0
        shuffled = random.sample(entries, len(entries))
        assert epsilon_of(shuffled, delta) == pytest.approx(epsilon, rel=1e-9)
        assert epsilon_of([*entries, more], delta) >= epsilon * (1 - 1e-9)
        assert epsilon_of(entries, 2 * delta) <= epsilon * (1 + 1e-9)
        by_guarantees = [Entry("", entry.guarantee, times=entry.times) for entry in entries]
        assert epsilon <= epsilon_of(by_guarantees, delta)


# -- the shares of delta ---------------------------------------------------------------------------


def share_of_conversion(rho):
    """The share of delta at which a ledger converts: the inverse of the published conversion."""
    rule = filters.renyi_rule(2.0, 1e-6)
    spent, order = filters.epsilon_used(rule, charge(ZCDP(rho)), 1e-6), 1 + rule.excess
    log_delta = (order * rho + math.log1p(-1 / order) - spent) * (order - 1) - math.log(order)
    return math.exp(log_delta) / 1e-6


def largest_share(before):
    """The largest share of delta that a release of its own takes after another one."""
    low, high = 0.0, 1.0
    for _ in range(30):
        share = (low + high) / 2
        ledger = Ledger(2.0, 1e-6, account="renyi")
        ledger.charge(before)
        try:
            ledger.charge(ApproxDP(0.01, share * 1e-6))
        except GuaranteeError:
            high = share
        else:
            low = share
    return low


def whole_delta():
    """The shares of conversion, of deltas next to it, and of sums."""
    return share_of_conversion(0.02) + largest_share(ZCDP(0.02)) + largest_share(PureDP(1.98))


def test_the_shares_of_a_delta_add_up_to_it():
    assert whole_delta() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("kept", [0.05, 0.2])
def test_a_share_of_delta_that_is_counted_twice_is_caught(kept, monkeypatch):
    monkeypatch.setattr(filters, "_converted", lambda delta: (1 - 2 * kept) * delta)
    assert abs(whole_delta() - 1) > 0.05
