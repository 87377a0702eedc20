"""ROC, thresholds and C-index against exhaustive search, ties included."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privatelr.numerics import roc

UNIT = st.one_of(st.sampled_from([0.0, 0.25, 0.5, 0.5 + 2**-53, 1.0]), st.floats(0, 1))
SCORED = st.lists(st.tuples(UNIT, st.booleans()), min_size=1, max_size=14)


def merit(rule, score, positive, threshold):
    """Youden's J, or minus the distance to (0, 1), when predict applies the threshold."""
    called = score > threshold
    hit, alarm = called[positive].mean(), called[~positive].mean()
    return hit - alarm if rule == "youden" else -np.hypot(alarm, 1 - hit)


def check_optimum(scored, rule):
    score = np.array([s for s, _ in scored])
    positive = np.array([p for _, p in scored])
    threshold = roc.best_threshold(roc.roc_curve(score, positive), rule)
    if positive.all() or not positive.any():
        assert np.isnan(threshold)
        return
    assert 0 <= threshold <= 1
    candidates = np.concatenate([[-1.0], score, np.nextafter(score, -1), [2.0]])
    best = max(merit(rule, score, positive, t) for t in candidates)
    assert merit(rule, score, positive, threshold) == pytest.approx(best, abs=1e-12)


@given(SCORED, st.sampled_from(["youden", "topleft"]))
def test_threshold_reaches_the_optimum(scored, rule):
    check_optimum(scored, rule)


@given(SCORED)
def test_c_index_is_the_share_of_ordered_pairs(scored):
    score = np.array([s for s, _ in scored])
    positive = np.array([p for _, p in scored])
    found = roc.c_index(score, positive)
    if positive.all() or not positive.any():
        assert np.isnan(found)
        return
    gap = score[positive][:, None] - score[~positive][None, :]
    assert found == pytest.approx(((gap > 0) + (gap == 0) / 2).mean())


@given(SCORED)
def test_curve_holds_every_split(scored):
    score = np.array([s for s, _ in scored])
    positive = np.array([p for _, p in scored])
    curve = roc.roc_curve(score, positive)
    assert (np.diff(curve.threshold) < 0).all()
    assert len(curve.threshold) == len(np.unique(score)) + 1
    for t, hit in zip(curve.threshold, curve.true_positive, strict=True):
        expected = (score > t)[positive].mean() if positive.any() else np.nan
        np.testing.assert_allclose(hit, expected)


def test_no_scores_at_all():
    curve = roc.roc_curve(np.array([]), np.array([], dtype=bool))
    assert np.isnan(roc.best_threshold(curve, "youden"))
    assert np.isnan(roc.c_index(np.array([]), np.array([], dtype=bool)))


def plainly(score, positive):
    """The curve by its definition, a threshold at a time, from one sort of everything."""
    values = np.unique(score)[::-1]
    between = values[1:] + (values[:-1] - values[1:]) / 2
    between = np.where(between < values[:-1], between, values[1:])
    order = np.argsort(-score, kind="stable")
    ends = np.searchsorted(-score[order], -values, side="right")
    hits = np.concatenate([[0], np.cumsum(positive[order])[ends - 1]])
    alarms = np.concatenate([[0], ends]) - hits
    top = max(values.max(), 1.0)
    threshold = np.concatenate([[top], between, [-np.inf]])
    with np.errstate(invalid="ignore"):
        return threshold, alarms / (~positive).sum(), hits / positive.sum()


PATTERNS = {
    "probabilities": lambda rng, n: rng.random(n),
    "margins": lambda rng, n: rng.standard_normal(n),
    "many ties": lambda rng, n: np.round(rng.standard_normal(n), 1),
    "two values": lambda rng, n: rng.integers(0, 2, n) / 2,
    "two zeros": lambda rng, n: rng.choice([0.0, -0.0, 5e-324, -5e-324], n),
    "all equal": lambda rng, n: np.full(n, 0.3),
    "negative": lambda rng, n: -1 - rng.random(n),
    "neighbours": lambda rng, n: 0.5 + rng.integers(0, 4, n) * 2.0**-53,
    "infinite": lambda rng, n: np.where(rng.random(n) < 0.1, np.inf, rng.standard_normal(n)),
}


@pytest.mark.parametrize("n", [1, 500, roc._LONG, 50_001])
@pytest.mark.parametrize("pattern", ["margins", "many ties", "two zeros", "all equal", "negative"])
def test_near_scores_are_one(pattern, n):
    """Also where the ranges of a long curve meet: at its median, and at zero."""
    rng = np.random.default_rng(n)
    score, positive = PATTERNS[pattern](rng, n), rng.random(n) < 0.4
    rounded = score * (1 + rng.integers(-4, 5, n) * 2.0**-52) + rng.integers(-4, 5, n) * 2.0**-52
    with np.errstate(invalid="ignore"):
        _, *expected = plainly(np.round(score, 12), positive)
        curve = roc.roc_curve(rounded, positive, near=2.0**-40)
    np.testing.assert_array_equal(curve.false_positive, expected[0])
    np.testing.assert_array_equal(curve.true_positive, expected[1])
    assert (np.diff(curve.threshold) < 0).all()
