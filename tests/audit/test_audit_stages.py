"""The exact losses of stages beside the coefficients: laws of each, all together, planted bugs."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from broken_mechanisms import (
    GAUSSIAN,
    LAPLACE,
    LOGISTIC,
    calibrated,
    curvature_alone_paid,
    halved,
    kinds_of,
    moments_for_add_or_remove,
    moments_of_another_loss,
    moments_radius_not_squared,
    planned,
    scores_summed,
)

from privatelr import audit, dplr, dpsvm
from privatelr.audit import checks, worth
from privatelr.audit.audit_table import Row
from privatelr.audit.checks import OK, QUICK, VIOLATION, Effort, Setting, label
from privatelr.audit.density.exact import margin_at, query, query_distance
from privatelr.audit.density.loss import (
    counts_loss,
    largest_change,
    loss_of,
    losses_beside,
    moments_loss,
    scale_change,
    scale_loss,
    search,
)
from privatelr.audit.density.pairs import (
    pair_of,
    pair_of_rows,
    random_pair,
    right_pair,
    signed_rows,
)
from privatelr.audit.neighbouring_tables import audit_formulas
from privatelr.audit.run_audit import SCALE_BESIDE, audit_one
from privatelr.audit.sampling import draws_and_releases
from privatelr.audit.sampling.lower_bounds import observe
from privatelr.design import plan_design, read_design, standardise
from privatelr.errors import ArgumentError
from privatelr.formula import parse_formula
from privatelr.mechanisms import Problem, Request, calibrate_all, mean_moments, registry
from privatelr.mechanisms.signed_rows import minimisers
from privatelr.mechanisms.stages import matrices
from privatelr.mechanisms.stages.histogram import calibrate_histogram
from privatelr.mechanisms.stages.matrices import calibrate_moments, moments_sensitivity
from privatelr.mechanisms.stages.scale import ScaleFacts, ScaleRelease, calibrate_scale, scale_map
from privatelr.numerics import LOSSES, Huber
from privatelr.numerics.rows import DenseRows
from privatelr.privacy import ZCDP, ApproxDP, PureDP
from privatelr.privacy.noise import NoNoise
from privatelr.sources import as_batch, declare_schema
from privatelr.types import Block, ColumnGroup

NAMED = {label(loss): loss for loss in [*LOSSES.values(), Huber(0.1), Huber(1e-3)]}
EVERY_LOSS = pytest.mark.parametrize("loss", NAMED.values(), ids=NAMED)
TARGETS = [PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-2)]
EVERY_TARGET = pytest.mark.parametrize("target", TARGETS, ids=str)
PLACEMENTS = ["objective", "output"]
SPENDS = {
    "moments": "inference",
    "scale": (("scale", 0.1), ("coefficients", 0.9)),
    "counts": (("coefficients", 0.75), ("roc", 0.25)),
    "all": (("scale", 0.1), ("coefficients", 0.5), ("inference", 0.3), ("roc", 0.1)),
}
NUMBER = ColumnGroup(1, "number")
GROUPS = (NUMBER, ColumnGroup(3, "indicators"), ColumnGroup(4, "product", 1.4, 1.0))


def share_of_scale(scale):
    return worth.share_of(scale.target, *worth.scale_spends(scale))


def rng(seed=0):
    return np.random.default_rng(seed)


def plan_of(target, spend, *, placement="objective", kinds=(), loss=LOGISTIC, blocks=(), n=10**6):
    """A plan of two columns, or of these blocks, under the usual penalty."""
    d = sum(block.size for block in blocks) or 2
    radius = math.hypot(*(block.bound for block in blocks)) if blocks else 1.0
    facts = Problem(n, d, loss, math.nextafter(radius, 2 * radius), blocks)
    scaled = spend != "inference" and "scale" in dict(spend)
    scale = ScaleFacts(n, (NUMBER,) * d, False, 0.003) if scaled else None
    return calibrate_all(
        Request(target, placement, None, "free", "keep", spend, kinds), facts, scale
    )


def louder(stage, times=10.0):
    """The calibration of a stage with a tenth of the noise."""
    noise = stage.noise
    size = {"sd": noise.sd / times} if hasattr(noise, "sd") else {"rate": noise.rate * times}
    return replace(stage, noise=replace(noise, **size))


# -- every stage under every claim ----------------------------------------------------------------


@pytest.mark.parametrize("kinds", [(), GAUSSIAN, LAPLACE], ids=["any", "Gaussian", "Laplace"])
@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("spend", SPENDS.values(), ids=SPENDS)
@EVERY_TARGET
def test_every_stage_attains_its_part_and_less_noise_of_any_is_caught(
    target, spend, placement, kinds
):
    if kinds is GAUSSIAN and isinstance(target, PureDP):
        pytest.skip("Gaussian noise has no pure claim")
    plan = plan_of(target, spend, placement=placement, kinds=kinds)
    found = search(plan, rng(), 0).loss
    assert found.holds
    assert found.claim == plan.proven
    assert [part.claim for part in found.parts[1:]] == [
        plan.parts[name].proven for name in ("inference", "scale", "roc") if name in plan.parts
    ]
    assert min(part.ratio for part in found.parts[1:]) > 0.998
    if isinstance(found.claim, PureDP):
        assert found.found == pytest.approx(sum(part.found for part in found.parts))
        assert found.ratio > 0.99
    for name, stage in plan.parts.items():
        broken = search(plan.having({name: louder(stage)}), rng(), 0).loss
        wrong = [part.of for part in broken.parts if not part.holds]
        assert not broken.holds
        assert wrong == [{"inference": "moments", "roc": "counts"}.get(name, name)]


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize(
    "blocks",
    [(Block(1, 0.5), Block(1, 1.0)), (Block(1, 0.5), Block(3, 1.0), Block(1, 1.0)), (Block(1, 2),)],
    ids=["box", "factor", "one column"],
)
def test_rows_in_blocks(blocks, placement, loss):
    plan = plan_of(PureDP(1.0), "inference", placement=placement, blocks=blocks, loss=loss)
    found = search(plan, rng(), 1).loss
    assert found.holds
    assert min(found.ratio, found.parts[1].ratio) > (0.5 if len(blocks) == 1 else 0.75)


def test_a_part_that_is_broken_is_a_violation_although_the_whole_is_not():
    row = Row("output", "logistic", "epsilon = 1", 1.0, 0.9, 0.9, "", 0.3, "inference", 0.99)
    assert row.verdict == OK
    for broken in ({"share": 1.41}, {"attained": 1.41}, {"share": math.inf}, {"share": math.nan}):
        assert replace(row, **broken).verdict == VIOLATION


@pytest.mark.parametrize("spend", ["inference", SCALE_BESIDE], ids=["inference", "scale"])
def test_a_price_that_is_paid_for_the_coefficients_alone_is_caught_by_the_table(monkeypatch, spend):
    honest = registry.divide

    def too_much(target, *given, **named):
        ways = honest(target, *given, **named)
        return [({**parts, "coefficients": target}, kinds) for parts, kinds in ways]

    request = Request(PureDP(1.0), "objective", None, "free", "keep", spend)
    brief = replace(QUICK, settings=QUICK.settings[:1])
    row = audit_one(request, LOGISTIC, brief, 1e-3, rng())
    assert row.verdict == OK
    assert row.title.endswith(f"with {row.buys}")
    assert min(row.ratio, row.share) > 0.99
    monkeypatch.setattr(checks, "divide", too_much)
    monkeypatch.setattr(registry, "divide", too_much)
    row = audit_one(request, LOGISTIC, brief, 1e-3, rng())
    assert row.verdict == VIOLATION
    assert row.ratio > 1.09


# -- moments --------------------------------------------------------------------------------------


def moments_under(loss, *, n=1000, d=2, radius=1.0, target=TARGETS[0]):
    return calibrate_moments(Problem(n, d, loss, radius).with_lambda(0.01), target)


@EVERY_LOSS
def test_the_query_is_that_of_the_package(loss):
    x, y = rng().standard_normal((40, 3)), np.where(rng(1).random(40) < 0.5, -1.0, 1.0)
    x[::7] = np.nan
    rows = DenseRows(x, y, bound=2.0, intercept=0.5)
    moments = moments_under(loss, n=40, d=4, radius=rows.radius)
    w = 3 * rng(2).standard_normal((6, 4))
    ours = query(signed_rows(rows.x, rows.y), moments, w)
    theirs = [mean_moments(rows, coef, moments) for coef in w]
    np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_the_change_of_the_query_is_that_of_its_values():
    plan = planned(PureDP(1.0), loss=Huber(0.1), n=8)
    pair, w = random_pair(rng(), plan.coefficients), rng(1).standard_normal((9, 2))
    first, second = (query(side, plan.moments, w) for side in (pair.first(), pair.second()))
    apart = np.linalg.norm(second - first, axis=1)
    np.testing.assert_allclose(query_distance(pair, plan.moments, w), apart, atol=1e-12)


def margins_near_the_bend(loss):
    middle, width = margin_at(loss, 0.5), loss.slope_bound / loss.curvature_bound
    return middle + width * np.linspace(-1, 1, 41)


def ratios_of_random_records(loss, d, radius, seed, count=20_000):
    """Changes over the sensitivity, for records of any length and w of any size."""
    source, moments = rng(seed), moments_under(loss, d=d, radius=radius)
    balance, found = moments.balance, []
    records = source.standard_normal((2, count, d))
    lengths = np.linalg.norm(records, axis=2, keepdims=True)
    records *= radius * source.choice([0.1, 0.9, 1.0], (2, count, 1)) / lengths
    w = source.standard_normal((count, d)) * 10.0 ** source.uniform(-3, 6, (count, 1)) / radius
    margins = np.einsum("kij,ij->ki", records, w) * source.choice([-1.0, 1.0], (2, count))
    if d > 1:  # any two margins can be had at once
        near = source.random((2, count)) < 0.5
        margins = np.where(near, source.choice(margins_near_the_bend(loss), near.shape), margins)
    for margin in margins:
        found.append(np.array([loss.curvature(margin), balance * loss.slope(margin) ** 2]))
    squares = np.einsum("kij,lij->kli", records, records) ** 2
    inner = np.einsum("ki,li->kli", *found)  # of old with new, matrix by matrix
    both = [(found[k] ** 2).sum(axis=0) * squares[k, k] for k in (0, 1)]
    crossing = (inner[0, 0] + inner[1, 1]) * squares[0, 1]
    length = np.sqrt(np.maximum(both[0] + both[1] - 2 * crossing, 0.0)) / moments.problem.n
    return length / moments_sensitivity(moments.problem)


@EVERY_LOSS
@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_no_records_move_the_moments_by_more_than_their_sensitivity(loss, d):
    for seed, radius in enumerate((0.1, 1.0, 12.0)):
        ratios = ratios_of_random_records(loss, d, radius, seed)
        assert ratios.max() <= 1
        assert ratios.max() > (0.8 if d > 1 else 0.2)  # it looks at records that matter


@EVERY_LOSS
@pytest.mark.parametrize("target", [PureDP(0.3), ZCDP(0.1)], ids=str)
def test_orthogonal_records_attain_the_sensitivity(loss, target):
    for d, radius in itertools.product((2, 3, 5), (0.1, 1.0, 12.0)):
        moments = moments_under(loss, d=d, radius=radius, target=target)
        old, new = radius * np.eye(2, d)
        found = moments_loss(pair_of_rows(np.zeros((1, d)), np.ones(1), old, new), moments)
        assert 1 - 2e-6 <= found.ratio <= 1


@EVERY_LOSS
def test_the_search_over_the_coefficients_finds_their_worst(loss):
    """Against a grid of margins, for records at any angle."""
    moments = moments_under(loss)
    edge = np.concatenate([margins_near_the_bend(loss), np.linspace(-8, 8, 81)])
    margins = np.array(list(itertools.product(edge, edge)))
    for angle in (0.3, 1.2, 2.0, 3.0):
        old, new = np.array([1.0, 0.0]), np.array([math.cos(angle), math.sin(angle)])
        pair = pair_of_rows(np.zeros((1, 2)), np.ones(1), old, new)
        w = np.linalg.solve(np.array([old, new]), margins.T).T
        grid = query_distance(pair, moments, w).max() * moments.noise.rate
        assert moments_loss(pair, moments).found >= grid * (1 - 1e-6)


PLANTED = {
    "add or remove": (moments_for_add_or_remove, LOGISTIC, 1.0, math.sqrt(2)),
    "add or remove, huber": (moments_for_add_or_remove, Huber(0.5), 1.0, math.sqrt(2)),
    "R": (moments_radius_not_squared, LOGISTIC, 12.0, 12.0),
    "eta": (curvature_alone_paid, LOGISTIC, 1.0, 4 * 0.258875),
    "eta, huber": (curvature_alone_paid, Huber(0.1), 1.0, math.sqrt(1.25)),
    "1/n": (scores_summed, LOGISTIC, 1.0, 0.25 * 10**6 / 0.258875),
    "c of logistic": (
        lambda plan: moments_of_another_loss(plan, LOGISTIC),
        Huber(0.5),
        1.0,
        math.sqrt(1.25) / 0.258875,
    ),
    "c of another h": (
        lambda plan: moments_of_another_loss(plan, Huber(0.5)),
        Huber(0.1),
        1.0,
        5.0,
    ),
}


@pytest.mark.parametrize(("plant", "loss", "radius", "least"), PLANTED.values(), ids=PLANTED)
@pytest.mark.parametrize("target", TARGETS[:2], ids=str)
def test_too_little_noise_on_the_moments_is_caught(plant, loss, radius, least, target):
    wrong = plant(planned(target, loss=loss, radius=radius))
    (found,) = losses_beside(right_pair(wrong.coefficients), wrong)
    power = 1 if isinstance(target, PureDP) else 2
    assert not found.holds
    assert found.ratio == pytest.approx(least**power, rel=1e-3)


def test_moments_at_the_minimiser_have_no_such_sensitivity():
    """Of Huber rows that share a margin just before the bend, one flip carries all over the kink.

    So the moments are those at the released coefficients, where no pair is moved so far.
    """
    plan = planned(PureDP(1.0), loss=Huber(0.5), n=1001)
    problem, n = plan.coefficients.problem, 1001
    along = problem.radius * np.eye(1, 2)[0]
    ahead = problem.penalty * (1 - problem.loss.h) / problem.radius**2 - 0.5
    counts = np.array([(n - 1 + ahead) / 2 + 0.5, (n - 1 - ahead) / 2 - 0.5])
    pair, none = pair_of_rows(np.array([along, -along]), counts, -along, along), np.zeros((1, 2))
    private = [
        query(side, plan.moments, minimisers(side, problem, none))
        for side in (pair.first(), pair.second())
    ]
    assert np.linalg.norm(private[1] - private[0]) > 100 * moments_sensitivity(problem)
    assert moments_loss(pair, plan.moments).holds


def test_moments_that_are_not_numbers_are_a_violation(monkeypatch):
    honest = matrices.release_moments

    def release(*given):
        found = honest(*given)
        return replace(found, values=np.full_like(found.values, np.nan))

    monkeypatch.setattr(matrices, "release_moments", release)
    found = [*draws_and_releases.audit_releases(rng(3), 1.0)]
    wrong = [check.subject for check in found if check.verdict == VIOLATION]
    assert len(wrong) == 2 * len(LOSSES)
    assert all("moments" in subject for subject in wrong)


# -- the scale ------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [(NUMBER,), (NUMBER,) * 3, GROUPS], ids=len)
@pytest.mark.parametrize("target", [PureDP(0.1), PureDP(2.0), ZCDP(0.01), ZCDP(1.0)], ids=str)
def test_the_scale_spends_its_claim(groups, target):
    for n in (100, 10**6):
        scale = calibrate_scale(ScaleFacts(n, groups, True, 0.03), target)
        # a product of several columns has no records that attain its bound
        least = 0.75 if groups is GROUPS and isinstance(target, ZCDP) else 0.999
        assert least < share_of_scale(scale) <= 1
        assert share_of_scale(louder(scale, 2.0)) > 1.5


@pytest.mark.parametrize("target", [PureDP(0.5), ZCDP(0.1), ApproxDP(0.5, 1e-6)], ids=str)
@pytest.mark.parametrize("spend", SPENDS.values(), ids=SPENDS)
def test_the_parts_are_the_whole(target, spend):
    parts = tuple(stage.target for stage in plan_of(target, spend).stages)
    assert 1 - 1e-9 <= worth.share_of_parts(target, parts) <= 1 + 1e-9


@pytest.mark.parametrize(
    "group", [*GROUPS, ColumnGroup(1, "indicators"), ColumnGroup(2, "product", 0.0, 0.0)], ids=str
)
def test_the_largest_change_is_within_the_sensitivity(group):
    scale = calibrate_scale(ScaleFacts(100, (NUMBER, group), True, 0.03), ZCDP(0.1))
    ratio = scale_loss(largest_change(scale), scale).ratio
    assert (0.3 if group.kind == "product" else 0.99) < ratio <= 1
    numbers = calibrate_scale(ScaleFacts(1000, (NUMBER,) * 3, True, 0.03), PureDP(0.2))
    for old, new in rng().uniform(-1, 1, (100, 2, 3)):
        assert scale_loss(scale_change(old, new, numbers), numbers).holds


def test_the_log_ratio_of_a_box_is_reached_far_out():
    scale = calibrate_scale(ScaleFacts(1000, (NUMBER,) * 2, True, 0.03), PureDP(0.3))
    old, new = np.array([1.0, 0.3]), np.array([-1.0, -0.2])
    change = scale_change(old, new, scale)
    far = np.array([50.0, 0.001, 0.002, -0.001])  # noise under the old record
    ratio = scale.noise.log_density(far) - scale.noise.log_density(far - change)
    assert ratio == pytest.approx(scale_loss(change, scale).found, rel=1e-9)
    assert 0.999 < ratio / 0.3 <= 1


# -- counts of scores -----------------------------------------------------------------------------


@EVERY_TARGET
def test_the_loss_of_counts_is_what_was_paid(target):
    made = calibrate_histogram(1000, target)
    assert counts_loss(made).ratio == pytest.approx(1.0, rel=1e-4)
    if isinstance(target, PureDP):
        silent = replace(made, noise=NoNoise(made.noise.dimension))
        assert math.isinf(counts_loss(silent).found)


# -- fits of a user -------------------------------------------------------------------------------

BOUNDS = {"u": (-1, 1), "v": (-1, 1), "y": (0, 1)}


def tables():
    """Frames that differ in a record, which is at either end of both bounds."""
    frame = pd.DataFrame({"u": rng().normal(0, 0.1, 60), "v": rng(1).normal(0, 0.1, 60)})
    frame["y"] = 1
    frame.loc[0, ["u", "v"]] = 1.0
    other = frame.copy()
    other.loc[0, ["u", "v"]] = -1.0
    return frame, other


@pytest.mark.parametrize("model", [dplr, dpsvm])
@pytest.mark.parametrize("op", [True, False])
@EVERY_TARGET
def test_the_loss_of_a_fit_is_of_all_it_shows(model, target, op):
    frame, other = tables()
    given = {"bounds": BOUNDS, "op": op, "do_scale": "private", "spend": dict(SPENDS["all"])}
    fit = model("y ~ u + v", frame, target, **given)
    found = audit.privacy_loss(fit, frame, other)
    assert found.holds
    stages = ["coefficients", "moments", "scale", "counts"]
    stages += ["length"] if fit.release.length is not None else []
    assert [part.of for part in found.parts] == stages
    assert found.claim == fit.guarantee
    assert min(part.ratio for part in found.parts[2:]) > 0.999
    first, second = str(found).splitlines()
    assert first.endswith(": ok")
    assert "scale 1.0000, counts 1.0000" in second
    part = fit.release.moments
    broken = replace(part, calibration=louder(part.calibration, 20.0))
    worse = replace(fit, release=fit.release.having({"inference": broken}))
    assert "VIOLATION" in str(audit.privacy_loss(worse, frame, other))


def test_the_scale_loses_as_much_the_other_way_round_and_nothing_if_no_column_moves():
    frame, other = tables()
    fit = dplr("y ~ u + v", frame, 1.0, bounds=BOUNDS, do_scale="private")
    ways = [audit.privacy_loss(fit, *both).parts[1] for both in ((frame, other), (other, frame))]
    assert ways[0].ratio == ways[1].ratio > 0.999
    still = audit.privacy_loss(fit, frame, frame.assign(y=[0, *frame["y"][1:]]))
    assert still.parts[1].found == pytest.approx(0, abs=1e-12)


def mapped(fit, frame, values):
    """The signed rows of a frame under the map of a scale ``(k,)``, as a fit makes them."""
    parsed, batch = parse_formula(fit.spec.formula.text, list(frame)), as_batch(frame)
    declared = plan_design(parsed, batch, declare_schema(BOUNDS))
    release = ScaleRelease(values, fit.release.scale.calibration)
    spec = replace(fit.spec, columns=declared.columns)
    rows = read_design(standardise(spec, *scale_map(release, fit.release.length)), batch, DenseRows)
    return signed_rows(np.asarray(rows.x), np.asarray(rows.y))


def test_the_loss_of_a_fit_is_that_of_its_rows_and_of_the_change_of_its_columns():
    frame, other = tables()
    other.loc[0, ["u", "v"]] = [0.5, 0.25]
    fit = dplr("y ~ u * v", frame, bounds=BOUNDS, do_scale="private", delta=1e-2)
    bought = fit.release.scale
    old, new = np.array([1.0, 1.0, 1.0]), np.array([0.5, 0.25, 0.125])
    pair = pair_of(*(mapped(fit, side, bought.values) for side in (frame, other)))
    found = audit.privacy_loss(fit, frame, other)
    expected = scale_loss(scale_change(old, new, bought.calibration), bought.calibration)
    assert found.parts[1].found == pytest.approx(expected.found, rel=1e-6)
    assert found.parts[0].found == pytest.approx(loss_of(pair, fit.calibration).found, rel=1e-6)


def test_two_tables_under_a_scale_far_out_are_told_apart_no_better_than_claimed():
    """The mean of one column is far out, and the other column is mapped to the bound of a row."""
    frame, other = tables()
    fit = dpsvm("y ~ 0 + u + v", frame, bounds=BOUNDS, do_scale="private", eps=1.0)
    calibration, values = fit.calibration, np.array([9e3, 0.0, 0.5, 0.02])
    pair = pair_of(mapped(fit, frame, values), mapped(fit, other, values))
    assert np.linalg.norm(pair.old.rows[0]) == pytest.approx(calibration.problem.radius, rel=1e-6)
    np.testing.assert_allclose(pair.old.rows[0], -pair.new.rows[0])
    # both records have the whole slope at this output
    output = (0.5 + 1e-7) * pair.old.rows[0] / float(pair.old.rows[0] @ pair.old.rows[0])
    assert 0.9 < loss_of(pair, calibration, output[None]).ratio <= 1 + 1e-9


def test_the_loss_of_a_plan_takes_signed_rows_and_an_output():
    plan = planned(PureDP(1.0), n=4)
    data = np.array([[0.6, 0.8], [0.6, -0.8], [1.0, 0.0]])
    neighbour = np.array([[-0.6, 0.8], [0.6, -0.8], [1.0, 0.0]])
    found = audit.privacy_loss(plan, data, neighbour)
    here = audit.privacy_loss(plan, data, neighbour, output=[1.0, -2.0])
    assert 0 < here.found <= found.found <= 1
    assert audit.privacy_loss(plan, data, data).found == pytest.approx(found.shield, abs=1e-9)
    alone = audit.privacy_loss(plan.having({"inference": None}), data, neighbour)
    assert alone.found == pytest.approx(found.parts[0].found, rel=1e-6)
    with pytest.raises(ArgumentError, match="longer than the radius"):
        audit.privacy_loss(plan, 2 * data, neighbour)


def test_a_fit_with_inference_counts_as_all_it_shows():
    frame, _ = tables()
    fit = dplr("y ~ u", frame, bounds=BOUNDS, spend="inference")
    vector = observe(lambda data, source: fit, frame, 1, rng())[0][1]
    np.testing.assert_array_equal(vector, [*fit.release.coef, *fit.release.moments.values])


@pytest.mark.parametrize("epsilon", [0.05])
def test_every_claim_of_fits_holds_and_stages_attain_their_parts(epsilon):
    found = [
        *audit_formulas(epsilon, "* with *"),
        *audit_formulas(epsilon, "counts of scores*"),
    ]
    assert [str(check) for check in found if not check.holds] == []
    shares = {check.subject: check.found / check.allowed for check in found}
    assert min(share for subject, share in shares.items() if "over the claim" in subject) > 0.999
    assert shares["counts of scores: counts that one record moves"] == 1


# -- Laplace noise under a delta ------------------------------------------------------------------


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_laplace_noise_under_a_delta_is_attacked_as_the_pure_claim_it_has(placement):
    given = {"placement": placement, "kinds": LAPLACE}
    with_delta = calibrated(ApproxDP(1.0, 1e-6), **given)
    found = search(with_delta, rng(), 0).loss
    pure = search(calibrated(PureDP(1.0), placement=placement), rng(), 0).loss
    assert found.claim == PureDP(1.0)
    assert found.ratio == pytest.approx(pure.ratio, rel=1e-6)
    assert search(halved(with_delta), rng(), 0).loss.ratio > 1.8
    request = Request(ApproxDP(1.0, 1e-6), placement, None, "free", "keep", kinds=LAPLACE)
    row = audit_one(request, LOGISTIC, Effort((Setting(),), 0, 4000, 1, 10), 1e-3, rng())
    assert (row.claim, row.claimed, row.verdict) == ("epsilon = 1, delta unused", 1.0, OK)
    assert row.attained > 0.9


def test_under_zcdp_a_pair_shows_half_of_rho():
    """So a factor of the noise could hide, and `worth` computes the share that noise spends."""
    target = ZCDP(0.1)
    assert kinds_of(target) == ()
    assert search(calibrated(target), rng(), 0).loss.ratio == pytest.approx(0.49, abs=0.01)
    by_output = calibrated(target, placement="output")
    assert search(by_output, rng(), 0).loss.ratio == pytest.approx(1, abs=1e-3)
