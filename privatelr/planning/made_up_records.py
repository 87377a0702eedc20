"""Made-up records that stand for the data of a study, from public guesses or a pilot."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from privatelr.audit.density.pairs import SignedRows
from privatelr.design import DesignSpec, Variable, read_design
from privatelr.errors import ArgumentError, require_number
from privatelr.inference import PUBLIC_SEED
from privatelr.numerics.rows import DenseRows
from privatelr.types import FloatArray, ObjectArray

SPREADS = (0.01, 1.0)
BALANCES = (0.001, 0.999)
C_INDICES = (0.5, 0.95)


@dataclass(frozen=True, slots=True)
class Guesses:
    """What a plan assumes where nothing is public.

    Attributes
    ----------
    balance : float
        Share of the positive class.
    spread : float
        Standard deviation of a bounded column, over half the width of its bounds.
    c_index : float
        Of the true probabilities; 0.5 is nothing to find.
    """

    balance: float = 0.5
    spread: float = 0.4
    c_index: float = 0.75


def read_guesses(balance: Any, spread: Any, c_index: Any) -> Guesses:
    """Check what is guessed; raises `ArgumentError`."""
    shares = "the share of the positive class, a number from {} to {}"
    spreads = "a standard deviation over half the width of the bounds, a number from {} to {}"
    indices = "a number from {} (nothing to find) to {}"
    return Guesses(
        balance=_read("balance", balance, BALANCES, shares),
        spread=_read("spread", spread, SPREADS, spreads),
        c_index=_read("c_index", c_index, C_INDICES, indices),
    )


def _read(name: str, value: Any, limits: tuple[float, float], takes: str) -> float:
    low, high = limits
    told = takes.format(f"{low:g}", f"{high:g}")
    return require_number(ArgumentError, name, value, told, at_least=low, at_most=high)


_FEWEST, _PER_COLUMN = 1024, 32
"""Made-up records, at least, and for each column of the design."""
_LEAST_OF_PILOT, _MOST_OF_PILOT = 2000, 20_000
_PILOT_WORK = 2e6
"""Numbers in the outer products of a pilot's rows, about; a longer pilot is used in part."""
_TWO_POINTS = 0.999
"""A spread from which all values are at the ends of their bounds."""
_STEEPEST = 4.0
"""Deviation of the true predictor, at most: the C-index is then about 0.96."""
_WIDEST = 60.0
"""No probability differs from 0 or 1 beyond."""


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """Signed design rows and how common each is.

    Attributes
    ----------
    rows : ndarray of shape (k, d)
        ``y x``.
    shares : ndarray of shape (k,)
        They add up to 1.
    """

    rows: FloatArray
    shares: FloatArray

    def records(self, n: int) -> SignedRows:
        """As many records as the study has, in these shares."""
        return SignedRows(self.rows, n * self.shares)


def made_up(spec: DesignSpec, guesses: Guesses) -> Population:
    """Records whose columns are independent and spread as guessed, with both labels each."""
    count = max(_FEWEST, _PER_COLUMN * spec.d)
    frame = _columns(spec, guesses.spread, count)
    rows = read_design(spec, frame, DenseRows).rows
    assert isinstance(rows, DenseRows)
    return _labelled(rows.x, positive_shares(spec, rows.x, guesses))


def of_pilot(
    spec: DesignSpec, pilot: pd.DataFrame, guesses: Guesses, *, labelled: bool
) -> Population:
    """The records of a public pilot, or a part of it that is drawn by a public seed.

    Parameters
    ----------
    labelled
        Whether the labels are the pilot's own; otherwise every record counts with both.
    """
    most = int(np.clip(_PILOT_WORK / spec.d**2, _LEAST_OF_PILOT, _MOST_OF_PILOT))
    if len(pilot) > most:
        chosen = np.random.default_rng(PUBLIC_SEED).permutation(len(pilot))[:most]
        pilot = pilot.iloc[np.sort(chosen)]
    rows = read_design(spec, pilot, DenseRows).rows
    assert isinstance(rows, DenseRows)
    if not np.any(rows.y):
        raise ArgumentError(
            "pilot: none of its records can be used; a pilot takes values within their bounds and "
            "levels, and none missing."
        )
    if labelled:
        return Population(rows.x * rows.y[:, None], np.full(rows.n, 1 / rows.n))
    return _labelled(rows.x, positive_shares(spec, rows.x, guesses))


def _labelled(x: FloatArray, positive: FloatArray) -> Population:
    """Each row ``(m, d)`` with either label, in the proportion of its probabilities ``(m,)``."""
    shares = np.concatenate([positive, 1 - positive]) / len(x)
    return Population(np.concatenate([x, -x]), shares)


def positive_shares(spec: DesignSpec, x: FloatArray, guesses: Guesses) -> FloatArray:
    """Probability ``(m,)`` of the positive class at rows ``(m, d)``: logistic, with a guessed fit.

    All columns have a part of the same deviation in the predictor; its scale and its intercept
    give the C-index and the mean probability.
    """
    deviation = x.std(axis=0)
    varies = deviation > 0
    predictor = x[:, varies] @ (1 / deviation[varies])
    predictor /= predictor.std() or 1.0
    low, high = 0.0, _STEEPEST
    for _ in range(60):
        middle = (low + high) / 2
        probability = _balanced(middle * predictor, guesses.balance)
        if expected_c_index(predictor, probability) < guesses.c_index:
            low = middle
        else:
            high = middle
    return _balanced(high * predictor, guesses.balance)


def _balanced(predictor: FloatArray, balance: float) -> FloatArray:
    """Logistic probabilities ``(m,)`` with the intercept that makes them `balance` on average."""
    reach = _WIDEST + np.abs(predictor).max()
    low, high = -reach, reach
    for _ in range(60):
        middle = (low + high) / 2
        if float(special.expit(predictor + middle).mean()) < balance:
            low = middle
        else:
            high = middle
    return np.asarray(special.expit(predictor + high))


def expected_c_index(predictor: FloatArray, probability: FloatArray) -> float:
    """C-index of a predictor ``(m,)`` for labels of these probabilities ``(m,)``."""
    order = np.argsort(predictor)
    positive = probability[order]
    negative = 1 - positive
    below = np.cumsum(negative) - negative / 2
    return float(positive @ below / (positive.sum() * negative.sum()))


def _columns(spec: DesignSpec, spread: float, count: int) -> pd.DataFrame:
    """Columns in the user's units; every value is as common as its law has it."""
    rng = np.random.default_rng(PUBLIC_SEED)
    ranks = (np.arange(count) + 0.5) / count
    variables = {name: spec.variables[name] for name in spec.formula.covariates}
    unbounded = sum(not v.is_bounded for v in variables.values())
    limit = spec.bound if spec.unbounded_norm is None else spec.unbounded_norm
    reach = spread * limit / math.sqrt(max(unbounded, 1))
    frame: dict[str, Any] = {
        name: _values(variable, rng.permutation(ranks), spread, reach)
        for name, variable in variables.items()
    }
    return pd.DataFrame({**stand_ins(spec, count), **frame})


def stand_ins(spec: DesignSpec, count: int) -> dict[str, list[Any]]:
    """Usable values for the columns of a response whose labels are not looked at."""
    variables = [spec.variables[name] for name in spec.formula.response.names]
    return {v.name: [v.levels[0] if v.levels else v.bounds[0]] * count for v in variables}


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

    At 0.577 it is uniform, above it both ends are more common than the middle, below it less.
    """
    if spread >= _TWO_POINTS:
        return np.where(ranks < 0.5, -1.0, 1.0)
    shape = (1 / spread**2 - 1) / 2
    return np.asarray(2 * special.betaincinv(shape, shape, ranks) - 1)
