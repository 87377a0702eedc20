"""Columns of a frame, each of a type that follows from its own and never from its values.

pandas decides by all values of an object array what they are: texts, dates, periods, intervals. One
odd value in one record would change that, and with it an error or what is written to a file. So
what holds objects is told to stay objects, and so is a list, which has no type: what is in it is
said by `bounds` and `levels`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Set, Sized
from typing import Any

import numpy as np
import pandas as pd

from privatelr.errors import SchemaError
from privatelr.frames.foreign import foreign_column

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
