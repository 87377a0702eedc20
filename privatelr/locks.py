"""A lock that does not outlive the process which took it."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


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
