"""Attacks through the public interface: fits of formulas to tables.

A fit is made as a user makes it. Then the same readers read neighbouring tables of the same
schema, whose records are at the corners of the bounds and beyond, and the privacy loss of the
fit between them is computed exactly. Other checks are about tables that may reveal
a record before any row is made: by the type of a column, or by data that change between passes.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from privatelr.audit import checks
from privatelr.audit.checks import MISSING, Check, claims_of_size, largest, measured, short
from privatelr.audit.density.loss import loss_of
from privatelr.audit.density.search import Finding, privacy_loss, search, with_weights
from privatelr.call_data import read_data
from privatelr.design import read_design
from privatelr.errors import PrivateLRError
from privatelr.mechanisms import Request
from privatelr.mechanisms.stages import histogram as histogram_stage
from privatelr.model import dplr, dpsvm
from privatelr.numerics import LOSSES, Loss
from privatelr.numerics.rows import DenseRows
from privatelr.privacy import Promise, PureDP
from privatelr.results import Fit
from privatelr.sources import as_batch, declare_schema
from privatelr.types import FloatArray, ObjectArray, Placement


@dataclass(frozen=True, slots=True, eq=False)
class Front:
    """A formula, its declarations, and a record of the largest length.

    Attributes
    ----------
    formula : str
    longest : dict
        The covariates of a record at the farthest corner of the bounds, or beyond it.
    declared : dict
        The declarations that `dplr` takes as arguments.
    directions : int
        Number of directions of a random projection; 0 for no projection.
    """

    formula: str
    longest: Mapping[str, Any]
    declared: Mapping[str, Any]
    directions: int = 0

    def tables(self) -> list[pd.DataFrame]:
        """Neighbours with the longest record under either label.

        They share two copies of the new record and some with unusable labels.
        """
        labels = [[label, 0.0, 0.0, np.nan, np.nan, np.nan] for label in (1.0, 0.0)]
        columns = {name: [value] * 6 for name, value in self.longest.items()}
        return [pd.DataFrame({**columns, "y": pd.Series(each, dtype="boolean")}) for each in labels]


FRONTS = (
    Front("y ~ x", {"x": 50.0}, {"bounds": {"x": (-5, 5)}, "intercept_scale": 1.0}),
    Front("y ~ x + z", {"x": 3.0, "z": -20.0}, {"row_norm": 1.0, "intercept_scale": 1.0}),
    Front(
        "y ~ 0 + x + f:x",
        {"x": 2.0, "f": "c"},
        {"bounds": {"x": (-1, 2)}, "levels": {"f": ("a", "b", "c")}, "intercept_scale": 0.5},
    ),
    Front(
        "y ~ x + z + u",
        dict.fromkeys("xzu", 9.0),
        {"bounds": dict.fromkeys("xzu", (-1, 1)), "intercept_scale": 0.5},
        directions=2,
    ),
)


def audit_fits(epsilon: float, rng: np.random.Generator) -> Iterator[Check]:
    """All checks of this module."""
    yield from audit_tables()
    yield from audit_front(epsilon)
    yield from audit_staged_fits(epsilon)
    yield from audit_offsets(epsilon, rng)
    yield from audit_weights(epsilon, rng)


def audit_front(
    epsilon: float, fronts: tuple[Front, ...] = FRONTS, claims: int = 2
) -> Iterator[Check]:
    """A check for each formula, placement and claim: the largest loss between two neighbours.

    With ``claims=1`` only a pure claim is checked, with ``claims=2`` also one of zCDP.
    """
    for front, op, claim in product(fronts, (True, False), claims_of_size(epsilon)[:claims]):
        if op and front is not fronts[0] and not isinstance(claim, PureDP):
            continue  # an integral in several dimensions is slow and adds little
        subject = f"{front.formula}, {_place(op)}, {short(claim)}: loss over the claim"
        bought = {"spend": "inference", "rp_dim": front.directions, **front.declared}
        given = front.formula, op, claim, front.tables(), bought
        yield from measured("formula", subject, _largest_loss, *given)


def _place(op: bool) -> str:
    return "objective" if op else "output"


_PLACES: tuple[Placement, ...] = ("objective", "output")
_MOVED = checks.Setting(12.0, 4.0, checks.ONE_COLUMN, offset=40.0)
_COUNTED = checks.Setting(2.0, 4.0, checks.INTERCEPT_AND_SLOPE)
_WEIGHTS = ((0.5, 1.0), (1.0, 0.5), (0.9, 0.9), (0.01, 1.0), (1.0, 0.01))  # old and new


def audit_offsets(epsilon: float, rng: np.random.Generator) -> Iterator[Check]:
    """A check for each mechanism: the largest loss between records whose margins offsets move.

    In one column, and with a penalty so small that a record pays for its curvature. Without an
    offset, opposite records have opposite margins there, and lose less than the claim.
    """
    yield from _attack_each("offset", _MOVED, epsilon, lambda worst: worst.loss.ratio, rng)


def audit_weights(epsilon: float, rng: np.random.Generator) -> Iterator[Check]:
    """A check for each mechanism: the largest loss if of the two worst records one counts less."""

    def of_weights(worst: Finding) -> float:
        pairs = (with_weights(worst.pair, *counted) for counted in _WEIGHTS)
        return max(loss_of(pair, worst.calibration).ratio for pair in pairs)

    yield from _attack_each("weights", _COUNTED, epsilon, of_weights, rng)


def _attack_each(
    part: str,
    setting: checks.Setting,
    epsilon: float,
    ratio: Callable[[Finding], float],
    rng: np.random.Generator,
) -> Iterator[Check]:
    where = "one column, " if setting.shape == checks.ONE_COLUMN else ""

    def attack(request: Request, loss: Loss) -> float:
        plan = checks.plan_in(request, loss, setting)
        assert plan is not None
        return ratio(search(plan.coefficients, rng, 1))

    for loss, place, claim in product(LOSSES.values(), _PLACES, claims_of_size(epsilon)[:2]):
        subject = f"{where}{loss.name}, {place}, {short(claim)}: loss over the claim"
        request = Request(claim, place, None, "free", "keep")
        yield from measured(part, subject, attack, request, loss)


# -- fits that release more than coefficients ----------------------------------------------------

_MIDDLE, _OTHERS = {"x": 1.0, "z": 0.1, "f": "b"}, 20
_ENDS: tuple[Mapping[str, Any], ...] = (
    {"x": 50.0, "z": -20.0, "f": "a"},
    {"x": -50.0, "z": 20.0, "f": "c"},
)
"""A record that moves every column from one end of its bounds to the other, in a table of others in
the middle."""
_SCALED: Mapping[str, Any] = {
    "bounds": {"x": (-5, 5), "z": (-2, 2)},
    "levels": {"f": ("a", "b", "c")},
}


_SCORED: Mapping[str, Mapping[str, float]] = {
    "counts of scores": {"coefficients": 0.75, "roc": 0.25},
    "four stages": {"scale": 0.1, "coefficients": 0.5, "inference": 0.3, "roc": 0.1},
}
_LOUD, _ALIKE = 0.1, 60
"""An epsilon at which the noise on counts cannot be overlooked, and so many fits to see it in."""


def audit_staged_fits(epsilon: float) -> Iterator[Check]:
    """A check for each set of stages, placement and claim: the largest loss of all and of each.

    Counts of scores are those of real rows: without noise replacing a record moves two of them by
    one, and with it they are off by the law that a calibration states.
    """
    pure, rho, _, approximate = claims_of_size(epsilon)
    scaled = {"spend": "inference", "do_scale": "private"}
    cases: list[tuple[str, str, Mapping[str, Any], tuple[Promise, ...]]] = [
        ("y ~ x", "with scale", scaled, (rho, approximate)),
        ("y ~ x + z + f", "with scale", scaled, (pure,)),
        ("y ~ x + offset(z)", "with scale", scaled, (pure, rho)),
    ]
    for named, spend in _SCORED.items():
        cases.append(("y ~ x", f"with {named}", {"spend": spend}, (pure, rho, approximate)))
    for formula, what, bought, claims in cases:
        for op, claim in product((True, False), claims):
            subject = f"{formula} {what}, {_place(op)}, {short(claim)}: loss over the claim"
            given = formula, op, claim, _tables_of_ends(), {**_SCALED, **bought}
            yield from measured("formula", subject, _largest_loss, *given)
    for subject, measure, allowed in (
        ("counts of scores: counts that one record moves", _moved_counts, 2.0),
        ("counts of scores: their noise in fits, deviations", _noise_of_counts, 6.0),
    ):
        yield from measured("formula", subject, measure, allowed=allowed)


def _largest_loss(
    formula: str, op: bool, claim: Promise, tables: list[pd.DataFrame], given: Mapping[str, Any]
) -> float:
    """The largest loss of fits between two tables over the claim, and of a stage over its part."""
    ratios = []
    for fit_by in (dplr, dpsvm):
        found = privacy_loss(_fit(fit_by, formula, tables[0], claim, op, **given), *tables)
        ratios += [found.ratio, *(part.ratio for part in found.parts)]
    return largest(ratios)


def _fit(
    fit_by: Callable[..., Fit],
    formula: str,
    table: pd.DataFrame,
    claim: Any,
    op: bool,
    **given: Any,
) -> Fit:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit_by(formula, table, claim, "free", op, **given)


def _tables_of_ends() -> list[pd.DataFrame]:
    tables = [pd.DataFrame([end] + [_MIDDLE] * _OTHERS) for end in _ENDS]
    for label, table in enumerate(tables):
        table["y"] = pd.Series([label == 1, *[False, True] * (_OTHERS // 2)], dtype="boolean")
    return tables


def _exact_counts(fit: Fit, table: Any) -> FloatArray:
    rows = read_design(fit.spec, as_batch(table), DenseRows)
    release = fit.roc.release
    edges = release.scale.edges(release.calibration.bins)
    return histogram_stage.score_counts(rows, fit.release.coef, edges)


def _moved_counts() -> float:
    moved, (first, second) = 0.0, _tables_of_ends()
    for fit_by, spend in product((dplr, dpsvm), _SCORED.values()):
        fit = _fit(fit_by, "y ~ x", first, 100.0, True, spend=spend, **_SCALED)
        for other in (second, first.assign(y=first["y"].where(first.index > 0))):
            change = _exact_counts(fit, first) - _exact_counts(fit, other)
            moved = max(moved, float(np.abs(change).sum()))
    return moved


def _noise_of_counts() -> float:
    """The spread of what is released around the exact counts, over that of the stated law."""
    off, table, spend = [], _tables_of_ends()[0], _SCORED["counts of scores"]
    for _ in range(_ALIKE):
        fit = _fit(dplr, "y ~ x", table, _LOUD, True, spend=spend, **_SCALED)
        release = fit.roc.release
        off.append((release.counts - _exact_counts(fit, table)) / release.calibration.count_sd)
    found = np.concatenate(off)
    # squares of Laplace noise of variance 1 have a variance of 5
    return abs(float(np.mean(found**2)) - 1) / math.sqrt(5 / len(found))


# -- tables that may reveal a record ------------------------------------------------------------

_N = 12
_ODD = (7, None, "zzz", pd.Timestamp("2020-01-01"), pd.Period("2020-01"), 0.5j, [1], b"7")


def audit_tables() -> Iterator[Check]:
    """Checks that no type depends on values, and that a fit ends if its data change."""
    for name, made in _CONTAINERS.items():
        subject = f"{name}: records that change a type or an error"
        yield from measured("rows", subject, _types, made, allowed=0.0)
    subject = "Dask partitions that change: fits that came to an end"
    if find_spec("dask") is None:
        yield Check("rows", subject, failure=MISSING)
    else:
        yield from measured("rows", subject, _changing, allowed=0.0)


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
        with whole, warnings.catch_warnings(), suppress(PrivateLRError):
            warnings.simplefilter("ignore")
            dplr("y ~ x", table, 1.0, bounds={"x": (-1, 1), "y": (0, 1)})
            ended += 1
    return ended
