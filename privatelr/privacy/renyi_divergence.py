"""Renyi divergences of choices of bounded range and of stable laws, at many orders.

A choice is of bounded range eta if, for all neighbours, the log ratios of the probabilities of all
options lie in one interval of length eta. The exponential mechanism is such a choice. For small
eta its zCDP is a quarter of that of a pure epsilon of eta (Dong, Durfee and Rogers 2020).

A curve is an array of divergences, one for each of `ORDERS`.
"""

from __future__ import annotations

import math

import numpy as np

from privatelr.errors import GuaranteeError, show
from privatelr.privacy.guarantees import ZCDP, ApproxDP, Promise, PureDP
from privatelr.types import FloatArray

EXCESSES = np.geomspace(0.01, 1e6, 741)
"""Orders minus one; the best of them gives an epsilon within 1e-4 of that of the best order."""
ORDERS = 1 + EXCESSES
"""The orders of a curve."""


def conversion_cost(excess: FloatArray, delta: float) -> FloatArray:
    """Return how much epsilon at this delta exceeds the Renyi divergence, for each order.

    It follows from ``delta = exp((a - 1)(divergence - epsilon)) / (a - 1) (1 - 1/a)^a`` (Canonne,
    Kamath and Steinke 2020, Proposition 12).

    Parameters
    ----------
    excess
        Orders minus one, of any shape.
    delta
        A number above 0.
    """
    log_factor = (1 + excess) * -np.log1p(1 / excess) - np.log(excess)
    return np.asarray((log_factor - math.log(delta)) / excess)


for _array in (EXCESSES, ORDERS):
    _array.flags.writeable = False


def epsilon_of_curve(curve: FloatArray, delta: float) -> float:
    """Return the smallest epsilon over the orders of a curve, by `conversion_cost`.

    Examples
    --------
    >>> from privatelr.privacy import epsilon_of_curve
    >>> from privatelr.privacy.renyi_divergence import ORDERS
    >>> print(f"{epsilon_of_curve(ORDERS * 0.1, 1e-6):.3f}")  # the curve of ZCDP(0.1)
    2.142
    """
    if delta <= 0:
        return math.inf
    return max(0.0, float((curve + conversion_cost(EXCESSES, delta)).min()))


_ROUNDING = 2.0**-49
"""Upper bound on the error of a few operations in doubles, relative to their largest term."""
_ROOM = 1e-11
"""Relative margin that a bisection leaves for the rounding of a conversion."""
_TERMS = 40
"""Number of terms of a series whose terms fall like one over a factorial."""
MOST_TIMES = 10**9
"""Largest number of equal releases or choices in one event."""


def require_times(times: int) -> None:
    """Refuse a number of releases or choices that is not a whole number from 1."""
    if type(times) is not int or not 1 <= times <= MOST_TIMES:
        raise GuaranteeError(f"times={show(times)}: times takes an integer from 1 to {MOST_TIMES}.")


def renyi_of_range(eta: float, orders: FloatArray) -> FloatArray:
    """Return the largest divergence ``(k,)`` of two laws of bounded range eta, at orders above 1.

    It is ``(k(a eta) - k(eta)) / (a - 1) + k(a eta) - k((a - 1) eta)`` for ``k(x) =
    log(sinh(x / 2) / (x / 2))``, at most eta, and at most ``a eta**2 / 8``
    (theory.md#bounded-range has the proof).

    Parameters
    ----------
    eta
        A number above 0.
    orders
        The orders, of shape ``(k,)``.

    Examples
    --------
    >>> import numpy as np
    >>> from privatelr.privacy import renyi_of_range
    >>> renyi_of_range(0.5, np.array([2.0, 8.0, 1e6])).round(3)  # it grows up to eta
    array([0.062, 0.212, 0.5  ])
    """
    excess = orders - 1
    one = _log_sinh_ratio(np.array([eta]))[0]
    all_, others = _log_sinh_ratio(orders * eta), _log_sinh_ratio(excess * eta)
    exact = (all_ - one) / excess + (all_ - others)
    slack = _ROUNDING * ((all_ + one) / excess + all_ + others)
    with np.errstate(over="ignore"):  # an infinite cap does not limit anything
        caps = np.minimum(eta, orders * (eta * eta) / 8)
    return np.asarray(np.minimum(exact * (1 + _ROUNDING) + slack, caps))


def _log_sinh_ratio(x: FloatArray) -> FloatArray:
    """Return ``log(sinh(x / 2) / (x / 2))`` for x from 0, to a small relative error."""
    low = np.minimum(x, 1.0) / 2
    square = low * low
    series = np.ones_like(square)
    for divisor in (156, 110, 72, 42, 20):
        series = 1 + square / divisor * series
    high = np.maximum(x, 1.0)
    far = high / 2 + np.log(-np.expm1(-high) / high)
    return np.where(x < 1.0, np.log1p(square / 6 * series), far)


def renyi_of_draw(largest: float, width: float, sd: float, orders: FloatArray) -> FloatArray:
    """Bound the divergence ``(k,)`` of one draw from a law that is stable between neighbours.

    Proposition S2 (theory.md#proposition-s2 has the proof). A path leads from the law under one
    dataset to the law under its neighbour. Each log probability moves by at most `largest`, and all
    move within an interval of length `width`. At every point of the path their speed has a standard
    deviation of at most `sd`. The result is the smallest of three bounds: `largest`; the bound of
    `renyi_of_range`; and, with ``A = (a - 1) width`` and ``phi(x) = (exp(x) - 1) / x``,

    ``a / (a - 1) sd**2 / width (phi(A + width / 2) - phi(width / 2))``.

    Examples
    --------
    >>> import numpy as np
    >>> from privatelr.privacy import renyi_of_draw
    >>> renyi_of_draw(0.5, 1.0, 0.1, np.array([2.0, 8.0])).round(4)  # sd 0.1 where 0.5 is possible
    array([0.0205, 0.5   ])
    """
    by_range = np.minimum(renyi_of_range(width, orders), largest)
    excess = orders - 1
    x, y = (excess + 0.5) * width, width / 2
    with np.errstate(over="ignore", invalid="ignore"):
        # a product in this order does not underflow if sd or width is tiny
        factor = orders / excess * (sd * (sd / width))
        by_sd = factor * _phi_difference(x, y, excess * width) * (1 + _ROUNDING)
    return np.asarray(np.fmin(by_range, by_sd))


def rho_of_draw(largest: float, width: float, sd: float) -> float:
    """Return the rho of one draw: a bound on its Renyi divergence over the order, at every order.

    Divergences increase with the order. So between two of the orders the ratio is at most the
    divergence of the larger one over the smaller one. A bounded range c costs at most
    ``c**2 / 8`` in any case.
    """
    curve = renyi_of_draw(largest, width, sd, ORDERS)
    below, above = np.append(1.0, ORDERS), np.append(curve, largest)
    return min(float((above / below).max()), width**2 / 8) * (1 + _ROUNDING)


def _phi_difference(x: FloatArray, y: float, gap: FloatArray) -> FloatArray:
    """Return ``phi(x) - phi(y)``, rounded up; ``phi(x) = (exp(x) - 1) / x`` and ``x = y + gap``."""
    if y >= 350:  # the exponential would overflow, so there is no bound
        return np.full_like(x, math.inf)
    near = np.minimum(x, 1.0)
    # differences of powers are divided term by term, which avoids cancellation
    homogeneous = np.ones_like(near)
    power, factorial = 1.0, 2.0
    series = homogeneous / factorial
    for k in range(2, _TERMS):
        power *= min(y, 1.0)
        homogeneous = near * homogeneous + power
        factorial *= k + 1
        series = series + homogeneous / factorial
    far = np.maximum(x, 1.0)
    grown = np.expm1(far) / far
    level = np.expm1(y) / y
    return np.where(x < 1.0, gap * series, grown - level + _ROUNDING * grown)


def range_within(target: Promise, times: int) -> float:
    """Find the largest eta for which so many choices of bounded range eta keep the target.

    Each choice may depend on those before it (theory.md#bounded-range). Under pure
    epsilon the ranges add up, and under zCDP their rhos do. For an approximate target the better
    of the sum of ranges and the sum of Renyi divergences is taken.

    Parameters
    ----------
    target : PureDP, ZCDP or ApproxDP
        The guarantee to keep; its delta, if any, is spent on the conversion alone.
    times
        The number of choices, from 1.

    Returns
    -------
    float
        The range, rounded towards privacy.

    Raises
    ------
    GuaranteeError
        If there is not an eta that keeps the target.
    """
    require_times(times)
    match target:
        case PureDP(epsilon=epsilon):
            eta = epsilon / times
        case ZCDP(rho=rho):
            eta = math.sqrt(8 * rho / times)
        case ApproxDP():
            eta = _range_of_approximate(target, times)
    eta *= 1 - _ROUNDING
    if eta <= 0 or not math.isfinite(eta):
        raise GuaranteeError(f"target: {target} leaves no range for each of {times} choices.")
    return eta


def _range_of_approximate(target: ApproxDP, times: int) -> float:
    def fits(eta: float) -> bool:
        return epsilon_of_choices(eta, times, target.delta) <= target.epsilon

    low = target.epsilon / times * (1 - _ROUNDING)
    high = max(low, 1e-6 / times)
    while fits(high):
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high and high - low > 1e-13 * high:
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low * (1 - _ROOM)


def epsilon_of_choices(eta: float, times: int, delta: float) -> float:
    """Return the epsilon at this delta of `times` adaptive choices of bounded range eta.

    It is the lesser of the sum of ranges and the sum of curves (theory.md#bounded-range).

    Examples
    --------
    >>> from privatelr.privacy import epsilon_of_choices
    >>> print(f"{epsilon_of_choices(0.01, 1000, 1e-6):.3f}")  # a thousand choices; their sum is 10
    0.700
    """
    return min(times * eta, epsilon_of_curve(times * renyi_of_range(eta, ORDERS), delta))
