"""Files that are read, and files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import IO, TYPE_CHECKING

from privatelr.cli.outcomes import InputError, NotWrittenError, OutputError, reason_of
from privatelr.errors import ReleaseFileError
from privatelr.locks import has_file_locks, lock_file, still_has_name
from privatelr.results import Fit
from privatelr.results.release_files import create_file, load, replace_file
from privatelr.results.selected import SelectedFit

if TYPE_CHECKING:
    from privatelr.cli.outcomes import Parser


def add_output(parser: Parser, what: str) -> None:
    """Add ``--out`` and ``--force``."""
    parser.add_argument("--out", metavar="FILE", help=f"{what}; an existing file is refused")
    parser.add_argument("--force", action="store_true", help="let --out replace an existing file")


@contextmanager
def reserved(path: str | None, force: bool) -> Iterator[None]:
    """Refuse, before any work, a file that could not be written after it.

    Within the block no other command can have the name.
    """
    if path is None:
        yield
        return
    _require_place(path, force)
    try:
        held = _hold(_sign_of(path))
    except BlockingIOError:
        raise OutputError(
            f"--out {path!r}: another command is at work that writes this file; nothing was done."
        ) from None
    except OSError as error:
        raise OutputError(f"--out {path!r} cannot be reserved ({reason_of(error)}).") from None
    try:
        _require_place(path, force)  # the other command may just have written it
        yield
    finally:
        if held is not None:
            with suppress(OSError):
                _sign_of(path).unlink()  # before it is let go, when it could be another's
            os.close(held)


def _sign_of(path: str) -> Path:
    """A file that says who writes; an empty file in its place would be taken for a result."""
    target = Path(os.path.realpath(path))
    return target.with_name(f".{sha256(os.fsencode(target.name)).hexdigest()[:16]}.lock")


def _hold(sign: Path) -> int | None:
    """The descriptor of a locked file, or `BlockingIOError` if another process holds it.

    The file of a process that was killed is in no one's way. Without locks (on Windows) there is
    none, and a file is still not replaced, but found at the end.
    """
    if not has_file_locks():
        return None
    while True:
        held = os.open(sign, os.O_RDONLY | os.O_CREAT, 0o644)
        try:
            _lock(held)
        except BaseException:
            os.close(held)
            raise
        if still_has_name(held, sign):
            return held
        os.close(held)  # the process that held it has just removed it


def _lock(held: int) -> None:
    try:
        lock_file(held, wait=False)
    except BlockingIOError:
        raise
    except OSError:  # a file system that has no locks
        pass


def _require_place(path: str, force: bool) -> None:
    if "\0" in path or path in ("", "-") or os.path.isdir(path):
        raise OutputError(f"--out {path!r}: --out takes the name of a file.")
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise OutputError(f"--out {path!r}: there is no folder {str(target.parent)!r}.")
    if os.path.lexists(path) and not force:
        raise OutputError(f"--out {path!r}: the file exists; --force replaces it.")
    if target.exists() and not target.is_file():
        raise OutputError(f"--out {path!r}: --out takes a file, and this is a device or a pipe.")
    if not os.access(target.parent, os.W_OK):
        raise OutputError(f"--out {path!r}: the folder may not be written to.")


@contextmanager
def open_to_read(path: str) -> Iterator[IO[bytes]]:
    """The bytes of a file; raises `InputError` if there is none to open."""
    try:
        stream = open(path, "rb")  # noqa: SIM115 - closed below
    except FileNotFoundError:
        raise InputError(f"{path!r}: there is no such file.") from None
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise InputError(f"{path!r}: the file cannot be opened ({reason}).") from None
    with stream:
        yield stream


def write(path: str, data: bytes, force: bool) -> None:
    """Write a file; without `force`, one that has appeared meanwhile is left as it is."""
    try:
        if force:
            _require_place(path, force)
            replace_file(Path(os.path.realpath(path)), data)
        else:
            create_file(Path(path), data)
    except OutputError as error:
        raise NotWrittenError(str(error)) from None
    except FileExistsError:
        raise NotWrittenError(
            f"--out {path!r}: the file has appeared meanwhile and was left as it is."
        ) from None
    except OSError as error:
        raise NotWrittenError(f"--out {path!r} was not written ({reason_of(error)}).") from None


def read_model(path: str) -> Fit | SelectedFit:
    """A saved model; raises `InputError` or `ReleaseFileError`."""
    try:
        return load(path)
    except FileNotFoundError:
        raise InputError(f"{path!r}: there is no such file.") from None
    except ReleaseFileError as error:
        raise InputError(str(error)) from None
