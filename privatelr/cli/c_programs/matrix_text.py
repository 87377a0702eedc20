"""The files of ``lrsimple`` and ``svmsimple``: numbers separated by any white space.

    n d lambda eps [h]    n rows of d features    n labels, each -1 or 1

The file is read in pieces and nothing is reserved on the word of its header, so memory grows
with what arrives. Every number is the double nearest to what is written.
"""

from __future__ import annotations

import io
import math
import re
from array import array
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import pandas as pd

from privatelr.cli.outcomes import InputError
from privatelr.errors import ArgumentError
from privatelr.mechanisms import LARGEST_EPSILON, LARGEST_LAMBDA, SMALLEST_EPSILON, SMALLEST_LAMBDA
from privatelr.numerics import Huber

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from privatelr.types import FloatArray

LONGEST = 2000
"""Characters of one number; every double can be written out exactly in fewer."""
MOST_ROWS, MOST_COLUMNS = 10**12, 10**4
"""Largest n and d; a minimiser holds matrices of d x d numbers."""
_RANGES = {
    "n": (1, MOST_ROWS),
    "d": (1, MOST_COLUMNS),
    "lambda": (SMALLEST_LAMBDA, LARGEST_LAMBDA),
    "eps": (SMALLEST_EPSILON, LARGEST_EPSILON),
}
_PIECE = 2**20
_WHITE = b" \t\n\v\f\r"
_ONE_A_LINE = bytes.maketrans(_WHITE, b"\n" * len(_WHITE))
_ALPHABET = _WHITE + b"0123456789+-.eE"
_TOKEN = re.compile(rb"\S+")
_NUMBER = re.compile(rb"[+-]?(\d++\.?\d*|\.\d+)([eE][+-]?\d+)?")
_QUOTED = 24
_MARKS = {
    b"\x1f\x8b": "it is compressed by gzip; take its content, as in: gunzip -c FILE | PROGRAM -",
    b"\xff\xfe": "it is text in UTF-16; save it as plain text (ASCII or UTF-8)",
    b"\xfe\xff": "it is text in UTF-16; save it as plain text (ASCII or UTF-8)",
}
_UTF8_MARK = b"\xef\xbb\xbf"
# since 3.1 pandas rounds to the nearest double, which its faster methods did not do before
_PANDAS_IS_EXACT = tuple(int(part) for part in pd.__version__.split(".")[:2]) >= (3, 1)


class MatrixFileError(InputError):
    """A file is not of the published format; the sentence says where, and may quote a number."""


@dataclass(frozen=True, slots=True)
class Header:
    """The numbers that a file begins with; `h` only where the program takes one."""

    n: int
    d: int
    lambda_: float
    epsilon: float
    h: float | None

    @property
    def length(self) -> int:
        """How many numbers the header itself is."""
        return 4 if self.h is None else 5

    @property
    def features(self) -> int:
        """How many numbers come before the labels."""
        return self.length + self.n * self.d

    @property
    def total(self) -> int:
        """How many numbers the file has to hold."""
        return self.features + self.n


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A part of a file that holds whole numbers only, and the line on which it begins."""

    text: bytes
    line: int


def read_header(stream: BinaryIO, names: Sequence[str]) -> tuple[Header, Iterator[TextBlock]]:
    """The header of a file, and the rest of it, yet to be read.

    Parameters
    ----------
    stream : binary file
    names : sequence of str
        ``n``, ``d``, ``lambda``, ``eps`` and, where the program takes it, ``h``.

    Raises
    ------
    MatrixFileError
        If one of these numbers is missing, is no number, or is out of its range.
    """
    pieces = _pieces(stream)
    found: list[float] = []
    line = 1
    for piece in pieces:
        for match in _TOKEN.finditer(piece.text):
            line = piece.line + piece.text.count(b"\n", 0, match.start())
            name = names[len(found)]
            fault = _header_fault(name, match[0])
            if fault:
                raise _at(line, len(found) + 1, name, fault)
            found.append(float(match[0]))
            if len(found) == len(names):
                n, d, lambda_, epsilon, *rest = found
                header = Header(int(n), int(d), lambda_, epsilon, rest[0] if rest else None)
                return header, chain([TextBlock(piece.text[match.end() :], line)], pieces)
        line = piece.line + piece.text.count(b"\n")
    missing = names[len(found)]
    raise MatrixFileError(
        f"line {line}: the file ends before number {len(found) + 1} ({missing}); it takes "
        f"{' '.join(names)}, then the features row by row, then the labels."
    )


def read_rows(
    header: Header, pieces: Iterator[TextBlock], size: int | None = None
) -> tuple[FloatArray, FloatArray]:
    """Features ``(n, d)`` and labels ``(n,)``, which are -1 or 1.

    Parameters
    ----------
    header : Header
    pieces : iterator of TextBlock
        What follows the header; see `read_header`.
    size : int, optional
        Bytes of the whole file, if they are known: too few are refused before anything is read.

    Raises
    ------
    MatrixFileError
        If there are fewer or more numbers than the header promises, something is no number or
        too large for a double, or a label is neither -1 nor 1. The sentence depends on the
        file, which no guarantee covers.
    """
    if size is not None and size < 2 * header.total - 1:
        raise MatrixFileError(
            f"numbers 1 and 2: {_promise(header)}, which {size} bytes cannot hold."
        )
    values = bytearray()
    count, piece = header.length, TextBlock(b"", 1)
    for piece in pieces:
        numbers = _parsed(piece.text)
        if numbers is None or not _fits(numbers, count, header):
            numbers = _one_by_one(piece, count, header)
        values += numbers.tobytes()
        count += len(numbers)
    if count < header.total:
        line = piece.line + piece.text.count(b"\n")
        raise MatrixFileError(
            f"line {line}: the file ends after number {count}, before {_place(count + 1, header)}; "
            f"{_promise(header)}."
        )
    found: FloatArray = np.frombuffer(values, dtype=np.float64)
    split = header.n * header.d
    return found[:split].reshape(header.n, header.d), found[split:]


def _pieces(stream: BinaryIO) -> Iterator[TextBlock]:
    """A file cut at white space, or within a number that is too long to be one."""
    rest, line = b"", 1
    chunk = stream.read(_PIECE)
    for mark, sentence in _MARKS.items():
        if chunk.startswith(mark):
            raise _at(1, 1, "n", f"this is no text: {sentence}")
    chunk = chunk.removeprefix(_UTF8_MARK)
    while chunk:
        text = rest + chunk
        rest = b"" if text[-1:] in _WHITE else text.rsplit(None, 1)[-1]
        if len(rest) > LONGEST:
            rest = b""
        whole = text[: len(text) - len(rest)]
        yield TextBlock(whole, line)
        line += whole.count(b"\n")
        chunk = stream.read(_PIECE)
    yield TextBlock(rest, line)


def _parsed(text: bytes) -> FloatArray | None:
    """The numbers of a text, or None if a look at each of them is called for."""
    if text.isspace() or not text:
        return np.empty(0)
    if text.translate(None, _ALPHABET) or _longest(text) > LONGEST:
        return None
    try:
        numbers = _fast(text) if _PANDAS_IS_EXACT else np.array([*map(float, text.split())])
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None


def _fast(text: bytes) -> FloatArray:
    lines = io.BytesIO(text.translate(_ONE_A_LINE))
    table = pd.read_csv(lines, header=None, dtype=np.float64, na_filter=False, engine="c")
    return np.asarray(table[0].to_numpy())


def _longest(text: bytes) -> int:
    """Characters of the longest run without white space."""
    white = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) <= ord(" "))
    return int(np.diff(white, prepend=-1, append=len(text)).max()) - 1


def _fits(numbers: FloatArray, count: int, header: Header) -> bool:
    """Whether numbers that follow the first `count` are not too many, and their labels labels."""
    labels = numbers[max(header.features - count, 0) :]
    return count + len(numbers) <= header.total and bool((np.abs(labels) == 1).all())


def _one_by_one(piece: TextBlock, count: int, header: Header) -> FloatArray:
    """The numbers of a piece; raises at the first that is at fault."""
    numbers = array("d")
    labels_from, total = header.features, header.total
    for position, match in enumerate(_TOKEN.finditer(piece.text), count + 1):
        token = match[0]
        fault = _fault(token)
        if position > total:
            fault = f"this is one too many; {_promise(header)}"
        elif not fault and position > labels_from and abs(float(token)) != 1:
            fault = (
                f"{_quote(token)} is no label; after a header of {header.length} numbers and "
                f"{header.n} x {header.d} features come labels, each -1 or 1"
            )
        if fault:
            line = piece.line + piece.text.count(b"\n", 0, match.start())
            raise _at(line, position, _place(position, header), fault)
        numbers.append(float(token))
    return np.frombuffer(numbers, dtype=np.float64)


def _fault(token: bytes) -> str:
    """Why something is no number in the range of doubles; empty if it is one."""
    if len(token) > LONGEST:
        return (
            f"{_quote(token)} goes on for more than {LONGEST} characters, which is too long for a "
            "number"
        )
    if not _NUMBER.fullmatch(token):
        hint = "; a decimal point is '.', and white space separates numbers" * (b"," in token)
        return f"{_quote(token)} is not a number{hint}"
    if math.isinf(float(token)):
        return f"{_quote(token)} is too large for a double"
    return ""


def _at(line: int, position: int, place: str, fault: str) -> MatrixFileError:
    """Where a number is at fault, counted from 1, and why."""
    return MatrixFileError(f"line {line}, number {position} ({place}): {fault}.")


def _header_fault(name: str, token: bytes) -> str:
    """Why something is not this number of the header; empty if it is."""
    fault = _fault(token)
    if fault:
        return fault
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


def _place(position: int, header: Header) -> str:
    """What the number at a position of the file is."""
    if position > header.total:
        return "after the last label"
    if position > header.features:
        return f"label of row {position - header.features}"
    row, column = divmod(position - header.length - 1, header.d)
    return f"row {row + 1}, column {column + 1}"


def _promise(header: Header) -> str:
    return f"n={header.n} and d={header.d} promise {header.total} numbers in all"


def _quote(token: bytes) -> str:
    return f"'{_shortened(token)}'"


def _shortened(token: bytes) -> str:
    """Printable, and no longer than a line has room for."""
    text = token[:_QUOTED].decode("ascii", "backslashreplace")
    shown = "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)
    return shown if len(shown) <= _QUOTED and len(token) <= _QUOTED else f"{shown[:_QUOTED]}..."
