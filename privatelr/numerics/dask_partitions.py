"""What is done to one partition, where it is: rows are made of it, folded, thinned or scored.

These functions are the tasks of a graph. They and all that they are given can travel.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from privatelr.errors import SchemaError
from privatelr.numerics.dask_graph import Failure, guarded
from privatelr.numerics.rows import SUMMED_BLOCKS, DenseRows, added, block_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from privatelr.numerics.limits import Limits
    from privatelr.types import FloatArray, IntArray, Kernel, Reader

_PIECE = 2**15
"""Rows of a partition that are bounded at once, at least, where they are not kept."""
_LANES, _LABEL_LANES = (1021, 1019), (1013, 1009)
"""Prime numbers: a first choice, and one for rows that the first divides."""
_WEIGHTS: IntArray = np.cumprod(np.full(2 * 1021, 0x9E3779B97F4A7C15, dtype=np.uint64))
"""Odd, so that no product forgets a bit."""
_CHANGED = (
    "data: they changed while they were read; a fit takes data that stay as they are and come in "
    "the same order, as persist() or a copy keeps them, and a charge that was made for this fit "
    "stands."
)


class PartOpener(Protocol):
    """Makes a reader of a partition, or of the rows `start`, `start + stride`, ... of it."""

    def __call__(self, part: Any, start: int = 0, stride: int = 1) -> Reader: ...


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Bounded rows that stay with a worker, and tell it how large they are.

    `checksum` is that of all of them, and None for a part that is looked at once.
    """

    rows: DenseRows
    checksum: IntArray | None = None

    def __sizeof__(self) -> int:
        return int(self.rows.x.nbytes + self.rows.y.nbytes)


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """How a partition is made into bounded rows; public, and free of data."""

    open: PartOpener
    limits: Limits

    def rows(self, reader: Reader) -> DenseRows:
        return DenseRows.held(reader, self.limits)

    def pieces(self, part: Any, length: int) -> Iterator[DenseRows]:
        """The rows of a partition; a few at a time, unless they are in memory anyway."""
        if isinstance(part, Held):
            yield part.rows
            return
        reader = self._reader(part, length)
        # whole groups of blocks, so that a term goes through no more additions than in one piece
        group = SUMMED_BLOCKS * block_rows(self.limits.width(reader.p))
        size = -(-_PIECE // group) * group
        for start in range(0, length, size):
            yield self.rows(_Piece(reader, start, min(start + size, length)))

    def whole(self, part: Any, length: int) -> DenseRows:
        """All rows of a partition at once."""
        return part.rows if isinstance(part, Held) else self.rows(self._reader(part, length))

    def thin(self, part: Any, length: int, start: int, stride: int) -> DenseRows:
        """The rows `start`, `start + stride`, ... of a partition; no other is read."""
        if isinstance(part, Held):
            rows = part.rows
            return rows.with_table(rows.x[start::stride].copy(), rows.y[start::stride].copy())
        self._reader(part, length)
        return self.rows(self.open(part, start, stride))

    def _reader(self, part: Any, length: int) -> Reader:
        reader = self.open(part)
        if reader.n != length:
            raise changed()
        return reader


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """The records from `first` to `stop` of a reader."""

    reader: Reader
    first: int
    stop: int

    @property
    def n(self) -> int:
        return self.stop - self.first

    @property
    def p(self) -> int:
        return self.reader.p

    def read(self, start: int, stop: int) -> tuple[FloatArray, FloatArray]:
        return self.reader.read(self.first + start, self.first + stop)


def hold(work: Work, part: Any, length: int) -> Held | Failure:
    """All rows of a partition, to be kept."""
    if isinstance(part, Failure | Held):
        return part
    return guarded(lambda: _kept(work.whole(part, length)))


def _kept(rows: DenseRows) -> Held:
    return Held(rows, rows.fold(_checksum_only)[0])


def fold(work: Work, kernel: Kernel, part: Any, length: int) -> tuple[Any, ...] | Failure:
    """The sum of what a kernel returns over the blocks of a partition, and their checksum."""
    if isinstance(part, Failure):
        return part
    if isinstance(part, Held):
        return guarded(lambda: (*part.rows.fold(kernel), part.checksum))

    def both(x: FloatArray, y: FloatArray) -> tuple[Any, ...]:
        # while a block is in the cache, where reading it again costs least
        return (*kernel(x, y), checksum(x, y))

    return guarded(lambda: reduce(added, (rows.fold(both) for rows in work.pieces(part, length))))


def thin(work: Work, part: Any, length: int, start: int, stride: int) -> Held | Failure:
    """Some rows of a partition, at equal distances."""
    if isinstance(part, Failure):
        return part
    return guarded(lambda: Held(work.thin(part, length, start, stride)))


def score(
    work: Work, coef: FloatArray, part: Any, length: int
) -> tuple[FloatArray, FloatArray, IntArray] | Failure:
    """Linear predictor and label of each usable row of a partition, and its checksum."""
    if isinstance(part, Failure):
        return part
    return guarded(lambda: _scored(work.pieces(part, length), coef))


def _scored(
    pieces: Iterable[DenseRows], coef: FloatArray
) -> tuple[FloatArray, FloatArray, IntArray]:
    found = [(*rows.scores(coef), rows.fold(_checksum_only)[0]) for rows in pieces]
    link, label, checksums = zip(*found, strict=True)
    return np.concatenate(link), np.concatenate(label), reduce(np.add, checksums)


def changed() -> SchemaError:
    """What is said of data that are not the same in two passes: that, and not how."""
    return SchemaError(_CHANGED)


def checksum(x: FloatArray, y: FloatArray) -> IntArray:
    """A number ``(1,)`` of a block of rows; those of blocks are added modulo ``2**64``.

    The bits of the entries are added in lanes, of which there are a prime number, so that the
    entries of a column go to all of them, and what changes places changes lanes. Labels have
    another prime number, so that rows which change places change lanes in one of the two. That
    is about as fast as the block can be read. It finds accidents; whoever can choose the data
    twice does not need a collision. Whole numbers give the same sum on every machine, which
    doubles do not.
    """
    words: Any = np.concatenate([_in_lanes(x, _LANES), _in_lanes(y, _LABEL_LANES)])
    words ^= words >> np.uint64(32)  # an even number of signs that change would add up to nothing
    return np.asarray(np.add.reduce(words * _WEIGHTS[: len(words)], keepdims=True))


def _in_lanes(entries: FloatArray, primes: tuple[int, int]) -> IntArray:
    # not as many lanes as divide the rows: each would hold as many entries of a column as the
    # others, and an even number of signs that change would leave all of them as they are
    lanes = primes[len(entries) % primes[0] == 0]
    words = np.ascontiguousarray(entries).reshape(-1).view(np.uint64)
    full = len(words) // lanes * lanes
    sums = np.add.reduce(words[:full].reshape(-1, lanes), axis=0)
    sums[: len(words) - full] += words[full:]
    return np.asarray(sums)


def _checksum_only(x: FloatArray, y: FloatArray) -> tuple[IntArray]:
    return (checksum(x, y),)


def stacked(pieces: list[DenseRows]) -> DenseRows:
    """Rows below each other, which stay as long as they are."""
    x = np.concatenate([rows.x for rows in pieces])
    return pieces[0].with_table(x, np.concatenate([rows.y for rows in pieces]))
