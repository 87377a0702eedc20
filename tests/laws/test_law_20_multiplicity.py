"""Law 20: every release on the same records is charged, and every copy of a record in it."""

import numpy as np
import pandas as pd
import pytest

from privatelr import PureDP, dplr
from privatelr.inference import Question, bootstrap_intervals
from privatelr.privacy import ZCDP, grouped
from privatelr.privacy.accounting import Ledger

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


def records(rng, n=200):
    age = rng.uniform(0, 10, n)
    return pd.DataFrame({"y": (age + rng.logistic(size=n) > 5) * 1.0, "age": age})


def check_bootstrap_is_free(covariates_of):
    """Bootstraps resample the release: no record changes them but through it, none is charged."""
    rng = np.random.default_rng(6)
    before = records(rng)
    after = before.copy()
    after.loc[0] = [1.0, 0.01]
    ledger = Ledger(100.0)
    fit = dplr("y ~ age", before, eps=1.0, bounds={"age": (0, 10), "y": (0, 1)}, ledger=ledger)
    asked = (Question(method="bootstrap", covariates=covariates_of(x)) for x in (before, after))
    first, second = (bootstrap_intervals(fit.release, fit.spec, np.eye(2), one) for one in asked)
    np.testing.assert_array_equal(first.lower, second.lower)
    np.testing.assert_array_equal(first.sd, second.sd)
    assert ledger.spent() == pytest.approx(1.0)


PUBLIC = records(np.random.default_rng(7))


@pytest.mark.slow
@pytest.mark.parametrize("covariates", ["uniform", PUBLIC], ids=["declared", "public"])
def test_a_bootstrap_of_a_release_costs_nothing(covariates):
    check_bootstrap_is_free(lambda frame: covariates)


def test_a_bootstrap_of_the_records_is_caught():
    with pytest.raises(AssertionError):
        check_bootstrap_is_free(lambda frame: frame)
