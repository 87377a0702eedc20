"""Dask collections as data: the public facts of a frame, and its partitions.

Names and types come from the empty frame that Dask keeps with the graph, so planning a fit does
not look at the data. The number of records is counted once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pandas as pd

from privatelr.dask_cluster import evaluated, outcome
from privatelr.design.formula_design import DesignSpec, reader_of
from privatelr.design.persons import (
    Section,
    at_home,
    present_in,
    require_sections,
    sharing_of,
)
from privatelr.errors import SchemaError
from privatelr.formula import Formula, Person
from privatelr.sources import Batch, as_batch, dispatch, is_dask
from privatelr.sources import dask_collections as of_dask
from privatelr.types import Reader, Rows

_UNCOUNTED = "the persons of a partition could not be counted"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DaskTable:
    """A frame in partitions whose names, types and number of records are known.

    Attributes
    ----------
    typed : Batch
        The columns and their types, without rows. A plan is made from it.
    collections : tuple
        One collection, or the collections of y and X with equal partitions.
    person : Person or None
        Who records are of, by the index; None if each is of its own.
    """

    typed: Batch
    collections: tuple[Any, ...]
    person: Person | None = None
    _counted: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of records, or of persons; the first call reads one column."""
        n = sum(self.lengths if self.person is None else self._persons())
        if n == 0:
            raise SchemaError("data is empty: a fit takes at least one record.")
        return n

    @property
    def index_names(self) -> tuple[str, ...]:
        """The name of the index, by which persons may be told apart; none if it has no name."""
        typed = map(of_dask.empty, self.collections)
        names = [getattr(one, "index", pd.Index([])).name for one in typed]
        return tuple(name for name in names if isinstance(name, str))

    def counted_by(self, names: tuple[str, ...]) -> DaskTable:
        """The same table, whose records are counted along the shortest of all columns."""
        return self

    def of_persons(self, person: Person) -> DaskTable:
        """The same table by persons, whom the index tells apart; raises `ArgumentError`."""
        frame = self.collections[0]
        is_table = len(self.collections) == 1 and getattr(frame, "ndim", 1) == 2
        is_frame = is_table and not of_dask.is_array(frame)
        index = of_dask.empty(frame).index if is_frame else pd.Index([])
        require_sections(index, getattr(frame, "divisions", ()), person)
        return replace(self, person=person)

    def _persons(self) -> tuple[int, ...]:
        """Persons of each partition, and then those who have no records where they belong.

        Records without a person are of one of these. So there are as many as in memory, and the
        number, which is public, stays when the records of a person are replaced.
        """
        if "persons" not in self._counted:
            found = self._asked(_UNCOUNTED, (), present_in, self.person)
            away = frozenset[Any]().union(*(one.strays for one in found))
            if away:
                away = away.difference(*self._asked(_UNCOUNTED, (), at_home, away))
            missing = any(one.has_missing for one in found)
            self._counted["persons"] = (*(one.persons for one in found), missing + len(away))
        return self._counted["persons"]

    def _asked(
        self, what: str, names: Sequence[str], function: Callable[..., Any], *given: Any
    ) -> list[Any]:
        """Return what a function returns for each partition, or an error that tells `what`."""
        from dask.delayed import delayed

        task = delayed(outcome, pure=False)
        return evaluated([task(what, function, part, *given) for part in self.parts(names)], what)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Records of each partition."""
        if "lengths" not in self._counted:
            counts = [of_dask.lengths_of(data) for data in self.collections]
            if counts[0] != counts[-1]:
                raise SchemaError(
                    f"y has {sum(counts[0])} values and X has {sum(counts[-1])} rows, or other "
                    "partitions: a fit of (y, X) takes one value per row, partition by partition."
                )
            self._counted["lengths"] = counts[0]
        return self._counted["lengths"]

    def parts(self, names: Sequence[str]) -> list[Any]:
        """Return a Delayed for each partition, with the columns `names` and possibly others."""
        from dask.delayed import delayed

        if self.person is not None:
            frame = self.collections[0]
            found = of_dask.partitions(of_dask.chosen(frame, names or frame.columns[:1]))
            section, last = delayed(Section, pure=False), len(found) - 1
            every = zip(found, pairwise(frame.divisions), strict=True)
            return [section(part, *ends, place == last) for place, (part, ends) in enumerate(every)]
        if len(self.collections) == 1:
            return of_dask.partitions(of_dask.chosen(self.collections[0], names))
        both = zip(*map(of_dask.partitions, self.collections), strict=True)
        return [delayed(tuple, pure=False)(pair) for pair in both]

    def over(self, names: Sequence[str], function: Callable[[Batch], Any]) -> list[Any]:
        """Apply a function to the rows of each partition, and return its results in order.

        The function reads the columns `names` only. It is sent to the tasks.
        """
        return self._asked("a partition could not be read", names, _applied, function)


def read_dask_source(
    first: Any, second: Any, target: str | int | None
) -> tuple[str | Formula, DaskTable]:
    """Return formula and table of a call with a Dask collection as an argument; see `dispatch`."""
    given = tuple(of_dask.whole_rows(data) for data in (first, second) if is_dask(data))
    if len(given) == 1 and not (first is None or second is None or isinstance(first, str)):
        held, split = ("X", "y") if is_dask(first) else ("y", "X")
        raise SchemaError(
            f"{held} is in memory and {split} is a Dask collection: a fit of (y, X) takes two of "
            "a kind, such as dask.array.from_array(y, chunks=X.chunks[0])."
        )
    formula, typed = dispatch(of_dask.empty(first), of_dask.empty(second), target)
    return formula, DaskTable(of_dask.unlisted(typed), _aligned(given))


def read_dask_design(
    spec: DesignSpec, table: DaskTable, backend: Any, *, bar: bool = False
) -> Rows:
    """Read the rows of a table under a plan, as `read_design` reads those of a frame.

    Parameters
    ----------
    backend
        Makes bounded rows of partitions, as `DaskRows` does.
    bar : bool
        Whether to show a progress line for each pass.

    Notes
    -----
    **Privacy.** *Covered*: nothing by itself, the rows are as private as the data.
    *Neighbours*: changing one record changes one row. *Assumed public*: the number of records in
    each partition and in total, names, types, bounds and levels. *Not covered*: time and memory,
    and what Dask shows and logs about them.
    """
    every = zip(table.parts(spec.formula.variables), table.lengths, strict=True)
    parts, lengths = zip(*((part, length) for part, length in every if length > 0), strict=True)
    rows: Rows = backend.of(
        parts,
        functools.partial(_open, spec, table.person),
        spec.p,
        lengths,
        bar=bar,
        persons=None if table.person is None else len(table),
        **spec.limits,
    )
    return rows


def _open(
    spec: DesignSpec, person: Person | None, part: Any, start: int = 0, stride: int = 1
) -> Reader:
    """Return a reader of a partition, or of its rows `start`, `start + stride`, ..."""
    if person is None:
        return reader_of(spec, _batch_of(part), start, stride)
    sharing = sharing_of(part, person)
    batch = replace(as_batch(part.frame), shares=sharing.shares)
    return replace(reader_of(spec, batch, start, stride), owners=sharing.owners[start::stride])


def _applied(part: Any, function: Callable[[Batch], Any]) -> Any:
    return function(_batch_of(part))


def _batch_of(part: Any) -> Batch:
    """Return the rows of a partition, or of those of y and X."""
    if not isinstance(part, tuple):
        return as_batch(part)
    y, x = part
    return dispatch(y, x, None)[1]


def _aligned(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the collections of y and X, divided into the same partitions."""
    if len(given) < 2:
        return given
    y, x = given
    # unknown lengths are NaN, which is not equal to itself
    if of_dask.is_array(y) and of_dask.is_array(x) and y.shape[0] == x.shape[0]:
        y = y.rechunk({0: x.chunks[0]})
    parts = [data.numblocks[0] if of_dask.is_array(data) else data.npartitions for data in (y, x)]
    if parts[0] != parts[1]:
        raise SchemaError(
            f"y has {parts[0]} partitions and X has {parts[1]}: a fit of (y, X) takes partitions "
            "of the same records, or one frame that holds both."
        )
    return y, x
