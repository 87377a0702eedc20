"""Text files as numbered lines: compressed or not, in any encoding."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import TextIOWrapper
from itertools import count
from pathlib import PurePath
from typing import IO, Any

from privatelr.cli.outcomes import InputError, reason_of
from privatelr.errors import MissingDependencyError


def unpacked(stream: IO[bytes], path: str) -> tuple[IO[bytes], str]:
    """The content of a file, and the ending of its name without that of a compression.

    Raises
    ------
    InputError
        On reading, if the content is damaged or not compressed.
    MissingDependencyError
        If it takes a library that is not installed.
    """
    name = PurePath(path)
    ending = name.suffix.lower()
    if ending not in _UNPACKERS:
        return stream, ending
    source = _Guarded(_UNPACKERS[ending](stream), repr(path), ending)
    return io.BufferedReader(source), name.with_suffix("").suffix.lower()


def _unzstd(stream: IO[bytes]) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise MissingDependencyError(
            "reading .zst takes pyarrow; install it with `pip install 'privatelr[parquet]'`, or "
            "unpack the file, as in: unzstd FILE."
        ) from None
    return pyarrow.CompressedInputStream(stream, "zstd")


_UNPACKERS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": lambda stream: gzip.GzipFile(fileobj=stream),
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
    ".zst": _unzstd,
}


class _Guarded(io.RawIOBase):
    """What a decompressor reads; its errors quote bytes of the file, and these do not."""

    def __init__(self, source: Any, shown: str, ending: str) -> None:
        self._source, self._shown, self._ending = source, shown, ending

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            return int(self._source.readinto(buffer))
        except (EOFError, OSError, ValueError, zlib.error, lzma.LZMAError):
            raise InputError(
                f"{self._shown}: the file is damaged, or not of the kind that {self._ending} tells."
            ) from None


LONGEST_LINE = 2**24
"""Bytes of a line, or characters where a line is found after decoding."""
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
"""The first bytes of files that are not text in UTF-8, and what to do about them."""


def wrong_line(shown: str, number: int, what: str) -> InputError:
    """An error about a line, which quotes nothing of it."""
    return InputError(f"{shown}, line {number}: {what}.")


def text_lines(stream: IO[bytes], shown: str, encoding: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers from 1, without what ends them; `shown` names the file.

    Where lines end as in ASCII they are found before they are decoded, so that a wrong one has
    its number. In UTF-16, say, a line ends in two bytes, and the file is decoded in pieces.

    Raises
    ------
    InputError
        At a line that is too long, blank, in another encoding, or holds control codes.
    """
    in_bytes = '\n,"1'.encode(encoding, "replace") == b'\n,"1'
    source: Any = stream if in_bytes else TextIOWrapper(stream, encoding, newline="\n")
    start, told = b"", "UTF-8" if encoding == UTF8 else encoding
    not_text = (
        f"{'this is' if in_bytes else 'from here on this is'} not text in {told}; --encoding names "
        "another, such as latin-1 or utf-16"
    )
    try:
        for number in count(1):
            try:
                line = source.readline(LONGEST_LINE)
                if not line:
                    return
                if len(line) == LONGEST_LINE:
                    long = f"the line is longer than {LONGEST_LINE - 1} bytes"
                    raise wrong_line(shown, number, long)
                if in_bytes:
                    start = line[:8] if number == 1 else b""
                    line = line.decode(encoding)
            except UnicodeError:
                raise wrong_line(shown, number, _hint(start) or not_text) from None
            except OSError as error:
                raise InputError(
                    f"{shown}: the file cannot be read ({reason_of(error)})."
                ) from None
            if number == 1:
                line = line.removeprefix("\ufeff")
            line = line.removesuffix("\n").removesuffix("\r")
            if "\0" in line or "\r" in line:
                codes = "this is not a line of a table, but holds control codes"
                raise wrong_line(shown, number, _hint(start) or codes)
            if not line.strip(" "):
                raise wrong_line(shown, number, "the line is blank, and every line is a record")
            yield number, line
    finally:
        if not in_bytes:
            with suppress(OSError, ValueError):
                source.detach()


def _hint(start: bytes) -> str | None:
    """What the first bytes of a file tell about what it is."""
    for mark, what in _MARKS.items():
        if start.startswith(mark):
            return f"this is not text in UTF-8: {what}"
    for ending, pair in (("le", start[1:2]), ("be", start[:1])):
        if pair == b"\0":
            return f"this holds zeros as UTF-16 does; pass --encoding utf-16-{ending}"
    return None
