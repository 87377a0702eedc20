"""Numbers that are divided among levels by public knots: `cut`, and B-splines.

A value has shares of at least 0 that add up to 1: all of one interval of `cut`, and a part of each
of a few neighbouring B-splines. So either is a factor whose levels are mixed: the entries of a row
are a mean of those of its levels, and no bound of a factor is exceeded (one block of bound 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from privatelr.errors import FormulaError, SchemaError
from privatelr.formula import Expression, Interval, Node, number_list
from privatelr.types import BoolArray, FloatArray, IntArray

Shares = tuple[IntArray, FloatArray]
"""The first of neighbouring levels ``(n,)``, and the shares ``(n, k)`` of it and of those after."""
_MOST_DIGITS = 12
_MOST_SUGGESTED = 13
_HIGHEST = 10
"""Highest degree of a spline."""
_KEYWORDS = {
    "bs": {"knots", "degree", "Boundary.knots", "lower_bound", "upper_bound"},
    "cut": {"breaks", "labels", "right", "include.lowest"},
}
_USUAL = {"intercept": False, "include_intercept": False, "extrapolation": "clip"}
"""Keywords that are taken if they ask for what is done anyway."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Knots in rising order, the ends included, and what lies between them.

    Attributes
    ----------
    knots : tuple of float
    degree : int or None
        Degree of B-splines; None for intervals.
    levels : tuple of str
        Names of the intervals, or numbers of the splines from 0.
    right : bool
        Whether intervals hold their right ends, and not their left ones.
    closed : bool
        Whether the first or the last interval holds both of its ends.
    """

    knots: tuple[float, ...]
    degree: int | None
    levels: tuple[str, ...]
    right: bool = True
    closed: bool = False

    def shares(self, values: FloatArray) -> tuple[IntArray | Shares, BoolArray]:
        """Return the levels of finite values ``(n,)``, with shares for splines, and which have any.

        Splines take values within the ends, which those of `clip` to the declared bounds are.
        """
        knots = np.array(self.knots)
        if self.degree is not None:
            return b_splines(values, knots, self.degree), np.ones(len(values), dtype=bool)
        place = np.searchsorted(knots, values, side="left" if self.right else "right") - 1
        if self.closed:
            edge = values == (knots[0] if self.right else knots[-1])
            place = np.where(edge, 0 if self.right else len(knots) - 2, place)
        inside = (place >= 0) & (place < len(self.levels))
        return np.where(inside, place, 0), np.asarray(inside)


def b_splines(values: FloatArray, knots: FloatArray, degree: int) -> Shares:
    """Return B-splines of a degree at values ``(n,)`` within the ends of the knots.

    The recursion of de Boor (1978) and Cox (1972), in which every step takes means: the shares of a
    value are at least 0 and add up to 1, up to rounding.
    """
    inner = knots[1:-1]
    span = np.searchsorted(inner, values, side="right")
    whole = np.concatenate([np.repeat(knots[0], degree), knots, np.repeat(knots[-1], degree)])
    here = span + degree
    found = [np.ones(len(values))]
    for order in range(1, degree + 1):
        carried, raised = np.zeros(len(values)), []
        for place, share in enumerate(found):
            low, high = whole[here + 1 + place - order], whole[here + 1 + place]
            part = share / (high - low)
            raised.append(carried + np.maximum(high - values, 0.0) * part)
            carried = np.maximum(values - low, 0.0) * part
        found = [*raised, carried]
    return span, np.column_stack(found)


def plan_partition(expression: Expression, ends: Interval) -> Partition:
    """Read the call of a partition whose value lies between these ends, by declared bounds.

    Raises
    ------
    FormulaError, SchemaError
        One sentence, if knots are missing or do not fit the bounds.
    """
    call, label = expression.partition, expression.label
    assert call is not None
    given = dict(zip(("breaks",) if call.name == "cut" else (), call.args[1:], strict=False))
    given |= call.keywords
    for name, usual in _USUAL.items():
        if name in given and given[name].value == usual:
            del given[name]
    known = _KEYWORDS[call.name]
    if len(call.args) > 1 + (call.name == "cut") or not given.keys() <= known:
        strange = next((name for name in given if name not in known), "further argument")
        if strange == "df":
            remedy = _remedy(given, ends)
            raise SchemaError(f"term '{label}' would place knots by the data; {remedy}.")
        raise FormulaError(
            f"term '{label}': {call.name} takes {', '.join(sorted(known))} here, and no {strange}."
        )
    return (_plan_cut if call.name == "cut" else _plan_splines)(label, given, ends)


def _remedy(given: dict[str, Node], ends: Interval) -> str:
    """Return public knots at equal distances that give as many columns as were asked for."""
    asked, (low, high) = given["df"].value, ends
    count = asked - 3 if type(asked) is int and 4 <= asked <= _MOST_SUGGESTED else 2
    if not all(map(math.isfinite, ends)):
        return "declare bounds= and write public ones, as in knots = c(30, 60)"
    step = (high - low) / (count + 1)
    inner = ", ".join(f"{low + step * (j + 1):.4g}" for j in range(count))
    return f"write public ones, as in knots = c({inner})"


def _plan_splines(label: str, given: dict[str, Node], ends: Interval) -> Partition:
    if not all(map(math.isfinite, ends)):
        raise SchemaError(f"term '{label}' takes declared bounds, between which its knots lie.")
    outer = list(ends)
    if "Boundary.knots" in given:
        outer = number_list(given["Boundary.knots"], label)
    for place, name in enumerate(("lower_bound", "upper_bound")):
        if name in given:
            (outer[place],) = number_list(given[name], label)
    if len(outer) != 2 or outer[0] > ends[0] or outer[1] < ends[1]:
        raise FormulaError(
            f"term '{label}': its boundary takes two numbers that hold the declared bounds "
            f"({ends[0]:g}, {ends[1]:g}); beyond it splines grow without a limit."
        )
    inner = number_list(given["knots"], label) if "knots" in given else []
    knots = (outer[0], *inner, outer[1])
    degree = number_list(given["degree"], label) if "degree" in given else [3]
    if len(degree) != 1 or degree[0] != int(degree[0]) or not 1 <= degree[0] <= _HIGHEST:
        raise FormulaError(f"term '{label}': degree takes a whole number from 1 to {_HIGHEST}.")
    _require_rising(label, knots)
    count = len(inner) + int(degree[0]) + 1
    return Partition(knots, int(degree[0]), tuple(map(str, range(count))))


def _plan_cut(label: str, given: dict[str, Node], ends: Interval) -> Partition:
    breaks = tuple(number_list(given["breaks"], label)) if "breaks" in given else ()
    if len(breaks) < 3:
        raise SchemaError(
            f"term '{label}': cut takes three breaks or more, as in breaks = c(0, 10, 20); a "
            "number of intervals would place them by the data."
        )
    _require_rising(label, breaks)
    right, closed = (_truth(given, name, label) for name in ("right", "include.lowest"))
    right = right if "right" in given else True
    levels = _interval_names(breaks, right=right, closed=closed)
    if "labels" in given:
        levels = tuple(map(str, _texts(given["labels"], label)))
        if len(levels) != len(breaks) - 1 or len({*levels}) < len(levels):
            raise FormulaError(f"term '{label}': labels takes {len(breaks) - 1} different texts.")
    return Partition(breaks, None, levels, right, closed)


def _require_rising(label: str, knots: tuple[float, ...]) -> None:
    if any(not low < high for low, high in pairwise(knots)):
        listed = ", ".join(f"{knot:g}" for knot in knots)
        raise FormulaError(f"term '{label}' takes knots that rise, within its boundary: {listed}.")


def _truth(given: dict[str, Node], name: str, label: str) -> bool:
    node = given.get(name)
    value: Any = False if node is None else {"T": True, "F": False}.get(node.name, node.value)
    if not isinstance(value, bool):
        raise FormulaError(f"term '{label}': {name} takes TRUE or FALSE.")
    return value


def _texts(node: Node, label: str) -> list[Any]:
    found = [item.value for item in node.args]
    if not found or not all(isinstance(text, str) for text in found):
        raise FormulaError(f"term '{label}': labels takes texts, as in labels = c('low', 'high').")
    return found


def _interval_names(breaks: tuple[float, ...], *, right: bool, closed: bool) -> tuple[str, ...]:
    """Return the names that R gives intervals: as many digits as tell the breaks apart."""
    for digits in range(3, _MOST_DIGITS + 1):
        shown = [f"{knot:.{digits}g}".replace("inf", "Inf") for knot in breaks]
        if len({*shown}) == len(breaks):
            break
    first, last = ("(", "]") if right else ("[", ")")
    names = [f"{first}{a},{b}{last}" for a, b in pairwise(shown)]
    if closed and right:
        names[0] = f"[{names[0][1:]}"
    elif closed:
        names[-1] = f"{names[-1][:-1]}]"
    return tuple(names)
