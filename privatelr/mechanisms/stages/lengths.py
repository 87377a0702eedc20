"""The length of rows that is released after the scale: few records are longer, and count less.

The noise on coefficients grows with the longest row. A bound that cuts few rows off costs little,
and which bound that is depends on the data. So it is chosen privately, from a public grid, by the
number of records that are longer. That number is public: about as many as the noise is worth.

Rows are divided by the released length. So they are at most as long as a typical row was, whatever
the length is, and the noise of all later stages follows from public facts beforehand. As epsilon
grows, the number goes to zero, and no record counts less.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from scipy import sparse

from privatelr.errors import GuaranteeError
from privatelr.mechanisms.calibration.calibration_record import StageCalibration
from privatelr.mechanisms.calibration.lambda_rules import nominal_epsilon
from privatelr.mechanisms.perturbation import Release
from privatelr.mechanisms.problem import Problem
from privatelr.mechanisms.range_selection import (
    CERTAINTY,
    TOO_LOOSE,
    WIDTH,
    scores_of_high,
    slots_of,
    unit_of_person,
)
from privatelr.mechanisms.request import LENGTHS, Request
from privatelr.mechanisms.stages.scale import ScaleFacts
from privatelr.mechanisms.stages.stage import Calibrations, Expected, Part, Stage
from privatelr.numerics.rows import LooseRows, shares_within
from privatelr.numerics.rows.row_bounds import RowBounds, roots_of
from privatelr.privacy import (
    REPLACE_PERSON,
    BoundedRangeEvent,
    Event,
    Guarantee,
    Promise,
    PureDP,
    range_within,
)
from privatelr.privacy.noise import Draw
from privatelr.privacy.noise.exponential_mechanism import ExponentialMechanism, Gumbel
from privatelr.types import FloatArray, Offset, Rows

PER_COLUMN = 50.0
"""Records that may be longer, for each coefficient and over epsilon. From 50 to 100 it matters
little, and with fewer the weights matter less (``python -m tests.studies.lengths``)."""
LENGTH_GRID = np.array([0.0, *(float(f"{1.1**k:.3g}") for k in range(99))])
"""Candidates for the length, in lengths of a typical row, after the 0 where the first cell begins:
a tenth apart, and rounded for readers."""
_CELLS = len(LENGTH_GRID) - 1
_PARTS = 2**10
"""Numbers of records that may be longer are multiples of one over it."""
_WEIGHED_DOWN = 1 - 2.0**-40
"""Factor of a person's shares, so that rounding cannot make them more than 1 together."""

Change = Callable[[Any], Any]
"""Maps covariates of declared units to those of rows before they are divided by the length."""


@dataclass(frozen=True, slots=True)
class LengthCalibration(StageCalibration):
    """All numbers of the choice of a length, computed before any data is touched.

    Attributes
    ----------
    target : Guarantee
        The guarantee of this release: pure, or a rho.
    eta : float
        The bounded range of the choice, which is also its epsilon.
    longer : float
        The number of records that are meant to be longer, below 1 if none is.
    """

    target: Guarantee
    eta: float
    longer: float
    noise = Gumbel(_CELLS)  # type: ignore[assignment]
    size = 1
    grid = 0.0
    sensitivity = WIDTH

    @property
    def mechanism(self) -> ExponentialMechanism:
        """The mechanism of the choice."""
        return ExponentialMechanism(self.eta, WIDTH)

    @property
    def proven(self) -> Guarantee:
        """The target."""
        return self.target

    @property
    def events(self) -> tuple[Event, ...]:
        """One choice of bounded range."""
        return (BoundedRangeEvent(self.eta, 1, self.target.neighbours),)


def longer_records(d: int, target: Guarantee) -> float:
    """Return the number of records that may be longer than the released length; a public fact.

    Examples
    --------
    >>> from privatelr import PureDP
    >>> from privatelr.mechanisms.stages.lengths import longer_records
    >>> longer_records(6, PureDP(1.0)), longer_records(6, PureDP(1_000.0))
    (300.0, 0.3)
    """
    return PER_COLUMN * d / nominal_epsilon(cast("Promise", target))


def calibrate_lengths(longer: float, n: int, target: Promise) -> LengthCalibration:
    """Divide the price, and aim; takes no data.

    Of n records or persons `longer` may be longer. It is raised where the empty cells beyond all
    records would be likely to be chosen
    (`privatelr.mechanisms.range_selection.calibrate_ranges`).
    """
    eta = target.epsilon if isinstance(target, PureDP) else range_within(target, 1)
    least = (math.log(_CELLS) + CERTAINTY) / (eta * TOO_LOOSE)
    # at most n, and a multiple of a power of two, so that scores are exact in doubles
    aimed = math.ceil(min(max(longer, least), n) * _PARTS) / _PARTS
    return LengthCalibration(target, eta, aimed)


@dataclass(frozen=True, slots=True)
class LengthRelease:
    """A length of rows, which is paid for and free to publish.

    Attributes
    ----------
    length : float
        In lengths of a typical row; an entry of `LENGTH_GRID`.
    calibration : LengthCalibration
    """

    length: float
    calibration: LengthCalibration

    @property
    def values(self) -> FloatArray:
        """The length, as the numbers of every stage are named."""
        return np.array([self.length])


def release_length(
    rows: Rows | LooseRows,
    calibration: LengthCalibration,
    noise: Draw,
    change: Change,
    bounds: RowBounds,
) -> LengthRelease:
    """Count the records that are longer than each candidate, and choose one.

    Parameters
    ----------
    rows : Rows
        Those from which the scale was released.
    calibration : LengthCalibration
    noise : Draw
        Of ``calibration.noise``.
    change : callable
        The map that the scale release gives.
    bounds : RowBounds
        The bounds of rows of typical length, which say what the length of a record is.

    Notes
    -----
    **Privacy.** *Covered*: the length, by ``calibration.target``, for any map that was paid for.
    *Neighbours*: those of the target. *Assumed public*: the map and the candidates. *Not covered*:
    the counts, time and memory. theory.md#length-of-rows has the proof.
    """
    scores = scores_of_high(counts_of_lengths(rows, change, bounds), calibration.longer)
    place = calibration.mechanism.chosen(scores, noise)
    return LengthRelease(float(LENGTH_GRID[place + 1]), calibration)


def counts_of_lengths(rows: Rows | LooseRows, change: Change, bounds: RowBounds) -> FloatArray:
    """Count the records in each slot of the candidates (`slots_of`); it is private.

    A person counts by shares of records, which are 1 together at most.
    """
    return folded_counts(rows, partial(_slots, change, bounds))


def folded_counts(rows: Rows | LooseRows, kernel: Callable[..., tuple[FloatArray]]) -> FloatArray:
    """Return the counts of a kernel that takes a unit of shares, and whether rows are bounded.

    Without persons the unit is None.
    """
    unit = None if rows.persons is None else unit_of_person(rows.persons)
    counts = rows.fold(partial(kernel, unit, rows.is_bounded))[0]
    return np.asarray(counts if unit is None else unit * counts)


def likely_length(counts: FloatArray, calibration: LengthCalibration) -> float:
    """Return the length that is most likely to be chosen; counts of made-up records are public."""
    scores = scores_of_high(counts, calibration.longer)
    return float(LENGTH_GRID[int(np.argmax(scores)) + 1])


def _slots(
    change: Change,
    bounds: RowBounds,
    unit: float | None,
    are_bounded: bool,
    x: Any,
    y: FloatArray,
    z: Offset = 0.0,
) -> tuple[FloatArray]:
    """Count the lengths of some rows; each is computed by itself."""
    covariates = x[:, int(bounds.intercept is not None) :] if are_bounded else x
    roots = roots_of(y)
    if roots is not None and are_bounded:
        covariates = sparse.diags_array(1 / roots) @ covariates
    lengths = np.where(y != 0, 1 / shares_within(change(covariates), bounds), 0.0)
    units = None if unit is None else units_of(y, roots, unit)
    return (slots_of(lengths, LENGTH_GRID, units),)


def units_of(y: FloatArray, roots: FloatArray | None, unit: float) -> FloatArray:
    """Return how many units each record counts with these labels, and the roots of its weight."""
    shares = np.ones(len(y)) if roots is None else roots**2
    return np.floor(shares * _WEIGHED_DOWN / unit)


class LengthStage(Stage[LengthCalibration]):
    """The length of rows; `release_length` releases it from the rows of the scale."""

    name, part, at_coefficients, drawn = LENGTHS, "length of rows", False, 4
    noise_by = "the exponential mechanism"

    def calibrate(
        self, request: Request, problem: Problem, columns: ScaleFacts | None, before: Calibrations
    ) -> LengthCalibration:
        """Calibrate the choice."""
        assert columns is not None
        assert columns.longer is not None
        return calibrate_lengths(columns.longer, columns.n, cast("Promise", request.target))

    def read(
        self,
        values: FloatArray,
        calibration: LengthCalibration,
        release: Release | None,
        expected: Expected,
    ) -> LengthRelease:
        """Return the length, which is one of the grid."""
        (length,) = values.tolist()
        if length not in LENGTH_GRID[1:]:
            raise GuaranteeError("a length of rows takes a number of the grid of lengths.")
        return LengthRelease(length, calibration)

    def facts(self, released: Part) -> list[tuple[str, str]]:
        """Return the choice, and how many records it is meant to leave longer."""
        made: Any = released.calibration
        who = "persons" if made.target.neighbours is REPLACE_PERSON else "records"
        some = f"about {made.longer:.3g} {who} are longer and count less"
        meant = some if made.longer >= 1 else f"none of the {who} is meant to be longer"
        text = f"chosen for {made.target}, from a grid of {_CELLS} lengths, so that {meant}"
        return [("Length of rows", text)]
