"""Terms of a formula: their columns, the length of a row, and the map to the user's units.

Everything here follows from the formula and the public schema; no row of data is seen.
formulaic builds its specification on a prototype frame of declared levels, and the same
frozen specification later codes the data.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from formulaic import ModelSpec
from formulaic.errors import FormulaicError
from scipy import sparse

from privatelr.design.coding import Factor, TermCoding, plan_factor, plan_recipe
from privatelr.errors import FormulaError, SchemaError
from privatelr.formula import (
    Formula,
    Interval,
    balanced_sum,
    escaped,
    factor_index,
    factor_indices,
    factor_key,
    product_range,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from privatelr.design.variables import Variable
    from privatelr.types import FloatArray, IntArray


INTERCEPT = "(Intercept)"
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
    coding : ModelSpec
        formulaic's specification, which the recipes were read off.
    recipes : tuple of TermCoding
        How the columns of each term are made.
    parent, centre, scale : ndarray of shape (d,)
        The map; parent is -1 where there is none.
    """

    names: tuple[str, ...]
    coding: ModelSpec
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
    coding, prototype = _code(formula, factors)
    names = tuple(_display(name, factors) for name in coding.column_names)
    if not names:
        raise FormulaError(f"formula {formula.text!r}: the model has no columns.")
    blocks = _blocks(coding)
    # columns without numeric factor, by the categorical factors they code
    pure = {frozenset(used): cols for used, cols in blocks if _all_categorical(factors, used)}
    # many terms share one: the numeric ones
    grids: dict[frozenset[int], Any] = {frozenset(): prototype}
    terms: list[Term] = []
    recipes: list[TermCoding] = []
    parent, centre, scale = np.full(len(names), -1), np.zeros(len(names)), np.ones(len(names))
    for used, columns in blocks:
        categorical = frozenset(index for index in used if factors[index].is_categorical)
        if categorical not in grids:
            grids[categorical] = code_levels(coding, factors, categorical)
        grid = grids[categorical]
        span = _numeric_span(factors, used)
        if len(categorical) < len(used):
            # the column that is left where the numeric factors are one, if there is one
            parents = {_key(grid, column): column for column in pure.get(categorical, ())[::-1]}
            for column in columns:
                parent[column] = parents.get(_key(grid, column), -1)
                centre[column], scale[column] = _to_unit(span, centred=parent[column] >= 0)
        bounded = all(math.isfinite(end) for end in span)
        label = ":".join(factors[index].expression.title for index in used) or INTERCEPT
        here = slice(columns[0], columns[-1] + 1) if columns else slice(0)
        sizes = _largest_sizes(grid[:, here]) if bounded else (math.inf,) * 3
        terms.append(Term(label, columns, *sizes))
        recipes.append(_recipe(used, columns, factors, grid))
    return factors, Columns(names, coding, tuple(terms), tuple(recipes), parent, centre, scale)


def _recipe(
    used: tuple[int, ...], columns: tuple[int, ...], factors: tuple[Factor, ...], grid: Any
) -> TermCoding:
    numeric = [index for index in used if not factors[index].is_categorical]
    categorical = sorted(index for index in used if factors[index].is_categorical)
    levels = [len(factors[index].levels) for index in categorical]
    return plan_recipe(columns, numeric, categorical, levels, grid)


def _largest_sizes(grid: Any) -> tuple[float, float, float]:
    """Largest length and largest sum of sizes among the rows of a grid, and largest entry."""
    entries = abs(grid)
    lengths, sums = np.sqrt((entries * entries).sum(axis=1)), entries.sum(axis=1)
    return (
        float(np.max(lengths, initial=0.0)),
        float(np.max(sums, initial=0.0)),
        float(entries.max()) if min(grid.shape) else 0.0,
    )


def _blocks(coding: ModelSpec) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """For each term the factors it multiplies and the columns it fills."""
    blocks, position = [], 0
    for structure in coding.structure or ():
        indices = (factor_index(factor.expr) for factor in structure.term.factors)
        columns = tuple(range(position, position + len(structure.columns)))
        blocks.append((tuple(index for index in indices if index is not None), columns))
        position += len(columns)
    return blocks


def _all_categorical(factors: Sequence[Factor], used: Sequence[int]) -> bool:
    return all(factors[index].is_categorical for index in used)


def _numeric_span(factors: Sequence[Factor], used: Sequence[int]) -> Interval:
    """Range of the product of the numeric factors of a term."""
    span = (1.0, 1.0)
    for index in used:
        if not factors[index].is_categorical:
            span = product_range(span, factors[index].interval)
    return span


def _most_columns(formula: Formula, factors: Sequence[Factor]) -> int:
    """Columns of a formula if none were left out for the intercept."""
    terms = map(factor_indices, formula.terms.split(" + "))
    levels = [len(factor.levels) if factor.is_categorical else 1 for factor in factors]
    return sum(math.prod(levels[index] for index in term) for term in terms)


def _code(formula: Formula, factors: Sequence[Factor]) -> tuple[ModelSpec, Any]:
    """Formulaic's specification of the right-hand side, and the one row that it was made from.

    In that row numeric factors are one, and others at their first level.
    """
    text = balanced_sum(formula.terms)
    for index, factor in enumerate(factors):
        if factor.contrast is not None:
            quoted = f"`{factor_key(index)}`"
            text = text.replace(quoted, f"C({quoted}, {escaped(factor.contrast)})")
    prototype = pd.DataFrame(
        {
            factor_key(index): pd.Categorical([factor.levels[0]], categories=list(factor.levels))
            if factor.is_categorical
            else [1.0]
            for index, factor in enumerate(factors)
        },
        index=[0],
    )
    # without zeros takes formulaic longer, and memory in proportion to the columns only
    output: Any = "sparse" if _most_columns(formula, factors) > WIDE else "numpy"
    try:
        spec = ModelSpec.from_spec(text, output=output, na_action="ignore", context={})
        matrix = spec.get_model_matrix(prototype)
    except (FormulaicError, ValueError, TypeError, AttributeError):
        # only a contrast can fail here: the algebra was resolved on parsing
        raise FormulaError(
            f"formula {formula.text!r}: a contrast takes contr.treatment, contr.sum, contr.SAS, "
            "contr.helmert, contr.diff or contr.poly."
        ) from None
    coding: ModelSpec = matrix.model_spec
    if coding.transform_state:
        raise SchemaError(f"formula {formula.text!r}: a term learns from the data.")
    return coding, _as_grid(matrix, 1, coding)


def code_levels(coding: ModelSpec, factors: Sequence[Factor], varied: Collection[int]) -> Any:
    """Raw design over all combinations of the levels of `varied`, numeric factors at one.

    An array, or a SciPy sparse array of many columns.
    """
    order = sorted(varied)
    grid = list(itertools.product(*(range(len(factors[index].levels)) for index in order)))
    frame: dict[str, Any] = {}
    for index, factor in enumerate(factors):
        if not factor.is_categorical:
            frame[factor_key(index)] = np.ones(len(grid))
            continue
        codes = [row[order.index(index)] if index in varied else 0 for row in grid]
        frame[factor_key(index)] = pd.Categorical.from_codes(codes, categories=list(factor.levels))
    return materialise(coding, pd.DataFrame(frame, index=range(len(grid))))


def materialise(coding: ModelSpec, frame: pd.DataFrame) -> Any:
    """Raw design ``(n, d)`` of a frame of factor columns, under a frozen coding."""
    return _as_grid(coding.get_model_matrix(frame), len(frame), coding)


def _as_grid(matrix: Any, n: int, coding: ModelSpec) -> Any:
    shape = (n, len(coding.column_names))
    # equal columns are equal bytes: zeros have no sign, and are left out where any are
    if coding.output == "sparse":
        table = sparse.csc_array(matrix.__wrapped__, shape=shape, dtype=np.float64)
        table.eliminate_zeros()
        table.sort_indices()
        return table
    return np.asarray(matrix, dtype=np.float64).reshape(shape) + 0.0


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


def _display(name: str, factors: Sequence[Factor]) -> str:
    """R spelling of a column that formulaic named by factor keys."""
    if name == "Intercept":
        return INTERCEPT
    for index in sorted(factor_indices(name)):
        factor = factors[index]
        key, label = factor_key(index), factor.expression.title
        for spelled in (f"C(`{key}`, {factor.contrast})", f"C({key}, {factor.contrast})", key):
            name = name.replace(spelled, label)
    return name


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
