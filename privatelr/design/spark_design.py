"""Frames of Spark as data: the public facts of a table, and its partitions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from privatelr.design.dask_design import read_dask_source
from privatelr.design.formula_design import DesignSpec
from privatelr.design.stream_design import CHANGED, open_piece, read_stream_source
from privatelr.errors import SchemaError
from privatelr.formula import Formula
from privatelr.sources import Batch, as_batch, dispatch, is_dask, is_stream, spark_frames
from privatelr.types import Rows


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SparkTable:
    """A frame of Spark whose names, types and number of records are known.

    Attributes
    ----------
    typed : Batch
        The columns and their types, without rows. A plan is made from it.
    frame : pyspark.sql.DataFrame
    """

    typed: Batch
    frame: Any
    _counted: list[tuple[int, ...]] = field(default_factory=list)

    def __len__(self) -> int:
        """Return the number of records; the first call counts them, in each partition."""
        n = sum(self.lengths)
        if n == 0:
            raise SchemaError("data is empty: a fit takes at least one record.")
        return n

    @property
    def lengths(self) -> tuple[int, ...]:
        """Records of each partition."""
        if not self._counted:
            first = list(self.typed.names)[:1]
            self._counted.append(tuple(spark_frames.each(self.frame, first, _length)))
        return self._counted[0]

    def over(self, names: Sequence[str], function: Callable[[Batch], Any]) -> list[Any]:
        """Apply a function to the rows of each partition, and return its results in order.

        The function reads the columns `names` only. It is sent to the executors.
        """
        return spark_frames.each(self.frame, names, functools.partial(_applied, function))


def _length(place: int, part: Any) -> int:
    return len(part)


def _applied(function: Callable[[Batch], Any], place: int, part: Any) -> Any:
    return function(as_batch(part))


def read_spark_source(
    first: Any, second: Any, target: str | int | None
) -> tuple[str | Formula, SparkTable]:
    """Return formula and table of a call with a frame of Spark as an argument; see `dispatch`."""
    is_second = spark_frames.is_spark(second)
    others = first is None or isinstance(first, str | Formula)
    if (is_second and not others) or (not is_second and second is not None):
        raise SchemaError(
            "data: a frame of Spark holds the response as well as the covariates; name it by a "
            "formula or by target=."
        )
    frame = second if is_second else first
    typed = spark_frames.typed(frame)
    first, second = (first, typed.frame) if is_second else (typed.frame, None)
    formula, found = dispatch(first, second, target)
    return formula, SparkTable(found, frame)


def reader_of_parts(data: Any) -> Any:
    """Return what reads partitions, or a stream, with a formula; None for a table in memory."""
    kinds: tuple[tuple[Any, Any], ...] = (
        *((is_stream, read_stream_source), (is_dask, read_dask_source)),
        (spark_frames.is_spark, read_spark_source),
    )
    return next((read for is_one, read in kinds if is_one(data)), None)


def read_spark_design(spec: DesignSpec, table: SparkTable, backend: Any) -> Rows:
    """Read the rows of a table under a plan, as `read_design` reads those of a frame.

    Notes
    -----
    **Privacy.** *Covered*: nothing by itself, the rows are as private as the data.
    *Neighbours*: changing one record changes one row. *Assumed public*: the number of records in
    each partition and in total, names, types, bounds and levels. *Not covered*: time and memory,
    and what Spark shows and logs about them.
    """
    rows: Rows = backend.of(PartReader(spec, table), **spec.limits)
    return rows


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PartReader:
    """The labelled covariates of a frame of Spark, partition by partition."""

    spec: DesignSpec
    table: SparkTable

    @property
    def p(self) -> int:
        return self.spec.p

    @property
    def lengths(self) -> tuple[int, ...]:
        """Rows of each partition that has some."""
        return tuple(filter(None, self.table.lengths))

    @property
    def open(self) -> Any:
        """Return a function that makes a reader of a partition; it holds no data."""
        return functools.partial(open_piece, self.spec)

    def each(self, function: Callable[[int, Any, int], Any]) -> list[Any]:
        return list(_told(spark_frames.each(*self._asked(function))))

    def one_by_one(self, function: Callable[[int, Any, int], Any]) -> Iterator[Any]:
        return _told(spark_frames.one_by_one(*self._asked(function)))

    def reduced(self, function: Callable[[int, Any, int], Any], join: Callable[..., Any]) -> Any:
        """Join the results in pairs, up a tree."""
        join = functools.partial(_joined, join)
        found = spark_frames.reduced(*self._asked(function), join)
        if found is None:
            raise SchemaError(CHANGED)
        return found

    def _asked(self, function: Any) -> tuple[Any, Sequence[str], Any]:
        lengths, places, count = self.table.lengths, list[int](), 0
        for length in lengths:
            places.append(count)
            count += length > 0
        asked = functools.partial(_of_rows, function, lengths, tuple(places))
        return self.table.frame, self.spec.formula.variables, asked


def _of_rows(
    function: Any, lengths: tuple[int, ...], places: tuple[int, ...], place: int, part: Any
) -> Any:
    """What a function returns of a partition, None of an empty one, and of another a length -1."""
    if place >= len(lengths):
        return function(len(places), part, -1)  # more partitions than were counted
    return function(places[place], part, lengths[place]) if lengths[place] or len(part) else None


def _told(found: Any) -> Iterator[Any]:
    return (one for one in found if one is not None)


def _joined(join: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else join(one, other)
