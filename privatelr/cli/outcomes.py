"""How a command ends: every byte of its output, an exit status, and at most one line of why."""

from __future__ import annotations

import argparse
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from io import RawIOBase, TextIOWrapper, UnsupportedOperation
from shlex import quote
from typing import Any, Never, TextIO, cast

from privatelr.cli.interrupts import INTERRUPTED, TERMINATED, Terminated, raising
from privatelr.errors import (
    GuaranteeError,
    MissingDependencyError,
    NotConvergedError,
    PrivacyWarning,
    PrivateLRError,
    nearest,
    or_meant,
)


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


DONE, REFUSED, WRONG, NOT_WRITTEN = 0, 1, 2, 3
UNREAD = 141
"""The exit status of a program that is ended by writing to a pipe without a reader."""
STATUSES = """\
exit status:
  0 done; 1 understood, but refused or failed, as when a file to be written
  exists; 2 the command line or an input file is wrong; 3 the work was done, and
  not all of its result could be written, the line says what; 130 interrupted; 141
  the reader of standard output left before its end, and no file of --out was
  written; 143 ended by SIGTERM
"""


class InputError(PrivateLRError, ValueError):
    """An input file, or what the command line says, cannot be read."""


class OutputError(PrivateLRError, ValueError):
    """What is asked for could not be written, so nothing is done; a file exists, say."""


class NotWrittenError(PrivateLRError, OSError):
    """The work was done, and its result could not be written."""


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

    def refuse(self, unknown: Sequence[str]) -> Never:
        """Complain about words that stand for nothing, with the option that is near."""
        known = [option for action in self._actions for option in action.option_strings]
        option = next((word for word in unknown if word.startswith("-")), "").partition("=")[0]
        bare = {name.lstrip("-"): name for name in known}
        meant = nearest(option.lstrip("-"), bare)
        hint = "." if meant is None else f"; did you mean {bare[meant]!r}?"
        self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as refusal:
            refusal.message += or_meant(value, [*map(str, action.choices or ())])
            raise


_SPELLINGS: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (r"\b(spend|analysis)='([\w-]+)'", lambda found: f"--{found[1]} {found[2]}"),
    (r"\blambda_=", lambda _: "--lambda "),
    (
        r"(?<!\S)(row_norm|intercept_scale|c_index|spread|balance)=(?=[-+.\d]|nan|inf)",
        lambda found: f"--{found[1].replace('_', '-')} ",
    ),
    (
        r"(?<=\w\s)\((row_norm|intercept_scale|c_index|spread|balance)\)",  # not log(balance)
        lambda found: f"(--{found[1].replace('_', '-')})",
    ),
    (r"\blambda_(?= takes| above)|(?<=number as )lambda_\b", lambda _: "--lambda"),
    (
        r"""\bbounds=\{["']?([^"'{}:]+)["']?:\s+\(([^(),]+),\s+([^(),]+)\)\}""",
        lambda found: f"--bounds {quote(f'{found[1]}={found[2]}:{found[3]}')}",
    ),
    (
        r"""\blevels=\{["']?([^"'{}:]+)["']?:\s+\[([^\[\]]*)\]\}""",
        lambda found: f"--levels {quote(f'{found[1]}={_unquoted(found[2])}')}",
    ),
    (
        r"fit\.diagnostics has them, and so has summary\(diagnostics=True\)",
        lambda _: "privatelr check shows the counts",
    ),
)
"""What Python's arguments and attributes are at the command line."""


def _unquoted(items: str) -> str:
    return ",".join(item.strip().strip("\"'") for item in items.split(","))


def in_shell(page: object) -> str:
    """The text of a page, or of a message, with options where it has Python's arguments."""
    text = str(page)
    for pattern, option in _SPELLINGS:
        text = re.sub(pattern, partial(_on_its_lines, option), text)
    return text


def _on_its_lines(option: Callable[[re.Match[str]], str], found: re.Match[str]) -> str:
    """What replaces a match, with the end of a line where the match has one."""
    broken = re.search(r"\n *", found[0])
    return option(found).replace(" ", broken[0] if broken else " ", 1)


def say(program: str, sentence: str) -> None:
    """One line on standard error."""
    if sys.stderr is None:  # print would take standard output instead
        return
    with suppress(OSError):  # the reader has closed it and does not want to know
        print(f"{program}: {' '.join(in_shell(sentence).split())}", file=sys.stderr)


def run_safely(program: str, action: Callable[[], int]) -> int:
    """Run an action; errors become one line and an exit status, warnings one line each."""
    if sys.stdout is None:  # a result that is paid for must have somewhere to go
        say(program, "standard output is closed, so nothing was done.")
        return REFUSED
    try:
        with raising(), whole_output(), _warnings_as_lines(program):
            return action()
    except PrivateLRError as error:
        say(program, str(error))
        return _status_of(error)
    except BrokenPipeError:
        return UNREAD  # its reader has enough of it, as in `privatelr demo | head -3`
    except OSError as error:
        return _failed_on(program, error)
    except MemoryError:
        say(program, "there is not enough memory for this.")
        return REFUSED
    except KeyboardInterrupt:
        say(program, "interrupted.")
        return INTERRUPTED
    except Terminated:
        say(program, "ended by SIGTERM.")
        return TERMINATED
    except Exception as error:
        say(program, f"an internal error, {_where(error)}; please report it.")
        return REFUSED


def _status_of(error: PrivateLRError) -> int:
    if isinstance(error, NotWrittenError):
        return NOT_WRITTEN
    return REFUSED if isinstance(error, _REFUSALS) else WRONG


def _where(error: Exception) -> str:
    """Kind and place of an error; its message may quote the data, and a traceback shows it."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in line {place.lineno} of {os.path.basename(place.filename)}"


def _failed_on(program: str, error: OSError) -> int:
    if error.filename is None:
        say(program, f"the output could not be written ({reason_of(error)}).")
        return NOT_WRITTEN
    say(program, f"{os.fsdecode(error.filename)!r} cannot be opened ({reason_of(error)}).")
    return WRONG


def reason_of(error: OSError) -> str:
    """What the system says, in the middle of a sentence."""
    return (error.strerror or str(error)).lower()


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
