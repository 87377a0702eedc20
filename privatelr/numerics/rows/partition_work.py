"""What is computed from one partition: bounded rows, sums over them, and their checksum.

Partitions are those of a Dask collection, on the workers that hold them, or pieces of a stream of
record batches in this process. The same work is done on both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from privatelr.errors import SchemaError
from privatelr.numerics.rows.dense_rows import SUMMED_BLOCKS, DenseRows, added, block_rows
from privatelr.numerics.rows.row_bounds import RowBounds
from privatelr.types import FloatArray, IntArray, Kernel, Reader

_PIECE = 2**15
"""Least number of rows of a partition that are bounded at once, if they are not kept."""
_LANES, _LABEL_LANES, _OFFSET_LANES = (1021, 1019), (1013, 1009), (997, 991)
"""Prime numbers of lanes: a first choice, and one for lengths that the first divides."""


PartOpener = Callable[..., Reader]
"""Makes a reader of a part, or of the rows `start`, `start + stride`, ... of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Bounded rows that stay with a worker, and report their size to it.

    `checksum` is the checksum of all rows, and None for rows that are used only once.
    """

    rows: DenseRows
    checksum: IntArray | None = None

    def __sizeof__(self) -> int:
        return sum(int(table.nbytes) for table in self.rows.tables)


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """How bounded rows are made from a partition, and what is computed from them.

    It is public, and free of data. The length of a partition is known; another length means
    that the data have changed.
    """

    open: PartOpener
    limits: RowBounds

    def rows(self, reader: Reader, *piece: int, memory: FloatArray | None = None) -> DenseRows:
        """Bounded rows of a reader, or of those from one record of it to another."""
        return DenseRows.of(reader, *piece, bounds=self.limits, memory=memory)

    def hold(self, part: Any, length: int) -> Held:
        """All rows of a partition, to be kept."""
        reader = self._reader(part, length)
        rows, owners = self.rows(reader), reader.owners
        if owners is not None:
            rows = rows.of_persons(int(owners.max()) + 1, owners, reader.shares)
        return Held(rows, rows.fold(_checksum_only)[0])

    def of_persons(
        self, part: Any, length: int, function: Callable[[DenseRows], tuple[Any, ...]]
    ) -> tuple[Any, ...]:
        """What a function returns of the rows of a partition, all in memory, and their checksum."""
        held = self.hold(part, length)
        return (*function(held.rows), held.checksum)

    def fold(self, part: Any, length: int, kernel: Kernel) -> tuple[Any, ...]:
        """The sum of what a kernel returns over the blocks of a partition, and their checksum."""
        pieces = self.pieces(part, length)
        return reduce(added, (rows.fold(_with_checksum(kernel)) for rows in pieces))

    def fold_with_shares(self, part: Any, length: int, kernel: Kernel) -> tuple[Any, ...]:
        """The same for a kernel that takes how much of a person each row is, too."""
        reader = self._reader(part, length)
        rows = self.rows(reader)
        found = rows.of_persons(length, None, reader.shares).fold_with_shares(kernel)
        return (*found, rows.fold(_checksum_only)[0])

    def group_sums(
        self, part: Any, length: int, kernel: Kernel, memory: FloatArray
    ) -> list[tuple[Any, ...]]:
        """The same of each group of blocks, which a fold of rows in memory adds one by one.

        One block after the other is in `memory`, where it is read while it is in the cache.
        """
        reader, size, kernel = self._reader(part, length), len(memory), _with_checksum(kernel)

        def group(first: int) -> tuple[Any, ...]:
            stop = min(first + SUMMED_BLOCKS * size, length)
            blocks = ((start, min(start + size, stop)) for start in range(first, stop, size))
            rows = (self.rows(reader, *block, memory=memory) for block in blocks)
            return reduce(added, (each.fold(kernel) for each in rows))

        return [group(first) for first in range(0, length, SUMMED_BLOCKS * size)]

    def thin(self, part: Any, length: int, start: int, stride: int) -> Held:
        """The rows `start`, `start + stride`, ... of a partition; no other is read."""
        self._reader(part, length)
        return Held(self.rows(self.open(part, start, stride)))

    def score(
        self, part: Any, length: int, coef: FloatArray
    ) -> tuple[FloatArray, FloatArray, IntArray]:
        """Linear predictor and label of each usable row of a partition, and its checksum."""
        pieces = self.pieces(part, length)
        found = [(*rows.scores(coef), *rows.fold(_checksum_only)) for rows in pieces]
        link, label, checksums = zip(*found, strict=True)
        return np.concatenate(link), np.concatenate(label), reduce(np.add, checksums)

    def group_rows(self, p: int) -> int:
        """How many rows of p covariates are summed at once: whole blocks, by public facts."""
        return SUMMED_BLOCKS * block_rows(self.limits.width(p))

    def pieces(self, part: Any, length: int) -> Iterator[DenseRows]:
        """The rows of a partition, some at a time."""
        reader = self._reader(part, length)
        # whole groups of blocks, so that a term goes through no more additions than in one piece
        group = self.group_rows(reader.p)
        size = -(-_PIECE // group) * group
        for start in range(0, length, size):
            yield self.rows(reader, start, min(start + size, length))

    def _reader(self, part: Any, length: int) -> Reader:
        reader = self.open(part)
        if reader.n != length:
            raise changed()
        return reader


@dataclass(frozen=True, slots=True, eq=False)
class KeptWork(Work):
    """The same for partitions that are kept as bounded rows."""

    def hold(self, part: Held, length: int) -> Held:
        return part

    def fold(self, part: Held, length: int, kernel: Kernel) -> tuple[Any, ...]:
        return (*part.rows.fold(kernel), part.checksum)

    def thin(self, part: Held, length: int, start: int, stride: int) -> Held:
        tables = (table[start::stride].copy() for table in part.rows.tables)
        return Held(part.rows.with_table(*tables))

    def pieces(self, part: Held, length: int) -> Iterator[DenseRows]:
        yield part.rows


def changed() -> SchemaError:
    """Return the error for data that differ between two passes; it does not say how they differ."""
    return SchemaError(
        "data: they changed while they were read; a fit takes data that stay as they are and come "
        "in the same order, as persist() or a copy keeps them, and a charge that was made for this "
        "fit stands."
    )


def checksum(x: FloatArray, y: FloatArray, *offset: FloatArray) -> IntArray:
    """A number ``(1,)`` of a block of rows; those of blocks are added modulo ``2**64``.

    The bits of the entries are added in lanes, of which there are a prime number, so that the
    entries of a column go to all of them. A value that changes is always noticed, and so are rows
    with other labels that change places, since labels have another prime number of lanes. Entries
    that change places within a lane, a multiple of 1,021 words apart, are not noticed: a second
    sum of all entries would be, and would double what is about as fast as the block can be read.
    It detects accidents, not an attacker, who could change the data anyway. Integers
    give the same sum on every machine, which doubles do not.
    """
    lanes = [_in_lanes(x, _LANES), _in_lanes(y, _LABEL_LANES)]
    lanes += [_in_lanes(table, _OFFSET_LANES) for table in offset]
    words: Any = np.concatenate(lanes)
    words ^= words >> np.uint64(32)  # an even number of signs that change would add up to nothing
    return np.asarray(np.add.reduce(words * _WEIGHTS[: len(words)], keepdims=True))


def in_any_order(x: FloatArray, y: FloatArray, *offset: FloatArray) -> tuple[IntArray]:
    """A kernel: the sum ``(1,)`` of a number of each row, which their order does not change."""
    found: Any = np.zeros(len(x), dtype=np.uint64)
    columns = [*x.T, y, *(table if table.ndim == 1 else table.T for table in offset)]
    for place, column in enumerate(columns):
        words = np.ascontiguousarray(column).view(np.uint64)
        found += (words ^ (words >> np.uint64(29))) * _WEIGHTS[place % len(_WEIGHTS)]
    found ^= found >> np.uint64(32)  # so that two rows do not exchange entries unnoticed
    found *= _WEIGHTS[0]
    return (np.asarray(np.add.reduce(found ^ (found >> np.uint64(29)), keepdims=True)),)


_MOST_LANES = _LANES[0] + _LABEL_LANES[0] + _OFFSET_LANES[0]
_WEIGHTS = np.cumprod(np.full(_MOST_LANES, 0x9E3779B97F4A7C15, dtype=np.uint64))
"""Weights of lanes; they are odd, so that a product modulo ``2**64`` loses no bit."""


def _in_lanes(entries: FloatArray, primes: tuple[int, int]) -> IntArray:
    # not as many lanes as divide the rows: each would hold as many entries of a column as the
    # others, and an even number of signs that change would leave all of them as they are
    lanes = primes[len(entries) % primes[0] == 0]
    words = np.ascontiguousarray(entries).reshape(-1).view(np.uint64)
    full = len(words) // lanes * lanes
    sums = np.add.reduce(words[:full].reshape(-1, lanes), axis=0)
    sums[: len(words) - full] += words[full:]
    return np.asarray(sums)


def _with_checksum(kernel: Kernel) -> Kernel:
    def both(*block: FloatArray) -> tuple[Any, ...]:
        # computed while the block is in the cache, where a second read is cheap
        return (*kernel(*block), checksum(*block))

    return both


def _checksum_only(*block: FloatArray) -> tuple[IntArray]:
    return (checksum(*block),)
