"""The entries of a release file: names, types, limits and descriptions, said once.

A document is read as these types and written from them, and the schema follows from them. What
depends on more than one entry is checked where the fit is restored.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

from msgspec import UNSET, Meta, UnsetType

from privatelr.results.release_files.calibration_entries import (
    FileEntry,
    GuaranteeEntry,
    LawEntry,
    NotNegative,
    Phrase,
    Positive,
    ZeroOrSize,
    require_printable,
)

FORMAT: Literal["privatelr release"] = "privatelr release"
VERSION: Literal[2] = 2
Position = Annotated[int, Meta(ge=0)]
Times = Annotated[int, Meta(ge=1, le=10**9)]
Name = Annotated[str, Meta(max_length=10_000)]
Label = Annotated[str, Meta(max_length=10**6)]
Level = str | bool | int | float
Pair = Annotated[list[float], Meta(min_length=2, max_length=2)]
Row = Annotated[list[float], Meta(min_length=1, max_length=1000)]
Triangle = Annotated[list[Row], Meta(min_length=1, max_length=1000)]
CalibrationType = TypeVar("CalibrationType")
DesignType = TypeVar("DesignType")


# -- what was released -----------------------------------------------------------------------


class MomentsEntry(FileEntry, frozen=True):
    """Two matrices with noise, from which standard errors, tests and intervals are computed.

    With w the coefficients in scaled units (declared bounds at -1 and 1), x the row of a record
    with response y = -1 or 1, and l the loss, they are the means over the n records of
    l''(y x.w) x x' and of l'(y x.w)^2 x x', without penalty. Neither need be positive definite.

    Attributes
    ----------
    target
        The part of the guarantee that is about the moments, given the coefficients.
    balance
        What the scores are multiplied by; follows from the loss.
    noise
        Law of what is added to all numbers of curvature and scores together; its dimension is
        d (d + 1).
    grid
        Power of two; the numbers of curvature and scores are multiples of it. 0 for moments
        without noise.
    curvature
        Mean of l''(y x.w) x x' as released: row i of the upper triangle holds the entries (i, i)
        to (i, d), those off the diagonal times the root of 2.
    scores
        Mean of l'(y x.w)^2 x x' as released: as curvature, and times the balance.
    """

    _sizes = ("grid",)
    target: GuaranteeEntry
    balance: Positive
    noise: LawEntry
    grid: ZeroOrSize
    curvature: Triangle
    scores: Triangle


class ChoicesEntry(FileEntry, frozen=True):
    """How often each option was chosen, where columns were chosen.

    Option k below d is column k, option d + k is column k with its sign turned, both counted
    from 0.

    Attributes
    ----------
    path
        The options in the order in which they were chosen, where it was released.
    exact
        Coefficients in scaled units of a fit without a guarantee that were not counted.
    """

    options: list[Position]
    times: list[Times]
    path: list[Position] | None
    exact: list[float] | None


class ChargeEntry(FileEntry, frozen=True):
    """What a ledger was charged."""

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
        In the units of the columns, in the order of names; null where no double can hold it.
    design_units
        As released: multiples of the grid, exact.
    """

    names: Annotated[list[str], Meta(min_length=1)]
    user_units: Annotated[list[float | None], Meta(min_length=1)]
    design_units: Annotated[list[float], Meta(min_length=1)]


class ThresholdEntry(FileEntry, frozen=True):
    """What splits predicted classes.

    A public value, or a rule that learns it from the training data, whose value is never in a
    file.

    Attributes
    ----------
    value
        A probability, or a margin where the loss defines no probabilities; null beside a rule.
    """

    rule: Literal["fixed", "youden", "topleft"]
    value: Annotated[float, Meta(ge=-1e100, le=1e100)] | None


# -- designs ---------------------------------------------------------------------------------


class ResponseEntry(FileEntry, frozen=True):
    """How labels come out of the response.

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
    """A variable, and what is public about it.

    Attributes
    ----------
    content
        What the type of the column allows.
    bounds
        Declared (lo, hi); values beyond are clipped.
    levels
        Declared levels, the reference first.
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
        Positions, from 0.
    length
        Largest length in a row; null if unbounded.
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


class FormulaEntry(FileEntry, frozen=True):
    """The plan that turns a record into a row; public.

    Attributes
    ----------
    formula
        R formula, with the dot expanded.
    intercept
        The constant in the intercept column; null for no intercept.
    bound
        Largest length of the covariates of a row; longer rows are shortened.
    unbounded
        Terms that the declared bounds do not limit.
    projection
        Random matrix, drawn without the data, that is applied to the covariates; null for none.
    unbounded_norm
        Largest length of the columns of unbounded terms together, to which they are shortened
        apart from the others; absent where whole rows are shortened.
    """

    formula: str
    response: ResponseEntry
    variables: list[VariableEntry]
    factors: list[FactorEntry]
    terms: list[TermEntry]
    columns: Annotated[list[ColumnEntry], Meta(min_length=1, max_length=5000)]
    intercept: Positive | None
    bound: NotNegative
    bound_source: Literal["declared bounds", "row_norm", "declared bounds and row_norm"]
    unbounded: list[str]
    radius: Positive
    projection: list[Annotated[list[float], Meta(min_length=1)]] | None
    unbounded_norm: Positive | UnsetType = UNSET


class MatrixEntry(FileEntry, frozen=True):
    """A response, and a matrix of numbered columns.

    Attributes
    ----------
    matrix
        Columns of the matrix.
    row_norm
        Length that rows are held to; null where every entry is held to one.
    intercept
        Constant of the intercept column.
    """

    matrix: Annotated[int, Meta(ge=1, le=10**6)]
    row_norm: Positive | None
    response: ResponseEntry
    variable: VariableEntry
    intercept: Positive


AnyDesign = FormulaEntry | MatrixEntry


# -- the document ----------------------------------------------------------------------------


class SignatureEntry(FileEntry, frozen=True):
    """Who states what the file states.

    It is over the ASCII text 'privatelr release file, sha256 ' and the entry sha256.
    """

    algorithm: Literal["Ed25519"]
    public_key: Annotated[str, Meta(max_length=64, pattern="^[0-9a-f]{64}$")]
    value: Annotated[str, Meta(max_length=128, pattern="^[0-9a-f]{128}$")]


class Document(FileEntry, Generic[CalibrationType, DesignType], frozen=True):
    """A differentially private fit without a row of the data.

    It holds no moment of the data but for those with noise that were paid for. `privatelr.load`
    checks more than a schema can: the hash, the columns, the row length, and that the noise of
    each part gives its part of the guarantee.

    Attributes
    ----------
    version
        1 has no entry signature, 2 has one.
    notice
        What a person should know first; begins with NOT PRIVATE where nothing is covered.
    written_by
        Versions of the programs that wrote the file, as they state them.
    guarantee
        What holds for the coefficients, for the moments of inference if there are any, and for
        all that is computed from them: the targets of calibration and inference add up to it.
    randomness
        Where the noise came from; a seed makes the guarantee void.
    calibration
        Computed without the data. With an entry mechanism, columns were chosen; else noise was
        added.
    inference
        Null if it was not bought.
    ledger
        Null if none was charged.
    sha256
        SHA-256 of the JSON of all other entries but the signature with keys sorted, without
        white space, in ASCII, numbers as in the file.
    signature
        Null if the file is not signed.
    """

    format: Literal["privatelr release"]
    version: Literal[1, 2]
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

    def __post_init__(self) -> None:
        if not {"privatelr", "python"} <= self.written_by.keys():
            raise ValueError("written_by takes the entries 'privatelr' and 'python'")
        for name, version in self.written_by.items():
            require_printable(name, "a name in written_by")
            require_printable(version, "a version in written_by")
