"""What was computed from the training data without being paid for: fit, and counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, cast

import numpy as np
import pandas as pd

from privatelr.arguments import suggests_arguments
from privatelr.design import Response, Variable
from privatelr.errors import GuaranteeError
from privatelr.numerics import (
    Loss,
    RocCurve,
    ThresholdRule,
    area_under,
    best_threshold,
    in_order,
    roc_curve,
)
from privatelr.results.predict import scale_of, score
from privatelr.sources import Tally, Unread, totals
from privatelr.types import BoolArray, FloatArray, ScoredRows

HEADERS = ("usable", "missing", "outside bounds", "undeclared")


class NeverSaved:
    """Not private: an object that refuses to be written to a file."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise GuaranteeError(
            "numbers of the training data are not private and cannot be saved; save the fit, "
            "which leaves them out."
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> NeverSaved:
        return self


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DataCounts(NeverSaved):
    """Counts of the training data; not private.

    Attributes
    ----------
    n : int
        Records; the only number here that is public.
    negative, positive : int
        Usable records of either class.
    response : Response
    variables : mapping
        What is declared of each variable.
    unread : mapping or None
        Of each variable what was not read as it is; None where nobody counted.
    """

    n: int
    negative: int
    positive: int
    response: Response
    variables: Mapping[str, Variable]
    unread: Mapping[str, Unread] | None

    @property
    def zero_rows(self) -> int:
        """Records that cannot be used, each of which counts as a row of zeros."""
        return self.n - self.negative - self.positive

    @property
    def classes(self) -> pd.Series[int]:
        """Usable records of the negative and of the positive class."""
        index = [str(value) for value in self.response.classes]
        return pd.Series([self.negative, self.positive], index=index, name="records")

    @property
    def table(self) -> pd.DataFrame:
        """One row per variable: usable, missing, outside_bounds, undeclared; NA for no such."""
        rows = {name: self.row(name) for name in self.variables if self.unread is not None}
        names = [header.replace(" ", "_") for header in HEADERS]
        return pd.DataFrame.from_dict(rows, orient="index", columns=names).astype("Int64")

    def sentence(self) -> str:
        """Records by class, and those of no use."""
        negative, positive = self.response.classes
        of_none = "every record can be used"
        if self.zero_rows:
            of_none = f"{self.zero_rows} cannot be used and count as rows of zeros"
            if self.response.kind == "binary":
                of_none += "; numbers of a response are 0 (or -1) and 1"
        return (
            f"Of {self.n} records, {self.response.expression.label} is {positive} (positive) in "
            f"{self.positive} usable ones and {negative} in {self.negative}; {of_none}."
        )

    def _is_coded_by_numbers(self, name: str) -> bool:
        return self.response.kind == "binary" and self.response.expression.column == name

    def __repr__(self) -> str:
        return f"NOT PRIVATE, computed from the training data. {self.sentence()}\n{self.table}"

    def row(self, name: str) -> tuple[int, int, int | None, int | None]:
        """Of a variable the numbers of `HEADERS`; None for one that it cannot have."""
        found = (self.unread or {}).get(name, Unread())
        variable = self.variables[name]
        bounded = variable.kind == "numeric" and variable.is_bounded
        return (
            self.n - found.missing - found.undeclared,
            found.missing,
            found.clipped if bounded else None,
            found.undeclared if variable.levels or self._is_coded_by_numbers(name) else None,
        )


def count(
    n: int,
    negative: int,
    positive: int,
    response: Response,
    variables: Mapping[str, Variable],
    tally: Tally | None,
) -> DataCounts:
    """The counts of what was read."""
    unread = None if tally is None else totals(tally)
    return DataCounts(n, negative, positive, response, variables, unread)


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
