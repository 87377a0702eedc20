"""The entries of a release file about the design: response, variables, terms, columns and rows.

`privatelr.results.release_files.design_file` writes them, and reads designs of them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from privatelr.formula import MOST_RECORDS
from privatelr.results.release_files.calibration_entries import (
    FileEntry,
    GuaranteeEntry,
    NotNegative,
    Position,
    Positive,
    Size,
)

Name = Annotated[str, Meta(max_length=10_000)]
Level = str | bool | int | float
Pair = Annotated[list[float], Meta(min_length=2, max_length=2)]


class ResponseEntry(FileEntry, frozen=True):
    """How labels are computed from the response.

    Attributes
    ----------
    classes
        The negative and the positive class, or each of several classes, the reference first.
    """

    expression: str
    kind: Literal["logical", "factor", "binary", "classes"]
    classes: Annotated[list[Level], Meta(min_length=2)]
    levels: list[Level]
    remark: str


class VariableEntry(FileEntry, frozen=True):
    """A variable, with its public facts.

    Attributes
    ----------
    content
        The kind of values that the type of the column allows.
    bounds
        Declared bounds (lo, hi); values beyond them are clipped.
    levels
        Declared levels, with the reference first.
    """

    name: Name
    kind: Literal["numeric", "logical", "categorical", "text"]
    content: Literal["numbers", "strings", "anything"]
    bounds: Pair | None
    levels: list[Level]


class FactorEntry(FileEntry, frozen=True):
    """An expression of the formula, with its range or its levels."""

    expression: str
    range: Pair | None
    levels: list[Level]
    contrast: str | None


class TermEntry(FileEntry, frozen=True):
    """A term of the formula.

    Attributes
    ----------
    columns
        Positions of its columns, from 0.
    length
        Largest length of these columns in a row; null if unbounded.
    """

    label: str
    columns: list[Position]
    length: float | None


class ColumnEntry(FileEntry, frozen=True):
    """Design column j is (z_j - centre_j * z_parent_j) / scale_j."""

    name: str
    parent: Position | None
    centre: float
    scale: Positive


class StandardEntry(FileEntry, frozen=True):
    """How rows of standardised columns are held.

    Attributes
    ----------
    length
        In lengths of a typical row; null if rows are divided by the longest that the bounds allow.
    unit
        Whether every row is brought to that length, and not only longer ones.
    weighted
        Whether longer rows count less; in earlier versions they were shortened.
    """

    length: Size | None
    unit: bool
    weighted: bool | UnsetType = UNSET


class PriorEntry(FileEntry, frozen=True):
    """Public coefficients to which the penalty draws.

    Attributes
    ----------
    means
        In the units of the columns, by names of coefficients.
    source
        Where they come from, as the writer states it.
    sds
        Standard deviations for some of the same names; absent without any.
    uncovered
        True where they are of an earlier fit that no guarantee covers; else absent.
    """

    means: Annotated[dict[str, float], Meta(min_length=1)]
    source: str
    sds: Annotated[dict[str, Positive], Meta(min_length=1)] | UnsetType = UNSET
    uncovered: bool | UnsetType = UNSET


class PaymentEntry(FileEntry, frozen=True):
    """What was paid for bounds or levels before the fit, as the writer states it.

    Attributes
    ----------
    columns
        All that were released together.
    n
        Number of records, or of persons.
    identifier
        Drawn with the release, which counts once wherever it is used.
    """

    kind: Literal["bounds", "levels"]
    columns: Annotated[list[Name], Meta(min_length=1, max_length=10_000)]
    n: Annotated[int, Meta(ge=1, le=10**15)]
    guarantee: GuaranteeEntry
    identifier: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]


class FormulaEntry(FileEntry, frozen=True):
    """The public plan by which a record becomes a row.

    Attributes
    ----------
    formula
        R formula, with the dot expanded.
    intercept
        The constant in the intercept column; null without an intercept.
    bound
        Largest length of the covariates of a row; longer rows are shortened.
    unbounded
        Terms without a limit from declared bounds.
    projection
        Random matrix that was drawn without the data and is applied to the covariates; null
        without a projection.
    unbounded_norm
        Largest length of the columns of all unbounded terms together, which are shortened to it
        separately from the others; absent if whole rows are shortened.
    standard
        Present if the map of the columns follows from the moments in the entry scale.
    prior
        Present if the penalty draws to other coefficients than zero.
    paid
        Present if bounds or levels were paid for, apart from the guarantee of the fit.
    width
        Number of columns of the array that was fitted; absent if the columns had names.
    """

    formula: str
    response: ResponseEntry
    variables: list[VariableEntry]
    factors: list[FactorEntry]
    terms: list[TermEntry]
    columns: Annotated[list[ColumnEntry], Meta(min_length=1, max_length=5000)]
    intercept: Positive | None
    bound: NotNegative
    bound_source: Literal[
        "declared bounds", "row_norm", "declared bounds and row_norm", "private scale"
    ]
    unbounded: list[str]
    radius: Positive
    projection: list[Annotated[list[float], Meta(min_length=1)]] | None
    unbounded_norm: Positive | UnsetType = UNSET
    standard: StandardEntry | UnsetType = UNSET
    prior: PriorEntry | UnsetType = UNSET
    paid: Annotated[list[PaymentEntry], Meta(min_length=1)] | UnsetType = UNSET
    width: Annotated[int, Meta(ge=1, le=10**6)] | UnsetType = UNSET


class PersonEntry(FileEntry, frozen=True):
    """Who a record is of, beside a matrix, whose columns have no names.

    Attributes
    ----------
    column
        Name of the values that tell persons apart.
    records_per_person
        Number of records up to which each record of a person counts as much as everybody's.
    """

    column: Annotated[str, Meta(min_length=1, max_length=10_000, pattern="^[^`]*$")]
    records_per_person: Annotated[int, Meta(ge=1, le=MOST_RECORDS)]


class MatrixEntry(FileEntry, frozen=True):
    """A response, and a matrix of numbered columns.

    Attributes
    ----------
    matrix
        Number of columns of the matrix.
    row_norm
        Largest length of a row; null if every entry is bounded by one instead.
    intercept
        The constant in the intercept column.
    person
        Present if records are of persons, all of whose records are protected together.
    """

    matrix: Annotated[int, Meta(ge=1, le=10**6)]
    row_norm: Positive | None
    response: ResponseEntry
    variable: VariableEntry
    intercept: Positive
    person: PersonEntry | UnsetType = UNSET


AnyDesign = FormulaEntry | MatrixEntry
