"""Columns of a frame: their types, and a frame cut into runs of rows.

pandas decides by all values of an object array what they are: texts, dates, periods, intervals. One
odd value in one record would change that, and with it an error or what is written to a file. So
what holds objects is told to stay objects, and so is a list, which has no type: what is in it is
said by `bounds` and `levels`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence, Set, Sized
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from privatelr.errors import SchemaError
from privatelr.sources.arrow_frames import foreign_column

if TYPE_CHECKING:
    from privatelr.sources.counting import Tally


_NUMBERS = "biufc"
_DATES = "mM"


def as_column(name: str, values: Any) -> pd.Series[Any] | np.ndarray[Any, Any] | None:
    """Values for a frame, in their order; None for a constant, which has none.

    Parameters
    ----------
    name : str
        How an error calls the column.
    values
        A column of pandas, polars or pyarrow, an array, or a list or another sized iterable.

    Returns
    -------
    Series or ndarray
        A Series of shape ``(n,)`` whose index counts from 0; an array as it is where its
        dimensions are not one.

    Raises
    ------
    SchemaError
        If the type of `values` has no order, or is not known.
    """
    if isinstance(values, pd.Series | pd.Index):
        return pd.Series(values.array, dtype=values.dtype)
    if isinstance(values, pd.api.extensions.ExtensionArray):
        return pd.Series(values, dtype=values.dtype)
    if not isinstance(values, np.ndarray):
        found = foreign_column(name, values)
        if found is not None:
            return as_column(name, found)
        if isinstance(values, range | array | memoryview) or hasattr(values, "__array__"):
            values = _typed(name, values)
        elif isinstance(values, str | bytes) or not isinstance(values, Iterable):
            return None
        elif isinstance(values, Mapping | Set) or not isinstance(values, Sized):
            raise SchemaError(
                f"{name} of type {type(values).__name__}: a column takes one value per record, in "
                "an array, a Series or a list."
            )
        else:
            objects = np.fromiter(values, dtype=object, count=len(values))
            return pd.Series(objects, dtype=object)
    if values.ndim == 0:
        return None
    return of_array(values) if values.ndim == 1 else values


def of_array(values: np.ndarray[Any, Any]) -> pd.Series[Any]:
    """A column of an array ``(n,)``, masked or not, by its dtype alone."""
    if isinstance(values, np.ma.MaskedArray):
        return _of_masked(np.asarray(values.data), np.ma.getmaskarray(values))
    kind = values.dtype.kind
    if kind in _NUMBERS:
        return pd.Series(values)
    if kind == "U":  # pandas' own choice of storage refuses some texts
        return pd.Series(values.astype(object), dtype=pd.StringDtype("python"))
    if kind in _DATES:  # which no model takes, and some are beyond the dates of pandas
        return pd.Series(np.full(len(values), "NaT", dtype=f"{kind}8[s]"))
    return pd.Series(values.astype(object, copy=False), dtype=object)


def is_plain(values: np.ndarray[Any, Any]) -> bool:
    """Whether pandas takes an array of numbers as it is, whatever they are."""
    return values.dtype.kind in _NUMBERS and not isinstance(values, np.ma.MaskedArray)


def constant_column(value: Any, n: int) -> pd.Series[Any]:
    """A value that stands in every one of n records, as an object."""
    objects = np.empty(n, dtype=object)
    objects.fill(value)
    return pd.Series(objects, dtype=object)


def _typed(name: str, values: Any) -> np.ndarray[Any, Any]:
    """What has a type of its own as an array of it."""
    try:
        return np.asarray(values)
    except Exception as error:
        raise SchemaError(
            f"{name} of type {type(values).__name__}: NumPy cannot make an array of it "
            f"({type(error).__name__})."
        ) from None


def _of_masked(values: np.ndarray[Any, Any], mask: np.ndarray[Any, Any]) -> pd.Series[Any]:
    kind = values.dtype.kind
    if kind == "f":
        return pd.Series(np.where(mask, values.dtype.type("nan"), values))
    if kind == "b":
        return pd.Series(pd.arrays.BooleanArray(values, mask))
    if kind in "iu":
        native = values.astype(values.dtype.newbyteorder("="), copy=False)
        return pd.Series(pd.arrays.IntegerArray(native, mask))
    if kind in "cUmM":
        column = of_array(values)
        return column.mask(mask) if kind == "U" else column
    objects = values.astype(object)
    objects[mask if mask.dtype == np.bool_ else slice(None)] = None
    return pd.Series(objects, dtype=object)


_PLAIN = "fiub"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RowSlice:
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


def tally_of(frame: pd.DataFrame | RowSlice) -> Tally | None:
    """Return the tally of a row slice; None for a frame, or where nothing is counted."""
    return frame.tally if isinstance(frame, RowSlice) else None


def as_piece(
    frame: pd.DataFrame | RowSlice, names: tuple[str, ...], tally: Tally | None = None
) -> RowSlice:
    """All of a frame as a piece; a piece as it is."""
    if isinstance(frame, RowSlice):
        return frame
    return RowSlice(columns_of(frame, names), 0, len(frame), tally=tally)


def columns_of(frame: pd.DataFrame, names: tuple[str, ...]) -> dict[str, Any]:
    """The named columns that are there; plain numbers as arrays, without a copy."""
    found: dict[str, Any] = {}
    for name in names:
        if name in frame.columns:
            series = frame[name]
            found[name] = series.to_numpy() if _is_number_of_8_bytes(series.dtype) else series
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


def _is_number_of_8_bytes(dtype: Any) -> bool:
    """Whether NumPy holds a number, or a truth value, that a double can be made of in passing."""
    return isinstance(dtype, np.dtype) and dtype.kind in _PLAIN and dtype.itemsize <= 8
