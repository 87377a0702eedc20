"""Attacks through the public interface: fits of formulas to tables.

A fit is made as a user makes it. Then the same readers read neighbouring tables of the same
schema, whose records are at the corners of the bounds and beyond, and the privacy loss of the
fit's calibration between them is computed exactly. Other checks are about tables that may reveal
a record before any row is made: by the type of a column, or by data that change between passes.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from privatelr.audit import checks
from privatelr.audit.checks import MISSING, Check, claims_of_size, guarded, short
from privatelr.audit.density.exact import margin_at, margins_of_most
from privatelr.audit.density.loss import PrivacyLoss, loss_of, moments_loss
from privatelr.audit.density.pairs import Pair
from privatelr.audit.density.search import Finding, privacy_loss, search, with_weights
from privatelr.audit.designs import Case, read_as_a_fit
from privatelr.call_data import read_data
from privatelr.design import read_design
from privatelr.errors import PrivateLRError
from privatelr.mechanisms import ALL_FOR_COEFFICIENTS, Request, score_histogram
from privatelr.mechanisms.calibration import Calibration
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

    def frame(self, labels: list[float]) -> pd.DataFrame:
        """A frame with the longest record under each of these labels; NaN is an unusable label."""
        columns = {name: [value] * len(labels) for name, value in self.longest.items()}
        return pd.DataFrame({**columns, "y": pd.Series(labels, dtype="boolean")})


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
    yield from audit_scaled_fits(epsilon)
    yield from audit_scored_fits(epsilon)
    yield from audit_offsets(epsilon, rng)
    yield from audit_weights(epsilon, rng)


def audit_front(
    epsilon: float, fronts: tuple[Front, ...] = FRONTS, claims: int = 2
) -> Iterator[Check]:
    """A check for each formula, placement and claim: the largest loss between two neighbours.

    With ``claims=1`` only a pure claim is checked, with ``claims=2`` also one of zCDP.
    """
    for front in fronts:
        for op in (True, False):
            for claim in claims_of_size(epsilon)[:claims]:
                if op and front is not fronts[0] and not isinstance(claim, PureDP):
                    continue  # an integral in several dimensions is slow and adds little
                place = "objective" if op else "output"
                subject = f"{front.formula}, {place}, {short(claim)}: loss over the claim"
                yield from guarded("formula", subject, _attack, front, op, claim, subject)


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
    part: str, setting: checks.Setting, epsilon: float, ratio: Any, rng: np.random.Generator
) -> Iterator[Check]:
    where = "one column, " if setting.shape == checks.ONE_COLUMN else ""

    def attack(request: Request, loss: Loss, subject: str) -> Iterator[Check]:
        plan = checks.plan_in(request, loss, setting)
        if plan is not None:
            yield Check(part, subject, ratio(search(plan.coefficients, rng, 1)), 1.0)

    for loss, place, claim in product(LOSSES.values(), _PLACES, claims_of_size(epsilon)[:2]):
        subject = f"{where}{loss.name}, {place}, {short(claim)}: loss over the claim"
        request = Request(claim, place, None, "free", "keep", ALL_FOR_COEFFICIENTS)
        yield from guarded(part, subject, attack, request, loss, subject)


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


def audit_scaled_fits(epsilon: float) -> Iterator[Check]:
    """A check for each placement and claim: the largest loss of scale, coefficients and moments."""
    pure, rho, _, approximate = claims_of_size(epsilon)
    several = (
        ("y ~ x", (rho, approximate)),
        ("y ~ x + z + f", (pure,)),
        ("y ~ x + offset(z)", (pure, rho)),
    )
    for formula, claims in several:
        for op, claim in product((True, False), claims):
            place = "objective" if op else "output"
            subject = f"{formula} with scale, {place}, {short(claim)}"
            yield from guarded("formula", subject, _attack_scaled, formula, op, claim, subject)


def _attack_scaled(formula: str, op: bool, claim: Promise, subject: str) -> Iterator[Check]:
    bought = {"spend": "inference", "do_scale": "private"}
    return _attack_stages(formula, op, claim, subject, **bought)


def _attack_stages(
    formula: str, op: bool, claim: Promise, subject: str, **bought: Any
) -> Iterator[Check]:
    together, alone = [], []
    for fit_by in (dplr, dpsvm):
        fit, tables = _fit_of_ends(fit_by, formula, claim, op, **bought)
        found = privacy_loss(fit, *tables)
        assert isinstance(found, PrivacyLoss)
        together.append(found.ratio)
        alone += [part.ratio for part in found.parts]
    yield Check("formula", f"{subject}: loss over the claim", float(np.max(together)), 1.0)
    yield Check("formula", f"{subject}: a stage over its part of it", float(np.max(alone)), 1.0)


def _fit_of_ends(
    fit_by: Callable[..., Fit], formula: str, claim: Any, op: bool = True, **bought: Any
) -> tuple[Fit, list[pd.DataFrame]]:
    """A fit, and two neighbouring tables, of which it is made of the first."""
    tables = [pd.DataFrame([end] + [_MIDDLE] * _OTHERS) for end in _ENDS]
    for label, table in enumerate(tables):
        table["y"] = pd.Series([label == 1, *[False, True] * (_OTHERS // 2)], dtype="boolean")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit_by(formula, tables[0], claim, "free", op, **bought, **_SCALED), tables


_SCORED: Mapping[str, Mapping[str, float]] = {
    "counts of scores": {"coefficients": 0.75, "roc": 0.25},
    "four stages": {"scale": 0.1, "coefficients": 0.5, "inference": 0.3, "roc": 0.1},
}
_LOUD, _ALIKE = 0.1, 60
"""An epsilon at which the noise on counts cannot be overlooked, and so many fits to see it in."""


def audit_scored_fits(epsilon: float) -> Iterator[Check]:
    """Checks of fits that buy a ROC curve, which release counts of scores after the other stages.

    The counts of a fit are those of real rows: without noise replacing a record moves two of them
    by one, and with it they are off by the law that a calibration states.
    """
    pure, rho, _, approximate = claims_of_size(epsilon)
    for (named, spend), claim in product(_SCORED.items(), (pure, rho, approximate)):
        subject = f"{named}, {short(claim)}"
        given = "y ~ x", True, claim, subject
        yield from guarded("formula", subject, partial(_attack_stages, spend=spend), *given)
    subject = "counts of scores: counts that one record moves"
    yield from guarded("formula", subject, _moved_counts, subject)
    subject = "counts of scores: their noise in fits, deviations"
    yield from guarded("formula", subject, _noise_of_counts, subject)


def _exact_counts(fit: Fit, table: Any) -> FloatArray:
    rows = read_design(fit.spec, as_batch(table), DenseRows)
    release = fit.roc.release
    edges = release.scale.edges(release.calibration.bins)
    return score_histogram.score_counts(rows, fit.release.coef, edges)


def _moved_counts(subject: str) -> Iterator[Check]:
    moved = 0.0
    for fit_by, spend in product((dplr, dpsvm), _SCORED.values()):
        fit, (first, second) = _fit_of_ends(fit_by, "y ~ x", 100.0, spend=spend)
        for other in (second, first.assign(y=first["y"].where(first.index > 0))):
            change = _exact_counts(fit, first) - _exact_counts(fit, other)
            moved = max(moved, float(np.abs(change).sum()))
    yield Check("formula", subject, moved, 2.0)


def _noise_of_counts(subject: str) -> Iterator[Check]:
    """The spread of what is released around the exact counts, over that of the stated law."""
    off = []
    for _ in range(_ALIKE):
        fit, (table, _) = _fit_of_ends(dplr, "y ~ x", _LOUD, spend=_SCORED["counts of scores"])
        release = fit.roc.release
        off.append((release.counts - _exact_counts(fit, table)) / release.calibration.count_sd)
    found = np.concatenate(off)
    # squares of Laplace noise of variance 1 have a variance of 5
    spread = abs(float(np.mean(found**2)) - 1) / math.sqrt(5 / len(found))
    yield Check("formula", subject, spread, 6.0)


# -- the longest records --------------------------------------------------------------------------


def _attack(front: Front, op: bool, claim: Promise, subject: str) -> Iterator[Check]:
    losses = []
    for fit_by in (dplr, dpsvm):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = fit_by(
                front.formula,
                front.frame([1.0, 0.0, 0.0, 0.0, 0.0, 1.0]),
                claim,
                "free",
                op,
                spend="inference",
                rp_dim=front.directions,
                **front.declared,
            )
        pair = _neighbours(front, fit)
        losses.append(loss_of(pair, fit.calibration, _outputs(fit.calibration, pair)))
        if fit.release.moments is not None:
            losses.append(moments_loss(pair, fit.release.moments.calibration))
    # NumPy's maximum, because Python's `max` may skip a ratio that is NaN
    yield Check("formula", subject, float(np.max([loss.ratio for loss in losses])), 1.0)


def _neighbours(front: Front, fit: Fit) -> Pair:
    """Neighbours with the longest record under either label.

    The shared records are two copies of the new record and some with unusable labels.
    """

    def as_fitted(spec: Any) -> Any:
        projection = fit.spec.projection
        return spec if projection is None else replace(spec.as_whole_rows(), projection=projection)

    def signed(label: float) -> FloatArray:
        frame = front.frame([label, 0.0, 0.0, np.nan, np.nan, np.nan])
        read = read_as_a_fit(Case(front.formula, frame, front.declared), change=as_fitted)
        return np.asarray(read.x * read.y[:, None])

    first, second = signed(1.0), signed(0.0)
    return Pair(first[1:], np.ones(len(first) - 1), first[0], second[0])


def _outputs(calibration: Calibration, pair: Pair) -> FloatArray | None:
    """Outputs ``(m, d)`` near which the loss of a Laplace tilt is largest on this pair."""
    problem, target = calibration.problem, calibration.target
    if calibration.placement == "output" or not isinstance(target, PureDP):
        return None
    square = float(pair.old @ pair.old)
    charge = -calibration.noise.log_density(pair.old)
    margins = margins_of_most(problem.loss, charge, square / problem.penalty)
    return np.outer([*margins, margin_at(problem.loss, 0.98)], pair.old / square)


# -- tables that may reveal a record ------------------------------------------------------------

_N = 12
_ODD = (7, None, "zzz", pd.Timestamp("2020-01-01"), pd.Period("2020-01"), 0.5j, [1], b"7")


def audit_tables() -> Iterator[Check]:
    """Checks that no type depends on values, and that a fit ends if its data change."""
    for name, made in _CONTAINERS.items():
        subject = f"{name}: records that change a type or an error"
        yield from guarded("rows", subject, _types, subject, made)
    subject = "Dask partitions that change: fits that came to an end"
    if find_spec("dask") is None:
        yield Check("rows", subject, failure=MISSING)
    else:
        yield from guarded("rows", subject, _changing, subject)


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


def _types(subject: str, made: Callable[[list[Any], list[Any]], Any]) -> Iterator[Check]:
    told, y = 0, [0, 1] * (_N // 2)
    for pair in (["a", "b"], [0.5, 1.0], [pd.Timestamp("2021-01-01")] * 2):
        x = pair * (_N // 2)
        before = _outcome(*made(x, y))
        told += sum(_outcome(*made([*x[:3], odd, *x[4:]], y)) != before for odd in _ODD)
    yield Check("rows", subject, told)


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


def _changing(subject: str) -> Iterator[Check]:
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
    yield Check("rows", subject, ended)
