"""Law 20: every release on the same records is charged, and every copy of a record in it."""

import numpy as np
import pytest

from privatelr import PureDP
from privatelr.privacy.events import grouped
from privatelr.privacy.guarantees import ZCDP
from privatelr.privacy.ledger import Ledger

N, DRAWS, COPIES = 12, 20, 3
"""Records, resamples, and how often a record may stand in one of them."""


def resample(rng):
    """Positions drawn with replacement; a record beyond its copies gives way to an empty row."""
    drawn = list(rng.integers(0, N, N))
    return [i if drawn[:k].count(i) < COPIES else None for k, i in enumerate(drawn)]


def loss_of_means(resamples, record, epsilon):
    """Exact privacy loss of a Laplace mean of every resample when one record in [0, 1] moves.

    The noise is right for one mean in which every record stands once.
    """
    scale = 1 / (N * epsilon)
    return sum(drawn.count(record) / N / scale for drawn in resamples)


def check_price(charge):
    rng = np.random.default_rng(5)
    ledger, epsilon = Ledger(100.0), 0.05
    charge(ledger, PureDP(epsilon))
    resamples = [resample(rng) for _ in range(DRAWS)]
    losses = [loss_of_means(resamples, record, epsilon) for record in range(N)]
    assert max(losses) <= ledger.spent()
    worst = [[0] * COPIES + [None] * (N - COPIES)] * DRAWS
    assert loss_of_means(worst, 0, epsilon) == pytest.approx(ledger.spent())


def test_law():
    check_price(lambda ledger, price: ledger.charge(grouped(price, COPIES), times=DRAWS))


PLANTED = {
    "one draw": lambda ledger, price: ledger.charge(grouped(price, COPIES)),
    "one copy": lambda ledger, price: ledger.charge(price, times=DRAWS),
    "one of each": lambda ledger, price: ledger.charge(price),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bug_is_caught(bug):
    with pytest.raises(AssertionError):
        check_price(PLANTED[bug])


def test_draws_add_up_and_copies_square_in_zcdp():
    draws, copies, one = Ledger(100.0, 1e-6), Ledger(100.0, 1e-6), Ledger(100.0, 1e-6)
    draws.charge(ZCDP(0.01), times=9)
    copies.charge(grouped(ZCDP(0.01), 3))
    one.charge(ZCDP(0.09))
    assert draws.spent() == pytest.approx(one.spent())
    assert copies.spent() == pytest.approx(one.spent())
