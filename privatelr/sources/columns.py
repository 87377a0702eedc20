"""Columns of a frame: their types, batches of their rows, and counts of values not read.

pandas infers the type of an object array from all its values: texts, dates, periods, intervals.
One odd value in one record would change the type, and with it an error or a released file. So a
column of objects stays a column of objects, and so does a list, which has no type. `bounds` and
`levels` declare what they contain.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set, Sized
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
import pandas as pd

from privatelr.cells import is_missing
from privatelr.errors import FormulaError, SchemaError, listed, redact_errors
from privatelr.types import BoolArray, FloatArray, IntArray

_NUMBERS = "biufc"
_DATES = "mM"


def as_column(name: str, values: Any) -> pd.Series[Any] | np.ndarray[Any, Any] | None:
    """Return values as a column for a frame; None for a constant, which has no length.

    Parameters
    ----------
    name : str
        Name of the column in errors.
    values
        A column of pandas, polars or pyarrow, an array, or a list or another sized iterable.

    Returns
    -------
    Series or ndarray
        A Series of shape ``(n,)`` whose index counts from 0; an array that does not have exactly
        one dimension is returned unchanged.

    Raises
    ------
    SchemaError
        If the type of `values` has no order, such as a set, or is not known.
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
            kind = type(values).__name__
            with redact_errors(f"NumPy cannot make an array of {name}, of type {kind}"):
                values = np.asarray(values)
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
    """Make a column of an array ``(n,)``, masked or not, by its dtype alone."""
    if isinstance(values, np.ma.MaskedArray):
        return _of_masked(np.asarray(values.data), np.ma.getmaskarray(values))
    kind = values.dtype.kind
    if kind in _NUMBERS:
        return pd.Series(values)
    if kind == "U":  # the storage that pandas would choose refuses some texts
        return pd.Series(values.astype(object), dtype=pd.StringDtype("python"))
    if kind in _DATES:  # models do not take dates, and pandas cannot hold all of NumPy's
        return pd.Series(np.full(len(values), "NaT", dtype=f"{kind}8[s]"))
    return pd.Series(values.astype(object, copy=False), dtype=object)


def is_plain(values: np.ndarray[Any, Any]) -> bool:
    """Whether pandas takes an array of numbers unchanged, whatever its values."""
    return values.dtype.kind in _NUMBERS and not isinstance(values, np.ma.MaskedArray)


def constant_column(value: Any, n: int) -> pd.Series[Any]:
    """Return a column of n objects that repeats a value."""
    return pd.Series(np.full(n, value, dtype=object), dtype=object)


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
"""Counts of values that were not read unchanged, by column and slice: exact, and not private.

The keys are "missing", "clipped" and "undeclared". Values are counted while they are read, because
a second pass would cost as much as the first. The counts are shown only on request, to those who
hold the data. Threads may read slices in parallel: appending to a list is atomic.
"""


def count(
    tally: Tally | None, name: str, *, missing: int = 0, clipped: int = 0, undeclared: int = 0
) -> None:
    """Add the counts of one slice of a column, if anything is counted."""
    if tally is not None and (missing or clipped or undeclared):
        found = Counter(missing=missing, clipped=clipped, undeclared=undeclared)
        tally.append((name, found))


def totals(tally: Tally) -> dict[str, Counter[str]]:
    """Return the sums over slices, for columns with a count above zero."""
    sums: dict[str, Counter[str]] = {}
    for name, found in tally:
        sums.setdefault(name, Counter()).update(found)
    return sums


def beyond(values: FloatArray, low: float, high: float) -> int:
    """Count the values outside an interval; NaN is not counted."""
    with np.errstate(all="ignore"):
        return int(np.count_nonzero((values < low) | (values > high)))


def unknown(column: pd.Series[Any], known: BoolArray) -> tuple[int, int]:
    """Count the values that are not declared levels: missing ones, and undeclared ones."""
    several = len(known) - int(np.count_nonzero(known))
    others, missing = column[~known], 0
    if others.dtype == object:  # pandas would run the cells' own code to compare them
        missing = sum(map(is_missing, others.to_numpy()))
    else:
        with suppress(Exception):  # the type of another library may fail to say what is missing
            missing = int(np.count_nonzero(np.asarray(others.isna(), dtype=bool)))
    return missing, several - missing


_PLAIN = "fiub"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Batch:
    """Rows of named columns of the same length, which is all that readers see of a table.

    Attributes
    ----------
    frame : DataFrame
        Whole columns, for this folder alone: `column` and the like give them to readers.
    rows : range
        The rows of these columns that belong to the batch.
    tally : Tally, optional
        Counts the values that are not read unchanged.
    shares : ndarray of shape (n,), optional
        How much each record of the whole frame counts, where a person may have several.
    width : int, optional
        The number of columns of an array, whose columns have no names of their own.
    read : dict
        What `column` and `parts` have found; batches of the same columns share it.
    """

    frame: pd.DataFrame
    rows: range
    tally: Tally | None = None
    shares: FloatArray | None = None
    width: int | None = None
    read: dict[Any, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def names(self) -> pd.Index[str]:
        """Names of the columns."""
        return self.frame.columns

    def has_order(self, name: str) -> bool:
        """Whether the type of a column puts its values in an order."""
        stated = name in self.frame.attrs.get(ORDERED, ())
        return stated or bool(getattr(self.frame[name].dtype, "ordered", False))

    def is_coded(self, name: str) -> bool:
        """Whether Arrow holds a column as a dictionary, which lists values and declares none."""
        return name in self.frame.attrs.get(CODED, ())

    @property
    def index(self) -> pd.Index[Any]:
        """Labels of all rows, which predictions keep."""
        return self.frame.index

    def column(self, name: str) -> Any:
        """Return a whole column: plain numbers as an array, without a copy, or else a Series.

        Raises
        ------
        FormulaError
            If there is no such column.
        """
        if name not in self.read:
            if name not in self.frame.columns:
                raise FormulaError(
                    f"data: the column {name!r} is missing, which the model reads; it has "
                    f"{listed(self.names)}."
                )
            series = self.frame[name]
            dtype = series.dtype
            if isinstance(dtype, pd.ArrowDtype):
                _require_decoded(name, dtype)
            # plain: numbers or booleans of NumPy, which are converted to doubles while read
            plain = isinstance(dtype, np.dtype) and dtype.kind in _PLAIN and dtype.itemsize <= 8
            self.read[name] = series.to_numpy() if plain else series
        return self.read[name]

    def parts(self, *names: str) -> list[Any]:
        """Return columns in order: tables ``(k, n)`` of k plain ones, a Series for any other."""
        if names not in self.read:
            self.read[names] = side_by_side([self.column(name) for name in names])
        cut = slice(self.rows.start, self.rows.stop, self.rows.step)
        tables = self.read[names]
        return [part[:, cut] if isinstance(part, np.ndarray) else part.iloc[cut] for part in tables]

    def __getitem__(self, name: str) -> Any:
        column, cut = self.column(name), slice(self.rows.start, self.rows.stop, self.rows.step)
        return column[cut] if isinstance(column, np.ndarray) else column.iloc[cut]

    def cut(self, rows: slice) -> Batch:
        """Return some of these rows, without a copy."""
        return replace(self, rows=self.rows[rows])

    def take(self, rows: IntArray) -> Batch:
        """Return a copy of some of the frame's rows, by their positions ``(k,)``."""
        shares = None if self.shares is None else self.shares[rows]
        frame = self.frame.iloc[rows]
        return replace(self, frame=frame, rows=range(len(rows)), shares=shares, read={})

    def assign(self, columns: Mapping[str, pd.Series[Any]]) -> Batch:
        """Return the same rows with columns replaced or added, which are matched by position."""
        frame = self.frame.copy(deep=False)
        for name, column in columns.items():  # Series, as for an array pandas would infer a type
            frame[name] = column.set_axis(frame.index)
        return replace(self, frame=frame, read={})


def side_by_side(columns: Sequence[Any]) -> list[Any]:
    """Join arrays of neighbouring columns to tables ``(k, n)``, without a copy.

    Columns that lie in one array at equal distances become one table, so that one call reads a
    slice of all of them. Other columns are returned unchanged.
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
    """Whether a column continues a run at equal distances in memory, which one array must own."""
    last = run[-1]
    if not isinstance(column, np.ndarray) or not isinstance(last, np.ndarray):
        return False
    alike = last.base is not None and last.base is column.base and last.dtype == column.dtype
    if not alike or last.strides != column.strides or last.shape != column.shape:
        return False
    return len(run) < 2 or _address(column) - _address(last) == _address(last) - _address(run[-2])


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


ORDERED = "privatelr: columns with an order"
"""Where a frame says which dictionaries of Arrow had an order in their type, as R's factors do."""
CODED = "privatelr: columns of dictionaries"
"""Where a frame says which columns are dictionaries of Arrow."""
_LONG = 8
"""Bytes of a number type whose memory pandas can share with Arrow, with nulls or without."""


def from_foreign(data: Any) -> pd.DataFrame:
    """Convert a frame that narwhals knows to pandas; raises `TypeError` for anything else.

    Columns of long numbers in polars and pyarrow are not copied. The conversion that narwhals
    offers copies every number and lets values decide types: a null turns booleans into objects,
    and a dictionary, which is private, into levels. Here types depend on types alone. Numbers
    without nulls in contiguous memory become a NumPy array. Other columns become Arrow columns of
    pandas, whose numbers are converted to doubles slice by slice as they are read.
    """
    names = getattr(data, "column_names", None)
    if isinstance(names, list):  # a table of pyarrow may have equal names
        require_distinct(names)
    frame = nw.from_native(data, eager_only=True)
    if frame.implementation.is_pyarrow():
        return of_table(frame.to_native())
    if not frame.implementation.is_polars():
        return frame.to_pandas()
    return pd.DataFrame(
        {name: _column(frame, name) for name in frame.columns},
        copy=False,
        index=pd.RangeIndex(len(frame)),
    )


def of_table(table: Any) -> pd.DataFrame:
    """Convert a table of pyarrow to pandas, as `from_foreign`, without the row labels of pandas.

    They are not columns of a frame that pandas stored, so its file has the same model.
    """
    labels: Any = None
    with suppress(ValueError):  # what others write there may be no JSON
        labels = (table.schema.pandas_metadata or {}).get("index_columns")
    named = labels if isinstance(labels, list) else ()
    names = [name for name in table.column_names if name not in named]
    columns = {name: _of_arrow(table.column(name)) for name in names}
    frame = pd.DataFrame(columns, copy=False, index=pd.RangeIndex(len(table)))
    note_dictionaries(frame, {name: table.field(name).type for name in columns})
    return frame


def note_dictionaries(frame: pd.DataFrame, kinds: Mapping[str, Any]) -> None:
    """Note which columns are dictionaries by their type in Arrow, and which of these are ordered.

    The values of the columns do not tell it once they are decoded.
    """
    coded = [name for name, kind in kinds.items() if hasattr(kind, "index_type")]
    for key, names in ((CODED, coded), (ORDERED, [name for name in coded if kinds[name].ordered])):
        if names:
            frame.attrs[key] = [*frame.attrs.get(key, ()), *names]


def foreign_column(name: str, values: Any) -> Any:
    """Convert a polars or pyarrow column, or a frame of one column; None for anything else."""
    if hasattr(type(values), "__arrow_c_array__"):  # a contiguous array of pyarrow
        import pyarrow as pa

        values = pa.chunked_array([pa.array(values)])
    elif not (
        hasattr(type(values), "__arrow_c_stream__") or nw.dependencies.is_polars_series(values)
    ):
        return None  # an old Series of polars has no stream; NumPy would let its nulls decide types
    found = nw.from_native(values, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(found, nw.Series):
        found = found.alias(name).to_frame()
    if not isinstance(found, nw.DataFrame) or len(found.columns) != 1:
        return None
    return _column(found.rename({found.columns[0]: name}), name)


def name_of(label: Any) -> str:
    """Return the name of a column of pandas, which is empty if its label is missing."""
    return "" if is_missing(label) else str(label)


def require_distinct(names: Sequence[str]) -> None:
    """Refuse a name that two columns have."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SchemaError(f"data has two columns named {twice!r}; names must differ.")


def _column(frame: Any, name: str) -> Any:
    """Convert a column to pandas, to a type that follows from its own type."""
    kind = frame.schema[name]
    if isinstance(kind, nw.Enum):
        # an Enum declares its levels; that they have an order there says nothing about them
        return frame.select([name]).to_pandas()[name].cat.as_unordered()
    if isinstance(kind, nw.Categorical) and frame.implementation.is_polars():
        frame = frame.select(nw.col(name).cast(nw.String))  # its categories come from the data
    try:
        frame.head(0).select([name]).to_arrow()
    except Exception as error:  # it is about the type, because the frame has no rows
        raise SchemaError(
            f"column {name!r} has the type {kind}, which Arrow does not know; leave it out or "
            "convert it."
        ) from error
    return _of_arrow(frame.select([name]).to_arrow().column(name))


def _of_arrow(column: Any) -> Any:
    import pyarrow as pa

    column = decoded_or_left(column)
    number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if number and column.num_chunks == 1 and column.null_count == 0:
        return column.chunk(0).to_numpy(zero_copy_only=True)
    if number and column.type.bit_width < 8 * _LONG:
        return column.to_pandas()  # their type follows from nulls, and they are cheap to copy
    return pd.arrays.ArrowExtensionArray(column)


def decoded_or_left(column: Any) -> Any:
    """Return a column of Arrow as `decoded`; unchanged if it cannot be, as it may be unused."""
    import pyarrow as pa

    try:
        return decoded(column)
    except (pa.ArrowException, LookupError, ValueError):  # their words may quote a value
        return column


def _require_decoded(name: str, dtype: pd.ArrowDtype) -> None:
    """Refuse a column that `decoded_or_left` left, once it is used; tells its type alone."""
    import pyarrow as pa

    kind = dtype.pyarrow_dtype
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        raise SchemaError(
            f"column {name!r} has the type {dtype}, and Arrow cannot decode it; leave it out or "
            "convert it."
        )


def is_view(kind: Any) -> bool:
    """Whether a type of Arrow has views of texts; pyarrow 15 has neither them nor such a test."""
    return str(kind) == "string_view"


def decoded(column: Any) -> Any:
    """Return a column of Arrow with neither runs, nor a dictionary of the data, nor views.

    A value that is a place outside of the dictionary is missing.
    """
    import pyarrow as pa

    if pa.types.is_run_end_encoded(column.type):
        from pyarrow import compute  # slow to import, and few columns need it

        column = compute.run_end_decode(column)
    kind, whole = column.type, pa.large_string()
    if not pa.types.is_dictionary(kind):
        return column.cast(whole) if is_view(kind) else column
    column = within_dictionary(column)
    if is_view(kind.value_type):  # pyarrow does not look views up
        column = column.cast(pa.dictionary(kind.index_type, whole))
    return column.cast(column.type.value_type)


def within_dictionary(values: Any) -> Any:
    """Return an array of Arrow, or pieces, in which places outside of a dictionary are missing.

    Arrow raises an error that quotes such a place, or reads what lies behind the dictionary when it
    joins arrays. So one record would end a call, or have the value of another.
    """
    import pyarrow as pa

    kind = values.type
    if not pa.types.is_dictionary(kind):
        return values
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array(map(within_dictionary, values.chunks), kind)
    from pyarrow import compute

    whole, length = pa.uint64(), len(values.dictionary)
    places = values.indices
    # negative places become long ones; numbers of both signs would not compare with all of these
    known = compute.less(places.cast(whole, safe=False), pa.scalar(length, whole))
    if compute.all(known, min_count=0).as_py():
        return values
    places = compute.if_else(known, places, pa.scalar(None, kind.index_type))
    return pa.DictionaryArray.from_arrays(places, values.dictionary, ordered=kind.ordered)
