"""The origin of a file: what reading it verifies, and what its writer only states.

A file contains numbers. Anyone can compute that a guarantee follows from the numbers. The numbers
do not show how they were made. The card, the page, `Fit.origin` and the vignette about the
guarantee take their sentences from this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from privatelr.page_model import Bullets, as_text
from privatelr.privacy import REPLACE_PERSON, NonPrivate
from privatelr.results.answers.paid_answer import PaidAnswer
from privatelr.results.fit_record import ModelRecord, NoisyRecord

Record = TypeVar("Record", bound=ModelRecord)
SAME_HASH = (
    "The content has the hash that the file states. That finds accidents; a forger can compute the "
    "hash too."
)


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a fit that was read from a file, and what is known about it.

    Attributes
    ----------
    written_by : tuple of (str, str)
        Programs and their versions, as the file states them.
    recomputed : tuple of str
        Sentences about what was computed again when the file was read, and agreed with the file.
    stated : tuple of str
        Sentences about what the writer of the file states and no reader can check.
    """

    written_by: tuple[tuple[str, str], ...]
    recomputed: tuple[str, ...]
    stated: tuple[str, ...]

    def __str__(self) -> str:
        return as_text(
            [
                "Read from a file.",
                "Recomputed when it was read:",
                Bullets(self.recomputed),
                "Stated by its writer, and not checkable:",
                Bullets(self.stated),
            ]
        )


def with_origin(fit: Record, written_by: Mapping[str, str]) -> Record:
    """A fit that was read from a file that these programs wrote."""
    known = Origin(tuple(written_by.items()), recomputed(fit, checked(fit)), stated(fit))
    return replace(fit, origin=known)


def recomputed(release: ModelRecord | PaidAnswer, checked: Sequence[str]) -> tuple[str, ...]:
    """Sentences about what is computed again when a release file is read."""
    charged = (
        "The ledger entry has this guarantee, and its events, if it lists any, are those of the "
        "stated noise or choices."
    )
    return (SAME_HASH, *checked, *([charged] if release.entry else []))


def checked(fit: ModelRecord) -> list[str]:
    """Sentences about the plan and the mechanism of a fit that reading a file verifies."""
    columns = (
        "The columns, their map to the units of the data and the length of a row are what "
        "formula, bounds and levels give."
    )
    return [columns, *(fit.kind.checked(fit) if fit.guarantee.is_private else [])]


def checked_noise(fit: NoisyRecord) -> list[str]:
    """Sentences about the noise that reading a file verifies."""
    enough = "The law of the noise is enough for the guarantee, by the proof that the fit itself "
    enough += "used."
    if fit.has_inference or fit.has_roc:
        enough = (
            "The law of the noise of each part is enough for its part of the guarantee, and "
            "the parts add up to the whole, by the proofs that the fit itself used."
        )
    return [enough, "Every released number is a multiple of the stated rounding."]


def sample_of(release: ModelRecord | PaidAnswer) -> str:
    """The number of what a release is about, in words."""
    if release.guarantee.neighbours is REPLACE_PERSON:
        return f"the records of {release.nobs} persons"
    return f"{release.nobs} records"


def stated(release: ModelRecord | PaidAnswer, own: Sequence[str] = ()) -> tuple[str, ...]:
    """Sentences about what the writer of a release file states and no reader can check."""
    sample = sample_of(release)
    computed = f"The numbers were computed from a table of {sample}, by the stated mechanism."
    programs = "The programs and versions that wrote the file are as stated. It has no date."
    if isinstance(release.guarantee, NonPrivate):
        return (computed, *own, programs)
    charged = (
        "A ledger was charged for this release, under this label, before the data were read."
        if release.entry is not None
        else "No ledger was charged for this release. The file does not tell what else was "
        "released about the same records."
    )
    return (
        "The randomness came from the operating system, was drawn once, and was not kept. No file "
        "can show how its noise was drawn: if it was made from a seed, or if the best of many "
        "draws was taken, nothing is private.",
        computed,
        *own,
        "The formula, the bounds, the levels and lambda were chosen without a look at the data, or "
        "by a release that was paid for apart.",
        charged,
        programs,
    )
