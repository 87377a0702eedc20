"""The scale of columns, released before the coefficients: its bounds, noise, map and price."""

import math
from dataclasses import replace

import numpy as np
import pytest
from achieved_guarantees import achieved_scale
from scipy import optimize

from privatelr import ZCDP, ApproxDP, GuaranteeError, PureDP
from privatelr.mechanisms import Problem, Request, calibrate_all
from privatelr.mechanisms.calibration import GAUSSIAN, LAPLACE
from privatelr.mechanisms.registry import divide, shares_of
from privatelr.mechanisms.request import read_spend
from privatelr.mechanisms.stages.scale import (
    SQUARE_WEIGHT,
    ScaleFacts,
    ScaleRelease,
    calibrate_scale,
    mean_squares,
    release_scale,
    scale_blocks,
    scale_floor,
    scale_map,
    scale_sensitivity,
    share_of_price,
    usual_rows,
)
from privatelr.numerics import LOSSES
from privatelr.numerics.rows import DenseRows
from privatelr.privacy import implies, join, to_approximate, to_zcdp
from privatelr.privacy.accounting import Ledger
from privatelr.privacy.events import BoundedRangeEvent, GaussianEvent, TiltEvent
from privatelr.privacy.noise import BlockLaplace, GaussianNoise, SeededRandomness
from privatelr.privacy.noise.gaussian_delta import log_delta_beside_pure, tilt_log_delta
from privatelr.privacy.noise.randomness import FloatDraw
from privatelr.types import ColumnGroup, row_radius

NUMBER = ColumnGroup(1, "number")
GROUPS = {
    "number": (NUMBER,),
    "numbers": (NUMBER,) * 4,
    "one level": (ColumnGroup(1, "indicators"),),
    "levels": (ColumnGroup(4, "indicators"),),
    "number and level": (NUMBER, ColumnGroup(1, "indicators", middle=0.5)),
    "number and two levels": (NUMBER, ColumnGroup(1, "product", factor=1.0)),
    "product": (ColumnGroup(3, "product", 1.3, 0.9),),
    "one product": (ColumnGroup(1, "product", 1.0, 1.0),),
    "large product": (ColumnGroup(2, "product", 5.0, 4.0),),
    "all": (NUMBER, ColumnGroup(3, "indicators"), NUMBER, ColumnGroup(2, "product", 1.2, 1.0)),
}
LOGISTIC, HUBER = LOSSES["logistic"], LOSSES["huber"]


def facts_of(groups, n=1, *, centred=True, floor=0.03, **others):
    return ScaleFacts(n, tuple(groups), centred, floor, **others)


# -- how far one record moves what is released --------------------------------------------------


def records_of(group, rng, m):
    """Rows ``(m, size)`` that a group admits: random ones, and those at its corners."""
    size = group.size
    if group.kind == "number":
        return np.concatenate([[1.0, -1.0, 0.0], rng.uniform(-1, 1, m - 3)])[:, None]
    if group.kind == "indicators":
        return np.vstack([np.zeros(size), np.eye(size)])[rng.integers(0, size + 1, m)]
    x = rng.standard_normal((m, size)) * (rng.random((m, size)) < 0.6)
    x *= group.radius * rng.choice([1.0, 0.5], (m, 1)) / (np.linalg.norm(x, axis=1) + 1e-9)[:, None]
    corner = np.eye(size)[rng.integers(0, size, m)] * min(group.largest, group.radius)
    x = np.where(rng.random((m, 1)) < 0.3, corner * rng.choice([-1.0, 1.0], (m, 1)), x)
    return np.clip(x, -group.largest, group.largest)


def told(groups, parts, weight):
    """What each record adds, in the words of the specification: numbers, and weighted squares."""
    squares = [weight * x**2 for g, x in zip(groups, parts, strict=True) if g.kind != "indicators"]
    return np.hstack([*parts, *squares])


def largest_change(groups, weight, seed=0, m=1200):
    """The largest distance between what two records add; a record may be one of zeros."""
    rng = np.random.default_rng(seed)
    parts = [np.vstack([np.zeros(g.size), records_of(g, rng, m)]) for g in groups]
    t = told(groups, parts, weight)
    # the opposite of a product is as good a record
    mirrored = [-x if g.kind != "indicators" else x for g, x in zip(groups, parts, strict=True)]
    both = np.vstack([t, told(groups, mirrored, weight)])
    squares = (both**2).sum(axis=1)
    return math.sqrt(float((squares[:, None] + squares - 2 * both @ both.T).max()))


@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS)
def test_no_record_moves_more_than_the_sensitivity(groups):
    found = largest_change(groups, SQUARE_WEIGHT)
    bound = scale_sensitivity(facts_of(groups))
    assert found <= bound
    assert found > 0.5 * bound


@pytest.mark.parametrize("name", ["number", "numbers", "one level", "levels"])
def test_the_sensitivity_is_attained_by_numbers_and_indicators(name):
    found = largest_change(GROUPS[name], SQUARE_WEIGHT, m=4000 if name == "numbers" else 1200)
    if name == "numbers":  # the corner is two records, which a random search does not meet
        one = told(GROUPS[name], [np.ones((1, 1))] * 4, SQUARE_WEIGHT)
        other = told(GROUPS[name], [-np.ones((1, 1))] * 4, SQUARE_WEIGHT)
        found = float(np.linalg.norm(one - other))
    assert found > 0.99 * scale_sensitivity(facts_of(GROUPS[name]))


def test_the_sensitivity_falls_with_the_records():
    for n in (10, 1000, 10**6):
        found = scale_sensitivity(facts_of(GROUPS["all"], n))
        assert found == pytest.approx(scale_sensitivity(facts_of(GROUPS["all"])) / n, rel=1e-5)


def moved_of_number(weight):
    """The largest ``(t - t')**2 + a**2 (t**2 - t'**2)**2`` over a grid."""
    t = np.linspace(-1, 1, 4001)
    return float(((t[:, None] - t) ** 2 + weight**2 * (t[:, None] ** 2 - t**2) ** 2).max())


def test_squares_of_numbers_are_free_at_this_weight_and_not_far_above():
    assert SQUARE_WEIGHT == 1.66
    assert moved_of_number(1.66) == pytest.approx(4, abs=1e-12)
    assert moved_of_number(1.7) > 4.01


@pytest.mark.parametrize("k", [1, 3])
def test_no_record_moves_a_number_further_than_its_block(k):
    blocks = scale_blocks(facts_of((NUMBER,) * k + GROUPS["levels"], n=1))
    rng = np.random.default_rng(1)
    t = np.vstack([np.zeros(k), np.ones(k), -np.ones(k), rng.uniform(-1, 1, (500, k))])
    both = np.hstack([t, t**2])
    change = np.abs(both[:, None] - both).max(axis=(0, 1))
    bounds = np.array([block.bound for block in blocks])
    assert [block.size for block in blocks] == [1] * (2 * k)
    assert (change <= bounds).all()
    assert (change > 0.99 * bounds).all()


def test_sums_in_doubles_are_within_the_allowance():
    """Many records, one replaced: the change of the numbers as they were computed."""
    n, groups = 100_000, (NUMBER, NUMBER)
    calibration = calibrate_scale(facts_of(groups, n), ZCDP(0.1))
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (n, 2))
    x[0] = 1.0
    before = mean_squares(rows_of(x), calibration)
    x[0] = -1.0
    after = mean_squares(rows_of(x), calibration)
    moved = float(np.linalg.norm(after - before))
    assert moved <= scale_sensitivity(calibration.facts)
    assert moved > (1 - 1e-6) * scale_sensitivity(calibration.facts)


def rows_of(x, *, intercept=None, bound=None):
    bound = math.sqrt(x.shape[1]) if bound is None else bound
    return DenseRows(x, np.ones(len(x)), bound=bound, intercept=intercept)


# -- noise ---------------------------------------------------------------------------------------


def released(calibration, rows, times=400):
    randomness = SeededRandomness(5)
    draws = (randomness.draw(calibration.noise) for _ in range(times))
    return np.array([release_scale(rows, calibration, draw).values for draw in draws])


def test_gaussian_noise_has_the_sd_of_its_rho():
    groups, rho, n = GROUPS["all"], 0.05, 200
    facts = facts_of(groups, n)
    calibration = calibrate_scale(facts, ZCDP(rho))
    sd = scale_sensitivity(facts) / math.sqrt(2 * rho)
    assert isinstance(calibration.noise, GaussianNoise)
    assert calibration.mean_sd == pytest.approx(sd, rel=1e-9)
    rng = np.random.default_rng(0)
    x = np.hstack([records_of(group, rng, n) for group in groups])
    rows = rows_of(x, intercept=0.7, bound=9.0)
    found = released(calibration, rows)
    truth = told(groups, np.hsplit(x, [1, 4, 5]), SQUARE_WEIGHT).mean(axis=0)
    assert found.shape == (400, len(truth))
    assert calibration.noise.dimension == len(truth)
    assert np.abs(found.mean(axis=0) - truth).max() < 4.5 * sd / 20
    np.testing.assert_allclose((found - truth).std(axis=0), sd, rtol=0.17)
    correlation = np.corrcoef((found - truth).T) - np.eye(len(truth))
    assert np.abs(correlation).max() < 0.25


def test_box_noise_has_the_law_of_its_norm():
    k, epsilon, n = 2, 0.4, 100
    facts = facts_of((NUMBER, ColumnGroup(3, "indicators"), NUMBER), n)
    calibration = calibrate_scale(facts, PureDP(epsilon))
    assert isinstance(calibration.noise, BlockLaplace)
    np.testing.assert_array_equal(calibration.means, [0, 4])
    np.testing.assert_array_equal(calibration.squares, [0, 4])
    x = np.random.default_rng(0).uniform(-1, 1, (n, 5))
    found = released(calibration, rows_of(x), 1000)
    truth = np.concatenate([x[:, [0, 4]].mean(axis=0), (x[:, [0, 4]] ** 2).mean(axis=0)])
    noise = (found - truth) / np.array([2, 2, 1, 1]) * n
    d = 2 * k
    sd = math.sqrt((d + 1) * (d + 2) / 3) / epsilon
    np.testing.assert_allclose(noise.std(axis=0), sd, rtol=0.12)
    assert calibration.mean_sd == pytest.approx(2 * sd / n, rel=1e-6)
    # the norm of the noise is Gamma(d, 1 / epsilon)
    norms = np.abs(noise).max(axis=1)
    assert norms.mean() == pytest.approx(d / epsilon, rel=0.06)
    assert norms.std() == pytest.approx(math.sqrt(d) / epsilon, rel=0.12)


@pytest.mark.parametrize("target", [PureDP(0.1), ZCDP(0.01)], ids=str)
def test_what_is_released_lies_on_a_fine_grid(target):
    calibration = calibrate_scale(facts_of(GROUPS["numbers"], 500), target)
    rows = rows_of(np.random.default_rng(0).uniform(-1, 1, (500, 4)))
    release = release_scale(rows, calibration, SeededRandomness(0).draw(calibration.noise))
    steps = release.values / calibration.grid
    np.testing.assert_array_equal(steps, np.round(steps))
    assert math.frexp(calibration.grid)[0] == 0.5
    assert calibration.grid < 1e-3 * calibration.mean_sd
    with pytest.raises(ValueError, match="read-only"):
        release.values[0] = 0.0


def test_the_nearest_multiple_is_released():
    calibration = calibrate_scale(facts_of((NUMBER,), 4), ZCDP(0.5))
    rows = rows_of(np.array([[0.3], [0.1], [-0.7], [1.0]]))
    exact = mean_squares(rows, calibration)
    noise = np.array([0.123456789, -3.3333333])
    values = release_scale(rows, calibration, FloatDraw(noise)).values
    assert np.abs(values - exact - noise).max() <= calibration.grid / 2 * (1 + 1e-9)


@pytest.mark.parametrize(("n", "p"), [(99, 2), (100, 1), (100, 4)])
def test_rows_of_another_shape_are_refused(n, p):
    calibration = calibrate_scale(facts_of((NUMBER,) * 2, 100), ZCDP(0.1))
    with pytest.raises(GuaranteeError, match="do not fit"):
        release_scale(rows_of(np.zeros((n, p))), calibration, FloatDraw(np.zeros(4)))


# -- the map -------------------------------------------------------------------------------------


def mapped(groups, values, *, pure, centred, floor, noise_sd):
    """Centre and factor of every column, one after the other."""
    kinds = [g.kind for g in groups for _ in range(g.size)]
    limits = [g.largest for g in groups for _ in range(g.size)]
    shown = [kind == "number" or not pure for kind in kinds]
    squared = [kind == "number" or (kind == "product" and not pure) for kind in kinds]
    values = list(values)
    means = [values.pop(0) if told else None for told in shown]
    weight = 1.0 if pure else 1.66
    squares = [values.pop(0) / weight if told else None for told in squared]
    centre, factor, variances = [], [], []
    places = [(g.middle, g.factor) for g in groups for _ in range(g.size)]
    for kind, limit, place, m, q in zip(kinds, limits, places, means, squares, strict=True):
        if m is None:
            centre.append(place[0])
            factor.append(place[1])
            continue
        m = min(max(m, 0.0 if kind == "indicators" else -limit), limit)
        q = m if kind == "indicators" else q
        here = m if centred and kind != "product" else 0.0
        v = min(max(q - here**2, 0.0), limit**2)
        centre.append(here)
        factor.append((v + floor + noise_sd) ** -0.5)
        variances.append(v)
    known = [i for i, told in enumerate(shown) if told]
    variance, typical = dict(zip(known, variances, strict=True)), len(known) if pure else 1.0
    longest = {
        i: max(1 - centre[i], centre[i]) if kinds[i] == "indicators" and not pure else 0.0
        for i in known
    }

    def at(common):
        """Each factor times a common one, but no level is longer than a typical row."""
        return {i: min(factor[i] * common, 1 / (longest[i] or 1e-300)) for i in known}

    def excess(log_common):
        each = at(math.exp(log_common))
        return sum(variance[i] * each[i] ** 2 for i in known) - typical

    end = 0.0
    if sum(variances) > 0:
        end = 60.0 if excess(60.0) <= 0 else optimize.brentq(excess, -60.0, 60.0, xtol=1e-14)
    for i, each in at(math.exp(end)).items():
        factor[i] = each
    return centre, factor


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("target", [PureDP(0.5), ZCDP(0.02)], ids=str)
@pytest.mark.parametrize("spread", [0.0, 1e-3, 1.0, 30.0])
@pytest.mark.parametrize(
    "name",
    [
        *("number", "numbers", "all", "levels", "large product", "number and level"),
        "number and two levels",
    ],
)
def test_the_map_is_that_of_the_specification(name, spread, target, centred):
    groups, pure = GROUPS[name], isinstance(target, PureDP)
    if pure and not any(group.kind == "number" for group in groups):
        return
    facts = facts_of(groups, 100, centred=centred, floor=0.003)
    calibration = calibrate_scale(facts, target)
    rng = np.random.default_rng(3)
    x = np.hstack([records_of(group, rng, 100) for group in groups])
    true = mean_squares(rows_of(x, bound=20.0), calibration)
    for seed in range(5):
        noise = np.random.default_rng(seed).standard_normal(len(true)) * spread
        centre, factor = scale_map(ScaleRelease(true + noise, calibration))
        options = {"pure": pure, "centred": centred, "floor": 0.003}
        expected = mapped(groups, true + noise, noise_sd=calibration.mean_sd, **options)
        np.testing.assert_allclose(centre, expected[0], rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(factor, expected[1], rtol=1e-10)
        assert np.isfinite(factor).all()
        assert (factor > 0).all()


def test_no_level_is_longer_than_a_typical_row():
    """One of two in a hundred would be; what is cut off helps the other columns."""
    groups, share = (NUMBER, ColumnGroup(2, "indicators")), np.array([0.02, 0.4])
    calibration = calibrate_scale(facts_of(groups, 10**9, floor=0.003), ZCDP(1.0))
    factor = scale_map(ScaleRelease(np.array([0.0, *share, 1.66 / 4]), calibration))[1]
    variance = np.array([0.25, *share * (1 - share)])
    assert factor[1] * (1 - share[0]) == pytest.approx(1)
    assert variance @ factor**2 == pytest.approx(1)
    by_variance = (variance + 0.003) ** -0.5
    assert factor[2] / factor[0] == pytest.approx(by_variance[2] / by_variance[0], rel=1e-6)
    assert factor[1] / factor[0] < 0.7 * by_variance[1] / by_variance[0]


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("target", [PureDP(0.5), ZCDP(0.02)], ids=str)
@pytest.mark.parametrize("name", GROUPS)
def test_no_row_is_longer_than_the_corner_and_one_is_as_long(name, target, centred):
    groups, pure = GROUPS[name], isinstance(target, PureDP)
    held = [g.kind == "number" or not pure for g in groups for _ in range(g.size)]
    if not any(held):
        return
    calibration = calibrate_scale(facts_of(groups, 100, centred=centred, longer=0.1), target)
    rng, most = np.random.default_rng(0), math.sqrt(sum(held)) if pure else 1.0
    rows = np.hstack([records_of(group, rng, 20_000) for group in groups])[:, held]
    for spread in (0.0, 0.1, 1.0, 30.0):
        shown = rng.standard_normal(len(calibration.means) + len(calibration.squares)) * spread
        centre, factor = scale_map(ScaleRelease(shown, calibration), math.inf)
        longest = np.linalg.norm((rows - centre[held]) * factor[held], axis=1).max()
        assert longest <= most * (1 - 2.0**-31)
        if name in {"number", "one level", "levels"}:  # random rows meet their corners
            assert longest == pytest.approx(most, rel=1e-8)


def test_columns_without_variance_get_a_finite_map():
    calibration = calibrate_scale(facts_of((NUMBER,) * 2, 100), ZCDP(0.1))
    centre, factor = scale_map(ScaleRelease(np.zeros(4), calibration))
    np.testing.assert_array_equal(centre, 0.0)
    np.testing.assert_allclose(factor, (0.03 + calibration.mean_sd) ** -0.5)
    wild = np.array([5.0, -7.0, 40.0, -40.0])
    centre, factor = scale_map(ScaleRelease(wild, calibration))
    np.testing.assert_array_equal(centre, [1.0, -1.0])
    assert np.isfinite(factor).all()


# -- what it costs -------------------------------------------------------------------------------

SHARED = {"scale": 0.2, "coefficients": 0.8}
THREE = {"scale": 0.1, "coefficients": 0.6, "inference": 0.3}
FOUR = {"scale": 0.1, "coefficients": 0.5, "inference": 0.3, "roc": 0.1}
TARGETS = [PureDP(0.3), PureDP(2.0), ZCDP(0.05), ApproxDP(0.2, 1e-6), ApproxDP(3.0, 1e-7)]


def staged(target, spend=None, *, op=True, loss=LOGISTIC, groups=GROUPS["all"], n=20_000, kinds=()):
    facts = facts_of(groups, n, floor=scale_floor(loss))
    problem = Problem(n, facts.p + 1, loss, row_radius(1.5, 0.375))
    placement = "objective" if op else "output"
    request = Request(target, placement, None, "free", "increase", read_spend(spend), kinds)
    return calibrate_all(request, problem, facts)


def log_delta_of(events, epsilon):
    """The exact logarithm of delta of all stages together: tilt, pure and Gaussian releases."""
    pure = math.fsum(event.epsilon for event in events if isinstance(event, PureDP))
    # ranges have a part of epsilon by themselves
    epsilon -= math.fsum(event.eta for event in events if isinstance(event, BoundedRangeEvent))
    mu = math.hypot(*(event.mu for event in events if isinstance(event, GaussianEvent)))
    tilts = [event for event in events if isinstance(event, TiltEvent)]
    if not tilts:
        return log_delta_beside_pure(epsilon, pure, mu)
    assert len(tilts) == 1
    assert pure == 0
    return tilt_log_delta(tilts[0], epsilon, mu)


def rho_of(event):
    match event:
        case GaussianEvent(mu=mu):
            return mu**2 / 2
        case TiltEvent():
            return event.rho()
    return to_zcdp(event).rho


def check_price(target, events):
    """The stages spend all of the claim together, to a hundredth, and no more."""
    if isinstance(target, PureDP):
        total = math.fsum(getattr(event, "epsilon", None) or event.eta for event in events)
        assert 0.99 * target.epsilon < total <= target.epsilon * (1 + 1e-12)
    elif isinstance(target, ZCDP):
        total = math.fsum(map(rho_of, events))
        assert 0.99 * target.rho < total <= target.rho * (1 + 1e-12)
    else:
        most = math.log(target.delta)
        assert log_delta_of(events, target.epsilon) <= most
        assert log_delta_of(events, 0.985 * target.epsilon) > most
    ledger = of_price(target)
    ledger.charge(target, events)
    if isinstance(target, ZCDP):
        return  # the divergence of a tilt at one order is far below its rho
    assert 0.99 * target.epsilon < ledger.spent() <= target.epsilon
    with pytest.raises(GuaranteeError):
        ledger.charge(target, events)


def of_price(target):
    """A ledger that such a release fills."""
    if isinstance(target, ZCDP):
        return Ledger(to_approximate(target, 1e-6).epsilon * 1.05, 1e-6)
    return Ledger(target.epsilon, getattr(target, "delta", 0.0))


@pytest.mark.parametrize("op", [True, False], ids=["objective", "output"])
@pytest.mark.parametrize("spend", [None, "inference", SHARED, THREE], ids=str)
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_stages_spend_the_price_and_no_more(target, spend, op):
    plan = staged(target, spend, op=op)
    assert [type(stage).__name__ for stage in plan.stages] == [
        "ScaleCalibration",
        *(["RangeCalibrations"] if "ranges" in plan.parts else []),
        "Calibration",
        *(["MomentsCalibration"] if plan.moments else []),
    ]
    assert bool(plan.moments) == (spend in ("inference", THREE))
    assert plan.target == target
    check_price(target, plan.events)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_the_share_is_the_share_that_was_asked_for(target):
    for spend, share in ((None, 0.1), ("inference", 0.1), (SHARED, 0.2), (THREE, 0.1)):
        part = staged(target, spend).scale.target
        if isinstance(target, PureDP):
            assert part.epsilon == pytest.approx(share * target.epsilon)
        elif isinstance(target, ZCDP):
            assert part.rho == pytest.approx(share * target.rho)
        else:
            assert isinstance(part, ZCDP)
            assert part.rho > 0


OWN = ("scale", "coefficients")


@pytest.mark.parametrize("spend", [None, "inference", SHARED, THREE, FOUR], ids=str)
@pytest.mark.parametrize("kinds", [GAUSSIAN, LAPLACE], ids=["Gaussian", "Laplace"])
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_the_share_follows_from_the_noise_of_all_stages(target, kinds, spend):
    """It is computed back from what the stages have."""
    is_approximate = isinstance(target, ApproxDP)
    # of so few records no ranges are released, which have a part of epsilon by themselves
    plan = staged(target, spend, kinds=kinds if is_approximate else (), n=1_000)
    beside = [stage.target for name, stage in plan.parts.items() if name not in OWN]
    share, price = share_of_price(plan.scale, plan.coefficients, beside)
    assert share == pytest.approx(0.2 if spend is SHARED else 0.1, rel=1e-6)
    gaussian = isinstance(plan.coefficients.noise, GaussianNoise)
    prices = {PureDP: "epsilon", ZCDP: "rho", ApproxDP: "mu squared" if gaussian else "epsilon"}
    assert price == prices[type(target)]
    assert not is_approximate or gaussian == (kinds is GAUSSIAN)


def test_more_for_the_scale_is_less_noise_on_it_and_more_on_the_coefficients():
    for target in TARGETS:
        little, much = staged(target), staged(target, {"scale": 0.4, "coefficients": 0.6})
        assert much.scale.mean_sd < little.scale.mean_sd
        assert much.coefficients.noise.scale > little.coefficients.noise.scale


def test_the_noise_is_worth_its_target():
    for target in TARGETS:
        scale = staged(target).scale
        achieved = achieved_scale(scale)
        name = "epsilon" if isinstance(scale.target, PureDP) else "rho"
        ratio = getattr(achieved, name) / getattr(scale.target, name)
        assert 1 - 1e-9 < ratio <= 1
        assert scale.proven == scale.target


def test_nothing_is_said_about_noise_of_another_shape():
    scale = staged(PureDP(1.0)).scale
    short = replace(scale.noise, blocks=scale.noise.blocks[:-1])
    with pytest.raises(GuaranteeError, match="nothing is proven"):
        achieved_scale(replace(scale, noise=short))
    tight = replace(scale.noise, blocks=tuple(replace(b, bound=b.bound / 2) for b in short.blocks))
    with pytest.raises(GuaranteeError, match="nothing is proven"):
        achieved_scale(replace(scale, noise=tight))
    halved = replace(
        scale.noise, blocks=tuple(replace(b, bound=b.bound / 2) for b in scale.noise.blocks)
    )
    assert achieved_scale(replace(scale, noise=halved)).epsilon == pytest.approx(0.2)
    with pytest.raises(GuaranteeError, match="nothing is proven"):
        achieved_scale(replace(scale, noise=GaussianNoise(4, 1.0)))


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_shares_that_are_refused(target):
    facts = Problem(1000, 3, LOGISTIC, 1.0)
    request = Request(target, "objective", None, "free", "increase", read_spend(SHARED))
    with pytest.raises(GuaranteeError, match="have a share; do_scale='private' releases them"):
        calibrate_all(request, facts)


@pytest.mark.parametrize(
    "spend",
    [
        {"scale": 1.0},
        {"scale": 0.5, "coefficients": 0.6},
        {"scale": 0.0, "coefficients": 1.0},
        {"scale": -0.1, "coefficients": 1.1},
        {"scale": "0.1", "coefficients": 0.9},
        {"scales": 0.1, "coefficients": 0.9},
        "scale",
    ],
    ids=str,
)
def test_spends_that_cannot_be_read(spend):
    with pytest.raises(GuaranteeError):
        read_spend(spend)


def test_the_length_of_rows_of_a_model_with_probabilities_is_released():
    for target in (PureDP(1.0), ApproxDP(0.1, 1e-6), ZCDP(2.0)):
        assert usual_rows(LOGISTIC, 1_000, 10, target) == (None, False)
        assert usual_rows(HUBER, 1_000, 10, target) == (1.0, not isinstance(target, PureDP))


@pytest.mark.parametrize(
    ("records", "length"), [(399, 1.5), (401, 2.0), (4_001, 3.0), (200_001, 4.0)]
)
def test_rows_of_a_hinge_keep_their_length_in_few_columns_and_with_little_noise(records, length):
    for target in (PureDP(1.0), ApproxDP(1.0, 1e-6)):
        assert usual_rows(HUBER, 5 * records, 5, target) == (length, False)
    assert usual_rows(HUBER, 10 * records, 40, PureDP(4.0)) == (length, False)


def test_the_floor_is_smaller_where_intervals_are_wanted():
    assert scale_floor(LOGISTIC) == 0.003
    assert scale_floor(HUBER) == 0.03


def test_the_page_says_what_is_released():
    text = str(staged(PureDP(1.0)))
    assert text.startswith("scale: target epsilon = 0.1 (pure)\nblock Laplace noise on 4 numbers")
    assert "\ncoefficients: " in text


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_a_scale_without_a_share_takes_its_usual_one(target):
    """A tenth of each share, but beside a ROC curve a tenth of the coefficients' alone."""
    for inference, roc in ((0.125, 0.25), (0.123456789012345, 0.1), (1e-5, 0.3), (0.25, 0.0)):
        given = {"coefficients": 1 - inference - roc, "inference": inference, "roc": roc}
        if roc:
            first = given["coefficients"]
            expected = given | {"scale": 0.1 * first, "coefficients": 0.9 * first}
        else:
            del given["roc"]
            expected = {"scale": 0.1} | {name: 0.9 * share for name, share in given.items()}
        spend = read_spend(given)
        found = shares_of(target, spend, LOGISTIC, scaled=True)
        assert found == pytest.approx(expected)
        assert shares_of(target, spend, LOGISTIC) == dict(spend)
        for parts, _ in divide(target, spend, LOGISTIC, scaled=True):
            assert parts.keys() == found.keys()
            whole = join([*parts.values()])
            assert type(whole) is type(target)
            assert implies(whole, target)
