"""The privacy card of a private answer: its page, and what a reader of its file can check."""

from __future__ import annotations

from privatelr import page_model
from privatelr.errors import ArgumentError, ReleaseFileError, require_choice
from privatelr.page_model import Bullets, Code, Heading, Piece
from privatelr.privacy import REPLACE_PERSON, Guarantee, NonPrivate
from privatelr.results.answers.chosen_fit import ChosenFit
from privatelr.results.answers.paid_answer import PaidAnswer
from privatelr.results.declarations import ReleasedLevels, SuggestedBounds
from privatelr.results.pages import card
from privatelr.results.release_files.release_file import release_document

_LOAD = """\
import privatelr
answer = privatelr.load("answer.json")"""
_SAME_HASH = (
    "The content has the hash that the file states. That finds accidents; a forger can compute the "
    "hash too."
)
_ENOUGH = (
    "The law of the noise, or of the choice, is enough for the guarantee, by the proof that the "
    "answer itself used."
)
_FOLLOWS = "Areas and thresholds are what the released numbers give."
_CANDIDATES = (
    "The epsilon of each choice and the number of records to lie beyond an end follow from the "
    "outer ranges, the number of records and the guarantee, and all ends are candidates that do."
)
_CHANCES = "The chances of levels by their counts follow from the guarantee."
_ADDS_UP = (
    "The file of each candidate is right by itself, and all prices together are the guarantee."
)
_CHARGED = "The ledger entry has this guarantee, and its events are those of the stated noise."


def write_card(answer: PaidAnswer, format: card.CardFormat) -> str:
    """The card as Markdown or as an HTML page; see `PaidAnswer.card`."""
    require_choice(ArgumentError, "format", format, ("markdown", "html"))
    try:
        document = release_document(answer)
    except ReleaseFileError as error:
        raise ReleaseFileError(f"card: {error}.") from None
    pieces: list[Piece] = [
        Heading("Privacy card of an answer"),
        *_promise(answer.guarantee),
        *(piece for piece in answer.page() if piece),
        Heading("What can be checked in the release file"),
        "Reading the file recomputes:",
        Bullets(_recomputed(answer)),
        "What remains the word of its writer:",
        Bullets(_stated(answer, is_seeded=document["randomness"] == "seed")),
        Heading("How to check this"),
        "Content hash (SHA-256) of the release file, as this software writes it:",
        Code(document["sha256"]),
        Code(_LOAD),
    ]
    if isinstance(answer, ChosenFit):
        pieces += [
            Heading(f"The chosen fit: {page_model.on_one_line(answer.label)}"),
            *card.pieces_of(answer.fit),
        ]
    return page_model.as_document(pieces) if format == "html" else page_model.as_markdown(pieces)


def _promise(guarantee: Guarantee) -> list[Piece]:
    """What the guarantee says of a conclusion about one record, or about a person."""
    if isinstance(guarantee, NonPrivate):
        return [page_model.Alarm(f"This answer has no guarantee as a whole ({guarantee}).")]
    odds, groups = card.meaning(guarantee)
    of = "records"
    if guarantee.neighbours is REPLACE_PERSON:
        of = "persons"
        odds = odds.replace("your record", "your records").replace("any other record ", "others ")
    return [
        f"Suppose someone knows all other {of} and everything but this answer, and can compute "
        f"without limit. {odds} A group of k {of} is covered with {groups}."
    ]


def _recomputed(answer: PaidAnswer) -> list[str]:
    kinds = {ChosenFit: _ADDS_UP, SuggestedBounds: _CANDIDATES, ReleasedLevels: _CHANCES}
    own = kinds.get(type(answer), _FOLLOWS)
    charged = [] if answer.entry is None else [_CHARGED]
    return [_SAME_HASH, _ENOUGH, own, *charged]


def _stated(answer: PaidAnswer, *, is_seeded: bool) -> list[str]:
    charged = "A ledger was charged for this answer before the records were read."
    if answer.entry is None:
        charged = (
            "No ledger was charged for this answer. The file does not tell what else was released "
            "about the same records."
        )
    fit = ["Formula, classes and the guarantee of the fit are those of the fit that scored."]
    if isinstance(answer, ChosenFit):
        fit = []
    elif isinstance(answer, SuggestedBounds | ReleasedLevels):
        fit = ["Names are those of the table, and outer ranges were declared without a look at it."]
    drawn = "The randomness came from the operating system, was drawn once, and was not kept."
    return [
        "The noise was made from a seed." if is_seeded else drawn,
        "The numbers were computed from so many records, by the stated mechanism.",
        *fit,
        charged,
    ]
