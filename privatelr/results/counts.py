"""What the training data hold against what is declared of them, in numbers: not private."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import pandas as pd

from privatelr.errors import GuaranteeError
from privatelr.frames.counting import Unread
from privatelr.frames.expressions import coded_column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from privatelr.frames.counting import Tally
    from privatelr.frames.response import Response
    from privatelr.frames.variables import Variable

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
        return self.response.kind == "binary" and coded_column(self.response.expression) == name

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
    unread = None if tally is None else tally.totals()
    return DataCounts(n, negative, positive, response, variables, unread)
