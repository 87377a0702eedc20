"""Planted bugs in ledgers on disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from privatelr.privacy.accounting import ledger_checks, ledger_rows
from privatelr.privacy.accounting.ledger_books import DiskPage
from privatelr.privacy.accounting.ledger_file import LedgerFile, _FileTransaction
from tests.audit.mutations.planted import LEDGER, Mutation, list_bug, nothing

OF_LEDGERS: list[Mutation] = []
bug = partial(list_bug, OF_LEDGERS)

bug("the data are read before their charge is on the disk", (DiskPage, "_commit"), LEDGER)(nothing)


@bug("a ledger on disk is charged without a lock", (LedgerFile, "exclusively"), LEDGER)
@contextmanager
def _unlocked(honest: Any, store: LedgerFile) -> Iterator[_FileTransaction]:
    """Others may write between the look at what is there and the new row."""
    with store._open() as connection:
        connection.execute("BEGIN")
        yield _FileTransaction(store.address, connection)


@bug("a hash does not depend on the row before", ledger_rows.chained, LEDGER)
def _(honest: Any, body: str, head: str) -> Any:
    return honest(body, "")


@bug("a check of a ledger looks at hashes alone", ledger_checks.findings, LEDGER)
def _hashes_alone(honest: Any, rows: Any) -> list[str]:
    found, head = [], ""
    for row in rows:
        if ledger_rows.chained(row.body, head) != row:
            found.append("changed")
        head = row.hash
    return found


@bug("the last rows of a ledger are taken away unseen", ledger_checks.in_place, LEDGER)
def _headless(honest: Any, table: Any) -> Any:
    return honest(table)[0], []
