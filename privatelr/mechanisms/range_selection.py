"""The choice of a range for private numbers: a private quantile near either end.

A declared outer range is divided into cells by public candidates for its ends. At either end the
exponential mechanism chooses a cell, by the number of records beyond it. The suggested range goes
from the outer edge of the lower cell to the outer edge of the upper one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privatelr.errors import GuaranteeError
from privatelr.privacy import (
    REPLACE_PERSON,
    ZCDP,
    BoundedRangeEvent,
    Event,
    Guarantee,
    Promise,
    PureDP,
    range_within,
)
from privatelr.privacy.accounting import in_agreement
from privatelr.privacy.noise import Randomness
from privatelr.privacy.noise.exponential_mechanism import ExponentialMechanism
from privatelr.types import FloatArray

TOO_LOOSE, TOO_TIGHT = 0.75, 0.25
"""What a record costs that lies too little, or too much, beyond a cell; together they are 1.

Values beyond the range are clipped, which harms few records; a range that is much too wide harms
all of them.
"""
WIDTH = TOO_LOOSE + TOO_TIGHT
"""The length of an interval that contains the changes of all scores between neighbours."""
CERTAINTY = 5.0
"""The cells beyond all records have together a chance of at most ``exp(-5)``, under 1 %."""
_MOST_BEYOND = 0.2
"""A range from which more than this share of the records is clipped at an end is refused."""
_STEPS = 100
"""The outer range has about this number of equal steps, between 57 and 143."""
_READABLE = (1, 1.5, 2, 3, 4, 5, 6, 8)
"""Candidates are these numbers times a power of ten; neighbours differ by a quarter to a half."""
_DECADES = 6
"""Candidates are as small as the larger end of the outer range divided by ``10**6``."""
_BITS = 52
"""Bits of a sum of shares; a share has at least as many as `persons` leaves of them."""
_NARROWEST = 4e-12
"""Least distance of two candidates relative to their size, above that of declared bounds."""


def candidate_ends(low: float, high: float) -> FloatArray:
    """Return candidates ``(k + 1,)`` for the ends of a range, in increasing order; takes no data.

    They are the ends of the outer range, multiples of a readable step, which is about a hundredth
    of it, and readable numbers on a logarithmic scale at both sides of zero. So neither a range
    around a large number nor one that is a millionth of the outer range is missed.
    """
    power = math.floor(math.log10((high - low) / _STEPS))
    step = min((1, 2, 5, 10), key=lambda each: abs(_STEPS - (high - low) / _spelled(each, power)))
    found = {low, high, 0.0}
    unit = _spelled(step, power)
    for times in range(math.floor(low / unit), math.ceil(high / unit) + 1):
        found.add(_spelled(times * step, power))
    top = math.floor(math.log10(max(abs(low), abs(high))))
    sizes = [_spelled(x, top - k) for k in range(_DECADES + 1) for x in _READABLE]
    found |= {sign * size for size in sizes for sign in (-1, 1)}
    inner = sorted(end for end in found if low < end < high)
    kept = [low]
    for end in inner:
        gap = _NARROWEST * max(abs(end), 1e-12)
        if end - kept[-1] > gap and high - end > gap:
            kept.append(end)
    return np.array([*kept, high])


def _spelled(number: float, power: int) -> float:
    """Return the double nearest to ``number * 10**power``, so that equal numbers are equal."""
    return float(f"{number}e{power}")


@dataclass(frozen=True, slots=True)
class RangeCalibration:
    """All numbers of the choice of ranges, computed before any data is touched.

    Attributes
    ----------
    n : int
        Number of records, those without a value included, or of persons.
    target : Guarantee
        The guarantee of all ranges together.
    eta : float
        The bounded range of the choice of one end, which is also its epsilon.
    columns : int
    beyond : int
        The number of records that are meant to lie beyond either end of a range.
    """

    n: int
    target: Guarantee
    eta: float
    columns: int
    beyond: int

    @property
    def choices(self) -> int:
        """Two for each column."""
        return 2 * self.columns

    @property
    def mechanism(self) -> ExponentialMechanism:
        """The mechanism of one choice."""
        return ExponentialMechanism(self.eta, WIDTH)

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that a ledger composes for all ranges; none if the target says it all."""
        target = self.target
        if not isinstance(target, Promise):
            return ()
        event = BoundedRangeEvent(self.eta, self.choices, target.neighbours)
        return in_agreement(target, (event,))


def calibrate_ranges(n: int, cells: list[int], target: Promise) -> RangeCalibration:
    """Divide a price evenly among both ends of all columns, and aim; takes no data.

    The number m of records beyond an end is the smallest at which the empty cells outside of all
    records, of which there may be as many as cells, are unlikely to be chosen: with
    ``eta TOO_LOOSE m = log(cells) + 5``, their scores are that much below the best one.

    Parameters
    ----------
    n : int
        Number of records.
    cells : list of int
        Number of cells of each column.
    target : PureDP, ZCDP or ApproxDP

    Raises
    ------
    GuaranteeError
        If there are fewer than five records, or more than a fifth of them would have to lie beyond
        an end, because the choices would be mostly noise.
    """
    size, whose = ("m", "persons") if target.neighbours is REPLACE_PERSON else ("n", "records")
    if _MOST_BEYOND * n < 1:
        raise GuaranteeError(
            f"{size} = {n}: a range takes at least {math.ceil(1 / _MOST_BEYOND)} {whose}, of which "
            "a fifth may lie beyond either end, and no price helps with fewer; declare bounds= "
            "from what is publicly known."
        )
    eta = range_within(target, 2 * len(cells))
    needed = math.log(max(cells)) + CERTAINTY
    beyond = math.ceil(needed / (eta * TOO_LOOSE))
    if beyond > _MOST_BEYOND * n:
        least = needed / (TOO_LOOSE * math.floor(_MOST_BEYOND * n))
        price = f"rho={target.rho:g}" if isinstance(target, ZCDP) else f"eps={target.epsilon:g}"
        more = "take a larger price, "
        if isinstance(target, PureDP):
            epsilon = math.ceil(2 * len(cells) * least * 1000) / 1000
            more = f"take eps of at least {epsilon:g}, "
        raise GuaranteeError(
            f"{price}: at {size} = {n} the ends of {len(cells)} "
            f"column{'s' * (len(cells) > 1)} would be mostly noise; "
            f"{more}or declare bounds= from what is publicly known."
        )
    return RangeCalibration(n, target, eta, len(cells), beyond)


def slots_of(values: FloatArray, ends: FloatArray, units: FloatArray | None = None) -> FloatArray:
    """Count the values in each slot of ``(2 k + 3,)``: between candidates, and equal to one.

    Slot ``2 i + 1`` holds the values equal to candidate i, and slot ``2 i`` those below it and
    above the one before. Counts of parts of the records add up. Where `units` ``(n,)`` say how much
    a record counts, they are whole numbers.
    """
    slots = np.searchsorted(ends, values, "left") + np.searchsorted(ends, values, "right")
    return np.bincount(slots, units, minlength=2 * len(ends) + 1).astype(np.float64)


def share_grid(persons: int) -> float:
    """Return the unit of shares, of which a double holds as many as all persons have."""
    return 2.0 ** (math.ceil(math.log2(persons)) - _BITS)


def unit_of_person(persons: int) -> float:
    """Return the unit of counts by shares: scores of so many persons are exact in doubles.

    A score takes two bits more than a sum of shares, as its factors are quarters.
    """
    return 4 * share_grid(persons)


def scores_of_low(slots: FloatArray, beyond: float) -> FloatArray:
    """Return the score of each cell ``(k,)`` as the one in which a range begins.

    Let A be the number of values below a cell ``[s, t)``, and B the number below t. The score is
    ``-max(TOO_TIGHT (A - m), TOO_LOOSE (m - B), 0)``: it is 0 if the value that m records lie
    below is in the cell.

    **Sensitivity.** If one record is replaced, or all records of a person, which count 1 at most
    together, the changes of all scores lie in one interval of length `WIDTH`. A record without a
    value is below no point. theory.md#choice-of-a-range has the proof.
    """
    below = np.cumsum(slots)[::2][:-1]  # of each candidate: the values that are less than it
    less, more = below[:-1].astype(np.float64), below[1:].astype(np.float64)
    loss = np.maximum(TOO_TIGHT * (less - beyond), TOO_LOOSE * (beyond - more))
    return -np.maximum(loss, 0.0)


def scores_of_high(slots: FloatArray, beyond: float) -> FloatArray:
    """Return the score of each cell as the one in which a range ends.

    These are the scores of `scores_of_low` for values of opposite sign, and a cell contains its
    upper edge in place of its lower one. Here a record without a value is above no point.
    """
    return scores_of_low(slots[::-1], beyond)[::-1]


def choose_range(
    slots: FloatArray, ends: FloatArray, calibration: RangeCalibration, randomness: Randomness
) -> tuple[float, float]:
    """Choose a range by the number of values in each slot.

    If by chance the lower cell is above the upper one, the range contains both.

    Notes
    -----
    **Privacy.** *Covered*: the range, by two choices of ``calibration.mechanism``. *Neighbours*:
    one record is replaced, or has a value in one dataset and none in the other, or all records of
    a person are. *Assumed public*: n (of persons then) and the candidates. *Not covered*: the
    counts, time and memory.
    """
    choice, beyond = calibration.mechanism, calibration.beyond
    first = choice.choose(scores_of_low(slots, beyond), randomness)
    last = choice.choose(scores_of_high(slots, beyond), randomness)
    return float(ends[min(first, last)]), float(ends[max(first, last) + 1])
