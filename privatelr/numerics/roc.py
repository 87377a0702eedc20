"""Receiver operating characteristic of scores, exact with ties."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from privatelr.numerics.parallel import in_order
from privatelr.types import BoolArray, FloatArray, IntArray

ThresholdRule = Literal["youden", "topleft"]
_Part = tuple[FloatArray, IntArray, IntArray]
"""Distinct scores of a range ``(k,)``, falling, and the records and positive ones of the range that
score as much or more."""
_LONG = 2**15
"""Number of scores from which on several threads sort them."""
_SAMPLE = 2**10


@dataclass(frozen=True, slots=True, eq=False)
class RocCurve:
    """All ways to split the scores by ``score > threshold``.

    Attributes
    ----------
    threshold : ndarray of shape (k,), decreasing
        Halfway between neighbouring scores, so that rounding cannot move a score across; the
        first one is above all scores, the last one, minus infinity, is below all of them.
    false_positive, true_positive : ndarray of shape (k,)
        Rates; NaN where the class is empty.
    """

    threshold: FloatArray
    false_positive: FloatArray
    true_positive: FloatArray


def roc_curve(
    score: FloatArray,
    positive: BoolArray,
    *,
    near: float = 0.0,
    shown: Callable[[FloatArray], FloatArray] | None = None,
) -> RocCurve:
    """ROC curve of scores ``(n,)``, one point per distinct score and one more.

    Parameters
    ----------
    near : float
        Neighbouring scores that differ by no more than this are one: records that score the same
        may be rounded in several ways.
    shown : callable, optional
        Increasing, from distinct scores to those of the curve. Scores that it makes equal are one.
    """
    points = _joined(_sorted_parts(score, positive))
    if near > 0:
        points = _where_apart(points, near)
    if shown is not None:
        # rounding may turn two neighbours round, and a curve has its thresholds in order
        falling = np.minimum.accumulate(shown(points[0]))
        points = _where_apart((falling, *points[1:]), 0.0)
    values, records, hits = points
    threshold, alarms, found = np.zeros((3, len(values) + 1))
    threshold[0] = values.max(initial=1.0)
    if len(values):
        threshold[-1] = -np.inf
        _halfway(values, out=threshold[1:-1])
        found[1:] = hits
        np.subtract(records, hits, out=alarms[1:])
    with np.errstate(invalid="ignore"):
        alarms /= alarms[-1]
        found /= found[-1]
    return RocCurve(threshold, alarms, found)


def _joined(parts: Sequence[_Part]) -> _Part:
    """All ranges as one, whose records and positive ones are counted from above."""
    seen, found = 0, 0
    for falling, records, positives in parts:
        records += seen
        positives += found
        if len(falling):
            seen, found = int(records[-1]), int(positives[-1])
    values, records, hits = (np.concatenate(each) for each in zip(*parts, strict=True))
    return values, records, hits


def _where_apart(points: _Part, near: float) -> _Part:
    """Keep the last of neighbouring points that are no further apart than `near`."""
    values = points[0]
    with np.errstate(invalid="ignore"):
        gap = values[:-1] - values[1:]
    last = np.append(~(gap <= near), True)[: len(values)]
    if last.all():
        return points
    return values[last], points[1][last], points[2][last]


def _halfway(values: FloatArray, out: FloatArray) -> None:
    """Return the middle between neighbours of a falling sequence, or else the lower neighbour."""
    np.subtract(values[:-1], values[1:], out=out)
    out /= 2
    out += values[1:]
    # without a double between two neighbours the lower one serves: it is not above itself
    np.copyto(out, values[1:], where=~(out < values[:-1]))


def _sorted_parts(score: FloatArray, positive: BoolArray) -> list[_Part]:
    """Ranges of scores, from above, sorted."""
    if len(score) < _LONG or np.isnan(score).any():
        order = np.argsort(-score)
        return [_part(score[order], np.cumsum(positive[order]))]
    middle = np.median(score[:: len(score) // _SAMPLE])
    edges = [np.inf, *sorted({max(middle, 0.0), min(middle, 0.0)}, reverse=True), -np.inf]

    def part(index: int) -> _Part:
        low, high = edges[index + 1], edges[index]
        chosen = (score >= low) & ((score < high) | (high == np.inf))
        return _part(*_falling(score[chosen], positive[chosen], below=low < 0))

    return in_order(part, range(len(edges) - 1))


def _falling(score: FloatArray, positive: BoolArray, *, below: bool) -> tuple[FloatArray, IntArray]:
    """Scores of one sign in falling order, and how many of so many of them are positive.

    The bits of doubles of one sign, read as a whole number, are in the order of their sizes. The
    bit of the sign is free for the label, so that the two are sorted as one, in the memory of
    the scores; a zero of the other sign becomes the same.
    """
    keys: npt.NDArray[np.uint64] = score.view(np.uint64)
    keys <<= np.uint64(1)
    keys |= positive
    keys.sort()
    if not below:
        keys = keys[::-1]
    hits = np.cumsum(keys & np.uint64(1), dtype=np.intp)
    keys >>= np.uint64(1)
    falling = keys.view(np.float64)
    return (-falling if below else falling), hits


def _part(falling: FloatArray, hits: IntArray) -> _Part:
    n = len(falling)
    # the last record of each distinct score
    last = np.flatnonzero(np.append(falling[1:] != falling[:-1], True)[:n])
    if len(last) == n:
        return falling, np.arange(1, n + 1), hits
    return falling[last], last + 1, hits[last]


def best_threshold(curve: RocCurve, rule: ThresholdRule) -> float:
    """The threshold that maximises Youden's J, or comes closest to the corner (0, 1).

    NaN if one class is empty. Calling everything positive is never needed: calling nothing
    positive is as good by either rule.
    """
    false, true = curve.false_positive[:-1], curve.true_positive[:-1]
    if len(true) == 0 or np.isnan(true).any() or np.isnan(false).any():
        return float("nan")
    if rule == "youden":
        return float(curve.threshold[int(np.argmax(true - false))])
    return float(curve.threshold[int(np.argmin(np.hypot(false, 1.0 - true)))])


def c_index(score: FloatArray, positive: BoolArray) -> float:
    """Probability that a positive scores above a negative, ties counting one half.

    NaN if one class is empty.
    """
    return area_under(roc_curve(score, positive))


def area_under(curve: RocCurve) -> float:
    """Return the c-index of the scores of a curve: a tie is a slanted piece, which counts half."""
    false, true = curve.false_positive, curve.true_positive
    if len(true) < 2 or np.isnan(true[-1]) or np.isnan(false[-1]):
        return float("nan")
    area = np.diff(false)
    area *= true[1:] + true[:-1]
    area /= 2
    return float(np.sum(area))


def twice_concordant(label: FloatArray, score: FloatArray) -> tuple[int, int, int]:
    """Twice the concordant pairs, exactly, and the numbers of positive and negative labels.

    Labels ``(n,)`` are -1, 1, or 0 for a record that is in neither class. Ties count one half, and
    so do pairs with a score ``(n,)`` that is NaN.
    """
    known = ~np.isnan(score)
    positives, negatives = int((label > 0).sum()), int((label < 0).sum())
    high, low = score[known & (label > 0)], np.sort(score[known & (label < 0)])
    below, up_to = (int(np.searchsorted(low, high, side).sum()) for side in ("left", "right"))
    unknown = positives * negatives - len(high) * len(low)
    return below + up_to + unknown, positives, negatives


def weighted_concordant(
    label: FloatArray, score: FloatArray, weight: FloatArray
) -> tuple[float, float, float]:
    """Concordant pairs, each by the product of its weights, and the weights of both classes.

    Arguments as of `twice_concordant`, and weights ``(n,)`` that are whole numbers, whose sum is at
    most ``2**52``. The weights of classes are exact, and that of pairs is so but for a relative
    rounding of ``3 * 2**-53``: every product is rounded, and so is their exact sum.
    """
    known = ~np.isnan(score)
    of_class = [np.where(side * label > 0, weight, 0.0) for side in (1, -1)]
    place = np.unique(score[known], return_inverse=True)[1]
    high, low = (np.bincount(place, weights[known], minlength=1) for weights in of_class)
    positives, negatives = (float(weights.sum()) for weights in of_class)
    unknown = positives - float(high.sum())  # pairs with it, and of others with unknown negatives
    others = float(high.sum()) * (negatives - float(low.sum()))
    within = high * (np.cumsum(low) - low + low / 2)
    pairs = math.fsum([*within.tolist(), unknown * negatives / 2, others / 2])
    return pairs, positives, negatives
