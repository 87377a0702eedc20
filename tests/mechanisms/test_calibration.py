"""Constants of pure epsilon, tables of noise, and the rules for lambda; no data anywhere."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from achieved_guarantees import achieved
from hypothesis import given
from hypothesis import strategies as st

from privatelr import ZCDP, ApproxDP, GuaranteeError, NonPrivate, PureDP
from privatelr.mechanisms import MECHANISMS, Problem, calibrate, read_request
from privatelr.mechanisms.calibration import gaussian_objective, output_sensitivity, pure
from privatelr.mechanisms.request import Request
from privatelr.numerics import LOSSES
from privatelr.privacy import REPLACE_PERSON, implies
from privatelr.privacy.events import tilt_survival
from privatelr.privacy.noise import GaussianNoise

LOSS = LOSSES["logistic"]
# noise scale at R = 1, n = 1e4: eps, lambda, two-log, one-log, joint
TABLE = [
    (0.1, 1e-4, math.inf, math.inf, math.inf),
    (0.1, 1e-3, 39.51, 26.56, 21.50),
    (0.1, 1e-2, 21.05, 20.51, 20.00),
    (0.5, 1e-4, 37.24, 7.22, 5.62),
    (0.5, 1e-3, 4.44, 4.21, 4.00),
    (1, 1e-4, 3.61, 2.57, 2.12),
    (1, 1e-3, 2.10, 2.05, 2.00),
    (2, 1e-4, 1.287, 1.126, 1.000),
    (8, 1e-4, 0.265, 0.257, 0.250),
]
FILE = Path(__file__).parents[1] / "reference" / "calibration.json"
REFERENCE = [
    row for row in json.loads(FILE.read_text(encoding="utf-8"))["pure"] if row["loss"] == LOSS.name
]
EPS = st.floats(-3, 3).map(lambda x: 10.0**x)
LAMBDA = st.floats(-8, 3).map(lambda x: 10.0**x)
TARGETS = {PureDP: PureDP(1.0), ZCDP: ZCDP(0.1), ApproxDP: ApproxDP(1.0, 1e-6), NonPrivate: 0}
RADIUS = st.floats(-1, 2).map(lambda x: 10.0**x)


def facts(n=10**4, d=5, radius=1.0):
    return Problem(n, d, LOSS, radius)


def calibrated(eps, lambda_=None, *, op=True, analysis="joint", small="increase", of=None):
    return calibrate(read_request(eps, 0, None, lambda_, op, analysis, small), of or facts())


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"eps={row[0]} lambda={row[1]}")
def test_table_of_noise_scales(row):
    eps, lambda_, *scales = row
    for analysis, expected in zip(("cms11", "one-log", "joint"), scales, strict=True):
        rate = pure.objective_rate(facts().with_lambda(lambda_), eps, analysis)
        if math.isinf(expected):
            assert rate <= 0
            with pytest.raises(GuaranteeError, match=r"too small .* take lambda_ above"):
                calibrated(eps, lambda_, analysis=analysis, small="keep")
            continue
        digits = len(f"{expected}".split(".")[1])
        assert 1 / rate == pytest.approx(expected, abs=0.51 * 10**-digits)
        # the tilt has all of the rate but the hundredth that covers the solver
        found = calibrated(eps, lambda_, analysis=analysis, small="keep").noise.scale
        assert found == pytest.approx(1 / rate / 0.99, rel=1e-9)


@pytest.mark.parametrize("row", REFERENCE, ids=lambda row: str(list(row.values())[1:4]))
def test_reference_rates(row):
    eps, penalty, radius = row["epsilon"], row["Lambda"], row["R"]
    problem = Problem(1, 5, LOSS, radius).with_lambda(penalty)
    for analysis in pure.ANALYSES:
        expected = row[f"gamma_{analysis.replace('-', '_')}"]
        found = pure.objective_rate(problem, eps, analysis) / radius
        assert found == pytest.approx(expected, rel=1e-9) if expected is not None else found <= 0
    rate = eps / output_sensitivity(problem)
    assert rate == pytest.approx(row["gamma_output"], rel=1e-9)


@given(EPS, LAMBDA, RADIUS)
def test_joint_epsilon_is_the_supremum_that_it_states(eps, lambda_, radius):
    problem = facts(radius=radius).with_lambda(lambda_)
    rate = eps / 2
    g, s = rate, np.linspace(0, 1, 4001)
    brute = g + (g * s + np.log1p(problem.kappa * s * (1 - s))).max()
    found = pure.joint_epsilon(rate, problem)
    assert found >= brute * (1 - 1e-12)
    assert found == pytest.approx(brute, rel=1e-5)


@given(EPS, LAMBDA, RADIUS, st.sampled_from(pure.ANALYSES))
def test_rates_err_on_the_safe_side_and_are_ordered(eps, lambda_, radius, analysis):
    problem = facts(radius=radius).with_lambda(lambda_)
    joint, one, two = (pure.objective_rate(problem, eps, a) for a in ("joint", "one-log", "cms11"))
    assert joint >= one * (1 - 1e-12)
    assert one >= two
    if joint > 0:
        spent = pure.joint_epsilon(joint, problem)
        assert spent <= eps * (1 + 1e-15)
        # and the rate is the largest: a little more would overspend
        assert joint >= eps / 2 or pure.joint_epsilon(joint * (1 + 1e-9), problem) > eps
    least = pure.smallest_feasible_penalty(problem, eps, analysis)
    rate = pure.objective_rate(problem, eps, analysis)
    assert (rate > 0) == (problem.penalty > least) or problem.penalty == pytest.approx(least)


@given(EPS, LAMBDA, RADIUS, st.sampled_from(pure.ANALYSES))
def test_increase_never_fails_and_never_lowers_lambda(eps, lambda_, radius, analysis):
    of = facts(radius=radius)
    found = calibrated(eps, lambda_, analysis=analysis, of=of)
    assert found.lambda_ >= lambda_
    assert 0 < found.epsilon_effective <= eps * (1 + 1e-12)
    if analysis == "joint":
        assert found.noise.scale == pytest.approx(2 * radius / (0.99 * eps), rel=1e-4)


def test_monotone_in_epsilon_and_lambda():
    scales = [calibrated(eps, 0.01).noise.scale for eps in np.logspace(-6, 3, 40)]
    assert (np.diff(scales) < 0).all()
    kept = [
        calibrated(0.5, lambda_, small="keep").noise.scale for lambda_ in np.logspace(-4, 1, 40)
    ]
    assert (np.diff(kept) <= 0).all()


@pytest.mark.parametrize("eps", [0.05, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("n", [100, 10**4])
@pytest.mark.parametrize("d", [3, 100])
def test_automatic_lambda(eps, n, d):
    """The rule, written down again: (2R^2/eps) max(1, d sqrt(6/(n eps))) / n."""
    radius = 1.3
    found = calibrated(eps, of=facts(n, d, radius))
    rule = 2 * radius**2 / eps * max(1, d * math.sqrt(6 / (n * eps))) / n
    assert found.lambda_ == pytest.approx(rule, rel=1e-12)
    assert calibrated(eps, "free", of=facts(n, d, radius)).lambda_ == pytest.approx(
        2 * radius**2 / eps / n
    )
    named = dict(found.lambda_rules)
    assert named["auto"] == found.lambda_
    assert set(named) == {"auto", "free", "PrivateLR"}
    # R's rule at radius R: 2 log(1 + c R^2 / (n lambda)) = eps / 10
    lambda_ = calibrated(eps, "PrivateLR", analysis="cms11", of=facts(n, d, radius)).lambda_
    assert 2 * math.log1p(0.25 * radius**2 / (n * lambda_)) == pytest.approx(eps / 10)


def test_fallback_of_r():
    """Where nothing is left for the noise: Lambda = c R^2 / (exp(eps/4) - 1), half of eps."""
    found = calibrated(0.01, 1e-9, analysis="cms11")
    assert found.problem.penalty == pytest.approx(0.25 / math.expm1(0.0025))
    assert found.epsilon_effective == pytest.approx(0.005)
    assert found.noise.scale == pytest.approx(2 / (0.99 * 0.005))
    assert "raised from 1e-09" in found.lambda_origin


def test_output_perturbation():
    found = calibrated(0.7, 0.02, op=False, of=facts(radius=1.5))
    # the certificate adds 2 tau to the shift of the gradient, below a millionth of it
    assert found.noise.rate == pytest.approx(0.7 * 10**4 * 0.02 / (2 * 1.5 + 2 * found.tau))
    assert found.tau < 1e-7 * 1.5
    assert found.coefficient_sd == pytest.approx(math.sqrt(6) / found.noise.rate)
    assert found.epsilon_effective == pytest.approx(0.7)


@pytest.mark.parametrize("key", MECHANISMS, ids=str)
def test_every_registered_mechanism_calibrates(key):
    placement, guarantee = key
    target = TARGETS[guarantee]
    found = calibrated(target, op=placement == "objective")
    assert found.placement == placement
    assert found.target == target or guarantee is NonPrivate
    assert all(len(line) <= 79 for line in str(found).splitlines())


def test_privacy_sd_is_an_upper_limit():
    """Minimisers under many draws spread by no more than the calibration says."""
    from privatelr.numerics import Objective
    from privatelr.numerics.rows import DenseRows
    from privatelr.numerics.solve import Newton
    from privatelr.privacy.noise import SeededRandomness

    rng = np.random.default_rng(1)
    for n, d in ((1, 1), (5, 3), (200, 3)):
        rows = DenseRows(rng.standard_normal((n, d)), np.ones(n), bound=1.0, intercept=None)
        found = calibrated(1.0, of=Problem(n, d, LOSS, rows.radius))
        randomness = SeededRandomness(n)
        draws = [randomness.draw(found.noise).nearest() / n for _ in range(400)]
        fits = [Newton()(Objective(rows, LOSS, found.lambda_, b)).w for b in draws]
        spread = np.std(fits, axis=0)
        assert (spread <= found.coefficient_sd * 1.05).all()
        if n == 1:
            assert spread.max() > found.coefficient_sd / 3


# -- persons with any number of records -------------------------------------------------------


@given(EPS, LAMBDA, RADIUS)
def test_the_joint_bound_of_a_person_is_the_supremum_that_it_states(eps, lambda_, radius):
    problem = replace(facts(radius=radius).with_lambda(lambda_), persons=True)
    g, s = eps / 2, np.linspace(0, 1, 4001)
    brute = g + (g * s + problem.kappa * s * (1 - s)).max()
    found = pure.joint_epsilon(g, problem)
    assert found >= brute * (1 - 1e-12)
    assert found == pytest.approx(brute, rel=1e-5)


@given(EPS, LAMBDA, RADIUS, st.sampled_from(pure.ANALYSES))
def test_rates_for_persons_err_on_the_safe_side(eps, lambda_, radius, analysis):
    record = facts(radius=radius).with_lambda(lambda_)
    person = replace(record, persons=True)
    rate = pure.objective_rate(person, eps, analysis)
    assert rate <= pure.objective_rate(record, eps, analysis) * (1 + 1e-12)
    if rate > 0:
        assert pure.objective_epsilon(rate, person, analysis) <= eps * (1 + 1e-14)
    least = pure.smallest_feasible_penalty(person, eps, analysis)
    assert (rate > 0) == (person.penalty > least) or person.penalty == pytest.approx(least)


@pytest.mark.parametrize("eps", [0.05, 1.0, 4.0])
def test_the_curvature_of_a_person_is_free_at_the_same_penalty(eps):
    """From Lambda = 2 R^2 / eps on, as for a record (theory.md#persons)."""
    alone = facts(10**4, 3, 1.3)
    found = calibrated(eps, "free", of=replace(alone, persons=True))
    assert found.lambda_ == calibrated(eps, "free", of=alone).lambda_
    assert found.noise == calibrated(eps, "free", of=alone).noise


@pytest.mark.parametrize("target", [ApproxDP(1.0, 1e-6, REPLACE_PERSON), ZCDP(0.1, REPLACE_PERSON)])
@pytest.mark.parametrize("d", [3, 200])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=[*LOSSES])
def test_persons_have_the_shortest_law_under_every_guarantee(target, d, loss):
    """In many columns it is Gaussian, and what it is worth is the promise and little less."""
    of = replace(facts(10**5, d), loss=loss, persons=True)
    for lambda_ in ("auto", "free", 0.01):
        found = calibrate(Request(target, "objective", None, lambda_, "increase"), of)
        assert isinstance(found.noise, GaussianNoise) is (d == 200)
        worth = achieved(found)
        assert implies(worth, target)
        if isinstance(target, ZCDP) and d == 200:
            assert worth.rho == pytest.approx(target.rho, rel=1e-9)
        assert all(event.neighbours is REPLACE_PERSON for event in found.events)


@pytest.mark.parametrize("share", [0.05, 0.5])
@pytest.mark.parametrize("eps", [0.1, 1.0, 4.0])
def test_gaussian_noise_of_persons_is_nearly_that_of_records(eps, share):
    """Where little is paid for the curvature, the tangent costs a percent at most."""
    record = facts(10**5, 30).with_lambda(1 / (share * eps * 10**5))
    person = replace(record, persons=True)
    sds = [gaussian_objective.objective_sigma(of, eps, 1e-6) for of in (record, person)]
    assert sds[0] < sds[1] < 1.01 * sds[0]
    # a person's event is never cheaper than a record's
    one, other = (gaussian_objective.tilt_event(of, sds[1]) for of in (record, person))
    assert one.rho <= other.rho
    losses = np.linspace(0, 3 * eps, 500)
    mine, theirs = tilt_survival(other, losses), tilt_survival(one, losses)
    assert np.all(np.diff(mine) <= 0)
    assert np.all(theirs[losses > eps / 2] <= mine[losses > eps / 2] * (1 + 1e-9))


@pytest.mark.parametrize("target", [PureDP(0.3), PureDP(1.0), PureDP(4.0), PureDP(1e4)], ids=str)
@pytest.mark.parametrize("persons", [False, True])
def test_a_penalty_that_a_step_takes_off_is_small_and_costs_a_tenth(target, persons):
    whole = replace(facts(), persons=persons)
    asked = read_request(target.epsilon, 0, None, None, True, None, "increase")
    if persons:
        asked = replace(asked, target=PureDP(target.epsilon, REPLACE_PERSON))
    usual = calibrate(asked, whole)
    bought = calibrate(replace(asked, spend="inference"), whole)
    share = usual.noise.scale / bought.noise.scale
    assert 0.89 < share < 0.93 or target.epsilon > 4
    smaller = usual.problem.lambda_ / bought.problem.lambda_
    assert 1.5 < smaller <= 4 * (1 + 1e-9)


@pytest.mark.parametrize("delta", [1e-9, 1e-5])
def test_so_does_one_under_gaussian_noise(delta):
    whole = facts(d=40)
    asked = read_request(1.0, delta, None, None, True, None, "increase")
    usual, bought = (calibrate(replace(asked, spend=s), whole) for s in (asked.spend, "inference"))
    assert isinstance(bought.noise, GaussianNoise)
    assert 0.89 < usual.noise.sd / bought.noise.sd < 1
    assert 1 < usual.problem.lambda_ / bought.problem.lambda_ <= 4
    achieved(bought)


def test_a_loss_without_probabilities_keeps_its_penalty():
    """Its page is about the penalised coefficients, so no step takes the penalty off."""
    asked = read_request(1.0, 0, None, None, True, None, "increase")
    whole = replace(facts(), loss=LOSSES["huber"])
    usual, bought = (calibrate(replace(asked, spend=s), whole) for s in (asked.spend, "inference"))
    assert usual.problem.lambda_ == bought.problem.lambda_
