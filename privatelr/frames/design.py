"""From a formula, a frame and a public schema to rows of known length.

`plan_design` sees names, types and declarations; `read_design` sees the data, and does the
same to every row whatever the other rows hold. A row that cannot be used becomes a row of
zeros, so the number of rows is the number of records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from privatelr.errors import FormulaError, SchemaError
from privatelr.frames.evaluation import Columns as Values
from privatelr.frames.evaluation import evaluate
from privatelr.frames.expressions import coded_column
from privatelr.frames.kinds import foreign_constants, require_kinds
from privatelr.frames.pieces import Piece, columns_of
from privatelr.frames.recipes import fill
from privatelr.frames.response import Response, labels, plan_response
from privatelr.frames.terms import Columns, plan_columns
from privatelr.frames.variables import Variable, describe_variables, level_codes, read_variable
from privatelr.types import Block, RowLimit

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from privatelr.frames.factors import Factor
    from privatelr.frames.formula import Formula
    from privatelr.frames.schema import Schema
    from privatelr.types import BoolArray, FloatArray, IntArray, ObjectArray, Rows, RowsBackend

BoundSource = Literal["declared bounds", "row_norm"]
_MAPPED = 1 + 2.0**-40
"""Mapping a value onto [-1, 1] rounds, and a block must hold what comes out."""


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
    intercept : float or None
        The constant in the intercept column, None for a model without intercept.
    projection : ndarray of shape (p, q) or None
        Applied to the covariates after shortening; the result is shortened again.
    scaled_by_data : bool
        Whether the map of the columns was read off the data, which voids any guarantee.
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

        Empty where a row is not a product of bounded terms: unbounded, projected, or scaled by
        the data. Rows that are shortened stay within the blocks.
        """
        if self.projection is not None or self.scaled_by_data or self.unbounded:
            return ()
        sums = [
            self.intercept if self.intercept is not None and term.columns == (0,) else term.absolute
            for term in self.columns.terms
        ]
        sizes = [len(term.columns) for term in self.columns.terms]
        # a term without columns, or of zeros only, is no block
        if min(sums) <= 0 or min(sizes) == 0:
            return ()
        return tuple(Block(n, s * _MAPPED) for n, s in zip(sizes, sums, strict=True))

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

    def user_map(self) -> FloatArray:
        """Matrix ``(p + 1, d)`` that takes design coefficients to the user's units."""
        columns, first = self.columns, int(self.columns.has_intercept)
        size = len(columns.names)
        units = np.diag(1.0 / columns.scale)
        child = np.flatnonzero(columns.parent >= 0)
        np.subtract.at(
            units, (columns.parent[child], child), columns.centre[child] / columns.scale[child]
        )
        design = np.eye(size) if self.projection is None else np.zeros((size, self.d))
        if self.projection is not None:
            design[first:, first:] = self.projection
        if self.intercept is not None:
            design[0, 0] = self.intercept
        return units @ design


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Bounded rows and the specification that made them."""

    rows: Rows
    spec: DesignSpec


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
    covariates = columns.terms[int(columns.has_intercept) :]
    unbounded = tuple(term.label for term in covariates if not math.isfinite(term.radius))
    if unbounded and schema.row_norm is None:
        _require_boundable(formula, variables, factors)
    declared = math.sqrt(sum(term.radius**2 for term in covariates))
    limit = schema.row_norm if schema.row_norm is not None else (1.0 if unbounded else math.inf)
    return DesignSpec(
        formula=formula,
        variables=variables,
        response=response,
        factors=factors,
        columns=columns,
        bound=min(declared, limit),
        bound_source="row_norm" if limit < declared else "declared bounds",
        unbounded=unbounded,
        intercept=schema.intercept_scale if columns.has_intercept else None,
    )


def _require_boundable(
    formula: Formula, variables: Mapping[str, Variable], factors: tuple[Factor, ...]
) -> None:
    """Refuse a term that stays unbounded although all its variables are bounded."""
    for factor in factors:
        names = factor.expression.names
        finite = all(math.isfinite(end) for end in factor.interval)
        if factor.is_categorical or finite or not all(variables[n].is_bounded for n in names):
            continue
        boxes = " and ".join(f"{name} in {variables[name].bounds}" for name in names)
        raise SchemaError(
            f"term '{factor.expression.label}' has no finite range for {boxes}; move the bound "
            "away from where the term is undefined, rewrite the term, or give row_norm= to limit "
            "whole rows."
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
    rows = backend.of(
        FrameReader(spec, frame),
        bound=spec.bound,
        intercept=spec.intercept,
        projection=spec.projection,
        blocks=spec.blocks,
    )
    return Design(rows, spec)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FrameReader:
    """The labelled covariates of a frame, piece by piece, which saves copies of all of it."""

    spec: DesignSpec
    frame: pd.DataFrame
    columns: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", columns_of(self.frame, self.spec.formula.variables))

    @property
    def n(self) -> int:
        return len(self.frame)

    @property
    def p(self) -> int:
        return self.spec.p

    def read(self, start: int, stop: int) -> tuple[FloatArray, FloatArray]:
        """Covariates and labels of the rows from `start` to `stop`; see `read_labelled`."""
        whole = start == 0 and stop >= len(self.frame)
        return read_labelled(self.spec, self.frame if whole else Piece(self.columns, start, stop))


def read_labelled(spec: DesignSpec, frame: pd.DataFrame | Piece) -> tuple[FloatArray, FloatArray]:
    """Covariates ``(n, p)`` in design units, not yet bounded, and labels ``(n,)`` of -1 and 1.

    A row that cannot be used is missing in all its covariates; whoever bounds rows makes it a
    row of zeros.
    """
    covariates, usable, values = read_covariates(spec, frame, spec.formula.variables)
    label, labelled = labels(spec.response, values)
    known = usable & labelled
    covariates[~known] = np.nan
    return covariates, np.where(known, label, 0.0)


def read_covariates(
    spec: DesignSpec, frame: pd.DataFrame | Piece, names: tuple[str, ...]
) -> tuple[FloatArray, BoolArray, Values]:
    """Covariates ``(n, p)``, which rows are usable, and the columns read.

    Rows are mapped to design units; they are neither bounded nor projected yet.
    """
    values, usable = read_values(spec.variables, frame, names)
    raw, coded = raw_design(spec, values, len(frame))
    columns = spec.columns
    first = int(columns.has_intercept)
    with np.errstate(all="ignore"):
        # parents have neither centre nor scale, so the map can be made in place
        on_intercept = np.where(columns.parent == 0, columns.centre, 0.0) if first else 0.0
        raw -= on_intercept
        for child in np.flatnonzero(columns.parent >= first):
            raw[:, child] -= raw[:, columns.parent[child]] * columns.centre[child]
        raw /= columns.scale
        covariates = raw[:, first:]
    usable = usable & coded & np.isfinite(covariates).all(axis=1)
    return covariates, usable, values


def read_values(
    variables: Mapping[str, Variable], frame: pd.DataFrame | Piece, names: tuple[str, ...]
) -> tuple[dict[str, FloatArray | ObjectArray], BoolArray]:
    """Clipped columns by name, and the rows in which all of them are valid."""
    values = {}
    usable = np.ones(len(frame), dtype=bool)
    for name in names:
        if name not in frame.columns:
            raise FormulaError(
                f"data: the column {name!r} is missing; the model reads "
                f"{', '.join(map(repr, names))}."
            )
        values[name], valid = read_variable(variables[name], frame[name])
        usable &= valid
    return values, usable


def raw_design(spec: DesignSpec, values: Values, n: int) -> tuple[FloatArray, BoolArray]:
    """Raw design ``(n, d)``: each numeric factor clipped to its range, each factor coded.

    A value outside the levels of its factor makes the row unusable.
    """
    numbers, codes, usable = read_factors(spec, values, n)
    raw = np.empty((len(spec.columns.names), n)).T  # by columns, as it is filled
    with np.errstate(all="ignore"):
        for recipe in spec.columns.recipes:
            fill(raw, recipe, numbers, codes)
    return raw, usable


def read_factors(
    spec: DesignSpec, values: Values, n: int
) -> tuple[dict[int, FloatArray], dict[int, IntArray], BoolArray]:
    """Factors by number: clipped values ``(n,)`` of numeric ones, levels ``(n,)`` of others.

    And the rows in which all of them are valid.
    """
    numbers: dict[int, FloatArray] = {}
    codes: dict[int, IntArray] = {}
    usable = np.ones(n, dtype=bool)
    for index, factor in enumerate(spec.factors):
        if factor.is_categorical:
            named = factor.source is not None
            column = values[str(factor.source)] if named else evaluate(factor.expression, values)
            found = level_codes(column, factor.levels)
            usable &= found >= 0
            codes[index] = np.maximum(found, 0)
        elif (name := coded_column(factor.expression)) is not None:
            numbers[index] = np.asarray(values[name])  # finite and clipped as it was read
        else:
            number = np.broadcast_to(evaluate(factor.expression, values), (n,))
            defined = np.isfinite(number)
            usable &= defined
            numbers[index] = np.clip(np.where(defined, number, 0.0), *factor.interval)
    return numbers, codes, usable
