"""What was computed from the training data without being paid for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pandas as pd

from privatelr.errors import GuaranteeError
from privatelr.numerics.roc import ThresholdRule, area_under, best_threshold, roc_curve
from privatelr.numerics.threads import in_order
from privatelr.results.scores import scale_of, score

if TYPE_CHECKING:
    from privatelr.numerics.losses import Loss
    from privatelr.types import BoolArray, FloatArray, ScoredRows

_PIECE = 2**16
"""Records that are scored at once."""


class Diagnostics:
    """Not private: exact functions of the training data, to be looked at and not published.

    Attributes
    ----------
    c_index : float
        Probability that a positive record scores above a negative one; NaN for one class.
    roc : DataFrame
        Columns threshold, false_positive, true_positive.
    youden, topleft : float
        Thresholds of the score (a probability, or a margin) that are best for the training
        data by Youden's J and by the distance to the corner (0, 1); NaN for one class.
    """

    __slots__ = ("_fixed", "c_index", "roc", "topleft", "youden")

    # not a dataclass: asdict() and replace() would take the label off
    def __init__(
        self,
        c_index: float,
        roc: pd.DataFrame,
        youden: float,
        topleft: float,
        fixed: float = 0.5,
    ) -> None:
        self.c_index, self.roc, self.youden, self.topleft = c_index, roc, youden, topleft
        self._fixed = fixed

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

    def __reduce__(self) -> NoReturn:
        raise GuaranteeError(
            "diagnostics are computed from the training data and cannot be saved; save the fit, "
            "which leaves them out."
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Diagnostics:
        return self


def diagnose(rows: ScoredRows, coef: FloatArray, loss: Loss) -> Diagnostics:
    """Score the training rows; unusable rows are left out.

    Notes
    -----
    **Privacy.** *Covered*: nothing. *Neighbours*: every number may change with one record.
    *Assumed public*: nothing. *Not covered*: the result, which is typed and printed as such.
    """
    scores, positive = _scored(rows, coef, loss)
    curve = roc_curve(scores, positive)
    del scores, positive  # a fit holds memory for the points of the curve, and not for both
    table = pd.DataFrame(
        {
            "threshold": curve.threshold,
            "false_positive": curve.false_positive,
            "true_positive": curve.true_positive,
        }
    )
    return Diagnostics(
        area_under(curve),
        table,
        best_threshold(curve, "youden"),
        best_threshold(curve, "topleft"),
        scale_of(loss).fixed,
    )


def _scored(rows: ScoredRows, coef: FloatArray, loss: Loss) -> tuple[FloatArray, BoolArray]:
    """Score of each usable row, and whether it is positive."""
    link, label = rows.scores(coef)
    scores = np.empty_like(link)

    def fill(start: int) -> None:
        part = slice(start, start + _PIECE)
        scores[part] = score(loss, link[part])

    with np.errstate(all="ignore"):
        if len(link) > _PIECE:
            in_order(fill, range(0, len(link), _PIECE))
        else:
            scores = score(loss, link)
    return scores, label > 0
