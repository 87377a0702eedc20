"""A budget, and everything that was released from it.

A ledger stays one account however it is passed on: copies, clones and pickles of it within the
process are the ledger itself, and threads share it. Another process gets a read-only copy that
refuses every charge, so that nothing is spent unseen.
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
"""The one lock of all ledgers: a charge to several is all or nothing, and cannot deadlock."""
Places = tuple[tuple["Ledger", "str | None"], ...]
_OPEN: WeakValueDictionary[str, Ledger] = WeakValueDictionary()
_ACTIVE: list[Ledger] = []
_MARK = "PRIVATELR_LEDGER"
"""Environment variable that tells a process started inside a block which process has the ledger."""
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
        Where a charge is recorded, in all of these or in none: the ledgers, each with the part
        of the rows that it is about; None for all of them.
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
            What the release promises.
        events
            The same release in more detail, which may compose to less. Together they must imply
            the guarantee, and may not imply half of it: what is said to cost little is not
            believed beside a price that is high.
        label
            What is released, for the page; it may not depend on private values.
        times
            How many such releases are made of the same records: all draws of a bootstrap,
            say. If a record can stand several times in what one release is made from, charge
            `privatelr.privacy.events.grouped` of its guarantee. Only what is resampled from
            releases, not from records, costs nothing.

        Returns
        -------
        Entry
            As it stands in the first ledger.

        Raises
        ------
        GuaranteeError
            If it would overdraw the budget, has no guarantee, has events that do not account for
            it or is about other neighbours, or if this process does not keep the ledger. Nothing
            is recorded then.

        Notes
        -----
        Charges no other account; a fit with ``ledger=`` also charges those of open blocks.
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
        The delta at which it is counted; with 0, only pure releases fit.
    neighbours : {"replace", "zero-out"} or Neighbours
        What every guarantee in it is about: one record replaced by another, as for every fit; or
        by one of zeros, as a `PrivateFTRL` may be.
    account : {"renyi", "sum"}, optional
        How a budget with a delta is counted. ``"renyi"``: by the Renyi divergence of one order,
        or by sums if they are less and their deltas make a tenth of delta at most. ``"sum"``:
        epsilons add up, and deltas. By default the first charge decides, for good: ``"renyi"``
        unless it fits only into sums, as a release does that takes all. (The least of several
        accounts, after prices that results chose, is not private.) Without a delta, by sums.

    Raises
    ------
    GuaranteeError
        One sentence about an invalid budget, invalid neighbours or an invalid account.

    Notes
    -----
    As a context (``with Ledger(1.0):``) it is charged by every fitting function that is given
    no other ledger, in every thread of the process. Of nested blocks all ledgers are charged
    or none, so that an inner block can be an allowance within the outer budget. A charge is
    never taken back, not even if the release fails afterwards.

    **Privacy.** *Covered*: all recorded releases together, by the budget. Each of them, and its
    price, may be chosen by the results of the ones before. *Neighbours*: one record replaced, the
    same in all of them, by another record or by zeros as `neighbours` says. *Assumed
    public*: the budget, the account, labels and parts. *Not covered*: releases that the ledger is
    not told of, and guarantees and events that are not true.
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
        """A ledger for releases whose prices are declared before the first of them.

        The prices are composed once, as well as can be (with the extra `accounting` by the
        distribution of the losses), and epsilon is what they make. A charge takes the cheapest
        of them that covers it. Which are used, and in which order, may depend on results. The
        plan is spent as a whole, and parts of the rows are charged as all of them.

        Parameters
        ----------
        prices
            For each release its guarantee, or the guarantee and the events that it will be
            charged with.
        delta
            The delta at which they are composed.
        neighbours
            As for a ledger.

        Raises
        ------
        GuaranteeError
            If a price is invalid, or if together they have no epsilon at this delta.
        """
        return cls._of(statements.planned(prices, delta, read_neighbours(neighbours)))

    @property
    def epsilon(self) -> float:
        """The budget."""
        return self._statement.epsilon

    @property
    def delta(self) -> float:
        """The delta at which the budget is counted."""
        return self._statement.delta

    @property
    def neighbours(self) -> Neighbours:
        """What every guarantee in it is about."""
        return self._statement.neighbours

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every charge so far."""
        return self._statement.entries

    @property
    def account(self) -> str:
        """How it is counted, in words."""
        return statements.account(self._statement)

    @property
    def places(self) -> Places:
        return ((self, None),)

    @property
    def can_be_charged(self) -> bool:
        """Whether this process has the ledger; in other processes it is a read-only copy."""
        return self._keeper == os.getpid()

    def part(self, name: str) -> PartAccount:
        """An account for some of the rows; disjoint parts cost what the worst of them does.

        The parts must be disjoint and fixed in advance by the public positions of the rows
        (the first 800, say), never by a value in them: when one record replaces another, a
        value may carry it from one part into the next, and both would pay. What is charged to
        the ledger itself is about all rows, and adds to every part.
        """
        return PartAccount(self, name)

    def spent(self, delta: float | None = None) -> float:
        """Epsilon of everything so far at this delta, or at the delta of the budget.

        The smallest budget of a ledger with this account that holds it all, so that it is true
        of prices that were chosen by results.
        """
        return statements.spent(self._statement, self.delta if delta is None else _delta(delta))

    def left(self, delta: float = 0.0) -> float:
        """Largest epsilon of one more release from all rows, pure or with its own delta."""
        return left(self._statement, None, _delta(delta))

    def to_json(self) -> dict[str, Any]:
        """The budget and every entry as plain values."""
        return statements.to_json(self._statement)

    @classmethod
    def from_json(cls, value: Any) -> Ledger:
        """Resume a ledger from `to_json`, in a later session.

        This opens a new account with the old entries. Resuming one that is still in use, or
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
    """The account of some of the rows, accepted wherever a ledger is; see `Ledger.part`."""

    def __init__(self, ledger: Ledger, name: str) -> None:
        self._ledger, self._name = ledger, name

    @property
    def places(self) -> Places:
        return ((self._ledger, self._name),)

    def left(self, delta: float = 0.0) -> float:
        """Largest epsilon of one more release from this part, pure or with its own delta."""
        return left(self._ledger._statement, self._name, _delta(delta))


class _OpenBlocks(Account):
    """An account that is named, and the ledgers of open blocks.

    Without any places it stands for a block of the process that started this one, and refuses.
    """

    def __init__(self, *places: tuple[Ledger, str | None]) -> None:
        self._places = places

    @property
    def places(self) -> Places:
        if not self._places:
            raise GuaranteeError(_ELSEWHERE)
        return self._places


def active_ledger() -> Account | None:
    """What a fitting function charges if it is given no ledger; None outside of every block.

    All ledgers whose blocks are open in this process, whichever thread opened them. In a
    process that was started inside a block, an account that refuses. (A pool of workers that
    was started before the block cannot know of it: give those ``ledger=``, which refuses.)
    """
    return account_with(None)


def account_with(ledger: Account | None) -> Account | None:
    """What a fitting function charges: the account that it is given, and every open block.

    A ledger whose block is open is charged once, and only for the part that is given, if one is.
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
    # before the lock: a forked process may have copied it while another thread held it
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
