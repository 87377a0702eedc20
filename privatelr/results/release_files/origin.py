"""What reading a release file shows, and what its writer only states; said in one place.

A file is numbers. That a guarantee follows from the numbers can be worked out by anyone; that
the numbers came about as they say cannot be seen from them. The card, the page, `Fit.origin`
and the vignette about the guarantee take their sentences from here.
"""

from __future__ import annotations

from dataclasses import dataclass

from privatelr.page_model import Bullets, as_text
from privatelr.privacy import NonPrivate
from privatelr.results.fit_record import FitRecord, ModelRecord, SelectedRecord


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a fit that was read from a file comes from, and what is known of it.

    Attributes
    ----------
    signed_by : str or None
        Fingerprint of the ``public_key`` that `privatelr.load` was given, whose owner signed the
        file; None if it was given none.
    named_key : str or None
        Fingerprint of the public key that the file itself names; None if it is not signed. A
        forger can name any key.
    written_by : tuple of (str, str)
        Programs and their versions, as the file states them.
    recomputed : tuple of str
        What was computed again when the file was read, and found to be as the file says.
    stated : tuple of str
        What the writer of the file says, and no reader can check.
    """

    signed_by: str | None
    named_key: str | None
    written_by: tuple[tuple[str, str], ...]
    recomputed: tuple[str, ...]
    stated: tuple[str, ...]

    @property
    def source(self) -> str:
        """Who stands behind the file, in one phrase."""
        if self.signed_by is not None:
            return f"read from a file that was signed by the key {self.signed_by}"
        if self.named_key is not None:
            named = self.named_key
            return f"read from a file whose signature, by the key {named}, was not verified"
        return "read from a file that is not signed"

    def __str__(self) -> str:
        return as_text(
            [
                f"{self.source[0].upper()}{self.source[1:]}.",
                "Recomputed when it was read:",
                Bullets(self.recomputed),
                "Stated by its writer, and not checkable:",
                Bullets(self.stated),
            ]
        )


def source_fact(fit: ModelRecord) -> list[tuple[str, str]]:
    """The line of the printed page about a fit that was read from a file."""
    return [("Source", f"{fit.origin.source}; see fit.origin")] if fit.origin else []


def recomputed(fit: ModelRecord) -> tuple[str, ...]:
    """What reading the release file of a fit computes again, sentence by sentence."""
    return (
        "The content has the hash that the file states. That finds accidents; a forger can "
        "compute the hash too.",
        "The columns, their map to the units of the data and the length of a row are what "
        "formula, bounds and levels give.",
        *_worth(fit),
        *_entry(fit),
    )


def _worth(fit: ModelRecord) -> tuple[str, ...]:
    """What was found about the noise, or about the choices."""
    private = not isinstance(fit.release.calibration.target, NonPrivate)
    if not private:
        return ()
    if isinstance(fit, SelectedRecord):
        return (
            "The number of choices and their law are enough for the guarantee, by the proof that "
            "the fit itself used.",
            "The coefficients are what the counts of choices give.",
        )
    enough = "The law of the noise is enough for the guarantee, by the proof that the fit itself"
    if isinstance(fit, FitRecord) and fit.release.moments is not None:
        enough = (
            "The law of the noise of each part is enough for its part of the guarantee, and the "
            "parts add up to the whole, by the proofs that the fit itself"
        )
    return (
        f"{enough} used.",
        "Every released number is a multiple of the stated rounding.",
    )


def _entry(fit: ModelRecord) -> tuple[str, ...]:
    if fit.release.entry is None:
        return ()
    return (
        "The ledger entry has this guarantee, and its events, if it lists any, are those of the "
        "stated noise or choices.",
    )


def stated(fit: ModelRecord) -> tuple[str, ...]:
    """What the writer of a release file says, and no reader can check."""
    declared = (
        "The formula, the bounds, the levels and lambda were chosen without a look at the data."
    )
    computed = (
        f"The numbers were computed from a table of {fit.nobs} records, by the stated mechanism."
    )
    programs = "The programs and versions that wrote the file are as stated. It has no date."
    if isinstance(fit.guarantee, NonPrivate):
        return (computed, programs)
    drawn = (
        "The randomness came from the operating system, was drawn once, and was not kept. No file "
        "can show how its noise was drawn: if it was made from a seed, or if the best of many "
        "draws was taken, nothing is private."
    )
    charged = (
        "A ledger was charged for this release, under this label, before the data were read."
        if fit.release.entry is not None
        else "No ledger was charged for this release. The file does not tell what else was "
        "released about the same records."
    )
    return (drawn, computed, declared, charged, programs)
