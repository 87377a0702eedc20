"""The data of a call, of any kind: in memory, in partitions of Dask, or in a stream of batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy import sparse

from privatelr.design import (
    AS_FRAME,
    CHANGED,
    DesignSpec,
    EntryBoundedMatrix,
    NormBoundedMatrix,
    in_standard_units,
    plan_design,
    plan_matrix,
    plan_wide,
    read_dask_design,
    read_dask_source,
    read_design,
    read_labelled,
    read_labels,
    read_matrix_source,
    read_sparse,
    read_stream_design,
    read_stream_source,
    read_wide,
    reader_of,
    shares_of,
    with_classes,
    with_equal_weights,
    with_shares,
    worth_sparse,
)
from privatelr.errors import ArgumentError, FormulaError, SchemaError
from privatelr.formula import (
    Formula,
    Person,
    parse_formula,
    require_most,
    with_terms,
)
from privatelr.mechanisms.stages.scale import MomentSums
from privatelr.numerics.rows import (
    MOST_SCORED,
    DaskRows,
    DenseRows,
    EntryRows,
    LooseRows,
    StreamRows,
    few_are_filled,
    sparse_backend,
)
from privatelr.privacy import Neighbours, neighbours_about
from privatelr.sources import (
    Batch,
    Schema,
    Tally,
    is_dask,
    is_stream,
    name_of_values,
    read_source,
)
from privatelr.sources.arrow_files import kind_of
from privatelr.sources.record_batches import LARGEST_SHARE, memory_here
from privatelr.types import FloatArray, IntArray, Rows


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FrameData:
    """A formula and a frame.

    Attributes
    ----------
    text : str or Formula
    batch : Batch
        The rows of the frame; for a subclass, columns whose types say what a plan needs.
    persons : int or None
        The number of persons whose records these are; None if each record is of its own.
    owners : ndarray of shape (n,) or None
        The number of the person, from 0, whose record it is.
    has_unnamed_persons : bool
        Whether persons are told apart by values without the name of a column.
    """

    is_in_parts: ClassVar[bool] = False
    """Whether records are in partitions or in a stream, and are read to count them."""
    text: Any
    batch: Batch
    persons: int | None = None
    owners: IntArray | None = None
    has_unnamed_persons: bool = False

    def __len__(self) -> int:
        return len(self.batch) if self.persons is None else self.persons

    @property
    def neighbours(self) -> Neighbours:
        """What neighbouring data differ in."""
        return neighbours_about(self.persons)

    def plan(self, schema: Schema) -> Any:
        """Plan rows of bounded length from names, types and declarations."""
        return plan_design(parse_formula(self.text, list(self.batch.names)), self.batch, schema)

    def plan_entries(self, schema: Schema) -> Any:
        """Plan rows whose entries are bounded; raises `FormulaError` for offsets and weights."""
        spec = self.plan(schema)
        if spec.formula.person is not None:
            raise FormulaError(
                f"formula: person({spec.formula.person.column}) goes with dplr and dpsvm."
            )
        if spec.formula.by is not None:
            raise FormulaError(f"formula: {spec.formula.by.label} goes with dplr and dpsvm.")
        for expression in spec.formula.beside:
            names = {spec.formula.weights: "weights", spec.formula.subset: "subset"}
            function = names.get(expression, "offset")
            raise FormulaError(
                f"formula: {function}({expression.label}) goes with dplr and dpsvm; "
                "dplpsvm and dpsimplex choose columns by scores that have no place for it."
            )
        return spec

    def by_class(self, spec: Any) -> Any:
        """Return the plan with a class for each level of the response."""
        return with_classes(spec)

    def require_plain(self, *, do_scale: bool | str | None, rp_dim: int) -> None:
        """Refuse R's options for frames if the data is not a frame; raises `ArgumentError`."""

    def require_scores(self, cut: float | str) -> bool:
        """Whether every record is scored; if not, rules that learn from scores are refused."""
        return True

    def rows(self, spec: Any, *, bar: bool) -> tuple[Rows, Tally | None]:
        """Read bounded rows: sparse, if public facts say that most entries are zero.

        `bar` asks for a progress line for each pass over a Dask collection.

        Returns
        -------
        rows : Rows
        tally : Tally or None
            Counts of values that were not read unchanged; they are not private. For a Dask
            collection nothing is counted.
        """
        batch = replace(self.batch, tally=Tally())
        if worth_sparse(spec):
            rows = sparse_backend(*read_sparse(spec, batch), **spec.limits)
            return self._grouped(rows), batch.tally
        return self._grouped(read_design(spec, batch, DenseRows)), batch.tally

    def _means(self) -> FloatArray | None:
        """The shares ``(n,)`` of records by which every person counts 1."""
        if self.owners is None:
            return None
        return shares_of(np.bincount(self.owners)[self.owners], 1)

    def _grouped(self, rows: Any) -> Rows:
        found: Rows = rows
        if self.persons is not None:
            found = rows.of_persons(self.persons, self.owners, self.batch.shares)
        return found

    def loose(self, spec: Any, *, bar: bool) -> tuple[Rows | LooseRows, Tally | None]:
        """Read rows whose scale is released first; dense ones are bounded once they have theirs.

        Persons count by the means over their records, even one with few of them: shares that add
        up to less than 1, which is not public, would draw all means to the middle of the bounds.
        """
        # bounded already, and all of equal weight, which the moments of columns go by: labels of
        # loose rows bring shares of persons and weights as one number
        mixed = self.persons is not None and spec.weight is not None
        if worth_sparse(spec) or spec.formula.subset is not None or mixed:
            equal = replace(self, batch=replace(self.batch, shares=self._means()))
            return equal.rows(with_equal_weights(spec), bar=bar)
        batch = replace(self.batch, tally=Tally(), shares=self._means())
        reader, has_offset = reader_of(spec, batch), spec.offset_bound > 0
        kernel = MomentSums(persons=self.persons is not None, are_bounded=False)
        loose = LooseRows.of(reader, spec.d, kernel, has_offset=has_offset)
        return replace(loose, persons=self.persons), batch.tally

    def standardised(
        self,
        rows: Rows | LooseRows,
        spec: DesignSpec,
        centre: FloatArray,
        factor: FloatArray,
        *,
        bar: bool,
    ) -> Rows:
        """Bound rows that have their scale; those that were bounded before are read again.

        `spec` has the map ``z = factor (x - centre)`` already, see `standardise`.
        """
        if not isinstance(rows, LooseRows):
            return self.rows(spec, bar=bar)[0]
        means, shares = self._means(), self.batch.shares
        if means is not None and shares is not None:
            np.multiply(rows.y, np.sqrt(means / shares), out=rows.y)

        def change(covariates: FloatArray) -> FloatArray:
            return in_standard_units(spec, covariates, centre, factor)

        return self._grouped(rows.bounded(change, **spec.limits))

    def entries(self, spec: Any) -> tuple[EntryRows, Tally | None]:
        """Read rows whose entries are bounded, sparse where most are zero; returns a tally too."""
        *read, tally = read_entries(spec, self.batch)
        return entry_rows(spec, *read), tally

    def held(self, spec: Any) -> FrameData:
        """The same data in memory, if a stream of them may be kept; it is read then."""
        return self

    def counted(self, spec: Any) -> tuple[int, int, int, Tally | None]:
        """Count records, the usable ones of both classes, and values that are not read unchanged.

        Nothing of it is private.
        """
        rows, tally = self.rows(spec, bar=False)
        _, label = rows.scores(np.zeros(rows.d))
        negative, positive = int(np.count_nonzero(label < 0)), int(np.count_nonzero(label > 0))
        return rows.records, negative, positive, tally

    def over_parts(self, names: Sequence[str], function: Callable[[Batch], Any]) -> list[Any]:
        """Apply a function, which reads the columns `names`, to each part of the rows."""
        return [function(self.batch)]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MatrixData(FrameData):
    """The name of a response, its frame, and a sparse matrix of as many rows."""

    matrix: Any = None
    person: Person | None = None

    def by_class(self, spec: Any) -> Any:
        raise ArgumentError(f"dpmultinom takes no sparse matrix; {AS_FRAME}.")

    def plan(self, schema: Schema) -> NormBoundedMatrix:
        return plan_wide(self.text, self.batch, self.matrix.shape[1], schema, self.person)

    def plan_entries(self, schema: Schema) -> EntryBoundedMatrix:
        return plan_matrix(self.text, self.batch, self.matrix.shape[1], schema, self.person)

    def require_plain(self, *, do_scale: bool | str | None, rp_dim: int) -> None:
        if do_scale or rp_dim:
            raise ArgumentError(
                f"do_scale, rp_dim: a sparse matrix is neither scaled nor projected; {AS_FRAME}."
            )

    def rows(self, spec: Any, *, bar: bool) -> tuple[Rows, Tally | None]:
        batch = replace(self.batch, tally=Tally())
        rows = sparse_backend(*read_wide(spec, self.matrix, batch), **spec.limits)
        return self._grouped(rows), batch.tally

    def entries(self, spec: Any) -> tuple[EntryRows, Tally | None]:
        batch = replace(self.batch, tally=Tally())
        labels = read_labels(spec.response, spec.variables, batch)
        return entry_rows(spec, self.matrix, labels), batch.tally


def read_entries(spec: Any, batch: Batch) -> tuple[Any, FloatArray, Tally]:
    """Read covariates whose entries are not bounded yet, labels ``(n,)``, and a tally."""
    read, tally = read_sparse if few_are_filled(spec.density) else read_labelled, Tally()
    covariates, labels = read(spec, replace(batch, tally=tally))
    return covariates, labels, tally


def entry_rows(spec: Any, covariates: Any, labels: FloatArray) -> EntryRows:
    """Make rows whose entries are bounded from what `read_entries` reads."""
    return EntryRows(covariates, labels, x_bound=spec.x_bound, intercept=spec.intercept)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PartitionedData(FrameData):
    """A formula, the types of the columns, and a table of which a part is read at a time."""

    is_in_parts: ClassVar[bool] = True
    table: Any = None

    def __len__(self) -> int:
        return len(self.table)

    @property
    def neighbours(self) -> Neighbours:
        return neighbours_about(self.table.person)

    def require_plain(self, *, do_scale: bool | str | None, rp_dim: int) -> None:
        if do_scale is True:
            raise ArgumentError(
                "do_scale=True takes data in memory; declare bounds= for a Dask collection or a "
                "stream."
            )

    def require_scores(self, cut: float | str) -> bool:
        if len(self) <= MOST_SCORED:
            return True
        if isinstance(cut, str):
            raise ArgumentError(
                f"threshold={cut!r}: it is learned from the score of every record, of which a "
                f"Dask collection or a stream may have {MOST_SCORED}; threshold takes a number "
                "here."
            )
        return False

    def loose(self, spec: Any, *, bar: bool) -> tuple[Rows | LooseRows, Tally | None]:
        person, table = self.table.person, self.table
        if person is not None:  # by the means over their records, as of frames
            table = replace(table, person=replace(person, most=1))
        return replace(self, table=table).rows(with_equal_weights(spec), bar=bar)

    def over_parts(self, names: Sequence[str], function: Callable[[Batch], Any]) -> list[Any]:
        found: list[Any] = self.table.over(names, function)
        return found

    @property
    def memory(self) -> float:
        """Bytes that rows may take in this process."""
        return LARGEST_SHARE * memory_here()

    def plan_entries(self, schema: Schema) -> Any:
        spec = FrameData.plan_entries(self, schema)
        filled = spec.density if few_are_filled(spec.density) else 1.0
        # rows, their transpose, and the parts that they are made of
        width = 8.0 * 3 * (filled * spec.p + 1)
        if len(self) * width > self.memory:
            raise ArgumentError(
                "dplpsvm, dpsimplex: they take rows in the memory of this process, and those of "
                "this Dask collection or stream are more than a part of it; hand over fewer "
                "columns, or more memory, as in stream(data, memory='4GiB')."
            )
        return spec

    def entries(self, spec: Any) -> tuple[EntryRows, Tally | None]:
        read = self.over_parts(spec.formula.variables, partial(read_entries, spec))
        covariates, labels, tallies = zip(*read, strict=True)
        if sum(map(len, labels)) != len(self):
            raise SchemaError(CHANGED)
        return entry_rows(spec, *_joined(covariates, labels)), sum(tallies, Tally())

    def counted(self, spec: Any) -> tuple[int, int, int, Tally | None]:
        parts = self.over_parts(spec.formula.variables, partial(_counted, self.text, spec))
        n, negative, positive, tallies = zip(*parts, strict=True)
        # len refuses data that is empty, as it is refused in memory
        return sum(n) or len(self), sum(negative), sum(positive), sum(tallies, Tally())


def _counted(text: Any, spec: Any, batch: Batch) -> tuple[int, int, int, Tally | None]:
    return FrameData(text, batch).counted(spec)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DaskData(PartitionedData):
    """A formula, the types of the columns, and partitions."""

    def plan(self, schema: Schema) -> Any:
        person = self.table.person
        if person is None or person.column in self.batch.names:
            return FrameData.plan(self, schema)
        # it is the index, which is no column, and tells persons apart
        named = self.batch.assign({person.column: pd.Series(dtype=object)})
        return plan_design(parse_formula(self.text, list(named.names)), named, schema)

    def rows(self, spec: Any, *, bar: bool) -> tuple[Rows, None]:
        return read_dask_design(spec, self.table, DaskRows, bar=bar), None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StreamData(PartitionedData):
    """A formula, the types of the columns, and a stream of record batches.

    Rows that fit into ``table.source.memory`` are `held`: then all is as for a frame. Others are
    read anew for every pass. Public facts decide, the length of texts, and of persons the number of
    records. Time and memory depend on these, but no result and no error.
    """

    def plan(self, schema: Schema) -> Any:
        return self._told_by_files(FrameData.plan(self, schema))

    def plan_entries(self, schema: Schema) -> Any:
        return self._told_by_files(PartitionedData.plan_entries(self, schema))

    @property
    def memory(self) -> float:
        return float(self.table.source.memory)

    def _told_by_files(self, spec: Any) -> Any:
        """Refuse files that lack a column of a formula, which each of them says itself."""
        if self.table.source.required is not None:
            self.table.source.required(spec.formula.variables)
        return spec

    def held(self, spec: Any) -> FrameData:
        filled = spec.density * spec.p if worth_sparse(spec) else spec.d + 1
        # the memory that is left for columns, of which a value takes as much as a number or more
        room = self.memory - self.table.records * 8.0 * filled
        names, person = spec.formula.variables, self.table.person
        if person is not None:
            names = tuple(dict.fromkeys((*names, person.column)))
        batch = None
        if room >= self.table.records * 8.0 * len(names):
            batch = self.table.kept(names, room)
        if person is None:
            return self if batch is None else FrameData(self.text, batch)
        if batch is None:
            return replace(self, owners=self.table.owners.of_records)
        persons, owners, grouped = with_shares(batch, person)
        if persons != len(self):
            raise SchemaError(CHANGED)
        return FrameData(self.text, grouped, persons, owners)

    def rows(self, spec: Any, *, bar: bool) -> tuple[Rows, None]:
        return read_stream_design(spec, self.table, StreamRows, bar=bar), None


def _joined(covariates: Sequence[Any], labels: Sequence[FloatArray]) -> tuple[Any, FloatArray]:
    if len(labels) == 1:
        return covariates[0], labels[0]
    joined = sparse.vstack if sparse.issparse(covariates[0]) else np.concatenate
    return joined(covariates), np.concatenate(labels)


def read_data(
    first: Any,
    second: Any,
    target: Any,
    *,
    person: Any = None,
    records_per_person: Any = 1,
    **counting: Any,
) -> FrameData:
    """Read the data of a call, of any kind.

    The other arguments say how much records count: `person` and `records_per_person`, weights, a
    subset and strata.
    """
    require_most(person, records_per_person)
    most = int(records_per_person)  # perhaps a number of NumPy
    counting |= {"person": person, "records_per_person": most}
    if sparse.issparse(second):
        return _read_matrix(first, second, target, **counting)
    if is_dask(first) or is_dask(second):
        text, table = read_dask_source(first, second, target)
        return _in_parts(DaskData, text, table, **counting)
    if not isinstance(second, pd.DataFrame) and _is_in_batches(first, second, target):
        text, stream = read_stream_source(first, second, target)
        return _in_parts(StreamData, text, stream, **counting)
    text, batch = read_source(first, second, target, person, most)
    if not (first is None or second is None or isinstance(first, str | Formula)):
        del counting["person"], counting["records_per_person"]  # `read_source` has read them
    formula = with_terms(text, batch.names, **counting)
    found = _person_of(formula, batch.names)
    if found is None:
        return FrameData(formula, batch)
    persons, owners, grouped = with_shares(batch, found)
    unnamed = not isinstance(person, str | None) and name_of_values(person) is None
    return FrameData(formula, grouped, persons, owners, unnamed)


def _in_parts(
    kind: type[PartitionedData], text: Any, table: Any, **counting: Any
) -> PartitionedData:
    """Return data of which a part is read at a time, and who their records are of."""
    names = list(table.typed.names)
    formula = with_terms(text, names, **counting)
    found = _person_of(formula, [*names, *table.index_names])
    with suppress(FormulaError):  # one that is refused is refused where it is planned
        table = table.counted_by(parse_formula(formula, names).variables)
    return kind(formula, table.typed, table=table if found is None else table.of_persons(found))


def _read_matrix(
    first: Any, second: Any, target: Any, person: Any, records_per_person: int, **counting: Any
) -> MatrixData:
    """Return a response and the sparse matrix next to it."""
    for name in (name for name, value in counting.items() if value is not None):
        raise ArgumentError(f"{name}: it reads columns of a frame; {AS_FRAME}.")
    name, found, batch, matrix = read_matrix_source(
        first, second, target, person, records_per_person
    )
    if found is None:
        return MatrixData(name, batch, matrix=matrix)
    persons, owners, grouped = with_shares(batch, found)
    return MatrixData(name, grouped, persons, owners, name_of_values(person) is None, matrix, found)


def _is_in_batches(first: Any, second: Any, target: Any) -> bool:
    """Whether data are a stream; beside X a text is a formula, and a list a response."""
    if sparse.issparse(first):  # which is refused elsewhere
        return False
    if is_stream(second):
        return True
    if second is not None:
        return not isinstance(first, str | list | tuple) and is_stream(first)
    if isinstance(first, str):
        # a path has no ~ but for its first letter, and every formula has one
        return "~" not in first[1:] and (target is not None or is_stream(first))
    # one text among the values of a response is no path
    is_list = isinstance(first, list | tuple)
    return is_stream(first) and not (is_list and not all(map(kind_of, first)))


def _person_of(text: Any, names: Any) -> Person | None:
    """Return who records are of by a formula; the formula is only read if it may say so."""
    if isinstance(text, Formula) or (isinstance(text, str) and "person" in text):
        return parse_formula(text, list(names)).person
    return None  # anything else is refused where it is planned
