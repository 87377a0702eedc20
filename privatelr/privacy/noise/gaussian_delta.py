"""The delta of Gaussian noise, on an output or in an objective.

The symbols are those of `privatelr.privacy.events.TiltEvent`. ``out`` is the mu of Gaussian
releases beside the tilt, such as the shield on the minimiser. The privacy losses of independent
Gaussians add up, so ``v`` becomes ``sqrt(v^2 + out^2)``. The case in which the tilt does not
change costs nothing by itself, but has to be counted beside such releases (theory.md 4.2; for (c)
by the argument that is given there for (b)).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import scipy

from privatelr.privacy.guarantees import REPLACE_PERSON
from privatelr.privacy.person_tilt import person_log_delta

if TYPE_CHECKING:
    from privatelr.privacy.events import TiltEvent


RESOLUTION = 1e-10
"""Upper bound on the absolute error of a log delta; noise is solved for one that is this lower."""
_RELATIVE_WIDTH = 1e-13
"""Relative width of the bracket at which a search ends."""
_BESIDE = 1e-8
"""Relative distance from where a function falls to its goal within which a search computes it; its
values have rounding errors, which do not matter farther away."""
_STEEP, _TINIEST = 1e6, math.ulp(0.0)
"""Values are cut at this distance from the goal, and this is the least positive number."""
_FAR = 50.0
"""Argument beyond which the first omitted term of the series of erfcx is below 1e-13 of it."""


def log_delta(epsilon: float, mu: float) -> float:
    """Return the logarithm of the delta of a Gaussian mechanism; mu is sensitivity over sd.

    ``delta = Phi(mu/2 - e/mu) - exp(e) Phi(-mu/2 - e/mu)`` (Balle and Wang 2018, Theorem 8;
    theory.md#gaussian-profile). It holds for every real epsilon and increases with mu. In the tail
    the two terms agree in many digits, so there the common factor ``phi`` is taken out.
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
    """Return the fall of erfcx over an interval; a short one uses derivatives at its middle."""
    erfcx = scipy.special.erfcx
    if step > 1e-3 * max(1.0, middle):
        return float(erfcx(middle - step / 2) - erfcx(middle + step / 2))
    if middle > _FAR:  # the asymptotic series, term by term
        y = 1 / (2 * middle * middle)
        series = 1 - 3 * y * (1 - 5 * y * (1 - 7 * y * (1 - 9 * y)))
        first = -series / middle / middle / math.sqrt(math.pi)
        third = 6 * first / middle / middle
    else:
        value = float(erfcx(middle))
        first = 2 * middle * value - 2 / math.sqrt(math.pi)
        third = 4 * first + 2 * middle * (2 * value + 2 * middle * first)
    return -step * (first + step * step / 24 * third)


def smallest(holds: Callable[[float], bool], start: float, limit: float) -> float:
    """Find the smallest x in ``(0, limit]`` for which a monotone condition holds, to 1e-13.

    Parameters
    ----------
    holds
        A condition that is false below some point and true above it.
    start
        The first x; the bracket grows from it by doubling.
    limit
        The largest x.

    Returns
    -------
    float
        An x for which the condition was seen to hold; infinity if it fails at `limit`.
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


def smallest_of(value: Callable[[float], float], goal: float, start: float, limit: float) -> float:
    """Return what `smallest` does of ``value(x) <= goal``, with fewer values of a falling function.

    The point where it falls to the goal is bracketed by strides and secants first. The search of
    `smallest` then knows what holds away from that point, and computes the values beside it, which
    its result depends on.
    """
    fails, keeps = 0.0, math.inf
    seen: set[float] = set()

    def off(x: float) -> float:
        nonlocal fails, keeps
        found = value(x) - goal
        if found <= 0:
            keeps = min(keeps, x)
            seen.add(x)
        else:
            fails = max(fails, x)
        return max(-_STEEP, min(found, _STEEP))

    def known(x: float) -> bool:
        if x < fails * (1 - _BESIDE):
            return False
        return x > keeps * (1 + _BESIDE) or off(x) <= 0

    stride, x = 1, start
    if off(start) > 0:
        while math.isinf(keeps) and x < limit:
            x, stride = min(x * 2.0**stride, limit), 2 * stride
            off(x)
        if math.isinf(keeps):
            return math.inf
    else:
        while fails == 0 and x > _TINIEST:
            x, stride = max(x * 2.0**-stride, _TINIEST), 2 * stride
            off(x)
    if fails > 0:
        scipy.optimize.brentq(
            lambda log: off(math.exp(log)), math.log(fails), math.log(keeps), xtol=_BESIDE / 4
        )
    found = smallest(known, start, limit)
    if found in seen or off(found) <= 0:
        return found
    return smallest(lambda x: off(x) <= 0, start, limit)  # it does not fall


def gaussian_sd(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the smallest standard deviation for (epsilon, delta), rounded up (theory.md 4.1)."""
    target = math.log(delta) - RESOLUTION
    multiple = smallest(lambda sd: log_delta(epsilon, 1 / sd) <= target, 1.0, 1e300)
    return sensitivity * multiple


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Largest mu of a Gaussian release for (epsilon, delta), rounded downwards."""
    return 1 / gaussian_sd(epsilon, delta, 1.0) * (1 - 2.0**-50)


def log_delta_beside_pure(epsilon: float, pure: float, mu: float) -> float:
    """Logarithm of the delta of a pure release and Gaussian ones of this mu together.

    Randomised response is the extremal pure release (Kairouz, Oh and Viswanath 2015, Theorem
    3.1). Its loss is `pure` or minus that, and adds to the loss of the Gaussian ones.
    """
    shown = float(scipy.special.log_expit(pure)) + log_delta(epsilon - pure, mu)
    hidden = float(scipy.special.log_expit(-pure)) + log_delta(epsilon + pure, mu)
    return float(np.logaddexp(shown, hidden))


def pure_beside(epsilon: float, delta: float, mu: float) -> float:
    """Largest epsilon of a pure release that keeps (epsilon, delta) beside Gaussian ones; from 0.

    Without any beside it, this is epsilon.
    """
    goal = math.log(delta) - RESOLUTION
    if mu == 0 or log_delta_beside_pure(epsilon, epsilon, mu) <= goal:
        return epsilon
    low, high = 0.0, epsilon
    while high - low > _RELATIVE_WIDTH * epsilon:
        middle = (low + high) / 2
        kept = log_delta_beside_pure(epsilon, middle, mu) <= goal
        low, high = (middle, high) if kept else (low, middle)
    return low


def mu_beside_pure(epsilon: float, delta: float, pure: float) -> float:
    """Largest mu of Gaussian releases that keep (epsilon, delta) beside a pure one."""
    goal = math.log(delta) - RESOLUTION
    found = smallest(lambda sd: log_delta_beside_pure(epsilon, pure, 1 / sd) <= goal, 1.0, 1e300)
    return 1 / found * (1 - 2.0**-50)


def epsilon_beside_pure(delta: float, pure: float, mu: float) -> float:
    """Smallest epsilon of a pure release and Gaussian ones together at delta, rounded upwards."""
    target = math.log(delta)
    return smallest(lambda at: log_delta_beside_pure(at, pure, mu) <= target, 1.0, 1e300)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon of a Gaussian release of this mu at delta, rounded up."""
    target = math.log(delta)
    if log_delta(0.0, mu) <= target:
        return 0.0
    return smallest(lambda epsilon: log_delta(epsilon, mu) <= target, 1.0, 1e300)


_NEVER = -1e6
"""Logarithm of a delta that stands for zero in a search."""


def tilt_log_delta(event: TiltEvent, epsilon: float, out: float = 0.0) -> float:
    """Return the logarithm of the delta of a tilt at epsilon (Theorem 4.2 of theory.md).

    It is the smallest of the bounds (a), (b) and (c) that hold for the loss. `person_tilt` has
    those for persons.
    """
    if event.neighbours is REPLACE_PERSON:
        return person_log_delta(event, epsilon, out)
    m = event.m
    if event.classes > 2:
        return _several_classes(event, epsilon, out)
    bounds = [any_loss_log_delta(event.curvature_bound * event.kappa, epsilon, m, out)]
    if event.joint_factor is not None:
        kappa = event.kappa * event.joint_factor
        bounds.append(_free_curvature(kappa, event.small_slope_cost, epsilon, m, out))
        bounds.append(_split_curvature(kappa, epsilon, m, out))
    return min(bounds)


def _several_classes(event: TiltEvent, epsilon: float, out: float) -> float:
    """Return the bound for the softmax of three or more classes, with the curvature in full.

    theory.md#several-classes has the proof and the numbers of vertices.
    """
    rest = epsilon - event.curvature_cost
    if rest < 0:
        return 0.0
    cases = [(times, rest, size * event.m) for times, size in event.vertices]
    return _log_sum(out, *cases, (1, rest, 0.0))


def any_loss_log_delta(curvature: float, epsilon: float, m: float, out: float = 0.0) -> float:
    """Return bound (a) of Theorem 4.2, for any loss: the curvature is paid in full.

    `curvature` is ``c kappa``. If epsilon does not cover its cost, the result is 0: a delta of 1.
    """
    rest = epsilon - math.log1p(curvature)
    if rest < 0:
        return 0.0
    return _log_sum(out, (1, rest, 2 * m), (2, rest, m), (1, rest, 0.0))


def _free_curvature(kappa: float, gap: float, epsilon: float, m: float, out: float) -> float:
    """Return bound (b) of Theorem 4.2: the curvature is free where the slope is largest.

    Only the rare cases of smaller slopes pay for it, and `gap` is what they pay.
    """
    worst = math.log1p(kappa / 4)
    if epsilon < max(gap, worst):
        return 0.0
    paid, left = epsilon - worst, epsilon - gap
    return _log_sum(out, (1, epsilon, 2 * m), (1, paid, m), (1, left, m), (1, paid, 0.0))


def _split_curvature(kappa: float, epsilon: float, m: float, out: float) -> float:
    """Return bound (c) of Theorem 4.2 at the best split of the slopes.

    Slopes above and below the split are bounded separately, and every split is valid. It is from
    one half on, where weights change no bound: they lower a gradient and leave the curvature.
    """
    worst = math.log1p(kappa / 4)
    if epsilon < worst:
        return 0.0

    def bound(split: float) -> float:
        left, least = epsilon - math.log1p(kappa * split * (1 - split)), epsilon - worst
        part = (1 + split) * m
        above = (1, left, 2 * m), (1, left, part)
        return _log_sum(out, *above, (1, least, part), (2, least, m), (1, least, 0.0))

    # the search subtracts values of the function, so none may be minus infinity
    found = scipy.optimize.minimize_scalar(
        lambda split: max(bound(split), _NEVER), bounds=(0.5, 1.0), method="bounded"
    )
    return min(bound(float(found.x)), bound(0.5), bound(1.0))


def _log_sum(out: float, *cases: tuple[int, float, float]) -> float:
    """Return the logarithm of a sum of deltas, at most 0.

    Each case is its number of times, its epsilon, and its v, which is combined with `out`.
    """
    logs = [math.log(times) + log_delta(at, math.hypot(v, out)) for times, at, v in cases]
    return min(0.0, float(np.logaddexp.reduce(logs)))
