"""Standard output, of which every byte arrives or an error is raised."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from io import RawIOBase, TextIOWrapper, UnsupportedOperation
from typing import TYPE_CHECKING, TextIO, cast

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def whole_output() -> Iterator[None]:
    """Within the block, what is printed is written whole; at its end it has left the program.

    Raises
    ------
    OSError
        If it cannot be written; what could not is dropped.
    """
    given = sys.stdout
    sys.stdout = _retrying(given)
    try:
        yield
        flush_output()
    except SystemExit:  # so help ends
        flush_output()
        raise
    except BaseException:
        with suppress(OSError):  # there is an error to tell of already
            flush_output()
        raise
    finally:
        sys.stdout = given


def _retrying(stream: TextIO) -> TextIO:
    """A stream that writes on after a short write, which an unbuffered one takes for all."""
    if not isinstance(stream, TextIOWrapper):
        return stream
    stream.reconfigure(errors="backslashreplace")  # a name may be beyond the terminal
    if not isinstance(cast("object", stream.buffer), RawIOBase):
        return stream
    return open(stream.fileno(), "w", encoding=stream.encoding, errors=stream.errors, closefd=False)


def flush_output() -> None:
    """Write what was printed so far; an error is raised, and what is left dropped."""
    try:
        sys.stdout.flush()
        with suppress(UnsupportedOperation):
            os.close(os.dup(sys.stdout.fileno()))  # some file systems tell at closing only
    except OSError:
        drop_output()
        raise


def drop_output() -> None:
    """Keep the interpreter from flushing at its end what could not be written."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
