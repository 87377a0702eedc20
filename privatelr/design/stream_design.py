"""Streams of record batches as data: the public facts of a table, and its pieces.

Names and types come from the schema, so planning a fit does not look at the data. The number of
records is counted once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, ClassVar, TypeVar

import numpy as np

from privatelr.design import persons
from privatelr.design.formula_design import BatchReader, DesignSpec
from privatelr.design.offsets_and_weights import read_person_shares
from privatelr.design.persons import Owners, marked, owners_in, require_identities
from privatelr.errors import ReaderError, SchemaError, redact_errors
from privatelr.formula import Formula, Person
from privatelr.progress_line import ProgressLine
from privatelr.sources import Batch, RecordBatches, as_batch, as_stream, dispatch, is_stream
from privatelr.types import FloatArray, IntArray, Rows

T = TypeVar("T")
_AT_ONCE = 2**17
"""Rows of a piece that a function is applied to."""
CHANGED = (
    "data: they changed while they were read; a fit takes data that stay as they are and come in "
    "the same order, and a charge that was made for this call stands."
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StreamTable:
    """A stream whose names, types and number of records are known.

    Attributes
    ----------
    typed : Batch
        The columns and their types, without rows. A plan is made from it.
    source : RecordBatches
    person : Person or None
        Who records are of, by a column; None if each is of its own.
    named : tuple of str
        The columns that are read, one of which tells how many records there are; any, if none.
    """

    typed: Batch
    source: RecordBatches
    person: Person | None = None
    named: tuple[str, ...] = ()
    _counted: list[int] = field(default_factory=list)
    _owned: list[Owners] = field(default_factory=list)

    def __len__(self) -> int:
        """Return the number of records, or of persons; the first call reads a column."""
        return self.records if self.person is None else self.owners.persons

    @property
    def records(self) -> int:
        """The number of records; the first call counts them."""
        if not self._counted:
            self._counted.append(self.source.count(self.named))
        if self._counted[0] == 0:
            raise SchemaError("data is empty: a fit takes at least one record.")
        return self._counted[0]

    @property
    def owners(self) -> Owners:
        """Who the records are of; the first call reads their column."""
        if not self._owned:
            assert self.person is not None
            name = self.person.column
            with (
                closing(self.pieces([name])) as pieces,
                redact_errors("its persons could not be counted"),
            ):
                tables = (table for table, _ in pieces)
                self._owned.append(owners_in(tables, self.typed, name, self.records))
        return self._owned[0]

    index_names: ClassVar[tuple[str, ...]] = ()
    """A stream has no index."""

    def counted_by(self, names: tuple[str, ...]) -> StreamTable:
        """The same table, whose records are counted along the shortest of these columns."""
        return replace(self, named=names)

    def of_persons(self, person: Person) -> StreamTable:
        """The same table by persons; raises `SchemaError` if no values of the column tell them."""
        require_identities(person.column, self.typed.frame[person.column].dtype)
        return replace(self, person=person)

    def pieces(
        self, names: Sequence[str], size: int = _AT_ONCE
    ) -> Generator[tuple[Any, int], None, None]:
        """Read all records once: tables with the columns `names`, and the length of each.

        Raises
        ------
        SchemaError
            If there are more or fewer of them than were counted.
        """
        return self._as_counted(self.source.pieces(names, size), len)

    def parts(
        self, names: Sequence[str], size: int
    ) -> Generator[tuple[list[Batch], int], None, None]:
        """Read all records once: rows of neighbouring batches, and how many; see `pieces`.

        Records of persons have their shares.
        """
        read = self.source.parts if self.person is None else self._shared
        return self._as_counted(read(names, size), lambda held: sum(map(len, held)))

    def _shared(self, names: Sequence[str], size: int) -> Generator[list[Batch], None, None]:
        """Read rows with the shares of records, whose persons have to be those that were counted.

        Persons are compared in every pass: rows that were read before tell who they are of by their
        places alone.
        """
        assert self.person is not None
        name, owners = self.person.column, self.owners
        shares, first, mark = persons.shares_of(owners.sizes, self.person.most), 0, 0

        def given(batch: Batch) -> Batch:
            nonlocal first, mark
            mark += marked(batch[name], first)
            found = shares[owners.of_records[first : first + len(batch)]]
            if len(found) < len(batch):
                raise SchemaError(CHANGED)
            first += len(batch)
            return replace(batch, shares=found)

        yield from self.source.parts(tuple(dict.fromkeys((*names, name))), size, given)
        if mark % 2**64 != owners.mark:
            raise SchemaError(CHANGED)

    def _as_counted(
        self, pieces: Generator[T, None, None], length: Callable[[T], int]
    ) -> Generator[tuple[T, int], None, None]:
        missing = self.records
        with closing(pieces):
            for piece in pieces:
                count = length(piece)
                missing -= count
                if missing < 0:
                    break
                yield piece, count
        if missing:
            raise ReaderError(CHANGED)

    def over(self, names: Sequence[str], function: Callable[[Batch], Any]) -> list[Any]:
        """Apply a function that reads the columns `names` to each piece, and return its results."""
        unread = "a batch could not be read; a charge that was made for this call stands"
        if self.person is not None:
            with closing(self.parts(names, _AT_ONCE)) as parts, redact_errors(unread):
                return [function(batch) for held, _ in parts for batch in held]
        with closing(self.pieces(names)) as pieces, redact_errors(unread):
            return [function(as_batch(table)) for table, _ in pieces]

    def kept(self, names: Sequence[str], room: float = math.inf) -> Batch | None:
        """Return all records in memory, with the columns `names` alone; None if texts are too long.

        Parameters
        ----------
        room : float
            Bytes that the columns may take.
        """
        import pyarrow as pa

        tables, size = [], 0
        with closing(self.pieces(names)) as pieces:
            for table, _ in pieces:
                size += table.nbytes
                if size > room:
                    return None
                tables.append(table)
        with redact_errors("its batches could not be kept in memory"):
            return as_batch(pa.concat_tables(tables).combine_chunks())


def read_stream_source(
    first: Any, second: Any, target: str | int | None
) -> tuple[str | Formula, StreamTable]:
    """Return formula and table of a call with a stream as an argument; see `dispatch`."""
    is_second = is_stream(second)
    if not is_second and second is not None:
        raise SchemaError(
            "data: a stream of records holds the response as well as the covariates; name it by a "
            "formula or by target=."
        )
    if is_second and not (first is None or isinstance(first, str | Formula)):
        raise SchemaError(
            "y: beside a stream of records there is no y; name the column of the response by a "
            "formula or by target=."
        )
    source = as_stream(second if is_second else first)
    frame = source.typed.frame
    first, second = (first, frame) if is_second else (frame, None)
    formula, typed = dispatch(first, second, target)
    return formula, StreamTable(typed, source)


def read_stream_design(
    spec: DesignSpec, table: StreamTable, backend: Any, *, bar: bool = False
) -> Rows:
    """Read the rows of a stream under a plan, as `read_design` reads those of a frame.

    Parameters
    ----------
    backend
        Makes bounded rows from a `PieceReader`, as a `RowsBackend` does from a frame.
    bar : bool
        Whether to show a progress line for each pass.

    Notes
    -----
    **Privacy.** *Covered*: nothing by itself, the rows are as private as the data.
    *Neighbours*: changing one record changes one row. *Assumed public*: the number of records,
    names, types, bounds and levels. *Not covered*: time and memory.
    """
    rows: Rows = backend.of(PieceReader(spec, table, table.records, bar), **spec.limits)
    return rows


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PieceReader:
    """The labelled covariates of a stream, piece by piece."""

    spec: DesignSpec
    table: StreamTable
    n: int
    bar: bool = False

    @property
    def p(self) -> int:
        return self.spec.p

    @property
    def persons(self) -> int | None:
        """The number of persons; None if each record is of its own."""
        return None if self.table.person is None else len(self.table)

    @property
    def owners(self) -> IntArray:
        """The number ``(n,)`` of the person, from 0, whose record it is."""
        return self.table.owners.of_records

    @property
    def open(self) -> Callable[..., NeighboursReader]:
        """Return a function that makes a reader of a piece; it holds no data."""
        return functools.partial(open_parts, self.spec)

    def pieces(self, size: int) -> Generator[tuple[list[Batch], int], None, None]:
        """Read all records anew; see `StreamTable.parts`."""
        pieces = self.table.parts(self.spec.formula.variables, size)
        return self._shown(pieces) if self.bar else pieces

    def _shown(
        self, pieces: Generator[tuple[Any, int], None, None]
    ) -> Generator[tuple[Any, int], None, None]:
        """Show how many of the records were taken; of persons, how many of these that makes."""
        public = (self.n,) if self.persons is None else (self.persons, "persons")
        line, done = ProgressLine("reading batches", *public), 0
        try:
            with closing(pieces):
                for piece in pieces:
                    yield piece
                    done += piece[1]
                    line.show(min(done / self.n, 1.0))
        finally:
            line.remove()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NeighboursReader:
    """The labelled covariates of neighbouring batches, read as if they were one."""

    spec: DesignSpec
    batches: Sequence[Batch]

    @property
    def n(self) -> int:
        return sum(map(len, self.batches))

    @property
    def p(self) -> int:
        return self.spec.p

    @property
    def shares(self) -> FloatArray:
        """How much of a person each record is ``(n,)``."""
        return np.concatenate([read_person_shares(batch) for batch in self.batches])

    @property
    def seams(self) -> list[int]:
        """The first row of each batch but the first; rows on both sides of it take a copy."""
        return list(accumulate(map(len, self.batches)))[:-1]

    def read(self, start: int, stop: int) -> tuple[FloatArray, ...]:
        """Return covariates and labels of the rows from `start` to `stop`; see `read_labelled`."""
        found = []
        for batch in self.batches:
            if start < len(batch) and stop > 0:
                found.append(BatchReader(self.spec, batch).read(max(start, 0), stop))
            start, stop = start - len(batch), stop - len(batch)
        # joined transposed, since covariates are stored by columns
        tables = (
            np.concatenate([part.T for part in parts], axis=-1).T
            for parts in zip(*found, strict=True)
        )
        return found[0] if len(found) == 1 else tuple(tables)


def open_parts(
    spec: DesignSpec, batches: Sequence[Batch], start: int = 0, stride: int = 1
) -> NeighboursReader:
    """Return a reader of neighbouring batches, or of their rows `start`, `start + stride`, ..."""
    chosen = []
    for batch in batches:
        if start < len(batch):
            chosen.append(batch.cut(slice(start, None, stride)))
        start = max(start - len(batch), (start - len(batch)) % stride)
    return NeighboursReader(spec, chosen)
