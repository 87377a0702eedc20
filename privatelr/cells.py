"""Cells that may hold any object, read without running code that belongs to the object.

A method of an object can print, warn, raise or wait, and so reveal that its record exists. So only
types of Python and NumPy are read, and only exactly these types, because a subclass may override
any method. Any other object counts as missing.
"""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd

_PLAIN = (bool, int, float)
_NUMPY = tuple(
    np.dtype(code).type for code in "?" + np.typecodes["AllInteger"] + np.typecodes["Float"]
)
# types are looked up by address, because a type can define its own hash and equality
_OF_NUMPY = frozenset(map(id, _NUMPY))
_NUMBERS = _OF_NUMPY | frozenset(map(id, _PLAIN))
_REAL = "biuf"


def number(value: Any) -> float:
    """Return the number in a cell as a double: infinite on overflow, NaN if it is not a number.

    An array without dimensions counts as a number, and so do a `Decimal` and a `Fraction`.
    """
    kind = type(value)
    if id(kind) in _NUMBERS:
        return _as_double(value)
    if kind is Decimal:
        return math.nan if value.is_nan() else float(value)
    if kind is Fraction:
        return _quotient(value)
    if kind is np.ndarray and value.ndim == 0 and value.dtype.kind in _REAL:
        return _as_double(value[()])
    return math.nan


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
    """Return a text, a boolean or a number as a Python object; None for NaN and anything else."""
    kind = type(value)
    if kind is str or kind is bool or kind is int:
        return value  # type: ignore[no-any-return]
    if kind is np.str_:
        return str(value)
    if kind is not float and id(kind) not in _OF_NUMPY:
        return None
    plain: bool | int | float = float(value) if kind is np.longdouble else value
    plain = plain.item() if isinstance(plain, np.generic) else plain
    return None if plain != plain else plain


def identity(value: Any) -> Any:
    """Return a key that is equal for equal cells; None for a missing cell and what is not known.

    Beside the constants these are dates, times, `UUID` and `Decimal`, and tuples of all of them.
    Of a time with a zone the clock counts alone, as a zone may run code of its own.
    """
    if type(value) is tuple:
        keys = tuple(map(_single_identity, value))
        return None if all(key is None for key in keys) else keys
    return _single_identity(value)


def _single_identity(value: Any) -> Any:
    kind = type(value)
    if kind is datetime:
        return value.replace(tzinfo=None)
    if kind is date:
        return value
    if kind is pd.Timestamp:
        return value.replace(tzinfo=None).to_datetime64()
    if kind is np.datetime64 or kind is np.timedelta64:
        return None if np.isnat(value) else value
    if kind is Decimal:
        return None if value.is_nan() else value
    if kind is UUID:
        return value.int if type(value.int) is int else None
    return constant(value)


def is_missing(value: Any) -> bool:
    """Whether a cell is a missing value: None, a mark of pandas, or a NaN of a known type."""
    if value is None or value is pd.NA or value is pd.NaT:
        return True
    kind = type(value)
    return (kind is float or id(kind) in _OF_NUMPY) and bool(value != value)


def _as_double(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer beyond doubles
        return math.inf if value > 0 else -math.inf


def _quotient(value: Fraction) -> float:
    above, below = value.numerator, value.denominator
    if type(above) is not int or type(below) is not int:
        return math.nan  # a fraction may hold numbers of other types
    try:
        return above / below
    except OverflowError:
        return math.inf if above > 0 else -math.inf
