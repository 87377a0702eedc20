"""Calls that look at more than one row, and what to write instead.

The list words the refusal; it is not the defence. The defence is that a term may call only
what `privatelr.frames.functions` holds.
"""

from __future__ import annotations

from privatelr.errors import FormulaError, PrivateLRError, SchemaError

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
    "cut": "its breaks",
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
