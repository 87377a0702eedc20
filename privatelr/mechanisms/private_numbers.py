"""Private numbers of a public shape: every entry is read by itself, and none is refused.

How an entry is read never depends on another one, so that one record changes one record.
"""

from __future__ import annotations

import math
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from privatelr.errors import ArgumentError

if TYPE_CHECKING:
    from privatelr.types import FloatArray

_NUMERIC = "biuf"
_PLAIN = {bool, float, np.float64}


def private_numbers(name: str, given: Any, dimensions: int) -> FloatArray:
    """Numbers as doubles; NaN for what is missing, masked, or no number.

    Numbers too large for a double become infinite.

    Parameters
    ----------
    name : str
        The argument, for the error.
    given : array-like
        An array, a column, a frame, or nested lists.
    dimensions : int
        How many there should be, 1 or 2. In a list of rows, a row that is no sequence is missing
        as a whole; the lengths of the others are their public shape.

    Returns
    -------
    ndarray
        Its shape is that of `given`; whether it is right is for the caller to say.

    Raises
    ------
    ArgumentError
        If there is no shape, or rows differ in length.

    Notes
    -----
    **Privacy.** *Covered*: nothing by itself. *Assumed public*: the shape. *Not covered*: time
    and memory.
    """
    if isinstance(given, list | tuple):
        return _of_list(name, given, dimensions)
    if isinstance(given, np.ma.MaskedArray):
        held = _of_array(np.asarray(given.data))
        mask = np.ma.getmaskarray(given)
        return np.where(mask, np.nan, held) if mask.dtype == np.bool_ else held
    try:
        array = np.asarray(given)
    except Exception:
        raise ArgumentError(f"{name}: takes an array of numbers.") from None
    return _of_array(array)


def _of_list(name: str, given: list[Any] | tuple[Any, ...], dimensions: int) -> FloatArray:
    if dimensions > 1:
        return _of_rows(name, [_of_row(row) for row in given])
    if given and all(isinstance(value, list | tuple) for value in given):
        return np.full((len(given), len(given[0])), np.nan)  # a shape that the caller refuses
    if set(map(type, given)) <= _PLAIN:
        return np.array(given, dtype=np.float64)
    return np.array([_number(value) for value in given], dtype=np.float64)


def _of_rows(name: str, rows: list[FloatArray]) -> FloatArray:
    lengths = {len(row) for row in rows if row.ndim == 1}
    if len(lengths) > 1 or any(row.ndim > 1 for row in rows):
        raise ArgumentError(f"{name}: takes rows of one length.")
    lost = np.full(max(lengths, default=0), np.nan)
    held = [row if row.ndim == 1 else lost for row in rows]
    return np.array(held, dtype=np.float64).reshape(len(rows), len(lost))


def _of_row(row: Any) -> FloatArray:
    """A row of a list; without dimensions if it is none."""
    try:
        return private_numbers("", row, 1)
    except ArgumentError:
        return np.array(np.nan)


def _of_array(array: Any) -> FloatArray:
    if array.dtype.kind in _NUMERIC:
        with np.errstate(all="ignore"):
            return np.asarray(array, dtype=np.float64)
    if array.dtype.kind != "O":
        return np.full(array.shape, np.nan)
    values = [_number(value) for value in array.ravel().tolist()]
    return np.array(values, dtype=np.float64).reshape(array.shape)


def _number(value: Any) -> float:
    if isinstance(value, np.bool_):
        return float(value)
    if isinstance(value, np.ndarray):
        return _of_one(value)
    if not isinstance(value, Real | Decimal):
        return math.nan
    try:
        return _as_double(value)
    except Exception:  # whatever a type of its own may raise about its value
        return math.nan


def _as_double(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _of_one(value: Any) -> float:
    """An array that stands for one number; any other, and a masked one, is none."""
    if value.shape != () or np.ma.is_masked(value) or value.dtype.kind not in _NUMERIC:
        return math.nan
    return float(value)
