"""Files that are read, and files that are written whole or not at all."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from privatelr.cli.outcomes import InputError, OutputError
from privatelr.errors import ReleaseFileError
from privatelr.results.load import load
from privatelr.results.release_file import create_file, replace_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from privatelr.cli.outcomes import Parser
    from privatelr.results.fit import Fit
    from privatelr.results.selected import SelectedFit


def add_output(parser: Parser, what: str) -> None:
    """Add ``--out`` and ``--force``."""
    parser.add_argument("--out", metavar="FILE", help=f"{what}; an existing file is refused")
    parser.add_argument("--force", action="store_true", help="let --out replace an existing file")


def require_place(path: str | None, force: bool) -> None:
    """Refuse, before any work, a file that could not be written after it."""
    if path is None:
        return
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
            require_place(path, force)
            replace_file(Path(os.path.realpath(path)), data)
        else:
            create_file(Path(path), data)
    except FileExistsError:
        raise OutputError(
            f"--out {path!r}: the file has appeared meanwhile and was left as it is."
        ) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OutputError(f"--out {path!r} was not written ({reason}).") from None


def read_model(path: str) -> Fit | SelectedFit:
    """A saved model; raises `InputError` or `ReleaseFileError`."""
    try:
        return load(path)
    except FileNotFoundError:
        raise InputError(f"{path!r}: there is no such file.") from None
    except ReleaseFileError as error:
        raise InputError(str(error)) from None
