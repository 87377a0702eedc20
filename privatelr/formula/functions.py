"""The operators, functions and contrasts of a formula, and what is refused with a remedy.

A function is listed only if its value for a row depends on that row alone, so a term cannot learn
from the data. It is listed with its range over an interval, so that a declared bound on a variable
becomes a bound on the term. Operators are functions that are written between their arguments.

The lists of refused functions only serve the wording of errors. What protects the data is that a
term can call nothing but the functions in `ROW_FUNCTIONS`.

Contrasts come from formulaic. It is asked only for those that are listed here, by name and with
constants as arguments.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import scipy

from privatelr.errors import FormulaError, PrivateLRError, SchemaError, nearest, show
from privatelr.lazy_import import lazy_import
from privatelr.types import FloatArray

if TYPE_CHECKING:
    from formulaic.transforms import contrasts
else:
    contrasts = lazy_import("formulaic.transforms.contrasts")

CONTRASTS = frozenset(
    f"contr.{name}" for name in ("treatment", "sum", "SAS", "helmert", "diff", "poly")
)
TREATMENT = "contr.treatment"
OF_PATSY = {
    "Treatment": TREATMENT,
    **{name: f"contr.{name.lower()}" for name in ("Sum", "Helmert", "Diff", "Poly")},
}
"""Names of contrasts in patsy and statsmodels, each with the name that R has for it."""
Contrast = tuple[str, list[Any], dict[str, Any], str]
"""A contrast: its name, its constant arguments by position and by keyword, and its spelling in
formulaic."""


def contrasts_of(contrast: Contrast | None) -> contrasts.Contrasts:
    """Return formulaic's contrasts of this name, or R's default if no contrast is named.

    They may raise any error for arguments that they do not take.
    """
    name, given, named, _ = contrast or (TREATMENT, [], {}, "")
    kind: Any = getattr(contrasts.ContrastsRegistry, name.removeprefix("contr."))
    return cast("contrasts.Contrasts", kind(*given, **named))


def require_base(label: str, contrast: Contrast | None, levels: Sequence[Any]) -> None:
    """Refuse a base that is not a level; raises `FormulaError`.

    R also accepts the position of the base, which is ambiguous where levels are numbers.
    """
    name, given, named, _ = contrast or ("", [], {}, "")
    if name != TREATMENT or not (given or named):
        return
    if len(given) != 1 or named:
        raise FormulaError(
            f"formula: {label!r} takes one argument of its contrast, the base level by its name, "
            f"such as Treatment({levels[-1]!r})."
        )
    if given[0] not in levels:
        close = nearest(str(given[0]), [str(level) for level in levels])
        hint = f"the nearest is {close!r}" if close else f"it takes {', '.join(map(show, levels))}"
        raise FormulaError(
            f"formula: {label!r} has the base level {show(given[0])}, which is not one of its "
            f"levels; {hint}."
        )


_KNOTS = dict.fromkeys(
    ("bs", "ns", "cs", "cr", "cc", "s", "te", "ti", "t2", "lo", "rcs", "pspline"), "its knots"
)
_CENTRINGS = ("scale", "scaled", "standardize")
LEARNED = {
    **dict.fromkeys(_CENTRINGS, "its mean and standard deviation"),
    **{"center": "its mean", "poly": "its orthogonal basis", "qcut": "its breaks"},
    **{"relevel": "its levels", **_KNOTS},
}
"""Functions that learn from the data, each with what it learns."""
SUMMARIES = frozenset(
    {"mean", "median", "sd", "std", "var", "mad", "min", "max", "range", "sum", "prod", "mode"}
    | {"quantile", "iqr", "IQR", "fivenum", "rank", "order", "ave", "cumsum", "cummax", "cummin"}
    | {"diff", "lag", "shift", "count", "nunique", "any", "all", "length", "len"}
)
"""Names of functions whose value depends on all rows."""


_PERSONS = (
    "says whose records they are; pass person='{0}', which protects them together and gives "
    "cluster-robust errors, or add the factor {0}"
)
_MODELS = {
    **dict.fromkeys(
        ("cbind", "trials"),
        "counts trials; give one record for each trial, with a response of 0 or 1",
    ),
    "strata": "divides records; pass by='{0}' for a fit of each level, or add the factor {0}",
    **dict.fromkeys(("cluster", "frailty", "re", "random"), _PERSONS),
    **dict.fromkeys(("i", "fe"), "is a fixed effect; add the factor {0}, with declared levels"),
    "interaction": "crosses factors; write a:b for their interaction",
    "Surv": "is a time to an event, which no model here has; compare it with a public time, as in "
    '"{0} > 365 ~ ..."',
}
"""Calls of other packages that say what a model is about, each with what to write instead."""


_ORDER = (
    "puts levels in an order, which no model here uses; divide them in two, as in "
    "\"{0} %in% c('high', 'highest') ~ ...\" for dplr"
)
_INSTEAD = {
    "relevel": "reorders levels; declare the order, reference level first, as "
    'levels={{"{0}": [...]}}, or name it, as in C({0}, Treatment("level"))',
    **dict.fromkeys(("ordered", "as.ordered"), _ORDER),
    **dict.fromkeys(
        (*_CENTRINGS, "center"),
        '{2}; write {0}, which bounds={{"{0}": (lo, hi)}} centres and scales already, or '
        "I(({0} - 50)/10) with public constants",
    ),
    "poly": "{2}; {3} and write poly({0}, 2, raw = TRUE), or {0} + I({0}^2)",
    **dict.fromkeys(
        _KNOTS,
        "is a spline whose columns have no proven range; {3} and use ns({0}, knots = c(30, 60)) "
        "with public knots, or pmax({0} - 3.2, 0)",
    ),
    **dict.fromkeys(
        ("bs", "ns", "cr"), "divides a number by itself, as in {1}({0}, knots = c(30, 60))"
    ),
    "cut": "divides a number by itself, as in cut({0}, breaks = c(0, 10, 20))",
}
"""What to write instead of a function: of a variable, by the function's own name, what it learns,
and the bounds to declare."""


def refuse_call(function: str, term: str, variable: str) -> PrivateLRError:
    """Return the error for a term that calls `function`, with a remedy that names `variable`."""
    if function in ("offset", "weights", "subset"):
        return FormulaError(
            f"term '{term}': {function}() is added to the whole right-hand side, as in "
            f'"y ~ x + {function}({variable})", and is no part of another term or of the response.'
        )
    if function in _MODELS:
        return FormulaError(f"term '{term}' {_MODELS[function].format(variable)}.")
    short = function.rsplit(".", 1)[-1]
    learns = f"learns {LEARNED.get(short)} from the data"
    declare = f'declare bounds={{"{variable}": (lo, hi)}}'
    if short in _INSTEAD:
        why = _INSTEAD[short].format(variable, short, learns, declare)
    elif short in LEARNED:
        why = (
            f"{learns}; {declare} and use public cut points, such as I({variable} > 3.2) or "
            f"cut({variable}, breaks = c(0, 10, 20))"
        )
    elif short in SUMMARIES:
        why = (
            f"calls {function}, which looks at all rows; write a public constant in its place, "
            f"such as I({variable} > 3.2), and {declare}"
        )
    else:
        why = (
            f"calls {function}, which is not known to work row by row; compute the column from "
            "public constants before the call, and declare its bounds or levels"
        )
    return SchemaError(f"term '{term}' {why}.")


Interval = tuple[float, float]
EVERYTHING: Interval = (-math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class RowFunction:
    """A function or an operator of one row: its values and its range over a box of intervals.

    Attributes
    ----------
    binding : int
        Precedence of an operator; operators of a larger number are applied first.
    """

    value: Callable[..., Any]
    interval: Callable[..., Interval]
    arity: int = 1
    binding: int = 0


def increasing(
    value: Callable[..., Any], low: float = -math.inf, high: float = math.inf
) -> RowFunction:
    """Return the `RowFunction` of a function that never decreases on its domain ``[low, high]``."""

    def interval(x: Interval) -> Interval:
        if x[1] < low or x[0] > high:
            return (math.nan, math.nan)
        with np.errstate(all="ignore"):
            ends = value(np.array([max(x[0], low), min(x[1], high)]))
        return (float(ends[0]), float(ends[1]))

    return RowFunction(value, interval)


def _special(name: str) -> Callable[[Any], Any]:
    """Return a function of SciPy's ``special``, which is loaded at the first call."""
    return lambda x: getattr(scipy.special, name)(x)


def _within(low: float, high: float) -> Callable[..., Interval]:
    return lambda *_: (low, high)


def _abs(x: Interval) -> Interval:
    touches_zero = x[0] <= 0 <= x[1]
    return (0.0 if touches_zero else min(abs(x[0]), abs(x[1])), max(abs(x[0]), abs(x[1])))


def _cosh(x: Interval) -> Interval:
    low, high = np.cosh(_abs(x))
    return (float(low), float(high))


def product_range(x: Interval, y: Interval) -> Interval:
    """Return the range of a product; zero times an infinite end counts as zero."""
    ends = [0.0 if a == 0 or b == 0 else a * b for a in x for b in y]
    return (min(ends), max(ends))


def _quotient_range(x: Interval, y: Interval) -> Interval:
    """Return the range of a quotient whose divisor excludes zero, with the rounding of values."""
    if y[0] <= 0 <= y[1]:
        return EVERYTHING
    ends = [0.0 if a == 0 or math.isinf(b) else float(np.divide(a, b)) for a in x for b in y]
    return (min(ends), max(ends))


def _remainder_range(_: Interval, y: Interval) -> Interval:
    """Return the range of a remainder, which lies between 0 and a divisor that excludes zero."""
    return EVERYTHING if y[0] <= 0 <= y[1] else (min(0.0, y[0]), max(0.0, y[1]))


def _floor_range(x: Interval, y: Interval) -> Interval:
    """Return the range of a rounded quotient whose divisor excludes zero."""
    if y[0] <= 0 <= y[1] or not all(map(math.isfinite, (*x, *y))):
        return EVERYTHING
    ends = [float(np.floor_divide(a, b)) for a in x for b in y]
    return (min(ends), max(ends))


def _power_range(x: Interval, y: Interval) -> Interval:
    exponent = float(y[0])
    low, high = x if exponent.is_integer() else (max(x[0], 0.0), x[1])
    if y[0] != y[1] or high < low or (exponent < 0 and low <= 0 <= high):
        return EVERYTHING
    ends = [float(np.power(float(end), exponent)) for end in (low, high)]
    if low <= 0 <= high:
        ends.append(0.0 if exponent else 1.0)
    return (min(ends), max(ends))


def where_defined(truth: Any, *operands: Any) -> FloatArray:
    """Return a truth value as a number, NaN where a numeric operand is undefined, as R's NA."""
    result = np.asarray(truth, dtype=np.float64)
    for operand in map(np.asarray, operands):
        if operand.dtype.kind == "f":
            result = np.where(np.isnan(operand), np.nan, result)
    return result


def _comparison(test: Callable[[Any, Any], Any]) -> RowFunction:
    return RowFunction(
        lambda x, y: where_defined(test(x, y), x, y), _within(0.0, 1.0), arity=2, binding=4
    )


def _logic(decisive: float, binding: int) -> RowFunction:
    """Return the conjunction (decided by a 0) or disjunction (decided by a 1) of truth values."""

    def value(x: Any, y: Any) -> FloatArray:
        first, second = where_defined(x != 0, x), where_defined(y != 0, y)
        decided = (first == decisive) | (second == decisive)
        undefined = np.isnan(first) | np.isnan(second)
        return np.where(decided, decisive, np.where(undefined, np.nan, 1.0 - decisive))

    return RowFunction(value, _within(0.0, 1.0), arity=2, binding=binding)


def _is_among(column: Any, options: Sequence[Any]) -> FloatArray:
    found = functools.reduce(np.logical_or, [column == option for option in options], False)
    return where_defined(found, column)


COMPARISONS = {
    "==": _comparison(np.equal),
    "!=": _comparison(np.not_equal),
    "<": _comparison(np.less),
    "<=": _comparison(np.less_equal),
    ">": _comparison(np.greater),
    ">=": _comparison(np.greater_equal),
}
MEMBERSHIPS = {
    "%in%": RowFunction(_is_among, _within(0.0, 1.0), arity=2, binding=7),
    "in": RowFunction(_is_among, _within(0.0, 1.0), arity=2, binding=4),
}
"""Operators of membership, whose second operand is a list of constants."""
ARITHMETIC = {
    "+": RowFunction(np.add, lambda x, y: (x[0] + y[0], x[1] + y[1]), 2, binding=5),
    "-": RowFunction(np.subtract, lambda x, y: (x[0] - y[1], x[1] - y[0]), 2, binding=5),
    "*": RowFunction(np.multiply, product_range, 2, binding=6),
    "/": RowFunction(np.divide, _quotient_range, 2, binding=6),
    "%%": RowFunction(np.mod, _remainder_range, 2, binding=7),
    "%/%": RowFunction(np.floor_divide, _floor_range, 2, binding=7),
    "^": RowFunction(np.power, _power_range, 2, binding=9),
}
LOGIC = {"|": _logic(1.0, binding=1), "&": _logic(0.0, binding=2)}
INFIX = {**LOGIC, **COMPARISONS, **MEMBERSHIPS, **ARITHMETIC}
"""Operators between two operands. A power groups from the right, all others from the left."""
PREFIX = {
    "!": RowFunction(lambda x: 1.0 - where_defined(x != 0, x), _within(0.0, 1.0), binding=3),
    "-": RowFunction(np.negative, lambda x: (-x[1], -x[0]), binding=8),
    "+": RowFunction(np.positive, lambda x: x, binding=8),
}
"""Operators before one operand; as in R, the operand includes operators of higher precedence."""
SAME = {"**": "^", "||": "|", "or": "|", "&&": "&", "and": "&", "not": "!"}
"""Other spellings of operators, each with the spelling that is used here."""

ROW_FUNCTIONS: dict[str, RowFunction] = {
    **{name: increasing(getattr(np, name)) for name in ("exp", "expm1", "cbrt", "floor", "ceil")},
    **{name: increasing(getattr(np, name)) for name in ("trunc", "round", "sign", "sinh", "tanh")},
    **{name: increasing(getattr(np, name), 0.0) for name in ("log", "log2", "log10", "sqrt")},
    **dict.fromkeys(("atan", "arctan"), increasing(np.arctan)),
    **dict.fromkeys(("plogis", "expit"), increasing(_special("expit"))),
    **dict.fromkeys(("qlogis", "logit"), increasing(_special("logit"), low=0.0, high=1.0)),
    "ceiling": increasing(np.ceil),
    "log1p": increasing(np.log1p, low=-1.0),
    "pnorm": increasing(_special("ndtr")),
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
        lambda _, yes, no: (min(yes[0], no[0]), max(yes[1], no[1])),
        arity=3,
    ),
}
"""Row-wise functions by their name in R or NumPy (``np.log`` is found as ``log``)."""
