"""Rows of random formulas, as a fit reads them, held to what the guarantee takes of them.

In exact arithmetic: no row, its intercept entry included, is longer than the R that the noise is
calibrated for, none leaves its blocks, and another record changes its own row and no other.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import sparse

from privatelr.audit.attacks.formulas import Case, numeric_case, random_case
from privatelr.audit.checks import Check, guarded
from privatelr.design import project
from privatelr.model_data import FrameData, read_data
from privatelr.numerics.rows import EntryRows
from privatelr.sources import declare_schema
from privatelr.types import Block, FloatArray, Rows

PART = "rows"
_FEW, _RECORDS = 4, 24
"""Records: so few that one of them decides about every sum and extreme, and more."""
_PARTITIONS, _COLUMNS, _DIRECTIONS = 3, 6, 3


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """Rows ``(n, d)`` and labels of a case, and what was promised of them from public facts."""

    x: FloatArray
    y: FloatArray
    n: int
    radius: float
    blocks: tuple[Block, ...]
    largest: float = math.inf


def audit_rows(
    rng: np.random.Generator, formulas: int = 12, kinds: tuple[str, ...] = ()
) -> Iterator[Check]:
    """Two checks for every kind of rows: their lengths, and whether records stay to themselves.

    Parameters
    ----------
    rng : Generator
    formulas : int
        For each kind.
    kinds : tuple of str
        Some of `KINDS`; by default all.
    """
    for kind in kinds or tuple(KINDS):
        yield from guarded(PART, kind, _kind, kind, rng, formulas)


def _kind(kind: str, rng: np.random.Generator, formulas: int) -> Iterator[Check]:
    make, read = KINDS[kind]
    beyond = mixed = 0
    longest = 0.0
    for _ in range(formulas):
        case = make(rng)
        index = int(rng.integers(case.n))
        other = case.with_record(index, rng)
        source = int(rng.integers(2**32))  # what a reader draws, it draws for both
        first, second = (read(side, np.random.default_rng(source)) for side in (case, other))
        for side in (first, second):
            beyond += count_beyond(side)
            if math.isinf(side.largest):
                with np.errstate(all="ignore"):
                    lengths = np.linalg.norm(side.x, axis=1) / side.radius
                longest = max(longest, float(np.max(lengths, initial=0.0)))
        mixed += _count_mixed(first, second, index, case.n)
    at = f", longest {longest:.9f} R" if longest else ""
    yield Check(PART, f"{kind}: rows of {formulas} formulas that are too long{at}", beyond)
    yield Check(PART, f"{kind}: rows lost, or changed by another record", mixed)


def count_beyond(read: _Read) -> int:
    """Rows that are longer than R or leave their blocks, by fractions."""
    return sum(not _within(row, read) for row in read.x)


def _within(row: FloatArray, read: _Read) -> bool:
    filled = np.flatnonzero(row)
    if not np.isfinite(row).all():
        return False
    entries = {int(at): abs(Fraction(float(row[at]))) for at in filled}
    if math.isfinite(read.largest):
        return all(size <= Fraction(read.largest) for size in entries.values())
    if sum(size * size for size in entries.values()) > Fraction(read.radius) ** 2:
        return False
    start, square, length = 0, Fraction(0), math.inf
    for block in read.blocks:
        stop = start + block.size
        inside = [size for at, size in entries.items() if start <= at < stop]
        if block.norm == "l2":
            square += sum((size * size for size in inside), Fraction(0))
            length = block.bound
        elif sum(inside, Fraction(0)) > Fraction(block.bound):
            return False
        start = stop
    return math.isinf(length) or square <= Fraction(length) ** 2


def _count_mixed(first: _Read, second: _Read, index: int, n: int) -> int:
    """Records that were lost, and rows that differ although their records do not."""
    lost = abs(len(first.x) - n) + abs(len(second.x) - n)
    if lost or first.x.shape != second.x.shape:
        return max(lost, 1)
    differ = (first.x != second.x).any(axis=1) | (first.y != second.y)
    differ[index] = False
    unusable = (first.y == 0) & (first.x != 0).any(axis=1)
    return int(differ.sum() + unusable.sum() + (first.n != n))


# -- the kinds of rows --------------------------------------------------------------------------


def gathered(rows: Rows) -> tuple[FloatArray, FloatArray]:
    """All rows ``(n, d)`` and labels as a kernel sees them, whatever holds them."""
    blocks, labels = rows.fold(_gather)
    return np.vstack(blocks), np.concatenate(labels)


def _gather(x: Any, y: FloatArray) -> tuple[list[FloatArray], list[FloatArray]]:
    return [x.toarray() if sparse.issparse(x) else np.array(x)], [np.array(y)]


def read_as_a_fit(
    case: Case,
    data: Any = None,
    *,
    directions: int = 0,
    rng: Any = None,
    projection: FloatArray | None = None,
) -> _Read:
    """Rows by the readers of `dplr`, and R and the blocks that it calibrates for.

    Projected to random directions, or by a projection that was drawn before.
    """
    table = _opened(case, data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of declarations: they are random
        spec: Any = table.plan(declare_schema(**case.declared))
        if directions:
            width = min(directions, spec.p)
            spec = project(spec, rng.standard_normal((spec.p, width)))
        if projection is not None:
            spec = replace(spec.as_whole_rows(), projection=projection)
    with np.errstate(all="ignore"):
        x, y = gathered(table.rows(spec, bar=False)[0])
    return _Read(x, y, len(table), spec.radius, spec.blocks)


def _opened(case: Case, data: Any) -> FrameData:
    match data:
        case None:
            return read_data(case.formula, case.frame, None)
        case (response, matrix):
            return read_data(response, matrix, None)
        case np.ndarray():
            return read_data(data, None, data.shape[1] - 1)
    return read_data(case.formula, data, None)


def _covariates(case: Case) -> tuple[Any, FloatArray]:
    return case.frame["y"], case.frame.drop(columns="y").to_numpy(dtype=np.float64)


def _pair(case: Case, rng: Any) -> _Read:
    return read_as_a_fit(case, _covariates(case))


def _array(case: Case, rng: Any) -> _Read:
    y, x = _covariates(case)
    return read_as_a_fit(case, np.column_stack([x, y]))


def _matrix(case: Case, rng: np.random.Generator) -> _Read:
    y, x = _covariates(case)
    return read_as_a_fit(case, (y, _in_parts(x, rng)))


def _in_parts(x: FloatArray, rng: np.random.Generator) -> Any:
    """A sparse matrix that stores every entry in two parts, which add up to it."""
    rows, columns = np.nonzero(np.ones(x.shape))
    values = x.ravel()
    share = rng.uniform(0, 1, len(values))
    with np.errstate(all="ignore"):
        parts = np.concatenate([values * share, values - values * share])
    order = np.argsort(np.tile(rows, 2), kind="stable")
    starts = np.arange(0, len(parts) + 1, 2 * x.shape[1])
    return sparse.csr_array((parts[order], np.tile(columns, 2)[order], starts), shape=x.shape)


def _dask(case: Case, rng: np.random.Generator, directions: int = 0) -> _Read:
    import dask
    import dask.dataframe as dd

    with (
        dask.config.set({"scheduler": "synchronous", "dataframe.convert-string": False}),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        data = dd.from_pandas(case.frame, npartitions=_PARTITIONS, sort=False)
        return read_as_a_fit(case, data, directions=directions, rng=rng)


def _projected(case: Case, rng: np.random.Generator) -> _Read:
    return read_as_a_fit(case, directions=_DIRECTIONS, rng=rng)


def _projected_dask(case: Case, rng: np.random.Generator) -> _Read:
    return _dask(case, rng, _DIRECTIONS)


def _entries(case: Case, rng: Any) -> _Read:
    """Rows of the mechanisms that choose columns, which bound every entry by itself."""
    table = read_data(case.formula, case.frame, None)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        spec: Any = table.plan(declare_schema(**case.declared))
        rows, _ = table.entries(spec)
    return _of_entries(rows, len(table), spec.x_bound)


def _entries_of_matrix(case: Case, rng: np.random.Generator) -> _Read:
    y, x = _covariates(case)
    labels = np.where(np.isin(y, (0.0, 1.0)), 2 * y - 1, 0.0)
    rows = EntryRows(_in_parts(x, rng), labels, x_bound=1.0, intercept=0.5)
    return _of_entries(rows, len(y), 1.0)


def _of_entries(rows: EntryRows, n: int, largest: float) -> _Read:
    return _Read(rows.signed(), np.array(rows.y), n, 1.0, (), largest)


def _records(rng: np.random.Generator) -> int:
    return _FEW if rng.random() < 0.5 else _RECORDS


def _mixed(rng: np.random.Generator) -> Case:
    return random_case(rng, _records(rng))


def _wide(rng: np.random.Generator) -> Case:
    return random_case(rng, _records(rng), wide=True)


def _numbers(rng: np.random.Generator) -> Case:
    return numeric_case(rng, _records(rng), _COLUMNS)


KINDS: dict[str, tuple[Callable[[np.random.Generator], Case], Callable[[Case, Any], _Read]]] = {
    "frame": (_mixed, lambda case, rng: read_as_a_fit(case)),
    "response and array": (_numbers, _pair),
    "array": (_numbers, _array),
    "wide factor": (_wide, lambda case, rng: read_as_a_fit(case)),
    "sparse matrix": (_numbers, _matrix),
    "Dask partitions": (_mixed, _dask),
    "projected frame": (_mixed, _projected),
    "projected wide factor": (_wide, _projected),
    "projected partitions": (_mixed, _projected_dask),
    "entries of a frame": (_mixed, _entries),
    "entries of a wide factor": (_wide, _entries),
    "entries of a matrix": (_numbers, _entries_of_matrix),
}
"""Every kind of rows that a mechanism takes: where they come from, and how they are read."""
