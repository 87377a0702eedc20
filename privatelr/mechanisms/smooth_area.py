"""An area under the ROC curve alone, with noise by its smooth sensitivity.

How far one record moves an AUC depends on the sizes of the classes, which are private. So does
the noise here, by a bound that changes slowly from a dataset to its neighbours, and the law of the
noise hides this change together with that of the area (Nissim, Raskhodnikova and Smith 2007).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from privatelr.errors import GuaranteeError
from privatelr.mechanisms.calibration.proven_noise import DOWN
from privatelr.mechanisms.perturbation import rounded_sum
from privatelr.mechanisms.score_histogram import HistogramCalibration
from privatelr.numerics import twice_concordant
from privatelr.privacy import Event, PureDP, split
from privatelr.privacy.noise import BlockLaplace, NoiseLaw, Randomness
from privatelr.privacy.noise.student_noise import SHIFT_LOSS, STRETCH_LOSS, StudentNoise
from privatelr.types import Block, FloatArray

_SHARES = {"sizes": 0.1, "area": 0.9}
_MOST_STRETCH = 1 / 3
"""Largest part of the price that goes into hiding the change of the scale."""
_LEAST_CLASS = 3
"""The smaller class is planned to have at least so many records."""
AREA_GRID = 2.0**-40
"""Areas are released as multiples of this."""
_OF_AREA = 2.0**-48
"""What is added to a sensitivity, since an area is rounded to the nearest double."""
_OF_BOUND = 2.0**-44
"""Upper bound on the relative rounding of a sensitivity: its exponent is at most 40 in size where
the exponential is larger than one over the size of a class."""
_SPARE = 2.0**-40
"""Part of epsilon that is left to the rounding of sensitivities, which stretches the noise."""
LEAST_EPSILON = 2.0**-20
"""Price below which there is no such release."""
_SIZES_L1 = 2.0
"""Change of the sizes of both classes together when one record is replaced."""
_PLACES = 24
"""Number of quantiles of the noise on a size, over which errors are averaged."""
_CERTAIN = 1e-9
"""Distance of an area from 0 and 1, whose normal quantile is finite."""
_WORST = 0.5
"""A stated error is at most this: the error of a guess, as areas lie between 0 and 1."""


@dataclass(frozen=True, slots=True)
class AreaCalibration:
    """The price of an area, computed before any data is touched.

    Attributes
    ----------
    n : int
        Number of records that are scored.
    target : PureDP
        The guarantee of the area and of the sizes of the classes.
    sizes, area : PureDP
        Its parts, which add up to it.
    beta : float
        The logarithm of the scale of the noise changes by at most this between neighbours.
    shift : float
        One record moves the area by at most this number of scales.
    """

    n: int
    target: PureDP
    sizes: PureDP
    area: PureDP
    beta: float
    shift: float

    @property
    def size_noise(self) -> NoiseLaw:
        """The noise on the numbers of usable positive and negative records."""
        return BlockLaplace((Block(2, 1.0),), self.sizes.epsilon / _SIZES_L1 * DOWN)

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that a ledger composes for this release."""
        return (self.sizes, self.area)

    def noise(self, smaller: int) -> StudentNoise:
        """Return the noise on the area for a smaller class of this size, which is private."""
        return StudentNoise(smooth_sensitivity(smaller, self.beta) / self.shift)


def smooth_sensitivity(smaller: int, beta: float) -> float:
    """Return a bound on how far one record moves an area, by the size of the smaller class.

    It is ``max(1/m, exp(-beta (m - 1)))`` for the smaller number m of usable positive and negative
    records, and 1 for ``m <= 1``. An area of an empty class is 1/2. No neighbour's area is further
    away, and between neighbours the bound changes by a factor of at most ``exp(beta)``
    (theory.md#area-under-the-curve has the proof).

    It is rounded upwards by more than its rounding error, with an addition for that of an area.
    """
    # the exponent may be so large that it underflows, but not overflow
    bound = 1.0 if smaller <= 1 else max(1 / smaller, math.exp(-beta * (smaller - 1)))
    return bound * (1 + _OF_BOUND) + _OF_AREA


def calibrate_area(n: int, target: PureDP, smaller_class: float = 0.1) -> AreaCalibration:
    """Divide the price of an area, from public facts alone.

    The noise of a scale S(D) / shift, S being `smooth_sensitivity`, has two losses: of the shift of
    the area, by at most `shift` scales, and of the stretch of the noise, by at most ``exp(beta)``.
    They add up to ``SHIFT_LOSS shift + STRETCH_LOSS beta`` (theory.md#area-under-the-curve).

    Beta is the least for which S is 1/m down to half of the guessed size of the smaller class, and
    at most a part of the price: below that size the noise grows fast.

    Parameters
    ----------
    smaller_class
        A public guess of the share of the smaller class. It decides on accuracy alone.
    """
    if target.epsilon < LEAST_EPSILON:
        raise GuaranteeError(
            f"epsilon={target.epsilon:g}: an area takes {LEAST_EPSILON:g} or more."
        )
    area = _parts(target)[1]
    planned = max(n * smaller_class / 2, _LEAST_CLASS)
    beta = min(math.log(planned) / (planned - 1), _MOST_STRETCH * area.epsilon / STRETCH_LOSS)
    return area_with(n, target, beta)


def area_with(n: int, target: PureDP, beta: float) -> AreaCalibration:
    """Return the calibration of an area with this beta: what it leaves of the price is the shift's.

    Raises
    ------
    GuaranteeError
        If it leaves nothing.
    """
    sizes, area = _parts(target)
    left = area.epsilon * DOWN - STRETCH_LOSS * beta - _SPARE
    if not (beta > 0 and left > 0):
        raise GuaranteeError(f"beta={beta:g}: nothing of epsilon={target.epsilon:g} is left.")
    return AreaCalibration(n, target, sizes, area, beta, left / SHIFT_LOSS * DOWN)


def _parts(target: PureDP) -> tuple[PureDP, PureDP]:
    """Return the prices of the sizes and of the area."""
    parts = split(target, _SHARES)
    sizes, area = parts["sizes"], parts["area"]
    assert isinstance(sizes, PureDP)
    assert isinstance(area, PureDP)
    return sizes, area


def is_better_than_counts(
    made: AreaCalibration, counts: HistogramCalibration, smaller_class: float
) -> bool:
    """Whether the noise on an area is less by its smooth sensitivity than by noisy counts.

    Both are forecast for the guessed share of the smaller class. An area of counts changes with
    the count of a bin by how far the share of the other class below that bin is from the area; the
    variance of that is about 1/12.
    """
    smaller = max(round(made.n * smaller_class), 1)
    sizes = math.hypot(1 / smaller, 1 / max(made.n - smaller, 1))
    return made.noise(smaller).sd < counts.count_sd * math.sqrt(counts.bins / 12) * sizes


@dataclass(frozen=True, slots=True)
class AreaRelease:
    """A noisy area and noisy sizes of classes, which are paid for and free to publish.

    Attributes
    ----------
    area : float
        Between 0 and 1.
    positive, negative : int
        The sizes as they were released; they may be negative.
    calibration : AreaCalibration
    """

    area: float
    positive: int
    negative: int
    calibration: AreaCalibration

    @property
    def privacy_sd(self) -> float:
        """Root of the mean square of the noise, over the sizes that the noisy ones leave open."""
        made = self.calibration
        middles = (np.arange(_PLACES) + 0.5) / _PLACES
        tails = np.log(2 * np.minimum(middles, 1 - middles)) * np.sign(middles - 0.5)
        off = tails * made.size_noise.scale
        one, other = np.meshgrid(self.positive + off, self.negative + off)
        smaller = np.clip(np.minimum(one, other), 1, made.n / 2).astype(int).ravel()
        errors = [min(made.noise(size).sd, _WORST) for size in smaller.tolist()]
        return float(np.sqrt(np.mean(np.square(errors))))

    @property
    def sampling_sd(self) -> float:
        """Standard error for other records, if scores of the classes are normal and equally spread.

        Hanley and McNeil (1982), with the chance that two records of a class are both on the right
        side of one of the other: ``A - 2 T(a, 1/sqrt(3))`` by Owen's T function, a being the normal
        quantile of A.
        """
        one, other = (max(size, 2) for size in (self.positive, self.negative))
        area = self.area
        quantile = special.ndtri(min(max(area, _CERTAIN), 1 - _CERTAIN))
        both = area - 2 * float(special.owens_t(quantile, 1 / math.sqrt(3)))
        variance = area * (1 - area) + (one + other - 2) * (both - area**2)
        return math.sqrt(max(variance, 0.0) / (one * other))


def exact_area(link: FloatArray, label: FloatArray) -> tuple[float, int, int]:
    """Return the area, rounded once, and the sizes of both classes; all are private."""
    usable = np.where(np.isnan(link), 0.0, label)
    twice, positive, negative = twice_concordant(usable, link)
    pairs = 2 * positive * negative
    return (twice / pairs if pairs else 0.5), positive, negative


def release_area(
    link: FloatArray, label: FloatArray, calibration: AreaCalibration, randomness: Randomness
) -> AreaRelease:
    """Release the area of scores by class, and the sizes of the classes.

    Parameters
    ----------
    link
        Scores ``(n,)``, NaN where a record cannot be used, each a function of its record alone.
    label
        -1 or 1, or 0 where a record cannot be used.

    Notes
    -----
    **Privacy.** *Covered*: the area and the sizes, by ``calibration.target``. *Neighbours*: replace
    one record. *Assumed public*: n, and the function that gives a record its score. *Not covered*:
    the scale of the noise, time and memory.
    """
    if len(link) != calibration.n:
        raise GuaranteeError(f"scores do not fit an area of n={calibration.n} records.")
    area, positive, negative = exact_area(link, label)
    exact = np.array([positive, negative], dtype=np.float64)
    sizes = rounded_sum(exact, randomness.draw(calibration.size_noise), 1.0)
    noise = randomness.draw(calibration.noise(min(positive, negative)))
    (noisy,) = rounded_sum(np.array([area]), noise, AREA_GRID)
    return AreaRelease(min(max(float(noisy), 0.0), 1.0), int(sizes[0]), int(sizes[1]), calibration)
