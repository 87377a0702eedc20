"""Columns of a frame: their types, a frame cut into runs of rows, and counts of what is unread.

pandas decides by all values of an object array what they are: texts, dates, periods, intervals. One
odd value in one record would change that, and with it an error or what is written to a file. So
what holds objects is told to stay objects, and so is a list, which has no type: what is in it is
said by `bounds` and `levels`.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set, Sized
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
import pandas as pd

from privatelr.cells import is_missing
from privatelr.errors import SchemaError
from privatelr.types import BoolArray, FloatArray

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
            try:
                values = np.asarray(values)
            except Exception as error:
                raise SchemaError(
                    f"{name} of type {type(values).__name__}: NumPy cannot make an array of it "
                    f"({type(error).__name__})."
                ) from None
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


Tally = list[tuple[str, Counter[str]]]
"""What was not read as it is, by column and piece of a table: exact, and not private.

How many values were "missing", "clipped" or "undeclared".
It is counted where values are read, because a second look would cost as much as the first, and is
shown to those who hold the data and ask. Pieces may be read side by side: a list is appended to in
one step, which threads cannot break.
"""


def count(
    tally: Tally | None, name: str, *, missing: int = 0, clipped: int = 0, undeclared: int = 0
) -> None:
    """Count values of one piece of a column, if anything is counted."""
    if tally is not None and (missing or clipped or undeclared):
        found = Counter(missing=missing, clipped=clipped, undeclared=undeclared)
        tally.append((name, found))


def totals(tally: Tally) -> dict[str, Counter[str]]:
    """The sums, for columns that have any."""
    sums: dict[str, Counter[str]] = {}
    for name, found in tally:
        sums.setdefault(name, Counter()).update(found)
    return sums


def beyond(values: FloatArray, low: float, high: float) -> int:
    """Count the values outside an interval; NaN is not counted."""
    with np.errstate(all="ignore"):
        return int(np.count_nonzero((values < low) | (values > high)))


def unknown(column: pd.Series[Any], known: BoolArray) -> tuple[int, int]:
    """How many values are none of the levels: missing ones, and those that nobody declared."""
    several = len(known) - int(np.count_nonzero(known))
    if several == 0:
        return 0, 0
    others, missing = column[~known], 0
    if others.dtype == object:  # pandas would compare each cell with itself, by its own code
        missing = sum(map(is_missing, others.to_numpy()))
    else:
        with suppress(Exception):  # of another library's type, which says nothing of its own
            missing = int(np.count_nonzero(np.asarray(others.isna(), dtype=bool)))
    return missing, several - missing


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
            dtype = series.dtype
            # NumPy holds a number, or a truth value, that a double can be made of in passing
            plain = isinstance(dtype, np.dtype) and dtype.kind in _PLAIN and dtype.itemsize <= 8
            found[name] = series.to_numpy() if plain else series
    return found


def side_by_side(columns: Sequence[Any]) -> list[Any]:
    """Arrays of neighbouring columns as tables ``(k, n)``, without a copy; others as they are.

    Columns that pandas, or what made the frame, holds in one array at equal distances are one
    table, so that a piece of them is read by one function.
    """
    runs: list[list[Any]] = []
    for column in columns:
        if runs and _continues(runs[-1], column):
            runs[-1].append(column)
        else:
            runs.append([column])
    tables: list[Any] = []
    for first, *others in runs:
        if isinstance(first, np.ndarray):
            strides = (_address(others[0]) - _address(first) if others else 0, *first.strides)
            shape = (1 + len(others), len(first))
            first = np.lib.stride_tricks.as_strided(first, shape, strides, writeable=False)
        tables.append(first)
    return tables


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


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


_LONG = 8
"""Bytes of a number whose memory pandas can take over from Arrow, with nulls or without."""


def from_foreign(data: Any) -> pd.DataFrame:
    """A frame that narwhals knows, in pandas; raises `TypeError` for anything else.

    Long columns of polars and pyarrow stay in the same memory. narwhals' own conversion copies
    every number, and decides types by values: a null makes objects of booleans, and a dictionary,
    which belongs to the data, makes levels. Here types are decided by types alone. Numbers without
    nulls in one piece of memory become a NumPy array. Other columns become pandas' columns of Arrow
    data, of which numbers are made into doubles a piece at a time as they are read.
    """
    names = getattr(data, "column_names", None)
    if isinstance(names, list):  # of pyarrow, where they may be the same
        require_distinct(names)
    frame = nw.from_native(data, eager_only=True)
    if not (frame.implementation.is_polars() or frame.implementation.is_pyarrow()):
        return frame.to_pandas()
    return pd.DataFrame(
        {name: _column(frame, name) for name in frame.columns},
        copy=False,
        index=pd.RangeIndex(len(frame)),
    )


def foreign_column(name: str, values: Any) -> Any:
    """A column, or a frame of one, of polars or pyarrow for pandas; None for anything else."""
    if hasattr(type(values), "__arrow_c_array__"):  # of pyarrow, in one piece
        import pyarrow as pa

        values = pa.chunked_array([pa.array(values)])
    elif not hasattr(type(values), "__arrow_c_stream__"):
        return None
    found = nw.from_native(values, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(found, nw.Series):
        found = found.alias(name).to_frame()
    if not isinstance(found, nw.DataFrame) or len(found.columns) != 1:
        return None
    return _column(found.rename({found.columns[0]: name}), name)


def require_distinct(names: Sequence[str]) -> None:
    """Refuse a name that two columns have."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SchemaError(f"data has two columns named {twice!r}; names must differ.")


def _column(frame: Any, name: str) -> Any:
    """A column for pandas, of a type that follows from its own."""
    import pyarrow as pa

    kind = frame.schema[name]
    if isinstance(kind, nw.Enum):
        return frame.select([name]).to_pandas()[name]
    if isinstance(kind, nw.Categorical) and frame.implementation.is_polars():
        frame = frame.select(nw.col(name).cast(nw.String))  # its categories are what occurs
    try:
        frame.head(0).select([name]).to_arrow()
    except Exception as error:  # of the type: there are no values
        raise SchemaError(
            f"column {name!r} has the type {kind}, which Arrow does not know; leave it out or "
            "convert it."
        ) from error
    column = frame.select([name]).to_arrow().column(name)
    if pa.types.is_dictionary(column.type):
        column = _decoded(column)
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if number and column.num_chunks == 1 and column.null_count == 0:
        return column.chunk(0).to_numpy(zero_copy_only=True)
    if number and column.type.bit_width < 8 * _LONG:
        # shorter ones turn into other types where there are nulls, and copies of them are short
        return column.to_pandas()
    return pd.arrays.ArrowExtensionArray(column)


def _decoded(column: Any) -> Any:
    """The values of a dictionary column, whose dictionary is made of what occurs."""
    import pyarrow as pa

    chunks = [chunk.dictionary.take(chunk.indices) for chunk in column.chunks]
    return pa.chunked_array(chunks, type=column.type.value_type)
