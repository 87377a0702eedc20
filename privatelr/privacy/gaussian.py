"""The privacy profile of the Gaussian mechanism, in log space (privacy.md 0 and 4.1)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import scipy

if TYPE_CHECKING:
    from collections.abc import Callable

RESOLUTION = 1e-10
"""Logarithms of delta are known at least this well; noise is solved for a delta below by it."""
_RELATIVE_WIDTH = 1e-13
_FAR = 50.0
"""From here the next term of the series of erfcx is below 1e-13 of it."""


def log_delta(epsilon: float, mu: float) -> float:
    """Logarithm of the delta of a Gaussian mechanism with sensitivity / sd ``mu``.

    ``Phi(mu/2 - e/mu) - exp(e) Phi(-mu/2 - e/mu)`` (Balle and Wang 2018, Theorem 8), which
    holds for every real epsilon and increases in mu. In the tail the two terms agree to many
    digits; there the common factor ``phi`` is taken out.
    """
    if mu <= 0:
        return -math.inf if epsilon >= 0 else math.log(-math.expm1(epsilon))
    a, b = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    if a < 0 or mu < 1e-3:
        scaled = _erfcx_drop(epsilon / mu / math.sqrt(2), mu / math.sqrt(2))
        tail = -a * a / 2 - math.log(2)
        return float(tail + math.log(scaled)) if scaled > 0 else -math.inf
    first, second = float(scipy.special.log_ndtr(a)), epsilon + float(scipy.special.log_ndtr(b))
    gap = second - first
    return first + math.log(-math.expm1(gap)) if gap < 0 else -math.inf


def _erfcx_drop(middle: float, step: float) -> float:
    """What erfcx loses over an interval, by derivatives at its middle where it is short."""
    if step > 1e-3 * max(1.0, middle):
        low, high = middle - step / 2, middle + step / 2
        return float(scipy.special.erfcx(low) - scipy.special.erfcx(high))
    first, third = _erfcx_derivatives(middle)
    return -step * (first + step * step / 24 * third)


def _erfcx_derivatives(x: float) -> tuple[float, float]:
    """First and third derivative of erfcx; far out by its asymptotic series, term by term."""
    if x > _FAR:
        y = 1 / (2 * x * x)
        series = 1 - 3 * y * (1 - 5 * y * (1 - 7 * y * (1 - 9 * y)))
        first = -series / x / x / math.sqrt(math.pi)
        return first, 6 * first / x / x
    value = float(scipy.special.erfcx(x))
    first = 2 * x * value - 2 / math.sqrt(math.pi)
    return first, 4 * first + 2 * x * (2 * value + 2 * x * first)


def smallest(holds: Callable[[float], bool], start: float, limit: float) -> float:
    """Smallest x in ``(0, limit]`` for which a monotone condition holds, to 1e-13, from above.

    Parameters
    ----------
    holds
        False below some point and true above it.
    start
        Where to begin; the bracket grows by doubling.

    Returns
    -------
    float
        A number for which the condition was seen to hold; infinity if it fails at `limit`.
    """
    high = start
    while not holds(high):
        if high >= limit:
            return math.inf
        high = min(2 * high, limit)
    low = high / 2
    while low > 0 and holds(low):
        low, high = low / 2, low
    while high > low * (1 + _RELATIVE_WIDTH):
        middle = math.sqrt(low * high)
        if not low < middle < high:
            break
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def gaussian_sd(epsilon: float, delta: float, sensitivity: float) -> float:
    """Smallest standard deviation for (epsilon, delta), exact up to rounding upwards."""
    target = math.log(delta) - RESOLUTION
    multiple = smallest(lambda sd: log_delta(epsilon, 1 / sd) <= target, 1.0, 1e300)
    return sensitivity * multiple


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Smallest epsilon of a Gaussian release of this mu at delta, rounded upwards."""
    target = math.log(delta)
    if log_delta(0.0, mu) <= target:
        return 0.0
    return smallest(lambda epsilon: log_delta(epsilon, mu) <= target, 1.0, 1e300)
