"""Private numbers of a public shape: every entry is read by itself, and none is refused.

How an entry is read never depends on another one, so that one record changes one record.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from privatelr.cells import number
from privatelr.errors import ArgumentError
from privatelr.types import FloatArray

_NUMERIC = "biuf"


def private_numbers(name: str, given: Any, dimensions: int) -> FloatArray:
    """Numbers as doubles; NaN for what is missing, masked, or no number.

    Numbers too large for a double become infinite.

    Parameters
    ----------
    name : str
        The argument, for the error.
    given : array-like
        An array, a column or a frame, or for one dimension a list, of which every item is an
        entry. A list of rows has no public width, as it is one that all rows have.
    dimensions : int
        How many there should be, 1 or 2.

    Returns
    -------
    ndarray
        Its shape is that of `given`; whether it is right is for the caller to say.

    Raises
    ------
    ArgumentError
        If there is no shape that is known without a look at the entries.

    Notes
    -----
    **Privacy.** *Covered*: nothing by itself. *Assumed public*: the shape. *Not covered*: time
    and memory.
    """
    if isinstance(given, list | tuple):
        if dimensions > 1:
            raise ArgumentError(
                f"{name} of type {type(given).__name__}: a list of rows has no width of its own; "
                f"{name} takes an array, such as numpy.asarray({name}, dtype=float)."
            )
        return np.array([number(value) for value in given], dtype=np.float64)
    if isinstance(given, np.ma.MaskedArray):
        held = _of_array(np.asarray(given.data))
        mask = np.ma.getmaskarray(given)
        return np.where(mask, np.nan, held) if mask.dtype == np.bool_ else held
    try:
        array = np.asarray(given)
    except Exception:
        raise ArgumentError(f"{name}: takes an array of numbers.") from None
    return _of_array(array)


def _of_array(array: Any) -> FloatArray:
    if array.dtype.kind in _NUMERIC:
        with np.errstate(all="ignore"):
            return np.asarray(array, dtype=np.float64)
    if array.dtype.kind != "O":
        return np.full(array.shape, np.nan)
    values = [number(value) for value in array.ravel().tolist()]
    return np.array(values, dtype=np.float64).reshape(array.shape)
