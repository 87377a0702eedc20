"""From a formula, a frame and a public schema to rows whose length has a public limit.

`plan_design` sees names, types and declarations. `read_design` sees the data, and treats every
row alike, whatever the other rows hold. A row that cannot be used becomes a row of zeros, so the
number of rows is the number of records.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from pandas.api.types import is_bool_dtype
from scipy import sparse

from privatelr.design import column_plan, offsets_and_weights
from privatelr.design.offsets_and_weights import Weight
from privatelr.design.prior import Prior
from privatelr.design.response import Response, plan_response, require_no_order
from privatelr.design.terms import (
    BoundSource,
    Columns,
    Factor,
    Standard,
    Term,
    blocks_of,
    bound_of,
    plan_columns,
    require_boundable,
    user_units,
)
from privatelr.design.type_checks import require_kinds, require_some_records
from privatelr.design.variables import (
    Values,
    Variable,
    content_of,
    describe_variables,
    other_width,
    read_values,
    require_no_listed_numbers,
    require_types,
    require_usable,
)
from privatelr.errors import SchemaError
from privatelr.formula import Formula, at_level_text
from privatelr.sources import Batch, Payment, Schema
from privatelr.types import Block, BoolArray, FloatArray, Reader, Rows, row_radius

_SPARSE = 0.1
"""Share of nonzero entries below which rows are stored as a sparse array."""
_WIDE = 64
"""Number of columns below which a sparse array of rows saves nothing."""
_FEW_LEVELS = 200
"""Number of declared levels up to which a plan is small enough to be kept."""
_WRITTEN = (str, bool, int, float)
"""Types whose values are told apart by what they write of themselves."""


@dataclass(frozen=True, eq=False)
class DesignSpec:
    """All that is needed to turn a frame into design rows; public, and free of data.

    Attributes
    ----------
    bound, bound_source : float and str
        Largest length of the covariates of a row, to which longer ones are shortened; its origin.
    unbounded : tuple of str
        Terms whose range the declared bounds do not limit.
    unbounded_norm : float or None
        Largest length of the columns of the unbounded terms together. They are shortened to it,
        whatever the other columns hold. None where whole rows are shortened, or where every term
        is bounded.
    intercept : float or None
        The constant in the intercept column, None for a model without intercept.
    projection : ndarray of shape (p, q) or None
        Applied to the covariates after shortening; the result is shortened again.
    scaled_by_data : bool
        Whether the map of the columns was computed from the data, which voids any guarantee.
    standard : Standard or None
        How rows are held if their columns are standardised by released moments.
    offsets : tuple of Factor
        Numbers whose sum is added to the linear predictor.
    weight : Weight or None
        How much a record counts; None if all count as much.
    prior : Prior or None
        Coefficients to which the penalty draws; None for 0.
    paid : tuple of Payment
        What was paid, apart from the fit, for the declarations of its variables.
    width : int or None
        The number of columns of the array that the plan was made for; None for named columns.
    """

    formula: Formula
    variables: Mapping[str, Variable]
    response: Response
    factors: tuple[Factor, ...]
    columns: Columns
    bound: float
    bound_source: BoundSource
    unbounded: tuple[str, ...]
    intercept: float | None
    projection: FloatArray | None = None
    scaled_by_data: bool = False
    unbounded_norm: float | None = None
    standard: Standard | None = None
    offsets: tuple[Factor, ...] = ()
    weight: Weight | None = None
    prior: Prior | None = None
    paid: tuple[Payment, ...] = ()
    width: int | None = None
    has_names: ClassVar[bool] = True
    """Whether its columns have names, and terms of a formula."""

    @functools.cached_property
    def straight(self) -> tuple[tuple[column_plan.Stretch, ...], tuple[Term, ...]]:
        """Columns that are read straight into the design, and the terms that have to be made."""
        read = (self.formula.response, *self.formula.beside)
        kept = [name for expression in read for name in expression.names]
        return column_plan.plan_straight(self.columns.terms, self.factors, self.variables, kept)

    @property
    def p(self) -> int:
        """Number of covariate columns before projection."""
        return len(self.columns.names) - self.columns.has_intercept

    @property
    def d(self) -> int:
        """Number of design columns, intercept included, after projection."""
        covariates = self.p if self.projection is None else self.projection.shape[1]
        return covariates + self.columns.has_intercept

    @property
    def radius(self) -> float:
        """R, the largest length of a design row, the intercept entry included (theory.md#setting).

        Every formula of calibration takes ``sqrt(bound**2 + intercept**2)``,
        because the intercept entry of a row moves the gradient as the other entries do.
        """
        return row_radius(self.bound, self.intercept)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The intercept and the terms, each with the largest sum of sizes of its entries in a row.

        The unbounded terms share one bound on their length instead. Empty where a row is not a
        product of terms, because it is projected, scaled by the data, or shortened as a whole for
        lack of bounds. Rows that are shortened for another reason stay within the blocks.
        """
        if self.standard is not None:
            return self.standard.blocks
        whole = self.unbounded and self.unbounded_norm is None
        if self.projection is not None or self.scaled_by_data or whole:
            return ()
        return blocks_of(self.columns, self.intercept, self.unbounded_norm)

    @property
    def touched(self) -> int:
        """How many fits neighbours may change at once; see `privatelr.mechanisms.Problem`.

        A record leaves one stratum for another, and a person may have records in all of them.
        """
        by = self.formula.by
        if by is None:
            return 1
        found = 0 if self.formula.person is None else len(self.variables[by.column].levels or ())
        return max(found, 2)

    @property
    def offset_bound(self) -> float:
        """Largest size of the offset of a record; 0 for a model without one.

        Rows carry the number of a class in its place, from 0 to K - 1.
        """
        if self.response.kind == "classes":
            return float(len(self.response.levels) - 1)
        ends = [offset.interval for offset in self.offsets]
        return max(0.0, -sum(low for low, _ in ends), sum(high for _, high in ends))

    @property
    def weighted(self) -> bool:
        """Whether a row that is too long counts less, instead of being shortened."""
        return self.standard is not None and self.standard.weighted

    @property
    def limits(self) -> dict[str, Any]:
        """What rows are held to: arguments of `privatelr.numerics.rows.RowBounds`."""
        return {
            "bound": self.bound,
            "intercept": self.intercept,
            "projection": self.projection,
            "blocks": self.blocks,
            "weighted": self.weighted,
            "offset_bound": self.offset_bound,
        }

    @property
    def x_bound(self) -> float:
        """Largest size of an entry of a design row, the intercept entry included.

        The entries of unbounded terms are at most one in their own units.
        """
        first = int(self.columns.has_intercept)
        sizes = [term.largest for term in self.columns.terms[first:]]
        return max(self.intercept or 0.0, *(s if math.isfinite(s) else 1.0 for s in sizes), 0.0)

    @property
    def density(self) -> float:
        """Share of design entries that may be nonzero: a factor fills one column in a row."""
        terms = self.columns.terms
        filled = (1 if t.largest == t.absolute else t.stop - t.start for t in terms)
        return sum(filled) / max(len(self.columns.names), 1)

    def as_whole_rows(self) -> DesignSpec:
        """The same design with rows that are shortened as a whole, for a projection."""
        if self.unbounded_norm is None:
            return self
        norm = self.unbounded_norm
        return replace(self, bound=norm, bound_source="row_norm", unbounded_norm=None)

    def at_level(self, level: Hashable) -> DesignSpec:
        """The same plan for the stratum of a level of ``by(...)``; all others are rows of zeros."""
        assert self.formula.by is not None
        assert self.weight is not None
        by = replace(self.formula.by, level=level)
        formula = replace(self.formula, by=by, text=at_level_text(self.formula.text, by))
        return replace(self, formula=formula, weight=replace(self.weight, stratum=by))

    def user_map(self) -> Any:
        """Matrix ``(p + 1, d)`` from design to user units, a SciPy sparse array if it is large."""
        return user_units(self.columns, self.intercept, self.projection)

    def user_rows(self) -> FloatArray:
        """The same matrix as a dense array, for inference, which holds others of this size."""
        units = self.user_map()
        return np.asarray(units.toarray() if sparse.issparse(units) else units)


# -- columns, which are kept for the next fit that asks the same -----------------------------------


PlannedColumns = tuple[dict[str, Variable], Response, tuple[Factor, ...], Columns]
"""The variables of a formula, its response, its factors, and its columns.

The variables are those of the first call, so that a fit refers to the same objects throughout.
Arrays of the columns are shared by the fits of all calls, so none of them can be written to."""
_KEPT: dict[tuple[int, tuple[str, ...]], tuple[Formula, PlannedColumns]] = {}
"""What was planned for the latest formulas, which are held so that their numbers stay their own.
The variables are written out, because the levels 1, True and 1.0 are equal but not one level."""
_MOST_KEPT = 16


def planned_columns(formula: Formula, variables: dict[str, Variable]) -> PlannedColumns:
    """Plan the response and the columns of a formula, or return what was planned before.

    A small fit takes as long to plan as to solve. All of it is public.

    Raises
    ------
    FormulaError, SchemaError
        If the terms cannot be combined, or levels are not declared.
    """
    levels = [level for one in variables.values() for level in one.levels]
    if len(levels) > _FEW_LEVELS or not all(type(level) in _WRITTEN for level in levels):
        return _plan(formula, variables)
    key = id(formula), tuple(map(repr, variables.values()))
    if (kept := _KEPT.get(key)) is None:
        kept = _KEPT[key] = formula, _plan(formula, variables)
        for oldest in list(_KEPT)[:-_MOST_KEPT]:
            _KEPT.pop(oldest, None)
    return kept[1]


def _plan(formula: Formula, variables: dict[str, Variable]) -> PlannedColumns:
    response = plan_response(formula.response, variables)
    factors, columns = plan_columns(formula, variables)
    grids = (term.grid.data if sparse.issparse(term.grid) else term.grid for term in columns.terms)
    for array in (columns.parent, columns.centre, columns.scale, *grids):
        array.flags.writeable = False
    return variables, response, factors, columns


# -- a plan ---------------------------------------------------------------------------------------


def plan_design(formula: Formula, batch: Batch, schema: Schema) -> DesignSpec:
    """Describe the design of a formula from names, types and declarations.

    Raises
    ------
    FormulaError, SchemaError
        One sentence that names the term and the remedy.
    """
    try:
        variables = describe_variables(batch, formula.variables, schema)
        for expression in (formula.response, *formula.factors, *formula.beside):
            require_kinds(expression.label, expression.tree, variables)
        require_some_records(formula.response, variables, {0, 1})
        if formula.subset is not None:
            require_some_records(formula.subset, variables, {1})
        variables, response, factors, columns = planned_columns(formula, variables)
    except SchemaError:  # one column is named by it, and others may be as useless
        bare = [expression.bare() for expression in formula.factors]
        require_usable([name for name in bare if name is not None], batch, schema)
        raise
    require_no_order(response, batch)
    covariates = (one for name, one in variables.items() if name not in formula.response.names)
    require_no_listed_numbers(covariates, schema)
    bound, source, unbounded, unbounded_norm = bound_of(columns, schema.row_norm)
    if unbounded and schema.row_norm is None:
        require_boundable(variables, factors)
    intercept = schema.constant if columns.has_intercept else None
    made = (formula, variables, response, factors, columns, bound, source, unbounded, intercept)
    own = offsets_and_weights.plan_beside(formula, variables)
    paid = schema.payments(variables) if schema.paid else ()
    beside: dict[str, Any] = {"offsets": own[0], "weight": own[1], "paid": paid}
    return DesignSpec(*made, unbounded_norm=unbounded_norm, width=batch.width, **beside)


def require_readable(spec: DesignSpec, batch: Batch, names: tuple[str, ...]) -> None:
    """Refuse a table that the model cannot read, by its names, its types and an array's width.

    Predictions and private answers come here before they read a value. An array may lack its last
    column where that is the response.

    Raises
    ------
    FormulaError, SchemaError
    """
    if batch.width is not None and spec.width is not None:
        last = spec.response.expression.column == f"X{spec.width}"
        if batch.width not in (spec.width, spec.width - last):
            raise other_width(batch.width, spec.width)
    require_types(spec.variables, batch, names)


def require_outcomes(spec: DesignSpec, batch: Batch) -> None:
    """Refuse outcomes of a type that the response does not have; raises as `require_types`.

    Where a fit read booleans, numbers may be another coding of them, such as 1 and 2.
    """
    require_types(spec.variables, batch, spec.response.expression.names)
    name = spec.response.expression.column
    if name is not None and spec.variables[name].kind == "logical":
        dtype = batch.column(name).dtype
        if content_of(name, dtype) == "numbers" and not is_bool_dtype(dtype):
            raise SchemaError(
                f"response {name!r} has the type {dtype}, and the model was fitted to booleans; "
                f"compare it with the positive value, as in {name} == 1."
            )


def read_design(spec: DesignSpec, batch: Batch, backend: Any) -> Rows:
    """Read rows under a plan.

    Parameters
    ----------
    batch
        Its tally, if there is one, takes counts that are not private.
    backend
        A class of bounded rows, which are made of a `Reader`.

    Notes
    -----
    **Privacy.** *Covered*: nothing by itself, the rows are as private as the data.
    *Neighbours*: changing one record changes one row. *Assumed public*: the number of
    records, names, types, bounds and levels. *Not covered*: time and memory.
    """
    rows: Rows = backend.of(reader_of(spec, batch), **spec.limits)
    return rows


def reader_of(spec: DesignSpec, batch: Batch, start: int = 0, stride: int = 1) -> Reader:
    """Return a reader of a batch, or of its rows `start`, `start + stride`, ..., without a copy."""
    few = batch.cut(slice(start, None, stride))
    shares = None if batch.shares is None else offsets_and_weights.read_person_shares(few)
    return Reader(len(few), spec.p, functools.partial(read_labelled, spec, few), shares=shares)


def read_labelled(
    spec: DesignSpec, batch: Batch, start: int = 0, stop: int | None = None
) -> tuple[FloatArray, ...]:
    """Return covariates ``(n, p)`` in scaled units, not yet bounded, and what `read_targets` reads.

    They are of the rows from `start` to `stop`. In a row that cannot be used a covariate is missing
    or infinite.
    """
    batch = batch.cut(slice(start, stop))
    covariates, usable, values = _covariates(spec, batch, spec.formula.variables)
    label, *offset = offsets_and_weights.read_targets(spec, values, usable, batch)
    if not label.all():
        covariates[label == 0] = np.nan
    return covariates, label, *offset


def read_covariates(
    spec: DesignSpec, batch: Batch, names: tuple[str, ...]
) -> tuple[FloatArray, BoolArray, Values]:
    """Return covariates ``(n, p)``, the usable rows, and the columns of the response, if read.

    Rows are mapped to scaled units; they are neither bounded nor projected yet.
    """
    covariates, usable, values = _covariates(spec, batch, names)
    with np.errstate(all="ignore"):
        # a sum is finite only if all its terms are
        if not np.isfinite(np.einsum("ij->i", covariates)).all():
            usable &= np.isfinite(covariates).all(axis=1)
    return covariates, usable, values


def _covariates(
    spec: DesignSpec, batch: Batch, names: tuple[str, ...]
) -> tuple[FloatArray, BoolArray, Values]:
    """Read as `read_covariates`, but values of a usable row may overflow in scaled units."""
    stretches, terms = spec.straight
    raw = np.empty((len(spec.columns.names), len(batch))).T  # stored by columns, as it is filled
    with np.errstate(all="ignore"):
        values: dict[str, Any] = {}
        usable = np.ones(len(batch), dtype=bool)
        for stretch in stretches:
            usable &= column_plan.read_stretch(stretch, batch, raw)
            start, read, _ = stretch
            values |= dict(zip(read, raw.T[start : start + len(read)], strict=True))
        others = tuple(name for name in names if name not in values)
        found, valid = read_values(spec.variables, batch, others)
        values |= found
        used = {index for term in terms for index in (*term.numeric, *term.categorical)}
        numbers, codes, coded = column_plan.read_factors(
            spec.factors, values, len(raw), sorted(used)
        )
        for term in terms:
            column_plan.fill(raw, term, numbers, codes)
        usable &= valid & coded
        covariates = column_plan.to_units(raw, spec.columns)
        if spec.standard is not None and spec.standard.unit:
            covariates = column_plan.lengthened(covariates, spec.bound)
    # columns that were read straight into the design are no longer in the units of the data
    return covariates, usable, found


def worth_sparse(spec: DesignSpec) -> bool:
    """Whether the rows of a formula should be a sparse array; a function of public facts.

    Columns that were scaled by the data are centred at their means, which removes their zeros.
    """
    is_wide = len(spec.columns.names) >= _WIDE and spec.density < _SPARSE
    return is_wide and not spec.scaled_by_data


def read_sparse(spec: DesignSpec, batch: Batch) -> tuple[Any, ...]:
    """Return covariates ``(n, p)`` in scaled units, a `csr_array`, and labels ``(n,)``.

    An offset ``(n,)`` is third. The rows are not yet bounded. One that cannot be used has label 0.

    Notes
    -----
    **Privacy.** As of `read_design`.
    """
    covariates, usable, values = read_sparse_covariates(spec, batch, spec.formula.variables)
    return covariates, *offsets_and_weights.read_targets(spec, values, usable, batch)


def read_sparse_covariates(
    spec: DesignSpec, batch: Batch, names: tuple[str, ...]
) -> tuple[Any, BoolArray, Values]:
    """Return covariates ``(n, p)`` as `read_sparse`, the usable rows, and the columns named."""
    n, first = len(batch), int(spec.columns.has_intercept)
    values, usable = read_values(spec.variables, batch, names)
    numbers, codes, coded = column_plan.read_factors(spec.factors, values, n)
    with np.errstate(all="ignore"):
        parts = [
            column_plan.sparse_term(spec.columns, term, numbers, codes, n)
            for term in spec.columns.terms
            if term.start >= first
        ]
    found = sparse.hstack(parts, format="csr") if parts else sparse.csr_array((n, 0))
    if spec.standard is not None and spec.standard.unit:
        found = column_plan.lengthened(found, spec.bound)
    return found, usable & coded, values
