"""Law 22: the shares of a budget add up to it exactly, and the ledger agrees."""

import math
from dataclasses import replace

import pytest
from frames_for_laws import MODELS, clinic, fit_clinic, own_stages
from hypothesis import given
from hypothesis import strategies as st

import privatelr.mechanisms.registry
from privatelr import ZCDP, GuaranteeError, NonPrivate, PureDP, implies, to_zcdp
from privatelr.mechanisms import registry
from privatelr.privacy import ApproxDP, SharedApproxDP, exact
from privatelr.privacy.accounting import Ledger, join, split

BUDGETS = [0.1, 0.3, 0.7, 1.0, 1.1, 3.0, 8.0, 1e-3, 123.456]
SHARES = [
    {"coefficients": 0.9, "inference": 0.1},
    {"coefficients": 0.7, "inference": 0.2, "roc": 0.1},
    {"coefficients": 0.45, "inference": 0.35, "roc": 0.15, "threshold": 0.05},
]


def check_shares(divide, epsilon, shares):
    """All parts fit into a ledger of the whole, and nothing is left."""
    ledger = Ledger(epsilon)
    for name, part in divide(PureDP(epsilon), shares).items():
        ledger.charge(part, label=name)
    assert ledger.spent() == epsilon
    assert ledger.left() == 0


@pytest.mark.parametrize("epsilon", BUDGETS)
@pytest.mark.parametrize("shares", SHARES, ids=len)
def test_law(epsilon, shares):
    check_shares(split, epsilon, shares)


@given(st.integers(1, 10**9), st.integers(-9, 0), st.integers(1, 99))
def test_any_budget_of_few_digits(digits, exponent, percent):
    shares = {"fit": percent / 100, "rest": (100 - percent) / 100}
    check_shares(split, float(f"{digits}e{exponent}"), shares)


def test_deltas_add_up_too():
    whole = ApproxDP(1.1, 3e-6)
    ledger = Ledger(1.1, 3e-6)
    for part in split(whole, SHARES[1]).values():
        ledger.charge(part)
    assert ledger.spent() == 1.1
    with pytest.raises(GuaranteeError, match="has no epsilon within"):
        ledger.charge(ApproxDP(1e-9, 1e-15))


SPENDS = [
    "inference",
    {"coefficients": 0.9, "inference": 0.1},
    {"scale": 0.1, "coefficients": 0.8, "inference": 0.1},
    {"coefficients": 0.75, "roc": 0.25},
    {"scale": 0.1, "coefficients": 0.5, "inference": 0.3, "roc": 0.1},
    {"scale": 0.1, "coefficients": 0.7, "roc": 0.2},
]
TARGETS = [*map(PureDP, BUDGETS), ZCDP(0.3), ZCDP(1.1), ApproxDP(1.1, 3e-6), ApproxDP(0.7, 1e-5)]


def check_parts(target, **options):
    """What a fit spends on its parts is what it promises, in the decimals that they print."""
    release = fit_clinic(clinic(), eps=target, **options).release
    stages = [stage.calibration for stage in (release, *release.parts.values())]
    parts = [stage.target for stage in stages]
    assert release.guarantee == target
    if all(isinstance(part, PureDP) for part in parts):
        check_implied(target, parts)
        return parts
    if isinstance(target, ApproxDP):
        check_shared(target, *parts, events=[event for stage in stages for event in stage.events])
        return parts
    assert {type(part) for part in parts} == {type(target)}
    for name in ("epsilon", "delta", "rho"):
        if hasattr(target, name):
            prices = [exact(getattr(part, name)) for part in parts]
            assert all(price > 0 for price in prices)
            assert sum(prices) == exact(getattr(target, name))
    assert join(parts) == target
    return parts


def check_implied(target, parts):
    """Pure parts add up to all of a pure promise that implies the target."""
    whole = join(parts)
    assert isinstance(whole, PureDP)
    assert implies(whole, target)
    match target:
        case PureDP() | ApproxDP():
            assert whole.epsilon == target.epsilon
        case ZCDP():
            assert to_zcdp(whole).rho > target.rho * (1 - 1e-9)


def check_shared(target, first, *others, events):
    """The coefficients leave room for the Gaussian parts, and for no more."""
    assert isinstance(first, SharedApproxDP)
    pure = math.fsum(part.epsilon for part in others if isinstance(part, PureDP))
    others = [part for part in others if isinstance(part, ZCDP)]
    assert join([first, *others]) == first.whole
    assert first.whole.epsilon + pure == pytest.approx(target.epsilon, rel=1e-12)
    assert first.whole.delta == target.delta
    assert first.beside <= math.sqrt(2 * sum(part.rho for part in others)) * (1 + 1e-12)
    ledger = Ledger(target.epsilon, target.delta)
    ledger.charge(target, events)
    assert ledger.spent() >= 0.99 * target.epsilon


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(MODELS["dplr"], id="dplr"),
        pytest.param(MODELS["dpsvm"], id="dpsvm", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("spend", SPENDS, ids=str)
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_law_of_spend(model, spend, target):
    parts = check_parts(target, model=model, spend=spend)
    if spend == "inference":
        return
    lengths = int(model is MODELS["dplr"])
    if "roc" in spend and "scale" not in spend:  # a scale whose gate is open joins
        assert len(parts) - len(spend) in {0, 1 + lengths}
    else:
        assert len(parts) == len(spend) + lengths * ("scale" in spend)


@pytest.mark.parametrize("do_scale", [None, "private", False])
@pytest.mark.parametrize("target", [PureDP(123.456), ZCDP(111.1), ApproxDP(77.7, 3e-6)], ids=str)
def test_law_of_a_scale_out_of_the_usual_shares(target, do_scale):
    parts = check_parts(target, spend="inference", do_scale=do_scale)
    # ranges have a share, too, where it is small
    assert len(parts) in ((2,) if do_scale is False else (4, 5)) or do_scale is None


@pytest.mark.parametrize("spend", SPENDS, ids=str)
@pytest.mark.parametrize("epsilon", BUDGETS)
def test_a_ledger_of_the_price_takes_all_parts_and_is_empty(spend, epsilon):
    ledger = Ledger(epsilon)
    fit_clinic(clinic(), eps=epsilon, spend=spend, ledger=ledger)
    assert ledger.spent() == epsilon
    assert ledger.left() == 0


@given(st.floats(1e-9, 1e3), st.integers(1, 99))
def test_what_was_split_is_joined(epsilon, percent):
    """To the whole, or below it by less than anyone prints; never above."""
    shares = {"fit": percent / 100, "rest": (100 - percent) / 100}
    for whole in (PureDP(epsilon), ZCDP(epsilon)):
        joined = join(list(split(whole, shares).values()))
        name = "epsilon" if isinstance(whole, PureDP) else "rho"
        assert getattr(joined, name) <= getattr(whole, name)
        assert getattr(joined, name) >= getattr(whole, name) * (1 - 1e-12)
        if len(repr(epsilon)) < 15 and "e" not in repr(epsilon):
            assert joined == whole


def test_what_cannot_be_joined():
    for parts in (
        [PureDP(1.0), ZCDP(1.0)],
        [PureDP(1.0), NonPrivate()],
        [NonPrivate(), PureDP(1.0)],
        [NonPrivate("a"), NonPrivate("b")],
        [ApproxDP(1.0, 0.9), ApproxDP(1.0, 0.9)],
    ):
        with pytest.raises(GuaranteeError):
            join(parts)
    assert join([NonPrivate("a"), NonPrivate("a")]) == NonPrivate("a")
    assert join([PureDP(0.1)] * 3) == PureDP(0.3)


def doubled(target, spend, loss, **scaled):
    """Planted: all parts get the whole, as if the other releases were free."""
    return [(dict.fromkeys(registry.shares_of(target, spend, loss, **scaled), target), ())]


def rounded(target, spend, loss, **scaled):
    """Planted: products of floats."""
    shares = registry.shares_of(target, spend, loss, **scaled)
    parts = {name: replace(target, epsilon=target.epsilon * s) for name, s in shares.items()}
    return [(parts, ())]


@pytest.mark.slow
@pytest.mark.parametrize("planted", [doubled, rounded])
def test_planted_parts_are_caught(monkeypatch, planted):
    monkeypatch.setattr(privatelr.mechanisms.registry, "divide", planted)
    caught = 0
    for epsilon in BUDGETS:
        for spend in SPENDS:
            try:
                check_parts(PureDP(epsilon), spend=spend)
            except AssertionError:
                caught += 1
    assert caught > 3


def forgotten(target, spend, loss, **scaled):
    """Planted: the coefficients do not leave room for what is beside them."""
    ways = DIVIDE(target, spend, loss, **scaled)
    shared = [(parts, kinds) for parts, kinds in ways if kinds]  # pure ones need not know of others
    return [(parts | {"coefficients": unshared(**parts)}, kinds) for parts, kinds in shared]


def unshared(coefficients, **_):
    return replace(coefficients, beside=coefficients.beside / 2)


DIVIDE = registry.divide


@pytest.mark.parametrize("spend", SPENDS, ids=str)
def test_a_part_that_forgets_the_others_is_caught(monkeypatch, spend):
    monkeypatch.setattr(privatelr.mechanisms.registry, "divide", forgotten)
    own_stages(monkeypatch)
    with pytest.raises((AssertionError, GuaranteeError)):
        check_parts(ApproxDP(1.1, 3e-6), spend=spend)


def naive(whole, shares):
    """Planted: products of floats."""
    return {name: PureDP(whole.epsilon * share) for name, share in shares.items()}


def test_planted_bug_is_caught():
    caught = 0
    for epsilon in BUDGETS:
        for shares in SHARES:
            try:
                check_shares(naive, epsilon, shares)
            except (GuaranteeError, AssertionError):
                caught += 1
    assert caught > 5


def test_shares_that_do_not_make_one_are_refused():
    with pytest.raises(GuaranteeError, match="sum is 1"):
        split(PureDP(1.0), {"fit": 0.9, "roc": 0.2})
