"""Intervals and tests: what they are about, how they hang together, and what is refused."""

import numpy as np
import pytest
from releases_for_inference import covariance, infer, release_of, rows_of
from scipy import stats

from privatelr.errors import ArgumentError, GuaranteeError
from privatelr.inference import evidence_of, intervals, joint_test, plausible, plug_in, quality
from privatelr.privacy import ZCDP, ApproxDP, NonPrivate, PureDP

EVERY = np.eye(3)
TARGETS = [PureDP(2.0), ZCDP(0.5), ApproxDP(2.0, 1e-6)]


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("op", [True, False])
@pytest.mark.parametrize("mode", [None, "posterior", "conservative", "plug-in"])
def test_intervals_and_p_values_agree(target, op, mode):
    release = release_of(target, op=op, n=20_000)
    for level in (0.8, 0.95):
        found = infer(release, EVERY, mode=mode, level=level)
        np.testing.assert_allclose(found.estimate, release.coef)
        np.testing.assert_allclose(found.upper - found.estimate, found.estimate - found.lower)
        for ends in (found.upper, found.lower):
            off = ends - found.estimate
            within = infer(
                release, EVERY, mode=mode, level=level, null=found.estimate + 0.999 * off
            )
            beyond = infer(
                release, EVERY, mode=mode, level=level, null=found.estimate + 1.001 * off
            )
            if mode != "conservative" or level == 0.95:  # of other levels: at most
                assert (within.p_value > 1 - level).all()
            if found.mode != "conservative":
                assert (beyond.p_value < 1 - level + 1e-9).all()


def test_contrasts_are_linear():
    release = release_of(ZCDP(0.5), n=20_000)
    single = infer(release, EVERY)
    scaled = infer(release, -3 * EVERY)
    np.testing.assert_allclose(scaled.lower, -3 * single.upper)
    np.testing.assert_allclose(scaled.sd, 3 * single.sd)
    np.testing.assert_allclose(scaled.p_value, single.p_value)
    a = np.array([[1.0, -2.0, 0.5]])
    matrix = covariance(release)
    np.testing.assert_allclose(infer(release, a).sd ** 2, (a @ matrix @ a.T)[0], rtol=1e-9)
    np.testing.assert_allclose(np.diag(matrix), single.sd**2)


@pytest.mark.parametrize("mode", ["posterior", "plug-in", "conservative"])
def test_covariances_have_the_standard_errors_on_their_diagonal(mode):
    release = release_of(PureDP(2.0), n=5000)
    matrix = covariance(release, mode=mode)
    sd = infer(release, EVERY, mode=mode).sd
    assert np.linalg.eigvalsh(matrix)[0] > 0
    np.testing.assert_allclose(np.sqrt(np.diag(matrix)), sd, rtol=1e-6)


def test_all_intervals_together_are_wider():
    for mode in ("posterior", "conservative"):
        release = release_of(PureDP(2.0), n=20_000)
        single = infer(release, EVERY, mode=mode)
        together = infer(release, EVERY, mode=mode, simultaneous=True)
        bonferroni = infer(release, EVERY, mode=mode, level=1 - 0.05 / 3)
        assert (together.upper > single.upper).all()
        half = bonferroni.upper - bonferroni.estimate
        assert (together.upper - together.estimate <= half * 1.02).all()
        assert (together.p_value >= single.p_value - 1e-3).all()


@pytest.mark.parametrize("op", [True, False])
@pytest.mark.parametrize("budget", [PureDP(2.0), ZCDP(0.01)], ids=str)
def test_all_intervals_together_are_wider_on_both_sides_without_the_penalty(budget, op):
    release = release_of(budget, n=20_000, op=op)
    for mode in ("posterior", "plug-in"):
        asked = {"mode": mode, "target": "unpenalised"}
        single, together = (infer(release, EVERY, simultaneous=x, **asked) for x in (False, True))
        assert (together.upper > single.upper).all()
        assert (together.lower < single.lower).all()
        assert (together.p_value >= single.p_value - 1e-3).all()
        bonferroni = infer(release, EVERY, level=1 - 0.05 / 3, **asked)
        length, most = (found.upper - found.lower for found in (together, bonferroni))
        assert (length <= most * 1.05).all()


@pytest.mark.parametrize("mode", ["posterior", "plug-in"])
def test_simultaneous_intervals_of_one_are_single(mode):
    release = release_of(ZCDP(0.5), n=20_000)
    one = infer(release, EVERY[:1], mode=mode)
    alone = infer(release, EVERY[:1], mode=mode, simultaneous=True)
    np.testing.assert_allclose(alone.upper - alone.lower, one.upper - one.lower, rtol=0.03)


def test_wkl_raises_both_matrices_to_lambda():
    release = release_of(PureDP(1.0), n=2000)
    found = infer(release, EVERY, method="wkl")
    assert (found.method, found.mode) == ("wkl", "plug-in")
    evidence = evidence_of(release)
    matrices = plug_in(evidence, scores_floor=evidence.floor)
    inverse = np.linalg.inv(matrices.curvature[0])
    variance = np.diag(inverse @ matrices.scores[0] @ inverse) / 2000
    np.testing.assert_allclose(found.sampling_sd**2, variance, rtol=1e-9)
    assert (found.sd >= infer(release, EVERY, mode="plug-in").sd * (1 - 1e-9)).all()


@pytest.mark.parametrize("op", [True, False])
def test_the_debias_step_takes_the_penalty_off(op):
    """Without noise: the estimate is H0^-1 H w, near the minimiser without penalty."""
    plain = NonPrivate()
    shrunk = release_of(plain, 20_000, op=op, lambda_=1e-3)
    free = release_of(plain, 20_000, op=op, lambda_=1e-9)
    found = infer(shrunk, EVERY, target="unpenalised")
    evidence = evidence_of(shrunk)
    bare = evidence.curvature - evidence.floor * EVERY
    np.testing.assert_allclose(
        found.estimate, np.linalg.solve(bare, evidence.curvature @ evidence.w), rtol=1e-9
    )
    before = np.linalg.norm(shrunk.coef - free.coef)
    assert np.linalg.norm(found.estimate - free.coef) < 0.1 * before
    np.testing.assert_allclose(found.sd, infer(free, EVERY).sd, rtol=0.02)


@pytest.mark.parametrize("op", [True, False])
@pytest.mark.parametrize("target", [PureDP(4.0), ZCDP(2.0)], ids=str)
def test_debiased_intervals(target, op):
    release = release_of(target, 20_000, op=op)
    for mode in ("posterior", "plug-in"):
        found = infer(release, EVERY, target="unpenalised", mode=mode)
        assert (found.lower < found.estimate).all()
        assert (found.estimate < found.upper).all()
        assert (found.sd > infer(release, EVERY, mode=mode).sd).all()
        beyond = infer(release, EVERY, target="unpenalised", mode=mode, null=found.upper * 1.0)
        np.testing.assert_allclose(beyond.p_value, 0.05, rtol=1e-3)


def test_what_cannot_be_said_is_refused_with_its_reason():
    large = release_of(NonPrivate(), 2000, lambda_=1.0)
    with pytest.raises(GuaranteeError, match="shrinks the coefficients by"):
        infer(large, EVERY, target="unpenalised")
    with pytest.raises(GuaranteeError, match="no limit holds for every dataset"):
        infer(release_of(PureDP(1.0)), EVERY, target="unpenalised", mode="conservative")
    release = release_of(ZCDP(0.5))
    for wrong in ({"mode": "honest"}, {"target": "truth"}, {"method": "hdi"}, {"level": 95}):
        with pytest.raises(ArgumentError, match=next(iter(wrong))):
            infer(release, EVERY, **wrong)
    with pytest.raises(ArgumentError, match="wkl"):
        infer(release, EVERY, method="wkl", mode="posterior")


def test_without_noise_it_is_the_classical_sandwich():
    release = release_of(NonPrivate(), 20_000, lambda_=1e-9)
    rows = rows_of(20_000)
    margin = rows.y * (rows.x @ release.coef)
    p = 1 / (1 + np.exp(margin))
    bread = np.linalg.inv((rows.x * (p * (1 - p))[:, None]).T @ rows.x)
    meat = (rows.x * (p * p)[:, None]).T @ rows.x
    robust = bread @ meat @ bread
    found = infer(release, EVERY)
    np.testing.assert_allclose(found.sd, np.sqrt(np.diag(robust)), rtol=1e-6)
    np.testing.assert_allclose(found.privacy_sd, 0, atol=1e-12)
    np.testing.assert_allclose(found.p_value, 2 * stats.norm.sf(np.abs(found.z)), rtol=1e-9)
    test = joint_test(release, EVERY[1:], np.zeros(2))
    expected = release.coef[1:] @ np.linalg.solve(robust[1:, 1:], release.coef[1:])
    assert test.statistic == pytest.approx(expected, rel=1e-6)


def test_joint_tests():
    release = release_of(ZCDP(0.5), n=20_000)
    truth = release.coef
    assert joint_test(release, EVERY, truth).p_value == 1
    none = joint_test(release, EVERY[1:], np.zeros(2))
    assert (none.df, none.p_value < 1e-3) == (2, True)
    one = joint_test(release, EVERY[1:2], np.zeros(1))
    assert one.p_value == pytest.approx(infer(release, EVERY[1:2]).p_value[0])
    # an equation may be written in any units, and equations in any order
    turned = joint_test(release, np.array([[0, 1.0, 1], [0, 3, 0]]), np.zeros(2))
    assert turned.statistic == pytest.approx(none.statistic)
    with pytest.raises(ArgumentError, match="follows from the others"):
        joint_test(release, np.array([[0, 1.0, 1], [0, 2, 2]]), np.zeros(2))
    careful = joint_test(release, EVERY[1:], np.zeros(2), mode="conservative")
    single = infer(release, EVERY[1:], mode="conservative")
    assert careful.p_value == min(1, 2 * single.p_value.min())


def test_the_level_of_a_joint_test():
    """Under its own law of errors the statistic is beyond its 5 % point in 5 % of draws."""
    release = release_of(PureDP(2.0), n=20_000)
    matrix = covariance(release)
    rng = np.random.default_rng(4)
    errors = rng.multivariate_normal(np.zeros(3), matrix, 150)
    p_values = [
        joint_test(release, EVERY, release.coef - e, mode="plug-in").p_value for e in errors
    ]
    assert np.mean(np.array(p_values) <= 0.05) == pytest.approx(0.05, abs=0.06)


def test_widths_fall_with_epsilon_and_n():
    def width(epsilon, n):
        found = infer(release_of(PureDP(epsilon), n, lambda_=2e-3), EVERY, mode="plug-in")
        return found.upper - found.lower

    assert (width(2.0, 20_000) < width(1.0, 20_000)).all()
    assert (width(1.0, 20_000) < width(1.0, 5000)).all()


def test_the_posterior_is_about_as_wide_as_the_plug_in_where_noise_is_moderate():
    ratios = []
    for seed in range(6):
        release = release_of(PureDP(1.0), 5000, 6, noise=seed, lambda_=2e-3)
        if 0.3 <= quality(release).noise_to_signal <= 1:
            wide, narrow = (infer(release, np.eye(6), mode=m).sd for m in ("posterior", "plug-in"))
            ratios.append(wide / narrow)
    assert len(ratios) > 3
    assert np.median(ratios) > 0.95


def test_inference_that_was_not_bought_is_refused():
    with pytest.raises(GuaranteeError, match="spend='inference'"):
        infer(release_of(PureDP(1.0)).having({"inference": None}), EVERY)


@pytest.mark.parametrize("target", ["penalised", "unpenalised"])
@pytest.mark.parametrize("budget", [PureDP(0.7), ZCDP(0.01)], ids=str)
def test_parts_are_medians_over_what_the_release_leaves_possible(budget, target):
    release = release_of(budget, n=5000)
    evidence = evidence_of(release)
    found = infer(release, EVERY, mode="posterior", target=target)
    drawn = plausible(evidence, quality(release).noise_to_signal)
    taken = evidence.floor * np.eye(3) if target == "unpenalised" else 0.0
    inverse = np.linalg.inv(drawn.curvature - taken)
    sampling = inverse @ drawn.scores @ inverse / 5000
    noise = evidence.calibration.noise.variances[0] * (inverse @ inverse) / 5000**2
    for part, each in ((found.sampling_sd, sampling), (found.privacy_sd, noise)):
        middle = np.median(np.diagonal(each, axis1=1, axis2=2), axis=0)
        np.testing.assert_allclose(part**2, middle, rtol=1e-3)
    parts = found.sampling_sd**2 + found.privacy_sd**2 + found.unknown_sd**2
    np.testing.assert_allclose(parts, found.sd**2, rtol=1e-9)


def test_matrices_are_solved_once_where_no_step_changes_them(monkeypatch):
    release, solved = release_of(PureDP(1.0)), []
    solver = intervals.factors_of

    def counted(evidence, matrices, rows, target):
        solved.append(len(matrices.curvature))
        return solver(evidence, matrices, rows, target)

    monkeypatch.setattr(intervals, "factors_of", counted)
    infer(release, EVERY, target="penalised")
    assert sorted(count > 1 for count in solved) == [False, True]  # the mean, and all of them
    solved.clear()
    infer(release, EVERY, target="unpenalised")
    assert sorted(count > 1 for count in solved) == [False, True, True]
