"""The entries of the file of a private answer; `document_entries` has those of a fit.

Answers about a fit are here, and declarations that were paid for before one.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from privatelr.results.release_files.calibration_entries import (
    ApproximateEntry,
    FileEntry,
    GuaranteeEntry,
    LossEntry,
    Phrase,
    Position,
    Positive,
    PureEntry,
    ScoreCountsEntry,
    ZcdpEntry,
    require_printable,
)
from privatelr.results.release_files.design_entries import Level, Name, Pair
from privatelr.results.release_files.document_entries import ChargeEntry, Label

ANSWER_FORMAT: Literal["privatelr answer"] = "privatelr answer"
ANSWER_VERSION: Literal[2] = 2
_Records = Annotated[int, Meta(ge=1, le=10**15)]
_Drawn = Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]


class AboutEntry(FileEntry, frozen=True):
    """The fit that an answer is about, and the records that were scored by it.

    Attributes
    ----------
    n
        Number of records that were scored, or of their persons.
    fit_guarantee
        The guarantee of the fit itself, which was paid apart.
    """

    n: _Records
    formula: Label
    fit_guarantee: GuaranteeEntry


class CurveEntry(AboutEntry, frozen=True, tag_field="kind", tag="roc"):
    """A ROC curve, by counts of scores.

    Attributes
    ----------
    edges
        What follows from the counts' scale: where the outer two bins end, in linear predictors.
    auc, youden, topleft
        What follows from the counts: the area, and two thresholds of scores; null if the noise left
        a class empty.
    """

    positive: Label
    loss: LossEntry
    counts: ScoreCountsEntry
    edges: Pair
    auc: float | None
    youden: float | None
    topleft: float | None


class CandidatesEntry(FileEntry, frozen=True, tag_field="kind", tag="choice"):
    """A choice among fits.

    Attributes
    ----------
    n
        Number of records that were scored, or of their persons.
    target
        The guarantee that the mechanism has.
    choice_guarantee
        The guarantee of the choice alone, which follows from it; or none if a seed was used.
    place
        Which of the candidates was chosen, counted from 0.
    candidates
        The release of each, as its own file has it.
    """

    n: _Records
    score: Literal["auc", "accuracy", "brier"]
    target: PureEntry
    choice_guarantee: GuaranteeEntry
    labels: Annotated[list[Label], Meta(min_length=2, max_length=1000)]
    place: Position
    candidates: Annotated[list[dict[str, Any]], Meta(min_length=2, max_length=1000)]


class RangeEntry(FileEntry, frozen=True):
    """The range of a column: the outer one, which was declared, and the one that was chosen."""

    name: Name
    outer: Pair
    suggested: Pair


class RangesEntry(FileEntry, frozen=True, tag_field="kind", tag="bounds"):
    """Bounds of columns that were suggested privately.

    Attributes
    ----------
    n
        Number of records, or of persons.
    target
        The guarantee of all ranges together.
    eta
        What follows from it: the epsilon of the choice of one end.
    beyond
        What follows from it: how many records are meant to lie beyond either end.
    identifier
        Drawn at release.
    """

    n: _Records
    target: PureEntry | ZcdpEntry | ApproximateEntry
    columns: Annotated[list[RangeEntry], Meta(min_length=1, max_length=10_000)]
    eta: Positive
    beyond: Position
    identifier: _Drawn


class LevelsEntry(FileEntry, frozen=True, tag_field="kind", tag="levels"):
    """Levels of a column that were released privately.

    Attributes
    ----------
    n
        Number of records, or of persons.
    half, always
        What follows from the target: the counts of a level that is released with a chance of one
        half, and of one that always is.
    levels
        In increasing order, numbers before texts.
    identifier
        Drawn at release.
    """

    n: _Records
    column: Name
    target: ApproximateEntry
    half: Position
    always: Position
    levels: Annotated[list[Level], Meta(max_length=1_000_000)]
    identifier: _Drawn


AnyAnswerEntry = CurveEntry | CandidatesEntry | RangesEntry | LevelsEntry


class AnswerDocument(FileEntry, frozen=True):
    """A private answer about a fit, or a declaration before one, which was paid for by itself.

    Attributes
    ----------
    notice
        What a person should know first; it begins with NOT PRIVATE if there is no guarantee.
    guarantee
        The guarantee of the numbers of the answer; of a choice the sum of all prices.
    randomness
        The source of the noise; a seed makes the guarantee void.
    ledger
        Null if no ledger was charged.
    sha256
        As of the file of a fit.
    """

    format: Literal["privatelr answer"]
    version: Literal[2]
    notice: Annotated[str, Meta(pattern="^(covered by |NOT PRIVATE: )")]
    written_by: Annotated[dict[Phrase, Phrase], Meta(max_length=100)]
    guarantee: GuaranteeEntry
    randomness: Literal["operating system", "seed"]
    ledger: ChargeEntry | None
    answer: AnyAnswerEntry
    sha256: str

    def __post_init__(self) -> None:
        for name, version in self.written_by.items():
            require_printable(name, "a name in written_by")
            require_printable(version, "a version in written_by")
