"""Locks on threads and on the precision of ball arithmetic; all end with the process."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from privatelr.lazy_import import lazy_import

if TYPE_CHECKING:
    from collections.abc import Iterator

    import flint as flint  # others import it from here
else:
    flint = lazy_import("flint")

FIRST_PRECISION = 128
"""Bits of precision to begin with; they are doubled as long as a result is in doubt."""


class ForkSafeLock:
    """A re-entrant lock that is new in a forked child.

    A thread of the parent may hold the lock when the child is forked. That thread does not exist
    in the child, so it could never release the lock there.

    Attributes
    ----------
    lock : RLock
        A block holds the one that it began with: ``with LOCK.lock:``.
    """

    def __init__(self) -> None:
        self._renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self.lock = threading.RLock()


_FLINT = ForkSafeLock()


@contextmanager
def working_precision(bits: int) -> Iterator[None]:
    """Compute with balls of this many bits within the block, then restore the precision.

    The precision of python-flint is global, so the lock is held meanwhile.
    """
    with _FLINT.lock, flint.ctx.workprec(bits):
        yield
