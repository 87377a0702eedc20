"""Terms of a formula: their columns, the length of a row, and the map to the user's units.

All of it follows from the formula and the public schema. No row of data is read.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
from scipy import sparse

from privatelr.design.partitions import Partition, plan_partition
from privatelr.design.variables import Variable, remedy, require_content
from privatelr.errors import FormulaError, SchemaError
from privatelr.formula import (
    EVERYTHING,
    Expression,
    Formula,
    Interval,
    contrasts_of,
    interval,
    product_range,
    require_base,
)
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


@dataclass(frozen=True, eq=False)
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

    @functools.cached_property
    def has_intercept(self) -> bool:
        return self.names[:1] == (INTERCEPT,)

    @functools.cached_property
    def is_product(self) -> bool:
        """Whether every term has columns, and one of them may differ from zero."""
        return all(term.stop > term.start and term.absolute > 0 for term in self.terms)


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

    `row_norm` limits the unbounded terms if only some terms are unbounded. It limits the whole row
    if all terms or none are, and also if a term is empty, because rows then have no blocks.
    """
    covariates = columns.terms[int(columns.has_intercept) :]
    unbounded = tuple(term.label for term in covariates if not math.isfinite(term.radius))
    limit = row_norm if row_norm is not None else _LENGTH if unbounded else math.inf
    if 0 < len(unbounded) < len(covariates) and columns.is_product:
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
    if not columns.is_product:
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


@dataclass(frozen=True)
class Factor:
    """One factor of the right-hand side.

    A numeric factor has a range, to which its column is clipped. A categorical factor has levels
    and possibly a named contrast. Its values are those of the column `source`, or of the
    expression if the expression is a comparison. A partition gives them to a number within the
    range.
    """

    expression: Expression
    interval: Interval = EVERYTHING
    source: str | None = None
    levels: tuple[Any, ...] = ()
    contrast: str | None = None
    partition: Partition | None = None

    @property
    def is_categorical(self) -> bool:
        return bool(self.levels)

    @property
    def width(self) -> int:
        """The number of columns of a term of it alone without an intercept; 0 for a number."""
        return len(self.levels) if self.partition is None else self.partition.width

    @functools.cached_property
    def is_finite(self) -> bool:
        """Whether the range of a numeric factor is limited; true for a categorical factor."""
        return all(math.isfinite(end) for end in self.interval)


def plan_factor(expression: Expression, variables: Mapping[str, Variable]) -> Factor:
    """Decide whether a factor is numeric or categorical, from public facts.

    A comparison is a factor with the levels False and True, as it is in R.
    """
    name, logical = expression.column, expression.is_logical
    variable = variables[name] if name is not None else None
    if expression.partition is not None:
        if logical or any(variables[key].kind != "numeric" for key in expression.names):
            raise SchemaError(f"term '{expression.label}' divides numbers, and takes no others.")
        ends = interval(expression, {key: variables[key].bounds for key in expression.names})
        found = plan_partition(expression, ends)
        return Factor(expression, ends, levels=found.levels, partition=found)
    numeric = variable is None or variable.kind == "numeric"
    if numeric and not expression.is_coded and not logical:
        bounds = {key: variables[key].bounds for key in expression.names}
        return Factor(expression, interval(expression, bounds))
    levels = expression.levels or ((False, True) if logical else ())
    levels = levels or (variable.levels if variable is not None else ())
    if not levels or (variable is None and not logical):
        ask = "code a column instead" if variable is None else remedy(variable)
        raise SchemaError(
            f"term '{expression.label}' would read its levels off the data; {ask}; or leave it "
            f"out, as in . - {expression.label}."
        )
    if len(levels) < 2:
        raise SchemaError(f"term '{expression.label}' has one level; a term takes two or more.")
    if variable is not None:
        require_content(variable.name, variable.content, levels)
    contrast = expression.contrast
    require_base(expression.label, contrast, levels)
    return Factor(expression, source=name, levels=levels, contrast=contrast and contrast[-1])


INTERCEPT = "(Intercept)"
_ONE = np.ones((1, 1))
_Coded: TypeAlias = tuple[int, bool]
"""A factor by its number, and whether it is coded by contrasts (true) or by levels (false)."""
_SPARSE = 0.1
_LARGE = 4096
"""Number of entries of a grid from which on its zeros are not stored."""


def code_terms(
    terms: Sequence[tuple[int, ...]], factors: Sequence[Factor], *, without_zeros: bool
) -> Iterator[tuple[list[str], Any]]:
    """Return the names of the columns of each term, and its grid; see `Term`.

    A factor gets a column for each level if no earlier term spans the other factors of its term.
    Otherwise it gets contrasts. No column is then a sum of other columns for all data. Patsy and
    formulaic have the same rule.

    Parameters
    ----------
    without_zeros
        Whether the grids are SciPy sparse arrays, which suits many columns.
    """
    coded = functools.cache(
        lambda index, contrasted: _coded(factors[index], contrasted, without_zeros)
    )
    spanned: set[frozenset[_Coded]] = set()
    for term in terms:
        either = [[(i, True), None] if factors[i].levels else [(i, False)] for i in term]
        spans = [tuple(filter(None, some)) for some in itertools.product(*either)]
        added = [span for span in spans if frozenset(span) not in spanned]
        spanned.update(map(frozenset, added))
        names: list[str] = []
        grids = []
        for product in _merged(added):
            parts = {index: coded(index, contrasted) for index, contrasted in product}
            # the columns of a product with the first level of its last factor come first
            spelled = itertools.product(*(words for words, _ in reversed(parts.values())))
            names += [":".join(reversed(words)) or INTERCEPT for words in spelled]
            matrices = {index: matrix for index, (_, matrix) in parts.items()}
            grids.append(_grid(term, factors, matrices, without_zeros))
        stack: Any = sparse.hstack if without_zeros else np.hstack
        yield names, stack(grids) if len(grids) != 1 else grids[0]


def _merged(spans: Sequence[tuple[_Coded, ...]]) -> list[tuple[_Coded, ...]]:
    """Merge products that span the same: b, and b by contrasts of a, are b by levels of a."""
    merged: list[tuple[_Coded, ...]] = []
    for span in sorted(spans, key=len):
        for other in merged:
            extra = {*span} - {*other}
            if len(span) == len(other) + 1 and len(extra) == 1:
                ((index, contrasted),) = extra
                if contrasted:
                    whole = tuple((i, c and i != index) for i, c in span)
                    merged = _merged([*(one for one in merged if one != other), whole])
                    break
        else:
            merged.append(span)
    return merged


def _coded(factor: Factor, contrasted: bool, without_zeros: bool) -> tuple[list[str], Any]:
    """Return the names of the columns of one factor, and a matrix with a row for each level."""
    title = factor.expression.title
    if not factor.levels:
        return [title], _ONE
    levels = list(pd.Index(factor.levels, tupleize_cols=False))
    try:
        contrasts = contrasts_of(factor.expression.contrast)
        fields = contrasts.get_coding_column_names(levels, contrasted)
        matrix = contrasts.get_coding_matrix(levels, contrasted, sparse=without_zeros)
        matrix = matrix if without_zeros else matrix.to_numpy()
        if not math.isfinite(abs(matrix).sum()):
            raise ValueError
    except Exception:  # it saw nothing but constants of the formula and declared levels
        raise FormulaError(
            f"formula: {factor.expression.label!r} takes contr.treatment, contr.sum, contr.SAS, "
            "contr.helmert, contr.diff or contr.poly as a contrast, with arguments of its own."
        ) from None
    if factor.partition is not None and factor.partition.degree is not None:
        own = factor.partition.coding(contrasted=contrasted)
        if own is not None:
            matrix = sparse.csc_array(own) if without_zeros else own
        # without the first column R counts from 1, and formulaic always does
        first = (factor.partition.natural == "cr") + contrasted
        return [f"{title}[{j + first}]" for j in range(matrix.shape[1])], matrix
    form = contrasts.get_factor_format(levels, contrasted)
    return [form.format(name=title, field=field) for field in fields], matrix


def _grid(
    term: Sequence[int], factors: Sequence[Factor], matrices: Mapping[int, Any], without_zeros: bool
) -> Any:
    """The product of coded factors over all combinations of the levels of a term."""
    categorical = [index for index in term if factors[index].levels]
    if not categorical:
        return _ONE
    kron: Any = sparse.kron if without_zeros else np.kron
    levels = [len(factors[index].levels) for index in categorical]
    product: Any = _ONE
    for index, count in zip(categorical, levels, strict=True):
        product = kron(matrices.get(index, np.ones((count, 1))), product)
    # the last factor varies slowest here, but in a grid the factor of the least number does
    rows = np.arange(math.prod(levels)).reshape(levels[::-1])
    axes = sorted(range(len(levels)), key=categorical[::-1].__getitem__)
    order = rows.transpose(axes).ravel()
    # columns are compared by their bytes, so zeros must have no sign
    if not without_zeros:
        return product[order] + 0.0
    table = sparse.csc_array(sparse.csr_array(product)[order])
    table.eliminate_zeros()
    table.sort_indices()
    return table


def stored(grid: Any) -> Any:
    """Return a grid as it is stored: without zeros if it is large and most entries are zeros."""
    entries = math.prod(grid.shape)
    filled = grid.nnz if sparse.issparse(grid) else np.count_nonzero(grid)
    if entries >= _LARGE and filled < _SPARSE * entries:
        return sparse.csr_array(grid)
    return np.ascontiguousarray(grid.toarray() if sparse.issparse(grid) else grid)
