"""Sparse matrices as designs, bounded by their entries or by the length of their rows.

Rows that are held to a length are shortened, as the rows of a formula are. Names of columns are
not stored, because there may be millions.

A formula is useful for columns that have names. The columns of a large sparse matrix are numbered,
and there are no factors to code. `EntryBoundedMatrix` cuts entries off at one, and
`NormBoundedMatrix` shortens rows to a length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, overload

import numpy as np
from scipy import sparse

from privatelr.design.offsets_and_weights import read_person_roots
from privatelr.design.response import Response, plan_response, read_labels, require_no_order
from privatelr.design.terms import INTERCEPT, Factor
from privatelr.design.variables import (
    Variable,
    as_numbers,
    describe_variables,
    other_width,
    require_types,
)
from privatelr.errors import FormulaError, SchemaError, show
from privatelr.formula import (
    Formula,
    Person,
    parse_expression,
    parse_formula,
    spell_person,
    tokenize,
)
from privatelr.sources import Batch, Schema, as_batch, quote, read_source, validated_sparse
from privatelr.types import Block, FloatArray, row_radius

AS_FRAME = "pandas.DataFrame.sparse.from_spmatrix(X).add_prefix('X') takes bounds= and is scaled"
"""What to do with a sparse matrix whose columns are to have bounds and a released scale."""
LARGEST = 1.0
"""Size at which an entry is cut off, and the default of the largest length of a row."""


@dataclass(frozen=True, slots=True)
class NumberedNames(Sequence[str]):
    """The names ``(Intercept)`` and X1 to Xp, made on demand, because there may be millions."""

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
    terms: ClassVar[tuple[()]] = ()
    has_intercept: ClassVar[bool] = True

    @property
    def names(self) -> NumberedNames:
        return NumberedNames(self.p)


@dataclass(frozen=True, slots=True, eq=False)
class NumberedSpec:
    """What is public about a matrix of numbered columns and its response.

    It has those attributes of a `DesignSpec` that reading coefficients needs.

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
    has_names: ClassVar[bool] = False
    scaled_by_data: ClassVar[bool] = False
    projection: ClassVar[None] = None
    standard: ClassVar[None] = None
    weighted: ClassVar[bool] = False
    touched: ClassVar[int] = 1
    offset_bound: ClassVar[float] = 0.0
    offsets: ClassVar[tuple[Factor, ...]] = ()
    weight: ClassVar[None] = None
    prior: ClassVar[None] = None

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
        """Terms without a declared range: the matrix as a whole."""
        return ("the column of X" if self.p == 1 else f"the {self.p} columns of X",)

    def user_map(self) -> Any:
        """Sparse matrix ``(d, d)`` that takes design coefficients to the units of the matrix."""
        return sparse.diags_array(np.append(self.intercept, np.ones(self.p)))

    def user_rows(self) -> FloatArray:
        """The same matrix as a dense array, for inference, which holds others of this size."""
        return np.asarray(self.user_map().toarray())


@dataclass(frozen=True, slots=True, eq=False)
class EntryBoundedMatrix(NumberedSpec):
    """A matrix whose entries are cut off at one, for mechanisms that choose columns."""

    @property
    def x_bound(self) -> float:
        """Largest size of an entry of a design row."""
        return max(LARGEST, self.intercept)


def plan_matrix(
    name: str, batch: Batch, p: int, schema: Schema, person: Person | None = None
) -> EntryBoundedMatrix:
    """Describe a design of p numbered columns from types and declarations.

    Parameters
    ----------
    name
        Name of the response.
    batch : Batch
        The response alone; only its type is looked at.
    p
        Number of columns of the matrix, which is public.
    schema
        Declarations about the response.
    person
        Who records are of, for mechanisms with noise alone; raises `FormulaError`.
    """
    if person is not None:
        raise FormulaError(f"person={show(person.column)}: it goes with dplr and dpsvm.")
    return EntryBoundedMatrix(*describe_numbered(name, batch, p, schema))


def describe_numbered(
    name: str, batch: Batch, p: int, schema: Schema, person: Person | None = None
) -> tuple[Formula, Mapping[str, Variable], Response, NumberedColumns, float]:
    """Return the arguments of a `NumberedSpec`; see `plan_matrix`."""
    variables = describe_variables(batch, [name], schema)
    expression = parse_expression(tokenize(quote(name)))
    response = plan_response(expression, variables)
    require_no_order(response, batch)
    text = f"{expression.label} ~ X1 + ... + X{p}"
    if person is not None:
        text += f" + {spell_person(person)}"
    formula = Formula(text, expression, (), (), person=person)
    return formula, variables, response, NumberedColumns(p), schema.constant


def as_matrix(spec: NumberedSpec, data: Any) -> Any:
    """Return data to predict for as a sparse matrix ``(n, p)`` with the columns of the fit."""
    if sparse.issparse(data) and data.ndim != 2:
        raise SchemaError(f"data of ndim {data.ndim}: a sparse matrix takes two dimensions.")
    if sparse.issparse(data):
        given = validated_sparse(data)
    else:  # entries that are not a number become NaN
        batch = as_batch(data)
        columns = {name: Variable(name, "numeric", content="numbers") for name in batch.names}
        require_types(columns, batch, tuple(columns))
        given = np.empty((len(batch), len(batch.names)))
        for index, name in enumerate(batch.names):
            given[:, index] = as_numbers(batch[name])
    rows = sparse.csr_array(given, dtype=np.float64)
    if rows.shape[1] != spec.p:
        raise other_width(rows.shape[1], spec.p)
    return rows


def read_matrix_source(
    first: Any, second: Any, target: Any, person: Any = None, most: int = 1
) -> tuple[str, Person | None, Batch, Any]:
    """Return the name of y, who records are of, their batch, and X.

    They are of a call ``dplr(y, X)`` with a SciPy sparse X.
    """
    if second.ndim != 2:  # its shape has the number of records, which may be private
        raise SchemaError(f"X of ndim {second.ndim}: a sparse matrix takes two dimensions.")
    if isinstance(first, str) or first is None:
        raise FormulaError(
            f"formula={show(first)}: a sparse matrix has no names for a formula; the first "
            "argument is the response beside it, one value per row."
        )
    if isinstance(person, str):
        raise FormulaError(
            f"person={show(person)}: beside y and X it takes one value for each row, since the "
            "columns of a sparse matrix have no names."
        )
    text, both = read_source(first, np.zeros((second.shape[0], 1)), target, person, most)
    read = parse_formula(text, list(both.names))
    (name,), whose = read.response.names, read.person
    kept = [name] if whose is None else [name, whose.column]
    batch = as_batch({column: both.column(column) for column in kept})
    return name, whose, batch, validated_sparse(second)


@dataclass(frozen=True, slots=True, eq=False)
class NormBoundedMatrix(NumberedSpec):
    """A matrix whose rows are shortened to a length; public, and free of data.

    Attributes
    ----------
    bound : float
        Largest length of the covariates of a row; longer rows are shortened to it.
    """

    bound: float
    bound_source: ClassVar[Literal["row_norm"]] = "row_norm"
    blocks: ClassVar[tuple[Block, ...]] = ()
    factors: ClassVar[tuple[Factor, ...]] = ()

    @property
    def limits(self) -> dict[str, Any]:
        """What rows are held to, as `DesignSpec.limits`."""
        return {"bound": self.bound, "intercept": self.intercept, "projection": None}

    @property
    def radius(self) -> float:
        """R, the largest length of a design row with its intercept entry (theory.md#setting)."""
        return row_radius(self.bound, self.intercept)


def plan_wide(
    name: str, batch: Batch, p: int, schema: Schema, person: Person | None = None
) -> NormBoundedMatrix:
    """Describe a design as `plan_matrix` does, with a bound on the length of a row.

    The bound is ``schema.row_norm``, or 1 if none is declared.

    Raises
    ------
    SchemaError
        If the columns of the matrix are given bounds or levels.
    """
    extra = sorted({*schema.bounds, *schema.levels} - {name})
    if extra:
        raise SchemaError(
            f"bounds or levels of {extra[0]!r}: the columns of a sparse matrix are bounded by "
            f"row_norm= alone; {AS_FRAME}."
        )
    bound = LARGEST if schema.row_norm is None else schema.row_norm
    return NormBoundedMatrix(*describe_numbered(name, batch, p, schema, person), bound)


def read_wide(spec: NormBoundedMatrix, matrix: Any, batch: Batch) -> tuple[Any, FloatArray]:
    """Return covariates ``(n, p)`` and labels ``(n,)``: -1 or 1, and 0 for an unusable response.

    Those of persons are divided by the root of what a record counts, as `read_targets` does it.

    Raises
    ------
    SchemaError
        If the matrix has other columns, or if nobody grouped the records of persons.

    Notes
    -----
    **Privacy.** *Covered*: nothing by itself, the rows are as private as the data.
    *Neighbours*: changing one record changes one row, and changing those of a person changes rows
    that weigh 1 at most together. *Assumed public*: n (or the number of persons), p, the type and
    the levels of the response. *Not covered*: time and memory.
    """
    if matrix.ndim != 2 or matrix.shape[1] != spec.p:
        raise other_width(matrix.shape[-1], spec.p)
    label = read_labels(spec.response, spec.variables, batch)
    if spec.formula.person is not None:
        label = label / read_person_roots(batch)
    return matrix, label
