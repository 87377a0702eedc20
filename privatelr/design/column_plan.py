"""How the columns of a design are made from the columns of the data.

Most columns of a long table are columns of the design, except for their units. They are read side
by side into the design, and clipped all at once if clipping is needed. The other columns are made
term by term or, where most entries are zero, as a sparse array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from scipy import sparse

from privatelr.design.terms import Columns, Factor, Term
from privatelr.design.variables import Values, Variable, as_numbers, level_codes, stand_in
from privatelr.formula import evaluate
from privatelr.sources import Batch, beyond, count
from privatelr.types import BoolArray, FloatArray

Codes = Mapping[int, Any]
"""Levels of factors by number: positions ``(n,)``, or those of `partitions.Shares`."""
Stretch = tuple[int, tuple[str, ...], FloatArray]
"""Neighbouring columns of a design that are columns of the data: the position of the first, their
names, and an array ``(3, k, 1)`` of lower bounds, upper bounds and replacements for values that
are not finite."""


def plan_straight(
    terms: Sequence[Term],
    factors: Sequence[Factor],
    variables: Mapping[str, Variable],
    kept: Sequence[str],
) -> tuple[tuple[Stretch, ...], tuple[Term, ...]]:
    """Return the stretches of columns that are read straight into the design, and the other terms.

    Columns of the data that are listed in `kept` stay in their units.
    """
    used = set(kept)
    runs: list[tuple[int, list[Variable]]] = []
    others: list[Term] = []
    for term in terms:
        plain = len(term.numeric) == 1 and not term.categorical and term.stop - term.start == 1
        name = factors[term.numeric[0]].expression.column if plain else None
        straight = name is not None and name not in used and term.grid[0, 0] == 1.0
        if name is None or not straight or variables[name].kind != "numeric":
            others.append(term)
            continue
        used.add(name)
        if runs and runs[-1][0] + len(runs[-1][1]) == term.start:
            runs[-1][1].append(variables[name])
        else:
            runs.append((term.start, [variables[name]]))
    found = (
        (
            start,
            tuple(variable.name for variable in run),
            np.array([(*variable.bounds, stand_in(variable)) for variable in run]).T[:, :, None],
        )
        for start, run in runs
    )
    return tuple(found), tuple(others)


def read_stretch(stretch: Stretch, batch: Batch, raw: FloatArray) -> BoolArray | np.bool_:
    """Read columns into their places in a raw design ``(n, d)``, as `read_variable` reads each.

    Returns
    -------
    bool or ndarray of shape (n,)
        The rows in which all of them are finite.
    """
    start, names, (low, high, instead) = stretch
    table = raw.T[start : start + len(names)]
    place = 0
    for part in batch.parts(*names):
        lines = as_numbers(part)
        several = len(lines) if lines.ndim == 2 else 1
        # adding 0.0 turns -0.0 into 0.0, so the result does not depend on how clipping treats it
        np.add(lines, 0.0, out=table[place : place + several])
        place += several
    least = np.minimum.reduce(table, axis=1, keepdims=True, initial=np.inf)
    most = np.maximum.reduce(table, axis=1, keepdims=True, initial=-np.inf)
    valid: BoolArray | np.bool_ = np.True_
    finite = np.isfinite(least) & np.isfinite(most)
    for index in np.flatnonzero(~finite):
        here = np.isfinite(table[index])
        table[index, ~here] = instead[index]
        valid = valid & here
        count(batch.tally, names[index], missing=int(np.count_nonzero(~here)))
    within = finite & (low <= least) & (most <= high)
    if not within.all():
        if batch.tally is not None:
            for index in np.flatnonzero(~within):
                clipped = beyond(table[index], float(low[index, 0]), float(high[index, 0]))
                count(batch.tally, names[index], clipped=clipped)
        np.minimum(np.maximum(table, low, out=table), high, out=table)
    return valid


def read_factors(
    factors: Sequence[Factor], values: Values, n: int, which: Sequence[int] | None = None
) -> tuple[dict[int, FloatArray], Codes, BoolArray]:
    """Return the factors asked for, by number, and the rows in which all of them are valid.

    Each has shape ``(n,)`` and holds clipped values or levels; those of splines have shares.
    """
    numbers: dict[int, FloatArray] = {}
    codes: dict[int, Any] = {}
    usable = np.ones(n, dtype=bool)
    for index in range(len(factors)) if which is None else which:
        factor, name = factors[index], factors[index].expression.column
        if factor.is_categorical and factor.partition is None:
            named = factor.source is not None
            column = values[str(factor.source)] if named else evaluate(factor.expression, values)
            found = level_codes(column, factor.levels)
            usable &= found >= 0
            codes[index] = np.maximum(found, 0)
            continue
        if name is not None:
            number = np.asarray(values[name])  # finite and clipped as it was read
        else:
            number, defined = read_number(factor, values, n)
            usable &= defined
        if factor.partition is None:
            numbers[index] = number
        else:
            codes[index], inside = factor.partition.shares(number)
            usable &= inside
    return numbers, codes, usable


def read_number(factor: Factor, values: Values, n: int) -> tuple[FloatArray, BoolArray]:
    """Return a number ``(n,)``, clipped to its range, and where it is defined."""
    with np.errstate(all="ignore"):  # a warning about an underflow would reveal data
        number = np.broadcast_to(evaluate(factor.expression, values), (n,))
        defined = np.isfinite(number)
        return np.clip(np.where(defined, number, 0.0), *factor.interval), defined


def _entries(term: Term, codes: Codes) -> Any:
    """Return the entries of a term ``(n, stop - start)`` with all numbers set to one.

    They are those of the levels of a row, or their mean by the shares of several levels.
    """
    divided = [index for index in term.categorical if isinstance(codes[index], tuple)]
    total: Any = None
    for steps in product(*(range(codes[index][1].shape[1]) for index in divided)):
        taken, share = dict(zip(divided, steps, strict=True)), np.ones(1)
        for index, step in taken.items():
            share = share * codes[index][1][:, step]
        chosen = tuple(
            codes[index][0] + taken[index] if index in taken else codes[index]
            for index in term.categorical
        )
        part = term.grid[np.ravel_multi_index(chosen, term.levels)]
        if divided:
            is_sparse = sparse.issparse(part)
            part = sparse.diags_array(share) @ part if is_sparse else part * share[:, None]
        total = part if total is None else total + part
    return total


def fill(design: FloatArray, term: Term, numbers: Mapping[int, FloatArray], codes: Codes) -> None:
    """Write the columns of a term into a raw design ``(n, d)``.

    Parameters
    ----------
    numbers
        Values ``(n,)`` of the numeric factors.
    codes
        Positions ``(n,)`` of the levels of the categorical factors, with shares for splines.
    """
    number: Any = 1.0
    for position, index in enumerate(term.numeric):
        number = number * numbers[index] if position else numbers[index]
    if not term.categorical:
        for column in range(term.start, term.stop):
            np.multiply(number, term.grid[0, column - term.start], out=design[:, column])
        return
    divided = any(isinstance(codes[index], tuple) for index in term.categorical)
    small = isinstance(term.grid, np.ndarray) and term.grid.size <= len(design)
    if small and not divided and not term.numeric:
        # column by column, as they lie in memory; the positions are within the grid
        place = np.ravel_multi_index(tuple(codes[i] for i in term.categorical), term.levels)
        out = design.T[term.start : term.stop]
        np.take(term.grid.T, place, axis=1, out=out, mode="clip")
        return
    rows = _entries(term, codes)
    block = rows.toarray() if sparse.issparse(rows) else rows
    if term.numeric:
        block = block * number[:, None]
    design[:, term.start : term.stop] = block


def sparse_term(
    columns: Columns,
    term: Term,
    numbers: Mapping[int, FloatArray],
    codes: Codes,
    n: int,
) -> Any:
    """Return the columns of a term in scaled units ``(n, stop - start)``, a `csr_array`.

    In a row, a factor of a thousand levels fills one column of a thousand. The plan holds the
    entries of a term for each combination of levels. They are looked up, multiplied by the numeric
    factors, and mapped to scaled units in place.

    The parent of a column equals the column with all numeric factors set to one, so both have the
    same entries in the grid. Hence ``(z - centre z_parent) / scale`` is an entry of the grid times
    ``(product - centre) / scale``.
    """
    here = slice(term.start, term.stop)
    if term.categorical:
        held = replace(term, grid=sparse.csr_array(term.grid))
        rows = sparse.csr_array(_entries(held, codes))
    else:
        rows = sparse.csr_array(sparse.csr_array(term.grid)[np.zeros(n, dtype=np.intp)])
    number = np.ones(n)
    for index in term.numeric:
        number = number * numbers[index]
    centre = np.where(columns.parent[here] >= 0, columns.centre[here], 0.0)
    factors = np.repeat(number, np.diff(rows.indptr)) - centre[rows.indices]
    data = rows.data * (factors / columns.scale[here][rows.indices])
    return sparse.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)


_JUST_BELOW = 1 - 2.0**-39
"""Rows of this share of a length are within it in whatever order one adds, so that what bounds rows
need not look at each again."""


def lengthened(covariates: Any, length: float) -> Any:
    """Bring all rows ``(n, p)`` to this length or just below; a row of zeros stays as it is.

    The result for a row does not depend on the other rows.
    """
    if sparse.issparse(covariates):
        squares = np.asarray(covariates.power(2).sum(axis=1)).reshape(-1)
        return sparse.csr_array(sparse.diags_array(unit_factors(squares, length)) @ covariates)
    squares = np.zeros(len(covariates))
    for column in covariates.T:
        squares += column * column
    covariates *= unit_factors(squares, length)[:, None]
    return covariates


def unit_factors(squares: FloatArray, length: float) -> FloatArray:
    """Factors ``(n,)`` that bring rows of these squared lengths just below a length."""
    return np.asarray(
        _JUST_BELOW * length / np.sqrt(np.where(squares > 0, squares, length * length))
    )


def to_units(raw: FloatArray, columns: Columns) -> FloatArray:
    """Map a raw design ``(n, d)`` to scaled units in place; returns its covariates ``(n, p)``."""
    first = int(columns.has_intercept)
    # parents are no children of other columns than the intercept, so that children which come
    # first find them unmapped, and the map can be applied in place
    for child in np.flatnonzero(columns.parent >= first):
        raw[:, child] -= raw[:, columns.parent[child]] * columns.centre[child]
    centre = np.where(columns.parent == 0, columns.centre, 0.0) * first
    if centre.any():
        raw -= centre
    if (columns.scale != 1).any():
        raw /= columns.scale
    return raw[:, first:]
