"""The entries of a release file: their names, types, limits and descriptions.

A document is read as these types and written from them, and the JSON Schema is made of them. A
condition on more than one entry is checked when the fit is restored.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

from msgspec import UNSET, Meta, UnsetType

from privatelr.results.release_files.calibration_entries import (
    ChoicesEntry,
    FileEntry,
    GuaranteeEntry,
    LawEntry,
    Phrase,
    Positive,
    ScaleEntry,
    ScoreCountsEntry,
    Size,
    Times,
    ZeroOrSize,
    require_printable,
)

FORMAT: Literal["privatelr release"] = "privatelr release"
VERSION: Literal[7] = 7
Label = Annotated[str, Meta(max_length=10**6)]
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
        Law of the noise on all d (d + 1) numbers of curvature and scores together.
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


class ReceiptEntry(FileEntry, frozen=True):
    """The place of a charge in a ledger on disk: the number of its row, and its hash.

    The hash follows from all rows before it. The name is one that no other ledger has.
    """

    ledger: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
    dataset: Annotated[str, Meta(max_length=10**6)]
    row: Annotated[int, Meta(ge=2)]
    head: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class ChargeEntry(FileEntry, frozen=True):
    """The charge to a ledger, with a receipt of each ledger on disk that was charged.

    Attributes
    ----------
    person
        The column that tells persons apart, if the guarantee is about persons; charges of earlier
        versions do not state it.
    """

    label: Label
    part: Label | None
    times: Times
    guarantee: GuaranteeEntry
    events: list[dict[str, Any]]
    receipts: Annotated[list[ReceiptEntry], Meta(min_length=1)] | UnsetType = UNSET
    person: Label | UnsetType = UNSET


class CoefficientsEntry(FileEntry, frozen=True):
    """The coefficients, with their names.

    Attributes
    ----------
    user_units
        In the units of the columns, in the order of names; null if a double cannot represent it.
    design_units
        In scaled units, exactly as released: multiples of the grid, one class after the other.
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


class Document(FileEntry, Generic[CalibrationType, DesignType], frozen=True):
    """A differentially private fit without a row of the data.

    It contains no moment of the data, except those with noise that the guarantee covers.
    `privatelr.load` checks more than a schema can: the hash, the columns, the row length, and that
    the noise of each part gives its part of the guarantee.

    Attributes
    ----------
    version
        Of the format. No other version is read before version 1.0 of privatelr.
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
        SHA-256 of the JSON of all other entries, with sorted keys, without white space,
        in ASCII, with numbers as in the file.
    """

    format: Literal["privatelr release"]
    version: Literal[7]
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
    scale: ScaleEntry | UnsetType = UNSET
    roc: ScoreCountsEntry | UnsetType = UNSET

    def __post_init__(self) -> None:
        if not {"privatelr", "python"} <= self.written_by.keys():
            raise ValueError("written_by takes the entries 'privatelr' and 'python'")
        for name, version in self.written_by.items():
            require_printable(name, "a name in written_by")
            require_printable(version, "a version in written_by")
