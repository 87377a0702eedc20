"""Types that more than one layer of the package uses."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.intp]
ObjectArray = npt.NDArray[np.object_]

Placement = Literal["objective", "output"]
"""Where the noise goes: into the objective before it is minimised, or onto its minimiser."""

Offset = FloatArray | float
"""What is added to linear predictors: one number for each row, or 0 for rows that have none."""
Kernel = Callable[..., tuple[Any, ...]]
"""A function of one block of rows ``(m, d)``, labels ``(m,)`` and, of rows that have one, an offset
``(m,)``; its results are summed."""


def row_radius(bound: float, intercept: float | None) -> float:
    """R, rounded up so that no admissible row is longer.

    Parameters
    ----------
    bound : float
        Largest length of the covariates of a row.
    intercept : float or None
        Constant of the intercept column; None for no such column.
    """
    return math.nextafter(math.hypot(bound, intercept or 0.0), math.inf)


BlockNorm = Literal["l1", "l2"]


@dataclass(frozen=True, slots=True)
class Block:
    """Neighbouring columns, and a bound on the entries of a row in them.

    Attributes
    ----------
    size : int
        Number of columns.
    bound : float
        Largest sum of the sizes of their entries; under ``norm="l2"``, largest length.
    norm : {"l1", "l2"}
        All columns under "l2" are *one* part, wherever they are. Their blocks have the same
        bound, which limits the length of all these columns together.
    """

    size: int
    bound: float
    norm: BlockNorm = "l1"


FACTOR_SCALE = 2.0
"""Columns whose scale is not released get this factor, beside columns of standard deviation 1."""


@dataclass(frozen=True, slots=True)
class ColumnGroup:
    """Neighbouring covariates of a design that one term makes, in scaled units.

    Attributes
    ----------
    size : int
        Number of columns.
    kind : {"number", "indicators", "product"}
        One number between -1 and 1; columns of zeros and ones with at most one 1 in a row; or
        anything else, such as the columns of an interaction.
    radius : float
        Largest length of a row in these columns.
    largest : float
        Largest size of one entry.
    middle, factor : float
        Where the scale of the columns is not released, they count from this public centre, and are
        multiplied by this.
    number : int or None
        Position among the covariates of the number whose values the columns have, times an entry
        for each level. Where their scale is not released, they are standardised as that number is,
        and multiplied by `factor`.
    """

    size: int
    kind: Literal["number", "indicators", "product"]
    radius: float = 1.0
    largest: float = 1.0
    middle: float = 0.0
    factor: float = FACTOR_SCALE
    number: int | None = None

    @property
    def usual(self) -> float:
        """Length of a row that fills the columns where the scale of numbers alone is released.

        A number has length 1 on average. Columns of levels have no longer rows.
        """
        return 1.0 if self.kind == "number" else self.factor * (self.radius - abs(self.middle))


@lru_cache(maxsize=16)
def parts_of(blocks: tuple[Block, ...]) -> tuple[tuple[IntArray, Block], ...]:
    """The parts of a row that have one bound each, and the columns of each.

    They are the blocks under "l1" in order, and then those under "l2" as one.

    Raises
    ------
    ValueError
        If blocks under "l2" do not have the same bound.
    """
    ends = np.cumsum([0, *(block.size for block in blocks)])
    ranges = [np.arange(start, stop) for start, stop in pairwise(ends.tolist())]
    found, round_columns, bounds = [], [], set()
    for block, columns in zip(blocks, ranges, strict=True):
        if block.norm == "l1":
            found.append((columns, block))
        else:
            round_columns.append(columns)
            bounds.add(block.bound)
    if len(bounds) > 1:
        raise ValueError(f"blocks={blocks}: those under 'l2' take one bound for all of them.")
    if round_columns:
        together = np.concatenate(round_columns)
        found.append((together, Block(len(together), bounds.pop(), "l2")))
    for columns, _ in found:
        columns.setflags(write=False)  # the same arrays are returned again
    return tuple(found)


def euclidean_part(blocks: tuple[Block, ...]) -> tuple[IntArray, float] | None:
    """Return the columns under "l2", whose length has a bound of its own, and that bound."""
    parts = parts_of(blocks)
    return next(((columns, part.bound) for columns, part in parts if part.norm == "l2"), None)


class ScoredRows(Protocol):
    """Rows that a linear model can score.

    Attributes
    ----------
    n : int
        Rows, or the persons whose rows they are; public.
    records : int
        Rows; not public where a person may have several.
    radius : float
        No row is longer than this, by construction.
    """

    @property
    def n(self) -> int: ...

    @property
    def records(self) -> int: ...

    @property
    def radius(self) -> float: ...

    def scores(self, coef: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Linear predictor and label of each usable row; for diagnostics, never released."""
        ...


class Rows(ScoredRows, Protocol):
    """Labelled rows inside a known ball, which are accessed through folds only.

    Attributes
    ----------
    d : int
        Columns, the intercept among them; public.
    persons : int or None
        The number of persons whose rows they are; None if each row is of its own.
    blocks : tuple of Block
        Every row keeps within the bound of each block; empty if no bounds are known.
    offset_bound : float
        No offset of a row is larger; 0 if rows have none.
    """

    @property
    def persons(self) -> int | None: ...

    @property
    def d(self) -> int: ...

    @property
    def blocks(self) -> tuple[Block, ...]: ...

    @property
    def offset_bound(self) -> float: ...

    @property
    def is_bounded(self) -> bool:
        """Whether weights are in the rows, and an intercept before them, as after bounding."""
        ...

    @property
    def tables(self) -> tuple[Any, ...] | None:
        """What kernels take blocks of, where rows are in memory."""
        ...

    def filled(self, held: IntArray) -> tuple[Rows, IntArray] | None:
        """Leave out columns without entries, except those that are `held`.

        Returns the rows of the other columns, and the places of these ``(k,)``; None if few columns
        would be left out.
        """
        ...

    def fold(self, kernel: Kernel) -> tuple[Any, ...]:
        """Sum what `kernel` returns over all blocks of rows, in order.

        `numerics.rows.additions` bounds the number of additions that a term goes through.
        """
        ...

    def fold_with_shares(self, kernel: Kernel) -> tuple[Any, ...]:
        """Sum what a kernel returns that takes the shares of persons after the tables."""
        ...

    def thinned(self, m: int) -> Rows:
        """Return about m of the rows; the choice of rows depends on public facts alone."""
        ...

    def watched(self) -> Callable[[], Any] | None:
        """Return what raises if the table of these rows has changed; None if it cannot change."""
        ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reader:
    """Labelled covariates of n records that can be read a piece at a time, in any order.

    Attributes
    ----------
    n, p : int
        Records and covariates.
    read : callable
        Takes the first record and the one after the last. Returns covariates ``(m, p)``, labels
        ``(m,)``, and an offset if there is one. A row of NaN is not usable.
    owners : ndarray of shape (n,), optional
        The number of the person, from 0, whose record it is, where persons are in one part.
    shares : ndarray of shape (n,), optional
        How much of a person each record is.
    """

    n: int
    p: int
    read: Callable[[int, int], tuple[FloatArray, ...]]
    owners: IntArray | None = None
    shares: FloatArray | None = None


def vector_of(matrices: FloatArray) -> FloatArray:
    """Return svecs ``(..., d (d + 1) / 2)`` of symmetric matrices ``(..., d, d)``.

    The length of the svec is the Frobenius norm of the matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from privatelr.mechanisms import vector_of
    >>> matrix = np.array([[1.0, 2.0], [2.0, 3.0]])
    >>> float(np.linalg.norm(vector_of(matrix)).round(6)), float(np.linalg.norm(matrix).round(6))
    (4.242641, 4.242641)
    """
    rows, columns, weights = _triangle(matrices.shape[-1])
    return np.asarray(matrices[..., rows, columns] * weights)


def matrix_of(vectors: FloatArray) -> FloatArray:
    """Return the symmetric matrices ``(..., d, d)`` of svecs ``(..., d (d + 1) / 2)``.

    Examples
    --------
    >>> import numpy as np
    >>> from privatelr.mechanisms import matrix_of, vector_of
    >>> matrix_of(vector_of(np.array([[1.0, 2.0], [2.0, 3.0]]))).round(6)
    array([[1., 2.],
           [2., 3.]])
    """
    d = round((np.sqrt(8 * vectors.shape[-1] + 1) - 1) / 2)
    rows, columns, weights = _triangle(d)
    matrices = np.empty((*vectors.shape[:-1], d, d))
    matrices[..., rows, columns] = matrices[..., columns, rows] = vectors / weights
    return matrices


@lru_cache(maxsize=16)
def _triangle(d: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the positions of the upper triangle, row by row, and the factors of svec."""
    rows, columns = np.triu_indices(d)
    return rows, columns, np.where(rows == columns, 1.0, np.sqrt(2.0))
