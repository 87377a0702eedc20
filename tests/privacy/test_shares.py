"""Shares of a budget."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privatelr import GuaranteeError, NonPrivate, PureDP
from privatelr.privacy import ZCDP, ApproxDP, at_least, at_most, exact
from privatelr.privacy.accounting import split

PRICE = st.floats(-12, 4).map(lambda x: 10.0**x)
SHORT = st.tuples(st.integers(1, 999_999), st.integers(-12, 3)).map(
    lambda pair: float(f"{pair[0]}e{pair[1]}")
)
WEIGHTS = st.lists(st.integers(1, 60), min_size=1, max_size=6)


def shares_of(weights):
    """Decimals that make 1, about in proportion."""
    shares = [round(weight / sum(weights), 4) for weight in weights[1:]]
    rest = 1 - sum(exact(share) for share in shares)
    return dict(zip("abcdef", [float(rest), *shares], strict=False))


@given(PRICE, WEIGHTS)
def test_parts_never_exceed_the_whole(price, weights):
    shares = shares_of(weights)
    parts = split(PureDP(price), shares)
    total = sum(exact(part.epsilon) for part in parts.values())
    assert exact(price) * (1 - exact(1e-14)) <= total <= exact(price)
    for name, share in shares.items():
        assert parts[name].epsilon == pytest.approx(share * price, rel=1e-9)


@given(SHORT, WEIGHTS)
def test_parts_of_a_short_decimal_make_the_whole(price, weights):
    parts = split(ZCDP(price), shares_of(weights))
    assert sum(exact(part.rho) for part in parts.values()) == exact(price)


def test_long_decimals_are_all_but_always_met():
    prices = [math.exp(math.sin(k)) for k in range(300)]
    met = 0
    for price in prices:
        parts = split(PureDP(price), {"a": 0.7, "b": 0.2, "c": 0.1})
        met += sum(exact(part.epsilon) for part in parts.values()) == exact(price)
    assert met > 290


@given(PRICE, st.floats(-30, -1).map(lambda x: 10.0**x))
def test_deltas_are_divided_too(epsilon, delta):
    parts = split(ApproxDP(epsilon, delta), {"a": 0.5, "b": 0.3, "c": 0.2})
    assert sum(exact(part.epsilon) for part in parts.values()) <= exact(epsilon)
    assert sum(exact(part.delta) for part in parts.values()) <= exact(delta)
    assert parts["a"].delta == pytest.approx(delta / 2)


def test_plain_numbers_stay_plain():
    parts = split(PureDP(1.1), {"coefficients": 0.9, "roc": 0.1})
    assert parts == {"coefficients": PureDP(0.99), "roc": PureDP(0.11)}
    assert list(parts) == ["coefficients", "roc"]
    assert split(ApproxDP(0, 1e-6), {"a": 0.5, "b": 0.5})["a"] == ApproxDP(0, 5e-7)
    assert split(PureDP(0.7), {"all": 1}) == {"all": PureDP(0.7)}
    assert split(NonPrivate("why"), {"a": 0.5, "b": 0.5}) == dict.fromkeys("ab", NonPrivate("why"))


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ({"a": 0.5, "b": 0.6}, "1.1 is the sum of 0.5, 0.6; shares take numbers whose sum is 1"),
        ({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}, "whose sum is 1"),
        ({"a": 1.0, "b": 0.0}, "share of 'b'=0.0"),
        ({"a": 1.5, "b": -0.5}, "share of 'b'=-0.5"),
        ({"a": "1"}, "share of 'a'='1'"),
        ({"a": True}, "share of 'a'=True"),
        ({"a": math.nan}, "share of 'a'=nan"),
        ({}, "0.0 is the sum of no shares"),
        ({"a": 0.9999999999999999, "b": 1e-16}, "share of 'b' is too small"),
    ],
)
def test_what_are_no_shares(shares, words):
    with pytest.raises(GuaranteeError) as caught:
        split(PureDP(1.0), shares)
    assert words in str(caught.value)


@given(st.floats(-300, 300).map(lambda x: 10.0**x), st.integers(-5, 5))
def test_decimals_round_to_the_side_that_is_asked_for(price, steps):
    assert at_most(exact(price)) == at_least(exact(price)) == price
    beside = exact(price) + steps * exact(price) / 10**17
    assert exact(at_most(beside)) <= beside <= exact(at_least(beside))
    assert at_least(beside) <= math.nextafter(at_most(beside), math.inf)
