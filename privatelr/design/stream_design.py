"""Streams of record batches as data: the public facts of a table, and its pieces.

Names and types come from the schema, so planning a fit does not look at the data. The number of
records is counted once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np

from privatelr.design import column_plan, offsets_and_weights
from privatelr.design.formula_design import BatchReader, DesignSpec
from privatelr.design.terms import Term
from privatelr.design.variables import as_numbers, read_values
from privatelr.errors import SchemaError, redact_errors
from privatelr.formula import Formula
from privatelr.progress_line import ProgressLine
from privatelr.sources import Batch, RecordBatches, as_batch, as_stream, dispatch, is_stream
from privatelr.sources.record_batches import UNREAD
from privatelr.types import FloatArray, RawColumns, Rows

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
    """

    typed: Batch
    source: RecordBatches
    _counted: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        """Return the number of records; the first call counts them."""
        if not self._counted:
            self._counted.append(self.source.count())
        if self._counted[0] == 0:
            raise SchemaError("data is empty: a fit takes at least one record.")
        return self._counted[0]

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
        """Read all records once: rows of neighbouring batches, and how many; see `pieces`."""
        return self._as_counted(self.source.parts(names, size), lambda held: sum(map(len, held)))

    def batches(self, names: Sequence[str]) -> Generator[tuple[Any, int], None, None]:
        """Read all records once: record batches as they come, and the length of each."""
        return self._as_counted(self.source.read(names), len)

    def _as_counted(
        self, pieces: Generator[T, None, None], length: Callable[[T], int]
    ) -> Generator[tuple[T, int], None, None]:
        missing = len(self)
        with closing(pieces):
            for piece in pieces:
                count = length(piece)
                missing -= count
                if missing < 0:
                    break
                yield piece, count
        if missing:
            raise SchemaError(CHANGED)

    def over(self, names: Sequence[str], function: Callable[[Batch], Any]) -> list[Any]:
        """Apply a function that reads the columns `names` to each piece, and return its results."""
        with (
            closing(self.pieces(names)) as pieces,
            redact_errors("a batch could not be read; a charge that was made for this call stands"),
        ):
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
    rows: Rows = backend.of(PieceReader(spec, table, len(table), bar), **spec.limits)
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
    def open(self) -> Callable[..., NeighboursReader]:
        """Return a function that makes a reader of a piece; it holds no data."""
        return functools.partial(open_parts, self.spec)

    def pieces(self, size: int) -> Generator[tuple[list[Batch], int], None, None]:
        """Read all records anew; see `StreamTable.parts`."""
        pieces = self.table.parts(self.spec.formula.variables, size)
        return self._shown(pieces) if self.bar else pieces

    @property
    def raw(self) -> Callable[[Any], RawColumns] | None:
        """A function that reads a batch as it is, if each column of the design has its own map."""
        return raw_reader(self.spec)

    def batches(self) -> Generator[tuple[Any, int], None, None]:
        """Read all records anew: record batches, and the number of the first record of each."""
        batches = self.table.batches(self.spec.formula.variables)
        first = 0
        with closing(self._shown(batches) if self.bar else batches) as shown:
            for batch, length in shown:
                yield batch, first
                first += length

    def _shown(
        self, pieces: Generator[tuple[Any, int], None, None]
    ) -> Generator[tuple[Any, int], None, None]:
        """Show how many of the records were taken."""
        line, done = ProgressLine("reading batches", self.n), 0
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


def open_piece(spec: DesignSpec, table: Any, start: int = 0, stride: int = 1) -> NeighboursReader:
    """Return a reader of a table, or of its rows `start`, `start + stride`, ..."""
    return open_parts(spec, [as_batch(table)], start, stride)


# --- batches as they are -------------------------------------------------------------------------


def raw_reader(spec: DesignSpec) -> Callable[[Any], RawColumns] | None:
    """Return a function of record batches, or None where covariates are more than mapped columns.

    It reads what `read_labelled` reads, and leaves clipping and mapping to others.
    """
    columns, first = spec.columns, int(spec.columns.has_intercept)
    lengthened = spec.standard is not None and spec.standard.unit
    of_others = spec.formula.person is not None or spec.response.kind == "classes"
    if of_others or lengthened or spec.projection is not None:
        return None
    stretches, terms = spec.straight
    mapped = np.empty((4, len(columns.names)))
    mapped[0], mapped[1] = -np.inf, np.inf
    mapped[2] = np.where(columns.parent == 0, columns.centre, 0.0) * first
    mapped[3] = 1.0 / columns.scale
    places: dict[str, int] = {}
    for start, names, limits in stretches:
        mapped[:2, start : start + len(names)] = limits[:2, :, 0]
        places |= {name: start + place for place, name in enumerate(names)}
    made = [term for term in terms if term.numeric or term.categorical]
    return functools.partial(_read_raw, spec, mapped[:, first:], places, made)


def _read_raw(
    spec: DesignSpec,
    mapped: FloatArray,
    places: Mapping[str, int],
    made: Sequence[Term],
    records: Any,
) -> RawColumns:
    import pyarrow as pa

    with redact_errors(UNREAD, ours=()):  # its class may be one of others
        table = pa.Table.from_batches([records])
    first, n = int(spec.columns.has_intercept), len(table)
    found = {name: table.column(name).chunk(0) for name in places}
    plain = {
        name: column.to_numpy(zero_copy_only=True)
        for name, column in found.items()
        if column.type == pa.float64() and column.null_count == 0
    }
    used = sorted({index for term in made for index in (*term.numeric, *term.categorical)})
    kept = {name for index in used for name in spec.factors[index].expression.names}
    names = spec.formula.variables
    needed = tuple(name for name in names if name in kept or name not in places)
    others = [name for name in names if name in needed or name not in plain]
    batch = as_batch(table.select(others))
    values, usable = read_values(spec.variables, batch, needed)
    numbers, codes, coded = column_plan.read_factors(spec.factors, values, n, used)
    design = np.empty((len(spec.columns.names), n)).T
    for term in made:
        column_plan.fill(design, term, numbers, codes)
    for child in np.flatnonzero(spec.columns.parent >= first):
        design[:, child] -= design[:, spec.columns.parent[child]] * spec.columns.centre[child]
    for name in set(places) - set(plain):
        design[:, places[name]] = as_numbers(batch[name])
    label, *offset = offsets_and_weights.read_targets(spec, values, usable & coded, batch)
    at = {place: plain[name] for name, place in places.items() if name in plain}
    columns = [at.get(place, design[:, place]) for place in range(first, len(spec.columns.names))]
    return RawColumns(columns, mapped, label, offset[0] if offset else None)
