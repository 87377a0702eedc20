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


def log_factor(excess: FloatArray) -> FloatArray:
    """``log((1 - 1/a)**a / (a - 1))`` for orders ``a = 1 + excess``, of any shape."""
    return np.asarray((1 + excess) * -np.log1p(1 / excess) - np.log(excess))


def conversion_cost(excess: FloatArray, delta: float) -> FloatArray:
    """What epsilon at this delta is above the divergence of an order, for each of the orders.

    By ``delta = exp((a - 1)(divergence - epsilon)) / (a - 1) (1 - 1/a)^a`` (Canonne, Kamath and
    Steinke 2020, Proposition 12).

    Parameters
    ----------
    excess
        Orders minus one, of any shape.
    delta
        Above 0.
    """
    return np.asarray((log_factor(excess) - math.log(delta)) / excess)


_LOG_FACTOR = log_factor(EXCESSES)
for _array in (EXCESSES, ORDERS, _LOG_FACTOR):
    _array.flags.writeable = False


def epsilon_of_curve(curve: FloatArray, delta: float) -> float:
    """Smallest epsilon over the orders, by `conversion_cost`."""
    if delta <= 0:
        return math.inf
    return max(0.0, float((curve + conversion_cost(EXCESSES, delta)).min()))


def delta_of_curve(curve: FloatArray, epsilon: float) -> float:
    """The same the other way round: smallest delta at this epsilon, at most 1."""
    with np.errstate(over="ignore"):  # an order that is worth nothing
        log_bounds = EXCESSES * (curve - epsilon) + _LOG_FACTOR
    return math.exp(min(0.0, float(log_bounds.min())))
