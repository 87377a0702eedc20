"""The functions a term may call: each works row by row and knows its range.

A function is here only if the value for a row depends on that row alone, so a term cannot
learn anything from the data; and only with the range it takes over an interval, so that a
declared bound on a variable becomes a bound on the term.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

if TYPE_CHECKING:
    from collections.abc import Callable

Interval = tuple[float, float]
EVERYTHING: Interval = (-math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class RowFunction:
    """A function of one row: its values and its range over a box of intervals."""

    value: Callable[..., Any]
    interval: Callable[..., Interval]
    arity: int = 1


def increasing(
    value: Callable[..., Any], low: float = -math.inf, high: float = math.inf
) -> RowFunction:
    """A function that never decreases on its domain ``[low, high]``."""

    def interval(x: Interval) -> Interval:
        if x[1] < low or x[0] > high:
            return (math.nan, math.nan)
        with np.errstate(all="ignore"):
            ends = value(np.array([max(x[0], low), min(x[1], high)]))
        return (float(ends[0]), float(ends[1]))

    return RowFunction(value, interval)


def _expit(x: Any) -> Any:  # SciPy loads its functions when one is called
    return scipy.special.expit(x)


def _logit(x: Any) -> Any:
    return scipy.special.logit(x)


def _ndtr(x: Any) -> Any:
    return scipy.special.ndtr(x)


def _within(low: float, high: float) -> Callable[..., Interval]:
    return lambda *_: (low, high)


def _abs(x: Interval) -> Interval:
    touches_zero = x[0] <= 0 <= x[1]
    return (0.0 if touches_zero else min(abs(x[0]), abs(x[1])), max(abs(x[0]), abs(x[1])))


def _cosh(x: Interval) -> Interval:
    low, high = _abs(x)
    with np.errstate(all="ignore"):
        return (float(np.cosh(low)), float(np.cosh(high)))


def hull(x: Interval, y: Interval) -> Interval:
    """The smallest interval that holds both."""
    return (min(x[0], y[0]), max(x[1], y[1]))


def product_range(x: Interval, y: Interval) -> Interval:
    """Range of a product; zero times an unbounded variable is unbounded only if it can be."""
    ends = [0.0 if a == 0 or b == 0 else a * b for a in x for b in y]
    return (min(ends), max(ends))


ROW_FUNCTIONS: dict[str, RowFunction] = {
    "log": increasing(np.log, low=0.0),
    "log2": increasing(np.log2, low=0.0),
    "log10": increasing(np.log10, low=0.0),
    "log1p": increasing(np.log1p, low=-1.0),
    "exp": increasing(np.exp),
    "expm1": increasing(np.expm1),
    "sqrt": increasing(np.sqrt, low=0.0),
    "cbrt": increasing(np.cbrt),
    "floor": increasing(np.floor),
    "ceiling": increasing(np.ceil),
    "ceil": increasing(np.ceil),
    "trunc": increasing(np.trunc),
    "round": increasing(np.round),
    "sign": increasing(np.sign),
    "atan": increasing(np.arctan),
    "arctan": increasing(np.arctan),
    "sinh": increasing(np.sinh),
    "tanh": increasing(np.tanh),
    "plogis": increasing(_expit),
    "expit": increasing(_expit),
    "qlogis": increasing(_logit, low=0.0, high=1.0),
    "logit": increasing(_logit, low=0.0, high=1.0),
    "pnorm": increasing(_ndtr),
    "as.numeric": increasing(np.positive),
    "as.integer": increasing(np.trunc),
    "abs": RowFunction(np.abs, _abs),
    "cosh": RowFunction(np.cosh, _cosh),
    "sin": RowFunction(np.sin, _within(-1.0, 1.0)),
    "cos": RowFunction(np.cos, _within(-1.0, 1.0)),
    "pmin": RowFunction(np.minimum, lambda x, y: (min(x[0], y[0]), min(x[1], y[1])), arity=2),
    "pmax": RowFunction(np.maximum, lambda x, y: (max(x[0], y[0]), max(x[1], y[1])), arity=2),
    "ifelse": RowFunction(
        lambda test, yes, no: np.where(
            np.isnan(test), np.nan, np.where(np.asarray(test) != 0, yes, no)
        ),
        lambda _, yes, no: hull(yes, no),
        arity=3,
    ),
}
"""Row-wise functions by R's or NumPy's name (``np.log`` is found as ``log``)."""
