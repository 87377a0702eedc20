"""Work on the partitions of a Dask collection, on the workers that hold them, and its graphs.

Tasks and their arguments can be sent to workers. Their names are random and never depend
on what they read. A task that fails returns the reason: a scheduler that receives an exception
writes the arguments of the task to its log.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple, Protocol

import numpy as np

from privatelr.dask_cluster import Bar, client_in_charge, evaluated, wait_for
from privatelr.errors import PrivateLRError, SchemaError, redact_errors
from privatelr.numerics.parallel import in_order, threads
from privatelr.numerics.rows.dense_rows import SUMMED_BLOCKS, DenseRows, added, block_rows
from privatelr.numerics.rows.row_bounds import RowBounds
from privatelr.types import FloatArray, IntArray, Kernel, Reader

_UNREAD = "a partition could not be read or summed"
_FAN = 8
"""Number of results that one task adds up, in pairs."""


# --- graphs ---------------------------------------------------------------------------------


class Failure(NamedTuple):
    """The result of a task that failed; it holds public facts only."""

    kind: type[PrivateLRError]
    message: str


def attempt(step: Callable[..., Any], work: Work, part: Any, *given: Any) -> Any:
    """Do a step of the work on a partition; returns a failure, which quotes no data, on error.

    A task has one thread: others are busy with other partitions.
    """
    if isinstance(part, Failure):
        return part
    try:
        with np.errstate(all="ignore"), threads(1), redact_errors(_UNREAD):
            return step(work, part, *given)
    except PrivateLRError as error:
        return Failure(type(error), str(error))


def new_name(purpose: str) -> str:
    """A name for the tasks of one graph."""
    return f"privatelr-{purpose}-{uuid.uuid4().hex}"


def constant(value: Any, purpose: str) -> Any:
    """Return a node that holds `value`, which every task of a graph can share."""
    from dask.delayed import delayed

    return delayed(value, name=new_name(purpose), pure=False, traverse=False)


def task(function: Callable[..., Any], name: str, place: tuple[int, ...], *given: Any) -> Any:
    """The node that calls a function, under a name and its place in the graph."""
    from dask.delayed import delayed

    return delayed(function, pure=False)(*given, dask_key_name="-".join([name, *map(str, place)]))


def tree_sum(nodes: Sequence[Any], name: str) -> Any:
    """Return a node that adds up k tuples; a term goes through about ``log2(k)`` additions.

    The order of additions is fixed, so the sum does not depend on which task is done first.
    """
    level = 0
    while len(nodes) > 1:
        level += 1
        groups = [nodes[start : start + _FAN] for start in range(0, len(nodes), _FAN)]
        nodes = [task(_pairwise, name, (level, i), *group) for i, group in enumerate(groups)]
    return nodes[0]


def _pairwise(*given: Any) -> Any:
    failed = next((result for result in given if isinstance(result, Failure)), None)
    if failed is not None:
        return failed
    results: Sequence[Any] = given
    while len(results) > 1:
        pairs = [results[start : start + 2] for start in range(0, len(results), 2)]
        results = [reduce(added, pair) for pair in pairs]
    return results[0]


def computed(nodes: Sequence[Any], bar: bool = False) -> list[Any]:
    """What the nodes evaluate to on the scheduler in charge, in one graph.

    Raises
    ------
    PrivateLRError
        If a task failed: the first failure, in the order of the nodes.
    """
    # threads of the library are limited here and not in each task: a process has one setting
    with redact_errors(_UNREAD):
        (results,) = in_order(lambda _: evaluated(nodes, bar=bar), (0,))
    failed = next((result for result in results if isinstance(result, Failure)), None)
    if failed is not None:
        raise failed.kind(failed.message)
    return list(results)


def persisted(nodes: Sequence[Any], bar: bool = False) -> tuple[Any, ...]:
    """The nodes, whose values stay where they are computed."""
    import dask

    client = client_in_charge()
    with redact_errors(_UNREAD), Bar() if bar and client is None else nullcontext():
        (found,) = in_order(lambda _: dask.persist(*nodes), (0,))
        if bar and client is not None:
            from distributed import futures_of

            wait_for(client, futures_of(found), bar=True)
    return tuple(found)


# --- steps ----------------------------------------------------------------------------------


_PIECE = 2**15
"""Least number of rows of a partition that are bounded at once, if they are not kept."""
_LANES, _LABEL_LANES, _OFFSET_LANES = (1021, 1019), (1013, 1009), (997, 991)
"""Prime numbers of lanes: a first choice, and one for lengths that the first divides."""
_WEIGHTS: IntArray = np.cumprod(np.full(3 * 1021, 0x9E3779B97F4A7C15, dtype=np.uint64))
"""Weights of the lanes; they are odd, so that a product modulo ``2**64`` loses no bit."""


class PartOpener(Protocol):
    """Makes a reader of a partition, or of the rows `start`, `start + stride`, ... of it."""

    def __call__(self, part: Any, start: int = 0, stride: int = 1) -> Reader: ...


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

    def rows(self, reader: Reader, *piece: int) -> DenseRows:
        """Bounded rows of a reader, or of those from one record of it to another."""
        return DenseRows.of(reader, *piece, bounds=self.limits)

    def hold(self, part: Any, length: int) -> Held:
        """All rows of a partition, to be kept."""
        if isinstance(part, Held):
            return part
        reader = self._reader(part, length)
        rows, sharing = self.rows(reader), getattr(reader, "sharing", None)
        if sharing is not None:
            owners = sharing.owners
            rows = rows.of_persons(int(owners.max()) + 1, owners, sharing.shares)
        return Held(rows, rows.fold(_checksum_only)[0])

    def of_persons(
        self, part: Any, length: int, function: Callable[[DenseRows], tuple[Any, ...]]
    ) -> tuple[Any, ...]:
        """What a function returns of the rows of a partition, all in memory, and their checksum."""
        held = self.hold(part, length)
        return (*function(held.rows), held.checksum)

    def fold(self, part: Any, length: int, kernel: Kernel) -> tuple[Any, ...]:
        """The sum of what a kernel returns over the blocks of a partition, and their checksum."""
        if isinstance(part, Held):
            return (*part.rows.fold(kernel), part.checksum)

        def both(*block: FloatArray) -> tuple[Any, ...]:
            # computed while the block is in the cache, where a second read is cheap
            return (*kernel(*block), checksum(*block))

        return reduce(added, (rows.fold(both) for rows in self._pieces(part, length)))

    def thin(self, part: Any, length: int, start: int, stride: int) -> Held:
        """The rows `start`, `start + stride`, ... of a partition; no other is read."""
        if isinstance(part, Held):
            tables = (table[start::stride].copy() for table in part.rows.tables)
            return Held(part.rows.with_table(*tables))
        self._reader(part, length)
        return Held(self.rows(self.open(part, start, stride)))

    def score(
        self, part: Any, length: int, coef: FloatArray
    ) -> tuple[FloatArray, FloatArray, IntArray]:
        """Linear predictor and label of each usable row of a partition, and its checksum."""
        pieces = self._pieces(part, length)
        found = [(*rows.scores(coef), *rows.fold(_checksum_only)) for rows in pieces]
        link, label, checksums = zip(*found, strict=True)
        return np.concatenate(link), np.concatenate(label), reduce(np.add, checksums)

    def _pieces(self, part: Any, length: int) -> Iterator[DenseRows]:
        """The rows of a partition; a few at a time, unless they are in memory anyway."""
        if isinstance(part, Held):
            yield part.rows
            return
        reader = self._reader(part, length)
        # whole groups of blocks, so that a term goes through no more additions than in one piece
        group = SUMMED_BLOCKS * block_rows(self.limits.width(reader.p))
        size = -(-_PIECE // group) * group
        for start in range(0, length, size):
            yield self.rows(reader, start, min(start + size, length))

    def _reader(self, part: Any, length: int) -> Reader:
        reader = self.open(part)
        if reader.n != length:
            raise changed()
        return reader


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


def _in_lanes(entries: FloatArray, primes: tuple[int, int]) -> IntArray:
    # not as many lanes as divide the rows: each would hold as many entries of a column as the
    # others, and an even number of signs that change would leave all of them as they are
    lanes = primes[len(entries) % primes[0] == 0]
    words = np.ascontiguousarray(entries).reshape(-1).view(np.uint64)
    full = len(words) // lanes * lanes
    sums = np.add.reduce(words[:full].reshape(-1, lanes), axis=0)
    sums[: len(words) - full] += words[full:]
    return np.asarray(sums)


def _checksum_only(*block: FloatArray) -> tuple[IntArray]:
    return (checksum(*block),)
