"""The end of a command: its output, an exit status, and at most one line with the reason."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from contextvars import ContextVar
from functools import partial
from io import RawIOBase, TextIOWrapper, UnsupportedOperation
from shlex import quote
from textwrap import TextWrapper
from typing import Any, TextIO, cast

import msgspec

from privatelr import errors
from privatelr.errors import PrivacyWarning, PrivateLRError

DONE, REFUSED, WRONG, NOT_WRITTEN = 0, 1, 2, 3
UNREAD = 141
"""A program that writes to a pipe without a reader ends with this status."""
INTERRUPTED = 128 + signal.SIGINT
"""A shell reports this exit status of programs that an interrupt ended."""
STATUSES = """\
exit status:
  0 done; 1 understood, but refused or failed, as when a file to be written
  exists; 2 the command line or an input file is wrong; 3 the work was done, and
  not all of its result could be written, the line says what; 130 interrupted;
  141 the reader of standard output left before its end, and no file of --out
  was written; 143 ended by SIGTERM
"""


STDIN = "<stdin>"
"""Stands for the word - of a command line, which an option does not take."""


class InputError(PrivateLRError, ValueError):
    """An input file or an argument of the command line cannot be read."""


class OutputError(PrivateLRError, ValueError):
    """The result could not be written, for example because a file exists; no work was done."""


class NotWrittenError(PrivateLRError, OSError):
    """The work was done, and its result could not be written."""


def _retrying(stream: TextIO) -> TextIO:
    """A stream that continues after a partial write, which an unbuffered stream does not."""
    if not isinstance(stream, TextIOWrapper):
        return stream
    stream.reconfigure(errors="backslashreplace")  # the terminal may not have all characters
    if not isinstance(cast("object", stream.buffer), RawIOBase):
        return stream
    return open(stream.fileno(), "w", encoding=stream.encoding, errors=stream.errors, closefd=False)


def flush_output() -> None:
    """Write the text that was printed so far; if that fails, drop the rest and raise the error."""
    try:
        sys.stdout.flush()
        with suppress(UnsupportedOperation):
            os.close(os.dup(sys.stdout.fileno()))  # some file systems report errors only at closing
    except OSError:
        drop_output()
        raise


def drop_output(stream: TextIO | None = None) -> None:
    """Drop text that could not be written, which the interpreter would flush again at its end."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, (stream or sys.stdout).fileno())
        os.close(nowhere)


def _option(found: re.Match[str]) -> str:
    return f"--{found[1].replace('_', '-')} "


def _levels(found: re.Match[str]) -> str:
    items = ",".join(item.strip().strip("\"'") for item in found[2].split(","))
    return f"--levels {quote(f'{found[1]}={items}')}"


_NUMBERS = "(row_norm|intercept_scale|c_index|spread|balance|correlation|share)"
_SPELLINGS: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (r"\b(spend|analysis)='([\w-]+)'", lambda found: f"--{found[1]} {found[2]}"),
    (r"\blambda_=", lambda _: "--lambda "),
    (r"\bdo_scale='private'", lambda _: "--do-scale private"),
    (r"\bdo_scale=False", lambda _: "--do-scale no"),
    (r"fit\.scale has them", lambda _: "--json has them"),
    (r"fit\.roc\s+has\s+more", lambda _: "--json has more"),
    (rf"(?<!\S){_NUMBERS}=(?=[-+.\d]|nan|inf)", _option),
    (rf"(?<=\w\s)\({_NUMBERS}\)", lambda found: f"({_option(found).strip()})"),  # not log(balance)
    (r"\blambda_(?= takes| above)|(?<=number as )lambda_\b", lambda _: "--lambda"),
    (
        r"""\bbounds=\{["']?([^"'{}:]+)["']?:\s+\(([^(),]+),\s+([^(),]+)\)\}""",
        lambda found: f"--bounds {quote(f'{found[1]}={found[2]}:{found[3]}')}",
    ),
    (r"""\blevels=\{["']?([^"'{}:]+)["']?:\s+\[([^\[\]]*)\]\}""", _levels),
    (r"""\blevels\['([^']+)'\]=\[([^\[\]]*)\]""", _levels),
    (
        r"fit\.diagnostics has them, and so has summary\(diagnostics=True\)",
        lambda _: "privatelr check shows the counts",
    ),
)
"""Each pattern matches an argument or attribute of Python; its function returns the option of the
command line."""


def in_shell(page: object) -> str:
    """The text of a page or a message, with command line options in place of Python's arguments."""
    text = str(page)
    for pattern, option in _SPELLINGS:
        text = re.sub(pattern, partial(_on_its_lines, option), text)
    # an option may be longer than an argument; lines with columns stay as they are
    is_long = re.compile(r"(?!.*\S  ).{80}")
    breaks = TextWrapper(79, break_long_words=False, break_on_hyphens=False)  # paths stay whole
    lines = (breaks.wrap(line) if is_long.match(line) else [line] for line in text.split("\n"))
    return "\n".join(part for parts in lines for part in parts)


def _on_its_lines(option: Callable[[re.Match[str]], str], found: re.Match[str]) -> str:
    """The option that replaces a match, with a line break if the match has one."""
    broken = re.search(r"\n *", found[0])
    return option(found).replace(" ", broken[0] if broken else " ", 1)


_QUIET = ContextVar("quiet", default=False)


def be_quiet() -> None:
    """Until the command ends, print nothing on standard error but errors."""
    _QUIET.set(True)


def note(program: str, sentence: object) -> None:
    """Print one line on standard error that is no error, unless the command is to be quiet."""
    if not _QUIET.get():
        say(program, sentence)


def say(program: str, sentence: object) -> None:
    """Print one line on standard error."""
    if sys.stderr is None:  # print would use standard output instead
        return
    with suppress(OSError):  # the reader may have closed the stream
        print(f"{program}: {' '.join(in_shell(sentence).split())}", file=sys.stderr)


def run_safely(program: str, action: Callable[[], int]) -> int:
    """Run an action; an error becomes one line and an exit status, a warning becomes one line.

    Only warnings about privacy are shown, because others could depend on the values of the data;
    for the same reason nothing is shown that a library logs.
    """
    if sys.stdout is None:  # without an output, a budget would be spent for nothing
        say(program, "standard output is closed, so nothing was done.")
        return REFUSED
    was_quiet, logged = _QUIET.set(False), logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stdout(_retrying(sys.stdout)), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", PrivacyWarning)
            warnings.showwarning = lambda message, *_, **__: note(program, message)
            try:
                status = action()
            except BaseException:
                with suppress(OSError):  # the first error is the one to report
                    flush_output()
                raise
            flush_output()
            return status
    except (Exception, KeyboardInterrupt) as error:
        status, sentence = _ending(error)
        if sentence:
            say(program, sentence)
        return status
    finally:
        _QUIET.reset(was_quiet)
        logging.disable(logged)
        _settle_errors()


def _settle_errors() -> None:
    """Drop what standard error did not take, which would change the exit status to 120."""
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except OSError:
        drop_output(sys.stderr)


def _ending(error: BaseException) -> tuple[int, str]:
    """The exit status for an error, and a sentence.

    The sentence does not contain the message of an error that is not of this package, because it
    may quote data.
    """
    match error:
        case NotWrittenError():
            return NOT_WRITTEN, str(error)
        case errors.WrongLedgerError():
            return WRONG, str(error)
        case (
            errors.GuaranteeError()
            | errors.NotConvergedError()
            | errors.MissingDependencyError()
            | OutputError()
        ):
            return REFUSED, str(error)
        case PrivateLRError():
            return WRONG, str(error)
        case BrokenPipeError():
            return UNREAD, ""  # the reader has closed the pipe, as in `privatelr demo | head -3`
        case OSError(filename=None):
            return NOT_WRITTEN, f"the output could not be written ({reason_of(error)})."
        case OSError(filename=name):
            return WRONG, f"{os.fsdecode(name)!r} cannot be opened ({reason_of(error)})."
        case MemoryError():
            return REFUSED, "there is not enough memory for this."
        case KeyboardInterrupt():
            return INTERRUPTED, "interrupted."
    line = traceback.extract_tb(error.__traceback__)[-1]
    place = f"line {line.lineno} of {os.path.basename(line.filename)}"
    what = f"an internal error, {type(error).__name__} in {place}; please report it."
    return REFUSED, what


def reason_of(error: Exception) -> str:
    """The message of the operating system in lower case, for the middle of a sentence."""
    return (getattr(error, "strerror", None) or str(error)).lower()


def as_json(value: Any) -> str:
    """A value as JSON, with null for what is not a finite number."""
    written = msgspec.json.encode(value, enc_hook=lambda number: number.item())
    return msgspec.json.format(written, indent=1).decode()


def print_page(page: str, done: str | None) -> None:
    """Print a page after work that stands, which an error of the output then says.

    A user who hears of the error alone would do it again, and would spend the budget twice.
    """
    try:
        print(page)
        if done is not None:
            flush_output()
    except BrokenPipeError:
        drop_output()
        raise
    except OSError as error:
        if done is None:
            raise
        drop_output()
        raise NotWrittenError(
            f"{done}, but the page could not be written ({reason_of(error)})."
        ) from None
