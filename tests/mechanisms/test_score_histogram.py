"""Noisy score counts: their exact privacy loss, their law, and what calibration depends on."""

import inspect
import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from privatelr.mechanisms.stages import histogram as histogram_stage
from privatelr.mechanisms.stages.histogram import (
    HistogramRelease,
    ScoreScale,
    calibrate_histogram,
    cells_of,
    counts_in,
    release_histogram,
)
from privatelr.privacy import ZCDP, ApproxDP, PureDP
from privatelr.privacy.accounting import Ledger
from privatelr.privacy.noise import (
    FloatDraw,
    GaussianNoise,
    SystemRandomness,
    gaussian_delta,
)

TARGETS = [PureDP(0.3), PureDP(2.0), ZCDP(0.1), ApproxDP(1.0, 1e-6), ApproxDP(0.01, 0.005)]


def law_of_count(noise):
    """Log probabilities of a released count minus the true one, from -60 to 60."""
    at = np.arange(-60, 61)
    if isinstance(noise, GaussianNoise):
        one = stats.norm(scale=noise.sd)
    else:
        one = stats.laplace(scale=noise.scale)
    lower = np.minimum(one.cdf(at + 0.5), one.sf(at - 0.5))
    upper = np.minimum(one.cdf(at - 0.5), one.sf(at + 0.5))
    both = one.cdf(0.5) - one.cdf(-0.5)
    return np.log(np.where(at == 0, both, np.abs(lower - upper)))


def neighbours_of(records, cells):
    """All histograms of a few records, and those of their neighbours."""
    for data in product(range(cells), repeat=records):
        for place, cell in product(range(records), range(cells)):
            if data[place] != cell:
                yield (
                    np.bincount(data, minlength=cells),
                    np.bincount([*data[:place], cell, *data[place + 1 :]], minlength=cells),
                )


def largest_loss(noise, cells=3, records=2):
    """The exact loss over all outcomes of all neighbours: a sum over cells, as noise is."""
    log = law_of_count(noise)
    worst = 0.0
    for one, other in neighbours_of(records, cells):
        total = 0.0
        for here, there in zip(one, other, strict=True):
            outcomes = np.arange(-40, 41)
            total += (log[outcomes - here + 60] - log[outcomes - there + 60]).max()
        worst = max(worst, total)
    return worst


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 4.0])
def test_the_exact_loss_of_counts_is_the_claim(epsilon):
    noise = calibrate_histogram(100, PureDP(epsilon)).noise
    assert largest_loss(noise) == pytest.approx(epsilon, rel=1e-6)


def test_a_planted_sensitivity_of_one_is_caught(monkeypatch):
    monkeypatch.setattr(histogram_stage, "L1_SENSITIVITY", 1.0)
    noise = calibrate_histogram(100, PureDP(1.0)).noise
    assert largest_loss(noise) > 1.5


@pytest.mark.parametrize("target", [ApproxDP(0.01, 0.005), ApproxDP(0.1, 0.04)])
def test_gaussian_noise_hides_two_cells(target):
    noise = calibrate_histogram(10_000, target).noise
    assert isinstance(noise, GaussianNoise)
    mu = histogram_stage.L2_SENSITIVITY / noise.sd
    assert math.hypot(1, 1) <= histogram_stage.L2_SENSITIVITY
    assert gaussian_delta.log_delta(target.epsilon, mu) <= math.log(target.delta)
    assert gaussian_delta.log_delta(target.epsilon, 1.001 * mu) > math.log(target.delta)


def test_a_small_delta_buys_no_less_noise_than_none():
    """Two cells move by one: Laplace noise is less, and its guarantee is pure."""
    calibration = calibrate_histogram(10_000, ApproxDP(1.0, 1e-6))
    assert calibration.noise == calibrate_histogram(10_000, PureDP(1.0)).noise
    assert calibration.proven == PureDP(1.0)


def test_zcdp_noise_is_that_of_rho():
    noise = calibrate_histogram(10_000, ZCDP(0.1)).noise
    assert (2 / noise.sd**2) / 2 == pytest.approx(0.1)


@pytest.mark.parametrize("target", [*TARGETS, ZCDP(2.0), ZCDP(12.0)], ids=str)
def test_a_ledger_takes_events_that_are_worth_the_exact_loss(target):
    calibration = calibrate_histogram(1000, target)
    (event,) = calibration.events
    if isinstance(event, PureDP):
        assert event.epsilon == pytest.approx(largest_loss(calibration.noise), rel=1e-4)
        assert calibration.proven == event
    else:
        assert event.mu == pytest.approx(math.hypot(1, -1) / calibration.noise.sd)
    ledger = Ledger(200.0, getattr(target, "delta", 1e-5))
    ledger.charge(target, calibration.events, "histogram")
    assert len(ledger.entries) == 1


def test_calibration_takes_no_data():
    known = ["n", "target", "kinds", "touched"]
    assert list(inspect.signature(calibrate_histogram).parameters) == known


def test_released_counts_have_the_law_that_was_enumerated():
    calibration = calibrate_histogram(50, PureDP(1.0))
    cells = np.arange(50) % calibration.noise.dimension
    exact = counts_in(cells, calibration.bins)
    off = np.concatenate(
        [
            release_histogram(exact, calibration, SystemRandomness().draw(calibration.noise))
            - exact
            for _ in range(300)
        ]
    )
    assert np.array_equal(off, np.rint(off))
    log = law_of_count(calibration.noise)
    edges = np.arange(-8, 9)  # of which each has dozens of draws
    seen = np.array([np.count_nonzero(off == k) for k in edges])
    seen = np.append(seen, len(off) - seen.sum())
    wanted = np.exp(log[edges + 60])
    wanted = np.append(wanted, 1 - wanted.sum()) * len(off)
    assert stats.chisquare(seen, wanted).pvalue > 1e-6
    assert np.std(off) == pytest.approx(calibration.count_sd, rel=0.1)  # 7 standard errors


def test_a_record_has_one_cell_of_its_own():
    link = np.array([-3.0, 0.0, 0.1, 5.0, np.nan, 1.0, 0.0])
    label = np.array([-1.0, -1.0, -1.0, 1.0, 1.0, 0.0, 1.0])
    edges = np.array([0.0, 1.0])
    together = cells_of(link, label, edges)
    assert together.tolist() == [0, 0, 1, 5, 6, 6, 3]
    alone = [cells_of(link[i : i + 1], label[i : i + 1], edges)[0] for i in range(len(link))]
    assert together.tolist() == alone


@pytest.mark.parametrize("replaced", range(4))
def test_replacing_a_record_moves_two_cells_by_one(replaced):
    rng = np.random.default_rng(replaced)
    link, label = rng.standard_normal(30), rng.choice([-1.0, 0.0, 1.0], 30)
    edges = ScoreScale(0.0, 1.0).edges(16)
    other_link, other_label = link.copy(), label.copy()
    other_link[replaced] = [np.nan, 30.0, -30.0, 0.1][replaced]
    other_label[replaced] = 1.0
    both = [
        np.bincount(cells_of(a, b, edges), minlength=33)
        for a, b in ((link, label), (other_link, other_label))
    ]
    change = np.abs(both[0] - both[1])
    assert change.sum() in (0, 2)
    assert change.max() <= 1


def test_other_numbers_of_records_are_refused():
    calibration = calibrate_histogram(50, PureDP(1.0))
    noise = FloatDraw(np.zeros(calibration.noise.dimension))
    with pytest.raises(Exception, match="n=50"):
        release_histogram(counts_in(np.zeros(49, dtype=int), calibration.bins), calibration, noise)
    with pytest.raises(Exception, match="n=50"):
        release_histogram(counts_in(np.zeros(50, dtype=int), 3), calibration, noise)


@pytest.mark.parametrize(
    "scale", [ScoreScale(0.0, 1.0), ScoreScale(-4.0, 0.05), ScoreScale(30.0, 9.0)], ids=str
)
def test_bins_are_equally_wide_in_position(scale):
    for bins in (2, 16, 100):
        edges = scale.edges(bins)
        assert np.all(np.diff(edges) > 0)
        assert scale.position(edges) == pytest.approx(np.arange(1, bins) / bins, abs=1e-9)
        between = scale.middles(bins)
        assert np.array_equal(np.searchsorted(edges, between), np.arange(bins))


@pytest.mark.parametrize(
    ("n", "epsilon", "bins"), [(100, 0.1, 10), (10**6, 1.0, 63), (10**8, 1, 100)]
)
def test_the_number_of_bins_is_public(n, epsilon, bins):
    assert calibrate_histogram(n, PureDP(epsilon)).bins == bins


def test_a_release_cannot_be_changed():
    calibration = calibrate_histogram(50, PureDP(1.0))
    counts = np.zeros(calibration.noise.dimension)
    release = HistogramRelease(counts, ScoreScale(0.0, 1.0), calibration, PureDP(1.0))
    with pytest.raises(ValueError, match="read-only"):
        release.counts[0] = 1.0
