"""Terms of a formula: their columns, the length of a row, and the map to the user's units.

Everything here follows from the formula and the public schema; no row of data is seen.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from privatelr.design.coding import INTERCEPT, Factor, TermCoding, code_terms, plan_factor, stored
from privatelr.errors import FormulaError
from privatelr.formula import Formula, Interval, product_range
from privatelr.types import FloatArray, IntArray

if TYPE_CHECKING:
    from privatelr.design.variables import Variable


WIDE = 2000
"""Columns above which no table is expected to have as many rows."""


@dataclass(frozen=True, slots=True)
class Term:
    """A block of columns that belong together.

    Attributes
    ----------
    label : str
        R spelling.
    columns : tuple of int
        Positions in the design.
    radius : float
        Largest Euclidean length of the block in a row once it is mapped; infinite if a
        numeric factor is unbounded.
    absolute : float
        Largest sum of the sizes of its entries, as `radius`.
    largest : float
        Largest size of one entry, as `radius`.
    """

    label: str
    columns: tuple[int, ...]
    radius: float
    absolute: float
    largest: float


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Columns of a design, and the map from raw to scaled units.

    Design column j is ``(z_j - centre_j * z_parent_j) / scale_j``, where the parent is the
    column that is left of column j when its numeric factors are dropped (the intercept, for
    a numeric term). A column without parent is only scaled.

    Attributes
    ----------
    names : tuple of str
        Columns by their names, other factors in R's spelling, levels as formulaic writes them;
        the intercept, if any, first.
    recipes : tuple of TermCoding
        How the columns of each term are made.
    parent, centre, scale : ndarray of shape (d,)
        The map; parent is -1 where there is none.
    """

    names: tuple[str, ...]
    terms: tuple[Term, ...]
    recipes: tuple[TermCoding, ...]
    parent: IntArray
    centre: FloatArray
    scale: FloatArray

    @property
    def has_intercept(self) -> bool:
        return self.names[:1] == (INTERCEPT,)


def plan_columns(
    formula: Formula, variables: Mapping[str, Variable]
) -> tuple[tuple[Factor, ...], Columns]:
    """Build the columns of a formula from public facts.

    Raises
    ------
    FormulaError, SchemaError
        If the terms cannot be combined, or levels are not declared.
    """
    factors = tuple(plan_factor(expression, variables) for expression in formula.factors)
    without_zeros = _most_columns(formula, factors) > WIDE
    coded = list(code_terms(formula.terms, factors, without_zeros=without_zeros))
    names = tuple(name for spelled, _ in coded for name in spelled)
    if not names:
        raise FormulaError(f"formula {formula.text!r}: the model has no columns.")
    terms: list[Term] = []
    recipes: list[TermCoding] = []
    parent, centre, scale = np.full(len(names), -1), np.zeros(len(names)), np.ones(len(names))
    ends = itertools.accumulate(len(spelled) for spelled, _ in coded)
    blocks = [
        (used, end - len(spelled), end, grid)
        for used, (spelled, grid), end in zip(formula.terms, coded, ends, strict=True)
    ]
    # terms without numeric factor, by the categorical factors they code
    pure = {
        frozenset(used): _by_entries(grid, start)
        for used, start, _, grid in blocks
        if all(factors[index].is_categorical for index in used)
    }
    for used, start, stop, grid in blocks:
        columns = tuple(range(start, stop))
        categorical = sorted(index for index in used if factors[index].is_categorical)
        numeric = tuple(index for index in used if not factors[index].is_categorical)
        span = (1.0, 1.0)
        for index in numeric:
            span = product_range(span, factors[index].interval)
        if numeric:
            # the column that is left where the numeric factors are one, if there is one
            parents = pure.get(frozenset(categorical), {})
            for column in columns:
                parent[column] = parents.get(_key(grid, column - start), -1)
                centre[column], scale[column] = _to_unit(span, centred=parent[column] >= 0)
        bounded = all(math.isfinite(end) for end in span)
        label = ":".join(factors[index].expression.title for index in used) or INTERCEPT
        sizes = _largest_sizes(grid) if bounded else (math.inf,) * 3
        terms.append(Term(label, columns, *sizes))
        levels = tuple(len(factors[index].levels) for index in categorical)
        recipes.append(TermCoding(start, stop, numeric, tuple(categorical), levels, stored(grid)))
    return factors, Columns(names, tuple(terms), tuple(recipes), parent, centre, scale)


def _largest_sizes(grid: Any) -> tuple[float, float, float]:
    """Largest length and largest sum of sizes among the rows of a grid, and largest entry."""
    entries = abs(grid)
    lengths, sums = np.sqrt((entries * entries).sum(axis=1)), entries.sum(axis=1)
    return (
        float(np.max(lengths, initial=0.0)),
        float(np.max(sums, initial=0.0)),
        float(entries.max()) if min(grid.shape) else 0.0,
    )


def _most_columns(formula: Formula, factors: Sequence[Factor]) -> int:
    """Columns of a formula if none were left out for the intercept."""
    levels = [len(factor.levels) if factor.is_categorical else 1 for factor in factors]
    return sum(math.prod(levels[index] for index in term) for term in formula.terms)


def _by_entries(grid: Any, start: int) -> dict[bytes, int]:
    """The position in the design of a column of a grid, by its entries."""
    return {_key(grid, column): start + column for column in reversed(range(grid.shape[1]))}


def _key(grid: Any, column: int) -> bytes:
    """The entries of a column of a grid, to be compared."""
    if not sparse.issparse(grid):
        return bytes(grid[:, column].tobytes())
    here = slice(grid.indptr[column], grid.indptr[column + 1])
    return bytes(grid.indices[here].tobytes() + grid.data[here].tobytes())


def _to_unit(span: Interval, *, centred: bool) -> tuple[float, float]:
    """Centre and scale that map `span` into [-1, 1]; an infinite span stays as it is."""
    low, high = span
    if not (math.isfinite(low) and math.isfinite(high)):
        return 0.0, 1.0
    centre = low / 2 + high / 2 if centred else 0.0
    scale = max(high - centre, centre - low)
    return centre, scale if scale > 0 else 1.0


def user_units(columns: Columns, intercept: float | None, projection: FloatArray | None) -> Any:
    """Matrix ``(p + 1, d)`` that takes design coefficients to the user's units.

    Parameters
    ----------
    columns : Columns
        With the map of each column, which is undone.
    intercept : float or None
        The constant in the intercept column.
    projection : ndarray of shape (p, q) or None

    Returns
    -------
    ndarray, or SciPy sparse array of many columns
    """
    first, size = int(columns.has_intercept), len(columns.names)
    child = np.flatnonzero(columns.parent >= 0)
    parent, moved = columns.parent[child], -columns.centre[child] / columns.scale[child]
    if size > WIDE and projection is None:
        constant = np.ones(size)
        constant[:first] = intercept or 0.0
        entries = np.concatenate([1.0 / columns.scale, moved])
        rows, places = (np.concatenate([np.arange(size), ends]) for ends in (parent, child))
        units = sparse.csr_array((entries, (rows, places)), shape=(size, size))
        return sparse.csr_array(units @ sparse.diags_array(constant))
    table = np.diag(1.0 / columns.scale)
    np.add.at(table, (parent, child), moved)
    design = np.eye(size) if projection is None else np.zeros((size, first + projection.shape[1]))
    if projection is not None:
        design[first:, first:] = projection
    if intercept is not None:
        design[0, 0] = intercept
    return table @ design
