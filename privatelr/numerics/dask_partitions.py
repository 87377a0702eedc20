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
    from collections.abc import Iterator

    from privatelr.numerics.limits import Limits
    from privatelr.types import FloatArray, Kernel, Reader

_PIECE = 2**15
"""Rows of a partition that are bounded at once, at least, where they are not kept."""


class PartOpener(Protocol):
    """Makes a reader of a partition, or of the rows `start`, `start + stride`, ... of it."""

    def __call__(self, part: Any, start: int = 0, stride: int = 1) -> Reader: ...


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Bounded rows that stay with a worker, and tell it how large they are."""

    rows: DenseRows

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
            raise SchemaError(
                f"data: a partition of {length} records has {reader.n} when it is read again; a "
                "fit takes data that stays as it is."
            )
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
    return guarded(lambda: Held(work.whole(part, length)))


def fold(work: Work, kernel: Kernel, part: Any, length: int) -> tuple[Any, ...] | Failure:
    """The sum of what a kernel returns over the blocks of a partition."""
    if isinstance(part, Failure):
        return part
    return guarded(lambda: reduce(added, (rows.fold(kernel) for rows in work.pieces(part, length))))


def thin(work: Work, part: Any, length: int, start: int, stride: int) -> Held | Failure:
    """Some rows of a partition, at equal distances."""
    if isinstance(part, Failure):
        return part
    return guarded(lambda: Held(work.thin(part, length, start, stride)))


def score(
    work: Work, coef: FloatArray, part: Any, length: int
) -> tuple[FloatArray, FloatArray] | Failure:
    """Linear predictor and label of each usable row of a partition."""
    if isinstance(part, Failure):
        return part
    return guarded(lambda: _joined([rows.scores(coef) for rows in work.pieces(part, length)]))


def _joined(pairs: list[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
    first, second = (np.concatenate(arrays) for arrays in zip(*pairs, strict=True))
    return first, second


def stacked(pieces: list[DenseRows]) -> DenseRows:
    """Rows below each other, which stay as long as they are."""
    x = np.concatenate([rows.x for rows in pieces])
    return pieces[0].with_table(x, np.concatenate([rows.y for rows in pieces]))
