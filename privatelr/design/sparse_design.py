"""Rows of a formula of which most entries are zero, without ever holding the zeros.

A factor of a thousand levels fills one column of a thousand in a row. What a term holds for each
combination of levels is known from the plan, so its entries are looked up, multiplied by its
numeric factors, and mapped to scaled units where they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from privatelr.design.formula_design import read_factors, read_values
from privatelr.design.response import labels
from privatelr.sources import RowSlice, tally_of
from privatelr.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from privatelr.design.coding import TermCoding
    from privatelr.design.formula_design import DesignSpec, Values

_SPARSE = 0.1
_WIDE = 64
"""Columns below which rows without their zeros gain nothing."""


def worth_sparse(spec: DesignSpec) -> bool:
    """Whether the rows of a formula are better held without zeros; a function of public facts.

    Columns that were scaled by the data are centred at their means, so their zeros do not stay.
    """
    is_wide = len(spec.columns.names) >= _WIDE and spec.density < _SPARSE
    return is_wide and not spec.scaled_by_data


def read_sparse(spec: DesignSpec, frame: pd.DataFrame | RowSlice) -> tuple[Any, FloatArray]:
    """Covariates ``(n, p)`` in scaled units, a `csr_array`, and labels ``(n,)``.

    Not yet bounded. The label of a row that cannot be used is 0, and whoever bounds rows makes it
    a row of zeros.

    Notes
    -----
    **Privacy.** *Covered*: nothing by itself, the rows are as private as the data.
    *Neighbours*: changing one record changes one row. *Assumed public*: the number of
    records, names, types, bounds and levels. *Not covered*: time and memory.
    """
    covariates, usable, values = read_sparse_covariates(spec, frame, spec.formula.variables)
    label, labelled = labels(spec.response, values, tally_of(frame))
    return covariates, np.where(usable & labelled, label, 0.0)


def read_sparse_covariates(
    spec: DesignSpec, frame: pd.DataFrame | RowSlice, names: tuple[str, ...]
) -> tuple[Any, BoolArray, Values]:
    """Covariates ``(n, p)`` as `read_sparse`, which rows are usable, and the columns named."""
    n, first = len(frame), int(spec.columns.has_intercept)
    values, usable = read_values(spec.variables, frame, names)
    numbers, codes, coded = read_factors(spec, values, n)
    with np.errstate(all="ignore"):
        parts = [
            _term(spec, recipe, numbers, codes, n)
            for recipe in spec.columns.recipes
            if recipe.start >= first
        ]
    empty = sparse.csr_array((n, 0))
    return sparse.hstack(parts, format="csr") if parts else empty, usable & coded, values


def _term(
    spec: DesignSpec,
    recipe: TermCoding,
    numbers: Mapping[int, FloatArray],
    codes: Mapping[int, IntArray],
    n: int,
) -> Any:
    """The columns of a term in scaled units ``(n, stop - start)``.

    The parent of a column is what the column is at numeric factors of one, so the grid has the
    entries of both, and ``(z - centre z_parent) / scale`` is an entry of the grid times
    ``(product - centre) / scale``.
    """
    columns, here = spec.columns, slice(recipe.start, recipe.stop)
    grid = sparse.csr_array(recipe.grid)
    combined = np.zeros(n, dtype=np.intp)
    if recipe.categorical:
        chosen = tuple(codes[index] for index in recipe.categorical)
        combined = np.ravel_multi_index(chosen, recipe.levels)
    rows = sparse.csr_array(grid[combined])
    product = np.ones(n)
    for index in recipe.numeric:
        product = product * numbers[index]
    centre = np.where(columns.parent[here] >= 0, columns.centre[here], 0.0)
    factors = np.repeat(product, np.diff(rows.indptr)) - centre[rows.indices]
    data = rows.data * (factors / columns.scale[here][rows.indices])
    return sparse.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)
