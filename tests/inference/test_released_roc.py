"""ROC curves of noisy counts: against exact numbers, brute force, and real releases."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import special
from statsmodels.genmod.families import Binomial
from statsmodels.genmod.generalized_linear_model import GLM
from statsmodels.tools.tools import add_constant

from privatelr.inference import released_roc as roc
from privatelr.mechanisms.stages import histogram as histogram_stage
from privatelr.mechanisms.stages.histogram import (
    HistogramRelease,
    ScoreScale,
    calibrate_histogram,
    cells_of,
    counts_in,
    release_histogram,
)
from privatelr.numerics import area_under, best_threshold, c_index
from privatelr.privacy import PureDP
from privatelr.privacy.noise import SeededRandomness

N = 10_000
SCALE = ScoreScale(0.0, 1.0)
JUDGED = {0.1: 0.016, 0.5: 0.0033, 1.0: 0.0017}
"""Root mean squared error of the AUC of n = 10,000 records, by epsilon."""


def records(seed=0, n=N, middle=0.0):
    rng = np.random.default_rng(seed)
    link = rng.normal(middle, 1.5, n)
    return link, np.where(rng.random(n) < special.expit(link), 1.0, -1.0)


def exact_counts(link, label, bins, scale=SCALE):
    return np.bincount(cells_of(link, label, scale.edges(bins)), minlength=2 * bins + 1) * 1.0


def thresholds_of(bins):
    return np.concatenate([[np.inf], SCALE.edges(bins)[::-1], [-np.inf]])


def releases(link, label, epsilon, count, seed=0):
    """Releases of the same records, by seeded noise: of averages, which no seed decides."""
    source = SeededRandomness(seed)
    calibration = calibrate_histogram(len(link), PureDP(epsilon))
    cells = cells_of(link, label, SCALE.edges(calibration.bins))
    counts = counts_in(cells, calibration.bins)
    for _ in range(count):
        noisy = release_histogram(counts, calibration, source.draw(calibration.noise))
        yield HistogramRelease(noisy, SCALE, calibration, PureDP(epsilon))


@given(arrays(np.float64, st.integers(1, 9), elements=st.integers(-50, 50)), st.integers(1, 100))
def test_consistent_counts_are_the_nearest(counts, n):
    """The conditions of Karush, Kuhn and Tucker: one shift, and zero where it would be passed."""
    found = roc.consistent_counts(counts, n)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(n)
    shift = (counts - found)[found > 0]
    assert shift == pytest.approx(np.full(len(shift), shift[0]), abs=1e-9)
    assert np.all(counts[found == 0] <= shift[0] + 1e-9)


def test_counts_that_are_consistent_stay():
    counts = np.array([3.0, 0.0, 2.0, 5.0, 0.0])
    assert roc.consistent_counts(counts, 10) == pytest.approx(counts)


@given(arrays(np.float64, 21, elements=st.integers(0, 50)))
def test_refined_counts_are_counts_of_the_same_bins(counts):
    fine = roc.refined(counts)
    assert fine.min() >= 0
    assert len(fine) == 20 * roc.FINENESS + 1
    bins = fine[:-1].reshape(20, roc.FINENESS).sum(axis=1)
    assert np.append(bins, fine[-1]) == pytest.approx(counts)
    curve = roc.roc_of(fine, thresholds_of(10 * roc.FINENESS))
    assert np.all(np.diff(np.nan_to_num(curve.true_positive)) >= 0)


@given(arrays(np.float64, 21, elements=st.integers(0, 50)))
def test_the_auc_is_the_area_under_the_curve(counts):
    curve = roc.roc_of(counts, thresholds_of(10))
    assert float(roc.areas(counts)) == pytest.approx(area_under(curve), nan_ok=True)
    assert curve.threshold[0] == np.inf
    assert not counts[:10].any() or curve.false_positive[[0, -1]] == pytest.approx([0, 1])


def test_delong_is_that_of_all_pairs():
    rng = np.random.default_rng(1)
    bins, label = rng.integers(0, 6, 40), rng.choice([-1.0, 1.0], 40)
    counts = np.bincount(bins + np.where(label > 0, 6, 0), minlength=13) * 1.0
    high, low = bins[label > 0][:, None], bins[label < 0][None, :]
    pairs = (high > low) + (high == low) / 2
    variance = pairs.mean(axis=1).var(ddof=1) / pairs.shape[0]
    variance += pairs.mean(axis=0).var(ddof=1) / pairs.shape[1]
    assert roc.sampling_sd_of_area(counts) == pytest.approx(variance**0.5)


def test_simulated_sampling_errors_are_those_of_delong():
    release = next(releases(*records(), 1.0, 1))
    by_samples = roc.parts_of(release, roc.areas).sampling
    assert by_samples == pytest.approx(roc.sampling_sd_of_area(roc.counts_of(release)), rel=0.15)


def test_rates_at_edges_are_exact_without_noise():
    link, label = records()
    counts, edges = exact_counts(link, label, 32), SCALE.edges(32)
    found = roc.rates(counts, SCALE.position(edges))
    for threshold, (sensitivity, specificity, ppv, npv) in zip(edges, found, strict=True):
        above, positive = link > threshold, label > 0
        assert sensitivity == pytest.approx(above[positive].mean())
        assert specificity == pytest.approx(1 - above[~positive].mean())
        assert ppv == pytest.approx(positive[above].mean())
        assert npv == pytest.approx(1 - positive[~above].mean())
    assert float(roc.prevalences(counts)) == pytest.approx((label > 0).mean())


@pytest.mark.parametrize(
    ("middle", "scale"), [(0.0, SCALE), (-2.0, ScoreScale(-1.5, 1.0))], ids=["even", "rare"]
)
def test_bins_alone_change_little(middle, scale):
    link, label = records(middle=middle)
    counts = roc.refined(exact_counts(link, label, 16, scale))
    links = scale.middles(16 * roc.FINENESS)
    assert float(roc.areas(counts)) == pytest.approx(c_index(link, label > 0), abs=0.0012)
    line = GLM(label > 0, add_constant(link), family=Binomial()).fit().params
    assert roc.calibration_lines(counts, links) == pytest.approx(line, abs=0.03)
    error = ((special.expit(link) - (label > 0)) ** 2).mean()
    assert float(roc.brier_scores(counts, special.expit(links))) == pytest.approx(error, abs=0.002)


def test_without_straight_densities_an_auc_is_too_small():
    link, label = records()
    counts, exact = exact_counts(link, label, 16), c_index(link, label > 0)
    even, straight = float(roc.areas(counts)), float(roc.areas(roc.refined(counts)))
    assert exact - even > 3 * abs(exact - straight)


@pytest.mark.parametrize("epsilon", JUDGED)
def test_the_auc_is_as_near_as_judged(epsilon):
    link, label = records()
    exact = c_index(link, label > 0)
    off = [
        float(roc.areas(roc.counts_of(one))) - exact for one in releases(link, label, epsilon, 400)
    ]
    assert np.sqrt(np.mean(np.square(off))) <= 1.25 * JUDGED[epsilon]


def test_the_error_of_the_noise_is_what_the_noise_does():
    link, label = records(2, 3000, middle=-1.0)
    exact = c_index(link, label > 0)
    found = list(releases(link, label, 0.5, 240))
    off = [float(roc.areas(roc.counts_of(one))) - exact for one in found]
    stated = np.mean([roc.parts_of(one, roc.areas).privacy for one in found[:5]])
    assert 0.7 * stated < np.sqrt(np.mean(np.square(off))) < 1.3 * stated


SHAPES = {
    "normal": lambda rng, n: rng.normal(0, 1.5, n),
    "rare": lambda rng, n: rng.normal(-3.9, 1.5, n),
    "long tails": lambda rng, n: rng.standard_t(2, n) - 1,
    "five clumps": lambda rng, n: rng.choice([-2.0, -1.0, 0.0, 0.7, 2.0], n),
    "two clumps": lambda rng, n: rng.choice([-0.4, 0.5], n),
    "narrow": lambda rng, n: rng.normal(0, 0.3, n),
    "one-sided": lambda rng, n: rng.lognormal(0, 1, n) - 2,
}
PLACES = {"expected": lambda link: ScoreScale(link.mean(), link.std()), "wrong": lambda link: SCALE}


def without_noise(shape, place, bins, n=40_000):
    """Exact counts as a release, and the exact area and slope."""
    rng = np.random.default_rng(1)
    link = SHAPES[shape](rng, n)
    label = np.where(rng.random(n) < special.expit(link), 1.0, -1.0)
    scale = PLACES[place](link)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(histogram_stage, "_bins", lambda *_: bins)
        made = calibrate_histogram(n, PureDP(1.0))
    release = HistogramRelease(exact_counts(link, label, bins, scale), scale, made, PureDP(1.0))
    line = GLM(label > 0, add_constant(link), family=Binomial()).fit().params
    return release, c_index(link, label > 0), line[1]


@pytest.mark.parametrize("bins", [10, 16])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("shape", SHAPES)
def test_what_bins_leave_open_is_stated(shape, place, bins):
    release, area, slope = without_noise(shape, place, bins)
    found = roc.areas(roc.counts_of(release))
    assert abs(found - area) < 2 * roc.binning_sd_of_area(release)
    stated = roc.binning_sd(release, lambda c, links: roc.calibration_lines(c, links)[1])
    fitted = roc.calibration_lines(roc.counts_of(release), release.scale.middles(bins * 8))[1]
    assert abs(fitted - slope) < 3 * stated


@pytest.mark.parametrize("shape", ["normal", "one-sided"])
def test_even_scores_leave_little_open(shape):
    """Less than the noise at n = 10,000 and an epsilon of 1."""
    release, _, _ = without_noise(shape, "expected", 16)
    assert roc.binning_sd_of_area(release) < 1.25 * JUDGED[1.0]


def test_errors_of_clumps_are_larger_than_noise_and_sampling():
    """That the stated parts were needed: these scores are off by many of the errors before."""
    release, area, _ = without_noise("rare", "wrong", 10)
    parts = roc.parts_of(release, roc.areas)
    assert abs(roc.areas(roc.counts_of(release)) - area) > 4 * np.hypot(*parts)


def youden_of_the_population(cut):
    """Sensitivity and specificity, less one, of all records that `records` can make."""
    link = np.linspace(-12, 12, 48_001)
    density, positive = np.exp(-(link**2) / 4.5), special.expit(link)
    high = link[:, None] > cut
    hits, alarms = (density * positive) @ high, (density * (1 - positive)) @ high
    return hits / (density @ positive) - alarms / (density @ (1 - positive))


@pytest.mark.parametrize(("n", "epsilon"), [(1000, 0.5), (5000, 0.1), (N, 0.1)])
def test_the_regret_of_youden_is_small(n, epsilon):
    best, cuts = youden_of_the_population(np.linspace(-1, 1, 41)).max(), []
    for seed in range(150):  # records decide more than noise
        for one in releases(*records(seed, n), epsilon, 2, seed):
            counts = roc.counts_of(one)
            limits = thresholds_of(counts.shape[-1] // 2)
            cuts.append(best_threshold(roc.roc_of(counts, limits), "youden"))
    known, place = np.unique(cuts, return_inverse=True)
    lost = best - youden_of_the_population(known)[place]
    by_chance = 5 * np.std(lost) / np.sqrt(len(lost))
    assert np.mean(lost) + by_chance <= 0.01


def test_the_slope_of_calibration_is_near_the_exact_one():
    link, label = records(4)
    exact = GLM(label > 0, add_constant(link), family=Binomial()).fit().params[1]
    slopes = []
    for one in releases(link, label, 0.5, 30):
        counts = roc.counts_of(one)
        slopes.append(roc.calibration_lines(counts, SCALE.middles(counts.shape[-1] // 2))[1])
    assert np.max(np.abs(np.array(slopes) - exact)) < 0.1


def test_groups_have_about_as_many_records():
    link, label = records()
    counts = roc.refined(exact_counts(link, label, 16))
    group = roc.groups_of(counts, 10)
    sizes = np.bincount(group, weights=np.add(*roc.by_class(counts)))
    assert len(sizes) == 10
    assert sizes == pytest.approx(np.full(10, N / 10), rel=0.2)
    shares = roc.observed_shares(counts, group)
    assert np.all(np.diff(shares) > 0)
    assert np.average(shares, weights=sizes) == pytest.approx((label > 0).mean())


@pytest.mark.parametrize("label", [-1.0, 1.0, 0.0])
def test_a_class_without_records_has_no_numbers_and_no_warning(label):
    counts = roc.refined(exact_counts(np.linspace(-1, 1, 50), np.full(50, label), 16))
    assert np.isnan(roc.areas(counts))
    assert np.isnan(roc.sampling_sd_of_area(counts))
    assert np.isnan(roc.calibration_lines(counts, SCALE.middles(128))).all()
    assert roc.rates(counts, np.array([0.5])).shape == (1, 4)
    assert not np.isnan(roc.prevalences(counts)) or label == 0
    for one in releases(np.linspace(-1, 1, 50), np.full(50, label), 0.1, 3):
        roc.parts_of(one, roc.areas)


def test_counts_are_worked_out_once_and_stay():
    release = next(releases(*records(5, 200), 1.0, 1))
    assert roc.counts_of(release) is roc.counts_of(release)
    with pytest.raises(ValueError, match="read-only"):
        roc.counts_of(release)[0] = 1.0
