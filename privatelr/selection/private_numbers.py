"""Private numbers, which have a public shape: every entry is read by itself, and none is refused.

How an entry is read never depends on another one, so that changing a record changes one row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from privatelr.cells import number
from privatelr.errors import ArgumentError, require_number, show
from privatelr.types import FloatArray

LARGEST_NUMBER = 1e100
"""Largest size of a public bound on private numbers, so that their sums do not overflow."""
_NUMERIC = "biuf"
"""The kinds of NumPy's types that hold real numbers, by their letters."""


def private_numbers(name: str, given: Any, dimensions: int) -> FloatArray:
    """Return numbers as doubles; NaN for entries that are missing, masked, or not a number.

    Numbers too large for a double become infinite.

    Parameters
    ----------
    name : str
        The name of the argument, for the error.
    given : array-like
        An array, a column or a frame; for one dimension also a list, of which every item is an
        entry. A list of rows is refused, because it has no public width: rows may differ in it.
    dimensions : int
        The number of dimensions that is wanted, 1 or 2.

    Returns
    -------
    ndarray
        Numbers of the shape of `given`, which the caller has to check.

    Raises
    ------
    ArgumentError
        If the shape is not known without looking at the entries.

    Notes
    -----
    **Privacy.** *Covered*: nothing by itself. *Neighbours*: changing one record changes one row.
    *Assumed public*: the shape. *Not covered*: time and memory.
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


def read_range(name: str, given: Any, takes: str) -> tuple[float, float]:
    """Read a public pair of numbers, the lower one first."""
    ends = given.tolist() if isinstance(given, np.ndarray) else given
    if not isinstance(ends, tuple | list) or len(ends) != 2:
        raise ArgumentError(f"{name}={show(given)}: {name} takes {takes}.")
    most = {"at_least": -LARGEST_NUMBER, "at_most": LARGEST_NUMBER}
    low, high = (require_number(ArgumentError, name, end, takes, **most) for end in ends)
    if not high - low >= 1 / LARGEST_NUMBER:
        raise ArgumentError(f"{name}={show(given)}: {name} takes {takes}.")
    return low, high
