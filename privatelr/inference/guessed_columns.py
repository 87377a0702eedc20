"""Columns and labels of made-up records, from guesses about facts that are not public."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from scipy import optimize, special

from privatelr import errors
from privatelr.design import DesignSpec, Variable
from privatelr.errors import ArgumentError
from privatelr.inference.error_distribution import PUBLIC_SEED
from privatelr.types import FloatArray, IntArray, Offset

_FEWEST, _PER_COLUMN = 1024, 32
"""A population has at least the first number of made-up records, and the second per column."""
_TWO_POINTS = 0.999
"""If the spread is at least this, all values are at the ends of their bounds."""
_STEEPEST = 4.0
"""The true predictor has at most this standard deviation, at which the C-index is about 0.96."""
_WIDEST = 60.0
"""For predictors of a larger size than this, probabilities are 0 or 1 in doubles."""
_SKEWED_FROM, MOST_SKEWED = 10.0, 0.4
"""Columns from about 0 to above the first number lie near 0, if their spread is up to the second.

These laws and the default guesses are near the medians over published tables
(``python -m tests.studies.planning --tables``).
"""
_RARITY, _SHORT_LIST = 1.5, 3
"""Of L levels the rarest has ``L**-_RARITY`` times the share of the most common. Up to the second
number of levels the first is the most common one."""
LEAST_SPREAD, _USUAL_LENGTH = 0.01, 0.4


@dataclass(frozen=True, slots=True)
class Guesses:
    """The assumptions of a plan about facts that are not public.

    Attributes
    ----------
    balance : float
        Share of the positive class.
    spread : float, mapping from column to float, or None
        Standard deviation of a bounded column, over half the width of its bounds. `usual_spread`
        has it for columns without a number.
    c_index : float
        The C-index of the true probabilities; 0.5 means that there are no effects.
    correlation : float
        The correlation of the normal quantiles of any two numeric columns.
    narrowing : float
        A factor of all spreads.
    rare_first : bool
        Whether the first level of each factor is the rarest.

    Examples
    --------
    >>> from privatelr.inference import Guesses
    >>> Guesses(balance=0.1, spread={"age": 0.2}, c_index=0.7).correlation  # what is left as usual
    0.5
    """

    balance: float = 0.3
    spread: float | Mapping[str, float] | None = None
    c_index: float = 0.75
    correlation: float = 0.5
    narrowing: float = 1.0
    rare_first: bool = False

    def spread_of(self, variable: Variable) -> float:
        """The spread of a bounded numeric column."""
        given = self.spread
        if isinstance(given, Mapping):
            given = given.get(variable.name)
        found = usual_spread(*variable.bounds) if given is None else given
        return max(self.narrowing * found, LEAST_SPREAD)


def usual_spread(low: float, high: float) -> float:
    """The guessed spread within bounds: 0.4 for a width of 10, and 0.1 for one of 40,000.

    The more units there are between the bounds, the less of them real columns use.
    """
    return min(0.5, 0.4 * math.pow((high - low) / 10, -1 / 6))


def guessed_columns(spec: DesignSpec, guesses: Guesses) -> pd.DataFrame:
    """Made-up columns in the user's units; their values are quantiles of the assumed laws."""
    count = max(_FEWEST, _PER_COLUMN * spec.d)
    rng = np.random.default_rng(PUBLIC_SEED)
    ranks = (np.arange(count) + 0.5) / count
    variables = {name: spec.variables[name] for name in spec.formula.guessed}
    if isinstance(guesses.spread, Mapping):
        known = [name for name, v in variables.items() if not v.levels and v.is_bounded]
        for name in guesses.spread.keys() - {*known}:
            listed, end = ", ".join(map(repr, known)) or "none", errors.or_meant(name, known)
            raise ArgumentError(
                f"spread={{{name!r}: ...}}: spread takes numeric columns with bounds, which are "
                f"{listed}{end}"
            )
    unbounded = sum(not v.is_bounded for v in variables.values())
    limit = spec.bound if spec.unbounded_norm is None else spec.unbounded_norm
    reach = length_of_rows(guesses) * limit / math.sqrt(max(unbounded, 1))
    shared = rng.standard_normal(count)
    columns: dict[str, Any] = {}
    for name, variable in variables.items():
        own = rng.standard_normal(count)
        if levels := variable.levels:
            values = np.empty(len(levels), dtype=object)
            values[:] = levels
            if spec.formula.by is not None and name == spec.formula.by.column:
                places = (ranks * len(levels)).astype(int)  # strata are guessed to be as common
            else:
                places = _places(len(levels), ranks, guesses.rare_first)
            columns[name] = values[places][np.argsort(own)]
            continue
        both = guesses.correlation**0.5 * shared + (1 - guesses.correlation) ** 0.5 * own
        order = np.argsort(np.argsort(both))
        columns[name] = (
            guessed_numbers(*variable.bounds, count, guesses.spread_of(variable))[order]
            if variable.is_bounded
            else reach * special.ndtri(ranks)[order]
        )
    return pd.DataFrame(columns, index=range(count))


def length_of_rows(guesses: Guesses) -> float:
    """Root mean square length of rows without bounds, over the limit to it."""
    given = guesses.spread
    return guesses.narrowing * (given if isinstance(given, float) else _USUAL_LENGTH)


def level_shares(count: int) -> FloatArray:
    """Shares ``(count,)`` of the levels of a factor, from the most common to the rarest.

    They fall by one factor from each to the next.
    """
    found = np.geomspace(1.0, float(count) ** -_RARITY, count)
    return np.asarray(found / found.sum())


def _places(count: int, ranks: FloatArray, rare_first: bool) -> IntArray:
    """Places of levels at `ranks` ``(m,)``, the more common ones first.

    In published tables a short list mostly begins with its most common level, and a longer one has
    that in the middle (``python -m tests.studies.planning --levels``). Coefficients are differences
    from the first level.
    """
    middle = 0 if count <= _SHORT_LIST else count // 2
    order = [*range(middle, -1, -1), *range(count - 1, middle, -1)]
    if rare_first:
        order = [*range(1, count), 0]
    ends = np.cumsum(level_shares(count))
    return np.array(order)[np.minimum(np.searchsorted(ends, ranks), count - 1)]


def is_skewed(low: float, high: float) -> bool:
    """Whether columns with these bounds are counts, amounts or times: from about 0 to far off."""
    return high - low > _SKEWED_FROM and 10 * low <= high and -2 * low < high


@lru_cache(maxsize=8)  # columns with equal bounds have one law
def guessed_numbers(low: float, high: float, count: int, spread: float) -> FloatArray:
    """Quantiles ``(count,)`` of the law of a column with these bounds, in ascending order."""
    ranks = (np.arange(count) + 0.5) / count
    if is_skewed(low, high) and spread <= MOST_SKEWED:
        first = max(low, 0.0)
        sd = spread * (high - low) / 2 / (high - first)
        return first + (high - first) * skewed_quantiles(ranks, sd)
    return (low + high) / 2 + (high - low) / 2 * spread_quantiles(ranks, spread)


def skewed_quantiles(ranks: FloatArray, sd: float) -> FloatArray:
    """Quantiles of a log-normal law that is cut off at 1, with the standard deviation `sd`."""
    law = np.exp(special.ndtri(ranks))
    scale = _root(lambda scale: float(np.minimum(scale * law, 1.0).std()) - sd, 0.0, 0.5)
    return np.asarray(np.minimum(scale * law, 1.0))


def spread_quantiles(ranks: FloatArray, spread: float) -> FloatArray:
    """Quantiles of the symmetric beta law on [-1, 1] whose standard deviation is `spread`.

    At 0.577 the law is uniform. Above that, the ends are more common than the middle, and below
    that, the middle is.

    Examples
    --------
    >>> import numpy as np
    >>> from privatelr.inference import spread_quantiles
    >>> ranks = np.array([0.1, 0.9])
    >>> spread_quantiles(ranks, 0.2).round(2), spread_quantiles(ranks, 0.577).round(2)  # uniform
    (array([-0.26,  0.26]), array([-0.8,  0.8]))
    """
    if spread >= _TWO_POINTS:
        return np.where(ranks < 0.5, -1.0, 1.0)
    shape = (1 / spread**2 - 1) / 2
    return np.asarray(2 * special.betaincinv(shape, shape, ranks) - 1)


def positive_shares(x: FloatArray, guesses: Guesses, offset: Offset = 0.0) -> FloatArray:
    """Probabilities ``(m,)`` of the positive class at rows ``(m, d)``, by a logistic model.

    All columns contribute to the predictor with the same standard deviation. The scale of the
    predictor gives the guessed C-index, and its intercept the guessed balance. An offset ``(m,)``
    is added as it is; if it tells the classes apart better than that, the columns add nothing.
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

    def discrimination(at: float) -> float:
        link = at * predictor + offset
        return _c_index(link, balanced(link))

    scale = _root(lambda at: discrimination(at) - guesses.c_index, 0.0, _STEEPEST)
    return balanced(scale * predictor + offset)


def _root(rising: Callable[[float], float], low: float, high: float) -> float:
    """The point where an increasing function reaches 0, or the end that is nearer to it."""
    if rising(low) >= 0:
        return low
    return high if rising(high) < 0 else float(optimize.brentq(rising, low, high, xtol=1e-12))


def _c_index(predictor: FloatArray, probability: FloatArray) -> float:
    """Expected C-index of a predictor ``(m,)`` for labels with these probabilities ``(m,)``."""
    order = np.argsort(predictor)
    positive = probability[order]
    negative = 1 - positive
    below = np.cumsum(negative) - negative / 2
    return float(positive @ below / (positive.sum() * negative.sum()))
