"""Law 22: the shares of a budget add up to it exactly, and the ledger agrees."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privatelr import GuaranteeError, PureDP
from privatelr.privacy.guarantees import ApproxDP
from privatelr.privacy.ledger import Ledger
from privatelr.privacy.shares import split

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
    with pytest.raises(GuaranteeError, match="at delta 0"):
        ledger.charge(ApproxDP(1e-9, 1e-15))


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
