"""Numbered lines of a text file, whose encoding is named and not guessed."""

from __future__ import annotations

from contextlib import suppress
from io import TextIOWrapper
from itertools import count
from typing import IO, TYPE_CHECKING

from privatelr.cli.outcomes import InputError, reason_of

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_LINE = 2**24
UTF8 = "utf-8"
_PACKED = "it is compressed by {}; unpack it, or let its name end in {}"
_UTF = "it is text in {}; pass --encoding {}"
_MARKS = {
    b"\xff\xfe\0\0": _UTF.format("UTF-32", "utf-32"),
    b"\0\0\xfe\xff": _UTF.format("UTF-32", "utf-32"),
    b"\xff\xfe": _UTF.format("UTF-16", "utf-16"),
    b"\xfe\xff": _UTF.format("UTF-16", "utf-16"),
    b"\x1f\x8b": _PACKED.format("gzip", ".gz"),
    b"BZh": _PACKED.format("bzip2", ".bz2"),
    b"\xfd7zXZ\0": _PACKED.format("xz", ".xz"),
    b"\x28\xb5\x2f\xfd": _PACKED.format("zstd", ".zst"),
    b"PAR1": "it is a Parquet file; let its name end in .parquet",
    b"PK\x03\x04": "it is an archive or a spreadsheet; save the table in it as CSV",
    b"\xd0\xcf\x11\xe0": "it is a spreadsheet; save the table in it as CSV",
}
"""How files begin that are no text in UTF-8, and what to do about them."""


def wrong_line(shown: str, number: int, what: str) -> InputError:
    """An error about a line, which quotes nothing of it."""
    return InputError(f"{shown}, line {number}: {what}.")


def text_lines(stream: IO[bytes], shown: str, encoding: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers from 1, without what ends them; `shown` names the file.

    Raises
    ------
    InputError
        At a line that is too long, blank, in another encoding, or holds control codes.
    """
    lines = _by_bytes if _ends_lines_as_ascii(encoding) else _by_characters
    for number, line, start in lines(stream, shown, encoding):
        line = line.removesuffix("\n").removesuffix("\r")
        if "\0" in line or "\r" in line:
            raise wrong_line(
                shown,
                number,
                _hint(start) or "this is not a line of a table, but holds control codes",
            )
        if not line.strip(" "):
            raise wrong_line(shown, number, "the line is blank, and every line is a record")
        yield number, line


def _ends_lines_as_ascii(encoding: str) -> bool:
    probe = '\n,"1'
    return probe.encode(encoding, "replace") == probe.encode()


def _by_bytes(stream: IO[bytes], shown: str, encoding: str) -> Iterator[tuple[int, str, bytes]]:
    """Lines that are found before they are decoded, so that a wrong one has its number."""
    for number in count(1):
        try:
            raw = stream.readline(LONGEST_LINE)
        except OSError as error:
            raise _unreadable(shown, error) from None
        if not raw:
            return
        if len(raw) == LONGEST_LINE:
            raise _too_long(shown, number)
        start = raw[:8] if number == 1 else b""
        try:
            line = raw.decode(encoding)
        except UnicodeError:
            raise wrong_line(shown, number, _hint(start) or _not_text(encoding)) from None
        yield number, line.removeprefix("\ufeff") if number == 1 else line, start


def _by_characters(
    stream: IO[bytes], shown: str, encoding: str
) -> Iterator[tuple[int, str, bytes]]:
    """Lines of what is decoded in pieces: in UTF-16, say, a line ends in two bytes."""
    text = TextIOWrapper(stream, encoding, newline="\n")
    try:
        for number in count(1):
            try:
                line = text.readline(LONGEST_LINE)
            except UnicodeError:
                what = f"from here on this is {_not_text(encoding).removeprefix('this is ')}"
                raise wrong_line(shown, number, what) from None
            except OSError as error:
                raise _unreadable(shown, error) from None
            if not line:
                return
            if len(line) == LONGEST_LINE:
                raise _too_long(shown, number)
            yield number, line.removeprefix("\ufeff") if number == 1 else line, b""
    finally:
        with suppress(OSError, ValueError):
            text.detach()


def _hint(start: bytes) -> str | None:
    """What the first bytes of a file tell about what it is."""
    for mark, what in _MARKS.items():
        if start.startswith(mark):
            return f"this is not text in UTF-8: {what}"
    for ending, pair in (("le", start[1:2]), ("be", start[:1])):
        if pair == b"\0":
            return f"this holds zeros as UTF-16 does; pass --encoding utf-16-{ending}"
    return None


def _not_text(encoding: str) -> str:
    shown = "UTF-8" if encoding == UTF8 else encoding
    return f"this is not text in {shown}; --encoding names another, such as latin-1 or utf-16"


def _too_long(shown: str, number: int) -> InputError:
    return wrong_line(shown, number, f"the line is longer than {LONGEST_LINE - 1} bytes")


def _unreadable(shown: str, error: OSError) -> InputError:
    return InputError(f"{shown}: the file cannot be read ({reason_of(error)}).")
