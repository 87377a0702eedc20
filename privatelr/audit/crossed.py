"""Neighbours whose records are at an angle: the moments see most of a replacement at a right one.

The sensitivity of the coefficients is attained by opposite records, and that of the moments by
orthogonal ones, whose squares differ most. Between the two angles lies the pair that is worst for
both together.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from privatelr.audit.exact import margin_at
from privatelr.audit.pairs import Pair, longest_row, row_size, straight_pair
from privatelr.privacy.blocks import BlockLaplace
from privatelr.types import parts_of

if TYPE_CHECKING:
    from privatelr.mechanisms.calibration.record import Calibration
    from privatelr.types import FloatArray

RIGHT = math.pi / 2
WIDER = math.radians(110)
"""About where a pair is worst for coefficients and moments together."""
_STEEP = 0.98
"""Of the largest slope: steep, and yet inside the bend of any loss."""
_PINNED = 1000
"""One in so many records is a copy of the old one, where copies pin the minimiser."""


def usual_pair(calibration: Calibration, angle: float) -> tuple[Pair, FloatArray]:
    """Neighbours at an angle where both records are steep; tilts do not move their minimiser."""
    problem = calibration.problem
    if problem.d == 1:
        return straight_pair(calibration, margin_at(problem.loss, _STEEP))
    copies = problem.n / _PINNED if calibration.placement == "objective" else 0.0
    return crossed_pair(calibration, angle, margin_at(problem.loss, _STEEP), copies=copies)


def crossed_pair(
    calibration: Calibration,
    angle: float,
    margin: float,
    *,
    copies: float = 0.0,
    turns: float = 4.0,
) -> tuple[Pair, FloatArray]:
    """Neighbours at an angle that both have a margin at an output, and that output.

    Rows between the two records hold the minimiser there. Copies of the two pin it, if there are
    many, whatever the tilt is; rows along their difference turn the tilt towards it.

    Parameters
    ----------
    calibration : Calibration
        With d > 1.
    angle : float
        Between the records, in radians; the nearest there is, if rows come in blocks.
    margin : float
        Where the loss has a slope, and at ``-margin`` too.
    copies : float
        Of each record.
    turns : float
        Number of rows that turn the tilt.

    Returns
    -------
    Pair
        The other records up to n are zero rows.
    ndarray of shape (d,)
        The output w.
    """
    old, new = _records(calibration, angle)
    problem, middle = calibration.problem, (old + new) / 2
    square = float(middle @ middle)
    w = margin / square * middle
    slope, back = (-float(problem.loss.slope(np.array([z]))[0]) for z in (margin, -margin))
    turning = (new - old) / row_size(calibration, new - old)
    pull = (2 * copies + 1) * slope - problem.penalty * margin / square
    holds = pull / back if pull > 0 else -pull / slope
    rows = np.array([old, new, -np.sign(pull) * middle, turning])
    return Pair(rows, np.array([copies, copies, holds, turns]), old, new), w


def _records(calibration: Calibration, angle: float) -> tuple[FloatArray, FloatArray]:
    """Two admissible rows of length R at this angle, or near it."""
    noise, old = calibration.noise, longest_row(calibration)
    if isinstance(noise, BlockLaplace):
        return old, _at_angle(noise, old, math.cos(angle))
    across = np.roll(old, 1)
    half = angle / 2
    return (
        np.cos(half) * old + np.sin(half) * across,
        np.cos(half) * old - np.sin(half) * across,
    )


def _at_angle(noise: BlockLaplace, row: FloatArray, cosine: float) -> FloatArray:
    """The corner after the largest parts have turned about, or to another of their columns."""
    turned = row.copy()
    missing = (1 - cosine) * float(row @ row)
    for part in sorted(parts_of(noise.blocks), key=lambda part: -part.bound):
        square, own = part.bound**2, row[part.columns]
        ways = {0.0: own, 2 * square: -own}
        if part.size > 1:
            ways[square] = np.roll(own, 1)
        gone = min(ways, key=lambda change: abs(missing - change))
        turned[part.columns] = ways[gone]
        missing -= gone
    return turned
