"""A response and a sparse matrix of covariates, without a formula.

A formula is worth its price for columns that people name. A matrix of a hundred thousand
columns has numbers for names, entries of size one at most, and nothing to code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from privatelr.errors import SchemaError
from privatelr.frames.design import read_values
from privatelr.frames.expressions import parse_expression
from privatelr.frames.formula import Formula
from privatelr.frames.lexer import tokenize
from privatelr.frames.response import Response, labels, plan_response
from privatelr.frames.source import quote
from privatelr.frames.terms import INTERCEPT
from privatelr.frames.variables import Variable, describe_variables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from privatelr.frames.schema import Schema
    from privatelr.types import BoolArray, FloatArray

LARGEST = 1.0
"""Size of an entry that is not cut off."""


@dataclass(frozen=True, slots=True)
class MatrixColumns:
    """Names of the design columns, the intercept first."""

    names: tuple[str, ...]

    @property
    def has_intercept(self) -> bool:
        return self.names[:1] == (INTERCEPT,)


@dataclass(frozen=True, slots=True, eq=False)
class MatrixSpec:
    """All that is needed to turn a matrix into design rows; public, and free of data.

    It answers what a `DesignSpec` is asked by whoever reads a model of chosen columns.

    Attributes
    ----------
    formula : Formula
        The response, and words for the matrix.
    variables : mapping
        The response alone.
    response : Response
    columns : MatrixColumns
    intercept : float
        The constant in the intercept column.
    """

    formula: Formula
    variables: Mapping[str, Variable]
    response: Response
    columns: MatrixColumns
    intercept: float

    @property
    def p(self) -> int:
        """Number of columns of the matrix."""
        return len(self.columns.names) - 1

    @property
    def d(self) -> int:
        """Number of design columns, intercept included."""
        return len(self.columns.names)

    @property
    def x_bound(self) -> float:
        """Largest size of an entry of a design row."""
        return max(LARGEST, self.intercept)

    @property
    def unbounded(self) -> tuple[str, ...]:
        """Terms without a declared range: the matrix."""
        return (f"the {self.p} columns of X",)

    @property
    def scaled_by_data(self) -> bool:
        return False

    def user_map(self) -> Any:
        """Sparse matrix ``(d, d)`` that takes design coefficients to the units of the matrix."""
        return sparse.diags_array(np.append(self.intercept, np.ones(self.p)))


def plan_matrix(name: str, column: pd.Series[Any], p: int, schema: Schema) -> MatrixSpec:
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
        Declarations about the response.
    """
    variables = describe_variables(pd.DataFrame({name: column}), [name], schema)
    expression = parse_expression(tokenize(quote(name)))
    response = plan_response(expression, variables)
    formula = Formula(f"{expression.label} ~ X1 + ... + X{p}", expression, "", ())
    names = (INTERCEPT, *(f"X{index + 1}" for index in range(p)))
    return MatrixSpec(formula, variables, response, MatrixColumns(names), schema.intercept_scale)


def read_matrix_labels(spec: MatrixSpec, frame: pd.DataFrame) -> FloatArray:
    """Labels ``(n,)``: -1 or 1, and 0 where the response is not usable."""
    values, usable = read_values(spec.variables, frame, tuple(spec.variables))
    label, labelled = labels(spec.response, values)
    return np.where(usable & labelled, label, 0.0)


def read_matrix(spec: MatrixSpec, data: Any) -> tuple[Any, BoolArray]:
    """Bounded covariates ``(n, p)``, sparse, and which of its rows are usable."""
    if data.ndim != 2 if sparse.issparse(data) else np.ndim(data) != 2:
        raise SchemaError(
            f"data of type {type(data).__name__}: a fit of a matrix takes a SciPy sparse matrix or "
            "an array of two dimensions."
        )
    if data.shape[1] != spec.p:
        raise SchemaError(f"data of {data.shape[1]} columns: the fit was of {spec.p}.")
    rows = sparse.csr_array(data, dtype=np.float64, copy=True)
    with np.errstate(all="ignore"):
        rows.sum_duplicates()  # an entry may be stored in parts, and is their sum
    usable = np.ones(rows.shape[0], dtype=bool)
    bad = ~np.isfinite(rows.data)
    usable[np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))[bad]] = False
    held = np.clip(np.where(bad, 0.0, rows.data), -LARGEST, LARGEST)
    return sparse.csr_array((held, rows.indices, rows.indptr), shape=rows.shape), usable
