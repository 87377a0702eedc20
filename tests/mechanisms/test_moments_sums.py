"""What doubles lose in the moments, against sums that lose nothing: it is paid for."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from privatelr.mechanisms import Problem, mean_moments, vector_of
from privatelr.mechanisms.stages.matrices import calibrate_moments, moments_sensitivity
from privatelr.numerics import LOSSES, Huber, SoftplusHinge
from privatelr.numerics.rows import DenseRows, additions, linear_predictor
from privatelr.privacy import PureDP

EVERY_LOSS = [*LOSSES.values(), Huber(0.1), Huber(1e-4), SoftplusHinge(1e-4)]
UNIT = 2.0**-53


def rng(seed=0):
    return np.random.default_rng(seed)


def calibrated(rows, loss):
    facts = Problem(rows.n, rows.d, loss, rows.radius)
    return calibrate_moments(facts.with_lambda(0.01), PureDP(1.0))


def weights(rows, coef, loss, balance):
    """What each row weighs in H and in eta S, in doubles as the package has them."""
    margin, used = rows.y * linear_predictor(rows.x, coef), rows.y * rows.y
    return loss.curvature(margin) * used, balance * (loss.slope(margin) ** 2 * used)


def longest(problem):
    """K R^2, from the sensitivity of a single record: there is nothing to add up."""
    one = Problem(1, problem.d, problem.loss, problem.radius).with_lambda(0.01)
    return moments_sensitivity(one) / math.sqrt(2)


def exact_product(a, b):
    """The rounded products of doubles, and what rounding took from them (Dekker)."""
    (a_high, a_low), (b_high, b_low) = map(halves, (a, b))
    product = a * b
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, error


def halves(a):
    turned = a * (2.0**27 + 1)
    high = turned - (turned - a)
    return high, a - high


def exact_moments(rows, weighted):
    """Means of ``weight x x'``, correctly rounded at the end but for one part in 2^100."""
    parts = []
    for weight in weighted:
        entries = np.empty((rows.d, rows.d))
        for i, j in itertools.product(range(rows.d), repeat=2):
            first, lost = exact_product(weight, rows.x[:, i])
            terms = [*exact_product(first, rows.x[:, j]), lost * rows.x[:, j]]
            entries[i, j] = math.fsum(np.concatenate(terms))
        parts.append(vector_of(entries) / rows.n)
    return np.concatenate(parts)


def families(n, d=3):
    """Rows on which sums in doubles lose much, or might."""
    source = rng(n)
    noise = source.standard_normal((n, d))
    edge = noise / np.linalg.norm(noise, axis=1, keepdims=True)
    yield "noise", noise
    yield "edge", edge
    yield "equal", np.full((n, d), 0.1)
    yield "magnitudes", edge * 10.0 ** source.uniform(-9, 0, (n, 1))
    yield "growing", edge[np.argsort(edge[:, 0])] * np.linspace(1e-8, 1, n)[:, None]
    yield "one large", edge * np.where(np.arange(n) == 0, 1.0, 1e-7)[:, None]
    yield "cancelling", edge * np.where(np.arange(n) % 2, 1.0, -1.0)[:, None] * [1.0, -1.0, 1.0]


def check_sums(moments, n, loss, coef, x, radius=1.0):
    y = np.where(rng(1).random(n) < 0.5, -1.0, 1.0)
    y[5::11] = 0.0  # not usable
    rows = DenseRows(radius * x, y, bound=radius, intercept=None)
    calibration = calibrated(rows, loss)
    computed = moments(rows, coef, calibration)
    exact = exact_moments(rows, weights(rows, coef, loss, calibration.balance))
    lost = np.linalg.norm(computed - exact) / longest(calibration.problem)
    assert lost <= 2 * additions(n, x.shape[1]) * UNIT
    return lost


@pytest.mark.parametrize("n", [1, 2, 7, 100, 4096, 4097, 20_000])
def test_sums_in_doubles_lose_no_more_than_is_paid_for(n):
    for at, (_, x) in enumerate(families(n)):
        coef = rng(at).standard_normal(3) * [0.1, 1.0, 30.0][at % 3]
        check_sums(mean_moments, n, EVERY_LOSS[at % len(EVERY_LOSS)], coef, x)


def test_sums_of_many_records_and_of_any_radius():
    n = 10**5
    for radius, (_, x) in zip((1e-3, 1.0, 100.0), families(n), strict=False):
        lost = check_sums(mean_moments, n, Huber(0.5), np.ones(3) / (2 * radius), x, radius)
        assert lost < 1e-13  # BLAS loses far less than it might


def test_planted_sums_in_single_precision_are_caught():
    def single(rows, coef, calibration):
        narrow = DenseRows(rows.x, rows.y, bound=rows.radius, intercept=None)
        object.__setattr__(narrow, "x", rows.x.astype(np.float32).astype(np.float64))
        return mean_moments(narrow, coef, calibration)

    with pytest.raises(AssertionError):
        check_sums(single, 4096, Huber(0.5), np.ones(3), dict(families(4096))["edge"])


def test_the_reference_is_exact():
    x, weight = rng().standard_normal((30, 2)) * [1.0, 1e-9], rng(1).random(30)
    rows = DenseRows(x, np.ones(30), bound=3.0, intercept=None)
    found = exact_moments(rows, [weight])
    for k, (i, j) in enumerate(((0, 0), (0, 1), (1, 1))):
        columns = zip(weight, rows.x[:, i], rows.x[:, j], strict=True)
        total = sum(Fraction(w) * Fraction(a) * Fraction(b) for w, a, b in columns)
        expected = float(total) * (1.0 if i == j else math.sqrt(2)) / 30
        assert found[k] == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("loss", EVERY_LOSS, ids=str)
def test_no_margin_weighs_more_than_the_largest_that_is_paid_for(loss):
    """In doubles, and next to the margin where a record weighs most."""
    width = loss.slope_bound / loss.curvature_bound
    middle = 0.0 if loss.name == "logistic" else 1.0
    margins = np.concatenate(
        [
            middle + width * np.linspace(-30, 30, 200_001),
            middle + 0.5 * width * (1 + UNIT * np.arange(-2000, 2000)),
            middle - 0.5 * width * (1 + UNIT * np.arange(-2000, 2000)),
            np.array([0.0, -0.0, 1e-300, 1e300, -1e300, math.inf, -math.inf]),
        ]
    )
    problem = Problem(10, 1, loss, 1.0).with_lambda(0.01)
    eta = calibrate_moments(problem, PureDP(1.0)).balance
    with np.errstate(all="ignore"):
        length = np.hypot(loss.curvature(margins), eta * loss.slope(margins) ** 2)
    assert length.max() <= longest(problem)
    assert length.max() >= longest(problem) * (1 - 1e-6)


@pytest.mark.parametrize("loss", EVERY_LOSS, ids=str)
def test_what_a_record_weighs_does_not_depend_on_the_others(loss):
    """To the last bit, wherever it stands: else a replaced record would move all terms."""
    x, coef = rng().standard_normal((1000, 4)), 3 * rng(1).standard_normal(4)
    margins = linear_predictor(x, coef)
    wild = np.array([1e308, -1e308, math.inf, -math.inf, math.nan, 5e-324, 0.0, -1e-310])
    with np.errstate(all="ignore"):
        for function in (loss.curvature, loss.slope):
            kept = function(margins)
            for start, step in ((0, 8), (3, 5), (1, 2)):
                others = margins.copy()
                others[start::step] = np.resize(wild, len(others[start::step]))
                same = np.ones(len(margins), dtype=bool)
                same[start::step] = False
                np.testing.assert_array_equal(function(others)[same], kept[same])
            alone = np.concatenate([function(margins[at : at + 1]) for at in range(100)])
            np.testing.assert_array_equal(alone, kept[:100])
            np.testing.assert_array_equal(function(margins[7:].copy()), kept[7:])
    again = linear_predictor(x[::-1].copy(), coef)[::-1]
    np.testing.assert_array_equal(again, margins)


@pytest.mark.parametrize("loss", [LOSSES["logistic"], Huber(0.1)], ids=str)
@pytest.mark.parametrize("n", [2, 5000, 50_000])
def test_computed_moments_of_neighbours_are_as_close_as_is_said(loss, n):
    """Orthogonal records of full weight among many that are noise."""
    source = rng(n)
    x = source.standard_normal((n, 2))
    margin = 1 - getattr(loss, "h", 1.158) + 1e-9 * getattr(loss, "h", 0.0)
    coef = margin * np.array([1.0, 1.0])
    found = []
    for record in ([1.0, 0.0], [0.0, 1.0]):
        x[n // 2] = record
        rows = DenseRows(x.copy(), np.ones(n), bound=1.0, intercept=None)
        calibration = calibrated(rows, loss)
        found.append(mean_moments(rows, coef, calibration))
    moved = np.linalg.norm(found[0] - found[1]) / moments_sensitivity(calibration.problem)
    assert 0.999 < moved <= 1
