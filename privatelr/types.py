"""Types that more than one layer speaks of."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.intp]
ObjectArray = npt.NDArray[np.object_]

Placement = Literal["objective", "output"]
"""Where the noise goes: into the objective before it is minimised, or onto its minimiser."""

Kernel = Callable[[FloatArray, FloatArray], tuple[Any, ...]]
"""What is computed of one block of rows ``(m, d)`` and labels ``(m,)``; results are summed."""


@dataclass(frozen=True, slots=True)
class RowLimit:
    """How long a row may be: its covariates, and the constant of its intercept column if any."""

    bound: float
    intercept: float | None

    @property
    def radius(self) -> float:
        """R, rounded up so that no admissible row is longer."""
        return math.nextafter(math.hypot(self.bound, self.intercept or 0.0), math.inf)


@dataclass(frozen=True, slots=True)
class Block:
    """Columns that belong together: their number, and the largest sum of their sizes in a row."""

    size: int
    bound: float


class Rows(Protocol):
    """Labelled rows inside a known ball, seen through folds only.

    Attributes
    ----------
    n, d : int
        Rows and columns, both public; the intercept counts as a column.
    radius : float
        No row is longer than this, by construction.
    blocks : tuple of Block
        In no row is the sum of sizes of a block above its bound; empty if nothing is known.
    """

    @property
    def n(self) -> int: ...

    @property
    def d(self) -> int: ...

    @property
    def radius(self) -> float: ...

    @property
    def blocks(self) -> tuple[Block, ...]: ...

    def fold(self, kernel: Kernel) -> tuple[Any, ...]:
        """Sum what `kernel` returns over all blocks of rows, in order.

        No term goes through more additions than `numerics.rows.additions` says.
        """
        ...

    def thinned(self, m: int) -> Rows:
        """About m of the rows; which ones depends on public facts alone."""
        ...

    def scores(self, coef: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Linear predictor and label of each usable row; for diagnostics, never released."""
        ...


class ScoredRows(Protocol):
    """Rows that can say what a linear model scores them."""

    @property
    def n(self) -> int: ...

    def scores(self, coef: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Linear predictor and label of each usable row; for diagnostics, never released."""
        ...


class Reader(Protocol):
    """Labelled covariates of n records that can be read a piece at a time, in any order."""

    @property
    def n(self) -> int: ...

    @property
    def p(self) -> int: ...

    def read(self, start: int, stop: int) -> tuple[FloatArray, FloatArray]:
        """Covariates ``(stop - start, p)`` and labels; a row of NaN is not usable."""
        ...


class RowsBackend(Protocol):
    """What turns unbounded covariates into `Rows`; the frames layer is handed one."""

    def of(
        self,
        reader: Reader,
        *,
        bound: float,
        intercept: float | None,
        projection: FloatArray | None,
        blocks: tuple[Block, ...],
    ) -> Rows: ...
