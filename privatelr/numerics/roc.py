"""Receiver operating characteristic of scores, exact with ties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from privatelr.types import BoolArray, FloatArray

ThresholdRule = Literal["youden", "topleft"]


@dataclass(frozen=True, slots=True, eq=False)
class RocCurve:
    """All ways to split the scores by ``score > threshold``.

    Attributes
    ----------
    threshold : ndarray of shape (k,), decreasing
        Halfway between neighbouring scores, so that rounding cannot move a score across; the
        first one puts everything below, the last one, minus infinity, nothing.
    false_positive, true_positive : ndarray of shape (k,)
        Rates; NaN where the class is empty.
    """

    threshold: FloatArray
    false_positive: FloatArray
    true_positive: FloatArray


def roc_curve(score: FloatArray, positive: BoolArray) -> RocCurve:
    """ROC curve of scores ``(n,)``, one point per distinct score and one more."""
    order = np.argsort(-score)
    falling = score[order]
    # the last record of each distinct score
    last = np.flatnonzero(np.append(falling[1:] != falling[:-1], True)[: len(falling)])
    seen = np.cumsum(positive[order])
    hits = seen[last]
    alarms = last + 1 - hits
    values = falling[last]
    between = values[1:] + (values[:-1] - values[1:]) / 2
    # neighbours without a number between them: the lower one keeps itself below
    between = np.where(between < values[:-1], between, values[1:])
    top, bottom = [values.max(initial=1.0)], [-np.inf][: len(values)]
    with np.errstate(invalid="ignore"):
        return RocCurve(
            np.concatenate([top, between, bottom]),
            np.concatenate([[0], alarms]) / np.float64((~positive).sum()),
            np.concatenate([[0], hits]) / np.float64(positive.sum()),
        )


def best_threshold(curve: RocCurve, rule: ThresholdRule) -> float:
    """The threshold that maximises Youden's J, or comes closest to the corner (0, 1).

    NaN if one class is empty. Calling everything positive is never needed: calling nothing
    positive is as good by either rule.
    """
    false, true = curve.false_positive[:-1], curve.true_positive[:-1]
    merit = true - false if rule == "youden" else -np.hypot(false, 1.0 - true)
    if len(merit) == 0 or np.isnan(merit).any():
        return float("nan")
    return float(curve.threshold[int(np.argmax(merit))])


def c_index(score: FloatArray, positive: BoolArray) -> float:
    """Probability that a positive scores above a negative, ties counting one half.

    NaN if one class is empty.
    """
    return area_under(roc_curve(score, positive))


def area_under(curve: RocCurve) -> float:
    """The c-index of the scores that a curve was made of: a tie is a slope, which counts half."""
    false, true = curve.false_positive, curve.true_positive
    if len(true) < 2 or np.isnan(true[-1]) or np.isnan(false[-1]):
        return float("nan")
    return float(np.sum(np.diff(false) * (true[1:] + true[:-1]) / 2))
