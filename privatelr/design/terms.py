"""Terms of a formula: their columns, the length of a row, and the map to the user's units.

All of it follows from the formula and the public schema. No row of data is read.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from scipy import sparse

from privatelr.design.coding import INTERCEPT, Factor, code_terms, plan_factor, stored
from privatelr.design.variables import Variable
from privatelr.errors import FormulaError, SchemaError
from privatelr.formula import Formula, Interval, product_range
from privatelr.types import Block, ColumnGroup, FloatArray, IntArray

WIDE = 2000
"""Number of columns above which grids and maps are sparse arrays; few tables have more rows."""
BoundSource = Literal[
    "declared bounds", "row_norm", "declared bounds and row_norm", "private scale"
]
MAPPED = 1 + 2.0**-40
"""Factor by which the bound of a block grows, for the rounding of values mapped onto [-1, 1]."""
_LENGTH = 1.0
"""Length to which unbounded terms are shortened where none is declared."""


@dataclass(frozen=True, slots=True)
class Term:
    """A block of columns that belong together, and how they are made.

    Attributes
    ----------
    label : str
        R spelling.
    start, stop : int
        Positions in the design.
    numeric, categorical : tuple of int
        Factors by number.
    levels : tuple of int
        Number of levels of each categorical factor.
    radius : float
        Largest Euclidean length of the block in a row, in scaled units; infinite if a numeric
        factor is unbounded.
    absolute : float
        Largest sum of the sizes of its entries in a row, in scaled units.
    largest : float
        Largest size of one entry, in scaled units.
    grid : ndarray or SciPy sparse array of shape (k, stop - start)
        Entries for each of the k combinations of levels, with all numeric factors set to one.
    """

    label: str
    start: int
    stop: int
    numeric: tuple[int, ...]
    categorical: tuple[int, ...]
    levels: tuple[int, ...]
    radius: float
    absolute: float
    largest: float
    grid: Any = field(compare=False, repr=False)

    @property
    def columns(self) -> tuple[int, ...]:
        """Positions in the design."""
        return tuple(range(self.start, self.stop))


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Columns of a design, and the map from raw to scaled units.

    Design column j is ``(z_j - centre_j * z_parent_j) / scale_j``. Its parent is the column that
    has the same factors without the numeric ones: the intercept, for a numeric term. A column
    without a parent is only scaled.

    Attributes
    ----------
    names : tuple of str
        Names of the columns. Expressions are in R's spelling, and levels as formulaic writes them.
        The intercept, if any, is first.
    parent, centre, scale : ndarray of shape (d,)
        The map. The parent is -1 for a column that has none.
    """

    names: tuple[str, ...]
    terms: tuple[Term, ...]
    parent: IntArray
    centre: FloatArray
    scale: FloatArray

    @property
    def has_intercept(self) -> bool:
        return self.names[:1] == (INTERCEPT,)


@dataclass(frozen=True, slots=True)
class Standard:
    """How rows are held whose columns are standardised by released moments; public.

    Attributes
    ----------
    groups : tuple of ColumnGroup
        The covariates whose moments are released.
    centred : bool
        Whether columns are centred.
    length : float or None
        The length to which rows are held, in lengths of a typical one; None where it is released,
        and the map divides rows by it.
    unit : bool
        Whether every row is brought to that length, and not only longer ones.
    weighted : bool
        Whether longer rows are not shortened, but count less (`privatelr.numerics.rows`).
    intercept_scale : float
        The constant in the intercept column, in lengths of a row unless the promise is pure.
    blocks : tuple of Block
        The blocks of a standardised row; empty if only its length is bounded.
    released : float or None
        The released length, in lengths of a typical row; infinite where no row can be longer, and
        None before it is released.
    """

    groups: tuple[ColumnGroup, ...]
    centred: bool
    length: float | None
    unit: bool
    weighted: bool
    intercept_scale: float
    blocks: tuple[Block, ...] = ()
    released: float | None = None


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
    sizes = [len(factor.levels) or 1 for factor in factors]
    most = sum(math.prod(sizes[index] for index in term) for term in formula.terms)
    coded = list(code_terms(formula.terms, factors, without_zeros=most > WIDE))
    names = tuple(name for spelled, _ in coded for name in spelled)
    if not names:
        raise FormulaError(f"formula {formula.text!r}: the model has no columns.")
    ends = itertools.accumulate(len(spelled) for spelled, _ in coded)
    blocks = [
        (used, end - len(spelled), end, grid)
        for used, (spelled, grid), end in zip(formula.terms, coded, ends, strict=True)
    ]
    # for each set of categorical factors: positions of the columns by their entries
    pure = {
        frozenset(used): {_key(grid, i): start + i for i in reversed(range(grid.shape[1]))}
        for used, start, _, grid in blocks
        if all(factors[index].levels for index in used)
    }
    terms: list[Term] = []
    parent, centre, scale = np.full(len(names), -1), np.zeros(len(names)), np.ones(len(names))
    for used, start, stop, grid in blocks:
        categorical = tuple(sorted(index for index in used if factors[index].levels))
        numeric = tuple(index for index in used if not factors[index].levels)
        low, high = range_of(numeric, factors)
        bounded = math.isfinite(low) and math.isfinite(high)
        for column in range(start, stop) if numeric else ():
            # the parent is the column that this one equals when its numeric factors are one
            place = pure.get(frozenset(categorical), {}).get(_key(grid, column - start), -1)
            parent[column] = place
            if bounded:  # onto [-1, 1]
                centre[column] = low / 2 + high / 2 if place >= 0 else 0.0
                scale[column] = max(high - centre[column], centre[column] - low) or 1.0
        label = ":".join(factors[index].expression.title for index in used) or INTERCEPT
        radius = absolute = largest = math.inf
        if bounded:
            entries = abs(grid)
            sums = entries.sum(axis=1)
            radius = float(np.max(np.sqrt((entries * entries).sum(axis=1)), initial=0.0))
            absolute = float(np.max(sums, initial=0.0))
            largest = float(entries.max()) if min(grid.shape) else 0.0
        counts = tuple(sizes[index] for index in categorical)
        made = (start, stop, numeric, categorical, counts)
        terms.append(Term(label, *made, radius, absolute, largest, stored(grid)))
    _require_different(names, terms)
    return factors, Columns(names, tuple(terms), parent, centre, scale)


def _require_different(names: Sequence[str], terms: Sequence[Term]) -> None:
    """Refuse two coefficients, or a coefficient and a term of others, that have one name."""
    labels = (t.label for t in terms if t.label not in names[t.start : t.stop])
    for name, times in Counter((*names, *labels)).items():
        if times > 1:
            raise FormulaError(
                f"formula: {times} coefficients or terms would have the name {name!r}, and could "
                "not be told apart; rename a column or a level."
            )


def range_of(numeric: Sequence[int], factors: Sequence[Factor]) -> Interval:
    """Return the range of a product of numeric factors, given by number; 1 to 1 of none."""
    low, high = (1.0, 1.0)
    for index in numeric:
        low, high = product_range((low, high), factors[index].interval)
    return low, high


def _key(grid: Any, column: int) -> bytes:
    """Return the entries of a column of a grid as bytes, for comparisons."""
    if not sparse.issparse(grid):
        return bytes(grid[:, column].tobytes())
    here = slice(grid.indptr[column], grid.indptr[column + 1])
    return bytes(grid.indices[here].tobytes() + grid.data[here].tobytes())


def user_units(columns: Columns, intercept: float | None, projection: FloatArray | None) -> Any:
    """Return the matrix ``(p + 1, d)`` that takes design coefficients to the user's units.

    Parameters
    ----------
    columns : Columns
        With the map of each column, which is undone.
    intercept : float or None
        The constant in the intercept column.
    projection : ndarray of shape (p, q) or None

    Returns
    -------
    ndarray, or SciPy sparse array if there are many columns
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


def bound_of(
    columns: Columns, row_norm: float | None
) -> tuple[float, BoundSource, tuple[str, ...], float | None]:
    """Return the length of a row's covariates, its source, the unbounded terms, and their length.

    The length is the B of privacy.md 2.2. `row_norm` limits the unbounded terms if only some terms
    are unbounded. It limits the whole row if all terms or none are, and also if a term is empty,
    because rows then have no blocks.
    """
    covariates = columns.terms[int(columns.has_intercept) :]
    unbounded = tuple(term.label for term in covariates if not math.isfinite(term.radius))
    limit = row_norm if row_norm is not None else _LENGTH if unbounded else math.inf
    if 0 < len(unbounded) < len(covariates) and _is_product(columns):
        lengths = [term.radius for term in covariates if math.isfinite(term.radius)]
        bound = math.sqrt(sum(length**2 for length in lengths) + limit**2)
        return bound, "declared bounds and row_norm", unbounded, limit
    declared = math.sqrt(sum(term.radius**2 for term in covariates))
    source: BoundSource = "row_norm" if limit < declared else "declared bounds"
    return min(declared, limit), source, unbounded, None


def blocks_of(
    columns: Columns, intercept: float | None, unbounded_norm: float | None
) -> tuple[Block, ...]:
    """Return a bounded block for the intercept and each term; nothing if a term is empty.

    They are the blocks of Theorem 3.1b of theory.md.
    """
    if not _is_product(columns):
        return ()
    blocks = []
    for term in columns.terms:
        size = term.stop - term.start
        if intercept is not None and (term.start, term.stop) == (0, 1):
            blocks.append(Block(size, intercept * MAPPED))
        elif unbounded_norm is not None and not math.isfinite(term.radius):
            blocks.append(Block(size, unbounded_norm, "l2"))
        else:
            blocks.append(Block(size, term.absolute * MAPPED))
    return tuple(blocks)


def _is_product(columns: Columns) -> bool:
    """Whether every term has columns, and one of them may differ from zero."""
    return all(term.stop > term.start and term.absolute > 0 for term in columns.terms)


def require_boundable(variables: Mapping[str, Variable], factors: Sequence[Factor]) -> None:
    """Refuse a term that stays unbounded although all its variables are bounded."""
    for factor in factors:
        names = factor.expression.names
        if factor.levels or factor.is_finite or not all(variables[n].is_bounded for n in names):
            continue
        boxes = " and ".join(f"{name} in {variables[name].bounds}" for name in names)
        raise SchemaError(
            f"term '{factor.expression.label}' has no finite range for {boxes}; move the bound "
            "away from where the term is undefined, rewrite the term, or give row_norm= to limit "
            "the length of all that has none."
        )
