"""How each term of a design is made from its factors, row by row.

formulaic decides which columns there are and what they hold for each combination of levels;
that is read off it once, when the design is planned, and is all that a row needs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from privatelr.types import FloatArray, IntArray

_SPARSE = 0.1
_LARGE = 4096
"""Entries of a grid from which it is worth leaving out its zeros."""


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """The columns of a term.

    Attributes
    ----------
    start, stop : int
        Positions in the design.
    numeric, categorical : tuple of int
        Factors by number.
    levels : tuple of int
        Number of levels of each categorical factor.
    grid : ndarray or SciPy sparse array of shape (k, stop - start)
        Entries for each of the k combinations of levels, numeric factors being one.
    """

    start: int
    stop: int
    numeric: tuple[int, ...]
    categorical: tuple[int, ...]
    levels: tuple[int, ...]
    grid: Any


def plan_recipe(
    columns: Sequence[int],
    numeric: Sequence[int],
    categorical: Sequence[int],
    levels: Sequence[int],
    grid: Any,
) -> Recipe:
    """A recipe whose grid covers all columns of the design, cut to those of the term."""
    start, stop = (columns[0], columns[-1] + 1) if columns else (0, 0)
    part: Any = grid[:, start:stop]
    entries = math.prod(part.shape)
    filled = part.nnz if sparse.issparse(part) else np.count_nonzero(part)
    if entries >= _LARGE and filled < _SPARSE * entries:
        part = sparse.csr_array(part)
    else:
        part = np.ascontiguousarray(part.toarray() if sparse.issparse(part) else part)
    return Recipe(start, stop, tuple(numeric), tuple(categorical), tuple(levels), part)


def fill(
    design: FloatArray,
    recipe: Recipe,
    numbers: Mapping[int, FloatArray],
    codes: Mapping[int, IntArray],
) -> None:
    """Write the columns of a term into a raw design ``(n, d)``.

    Parameters
    ----------
    numbers
        Values ``(n,)`` of the numeric factors.
    codes
        Positions ``(n,)`` of the levels of the categorical factors.
    """
    product: Any = 1.0
    for position, index in enumerate(recipe.numeric):
        product = product * numbers[index] if position else numbers[index]
    if not recipe.categorical:
        for column in range(recipe.start, recipe.stop):
            np.multiply(product, recipe.grid[0, column - recipe.start], out=design[:, column])
        return
    combined = np.ravel_multi_index(
        tuple(codes[index] for index in recipe.categorical), recipe.levels
    )
    rows = recipe.grid[combined]
    block = rows.toarray() if sparse.issparse(rows) else rows
    if recipe.numeric:
        block *= product[:, None]
    design[:, recipe.start : recipe.stop] = block
