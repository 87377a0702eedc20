"""Numbers that are divided among levels by public knots: `cut`, and splines.

A value has shares of at least 0 that add up to 1: all of one interval of `cut`, and a part of each
of a few neighbouring B-splines. So either is a factor whose levels are mixed: the entries of a row
are a mean of those of its levels, and no bound of a factor is exceeded (one block of bound 1).

The columns of `ns` and `cr` are sums of B-splines, ``C' b(x)`` with a matrix C of public numbers.
The shares b(x) are at least 0 and add up to 1. So a row lies in the convex hull of the rows of C,
and no norm of it is larger than that of one of them. So C takes the place of a factor's coding.
B-splines whose knots end at the declared bounds do the same beyond a boundary that lies within
them: there R continues the first and the last polynomial, and `ns` and `cr` straight lines.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy

from privatelr.errors import FormulaError, SchemaError, show
from privatelr.formula import Expression, Interval, Node, number_list
from privatelr.types import BoolArray, FloatArray, IntArray

Shares = tuple[IntArray, FloatArray]
"""The first of neighbouring levels ``(n,)``, and the shares ``(n, k)`` of it and of those after."""
_MOST_DIGITS = 12
_MOST_SUGGESTED = 13
_HIGHEST = 10
"""Highest degree of a spline."""
_LARGEST = 10.0
"""Largest sum of the sizes of a row of splines; inside of their boundary it is 3 at most for usual
knots, and the noise grows with it."""
_DIGITS = 12
"""Digits after the point to which sums of B-splines are rounded: all machines have the same."""
_ENDS = {"Boundary.knots", "lower_bound", "upper_bound"}
_KEYWORDS = {
    "bs": {"knots", "degree", *_ENDS},
    "ns": {"knots", *_ENDS},
    "cr": {"knots", *_ENDS},
    "cut": {"breaks", "labels", "right", "include.lowest"},
}
_FUNCTIONS = {"bs": 3, "ns": 1, "cr": 2}
"""How many more columns than inner knots there are, by which ``df`` counts."""
_PLACES = {
    "bs": ("df", "knots", "degree", "intercept", "Boundary.knots"),
    "ns": ("df", "knots", "intercept", "Boundary.knots"),
    "cr": ("df", "knots", "lower_bound", "upper_bound"),
    "cut": ("breaks", "labels", "include.lowest", "right"),
}
"""Arguments after the number, in the order of R, and of formulaic for `cr`, which R has not."""
_NOTHING = {"NULL", "None"}
_USUAL = {"intercept": False, "include_intercept": False}
"""Keywords that are taken if they ask for what is done anyway."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Knots in rising order, the ends included, and what lies between them.

    Attributes
    ----------
    knots : tuple of float
        Those of splines end where values do.
    degree : int or None
        Degree of B-splines; None for intervals.
    levels : tuple of str
        Names of the intervals, or numbers of the splines from 0.
    right : bool
        Whether intervals hold their right ends, and not their left ones.
    closed : bool
        Whether the first or the last interval holds both of its ends.
    own : tuple of float
        Knots of a spline, its boundary included; empty if columns are B-splines of `knots`.
    natural : str or None
        ``ns`` or ``cr`` for splines that are straight lines from their boundary on.
    """

    knots: tuple[float, ...]
    degree: int | None
    levels: tuple[str, ...]
    right: bool = True
    closed: bool = False
    own: tuple[float, ...] = ()
    natural: str | None = None

    @property
    def width(self) -> int:
        """The number of columns of a term, the one that an intercept replaces included."""
        return len(self.own) if self.natural else len(self.levels)

    def coding(self, *, contrasted: bool) -> FloatArray | None:
        """Return C, with a row for each level; None if columns are the shares of levels.

        Columns that are contrasted do not add up to a constant for all values.
        """
        if not self.own or self.degree is None:
            return None
        knots, degree = np.array(self.knots), self.degree
        whole = _with_ends(knots, degree)
        # as many places as there are B-splines, one where each of them is large
        places = np.array([whole[j + 1 : j + 1 + degree].mean() for j in range(len(self.levels))])
        first, shares = b_splines(places, knots, degree)
        table = np.zeros((len(places), len(places)))
        for step in range(degree + 1):
            table[np.arange(len(places)), first + step] = shares[:, step]
        columns = _columns_at(places, self, contrasted=contrasted)
        return np.round(np.linalg.solve(table, columns), _DIGITS) + 0.0

    def shares(self, values: FloatArray) -> tuple[IntArray | Shares, BoolArray]:
        """Return the levels of finite values ``(n,)``, with shares for splines, and which have any.

        Values of splines beyond the ends count as the ends.
        """
        knots = np.array(self.knots)
        if self.degree is not None:
            values = np.clip(values, knots[0], knots[-1])
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
    whole = _with_ends(knots, degree)
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


def _with_ends(knots: FloatArray, degree: int) -> FloatArray:
    return np.concatenate([np.repeat(knots[0], degree), knots, np.repeat(knots[-1], degree)])


def _columns_at(values: FloatArray, splines: Partition, *, contrasted: bool) -> FloatArray:
    """Return the columns of a spline by its own knots at values ``(n,)``, also beyond them."""
    own, degree = np.array(splines.own), splines.degree
    assert degree is not None
    count = len(own) + degree - 1
    basis = scipy.interpolate.BSpline(_with_ends(own, degree), np.eye(count), degree)
    left = int(contrasted)
    if splines.natural is None:  # continued as R does
        return np.asarray(basis(values)[:, left:])
    inside = np.clip(values, own[0], own[-1])
    straight = basis(inside) + (values - inside)[:, None] * basis(inside, 1)
    bends = basis(own[[0, -1]], 2)
    if splines.natural == "ns":
        # as `ns` of R has it: what is orthogonal to both second derivatives, by Householder's Q
        turn = np.linalg.qr(bends[:, left:].T, mode="complete")[0][:, 2:]
        return np.asarray(straight[:, left:] @ turn)
    # as `cr` of formulaic: each column is 1 at one knot and 0 at the others
    turn = np.linalg.qr(bends.T, mode="complete")[0][:, 2:]
    return np.asarray(straight @ turn @ np.linalg.inv(basis(own) @ turn))[:, left:]


def plan_partition(expression: Expression, ends: Interval) -> Partition:
    """Read the call of a partition whose value lies between these ends, by declared bounds.

    Raises
    ------
    FormulaError, SchemaError
        One sentence, if knots are missing or do not fit the bounds.
    """
    call, label = expression.partition, expression.label
    assert call is not None
    given, rest = _arguments_by_name(call)
    for name, usual in _USUAL.items():
        if name in given and given[name].value == usual:
            del given[name]
    known = _KEYWORDS[call.name]
    clips = call.name != "cut" and _clips(given.pop("extrapolation", None), label)
    if rest or not given.keys() <= known:
        unknown = [name for name in given if name not in known]
        strange = min(unknown, key=lambda name: name not in _USUAL, default="further argument")
        if strange in _USUAL and call.name in _FUNCTIONS:
            shown = "" if "knots" not in given else ", knots = ..."
            raise FormulaError(
                f"term '{label}': {strange} = TRUE adds the column that the intercept of a model "
                f"has; write 0 + {call.name}({call.args[0].name or 'x'}{shown}) for all columns of "
                "the spline, or leave it out."
            )
        if strange == "df":
            remedy = _remedy(call.name, given, ends)
            raise SchemaError(f"term '{label}': df would place knots by the data; {remedy}.")
        raise FormulaError(
            f"term '{label}': {call.name} takes {', '.join(sorted(known))} here, and no {strange}."
        )
    if call.name == "cut":
        return _plan_cut(label, given, ends)
    found = _plan_splines(call.name, label, given, ends, clips=clips)
    matrix = found.coding(contrasted=False)
    largest = 0.0 if matrix is None else float(abs(matrix).sum(axis=1).max())
    if not largest <= _LARGEST:
        other = ", or take ns(), which goes on in straight lines" if call.name == "bs" else ""
        raise SchemaError(
            f"term '{label}' would have rows of up to {largest:.3g}, and as much noise; declare "
            f"bounds= nearer to its boundary ({found.own[0]:g}, {found.own[-1]:g}){other}."
        )
    return found


def _arguments_by_name(call: Node) -> tuple[dict[str, Node], bool]:
    """Return the arguments after the number by their names, and whether there are more of them.

    As in R, arguments without a name take the places that those with a name leave.
    """
    free = [name for name in _PLACES[call.name] if name not in call.keywords]
    given = {**dict(zip(free, call.args[1:], strict=False)), **call.keywords}
    kept = {name: node for name, node in given.items() if node.name not in _NOTHING}
    return kept, len(call.args) > 1 + len(free)


def _clips(node: Node | None, label: str) -> bool:
    """Read formulaic's ``extrapolation``: whether values beyond the boundary count as its ends."""
    value = "extend" if node is None else node.value
    if value not in ("extend", "clip"):
        raise FormulaError(
            f"term '{label}': extrapolation takes 'extend' or 'clip', not {show(value)}."
        )
    return bool(value == "clip")


def _remedy(name: str, given: dict[str, Node], ends: Interval) -> str:
    """Return public knots at equal distances that give as many columns as were asked for."""
    if "knots" in given:
        return "leave df out, or write NULL in its place"
    asked, (low, high) = given["df"].value, ends
    most = _MOST_SUGGESTED - 3 + _FUNCTIONS.get(name, 0)
    count = asked - _FUNCTIONS.get(name, 0) if type(asked) is int and asked <= most else 2
    count = count if count >= 1 else 2
    if not all(map(math.isfinite, ends)):
        return "declare bounds= and write public ones, as in knots = c(30, 60)"
    step = (high - low) / (count + 1)
    inner = ", ".join(f"{low + step * (j + 1):.4g}" for j in range(count))
    return f"write public ones, as in knots = c({inner})"


def _plan_splines(
    name: str, label: str, given: dict[str, Node], ends: Interval, *, clips: bool
) -> Partition:
    if not all(map(math.isfinite, ends)):
        raise SchemaError(f"term '{label}' takes declared bounds, between which its knots lie.")
    outer = list(ends)
    if "Boundary.knots" in given:
        outer = number_list(given["Boundary.knots"], label)
    for place, end in enumerate(("lower_bound", "upper_bound")):
        if end in given:
            outer[place : place + 1] = number_list(given[end], label)
    if len(outer) != 2:
        raise FormulaError(f"term '{label}': its boundary takes two numbers.")
    inner = number_list(given["knots"], label) if "knots" in given else []
    own = (outer[0], *inner, outer[1])
    degree = number_list(given["degree"], label) if "degree" in given else [3]
    if len(degree) != 1 or degree[0] != int(degree[0]) or not 1 <= degree[0] <= _HIGHEST:
        raise FormulaError(f"term '{label}': degree takes a whole number from 1 to {_HIGHEST}.")
    _require_knots(name, label, own, int(degree[0]))
    low, high = (own[0], own[-1]) if clips else (min(own[0], ends[0]), max(own[-1], ends[1]))
    natural = None if name == "bs" else name
    # a polynomial that is continued has no knot at the boundary; a line that begins there has one
    between = inner if natural is None else [knot for knot in own if low < knot < high]
    count = len(between) + int(degree[0]) + 1
    moved = natural is not None or (low, high) != (own[0], own[-1])
    return Partition(
        (low, *between, high),
        int(degree[0]),
        tuple(map(str, range(count))),
        own=own if moved else (),
        natural=natural,
    )


def _plan_cut(label: str, given: dict[str, Node], ends: Interval) -> Partition:
    breaks = tuple(number_list(given["breaks"], label)) if "breaks" in given else ()
    if len(breaks) < 3:
        raise SchemaError(
            f"term '{label}': cut takes three breaks or more, as in breaks = c(0, 10, 20); a "
            "number of intervals would place them by the data."
        )
    if any(not low < high for low, high in pairwise(breaks)):
        listed = ", ".join(f"{knot:g}" for knot in breaks)
        raise FormulaError(f"term '{label}' takes breaks that rise: {listed}.")
    right, closed = (_truth(given, name, label) for name in ("right", "include.lowest"))
    right = right if "right" in given else True
    levels = _interval_names(breaks, right=right, closed=closed)
    if "labels" in given:
        levels = _labels(given["labels"], label, breaks, ">" if right else ">=")
    return Partition(breaks, None, levels, right, closed)


def _require_knots(name: str, label: str, own: tuple[float, ...], degree: int) -> None:
    """Refuse knots that fall, that are on the boundary or beyond, or that repeat too often.

    A knot that is repeated takes a derivative less from the spline, as in R. B-splines remain at
    least 0 and add up to 1: no step of their recursion has an empty interval around a value.
    """
    low, *inner, high = own
    listed = ", ".join(f"{knot:g}" for knot in inner)
    if not low < high:
        raise FormulaError(f"term '{label}': its boundary takes two numbers that rise.")
    if not all(low < knot < high for knot in inner):
        raise FormulaError(
            f"term '{label}' takes knots inside of its boundary ({low:g}, {high:g}), and not on "
            f"it: {listed}."
        )
    if any(after < before for before, after in pairwise(inner)):
        raise FormulaError(f"term '{label}' takes knots that rise: {listed}.")
    most = 1 if name == "cr" else degree
    for knot, times in Counter(inner).items():
        if times > most:
            why = "whose columns are values at its knots" if name == "cr" else "or it would jump"
            raise FormulaError(
                f"term '{label}' repeats the knot {knot:g}, {times} times in all; a knot occurs "
                f"{most} times at most, {why}."
            )


def _labels(node: Node, label: str, breaks: tuple[float, ...], above: str) -> tuple[str, ...]:
    """Read names of intervals; ``labels = FALSE`` asks for their numbers, and is refused."""
    if node.value is False or node.name == "F":
        inner = " + ".join(f"(x {above} {knot:g})" for knot in breaks[1:-1])
        raise FormulaError(
            f"term '{label}': labels = FALSE makes one number of the intervals, for one "
            f"coefficient; write I(1 + {inner}) with the column in the place of x, or leave labels "
            "out for a coefficient of each."
        )
    texts = [item.value for item in node.args]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise FormulaError(f"term '{label}': labels takes texts, as in labels = c('low', 'high').")
    if len(texts) != len(breaks) - 1 or len({*texts}) < len(texts):
        raise FormulaError(f"term '{label}': labels takes {len(breaks) - 1} different texts.")
    return tuple(texts)


def _truth(given: dict[str, Node], name: str, label: str) -> bool:
    node = given.get(name)
    value: Any = False if node is None else {"T": True, "F": False}.get(node.name, node.value)
    if not isinstance(value, bool):
        raise FormulaError(f"term '{label}': {name} takes TRUE or FALSE.")
    return value


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
