"""The study of coverage, in short: intervals hold as often as they say, and are not too wide."""

import json
from dataclasses import replace

import benchmarks.coverage as study
import numpy as np
import pytest
from benchmarks.coverage import (
    EPSILONS,
    HONEST,
    WAYS,
    Cell,
    as_json,
    chosen_cells,
    full_cells,
    oracle_width,
    plan_of,
    published_ratio,
    release_for,
    run,
    summarise,
    table,
    usual_cells,
)
from benchmarks.populations import POPULATIONS, population, truth
from scipy import stats

from privatelr.mechanisms import Moments, vector_of
from privatelr.privacy.noise import GaussianNoise, NoNoise

TENTH_OF_PERCENT = 1e-3
RUNS, FEW = 200, 40
SMOOTH = Cell("section-9", "logistic", "objective", "zcdp", 3, 2000, 1.0)
NOISY = Cell("section-9", "huber", "output", "zcdp", 3, 2000, 1.0)
RARE = Cell("rare-levels", "logistic", "objective", "zcdp", 3, 20000, 2.0)
LAPLACE = Cell("section-9", "logistic", "objective", "pure", 3, 2000, 1.0)


def check(cell, runs):
    """Coverage from 93 % to 99.5 %, rejections up to 6 %, near the oracle's width.

    Counts of each coefficient are binomial. Beyond the limits is what one such count in a
    thousand is, were the share at its limit.
    """
    found = run(cell, range(runs), ["default"])["default"]
    covered, rejected = found.covered.sum(axis=0), found.rejected.sum(axis=0)
    assert (stats.binom.cdf(covered, runs, 0.93) > TENTH_OF_PERCENT).all()
    assert (stats.binom.sf(covered - 1, runs, 0.995) > TENTH_OF_PERCENT).all()
    assert (stats.binom.sf(rejected - 1, runs, 0.06) > TENTH_OF_PERCENT).all()
    ratio = np.median(found.width / oracle_width(cell), axis=0)
    assert (ratio > 0.9).all()
    assert (ratio < 1.15).all()


CELLS = {
    "smooth": (SMOOTH, RUNS),
    "noisy": (NOISY, RUNS),
    "rare": (RARE, RUNS),
    "laplace": (LAPLACE, 60),
}


@pytest.mark.parametrize(("cell", "runs"), CELLS.values(), ids=CELLS)
def test_intervals_hold(cell, runs):
    check(cell, runs)


def with_noise(release, noise):
    return replace(release, calibration=replace(release.calibration, noise=noise))


def with_moments(release, curvature=0.0, scores=1.0):
    """What was released of H moved by a multiple of the identity, and S multiplied."""
    h, s = np.split(release.moments.values.copy(), 2)
    h += curvature * vector_of(np.eye(len(release.coef)))
    moments = Moments(np.concatenate([h, scores * s]), release.moments.calibration)
    return release.having(inference=moments)


PLANTED = {
    "privacy part left out": (NOISY, lambda r: with_noise(r, NoNoise(len(r.coef)))),
    "noise of half the scale": (
        NOISY,
        lambda r: with_noise(r, GaussianNoise(len(r.coef), r.calibration.noise.sd / 2)),
    ),
    "S not divided by n": (
        SMOOTH,
        lambda r: with_moments(r, scores=r.calibration.problem.n),
    ),
    "H without its penalty": (RARE, lambda r: with_moments(r, curvature=-r.calibration.lambda_)),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bug_is_caught(bug, monkeypatch):
    cell, spoil = PLANTED[bug]
    check(cell, FEW)
    monkeypatch.setattr(study, "release_for", lambda *which: spoil(release_for(*which)))
    with pytest.raises(AssertionError):
        check(cell, FEW)


def median_width(cell, way="default"):
    return np.median(run(cell, range(4), [way])[way].width)


def test_intervals_shrink_with_epsilon_and_n():
    """Test (c) of inference.md 10."""
    widths = [
        [median_width(replace(SMOOTH, n=n, epsilon=epsilon)) for epsilon in EPSILONS]
        for n in (2000, 20000)
    ]
    assert (np.diff(widths, axis=1) < 0).all()
    assert (np.diff(widths, axis=0) < 0).all()


def test_noise_in_the_curvature_widens_the_posterior():
    """Test (e) of inference.md 10, where the noise is from 0.3 to 1 of the signal."""
    cell = Cell("section-9", "huber", "objective", "zcdp", 10, 2000, 1.0)
    assert 0.3 < np.median(run(cell, range(4), ["plug-in"])["plug-in"].noise_to_signal) < 1
    assert median_width(cell, "posterior") > 0.97 * median_width(cell, "plug-in")


@pytest.mark.parametrize("name", POPULATIONS)
def test_truth_is_the_minimiser(name):
    """The gradient vanishes there, and without effect is without effect."""
    d = 2 if name == "awan-wang" else 5
    if name == "rare-levels":
        d = 3
    lambda_ = 0.01
    known, rows = truth(name, d, "logistic", lambda_), population(name, d).rows()
    assert np.linalg.norm(rows.x, axis=1).max() <= rows.radius
    for w, penalty in ((known.w, lambda_), (known.plain, 0.0)):
        slope = -1 / (1 + np.exp(rows.y * (rows.x @ w)))
        gradient = (rows.x * (rows.y * slope)[:, None]).mean(axis=0) + penalty * w
        assert np.abs(gradient).max() < 1e-7
    assert (known.w[-1] == 0) == (name != "awan-wang")
    assert np.linalg.eigvalsh(known.curvature)[0] >= lambda_


def test_the_oracle_is_what_its_formula_says():
    """With Gaussian noise all is normal (inference.md 3.2)."""
    for cell in (SMOOTH, NOISY):
        calibration = plan_of(cell).coefficients
        known = truth(cell.population, cell.d, cell.loss, calibration.lambda_)
        inverse, sd = np.linalg.inv(known.curvature), calibration.noise.sd
        added = inverse @ inverse / cell.n**2 if cell.placement == "objective" else np.eye(cell.d)
        spread = inverse @ known.scores @ inverse / cell.n + sd**2 * added
        exact = 2 * stats.norm.ppf(0.975) * np.sqrt(np.diag(spread))
        np.testing.assert_allclose(oracle_width(cell), exact, rtol=0.03)


def test_cells_are_chosen_by_words():
    grid = [*usual_cells()]
    judged = chosen_cells(usual_cells(), ["section-9", "split=usual"])
    assert len(judged) == 96
    some = chosen_cells(usual_cells(), ["section-9", "logistic,huber", "d=10", "eps=0.5"])
    assert {cell.epsilon for cell in some} == {0.5}
    assert {cell.loss for cell in some} == {"logistic", "huber"}
    assert len({" ".join(cell.words) for cell in grid}) == len(grid)
    assert set(grid) < set(full_cells())
    assert {cell.population for cell in grid} == set(POPULATIONS)


def test_published_columns_stand_beside_their_cells():
    found = [cell for cell in usual_cells() if published_ratio(cell) is not None]
    assert len(found) == len(HONEST) * len(EPSILONS)
    cell = Cell("section-9", "huber", "objective", "pure", 10, 5000, 2.0, "kept", "half")
    assert published_ratio(cell) == pytest.approx(1.30 / 0.62)
    assert published_ratio(replace(cell, split="usual")) is None


def test_the_table_has_a_line_for_each_way():
    ways = [way for way in WAYS if way not in ("posterior", "conservative")]
    found = run(SMOOTH, range(3), ways)
    lines = [summarise(SMOOTH, way, runs) for way, runs in found.items()]
    assert [line.way for line in lines] == ways
    text = table([(SMOOTH, lines), (NOISY, [])])
    assert len(text.splitlines()) == 2 + len(ways) + 1
    assert "infeasible" in text
    assert json.loads(as_json([(SMOOTH, lines)]))[0]["coverage"] == lines[0].coverage


def test_a_study_can_be_repeated():
    first, second = (run(SMOOTH, range(3), ["default"])["default"] for _ in range(2))
    np.testing.assert_array_equal(first.width, second.width)
    other = run(SMOOTH, range(3, 6), ["default"])["default"]
    assert not np.array_equal(first.width, other.width)
