"""Ball arithmetic at a chosen precision, safe under threads.

python-flint keeps its precision in one global place, so whoever computes with balls holds the
lock while the precision is theirs.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flint import ctx

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCK = threading.RLock()


def _renew_lock() -> None:
    global _LOCK
    _LOCK = threading.RLock()


if hasattr(os, "register_at_fork"):
    # a thread of the parent may have held the lock when the child was forked
    os.register_at_fork(after_in_child=_renew_lock)


@contextmanager
def working_precision(bits: int) -> Iterator[None]:
    """Compute with balls of this many bits, and leave the precision as it was."""
    with _LOCK, ctx.workprec(bits):
        yield
