"""The audit of rows: rows of random formulas, as a fit reads them, against their bounds.

Other parts of the audit start from public facts, and believe what these say about rows. This one
starts where a user does: from a formula, bounds, levels, and a frame. The frame has values at the
bounds, beyond them, missing, infinite, and of levels that were not declared. In exact arithmetic,
no row, with its intercept, may be longer than the R for which the noise is calibrated, and none
may exceed the bounds of its blocks. A change of one record may change its own row and no other.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from privatelr.audit.checks import Check, guarded
from privatelr.call_data import read_data
from privatelr.design import project
from privatelr.numerics.rows import EntryRows
from privatelr.sources import declare_schema
from privatelr.types import Block, FloatArray

# -- random formulas and awkward records --------------------------------------------------------

_LEVELS = ("low", "mid", "high", "top")
_ROUNDED = 1.0 - 2.0**-50
"""Factor that takes off what rounding may have added to a row that was multiplied and divided."""
_STRANGE = ("undeclared", None)
_WIDE = tuple(f"l{index}" for index in range(90))
_FAR = (1e3, 1e300, np.inf, -1e3, -1e300, -np.inf, np.nan, 0.0, 5e-324)
_TERMS = ("a", "b", "c", "f", "g", "a:b", "a:f", "f:g", "I(b**2)", "I(a - c)", "b:c:g")


_DIVIDED = (
    "bs(o, knots = c(1, 3))",
    "bs(o, knots = 2, degree = 1):g",
    "bs(log(o), degree = 2)",
    "cut(o, breaks = c(0, 1, 2, 5))",
    "cut(o, c(0.25, 3, 8), right = FALSE):b",
    "bs(o, degree = 1):bs(a, degree = 2)",
    "ns(o, knots = c(1, 3), Boundary.knots = c(0.5, 7))",
    "cr(o, knots = 2):b",
)


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A formula, its declarations, and a table of records.

    Attributes
    ----------
    formula : str
    frame : DataFrame
        The types of its columns do not depend on its values.
    declared : dict
        The arguments of `privatelr.sources.declare_schema`.
    """

    formula: str
    frame: pd.DataFrame
    declared: Mapping[str, Any]

    def with_record(self, index: int, rng: np.random.Generator) -> Case:
        """The same case with another random record at this index."""
        values = {str(name): column.tolist() for name, column in self.frame.items()}
        for name, column in values.items():
            column[index] = _value(name, self.declared, rng)
        return replace(self, frame=_typed(values))


def random_case(
    rng: np.random.Generator, n: int, *, wide: bool = False, beside: tuple[str, ...] = ()
) -> Case:
    """A formula of one to four terms over three numbers and two factors, some without bounds.

    With ``wide=True`` one of the terms is a factor with so many levels that its columns are stored
    as a sparse matrix. There may be an ``"offset"``, which may have two parts, ``"weights"``, and
    ``"splines"``, which are terms that divide a number among levels.
    """
    bounds = {
        name: (low, low + 10.0 ** rng.uniform(-2, 3))
        for name, low in zip("abc", rng.normal(0, 10, 3).tolist(), strict=True)
        if rng.random() < 0.8
    }
    levels = {"f": _LEVELS[: rng.integers(2, 5)], "g": _LEVELS[:2], "w": _WIDE, "y": (0, 1)}
    terms = rng.choice(_TERMS, rng.integers(1, 5), replace=False).tolist()
    if wide:
        terms = ["w", *terms[:2]]
    if beside:
        bounds |= {"a": (-2.0, 3.0), "o": (0.25, 8.0)}
    if "splines" in beside:
        terms = [*terms[:1], *rng.choice(_DIVIDED, 2, replace=False).tolist()]
    if "weights" in beside:
        terms.append(("weights(o)", "weights(1 / o)", "weights(a)")[rng.integers(3)])
    if "offset" in beside:
        terms += ["offset(log(o))", "offset(a)"][: rng.integers(1, 3)]
    start = "0 + " if rng.random() < 0.3 else ""
    declared = {
        "bounds": bounds,
        "levels": levels,
        "row_norm": None if rng.random() < 0.5 else float(10.0 ** rng.uniform(-1, 1)),
        "intercept_scale": float(rng.choice([0.1, 0.5, 1.0, 3.0])),
    }
    frame = _records("abcfgwoy" if beside else "abcfgwy", declared, n, rng)
    return Case(f"y ~ {start}{' + '.join(terms)}", frame, declared)


def numeric_case(rng: np.random.Generator, n: int, p: int) -> Case:
    """A formula of p numbers without bounds, whose table may also be a matrix."""
    names = [f"X{index + 1}" for index in range(p)]
    declared = {
        "bounds": {},
        "levels": {"y": (0, 1)},
        "row_norm": float(rng.choice([0.3, 1.0, 5.0])),
        "intercept_scale": float(rng.choice([0.5, 1.0, 3.0])),
    }
    return Case(f"y ~ {' + '.join(names)}", _records([*names, "y"], declared, n, rng), declared)


def _records(
    names: Iterable[str], declared: Mapping[str, Any], n: int, rng: np.random.Generator
) -> pd.DataFrame:
    return _typed({name: [_value(name, declared, rng) for _ in range(n)] for name in names})


def _typed(values: Mapping[str, list[Any]]) -> pd.DataFrame:
    """A frame whose types do not depend on its values."""
    types = {name: object if name in ("f", "g", "w") else np.float64 for name in values}
    return pd.DataFrame({name: pd.Series(values[name], dtype=types[name]) for name in values})


def _value(name: str, declared: Mapping[str, Any], rng: np.random.Generator) -> Any:
    """A random cell: most are at a bound or beyond it, and a few are values of no declaration."""
    odd = rng.random() < 0.04
    if name == "y":
        return float(rng.choice([np.nan, 7.0])) if odd else float(rng.integers(2))
    if name in declared["levels"]:
        known = declared["levels"][name]
        return _STRANGE[rng.integers(2)] if odd else known[rng.integers(len(known))]
    low, high = declared["bounds"].get(name, (-1.0, 1.0))
    if odd:
        return float(rng.choice(_FAR))
    edges = (low, high, (low + high) / 2, low - 1.0, high + 1.0, rng.uniform(low, high))
    return float(edges[rng.choice(6, p=[0.25, 0.25, 0.1, 0.15, 0.15, 0.1])])


# -- checks -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """Rows ``(n, d)``, labels and offsets ``(n,)`` of a case, and their bounds by public facts.

    With ``has_weights=True`` a label is divided by the root of a weight, and its row multiplied.
    """

    x: FloatArray
    y: FloatArray
    n: int
    radius: float
    blocks: tuple[Block, ...]
    offset: FloatArray | None = None
    offset_bound: float = 0.0
    has_weights: bool = False


def audit_rows(
    rng: np.random.Generator, formulas: int = 12, kinds: tuple[str, ...] = ()
) -> Iterator[Check]:
    """Two checks for every kind of rows: their lengths, and whether a record changes only its row.

    Parameters
    ----------
    rng : Generator
    formulas : int
        Number of random formulas for each kind.
    kinds : tuple of str
        Names of `KINDS`; if empty, all kinds are checked.
    """
    for kind in kinds or KINDS:
        yield from guarded("rows", kind, _kind, kind, rng, formulas)


def _kind(kind: str, rng: np.random.Generator, formulas: int) -> Iterator[Check]:
    make, read = KINDS[kind]
    beyond = mixed = 0
    longest = 0.0
    for _ in range(formulas):
        n = 4 if rng.random() < 0.5 else 24  # among 4 records, one of them dominates sums
        case = make(rng, n)
        index = int(rng.integers(n))
        other = case.with_record(index, rng)
        source = int(rng.integers(2**32))  # a reader draws the same random numbers for both tables
        first, second = (read(side, np.random.default_rng(source)) for side in (case, other))
        for side in (first, second):
            beyond += count_beyond(side)
            if math.isfinite(side.radius):
                with np.errstate(all="ignore"):
                    lengths = np.linalg.norm(side.x, axis=1) / side.radius
                longest = max(longest, float(np.max(lengths, initial=0.0)))
        mixed += _count_mixed(first, second, index, n)
    at = f", longest {longest:.9f} R" if longest else ""
    yield Check("rows", f"{kind}: rows of {formulas} formulas that are too long{at}", beyond)
    yield Check("rows", f"{kind}: rows lost, or changed by another record", mixed)


def count_beyond(read: _Read) -> int:
    """Count the rows that exceed R, the bounds of their blocks, or that of an offset, exactly."""
    rows = sum(not (np.isfinite(row).all() and _is_within(row, read)) for row in _whole(read))
    offset = np.zeros(0) if read.offset is None else read.offset
    return rows + sum(not abs(shift) <= read.offset_bound for shift in offset.tolist())


def _whole(read: _Read) -> FloatArray:
    """Rows as they were before weights, up to rounding; a weight does not make a row longer."""
    if not read.has_weights:
        return read.x
    return np.asarray(read.x * (np.maximum(np.abs(read.y), 1.0) * _ROUNDED)[:, None])


def _is_within(row: FloatArray, read: _Read) -> bool:
    square = sum(size * size for size in _sizes(row))
    if math.isfinite(read.radius) and square > Fraction(read.radius) ** 2:
        return False
    start, square, length = 0, Fraction(0), math.inf
    for block in read.blocks:
        inside = _sizes(row[start : start + block.size])
        start += block.size
        if block.norm == "l2":  # all blocks of this norm share one bound on their length
            square += sum(size * size for size in inside)
            length = block.bound
        elif sum(inside) > Fraction(block.bound):
            return False
    return math.isinf(length) or square <= Fraction(length) ** 2


def _sizes(entries: FloatArray) -> list[Fraction]:
    """Absolute values of the nonzero entries, as exact fractions."""
    return [abs(Fraction(entry)) for entry in entries[entries != 0].tolist()]


def _count_mixed(first: _Read, second: _Read, index: int, n: int) -> int:
    """Count records that were lost, and rows that differ although their records are equal."""
    lost = abs(len(first.x) - n) + abs(len(second.x) - n)
    if lost or first.x.shape != second.x.shape:
        return max(lost, 1)
    differ = (first.x != second.x).any(axis=1) | (first.y != second.y)
    if first.offset is not None:
        differ |= first.offset != second.offset
    differ[index] = False
    unusable = (first.y == 0) & (first.x != 0).any(axis=1)
    return int(differ.sum() + unusable.sum() + (first.n != n))


# -- the kinds of rows --------------------------------------------------------------------------


_Change = Callable[[Any], Any] | None


def read_as_a_fit(case: Case, data: Any = None, change: _Change = None) -> _Read:
    """Rows as `dplr` reads them, and the R and the blocks for which it calibrates.

    If `data` is given, it replaces the frame of the case. If `change` is given, it is applied to
    the plan of the design.
    """
    declared = case.declared
    match data:
        case (response, matrix):
            table = read_data(response, matrix, None)
        case np.ndarray():
            table, last = read_data(data, None, data.shape[1] - 1), f"X{data.shape[1]}"
            declared = {**declared, "levels": {last: declared["levels"]["y"]}}
        case _:
            table = read_data(case.formula, case.frame if data is None else data, None)
    # random declarations may cause warnings
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        spec = table.plan(declare_schema(**declared))
        spec = change(spec) if change else spec
        blocks, labels, offsets = table.rows(spec, bar=False)[0].fold(_gather)
    offset = np.concatenate(offsets) if spec.offset_bound > 0 else None
    read = np.vstack(blocks), np.concatenate(labels), len(table), spec.radius, spec.blocks
    beside = offset, spec.offset_bound, spec.weight is not None
    return _Read(*read, *beside)


def _gather(x: Any, y: FloatArray, *offset: FloatArray) -> tuple[list[FloatArray], ...]:
    """A kernel that returns its rows as a dense array, its labels, and its offsets."""
    rows = x.toarray() if sparse.issparse(x) else np.array(x)
    return [rows], [np.array(y)], [np.array(part) for part in offset]


def _projected(rng: np.random.Generator) -> Callable[[Any], Any]:
    """A function that projects a design to at most three random directions."""
    return lambda spec: project(spec, rng.standard_normal((spec.p, min(3, spec.p))))


def _read_dask(case: Case, change: _Change = None) -> _Read:
    import dask
    import dask.dataframe as dd

    plain = dask.config.set({"scheduler": "synchronous", "dataframe.convert-string": False})
    with plain, warnings.catch_warnings(action="ignore"):
        data = dd.from_pandas(case.frame, npartitions=3, sort=False)
        return read_as_a_fit(case, data, change)


def _matrix(case: Case) -> tuple[Any, FloatArray]:
    return case.frame["y"], case.frame.drop(columns="y").to_numpy(dtype=np.float64)


def _in_parts(case: Case, rng: np.random.Generator) -> tuple[Any, Any]:
    """The response, and a sparse matrix that stores every entry as two parts to be added up."""
    y, x = _matrix(case)
    rows, columns = np.nonzero(np.ones(x.shape))
    values = x.ravel()
    share = rng.uniform(0, 1, len(values))
    with np.errstate(all="ignore"):
        parts = np.concatenate([values * share, values - values * share])
    order = np.argsort(np.tile(rows, 2), kind="stable")
    starts = np.arange(0, len(parts) + 1, 2 * x.shape[1])
    return y, sparse.csr_array((parts[order], np.tile(columns, 2)[order], starts), shape=x.shape)


def _read_entries(case: Case, rng: np.random.Generator) -> _Read:
    """Rows of the mechanisms that choose columns, in which each entry has its own bound."""
    table = read_data(case.formula, case.frame, None)
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        spec: Any = table.plan(declare_schema(**case.declared))
        rows: Any = table.entries(spec)[0]
    return _entries(rows, len(table), spec.x_bound)


def _read_entries_of_matrix(case: Case, rng: np.random.Generator) -> _Read:
    y, matrix = _in_parts(case, rng)
    labels = np.where(np.isin(y, (0.0, 1.0)), 2 * y - 1, 0.0)
    rows = EntryRows(matrix, labels, x_bound=1.0, intercept=0.5)
    return _entries(rows, len(y), 1.0)


def _entries(rows: EntryRows, n: int, most: float) -> _Read:
    """Rows of any length, in which each entry is a block of its own."""
    blocks = (Block(1, most),) * rows.d
    return _Read(rows.signed(), np.array(rows.y), n, math.inf, blocks)


_numbers = partial(numeric_case, p=6)


def _random(*beside: str, wide: bool = False) -> Callable[..., Case]:
    return partial(random_case, wide=wide, beside=beside)


def _by_fit(case: Case, rng: np.random.Generator) -> _Read:
    return read_as_a_fit(case)


def _by_dask(case: Case, rng: np.random.Generator) -> _Read:
    return _read_dask(case)


def _by_projection(case: Case, rng: np.random.Generator) -> _Read:
    return read_as_a_fit(case, None, _projected(rng))


KINDS: dict[str, tuple[Callable[..., Case], Callable[[Case, Any], _Read]]] = {
    "frame": (_random(), _by_fit),
    "response and array": (_numbers, lambda case, rng: read_as_a_fit(case, _matrix(case))),
    "array": (
        _numbers,
        lambda case, rng: read_as_a_fit(case, np.column_stack(_matrix(case)[::-1])),
    ),
    "wide factor": (_random(wide=True), _by_fit),
    "sparse matrix": (_numbers, lambda case, rng: read_as_a_fit(case, _in_parts(case, rng))),
    "Dask partitions": (_random(), _by_dask),
    "projected frame": (_random(), _by_projection),
    "projected wide factor": (_random(wide=True), _by_projection),
    "projected partitions": (_random(), lambda case, rng: _read_dask(case, _projected(rng))),
    "frame with an offset": (_random("offset"), _by_fit),
    "wide factor with an offset": (_random("offset", wide=True), _by_fit),
    "partitions with an offset": (_random("offset"), _by_dask),
    "frame with weights": (_random("weights"), _by_fit),
    "wide factor with weights and an offset": (_random("weights", "offset", wide=True), _by_fit),
    "partitions with weights": (_random("weights"), _by_dask),
    "frame with splines": (_random("splines"), _by_fit),
    "wide factor with splines": (_random("splines", wide=True), _by_fit),
    "entries of a frame": (_random(), _read_entries),
    "entries of a wide factor": (_random(wide=True), _read_entries),
    "entries of a matrix": (_numbers, _read_entries_of_matrix),
}
"""All kinds of rows that a mechanism takes, each with a source of cases and a reader."""
