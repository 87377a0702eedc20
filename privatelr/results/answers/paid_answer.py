"""What private answers have in common: a page, a file, and a card."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from privatelr import page_model
from privatelr.arguments import suggests_arguments
from privatelr.results import views

if TYPE_CHECKING:
    import os

    from privatelr.results.fit_record import ModelRecord
    from privatelr.results.pages.card import CardFormat


@suggests_arguments
class PaidAnswer(page_model.Paged):
    """An answer that was paid for by itself, and may be published by itself."""

    __slots__ = ()

    if TYPE_CHECKING:  # attributes of every answer

        @property
        def guarantee(self) -> Any: ...

        @property
        def entry(self) -> Any: ...
        @property
        def nobs(self) -> int: ...

    @property
    def fit(self) -> ModelRecord | None:
        """The fit that the answer chose; None for an answer of another kind."""
        return None

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the answer to a release file, for `privatelr.load` and for other programs.

        The file is JSON. It has the released numbers with the calibration of their noise, what
        follows from them, the guarantee, the ledger entry, versions, and a content hash; of a
        choice also the release of each candidate. It is written completely or not at all.

        Parameters
        ----------
        path, overwrite
            As in `Fit.save`.

        Raises
        ------
        ArgumentError, ReleaseFileError
            As in `Fit.save`.
        GuaranteeError
            If the answer was bought with a fit, whose own file has it; or if columns of a
            candidate were scaled by the data.

        Notes
        -----
        **Privacy.** *Covered*: everything in the file, by the guarantee of the answer. *Neighbours*
        and *Assumed public*: those of the answer. *Not covered*: nothing in the file.
        """
        views.release_file.write_release(self, path, overwrite=overwrite)

    def card(self, format: CardFormat = "markdown") -> str:
        """The privacy card: what is promised and to whom, and how to check it.

        Parameters
        ----------
        format
            ``"markdown"``, or ``"html"`` for a complete HTML page.

        Notes
        -----
        **Privacy.** *Covered*: the card, which repeats what the release file contains.
        *Neighbours* and *Assumed public*: as for `save`. *Not covered*: nothing on the card.
        """
        return views.card.written(views.card.pieces_of_answer(self), format)
