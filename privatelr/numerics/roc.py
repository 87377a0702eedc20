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
    values, group = np.unique(score, return_inverse=True)
    hits = np.bincount(group[positive], minlength=len(values))[::-1].cumsum()
    alarms = np.bincount(group[~positive], minlength=len(values))[::-1].cumsum()
    values = values[::-1]
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

    By midranks (Mann and Whitney); NaN if one class is empty.
    """
    n1 = int(positive.sum())
    n0 = len(positive) - n1
    if n1 == 0 or n0 == 0:
        return float("nan")
    _, group, count = np.unique(score, return_inverse=True, return_counts=True)
    midrank = count.cumsum() - (count - 1) / 2
    return float((midrank[group[positive]].sum() - n1 * (n1 + 1) / 2) / (n1 * n0))
