"""Ball arithmetic at a chosen precision, safe under threads.

python-flint keeps its precision in one global place, so whoever computes with balls holds the
lock while the precision is theirs.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from privatelr.lazy_import import lazy_import
from privatelr.locks import ForkSafeLock

if TYPE_CHECKING:
    from collections.abc import Iterator

    import flint
else:
    flint = lazy_import("flint")

FIRST_PRECISION = 128
"""Bits to begin with; where they leave something in doubt, they are doubled."""
_LOCK = ForkSafeLock()


@contextmanager
def working_precision(bits: int) -> Iterator[None]:
    """Compute with balls of this many bits, and leave the precision as it was."""
    with _LOCK.held(), flint.ctx.workprec(bits):
        yield
