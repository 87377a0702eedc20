"""Blocks of ``with ledger:`` that are open, here and in the processes that started this one.

A process that is started inside a block has it in its environment. One that was started before, as
a worker of a pool, looks at what its parent has listed since, in a folder that only this user may
read. That takes Linux, which tells when a process started: no list is taken for that of another
process with the same number.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import tempfile
from contextlib import suppress
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
        _tell()


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
        _tell()


def inherited() -> list[tuple[str, str | None, str]] | None:
    """Return how to open the ledgers of blocks that are open in processes that started this one.

    Returns
    -------
    list of (address, allowance, note), or None
        None if one of them is kept in the memory of another process.
    """
    found: dict[tuple[str, str | None, str], None] = {}
    for mark in [*_marks(), *_marks_of_parents()]:
        match mark:
            case [int(process), *_] if process == os.getpid():
                continue
            case [_, str(address), str() | None as allowance, str(note)]:
                found[address, allowance, note] = None
            case _:
                return None
    return [*found]


def _mark_of(ledger: Ledger) -> list[Any]:
    return [os.getpid(), *(ledger._address or (None,))]


def _marks() -> list[Any]:
    """Return the marks of all open blocks; what cannot be read stands for a ledger elsewhere."""
    return _read(os.environ.get(MARK) or "[]")


def _read(text: str) -> list[Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return [None]
    return found if isinstance(found, list) else [None]


# -- for processes that were started before -----------------------------------------------------


def _list_of(process: int) -> str | None:
    """Return the file in which a process lists its open blocks; None where none can be."""
    with suppress(OSError, IndexError):
        with open(f"/proc/{process}/stat", "rb") as file:
            started = int(file.read().rpartition(b")")[2].split()[19])
        folder = os.path.join(tempfile.gettempdir(), f"privatelr-{os.getuid()}")
        return os.path.join(folder, f"{process}-{started}")
    return None


def _is_own(folder: str) -> bool:
    """Whether nobody else can write to a folder, or put another one in its place."""
    found = os.lstat(folder)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def _tell() -> None:
    """List the open blocks of this process, and remove the lists of processes that are gone."""
    if (path := _list_of(os.getpid())) is None:
        return
    folder, name = os.path.split(path)
    own = [mark for mark in _marks() if isinstance(mark, list) and mark[:1] == [os.getpid()]]
    with suppress(OSError):
        if own:
            with suppress(FileExistsError):
                os.mkdir(folder, 0o700)
        if not _is_own(folder):
            return
        for other in os.listdir(folder):
            process, _, _ = other.partition("-")
            there = os.path.join(folder, other)
            if process.isdigit() and (
                not own if there == path else there != _list_of(int(process))
            ):
                os.unlink(there)
        if own:
            fresh = os.path.join(folder, f".{name}")
            with open(fresh, "w", encoding="ascii") as file:
                json.dump(own, file)
            os.replace(fresh, path)


def _marks_of_parents() -> list[Any]:
    """Return the marks of blocks that are open in the processes that started this one."""
    parents = {os.getppid()} - {os.getpid()}
    if (workers := sys.modules.get("multiprocessing.process")) and workers.parent_process():
        parents.add(workers.parent_process().pid)  # a server of forks may stand between
    found = []
    for path in filter(None, map(_list_of, parents)):
        with suppress(OSError):
            if _is_own(os.path.dirname(path)):
                with open(path, encoding="ascii") as file:
                    found += _read(file.read())
    return found
