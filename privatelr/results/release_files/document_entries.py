"""The entries of a release file: their names, types, limits and descriptions.

A document is read as these types and written from them, and the JSON Schema is made of them. A
condition on more than one entry is checked when the fit is restored.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

from msgspec import UNSET, Meta, UnsetType

from privatelr.formula import MOST_RECORDS
from privatelr.results.release_files.calibration_entries import (
    ChoicesEntry,
    FileEntry,
    GuaranteeEntry,
    LawEntry,
    NotNegative,
    Phrase,
    Position,
    Positive,
    ScaleEntry,
    ScoreCountsEntry,
    Size,
    Times,
    ZeroOrSize,
    require_printable,
)

FORMAT: Literal["privatelr release"] = "privatelr release"
VERSION: Literal[6] = 6
Name = Annotated[str, Meta(max_length=10_000)]
Label = Annotated[str, Meta(max_length=10**6)]
Level = str | bool | int | float
Pair = Annotated[list[float], Meta(min_length=2, max_length=2)]
Row = Annotated[list[float], Meta(min_length=1, max_length=1000)]
Triangle = Annotated[list[Row], Meta(min_length=1, max_length=1000)]
CalibrationType = TypeVar("CalibrationType")
DesignType = TypeVar("DesignType")


# -- the release -----------------------------------------------------------------------------


class MomentsEntry(FileEntry, frozen=True):
    """Two matrices with noise, from which standard errors, tests and intervals are computed.

    With w the coefficients in scaled units (declared bounds at -1 and 1), x the row of a record
    with response y = -1 or 1, and l the loss, they are the means over the n records of
    l''(y x.w) x x' and of l'(y x.w)^2 x x', without the penalty. They may be indefinite.

    Attributes
    ----------
    target
        The part of the guarantee that is about the moments, given the coefficients.
    balance
        Factor of the scores; it follows from the loss.
    noise
        Law of the noise on all numbers of curvature and scores together; its dimension is
        d (d + 1).
    grid
        A power of two; the numbers of curvature and scores are multiples of it. 0 for moments
        without noise.
    curvature
        Mean of l''(y x.w) x x' as released. Row i of the upper triangle contains the entries
        (i, i) to (i, d); those off the diagonal are multiplied by the root of 2.
    scores
        Mean of l'(y x.w)^2 x x' as released, in the same form as curvature and multiplied by the
        balance.
    typical
        Present if rows are standardised and some are much longer than this length, that of a
        typical row: then the weight of a record was reduced where its trace would exceed 5/4 of the
        largest that a row of this length has in the curvature, and 3/2 of it in the scores.
    """

    _sizes = ("grid",)
    target: GuaranteeEntry
    balance: Positive
    noise: LawEntry
    grid: ZeroOrSize
    curvature: Triangle
    scores: Triangle
    typical: Size | UnsetType = UNSET


class ChargeEntry(FileEntry, frozen=True):
    """The charge to a ledger."""

    label: Label
    part: Label | None
    times: Times
    guarantee: GuaranteeEntry
    events: list[dict[str, Any]]


class CoefficientsEntry(FileEntry, frozen=True):
    """The coefficients, with their names.

    Attributes
    ----------
    user_units
        In the units of the columns, in the order of names; null if a double cannot represent it.
    design_units
        In scaled units, exactly as released: multiples of the grid.
    """

    names: Annotated[list[str], Meta(min_length=1)]
    user_units: Annotated[list[float | None], Meta(min_length=1)]
    design_units: Annotated[list[float], Meta(min_length=1)]


class ThresholdEntry(FileEntry, frozen=True):
    """The threshold between predicted classes.

    It is a public value, or a rule that learns a value from the training data. A learned value is
    never in a file.

    Attributes
    ----------
    value
        A probability, or a margin if the loss defines no probabilities; null with a rule.
    """

    rule: Literal["fixed", "youden", "topleft"]
    value: Annotated[float, Meta(ge=-1e100, le=1e100)] | None


# -- designs ---------------------------------------------------------------------------------


class ResponseEntry(FileEntry, frozen=True):
    """How labels are computed from the response.

    Attributes
    ----------
    classes
        The negative and the positive class.
    """

    expression: str
    kind: Literal["logical", "factor", "binary"]
    classes: Annotated[list[Level], Meta(min_length=2, max_length=2)]
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
        In lengths of a typical row.
    unit
        Whether every row is brought to that length, and not only longer ones.
    weighted
        Whether longer rows count less; in earlier versions they were shortened.
    """

    length: Size
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
        Standard deviations, in the same units and for some of the same names; absent without any.
    """

    means: Annotated[dict[str, float], Meta(min_length=1)]
    source: str
    sds: Annotated[dict[str, Positive], Meta(min_length=1)] | UnsetType = UNSET


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


# -- the document ----------------------------------------------------------------------------


class SignatureEntry(FileEntry, frozen=True):
    """The signature of the writer of the file.

    The signed text is 'privatelr release file, sha256 ' in ASCII, followed by the entry sha256.
    """

    algorithm: Literal["Ed25519"]
    public_key: Annotated[str, Meta(max_length=64, pattern="^[0-9a-f]{64}$")]
    value: Annotated[str, Meta(max_length=128, pattern="^[0-9a-f]{128}$")]


class Document(FileEntry, Generic[CalibrationType, DesignType], frozen=True):
    """A differentially private fit without a row of the data.

    It contains no moment of the data, except those with noise that the guarantee covers.
    `privatelr.load` checks more than a schema can: the hash, the columns, the row length, and that
    the noise of each part gives its part of the guarantee.

    Attributes
    ----------
    version
        Version 1 has no entry signature, version 2 has one, version 3 may have an entry scale,
        version 4 one about a ROC curve, version 5 one about a prior in its design, or a ROC curve
        beside choices, and version 6 standard deviations of a prior.
    notice
        What a person should know first; it begins with NOT PRIVATE if there is no guarantee.
    written_by
        Versions of the programs that wrote the file, as they state them.
    guarantee
        The guarantee of all released numbers, and of all that is computed from them. The targets
        of calibration, inference, scale and roc add up to it.
    randomness
        The source of the noise; a seed makes the guarantee void.
    calibration
        It was computed without the data. If it has an entry mechanism, columns were chosen;
        otherwise noise was added.
    inference
        Null if inference was not requested.
    scale
        Present if the rows were standardised by released moments.
    roc
        Present if a ROC curve was requested.
    ledger
        Null if no ledger was charged.
    sha256
        SHA-256 of the JSON of all other entries except the signature, with sorted keys, without
        white space, in ASCII, with numbers as in the file.
    signature
        Null if the file is not signed.
    """

    format: Literal["privatelr release"]
    version: Literal[1, 2, 3, 4, 5, 6]
    notice: Annotated[str, Meta(pattern="^(covered by |NOT PRIVATE: )")]
    written_by: Annotated[dict[Phrase, Phrase], Meta(max_length=100)]
    guarantee: GuaranteeEntry
    randomness: Literal["operating system", "seed", "no noise"]
    calibration: CalibrationType
    inference: MomentsEntry | None
    choices: ChoicesEntry | None
    ledger: ChargeEntry | None
    design: DesignType
    coefficients: CoefficientsEntry
    threshold: ThresholdEntry
    sha256: str
    signature: SignatureEntry | None
    scale: ScaleEntry | UnsetType = UNSET
    roc: ScoreCountsEntry | UnsetType = UNSET

    def __post_init__(self) -> None:
        if not {"privatelr", "python"} <= self.written_by.keys():
            raise ValueError("written_by takes the entries 'privatelr' and 'python'")
        for name, version in self.written_by.items():
            require_printable(name, "a name in written_by")
            require_printable(version, "a version in written_by")
