"""From a formula, a frame and a public schema to rows whose length has a public limit.

`plan_design` sees names, types and declarations; `read_design` sees the data, and does the
same to every row whatever the other rows hold. A row that cannot be used becomes a row of
zeros, so the number of rows is the number of records.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from privatelr.design.coding import fill
from privatelr.design.column_plan import Steps, plan_steps, read_stretch, to_units
from privatelr.design.response import Response, labels, plan_response
from privatelr.design.row_radius import BoundSource, blocks_of, bound_of, require_boundable
from privatelr.design.terms import Columns, plan_columns, user_units
from privatelr.design.type_checks import foreign_constants, require_kinds
from privatelr.design.variables import Coded, Variable, describe_variables, level_codes, read_column
from privatelr.errors import FormulaError
from privatelr.formula import Formula, evaluate
from privatelr.sources import RowSlice, Schema, Tally, as_piece, columns_of, side_by_side, tally_of
from privatelr.types import (
    Block,
    BoolArray,
    FloatArray,
    IntArray,
    ObjectArray,
    RowLimit,
    Rows,
    RowsBackend,
)

if TYPE_CHECKING:
    from privatelr.design.coding import Factor, TermCoding


Values = Mapping[str, Any]
"""Columns that were read, by name: numbers, objects, or positions among levels."""


@dataclass(frozen=True, slots=True, eq=False)
class DesignSpec:
    """All that is needed to turn a frame into design rows; public, and free of data.

    Attributes
    ----------
    bound : float
        Largest length of the covariates of a row; longer rows are shortened to it.
    bound_source : str
        Where `bound` comes from.
    unbounded : tuple of str
        Terms whose range the declared bounds do not limit.
    unbounded_norm : float or None
        Largest length of their columns together, to which those are shortened whatever the
        others hold; None where whole rows are shortened, or none of the terms is unbounded.
    intercept : float or None
        The constant in the intercept column, None for a model without intercept.
    projection : ndarray of shape (p, q) or None
        Applied to the covariates after shortening; the result is shortened again.
    scaled_by_data : bool
        Whether the map of the columns was read off the data, which voids any guarantee.
    steps : Steps
        How the columns are made, which follows from the rest.
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
    steps: Steps = field(init=False, repr=False)

    def __post_init__(self) -> None:
        kept = self.formula.response.names
        steps = plan_steps(self.columns, self.factors, self.variables, kept)
        object.__setattr__(self, "steps", steps)

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
        """R, the largest length of a design row, the intercept entry included."""
        return RowLimit(self.bound, self.intercept).radius

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The intercept and the terms, with the largest sum of sizes that a row has in each.

        Unbounded terms have a length together instead. Empty where a row is not a product of
        terms: projected, scaled by the data, or shortened as a whole for lack of bounds. Rows
        that are shortened for another reason stay within the blocks.
        """
        whole = self.unbounded and self.unbounded_norm is None
        if self.projection is not None or self.scaled_by_data or whole:
            return ()
        return blocks_of(self.columns, self.intercept, self.unbounded_norm)

    @property
    def x_bound(self) -> float:
        """Largest size of an entry of a design row, the intercept entry included.

        Terms without bounds are held to one in their own units.
        """
        first = int(self.columns.has_intercept)
        sizes = [term.largest for term in self.columns.terms[first:]]
        return max(self.intercept or 0.0, *(s if math.isfinite(s) else 1.0 for s in sizes), 0.0)

    @property
    def density(self) -> float:
        """Share of design entries that may differ from zero: of a factor, one column in a row."""
        filled = [
            1 if term.largest == term.absolute else len(term.columns) for term in self.columns.terms
        ]
        return sum(filled) / max(len(self.columns.names), 1)

    def as_whole_rows(self) -> DesignSpec:
        """The design whose rows are shortened as a whole where this one has unbounded terms."""
        if self.unbounded_norm is None:
            return self
        return replace(
            self, bound=self.unbounded_norm, bound_source="row_norm", unbounded_norm=None
        )

    def user_map(self) -> Any:
        """Matrix ``(p + 1, d)`` that takes design coefficients to the user's units.

        A SciPy sparse array of many columns.
        """
        return user_units(self.columns, self.intercept, self.projection)

    def user_rows(self) -> FloatArray:
        """The same as a table, for inference, which has others of this size."""
        units = self.user_map()
        return np.asarray(units.toarray() if sparse.issparse(units) else units)


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Bounded rows and the specification that made them.

    `tally` counts what was not read as it is, where anybody counted; it is not private.
    """

    rows: Rows
    spec: DesignSpec
    tally: Tally | None = None


def plan_design(formula: Formula, frame: pd.DataFrame, schema: Schema) -> DesignSpec:
    """Describe the design of a formula from names, types and declarations.

    Raises
    ------
    FormulaError, SchemaError
        One sentence with the term and the remedy.
    """
    variables = describe_variables(frame, formula.variables, schema)
    for expression in (formula.response, *formula.factors):
        require_kinds(expression, variables)
    for expression in formula.factors:
        for variable, value in foreign_constants(expression, variables):
            raise FormulaError(
                f"term '{expression.label}' compares {variable.name!r} with {value!r}, which is "
                f"not one of its levels {', '.join(map(repr, variable.levels))}."
            )
    response = plan_response(formula.response, variables)
    factors, columns = plan_columns(formula, variables)
    bound, source, unbounded, unbounded_norm = bound_of(columns, schema.row_norm)
    if unbounded and schema.row_norm is None:
        require_boundable(formula, variables, factors)
    return DesignSpec(
        formula=formula,
        variables=variables,
        response=response,
        factors=factors,
        columns=columns,
        bound=bound,
        bound_source=source,
        unbounded=unbounded,
        intercept=schema.intercept_scale if columns.has_intercept else None,
        unbounded_norm=unbounded_norm,
    )


def read_design(spec: DesignSpec, frame: pd.DataFrame, backend: RowsBackend) -> Design:
    """Read the rows of a frame under a plan.

    Parameters
    ----------
    backend
        Makes bounded rows of what a `Reader` reads.

    Notes
    -----
    **Privacy.** *Covered*: nothing by itself, the rows are as private as the data.
    *Neighbours*: changing one record changes one row. *Assumed public*: the number of
    records, names, types, bounds and levels. *Not covered*: time and memory.
    """
    reader = FrameReader(spec, frame)
    rows = backend.of(
        reader,
        bound=spec.bound,
        intercept=spec.intercept,
        projection=spec.projection,
        blocks=spec.blocks,
    )
    return Design(rows, spec, reader.tally)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FrameReader:
    """The labelled covariates of a frame, piece by piece, which saves copies of all of it."""

    spec: DesignSpec
    frame: pd.DataFrame
    tally: Tally = field(default_factory=Tally)
    _whole: RowSlice = field(init=False)

    def __post_init__(self) -> None:
        columns = columns_of(self.frame, self.spec.formula.variables)
        together = [stretch.names for stretch in self.spec.steps.straight]
        blocks = {
            names: side_by_side([columns[name] for name in names])
            for names in together
            if columns.keys() >= set(names)
        }
        whole = RowSlice(columns, 0, len(self.frame), blocks, self.tally)
        object.__setattr__(self, "_whole", whole)

    @property
    def n(self) -> int:
        return len(self.frame)

    @property
    def p(self) -> int:
        return self.spec.p

    def read(self, start: int, stop: int) -> tuple[FloatArray, FloatArray]:
        """Covariates and labels of the rows from `start` to `stop`; see `read_labelled`."""
        return read_labelled(self.spec, replace(self._whole, start=start, stop=min(stop, self.n)))


def read_labelled(
    spec: DesignSpec, frame: pd.DataFrame | RowSlice
) -> tuple[FloatArray, FloatArray]:
    """Covariates ``(n, p)`` in scaled units, not yet bounded, and labels ``(n,)`` of -1 and 1.

    A row that cannot be used is missing or infinite in one of its covariates at least; whoever
    bounds rows makes it a row of zeros.
    """
    covariates, usable, values = _covariates(spec, frame, spec.formula.variables)
    label, labelled = labels(spec.response, values, tally_of(frame))
    known = usable & labelled
    if not known.all():
        covariates[~known] = np.nan
        label[~known] = 0.0
    return covariates, label


def read_covariates(
    spec: DesignSpec, frame: pd.DataFrame | RowSlice, names: tuple[str, ...]
) -> tuple[FloatArray, BoolArray, Values]:
    """Covariates ``(n, p)``, which rows are usable, and the columns of the response, if read.

    Rows are mapped to scaled units; they are neither bounded nor projected yet.
    """
    covariates, usable, values = _covariates(spec, frame, names)
    with np.errstate(all="ignore"):
        # a sum is finite only if all that is added is
        if not np.isfinite(np.einsum("ij->i", covariates)).all():
            usable &= np.isfinite(covariates).all(axis=1)
    return covariates, usable, values


def _covariates(
    spec: DesignSpec, frame: pd.DataFrame | RowSlice, names: tuple[str, ...]
) -> tuple[FloatArray, BoolArray, Values]:
    """As `read_covariates`, but units may have carried values of a usable row beyond doubles."""
    piece, steps = as_piece(frame, names), spec.steps
    _require_columns(piece, names)
    raw = np.empty((len(spec.columns.names), len(piece))).T  # by columns, as it is filled
    with np.errstate(all="ignore"):
        values: dict[str, Any] = {}
        usable = np.ones(len(piece), dtype=bool)
        for stretch in steps.straight:
            usable &= read_stretch(stretch, piece, raw)
            values |= dict(zip(stretch.names, raw.T[stretch.start : stretch.stop], strict=True))
        others = tuple(name for name in names if name not in values)
        found, valid = read_values(spec.variables, piece, others)
        values |= found
        usable &= valid & _fill_terms(spec, raw, steps.recipes, steps.factors, values)
        covariates = to_units(raw, spec.columns, steps)
    # what was read straight into the design is not in the units of the data any more
    return covariates, usable, found


def read_values(
    variables: Mapping[str, Variable], frame: pd.DataFrame | RowSlice, names: tuple[str, ...]
) -> tuple[dict[str, FloatArray | ObjectArray | Coded], BoolArray]:
    """Clipped columns by name, and the rows in which all of them are valid."""
    piece = as_piece(frame, names)
    _require_columns(piece, names)
    values: dict[str, FloatArray | ObjectArray | Coded] = {}
    usable = np.ones(len(piece), dtype=bool)
    for name in names:
        values[name], valid = read_column(variables[name], piece[name], piece.tally)
        usable &= valid
    return values, usable


def _require_columns(piece: RowSlice, names: Sequence[str]) -> None:
    for name in names:
        if name not in piece.columns:
            raise FormulaError(
                f"data: the column {name!r} is missing; the model reads "
                f"{', '.join(map(repr, names))}."
            )


def _fill_terms(
    spec: DesignSpec,
    raw: FloatArray,
    recipes: Sequence[TermCoding],
    factors: Sequence[int],
    values: Values,
) -> BoolArray:
    """Make terms in a raw design of their factors, by number; rows in which those are valid."""
    numbers, codes, usable = read_factors(spec, values, len(raw), factors)
    for recipe in recipes:
        fill(raw, recipe, numbers, codes)
    return usable


def read_factors(
    spec: DesignSpec, values: Values, n: int, which: Sequence[int] | None = None
) -> tuple[dict[int, FloatArray], dict[int, IntArray], BoolArray]:
    """Factors by number, all or some: clipped values ``(n,)``, or levels ``(n,)``.

    And the rows in which all of them are valid.
    """
    numbers: dict[int, FloatArray] = {}
    codes: dict[int, IntArray] = {}
    usable = np.ones(n, dtype=bool)
    for index in range(len(spec.factors)) if which is None else which:
        factor = spec.factors[index]
        if factor.is_categorical:
            named = factor.source is not None
            column = values[str(factor.source)] if named else evaluate(factor.expression, values)
            found = level_codes(column, factor.levels)
            usable &= found >= 0
            codes[index] = np.maximum(found, 0)
        elif (name := factor.expression.column) is not None:
            numbers[index] = np.asarray(values[name])  # finite and clipped as it was read
        else:
            number = np.broadcast_to(evaluate(factor.expression, values), (n,))
            defined = np.isfinite(number)
            usable &= defined
            numbers[index] = np.clip(np.where(defined, number, 0.0), *factor.interval)
    return numbers, codes, usable
