"""Draws from the minimiser on the simplex, released as a histogram.

Jain and Thakurta (2014) release draws from such a minimiser instead of the minimiser; here a
draw costs what `simplex_stability` says, which is far less than their Theorem 3 does.

The law is in exact proportion to the exponentials of the doubles that it is given by. A draw is
the option whose stretch of the unit interval holds a uniform number. Doubles with a bound on
their error decide nearly all of them; where a number lies too near to an end of a stretch, more
of its own bits are taken, and the ends are enclosed as tightly as it needs. So no rounding
shifts a probability, and nothing is drawn twice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from privatelr.lazy_import import lazy_import
from privatelr.locks import FIRST_PRECISION, working_precision
from privatelr.mechanisms.selection_release import Selections, require_match
from privatelr.mechanisms.simplex.simplex_calibration import SimplexCalibration
from privatelr.numerics.rows import EntryRows
from privatelr.numerics.solve.entropic import Entropic, coefficients, entropic_minimum, shares
from privatelr.privacy.noise import Arithmetic, Draw, Randomness
from privatelr.types import FloatArray, IntArray

if TYPE_CHECKING:
    import flint
else:
    flint = lazy_import("flint")


_UNIT = 2.0**-53
"""Unit of rounding of a double."""
_BATCH = 100_000
"""Numbers that are held at once."""


@dataclass(frozen=True, slots=True)
class Uniforms:
    """Independent numbers uniform on (0, 1)."""

    dimension: int
    signs: ClassVar[int] = 0

    @property
    def uniforms(self) -> int:
        return self.dimension

    def transform(
        self, uniforms: Sequence[Any], signs: Sequence[int], arithmetic: Arithmetic
    ) -> list[Any]:
        return list(uniforms)


def draw_histogram(logs: FloatArray, draws: int, randomness: Randomness) -> IntArray:
    """How often each option comes up in so many draws.

    Parameters
    ----------
    logs : ndarray of shape (k,)
        Logarithms of the weights, finite, up to a common constant.
    draws : int
        How many, with replacement.
    randomness : Randomness

    Returns
    -------
    ndarray of int, shape (k,)
        Sums to `draws`.

    Notes
    -----
    **Privacy.** *Covered*: nothing by itself; the law is what a mechanism pays for.
    *Neighbours*: any. *Assumed public*: k and `draws`. *Not covered*: the logs, time and memory.
    """
    counts = np.zeros(len(logs), dtype=np.intp)
    for done in range(0, draws, _BATCH):
        draw = randomness.draw(Uniforms(min(_BATCH, draws - done)))
        counts += np.bincount(options_of(logs, draw), minlength=len(logs))
    return counts


def options_of(logs: FloatArray, draw: Draw) -> IntArray:
    """The option of each uniform number."""
    (ends, error), last = ends_of(logs), len(logs) - 1
    numbers = draw.nearest()
    found = np.searchsorted(ends, numbers - error, side="right")
    certain = found == np.searchsorted(ends, numbers + error, side="right")
    # above the last but one end by more than the error: of the last option for sure
    certain |= numbers > (ends[-2] if last else -math.inf) + error
    found = np.minimum(found, last)
    if (doubtful := np.flatnonzero(~certain)).size:
        found[doubtful] = _decided(logs, draw, doubtful)
    return np.asarray(found, dtype=np.intp)


def ends_of(logs: FloatArray) -> tuple[FloatArray, float]:
    """Upper ends ``(k,)`` of the stretches, and how far they and the numbers may be off together.

    An exponential is good to 8 units of rounding and to one for each unit of its argument, which
    weigh at most ``log k`` in the sum; sums are good to one for each term. The numbers are good
    to two. Twice everything, for the division and for what is added to compare.
    """
    weights = np.exp(logs - logs.max())
    sums = np.cumsum(weights)
    error = 4 * (len(logs) + math.log(len(logs)) + 16) * _UNIT
    return sums / sums[-1], error


def _decided(logs: FloatArray, draw: Draw, doubtful: IntArray) -> list[int]:
    """The options of the doubtful numbers, from more of the same bits."""
    precision = FIRST_PRECISION
    while True:
        numbers = draw.enclose(precision)
        with working_precision(precision):
            top = flint.arb(float(logs.max()))
            sums = list(accumulate((flint.arb(float(log)) - top).exp() for log in logs))
            marks = [numbers[index] * sums[-1] for index in doubtful.tolist()]
            found = [_stretch(sums, mark) for mark in marks]
        known = [option for option in found if option is not None]
        if len(known) == len(found):
            return known
        precision *= 2


def _stretch(sums: list[flint.arb], mark: flint.arb) -> int | None:
    """The first option whose upper end is certainly above the mark, or None while in doubt."""
    low, high = 0, len(sums) - 1
    while low < high:  # the last sum is the total, which no mark reaches
        middle = (low + high) // 2
        if mark < sums[middle]:
            high = middle
        elif mark >= sums[middle]:
            low = middle + 1
        else:
            return None
    return low


_PATIENCE = 1000
"""Slow steps that a plain fit waits for; a private one may not show that it gave up."""


def release_simplex(
    rows: EntryRows, calibration: SimplexCalibration, randomness: Randomness
) -> Selections:
    """Minimise, draw from the minimiser, release the histogram of the draws.

    ``(1/n) sum_i loss(y_i x_i.w) + lambda sum_k theta_k log theta_k`` is minimised over the
    probabilities theta of the 2 d signed columns, with ``w = radius (theta_+ - theta_-)``. The
    minimiser is never kept: it is private, and only a fit without a guarantee releases it.

    Parameters
    ----------
    rows : EntryRows
    calibration : SimplexCalibration
    randomness : Randomness

    Raises
    ------
    NotConvergedError
        Only by a fit without a guarantee, where its lambda is too small to be minimised.

    Notes
    -----
    **Privacy.** *Covered*: the counts, by ``calibration.target``. *Neighbours*: replace one
    record. *Assumed public*: everything in ``calibration.problem``. *Not covered*: time and
    memory.
    """
    require_match(rows, calibration)
    logs = minimiser_logs(rows, calibration)
    if calibration.stability is None:
        none = np.zeros(calibration.problem.options, dtype=np.intp)
        exact = coefficients(shares(logs), calibration.problem.radius)
        return Selections(none, calibration, calibration.target, exact=exact)
    counts = draw_histogram(logs, calibration.draws, randomness)
    return Selections(counts, calibration, calibration.target)


def minimiser_logs(rows: EntryRows, calibration: SimplexCalibration) -> FloatArray:
    """Log weights ``(2 d,)`` of the minimiser as a release computes it; never to be released.

    A fit without a guarantee gives up where lambda is too small; a private one may not.
    """
    problem = calibration.problem
    flat = np.zeros(problem.options)
    objective = Entropic(rows, problem.loss, problem.radius, problem.penalty, flat)
    patience = _PATIENCE if calibration.stability is None else None
    return entropic_minimum(objective, calibration.tolerance, patience=patience)
