"""A response and a sparse matrix of covariates whose rows are held to a length.

`privatelr.frames.matrix` describes matrices whose entries are held to one. Here rows are shortened,
as those of a formula are; no name of a column is kept, because there may be millions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import sparse

from privatelr.errors import FormulaError, SchemaError, show
from privatelr.frames.design import read_values
from privatelr.frames.expressions import parse_expression
from privatelr.frames.formula import Formula
from privatelr.frames.lexer import tokenize
from privatelr.frames.response import labels, plan_response
from privatelr.frames.source import quote, read_source
from privatelr.frames.terms import INTERCEPT
from privatelr.frames.variables import describe_variables
from privatelr.types import RowLimit

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from privatelr.frames.factors import Factor
    from privatelr.frames.response import Response
    from privatelr.frames.schema import Schema
    from privatelr.frames.variables import Variable
    from privatelr.types import Block, FloatArray

_NORM = 1.0
"""Length that rows are held to where none is declared."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MatrixTable:
    """A response, in a frame of its own, and a sparse matrix of as many rows."""

    name: str
    frame: pd.DataFrame
    matrix: Any

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def columns(self) -> list[str]:
        return [self.name]


def read_matrix_source(first: Any, second: Any, target: Any) -> MatrixTable:
    """The table of a call ``dplr(y, X)`` with a SciPy sparse X."""
    if second.ndim != 2:
        raise SchemaError(f"X of shape {second.shape}: a sparse matrix takes two dimensions.")
    if isinstance(first, str) or first is None:
        raise FormulaError(
            f"formula={show(first)}: a sparse matrix has no names for a formula; the first "
            "argument is the response beside it, one value per row."
        )
    _, frame = read_source(first, np.zeros((second.shape[0], 1)), target)
    name = str(frame.columns[-1])
    return MatrixTable(name, frame[[name]], second)


@dataclass(frozen=True, slots=True)
class NumberedColumns:
    """Columns X1 to Xp behind an intercept."""

    p: int

    @property
    def names(self) -> tuple[str, ...]:
        """Made when they are asked for."""
        return (INTERCEPT, *(f"X{index + 1}" for index in range(self.p)))

    @property
    def has_intercept(self) -> bool:
        return True


@dataclass(frozen=True, slots=True, eq=False)
class WideSpec:
    """All that is needed to turn a matrix into design rows; public, and free of data.

    It answers what a `DesignSpec` is asked by who calibrates, fits and reads coefficients.

    Attributes
    ----------
    formula : Formula
        The response, and words for the matrix.
    variables : mapping
        The response alone.
    response : Response
    columns : NumberedColumns
    bound : float
        Largest length of the covariates of a row; longer rows are shortened to it.
    intercept : float
        The constant in the intercept column.
    """

    formula: Formula
    variables: Mapping[str, Variable]
    response: Response
    columns: NumberedColumns
    bound: float
    intercept: float

    @property
    def p(self) -> int:
        """Number of columns of the matrix."""
        return self.columns.p

    @property
    def d(self) -> int:
        """Number of design columns, intercept included."""
        return self.columns.p + 1

    @property
    def radius(self) -> float:
        """R, the largest length of a design row, the intercept entry included."""
        return RowLimit(self.bound, self.intercept).radius

    @property
    def blocks(self) -> tuple[Block, ...]:
        return ()

    @property
    def factors(self) -> tuple[Factor, ...]:
        return ()

    @property
    def bound_source(self) -> Literal["row_norm"]:
        return "row_norm"

    @property
    def unbounded(self) -> tuple[str, ...]:
        """Terms without a declared range: the matrix."""
        return (f"the {self.p} columns of X",)

    @property
    def projection(self) -> None:
        return None

    @property
    def scaled_by_data(self) -> bool:
        return False

    def user_map(self) -> Any:
        """Sparse matrix ``(d, d)`` that takes design coefficients to the units of the matrix."""
        return sparse.diags_array(np.append(self.intercept, np.ones(self.p)))


def plan_wide(name: str, column: pd.Series[Any], p: int, schema: Schema) -> WideSpec:
    """Describe a design of p numbered columns from types and declarations.

    Parameters
    ----------
    name
        Of the response.
    column : Series
        The response; only its type is looked at.
    p
        Columns of the matrix, public.
    schema
        Declarations about the response, and the length of a row, which is 1 where not declared.
    """
    extra = sorted({*schema.bounds, *schema.levels} - {name})
    if extra:
        raise SchemaError(
            f"bounds or levels of {extra[0]!r}: the columns of a matrix are bounded by row_norm= "
            "alone."
        )
    variables = describe_variables(column.to_frame(name), [name], schema)
    expression = parse_expression(tokenize(quote(name)))
    response = plan_response(expression, variables)
    formula = Formula(f"{expression.label} ~ X1 + ... + X{p}", expression, "", ())
    bound = _NORM if schema.row_norm is None else schema.row_norm
    columns = NumberedColumns(p)
    return WideSpec(formula, variables, response, columns, bound, schema.intercept_scale)


def bounded_matrix(spec: WideSpec, data: Any) -> Any:
    """A matrix to predict for, of the columns that the fit was of."""
    if not sparse.issparse(data) and np.ndim(data) != 2:
        raise SchemaError(
            f"data of type {type(data).__name__}: a fit of a matrix takes a SciPy sparse matrix or "
            "an array of two dimensions."
        )
    if data.ndim != 2 or data.shape[1] != spec.p:
        raise SchemaError(f"data of shape {data.shape}: the fit was of {spec.p} columns.")
    return sparse.csr_array(data, dtype=np.float64)


def read_wide(spec: WideSpec, matrix: Any, frame: pd.DataFrame) -> tuple[Any, FloatArray]:
    """Covariates ``(n, p)`` and labels ``(n,)``: -1 or 1, and 0 for a response of no use.

    Notes
    -----
    **Privacy.** *Covered*: nothing by itself, the rows are as private as the data.
    *Neighbours*: changing one record changes one row. *Assumed public*: n, p, the type and the
    levels of the response. *Not covered*: time and memory.
    """
    if matrix.ndim != 2 or matrix.shape[1] != spec.p:
        raise SchemaError(f"data of shape {matrix.shape}: the fit was of {spec.p} columns.")
    values, usable = read_values(spec.variables, frame, tuple(spec.variables))
    label, labelled = labels(spec.response, values)
    return matrix, np.where(usable & labelled, label, 0.0)
