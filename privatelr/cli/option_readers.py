"""How the texts of options are read, and a parser whose errors are one line."""

from __future__ import annotations

import argparse
import codecs
import csv
import re
import sys
from collections.abc import Callable
from typing import Any, Never

from privatelr.cli.outcomes import WRONG, say
from privatelr.errors import nearest, or_meant
from privatelr.mechanisms.calibration import LAMBDA_RULES

RULES = ", ".join(LAMBDA_RULES)


class _Paragraphs(argparse.HelpFormatter):
    """A formatter that fills paragraphs, except those with indented lines."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        paragraphs = text.strip().split("\n\n")
        return "\n\n".join(p if "\n  " in p else fill(p, width, indent) for p in paragraphs)


class Parser(argparse.ArgumentParser):
    """A parser whose error messages are one line; its subparsers have the same class."""

    def __init__(self, **options: Any) -> None:
        fixed = {"formatter_class": _Paragraphs, "allow_abbrev": False}
        super().__init__(**{**options, **fixed})

    def error(self, message: str) -> Never:
        """Print the message as one line on standard error, and exit with the status 2."""
        say(self.prog.split()[0], f"{message.rstrip('.')} (see {self.prog} --help).")
        raise SystemExit(WRONG)

    def _print_message(self, message: str, file: Any = None) -> None:
        (file or sys.stdout).write(message)  # `argparse` would hide that it cannot be written

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse unknown words, and name the closest option."""
        found, unknown = super().parse_known_args(args, namespace)
        for action in self._actions:
            if not _is_path(action) and hasattr(found, action.dest):
                self._decode(action, found)
        for action in self._actions:  # before Python 3.13 one behind options is left over
            late = action.nargs == "?" and unknown and not unknown[0].startswith("-")
            if late and not action.option_strings and getattr(found, action.dest) is None:
                setattr(found, action.dest, unknown.pop(0))
        if not unknown:
            return found, unknown
        known = [option for action in self._actions for option in action.option_strings]
        option = next((word for word in unknown if word.startswith("-")), "").partition("=")[0]
        bare = {name.lstrip("-"): name for name in known}
        meant = nearest(option.lstrip("-"), bare)
        hint = "." if meant is None else f"; did you mean {bare[meant]!r}?"
        self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")

    def _decode(self, action: argparse.Action, found: argparse.Namespace) -> None:
        """Read a text that is no path as UTF-8, whatever the locale takes its bytes for."""
        try:
            setattr(found, action.dest, _in_utf8(getattr(found, action.dest)))
        except UnicodeError:
            name = next(iter(action.option_strings), action.metavar or action.dest)
            self.error(f"{name}: takes text in UTF-8, and these bytes are not")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as refusal:
            refusal.message += or_meant(value, [*map(str, action.choices or ())])
            raise


def _is_path(action: argparse.Action) -> bool:
    """Whether an argument may name a file, whose bytes stay as they are."""
    return any(word in str(action.metavar) for word in ("FILE", "MODEL", "LEDGER"))


def _in_utf8(value: Any) -> Any:
    """Return an option with its bytes that the C locale did not take as text, as UTF-8."""
    read = value
    match value:
        case str():
            read = value.encode(errors="surrogateescape").decode()
        case list() | tuple():
            read = type(value)(map(_in_utf8, value))
        case dict():
            read = {_in_utf8(name): one for name, one in value.items()}
    return value if read == value else read  # a default is told by its identity


def _reader(expected: str) -> Callable[[Callable[[str], Any]], Callable[[str], Any]]:
    """A decorator that turns the errors of a reader into errors for `argparse`."""

    def decorate(read: Callable[[str], Any]) -> Callable[[str], Any]:
        def checked(text: str) -> Any:
            try:
                return read(text)
            except (ValueError, LookupError, csv.Error):
                raise argparse.ArgumentTypeError(f"{text!r} is {expected}") from None

        return checked

    return decorate


number = _reader("not a number")(float)


@_reader("not a whole number from 0")
def whole(text: str) -> int:
    """A whole number from 0."""
    if not (text.isascii() and text.isdigit() and len(text) <= 40):
        raise ValueError
    return int(text)


@_reader(f"neither a number nor one of {RULES}")
def lambda_(text: str) -> float | str:
    """A penalty, or the rule that sets it."""
    return text if text in LAMBDA_RULES else float(text)


@_reader("not a whole number")
def integer(text: str) -> int:
    """A whole number, which may be below 0."""
    return int(text)


@_reader("neither a number nor auto")
def automatic(text: str) -> float | str:
    """A number, or ``auto``; a whole number is an int."""
    value = text if text == "auto" else float(text)
    return int(value) if isinstance(value, float) and value.is_integer() else value


@_reader("neither a number nor fixed, youden or topleft")
def fitted_threshold(text: str) -> float | str:
    """A threshold of a fit, or the rule that sets it."""
    return text if text in ("fixed", "youden", "topleft") else float(text)


@_reader("neither a number nor youden nor topleft")
def threshold(text: str) -> float | str:
    """A threshold for predictions, or the rule that sets it."""
    return text if text in ("youden", "topleft") else float(text)


class Once(argparse.Action):
    """An option whose parts belong together, of which a second one would undo the first."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        if getattr(namespace, self.dest) is not self.default:
            raise argparse.ArgumentError(self, "takes all shares at once, as in scale=.1,roc=.25")
        setattr(namespace, self.dest, values)


@_reader("neither inference nor of the form coefficients=0.6,inference=0.4")
def spend(text: str) -> str | dict[str, float]:
    """Shares of a promise by what they buy."""
    if text.strip() == "inference":
        return "inference"
    items = [item.partition("=") for item in text.split(",")]
    shares = {name.strip(): float(share) for name, _, share in items}
    if len(shares) < len(items):
        raise ValueError
    return shares


@_reader("not an encoding such as latin-1, cp1252 or utf-16")
def encoding(text: str) -> str:
    """The name of an encoding of text."""
    "text".encode(text)  # codecs for anything other than text raise an error, too
    return codecs.lookup(text).name


@_reader("not a character such as ';', or tab")
def separator(text: str) -> str:
    """The character between the cells of a line."""
    character = {"tab": "\t", "\\t": "\t"}.get(text, text)
    if len(character) != 1 or character.isalnum() or character in "\"' .+-_\r\n\0":
        raise ValueError
    return character


@_reader("not a hash of 64 hexadecimal digits")
def sha256(text: str) -> str:
    """A SHA-256 in hexadecimal."""
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise ValueError
    return text


@_reader("not of the form NAME=LO:HI, such as age=18:90")
def bounds(text: str) -> tuple[str, tuple[float, float]]:
    """A column with its limits."""
    name, equals, pair = text.rpartition("=")
    low, colon, high = pair.partition(":")
    if not (name.strip() and equals and colon):
        raise ValueError
    return name.strip(), (float(low), float(high))


@_reader("not a number, or of the form NAME=X, such as age=0.3")
def spread(text: str) -> tuple[str, float]:
    """A number for one column, or for all columns under the name ``""``."""
    name, _, value = text.rpartition("=")
    return name.strip(), float(value)


def prior(text: str) -> tuple[str, Any]:
    """A coefficient with its mean, or with mean and deviation, or the name of a file with None."""
    name, _, value = text.rpartition("=")
    try:
        mean, *sd = map(float, value.split(":", 1))
        return name.strip(), (mean, *sd) if sd else mean
    except ValueError:
        return text, None  # the name of a file


@_reader("not of the form NAME=A,B, such as smoker=no,yes")
def levels(text: str) -> tuple[str, list[str]]:
    """A column with its levels."""
    name, equals, written = text.partition("=")
    if not (name.strip() and equals and written.strip()):
        raise ValueError
    levels = next(csv.reader([written], strict=True, skipinitialspace=True))
    return name.strip(), [level.strip() for level in levels]
