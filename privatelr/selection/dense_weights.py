"""The dense distribution over rows that is nearest to given weights.

A law over n rows is dense if no row has more than ``1 / s``. In relative entropy the nearest one
to weights ``exp(l)`` cuts off the largest, ``q_i = min(1, zeta exp(l_i)) / s``, with the one zeta
for which they add up to one.
"""

from __future__ import annotations

import math

import numpy as np

from privatelr.errors import ArgumentError, require_number, show
from privatelr.types import FloatArray

_FAR = 600.0
"""Largest distance of an exponent from the threshold; entries beyond are cut off or vanish."""
_UNIT = 2.0**-53


def dense_projection(log_weights: FloatArray, s: float) -> FloatArray:
    """The nearest law with no probability above ``1 / s``, of shape ``(n,)``.

    The sum of ``min(1, zeta z)`` grows with zeta, is concave and piecewise linear, so Newton's
    method from below ends after finitely many steps at the exact root, up to rounding.

    Parameters
    ----------
    log_weights
        Finite logarithms of shape ``(n,)``, of any size.
    s
        At least 1, and below n.

    Returns
    -------
    ndarray of shape (n,)
        It adds up to one and is at most ``1 / s``, both up to `projection_error`.
    """
    n = len(log_weights)
    require_number(ArgumentError, "s", s, f"a number from 1 and below n={n}", at_least=1)
    if not s < n:
        raise ArgumentError(f"s={show(s)}: s takes a number from 1 and below n={n}.")
    z = _scaled(log_weights, s)
    zeta, capped = s / float(z.sum()), -1
    while True:
        below = z * zeta < 1.0
        count = n - int(np.count_nonzero(below))
        if count == capped:  # the same entries are cut off, so the last step was exact
            break
        capped = count
        rest = float(z @ below.astype(np.float64))
        if not rest > 0.0 or capped >= s:
            break
        # zeta never falls, except by rounding
        zeta = max(zeta, (s - capped) / rest)
    return np.asarray(np.minimum(z * zeta, 1.0) / s)


def _scaled(log_weights: FloatArray, s: float) -> FloatArray:
    """Return weights up to a factor, scaled so that those that matter are within doubles."""
    largest = float(log_weights.max())
    if largest - float(log_weights.min()) < _FAR:
        return np.asarray(np.exp(log_weights - largest))
    # the first row that may have a part of a probability only; all above it are cut off, or tied
    place = len(log_weights) - 1 - math.floor(s)
    level = np.partition(log_weights, place)[place]
    return np.asarray(np.exp(np.clip(log_weights - level, -_FAR, _FAR)))


def projection_error(n: int) -> float:
    """Bound the rounding error of a weighted sum of numbers in [-1, 1] under a dense law of n rows.

    Twice a sum of n terms in any order (for zeta, and for the sum itself), each term after an
    exponential of an exponent up to `_FAR` and a few operations more.
    """
    return _UNIT * (4.0 * n + 4.0 * _FAR)
