"""Delta of Gaussian objective perturbation: Theorem 4.2 of privacy.md.

Symbols as in `privatelr.privacy.events.TiltEvent`; ``out`` is the mu of Gaussian releases beside
the tilt, such as the shield on the minimiser. Losses of independent Gaussians add: ``v`` becomes
``sqrt(v^2 + out^2)``, and the case of no change in the tilt, which costs nothing without them, is
counted (privacy.md 5; (c) by the argument that is given there for (b)).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import scipy

from privatelr.privacy.gaussian import log_delta

if TYPE_CHECKING:
    from privatelr.privacy.events import TiltEvent

_NEVER = -1e6
"""Logarithm of a delta that is as good as none."""


def tilt_log_delta(event: TiltEvent, epsilon: float, out: float = 0.0) -> float:
    """Logarithm of delta at epsilon, by the best of the bounds (a), (b) and (c)."""
    m = event.m
    bounds = [any_loss_log_delta(event.curvature_bound * event.kappa, epsilon, m, out)]
    if event.joint_factor is not None:
        kappa = event.kappa * event.joint_factor
        bounds += [
            _free_curvature(kappa, epsilon, m, out),
            _split_curvature(kappa, epsilon, m, out),
        ]
    return min(bounds)


def any_loss_log_delta(curvature: float, epsilon: float, m: float, out: float = 0.0) -> float:
    """(a): any loss, the curvature paid in full; 0, no claim, where epsilon does not cover it.

    `curvature` is ``c kappa``.
    """
    rest = epsilon - math.log1p(curvature)
    if rest < 0:
        return 0.0
    return _log_sum(
        log_delta(rest, math.hypot(2 * m, out)),
        math.log(2) + log_delta(rest, math.hypot(m, out)),
        log_delta(rest, out),
    )


def _free_curvature(kappa: float, epsilon: float, m: float, out: float) -> float:
    """(b): the curvature vanishes where the slope is one; little is left for the other cases."""
    gap, worst = max(0.0, kappa - m * m / 2), math.log1p(kappa / 4)
    if epsilon < max(gap, worst):
        return 0.0
    one = math.hypot(m, out)
    return _log_sum(
        log_delta(epsilon, math.hypot(2 * m, out)),
        log_delta(epsilon - worst, one),
        log_delta(epsilon - gap, one),
        log_delta(epsilon - worst, out),
    )


def _split_curvature(kappa: float, epsilon: float, m: float, out: float) -> float:
    """(c): slopes above and below a split are treated apart; any split is valid."""
    worst = math.log1p(kappa / 4)
    if epsilon < worst:
        return 0.0

    def bound(split: float) -> float:
        paid = math.log1p(kappa * split * (1 - split))
        part = math.hypot((1 + split) * m, out)
        return _log_sum(
            log_delta(epsilon - paid, math.hypot(2 * m, out)),
            log_delta(epsilon - paid, part),
            log_delta(epsilon - worst, part),
            math.log(2) + log_delta(epsilon - worst, math.hypot(m, out)),
            log_delta(epsilon - worst, out),
        )

    # the search subtracts values, and minus infinity from itself is nothing
    found = scipy.optimize.minimize_scalar(
        lambda split: max(bound(split), _NEVER), bounds=(0.5, 1.0), method="bounded"
    )
    return min(bound(float(found.x)), bound(0.5), bound(1.0))


def _log_sum(*logs: float) -> float:
    return min(0.0, float(np.logaddexp.reduce(logs)))
