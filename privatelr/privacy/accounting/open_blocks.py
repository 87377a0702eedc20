"""Blocks of ``with ledger:`` that are open, here and in the processes that started this one."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from privatelr.privacy.accounting.account import LOCK

if TYPE_CHECKING:
    from privatelr.privacy.accounting.ledger import Ledger

ACTIVE: list[Ledger] = []
"""The ledgers whose blocks are open in this process, the innermost last."""
MARK = "PRIVATELR_OPEN_BLOCKS"
"""By this environment variable a process that is started inside a block learns of its ledger."""


def enter(ledger: Ledger) -> None:
    """Open a block, and leave word for processes that are started inside it."""
    with LOCK.held():
        ACTIVE.append(ledger)
        os.environ[MARK] = json.dumps([*_marks(), _mark_of(ledger)])


def leave(ledger: Ledger) -> None:
    """Close the innermost block of a ledger."""
    with LOCK.held():
        del ACTIVE[-1 - ACTIVE[::-1].index(ledger)]
        marks, own = _marks(), _mark_of(ledger)
        if own in marks:  # a user may have changed the environment
            del marks[-1 - marks[::-1].index(own)]
        if marks:
            os.environ[MARK] = json.dumps(marks)
        else:
            os.environ.pop(MARK, None)


def inherited() -> list[tuple[str, str | None, str]] | None:
    """Return how to open the ledgers of blocks in which this process was started.

    Returns
    -------
    list of (address, allowance, note), or None
        None if one of them is kept in the memory of another process.
    """
    found = []
    for mark in _marks():
        match mark:
            case [int(process), *_] if process == os.getpid():
                continue
            case [_, str(address), str() | None as allowance, str(note)]:
                found.append((address, allowance, note))
            case _:
                return None
    return found


def _mark_of(ledger: Ledger) -> list[Any]:
    return [os.getpid(), *(ledger._address or (None,))]


def _marks() -> list[Any]:
    """Return the marks of all open blocks; what cannot be read stands for a ledger elsewhere."""
    try:
        found = json.loads(os.environ.get(MARK) or "[]")
    except ValueError:
        return [None]
    return found if isinstance(found, list) else [None]
