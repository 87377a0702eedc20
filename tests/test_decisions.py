"""Numbers in ``vignettes/decisions.md`` that nothing else prints."""

import math

import pytest
from studies.scale import least_excess

from privatelr import Ledger, plan
from privatelr.mechanisms import Problem, Request, calibrate, calibrate_all
from privatelr.mechanisms.calibration import (
    CORNER,
    certified_norm,
    clip_for,
    gaussian_objective,
    moments_balance,
    moments_sensitivity,
    pure,
)
from privatelr.numerics import Huber, Logistic
from privatelr.privacy import ApproxDP, GaussianEvent, PureDP
from privatelr.privacy.accounting import Entry, epsilon_of
from privatelr.privacy.noise import GaussianNoise, gaussian_epsilon, gaussian_sd

CLAIM = ApproxDP(1.0, 1e-6)


def request(target, spend=None, placement="objective"):
    return Request(target, placement, None, "auto", "increase", spend, ())


def test_what_is_certified_is_small_beside_a_row():
    facts = Problem(10**6, 100, Logistic(), 1.0)
    assert certified_norm(facts, calibrate(request(PureDP(1.0)), facts).noise) < 1e-6


def test_free_penalties():
    logistic, huber = (Problem(10**4, 10, loss, 1.0) for loss in (Logistic(), Huber()))
    assert pure.laplace_free_penalty(logistic, 1.0, "joint") == pytest.approx(2)
    assert pure.laplace_free_penalty(huber, 1.0, "one-log") == pytest.approx(9.5, rel=0.01)
    normal = gaussian_objective.gaussian_free_penalty(huber, CLAIM, "one-log")
    assert normal == pytest.approx(47, rel=0.01)


def test_curvature_costs_little_at_the_free_penalty():
    facts = Problem(10**4, 10, Logistic(), 1.0).with_lambda(2 / 10**4)
    share = pure.joint_epsilon(0.99 / 2, facts) - 0.99  # beyond that of the tilt
    assert share == pytest.approx(1e-5, rel=0.01)


def test_four_gaussian_releases_cost_little_more_than_two():
    mu = 1 / gaussian_sd(0.5, 1e-6, 1.0)
    normal = Entry("", ApproxDP(0.5, 1e-6), (GaussianEvent(mu),), None, 4)
    assert epsilon_of([normal], 1e-6) == pytest.approx(1.05, abs=0.005)
    assert epsilon_of([Entry("", PureDP(0.5), (), None, 4)], 1e-6) == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize("target", [CLAIM, ApproxDP(0.5, 1e-5)])
def test_a_fit_with_inference_spends_its_guarantee(target):
    facts = Problem(10**4, 60, Logistic(), 1.0)
    events = calibrate_all(request(target, "inference", "output"), facts).events
    spent = epsilon_of([Entry("", target, events, None, 1)], target.delta)
    assert 0.99 <= spent / target.epsilon <= 1


def test_one_gaussian_release_pays_for_the_conversion():
    facts, ledger = Problem(2000, 61, Logistic(), 1.0), Ledger(3, 1e-6)
    calibration = calibrate(request(CLAIM, placement="output"), facts)
    assert isinstance(calibration.noise, GaussianNoise)
    ledger.charge(CLAIM, calibration.events)
    assert ledger.spent() == pytest.approx(1.60, abs=0.005)


def test_two_kept_tenths_of_delta_cost_a_hundredth_of_epsilon():
    for mu in (0.1, 0.3, 1.0):
        assert gaussian_epsilon(mu, 0.8e-6) / gaussian_epsilon(mu, 1e-6) < 1.013


@pytest.mark.parametrize("d", [501, 1000])
def test_what_a_shield_of_many_columns_takes(d):
    shares = []
    for n in (10**6, 10**7):
        made = calibrate(request(PureDP(1.0)), Problem(n, d, Logistic(), 1.0))
        shares.append(made.shield.mean_length / made.noise.mean_length)
    assert shares[0] < 0.003
    assert 0.06 < shares[1] < 0.09


@pytest.mark.parametrize(
    ("length", "curvature", "scores"), [(1.5, 0.60, 1.44), (2, 0.34, 0.81), (3, 0.15, 0.36)]
)
def test_noise_on_the_matrices_where_long_rows_count_less(length, curvature, scores):
    facts = Problem(10**4, 6, Logistic(), length)
    ratio = moments_sensitivity(facts, 1.0) / moments_sensitivity(facts)
    assert ratio == pytest.approx(curvature, abs=0.005)
    of_scores = ratio * moments_balance(facts) / moments_balance(facts, 1.0)
    assert of_scores == pytest.approx(scores, abs=0.005)
    assert clip_for(facts, 1.0) == 1.0


def test_a_penalty_of_least_excess_would_drown_large_tables_in_their_shield():
    public = {"bounds": dict.fromkeys("abcdefgh", (0, 1)), "spend": None}
    n, terms = 10**7, "y ~ a + b + c + d + e + f + g + h"
    made = plan(terms, n, 1.0, **public)
    lambda_ = least_excess(made.calibration.coefficients)
    least = plan(terms, n, 1.0, lambda_=lambda_, on_small_lambda="keep", **public)
    usual, other = (
        math.sqrt(one.calibration.coefficients.shield.variances.max()) for one in (made, least)
    )
    # the map takes the ends of bounds, two standard deviations from the middle, to 1
    error = 2 / math.sqrt(n) / 0.5  # of a column without privacy, at least
    assert made.calibration.scale.facts.length == CORNER
    assert usual < 0.15 * error
    assert other > 8.5 * error
