"""Ranges of thin numbers, which are released after the moments and before the length of rows.

A number is thin if its spread is a small part of its declared bounds. The noise on its moments
grows with the bounds and hides that spread. Which numbers are thin is seen in the released moments.
For these, both ends of a range are chosen privately, from cells around the released mean
(`privatelr.mechanisms.range_selection`). A range takes the place of the moments in the map of rows.
It clips no value: records beyond it have longer rows, and count less if those are longer than the
released length.

The price is what choices for a few numbers take. It is paid whether there are thin ones or not, and
is small where n epsilon is large. Where it would be a large share there is no such stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
from scipy import sparse

from privatelr.errors import GuaranteeError
from privatelr.mechanisms.calibration.calibration_record import StageCalibration
from privatelr.mechanisms.problem import Problem
from privatelr.mechanisms.range_selection import (
    WIDTH,
    scores_of_high,
    scores_of_low,
    slots_of,
)
from privatelr.mechanisms.request import RANGES, SCALE, Request
from privatelr.mechanisms.stages.lengths import folded_counts, units_of
from privatelr.mechanisms.stages.scale import (
    BEYOND,
    ENDS_OF_NORMAL,
    MOST_RANGES,
    ScaleCalibration,
    ScaleFacts,
    ScaleRelease,
    price_of_range,
    scale_moments,
    spread_to_noise,
    variance_sd,
)
from privatelr.mechanisms.stages.stage import Calibrations, Part, Stage
from privatelr.numerics.rows import LooseRows
from privatelr.numerics.rows.row_bounds import roots_of
from privatelr.privacy import (
    ZCDP,
    BoundedRangeEvent,
    Event,
    Guarantee,
    Promise,
    PureDP,
    range_within,
)
from privatelr.privacy.noise import Draw, Randomness
from privatelr.privacy.noise.exponential_mechanism import ExponentialMechanism, Gumbel
from privatelr.types import FloatArray, Offset, Rows

_OFF, _MOST_UNUSABLE = 0.25, 0.35
"""Distance of a mean from the middle of the bounds, from which on records that cannot be used may
hide that a number is thin, and the share of such records up to which that is looked for."""
_THIN, _LIKELY = 2.5, 1.5
"""A number is thin if its released variance is less than so many deviations of its noise. Usual
numbers have three or more where ranges are paid for. The second one is the largest deviation of
moments from those of a thin number and unusable records."""
_REACH, _EVEN, _FACTOR = 6.0, 600, 1.3
"""Cells are even within so many deviations of the noise on a mean, as many as this at either side
together, and grow by this factor outside."""


def offsets_of(mean_sd: float) -> FloatArray:
    """Return the ends of cells ``(k + 1,)`` around a released mean, in scaled units; public."""
    reach = _REACH * mean_sd
    outer = [reach]
    while outer[-1] < 2.0:  # a mean lies between -1 and 1, and so do all values
        outer.append(outer[-1] * _FACTOR)
    even = np.linspace(-reach, reach, _EVEN + 1)
    return np.concatenate([-np.array(outer[:0:-1]), even, outer[1:]])


@dataclass(frozen=True, slots=True)
class RangeCalibrations(StageCalibration):
    """All numbers of the choice of ranges of thin numbers, computed before any data is touched.

    Attributes
    ----------
    target : Guarantee
        The guarantee of this release: pure, or a rho.
    scale : ScaleCalibration
        That of the moments by which thin numbers are found.
    most : int
        The numbers that the target is meant for; twice as many may share it.
    """

    target: Guarantee
    scale: ScaleCalibration
    most: int
    grid = 0.0
    sensitivity = WIDTH

    @property
    def noise(self) -> Gumbel:  # type: ignore[override]
        """The law of the noise of one choice."""
        return Gumbel(len(offsets_of(self.scale.mean_sd)) - 1)

    @property
    def numbers(self) -> list[int]:
        """The places of numbers among the covariates."""
        return self.scale.facts.columns_of("number")

    @property
    def size(self) -> int:
        """A lower and an upper end for each number."""
        return 2 * len(self.numbers)

    @property
    def proven(self) -> Guarantee:
        """The target."""
        return self.target

    @property
    def events(self) -> tuple[Event, ...]:
        """What all choices add up to; how many divide it depends on the released moments."""
        target = self.target
        if isinstance(target, PureDP):  # ranges add up
            return (BoundedRangeEvent(target.epsilon, 1, target.neighbours),)
        return (cast("Event", target),)

    def draw(self, randomness: Randomness) -> list[Draw]:
        """Draw the noise of all choices that may be made, once."""
        law = self.noise
        return [randomness.draw(law) for _ in range(4 * self.most)]

    def mechanism(self, numbers: int) -> ExponentialMechanism:
        """Return the mechanism of one of the choices for so many thin numbers."""
        return ExponentialMechanism(range_within(cast("Promise", self.target), 2 * numbers), WIDTH)


@dataclass(frozen=True, slots=True, eq=False)
class RangeRelease:
    """Ranges of thin numbers, which are paid for and free to publish.

    Attributes
    ----------
    values : ndarray of shape (2 k,), read-only
        The lower ends of all numbers in scaled units, and then the upper ends: -1 and 1 for those
        that are not thin, and equal ends for a thin number with most values in one cell.
    calibration : RangeCalibrations
    """

    values: FloatArray
    calibration: RangeCalibrations

    def __post_init__(self) -> None:
        self.values.flags.writeable = False


def thin_numbers_of(scale: ScaleRelease, most: int) -> tuple[list[int], FloatArray]:
    """Return the places of numbers that may be thin, the likeliest first, and where they may be.

    A record that cannot be used counts as the middle of all bounds. A few of them give a number
    whose values are all near a place c a variance that is easily seen. Then the second moment is c
    times the mean, so that c is the ratio of both.

    Up to twice as many numbers as the price is meant for are looked at if they are thin. It is
    divided among them, and their ends are less sure.
    """
    mean, variance = scale_moments(scale)
    square, shown = variance + mean**2, spread_to_noise(scale)
    is_off = np.abs(mean) >= _OFF
    centre = np.clip(np.where(is_off, square / np.where(is_off, mean, 1.0), mean), -1.0, 1.0)
    unusable = np.where(is_off, variance / np.where(is_off, square, 1.0), 1.0)
    rank = np.where(shown < _THIN, shown, _THIN + unusable)
    numbers = scale.calibration.facts.columns_of("number")
    thin = [k for k in numbers if shown[k] < _THIN or unusable[k] <= _MOST_UNUSABLE]
    count = max(most, min(2 * most, sum(shown[k] < _THIN for k in numbers)))
    found = sorted(thin, key=lambda place: float(rank[place]))[:count]
    return found, centre[found]


def is_explained(scale: ScaleRelease, place: int, found: FloatArray) -> bool:
    """Whether the moments of a number are those of values in a range and of unusable records.

    Skewed numbers come near to it, so it is asked of ranges that noise would hide by far.
    """
    mean, variance = (moment[place] for moment in scale_moments(scale))
    middle, half = float(found.mean()), float(found[1] - found[0]) / 2
    # the noise on a second moment and on the middle times a mean
    noise = variance_sd(scale.calibration, middle / 2)[place]
    left = variance + mean**2 - middle * mean
    return bool(abs(left) <= _LIKELY * noise and (half / ENDS_OF_NORMAL) ** 2 < noise / 100)


def release_ranges(
    rows: Rows | LooseRows,
    calibration: RangeCalibrations,
    noise: Sequence[Draw],
    scale: ScaleRelease,
) -> RangeRelease:
    """Choose a range for each thin number, by the values in cells around its released mean.

    Parameters
    ----------
    rows : Rows
        Those from which the scale was released.
    calibration : RangeCalibrations
    noise : sequence of Draw
        Two of ``calibration.noise`` for each number that may be looked at.
    scale : ScaleRelease
        The released moments.

    Notes
    -----
    **Privacy.** *Covered*: all ranges together, by ``calibration.target``, for any moments that
    were paid for. *Neighbours*: those of the target. *Assumed public*: the moments and the cells.
    *Not covered*: the counts, time and memory. theory.md#ranges-of-thin-numbers has the proof.
    """
    facts, numbers = scale.calibration.facts, calibration.numbers
    ends = np.repeat([[-1.0], [1.0]], len(numbers), axis=1)
    thin, centres = thin_numbers_of(scale, calibration.most)
    shown = spread_to_noise(scale)
    if thin:
        cells = cells_around(centres, calibration)
        columns = [rows.d - facts.p + place for place in thin]
        choice = calibration.mechanism(len(thin))
        for k, slots in enumerate(counts_in_cells(rows, columns, cells)):
            place, beyond = thin[k], BEYOND * facts.n
            first = choice.chosen(scores_of_low(slots, beyond), noise[2 * k])
            last = choice.chosen(scores_of_high(slots, beyond), noise[2 * k + 1])
            found, is_wide = np.clip(cells[k, [first, last + 1]], -1.0, 1.0), last > first + 1
            if shown[place] < _THIN:
                # most values are in one cell, or noise won: without a width it shows no spread
                ends[:, numbers.index(place)] = found if is_wide else found[0]
            elif is_wide and is_explained(scale, place, found):
                ends[:, numbers.index(place)] = found
    return RangeRelease(ends.ravel(), calibration)


def cells_around(centres: FloatArray, calibration: RangeCalibrations) -> FloatArray:
    """Return the ends of cells ``(k, c + 1)`` around places of numbers; they are public."""
    return centres[:, None] + offsets_of(calibration.scale.mean_sd)


def merged(scale: ScaleRelease, ranges: RangeRelease) -> ScaleRelease:
    """Return the released moments of a file with its released ranges.

    Raises
    ------
    GuaranteeError
        If ends are not those of cells that the moments allow, or the lower ones do not come first.
    """
    made = ranges.calibration
    thin, centres = thin_numbers_of(scale, made.most)
    allowed = np.clip(cells_around(centres, made), -1.0, 1.0)
    for number, low, high in zip(made.numbers, *np.split(ranges.values, 2), strict=True):
        if (low, high) == (-1.0, 1.0):
            continue
        cells = allowed[thin.index(number)] if number in thin else ()
        if not (low <= high and np.isin((low, high), cells).all()):
            raise GuaranteeError("ranges take ends of the cells that follow from the moments.")
    return replace(scale, ranges=ranges.values)


def counts_in_cells(rows: Rows | LooseRows, columns: Sequence[int], ends: FloatArray) -> FloatArray:
    """Count records in the slots of the cells of each column (`slots_of`); it is private.

    A person counts by shares of records, which are 1 together at most.
    """
    return folded_counts(rows, partial(_slots, columns, ends))


def _slots(
    columns: Sequence[int],
    ends: FloatArray,
    unit: float | None,
    are_bounded: bool,
    x: Any,
    y: FloatArray,
    z: Offset = 0.0,
) -> tuple[FloatArray]:
    """Count the values of some columns of some rows in the slots of their cells ``(k, c)``."""
    values, roots = x[:, columns], roots_of(y)
    values = values.toarray() if sparse.issparse(values) else values
    if roots is not None and are_bounded:
        values = values / roots[:, None]
    usable = y != 0
    units = None if unit is None else units_of(y, roots, unit)[usable]
    counted = [slots_of(values[usable, k], own, units) for k, own in enumerate(ends)]
    return (np.array(counted),)


class RangeStage(Stage[RangeCalibrations]):
    """The ranges of thin numbers; `release_ranges` releases them from the rows of the scale."""

    name, part, at_coefficients, drawn = RANGES, "ranges of thin numbers", False, 5
    noise_by = "the exponential mechanism"
    released = RangeRelease

    def calibrate(
        self, request: Request, problem: Problem, columns: ScaleFacts | None, before: Calibrations
    ) -> RangeCalibrations:
        """Calibrate the choices: for how many numbers the price suffices."""
        scale: ScaleCalibration = before[SCALE]
        whole = request.target
        price = whole.rho if isinstance(whole, ZCDP) else cast("Any", whole).epsilon
        most = int(price / price_of_range(scale.facts, whole) * (1 + 1e-9))
        if most < 1 or not (scale.facts.centred and scale.facts.columns_of("number")):
            raise GuaranteeError(
                f"spend: ranges would get {whole}. They take columns that are centred, and more of "
                "the price; leave them out."
            )
        return RangeCalibrations(whole, scale, min(most, MOST_RANGES))

    def facts(self, released: Part) -> list[tuple[str, str]]:
        """Return how many numbers are thin, and the price."""
        made: Any = released.calibration
        low, high = np.split(released.values, 2)
        thin = int(np.sum(high - low < 2.0))
        which = f"{thin} number{'s' * (thin != 1)}" if thin else "none of the numbers"
        text = f"chosen for {made.target}, for {which}: those whose spread the moments hide"
        return [("Ranges", text)]
