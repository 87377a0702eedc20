"""The audit of the scale of columns: alone, with the coefficients, and on planted bugs."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from broken_mechanisms import GAUSSIAN, LAPLACE, RECORDS

from privatelr import audit, dplr, dpsvm
from privatelr.audit import checks, worth
from privatelr.audit.checks import OK, QUICK, VIOLATION
from privatelr.audit.density.loss import (
    joint_loss_of,
    largest_change,
    scale_change,
    scale_loss,
)
from privatelr.audit.density.pairs import pair_of, signed_rows
from privatelr.audit.density.search import deep_pair
from privatelr.audit.run_audit import SCALE_BESIDE, audit_one
from privatelr.design import plan_design, read_design, standardise
from privatelr.formula import parse_formula
from privatelr.mechanisms import Problem, Request, StagedCalibration, calibrate_all, registry
from privatelr.mechanisms.stages.scale import ScaleFacts, ScaleRelease, calibrate_scale, scale_map
from privatelr.numerics import LOSSES
from privatelr.numerics.rows import DenseRows
from privatelr.privacy import ZCDP, ApproxDP, PureDP
from privatelr.sources import as_batch, declare_schema
from privatelr.types import Block, ColumnGroup

NUMBER = ColumnGroup(1, "number")
ALL = (NUMBER, ColumnGroup(3, "indicators"), ColumnGroup(4, "product", 1.4, 1.0))
LENGTH = 1.5


def plan_of(target, *, n=RECORDS, loss="logistic", spend=None, kinds=(), lambda_="free"):
    """Two columns without an intercept, so that opposite records stay opposite."""
    facts = ScaleFacts(n, (NUMBER, NUMBER), False, 0.003)
    blocks = (Block(1, LENGTH, "l2"),) * 2 if isinstance(target, PureDP) else ()
    problem = Problem(n, 2, LOSSES[loss], math.nextafter(LENGTH, math.inf), blocks)
    shares = (("scale", 0.1), ("coefficients", 0.9)) if spend is None else spend
    request = Request(target, "objective", None, lambda_, "increase", shares, kinds)
    return calibrate_all(request, problem, facts)


ENDS = np.ones(2), -np.ones(2)
"""A record at one end of its bounds, and at the other."""


def attacked(plan):
    """The loss of both stages: records at the ends, whose rows are at the bound of their length.

    Almost every map makes their rows so long and nearly opposite.
    """
    change = scale_change(*ENDS, plan.scale)
    return joint_loss_of(deep_pair(plan.coefficients), plan, change=change)


# -- the second implementation of the formulas -----------------------------------------------------


@pytest.mark.parametrize("groups", [(NUMBER,), (NUMBER,) * 3, ALL], ids=len)
@pytest.mark.parametrize("target", [PureDP(0.1), PureDP(2.0), ZCDP(0.01), ZCDP(1.0)], ids=str)
def test_the_scale_spends_its_claim(groups, target):
    for n in (100, 10**6):
        spent = worth.share_of_scale(calibrate_scale(ScaleFacts(n, groups, True, 0.03), target))
        # a product of several columns has no records that attain its bound
        least = 0.75 if groups is ALL and isinstance(target, ZCDP) else 0.999
        assert least < spent <= 1


@pytest.mark.parametrize("target", [PureDP(0.5), ZCDP(0.1), ApproxDP(0.5, 1e-6)], ids=str)
@pytest.mark.parametrize("spend", [None, "inference"])
def test_three_parts_are_the_whole(target, spend):
    plan = plan_of(target, spend=spend)
    parts = tuple(stage.target for stage in plan.stages)
    assert len(parts) == (2 if spend is None else 3)
    assert worth.share_of_parts(target, parts) == pytest.approx(1, rel=1e-9)
    assert worth.share_of_parts(target, parts) <= 1 + 1e-9
    assert worth.share_of_scale(plan.scale) <= 1
    assert worth.share_spent(plan.coefficients) <= 1 + 1e-6


# -- exact losses ----------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [PureDP(0.2), ZCDP(0.05)], ids=str)
def test_the_loss_of_the_scale_is_attained_at_the_ends_of_a_number(target):
    scale = calibrate_scale(ScaleFacts(1000, (NUMBER,) * 3, True, 0.03), target)
    loss = scale_loss(largest_change(scale), scale)
    assert 0.9999 < loss.ratio <= 1
    rng = np.random.default_rng(0)
    for old, new in rng.uniform(-1, 1, (100, 2, 3)):
        assert scale_loss(scale_change(old, new, scale), scale).holds


def test_the_log_ratio_of_a_box_is_reached_far_out():
    scale = calibrate_scale(ScaleFacts(1000, (NUMBER,) * 2, True, 0.03), PureDP(0.3))
    old, new = np.array([1.0, 0.3]), np.array([-1.0, -0.2])
    change = scale_change(old, new, scale)
    far = np.array([50.0, 0.001, 0.002, -0.001])  # noise under the old record
    ratio = scale.noise.log_density(far) - scale.noise.log_density(far - change)
    assert ratio == pytest.approx(scale_loss(change, scale).found, rel=1e-9)
    assert 0.999 < ratio / 0.3 <= 1


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("loss", ["logistic", "huber", "softplus"])
def test_both_stages_spend_a_pure_epsilon_and_no_more(loss, epsilon):
    plan = plan_of(PureDP(epsilon), loss=loss)
    found = attacked(plan)
    assert found.holds
    assert found.ratio > 0.9
    assert found.parts[1].ratio > 0.999


@pytest.mark.parametrize("kinds", [GAUSSIAN, LAPLACE], ids=["gaussian", "laplace"])
@pytest.mark.parametrize("target", [ZCDP(0.1), ApproxDP(1.0, 1e-2), ApproxDP(0.3, 1e-6)], ids=str)
def test_both_stages_keep_a_claim_with_a_delta(target, kinds):
    # at the lambda of Laplace noise, since that of Gaussian noise lets curvature cost 2 % of it,
    # of which these records have none
    plan = plan_of(target, kinds=kinds, lambda_=plan_of(target, kinds=LAPLACE).coefficients.lambda_)
    found = attacked(plan)
    assert found.holds
    # the rho of a tilt is about orders near 1, and a Laplace tilt is no randomised response
    tight = isinstance(target, ApproxDP) and kinds is GAUSSIAN
    assert found.ratio > (0.85 if tight else 0.05)
    assert found.parts[1].ratio > 0.99


# -- from frames -----------------------------------------------------------------------------------


def tables():
    """Frames that differ in a record, which is at either end of both bounds."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"u": rng.normal(0, 0.1, 60), "v": rng.normal(0, 0.1, 60)})
    frame["y"] = 1
    frame.loc[0, ["u", "v"]] = 1.0
    other = frame.copy()
    other.loc[0, ["u", "v"]] = -1.0
    return frame, other


BOUNDS = {"u": (-1, 1), "v": (-1, 1), "y": (0, 1)}


def mapped(fit, frame, values):
    """The signed rows of a frame under the map of a scale ``(k,)``, as a fit makes them."""
    parsed, batch = parse_formula(fit.spec.formula.text, list(frame)), as_batch(frame)
    declared = plan_design(parsed, batch, declare_schema(BOUNDS))
    release = ScaleRelease(values, fit.release.scale.calibration)
    spec = replace(fit.spec, columns=declared.columns)
    rows = read_design(standardise(spec, *scale_map(release, fit.release.length)), batch, DenseRows)
    return signed_rows(np.asarray(rows.x), np.asarray(rows.y))


def test_two_tables_under_a_scale_far_out_are_told_apart_no_better_than_claimed():
    """The mean of one column is far out, and the other column is mapped to the bound of a row."""
    frame, other = tables()
    fit = dpsvm("y ~ 0 + u + v", frame, bounds=BOUNDS, do_scale="private", eps=1.0)
    first, second = fit.release.scale.calibration, fit.release.calibration
    values = np.array([9e3, 0.0, 0.5, 0.02])
    pair = pair_of(mapped(fit, frame, values), mapped(fit, other, values))
    assert np.linalg.norm(pair.old) == pytest.approx(second.problem.radius, rel=1e-6)
    np.testing.assert_allclose(pair.old, -pair.new)
    request = Request(PureDP(1.0), "objective", None, second.lambda_, "keep")
    plan = calibrate_all(request, second.problem, first.facts).having({"coefficients": second})
    # both records have the whole slope at this output
    output = (0.5 + 1e-7) * pair.old / float(pair.old @ pair.old)
    found = joint_loss_of(pair, plan, output[None], scale_change(*ENDS, plan.scale))
    assert found.holds
    assert found.ratio > 0.9


# -- planted bugs ----------------------------------------------------------------------------------


def test_planted_noise_of_the_scale_is_caught():
    for target in (PureDP(1.0), ZCDP(0.1), ApproxDP(1.0, 1e-2)):
        plan = plan_of(target, kinds=GAUSSIAN if isinstance(target, ApproxDP) else ())
        noise = plan.scale.noise
        halved = (
            replace(noise, rate=2 * noise.rate)
            if isinstance(target, PureDP)
            else replace(noise, sd=noise.sd / 2)
        )
        wrong = plan.having({"scale": replace(plan.scale, noise=halved)})
        assert worth.share_of_scale(wrong.scale) > 1.9
        found = attacked(wrong)
        assert not found.holds
        assert not found.parts[1].holds


def test_a_pure_price_that_is_paid_for_the_coefficients_alone_is_caught():
    plan = plan_of(PureDP(1.0))
    whole = plan_of(PureDP(10 / 9))  # its coefficients have all of epsilon
    wrong = plan.having({"coefficients": whole.coefficients})
    assert not attacked(wrong).ratio <= 1


def test_a_price_of_the_scale_that_is_not_paid_is_caught_by_the_table(monkeypatch):
    honest = registry.divide

    def too_much(target, *given, **named):
        ways = honest(target, *given, **named)
        return [({**parts, "coefficients": target}, kinds) for parts, kinds in ways]

    request = Request(PureDP(1.0), "objective", None, "free", "keep", SCALE_BESIDE)
    brief = replace(QUICK, settings=QUICK.settings[:1])
    row = audit_one(request, LOSSES["logistic"], brief, 1e-3, np.random.default_rng(0))
    assert row.verdict == OK
    assert row.buys == "scale"
    assert row.title.endswith("with scale")
    assert row.ratio > 0.999
    assert row.scale > 0.999
    monkeypatch.setattr(checks, "divide", too_much)
    monkeypatch.setattr(registry, "divide", too_much)
    row = audit_one(request, LOSSES["logistic"], brief, 1e-3, np.random.default_rng(0))
    assert row.verdict == VIOLATION
    assert row.ratio > 1.09


# -- fits of a user --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "target", "spend"),
    [
        (dplr, PureDP(1.0), "inference"),
        (dpsvm, PureDP(1.0), None),
        (dplr, ZCDP(0.1), "inference"),
        (dplr, ApproxDP(1.0, 1e-2), None),
        (dpsvm, ApproxDP(1.0, 1e-2), "inference"),
    ],
)
def test_the_loss_of_a_fit_has_all_its_stages(model, target, spend):
    frame, other = tables()
    fit = model("y ~ u + v", frame, target, bounds=BOUNDS, do_scale="private", spend=spend)
    found = audit.privacy_loss(fit, frame, other)
    assert found.holds
    stages = ["coefficients", *["moments"] * (spend is not None), "scale"]
    assert [part.of for part in found.parts] == stages
    assert found.parts[-1].ratio > 0.999
    assert found.scale > 0
    assert "of the scale" in str(found)
    assert "scale 1.0000" in str(found)
    # the other way round, and two tables of which neither moves a column
    assert audit.privacy_loss(fit, other, frame).parts[-1].ratio == found.parts[-1].ratio
    still = audit.privacy_loss(fit, frame, frame.assign(y=[0, *frame["y"][1:]]))
    assert still.scale == pytest.approx(0, abs=1e-12)


def test_the_loss_of_a_fit_is_that_of_its_rows_and_of_the_change_of_its_columns():
    frame, other = tables()
    other.loc[0, ["u", "v"]] = [0.5, 0.25]
    fit = dplr("y ~ u * v", frame, bounds=BOUNDS, do_scale="private", delta=1e-2)
    bought = fit.release.scale
    old, new = np.array([1.0, 1.0, 1.0]), np.array([0.5, 0.25, 0.125])
    change = scale_change(old, new, bought.calibration)
    pair = pair_of(*(mapped(fit, side, bought.values) for side in (frame, other)))
    parts = {"scale": bought.calibration, "coefficients": fit.calibration}
    plan = StagedCalibration(fit.guarantee, None, parts)
    expected = joint_loss_of(pair, plan, change=change)
    found = audit.privacy_loss(fit, frame, other)
    assert found.found == pytest.approx(expected.found, rel=1e-6)
    assert found.parts[1].found == pytest.approx(expected.parts[1].found, rel=1e-6)


def test_the_loss_at_one_output_has_the_scale():
    frame, other = tables()
    fit = dplr("y ~ u + v", frame, bounds=BOUNDS, do_scale="private", eps=1.0)
    most = audit.privacy_loss(fit, frame, other)
    at = audit.privacy_loss(fit, frame, other, output=most.output)
    assert at.found == pytest.approx(most.found, rel=1e-6)
    assert at.scale == most.scale


def test_a_plan_with_a_scale_is_attacked_at_the_ends_of_its_columns():
    plan = plan_of(PureDP(1.0))
    pair = deep_pair(plan.coefficients)
    found = audit.privacy_loss(plan, pair.first(), pair.second())
    assert found.parts[1].ratio > 0.999
    assert found.ratio > 0.9


@pytest.mark.parametrize(
    "group", [*ALL, ColumnGroup(1, "indicators"), ColumnGroup(2, "product", 0.0, 0.0)], ids=str
)
def test_the_largest_change_is_within_the_sensitivity(group):
    scale = calibrate_scale(ScaleFacts(100, (NUMBER, group), True, 0.03), ZCDP(0.1))
    loss = scale_loss(largest_change(scale), scale)
    assert loss.ratio <= 1
    assert loss.ratio > (0.3 if group.kind == "product" else 0.99)
