"""One charge to a ledger, and whom it is about.

Prices add up for one person, and nobody is the same person by two columns: a patient is not the
clinic of all its patients. So releases about persons add up only if one column tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from privatelr.errors import GuaranteeError, show
from privatelr.privacy.events import Event
from privatelr.privacy.guarantees import REPLACE_PERSON, Guarantee, NonPrivate, Promise
from privatelr.privacy.renyi_divergence import require_times


@dataclass(frozen=True, slots=True)
class Receipt:
    """Where a charge stands in a ledger on disk.

    Attributes
    ----------
    ledger : str
        The name that no other ledger has, in hexadecimal.
    dataset : str
        What the ledger is about, in the words of the one who opened it.
    row : int
        The number of the row of the charge.
    head : str
        The hash of this row, which follows from all rows before it.
    """

    ledger: str
    dataset: str
    row: int
    head: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One charge to a ledger.

    Attributes
    ----------
    label : str
        A description of the release by the caller who charged it.
    guarantee : PureDP, ZCDP or ApproxDP
        The guarantee of one release.
    events : tuple of Event
        The same release in more detail; empty if the guarantee describes it fully.
    part : str or None
        The part of the rows that the release was made from; None for all rows.
    times : int
        The number of such releases that were made from the same records.
    person : str or None
        The column that tells persons apart, where neighbours replace a person; None if it is not
        stated.
    receipts : tuple of Receipt
        The places of the charge in ledgers on disk. Entries that differ in them are equal.
    """

    label: str
    guarantee: Promise
    events: tuple[Event, ...] = ()
    part: str | None = None
    times: int = 1
    person: str | None = None
    receipts: tuple[Receipt, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if not all(isinstance(event, Event) for event in self.events):
            raise GuaranteeError("events: takes a sequence of accounting events.")
        if any(event.neighbours is not self.guarantee.neighbours for event in self.events):
            raise GuaranteeError("events: takes events about the neighbours of the guarantee.")
        if not isinstance(self.label, str):
            raise GuaranteeError(f"label={show(self.label)}: label takes text.")
        if self.part is not None and (not isinstance(self.part, str) or not self.part):
            raise GuaranteeError(f"part={show(self.part)}: part takes a name.")
        require_times(self.times)
        if self.person is not None and (not isinstance(self.person, str) or not self.person):
            raise GuaranteeError(f"person={show(self.person)}: person takes the name of a column.")
        if self.person is not None and self.guarantee.neighbours is not REPLACE_PERSON:
            raise GuaranteeError("person: goes with a guarantee about persons.")


def priced(guarantee: Guarantee | Event) -> Promise:
    """Return a guarantee that can be composed with others; refuse everything else."""
    if isinstance(guarantee, Promise):
        return guarantee
    if isinstance(guarantee, NonPrivate):
        raise GuaranteeError(
            f"ledger: what has no guarantee ({guarantee}) has no price; it can only be made "
            "without a ledger."
        )
    raise GuaranteeError(f"guarantee={show(guarantee)}: guarantee takes PureDP, ZCDP or ApproxDP.")


def column_of_persons(stated: Iterable[str | None], what: str, instead: str) -> str | None:
    """Return the column that tells the persons of several releases apart; None if none states it.

    Parameters
    ----------
    stated
        The column of each release; None if it is not stated, or if the release is about records.
    what, instead
        For the error: what adds prices up, and what to do instead.

    Raises
    ------
    GuaranteeError
        If there are two columns. A column under a new name is another one, since a name is all
        that is public of it.
    """
    first, *others = dict.fromkeys(name for name in stated if name is not None) or (None,)
    if others:
        raise GuaranteeError(
            f"{what}: persons that the column {show(others[0])} tells apart are not those of "
            f"{show(first)}, so prices about both do not add up; {instead}."
        )
    return first
