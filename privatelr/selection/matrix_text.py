"""The files of ``lrsimple`` and ``svmsimple``: numbers separated by any white space.

    n d lambda eps [h]    n rows of d features    n labels, each -1 or 1

The file is read in pieces. No memory is reserved because of its header, which may be wrong, so
memory grows with the part that has been read. Every number is the double nearest to its text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO, NamedTuple

import numpy as np

from privatelr.errors import ArgumentError, PrivateLRError
from privatelr.mechanisms import LARGEST_EPSILON, LARGEST_LAMBDA, SMALLEST_EPSILON, SMALLEST_LAMBDA
from privatelr.numerics import Huber
from privatelr.types import FloatArray

LONGEST = 2000
"""A number has at most this number of characters; every double has a shorter exact text."""
MOST_ROWS, MOST_COLUMNS = 10**12, 10**4
"""n and d are at most these; d is limited because a minimiser uses matrices of d x d numbers."""
PIECE = 2**20
"""A file is read in pieces of this number of bytes."""
_RANGES = {
    "n": (1, MOST_ROWS),
    "d": (1, MOST_COLUMNS),
    "lambda": (SMALLEST_LAMBDA, LARGEST_LAMBDA),
    "eps": (SMALLEST_EPSILON, LARGEST_EPSILON),
}
_WHITE = b" \t\n\v\f\r"
_ALPHABET = _WHITE + b"0123456789+-.eE"
_NUMBER = re.compile(rb"[+-]?(\d++\.?\d*|\.\d+)([eE][+-]?\d+)?")
_QUOTED = 24
"""An error quotes at most this number of characters of a token."""
_UTF16 = "it is text in UTF-16; save it as plain text (ASCII or UTF-8)"
_MARKS = {
    b"\x1f\x8b": "it is compressed by gzip; take its content, as in: gunzip -c FILE | PROGRAM -",
    b"\xff\xfe": _UTF16,
    b"\xfe\xff": _UTF16,
}
_UTF8_MARK = b"\xef\xbb\xbf"


class MatrixFileError(PrivateLRError, ValueError):
    """A file does not have the published format; the message says where, and may quote a number."""


@dataclass(frozen=True, slots=True)
class Header:
    """The numbers at the start of a file; `h` is None for a program without it."""

    n: int
    d: int
    lambda_: float
    epsilon: float
    h: float | None = None

    @property
    def length(self) -> int:
        """The number of numbers in the header."""
        return 4 if self.h is None else 5

    @property
    def total(self) -> int:
        """The number of numbers that the file must contain, with the header."""
        return self.length + self.n * (self.d + 1)

    @property
    def promise(self) -> str:
        """The number of numbers that the file must contain, in words."""
        return f"n={self.n} and d={self.d} promise {self.total} numbers in all"

    def place(self, position: int) -> str:
        """The meaning of the number at a position of the file, in words."""
        label = position - (self.total - self.n)
        if label > 0:
            return f"label of row {label}" if label <= self.n else "after the last label"
        row, column = divmod(position - self.length - 1, self.d)
        return f"row {row + 1}, column {column + 1}"

    def takes(self, numbers: FloatArray, count: int) -> bool:
        """Whether the file may go on with these numbers after its first `count` numbers.

        They must not be too many, and those that are labels must be -1 or 1.
        """
        labels = numbers[max(self.total - self.n - count, 0) :]
        return count + len(numbers) <= self.total and bool((np.abs(labels) == 1).all())

    def fault(self, position: int, token: bytes) -> str:
        """The reason why a token is wrong at a position after the header; empty if it is not."""
        if position > self.total:
            return f"this is one too many; {self.promise}"
        fault = _fault(token)
        if fault or position <= self.total - self.n or abs(float(token)) == 1:
            return fault
        return (
            f"'{_shortened(token)}' is no label; after a header of {self.length} numbers and "
            f"{self.n} x {self.d} features come labels, each -1 or 1"
        )


class TextBlock(NamedTuple):
    """A part of a file that does not cut a number in two, and the line on which it begins."""

    text: bytes
    line: int

    def line_at(self, end: int | None = None) -> int:
        """The line on which the text after its first `end` characters begins; by default all."""
        return self.line + self.text.count(b"\n", 0, end)


def read_header(stream: BinaryIO, names: Sequence[str]) -> tuple[Header, Iterator[TextBlock]]:
    """The header of a file, and an iterator over the rest of it.

    Parameters
    ----------
    stream : binary file
    names : sequence of str
        ``n``, ``d``, ``lambda``, ``eps`` and, for a program with this number, ``h``.

    Raises
    ------
    MatrixFileError
        If one of these numbers is missing, is not a number, or is out of its range.
    """

    def fault(position: int, token: bytes) -> str:
        return _fault(token) or _out_of_range(names[position - 1], token)

    pieces, found, piece = _pieces(stream), list[float](), TextBlock(b"", 1)
    for piece in pieces:
        for match in _one_by_one(piece, len(found), lambda at: names[at - 1], fault):
            found.append(float(match[0]))
            if len(found) == len(names):
                n, d, *others = found
                rest = TextBlock(piece.text[match.end() :], piece.line_at(match.end()))
                return Header(int(n), int(d), *others), chain([rest], pieces)
    raise MatrixFileError(
        f"line {piece.line_at()}: the file ends before number {len(found) + 1} "
        f"({names[len(found)]}); it takes {' '.join(names)}, then the features row by row, then "
        "the labels."
    )


def read_rows(header: Header, pieces: Iterator[TextBlock]) -> tuple[FloatArray, FloatArray]:
    """Features ``(n, d)`` and labels ``(n,)``, which are -1 or 1.

    Parameters
    ----------
    header : Header
    pieces : iterator of TextBlock
        The text after the header; see `read_header`.

    Raises
    ------
    MatrixFileError
        If there are fewer or more numbers than the header says, a token is not a number or is too
        large for a double, or a label is neither -1 nor 1. The message depends on the content of
        the file, and no guarantee covers it.
    """
    values, count, piece = bytearray(), header.length, TextBlock(b"", 1)
    for piece in pieces:
        numbers = _parsed(piece.text)
        if numbers is None or not header.takes(numbers, count):
            tokens = _one_by_one(piece, count, header.place, header.fault)
            numbers = np.fromiter((float(match[0]) for match in tokens), np.float64)
        values += numbers.tobytes()
        count += len(numbers)
    if count < header.total:
        raise MatrixFileError(
            f"line {piece.line_at()}: the file ends after number {count}, before "
            f"{header.place(count + 1)}; {header.promise}."
        )
    x, y = np.split(np.frombuffer(values), [header.n * header.d])
    return x.reshape(header.n, header.d), y


def _pieces(stream: BinaryIO) -> Iterator[TextBlock]:
    """The blocks of a file, cut at white space, or within a token that is too long for a number."""
    chunk, rest, line = stream.read(PIECE), b"", 1
    for mark, sentence in _MARKS.items():
        if chunk.startswith(mark):
            raise MatrixFileError(f"line 1, number 1 (n): this is no text: {sentence}.")
    chunk = chunk.removeprefix(_UTF8_MARK)
    while chunk:
        text = rest + chunk
        rest = b"" if text[-1:] in _WHITE else text.rsplit(None, 1)[-1]
        rest = rest if len(rest) <= LONGEST else b""
        whole = text[: len(text) - len(rest)]
        yield TextBlock(whole, line)
        line += whole.count(b"\n")
        chunk = stream.read(PIECE)
    yield TextBlock(rest, line)


def _parsed(text: bytes) -> FloatArray | None:
    """The numbers of a text, or None if its tokens must be read one by one to find an error."""
    tokens = text.split()
    if text.translate(None, _ALPHABET) or max(map(len, tokens), default=0) > LONGEST:
        return None
    try:
        numbers = np.array([*map(float, tokens)], dtype=np.float64)
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None


def _one_by_one(
    piece: TextBlock,
    count: int,
    place: Callable[[int], str],
    fault: Callable[[int, bytes], str],
) -> Iterator[re.Match[bytes]]:
    """Yield the tokens of a text that follows `count` numbers; raises an error at a wrong one."""
    for position, match in enumerate(re.finditer(rb"\S+", piece.text), count + 1):
        if reason := fault(position, match[0]):
            line = piece.line_at(match.start())
            raise MatrixFileError(f"line {line}, number {position} ({place(position)}): {reason}.")
        yield match


def _fault(token: bytes) -> str:
    """The reason why a token is not a number in the range of doubles; empty if it is one."""
    quoted = f"'{_shortened(token)}'"
    if len(token) > LONGEST:
        most = f"{LONGEST} characters"
        return f"{quoted} goes on for more than {most}, which is too long for a number"
    if not _NUMBER.fullmatch(token):
        hint = "; a decimal point is '.', and white space separates numbers" * (b"," in token)
        return f"{quoted} is not a number{hint}"
    return f"{quoted} is too large for a double" if math.isinf(float(token)) else ""


def _out_of_range(name: str, token: bytes) -> str:
    """The reason why a number is out of the range of this header entry; empty if it is not."""
    number = float(token)
    if name == "h":
        try:
            Huber(number)
        except ArgumentError as refusal:
            return str(refusal).rstrip(".")
        return ""
    least, most = _RANGES[name]
    whole = name in ("n", "d")
    if least <= number <= most and (number.is_integer() or not whole):
        return ""
    takes = f"a whole number from 1 to {most}" if whole else f"a number from {least:g} to {most:g}"
    return f"{name}={_shortened(token)}: {name} takes {takes}"


def _shortened(token: bytes) -> str:
    """A token as printable text that is short enough for an error message."""
    text = token[:_QUOTED].decode("ascii", "backslashreplace")
    shown = "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)
    return shown if len(shown) <= _QUOTED and len(token) <= _QUOTED else f"{shown[:_QUOTED]}..."
