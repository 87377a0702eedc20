"""Renyi divergences of choices of bounded range and of stable laws, at many orders.

A choice is of bounded range eta if between neighbours the logarithms of the ratios of chances,
over all options, lie in one interval of length eta. The exponential mechanism is, and it costs
about half of what pure epsilon would (Dong, Durfee and Rogers 2020).

A curve is an array of divergences, one for each of `ORDERS`.
"""

from __future__ import annotations

import math

import numpy as np

from privatelr.errors import GuaranteeError, show
from privatelr.privacy.guarantees import ZCDP, ApproxDP, Promise, PureDP
from privatelr.types import FloatArray

EXCESSES = np.geomspace(0.01, 1e6, 741)
"""Orders minus one; the best of them is within 1e-4 of the best of all orders."""
ORDERS = 1 + EXCESSES


def log_factor(excess: FloatArray) -> FloatArray:
    """``log((1 - 1/a)**a / (a - 1))`` for orders ``a = 1 + excess``, of any shape."""
    return np.asarray((1 + excess) * -np.log1p(1 / excess) - np.log(excess))


def conversion_cost(excess: FloatArray, delta: float) -> FloatArray:
    """How much epsilon at this delta exceeds the Renyi divergence, for each of the orders.

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
    """Return the smallest delta at this epsilon over the orders, at most 1."""
    with np.errstate(over="ignore"):  # such an order gives no bound
        log_bounds = EXCESSES * (curve - epsilon) + _LOG_FACTOR
    return math.exp(min(0.0, float(log_bounds.min())))


_ROUNDING = 2.0**-49
"""Upper bound on the error of a few operations, relative to the largest of their terms."""
_ROOM = 1e-11
"""Relative slack that bisection leaves for the rounding of a conversion."""
_TERMS = 40
"""Number of terms of a series whose terms fall like one over a factorial."""
MOST_TIMES = 10**9


def require_times(times: int) -> None:
    """Refuse a number of releases or choices that is not a whole number from 1."""
    if type(times) is not int or not 1 <= times <= MOST_TIMES:
        raise GuaranteeError(f"times={show(times)}: times takes an integer from 1 to {MOST_TIMES}.")


def renyi_of_range(eta: float, orders: FloatArray) -> FloatArray:
    """Largest divergence ``(k,)`` of any two laws of bounded range eta, for orders above 1.

    ``E_Q[(P/Q)**a]`` is convex in the ratio, so the worst ratio takes its two extreme values
    ``exp(t)`` and ``exp(t - eta)`` alone; the worst t solves a linear equation, which gives
    ``(k(a eta) - k(eta)) / (a - 1) + k(a eta) - k((a - 1) eta)``, for ``k(x) =
    log(sinh(x / 2) / (x / 2))``. It is at most eta, and at most ``a eta**2 / 8``.

    Parameters
    ----------
    eta
        Above 0.
    orders
        Shape ``(k,)``.
    """
    excess = orders - 1
    one = _log_sinh_ratio(np.array([eta]))[0]
    all_, others = _log_sinh_ratio(orders * eta), _log_sinh_ratio(excess * eta)
    exact = (all_ - one) / excess + (all_ - others)
    slack = _ROUNDING * ((all_ + one) / excess + all_ + others)
    with np.errstate(over="ignore"):  # an infinite value does not limit anything
        caps = np.minimum(eta, orders * (eta * eta) / 8)
    return np.asarray(np.minimum(exact * (1 + _ROUNDING) + slack, caps))


def _log_sinh_ratio(x: FloatArray) -> FloatArray:
    """``log(sinh(x / 2) / (x / 2))`` for x from 0, to a small relative error."""
    low = np.minimum(x, 1.0) / 2
    square = low * low
    series = np.ones_like(square)
    for divisor in (156, 110, 72, 42, 20):
        series = 1 + square / divisor * series
    high = np.maximum(x, 1.0)
    far = high / 2 + np.log(-np.expm1(-high) / high)
    return np.where(x < 1.0, np.log1p(square / 6 * series), far)


def renyi_of_draw(largest: float, width: float, sd: float, orders: FloatArray) -> FloatArray:
    """Divergence ``(k,)`` of one draw from a law that moves along a path between neighbours.

    The log chances move by at most `largest` each, within an interval of length `width`, and at
    every point of the path their speed has a standard deviation of at most `sd`. The smallest of
    three bounds: `largest`; the one of `renyi_of_range`; and, with ``A = (a - 1) width``,

    ``a / (a - 1) sd**2 / width (phi(A + width / 2) - phi(width / 2))``,

    where ``phi(x) = (exp(x) - 1) / x``.

    The last is there because the derivative along the path of ``log E[(P/Q)**a]`` is a times the
    mean speed under a tilted law; the mean is an integral of covariances of speed and log ratio
    over the strength of the tilt, and a covariance under the tilted law is at most the one under
    the law itself times the largest ratio of their densities.
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
    """The zCDP of one draw: a bound on its Renyi divergence over the order, at every order.

    Divergences grow with the order, so between two orders the one of the larger, over the
    smaller order, bounds the ratio. A range of width c is never worth more than ``c**2 / 8``.
    """
    curve = renyi_of_draw(largest, width, sd, ORDERS)
    below, above = np.append(1.0, ORDERS), np.append(curve, largest)
    return min(float((above / below).max()), width**2 / 8) * (1 + _ROUNDING)


def _phi_difference(x: FloatArray, y: float, gap: FloatArray) -> FloatArray:
    """``phi(x) - phi(y)``, rounded up, for ``phi(x) = (exp(x) - 1) / x`` and ``x = y + gap``."""
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
    """Largest eta for which so many choices of bounded range eta keep the target.

    Each choice may depend on those before it. Pure epsilons and rho add up; for an approximate
    target the cheaper of pure epsilons and Renyi divergences is taken.

    Parameters
    ----------
    target : PureDP, ZCDP or ApproxDP
        A delta of the target is spent on the conversion alone.
    times
        From 1.

    Returns
    -------
    float
        Rounded towards privacy.

    Raises
    ------
    GuaranteeError
        If no eta keeps the target.
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
    """Return epsilon at this delta of `times` adaptive choices of bounded range eta."""
    return min(times * eta, epsilon_of_curve(times * renyi_of_range(eta, ORDERS), delta))
