"""Neighbouring datasets as a few weighted rows, among them pairs that attain the bounds.

Opposite records attain the sensitivity of the coefficients. Orthogonal records attain that of the
moments, because their squares differ most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from privatelr.audit.law_definitions import definition_of
from privatelr.errors import ArgumentError
from privatelr.mechanisms.calibration import Calibration
from privatelr.mechanisms.signed_rows import SignedRows
from privatelr.types import FloatArray

PULL = 0.5
"""Rows that hold the minimiser in place have this margin, where every loss has a slope."""
TURN = -40.0
"""Rows that turn the tilt have this margin, where no loss has curvature."""
_DEEPEST = 4000.0
"""A pair of opposite records has an output w with ``R |w|`` of at most this."""


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Two datasets that differ in one record, or in all records of a person.

    Attributes
    ----------
    shared : SignedRows
        The records that both datasets have.
    old, new : SignedRows
        The replaced records in the first and in the second dataset. The counts of a person's
        records are their weights.

    Examples
    --------
    >>> import numpy as np; from privatelr.audit import Pair, SignedRows
    >>> shared, one = SignedRows(np.array([[0.6, 0.8]]), np.array([99.0])), np.ones(1)
    >>> Pair(shared, SignedRows(np.array([[1.0, 0.0]]), one), SignedRows(-np.eye(2)[:1], one)).n
    100
    """

    shared: SignedRows
    old: SignedRows
    new: SignedRows

    @property
    def d(self) -> int:
        """The number of columns."""
        return int(self.shared.rows.shape[1])

    @property
    def n(self) -> int:
        """The number of records of either dataset, or of shared records and the person."""
        return round(float(self.shared.counts.sum())) + 1

    def swapped(self) -> Pair:
        """The same two datasets in the opposite order."""
        return Pair(self.shared, self.new, self.old)

    def change(self) -> SignedRows:
        """The second dataset less the first: the old record with count -1, the new one with 1."""
        return _joined(replace(self.old, counts=-self.old.counts), self.new)

    def first(self) -> SignedRows:
        """The dataset with the old record."""
        return _joined(self.shared, self.old)

    def second(self) -> SignedRows:
        """The dataset with the new record."""
        return _joined(self.shared, self.new)


def _joined(first: SignedRows, second: SignedRows) -> SignedRows:
    parts = (
        np.concatenate([getattr(first, name), getattr(second, name)])
        for name in ("rows", "counts", "sizes", "shifts")
    )
    return SignedRows(*parts)


def pair_of_rows(rows: FloatArray, counts: FloatArray, old: FloatArray, new: FloatArray) -> Pair:
    """A pair with these shared rows ``(k, d)`` and replaced rows ``(d,)``, without weights."""
    return Pair(
        SignedRows(rows, counts), *(SignedRows(row[None], np.ones(1)) for row in (old, new))
    )


def signed_rows(x: FloatArray, y: FloatArray, offset: FloatArray | None = None) -> SignedRows:
    """Rows ``(n, d)``, labels ``(n,)`` and offsets ``(n,)`` as distinct signed rows with counts."""
    signs = np.sign(y)
    shifts = np.zeros(len(y)) if offset is None else signs * offset
    signed = np.column_stack([x * signs[:, None], np.maximum(np.abs(y), 1.0), shifts])
    found, counts = np.unique(signed, axis=0, return_counts=True)
    return SignedRows(found[:, :-2], counts.astype(np.float64), found[:, -2], found[:, -1])


def pair_of(data: SignedRows, neighbour: SignedRows) -> Pair:
    """Split two datasets into what they share and the record in which they differ.

    The order of the records does not matter, because the objective does not depend on it.

    Raises
    ------
    ArgumentError
        If the datasets have different numbers of records, or differ in more than one record.
    """
    both = [np.column_stack([s.rows, s.sizes, s.shifts]) for s in (data, neighbour)]
    found, place = np.unique(np.vstack(both), axis=0, return_inverse=True)
    counts = np.zeros((2, len(found)))
    k = len(data.rows)
    np.add.at(counts[0], place.reshape(-1)[:k], data.counts)
    np.add.at(counts[1], place.reshape(-1)[k:], neighbour.counts)
    gone, come = np.maximum(counts[0] - counts[1], 0), np.maximum(counts[1] - counts[0], 0)
    if gone.sum() != come.sum() or gone.sum() > 1:
        raise ArgumentError(
            "data and neighbour: takes two datasets of one size that differ in one record."
        )
    if gone.sum() == 0:  # a record is replaced by itself
        gone[0] = come[0] = 1
    shared, old, new = (
        SignedRows(found[at, :-2], held[at], *found[at, -2:].T)
        for held in (counts[0] - gone, gone, come)
        for at in [held > 0]
    )
    return Pair(shared, old, new)


def right_pair(calibration: Calibration) -> Pair:
    """Two records at about a right angle, for which moments move most; in one column opposite."""
    if calibration.problem.d == 1:
        return straight_pair(calibration, 0.0)[0]
    law = definition_of(calibration.noise)
    old, new = law.at_right_angle(longest_row(calibration))
    return pair_of_rows(np.zeros((1, len(old))), np.ones(1), old, new)


def opposed_pair(
    calibration: Calibration, *, old: float, new: float, turns: float = 0.0
) -> tuple[Pair, FloatArray]:
    """Two nearly opposite records that can both be misclassified at an output w, and that w.

    At w the old record has margin `old` and the new one margin `new`, although the two rows are
    opposite up to a small angle: w is long, and nearly orthogonal to both. So their gradients
    differ by ``2 L R`` where neither adds to the curvature. Rows along w make it the minimiser;
    misclassified rows turn the tilt in the direction of the difference of the records. As n grows,
    every bound of the package for d > 1 is attained on such pairs.

    Parameters
    ----------
    calibration : Calibration
        Its d is above 1.
    old, new : float
        The margins of the two records at the output.
    turns : float
        Number of rows that turn the tilt.

    Returns
    -------
    Pair
        At most n records; the others are zero rows, which add nothing to the objective.
    ndarray of shape (d,)
        The output w.
    """
    problem = calibration.problem
    slopes = problem.loss.slope(np.array([PULL, old, TURN]))
    # R |w| is such that half of the n records are enough to make w the minimiser; the larger it
    # is, the nearer are the records to opposite
    half = problem.n / 2 * problem.kappa * float(-slopes[0]) * PULL
    depth = min(_DEEPEST, math.sqrt(half))
    axis = longest_row(calibration)
    length = float(np.linalg.norm(axis))
    # a unit vector orthogonal to the axis, in its two largest coordinates
    first, second = np.argsort(-np.abs(axis), kind="stable")[:2]
    across = np.zeros(len(axis))
    across[first], across[second] = -axis[second], axis[first]
    across /= np.linalg.norm(across)
    w = depth / length * across

    def at(margin: float, sign: float) -> FloatArray:
        """The longest admissible row along the axis that has this margin at w."""
        size = 1.0
        for _ in range(30):
            row = sign * axis + size * margin / depth * length * across
            size = row_size(calibration, row)
        return row / size

    record, replacement = at(old, -1.0), at(new, 1.0)
    turning, hold = at(TURN, 1.0), PULL / depth * length * across
    others = slopes[1] * record + turns * slopes[2] * turning + problem.penalty * w
    count = float(others @ across) / float(-slopes[0] * hold @ across)
    counts = np.array([max(np.ceil(count), 0.0), turns])
    return pair_of_rows(np.array([hold, turning]), counts, record, replacement), w


def straight_pair(
    calibration: Calibration, old: float, turns: float = 2.0
) -> tuple[Pair, FloatArray]:
    """Two exactly opposite records, and an output w at which the old one has margin `old`.

    The output lies along the records, so the new record has margin ``-old`` there. Shared records
    equal to the new one, `turns` of them, turn the tilt; there are no other records that are not
    zero. A loss that is linear up to a narrow interval of curvature attains its bound on this pair,
    for any d and any n.
    """
    axis = longest_row(calibration)
    w = old * axis / float(axis @ axis)
    return pair_of_rows(-axis[None], np.array([turns]), axis, -axis), w


def longest_row(calibration: Calibration) -> FloatArray:
    """An admissible row ``(d,)`` of length R; if rows have blocks, it is a corner of them."""
    return definition_of(calibration.noise).longest_row(calibration.problem)


def row_size(calibration: Calibration, row: FloatArray) -> float:
    """The size of a row relative to its bounds; at most 1 if the row is admissible."""
    size = float(np.linalg.norm(row)) / calibration.problem.radius
    return max(size, definition_of(calibration.noise).row_size(row))


def pinned_boundary(n: int, scale: float = 1.0, size: float = 1.0) -> Pair:
    """A realistic pair with one covariate: rows on both sides fix a boundary at ``x = 0.9133``.

    The old record (x = 1, y = +1) and the new one (x = 0.8266, y = -1) are both misclassified by a
    large margin. The first column is an intercept of size `scale`; all rows are multiplied by
    `size`.
    """
    t, gap, half = 0.9133, 0.0229, (n - 1) / 2
    rows = size * np.array([[scale, t - gap], [-scale, -(t + gap)]])
    old, new = size * np.array([scale, 1.0]), size * np.array([-scale, -(2 * t - 1)])
    return pair_of_rows(rows, np.array([half, half]), old, new)


def random_pair(rng: np.random.Generator, calibration: Calibration, size: int = 5) -> Pair:
    """A random pair of a few distinct rows, many of them of the largest admissible size."""
    d = calibration.problem.d
    rows = rng.standard_normal((size + 2, d))
    if rng.uniform() < 0.5 and d > 1:
        rows[-1] = -rows[-2] + 0.3 * rng.standard_normal(d)
    rows = np.array([row / row_size(calibration, row) for row in rows])
    rows[:size] *= rng.uniform(size=(size, 1)) ** rng.choice([0.0, 0.5])
    counts = rng.choice([1.0, 3.0, 100.0], size=size)
    return pair_of_rows(rows[:size], counts, rows[-2], rows[-1])
