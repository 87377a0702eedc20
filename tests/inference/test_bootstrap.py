"""The parametric bootstrap: its worlds are the mechanism's, and its intervals hold in them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, special, stats

import privatelr.inference.bootstrap as subject
from privatelr.design import plan_design, read_covariates, read_design
from privatelr.errors import ArgumentError, GuaranteeError, SchemaError
from privatelr.formula import parse_formula
from privatelr.inference import Question, bootstrap, infer, quality
from privatelr.mechanisms import Problem, Request, calibrate_all, draw_all, release_all
from privatelr.numerics import LOSSES, Objective
from privatelr.numerics.rows import DenseRows
from privatelr.numerics.solve import Newton
from privatelr.privacy import ZCDP, ApproxDP, NonPrivate, PureDP
from privatelr.privacy.noise import GaussianNoise, SeededRandomness
from privatelr.sources import as_batch, declare_schema

FORMULA = "y ~ age + dose + arm"
SCHEMA = declare_schema({"age": (20, 80), "dose": (0, 5), "y": (0, 1)}, {"arm": ["a", "b"]})
EFFECTS = np.array([0.4, 2.0, -1.5, 1.0])


def frame_of(size, seed):
    rng = np.random.default_rng(seed)
    columns = {
        "age": rng.uniform(20, 80, size),
        "dose": 5 * rng.beta(2, 4, size),
        "arm": rng.choice(["a", "b"], size, p=[0.7, 0.3]),
        "y": np.zeros(size),
    }
    return pd.DataFrame(columns)


REFERENCE = frame_of(250, 1)
SPEC = plan_design(parse_formula(FORMULA, list(REFERENCE.columns)), as_batch(REFERENCE), SCHEMA)
ROWS = read_design(SPEC, as_batch(REFERENCE), DenseRows).x
COVARIATES, _, _ = read_covariates(SPEC, as_batch(REFERENCE), SPEC.formula.covariates)
CHANCE = special.expit(ROWS @ EFFECTS)


def bootstrap_intervals(
    release, spec, contrasts, covariates, *, null=None, replicates=400, **asked
):
    """What simulation says of combinations, asked by name."""
    question = Question(method="bootstrap", covariates=covariates, **asked)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(subject, "REPLICATES", replicates)
        return subject.bootstrap_intervals(release, spec, contrasts, question, null)


def plan_for(target, n, *, op=True, lambda_=0.01, loss="logistic", kinds=()):
    placement = "objective" if op else "output"
    request = Request(target, placement, None, lambda_, "increase", "inference", kinds)
    return calibrate_all(request, Problem(n, SPEC.d, LOSSES[loss], SPEC.radius, SPEC.blocks))


def release_under(plan, seed):
    """A release of records that are what the bootstrap takes them to be."""
    rng = np.random.default_rng(seed)
    chosen = rng.integers(len(REFERENCE), size=plan.coefficients.problem.n)
    labels = np.where(rng.random(len(chosen)) < CHANCE[chosen], 1.0, -1.0)
    bounds = {"bound": SPEC.bound, "intercept": SPEC.intercept, "blocks": SPEC.blocks}
    rows = DenseRows(COVARIATES[chosen], labels, **bounds)
    draws = draw_all(plan, SeededRandomness(int(rng.integers(2**60))))
    return release_all(rows, plan, draws, Newton())


def minimiser_of(lambda_):
    """Of the expected objective of the reference frame."""

    def gradient(w):
        return ROWS.T @ (special.expit(ROWS @ w) - CHANCE) / len(ROWS) + lambda_ * w

    return optimize.root(gradient, EFFECTS, tol=1e-12).x


def world_of(plan):
    release = release_under(plan, 4)
    return subject.SyntheticPopulation(ROWS, np.ones(len(ROWS)), release.coef, release)


def shares_covered(target, *, runs, n=400, what="penalised", **options):
    """How often each coefficient was in its interval at 90 %."""
    plan = plan_for(target, n, **options)
    truth = minimiser_of(plan.coefficients.lambda_) if what == "penalised" else EFFECTS
    found = [
        bootstrap_intervals(
            release_under(plan, seed),
            SPEC,
            np.eye(SPEC.d),
            REFERENCE,
            level=0.9,
            target=what,
            replicates=100,
        )
        for seed in range(runs)
    ]
    return np.array([(x.lower <= truth) & (truth <= x.upper) for x in found]).mean(axis=0)


def check_coverage(shares, runs):
    """Within what chance allows, and a little that a bootstrap of so few records may be off."""
    allowed = 4 * np.sqrt(0.9 * 0.1 / runs / len(shares))
    assert abs(shares.mean() - 0.9) < allowed + 0.02


@pytest.mark.parametrize(
    ("target", "op"), [(ZCDP(0.5), True), (PureDP(2.0), False)], ids=["objective", "output"]
)
def test_intervals_cover_the_regularised_minimiser(target, op):
    check_coverage(shares_covered(target, runs=40, op=op), 40)


def test_intervals_cover_the_model_without_its_penalty():
    """Where the penalty takes so much that intervals for its own minimiser miss the model."""
    setting = {"runs": 40, "n": 4000, "lambda_": 0.006}
    check_coverage(shares_covered(ZCDP(2.0), what="unpenalised", **setting), 40)
    assert np.linalg.norm(minimiser_of(0.006) - EFFECTS) > 0.1 * np.linalg.norm(EFFECTS)


def test_a_penalty_that_is_not_taken_off_is_caught(monkeypatch):
    monkeypatch.setattr(subject, "unshrunk", lambda world: (world, np.eye(SPEC.d)))
    with pytest.raises(AssertionError):
        test_intervals_cover_the_model_without_its_penalty()


def test_a_large_penalty_is_refused():
    release = release_under(plan_for(ZCDP(2.0), 4000, lambda_=0.5), 3)
    with pytest.raises(GuaranteeError, match=r"more than 100%.* target='penalised'"):
        bootstrap_intervals(release, SPEC, np.eye(SPEC.d), REFERENCE, target="unpenalised")


USUAL_TARGETS = {
    "noisy": (ZCDP(2.0), {}, "unpenalised"),
    "shrunk too much": (ZCDP(2.0), {"lambda_": 20.0}, "penalised"),
    "plain": (NonPrivate(), {}, "penalised"),
}


@pytest.mark.parametrize("moments", [True, False], ids=["with inference", "without"])
@pytest.mark.parametrize("which", USUAL_TARGETS)
def test_the_default_target_is_that_of_the_tables_where_it_can_be(which, moments):
    budget, options, target = USUAL_TARGETS[which]
    release = release_under(plan_for(budget, 4000, **options), 3)
    assert quality(release).target == target
    if not moments:
        target = target if which == "shrunk too much" else "unpenalised"
        release = release.having({"inference": None})
    found, same = (
        bootstrap_intervals(release, SPEC, np.eye(SPEC.d), REFERENCE, target=asked, replicates=20)
        for asked in (None, target)
    )
    assert found.target == same.target == target
    np.testing.assert_array_equal(found.estimate, same.estimate)
    if target == "penalised":  # its intervals have to be asked for by name
        assert np.isnan(found.lower).all()
    else:
        np.testing.assert_array_equal(found.lower, same.lower)


def test_the_unshrunk_world_has_its_minimiser_where_it_was_released():
    world = world_of(plan_for(ZCDP(2.0), 4000, lambda_=0.004))
    found, carry = subject.unshrunk(world)
    w = world.release.coef
    np.testing.assert_allclose(subject.population_minimiser(found), w, atol=1e-5)
    step = 1e-5 * np.eye(SPEC.d)
    moved = [
        subject.unshrunk(replace(world, model=w + s, release=replace(world.release, coef=w + s)))[
            0
        ].model
        for s in step
    ]
    np.testing.assert_allclose((np.array(moved) - found.model).T / 1e-5, carry, atol=0.02)


def test_noise_that_is_left_out_is_caught(monkeypatch):
    monkeypatch.setattr(bootstrap, "draw_many", lambda law, count, rng: np.zeros((count, SPEC.d)))
    with pytest.raises(AssertionError):
        check_coverage(shares_covered(PureDP(1.0), runs=25), 25)


def test_a_pivot_around_the_wrong_truth_is_caught(monkeypatch):
    monkeypatch.setattr(subject, "population_minimiser", lambda world: world.release.coef)
    with pytest.raises(AssertionError):
        check_coverage(shares_covered(ZCDP(0.5), runs=25, n=2000, lambda_=0.05), 25)


@pytest.mark.parametrize("op", [True, False])
@pytest.mark.parametrize(
    ("target", "n", "kinds"),
    [
        (NonPrivate(), 20_000, ()),
        (ZCDP(0.5), 20_000, ()),
        (ApproxDP(4.0, 1e-6), 20_000, (GaussianNoise,)),
        (ApproxDP(4.0, 1e-6), 60_000, ()),
        (PureDP(4.0), 20_000, ()),
    ],
    ids=str,
)
def test_it_agrees_with_the_sandwich_where_both_hold(target, n, kinds, op):
    release = release_under(plan_for(target, n, op=op, kinds=kinds), 3)
    made = bootstrap_intervals(release, SPEC, np.eye(SPEC.d), REFERENCE, replicates=1000)
    known = infer(release, np.eye(SPEC.d), Question(mode="plug-in"))
    np.testing.assert_allclose(made.sd, known.sd, rtol=0.12)
    np.testing.assert_allclose(made.sampling_sd, known.sampling_sd, rtol=0.12)
    if not isinstance(target, NonPrivate):
        np.testing.assert_allclose(made.privacy_sd, known.privacy_sd, rtol=0.15)
    np.testing.assert_allclose(made.upper - made.lower, known.upper - known.lower, rtol=0.12)
    np.testing.assert_array_equal(made.estimate, known.estimate)
    assert (made.method, made.mode, made.target) == ("bootstrap", "bootstrap", "penalised")


def test_without_noise_all_of_it_is_sampling():
    release = release_under(plan_for(NonPrivate(), 500), 3)
    made = bootstrap_intervals(release, SPEC, np.eye(SPEC.d), REFERENCE, replicates=100)
    np.testing.assert_array_equal(made.privacy_sd, 0)


@pytest.mark.parametrize("op", [True, False])
def test_simulated_releases_are_those_of_the_mechanism(op):
    """Counts of rows written out as records, and minimised by the package's own solver."""
    plan = plan_for(PureDP(1.0), 300, op=op)
    world = world_of(plan)
    rng = np.random.default_rng(5)
    counts = bootstrap.sampled(world, 3, rng)
    assert (counts.positive + counts.negative).sum(axis=1) == pytest.approx(300)
    tilts = rng.normal(size=(3, SPEC.d)) * plan.coefficients.noise.scale
    found = bootstrap.minimised(world.problem, ROWS, counts, tilts, np.zeros((3, SPEC.d)))
    for k in range(3):
        pair = (counts.positive[k], counts.negative[k])
        x = np.concatenate([np.repeat(ROWS, c.astype(int), axis=0) for c in pair])
        y = np.repeat([1.0, -1.0], [int(c.sum()) for c in pair])
        rows = DenseRows(x, y, bound=SPEC.radius, intercept=None)
        objective = Objective(rows, LOSSES["logistic"], plan.coefficients.lambda_, tilts[k] / 300)
        np.testing.assert_allclose(found[k], Newton()(objective).w, atol=1e-4)


def test_hard_worlds_are_minimised():
    """Long tilts over short penalties, from a start that is far off."""
    plan = plan_for(PureDP(1.0), 300, lambda_="free")
    world = world_of(plan)
    rng = np.random.default_rng(5)
    counts = bootstrap.sampled(world, 50, rng)
    tilts = 60 * rng.normal(size=(50, SPEC.d))
    near = bootstrap.minimised(world.problem, ROWS, counts, tilts, np.zeros((50, SPEC.d)))
    far = bootstrap.minimised(
        world.problem, ROWS, counts, tilts, rng.normal(size=(50, SPEC.d)) * 300
    )
    scale = np.abs(near).max()
    np.testing.assert_allclose(far, near, atol=1e-3 * scale)


@pytest.mark.parametrize("target", ["penalised", "unpenalised"])
def test_p_values_agree_with_intervals(target):
    release = release_under(plan_for(ZCDP(1.0), 2000, lambda_=0.002), 6)

    def ask(**null):
        world = {"target": target, "replicates": 399}
        return bootstrap_intervals(release, SPEC, np.eye(SPEC.d), REFERENCE, **world, **null)

    made = ask()
    inward = 1e-9 * (made.upper - made.lower)
    for end, sign in ((made.lower, 1), (made.upper, -1)):
        assert (ask(null=end + sign * inward).p_value >= 0.05).all()
        assert (ask(null=end - sign * inward).p_value <= 0.05).all()
        assert (ask(null=end).p_value > 0.04).all()
    assert (ask(null=made.estimate).p_value > 0.7).all()


def test_contrasts_are_combinations():
    release = release_under(plan_for(ZCDP(0.5), 500), 6)
    contrasts = np.array([[0.0, 1.0, -1.0, 0.0], [2.0, 0.0, 0.0, 0.0]])
    ask = {"replicates": 100, "level": 0.8}
    made = bootstrap_intervals(release, SPEC, contrasts, REFERENCE, **ask)
    single = bootstrap_intervals(release, SPEC, np.eye(SPEC.d), REFERENCE, **ask)
    assert made.lower[1] == pytest.approx(2 * single.lower[0])
    assert made.sd[1] == pytest.approx(2 * single.sd[0])
    assert made.estimate[0] == pytest.approx(release.coef[1] - release.coef[2])


def test_uniform_covariates_are_what_was_declared():
    rows, _ = subject.pool_of_rows(SPEC, "uniform")
    np.testing.assert_array_equal(rows[:, 0], SPEC.intercept)
    for column in rows[:, 1:3].T:
        assert stats.kstest(column, stats.uniform(-1, 2).cdf).pvalue > 1e-3
    assert rows[:, 3].mean() == pytest.approx((rows[:, 3].max() + rows[:, 3].min()) / 2, abs=0.05)
    assert abs(np.corrcoef(rows[:, 1:].T) - np.eye(3)).max() < 0.06


def test_reference_rows_are_those_of_the_design():
    rows, weights = subject.pool_of_rows(SPEC, REFERENCE.drop(columns="y"))
    np.testing.assert_array_equal(rows, ROWS)
    assert (weights == 1).all()
    missing = REFERENCE.assign(age=np.where(np.arange(len(REFERENCE)) < 9, np.nan, 30.0))
    assert len(subject.pool_of_rows(SPEC, missing)[0]) == len(REFERENCE) - 9
    large = pd.concat([REFERENCE] * 30)
    assert len(subject.pool_of_rows(SPEC, large)[0]) == subject._POOL


def test_rows_are_as_short_as_the_mechanism_takes_them():
    short = replace(SPEC, bound=0.5)
    rows, _ = subject.pool_of_rows(short, "uniform")
    assert np.linalg.norm(rows, axis=1).max() <= np.hypot(0.5, 0.5)


def test_it_is_a_function_of_the_release():
    """Nothing random, and nothing of the records: it has neither them nor their moments."""
    release = release_under(plan_for(PureDP(1.0), 500), 6)
    ask = (SPEC, np.eye(SPEC.d), REFERENCE)
    first = bootstrap_intervals(release, *ask, replicates=100)
    bare = release.having({"inference": None})
    second = bootstrap_intervals(bare, *ask, replicates=100)
    np.testing.assert_array_equal(first.lower, second.lower)
    np.testing.assert_array_equal(first.p_value, second.p_value)


def test_refusals():
    release = release_under(plan_for(PureDP(1.0), 200), 7)
    hinge = release_under(plan_for(PureDP(4.0), 2000, loss="huber", lambda_=0.05), 7)
    eye = np.eye(SPEC.d)
    with pytest.raises(ArgumentError, match=r"vector machine says nothing .* method='sandwich'"):
        bootstrap_intervals(hinge, SPEC, eye, "uniform")
    with pytest.raises(ArgumentError, match=r"covariates=None: .* 'uniform' for the declared"):
        bootstrap_intervals(release, SPEC, eye, None)
    with pytest.raises(ArgumentError, match=r"covariates='normal': .* public frame"):
        bootstrap_intervals(release, SPEC, eye, "normal")
    with pytest.raises(SchemaError, match="no row has usable values"):
        bootstrap_intervals(release, SPEC, eye, REFERENCE.assign(arm="c"))
    with pytest.raises(ArgumentError, match="target"):
        bootstrap_intervals(release, SPEC, eye, REFERENCE, target="both")
    with pytest.raises(TypeError, match="replicates"):
        Question(method="bootstrap", covariates="uniform", replicates=99)
    assert subject.REPLICATES >= 100  # fewer say little of what a twentieth misses


def test_what_was_not_declared_cannot_be_uniform():
    schema = declare_schema(row_norm=1.0, levels={"y": [0, 1]})
    formula = parse_formula("y ~ age", list(REFERENCE.columns))
    spec = plan_design(formula, as_batch(REFERENCE), schema)
    with pytest.raises(SchemaError, match="'age' has no declared bounds"):
        subject.pool_of_rows(spec, "uniform")
