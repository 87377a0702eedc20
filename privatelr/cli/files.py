"""Files that are read, and files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import IO

from privatelr.cli.outcomes import InputError, NotWrittenError, OutputError, reason_of
from privatelr.errors import ReleaseFileError
from privatelr.locks import has_file_locks, lock_file, still_has_name
from privatelr.results import Fit
from privatelr.results.release_files import create_file, load, replace_file
from privatelr.results.selected import SelectedFit


@contextmanager
def reserved(path: str | None, force: bool) -> Iterator[None]:
    """Refuse, before any work, a file that could not be written after it.

    Within the block no other command can have the name: a locked file beside it says so, since
    an empty file in its place would be taken for a result.
    """
    if path is None:
        yield
        return
    _require_place(path, force)
    target = Path(os.path.realpath(path))
    sign = target.with_name(f".{sha256(os.fsencode(target.name)).hexdigest()[:16]}.lock")
    try:
        held = _hold(sign)
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
                sign.unlink()  # before it is let go, when it could be another's
            os.close(held)


def _hold(sign: Path) -> int | None:
    """The descriptor of a locked file, or `BlockingIOError` if another process holds it.

    The file of a process that was killed does not hinder another. Without locks (on Windows)
    there is none, and a file is still not replaced, but found at the end.
    """
    while has_file_locks():
        held = os.open(sign, os.O_RDONLY | os.O_CREAT, 0o644)
        try:
            lock_file(held, wait=False)
        except BlockingIOError:
            os.close(held)
            raise
        except OSError:  # a file system that has no locks
            pass
        if still_has_name(held, sign):
            return held
        os.close(held)  # the process that held it has just removed it
    return None


def _require_place(path: str, force: bool) -> None:
    def refuse(wrong: bool, what: str) -> None:
        if wrong:
            raise OutputError(f"--out {path!r}: {what}.")

    refuse(
        "\0" in path or path in ("", "-") or os.path.isdir(path), "--out takes the name of a file"
    )
    target = Path(os.path.realpath(path))
    refuse(not target.parent.is_dir(), f"there is no folder {str(target.parent)!r}")
    refuse(os.path.lexists(path) and not force, "the file exists; --force replaces it")
    is_file = target.is_file() or not target.exists()
    refuse(not is_file, "--out takes a file, and this is a device or a pipe")
    refuse(not os.access(target.parent, os.W_OK), "the folder may not be written to")


@contextmanager
def open_to_read(path: str) -> Iterator[IO[bytes]]:
    """The bytes of a file; raises `InputError` if there is none to open."""
    try:
        stream = open(path, "rb")  # noqa: SIM115 - closed below
    except FileNotFoundError:
        raise InputError(f"{path!r}: there is no such file.") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path!r}: the file cannot be opened ({reason_of(error)}).") from None
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
    """A saved model; raises `InputError`."""
    try:
        return load(path)
    except FileNotFoundError:
        raise InputError(f"{path!r}: there is no such file.") from None
    except ReleaseFileError as error:
        raise InputError(str(error)) from None
