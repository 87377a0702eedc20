"""Factors of a term, and how its columns are made from them, row by row.

formulaic decides which columns there are and what they hold for each combination of levels;
that is read off it once, when the design is planned, and is all that a row needs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from privatelr.design.evaluation import interval
from privatelr.design.variables import remedy, require_content
from privatelr.errors import SchemaError, show
from privatelr.formula import (
    EVERYTHING,
    Expression,
    Interval,
    coded_column,
    coded_contrast,
    coded_levels,
    coding_call,
    is_logical,
    require_base,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from privatelr.design.variables import Variable
    from privatelr.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor of the right-hand side.

    A numeric factor has a range, to which its column is clipped. A categorical one has levels,
    possibly a named contrast, and the values of the column `source`, or of the expression if
    that is a comparison.
    """

    expression: Expression
    interval: Interval = EVERYTHING
    source: str | None = None
    levels: tuple[Any, ...] = ()
    contrast: str | None = None

    @property
    def is_categorical(self) -> bool:
        return bool(self.levels)


def plan_factor(expression: Expression, variables: Mapping[str, Variable]) -> Factor:
    """Decide whether a factor is numeric or categorical, from public facts.

    A comparison is a factor with the levels False and True, as it is in R.
    """
    name = coded_column(expression)
    variable = variables[name] if name is not None else None
    logical = is_logical(expression)
    if (
        coding_call(expression) is None
        and not logical
        and (variable is None or variable.kind == "numeric")
    ):
        bounds = {key: variables[key].bounds for key in expression.names}
        return Factor(expression, interval(expression, bounds))
    levels = coded_levels(expression) or ((False, True) if logical else ())
    levels = levels or (variable.levels if variable is not None else ())
    if not levels or (variable is None and not logical):
        ask = "code a column instead" if variable is None else remedy(variable)
        raise SchemaError(f"term '{expression.label}' would read its levels off the data; {ask}.")
    if len(levels) < 2:
        raise SchemaError(f"term '{expression.label}' has one level; a term takes two or more.")
    hidden = next((str(level) for level in levels if str(level).startswith("__")), None)
    if hidden is not None:  # formulaic would leave its column out
        raise SchemaError(
            f"term '{expression.label}' has the level {show(hidden)}; a level of a term takes a "
            "name that does not begin with two underscores."
        )
    if variable is not None:
        require_content(variable.name, variable.content, levels)
    contrast = coded_contrast(expression)
    require_base(expression.label, contrast, levels)
    return Factor(expression, source=name, levels=levels, contrast=contrast)


_SPARSE = 0.1
_LARGE = 4096
"""Entries of a grid from which its zeros are left out."""


@dataclass(frozen=True, slots=True, eq=False)
class TermCoding:
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
) -> TermCoding:
    """A recipe whose grid covers all columns of the design, cut to those of the term."""
    start, stop = (columns[0], columns[-1] + 1) if columns else (0, 0)
    part: Any = grid[:, start:stop]
    entries = math.prod(part.shape)
    filled = part.nnz if sparse.issparse(part) else np.count_nonzero(part)
    if entries >= _LARGE and filled < _SPARSE * entries:
        part = sparse.csr_array(part)
    else:
        part = np.ascontiguousarray(part.toarray() if sparse.issparse(part) else part)
    return TermCoding(start, stop, tuple(numeric), tuple(categorical), tuple(levels), part)


def fill(
    design: FloatArray,
    recipe: TermCoding,
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
