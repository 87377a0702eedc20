"""Prices are read as the decimals that they print, so that three times 0.1 makes 0.3.

Sums, shares and comparisons of prices are exact in that reading; the way back to a float is
rounded to the side that is asked for.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache


@lru_cache(maxsize=4096)
def exact(price: float) -> Fraction:
    """The decimal that Python prints for a finite float; it increases with the float."""
    return Fraction(repr(float(price)))


def at_most(value: Fraction) -> float:
    """Largest float whose decimal is no more than `value`."""
    price = float(value)
    while exact(price) > value:
        price = math.nextafter(price, -math.inf)
    return price


def at_least(value: Fraction) -> float:
    """Smallest float whose decimal is no less than `value`; infinity beyond all of them."""
    try:
        price = float(value)
    except OverflowError:
        return math.inf
    while math.isfinite(price) and exact(price) < value:
        price = math.nextafter(price, math.inf)
    return price
