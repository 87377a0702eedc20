"""Numbers of the training data that no guarantee covers: diagnostics, counts, and a check."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np
import pandas as pd

from privatelr import numerics, page_model
from privatelr.arguments import suggests_arguments
from privatelr.design import AnySpec, Response, Variable
from privatelr.errors import GuaranteeError
from privatelr.results.predict import scale_of, score
from privatelr.sources import Tally, totals
from privatelr.types import BoolArray, FloatArray, IntArray, ScoredRows

if TYPE_CHECKING:
    from privatelr.formula import Formula, Person
    from privatelr.page_model import Piece

_HEADERS = ("usable", "missing", "outside bounds", "undeclared")
_MOST_SHOWN = 100
"""A page shows at most this number of variables, those with the fewest usable values first."""
_MOST_UNUSABLE = 0.2
"""Share of unusable records above which a check warns in its first line."""
_FURTHER = 8
"""Roundings of a link beside those of its terms: of an offset, and of weights and their roots."""
_SCORED_AT_ONCE = 2**16
"""Records are scored in pieces of this number."""


class NeverSaved:
    """An object that holds numbers that are not private, and cannot be pickled."""

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
    """Counts of the training data, which are not private.

    Attributes
    ----------
    n : int
        Number of records; it is public.
    negative, positive : int
        Numbers of usable records of the two classes.
    response : Response
    variables : mapping
        The declaration of each variable.
    unread : mapping or None
        For each variable, the numbers of its values that are missing, clipped or undeclared. None
        if nothing was counted.
    """

    n: int
    negative: int
    positive: int
    response: Response
    variables: Mapping[str, Variable]
    unread: Mapping[str, Counter[str]] | None

    @property
    def zero_rows(self) -> int:
        """Number of records that cannot be used; each of them counts as a row of zeros."""
        return self.n - self.negative - self.positive

    @property
    def classes(self) -> pd.Series[int]:
        """Numbers of usable records of the negative and of the positive class."""
        index = [str(value) for value in self.response.classes]
        return pd.Series([self.negative, self.positive], index=index, name="records")

    @property
    def table(self) -> pd.DataFrame:
        """One row per variable: usable, missing, outside_bounds, undeclared; NA if not possible."""
        rows = {name: self.row(name) for name in self.variables if self.unread is not None}
        names = [header.replace(" ", "_") for header in _HEADERS]
        return pd.DataFrame.from_dict(rows, orient="index", columns=names).astype("Int64")

    def row(self, name: str) -> tuple[int, int, int | None, int | None]:
        """The numbers of a variable in the table; None for a count that it cannot have."""
        found, variable = (self.unread or {}).get(name, Counter()), self.variables[name]
        is_bounded = variable.kind == "numeric" and variable.is_bounded
        is_coded = self.response.kind == "binary" and self.response.expression.column == name
        return (
            self.n - found["missing"] - found["undeclared"],
            found["missing"],
            found["clipped"] if is_bounded else None,
            found["undeclared"] if variable.levels or is_coded else None,
        )

    def sentence(self) -> str:
        """A sentence about the numbers of records by class, and of unusable ones."""
        negative, positive = self.response.classes
        of_none = "every record can be used"
        if self.zero_rows:
            of_none = f"{self.zero_rows} cannot be used and count as rows of zeros"
        return (
            f"Of {self.n} records, {self.response.expression.label} is {positive} (positive) in "
            f"{self.positive} usable ones and {negative} in {self.negative}; {of_none}."
        )

    def pieces(self, doubts: Sequence[str] = ()) -> list[Piece]:
        """The pieces of a page: records by class, the table of variables, and its omissions."""
        words: list[Piece] = [self.sentence()]
        rows = {name: self.row(name) for name in self.variables}
        shown = list(rows)
        if empty := [name for name in rows if rows[name][0] == 0]:
            words.append(f"No usable value has: {', '.join(empty[:_MOST_SHOWN])}.")
        if self.unread is None:
            words.append("Missing and clipped values of a Dask collection are not counted.")
        elif len(rows) > _MOST_SHOWN:
            words.append(
                f"{_MOST_SHOWN} of {len(rows)} variables are shown, those with the fewest "
                "usable and then the most clipped values first."
            )
            shown.sort(key=lambda name: (rows[name][0], -(rows[name][2] or 0)))
        words += doubts
        if self.unread is None or not rows:
            return words
        names = tuple(shown[:_MOST_SHOWN])
        cells = tuple(tuple("-" if n is None else str(n) for n in rows[name]) for name in names)
        return [*words, "", page_model.Table(names, _HEADERS, cells)]

    def __repr__(self) -> str:
        return f"NOT PRIVATE, computed from the training data. {self.sentence()}\n{self.table}"


@suggests_arguments
class Diagnostics(NeverSaved):
    """Exact functions of the training data, which are not private and must not be published.

    They are computed at first use; until then the scores of the records are kept in memory.

    Attributes
    ----------
    counts : DataCounts
        Numbers of records of each class and of unusable ones, and for each variable the numbers of
        missing, clipped and undeclared values.
    c_index : float
        Probability that a positive record scores above a negative one; NaN if there is only one
        class.
    roc : DataFrame
        Columns threshold, false_positive, true_positive.
    youden, topleft : float
        Thresholds of the score (a probability or a margin) that are best on the training data, by
        Youden's J and by the distance to the corner (0, 1); NaN if there is only one class.

    Examples
    --------
    >>> from privatelr import dplr, load_dataset, load_schema
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ age", votes, eps=1.0, **public)
    >>> bool(0 <= fit.diagnostics.c_index <= 1)  # exact, and not private
    True
    """

    # not a dataclass: asdict() and replace() would take the label off
    def __init__(
        self,
        link: FloatArray,
        positive: BoolArray,
        loss: numerics.Loss,
        counted: Callable[[], DataCounts],
        near: float = 0.0,
    ) -> None:
        self._scored: tuple[FloatArray, BoolArray, float] | None = (link, positive, near)
        self._loss, self._counted = loss, counted

    @cached_property
    def counts(self) -> DataCounts:
        """Numbers of records by class, and of missing, clipped and undeclared values."""
        return self._counted()

    @cached_property
    def _curve(self) -> numerics.RocCurve:
        link, positive, near = cast("tuple[FloatArray, BoolArray, float]", self._scored)

        def shown(values: FloatArray) -> FloatArray:
            pieces = (
                values[i : i + _SCORED_AT_ONCE] for i in range(0, len(values), _SCORED_AT_ONCE)
            )
            scored = numerics.in_order(partial(score, self._loss), pieces)
            return np.concatenate([np.empty(0), *scored])

        with np.errstate(all="ignore"):  # a warning about an underflow would reveal data
            curve = numerics.roc_curve(link, positive, near=near, shown=shown)
        self._scored = None  # the points of the curve replace the scores in memory
        return curve

    @cached_property
    def c_index(self) -> float:
        """Probability that a positive record scores above a negative one; NaN for one class."""
        return numerics.area_under(self._curve)

    @cached_property
    def roc(self) -> pd.DataFrame:
        """The ROC curve, with the columns threshold, false_positive and true_positive."""
        return pd.DataFrame(asdict(self._curve))

    @cached_property
    def youden(self) -> float:
        """The threshold that is best by Youden's J; NaN for one class."""
        return numerics.best_threshold(self._curve, "youden")

    @cached_property
    def topleft(self) -> float:
        """The threshold whose ROC point is nearest to the corner (0, 1); NaN for one class."""
        return numerics.best_threshold(self._curve, "topleft")

    def threshold(self, rule: numerics.ThresholdRule) -> float:
        """The learned threshold, or the fixed one of the scale if there is only one class."""
        value = self.youden if rule == "youden" else self.topleft
        return scale_of(self._loss).fixed if np.isnan(value) else value

    def __str__(self) -> str:
        return (
            f"NOT PRIVATE, computed from the training data: C-index {self.c_index:.3f}, "
            f"thresholds {self.youden:.3f} (youden) and {self.topleft:.3f} (topleft)"
        )

    def __repr__(self) -> str:
        return f"<Diagnostics {self}>"


def diagnose(
    rows: ScoredRows, coef: FloatArray, loss: numerics.Loss, spec: AnySpec, tally: Tally | None
) -> Diagnostics:
    """Score the training rows; unusable rows have no score, and are counted.

    `spec` is the plan of the design, and `tally` has the counts that were made during reading.

    Notes
    -----
    **Privacy.** *Covered*: nothing. *Neighbours*: every number may change with one record.
    *Assumed public*: nothing. *Not covered*: the result, whose type and text say so.
    """
    link, label = rows.scores(coef)
    positive = label > 0
    n, ones = rows.records, int(np.count_nonzero(positive))
    zeros = len(positive) - ones

    def counted() -> DataCounts:
        unread = None if tally is None else totals(tally)
        return DataCounts(n, zeros, ones, spec.response, spec.variables, unread)

    # rows are multiplied by roots of weights, and links divided by them; and blocks are summed in
    # several orders: equal records may differ by the roundings of as many terms as there are
    largest = rows.radius * float(np.linalg.norm(coef)) + float(np.abs(link).max(initial=0.0))
    near = (len(coef) + _FURTHER) * 2.0**-52 * largest
    return Diagnostics(link, positive, loss, counted, near if math.isfinite(near) else 0.0)


_TITLE = "NOT PRIVATE: local check of the data against their declarations"
_WARNING = (
    "For the eyes of those who hold the data. Its numbers are exact, nothing was charged for them "
    "and nothing was saved; do not publish them, and declare bounds and levels from public "
    "knowledge and not from this page."
)


def count_persons(owners: IntArray | None, person: Person | None) -> dict[str, int] | None:
    """Count persons by the owners of records ``(n,)``; not private, but for their number.

    Returns
    -------
    Their number, the most records that one has, and how many have too many; None if each record is
    of its own.
    """
    if owners is None or person is None:
        return None
    sizes = np.bincount(owners)
    return {
        "m": len(sizes),
        "most_records": int(sizes.max(initial=0)),
        "above_records_per_person": int(np.count_nonzero(sizes > person.most)),
    }


def _about_persons(found: dict[str, int], most: int) -> str:
    above = found["above_records_per_person"]
    so_many = "none has" if not above else f"{above} {'has' if above == 1 else 'have'}"
    less = ", whose records count less" if above else ""
    return (
        f"The records are of {found['m']} persons; the one with most has {found['most_records']}, "
        f"and {so_many} more than records_per_person={most}{less}."
    )


class DataCheck(NeverSaved, page_model.Paged):
    """Counts of the values that a fit would read, which are not private; see `privatelr.check`.

    Attributes
    ----------
    formula : str
        The formula with ``.`` expanded.
    counts : DataCounts
        Counts of the data.
    doubts : tuple of str
        Sentences about declarations that are probably mistakes; these are public.
    strata : DataFrame
        Numbers of usable records of both classes in each stratum; empty without ``by=``.
    persons : dict or None
        Numbers of persons, which is public, of the records of the one with most, and of those with
        more than `records_per_person`. None if each record is of its own.
    """

    # not a dataclass: asdict() and replace() would take the label off
    __slots__ = ("_all_records", "_most", "counts", "doubts", "formula", "persons", "strata")

    def __init__(
        self,
        formula: Formula,
        counts: DataCounts,
        doubts: tuple[str, ...],
        persons: dict[str, int] | None = None,
        strata: Mapping[str, tuple[int, int]] | None = None,
    ) -> None:
        names = pd.Index([str(value) for value in counts.response.classes])
        self.strata = pd.DataFrame.from_dict(strata or {}, orient="index", columns=names)
        self.formula, self.counts, self.doubts = formula.text, counts, doubts
        self.persons, self._most = persons, formula.person.most if formula.person else 1
        self._all_records = formula.subset is None

    @property
    def table(self) -> pd.DataFrame:
        """One row per variable: usable, missing, outside_bounds, undeclared; not private."""
        return self.counts.table

    @property
    def classes(self) -> pd.Series[int]:
        """Numbers of usable records of the negative and the positive class; not private."""
        return self.counts.classes

    def page(self) -> list[Piece]:
        """The pieces of the page that `print` shows."""
        response = f"Response {self.counts.response.describe()}."
        doubts = [f"Doubtful: {doubt}." for doubt in self.doubts]
        if self.persons is not None:
            doubts = [_about_persons(self.persons, self._most), *doubts]
        alarms = [page_model.Alarm(words) for words in (*self._alarms(), _TITLE)]
        formula = page_model.Code(self.formula)
        pieces = [*alarms, formula, "", _WARNING, "", response, *self.counts.pieces(doubts)]
        if not self.strata.empty:
            cells = [[str(many) for many in row] for row in self.strata.to_numpy()]
            pieces += ["", page_model.Table([*self.strata.index], [*self.strata.columns], cells)]
        return pieces

    def _alarms(self) -> list[str]:
        """What makes a fit worthless: an empty class, or many unusable records."""
        divided = {"": self.classes} if self.strata.empty else dict(self.strata.iterrows())
        found = [
            f"NO RECORD {f'WITH {stratum} ' if stratum else ''}IS {name}"
            for stratum, classes in divided.items()
            for name, many in classes.items()
            if many == 0
        ]
        if self._all_records and self.counts.zero_rows > _MOST_UNUSABLE * self.counts.n:
            found.append(f"{self.counts.zero_rows} OF {self.counts.n} RECORDS CANNOT BE USED")
        return [f"DO NOT FIT YET: {' AND '.join(found)}"] if found else []

    def __repr__(self) -> str:
        return f"<DataCheck of {self.formula!r}, NOT PRIVATE: print it to see its numbers>"
