"""Locks of threads, of files and of the precision of balls; none outlives its process."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from privatelr.lazy_import import lazy_import

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import flint as flint  # others import it from here
else:
    flint = lazy_import("flint")

FIRST_PRECISION = 128
"""Bits to begin with; where they leave something in doubt, they are doubled."""


class ForkSafeLock:
    """A re-entrant lock that is new in a forked child.

    A thread of the parent may hold a lock when the child is forked, and that thread is not
    there in the child to give it back.
    """

    def __init__(self) -> None:
        self._renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.RLock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock within the block."""
        with self._lock:  # the one of now, also at the end
            yield


_FLINT = ForkSafeLock()


@contextmanager
def working_precision(bits: int) -> Iterator[None]:
    """Compute with balls of this many bits, and leave the precision as it was.

    python-flint keeps its precision in one global place, so the lock is held meanwhile.
    """
    with _FLINT.held(), flint.ctx.workprec(bits):
        yield


def has_file_locks() -> bool:
    """Whether this system has locks on files that end with their process."""
    return fcntl is not None


def lock_file(descriptor: int, *, wait: bool) -> None:
    """Lock an open file.

    Raises
    ------
    BlockingIOError
        If another process holds it, and this one does not wait.
    OSError
        If the file system has no locks.
    """
    fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def still_has_name(descriptor: int, path: Path) -> bool:
    """Whether an open file can be found under its name: it may be removed before it is locked."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
