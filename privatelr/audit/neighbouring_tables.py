"""Attacks through the public interface: fits to neighbouring tables, and what they add noise to.

A fit is made as a user makes it. Then the same readers read neighbouring tables of the same
schema, whose records are at the corners of the bounds and beyond, and the privacy loss of the
fit between them is computed exactly. Other checks are about tables that may reveal
a record before any row is made: by the type of a column, or by data that change between passes.

Records may also be as long as every clip allows, a record leaves one stratum and joins another, or
a person has many records in the one table and one in the other. For long records what a stage hands
to its noise is recorded, and what it releases is chosen here, the same for both tables: so later
stages go by the same earlier results, and these may be those that make records longest. The change
between the two, under the noise that was really handed along, is the exact privacy loss of that
stage.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import partial
from importlib.util import find_spec
from itertools import product
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from scipy import sparse

from privatelr import fitting
from privatelr.audit import checks, worth
from privatelr.audit.density.exact import candidate_margins
from privatelr.audit.density.loss import privacy_loss
from privatelr.call_data import read_data
from privatelr.design import read_design
from privatelr.design.persons import Section, sharing_of
from privatelr.errors import GuaranteeError, PrivateLRError, SchemaWarning
from privatelr.formula import Person
from privatelr.mechanisms import (
    STAGES,
    Problem,
    candidate_choice,
    mean_moments,
    perturbation,
    range_selection,
)
from privatelr.mechanisms.calibration import GAUSSIAN, LAPLACE
from privatelr.mechanisms.stages.histogram import calibrate_histogram, score_counts
from privatelr.mechanisms.stages.lengths import (
    LENGTH_GRID,
    LengthCalibration,
    LengthRelease,
    counts_of_lengths,
)
from privatelr.mechanisms.stages.matrices import calibrate_moments
from privatelr.mechanisms.stages.ranges import RangeRelease, counts_in_cells, offsets_of
from privatelr.mechanisms.stages.scale import BEYOND
from privatelr.model import dplr, dpsvm
from privatelr.numerics import LOSSES
from privatelr.numerics.rows import DenseRows
from privatelr.planning import suggestions
from privatelr.privacy import REPLACE_ONE, REPLACE_PERSON, ZCDP, ApproxDP, Promise, PureDP
from privatelr.privacy.accounting import Ledger
from privatelr.privacy.noise import NoiseLaw
from privatelr.results import Fit
from privatelr.sources import as_batch, declare_schema, stream
from privatelr.types import FloatArray, ObjectArray

_FITS_BY = (dplr, dpsvm)
_Record = dict[str, Any]
_Declared = Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class TableCase:
    """Two neighbouring tables that differ in a record or a person, and how fits are made to them.

    Attributes
    ----------
    formula : str
    tables : list of DataFrame
    declared : dict
        What is declared and requested, as arguments of `dplr`.
    what : str
        What is released besides coefficients and matrices, in words.
    claims : tuple of int
        The positions in `claims_of_size` of the claims that are audited.
    slow : bool
        Whether objective perturbation is audited under a pure claim only: an integral in several
        dimensions is slow and adds little.
    """

    formula: str
    tables: list[pd.DataFrame]
    declared: _Declared = field(default_factory=dict)
    what: str = ""
    claims: tuple[int, ...] = (0, 1)
    slow: bool = False


def _tables_of(
    firsts: tuple[list[_Record], list[_Record]], others: list[_Record]
) -> list[pd.DataFrame]:
    """Two tables that begin with the ones or the other records, and share the others."""
    return [pd.DataFrame([*first, *others]) for first in firsts]


# -- the exact loss of fits ----------------------------------------------------------------------


def _alike(longest: _Record) -> list[pd.DataFrame]:
    """Neighbours with the longest record under either label.

    They share two copies of the new record and some with unusable labels.
    """
    old, new, unusable = ({**longest, "y": label} for label in (1.0, 0.0, math.nan))
    return _tables_of(([old], [new]), [new] * 2 + [unusable] * 3)


_OTHERS = 20
"""A table of long records has this number of others, in the middle."""
_LABELS = {"y": (0, 1)}
_ENDS = _tables_of(
    ([{"x": 50.0, "z": -20.0, "f": "a", "y": 0.0}], [{"x": -50.0, "z": 20.0, "f": "c", "y": 1.0}]),
    [{"x": 1.0, "z": 0.1, "f": "b", "y": y} for y in (0.0, 1.0) * (_OTHERS // 2)],
)
"""A record moves every column from one end of its bounds to the other."""
_SCALED: _Declared = {
    "bounds": {"x": (-5, 5), "z": (-2, 2), **_LABELS},
    "levels": {"f": ("a", "b", "c")},
}
_WITH_SCALE = {**_SCALED, "spend": "inference", "do_scale": "private"}
_FOUR = {"scale": 0.1, "coefficients": 0.5, "inference": 0.3, "roc": 0.1}
_SCORED: Mapping[str, _Declared] = {
    "with counts of scores": {**_SCALED, "spend": {"coefficients": 0.75, "roc": 0.25}},
    "with four stages": {**_SCALED, "spend": _FOUR},
}


def _formula(formula: str, longest: _Record, bounds: _Declared, **declared: Any) -> TableCase:
    """A case of coefficients and matrices, in which the longest records are at a corner."""
    given = {"spend": "inference", "bounds": {**_LABELS, **bounds}, **declared}
    return TableCase(formula, _alike(longest), given, slow=formula != "y ~ x")


FORMULAS = (
    _formula("y ~ x", {"x": 50.0}, {"x": (-5, 5)}, intercept_scale=1.0),
    _formula("y ~ x + z", {"x": 3.0, "z": -20.0}, {}, row_norm=1.0, intercept_scale=1.0),
    _formula(
        "y ~ 0 + x + f:x",
        {"x": 2.0, "f": "c"},
        {"x": (-1, 2)},
        levels={"f": ("a", "b", "c")},
        intercept_scale=0.5,
    ),
    _formula(
        "y ~ x + z + u",
        dict.fromkeys("xzu", 9.0),
        dict.fromkeys("xzu", (-1, 1)),
        intercept_scale=0.5,
        rp_dim=2,
    ),
    TableCase("y ~ x", _ENDS, _WITH_SCALE, "with scale", (1, 2)),
    TableCase("y ~ x + z + f", _ENDS, _WITH_SCALE, "with scale", (0,)),
    TableCase("y ~ x + offset(z)", _ENDS, _WITH_SCALE, "with scale", (0, 1)),
    *(TableCase("y ~ x", _ENDS, given, what, (0, 1, 3)) for what, given in _SCORED.items()),
)
_LOUD, _MANY_FITS = 0.1, 60
"""An epsilon at which the noise on counts cannot be overlooked, and so many fits to see it in."""


def audit_formulas(epsilon: float, only: str = "*") -> Iterator[checks.Check]:
    """A check for each formula, placement and claim: the largest loss of all stages and of each.

    Counts of scores are those of real rows: without noise replacing a record moves two of them by
    one, and with it they are off by the law that a calibration states. Only subjects that match the
    pattern `only` are checked.
    """
    claims = checks.claims_of_size(epsilon)
    checked = partial(checks.measured, "formula", only=only)
    for case, op in product(FORMULAS, (True, False)):
        named = " ".join(filter(None, (case.formula, case.what)))
        named = f"{named}, {'objective' if op else 'output'}"
        for claim in (claims[at] for at in case.claims if not (op and case.slow and at > 0)):
            subject = f"{named}, {checks.short(claim)}: loss over the claim"
            yield from checked(subject, _largest_loss, case, op, claim)
    subject = "counts of scores: counts that one record moves"
    yield from checked(subject, _moved_counts, allowed=2.0)
    subject = "counts of scores: their noise in fits, deviations"
    yield from checked(subject, _noise_of_counts, allowed=6.0)


def _largest_loss(case: TableCase, op: bool, claim: Promise) -> float:
    """The largest loss of fits between two tables over the claim, and of a stage over its part."""
    ratios = []
    for fit_by in _FITS_BY:
        fit = _fit(fit_by, case.formula, case.tables[0], claim, op, **case.declared)
        found = privacy_loss(fit, *case.tables)
        ratios += [found.ratio, *(part.ratio for part in found.parts)]
    return checks.largest(ratios)


def _fit(
    fit_by: Callable[..., Fit],
    formula: str,
    table: pd.DataFrame,
    claim: Any,
    op: bool,
    **given: Any,
) -> Fit:
    with warnings.catch_warnings(action="ignore"):
        return fit_by(formula, table, claim, "free", op, **given)


def _exact_counts(fit: Fit, table: Any) -> FloatArray:
    rows = read_design(fit.spec, as_batch(table), DenseRows)
    release = fit.roc.release
    edges = release.scale.edges(release.calibration.bins)
    return score_counts(rows, fit.release.coef, edges)


def _moved_counts() -> float:
    moved, (first, second) = 0.0, _ENDS
    for fit_by, given in product(_FITS_BY, _SCORED.values()):
        fit = _fit(fit_by, "y ~ x", first, 100.0, True, **given)
        for other in (second, first.assign(y=first["y"].where(first.index > 0))):
            change = _exact_counts(fit, first) - _exact_counts(fit, other)
            moved = max(moved, float(np.abs(change).sum()))
    return moved


def _noise_of_counts() -> float:
    """The spread of what is released around the exact counts, over that of the stated law."""
    off, table, given = [], _ENDS[0], _SCORED["with counts of scores"]
    for _ in range(_MANY_FITS):
        fit = _fit(dplr, "y ~ x", table, _LOUD, True, **given)
        release = fit.roc.release
        off.append((release.counts - _exact_counts(fit, table)) / release.calibration.count_sd)
    found = np.concatenate(off)
    # squares of Laplace noise of variance 1 have a variance of 5
    return abs(float(np.mean(found**2)) - 1) / math.sqrt(5 / len(found))


# -- tables that may reveal a record ------------------------------------------------------------

_N = 12
_ODD = (7, None, "zzz", pd.Timestamp("2020-01-01"), pd.Period("2020-01"), 0.5j, [1], b"7")


def audit_tables() -> Iterator[checks.Check]:
    """Checks that no type depends on values, and that a fit ends if its data change."""
    for name, made in _CONTAINERS.items():
        subject = f"{name}: records that change a type or an error"
        yield from checks.measured("rows", subject, _types, made, allowed=0.0)
    subject = "Dask partitions that change: fits that came to an end"
    if find_spec("dask") is None:
        yield checks.Check("rows", subject, failure=checks.MISSING)
    else:
        yield from checks.measured("rows", subject, _changing, allowed=0.0)


def _objects(*columns: list[Any]) -> ObjectArray:
    """Columns as an array ``(n, p)`` of objects, whose cells are unchanged."""
    found: ObjectArray = np.empty((len(columns[0]), len(columns)), dtype=object)
    for place in np.ndindex(found.shape):
        found[place] = columns[place[1]][place[0]]
    return found


_CONTAINERS: dict[str, Callable[[list[Any], list[Any]], tuple[Any, Any]]] = {
    "lists": lambda x, y: ("y ~ X1", {"X1": x, "y": y}),
    "arrays of objects": lambda x, y: ("y ~ X1", {"X1": _objects(x)[:, 0], "y": _objects(y)[:, 0]}),
    "a table of objects": lambda x, y: ("X2 ~ X1", _objects(x, y)),
    "y and X of objects": lambda x, y: (_objects(y)[:, 0], _objects(x)),
}


def _types(made: Callable[[list[Any], list[Any]], Any]) -> float:
    told, y = 0, [0, 1] * (_N // 2)
    for pair in (["a", "b"], [0.5, 1.0], [pd.Timestamp("2021-01-01")] * 2):
        x = pair * (_N // 2)
        before = _outcome(*made(x, y))
        told += sum(_outcome(*made([*x[:3], odd, *x[4:]], y)) != before for odd in _ODD)
    return told


def _outcome(first: Any, second: Any) -> list[str]:
    """The plans of the columns under several declarations of the first one, or their errors."""
    response = {"X2" if "X2" in str(first) else "y": (0.0, 1.0)}
    found = []
    for schema in (
        declare_schema(bounds=response),
        declare_schema(bounds=response, levels={"X1": ["a", "b"]}),
        declare_schema(bounds={**response, "X1": (0.0, 1.0)}),
    ):
        try:
            spec = read_data(first, second, None).plan(schema)
            found.append(str([spec.variables[name] for name in sorted(spec.variables)]))
        except PrivateLRError as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


def _changing() -> float:
    import dask
    import dask.dataframe as frames

    first = pd.DataFrame({"x": np.linspace(-1, 1, _N), "y": [0.0, 1.0] * (_N // 2)})
    ended = 0
    for after in (2, 3):
        readings = iter(range(after))

        def read(part: pd.DataFrame, left: Iterator[int] = readings) -> pd.DataFrame:
            return part.assign(x=-part["x"]) if next(left, None) is None else part

        table = frames.from_pandas(first, npartitions=1).map_partitions(read, meta=first.iloc[:0])
        whole = dask.config.set({"scheduler": "synchronous", "privatelr.memory": "0"})
        with whole, warnings.catch_warnings(action="ignore"), suppress(PrivateLRError):
            dplr("y ~ x", table, 1.0, bounds={"x": (-1, 1), "y": (0, 1)})
            ended += 1
    return ended


# -- long records ---------------------------------------------------------------------------------

_LARGE = 1e4
"""An epsilon, or a rho, at which fits take rows much longer than usual ones."""
_REACHED = 0.9
"""The longest records have to reach this share of what the noise of each stage is for."""
_LENGTHS = (1.0, 0.5, 0.38)
"""Lengths of rows over the largest one."""
_RECORDS, _PERSONS = 40, 40
"""Records of a table with strata, and persons of one."""
_FEW, _MANY = 2, 31
"""Numbers of records of one person."""
_BOUNDS, _LEVELS = {"x": (0.0, 1.0), "y": (0.0, 1.0)}, {"site": ["a", "b", "c"]}
_STEEPEST = np.array([0.0, -0.158])
"""Coefficients at which the first record adds most to both matrices of inference together."""
_STEEP = np.array([-4.0, 3.0])
"""Coefficients at which scores of a person's records are far apart."""


def _read(formula: str, table: pd.DataFrame, *, levels: Any = None) -> tuple[Any, Any]:
    """The specification and the rows of a table as a fit has them, for each level if given."""
    source = read_data(formula, table, None)
    spec = source.plan(declare_schema(_BOUNDS, levels, None, None))
    if levels is None:
        return spec, source.rows(spec, bar=False)[0]
    return spec, [source.rows(spec.at_level(level), bar=False)[0] for level in levels["site"]]


def _priced(epsilon: float) -> Iterator[tuple[Promise, Any]]:
    """Every claim about as strong as epsilon, with every kind of noise that is proven for it."""
    for claim, kinds in product(checks.claims_of_size(epsilon), (LAPLACE, GAUSSIAN)):
        if kinds is LAPLACE or not isinstance(claim, PureDP):
            yield claim, kinds


def audit_long_records(epsilon: float, only: str = "*") -> Iterator[checks.Check]:
    """Checks of the matrices of inference on long rows, and of all stages of fits.

    Only subjects that match the pattern `only` are checked.
    """
    for claim, kinds in _priced(epsilon):
        subject = (
            f"matrices, {checks.short(claim)}, {'Laplace' if kinds is LAPLACE else 'Gaussian'}"
        )
        given = claim, kinds, subject
        yield from checks.guarded("long", subject, _matrices, *given, only=only)
    reached: dict[str, float] = {}
    for named, case in _CASES.items():
        neighbours = REPLACE_PERSON if "person(" in case.formula else REPLACE_ONE
        for claim in (PureDP(_LARGE, neighbours), ZCDP(_LARGE, neighbours)):
            subject = f"{named}, {'pure' if isinstance(claim, PureDP) else 'zCDP'}"
            if fnmatch(subject, only):
                whole = f"{subject}: loss of a stage over its part"
                yield from checks.measured("long", whole, _fits, case, claim, reached)
    for stage, share in reached.items() if only == "*" else ():
        yield checks.Check("long", f"{stage}: what has to be reached, of its part", _REACHED, share)


def _matrices(claim: Promise, kinds: Any, subject: str) -> Iterator[checks.Check]:
    """Two orthogonal records of all lengths and margins; the worst has to be near the bound."""
    shares = []
    for loss, typical in product(LOSSES.values(), (None, 1.0)):
        facts = Problem(2, 2, loss, 3.0, lambda_=1.0)
        made, reached = calibrate_moments(facts, claim, kinds, typical), []
        margin = candidate_margins(loss)
        weights = loss.curvature(margin), made.balance * loss.slope(margin) ** 2
        sizes = np.hypot(*weights), np.add(*weights)
        tried = (*(float(margin[np.argmax(size)]) for size in sizes), 0.0, -30.0)
        for lengths, margins in product(product(_LENGTHS, repeat=2), product(tried, repeat=2)):
            rows = 3.0 * np.array([[[lengths[0], 0], [0, 0]], [[0, lengths[1]], [0, 0]]])
            read = (DenseRows(row, np.eye(2)[0], bound=3.0, intercept=None) for row in rows)
            w = np.array(margins) / (3.0 * np.array(lengths))
            found = [mean_moments(side, w, made) for side in read]
            reached.append(worth.share_of_changes(made.noise, claim, [found[0] - found[1]]))
        shares.append(checks.largest(reached))
    yield checks.Check("long", f"{subject}: loss over the claim", checks.largest(shares), 1.0)
    if not isinstance(claim, ApproxDP):  # a delta falls fast with the noise
        yield checks.Check(
            "long", f"{subject}: what has to be reached, of the claim", _REACHED, min(shares)
        )


_MIDDLE = {"x": 0.1, "z": -0.1, "f": "b", "w": 0.5, "y": 1.0}
_FAR = {"x": 1e9, "z": -1e9, "f": "a", "w": 1e9, "y": 1.0}
_NEAR = {"x": -1e9, "z": 1e9, "f": "c", "w": 1e9, "y": 0.0}
_DECLARED: _Declared = {
    "bounds": {"x": (-5, 5), "z": (-2, 2), "w": (0, 1), **_LABELS},
    "levels": {"f": ("a", "b", "c")},
    "spend": _FOUR,
}


def _far(formula: str, second: _Record = _NEAR, times: int = 1, **declared: Any) -> TableCase:
    """A case of tables whose first records, so many in the first, are at one end or elsewhere."""
    first, last = {**_FAR, "who": 0}, {**_MIDDLE, **second, "who": 0}
    others = [{**_MIDDLE, "who": 1 + k} for k in range(_OTHERS)]
    return TableCase(formula, _tables_of(([first] * times, [last]), others), declared)


_CASES = {
    "opposite records": _far("y ~ x + z"),
    "a record that leaves the middle": _far("y ~ x + z", {"x": 0.0, "z": 0.0}),
    "orthogonal records": _far("y ~ 0 + x + z", {**_FAR, "z": 1e9, "f": "c"}),
    "factors": _far("y ~ x + f"),
    "products": _far("y ~ 0 + x:f + z"),
    "heavy records": _far("y ~ x + z", weights="w"),
    "persons": _far("y ~ x + f + person(who)", times=9),
}


@dataclass(slots=True)
class _Watch:
    """Stands in for the rounding of sums with noise, and records the sums and the laws."""

    w: float
    seen: list[tuple[NoiseLaw, FloatArray]] = field(default_factory=list)
    scored: list[tuple[Any, float, FloatArray]] = field(default_factory=list)

    def rounded(self, centre: Any, noise: Any, grid: float) -> FloatArray:
        """Zeros for a scale and for matrices, and coefficients of this size for a minimiser."""
        law = noise.recipe
        values = np.array([float(getattr(c, "mid", lambda c=c: c)()) for c in centre])
        self.seen.append((law, values))
        return np.zeros(len(values))

    def length(
        self, rows: Any, made: LengthCalibration, noise: Any, change: Any, bounds: Any
    ) -> LengthRelease:
        """One of two lengths of long rows, whatever the scores of the candidates are."""
        counts = counts_of_lengths(rows, change, bounds)
        scores = range_selection.scores_of_high(counts, made.longer)
        self.scored.append((made, made.eta, scores[None]))
        return LengthRelease(float(LENGTH_GRID[45 if self.w else 30]), made)

    def ranges(self, rows: Any, made: Any, noise: Any, scale: Any) -> RangeRelease:
        """No range is narrow, whatever the scores of both ends of each number are."""
        first = rows.d - scale.calibration.facts.p
        columns = [first + number for number in made.numbers]
        cells = np.tile(offsets_of(made.scale.mean_sd), (len(columns), 1))
        for slots in counts_in_cells(rows, columns, cells):
            ways = (range_selection.scores_of_low, range_selection.scores_of_high)
            scores = np.array([way(slots, BEYOND * made.scale.facts.n) for way in ways])
            self.scored.append((made, made.mechanism(1).epsilon, scores))
        return RangeRelease(np.repeat([-1.0, 1.0], len(columns)), made)

    def minimiser(self, centre: Any, noise: Any, grid: float) -> FloatArray:
        """The first vector that a fit rounds in this module is that of the coefficients."""
        if any(law is None for law, _ in self.seen):
            return self.rounded(centre, noise, grid)
        self.seen.append((None, np.zeros(0)))  # type: ignore[arg-type]
        return np.resize([self.w, -self.w], len(centre))


def _watched(
    fit_by: Callable[..., Any], case: TableCase, claim: Promise, w: float, side: int
) -> tuple[Any, _Watch]:
    watch = _Watch(w)
    with ExitStack() as patched:
        own = {sys.modules[type(stage).__module__] for stage in STAGES.values()}
        for module in {module for module in own if hasattr(module, "rounded_sum")}:
            patched.enter_context(mock.patch.object(module, "rounded_sum", watch.rounded))
        patched.enter_context(mock.patch.object(perturbation, "rounded_sum", watch.minimiser))
        patched.enter_context(mock.patch.object(fitting, "release_ranges", watch.ranges))
        patched.enter_context(mock.patch.object(fitting, "release_length", watch.length))
        patched.enter_context(warnings.catch_warnings(action="ignore"))
        fit = fit_by(case.formula, case.tables[side], claim, "free", **_DECLARED, **case.declared)
    watch.seen = [(law, values) for law, values in watch.seen if law is not None]
    return fit, watch


def _fits(case: TableCase, claim: Promise, reached: dict[str, float]) -> float:
    shares: list[float] = []
    for fit_by, w in product(_FITS_BY, (0.0, -0.3, -1.0, -3.0)):
        (fit, one_side), (_, other_side) = (
            _watched(fit_by, case, claim, w, side) for side in (0, 1)
        )
        release = fit.release
        stages = {part.calibration.noise: part.calibration for part in release.parts.values()}
        chosen = {type(made) for made, _, _ in one_side.scored}
        assert len(one_side.seen) + len(chosen) == len(stages)
        found = [
            (stages[law], worth.share_of_changes(law, stages[law].target, [one - other]))
            for (law, one), (_, other) in zip(one_side.seen, other_side.seen, strict=True)
        ]
        for (made, eta, one), (*_, other) in zip(one_side.scored, other_side.scored, strict=True):
            moved = eta * np.ptp(one - other, axis=1) / made.sensitivity
            spent = math.fsum(worth.share_of_choices(float(m), 1, made.target) for m in moved)
            found.append((made, spent))
        shares += [share for _, share in found]
        for calibration, share in found:
            if type(calibration) not in chosen:  # their worst tables are others
                stage = f"{type(calibration).__name__}, {type(claim).__name__}"
                reached[stage] = max(reached.get(stage, 0.0), share)
    return checks.largest(shares)


# -- strata ---------------------------------------------------------------------------------------

_STRATA = "y ~ x + by(site)"


def audit_strata(epsilon: float) -> Iterator[checks.Check]:
    """Move a record of a table from one stratum to another, and compare what fits are made of."""
    records = partial(_both_strata, _tables, _STRATA)
    persons = partial(_both_strata, _tables_of_persons, f"{_STRATA} + person(who)")
    yield from checks.measured(
        "strata", "strata that a moved record changes, over 2", _changed, records
    )
    for what, stage in _STAGES.items():
        subject = f"{what} of two strata: how far a record {_OVER}"
        yield from checks.measured("strata", subject, _moved_in_strata, records, stage, epsilon)
    subject = "price of all strata in a ledger, over the claim"
    yield from checks.measured("strata", subject, _charged, epsilon, allowed=0.0)
    subject = "what a person counts in all strata together, in records"
    yield from checks.measured("strata", subject, _weighed, persons)
    for what, stage in _STAGES.items():
        subject = f"{what} of all strata: how far a person {_OVER}"
        yield from checks.measured("strata", subject, _moved_in_strata, persons, stage, epsilon)


def _tables() -> list[pd.DataFrame]:
    """Two tables that differ in the first record, which is in another stratum."""
    site = ["a", *(["a", "b", "c", None] * _RECORDS)[: _RECORDS - 1]]
    x = np.append(1.0, np.arange(1, _RECORDS) / _RECORDS)
    table = pd.DataFrame({"site": site, "x": x, "y": np.append(1, np.arange(1, _RECORDS) % 2)})
    return [table, table.assign(site=["b", *site[1:]])]


def _tables_of_persons() -> list[pd.DataFrame]:
    """Two tables that differ in the first person, with records in all strata or in one."""
    first, others = np.arange(_RECORDS) % 3, np.arange(_RECORDS)
    table = pd.DataFrame(
        {
            "who": np.append(np.zeros(_RECORDS, dtype=int), 1 + others),
            "site": np.array(_LEVELS["site"])[np.append(first, others % 3)],
            "x": np.append(np.ones(_RECORDS), others / _RECORDS),
            "y": np.append(np.ones(_RECORDS, dtype=int), others % 2),
        }
    )
    # the other has one record, opposite to those, in one stratum
    alone = table[_RECORDS - 1 :].copy()
    alone.iloc[0] = [0, "b", 0.0, 0]
    return [table, alone]


_Strata = Callable[[], tuple[Problem, list[Any], list[Any]]]
"""Returns the public facts of fits to two tables, and the rows of each stratum of either."""


def _both_strata(
    tables: Callable[[], list[pd.DataFrame]], formula: str
) -> tuple[Problem, list[Any], list[Any]]:
    both = tables()
    (spec, first), (_, second) = (_read(formula, table, levels=_LEVELS) for table in both)
    facts = Problem(
        len(both[1]),  # everybody has one record there
        spec.d,
        LOSSES["logistic"],
        spec.radius,
        lambda_=0.1,
        persons="person" in formula,
        touched=spec.touched,
    )
    return facts, first, second


def _changed(strata: _Strata) -> float:
    _, first, second = strata()
    changed = sum(
        not (np.array_equal(one.x, other.x) and np.array_equal(one.y, other.y))
        for one, other in zip(first, second, strict=True)
    )
    counted = np.max(sum((one.y != 0).astype(int) for one in first))  # strata of each record
    return max(changed / 2, float(counted))


_Stage = Callable[[Problem, Any, Any], tuple[NoiseLaw, Callable[[Any], FloatArray]]]
"""Calibrates a stage to facts, a claim and kinds of noise: its noise, and what it is added to."""


def _moved_in_strata(strata: _Strata, stage: _Stage, epsilon: float) -> float:
    """The largest share of a claim that is lost in all strata, as records change between two."""
    facts, *sides = strata()
    shares = []
    for price, kinds in _priced(epsilon):
        claim = replace(price, neighbours=facts.neighbours)
        noise, values_of = stage(facts, claim, kinds)
        one, other = ([values_of(rows) for rows in side] for side in sides)
        moved = [before - after for before, after in zip(one, other, strict=True)]
        shares.append(worth.share_of_changes(noise, claim, moved))
    return checks.largest(shares)


def _stage_of_matrices(
    facts: Problem, claim: Any, kinds: Any
) -> tuple[NoiseLaw, Callable[[Any], FloatArray]]:
    plan = calibrate_moments(facts, claim, kinds)
    return plan.noise, lambda rows: mean_moments(rows, _STEEPEST, plan)


def _stage_of_counts(
    facts: Problem, claim: Any, kinds: Any
) -> tuple[NoiseLaw, Callable[[Any], FloatArray]]:
    plan = calibrate_histogram(facts.n, claim, kinds, facts.moved)
    return plan.noise, lambda rows: score_counts(rows, _STEEPEST, np.zeros(plan.bins - 1))


_STAGES: Mapping[str, _Stage] = {"matrices": _stage_of_matrices, "counts": _stage_of_counts}
_OVER = "moves them, over what noise hides"


def _weighed(strata: _Strata) -> float:
    counted = np.zeros(_RECORDS + 1)
    for rows in strata()[1]:
        counted += np.bincount(_tables_of_persons()[0].who, _weights_of(rows.y))
    return float(np.max(counted))


def _weights_of(y: FloatArray) -> FloatArray:
    """How much the rows of these labels count; an unusable record does not."""
    return np.asarray(np.where(y == 0, 0.0, 1 / np.maximum(np.square(y), 1.0)))


def _charged(epsilon: float) -> float:
    ledger: Any = Ledger(epsilon=10 * epsilon)
    dplr(_STRATA, _tables()[0], epsilon, bounds=_BOUNDS, levels=_LEVELS, ledger=ledger)
    spent = sum(entry.guarantee.epsilon for entry in ledger.entries)
    return float(abs(spent / epsilon - 1))


# -- persons --------------------------------------------------------------------------------------

_PATIENTS = "y ~ x + person(patient)"


def audit_persons_of_fits(epsilon: float) -> Iterator[checks.Check]:
    """Compare what is told of two tables of as many persons, and weigh the persons of one."""
    for subject, measure, allowed in (
        ("pages and errors that differ by the number of records", _told, 0.0),
        ("what a person counts, in records", _counted, 1.0),
        ("what a person counts beside a sparse matrix, in records", _counted_of_matrix, 1.0),
        ("what a person counts in two partitions, in records", _in_two_partitions, 1.0),
        ("what a person counts in batches of a stream, in records", _in_batches, 1.0),
        ("sum of counts of scores that is not public", _sum_of_counts, 0.0),
        ("how far a person moves the scores of fits to choose from", _moved_choice, 1.0),
        ("how far a person moves the counts behind suggested bounds", _moved_ranges, 2.0),
    ):
        yield from checks.measured("persons", subject, measure, epsilon, allowed=allowed)


def _table(records: int, response: int = 0) -> pd.DataFrame:
    """Persons with one record each, but for the first, who has so many of this response."""
    whose = np.append(np.arange(_PERSONS), np.zeros(records - 1, dtype=int))
    y = np.where(whose == 0, response, whose % 2)
    return pd.DataFrame({"patient": whose, "x": whose / _PERSONS, "y": y})


def _told(epsilon: float) -> float:
    spend = {"scale": 0.1, "coefficients": 0.4, "inference": 0.25, "roc": 0.25}
    given: _Record = {"bounds": _BOUNDS, "lambda_": 1.0, "spend": spend}
    told = []
    for records in (_FEW, _MANY):
        table = _table(records)
        # a scale of few persons is all noise
        with warnings.catch_warnings(action="ignore", category=SchemaWarning):
            fitted = dplr(_PATIENTS, table, epsilon, **given)
        told.append([str(fitted.calibration), str(fitted.guarantee), str(fitted.nobs)])
        try:
            dplr(_PATIENTS, table, epsilon, 1e-12, on_small_lambda="keep", bounds=_BOUNDS)
        except GuaranteeError as error:
            told[-1].append(str(error))
    return float(sum(one != other for one, other in zip(*told, strict=True)))


def _most_counted(weights: FloatArray) -> float:
    """The largest sum of the weights of one person's rows."""
    return float(np.bincount(_table(_MANY).patient, weights).max())


def _counted(epsilon: float) -> float:
    return _most_counted(_weights_of(_read(_PATIENTS, _table(_MANY))[1].y))


def _counted_of_matrix(epsilon: float) -> float:
    table = _table(_MANY)
    x = sparse.csr_array(table[["x"]].to_numpy())
    source = read_data(table.y, x, None, person=table.patient)
    rows: Any = source.rows(source.plan(declare_schema(None, None, None, None)), bar=False)[0]
    return _most_counted(_weights_of(rows.y))


def _in_two_partitions(epsilon: float) -> float:
    """Both partitions have records of everybody, whatever their intervals say."""
    table, counted = _table(_MANY).set_index("patient"), np.zeros(_PERSONS)
    for low, high, is_last in ((0, _PERSONS // 2, False), (_PERSONS // 2, _PERSONS, True)):
        shares = sharing_of(Section(table, low, high, is_last), Person("patient")).shares
        counted += np.bincount(table.index, shares, minlength=_PERSONS)
    return float(counted.max())


def _in_batches(epsilon: float) -> float:
    """Each batch has few of the records of the first person, and none says how many there are."""
    import pyarrow as pa

    table = pa.Table.from_pandas(_table(_MANY))
    batches: Any = stream(lambda: table.to_reader(max_chunksize=_FEW), memory=0)
    (y,) = _read(_PATIENTS, batches)[1].fold(lambda x, y: ([*y],))
    return _most_counted(_weights_of(np.array(y)))


def _pair_of_rows(formula: str) -> Iterator[Any]:
    """Rows of two tables that differ in one person: one record or many, in opposite places."""
    for records, response in ((1, 0), (_MANY, 1)):
        table = _table(records, response)
        table.loc[table.patient == 0, "x"] = float(response)
        yield _read(formula, table)[1]


def _sum_of_counts(epsilon: float) -> float:
    few, edges = f"{_PATIENTS[:-1]}, {_MANY})", np.linspace(-4.0, 4.0, 9)
    sums = [score_counts(rows, _STEEP, edges).sum() for rows in _pair_of_rows(few)]
    return max(abs(float(found) - _PERSONS) for found in sums)


def _moved_ranges(epsilon: float) -> float:
    """The sum of changes of what ranges are chosen by: 2, as one leaves a slot and enters another.

    Persons have one record or many, in opposite places.
    """
    seen: list[FloatArray] = []

    def choose(slots: FloatArray, *given: Any) -> Any:
        seen.append(slots)
        return honest(slots, *given)

    honest, price = range_selection.choose_range, PureDP(1e4 * epsilon, REPLACE_PERSON)
    for records, place in ((1, 0.9), (_MANY, 0.1)):
        table = _table(records)
        table.loc[table.patient == 0, "x"] = place
        with mock.patch.object(suggestions, "choose_range", choose):
            suggestions.suggest_bounds(table, {"x": (-1, 1)}, price, person="patient")
    return float(np.abs(seen[0] - seen[1]).sum())


def _moved_choice(epsilon: float) -> float:
    """The interval of changes of all fits, of which some rank this person best and some worst."""
    tables, widths = (_table(1), _table(_MANY, response=1)), []
    promise = PureDP(epsilon, REPLACE_PERSON)
    width = candidate_choice.calibrate_choice(_PERSONS, 2, "auc", promise).mechanism.width
    values: dict[candidate_choice.ScoreName, FloatArray] = {
        "auc": np.array([0.0, 1.0]),
        "accuracy": np.array([-1.0, 1.0]),
        "brier": np.array([0.0, 1.0]),
    }
    for score, ends in values.items():
        changes = []
        for before, after, others in product(ends, ends, ends):
            totals = []
            for table, own in zip(tables, (before, after), strict=True):
                label = 2.0 * table.y.to_numpy() - 1
                said = np.where(table.patient == 0, own, np.where(label > 0, others, ends.mean()))
                said = np.where((score != "auc") & (said == ends.mean()), np.nan, said)
                shares = read_data(_PATIENTS, table, None).batch.shares
                assert shares is not None
                totals.append(
                    candidate_choice.total_score_of_persons(score, label, said, shares, _PERSONS)
                )
            changes.append(totals[1] - totals[0])
        widths.append(float(np.ptp(changes)) / width)
    return checks.largest(widths)
