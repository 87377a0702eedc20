"""A budget, and everything that was released from it.

A ledger stays one account however it is passed on. Within the process copies, clones and pickles
of it are the ledger itself, and threads share it. Another process gets a read-only copy that
refuses every charge, so that every charge is recorded in one place.
"""

from __future__ import annotations

import os
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

from privatelr import page_model
from privatelr.arguments import suggests_arguments
from privatelr.errors import GuaranteeError, require_number
from privatelr.locks import ForkSafeLock
from privatelr.privacy.accounting import statement as statements
from privatelr.privacy.accounting.agreement import require_agreement
from privatelr.privacy.accounting.composition_bounds import Entry, priced
from privatelr.privacy.accounting.filters import named_rule
from privatelr.privacy.accounting.statement import Statement, charged, left
from privatelr.privacy.events import Event
from privatelr.privacy.guarantees import REPLACE_ONE, Guarantee, Neighbours, read_neighbours

_LOCK = ForkSafeLock()
"""One lock for all ledgers: a charge to several of them is all or nothing, without deadlock."""
Places = tuple[tuple["Ledger", "str | None"], ...]
_OPEN: WeakValueDictionary[str, Ledger] = WeakValueDictionary()
"""The ledgers of this process by their keys, so that a pickle finds its ledger again."""
_ACTIVE: list[Ledger] = []
"""The ledgers whose blocks are open, the innermost last."""
_MARK = "PRIVATELR_LEDGER"
"""Environment variable by which a process that is started inside a block learns who opened it."""
_ELSEWHERE = (
    "ledger: it is kept in another process, and this one can only read it; charge it there "
    "(threads share it), or resume it with Ledger.from_json(ledger.to_json()) once that process "
    "is gone."
)


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

        Returns
        -------
        Entry
            The entry of the first ledger.

        Raises
        ------
        GuaranteeError
            If the release would overdraw the budget, has no guarantee, has events that do not
            account for it or is about other neighbours, or if this process does not keep the
            ledger. Nothing is recorded then.

        Notes
        -----
        It charges no other account. A fit with ``ledger=`` also charges the ledgers of open blocks.
        """
        entry = Entry(label, priced(guarantee), tuple(events), None, times)
        require_agreement(entry.guarantee, entry.events)
        places = [(ledger, replace(entry, part=part)) for ledger, part in self.places]
        for ledger, _ in places:
            _require_kept(ledger)
        with _LOCK.held():  # only here is a ledger read and then written
            after = [(ledger, charged(ledger._statement, one)) for ledger, one in places]
            for ledger, statement in after:
                ledger._statement = statement
        return places[0][1]


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
        for fits without ``person=``, or by zeros, as for `PrivateFTRL`, or all of one person's.
    account : {"renyi", "sum"}, optional
        The rule by which a budget with a delta is counted. ``"renyi"`` counts the Renyi
        divergence of one order, or sums if they are less and their deltas add up to at most a
        tenth of delta. ``"sum"`` adds up epsilons and deltas. By default the first charge decides
        once and for all: it takes ``"renyi"`` unless it fits by sums only, as does a release that
        takes the whole budget. (The least of several accounts is not valid if results chose
        prices.) A budget without a delta is counted by sums.

    Raises
    ------
    GuaranteeError
        One sentence about an invalid budget, invalid neighbours or an invalid account.

    Notes
    -----
    As a context (``with Ledger(1.0):``) it is charged by every fitting function, in every thread
    of the process. Nested blocks charge all their ledgers or none, so that an inner block can be
    an allowance within the outer budget. A charge is never taken back, not even if the release
    fails afterwards.

    **Privacy.** *Covered*: all recorded releases together, by the budget. Each release, and its
    price, may be chosen by the results of earlier ones. *Neighbours*: one record, the same in all
    releases, is replaced by another record or by zeros, as `neighbours` says; or all records of
    one person, the same in all releases, are. *Assumed public*: the budget, the account, labels
    and parts. *Not covered*: releases that the ledger is not told of, guarantees and events that
    are not true, and persons whose records are told apart by one column here and by another there.
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
        self._open(replace(budget, rule=named_rule(account, budget.epsilon, budget.delta)))

    def _open(self, statement: Statement) -> None:
        self._statement = statement
        self._key = uuid.uuid4().hex
        self._keeper: int | None = os.getpid()
        _OPEN[self._key] = self

    @classmethod
    def _of(cls, statement: Statement) -> Ledger:
        ledger = cls.__new__(cls)
        ledger._open(statement)
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
        return cls._of(statements.planned(prices, delta, read_neighbours(neighbours)))

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
        """Whether this process keeps the ledger; other processes have a read-only copy."""
        return self._keeper == os.getpid()

    def part(self, name: str) -> PartAccount:
        """Return an account for some of the rows; disjoint parts cost as much as the dearest one.

        The parts must be disjoint and fixed in advance by the public positions of the rows (such
        as the first 800), never by a value in them. If a value decided, replacing a record could
        change two parts, and their costs would add up. A charge to the ledger itself is about all
        rows, and adds to every part. A ledger about persons has no parts.
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
        return left(self._statement, None, _delta(delta))

    def to_json(self) -> dict[str, Any]:
        """Return the budget and every entry as plain values."""
        return statements.to_json(self._statement)

    @classmethod
    def from_json(cls, value: Any) -> Ledger:
        """Resume a ledger from `to_json`, in a later session.

        This opens a new account with the old entries. Resuming a ledger that is still in use, or
        resuming it twice, spends its budget twice.
        """
        return cls._of(statements.from_json(value))

    def __enter__(self) -> Ledger:
        _require_kept(self)
        with _LOCK.held():
            _ACTIVE.append(self)
            os.environ.setdefault(_MARK, str(os.getpid()))  # a mark from a parent process stays
        return self

    def __exit__(self, *_: object) -> None:
        with _LOCK.held():
            del _ACTIVE[-1 - _ACTIVE[::-1].index(self)]  # the innermost of its blocks
            if not _ACTIVE and os.environ.get(_MARK) == str(os.getpid()):
                del os.environ[_MARK]

    def __copy__(self) -> Ledger:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Ledger:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self._key, self.to_json())

    def __repr__(self) -> str:
        budget = f"epsilon={self.epsilon!r}, delta={self.delta!r}"
        return f"<Ledger {budget}, {len(self.entries)} entries>"

    def __str__(self) -> str:
        return page_model.as_text(statements.page(self._statement))

    def _repr_html_(self) -> str:
        return page_model.as_html(statements.page(self._statement))


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
        return left(self._ledger._statement, self._name, _delta(delta))


class _OpenBlocks(Account):
    """The account that a caller named, together with the ledgers of open blocks.

    Without places it stands for a block of the process that started this one, and refuses charges.
    """

    def __init__(self, *places: tuple[Ledger, str | None]) -> None:
        self._places = places

    @property
    def places(self) -> Places:
        if not self._places:
            raise GuaranteeError(_ELSEWHERE)
        return self._places


def active_ledger() -> Account | None:
    """Return what a fitting function charges without a ledger; None outside of every block.

    It charges all ledgers whose blocks are open in this process, whichever thread opened them. In
    a process that was started inside a block it refuses. (A pool of workers that was started
    before the block cannot know of it; give these ``ledger=``, which refuses.)
    """
    return account_with(None)


def account_with(ledger: Account | None) -> Account | None:
    """Return what a fitting function charges: the account that it is given, and every open block.

    A ledger with an open block is charged once. If the given account is a part of that ledger, the
    charge is for this part alone.
    """
    if os.environ.get(_MARK) not in (None, str(os.getpid())):
        # another process started this one inside a block, whose ledger cannot be charged here
        return _OpenBlocks()
    places = {} if ledger is None else dict(ledger.places)
    for active in _ACTIVE:
        places.setdefault(active, None)
    if ledger is not None and len(places) == len(ledger.places):
        return ledger
    if len(places) > 1:
        return _OpenBlocks(*places.items())
    return next(iter(places), None)


def _require_kept(ledger: Ledger) -> None:
    # checked before the lock, which another thread may have held when this process was forked
    if not ledger.can_be_charged:
        raise GuaranteeError(_ELSEWHERE)


def _delta(delta: float) -> float:
    takes = "a number from 0 to 1"
    return require_number(GuaranteeError, "delta", delta, takes, at_least=0, at_most=1)


def _unpickle(key: str, value: Any) -> Ledger:
    """Return the ledger itself if this process has it; otherwise a copy that refuses charges."""
    if kept := _OPEN.get(key):
        return kept
    page = Ledger.from_json(value)
    del _OPEN[page._key]
    page._key, page._keeper = key, None
    return page
