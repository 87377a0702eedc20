"""Cells that may hold any object, read without running code that belongs to the object.

A method of an object can print, warn, raise or wait, and so reveal that its record exists. So only
types of Python and NumPy are read, and only exactly these types, because a subclass may override
any method. Any other object counts as missing.
"""

from __future__ import annotations

import math
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

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
MOST_NESTED = 8
"""Largest number of tuples in each other that tell persons apart."""
_MOST_DIGITS = 100
"""Decimals with more digits before the point are doubles; no table has whole numbers like that."""
_TIMES = frozenset(
    map(
        id,
        (
            date,
            datetime,
            time,
            timedelta,
            pd.Timestamp,
            pd.Timedelta,
            np.datetime64,
            np.timedelta64,
        ),
    )
)
_ZONES = frozenset(map(id, (timezone, ZoneInfo)))
_EPOCH, _MICROSECOND = datetime(1970, 1, 1), timedelta(microseconds=1)
_NANOSECONDS = {
    **{"W": 604800 * 10**9, "D": 86400 * 10**9, "h": 3600 * 10**9, "m": 60 * 10**9},
    **{"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1},
}


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
    if kind is not float and id(kind) not in _OF_NUMPY:
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


def identity(value: Any) -> Any:
    """Return a key that is equal for equal cells; None for a missing cell and what is not known.

    Beside the constants these are dates, times, spans of time, `UUID`, `Decimal`, `Fraction`, and
    tuples of all of them, nested up to `MOST_NESTED` deep. Times with a zone are compared in UTC if
    that is a Timestamp's, a `datetime.timezone` or a `ZoneInfo`; any other zone may run code of its
    own, and its times are not known. A date is midnight of its day.
    """
    return _identity(value, MOST_NESTED)


def _identity(value: Any, deep: int) -> Any:
    if type(value) is tuple and deep:
        keys = tuple(_identity(cell, deep - 1) for cell in value)
        return None if all(key is None for key in keys) else keys
    return _single_identity(value)


def _single_identity(value: Any) -> Any:
    kind = type(value)
    if id(kind) in _TIMES:
        return _of_time(value)
    if kind is Decimal:
        return None if value.is_nan() else value
    if kind is Fraction:
        whole = type(value.numerator) is int and type(value.denominator) is int
        return value if whole else None
    if kind is UUID:
        return value.int if type(value.int) is int else None
    return constant(value)


def _of_time(value: Any) -> Any:
    """Return a key of a date, a time or a span of time, whatever library it is of."""
    kind = type(value)
    if kind is pd.Timestamp:  # in UTC, without a call of the zone
        return _in_nanoseconds(datetime, value.tzinfo is not None, value.to_datetime64())
    if kind is datetime:
        offset = timedelta(0) if value.tzinfo is None else _offset_of(value)
        if offset is None:
            return None
        since = value.replace(tzinfo=None) - _EPOCH - offset
        return datetime, value.tzinfo is not None, since // _MICROSECOND * 1000
    if kind is date:
        return datetime, False, (value - _EPOCH.date()) // _MICROSECOND * 1000
    if kind is time:
        return value if type(value.tzinfo) is type(None) or type(value.tzinfo) is timezone else None
    if kind is timedelta:
        return timedelta, False, value // _MICROSECOND * 1000
    if kind is pd.Timedelta:
        return _in_nanoseconds(timedelta, False, value.to_timedelta64())
    return _in_nanoseconds(datetime if kind is np.datetime64 else timedelta, False, value)


def _offset_of(value: datetime) -> timedelta | None:
    return value.utcoffset() if id(type(value.tzinfo)) in _ZONES else None


def _in_nanoseconds(what: type, is_zoned: bool, value: Any) -> Any:
    """Return the key of a time of NumPy; in units without a fixed length it stands for itself."""
    if np.isnat(value):
        return None
    unit, count = np.datetime_data(value.dtype)
    if unit not in _NANOSECONDS:
        return value
    return what, is_zoned, int(value.astype(np.int64)) * count * _NANOSECONDS[unit]


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
