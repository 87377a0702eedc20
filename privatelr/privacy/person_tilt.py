"""The delta of Gaussian objective perturbation where neighbours replace a whole person.

A person has any number of records z_j, ``|z_j| <= R``, whose weights a_j sum to at most 1, with
slopes s_j in [0, 1] over L and curvatures h_j; the person who comes instead has a'_k, z'_k, s'_k. A
record of zeros takes what is left of the weights, so that both sum to 1. The symbols are those of
`privatelr.privacy.events.TiltEvent`.

**Theorem.** The privacy loss at a tilt b is at most the average, with the weights ``a_j a'_k``, of
``M_jk = trace_j + [b.D_jk + |D_jk|^2 / 2] / sigma^2``. Here ``D_jk = L (s'_k z'_k - s_j z_j)`` is
the change of the gradient by one record for another, and ``trace_j = h_j |z_j|^2 / Lambda``. So
``E f(loss) <= max_jk E f(M_jk)`` for every convex and increasing f. The proof is in
theory.md#persons, as are those of what follows.

M_jk is at most the largest of a few normal numbers, for which a mean of a convex increasing
function from 0 adds up. With ``N(v)`` normal of mean ``v^2 / 2`` and sd v they are

    (a)  c kappa + N(2 m), c kappa + N(m) twice, c kappa;
    (b)  N(2 m), N(m), g0 + N(m), g0,  for losses with a joint bound, g0 = `small_slope_cost`.

For K classes they are the vertices of theory.md#several-classes.

*Renyi divergence.* 4.3 holds with `curvature_cost`. *Delta.* With ``x0 = t + 1 - exp(t - eps)``,
``delta(eps) <= exp(eps - t) sum E (X - x0)_+`` over the numbers X, for every ``t >= eps``. Beside
the bound of a record this costs about the noise of one part in a thousand. *Tail.*
``P(loss > t) <= sum E (X - x)_+ / (t - x)`` for every x below t.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import scipy

if TYPE_CHECKING:
    from privatelr.privacy.events import TiltEvent
    from privatelr.types import FloatArray

Cases = tuple[tuple[int, float, float], ...]
"""Normal numbers ``shift + N(v)``: how many there are of each, their v, and their shift."""
_BEYOND = np.append(0.0, np.geomspace(1e-7, 4.0, 240))
"""How far beyond epsilon tangents are tried: each is a proven bound."""
_FAR = 50.0
"""Standard deviations beyond which the first omitted term of the series is below 1e-12 of it."""
_POINTS = 2000
"""Number of points of a tail from which others are bounded."""
_CERTAIN = 30.0
"""Standard deviations below which all of a normal law lies, in doubles. Farther away `ndtr` says so
by an underflow, which takes twenty times as long."""


def cases(event: TiltEvent) -> tuple[Cases, ...]:
    """Return the lists of normal numbers whose largest bounds M_jk; every list is one bound."""
    m, paid = event.m, event.curvature_cost
    if event.classes > 2:
        several = ((times, size * m, paid) for times, size in event.vertices)
        return ((*several, (1, 0.0, paid)),)
    whole = event.curvature_bound * event.kappa
    found: list[Cases] = [((1, 2 * m, whole), (2, m, whole), (1, 0.0, whole))]
    if event.joint_factor is not None:
        gap = event.small_slope_cost
        found.append(((1, 2 * m, 0.0), (1, m, 0.0), (1, m, gap), (1, 0.0, gap)))
    return tuple(found)


def person_log_delta(event: TiltEvent, epsilon: float, out: float = 0.0) -> float:
    """Return the logarithm of the delta at epsilon, beside Gaussian releases of mu `out`."""
    x0 = epsilon + _BEYOND - np.expm1(_BEYOND)
    bounds = [(_log_excess(some, x0, out) - _BEYOND).min() for some in cases(event)]
    return min(0.0, float(min(bounds)))


def person_survival(event: TiltEvent, loss: FloatArray) -> FloatArray:
    """Bound the probability ``(k,)`` that the loss exceeds each of these rising numbers from 0."""
    found = np.minimum.reduce([_survival(some, loss) for some in cases(event)])
    return np.minimum.accumulate(found)


def _survival(some: Cases, loss: FloatArray) -> FloatArray:
    """Bound it by the mean excess over a number x, which is best where t is its conditional mean.

    ``t = x + E (X - x)_+ / P(X > x)`` is computed on a grid, from which x is read for each t.
    """
    # (every x below t is a bound: what is read from the grid only has to be near the best one)
    top = float(loss.max(initial=0.0)) + 1.0
    x = np.linspace(min(shift for _, _, shift in some) - 1.0, top, _POINTS)
    above = np.zeros(len(x))
    for times, v, shift in some:
        z = x - shift
        above += times * (scipy.special.ndtr(v / 2 - z / v) if v > 0 else z < 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        best = np.maximum.accumulate(x + np.exp(_log_excess(some, x)) / above)
    known = np.isfinite(best)
    start = np.minimum(np.interp(loss, best[known], x[known]), loss - 1e-9)
    return np.asarray(np.minimum(1.0, np.exp(_log_excess(some, start)) / (loss - start)))


def _log_excess(some: Cases, x: FloatArray, out: float = 0.0) -> FloatArray:
    """Return ``log sum E (X - x)_+``, each X being beside Gaussian releases of mu `out`."""
    logs = [
        math.log(times) + mean_excess(math.hypot(v, out), x - shift) for times, v, shift in some
    ]
    return np.asarray(np.logaddexp.reduce(logs))


def mean_excess(v: float, x: FloatArray) -> FloatArray:
    """Return ``log E (N(v) - x)_+``: v times ``phi(z) - z Q(z)``, where z is x standardised."""
    if v == 0:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.maximum(-x, 0.0)))
    z = x / v - v / 2
    near = np.minimum(z, _FAR)
    with np.errstate(over="ignore", invalid="ignore"):
        below = scipy.special.ndtr(np.minimum(-near, _CERTAIN))
        up = np.exp(-near * near / 2) / math.sqrt(2 * math.pi) - near * below
    # phi is taken out where it is small: 1 - z Q(z) / phi(z), and its series far away
    mills = math.sqrt(math.pi / 2) * scipy.special.erfcx(np.maximum(near, 0.0) / math.sqrt(2))
    far = 1 / np.maximum(z, _FAR) ** 2
    series = far * (1 - 3 * far * (1 - 5 * far * (1 - 7 * far * (1 - 9 * far))))
    rest = np.where(z > _FAR, series, 1 - near * mills)
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = -z * z / 2 - math.log(2 * math.pi) / 2 + np.log(rest)
        return np.asarray(math.log(v) + np.where(z > 1, tail, np.log(up)))
