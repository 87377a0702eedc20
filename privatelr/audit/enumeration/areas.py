"""Private areas under the ROC curve: the exact loss of noise whose scale depends on the data."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy import stats

from privatelr.audit.checks import Check, largest
from privatelr.mechanisms.smooth_area import AreaCalibration, calibrate_area, exact_area
from privatelr.privacy import PureDP
from privatelr.privacy.noise.student_noise import DEGREES
from privatelr.types import FloatArray

PART = "answers"
_Area = tuple[float, int, int]
"""An area, and the sizes of both classes."""
_FARTHEST = 1e4
"""Released areas are looked at up to so many scales away, where losses have reached their limit."""
_LABELS = (-1.0, 0.0, 1.0)
_MANY = 300_000
"""Size of either class of a pair that is to lose nearly the claim."""


def log_law_of_area(made: AreaCalibration, data: _Area, at: FloatArray) -> FloatArray:
    """Log density of a released area, before it is rounded and cut off, at ``(k,)`` numbers."""
    area, positive, negative = data
    scale = made.noise(min(positive, negative)).scale
    return np.asarray(stats.t(DEGREES, loc=area, scale=scale).logpdf(at))


def loss_of_areas(made: AreaCalibration, one: _Area, other: _Area) -> float:
    """The largest loss over all areas and sizes that two neighbours may have released."""
    steps = np.geomspace(1e-3, _FARTHEST, 1500)
    places = []
    for area, positive, negative in (one, other):
        scale = made.noise(min(positive, negative)).scale
        places += [area + scale * steps, area - scale * steps, np.array([area])]
    at = np.concatenate(places)
    log = log_law_of_area(made, one, at) - log_law_of_area(made, other, at)
    moved = abs(one[1] - other[1]) + abs(one[2] - other[2])  # by Laplace noise on each size
    return float(np.abs(log).max()) + moved / made.size_noise.scale


def audit_areas(rng: np.random.Generator, epsilon: float, cases: int) -> Iterator[Check]:
    """The loss of a pair of large classes, of pairs of small ones, and of random tiny data."""
    pairs = [_next_to(m, m) for m in (1, 2, 3, 10, 100, _MANY)]
    pairs += [_random_pair(rng) for _ in range(8 * cases)]
    worst = 0.0
    for one, other in pairs:
        made = calibrate_area(max(one[1] + one[2], other[1] + other[2], 2), PureDP(epsilon))
        worst = largest((worst, loss_of_areas(made, one, other)))
    made = calibrate_area(_MANY, PureDP(epsilon), 1 / _MANY)
    smaller = turn_of(made)
    turn = loss_of_areas(made, *_next_to(smaller, _MANY - smaller))
    yield Check(PART, "area alone: loss where its scale changes most", turn, epsilon)
    yield Check(PART, "area alone: loss over all outcomes", worst, epsilon)


def turn_of(made: AreaCalibration) -> int:
    """The least class for which noise has the scale of its own sensitivity, as of larger ones."""
    smaller = 2
    while math.exp(-made.beta * (smaller - 1)) * smaller > 1:
        smaller += 1
    return smaller


def _next_to(positive: int, negative: int) -> tuple[_Area, _Area]:
    """One positive record above all others, which becomes a negative one; the rest is in reverse.

    It moves the area as far as the sensitivity, if the positive class is not the larger one.
    """
    rest = 0.0 if positive > 1 else 0.5
    return (1 / positive, positive, negative), (rest, positive - 1, negative + 1)


def _random_pair(rng: np.random.Generator) -> tuple[_Area, _Area]:
    n = int(rng.integers(2, 9))
    score, label = rng.integers(0, 3, n + 1).astype(float), rng.choice(_LABELS, n + 1)
    one, other = (exact_area(score[side], label[side]) for side in (slice(1, None), slice(n)))
    return one, other
