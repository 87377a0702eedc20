"""A response and a sparse matrix of covariates, without a formula.

A formula is worth its price for columns that people name. A matrix of a hundred thousand
columns has numbers for names and nothing to code. `MatrixSpec` holds entries to one; for rows
that are held to a length there is `privatelr.frames.wide_matrix`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pandas as pd
from scipy import sparse

from privatelr.errors import SchemaError
from privatelr.frames.design import read_values
from privatelr.frames.expressions import parse_expression
from privatelr.frames.formula import Formula
from privatelr.frames.lexer import tokenize
from privatelr.frames.pieces import tally_of
from privatelr.frames.response import Response, labels, plan_response
from privatelr.frames.sound_matrix import sound_matrix
from privatelr.frames.source import as_frame, quote
from privatelr.frames.terms import INTERCEPT
from privatelr.frames.variables import Variable, as_numbers, describe_variables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from privatelr.frames.pieces import Piece
    from privatelr.frames.schema import Schema
    from privatelr.types import FloatArray

LARGEST = 1.0
"""Size of an entry that is not cut off."""


@dataclass(frozen=True, slots=True)
class NumberedNames(Sequence[str]):
    """``(Intercept)``, X1 to Xp, each made when it is asked for: there may be millions."""

    p: int

    def __len__(self) -> int:
        return self.p + 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        places = range(self.p + 1)[index]
        if isinstance(places, range):
            return tuple(self[place] for place in places)
        return f"X{places}" if places else INTERCEPT


@dataclass(frozen=True, slots=True)
class NumberedColumns:
    """Columns X1 to Xp behind an intercept."""

    p: int

    @property
    def names(self) -> NumberedNames:
        return NumberedNames(self.p)

    @property
    def has_intercept(self) -> bool:
        return True


@dataclass(frozen=True, slots=True, eq=False)
class NumberedSpec:
    """What is public about a matrix of numbered columns and its response.

    It answers what a `DesignSpec` is asked by whoever reads coefficients.

    Attributes
    ----------
    formula : Formula
        The response, and words for the matrix.
    variables : mapping
        The response alone.
    response : Response
    columns : NumberedColumns
    intercept : float
        The constant in the intercept column.
    """

    formula: Formula
    variables: Mapping[str, Variable]
    response: Response
    columns: NumberedColumns
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
    def unbounded(self) -> tuple[str, ...]:
        """Terms without a declared range: the matrix."""
        return (f"the {self.p} columns of X",)

    @property
    def scaled_by_data(self) -> bool:
        return False

    def user_map(self) -> Any:
        """Sparse matrix ``(d, d)`` that takes design coefficients to the units of the matrix."""
        return sparse.diags_array(np.append(self.intercept, np.ones(self.p)))


@dataclass(frozen=True, slots=True, eq=False)
class MatrixSpec(NumberedSpec):
    """A matrix whose entries are held to one, for mechanisms that choose columns."""

    @property
    def x_bound(self) -> float:
        """Largest size of an entry of a design row."""
        return max(LARGEST, self.intercept)


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
    return MatrixSpec(*describe_numbered(name, column, p, schema))


def describe_numbered(
    name: str, column: pd.Series[Any], p: int, schema: Schema
) -> tuple[Formula, Mapping[str, Variable], Response, NumberedColumns, float]:
    """What a `NumberedSpec` consists of; see `plan_matrix`."""
    variables = describe_variables(pd.DataFrame({name: column}), [name], schema)
    expression = parse_expression(tokenize(quote(name)))
    response = plan_response(expression, variables)
    formula = Formula(f"{expression.label} ~ X1 + ... + X{p}", expression, "", ())
    return formula, variables, response, NumberedColumns(p), schema.intercept_scale


def read_matrix_labels(spec: NumberedSpec, frame: pd.DataFrame | Piece) -> FloatArray:
    """Labels ``(n,)``: -1 or 1, and 0 where the response is not usable."""
    values, usable = read_values(spec.variables, frame, tuple(spec.variables))
    label, labelled = labels(spec.response, values, tally_of(frame))
    return np.where(usable & labelled, label, 0.0)


def as_matrix(spec: NumberedSpec, data: Any) -> Any:
    """A matrix to predict for ``(n, p)``, sparse, of the columns that the fit was of."""
    if sparse.issparse(data) and data.ndim != 2:
        raise SchemaError(f"data of shape {data.shape}: a sparse matrix takes two dimensions.")
    given = sound_matrix(data) if sparse.issparse(data) else _dense(data)
    rows = sparse.csr_array(given, dtype=np.float64)
    if rows.shape[1] != spec.p:
        raise SchemaError(f"data of {rows.shape[1]} columns: the fit was of {spec.p} columns.")
    return rows


def _dense(data: Any) -> FloatArray:
    """Entries of an array or a frame, NaN where they are no number."""
    frame = as_frame(data)
    found = np.empty(frame.shape)
    for index, name in enumerate(frame.columns):
        found[:, index] = as_numbers(frame[name])
    return found
