"""Ball arithmetic at a chosen precision, safe under threads.

python-flint keeps its precision in one global place, so whoever computes with balls holds the
lock while the precision is theirs.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flint import ctx

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCK = threading.RLock()


@contextmanager
def working_precision(bits: int) -> Iterator[None]:
    """Compute with balls of this many bits, and leave the precision as it was."""
    with _LOCK, ctx.workprec(bits):
        yield
