"""How much of each column was read as it is, counted on the way.

The counts are exact functions of the data and not private. They are made where values are read,
because a second look would cost as much as the first, and are shown to those who hold the data and
ask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from privatelr.cells import is_missing
from privatelr.types import BoolArray, FloatArray


@dataclass(frozen=True, slots=True)
class Unread:
    """Values of a column that were not read as they are: what became of them, and of how many."""

    missing: int = 0
    clipped: int = 0
    undeclared: int = 0


class Tally:
    """Counts missing, clipped and undeclared values by column: exact, and not private.

    Pieces of a table may be read side by side, and each adds its own.
    """

    def __init__(self) -> None:
        self._found: list[tuple[str, Unread]] = []

    def add(self, name: str, found: Unread) -> None:
        """Count values of one piece of a column."""
        if found != _NOTHING:
            self._found.append((name, found))  # one step, which threads cannot break

    def totals(self) -> dict[str, Unread]:
        """The sums, for columns that have any."""
        sums: dict[str, Unread] = {}
        for name, found in self._found:
            known = sums.get(name, _NOTHING)
            sums[name] = Unread(
                known.missing + found.missing,
                known.clipped + found.clipped,
                known.undeclared + found.undeclared,
            )
        return sums


_NOTHING = Unread()


def beyond(values: FloatArray, low: float, high: float) -> int:
    """Count the values outside an interval; NaN is not counted."""
    with np.errstate(all="ignore"):
        return int(np.count_nonzero((values < low) | (values > high)))


def unknown(column: pd.Series[Any], known: BoolArray) -> Unread:
    """Values that are none of the levels: missing ones, and those that nobody declared."""
    several = len(known) - int(np.count_nonzero(known))
    if several == 0:
        return _NOTHING
    missing = int(np.count_nonzero(_absent(column[~known])))
    return Unread(missing=missing, undeclared=several - missing)


def _absent(column: pd.Series[Any]) -> BoolArray:
    if column.dtype == object:  # pandas would compare each cell with itself, by its own code
        cells = column.to_numpy()
        return np.fromiter(map(is_missing, cells), dtype=bool, count=len(cells))
    try:
        return np.asarray(column.isna(), dtype=bool)
    except Exception:  # a column of another library's type, which says nothing of its own
        return np.zeros(len(column), dtype=bool)
