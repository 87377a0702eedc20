"""Events and the guarantee that they come with: liars are refused, own releases are not."""

import json
import math

import pytest
from frames_for_laws import clinic, fit_clinic
from hypothesis import given, settings
from hypothesis import strategies as st

from privatelr import ZCDP, ApproxDP, GuaranteeError, Ledger, PureDP
from privatelr.mechanisms import Problem, Request, calibrate_all, read_spend
from privatelr.numerics import LOSSES, Huber
from privatelr.privacy import (
    BoundedRangeEvent,
    GaussianEvent,
    SimplexDrawEvent,
    TiltEvent,
    to_approximate,
)
from privatelr.privacy.accounting import Entry, in_agreement, require_agreement, statement
from privatelr.privacy.accounting import ledger as ledger_module
from privatelr.privacy.accounting.agreement import implied
from privatelr.privacy.noise import gaussian_epsilon, gaussian_sd
from privatelr.selection.online import PrivateFTRL
from privatelr.selection.simplex import SimplexProblem, calibrate_simplex

MU = 1 / gaussian_sd(1.0, 1e-6, 1.0)

REFUSED = r"^events: together they"
LIES = {
    "a Gaussian release is never pure": (PureDP(50), [GaussianEvent(1e-6)]),
    "nor is one beside a pure one": (PureDP(50), [PureDP(49), GaussianEvent(1e-6)]),
    "pure, too cheap": (PureDP(50), [PureDP(0.001)]),
    "pure, not implied": (PureDP(1), [PureDP(0.7), PureDP(0.4)]),
    "approximate, too cheap": (ApproxDP(50, 1e-6), [GaussianEvent(1e-6)]),
    "approximate, not implied": (ApproxDP(1, 1e-6), [GaussianEvent(1.01 * MU)]),
    "a smaller delta": (ApproxDP(1, 1e-6), [ApproxDP(0.9, 2e-6)]),
    "half of it": (ApproxDP(2, 2e-6), [ApproxDP(1, 1e-6)]),
    "a tilt, too cheap": (ApproxDP(1, 1e-6), [TiltEvent(0.01, 0.001, 0.25, 1.0)]),
    "a tilt, not implied": (ApproxDP(1, 1e-6), [TiltEvent(0.2, 0.5, 0.25, 1.0)]),
    "zCDP, too cheap": (ZCDP(1.0), [GaussianEvent(0.01)]),
    "zCDP, not implied": (ZCDP(0.1), [GaussianEvent(0.46)]),
    "a tilt has more zCDP": (ZCDP(0.1), [TiltEvent(0.1, 0.5, 0.25, 1.0)]),
    "no delta, no zCDP": (ZCDP(5.0), [ApproxDP(1.0, 1e-9)]),
    "choices, too cheap": (PureDP(5), [BoundedRangeEvent(0.01, 2)]),
    "choices, not implied": (ZCDP(0.1), [BoundedRangeEvent(1.0, 2)]),
    "draws of a narrow law": (PureDP(50), [SimplexDrawEvent(50, 1e-9, 1e-9)]),
    "all of delta, nothing of epsilon": (ApproxDP(100, 1e-6), [ApproxDP(1e-6, 0.51e-6)]),
    "nothing of epsilon, in two": (ApproxDP(9, 1e-6), [PureDP(0.1), ApproxDP(1e-6, 0.6e-6)]),
    "choices at a delta": (ApproxDP(1, 1e-6), [BoundedRangeEvent(0.1, 1000)]),
}


def check_refused_in_a_charge(guarantee, events):
    ledger = Ledger(1000.0, 1e-3)
    with pytest.raises(GuaranteeError, match=REFUSED):
        ledger.charge(guarantee, events)
    assert ledger.entries == ()


def check_refused_in_json(guarantee, events):
    """Of a file into which somebody wrote other events."""
    value = Ledger(1000.0, 1e-3).to_json()
    entry = Entry("fit", guarantee, tuple(events))
    value["entries"] = [json.loads(json.dumps(statement.entry_to_json(entry)))]
    with pytest.raises(GuaranteeError, match=REFUSED):
        Ledger.from_json(value)


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_refused(lie):
    check_refused_in_a_charge(*LIES[lie])
    check_refused_in_json(*LIES[lie])
    with pytest.raises(GuaranteeError, match=REFUSED):
        Ledger.plan([(LIES[lie][0], LIES[lie][1])], 1e-3)


@pytest.mark.parametrize("check", [check_refused_in_a_charge, check_refused_in_json])
def test_planted_credulity_is_caught(monkeypatch, check):
    """Both of them believed whatever they were told."""
    for module in (ledger_module, statement):
        monkeypatch.setattr(module, "require_agreement", lambda *_: None)
    with pytest.raises(pytest.fail.Exception):
        check(*LIES["approximate, too cheap"])


def test_a_tampered_event_is_refused():
    """A release of 1 at 1e-6 whose file says that it cost nothing, or a fit of 1."""
    ledger = Ledger(3.0, 1e-6)
    ledger.charge(ApproxDP(1.0, 1e-6), [GaussianEvent(MU)])
    fit_clinic(clinic(), eps=PureDP(1.0), ledger=ledger)
    value = json.loads(json.dumps(ledger.to_json()))
    assert Ledger.from_json(value).spent() == ledger.spent()
    for entry, number in ((0, "mu"), (1, "epsilon")):
        changed = json.loads(json.dumps(value))
        changed["entries"][entry]["events"][0][number] = 1e-9
        with pytest.raises(GuaranteeError, match=REFUSED):
            Ledger.from_json(changed)


TARGETS = [
    *(ApproxDP(eps, delta) for eps in (0.02, 1.0, 5.0) for delta in (1e-9, 1e-6, 1e-3)),
    ZCDP(0.001),
    ZCDP(0.5),
    PureDP(0.7),
]
SPENDS = [None, *({"coefficients": 1 - x, "inference": x} for x in (0.02, 0.3, 0.9))]


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("placement", ["objective", "output"])
def test_own_releases_are_believed(placement, loss):
    """Whatever the price, and however it is divided."""
    for target in TARGETS:
        for spend in map(read_spend, SPENDS):
            request = Request(target, placement, None, "free", "increase", spend)
            plan = calibrate_all(request, Problem(1000, 3, loss, 1.5, ()))
            assert plan.events
            require_agreement(target, plan.events)


def test_pure_noise_is_believed_beside_a_delta():
    """Also where a delta is so large that it alone would be worth half of epsilon."""
    for epsilon, delta in ((0.01, 0.01), (1.0, 1e-6), (0.5, 0.4)):
        require_agreement(ApproxDP(epsilon, delta), (PureDP(epsilon),))
        apart = GaussianEvent(1 / gaussian_sd(0.3 * epsilon, 0.3 * delta, 1.0))
        require_agreement(
            ApproxDP(epsilon, delta),
            (
                PureDP(0.7 * epsilon),
                apart,
            ),
        )
    with pytest.raises(GuaranteeError, match=REFUSED):
        require_agreement(ApproxDP(1.0, 1e-6), (PureDP(0.1),))


def test_what_is_much_cheaper_than_its_promise_is_counted_by_the_promise():
    """Lambda is best for the regret, and play more private than was asked for."""
    with Ledger(100.0, 1e-6) as ledger:
        PrivateFTRL(3, 20, 90.0, 1e-6)
    assert ledger.entries[0].events == ()
    few = calibrate_simplex(SimplexProblem(5000, 3, 1.0, 2.0, Huber()), PureDP(5.0), 0.5, 1)
    assert few.events == ()
    usual = calibrate_simplex(SimplexProblem(5000, 3, 1.0, 2.0, Huber()), PureDP(5.0))
    ledger.charge(usual.target, usual.events)
    assert usual.events


@settings(max_examples=60)
@given(
    st.floats(-2, 1).map(lambda x: 10.0**x),
    st.floats(-9, -2).map(lambda x: 10.0**x),
    st.floats(0.55, 1.0),
    st.integers(1, 4),
)
def test_a_believed_event_costs_at_least_half(epsilon, delta, share, times):
    """What is believed is worth the guarantee, and not half of it, at the delta of it."""
    mu = 1 / gaussian_sd(epsilon * share, delta, 1.0) / math.sqrt(times)
    events = (GaussianEvent(mu),) * times
    require_agreement(ApproxDP(epsilon, delta), events)
    assert epsilon / 2 < gaussian_epsilon(mu * math.sqrt(times), delta / 2) * (1 + 1e-9)
    assert implied([ZCDP(mu**2 / 2)] * times, to_approximate(ZCDP(times * mu**2 / 2), delta))
    assert in_agreement(ApproxDP(epsilon, delta), events) == events
    assert in_agreement(ApproxDP(3 * epsilon, 3 * delta), events) == ()
