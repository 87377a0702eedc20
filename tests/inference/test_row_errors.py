"""Errors of all combinations at once: never shorter than one by one, and not much longer."""

from dataclasses import replace

import numpy as np
import pytest
from releases_for_inference import infer, law_of_errors, release_of, row_errors, rows_of

import privatelr.inference.prediction_errors as subject
from privatelr import ArgumentError, GuaranteeError
from privatelr.inference import NoiseLimits, Question, answerable, evidence_of, quality
from privatelr.inference.intervals import errors_by_matrices
from privatelr.inference.question import matrices_for
from privatelr.mechanisms import matrix_of
from privatelr.privacy import ZCDP, ApproxDP, NonPrivate, PureDP
from privatelr.privacy.noise import GaussianNoise

RELEASES = {
    "spherical": {"target": PureDP(1.0)},
    "output": {"target": PureDP(1.0), "op": False},
    "block": {"target": PureDP(1.0), "blocks": True},
    "Gaussian": {"target": ApproxDP(1.0, 1e-6), "kinds": (GaussianNoise,)},
    "with a delta": {"target": ApproxDP(1.0, 1e-6)},
    "Gaussian output": {"target": ZCDP(0.5), "op": False},
    "noisy": {"target": PureDP(0.2)},
    "many columns": {"target": ZCDP(0.5), "d": 8},
    "plain": {"target": NonPrivate(), "lambda_": 1e-3},
}
EVERY_RELEASE = pytest.mark.parametrize("options", RELEASES.values(), ids=RELEASES)


EVERY_TARGET = pytest.mark.parametrize("target", ["penalised", "unpenalised"])


def combinations(release):
    return np.vstack([np.eye(len(release.coef)), rows_of(20, len(release.coef), seed=5).x])


def widths(release, level=0.95, **asked):
    found = infer(release, combinations(release), level=level, **asked)
    errors = row_errors(release, level=level, **asked)
    return errors.half_width(combinations(release)), (found.upper - found.lower) / 2


@EVERY_RELEASE
@EVERY_TARGET
@pytest.mark.parametrize(
    ("mode", "level"), [("posterior", 0.8), ("posterior", 0.99), ("plug-in", 0.95)]
)
def test_never_shorter_than_one_by_one(options, target, mode, level):
    release = release_of(**options)
    together, alone = widths(release, level, mode=mode, target=target)
    # the points that stand for block noise are off by as much
    slack = 0.02 if options.get("blocks") else 1e-3
    assert (together >= alone * (1 - slack)).all()
    if quality(release).noise_to_signal < 0.6:
        # block noise is taken for Laplace noise, whose tails are heavier
        assert (together <= (1.35 if options.get("blocks") else 1.2) * alone).all()


def check_misses(release, level, target):
    """Under the law of `infer`, symmetric intervals of any combination hold the truth."""
    rows, question = combinations(release), Question(level, "posterior", target)
    matrices = matrices_for(release, answerable(release, question))
    law, _ = law_of_errors(evidence_of(release), matrices, rows, target)
    errors = row_errors(release, level=level, mode="posterior", target=target)
    half, taken = errors.half_width(rows), rows @ (release.coef - errors.estimate)
    missed = law.above(taken + half) + law.below(taken - half)
    assert (missed <= (1 - level) * 1.02).all()


@EVERY_RELEASE
@EVERY_TARGET
@pytest.mark.parametrize("level", [0.8, 0.99])
def test_no_combination_is_missed_more_often_than_the_level_says(options, target, level):
    if not options.get("blocks"):
        check_misses(release_of(**options), level, target)


@EVERY_RELEASE
def test_near_one_by_one_in_the_conservative_mode(options):
    together, alone = widths(release_of(**options), mode="conservative")
    assert (together <= 1.25 * alone).all()
    assert np.median(together / alone) >= 0.95


@EVERY_RELEASE
@EVERY_TARGET
def test_estimates_and_standard_errors_are_those_of_one_by_one(options, target):
    release = release_of(**options)
    rows, asked = combinations(release), {"mode": "posterior", "target": target}
    errors, found = row_errors(release, level=0.9, **asked), infer(release, rows, **asked)
    if target == "penalised":
        np.testing.assert_allclose(errors.sd(rows), found.sd, rtol=1e-9)
    # that of one combination leaves out what nearly singular matrices say of unusual errors
    assert (errors.sd(rows) >= found.sd * (1 - 1e-9)).all()
    np.testing.assert_allclose(rows @ errors.estimate, found.estimate, rtol=1e-9)
    if target == "penalised":
        np.testing.assert_array_equal(errors.estimate, release.coef)


def test_the_default_mode_and_target_are_those_of_the_release():
    for options in RELEASES.values():
        release = release_of(**options)
        found, known = row_errors(release, level=0.95, target=None), quality(release)
        assert (found.mode, found.target) == (known.mode, known.target)


def check_bound_holds(bound, d):
    """For curvatures whose noise is within limits, M is above what v = H^-1 a gives."""
    rng = np.random.default_rng(d)
    base = evidence_of(release_of(PureDP(1.0)))
    for _ in range(40):
        vectors = np.linalg.qr(rng.standard_normal((d, d)))[0]
        floor = 0.1
        values = floor + rng.exponential(1.0, d) * rng.choice([0.01, 1.0], d)
        truth = (vectors * values) @ vectors.T
        a, spread = rng.standard_normal(d), rng.standard_normal((d, d))
        v, form = np.linalg.solve(truth, a), spread @ spread.T
        unit = v / np.linalg.norm(v)
        noise = rng.choice([0.05, 0.5]) * matrix_of(rng.standard_normal(d * (d + 1) // 2))
        along = abs(unit @ noise @ unit) * (1 + 1e-9)
        limits = NoiseLimits(np.linalg.norm(noise @ unit) * (1 + 1e-9), along, 0.0)
        problem = replace(base.problem, d=d, lambda_=floor)
        calibration = replace(base.calibration, problem=problem)
        seen = replace(base, w=a, curvature=truth + noise, calibration=calibration)
        assert a @ bound(form, seen, limits, np.eye(d)) @ a >= v @ form @ v * (1 - 1e-6)


@pytest.mark.parametrize("d", [2, 4])
def test_the_matrix_bounds_whatever_the_noise_leaves_possible(d):
    check_bound_holds(subject.bounding_form, d)


def test_planted_small_matrix_is_caught():
    """The released curvature as if it were exact."""

    def believing(form, evidence, limits, reference):
        inverse = np.linalg.inv(evidence.curvature)
        return inverse @ form @ inverse

    with pytest.raises(AssertionError):
        check_bound_holds(believing, 3)


def forgetful(monkeypatch, name, replacement):
    """The module with something else by this name, and nothing in its cache before or after."""
    subject._row_errors.cache_clear()
    monkeypatch.setattr(subject, name, replacement)


@pytest.fixture
def _nothing_kept():
    yield
    subject._row_errors.cache_clear()


@pytest.mark.usefixtures("_nothing_kept")
def test_planted_normal_quantile_is_caught(monkeypatch):
    """1.96 standard errors, although the posterior and the noise have heavier tails."""
    forgetful(monkeypatch, "_factor", lambda *given: 1.96)
    together, alone = widths(release_of(**RELEASES["spherical"]), mode="posterior")
    assert (together < alone * 0.999).any()


@pytest.mark.usefixtures("_nothing_kept")
def test_planted_bias_that_is_known_is_caught(monkeypatch):
    """The bias of the penalty as if the matrices were exact."""

    def certain(release, asked):
        found = errors_by_matrices(release, asked)
        squares = found.left[:, :, None] * found.left[:, None, :]
        return replace(found, left=0 * found.left, total=found.total - squares)

    forgetful(monkeypatch, "errors_by_matrices", certain)
    monkeypatch.setattr("privatelr.inference.question.step_of", lambda evidence: (1.0, 0.0))
    with pytest.raises(AssertionError):
        check_misses(release_of(**RELEASES["many columns"]), 0.95, "unpenalised")


@pytest.mark.usefixtures("_nothing_kept")
def test_matrices_with_large_errors_are_left_out_where_that_is_shorter(monkeypatch):
    noisy, usual = (release_of(**RELEASES[name]) for name in ("noisy", "spherical"))
    shorter = [widths(release, target="unpenalised")[0] for release in (noisy, usual)]
    forgetful(monkeypatch, "_LEFT_OUT", ())
    longer = [widths(release, target="unpenalised")[0] for release in (noisy, usual)]
    assert np.median(shorter[0] / longer[0]) < 0.7
    assert (shorter[1] <= longer[1]).all()


@EVERY_TARGET
def test_each_row_by_itself_to_the_last_bit(target):
    release = release_of(PureDP(1.0))
    rows = rows_of(30, seed=9).x
    for mode in ("posterior", "conservative" if target == "penalised" else "plug-in"):
        errors = row_errors(release, level=0.95, mode=mode, target=target)
        for ask in (errors.sd, errors.half_width):
            alone = [ask(rows[i : i + 1])[0] for i in range(len(rows))]
            np.testing.assert_array_equal(ask(rows), alone)


def test_refusals():
    release = release_of(PureDP(1.0))
    with pytest.raises(ArgumentError, match="mode='bayes': mode takes"):
        row_errors(release, level=0.95, mode="bayes")
    with pytest.raises(ArgumentError, match="level=95"):
        row_errors(release, level=95)
    with pytest.raises(GuaranteeError, match="not requested"):
        row_errors(release.having({"inference": None}), level=0.95)
