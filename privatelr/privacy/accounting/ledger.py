"""A budget, and everything that was released from it.

A ledger stays one account however it is passed on. In memory, copies, clones and pickles of it are
the ledger itself within its process, and threads share it; another process gets a read-only copy
that refuses every charge, so that every charge is recorded in one place. On disk, that place is a
file, and every process that has its path can charge it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakValueDictionary

from privatelr.arguments import suggests_arguments
from privatelr.errors import GuaranteeError, LedgerError, count_of, require_number
from privatelr.lazy_import import lazy_import
from privatelr.privacy.accounting import open_blocks
from privatelr.privacy.accounting import statement as statements
from privatelr.privacy.accounting.account import Account, Places
from privatelr.privacy.accounting.filters import named_rule
from privatelr.privacy.accounting.ledger_books import DiskBook, MemoryBook
from privatelr.privacy.accounting.ledger_entry import Entry
from privatelr.privacy.accounting.ledger_on_disk import LedgerOnDisk
from privatelr.privacy.accounting.statement import Statement, left
from privatelr.privacy.events import Event
from privatelr.privacy.guarantees import REPLACE_ONE, Guarantee, Neighbours, read_neighbours

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from privatelr import page_model
    from privatelr.privacy.accounting import ledger_file, ledger_page, ledger_plot
else:
    ledger_file = lazy_import("privatelr.privacy.accounting.ledger_file")
    ledger_page = lazy_import("privatelr.privacy.accounting.ledger_page")
    ledger_plot = lazy_import("privatelr.privacy.accounting.ledger_plot")
    page_model = lazy_import("privatelr.page_model")

_OPEN: WeakValueDictionary[tuple[str, str, str | None, str], Ledger] = WeakValueDictionary()
"""The ledgers of this process by name, address, allowance and note, so that a pickle or a path
finds its ledger again."""


@suggests_arguments
class Ledger(LedgerOnDisk):
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
    of the process. Nested blocks charge all their ledgers or none, so that an inner block can be
    an allowance within the outer budget. A charge is never taken back, not even if the release
    fails afterwards.

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
        if book.is_kept:
            _OPEN[self._identity] = self

    @classmethod
    def _of(cls, book: MemoryBook | DiskBook) -> Self:
        ledger = cls.__new__(cls)
        ledger._open(book)
        return ledger

    @classmethod
    def _at(cls, book: DiskBook) -> Self:
        """Return the ledger of a book that was opened, which may be open in this process already.

        An account is one object, so that two names of it in one call are charged once.
        """
        kept = _OPEN.get((book.key, book.store.address, book.allowance, book.note))
        return kept if type(kept) is cls else cls._of(book)

    @property
    def _key(self) -> str:
        """The name that no other ledger has."""
        return self._book.key

    @property
    def _address(self) -> tuple[str, str | None, str] | None:
        """How another process opens it; None for a ledger in memory."""
        book = self._book
        if isinstance(book, MemoryBook):
            return None
        return book.store.address, book.allowance, book.note

    @property
    def _identity(self) -> tuple[str, str, str | None, str]:
        return (self._key, *(self._address or ("", None, "")))

    @property
    def _statement(self) -> Statement:
        return self._book.statements()[-1]

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

    @property
    def epsilon(self) -> float:
        """The epsilon of the budget."""
        return self._statement.epsilon

    @property
    def delta(self) -> float:
        """The delta at which the budget is counted."""
        return self._statement.delta

    @property
    def neighbours(self) -> Neighbours:
        """The neighbours that every guarantee in it is about."""
        return self._statement.neighbours

    @property
    def person(self) -> str | None:
        """The column that tells the persons of all entries apart; None if no entry states it."""
        return self._statement.person

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All charges so far, in their order."""
        return self._statement.entries

    @property
    def account(self) -> str:
        """The rule by which it is counted, in words."""
        return statements.account(self._statement)

    @property
    def places(self) -> Places:
        """The ledger itself, for all rows."""
        return ((self, None),)

    @property
    def can_be_charged(self) -> bool:
        """Whether this process may charge it: in memory, the one that made it; on disk, all."""
        return self._book.is_kept

    def part(self, name: str) -> PartAccount:
        """Return an account for some of the rows; disjoint parts cost as much as the dearest one.

        The parts must be disjoint and fixed in advance by the public positions of the rows (such
        as the first 800), never by a value in them. If a value decided, replacing a record could
        change two parts, and their costs would add up; so a fit with ``subset=`` is refused here. A
        charge to the ledger itself is about all rows, and adds to every part. A ledger about
        persons has no parts.
        """
        return PartAccount(self, name)

    def spent(self, delta: float | None = None) -> float:
        """Return the epsilon of all charges at this delta, or at the delta of the budget.

        It is the smallest budget of a ledger with this account that covers them all, so it is
        valid also if results chose the prices.
        """
        return statements.spent(self._statement, self.delta if delta is None else _delta(delta))

    def left(self, delta: float = 0.0) -> float:
        """Return the largest epsilon of one more release from all rows, pure or with a delta."""
        return self._left(None, delta)

    def _left(self, part: str | None, delta: float) -> float:
        return min(left(one, part, _delta(delta)) for one in self._book.statements())

    def to_json(self) -> dict[str, Any]:
        """Return the budget and every entry as plain values."""
        return statements.to_json(self._statement)

    @classmethod
    def from_json(cls, value: Any) -> Ledger:
        """Resume a ledger from `to_json`, in a later session.

        This opens a new account with the old entries. Resuming a ledger that is still in use, or
        resuming it twice, spends its budget twice.
        """
        return cls._of(MemoryBook(statements.from_json(value), keeper=os.getpid()))

    def __enter__(self) -> Ledger:
        self._book.require_kept()
        open_blocks.enter(self)
        return self

    def __exit__(self, *_: object) -> None:
        open_blocks.leave(self)

    def __copy__(self) -> Ledger:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Ledger:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if address := self._address:
            return _reopen, (self._key, *address)
        return _unpickle, (self._key, self.to_json())

    def __repr__(self) -> str:
        where = f"{ledger_file.shown(self._address[0])}, " if self._address else ""
        budget = f"epsilon={self.epsilon!r}, delta={self.delta!r}"
        return f"<Ledger {where}{budget}, {count_of(len(self.entries), 'entry')}>"

    def page(self) -> list[page_model.Piece]:
        """Return its page in pieces, as `privatelr.page_model` writes them."""
        book = self._book
        if isinstance(book, MemoryBook):
            return ledger_page.page_in_memory(book.statement)
        return ledger_page.page(book.content(), book.allowance)

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
        return ledger_plot.plot_ledger(self._statement, ax)

    def show(self) -> None:
        """Print what is spent, by whom, and what is left."""
        coding = sys.stdout.encoding or "utf-8"  # in the C locale, others are escaped
        print(str(self).encode(coding, "backslashreplace").decode(coding))


@suggests_arguments
class PartAccount(Account):
    """The account of some of the rows; it can stand in the place of a ledger (`Ledger.part`)."""

    def __init__(self, ledger: Ledger, name: str) -> None:
        self._ledger, self._name = ledger, name

    @property
    def places(self) -> Places:
        """The ledger, with the name of this part."""
        return ((self._ledger, self._name),)

    def left(self, delta: float = 0.0) -> float:
        """Return the largest epsilon of one more release from this part, pure or with a delta."""
        return self._ledger._left(self._name, delta)

    def __copy__(self) -> PartAccount:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PartAccount:
        return self


def _delta(delta: float) -> float:
    takes = "a number from 0 to 1"
    return require_number(GuaranteeError, "delta", delta, takes, at_least=0, at_most=1)


def _unpickle(key: str, value: Any) -> Ledger:
    """Return the ledger itself if this process has it; otherwise a copy that refuses charges."""
    if kept := _OPEN.get((key, "", None, "")):
        return kept
    return Ledger._of(MemoryBook(statements.from_json(value), key))


def _reopen(key: str, address: str, allowance: str | None, note: str) -> Ledger:
    """Open the ledger of a pickle, in whatever process this is."""
    ledger = Ledger.open(address, allowance=allowance, note=note)
    if ledger._key != key:
        where = ledger_file.shown(address)
        raise LedgerError(f"ledger {where}: another ledger has taken its place.")
    return ledger
