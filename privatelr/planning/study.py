"""A planned study: design, request, and made-up records from public guesses or from a pilot."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from privatelr import errors
from privatelr.audit.density.pairs import SignedRows
from privatelr.design import DesignSpec, Variable, read_design
from privatelr.errors import ArgumentError, GuaranteeError, SchemaError
from privatelr.fitting import DoScale, Method
from privatelr.inference import PUBLIC_SEED
from privatelr.mechanisms import Request
from privatelr.model import perturbation
from privatelr.numerics import Loss
from privatelr.numerics.rows import DenseRows
from privatelr.privacy import ZCDP, ApproxDP, PureDP
from privatelr.results import Fit
from privatelr.sources import Batch, Schema, as_batch, constant_column
from privatelr.types import FloatArray, ObjectArray

_FEWEST, _PER_COLUMN = 1024, 32
"""A population has at least the first number of made-up records, and the second per column."""
_LEAST_OF_PILOT, _MOST_OF_PILOT = 2000, 20_000
_PILOT_WORK = 2e6
"""Of a pilot so many rows are used that their outer products have about this number of entries."""
_TWO_POINTS = 0.999
"""If the spread is at least this, all values are at the ends of their bounds."""
_STEEPEST = 4.0
"""The true predictor has at most this standard deviation, at which the C-index is about 0.96."""
_WIDEST = 60.0
"""For predictors of a larger size than this, probabilities are 0 or 1 in doubles."""
_GUESSES = {
    "balance": (0.001, 0.999, "the share of the positive class, a number from {} to {}"),
    "spread": (
        *(0.01, 1.0),
        "a standard deviation over half the width of the bounds, a number from {} to {}",
    ),
    "c_index": (0.5, 0.95, "a number from {} (nothing to find) to {}"),
}
"""Each guess has two limits, and words for an error message about it."""


@dataclass(frozen=True, slots=True)
class Guesses:
    """The assumptions of a plan about facts that are not public.

    Attributes
    ----------
    balance : float
        Share of the positive class.
    spread : float
        Standard deviation of a bounded column, over half the width of its bounds.
    c_index : float
        The C-index of the true probabilities; 0.5 means that there are no effects.
    """

    balance: float = 0.5
    spread: float = 0.4
    c_index: float = 0.75


def read_guesses(**given: Any) -> Guesses:
    """Check the guesses; raises `ArgumentError`."""
    for name, (low, high, words) in _GUESSES.items():
        takes, limits = words.format(f"{low:g}", f"{high:g}"), {"at_least": low, "at_most": high}
        given[name] = errors.require_number(ArgumentError, name, given[name], takes, **limits)
    return Guesses(**given)


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """Made-up records, or those of a public pilot.

    Attributes
    ----------
    batch : Batch
        Their values, all of them usable.
    positive : ndarray of shape (m,) or None
        The probability of the positive class; None if the batch has the classes itself.
    """

    batch: Batch
    positive: FloatArray | None

    def rows(self, spec: DesignSpec) -> DenseRows:
        """Read them as the rows of a design."""
        rows = read_design(spec, self.batch, DenseRows)
        assert isinstance(rows, DenseRows)
        return rows

    def signed(self, spec: DesignSpec) -> SignedRows:
        """Rows ``y x`` whose counts are shares that add up to 1.

        Without classes each record has both, weighted by their probabilities.
        """
        rows = self.rows(spec)
        if self.positive is None:
            return SignedRows(rows.x * rows.y[:, None], np.full(rows.n, 1 / rows.n))
        shares = np.concatenate([self.positive, 1 - self.positive]) / rows.n
        return SignedRows(np.concatenate([rows.x, -rows.x]), shares)


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """All inputs of a forecast, none of which is private.

    Attributes
    ----------
    spec : DesignSpec
        The rows in scaled units, before they are standardised.
    loss : Loss
    request : Request
    n : int
        Number of records of the study.
    population : Population
    schema : Schema
    do_scale : str, bool or None
        As in `dplr`.
    """

    spec: DesignSpec
    loss: Loss
    request: Request
    n: int
    population: Population
    schema: Schema
    do_scale: DoScale = None

    @property
    def method(self) -> Method[Fit]:
        """The mechanism of a fit."""
        return perturbation(self.loss, self.request, self.schema, self.do_scale)

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the columns, with the intercept first."""
        return self.spec.columns.names


def rows_of(study: Study, term: Any) -> list[int]:
    """The position of one coefficient, or the positions of all but the intercept."""
    if term is None:
        return list(range(study.spec.columns.has_intercept, len(study.terms))) or [0]
    if term not in study.terms:
        listed, end = ", ".join(map(repr, study.terms)), errors.or_meant(term, study.terms)
        raise ArgumentError(f"term={errors.show(term)}: term takes one of {listed}{end}")
    return [study.terms.index(term)]


def price_of(study: Study) -> tuple[str, float]:
    """The kind of the study's guarantee, ``"eps"`` or ``"rho"``, and its number."""
    match study.request.target:
        case ZCDP(rho=rho):
            return "rho", rho
        case PureDP(epsilon=epsilon) | ApproxDP(epsilon=epsilon):
            return "eps", epsilon
    raise GuaranteeError("eps=0: a plan without privacy has no epsilon to vary.")


def at_price(study: Study, price: float) -> Study:
    """The same study with another epsilon or rho."""
    target, currency = study.request.target, price_of(study)[0]
    changed: Any = {"rho" if currency == "rho" else "epsilon": price}
    return replace(study, request=replace(study.request, target=replace(target, **changed)))


def population_of(spec: DesignSpec, guesses: Guesses, pilot: Batch | None) -> Population:
    """The population of a study: made-up records by the guesses, or those of a public pilot.

    Made-up columns are independent, with the guessed spread. Of a long pilot, a part is drawn with
    a public seed.
    """
    responses = spec.formula.response.names
    if pilot is None:
        missing, batch = responses, as_batch(_columns(spec, guesses.spread))
    else:
        for name in spec.formula.covariates:
            if name not in pilot.names:
                raise SchemaError(
                    f"pilot: the column {name!r} is missing; a pilot has a column for every "
                    f"covariate, here {', '.join(map(repr, spec.formula.covariates))}."
                )
        missing, batch = tuple(name for name in responses if name not in pilot.names), pilot
        most = int(np.clip(_PILOT_WORK / spec.d**2, _LEAST_OF_PILOT, _MOST_OF_PILOT))
        if len(batch) > most:
            chosen = np.random.default_rng(PUBLIC_SEED).permutation(len(batch))[:most]
            batch = batch.take(np.sort(chosen))
    # the reader needs usable values of the response, although these labels are not used
    blank = [spec.variables[name] for name in missing]
    usable = {
        v.name: constant_column(v.levels[0] if v.levels else v.bounds[0], len(batch)) for v in blank
    }
    found = Population(batch.assign(usable), None)
    rows = found.rows(spec)
    if pilot is not None and not np.any(rows.y):
        raise ArgumentError(
            "pilot: none of its records can be used; a pilot takes values within their bounds and "
            "levels, and none missing."
        )
    return replace(found, positive=_positive_shares(rows.x, guesses)) if missing else found


def _columns(spec: DesignSpec, spread: float) -> pd.DataFrame:
    """Made-up columns in the user's units; their values are quantiles of the assumed laws."""
    count = max(_FEWEST, _PER_COLUMN * spec.d)
    rng = np.random.default_rng(PUBLIC_SEED)
    ranks = (np.arange(count) + 0.5) / count
    variables = {name: spec.variables[name] for name in spec.formula.covariates}
    unbounded = sum(not v.is_bounded for v in variables.values())
    limit = spec.bound if spec.unbounded_norm is None else spec.unbounded_norm
    reach = spread * limit / math.sqrt(max(unbounded, 1))
    columns: dict[str, Any] = {
        name: _values(variable, rng.permutation(ranks), spread, reach)
        for name, variable in variables.items()
    }
    return pd.DataFrame(columns, index=range(count))


def _values(
    variable: Variable, ranks: FloatArray, spread: float, reach: float
) -> FloatArray | ObjectArray:
    """Quantiles of the law of a column at `ranks` ``(count,)``."""
    if variable.levels:
        levels = np.empty(len(variable.levels), dtype=object)
        levels[:] = variable.levels
        return np.asarray(levels[np.floor(ranks * len(levels)).astype(np.intp)])
    if not variable.is_bounded:
        return np.asarray(reach * special.ndtri(ranks))
    low, high = variable.bounds
    return np.asarray((low + high) / 2 + (high - low) / 2 * spread_quantiles(ranks, spread))


def spread_quantiles(ranks: FloatArray, spread: float) -> FloatArray:
    """Quantiles of the symmetric beta law on [-1, 1] whose standard deviation is `spread`.

    At 0.577 the law is uniform. Above that, the ends are more common than the middle, and below
    that, the middle is.
    """
    if spread >= _TWO_POINTS:
        return np.where(ranks < 0.5, -1.0, 1.0)
    shape = (1 / spread**2 - 1) / 2
    return np.asarray(2 * special.betaincinv(shape, shape, ranks) - 1)


def _positive_shares(x: FloatArray, guesses: Guesses) -> FloatArray:
    """Probabilities ``(m,)`` of the positive class at rows ``(m, d)``, by a logistic model.

    All columns contribute to the predictor with the same standard deviation. The scale of the
    predictor gives the guessed C-index, and its intercept the guessed balance.
    """
    deviation = x.std(axis=0)
    varies = deviation > 0
    predictor = x[:, varies] @ (1 / deviation[varies])
    predictor /= predictor.std() or 1.0

    def balanced(scaled: FloatArray) -> FloatArray:
        reach = _WIDEST + np.abs(scaled).max()
        intercept = _root(
            lambda at: float(special.expit(scaled + at).mean()) - guesses.balance, -reach, reach
        )
        return np.asarray(special.expit(scaled + intercept))

    scale = _root(
        lambda at: _c_index(predictor, balanced(at * predictor)) - guesses.c_index, 0.0, _STEEPEST
    )
    return balanced(scale * predictor)


def _root(rising: Callable[[float], float], low: float, high: float) -> float:
    """The point where an increasing function reaches 0, by bisection; it is not below 0 there."""
    for _ in range(60):
        middle = (low + high) / 2
        if rising(middle) < 0:
            low = middle
        else:
            high = middle
    return high


def _c_index(predictor: FloatArray, probability: FloatArray) -> float:
    """Expected C-index of a predictor ``(m,)`` for labels with these probabilities ``(m,)``."""
    order = np.argsort(predictor)
    positive = probability[order]
    negative = 1 - positive
    below = np.cumsum(negative) - negative / 2
    return float(positive @ below / (positive.sum() * negative.sum()))


def assumptions_of(spec: DesignSpec, guesses: Guesses, pilot: Batch | None) -> tuple[str, ...]:
    """The assumptions of a plan, each as a clause."""
    labels = (
        f"{guesses.balance:.3g} of the records are positive (balance)",
        f"the true probabilities are logistic with a C-index of {guesses.c_index:g} (c_index), to "
        "which all columns contribute alike",
    )
    if pilot is not None:
        if all(name in pilot.names for name in spec.formula.response.names):
            return (f"records are like the {len(pilot):,} of the public pilot",)
        like = f"covariates are like those of the {len(pilot):,} records of the public pilot"
        return (like, *labels)
    variables = [spec.variables[name] for name in spec.formula.covariates]
    limit = spec.bound if spec.unbounded_norm is None else spec.unbounded_norm
    clauses = {
        "numeric columns lie around the middle of their bounds, with a standard deviation of "
        f"{guesses.spread:g} of half their width (spread)": any(
            not v.levels and v.is_bounded for v in variables
        ),
        "columns without bounds are normal, and rows of them have a root mean square length of "
        f"{guesses.spread:g} (spread) of the limit {limit:g}": any(
            not v.is_bounded for v in variables
        ),
        "the levels of a factor are equally common": any(v.levels for v in variables),
        "columns do not depend on each other": len(variables) > 1,
    }
    holding = (clause for clause, holds in clauses.items() if holds)
    return (*holding, *labels, "no value is missing")
