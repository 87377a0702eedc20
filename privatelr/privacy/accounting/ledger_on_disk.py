"""What a ledger can do on disk, beside what every ledger does."""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from privatelr.arguments import suggests_arguments
from privatelr.errors import ArgumentError, GuaranteeError, LedgerError, PrivacyWarning, show
from privatelr.lazy_import import lazy_import
from privatelr.privacy.accounting import ledger_books
from privatelr.privacy.accounting import statement as statements
from privatelr.privacy.accounting.account import Account
from privatelr.privacy.accounting.filters import named_rule
from privatelr.privacy.accounting.ledger_books import DiskBook, MemoryBook
from privatelr.privacy.accounting.ledger_entry import Entry
from privatelr.privacy.accounting.statement import Statement
from privatelr.privacy.events import Event
from privatelr.privacy.guarantees import REPLACE_ONE, Guarantee, Neighbours, read_neighbours

if TYPE_CHECKING:
    from privatelr.privacy.accounting import ledger_checks, ledger_file, ledger_rows
    from privatelr.privacy.accounting.ledger_rows import Charge
else:
    ledger_checks = lazy_import("privatelr.privacy.accounting.ledger_checks")
    ledger_file = lazy_import("privatelr.privacy.accounting.ledger_file")
    ledger_rows = lazy_import("privatelr.privacy.accounting.ledger_rows")


@suggests_arguments
class LedgerOnDisk(Account):
    """The part of `Ledger` that is about ledgers on disk."""

    _book: MemoryBook | DiskBook

    @classmethod
    @abstractmethod
    def _at(cls, book: DiskBook) -> Self: ...

    @property
    @abstractmethod
    def _key(self) -> str: ...

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

        A charge is on the disk before the data are read. The file is an SQLite database, complete
        as soon as it has its name, and it takes no other file's place.

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

        Warns
        -----
        PrivacyWarning
            If the file is on a network file system, whose locks are not to be trusted.
        """
        relation, noted = read_neighbours(neighbours), ledger_books.note_of(note)
        if (prices is None) == (epsilon is None):
            raise GuaranteeError("create: takes either epsilon or prices.")
        if prices is not None:
            budget = statements.planned(prices, delta, relation)
        else:
            budget = Statement(epsilon or 0.0, delta, relation)
            named_rule(account, budget.epsilon, budget.delta)  # refuses other names
            rule = ledger_rows.fixed_rule(budget.epsilon, budget.delta, account)
            budget = replace(budget, rule=rule)
        address = ledger_books.create(
            _address(path), ledger_rows.opening(budget, _text("dataset", dataset))
        )
        if not ledger_file.is_address(address) and (kind := ledger_file.network_of(address)):
            warnings.warn(
                f"ledger: the file is on a file system of the kind {kind}, whose locks may let two "
                "processes charge it at once; keep it on a disk of one machine, or on a server.",
                PrivacyWarning,
                stacklevel=3,
            )
        return cls.open(address, note=noted)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        allowance: str | None = None,
        note: str | bool | None = None,
    ) -> Self:
        """Open a ledger on disk.

        Parameters
        ----------
        path
            Name of the file, or URL of the database.
        allowance
            Charge this allowance, too; see `allow`.
        note
            A text that is kept with every charge that is made by the returned ledger. True stands
            for the names of the user and of the host; by default no name is kept.

        Raises
        ------
        LedgerError
            If there is no such ledger, if it cannot be read, if a row of it was changed, or if it
            has no such allowance.
        """
        store = ledger_books.store_at(_address(path))
        return cls._at(DiskBook(store, allowance, ledger_books.note_of(note)))

    @staticmethod
    def check(path: str | os.PathLike[str], *, head: str | None = None) -> tuple[str, ...]:
        """Return a sentence for everything that is wrong with a ledger on disk; empty if sound.

        The chain of hashes is computed again, and so is what all charges compose to. Every event is
        compared with the guarantee it stands for, every row with its number, the last row with
        what the ledger holds as its head, and the triggers that keep rows with those of a ledger.

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
        if head is not None:
            ledger_rows.require_sha256(head, "head")
        rows, faults = ledger_books.store_at(_address(path)).inspect()
        noted = ledger_checks.unknown_head(rows, head)
        return (*faults, *ledger_checks.findings(rows), *noted)

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
    def rows(self) -> Sequence[ledger_rows.LedgerRow]:
        """All rows of a ledger on disk, as they are written, with their hashes."""
        self._disk.content()  # refuses what is not sound
        return self._disk.store.rows()

    def knows(self, entry: Entry) -> bool:
        """Whether a charge that has a receipt of this ledger is in it, after the same rows.

        If not, rows are missing or were changed after the charge, as in a restored backup.
        """
        hashes = [row.hash for row in self._disk.store.rows()]
        own = [one for one in entry.receipts if one.ledger == self._key]
        return bool(own) and all(hashes[one.row - 1 : one.row] == [one.head] for one in own)

    def saved_as(self, entry: Entry) -> str | None:
        """Return the SHA-256 of the saved release of a charge; None if none is noted."""
        rows = {one.row for one in entry.receipts if one.ledger == self._key}
        found = (one.release for one in self.charges if one.number in rows)
        return next(found, None)

    def change_budget(self, epsilon: float, delta: float | None = None, *, reason: str) -> None:
        """Change the budget of a ledger on disk from here on; the reason is kept.

        Charges stay, and so does the rule by which they are counted. What was promised before can
        only be kept if the budget does not grow; afterwards the larger budget is the promise.

        Raises
        ------
        GuaranteeError
            If there is no reason, or the charges do not fit into the new budget.
        """
        if not _text("reason", reason).strip():
            raise GuaranteeError("reason: takes a sentence; it stays in the ledger.")
        self._disk.change(epsilon, delta, reason)

    def allow(self, name: str, epsilon: float, delta: float = 0.0) -> Self:
        """Give an allowance, or change it: a limit of its own within a ledger on disk.

        Returns
        -------
        Ledger
            Its charges count in the whole ledger, and have to fit into the allowance as well.

        Raises
        ------
        GuaranteeError
            If the name is no name, the limit is above the budget, or less than was charged to it.
        """
        if not (_text("name", name).isprintable() and name and name == name.strip()):
            raise GuaranteeError(
                f"name={show(name)}: it takes a name without line breaks or outer spaces."
            )
        self._disk.allow(name, epsilon, delta)
        return self.allowance(name)

    def allowance(self, name: str) -> Self:
        """Return the ledger as the one who has this allowance charges it."""
        return self._at(DiskBook(self._disk.store, name, self._disk.note))

    def complete(self, entry: Entry, sha256: str) -> None:
        """Note the SHA-256 of a release by its charge, as saving a fit does.

        Raises
        ------
        LedgerError
            If it has no such charge, or if another hash was noted before, which it keeps.
        """
        ledger_rows.require_sha256(sha256)
        receipts = [one for one in entry.receipts if one.ledger == self._key]
        if not receipts or not self.knows(entry):
            raise LedgerError("ledger: it has no such charge.")
        for receipt in receipts:
            self._disk.release(receipt.row, sha256)

    @property
    def _disk(self) -> DiskBook:
        if isinstance(self._book, DiskBook):
            return self._book
        raise LedgerError("ledger: it is in memory; Ledger.create makes one on disk.")


def _address(path: Any) -> str:
    if (
        not isinstance(path, str | os.PathLike)
        or not os.fsdecode(path)
        or "\0" in os.fsdecode(path)
    ):
        raise ArgumentError(f"path={show(path)}: path takes the name of a file.")
    return os.fsdecode(path)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ArgumentError(f"{name}={show(value)}: {name} takes text.")
    return value
