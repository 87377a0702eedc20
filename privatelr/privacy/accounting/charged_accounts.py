"""Which ledgers a release is charged to: its own, those of open blocks, and a named one.

``PRIVATELR_LEDGER`` names a ledger on disk for a whole notebook, shell or computer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from privatelr.errors import GuaranteeError, LedgerError, ReaderError
from privatelr.privacy.accounting.account import ACTIVE, ELSEWHERE, Account, Places, blocks_above
from privatelr.privacy.accounting.ledger import Ledger
from privatelr.privacy.accounting.ledger_entry import Entry
from privatelr.privacy.events import Event
from privatelr.privacy.guarantees import Guarantee

NAMED = "PRIVATELR_LEDGER"
"""The environment variable that names a ledger for every release of a process."""
AnyLedger = Account | str | os.PathLike[str]
"""What users hand over: a ledger, a part of one, or the path of one."""


class _SeveralLedgers(Account):
    """The account that a caller named, together with the ledgers of open blocks.

    Without places it stands for a block of the process that started this one, and refuses charges.
    """

    def __init__(self, *places: tuple[Ledger, str | None]) -> None:
        self._places = places

    @property
    def places(self) -> Places:
        if not self._places:
            raise GuaranteeError(ELSEWHERE)
        return self._places


def active_ledger() -> Account | None:
    """Return what a fitting function charges without a ledger; None if there is none to charge.

    It charges all ledgers whose blocks are open in this process, whichever thread opened them, and
    the one of PRIVATELR_LEDGER. A process that was started inside a block charges the ledger of the
    block if that is on disk, and refuses otherwise. A process that was started before the block
    cannot know of it. Give it ``ledger=``, or set PRIVATELR_LEDGER before it is started.
    """
    return account_with(None)


def account_with(ledger: AnyLedger | None) -> Account | None:
    """Return what a fitting function charges: the account that it is given, and every other one.

    A ledger is charged once. If the given account is a part of a ledger with an open block, the
    charge is for this part alone.

    Raises
    ------
    LedgerError
        If a ledger that is named, here or in the environment, cannot be opened.
    """
    if isinstance(ledger, str | os.PathLike):
        ledger = Ledger.open(ledger)
    if None in (above := blocks_above()):  # the ledger of a block cannot be charged here
        return _SeveralLedgers()
    others = [*map(Ledger.open, filter(None, above)), *ACTIVE]
    if named := os.environ.get(NAMED):
        others.append(_opened(named))
    given = {} if ledger is None else {place[0]._key: place for place in ledger.places}
    places = dict(given)
    for other in others:
        places.setdefault(other._key, (other, None))
    if ledger is not None and places == given:
        return ledger
    match [*places.values()]:
        case []:
            return None
        case [(one, None)]:
            return one
        case several:
            return _SeveralLedgers(*several)


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


def _opened(named: str) -> Ledger:
    try:
        return Ledger.open(named)
    except LedgerError as error:
        raise type(error)(f"{NAMED}: {error}") from None
