"""From noise back to the guarantee: every calibration is worth its target, and not much more."""

import math
from dataclasses import replace

import pytest
from achieved_guarantees import achieved
from hypothesis import given, settings
from hypothesis import strategies as st

from privatelr import ZCDP, ApproxDP, GuaranteeError, NonPrivate, PureDP
from privatelr.mechanisms import Problem, calibrate, read_request
from privatelr.mechanisms.calibration import gaussian_tilts
from privatelr.numerics import LOSSES
from privatelr.privacy import implies
from privatelr.privacy.noise import BlockLaplace, GaussianNoise, NoNoise, SphericalLaplace
from privatelr.types import Block

BLOCKS = (Block(1, 0.5), Block(1, 1.0), Block(6, 1.0))
EPSILON = st.floats(-6, 3).map(lambda x: 10.0**x)
TARGETS = st.one_of(
    EPSILON.map(PureDP),
    EPSILON.map(ZCDP),
    st.builds(ApproxDP, EPSILON, st.floats(-30, -0.31).map(lambda x: 10.0**x)),
)


def calibration_for(
    target, *, blocks=(), op=True, lambda_=None, small="increase", analysis="joint", d=8
):
    facts = Problem(1000, d, LOSSES["logistic"], 1.6, blocks)
    return calibrate(read_request(target, 0, None, lambda_, op, analysis, small), facts)


def excess(calibration):
    """How much more the noise costs than it claims, as a ratio of epsilon, rho or delta."""
    found, target = achieved(calibration), calibration.target
    assert type(found) is type(calibration.proven)
    match found:
        case PureDP():
            return found.epsilon / target.epsilon
        case ZCDP():
            return found.rho / target.rho
        case ApproxDP():
            assert found.epsilon == target.epsilon
            return found.delta / target.delta


@settings(max_examples=60, deadline=None)
@given(
    TARGETS,
    st.sampled_from([(), BLOCKS]),
    st.booleans(),
    st.one_of(st.none(), st.floats(-9, 3).map(lambda x: 10.0**x)),
    st.sampled_from([8, 300]),
)
def test_every_calibration_is_worth_its_target(target, blocks, op, lambda_, d):
    """Over nine decades of epsilon, thirty of delta and twelve of lambda, and it ends."""
    d = 8 if blocks else d
    calibration = calibration_for(target, blocks=blocks, op=op, lambda_=lambda_, d=d)
    assert implies(calibration.proven, target)
    found = excess(calibration)
    # log delta is known to about 1e-9 absolutely
    assert found <= 1 + (1e-8 if isinstance(target, ApproxDP) else 1e-12)
    if isinstance(calibration.noise, GaussianNoise) and isinstance(target, ZCDP) and op:
        return  # the curvature is paid in steps there, so something may be left
    assert found >= 0.98


@settings(max_examples=20, deadline=None)
@given(TARGETS, st.booleans(), st.sampled_from([(8, ()), (8, BLOCKS), (300, ())]))
def test_noise_that_is_too_small_is_seen(target, op, shape):
    """A twentieth less noise is worth less than the target: the test above can fail."""
    calibration = calibration_for(target, op=op, d=shape[0], blocks=shape[1])
    noise = calibration.noise
    if isinstance(noise, GaussianNoise):
        meagre = replace(noise, sd=0.95 * noise.sd)
    else:
        meagre = replace(noise, rate=noise.rate / 0.95)
    assert excess(replace(calibration, noise=meagre)) > 1


@pytest.mark.parametrize("d", [8, 40])
@pytest.mark.parametrize("target", [PureDP(1.0), ZCDP(0.1), ApproxDP(1.0, 1e-6)], ids=str)
def test_a_shield_that_is_too_small_is_seen(target, d):
    calibration = calibration_for(target, d=d)
    shield = calibration.shield
    if isinstance(shield, GaussianNoise):
        meagre = replace(shield, sd=0.5 * shield.sd)
    else:
        meagre = replace(shield, rate=2 * shield.rate)
    assert excess(replace(calibration, shield=meagre)) > 1
    assert excess(replace(calibration, tau=2 * calibration.tau)) > 1


@settings(max_examples=15, deadline=None)
@given(EPSILON, st.floats(-30, -0.31), st.floats(-9, 3))
def test_gaussian_noise_is_monotone(epsilon, log_delta, log_lambda):
    """More epsilon, delta or lambda never asks for more noise."""
    delta, lambda_ = 10.0**log_delta, 10.0**log_lambda

    def sigma(epsilon, delta, lambda_):
        target = ApproxDP(epsilon, min(delta, 0.5))
        facts = Problem(1000, 8, LOSSES["logistic"], 1.6)
        laws = gaussian_tilts(facts.with_lambda(lambda_), target, "joint")
        return laws[0].sd if laws else math.inf

    base = sigma(epsilon, delta, lambda_) * (1 + 1e-6)
    assert sigma(1.5 * epsilon, delta, lambda_) <= base
    assert sigma(epsilon, 2 * delta, lambda_) <= base
    assert sigma(epsilon, delta, 2 * lambda_) <= base


@pytest.mark.parametrize("target", [PureDP(0.3), ZCDP(0.01), ApproxDP(0.3, 1e-6)], ids=str)
@pytest.mark.parametrize("analysis", ["joint", "one-log"])
def test_the_smallest_feasible_lambda_is_named_and_is_it(target, analysis):
    """Under (epsilon, delta) that of whichever noise suffices at the smaller one."""
    with pytest.raises(GuaranteeError, match=r"take lambda_ above \S+, where") as caught:
        calibration_for(target, lambda_=1e-12, small="keep", analysis=analysis)
    named = float(str(caught.value).split("above ")[1].split(",")[0])
    found = calibration_for(target, lambda_=named * 1.01, small="keep", analysis=analysis)
    assert excess(found) <= 1 + 1e-8
    with pytest.raises(GuaranteeError):
        calibration_for(target, lambda_=named * 0.99, small="keep", analysis=analysis)


def test_raising_lambda_leaves_two_per_cent_to_the_curvature():
    """The smallest lambda at which sigma is within 1.02 of the plain Gaussian."""
    found = calibration_for(ApproxDP(1.0, 1e-6), lambda_=1e-9, d=40)
    far = calibration_for(ApproxDP(1.0, 1e-6), lambda_=1e6, d=40)
    assert "raised from 1e-09" in found.lambda_origin
    assert found.noise.sd == pytest.approx(1.02 * far.noise.sd, rel=1e-6)
    # at R = 1 it is 8.449, here with a shield of a tenth of mu
    assert far.noise.sd == pytest.approx(8.449 * 1.6 * math.hypot(1, 0.1), rel=1e-4)


def test_output_noise_under_each_target():
    """Multiples of R / Lambda at delta = 1e-6."""
    scale = 1.6 / (1000 * 0.5)
    analytic = calibration_for(ApproxDP(1.0, 1e-6), op=False, lambda_=0.5, d=40)
    assert analytic.noise == GaussianNoise(40, pytest.approx(8.449 * scale, rel=1e-4))
    assert analytic.analysis == "analytic"
    concentrated = calibration_for(ZCDP(0.125), op=False, lambda_=0.5).noise
    assert concentrated == GaussianNoise(8, pytest.approx(4 * scale, rel=1e-9))
    pure = calibration_for(PureDP(1.0), op=False, lambda_=0.5).noise
    assert pure == SphericalLaplace(8, pytest.approx(1 / (2 * scale), rel=1e-9))
    few = calibration_for(ApproxDP(1.0, 1e-6), op=False, lambda_=0.5)
    assert few.noise == pure
    assert few.analysis == "sensitivity"
    assert few.events == (PureDP(1.0),)


def test_the_shape_of_the_noise_is_a_public_comparison():
    with_blocks, without = (calibration_for(PureDP(1.0), blocks=b) for b in (BLOCKS, ()))
    assert isinstance(with_blocks.noise, BlockLaplace)
    assert isinstance(without.noise, SphericalLaplace)
    assert "spherical Laplace noise " in str(with_blocks)
    ratio = next(r for title, r in with_blocks.alternatives if "spherical" in title)
    assert ratio > 1
    # one block with one column is the interval either way; many loose blocks lose
    loose = tuple(Block(1, 1.6) for _ in range(8))
    assert isinstance(calibration_for(PureDP(1.0), blocks=loose).noise, SphericalLaplace)


def test_zero_concentrated_takes_the_shorter_noise():
    small, large = (
        calibrate(
            read_request(ZCDP(0.5), 0, None, None, True, "joint", "increase"),
            Problem(10**6, d, LOSSES["logistic"], 1.0),
        )
        for d in (2, 2000)
    )
    assert isinstance(small.noise, SphericalLaplace)
    assert isinstance(large.noise, GaussianNoise)
    assert "Gaussian noise " in str(small)
    assert excess(small) <= 1 + 1e-12


def test_what_nothing_is_proven_about():
    calibration = calibration_for(PureDP(1.0), blocks=BLOCKS)
    for broken in (
        replace(calibration, noise=GaussianNoise(8, 1.0)),
        replace(calibration, noise=NoNoise(8)),
        replace(calibration, analysis="hope"),
        replace(calibration, problem=replace(calibration.problem, blocks=())),
        replace(calibration, placement="output"),
        replace(calibration, target=ApproxDP(1.0, 1e-6), shield=GaussianNoise(8, 1.0)),
    ):
        with pytest.raises(GuaranteeError, match="nothing is proven"):
            achieved(broken)


def test_the_plain_fit_promises_nothing():
    calibration = calibration_for(0)
    assert isinstance(achieved(calibration), NonPrivate)
    assert calibration.events == ()


def test_effective_epsilon():
    assert calibration_for(PureDP(2.0)).epsilon_effective == pytest.approx(2.0, rel=1e-4)
    for d in (8, 40):
        found = calibration_for(ApproxDP(2.0, 1e-6), d=d)
        assert found.epsilon_effective == pytest.approx(2.0, rel=0.03)
    assert math.isnan(calibration_for(ZCDP(0.1)).epsilon_effective)
    assert calibration_for(0).epsilon_effective == 0


@pytest.mark.parametrize("op", [True, False])
def test_a_certificate_finer_than_doubles_is_not_believed(op):
    calibration = calibration_for(PureDP(1.0), op=op)
    for tau in (0.0, calibration.tau / 2, 1e-100, math.nan):
        with pytest.raises(GuaranteeError, match="no minimum is certified"):
            achieved(replace(calibration, tau=tau))
