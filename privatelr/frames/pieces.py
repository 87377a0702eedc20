"""A frame read a piece at a time: columns are taken out of it once, and cut by position."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from privatelr.frames.counting import Tally


_PLAIN = "fiub"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Piece:
    """Some rows of a frame, with what reading them asks of a frame.

    Attributes
    ----------
    columns : mapping
        Name to the whole column: an array of numbers, or a pandas Series of another type.
    start, stop : int
        Which rows.
    blocks : mapping
        What `side_by_side` makes of some names, worked out beforehand.
    tally : Tally, optional
        Counts what is not read as it is.
    """

    columns: Mapping[str, Any]
    start: int
    stop: int
    blocks: Mapping[tuple[str, ...], list[Any]] = field(default_factory=dict)
    tally: Tally | None = None

    def __len__(self) -> int:
        return self.stop - self.start

    def __getitem__(self, name: str) -> Any:
        column = self.columns[name]
        cut = slice(self.start, self.stop)
        return column[cut] if isinstance(column, np.ndarray) else column.iloc[cut]

    def parts(self, names: tuple[str, ...]) -> list[Any]:
        """Columns in their order: tables ``(k, n)`` of k plain ones, a Series for each other."""
        whole = self.blocks.get(names)
        if whole is None:
            whole = side_by_side([self.columns[name] for name in names])
        cut = slice(self.start, self.stop)
        return [part[:, cut] if isinstance(part, np.ndarray) else part.iloc[cut] for part in whole]


def tally_of(frame: pd.DataFrame | Piece) -> Tally | None:
    """What counts the values of a frame that are not read as they are, if anything does."""
    return frame.tally if isinstance(frame, Piece) else None


def as_piece(
    frame: pd.DataFrame | Piece, names: tuple[str, ...], tally: Tally | None = None
) -> Piece:
    """All of a frame as a piece; a piece as it is."""
    if isinstance(frame, Piece):
        return frame
    return Piece(columns_of(frame, names), 0, len(frame), tally=tally)


def columns_of(frame: pd.DataFrame, names: tuple[str, ...]) -> dict[str, Any]:
    """The named columns that are there; plain numbers as arrays, without a copy."""
    found: dict[str, Any] = {}
    for name in names:
        if name in frame.columns:
            series = frame[name]
            found[name] = series.to_numpy() if _is_plain(series.dtype) else series
    return found


def side_by_side(columns: Sequence[Any]) -> list[Any]:
    """Arrays of neighbouring columns as tables ``(k, n)``, without a copy; others as they are.

    Columns that pandas, or whoever made the frame, holds in one array at equal distances are one
    table, so that a piece of them is read by one function.
    """
    runs: list[list[Any]] = []
    for column in columns:
        if runs and _continues(runs[-1], column):
            runs[-1].append(column)
        else:
            runs.append([column])
    return [_table(run) if isinstance(run[0], np.ndarray) else run[0] for run in runs]


def _continues(run: list[Any], column: Any) -> bool:
    """Whether an array is at the same distance from the last of a run as that from its neighbour.

    Being parts of one array is asked for, as nothing is known about what is between others.
    """
    last = run[-1]
    if not isinstance(column, np.ndarray) or not isinstance(last, np.ndarray):
        return False
    alike = last.base is not None and last.base is column.base and last.dtype == column.dtype
    if not alike or last.strides != column.strides or last.shape != column.shape:
        return False
    return len(run) < 2 or _address(column) - _address(last) == _address(last) - _address(run[-2])


def _table(run: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    first = run[0]
    apart = _address(run[1]) - _address(first) if len(run) > 1 else 0
    shape, strides = (len(run), len(first)), (apart, *first.strides)
    return np.lib.stride_tricks.as_strided(first, shape, strides, writeable=False)


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _is_plain(dtype: Any) -> bool:
    """Whether NumPy holds a number, or a truth value, that a double can be made of in passing."""
    return isinstance(dtype, np.dtype) and dtype.kind in _PLAIN and dtype.itemsize <= 8
