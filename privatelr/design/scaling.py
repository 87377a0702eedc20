"""Changes of the columns before a fit: a public projection, and R's scaling by the data."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

from privatelr.arguments import suggests_arguments
from privatelr.design.column_plan import unit_factors
from privatelr.design.formula_design import (
    DesignSpec,
    plan_design,
    read_covariates,
    worth_sparse,
)
from privatelr.design.matrix_designs import AS_FRAME
from privatelr.design.terms import MAPPED, Standard, Term
from privatelr.errors import FormulaError, PrivacyWarning, SchemaError, show
from privatelr.formula import parse_formula
from privatelr.sources import Batch, Schema, as_batch, declare_schema
from privatelr.types import Block, ColumnGroup, FloatArray, euclidean_part


def projection_width(rp_dim: object, n: int) -> int:
    """Return the number of columns to project to; 0 for no projection.

    A negative `rp_dim` asks for R's rule, ``round(0.5 * 0.5**-2 * log(n))``, which depends
    on the number of records only.
    """
    if isinstance(rp_dim, bool) or not isinstance(rp_dim, int | np.integer):
        raise SchemaError(
            f"rp_dim={show(rp_dim)}: rp_dim takes a whole number, 0 for no projection, below 0 for "
            "R's rule."
        )
    return int(rp_dim) if rp_dim >= 0 else max(1, round(0.5 * 0.5**-2 * math.log(n)))


def project(spec: DesignSpec, normals: FloatArray) -> DesignSpec:
    """Project the covariates onto a random subspace.

    Parameters
    ----------
    normals : ndarray of shape (p, q)
        Independent standard normal numbers, drawn without the data.

    Notes
    -----
    The columns are orthonormal up to the factor ``sqrt(p / q)``, so lengths are kept on average.
    Rows are shortened again after the projection. So the row radius, and with it every guarantee,
    holds for any matrix that does not depend on the data, and the matrix may be published.
    """
    p, q = normals.shape
    basis, _ = np.linalg.qr(normals)
    # a projection mixes unbounded columns with the others, so whole rows are shortened first
    return replace(spec.as_whole_rows(), projection=basis * math.sqrt(p / q))


def column_groups(spec: DesignSpec, *, centred: bool) -> tuple[ColumnGroup, ...]:
    """Return the covariates of a design by terms; a function of public facts."""
    first = int(spec.columns.has_intercept)
    terms = spec.columns.terms[first:]
    found = [_group(term, centred) for term in terms]
    numbers = {
        term.numeric: term.start - first
        for group, term in zip(found, terms, strict=True)
        if group.kind == "number" and centred
    }
    for place, term in enumerate(terms):
        moves = bool(np.all(spec.columns.parent[term.start : term.stop] >= first))
        if term.categorical and moves:
            found[place] = replace(found[place], number=numbers.get(term.numeric))
    return tuple(found)


def _group(term: Term, centred: bool) -> ColumnGroup:
    """Return the columns of a term, the two values of a single column of levels at -1 and 1.

    Halfway between them a row is shortest. A column that is not moved counts from its middle only
    if that is 0, as under a sum-to-zero coding.
    """
    size = term.stop - term.start
    grid = term.grid.toarray() if sparse.issparse(term.grid) and size == 1 else term.grid
    entries = grid.data if sparse.issparse(grid) else np.asarray(grid)
    plain = bool(np.isin(entries, (0.0, 1.0)).all())
    if term.numeric and not term.categorical and size == 1 and plain:
        return ColumnGroup(1, "number")
    if term.numeric or not plain or term.absolute > 1:
        group = ColumnGroup(size, "product", term.radius, term.largest)
    else:
        group = ColumnGroup(size, "indicators")
    values = np.unique(entries) if size == 1 and not term.numeric else np.empty(0)
    if len(values) != 2 or not (centred or values.sum() == 0):
        return group
    width = float(values[1] - values[0])
    return replace(group, middle=float(values.mean()), factor=2.0 / width)


def plan_standard(
    spec: Any,
    *,
    pure: bool,
    length: float | None,
    unit: bool,
    weighted: bool,
    intercept_scale: float,
) -> DesignSpec:
    """Plan rows of standardised columns, before their moments are released.

    Parameters
    ----------
    pure : bool
        Whether the promise is pure: then numbers are shortened together, and every other term
        is a block of its own with the factor 2.
    length : float or None
        The bound on a row, in lengths of a typical one; None if rows are divided by a released
        length, so that their bound is 1.
    unit : bool
        Whether rows are brought to that length whatever it was.
    weighted : bool
        Whether longer rows count less, which keeps the coefficients of a model with
        probabilities what they are, instead of being shortened.
    intercept_scale : float
        The constant in the intercept column, over `length` unless the promise is pure.

    Raises
    ------
    SchemaError
        If a term has no bounds, or if there is no column whose scale is released.
    """
    if not spec.has_names:
        raise SchemaError(
            "do_scale='private': takes bounds= for every column, and those of a sparse matrix have "
            f"none; {AS_FRAME}."
        )
    if spec.unbounded:
        raise SchemaError(
            f"do_scale='private': takes bounds= for every variable, and {spec.unbounded[0]!r} has "
            "none."
        )
    columns = spec.columns
    # columns may be moved where there is an intercept, and where that fills no zeros
    centred = columns.has_intercept and not worth_sparse(spec)
    groups = column_groups(spec, centred=centred)
    if not any(group.size for group in groups if group.kind == "number" or not pure):
        needed = "number among the covariates under pure epsilon" if pure else "covariate"
        raise SchemaError(
            f"do_scale='private': takes a {needed}, and there is none; take do_scale=False."
        )
    held = 1.0 if length is None else length
    constant = intercept_scale * (1.0 if pure else held)
    intercept = constant if columns.has_intercept else None
    bound, blocks = held, tuple[Block, ...]()
    if pure:
        covariates = columns.terms[int(columns.has_intercept) :]
        bound, blocks = _blocks_of_standard(groups, covariates, held, intercept)
    planned: DesignSpec = replace(
        spec,
        bound=bound,
        bound_source="private scale",
        intercept=intercept,
        standard=Standard(groups, centred, length, unit, weighted, intercept_scale, blocks),
    )
    return planned


def _blocks_of_standard(
    groups: tuple[ColumnGroup, ...],
    terms: Sequence[Term],
    length: float,
    intercept: float | None,
) -> tuple[float, tuple[Block, ...]]:
    """Return the bound on the covariates under a pure promise, and the blocks of a row.

    Numbers have one length together. So have their products with levels, where this takes less
    noise than a block of their own.
    """
    own = length * math.sqrt(sum(group.kind == "number" for group in groups))
    pairs = list(zip(groups, terms, strict=True))
    together = [_is_beside_numbers(group, term, length, own) for group, term in pairs]
    own = length * math.hypot(*(pair[0].usual for pair in compress(pairs, together)))
    blocks = [] if intercept is None else [Block(1, intercept * MAPPED)]
    square = own**2
    for (group, term), beside in zip(pairs, together, strict=True):
        if beside:
            blocks.append(Block(group.size, own, "l2"))
        elif group.number is not None:
            # no number is larger than their length, so their products are cut off nowhere
            absolute = group.factor * own * term.absolute * MAPPED
            blocks.append(Block(group.size, absolute))
            square += min(absolute, length * group.usual) ** 2
        else:
            absolute = group.factor * (term.absolute - abs(group.middle))
            blocks.append(Block(group.size, absolute * MAPPED))
            square += (group.usual * MAPPED) ** 2
    kept = tuple(blocks) if all(block.bound > 0 and block.size for block in blocks) else ()
    return math.sqrt(square), kept


def _is_beside_numbers(group: ColumnGroup, term: Term, length: float, own: float) -> bool:
    """Return whether the columns share the length `own` of numbers, and are no block of their own.

    Noise is about as large as `length` times the usual one in a column that shares it, and in a
    block of s columns as an entry of a random point of its ball.
    """
    if group.kind == "number" or group.number is None:
        return group.kind == "number"
    shrunk = math.sqrt(2 / ((group.size + 1) * (group.size + 2)))
    return length * group.usual < group.factor * own * term.absolute * shrunk


def standardise(
    spec: DesignSpec, centre: FloatArray, factor: FloatArray, released: float | None = None
) -> DesignSpec:
    """Apply the map ``z = factor (x - centre)`` of released moments to the covariates ``(p,)``.

    What was `released` of the length of rows, by which `factor` is divided, is told by pages.

    It becomes a part of the map of the columns, so that prediction and the units of coefficients
    follow. A column that is centred has the intercept as its parent, and a product the column of
    its levels: their multiple by `centre` is taken off.
    """
    columns, first = spec.columns, int(spec.columns.has_intercept)
    parent, moved = columns.parent.copy(), columns.centre.copy()
    scale, here = columns.scale.copy(), np.arange(first, len(columns.names))
    moved[here] += scale[here] * centre
    parent[here] = np.where(centre != 0, np.maximum(parent[here], 0), parent[here])
    scale[here] /= factor
    standard = None if spec.standard is None else replace(spec.standard, released=released)
    columns = replace(columns, parent=parent, centre=moved, scale=scale)
    return replace(spec, columns=columns, standard=standard)


def unstandardised(spec: DesignSpec, centre: FloatArray, factor: FloatArray) -> DesignSpec:
    """Undo `standardise`: the design of covariates in the units of their declared bounds."""
    columns, first = spec.columns, int(spec.columns.has_intercept)
    moved, scale = columns.centre.copy(), columns.scale.copy()
    scale[first:] *= factor
    moved[first:] -= scale[first:] * centre
    return replace(spec, columns=replace(columns, centre=moved, scale=scale), standard=None)


def in_standard_units(
    spec: DesignSpec, covariates: FloatArray, centre: FloatArray, factor: FloatArray
) -> FloatArray:
    """Apply that map to covariates ``(n, p)`` in scaled units.

    Where a row has the length of a typical one, so that many are longer, these are brought just
    below it. What bounds rows would do that as well, but slowly: it expects few of them.
    """
    assert spec.standard is not None
    if sparse.issparse(covariates):  # which are not centred
        scaled: FloatArray = covariates @ sparse.diags_array(factor)
        return scaled
    first = int(spec.columns.has_intercept)
    parent = spec.columns.parent[first:] - first
    products = np.flatnonzero((parent >= 0) & (centre != 0))
    constant = centre.copy()
    constant[products] = 0.0
    found = np.subtract(covariates.T, constant[:, None], order="C")
    for column in products:
        found[column] -= centre[column] * covariates[:, parent[column]]
    found *= factor[:, None]
    length = spec.bound if spec.standard.unit else _common_length(spec)
    held, weighted = spec.standard.length, spec.standard.weighted
    if length is not None and held is not None and held <= 1 and not weighted:
        factors = unit_factors(np.einsum("ij,ij->j", found, found), length)
        if not spec.standard.unit:
            factors = np.minimum(factors, 1.0)
        if np.any(factors != 1):
            found *= factors
    return found.T


def _common_length(spec: DesignSpec) -> float | None:
    """The bound on the length of all covariates together, if there is one."""
    if not spec.blocks:
        return spec.bound
    columns, bound = euclidean_part(spec.blocks) or ((), 0.0)
    return bound if len(columns) == spec.p else None


class ScaledData(NamedTuple):
    """What `scaled` returns; computed from the data, hence not private.

    Attributes
    ----------
    data : DataFrame
        Standardised covariates, the longest row of length 1, and the response's columns.
    scale : float
        One over the largest length among the standardised rows.
    """

    data: pd.DataFrame
    scale: float


def scale_by_data(spec: DesignSpec, batch: Batch) -> tuple[DesignSpec, float]:
    """Standardise every covariate column, then shrink all rows into the unit ball.

    Returns the plan with the map that was computed, which prediction uses again, and the factor
    that made the longest row have length 1.
    """
    columns, size = spec.columns, len(spec.columns.names)
    nothing = np.zeros(size)
    unmapped = replace(columns, parent=np.full(size, -1), centre=nothing, scale=nothing + 1)
    plain = replace(spec, columns=unmapped)
    raw, usable, _ = read_covariates(plain, batch, spec.formula.covariates)
    raw = raw[usable]
    first = int(columns.has_intercept)
    with np.errstate(all="ignore"):
        mean = raw.mean(axis=0) if len(raw) and first else np.zeros(raw.shape[1])
        deviation = raw.std(axis=0, ddof=1) if len(raw) > 1 else np.ones(raw.shape[1])
        deviation = np.where((deviation > 0) & np.isfinite(deviation), deviation, 1.0)
        mean = np.where(np.isfinite(mean), mean, 0.0)
        longest = float(np.linalg.norm((raw - mean) / deviation, axis=1).max(initial=0.0))
    factor = 1.0 / longest if longest > 0 and math.isfinite(longest) else 1.0
    parent, centre, scale = columns.parent.copy(), columns.centre.copy(), columns.scale.copy()
    parent[first:], centre[first:], scale[first:] = first - 1, mean, deviation / factor
    whole = spec.as_whole_rows()
    scaled_spec = replace(
        whole,
        columns=replace(columns, parent=parent, centre=centre, scale=scale),
        bound=1.0 if whole.bound_source == "declared bounds" else whole.bound,
        bound_source="row_norm",
        unbounded=(),
        scaled_by_data=True,
    )
    return scaled_spec, factor


@suggests_arguments
def scaled(formula: str, data: Any, *, levels: Any = None) -> ScaledData:
    """Standardise the covariates of a formula and shrink the rows into the unit ball.

    What R's ``scaled`` does: each column minus its mean, over its standard deviation, then
    everything over the largest row length.

    Parameters
    ----------
    formula : str
        As for `dplr`.
    data : DataFrame or mapping of columns
    levels : mapping, optional
        As for `dplr`.

    Returns
    -------
    ScaledData
        ``(data, scale)``.

    Notes
    -----
    **Privacy.** *Covered*: nothing; a `PrivacyWarning` says so. *Neighbours*: one record moves
    every row of the result. *Assumed public*: names, types and levels. *Not covered*: the
    result, the scale, and any fit to the result, whatever its epsilon. Declare ``bounds=`` to
    `dplr` instead.

    Examples
    --------
    >>> import warnings
    >>> from privatelr import load_dataset, load_schema, scaled
    >>> iris, levels = load_dataset("iris"), load_schema("iris")["levels"]
    >>> with warnings.catch_warnings(action="ignore"):  # it warns that this is not private
    ...     rows, scale = scaled("Species != 'setosa' ~ Petal.Width", iris, levels=levels)
    >>> float((rows["Petal.Width"].abs()).max().round(6))
    1.0
    """
    batch = as_batch(data)
    warnings.warn(
        "scaled() computes means, standard deviations and a row length from the data: its result, "
        "and any fit to it, is not private.",
        PrivacyWarning,
        stacklevel=3,
    )
    schema: Schema = declare_schema(levels=levels)
    parsed = parse_formula(formula, list(batch.names))
    for name in parsed.response.names:
        if name in parsed.covariates:
            raise FormulaError(
                f"formula: scaled() returns {name!r} once, and it is in the response and among the "
                "covariates; take it out of one."
            )
    if parsed.offsets:
        raise FormulaError(
            f"formula: scaled() returns covariates, and offset({parsed.offsets[0].label}) is none; "
            "leave it out."
        )
    spec, factor = scale_by_data(plan_design(parsed, batch, schema), batch)
    covariates, usable, _ = read_covariates(spec, batch, parsed.covariates)
    covariates[~usable] = np.nan
    names = spec.columns.names[int(spec.columns.has_intercept) :]
    result = pd.DataFrame(covariates, columns=list(names), index=batch.index)
    for name in parsed.response.names:
        result[name] = batch[name]
    return ScaledData(result, factor)
