"""The privacy card of fits to strata: the promise of all together, and then each one's card."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privatelr import page_model
from privatelr.errors import ArgumentError, require_choice
from privatelr.page_model import Heading, Piece
from privatelr.results.pages import card
from privatelr.results.pages.beside_terms import sentences_of_paid

if TYPE_CHECKING:
    from privatelr.results.strata_of_fits import Strata


def write_card(strata: Strata, format: card.CardFormat) -> str:
    """The card as Markdown or as an HTML page; see `Strata.card`."""
    require_choice(ArgumentError, "format", format, ("markdown", "html"))
    levels = ", ".join(map(str, strata.levels))
    pieces: list[Piece] = [
        Heading("Privacy card of strata"),
        f"A fit for each level of {strata.by}: {levels}. All of them together keep what each card "
        f"below promises: {strata.guarantee}. They were paid for once.",
        *sentences_of_paid([strata.first.spec], strata.guarantee),
        "A record counts in the fit of its own level, and is a row of zeros in the others. If it "
        "were another one, of whatever level, at most two of the fits would change. Which level "
        "a record has, and how many records a level has, is covered by the promise.",
    ]
    for level, fit in strata.items():
        pieces += [Heading(f"{strata.by} = {level}"), *card.pieces_of(fit)]
    return page_model.as_document(pieces) if format == "html" else page_model.as_markdown(pieces)
