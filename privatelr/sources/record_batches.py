"""Data that can be read again and again as Arrow record batches, of which nothing is kept."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from privatelr.errors import ArgumentError, ReaderError, SchemaError, redact_errors, show
from privatelr.sources.columns import Batch, within_dictionary

_STANDS = "a charge that was made for this call stands"
UNREAD = f"its batches could not be read; {_STANDS}"
UNCOUNTED = f"its records could not be counted; {_STANDS}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RecordBatches:
    """A table that can be read again and again, batch by batch; nothing of it is kept.

    Attributes
    ----------
    schema : pyarrow.Schema
        Names and types of the columns, read without reading the data.
    typed : Batch
        The same as columns without rows, of which a plan is made.
    opened : callable
        Takes names of columns and returns an iterator of record batches that have them. The records
        come in the same order each time.
    counted : callable, optional
        Returns the number of records, where that is known without reading them.
    required : callable, optional
        Takes names of columns and raises `SchemaError` if a file has not got them, or others of
        that name; reads what files say of themselves.
    memory : float
        Bytes that rows may take in memory; more of them are read anew for every pass.
    """

    schema: Any
    typed: Batch
    opened: Callable[[Sequence[str]], Iterable[Any]]
    counted: Callable[[], int] | None = None
    required: Callable[[Sequence[str]], None] | None = None
    memory: float = field(default_factory=lambda: LARGEST_SHARE * memory_here())

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(map(str, self.typed.names))

    def read(self, columns: Sequence[str]) -> Generator[Any, None, None]:
        """Read all records once: record batches of these columns, with the types of the schema.

        Raises
        ------
        SchemaError
            If a batch has other types. It quotes no value.
        """
        if self.required is not None:
            self.required(columns)
        wanted = [self.schema.field(name) for name in columns]
        with redact_errors(UNREAD):
            batches = self.opened(columns)
        with redact_errors(UNREAD, ours=(ReaderError,)):  # all of this may be code of others
            for batch in batches:
                yield _taken(batch, wanted)

    def count(self, columns: Sequence[str] = ()) -> int:
        """Return the number of records, which is public; may read the shortest of some columns."""
        if self.counted is not None:
            with redact_errors(UNCOUNTED, ours=()):
                return int(self.counted())
        return sum(batch.num_rows for batch in self.read([self.shortest(columns)]))

    def shortest(self, columns: Sequence[str] = ()) -> str:
        """The one of these columns, or of all, with the fewest bits per value; texts have many."""
        if not self.columns:
            raise SchemaError("data has no columns: a fit takes a response and its covariates.")
        fields = map(self.schema.field, columns) if columns else self.schema
        return str(min(fields, key=width_of).name)

    def pieces(self, columns: Sequence[str], size: int) -> Generator[Any, None, None]:
        """Read all records once, as tables of `size` records but for the last.

        Only a piece that several batches are joined to is copied.
        """
        import pyarrow as pa

        joined: list[Any] = []
        missing = size
        for batch in self.read(columns or [self.shortest()]):
            start = 0
            while start < len(batch):
                joined.append(batch.slice(start, missing))
                start += len(joined[-1])
                missing -= len(joined[-1])
                if missing == 0:
                    yield pa.Table.from_batches(joined).combine_chunks()
                    joined, missing = [], size
        if joined:
            yield pa.Table.from_batches(joined).combine_chunks()


def empty_table(schema: Any) -> Any:
    """A table of Arrow without rows, of any types: the one of pyarrow's own knows fewer."""
    import pyarrow as pa

    return pa.table([pa.nulls(0, column.type) for column in schema], schema=schema)


def _taken(batch: Any, wanted: Sequence[Any]) -> Any:
    """Return some columns of a batch; raises `ReaderError` if it has not got them in their types.

    It is a batch of pyarrow, since another class may run code wherever it is looked at.
    """
    import pyarrow as pa

    found = batch.schema
    places = [found.get_field_index(one.name) for one in wanted]
    kinds = [found.field(place).type if place >= 0 else None for place in places]
    alike = kinds == [one.type for one in wanted]
    taken = batch.select(places) if alike else None
    if not isinstance(taken, pa.RecordBatch):
        raise ReaderError(
            "data: a batch has other columns or types than the schema said; cast the columns "
            f"before they are handed over, and {_STANDS}."
        )
    if not any(pa.types.is_dictionary(kind) for kind in kinds):
        return taken
    columns = map(within_dictionary, taken.columns)  # Arrow does not look when it joins pieces
    return pa.RecordBatch.from_arrays(list(columns), schema=taken.schema)


def width_of(column: Any) -> int:
    """Return the bits of each value of a column of Arrow, which may be a guess."""
    try:
        return int(column.type.bit_width)
    except ValueError:
        return 1024


try:
    import resource
except ImportError:  # Windows has no limits of this kind
    resource = None  # type: ignore[assignment]

LARGEST_SHARE = 0.4
"""Largest share of the memory of this machine that rows take, unless a user says otherwise."""
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def read_bytes(memory: Any) -> float:
    """Read an amount of memory; raises `ArgumentError`."""
    spelled = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([KMGT]?)(?:i?B)?\s*", str(memory), re.IGNORECASE)
    if spelled is None or isinstance(memory, bool):
        raise ArgumentError(
            f'memory={show(memory)}: it takes a number of bytes from 0, such as "4GiB".'
        )
    return float(spelled[1]) * _UNITS[spelled[2].upper()]


def memory_here() -> float:
    """Bytes of memory that this process may have: of the machine, or of a limit that was set."""
    found = []
    with suppress(AttributeError, OSError, ValueError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    if resource is not None:
        found.append(resource.getrlimit(resource.RLIMIT_AS)[0])
    with suppress(OSError, ValueError):
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text("ascii")))
    return float(min((size for size in found if size > 0), default=0))
