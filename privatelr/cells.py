"""Cells that may hold any object, read without running code that belongs to the object.

A method of an object can print, warn, raise or wait, and so reveal that its record exists. So only
types of Python and NumPy are read, and only exactly these types, because a subclass may override
any method. Any other object counts as missing.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

_OF_NUMPY = frozenset(
    np.dtype(code).type for code in "?" + np.typecodes["AllInteger"] + np.typecodes["Float"]
)
_MOST_DIGITS = 100
"""Decimals with more digits before the point are doubles; no table has whole numbers like that."""


def number(value: Any) -> float:
    """Return the number in a cell as a double: infinite on overflow, NaN if it is not a number.

    A `Decimal` counts as a number.
    """
    kind = type(value)
    if kind is Decimal:
        return math.nan if value.is_nan() else float(value)
    if kind not in (bool, int, float) and kind not in _OF_NUMPY:
        return math.nan
    try:
        return float(value)
    except OverflowError:  # an integer beyond doubles
        return math.inf if value > 0 else -math.inf


def number_or_spelled(value: Any) -> float:
    """Return what `number` returns, and for a text the number that it spells."""
    kind = type(value)
    if kind is not str and kind is not np.str_:
        return number(value)
    try:
        return float(value)
    except ValueError:
        return math.nan


def constant(value: Any) -> str | bool | int | float | None:
    """Return a text, a boolean or a number as a Python object; None for NaN and anything else.

    A `Decimal` is the whole number that it equals, or else the nearest double.
    """
    kind = type(value)
    if kind is str or kind is bool or kind is int:
        return value  # type: ignore[no-any-return]
    if kind is Decimal:
        return _of_decimal(value)
    if kind is np.str_:
        return str(value)
    if kind is not float and kind not in _OF_NUMPY:
        return None
    plain: bool | int | float = float(value) if kind is np.longdouble else value
    plain = plain.item() if isinstance(plain, np.generic) else plain
    return None if plain != plain else plain


def _of_decimal(value: Decimal) -> int | float | None:
    if value.is_nan():
        return None
    if value.is_finite() and value.adjusted() < _MOST_DIGITS:  # others are slow to write out
        whole = int(value)
        return whole if whole == value else float(value)
    return float(value)


def is_missing(value: Any) -> bool:
    """Whether a cell is a missing value: None, a mark of pandas, or a NaN of a known type."""
    if value is None or value is pd.NA or value is pd.NaT:
        return True
    kind = type(value)
    return (kind is float or kind in _OF_NUMPY) and bool(value != value)
