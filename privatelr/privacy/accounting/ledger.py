"""Accounts that can be charged: a budget, everything that was released from it, and who charges it.

A ledger stays one account however it is passed on. In memory, copies, clones and pickles of it are
the ledger itself within its process, and threads share it; another process gets a read-only copy
that refuses every charge, so that every charge is recorded in one place. On disk, that place is a
file, and every process that has its path can charge it.
"""

from __future__ import annotations

import getpass
import json
import os
import platform
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, Self
from weakref import WeakValueDictionary

from privatelr import page_model
from privatelr.arguments import suggests_arguments
from privatelr.errors import (
    ArgumentError,
    GuaranteeError,
    LedgerError,
    ReaderError,
    WrongLedgerError,
    count_of,
    require_number,
    show,
)
from privatelr.lazy_import import lazy_import
from privatelr.locks import ForkSafeLock
from privatelr.privacy.accounting import statement as statements
from privatelr.privacy.accounting.agreement import require_agreement
from privatelr.privacy.accounting.filters import named_rule, renyi_rule
from privatelr.privacy.accounting.ledger_entry import Entry, Receipt, priced
from privatelr.privacy.accounting.statement import Statement, charged, left
from privatelr.privacy.events import Event
from privatelr.privacy.guarantees import REPLACE_ONE, Guarantee, Neighbours, read_neighbours

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from privatelr.privacy.accounting import ledger_page, ledger_store
    from privatelr.privacy.accounting.ledger_store import Charge, Content, DiskBook, LedgerRow
else:
    ledger_page = lazy_import("privatelr.privacy.accounting.ledger_page")
    ledger_store = lazy_import("privatelr.privacy.accounting.ledger_store")

NAMED = "PRIVATELR_LEDGER"
"""The environment variable that names a ledger for every release of a process."""
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
_IN_MEMORY: WeakValueDictionary[str, Ledger] = WeakValueDictionary()
"""The ledgers in the memory of this process by name, so that a pickle finds its ledger again."""


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

    def content(self) -> Content:
        """The entries as charges without times and notes; there are no rows."""
        entries = enumerate(self.statement.entries, 1)
        charges = tuple(ledger_store.Charge(number, "", entry, "", "") for number, entry in entries)
        return ledger_store.Content(self.key, "", "", self.statement, charges, ())

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
class Account:
    """An account that can be charged: a ledger, a part of one, or all active ledgers.

    Without places it stands for a block of the process that started this one, and refuses charges.

    Attributes
    ----------
    places : tuple of (Ledger, str or None)
        The ledgers that record a charge, in all of them or in none, each with the part of the
        rows that the charge is about; None for all rows.
    """

    def __init__(self, *places: tuple[Ledger, str | None]) -> None:
        self._places = places

    @property
    def places(self) -> Places:
        """The ledgers that record a charge, each with the part of the rows."""
        if not self._places:
            raise GuaranteeError(ELSEWHERE)
        return self._places

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

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
            self.places, key=lambda place: (not place[0]._book.is_on_disk, place[0]._book.key)
        )
        with LOCK.lock, ExitStack() as opened:  # only here is a ledger read and then written
            pages: list[Page] = []
            for ledger, part in ordered:
                pages.append(opened.enter_context(ledger._book.exclusively()))
                pages[-1].add(entry if part == entry.part else replace(entry, part=part))
            yield pages


@suggests_arguments
class Ledger(Account):
    """A privacy budget that is charged before data is touched.

    Parameters
    ----------
    epsilon : float
        The whole budget.
    delta : float, default 0.0
        The delta at which the budget is counted; with 0, only pure releases fit.
    neighbours : {"replace", "zero-out", "person"} or Neighbours
        The neighbours that every guarantee in it is about: one record replaced by another one, as
        for fits without ``person=``, or by zeros, as in online play, or all of one person's.
    account : {"renyi", "sum"}, optional
        The rule by which a budget with a delta is counted. ``"renyi"`` counts the Renyi
        divergence of one order at 80 % of delta, with 10 % for releases that have a delta of
        their own, or sums if they are less and their deltas add up to at most the other 10 %.
        ``"sum"`` adds up epsilons and deltas. By default the first charge decides
        once and for all: it takes ``"renyi"`` unless it fits by sums only, as does a release that
        takes the whole budget. (The least of several accounts is not valid if results chose
        prices.) A budget without a delta is counted by sums.

    Raises
    ------
    GuaranteeError
        One sentence about an invalid budget, invalid neighbours or an invalid account.

    Notes
    -----
    ``Ledger(...)`` is kept in the memory of one process. `Ledger.create` and `Ledger.open` keep one
    on disk, for all processes that have its path, which may stand in its place as ``ledger=``.

    As a context (``with Ledger(1.0):``) it is charged by every fitting function, in every thread
    of the process. Nested blocks charge all their ledgers or none. A charge is never taken back,
    not even if the release fails afterwards.

    **Privacy.** *Covered*: all recorded releases together, by the budget. Each release, and its
    price, may be chosen by the results of earlier ones. *Neighbours*: one record, the same in all
    releases, is replaced by another record or by zeros, as `neighbours` says; or all records of
    one person, the same in all releases, are. *Assumed public*: the budget, the account, labels
    and parts. *Not covered*: releases that the ledger is not told of, guarantees and events that
    are not true, and persons of different columns where their columns are not stated.

    Examples
    --------
    >>> from privatelr import Ledger, dplr, load_dataset, load_schema
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> ledger = Ledger(epsilon=1.5)
    >>> fit = dplr("vote ~ age", votes, eps=1.0, ledger=ledger, **public)
    >>> ledger.spent(), ledger.left()
    (1.0, 0.5)
    """

    def __init__(
        self,
        epsilon: float,
        delta: float = 0.0,
        *,
        neighbours: Neighbours | str = REPLACE_ONE,
        account: str | None = None,
    ) -> None:
        budget = Statement(epsilon, delta, read_neighbours(neighbours))
        rule = named_rule(account, budget.epsilon, budget.delta)
        self._open(MemoryBook(replace(budget, rule=rule), keeper=os.getpid()))

    def _open(self, book: MemoryBook | DiskBook) -> None:
        self._book = book
        if isinstance(book, MemoryBook) and book.is_kept:
            _IN_MEMORY[book.key] = self

    @classmethod
    def _of(cls, book: MemoryBook | DiskBook) -> Self:
        ledger = cls.__new__(cls)
        ledger._open(book)
        return ledger

    @classmethod
    def plan(
        cls,
        prices: Iterable[Guarantee | tuple[Guarantee, Sequence[Event]]],
        delta: float = 0.0,
        *,
        neighbours: Neighbours | str = REPLACE_ONE,
    ) -> Ledger:
        """Make a ledger for releases whose prices are declared before the first of them.

        The prices are composed once, by the best bound there is (with the extra `accounting` by
        the distribution of the losses), which gives the epsilon of the budget. A charge takes the
        cheapest price that covers it. Which prices are used, and in which order, may depend on
        results. The plan is spent as a whole, and a charge to a part of the rows counts as one to
        all rows.

        Parameters
        ----------
        prices
            For each release its guarantee, or the guarantee and the events that it will be
            charged with.
        delta
            The delta at which the prices are composed.
        neighbours
            The neighbours of all guarantees, as for a ledger.

        Raises
        ------
        GuaranteeError
            If a price is invalid, or if together they have no epsilon at this delta.
        """
        planned = statements.planned(prices, delta, read_neighbours(neighbours))
        return cls._of(MemoryBook(planned, keeper=os.getpid()))

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        epsilon: float | None = None,
        delta: float = 0.0,
        *,
        dataset: str = "",
        neighbours: Neighbours | str = REPLACE_ONE,
        account: str | None = None,
        prices: Iterable[Guarantee | tuple[Guarantee, Sequence[Event]]] | None = None,
        note: str | bool | None = None,
    ) -> Self:
        """Create a ledger on disk, which every process charges that is given its path.

        A charge is on the disk before the data are read. The file is an SQLite database, and it
        takes no other file's place.

        Parameters
        ----------
        path
            Name of the file; or with the extra `server` the URL of a PostgreSQL database, such as
            ``postgresql+psycopg://host/clinic``, which then holds this one ledger.
        epsilon, delta, neighbours, account
            The budget, as for `Ledger`, except that the account is fixed here and not by the first
            charge: with a delta it is ``"renyi"`` unless ``"sum"`` is asked for.
        dataset
            What the ledger is about, as people call it.
        prices
            Prices that are declared in advance, in place of `epsilon`; see `plan`.
        note
            As for `open`.

        Raises
        ------
        LedgerError
            If there is such a file, or if it cannot be written.
        GuaranteeError
            If the budget is invalid.
        """
        relation, noted = read_neighbours(neighbours), _note(note)
        if (prices is None) == (epsilon is None):
            raise GuaranteeError("create: takes either epsilon or prices.")
        if prices is not None:
            budget = statements.planned(prices, delta, relation)
        else:
            budget = Statement(epsilon or 0.0, delta, relation)
            rule = named_rule(account, budget.epsilon, budget.delta)
            budget = replace(budget, rule=rule or renyi_rule(budget.epsilon, budget.delta))
        address = _path(path)
        ledger_store.create(address, budget, _text("dataset", dataset))
        return cls.open(address, note=noted)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        note: str | bool | None = None,
    ) -> Self:
        """Open a ledger on disk.

        Parameters
        ----------
        path
            Name of the file, or URL of the database.
        note
            A text that is kept with every charge that is made by the returned ledger. True stands
            for the names of the user and of the host; by default no name is kept.

        Raises
        ------
        LedgerError
            If there is no such ledger, if it cannot be read, if a row of it was changed, or if it
            was made by an earlier version.
        """
        return cls._of(ledger_store.DiskBook(_path(path), _note(note)))

    @staticmethod
    def check(path: str | os.PathLike[str], *, head: str | None = None) -> tuple[str, ...]:
        """Return a sentence for everything that is wrong with a ledger on disk; empty if sound.

        The chain of hashes is computed again, and so is what all charges compose to. Every event is
        compared with the guarantee it stands for, every row with its number, and the last row with
        what the ledger holds as its head.

        Parameters
        ----------
        path
            Name of the file, or URL of the database.
        head
            The hash of the last row (`head`), as it was noted elsewhere. Rows may have followed it.

        Raises
        ------
        LedgerError
            If there is no such ledger, or `head` is no hash.

        Notes
        -----
        That finds accidents, and edits of one who does not compute anew all that an edit changes.
        One who does, or puts a backup back, is found by what was noted outside of the file: by
        `head`, up to the row that had it, and by `knows`, up to the charge of a saved release.
        """
        if head is not None and not (isinstance(head, str) and re.fullmatch("[0-9a-f]{64}", head)):
            raise WrongLedgerError(f"head={show(head)}: head takes 64 hexadecimal digits.")
        return tuple(ledger_store.findings(ledger_store.table_at(_path(path)), head))

    @property
    def epsilon(self) -> float:
        """The epsilon of the budget."""
        return self._book.statement.epsilon

    @property
    def delta(self) -> float:
        """The delta at which the budget is counted."""
        return self._book.statement.delta

    @property
    def neighbours(self) -> Neighbours:
        """The neighbours that every guarantee in it is about."""
        return self._book.statement.neighbours

    @property
    def person(self) -> str | None:
        """The column that tells the persons of all entries apart; None if no entry states it."""
        return self._book.statement.person

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All charges so far, in their order."""
        return self._book.statement.entries

    @property
    def account(self) -> str:
        """The rule by which it is counted, in words."""
        return statements.account(self._book.statement)

    @property
    def places(self) -> Places:
        """The ledger itself, for all rows."""
        return ((self, None),)

    def part(self, name: str) -> PartAccount:
        """Return an account for some of the rows; disjoint parts cost as much as the dearest one.

        The parts must be disjoint and fixed in advance by the public positions of the rows (such
        as the first 800), never by a value in them. If a value decided, replacing a record could
        change two parts, and their costs would add up; so a fit with ``subset=`` is refused here. A
        charge to the ledger itself is about all rows, and adds to every part. A ledger about
        persons has no parts.
        """
        return PartAccount((self, name))

    def spent(self, delta: float | None = None) -> float:
        """Return the epsilon of all charges at this delta, or at the delta of the budget.

        It is the smallest budget of a ledger with this account that covers them all, so it is
        valid also if results chose the prices.
        """
        at = self.delta if delta is None else _delta(delta)
        return statements.spent(self._book.statement, at)

    def left(self, delta: float = 0.0) -> float:
        """Return the largest epsilon of one more release from all rows, pure or with a delta."""
        return left(self._book.statement, None, _delta(delta))

    def to_json(self) -> dict[str, Any]:
        """Return the budget and every entry as plain values."""
        return statements.to_json(self._book.statement)

    @classmethod
    def from_json(cls, value: Any) -> Ledger:
        """Resume a ledger from `to_json`, in a later session.

        This opens a new account with the old entries. Resuming a ledger that is still in use, or
        resuming it twice, spends its budget twice.
        """
        return cls._of(MemoryBook(statements.from_json(value), keeper=os.getpid()))

    @property
    def dataset(self) -> str:
        """What a ledger on disk is about."""
        return self._disk.content().dataset

    @property
    def head(self) -> str:
        """The hash of the last row of a ledger on disk, which stands for all rows; see `check`."""
        return self._disk.content().head

    @property
    def charges(self) -> tuple[Charge, ...]:
        """The entries of a ledger on disk, with their times, notes and releases."""
        return self._disk.content().charges

    @property
    def rows(self) -> Sequence[LedgerRow]:
        """All rows of a ledger on disk, as they are written, with their hashes."""
        return self._disk.content().rows

    def knows(self, entry: Entry) -> bool:
        """Whether a charge that has a receipt of this ledger is in it, after the same rows.

        If not, rows are missing or were changed after the charge, as in a restored backup.
        """
        hashes = [row.hash for row in self.rows]
        own = [one for one in entry.receipts if one.ledger == self._book.key]
        return bool(own) and all(hashes[one.row - 1 : one.row] == [one.head] for one in own)

    def saved_as(self, entry: Entry) -> str | None:
        """Return the SHA-256 of the saved release of a charge; None if none is noted."""
        rows = {one.row for one in entry.receipts if one.ledger == self._book.key}
        found = (one.release for one in self.charges if one.number in rows)
        return next(found, None)

    @property
    def _disk(self) -> DiskBook:
        if isinstance(self._book, ledger_store.DiskBook):
            return self._book
        raise LedgerError("ledger: it is in memory; Ledger.create makes one on disk.")

    def __enter__(self) -> Ledger:
        self._book.require_kept()
        with LOCK.lock:
            ACTIVE.append(self)
            _leave_word()
        return self

    def __exit__(self, *_: object) -> None:
        with LOCK.lock:
            del ACTIVE[-1 - ACTIVE[::-1].index(self)]
            _leave_word()

    def __reduce__(self) -> tuple[Any, ...]:
        if isinstance(book := self._book, ledger_store.DiskBook):
            return _reopen, (book.key, book.address, book.note)
        return _unpickle, (self._book.key, self.to_json())

    def __repr__(self) -> str:
        address = self._book.address
        where = "" if address is None else f"{ledger_store.shown(address)}, "
        budget = f"epsilon={self.epsilon!r}, delta={self.delta!r}"
        return f"<Ledger {where}{budget}, {count_of(len(self.entries), 'entry')}>"

    def page(self) -> list[page_model.Piece]:
        """Return its page in pieces, as `privatelr.page_model` writes them."""
        return ledger_page.page(self._book.content())

    def __str__(self) -> str:
        return page_model.as_text(self.page())

    def _repr_html_(self) -> str:
        return page_model.as_html(self.page())

    def plot(self, *, ax: Any = None) -> Axes:
        """Draw what each charge adds to what is spent, and the budget.

        Under an account with a delta what a charge adds depends on those before it. Of more than 30
        charges the earlier ones share a bar.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; by default a new figure.

        Raises
        ------
        MissingDependencyError
            If matplotlib is not installed.
        """
        return ledger_page.plot_ledger(self._book.statement, ax)

    def show(self) -> None:
        """Print what is spent, by whom, and what is left."""
        print(self)


@suggests_arguments
class PartAccount(Account):
    """The account of some of the rows; it can stand in the place of a ledger (`Ledger.part`)."""

    def left(self, delta: float = 0.0) -> float:
        """Return the largest epsilon of one more release from this part, pure or with a delta."""
        ((ledger, name),) = self.places
        return left(ledger._book.statement, name, _delta(delta))


def _delta(delta: float) -> float:
    takes = "a number from 0 to 1"
    return require_number(GuaranteeError, "delta", delta, takes, at_least=0, at_most=1)


def _path(path: str | os.PathLike[str]) -> str:
    """Return the address of a ledger: the URL of a database, or the whole path of a file."""
    text = os.fsdecode(path) if isinstance(path, str | os.PathLike) else ""
    if not text or "\0" in text:
        raise ArgumentError(f"path={show(path)}: path takes the name of a file.")
    may_be_server = isinstance(path, str) and ledger_store.is_server(path)
    return text if may_be_server else os.path.realpath(text)


def _text(name: str, value: str) -> str:
    if not isinstance(value, str):
        raise ArgumentError(f"{name}={show(value)}: {name} takes text.")
    return value


def _note(note: str | bool | None) -> str:
    """Return what charges are noted with: a sentence, or for True the user and the host."""
    return f"{getpass.getuser()}@{platform.node()}" if note is True else _text("note", note or "")


def _unpickle(key: str, value: Any) -> Ledger:
    """Return the ledger itself if this process has it; otherwise a copy that refuses charges."""
    if kept := _IN_MEMORY.get(key):
        return kept
    return Ledger._of(MemoryBook(statements.from_json(value), key))


def _reopen(key: str, address: str, note: str) -> Ledger:
    """Open the ledger of a pickle, in whatever process this is."""
    ledger = Ledger.open(address, note=note)
    if ledger._book.key != key:
        where = ledger_store.shown(address)
        raise LedgerError(f"ledger {where}: another ledger has taken its place.")
    return ledger


# -- blocks, and what a release is charged to --------------------------------------------------

AnyLedger = Account | str | os.PathLike[str]
"""What users hand over: a ledger, a part of one, or the path of one."""


def account_with(ledger: AnyLedger | None) -> Account | None:
    """Return what a fitting function charges; None if there is none to charge.

    It is the given account, all ledgers whose blocks are open in this process, whichever thread
    opened them, and the one of PRIVATELR_LEDGER. A ledger is charged once. If the given account is
    a part of a ledger with an open block, the charge is for this part alone.

    A process that was started inside a block charges the ledger of the block if that is on disk,
    and refuses otherwise. A process that was started before the block cannot know of it. Give it
    ``ledger=``, or set PRIVATELR_LEDGER before it is started.

    Raises
    ------
    LedgerError
        If a ledger that is named, here or in the environment, cannot be opened.
    """
    if isinstance(ledger, str | os.PathLike):
        ledger = Ledger.open(ledger)
    above = [address for _, address in blocks_above()]
    if None in above:  # the ledger of a block cannot be charged here
        return Account()
    others = [*map(Ledger.open, filter(None, above)), *ACTIVE]
    if named := os.environ.get(NAMED):
        try:
            others.append(Ledger.open(named))
        except LedgerError as error:
            raise type(error)(f"{NAMED}: {error}") from None
    given = {} if ledger is None else {place[0]._book.key: place for place in ledger.places}
    places = given | {
        other._book.key: (other, None) for other in others if other._book.key not in given
    }
    if ledger is not None and places == given:
        return ledger
    match [*places.values()]:
        case []:
            return None
        case [(one, None)]:
            return one
        case several:
            return Account(*several)


def charge(
    ledger: Account | None,
    guarantee: Guarantee,
    events: tuple[Event, ...],
    label: str,
    person: str | None = None,
) -> Entry | None:
    """Charge a ledger, if there is one; it refuses what it cannot cover."""
    return None if ledger is None else ledger.charge(guarantee, events, label, person=person)


@contextmanager
def charged_if_unread(
    ledger: Account | None, guarantee: Guarantee, *, is_read: bool
) -> Iterator[None]:
    """Charge a call whose records could not be counted, before the error is raised.

    Records of a stream and of Dask are counted before the charge, because the noise depends on
    their number. A count may fail because of one record, so a failure is charged as the call is.

    Parameters
    ----------
    is_read
        Whether records are read to count them. Then a ledger without room for the guarantee
        refuses the call before they are read.
    """
    if is_read and ledger is not None:
        ledger.require_room(guarantee)
    try:
        yield
    except ReaderError:
        charge(ledger, guarantee, (), "records that could not be read")
        raise


@contextmanager
def of_public_data() -> Iterator[None]:
    """Within the block nothing is charged to the named ledger: for tables that hold no persons."""
    named = os.environ.pop(NAMED, None)
    try:
        yield
    finally:
        if named is not None:
            os.environ[NAMED] = named


def blocks_above() -> list[tuple[int, str | None]]:
    """Return the blocks of the processes that started this one, by process and address.

    The address of a ledger in the memory of one of them is None.
    """
    marks = json.loads(os.environ.get(_MARK) or "[]")
    return [(process, address) for process, address in marks if process != os.getpid()]


def _leave_word() -> None:
    """Tell processes that are started inside a block of its ledger."""
    if marks := blocks_above() + [(os.getpid(), ledger._book.address) for ledger in ACTIVE]:
        os.environ[_MARK] = json.dumps(marks)
    else:
        os.environ.pop(_MARK, None)
