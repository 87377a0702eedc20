"""Bugs on the way from a formula to rows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import sparse

from privatelr import model_data
from privatelr.audit.mutations.planted import FRONT, Mutation, Swap, everywhere, rows
from privatelr.design import formula_design, plan_columns
from privatelr.numerics.rows import DenseRows, RowBounds, Work, entries, row_bounds, sparse_rows
from privatelr.numerics.rows import dense_rows as dense
from privatelr.types import Block, FloatArray, RowLimit


def _intercept_forgotten() -> Iterable[Swap]:
    yield Swap(RowLimit, "radius", property(lambda limit: limit.bound * (1 + 2.0**-50)))


def _not_shortened() -> Iterable[Swap]:
    yield Swap(row_bounds, "_shortened", lambda x, bound: x)
    yield Swap(RowBounds, "_kept", lambda held, covariates: np.isfinite(covariates).all(axis=1))


def _sparse_not_shortened() -> Iterable[Swap]:
    yield Swap(sparse_rows, "_shorten", lambda x, bound: None)


def _images_not_shortened() -> Iterable[Swap]:
    honest = row_bounds.bounded_rows

    def bounded(
        covariates: FloatArray,
        bound: float,
        intercept: float | None,
        projection: Any = None,
        blocks: tuple[Block, ...] = (),
    ) -> FloatArray:
        if blocks:
            return honest(covariates, bound, intercept, projection, blocks)
        short = honest(covariates, bound, None)
        images = short if projection is None else short @ projection
        if intercept is None:
            return images
        usable = np.isfinite(covariates).all(axis=1)
        return np.column_stack([usable * intercept, images])

    yield from everywhere(honest, bounded)


def _sparse_images_not_shortened() -> Iterable[Swap]:
    honest = sparse_rows.sparse_backend

    def backend(covariates: Any, labels: FloatArray, *, projection: Any, **limit: Any) -> Any:
        if projection is not None:
            projection, limit["bound"] = 3 * projection, 3 * limit["bound"]
        return honest(covariates, labels, projection=projection, **limit)

    yield from everywhere(honest, backend)


def _duplicates_not_summed() -> Iterable[Swap]:
    class Unsummed(sparse.csr_array):  # type: ignore[misc]
        """Stores an entry in as many parts as it was given."""

        def sum_duplicates(self) -> None:
            """Leave them as they are."""

    yield Swap(sparse_rows, "sparse", SimpleNamespace(csr_array=Unsummed))


def _entry_parts_bounded() -> Iterable[Swap]:
    yield from everywhere(entries.merged, lambda matrix: sparse.csr_array(matrix, copy=True))


def _entries_not_bounded() -> Iterable[Swap]:
    honest = entries._dense_signed

    def signed(x: FloatArray, y: FloatArray, x_bound: float, intercept: Any) -> FloatArray:
        return honest(x, y, 1e9 * x_bound, intercept)

    yield Swap(entries, "_dense_signed", signed)


def _partitions_not_bounded() -> Iterable[Swap]:
    def loose(work: Work, reader: Any, *piece: int) -> DenseRows:
        loosened = replace(work.limits, bound=1e9, blocks=())
        return dense.DenseRows.of(reader, *piece, bounds=loosened)

    yield Swap(Work, "rows", loose)


def _bound_from_data() -> Iterable[Swap]:
    honest = RowBounds.hold

    def hold(held: RowBounds, covariates: FloatArray, labels: FloatArray, out: Any = None) -> Any:
        with np.errstate(all="ignore"):
            lengths = np.linalg.norm(covariates, axis=1)
        longest = float(np.max(lengths[np.isfinite(lengths)], initial=held.bound))
        return honest(replace(held, bound=longest), covariates, labels, out)

    yield Swap(RowBounds, "hold", hold)


def _blocks_not_held() -> Iterable[Swap]:
    honest = vars(formula_design.DesignSpec)["blocks"].fget
    halved = property(lambda spec: tuple(replace(b, bound=b.bound / 2) for b in honest(spec)))
    yield Swap(formula_design.DesignSpec, "blocks", halved)
    yield Swap(row_bounds, "held_in_blocks", lambda x, blocks: x)
    yield Swap(RowBounds, "_kept", lambda held, x: np.zeros(len(x), dtype=bool))


def _unbounded_with_the_rest() -> Iterable[Swap]:
    """Columns without bounds are shortened with all others, and their noise is for fewer."""
    yield from everywhere(row_bounds.together_of, lambda blocks, intercept: None)


def _sparse_unbounded_with_the_rest() -> Iterable[Swap]:
    yield Swap(sparse_rows, "_shorten_some", lambda x, columns, bound: None)


def _interactions_trusted() -> Iterable[Swap]:
    """A row is taken to be as long as its declared terms say, which forget an interaction."""
    yield Swap(row_bounds, "_shortened", lambda x, bound: x)
    yield Swap(RowBounds, "_kept", lambda held, x: np.isfinite(x).all(axis=1))
    honest = plan_columns

    def plan(formula: Any, variables: Any) -> Any:
        factors, columns = honest(formula, variables)
        terms = tuple(
            replace(term, radius=term.radius / 4) if ":" in term.label else term
            for term in columns.terms
        )
        return factors, replace(columns, terms=terms)

    yield from everywhere(honest, plan)


def _unusable_dropped() -> Iterable[Swap]:
    honest = formula_design.read_design

    def read(spec: Any, frame: Any, backend: Any) -> Any:
        used = list(spec.formula.variables)
        return honest(spec, frame[frame[used].notna().all(axis=1)], backend)

    yield Swap(model_data, "read_design", read)


def _missing_imputed() -> Iterable[Swap]:
    honest = formula_design.read_labelled

    def read(spec: Any, frame: Any) -> Any:
        covariates, label = honest(spec, frame)
        with np.errstate(all="ignore"):
            usable = np.isfinite(covariates).all(axis=1)
            mean = covariates[usable].sum(axis=0) / max(int(usable.sum()), 1)
        covariates[~usable] = mean
        label[~usable] = 1.0
        return covariates, label

    yield from everywhere(honest, read)


def _scaled_by_largest() -> Iterable[Swap]:
    honest = dense.DenseRows.of.__func__  # type: ignore[attr-defined]

    def of(cls: Any, /, reader: Any, **limits: Any) -> Any:
        made = honest(cls, reader, **limits)
        largest = np.abs(made.x).max(axis=0, initial=0.0)
        unit = np.where(largest > 0, largest, 1.0) * math.sqrt(made.d)
        made._set(np.minimum(made.radius, 1.0) * made.x / unit, made.y.copy(), RowBounds(**limits))
        return made

    yield Swap(dense.DenseRows, "of", classmethod(of))


def _intercept_twice() -> Iterable[Swap]:
    honest = sparse_rows._with_intercept
    yield Swap(sparse_rows, "_with_intercept", lambda x, ones: honest(x, 2 * ones))


OF_ROWS = (
    Mutation("the intercept is forgotten in R", _intercept_forgotten, (FRONT, rows("frame"))),
    Mutation("rows are not shortened", _not_shortened, (FRONT, rows("frame"))),
    Mutation("sparse rows are not shortened", _sparse_not_shortened, (rows("wide factor"),)),
    Mutation(
        "projected rows are not shortened again", _images_not_shortened, (rows("projected frame"),)
    ),
    Mutation(
        "projected sparse rows are held to another length",
        _sparse_images_not_shortened,
        (rows("projected wide factor"),),
    ),
    Mutation(
        "entries that a sparse matrix stores in parts are not added up",
        _duplicates_not_summed,
        (rows("sparse matrix"),),
    ),
    Mutation(
        "parts of an entry are bounded, and not the entry",
        _entry_parts_bounded,
        (rows("entries of a matrix"),),
    ),
    Mutation("entries are not bounded", _entries_not_bounded, (rows("entries of a frame"),)),
    Mutation(
        "rows of Dask partitions are not bounded",
        _partitions_not_bounded,
        (rows("Dask partitions"),),
    ),
    Mutation("the longest row stands in for the bound", _bound_from_data, (rows("frame"),)),
    Mutation("rows leave the blocks of their noise", _blocks_not_held, (rows("frame"),)),
    Mutation(
        "columns without bounds have no length of their own",
        _unbounded_with_the_rest,
        (rows("frame"),),
    ),
    Mutation(
        "sparse columns without bounds have no length of their own",
        _sparse_unbounded_with_the_rest,
        (rows("wide factor"),),
    ),
    Mutation(
        "the range of an interaction is too small, and rows are trusted",
        _interactions_trusted,
        (rows("frame"),),
    ),
    Mutation("records with a missing value are dropped", _unusable_dropped, (rows("frame"),)),
    Mutation("missing values become means of the others", _missing_imputed, (rows("frame"),)),
    Mutation("columns are divided by their largest value", _scaled_by_largest, (rows("frame"),)),
    Mutation(
        "the intercept of sparse rows counts twice", _intercept_twice, (rows("sparse matrix"),)
    ),
)
