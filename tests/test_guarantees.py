"""Guarantees as types: conversions, composition, implication, text and JSON."""

import itertools
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privatelr import GuaranteeError, NonPrivate, PureDP
from privatelr.mechanisms import read_target
from privatelr.privacy import (
    ZCDP,
    ApproxDP,
    compose,
    from_json,
    implies,
    to_approximate,
    to_zcdp,
)

FILE = Path(__file__).parent / "reference" / "calibration.json"
REFERENCE = json.loads(FILE.read_text(encoding="utf-8"))
PRICE = st.floats(-6, 3).map(lambda x: 10.0**x)
DELTA = st.floats(-30, math.log10(0.5)).map(lambda x: 10.0**x)
PRIVATE = st.one_of(PRICE.map(PureDP), PRICE.map(ZCDP), st.builds(ApproxDP, PRICE, DELTA))
ANY = st.one_of(PRIVATE, st.just(NonPrivate("void: seeded noise")))


@pytest.mark.parametrize("row", REFERENCE["zcdp_to_approx"], ids=str)
def test_reference_zcdp(row):
    found = to_approximate(ZCDP(row["rho"]), row["delta"])
    assert found.epsilon == pytest.approx(row["epsilon"], rel=1e-9)


@pytest.mark.parametrize("row", REFERENCE["pure_to_zcdp"], ids=str)
def test_reference_pure(row):
    assert to_zcdp(PureDP(row["epsilon"])).rho == pytest.approx(row["rho"], rel=1e-12)


@given(PRICE, DELTA)
def test_zcdp_to_approximate_holds_at_some_order(rho, delta):
    """The stated epsilon reaches delta by Proposition 12, and no order on a grid does better."""
    epsilon = to_approximate(ZCDP(rho), delta).epsilon
    assert 0 <= epsilon < math.inf
    best = math.inf
    for k in range(-60, 61):
        excess = 10 ** (k / 6) * math.sqrt(-math.log(delta) / rho)
        order = 1 + excess
        shrink = order * math.log1p(-1 / order) if order < 1e15 else -1.0
        best = min(best, order * rho + (-math.log(delta) - math.log(excess) + shrink) / excess)
    assert epsilon <= max(best, 0) * (1 + 1e-9) + 1e-12
    # and it is no smaller than the exact Gaussian curve, which the bound covers
    from privatelr.privacy.noise import log_delta

    assert log_delta(epsilon, math.sqrt(2 * rho)) <= math.log(delta) + 1e-9


@given(PRICE, PRICE, DELTA)
def test_mixed_composition_adds_up(epsilon, rho, delta):
    assert compose([PureDP(epsilon), PureDP(epsilon)]) == PureDP(2 * epsilon)
    mixed = compose([PureDP(epsilon), ZCDP(rho)])
    assert mixed.rho == pytest.approx(epsilon * math.tanh(epsilon / 2) + rho)
    approximate = compose([ApproxDP(epsilon, delta), ZCDP(rho)])
    assert approximate.delta == pytest.approx(2 * delta)
    assert approximate.epsilon >= epsilon


@given(ANY, ANY, ANY)
def test_implication_is_an_order(first, second, third):
    assert implies(first, first)
    assert implies(first, NonPrivate())
    assert not implies(NonPrivate(), PureDP(1.0))
    if implies(first, second) and implies(second, third):
        assert implies(first, third)


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        {"kind": "perfect"},
        {"kind": "pure"},
        {"kind": "pure", "epsilon": "1"},
        {"kind": "pure", "epsilon": -1},
        {"kind": "pure", "epsilon": 1, "delta": 0},
        {"kind": "zcdp", "rho": 1, "neighbours": "SOME"},
    ],
)
def test_json_that_is_no_guarantee(value):
    with pytest.raises(GuaranteeError):
        from_json(value)


@pytest.mark.parametrize(
    "make",
    [lambda: PureDP(0), lambda: ZCDP(-1), lambda: ApproxDP(1, 0), lambda: ApproxDP(1, 1.5)],
)
def test_numbers_that_are_no_price(make):
    with pytest.raises(GuaranteeError, match="takes"):
        make()


def test_a_smaller_delta_than_its_own_is_refused():
    with pytest.raises(GuaranteeError, match="smaller delta"):
        to_approximate(ApproxDP(1, 1e-6), 1e-9)
    for first, second in itertools.product([ApproxDP(1, 1e-6)], [PureDP(1), ZCDP(1)]):
        assert not implies(first, second)


def test_extremes_of_conversions():
    """Tiny and huge numbers convert to numbers, and nonsense is one kind of error."""
    assert to_zcdp(PureDP(1e-200)).rho > 0
    assert to_approximate(ZCDP(1e-310), 1e-5).epsilon >= 0
    assert to_approximate(ZCDP(1e300), 1e-5).epsilon >= 1e300
    assert implies(ZCDP(1e300), ApproxDP(1, 1.0))
    for delta in (0, -1, 2, math.nan):
        with pytest.raises(GuaranteeError, match="delta"):
            to_approximate(PureDP(1), delta)


def test_a_missing_promise_says_that_it_is_missing():
    """Whatever reason it carries."""
    assert str(NonPrivate("epsilon = 0.01 (pure)")) == "none: epsilon = 0.01 (pure)"
    assert str(NonPrivate("void: seeded noise")) == "void: seeded noise"
    assert str(NonPrivate()).startswith("none: ")


def test_delta_may_be_tiny_beside_no_epsilon_only():
    assert isinstance(read_target(0, 1e-40), NonPrivate)
    assert isinstance(read_target(math.inf, math.inf, 1e-6), NonPrivate)
    for eps, named in ((1.0, "delta=1e-40"), (1e-40, "eps=1e-40")):
        with pytest.raises(GuaranteeError, match=named):
            read_target(eps, 1e-40)
