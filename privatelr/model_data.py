"""Data in memory that `dplr` and the like take: a frame, or a sparse matrix with a response.

Each kind plans a design from names, types and declarations, and reads bounded rows under the
plan. Rows are bounded by their length, or by their entries for mechanisms that choose columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from privatelr.design import (
    AS_FRAME,
    BatchReader,
    DesignSpec,
    EntryBoundedMatrix,
    NormBoundedMatrix,
    in_standard_units,
    plan_design,
    plan_matrix,
    plan_wide,
    read_design,
    read_labelled,
    read_labels,
    read_sparse,
    read_wide,
    shares_of,
    with_classes,
    with_equal_weights,
    worth_sparse,
)
from privatelr.errors import ArgumentError, FormulaError
from privatelr.formula import (
    Person,
    parse_formula,
)
from privatelr.mechanisms.scale_release import sums_of_loose
from privatelr.numerics.rows import (
    BoundedEntries,
    DenseRows,
    EntryRows,
    LooseRows,
    few_are_filled,
    sparse_backend,
)
from privatelr.privacy import Neighbours, neighbours_about
from privatelr.sources import Batch, Schema, Tally
from privatelr.types import FloatArray, IntArray, Rows

if TYPE_CHECKING:
    Spec: TypeAlias = DesignSpec | NormBoundedMatrix


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

    text: Any
    batch: Batch
    persons: int | None = None
    owners: IntArray | None = None
    has_unnamed_persons: bool = False

    def __len__(self) -> int:
        return len(self.batch) if self.persons is None else self.persons

    @property
    def is_in_parts(self) -> bool:
        """Whether records are in partitions or in a stream, and are read to count them."""
        return False

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
            return self._grouped(_sparse_rows(spec, *read_sparse(spec, batch))), batch.tally
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
        reader, has_offset = BatchReader(spec, batch), spec.offset_bound > 0
        kernel = sums_of_loose(self.persons is not None)
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

    def entries(self, spec: Any) -> tuple[BoundedEntries, Tally | None]:
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
        rows = _sparse_rows(spec, *read_wide(spec, self.matrix, batch))
        return self._grouped(rows), batch.tally

    def entries(self, spec: Any) -> tuple[EntryRows, Tally | None]:
        batch = replace(self.batch, tally=Tally())
        labels = read_labels(spec.response, spec.variables, batch)
        return entry_rows(spec, self.matrix, labels), batch.tally


def _sparse_rows(spec: Spec, *read: Any) -> Rows:
    return sparse_backend(*read, **spec.limits)


def read_entries(spec: Any, batch: Batch) -> tuple[Any, FloatArray, Tally]:
    """Read covariates whose entries are not bounded yet, labels ``(n,)``, and a tally."""
    read, tally = read_sparse if few_are_filled(spec.density) else read_labelled, Tally()
    covariates, labels = read(spec, replace(batch, tally=tally))
    return covariates, labels, tally


def entry_rows(spec: Any, covariates: Any, labels: FloatArray) -> EntryRows:
    """Make rows whose entries are bounded from what `read_entries` reads."""
    return EntryRows(covariates, labels, x_bound=spec.x_bound, intercept=spec.intercept)
