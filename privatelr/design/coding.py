"""Factors of a term, and how its columns are made from them, row by row.

When the design is planned, the columns of a term and their entries for each combination of levels
are worked out once. Reading a row needs nothing else.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from scipy import sparse

from privatelr.design.partitions import Partition, plan_partition
from privatelr.design.variables import Variable, remedy, require_content
from privatelr.errors import FormulaError, SchemaError
from privatelr.formula import EVERYTHING, Expression, Interval, contrasts_of, interval, require_base


@dataclass(frozen=True, slots=True)
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

    @property
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
        first = factor.partition.first + contrasted  # without the first one R counts from 1
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
