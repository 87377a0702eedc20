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


def test_planted_bug_is_caught(monkeypatch):
    """A threshold at the score itself, with ``>``: the optimal positive is called negative."""
    honest = roc.roc_curve

    def at_the_score(score, positive):
        curve = honest(score, positive)
        values = np.sort(np.unique(score))[::-1]
        return roc.RocCurve(np.append([1.0], values), curve.false_positive, curve.true_positive)

    monkeypatch.setattr(roc, "roc_curve", at_the_score)
    with pytest.raises(AssertionError):
        check_optimum([(0.2, False), (0.4, False), (0.6, True), (0.8, True)], "youden")


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
