"""How every command ends: an exit status, and at most one line about why."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
import warnings
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, Never

from privatelr.errors import (
    GuaranteeError,
    MissingDependencyError,
    NotConvergedError,
    PrivacyWarning,
    PrivateLRError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DONE, REFUSED, WRONG = 0, 1, 2
"""Exit statuses."""
STATUSES = """\
exit status:
  0 done; 1 understood, but refused or failed, as when a file to be written
  exists; 2 the command line or an input file is wrong
"""


class InputError(PrivateLRError, ValueError):
    """An input file, or what the command line says, cannot be read."""


class OutputError(PrivateLRError, ValueError):
    """What was asked for cannot be written; an existing file is one reason."""


_REFUSALS = (GuaranteeError, NotConvergedError, MissingDependencyError, OutputError)


class _Paragraphs(argparse.HelpFormatter):
    """Fills paragraphs, and leaves those with indented lines as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        paragraphs = text.strip().split("\n\n")
        return "\n\n".join(p if "\n  " in p else fill(p, width, indent) for p in paragraphs)


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line; its subparsers are of the same class."""

    def __init__(self, **options: Any) -> None:
        fixed = {"formatter_class": _Paragraphs, "allow_abbrev": False}
        super().__init__(**{**options, **fixed})

    def error(self, message: str) -> Never:
        say(self.prog.split()[0], f"{message.rstrip('.')} (see {self.prog} --help).")
        raise SystemExit(WRONG)


def say(program: str, sentence: str) -> None:
    """One line on standard error."""
    if sys.stderr is None:  # print would take standard output instead
        return
    with suppress(OSError):  # whoever closed it does not want to know
        print(f"{program}: {' '.join(sentence.split())}", file=sys.stderr)


def run_safely(program: str, action: Callable[[], int]) -> int:
    """Run an action; errors become one line and an exit status, warnings one line each."""
    if sys.stdout is None:  # a result that is paid for must have somewhere to go
        say(program, "standard output is closed, so nothing was done.")
        return REFUSED
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name may be beyond the terminal
    try:
        with _warnings_as_lines(program):
            return _to_the_end(action)
    except PrivateLRError as error:
        say(program, str(error))
        return REFUSED if isinstance(error, _REFUSALS) else WRONG
    except BrokenPipeError:
        _drop_output()  # its reader has enough of it, as in `privatelr demo | head -3`
        return REFUSED
    except OSError as error:
        return _failed_on(program, error)
    except MemoryError:
        say(program, "there is not enough memory for this.")
        return REFUSED
    except KeyboardInterrupt:
        say(program, "interrupted.")
        return REFUSED
    except Exception as error:
        say(program, f"an internal error, {_where(error)}; please report it.")
        return REFUSED


def _to_the_end(action: Callable[[], int]) -> int:
    """The status of an action whose output has left the program; help ends by `SystemExit`."""
    try:
        status = action()
    except SystemExit:
        sys.stdout.flush()
        raise
    sys.stdout.flush()
    return status


def _where(error: Exception) -> str:
    """Kind and place of an error; its message may quote the data, and a traceback shows it."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in line {place.lineno} of {os.path.basename(place.filename)}"


def _failed_on(program: str, error: OSError) -> int:
    reason = (error.strerror or str(error)).lower()
    if error.filename is None:
        say(program, f"the output could not be written ({reason}).")
        _drop_output()
        return REFUSED
    say(program, f"{os.fsdecode(error.filename)!r} cannot be opened ({reason}).")
    return WRONG


def _drop_output() -> None:
    """Keep the interpreter from flushing at its end what could not be written."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _warnings_as_lines(program: str) -> Iterator[None]:
    """Print warnings about privacy as lines; any other could depend on a value of the data."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        say(program, str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", PrivacyWarning)
        warnings.showwarning = show
        yield
