"""What can be charged, and the one place where a charge is made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from privatelr.arguments import suggests_arguments
from privatelr.locks import ForkSafeLock
from privatelr.privacy.accounting.agreement import require_agreement
from privatelr.privacy.accounting.ledger_entry import Entry, priced
from privatelr.privacy.events import Event
from privatelr.privacy.guarantees import Guarantee

if TYPE_CHECKING:
    from privatelr.privacy.accounting.ledger import Ledger
    from privatelr.privacy.accounting.ledger_books import Page

LOCK = ForkSafeLock()
"""One lock for all ledgers: a charge to several of them is all or nothing, without deadlock."""
Places = tuple[tuple["Ledger", "str | None"], ...]


@suggests_arguments
class Account(ABC):
    """An account that can be charged: a ledger, a part of one, or all active ledgers.

    Attributes
    ----------
    places : tuple of (Ledger, str or None)
        The ledgers that record a charge, in all of them or in none, each with the part of the
        rows that the charge is about; None for all rows.
    """

    @property
    @abstractmethod
    def places(self) -> Places: ...

    @property
    def ledgers(self) -> tuple[Ledger, ...]:
        """The ledgers that are charged."""
        return tuple(ledger for ledger, _ in self.places)

    def charge(
        self,
        guarantee: Guarantee,
        events: Sequence[Event] = (),
        label: str = "",
        *,
        times: int = 1,
        person: str | None = None,
    ) -> Entry:
        """Record a release, or refuse it if it does not fit into the budget.

        Parameters
        ----------
        guarantee
            The guarantee of the release.
        events
            The same release in more detail, which may compose to less. Together they must imply
            the guarantee, and must not imply half of it: low costs that are stated beside a high
            price are not believed.
        label
            A description of the release for the page; it must not depend on private values.
        times
            The number of such releases that are made from the same records, such as all draws
            of a bootstrap. If a record can occur several times in the input of one release, charge
            `privatelr.privacy.events.grouped` of its guarantee. A resample costs nothing only if
            it is drawn from releases, not from records.
        person
            The column that tells persons apart, if the guarantee is about them. A ledger takes one
            column, as prices about others do not add up; a charge without it is not compared.

        Returns
        -------
        Entry
            The entry of the first ledger, with a receipt of every ledger on disk.

        Raises
        ------
        GuaranteeError
            If the release would overdraw the budget, has no guarantee, has events that do not
            account for it or is about other neighbours or persons of another column, or if this
            process does not keep the ledger. Nothing is recorded then.
        LedgerError
            If a ledger on disk cannot be read or written, or another process holds it for half a
            minute.

        Notes
        -----
        It charges no other account. A fit with ``ledger=`` also charges the ledgers of open blocks.
        A charge to a ledger on disk is on the disk when this method returns. If of several ledgers
        on disk one cannot be written at the very end, those before it keep the charge.
        """
        place = self.places[0][1]
        entry = Entry(label, priced(guarantee), tuple(events), place, times, person)
        with self._pages_with(entry) as pages:
            given = [page.commit() for page in pages]
        receipts = tuple(receipt for receipt in given if receipt is not None)
        return replace(entry, receipts=receipts) if receipts else entry

    def require_room(self, guarantee: Guarantee, events: Sequence[Event] = ()) -> None:
        """Refuse what `charge` would refuse now, and record nothing."""
        with self._pages_with(Entry("", priced(guarantee), tuple(events))):
            pass

    @contextmanager
    def _pages_with(self, entry: Entry) -> Iterator[list[Page]]:
        """All ledgers, each with the entry, which is in none of them without a commit."""
        require_agreement(entry.guarantee, entry.events)
        for ledger, _ in self.places:
            ledger._book.require_kept()
        # in one order, so that two processes never wait for each other; in memory comes last
        ordered = sorted(
            self.places, key=lambda place: (not place[0]._book.is_on_disk, place[0]._key)
        )
        with LOCK.held(), ExitStack() as opened:  # only here is a ledger read and then written
            pages: list[Page] = []
            for ledger, part in ordered:
                pages.append(opened.enter_context(ledger._book.exclusively()))
                pages[-1].add(entry if part == entry.part else replace(entry, part=part))
            yield pages
