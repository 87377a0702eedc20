"""How much memory rows of a stream may take: what the user says, or what this process may have."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from privatelr.errors import ArgumentError, show

try:
    import resource
except ImportError:  # Windows has no limits of this kind
    resource = None  # type: ignore[assignment]

LARGEST_SHARE = 0.4
"""Largest share of the memory of this machine that rows take, unless a user says otherwise."""
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def read_bytes(memory: Any) -> float:
    """Read an amount of memory; raises `ArgumentError`."""
    spelled = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([KMGT]?)(?:i?B)?\s*", str(memory), re.IGNORECASE)
    if spelled is None or isinstance(memory, bool):
        raise ArgumentError(
            f'memory={show(memory)}: it takes a number of bytes from 0, such as "4GiB".'
        )
    return float(spelled[1]) * _UNITS[spelled[2].upper()]


def memory_here() -> float:
    """Bytes of memory that this process may have: of the machine, or of a limit that was set."""
    found = []
    with suppress(AttributeError, OSError, ValueError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    if resource is not None:
        found.append(resource.getrlimit(resource.RLIMIT_AS)[0])
    with suppress(OSError, ValueError):
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text("ascii")))
    return float(min((size for size in found if size > 0), default=0))
