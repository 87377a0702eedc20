"""The audit of fits that buy counts of scores: stages together, each alone, and planted bugs."""

import math
from dataclasses import replace

import pytest
from frames_for_laws import clinic, fit_clinic, replaced

from privatelr import ZCDP, ApproxDP, PureDP, audit
from privatelr.audit.density.loss import counts_loss, joint_loss_of
from privatelr.audit.density.pairs import usual_pair
from privatelr.audit.fits import audit_scored_fits
from privatelr.mechanisms import Problem, Request, calibrate_all
from privatelr.mechanisms.calibration import GAUSSIAN, LAPLACE
from privatelr.mechanisms.stages.histogram import calibrate_histogram
from privatelr.numerics import LOSSES
from privatelr.privacy import to_zcdp
from privatelr.privacy.noise import GaussianNoise, NoNoise

SPEND = (("coefficients", 0.75), ("roc", 0.25))
ALL = (("coefficients", 0.6), ("inference", 0.3), ("roc", 0.1))


@pytest.mark.parametrize("epsilon", [0.05])
def test_every_claim_holds_and_pure_ones_are_reached(epsilon):
    found = list(audit_scored_fits(epsilon))
    assert len(found) == 14
    assert all(check.holds and not check.failure for check in found), found
    shares = {check.subject: check.found / check.allowed for check in found}
    alone = [share for subject, share in shares.items() if "a stage over its part" in subject]
    assert min(alone) > 0.999
    assert shares[f"counts of scores, epsilon = {epsilon:g}: loss over the claim"] > 0.99
    assert shares["counts of scores: counts that one record moves"] == 1


@pytest.mark.parametrize("target", [PureDP(0.7), ZCDP(0.1), ApproxDP(0.3, 0.04)], ids=str)
def test_the_loss_of_counts_is_what_was_paid(target):
    made = calibrate_histogram(1000, target)
    assert counts_loss(made).ratio == pytest.approx(1.0, rel=1e-4)
    assert not counts_loss(replace(made, noise=louder(made.noise))).holds


def louder(noise):
    """A tenth of the noise."""
    tenth = {"sd": noise.sd / 10} if hasattr(noise, "sd") else {"rate": 10 * noise.rate}
    return replace(noise, **tenth)


def plan_of(target, spend, kinds=()):
    request = Request(target, "objective", None, "free", "keep", spend, kinds)
    return calibrate_all(request, Problem(10**6, 2, LOSSES["logistic"], 1.0))


@pytest.mark.parametrize("spend", [SPEND, ALL], ids=len)
def test_pure_losses_add_up(spend):
    plan = plan_of(PureDP(1.0), spend)
    pair = usual_pair(plan.coefficients, 1.0)[0]
    found = joint_loss_of(pair, plan)
    without = joint_loss_of(pair, plan.having({"roc": None}))
    assert found.counts == pytest.approx(dict(spend)["roc"])
    assert found.found == pytest.approx(without.found + found.counts)
    assert found.parts[-1].of == "counts"
    assert "of the counts of scores" in str(found)
    assert found.holds


def test_rhos_add_up():
    plan = plan_of(ZCDP(0.1), SPEND)
    pair = usual_pair(plan.coefficients, 1.0)[0]
    found = joint_loss_of(pair, plan)
    without = joint_loss_of(pair, plan.having({"roc": None}))
    assert isinstance(plan.histogram.noise, GaussianNoise)
    assert found.found == pytest.approx(without.found + 0.025, rel=1e-3)
    pure = plan.having({"roc": calibrate_histogram(10**6, ZCDP(0.025), LAPLACE)})
    added = joint_loss_of(pair, pure).counts
    assert added == pytest.approx(to_zcdp(pure.histogram.proven).rho, rel=1e-6)


@pytest.mark.parametrize("spend", [SPEND, ALL], ids=len)
@pytest.mark.parametrize("kinds", [GAUSSIAN, LAPLACE], ids=["Gaussian", "Laplace"])
def test_a_delta_holds_for_all_stages_together(kinds, spend):
    plan = plan_of(ApproxDP(1.0, 1e-3), spend, kinds)
    pair = usual_pair(plan.coefficients, 1.0)[0]
    found = joint_loss_of(pair, plan)
    assert found.holds
    assert found.counts >= 0
    silent = replace(plan.histogram, noise=louder(plan.histogram.noise))
    assert not joint_loss_of(pair, plan.having({"roc": silent})).holds


def test_the_loss_of_a_fit_contains_that_of_its_counts():
    frame = clinic().assign(smoker="no")
    other = replaced(frame, 0, age=90.0, y=1 - frame.y[0])
    fit = fit_clinic(frame, spend=dict(SPEND))
    found = audit.privacy_loss(fit, frame, other)
    plain = fit_clinic(frame, eps=0.75, do_scale=False)
    assert found.counts == pytest.approx(0.25)
    assert found.found == pytest.approx(audit.privacy_loss(plain, frame, other).found + 0.25)


def test_counts_without_noise_have_no_claim():
    made = calibrate_histogram(100, PureDP(1.0))
    assert math.isinf(counts_loss(replace(made, noise=NoNoise(made.noise.dimension))).found)
