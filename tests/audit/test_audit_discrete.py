"""Losses between finite laws: against closed forms, and against all events."""

import itertools
import math

import numpy as np
import pytest

from privatelr import ArgumentError, GuaranteeError, NonPrivate, PureDP
from privatelr.audit.enumerated_choices import loss_of_outcomes
from privatelr.privacy import ZCDP, ApproxDP


def laws(seed, k=6, size=1.0):
    rng = np.random.default_rng(seed)
    both = rng.standard_normal((2, k)) * size
    return both - np.logaddexp.reduce(both, axis=1)[:, None]


def randomised_response(epsilon):
    p = np.array([-np.logaddexp(0, -epsilon), -np.logaddexp(0, epsilon)])
    return p, p[::-1]


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 3.0, 20.0])
def test_randomised_response(epsilon):
    p, q = randomised_response(epsilon)
    assert loss_of_outcomes(p, q, PureDP(1.0)) == pytest.approx(epsilon)
    # the divergence over its order is largest at order 1, where it is eps tanh(eps / 2)
    assert loss_of_outcomes(p, q, ZCDP(1.0)) == pytest.approx(
        epsilon * math.tanh(epsilon / 2), rel=3e-3
    )


@pytest.mark.parametrize("seed", range(20))
def test_delta_is_that_of_the_worst_event_either_way(seed):
    p, q = laws(seed)
    a, b = np.exp(p), np.exp(q)
    events = [list(e) for r in range(7) for e in itertools.combinations(range(6), r)]
    epsilon = 0.1 * (seed % 5)
    worst = max(
        max(x[e].sum() - math.exp(epsilon) * y[e].sum() for e in events)
        for x, y in ((a, b), (b, a))
    )
    assert loss_of_outcomes(p, q, ApproxDP(epsilon, 0.1)) == pytest.approx(worst, abs=1e-12)


@pytest.mark.parametrize("size", [1e-7, 1e-2, 1.0, 50.0])
def test_renyi_against_the_definition(size):
    p, q = laws(3, size=size)
    naive = [
        np.logaddexp.reduce(order * x + (1 - order) * y) / (order - 1) / order
        for x, y in ((p, q), (q, p))
        for order in (1.5, 2.0, 5.0)
    ]
    assert loss_of_outcomes(p, q, ZCDP(1.0)) >= max(naive) * (1 - 1e-6) - 1e-14
    small = np.var(p - q) / 2  # all orders over themselves are alike for laws nearly alike
    if size < 1e-3:
        assert loss_of_outcomes(p, q, ZCDP(1.0)) == pytest.approx(small, rel=0.01)


def test_outcomes_that_cannot_occur():
    p, q = np.log([0.5, 0.5, 1e-300]), np.array([math.log(0.5), math.log(0.5), -math.inf])
    assert loss_of_outcomes(p, q, PureDP(1.0)) == math.inf
    assert loss_of_outcomes(q, p, ZCDP(1.0)) == math.inf
    assert loss_of_outcomes(q, p, ApproxDP(0.0, 0.1)) == pytest.approx(0.0, abs=1e-200)
    never = np.array([0.0, -math.inf])
    assert loss_of_outcomes(never, never, PureDP(1.0)) == 0.0


def test_refusals():
    p, q = laws(1)
    with pytest.raises(GuaranteeError, match="no claim"):
        loss_of_outcomes(p, q, NonPrivate())


@pytest.mark.parametrize("claim", [PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6)], ids=str)
def test_a_law_with_a_number_missing_is_refused(claim):
    laws = np.log([0.5, 0.5]), np.array([math.nan, math.log(0.5)])
    for one, other in (laws, laws[::-1]):
        with pytest.raises(ArgumentError, match="NaN"):
            loss_of_outcomes(one, other, claim)
