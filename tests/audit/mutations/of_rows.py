"""Planted bugs in the code that makes bounded rows, and in the scale that maps them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from privatelr import call_data
from privatelr.design import formula_design, offsets_and_weights, partitions, plan_columns
from privatelr.mechanisms import Problem, registry
from privatelr.mechanisms.stages import scale as scale_stage
from privatelr.numerics.rows import (
    DenseRows,
    RowBounds,
    Work,
    entries,
    row_bounds,
    sparse_rows,
)
from privatelr.privacy.noise import FloatDraw
from privatelr.types import FloatArray, row_radius
from tests.audit.mutations.planted import (
    FRONT,
    OFFSETS,
    RELEASES,
    SCALED,
    STAGED_FITS,
    Mutation,
    list_bug,
    noise,
    nothing,
    rows,
    times,
)

OF_ROWS: list[Mutation] = []
bug = partial(list_bug, OF_ROWS)


@bug("the intercept is forgotten in R", row_radius, FRONT, rows("frame"))
def _(honest: Any, bound: float, intercept: float | None) -> float:
    return bound * (1 + 2.0**-50)


@bug("rows are not shortened", None, FRONT, rows("frame"))
def _trusted() -> Iterable[Any]:
    """Finite rows are used as they are, whatever their length."""
    yield (row_bounds, "_shortened"), lambda honest, x, bound: x
    yield (RowBounds, "kept"), lambda honest, held, x: np.isfinite(x).all(axis=1)


bug("sparse rows are not shortened", (sparse_rows, "_shorten"), rows("wide factor"))(nothing)


@bug("projected rows are not shortened again", row_bounds.bounded_rows, rows("projected frame"))
def _(
    honest: Any,
    covariates: FloatArray,
    bound: float,
    intercept: float | None,
    projection: Any = None,
    blocks: Any = (),
) -> Any:
    if blocks:
        return honest(covariates, bound, intercept, projection, blocks)
    short = honest(covariates, bound, None)
    images = short if projection is None else short @ projection
    if intercept is None:
        return images
    return np.column_stack([np.isfinite(covariates).all(axis=1) * intercept, images])


@bug(
    "projected sparse rows are held to another length",
    sparse_rows.sparse_backend,
    rows("projected wide factor"),
)
def _(honest: Any, *given: Any, projection: Any, **limit: Any) -> Any:
    if projection is not None:
        projection, limit["bound"] = 3 * projection, 3 * limit["bound"]
    return honest(*given, projection=projection, **limit)


class _Unsummed(sparse.csr_array):  # type: ignore[misc]
    """A sparse matrix that keeps duplicate entries apart."""

    def sum_duplicates(self) -> None:
        """Do nothing, where SciPy adds up duplicate entries."""


@bug("entries that a sparse matrix stores in parts are not added up", None, rows("sparse matrix"))
def _() -> Iterable[Any]:
    yield (sparse_rows, "sparse"), SimpleNamespace(csr_array=_Unsummed)


@bug(
    "parts of an entry are bounded, and not the entry", entries.merged, rows("entries of a matrix")
)
def _(honest: Any, matrix: Any) -> Any:
    return sparse.csr_array(matrix, copy=True)


@bug("entries are not bounded", (entries, "_dense_signed"), rows("entries of a frame"))
def _(honest: Any, x: FloatArray, y: FloatArray, x_bound: float, intercept: Any) -> Any:
    return honest(x, y, 1e9 * x_bound, intercept)


@bug("rows of Dask partitions are not bounded", (Work, "rows"), rows("Dask partitions"))
def _(honest: Any, work: Work, reader: Any, *piece: int) -> DenseRows:
    loosened = replace(work.limits, bound=1e9, blocks=())
    return DenseRows.of(reader, *piece, bounds=loosened)


@bug("the longest row stands in for the bound", (RowBounds, "hold"), rows("frame"))
def _(honest: Any, held: RowBounds, covariates: FloatArray, *others: Any) -> Any:
    with np.errstate(all="ignore"):
        lengths = np.linalg.norm(covariates, axis=1)
    longest = float(np.max(lengths[np.isfinite(lengths)], initial=held.bound))
    return honest(replace(held, bound=longest), covariates, *others)


@bug("rows leave the blocks of their noise", None, rows("frame"))
def _() -> Iterable[Any]:
    def halved(honest: Any, spec: Any) -> Any:
        return tuple(replace(block, bound=block.bound / 2) for block in honest(spec))

    yield (formula_design.DesignSpec, "blocks"), halved
    yield (row_bounds, "held_in_blocks"), lambda honest, x, blocks: x
    yield (RowBounds, "kept"), lambda honest, held, x: np.zeros(len(x), bool)


bug("columns without bounds have no length of their own", row_bounds.together_of, rows("frame"))(
    nothing
)


bug(
    "sparse columns without bounds have no length of their own",
    (sparse_rows, "_shorten_some"),
    rows("wide factor"),
)(nothing)


@bug("the range of an interaction is too small, and rows are trusted", None, rows("frame"))
def _() -> Iterable[Any]:
    """Rows are not shortened, and the declared radius of an interaction is too small."""

    def plan(honest: Any, formula: Any, variables: Any) -> Any:
        factors, columns = honest(formula, variables)
        terms = tuple(
            replace(term, radius=term.radius / 4) if ":" in term.label else term
            for term in columns.terms
        )
        return factors, replace(columns, terms=terms)

    yield from _trusted()
    yield plan_columns, plan


@bug("records with a missing value are dropped", (call_data, "read_design"), rows("frame"))
def _(honest: Any, spec: Any, batch: Any, *others: Any) -> Any:
    used = pd.DataFrame({name: batch[name] for name in spec.formula.variables})
    return honest(spec, batch.take(np.flatnonzero(used.notna().all(axis=1))), *others)


@bug("missing values become means of the others", formula_design.read_labelled, rows("frame"))
def _(honest: Any, spec: Any, batch: Any, *ends: int) -> Any:
    covariates, label, *offset = honest(spec, batch, *ends)
    with np.errstate(all="ignore"):
        usable = np.isfinite(covariates).all(axis=1)
        mean = covariates[usable].sum(axis=0) / max(int(usable.sum()), 1)
    covariates[~usable], label[~usable] = mean, 1.0
    return (covariates, label, *offset)


@bug("columns are divided by their largest value", (DenseRows, "of"), rows("frame"))
def _(honest: Any, cls: Any, /, reader: Any, **limits: Any) -> Any:
    made = honest(cls, reader, **limits)
    largest = np.abs(made.x).max(axis=0, initial=0.0)
    unit = np.where(largest > 0, largest, 1.0) * math.sqrt(made.d)
    made._put(
        np.minimum(made.radius, 1.0) * made.x / unit,
        made.y.copy(),
        RowBounds(**limits),
        made.offset,
    )
    return made


@bug(
    "the intercept of sparse rows counts twice",
    (sparse_rows, "_with_intercept"),
    rows("sparse matrix"),
)
def _(honest: Any, x: Any, ones: Any) -> Any:
    return honest(x, 2 * ones)


# -- offsets --------------------------------------------------------------------------------------


@bug(
    "an offset is centred by the mean of the records",
    offsets_and_weights.read_offset,
    rows("frame with an offset"),
    rows("wide factor with an offset"),
)
def _(honest: Any, parts: Any, values: Any, n: int) -> Any:
    offset, usable = honest(parts, values, n)
    return offset - offset.mean(), usable


@bug(
    "an offset is not clipped to its declared bounds",
    None,
    rows("frame with an offset"),
)
def _() -> Iterable[Any]:
    """Certificates of minima then count on margins that are more exact than they are."""
    yield (
        offsets_and_weights.read_offset,
        lambda honest, parts, values, n: (1e6 * honest(parts, values, n)[0], np.ones(n, bool)),
    )
    yield (
        row_bounds.held_offset,
        lambda honest, offset, labels, bound: honest(offset, labels, np.inf),
    )


@bug("a record with an offset pays nothing for its curvature", (Problem, "kappa"), OFFSETS)
def _(honest: Any, problem: Problem) -> float:
    return float(honest(problem)) if problem.offset == 0 else 0.0


# -- splines --------------------------------------------------------------------------------------


@bug("knots lie at quantiles of the records", partitions.b_splines, rows("frame with splines"))
def _(honest: Any, values: FloatArray, knots: FloatArray, degree: int) -> Any:
    inner = np.quantile(values, np.linspace(0, 1, len(knots))[1:-1]) if len(values) else knots[1:-1]
    moved = np.clip(inner, knots[0] + 1e-9, knots[-1] - 1e-9)
    return honest(
        values, np.concatenate([knots[:1], np.maximum.accumulate(moved), knots[-1:]]), degree
    )


@bug("shares of a spline add up to two, and rows are trusted", None, rows("frame with splines"))
def _() -> Iterable[Any]:
    """Beyond its knots a spline has no bounds; this is what a wrong range would allow."""

    def doubled(honest: Any, *given: Any) -> Any:
        first, shares = honest(*given)
        return first, 2 * shares

    yield from _trusted()
    yield partitions.b_splines, doubled


# -- weights --------------------------------------------------------------------------------------


@bug(
    "weights are divided by their mean",
    offsets_and_weights.read_roots,
    rows("frame with weights"),
    rows("partitions with weights"),
)
def _(honest: Any, weight: Any, values: Any, n: int) -> Any:
    roots = honest(weight, values, n)
    return np.minimum(roots / np.sqrt(np.mean(roots**2)), 1.0) if weight else roots


bug(
    "a record that counts less keeps its curvature",
    (row_bounds, "roots_of"),
    rows("frame with weights"),
)(nothing)


# -- the scale of columns -------------------------------------------------------------------------

bug(
    "the scale pays for a root of what a record moves",
    scale_stage.scale_sensitivity,
    STAGED_FITS,
    noise("scale, rho*"),
)(times(1 / math.sqrt(2)))


@bug(
    "the scale pays for a record that appears",
    scale_stage.scale_blocks,
    noise("scale, epsilon = 1"),
)
def _(honest: Any, *given: Any, **named: Any) -> Any:
    return tuple(replace(block, bound=block.bound / 2) for block in honest(*given, **named))


@bug("coefficients get the price of the scale, too", registry.divide, SCALED)
def _(honest: Any, target: Any, *given: Any, **named: Any) -> Any:
    ways = honest(target, *given, **named)
    return [({**parts, "coefficients": target}, kinds) for parts, kinds in ways]


@bug("the scale is released without its noise", scale_stage.release_scale, RELEASES)
def _(honest: Any, rows: Any, calibration: Any, noise: Any) -> Any:
    return honest(rows, calibration, FloatDraw(np.zeros(calibration.noise.dimension)))
