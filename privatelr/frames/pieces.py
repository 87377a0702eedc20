"""A frame read a piece at a time: columns are taken out of it once, and cut by position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Piece:
    """Some rows of a frame, with what reading them asks of a frame.

    Attributes
    ----------
    columns : mapping
        Name to the whole column: an array of doubles, or a pandas Series of another type.
    start, stop : int
        Which rows.
    """

    columns: Mapping[str, Any]
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def __getitem__(self, name: str) -> Any:
        column = self.columns[name]
        cut = slice(self.start, self.stop)
        return column[cut] if isinstance(column, np.ndarray) else column.iloc[cut]


def columns_of(frame: pd.DataFrame, names: tuple[str, ...]) -> dict[str, Any]:
    """The named columns that are there; doubles as arrays, without a copy."""
    found: dict[str, Any] = {}
    for name in names:
        if name in frame.columns:
            series = frame[name]
            plain = series.dtype == np.float64 and isinstance(series.dtype, np.dtype)
            found[name] = series.to_numpy() if plain else series
    return found
