"""What was computed from the training data without being paid for."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from privatelr.arguments import suggests_arguments
from privatelr.numerics.roc import ThresholdRule, area_under, best_threshold, roc_curve
from privatelr.numerics.threads import in_order
from privatelr.results.counts import NeverSaved, count
from privatelr.results.scores import scale_of, score

if TYPE_CHECKING:
    from privatelr.frames.counting import Tally
    from privatelr.numerics.losses import Loss
    from privatelr.numerics.roc import RocCurve
    from privatelr.results.counts import DataCounts
    from privatelr.types import BoolArray, FloatArray, ScoredRows

_PIECE = 2**16
"""Records that are scored at once."""


@suggests_arguments
class Diagnostics(NeverSaved):
    """Not private: exact functions of the training data, to be looked at and not published.

    They are worked out when somebody looks; until then the scores are held.

    Attributes
    ----------
    counts : DataCounts
        Records of each class and of no use; of each variable missing, clipped and undeclared
        values.
    c_index : float
        Probability that a positive record scores above a negative one; NaN for one class.
    roc : DataFrame
        Columns threshold, false_positive, true_positive.
    youden, topleft : float
        Thresholds of the score (a probability, or a margin) that are best for the training
        data by Youden's J and by the distance to the corner (0, 1); NaN for one class.
    """

    # not a dataclass: asdict() and replace() would take the label off
    def __init__(
        self, link: FloatArray, positive: BoolArray, loss: Loss, counts: DataCounts
    ) -> None:
        self._scored: tuple[FloatArray, BoolArray] | None = (link, positive)
        self._loss, self._fixed = loss, scale_of(loss).fixed
        self.counts = counts

    @cached_property
    def _curve(self) -> RocCurve:
        link, positive = cast("tuple[FloatArray, BoolArray]", self._scored)
        with np.errstate(all="ignore"):  # an underflow is a fact about the data
            curve = roc_curve(_scores(link, self._loss), positive)
        self._scored = None  # memory is held for the points of the curve, and not for both
        return curve

    @cached_property
    def c_index(self) -> float:
        return area_under(self._curve)

    @cached_property
    def roc(self) -> pd.DataFrame:
        curve = self._curve
        return pd.DataFrame(
            {
                "threshold": curve.threshold,
                "false_positive": curve.false_positive,
                "true_positive": curve.true_positive,
            }
        )

    @cached_property
    def youden(self) -> float:
        return best_threshold(self._curve, "youden")

    @cached_property
    def topleft(self) -> float:
        return best_threshold(self._curve, "topleft")

    def threshold(self, rule: ThresholdRule) -> float:
        """The learned threshold; the fixed one of the scale where one class is missing."""
        value = self.youden if rule == "youden" else self.topleft
        return self._fixed if np.isnan(value) else value

    def __str__(self) -> str:
        return (
            f"NOT PRIVATE, computed from the training data: C-index {self.c_index:.3f}, "
            f"thresholds {self.youden:.3f} (youden) and {self.topleft:.3f} (topleft)"
        )

    def __repr__(self) -> str:
        return f"<Diagnostics {self}>"


def diagnose(
    rows: ScoredRows, coef: FloatArray, loss: Loss, spec: Any, tally: Tally | None
) -> Diagnostics:
    """Score the training rows; unusable rows are left out, and counted.

    `spec` is the plan that the rows were read under, and `tally` what was counted as they were.

    Notes
    -----
    **Privacy.** *Covered*: nothing. *Neighbours*: every number may change with one record.
    *Assumed public*: nothing. *Not covered*: the result, which is typed and printed as such.
    """
    link, label = rows.scores(coef)
    positive = label > 0
    of_either = int(np.count_nonzero(~positive)), int(np.count_nonzero(positive))
    counts = count(rows.n, *of_either, spec.response, spec.variables, tally)
    return Diagnostics(link, positive, loss, counts)


def _scores(link: FloatArray, loss: Loss) -> FloatArray:
    """The score of each linear predictor."""
    scores = np.empty_like(link)

    def fill(start: int) -> None:
        part = slice(start, start + _PIECE)
        scores[part] = score(loss, link[part])

    with np.errstate(all="ignore"):
        if len(link) <= _PIECE:
            return score(loss, link)
        in_order(fill, range(0, len(link), _PIECE))
    return scores
