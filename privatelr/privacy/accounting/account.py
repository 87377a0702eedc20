"""What can be charged, the one place where a charge is made, and the blocks that are open."""

from __future__ import annotations

import json
import os
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from privatelr.arguments import suggests_arguments
from privatelr.errors import GuaranteeError
from privatelr.locks import ForkSafeLock
from privatelr.privacy.accounting.agreement import require_agreement
from privatelr.privacy.accounting.ledger_entry import Entry, Receipt, priced
from privatelr.privacy.accounting.statement import Statement, charged
from privatelr.privacy.events import Event
from privatelr.privacy.guarantees import Guarantee

if TYPE_CHECKING:
    from privatelr.privacy.accounting.ledger import Ledger

LOCK = ForkSafeLock()
"""One lock for all ledgers: a charge to several of them is all or nothing, without deadlock."""
Places = tuple[tuple["Ledger", "str | None"], ...]
ELSEWHERE = (
    "ledger: it is kept in another process, and this one can only read it; charge it there "
    "(threads share it), or resume it with Ledger.from_json(ledger.to_json()) once that process "
    "is gone; a ledger on disk (Ledger.create) is charged by all processes."
)
ACTIVE: list[Ledger] = []
"""The ledgers of open blocks in this process, the innermost last."""
_MARK = "PRIVATELR_OPEN_BLOCKS"
"""By this environment variable a process that is started inside a block learns of its ledger."""


class Page(Protocol):
    """A ledger while nobody else can charge it."""

    def add(self, entry: Entry) -> None:
        """Add an entry; raises `GuaranteeError` if it does not fit."""

    def commit(self) -> Receipt | None:
        """Keep what was added."""


class MemoryBook:
    """Entries in one process; others have a copy that refuses charges."""

    is_on_disk = False
    address = None

    def __init__(self, statement: Statement, key: str = "", keeper: int | None = None) -> None:
        self.statement, self.keeper = statement, keeper
        self.key = key or uuid.uuid4().hex

    @property
    def is_kept(self) -> bool:
        """Whether this process keeps the entries."""
        return self.keeper == os.getpid()

    def require_kept(self) -> None:
        """Refuse what this process cannot charge.

        It is asked before the lock, which another thread may have held when this process forked.
        """
        if not self.is_kept:
            raise GuaranteeError(ELSEWHERE)

    @contextmanager
    def exclusively(self) -> Iterator[Page]:
        """Open the entries for a charge, under the lock of all ledgers."""
        yield _MemoryPage(self)


class _MemoryPage:
    def __init__(self, book: MemoryBook) -> None:
        self._book, self._after = book, book.statement

    def add(self, entry: Entry) -> None:
        self._after = charged(self._after, entry)

    def commit(self) -> None:
        self._book.statement = self._after


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
            the guarantee, and must not imply half of it: low costs that are stated next to a high
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


# -- blocks --------------------------------------------------------------------------------------


def enter_block(ledger: Ledger) -> None:
    """Open a block, and leave word for processes that are started inside it."""
    with LOCK.held():
        ACTIVE.append(ledger)
        _leave_word()


def leave_block(ledger: Ledger) -> None:
    """Close the innermost block of a ledger."""
    with LOCK.held():
        del ACTIVE[-1 - ACTIVE[::-1].index(ledger)]
        _leave_word()


def blocks_above() -> list[str | None]:
    """Return the addresses of blocks of the processes that started this one.

    None stands for a ledger in the memory of one of them.
    """
    return [address for process, address in _marks() if process != os.getpid()]


def _marks() -> list[tuple[int, str | None]]:
    return [(process, address) for process, address in json.loads(os.environ.get(_MARK) or "[]")]


def _leave_word() -> None:
    above = [mark for mark in _marks() if mark[0] != os.getpid()]
    if marks := above + [(os.getpid(), ledger._book.address) for ledger in ACTIVE]:
        os.environ[_MARK] = json.dumps(marks)
    else:
        os.environ.pop(_MARK, None)
