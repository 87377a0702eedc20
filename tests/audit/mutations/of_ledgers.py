"""Planted bugs in ledgers on disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from privatelr.privacy.accounting import ledger_store
from privatelr.privacy.accounting.ledger_store import DiskBook, DiskPage, LedgerRow
from tests.audit.mutations.planted import LEDGER, Mutation, list_bug

OF_LEDGERS: list[Mutation] = []
bug = partial(list_bug, OF_LEDGERS)


@bug("the data are read before their charge is on the disk", (DiskPage, "commit"), LEDGER)
def _(honest: Any, page: DiskPage) -> None:
    return None


@bug("a ledger on disk is charged without a lock", (DiskBook, "exclusively"), LEDGER)
@contextmanager
def _unlocked(honest: Any, book: DiskBook) -> Iterator[DiskPage]:
    """Others may write between the look at what is there and the new row."""
    with ledger_store._connected(book.address) as connection:
        connection.exec_driver_sql("BEGIN")
        yield DiskPage(book, connection, book._read(ledger_store._read_table(connection)))


@bug("a hash does not depend on the row before", ledger_store.chained, LEDGER)
def _(honest: Any, body: str, head: str) -> LedgerRow:
    return honest(body, "")


@bug("a check of a ledger looks at hashes alone", ledger_store.findings, LEDGER)
def _hashes_alone(honest: Any, table: Any) -> list[str]:
    return [*ledger_store.faults_of(table)]


@bug("the last rows of a ledger are taken away unseen", ledger_store.faults_of, LEDGER)
def _headless(honest: Any, table: Any) -> list[str]:
    return [told for told in honest(table) if not told.startswith("the head")]
