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
from typing import Any, ClassVar

from privatelr.design import persons
from privatelr.design.formula_design import DesignSpec, reader_of
from privatelr.design.persons import Owners, marked, owners_in, require_identities
from privatelr.errors import ReaderError, SchemaError, redact_errors
from privatelr.formula import Formula, Person
from privatelr.progress_line import ProgressLine
from privatelr.sources import Batch, RecordBatches, as_batch, as_stream, dispatch, is_stream
from privatelr.types import Rows

Batches = Callable[[int], Generator[Batch, None, None]]
"""Takes a number of records, and reads all records anew: batches of so many but for the last."""
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
                closing(self.pieces([name])) as tables,
                redact_errors("its persons could not be counted"),
            ):
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

    def pieces(self, names: Sequence[str], size: int = _AT_ONCE) -> Generator[Any, None, None]:
        """Read all records once, as tables of `size` records but for the last, with these columns.

        Raises
        ------
        SchemaError
            If there are more or fewer of them than were counted.
        """
        missing = self.records
        with closing(self.source.pieces(names, size)) as tables:
            for table in tables:
                missing -= len(table)
                if missing < 0:
                    break
                yield table
        if missing:
            raise ReaderError(CHANGED)

    def batches(self, names: Sequence[str], size: int = _AT_ONCE) -> Generator[Batch, None, None]:
        """Read all records once; those of persons have their shares; see `pieces`.

        Persons are compared in every pass: rows that were read before tell who they are of by their
        places alone.
        """
        if self.person is None:
            with closing(self.pieces(names, size)) as tables:
                yield from map(as_batch, tables)
            return
        name, owners = self.person.column, self.owners
        shares, first, mark = persons.shares_of(owners.sizes, self.person.most), 0, 0
        with closing(self.pieces(tuple(dict.fromkeys((*names, name))), size)) as tables:
            for batch in map(as_batch, tables):
                mark += marked(batch[name], first)
                whose = owners.of_records[first : first + len(batch)]
                first += len(batch)
                yield replace(batch, shares=shares[whose])
        if mark % 2**64 != owners.mark:
            raise SchemaError(CHANGED)

    def over(self, names: Sequence[str], function: Callable[[Batch], Any]) -> list[Any]:
        """Apply a function that reads the columns `names` to each piece, and return its results."""
        unread = "a batch could not be read; a charge that was made for this call stands"
        with closing(self.batches(names)) as batches, redact_errors(unread):
            return list(map(function, batches))

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
            for table in pieces:
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
        Makes bounded rows of batches, as `StreamRows` does.
    bar : bool
        Whether to show a progress line for each pass.

    Notes
    -----
    **Privacy.** *Covered*: nothing by itself, the rows are as private as the data.
    *Neighbours*: changing one record changes one row. *Assumed public*: the number of records,
    names, types, bounds and levels. *Not covered*: time and memory.
    """
    batches: Batches = functools.partial(table.batches, spec.formula.variables)
    rows: Rows = backend.of(
        functools.partial(_shown, table, batches) if bar else batches,
        functools.partial(reader_of, spec),
        spec.p,
        table.records,
        persons=None if table.person is None else len(table),
        owners=None if table.person is None else table.owners.of_records,
        **spec.limits,
    )
    return rows


def _shown(table: StreamTable, batches: Batches, size: int) -> Generator[Batch, None, None]:
    """Show how many of the records were taken; of persons, how many of these that makes."""
    public = (table.records,) if table.person is None else (len(table), "persons")
    line, done = ProgressLine("reading batches", *public), 0
    try:
        with closing(batches(size)) as every:
            for batch in every:
                yield batch
                done += len(batch)
                line.show(min(done / table.records, 1.0))
    finally:
        line.remove()
