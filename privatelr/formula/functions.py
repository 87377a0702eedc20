"""What a formula may call: functions, contrasts, and what is refused with a remedy.

A function is here only if the value for a row depends on that row alone, so a term cannot
learn anything from the data; and only with the range it takes over an interval, so that a
declared bound on a variable becomes a bound on the term.

The list words the refusal; it is not the defence. The defence is that a term may call only
what `privatelr.formula.functions` holds.

formulaic has the contrasts, and is asked for those that are listed here alone, by their name and
with constants for arguments.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import scipy
from formulaic.transforms.contrasts import Contrasts, ContrastsRegistry

from privatelr.errors import FormulaError, PrivateLRError, SchemaError, nearest, show

CONTRASTS = frozenset({"treatment", "sum", "SAS", "helmert", "diff", "poly"})
_TREATMENT = "contr.treatment"
_PATSY = {"Treatment": _TREATMENT}
_BASES = {"base", "reference"}
"""Words of R and patsy for the level that others are compared with."""


def spell_contrast(node: ast.expr, aliases: Mapping[str, str]) -> str | None:
    """A contrast as formulaic reads it, ``contr.name`` or ``contr.name(constants)``.

    None for anything else. `aliases` has the names that stand for identifiers of the tree.
    """
    named = node.func if isinstance(node, ast.Call) else node
    name = aliases.get(named.id, "") if isinstance(named, ast.Name) else ""
    name = _PATSY.get(name, name) if isinstance(node, ast.Call) else name
    if name.removeprefix("contr.") not in CONTRASTS or not name.startswith("contr."):
        return None
    if not isinstance(node, ast.Call):
        return name
    if not all(map(_is_constant, [*node.args, *(keyword.value for keyword in node.keywords)])):
        return None
    given = [ast.unparse(argument) for argument in node.args]
    for keyword in node.keywords:
        value = ast.unparse(keyword.value)
        is_base = name == _TREATMENT and keyword.arg in _BASES
        given.append(value if is_base else f"{keyword.arg}={value}")
    return f"{name}({', '.join(given)})"


def contrasts_of(spelled: str | None) -> Contrasts:
    """The contrasts that `spell_contrast` spelled, R's default for none.

    They may refuse their arguments by an error of any kind.
    """
    call = ast.parse(spelled or _TREATMENT, mode="eval").body
    named = call.func if isinstance(call, ast.Call) else call
    assert isinstance(named, ast.Attribute)
    kind: Any = getattr(ContrastsRegistry, named.attr)
    if not isinstance(call, ast.Call):
        return cast("Contrasts", kind())
    given = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    return cast("Contrasts", kind(*map(ast.literal_eval, call.args), **given))


def require_base(label: str, contrast: str | None, levels: Sequence[Any]) -> None:
    """Refuse a base that is not a level; raises `FormulaError`.

    R takes its position too, which would mean another level where levels are numbers.
    """
    if contrast is None or not contrast.startswith(f"{_TREATMENT}("):
        return
    call = ast.parse(contrast, mode="eval").body
    assert isinstance(call, ast.Call)
    if not call.args and not call.keywords:
        return
    if len(call.args) != 1 or call.keywords:
        raise FormulaError(
            f"formula: {label!r} takes one argument of its contrast, the base level by its name, "
            f"such as Treatment({levels[-1]!r})."
        )
    base = ast.literal_eval(call.args[0])
    if base not in levels:
        close = nearest(str(base), [str(level) for level in levels])
        hint = f"the nearest is {close!r}" if close else f"it takes {', '.join(map(show, levels))}"
        raise FormulaError(
            f"formula: {label!r} has the base level {show(base)}, which is not one of its levels; "
            f"{hint}."
        )


def _is_constant(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=str() | bool() | int() | float()):
            return True
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float())):
            return True
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return all(map(_is_constant, items))
    return False


_CENTRING = "its mean and standard deviation"
_KNOTS = "its knots"
_LEARNED = {
    "scale": _CENTRING,
    "scaled": _CENTRING,
    "standardize": _CENTRING,
    "center": "its mean",
    "poly": "its orthogonal basis",
    "bs": _KNOTS,
    "ns": _KNOTS,
    "cs": _KNOTS,
    "cr": _KNOTS,
    "cc": _KNOTS,
    "s": _KNOTS,
    "te": _KNOTS,
    "qcut": "its breaks",
    "relevel": "its levels",
}
_SUMMARIES = frozenset(
    {"mean", "median", "sd", "std", "var", "mad", "min", "max", "range", "sum", "prod", "mode"}
    | {"quantile", "iqr", "IQR", "fivenum", "rank", "order", "ave", "cumsum", "cummax", "cummin"}
    | {"diff", "lag", "shift", "count", "nunique", "any", "all", "length", "len"}
)


def refuse_call(function: str, term: str, variable: str) -> PrivateLRError:
    """The error for a term that calls `function`, with the remedy in terms of `variable`."""
    short = function.rsplit(".", 1)[-1]
    declare = f'declare bounds={{"{variable}": (lo, hi)}}'
    if function == "offset":
        return FormulaError(
            f"term '{term}' is an offset, which the proofs of the mechanisms do not cover; "
            f"leave it out, or enter {variable} as a covariate."
        )
    if function == "relevel":
        return SchemaError(
            f"term '{term}' reorders levels; declare the order, reference level first, as "
            f'levels={{"{variable}": [...]}}, or name it, as in C({variable}, Treatment("level")).'
        )
    if short in ("scale", "center", "standardize", "scaled"):
        return SchemaError(
            f"term '{term}' learns {_LEARNED[short]} from the data; {declare} and use "
            f"{variable}, or write I(({variable} - 130)/20) with public constants."
        )
    if short == "poly":
        return SchemaError(
            f"term '{term}' learns {_LEARNED[short]} from the data; {declare} and write "
            f"{variable} + I({variable}^2)."
        )
    if short == "cut":
        return SchemaError(
            f"term '{term}': cut is not known here, with public breaks either; {declare} and use "
            f"cut points, such as I({variable} > 3.2), or cut before the call and declare levels."
        )
    if short in _LEARNED:
        return SchemaError(
            f"term '{term}' learns {_LEARNED[short]} from the data; {declare} and use public "
            f"cut points, such as I({variable} > 3.2) or pmax({variable} - 3.2, 0)."
        )
    if short in _SUMMARIES:
        return SchemaError(
            f"term '{term}' calls {function}, which looks at all rows; write a public constant "
            f"in its place, such as I({variable} > 3.2), and {declare}."
        )
    return SchemaError(
        f"term '{term}' calls {function}, which is not known to work row by row; compute the "
        "column from public constants before the call, and declare its bounds or levels."
    )


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
