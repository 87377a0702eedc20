"""Renyi divergences of many orders at once, and what they say at a delta.

A curve is an array of divergences, one for each of `ORDERS`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from privatelr.types import FloatArray

EXCESSES = np.geomspace(0.01, 1e6, 741)
"""Orders minus one, so close that the best of them is within 1e-4 of the best of all."""
ORDERS = 1 + EXCESSES
_LOG_FACTOR = (1 + EXCESSES) * -np.log1p(1 / EXCESSES) - np.log(EXCESSES)
"""``log((1 - 1/a)**a / (a - 1))`` for each order ``a``."""
for _array in (EXCESSES, ORDERS, _LOG_FACTOR):
    _array.flags.writeable = False


def epsilon_of_curve(curve: FloatArray, delta: float) -> float:
    """Smallest over the orders (Canonne, Kamath and Steinke 2020, Proposition 12)."""
    if delta <= 0:
        return math.inf
    bounds = curve + (_LOG_FACTOR - math.log(delta)) / EXCESSES
    return max(0.0, float(bounds.min()))


def delta_of_curve(curve: FloatArray, epsilon: float) -> float:
    """The same the other way round: smallest delta at this epsilon, at most 1."""
    with np.errstate(over="ignore"):  # an order that is worth nothing
        log_bounds = EXCESSES * (curve - epsilon) + _LOG_FACTOR
    return math.exp(min(0.0, float(log_bounds.min())))
