"""Laplace noise under a delta: what is tried to break is the pure guarantee that is charged."""

from dataclasses import replace

import numpy as np
import pytest
from broken_mechanisms import GAUSSIAN, LAPLACE, LOGISTIC, calibrated, halved, planned

from privatelr import audit
from privatelr.audit.checks import Effort, Setting
from privatelr.audit.density.loss import joint_loss_of
from privatelr.audit.density.search import search
from privatelr.audit.run_audit import audit_one
from privatelr.mechanisms import Request
from privatelr.privacy import ZCDP, ApproxDP, PureDP
from privatelr.privacy.noise import GaussianNoise, SphericalLaplace

TARGET = ApproxDP(1.0, 1e-6)
PLACEMENTS = ("objective", "output")


def rng():
    return np.random.default_rng(4)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_the_loss_is_that_of_the_pure_claim(placement):
    with_delta = calibrated(TARGET, placement=placement, kinds=LAPLACE)
    found = search(with_delta, rng(), 0).loss
    pure = search(calibrated(PureDP(1.0), placement=placement), rng(), 0).loss
    assert found.claim == PureDP(1.0)
    assert 0.9 < found.ratio <= 1
    assert found.ratio == pytest.approx(pure.ratio, rel=1e-6)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_half_of_the_noise_is_a_violation(placement):
    broken = halved(calibrated(TARGET, placement=placement, kinds=LAPLACE))
    assert search(broken, rng(), 0).loss.ratio > 1.8


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("target", [TARGET, ZCDP(4.0)], ids=str)
def test_laplace_coefficients_beside_gaussian_moments(placement, target):
    """And the other way round: each part of the noise is of its own kind."""
    plan = planned(target, placement=placement, kinds=LAPLACE)
    normal = planned(target, placement=placement, kinds=GAUSSIAN)
    mixes = (
        plan.having({"inference": normal.moments}),
        normal.having({"inference": plan.moments}),
    )
    # beside a delta the moments are Gaussian, and share it with the coefficients
    for mixed in (plan,) if isinstance(target, ApproxDP) else mixes:
        kinds = type(mixed.coefficients.noise), type(mixed.moments.noise)
        assert sorted(kinds, key=str) == sorted((SphericalLaplace, GaussianNoise), key=str)
        found = search(mixed, rng(), 0)
        assert found.loss.claim == target
        assert found.loss.holds
        assert np.isfinite(found.loss.ratio)
        small = replace(mixed.moments.noise, **_tenth(mixed.moments.noise))
        broken = mixed.having({"inference": replace(mixed.moments, noise=small)})
        assert not joint_loss_of(found.pair, broken).holds


def _tenth(noise):
    if isinstance(noise, GaussianNoise):
        return {"sd": noise.sd / 10}
    return {"rate": 10 * noise.rate}


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_row_says_that_delta_is_unused(placement):
    request = Request(TARGET, placement, None, "free", "keep", kinds=LAPLACE)
    row = audit_one(request, LOGISTIC, Effort((Setting(),), 0, 4000, 1, 10), 1e-3, rng())
    assert row.claim == "epsilon = 1, delta unused"
    assert row.claimed == 1.0
    assert row.verdict == "ok"
    assert row.attained > 0.9


def test_a_fit_is_audited_at_one_output():
    calibration = calibrated(TARGET, kinds=LAPLACE, n=3)
    sides = np.array([[1.0, 0.0]] * 3), np.array([[-1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    found = audit.privacy_loss(calibration, *sides, output=np.array([0.2, 0.0]))
    assert found.claim == PureDP(1.0)


def test_under_zcdp_a_pair_shows_half_of_rho():
    """So a factor of the noise could hide, and `worth` computes the share that noise spends."""
    assert search(calibrated(ZCDP(0.1)), rng(), 0).loss.ratio == pytest.approx(0.49, abs=0.01)
    by_output = calibrated(ZCDP(0.1), placement="output")
    assert search(by_output, rng(), 0).loss.ratio == pytest.approx(1, abs=1e-3)
