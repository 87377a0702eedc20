"""Composition by privacy loss distributions, with the optional library dp-accounting.

Only its distributions are used, never its events: those take the sensitivity of REPLACE_ONE
twice where ours has it already (privacy.md 9). Where the library is missing, or cannot say
anything, the answers are infinity and 1, which no caller prefers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import scipy

from privatelr.privacy.events import Event, GaussianEvent, TiltEvent
from privatelr.privacy.guarantees import PureDP
from privatelr.types import FloatArray

_STEPS = 20_000
"""Steps of the grid of losses, up to the loss that other methods find."""
_MOST_STEPS = 200_000
_SMALLEST_DELTA = 1e-10
"""Delta below which rounding would show."""
_ROUNDING = 1e-13
"""Bound on what one convolution loses to rounding, and on the grid relative to delta."""
_SLACK = 1e-9
_MOST_KINDS = 40
_LARGEST_LOSS = 200.0


@cache
def _library() -> Any | None:
    try:
        from dp_accounting.pld import privacy_loss_distribution
    except ImportError:
        return None
    return privacy_loss_distribution


def epsilon_at(counts: Mapping[Event, int], delta: float, known: float) -> float:
    """Epsilon of the composition at this delta; `known` is a bound that sets the scale."""
    if delta < _SMALLEST_DELTA or not 0 < known <= _LARGEST_LOSS:
        return math.inf
    composed = _compose(counts, known)
    spare = delta * (1 - _SLACK) - _ROUNDING * (1 + len(counts))
    return math.inf if composed is None else float(composed.get_epsilon_for_delta(spare))


def delta_at(counts: Mapping[Event, int], epsilon: float) -> float:
    """Delta of the composition at this epsilon."""
    composed = _compose(counts, epsilon) if 0 < epsilon <= _LARGEST_LOSS else None
    if composed is None:
        return 1.0
    found = float(composed.get_delta_for_epsilon(epsilon))
    return max(found * (1 + _SLACK) + _ROUNDING * (1 + len(counts)), _SMALLEST_DELTA)


def _compose(counts: Mapping[Event, int], scale: float) -> Any | None:
    """The distribution of the sum of all losses, rounded up to a grid."""
    library = _library()
    known = all(isinstance(event, PureDP | GaussianEvent | TiltEvent) for event in counts)
    if library is None or not known or not 0 < len(counts) <= _MOST_KINDS:
        return None
    step = _step(counts, scale)
    composed = None
    for event, k in counts.items():
        single = _distribution(library, event, step)
        several = single.self_compose(k) if k > 1 else single
        composed = several if composed is None else composed.compose(several)
    return composed


def _step(counts: Mapping[Event, int], scale: float) -> float:
    """Width of the grid: fine, not too fine, and a divisor of the smallest pure epsilon."""
    widest = sum(_width(event, k) for event, k in counts.items())
    step = max(scale / _STEPS, widest / _MOST_STEPS)
    smallest = min((e.epsilon for e in counts if isinstance(e, PureDP)), default=0.0)
    if smallest < step:
        return step
    # a little more than the quotient, so that rounding up does not add a step
    return smallest / math.ceil(smallest / step) * (1 + 1e-12)


def _width(event: Event, times: int) -> float:
    """About how large a loss can be."""
    match event:
        case PureDP(epsilon=epsilon):
            return times * epsilon
        case GaussianEvent(mu=mu):
            return times * mu**2 / 2 + 10 * mu * math.sqrt(times)
        case TiltEvent():
            return times * _largest_loss(event)
    return 0.0


def _largest_loss(event: TiltEvent) -> float:
    """A loss that a tilt exceeds with a probability below rounding."""
    return event.curvature_cost + 2 * event.m**2 + 20 * event.m


def _distribution(library: Any, event: Event, step: float) -> Any:
    match event:
        case PureDP(epsilon=epsilon):
            return _of_masses(library, *_randomised_response(epsilon, step), step)
        case GaussianEvent(mu=mu):
            # mu has the sensitivity of our neighbours, so the library's relation adds nothing
            return library.from_gaussian_mechanism(
                standard_deviation=1 / mu, sensitivity=1, value_discretization_interval=step
            )
        case TiltEvent():
            return _of_masses(library, *_tilt(event, step), step)
    raise AssertionError("asked for known events only")


def _of_masses(library: Any, first: int, masses: FloatArray, infinite: float, step: float) -> Any:
    indices = range(first, first + len(masses))
    masses_by_index = {i: float(mass) for i, mass in zip(indices, masses, strict=True) if mass > 0}
    return library.PrivacyLossDistribution.create_from_rounded_probability(
        masses_by_index, infinite, step
    )


def _randomised_response(epsilon: float, step: float) -> tuple[int, FloatArray, float]:
    """The extremal case of pure epsilon, for the next epsilon on the grid."""
    steps = math.ceil(epsilon / step)
    masses = np.zeros(2 * steps + 1)
    masses[0], masses[-1] = scipy.special.expit(-steps * step), scipy.special.expit(steps * step)
    return -steps, masses, 0.0


def _tilt(event: TiltEvent, step: float) -> tuple[int, FloatArray, float]:
    """A distribution that dominates every loss of the tilt, rounded up."""
    losses = step * np.arange(math.ceil(_largest_loss(event) / step) + 1, dtype=np.float64)
    above = np.append(1.0, tilt_survival(event, losses))
    masses = np.maximum(above[:-1] - above[1:], 0.0)
    return 0, masses, float(above[-1])


def tilt_survival(event: TiltEvent, loss: FloatArray) -> FloatArray:
    """Bound on the probability that the loss of a tilt is above each number from 0.

    privacy.md 4.3: with the curvature paid in full; and for a loss with a joint bound also
    with the curvature paid where the slope is small. Both hold, so the smaller does.

    Parameters
    ----------
    loss
        Shape ``(k,)``.
    """
    m = event.m

    def above(paid: float, shift: float) -> FloatArray:
        """Of a Gaussian release with mu = `shift`."""
        return np.asarray(scipy.special.ndtr(-(loss - paid - shift**2 / 2) / shift))

    a = event.curvature_cost
    bound = np.minimum(1.0, above(a, 2 * m) + 2 * above(a, m))
    if event.joint_factor is None:
        return np.asarray(bound)
    kappa = event.kappa * event.joint_factor
    gap, worst = max(0.0, kappa - m**2 / 2), math.log1p(kappa / 4)
    split = above(0.0, 2 * m) + above(gap, m) + above(worst, m) + (loss < worst)
    return np.asarray(np.minimum(bound, split))
