"""Files that are being written: a name beside the target, a lock while its writer lives.

A process that is killed leaves its file behind, but not the lock: the system takes back what a
dead process held. So the next save to the same target can tell what was left behind from what
another process is writing now, without asking how old it is.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from privatelr.locks import has_file_locks, lock_file, still_has_name

_SUFFIX = ".tmp"


def remove_abandoned(target: Path) -> None:
    """Remove what killed processes left of their writing to this target.

    What another process is writing is left alone, and so is what cannot be opened.
    """
    if not has_file_locks():  # what was left behind stays
        return
    start = _start_of(target)
    with suppress(OSError):
        for name in os.listdir(target.parent):
            if name.startswith(start) and name.endswith(_SUFFIX):
                with suppress(OSError):
                    _remove_if_abandoned(target.parent / name)


def _remove_if_abandoned(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            lock_file(descriptor, wait=False)
            path.unlink()
    finally:
        os.close(descriptor)


@contextmanager
def complete_beside(target: Path, data: bytes) -> Iterator[Path]:
    """A file beside the target that holds the data on the disk, and is gone afterwards.

    Within the block it may be given the name of the target. What killed processes left of their
    writing to the same target is removed first.
    """
    remove_abandoned(target)
    file, path = _locked_file(target)
    try:
        with file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            if not has_file_locks():  # such a system may not rename what is open
                file.close()
            yield path
    finally:
        with suppress(OSError):
            path.unlink()


def _locked_file(target: Path) -> tuple[IO[bytes], Path]:
    while True:
        path = target.with_name(f"{_start_of(target)}{secrets.token_hex(8)}{_SUFFIX}")
        file = path.open("xb")
        if not has_file_locks():
            return file, path
        with suppress(OSError):  # a file system may know no locks
            lock_file(file.fileno(), wait=True)  # for a process that looks at it just now
        if still_has_name(file.fileno(), path):
            return file, path
        file.close()  # that process found no lock on it, and removed it


def _start_of(target: Path) -> str:
    """What the names of all unfinished files of a target begin with; it may be long itself."""
    name = hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]
    return f".privatelr-{name}-"
