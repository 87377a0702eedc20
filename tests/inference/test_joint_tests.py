"""Tests of nested models: the form is a constrained minimum, and its law is that of the errors."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from releases_for_inference import INTERCEPT, infer, law_of_errors, release_of, rows_of
from scipy import special, stats

from privatelr.errors import ArgumentError, GuaranteeError
from privatelr.inference import (
    Question,
    answerable,
    deviance_test,
    evidence_of,
    joint_test,
    plug_in,
)
from privatelr.inference.noisy_moments import step_of
from privatelr.inference.question import matrices_for
from privatelr.mechanisms import Problem, Request, calibrate_all, draw_all, release_all
from privatelr.numerics import LOSSES
from privatelr.numerics.rows import DenseRows
from privatelr.numerics.solve import Newton
from privatelr.privacy import ZCDP, NonPrivate, PureDP
from privatelr.privacy.noise import NoNoise, SeededRandomness

EVERY = np.eye(4)
TARGETS = ["penalised", "unpenalised"]
EQUATIONS = np.array([[0, 1.0, -2, 0], [0, 0, 1, 1]])
VALUES = np.array([1.0, -0.7])
BUDGETS = [PureDP(4.0), ZCDP(2.0)]


def curvature_and_estimate(release, target):
    """What the form is made of, from the released moments by themselves."""
    evidence = evidence_of(release)
    penalty = release.calibration.problem.lambda_ * EVERY
    with_penalty = plug_in(evidence).curvature[0]
    if target == "penalised":
        return with_penalty, release.coef
    bare = with_penalty - penalty
    newton = np.linalg.solve(bare, penalty @ release.coef)
    return bare, release.coef + step_of(evidence)[0] * newton


@pytest.mark.parametrize("op", [True, False])
@pytest.mark.parametrize("target", TARGETS)
def test_it_is_twice_the_rise_of_the_quadratic_under_the_equations(target, op):
    release = release_of(ZCDP(2.0), 20_000, 4, op=op)
    curvature, best = curvature_and_estimate(release, target)
    free = np.linalg.svd(EQUATIONS)[2][2:]  # directions that keep the equations
    start = np.linalg.lstsq(EQUATIONS, VALUES, rcond=None)[0]
    along = np.linalg.solve(free @ curvature @ free.T, free @ curvature @ (best - start))
    step = start + along @ free - best
    found = deviance_test(release, EQUATIONS, VALUES, mode="plug-in", target=target)
    assert (found.df, found.target) == (2, target)
    assert found.statistic == pytest.approx(20_000 * step @ curvature @ step, rel=1e-8)


@pytest.mark.parametrize("target", TARGETS)
def test_one_equation_is_tested_as_its_interval_is_made(target):
    for release in (release_of(NonPrivate(), 20_000, 4), release_of(PureDP(4.0), 20_000, 4)):
        for row in EVERY:
            single = infer(release, row, target=target, mode="plug-in")
            found = deviance_test(release, row, mode="plug-in", target=target)
            assert found.p_value == pytest.approx(single.p_value[0])
            curvature, _ = curvature_and_estimate(release, target)
            model_based = row @ np.linalg.solve(curvature, row) / 20_000
            scale = (single.sd**2)[0] / model_based
            assert found.statistic == pytest.approx((single.z**2)[0] * scale, rel=1e-8)


def test_without_noise_it_is_near_the_deviance_difference():
    n = 20_000
    release = release_of(NonPrivate(), n, 4, lambda_=1e-9)
    rows = rows_of(n, 4)

    def deviance(coef):
        return 2 * np.logaddexp(0, -rows.y * (rows.x @ coef)).sum()

    move = np.array([0, 0, 0.05, -0.05])
    # equations about every coefficient leave a single model
    found = deviance_test(release, EVERY, release.coef + move)
    assert found.statistic == pytest.approx(
        deviance(release.coef + move) - deviance(release.coef), rel=0.03
    )


def test_units_and_order_of_equations_do_not_matter():
    release = release_of(PureDP(2.0), 20_000, 4)
    turn = np.array([[0, 3.0], [2, 1]])
    for target in TARGETS:
        one = deviance_test(release, EQUATIONS, VALUES, target=target)
        other = deviance_test(release, turn @ EQUATIONS, turn @ VALUES, target=target)
        assert other.statistic == pytest.approx(one.statistic)
        assert other.p_value == pytest.approx(one.p_value)
    with pytest.raises(ArgumentError, match="follows from the others"):
        deviance_test(release, np.array([[0, 1.0, 1, 0], [0, 2, 2, 0]]))


# -- the law ---------------------------------------------------------------------------------


@pytest.mark.parametrize("op", [True, False])
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_each_joint_error_has_the_law_of_its_interval(budget, op, target):
    release = release_of(budget, 5000, 4, op=op, noise=8)
    evidence = evidence_of(release)
    matrices = matrices_for(release, answerable(release, Question(mode="posterior")))
    law, drawn = law_of_errors(evidence, matrices, EVERY, target)
    for share in (0.02, 0.3, 0.5, 0.9, 0.99):
        beyond = (drawn <= law.quantile(share)).sum(axis=0)
        # draws of one pair of matrices vary together, by less than the factor of two
        error = 2 * np.sqrt(share * (1 - share) / len(drawn))
        np.testing.assert_allclose(beyond / len(drawn), share, atol=4 * error)


TRUTH = np.array([0, 1.5, 0.25, -1])
RUNS = 140
CELLS = {
    "objective, zcdp": (ZCDP(0.125), True, 5000),
    "objective, pure": (PureDP(1.0), True, 5000),
    "output, pure": (PureDP(2.0), False, 20_000),
}
TESTS = {"deviance": deviance_test, "wald": joint_test}


def p_values(cell, test, target, spoil=lambda release: release):
    """P-values of the truth about two coefficients in repetitions with other rows and noise."""
    return np.array(
        [
            test(spoil(r), EVERY[2:], TRUTH[2:], mode="posterior", target=target).p_value
            for r in releases(cell)
        ]
    )


@cache
def releases(cell):
    budget, op, n = CELLS[cell]
    return [release_of(budget, n, 4, op=op, seed=s, noise=s + 1000) for s in range(RUNS)]


def check_level(found):
    """At most 8 % are below 5 %, and not much more than half below a half."""
    for level, most in ((0.05, 0.08), (0.5, 0.57)):
        assert stats.binom.sf((found <= level).sum() - 1, RUNS, most) > 1e-3


def without_noise(release):
    noise = NoNoise(len(release.coef))
    return replace(release, calibration=replace(release.calibration, noise=noise))


@pytest.mark.parametrize(
    ("cell", "test"),
    [*((cell, deviance_test) for cell in CELLS), ("objective, zcdp", joint_test)],
    ids=["objective, zcdp", "objective, pure", "output, pure", "objective, zcdp, wald"],
)
def test_the_truth_is_rejected_as_often_as_the_level_says(cell, test):
    found = p_values(cell, test, "unpenalised")
    check_level(found)
    assert (found <= 0.5).mean() > 0.3


@pytest.mark.parametrize("cell", ["objective, zcdp", "output, pure"])
def test_noise_left_out_of_the_null_law_is_caught(cell):
    found = p_values(cell, deviance_test, "unpenalised", without_noise)
    with pytest.raises(AssertionError):
        check_level(found)


@cache
def released_factor(seed):
    """A release of a factor without effect, whose levels go with a column that has one.

    The penalty takes a sixth off the coefficients, and gives a part of it to the factor.
    """
    rng, n, bound = np.random.default_rng(seed), 5000, np.sqrt(2)
    x, chance = rng.uniform(-1, 1, n), rng.random(n)
    second, third = 0.5 * special.expit(3 * x), 0.85 * special.expit(3 * x)
    level = np.where(chance < second, 1, np.where(chance < third, 2, 0))
    y = np.where(rng.random(n) < special.expit(0.3 + 2.5 * x), 1.0, -1.0)
    columns = np.column_stack([x, level == 1, level == 2]).astype(float)
    rows = DenseRows(columns, y, bound=bound, intercept=INTERCEPT)
    request = Request(ZCDP(2.0), "objective", None, 0.004, "increase", "inference")
    plan = calibrate_all(request, Problem(n, 4, LOSSES["logistic"], rows.radius, ()))
    return release_all(rows, plan, draw_all(plan, SeededRandomness(seed + 5000)), Newton())


def p_values_of_factor(test, target):
    released = map(released_factor, range(RUNS))
    return np.array([test(one, EVERY[2:], np.zeros(2), target=target).p_value for one in released])


@pytest.mark.parametrize("test", TESTS)
def test_a_factor_without_effect_is_rejected_as_often_as_the_level_says(test):
    assert answerable(released_factor(0), Question(target=None)).target == "unpenalised"
    found = p_values_of_factor(TESTS[test], None)
    check_level(found)
    assert (found <= 0.05).mean() <= 0.08


@pytest.mark.parametrize("test", TESTS)
def test_the_effect_that_the_penalty_gives_a_factor_is_caught(test):
    with pytest.raises(AssertionError):
        check_level(p_values_of_factor(TESTS[test], "penalised"))


def test_several_equations_are_stronger_than_the_smallest_p_value():
    """Two columns that vary together, with a small effect each: the simulated law uses it all."""
    release = release_of(PureDP(4.0), 20_000, 4)
    for target in TARGETS:
        single = infer(release, EVERY[2:], target=target, mode="plug-in")
        away = single.estimate + 2.0 * single.sd
        bonferroni = 2 * infer(release, EVERY[2:], away, target=target).p_value.min()
        assert deviance_test(release, EVERY[2:], away, target=target).p_value < bonferroni
        assert joint_test(release, EVERY[2:], away, target=target).p_value < bonferroni


# -- refusals --------------------------------------------------------------------------------


def test_where_the_noise_is_too_large():
    fragile, rows = release_of(PureDP(0.1), 2000, 6), np.eye(6)[1:4]
    careful = deviance_test(fragile, rows, np.zeros(3))
    assert careful.mode == "conservative"
    assert careful.p_value == min(1, 3 * infer(fragile, rows).p_value.min())
    assert deviance_test(fragile, rows, target="unpenalised").mode == "posterior"
    with pytest.raises(GuaranteeError, match="no limit holds for every dataset"):
        deviance_test(fragile, rows, target="unpenalised", mode="conservative")
