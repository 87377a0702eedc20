"""Cells are read by their exact type, and nothing that came with them is run."""

import math
import warnings
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from privatelr.cells import constant, number, number_or_spelled


class Whole(int):
    pass


class Grade(IntEnum):
    LOW = 1


READ = [  # (cell, number, constant)
    (True, 1.0, True),
    (3, 3.0, 3),
    (0.5, 0.5, 0.5),
    (10**400, math.inf, 10**400),
    (-(10**400), -math.inf, -(10**400)),
    (math.inf, math.inf, math.inf),
    (np.True_, 1.0, True),
    (np.int8(-3), -3.0, -3),
    (np.uint64(2**63), 2.0**63, 2**63),
    (np.longlong(7), 7.0, 7),
    (np.float16(0.5), 0.5, 0.5),
    (np.float32(0.1), float(np.float32(0.1)), float(np.float32(0.1))),
    (np.longdouble(0.5), 0.5, 0.5),
    (np.longdouble("1e400"), math.inf, math.inf),
    (Decimal("0.5"), 0.5, 0.5),
    (Decimal("3.00"), 3.0, 3),
    (Decimal(2**53 + 1), 2.0**53, 2**53 + 1),
    (Decimal("1e999999"), math.inf, math.inf),
    (Decimal("-1e400"), -math.inf, -math.inf),
]


@pytest.mark.parametrize(("cell", "expected", "plain"), READ, ids=lambda cell: repr(cell)[:30])
def test_numbers(cell, expected, plain):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert number(cell) == number_or_spelled(cell) == expected
        found = constant(cell)
    assert found == plain
    assert type(found) is type(plain)


@pytest.mark.parametrize(
    ("cell", "spelled"),
    [
        ("a", None),
        ("", None),
        ("7", 7.0),
        (" 1e999 ", math.inf),
        (np.str_("0.5"), 0.5),
        ("-", None),
    ],
)
def test_texts(cell, spelled):
    assert math.isnan(number(cell))
    found = number_or_spelled(cell)
    assert math.isnan(found) if spelled is None else found == spelled
    assert constant(cell) == str(cell)
    assert type(constant(cell)) is str


def told(name):
    def tell(*_, **__):
        raise SystemExit(f"{name} was called")

    return tell


class LoudWhole(int):
    __truediv__ = told("__truediv__")
    __rtruediv__ = told("__rtruediv__")
    __float__ = told("__float__")
    __gt__ = told("__gt__")


MISSING = [
    *(None, math.nan, np.nan, np.float32("nan"), pd.NA, pd.NaT, 1j, np.complex64(1), b"7"),
    *(np.bytes_(b"7"), [1.0], (1.0,), {}, {1.0}, np.array([1.0]), np.array(1j), np.array("7")),
    *(np.ma.masked, np.ma.array(0.5), np.datetime64("2020"), np.timedelta64(1, "D")),
    *(np.void(b"ab"), pd.Timestamp("2020"), pd.Timedelta(1), Decimal("NaN"), Decimal("sNaN")),
    *(Whole(3), Grade.LOW, float, print, LoudWhole(3), Fraction(1, 2)),
    np.array(0.5),
]


@pytest.mark.parametrize("index", range(len(MISSING)))
def test_anything_else_is_missing_and_not_asked(index):
    cell = MISSING[index]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert math.isnan(number(cell))
        assert math.isnan(number_or_spelled(cell))
        assert constant(cell) is None
