"""Errors of all combinations at once: never shorter than one by one, and not much longer."""

from dataclasses import replace

import numpy as np
import pytest
from releases_for_inference import infer, release_of, row_errors, rows_of

import privatelr.inference.prediction_errors as subject
from privatelr import ArgumentError, GuaranteeError
from privatelr.inference import NoiseLimits, evidence_of, quality
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


def combinations(release):
    return np.vstack([np.eye(len(release.coef)), rows_of(20, len(release.coef), seed=5).x])


def widths(release, mode, level=0.95):
    found = infer(release, combinations(release), level=level, mode=mode)
    errors = row_errors(release, level=level, mode=mode)
    return errors.half_width(combinations(release)), (found.upper - found.lower) / 2


@EVERY_RELEASE
@pytest.mark.parametrize("mode", ["posterior", "plug-in"])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_never_shorter_than_one_by_one(options, mode, level):
    release = release_of(**options)
    together, alone = widths(release, mode, level)
    # the points that stand for block noise are off by as much
    slack = 0.02 if options.get("blocks") else 1e-3
    assert (together >= alone * (1 - slack)).all()
    if quality(release).noise_to_signal < 0.6:
        # block noise is taken for Laplace noise, whose tails are heavier
        assert (together <= (1.35 if options.get("blocks") else 1.2) * alone).all()


@EVERY_RELEASE
def test_near_one_by_one_in_the_conservative_mode(options):
    together, alone = widths(release_of(**options), "conservative")
    assert (together <= 1.25 * alone).all()
    assert np.median(together / alone) >= 0.95


@EVERY_RELEASE
def test_standard_errors_are_those_of_the_covariance(options):
    release = release_of(**options)
    rows = combinations(release)
    sd = row_errors(release, level=0.9, mode="posterior").sd(rows)
    np.testing.assert_allclose(sd, infer(release, rows, mode="posterior").sd, rtol=1e-9)


def test_the_default_mode_is_that_of_the_release():
    for options in RELEASES.values():
        release = release_of(**options)
        assert row_errors(release, level=0.95).mode == quality(release).mode


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


def test_planted_normal_quantile_is_caught(monkeypatch):
    """1.96 standard errors, although the posterior and the noise have heavier tails."""
    monkeypatch.setattr(subject, "_factor", lambda *given: 1.96)
    subject._row_errors.cache_clear()
    release = release_of(**RELEASES["spherical"])
    together, alone = widths(release, "posterior")
    subject._row_errors.cache_clear()
    assert (together < alone * 0.999).any()


def test_each_row_by_itself_to_the_last_bit():
    release = release_of(PureDP(1.0))
    rows = rows_of(30, seed=9).x
    for mode in ("posterior", "conservative"):
        errors = row_errors(release, level=0.95, mode=mode)
        whole = errors.half_width(rows)
        alone = [errors.half_width(rows[i : i + 1])[0] for i in range(len(rows))]
        np.testing.assert_array_equal(whole, alone)


def test_refusals():
    release = release_of(PureDP(1.0))
    with pytest.raises(ArgumentError, match="mode='bayes': mode takes"):
        row_errors(release, level=0.95, mode="bayes")
    with pytest.raises(ArgumentError, match="level=95"):
        row_errors(release, level=95)
    with pytest.raises(GuaranteeError, match="not requested"):
        row_errors(replace(release, moments=None), level=0.95)
