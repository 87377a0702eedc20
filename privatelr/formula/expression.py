"""Expressions inside a formula are parsed, checked to work row by row, and interpreted.

An expression is a tree of names, constants, operators and calls. Three functions interpret it:
`evaluate` gives values, `interval` the range for variables within their declared bounds, and
`linear` the weights of names in a sum. The first two use the same tables of functions. So every
expression that can be evaluated can be bounded, and neither function can look beyond one row.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import numpy as np

from privatelr.errors import FormulaError
from privatelr.formula import functions
from privatelr.formula.functions import EVERYTHING, Contrast, Interval
from privatelr.formula.parser import Node, Token, parse, spell
from privatelr.types import FloatArray

_LONGEST = 500
_CODING = ("C", "factor", "as.factor")
_PARTITIONS = ("bs", "ns", "cr", "cut")
_TRUTHS = {"!", *functions.LOGIC, *functions.COMPARISONS, *functions.MEMBERSHIPS}
_BASES = {"base", "reference"}
"""Words of R and patsy for the level that the other levels are compared with."""


@dataclass(frozen=True)
class Expression:
    """A checked expression.

    Attributes
    ----------
    label : str
        R spelling.
    tree : Node
        The expression without an outer ``I(...)``, which changes nothing, and without
        ``factor(...)`` or the like.
    names : tuple of str
        Columns that it reads.
    title : str
        Name of a column of the design: for a bare column its name in the frame, else `label`.
    coding : Node or None
        The call of ``C``, ``factor`` or ``as.factor``, if the expression is one.
    partition : Node or None
        The call of ``bs`` or the like, which divides the number that `tree` gives among levels.
    """

    label: str
    tree: Node = field(compare=False)
    names: tuple[str, ...]
    title: str
    coding: Node | None = field(default=None, compare=False)
    partition: Node | None = field(default=None, compare=False)

    @functools.cached_property
    def column(self) -> str | None:
        """The column that is read or coded, such as ``x`` in ``x``, ``I(x)`` and ``factor(x)``."""
        return self.tree.name if self.tree.kind == "column" else None

    @functools.cached_property
    def is_coded(self) -> bool:
        """Whether it is a call of ``C``, ``factor`` or ``as.factor``."""
        return self.coding is not None

    def bare(self) -> str | None:
        """The column's name if the expression is nothing but a column."""
        return None if self.is_coded or self.partition else self.column

    @functools.cached_property
    def levels(self) -> tuple[Any, ...]:
        """Levels written into the formula, as in ``factor(x, levels = c('a', 'b'))``."""
        return _levels(self.coding, self.label) if self.coding else ()

    @functools.cached_property
    def contrast(self) -> Contrast | None:
        """The contrast written into the formula, as in ``C(x, contr.sum)``."""
        return _contrast(self.coding, self.label) if self.coding else None

    @functools.cached_property
    def is_logical(self) -> bool:
        """Whether the value is true or false, by the form of the expression."""
        return is_truth(self.tree)


def is_truth(node: Node) -> bool:
    """Whether the value is true or false, by the operator."""
    return node.kind in ("infix", "prefix") and node.name in _TRUTHS


def parse_expression(tokens: Sequence[Token], term: str | None = None) -> Expression:
    """Read tokens as one expression and refuse whatever does not work row by row."""
    label = spell(tokens)
    if len(tokens) > _LONGEST:
        raise FormulaError(
            f"formula: an expression takes at most {_LONGEST} words, not {len(tokens)}."
        )
    try:
        whole = parse(tokens) if tokens else Node("list")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        empty = any(a.is_operator("(", ",") and b.text == "," for a, b in pairwise(tokens))
        why = "; an argument is empty: leave it out and name those that follow" * empty
        raise FormulaError(f"formula: cannot read the expression {label[:60]!r}{why}.") from None
    node = whole
    while node.name == "I" and node.kind == "call" and len(node.args) == 1:
        node = node.args[0]
    divides = node.kind == "call" and node.name in _PARTITIONS and bool(node.args)
    read = node.args[0] if divides else whole
    names = tuple(dict.fromkeys(_columns(read)))
    _check(read if divides else node, label, term or label, next(iter(names), "x"))
    if divides:
        _require_no_order(node, label)
        return Expression(label, read, names, label, None, node)
    title = whole.name if whole.kind == "column" else label
    if node.kind != "call" or node.name not in _CODING:
        return Expression(label, node, names, title)
    return Expression(label, node.args[0], names, title, node)


def _columns(node: Node) -> Iterator[str]:
    """Yield the names of columns in order of appearance, without contrasts and levels."""
    if node.kind == "column":
        yield node.name
    coding = node.kind == "call" and node.name in _CODING
    for place, child in enumerate((*node.args, *node.keywords.values())):
        if not (coding and place):
            yield from _columns(child)


def _items(node: Node) -> tuple[Node, ...] | None:
    """Return the items of ``c(...)``, ``[...]`` or ``(..., ...)``; None for anything else."""
    is_list = node.kind == "list" or (node.kind == "call" and node.name == "c")
    return node.args if is_list else None


def constant(node: Node) -> Any:
    """Return the value of a constant; raises ValueError for anything else."""
    if node.kind == "constant":
        return node.value
    inner = node.args[0] if node.kind == "prefix" else node
    if node.name not in ("+", "-") or type(inner.value) not in (int, float):
        raise ValueError
    return -inner.value if node.name == "-" else inner.value


def constants(node: Node, term: str) -> list[Any]:
    """Return the constants of ``c('a', 'b')`` or ``['a', 'b']``, or of a single constant."""
    items = _items(node)
    if items is not None and not items:
        raise FormulaError(f"formula: {term!r} needs a constant at least, as in c('a', 'b').")
    try:
        return [constant(item) for item in ([node] if items is None else items)]
    except ValueError:
        raise FormulaError(f"formula: {term!r} needs constants, as in c('a', 'b').") from None


def number_list(node: Node, term: str) -> list[float]:
    """Return the numbers of ``c(1, Inf)``, ``[1, 2]`` or ``seq(1, 9, 2)``, or a single number."""
    if node.kind == "call" and node.name == "seq":
        return _sequence(node, term)
    items = _items(node)
    found = []
    for item in [node] if items is None else items:
        sign = -1.0 if item.kind == "prefix" and item.name == "-" else 1.0
        bare = item.args[0] if item.kind == "prefix" else item
        is_infinite = bare.kind == "column" and bare.name == "Inf"
        value: Any = math.inf if is_infinite else bare.value
        if type(value) not in (int, float):
            raise FormulaError(f"formula: {term!r} takes public numbers, as in c(1, 2.5).")
        found.append(sign * float(value))
    return found


_STEPS = {"from": 0, "to": 1, "by": 2, "length.out": 3, "length": 3, "len": 3}
"""Arguments of R's ``seq`` by their places."""
_LONGEST = 1000
"""Most numbers of a sequence."""
_FUZZ = 1e-10
"""As in R, a sequence ends at `to` if its steps miss it by less than this share of one; here it
ends at `to` itself."""


def _sequence(call: Node, term: str) -> list[float]:
    """Return the numbers of ``seq(from, to, by)`` or ``seq(from, to, length.out = n)``."""
    given = dict(enumerate(call.args))
    given |= {_STEPS[name]: node for name, node in call.keywords.items() if name in _STEPS}
    wrong = FormulaError(
        f"formula: {term!r}: seq takes two public numbers, and a step towards the second or "
        f"length.out, as in seq(20, 60, 10), for up to {_LONGEST} numbers."
    )
    known = len(given) == len(call.args) + len(call.keywords) and max(given, default=9) < 4
    if not known or not {0, 1} <= given.keys() or {2, 3} <= given.keys():
        raise wrong
    numbers = {place: number_list(node, term) for place, node in given.items()}
    if any(len(each) != 1 or not math.isfinite(each[0]) for each in numbers.values()):
        raise wrong
    start, stop = numbers[0][0], numbers[1][0]
    if 3 in numbers:
        count = numbers[3][0]
        if count != int(count) or not 2 <= count <= _LONGEST:
            raise wrong
        step = (stop - start) / (count - 1)
        return [*(start + step * k for k in range(int(count) - 1)), stop]
    step = numbers[2][0] if 2 in numbers else math.copysign(1.0, stop - start)
    steps = (stop - start) / step if step else -1.0
    if not 0 <= steps < _LONGEST:
        raise wrong
    found = [start + step * k for k in range(int(steps + _FUZZ) + 1)]
    # rounding puts no end beside `stop`, where a bound or a boundary would be missed
    return [stop if abs(each - stop) <= _FUZZ * abs(step) else each for each in found]


def _require_no_order(call: Node, label: str) -> None:
    """Refuse ``factor(x, ordered = TRUE)`` and ``cut(x, ..., ordered_result = TRUE)``."""
    asked = [call.keywords[name] for name in _ORDERED if name in call.keywords]
    if any(one.value is True or one.name == "T" for one in asked):
        variable = call.args[0].name if call.args and call.args[0].kind == "column" else "x"
        raise FormulaError(
            f"term {label!r} puts levels in an order, which no model here uses; divide them in "
            f"two, as in \"{variable} %in% c('high', 'highest') ~ ...\" for dplr."
        )


_ORDERED = ("ordered", "ordered_result")


def _levels(call: Node, label: str) -> tuple[Any, ...]:
    _require_no_order(call, label)
    if call.keywords.keys() - {"levels"} or len(call.args) > 2:
        raise FormulaError(f"formula: {label!r} takes levels = c(...) and no other keyword.")
    listed = [node for node in call.args[1:] if _items(node) is not None]
    listed += call.keywords.values()
    return tuple(constants(listed[0], label)) if listed else ()


def _contrast(call: Node, label: str) -> Contrast | None:
    nodes = [node for node in call.args[1:] if _items(node) is None]
    if not nodes:
        return None
    node, name = nodes[0], functions.OF_PATSY.get(nodes[0].name, nodes[0].name)
    try:
        if name not in functions.CONTRASTS or node.kind not in ("call", "column"):
            raise ValueError
        given = [_constant_or_list(argument) for argument in node.args]
        named = {key: _constant_or_list(argument) for key, argument in node.keywords.items()}
    except ValueError:
        raise FormulaError(
            f"formula: {label!r} takes a contrast such as contr.sum, contr.treatment('b') or "
            "Treatment('b') after the column, with constants only."
        ) from None
    if name == functions.TREATMENT:
        given += [named.pop(key) for key in [*named] if key in _BASES]
    words = [*map(repr, given), *(f"{key}={value!r}" for key, value in named.items())]
    text = f"{name}({', '.join(words)})" if node.kind == "call" else name
    return name, given, named, text


def _constant_or_list(node: Node) -> Any:
    items = _items(node)
    return constant(node) if items is None else [constant(item) for item in items]


def _check(node: Node, label: str, term: str, variable: str) -> None:
    """Refuse every node that cannot be evaluated and bounded."""
    children = node.args
    match node:
        case Node("column"):
            return
        case Node("constant", value=value):
            try:
                finite = isinstance(value, int | float) and math.isfinite(value)
            except OverflowError:
                finite = False
            if not finite:
                raise FormulaError(
                    f"formula: {term!r} computes with {str(value)[:20]!r}, which is not a finite "
                    "number; a text goes into a comparison, as in x == 'a'."
                )
        case Node("infix", name) if name in functions.MEMBERSHIPS:
            constants(children[1], term)
            children = children[:1]
        case Node("infix", "==" | "!="):
            children = tuple(c for c in children if not isinstance(c.value, str))
        case Node("call", name) if name in _CODING and children:
            children = children[:1]
        case Node("call", name) if row_function(node) is None and (name, len(children)) != ("I", 1):
            if name in functions.ROW_FUNCTIONS:
                given = len(children) + len(node.keywords)
                raise FormulaError(
                    f"formula: {term!r} calls {name} with {given} arguments; here it takes "
                    f"{functions.ROW_FUNCTIONS[name].arity}, without keywords."
                )
            raise functions.refuse_call(name or label, term, variable)
        case Node("list"):
            raise FormulaError(
                f"formula: {term!r} holds something other than columns, constants, arithmetic, "
                "comparisons and row-wise functions."
            )
    for child in children:
        _check(child, label, term, variable)


def row_function(node: Node) -> functions.RowFunction | None:
    """Return the function behind an operator or a call, if it has the right arguments."""
    if node.kind != "call":
        return (functions.PREFIX if node.kind == "prefix" else functions.INFIX)[node.name]
    function = functions.ROW_FUNCTIONS.get(node.name)
    fits = function is not None and len(node.args) == function.arity and not node.keywords
    return function if fits else None


def evaluate(expression: Expression, columns: Mapping[str, Any]) -> FloatArray:
    """Return the value in every row, shape ``(n,)``; undefined operations give NaN or infinity.

    Floating-point warnings are silenced, because a warning that depends on a row reveals it.
    """
    with np.errstate(all="ignore"):
        return cast("FloatArray", np.asarray(_value(expression.tree, columns)))


def _value(node: Node, columns: Mapping[str, Any]) -> Any:
    match node:
        case Node("constant", value=value):
            # floats, because integers wrap around and booleans have their own arithmetic
            return float(value) if isinstance(value, int | float) else value
        case Node("column", name):
            return np.asarray(columns[name])
        case Node("infix", name, (left, right)) if name in functions.MEMBERSHIPS:
            return functions.INFIX[name].value(_compared(left, columns), constants(right, ""))
        case Node("infix", name, (left, right)) if name in functions.COMPARISONS:
            sides = _compared(left, columns), _compared(right, columns)
            return functions.INFIX[name].value(*sides)
    function = row_function(node)
    if function is None:  # I(...)
        return _value(node.args[0], columns)
    values = (np.asarray(_value(child, columns), dtype=np.float64) for child in node.args)
    return function.value(*values)


def _compared(node: Node, columns: Mapping[str, Any]) -> Any:
    """Return one side of a comparison: a constant as it is written, a column in its own type."""
    if node.kind == "constant":
        return node.value
    if node.kind == "column":
        return getattr(columns[node.name], "own", np.asarray(columns[node.name]))
    return _value(node, columns)


def interval(expression: Expression, bounds: Mapping[str, Interval]) -> Interval:
    """Return a range that contains the expression over the box of declared `bounds`.

    Interval arithmetic treats the occurrences of a variable as independent, so ``x - x`` gets
    a range of positive width; the error is on the safe side. Ends that are NaN mean that the
    expression is not defined anywhere on the box.
    """
    with np.errstate(all="ignore"):
        low, high = _range(expression.tree, bounds)
    return EVERYTHING if math.isnan(low) or math.isnan(high) else (float(low), float(high))


def _range(node: Node, bounds: Mapping[str, Interval]) -> Interval:
    match node:
        case Node("constant", value=value):
            number = isinstance(value, int | float)
            return (float(value), float(value)) if number else EVERYTHING
        case Node("column", name):
            return bounds.get(name, EVERYTHING)
        case Node("infix", name) if name not in functions.ARITHMETIC:
            return (0.0, 1.0)
    function = row_function(node)
    if function is None:  # I(...)
        return _range(node.args[0], bounds)
    return function.interval(*(_range(child, bounds) for child in node.args))


def answers_within(expression: Expression, bounds: Mapping[str, Interval]) -> set[int]:
    """Return the answers of a comparison within declared `bounds`: 0, 1, or both.

    A type with few digits may round an end of the bounds to either side, so both answers are
    possible where the sides of the comparison touch.
    """
    tree = expression.tree
    if tree.kind != "infix" or tree.name not in functions.COMPARISONS:
        return {0, 1}
    with np.errstate(all="ignore"):
        left, right = (_range(side, bounds) for side in tree.args)
    signs = {(a > b) - (a < b) for a in left for b in right}
    if len(signs) > 1:
        return {0, 1}
    return {int(functions.COMPARISONS[tree.name].value(sign, 0)) for sign in signs}


def linear(node: Node, names: Mapping[str, int]) -> FloatArray:
    """Return weights of names by position, and the constant last; TypeError if not linear."""
    size = len(names)
    match node:
        case Node("constant", value=int() | float() as number):
            return np.append(np.zeros(size), float(number))
        case Node("column", name):
            weights = np.zeros(size + 1)
            weights[names[name]] = 1.0
            return weights
        case Node("prefix", "-" | "+" as sign, (inner,)):
            return (-1.0 if sign == "-" else 1.0) * linear(inner, names)
        case Node("infix", name, (first, second)):
            left, right = linear(first, names), linear(second, names)
            match name:
                case "+" | "-":
                    return left + right if name == "+" else left - right
                case "*" if not left[:-1].any():
                    return np.asarray(left[-1] * right)
                case "*" if not right[:-1].any():
                    return np.asarray(left * right[-1])
                case "/" if not right[:-1].any() and right[-1] != 0:
                    return np.asarray(left / right[-1])
    raise TypeError(node)
