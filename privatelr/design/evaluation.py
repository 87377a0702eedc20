"""Two interpreters of expressions: their value in every row, and their range.

`evaluate` gives values, `interval` the range when the variables keep to their declared
bounds. Both know the same few node types, so an expression that can be evaluated can be
bounded, and neither can look beyond one row.
"""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from privatelr.design.variables import Coded
from privatelr.formula import (
    EVERYTHING,
    Expression,
    Interval,
    literal_values,
    product_range,
    row_function,
    unwrap,
)
from privatelr.types import FloatArray, ObjectArray

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
    ast.Mod: np.mod,
    ast.FloorDiv: np.floor_divide,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
}
Columns = Mapping[str, FloatArray | ObjectArray | Coded]


def evaluate(expression: Expression, columns: Columns) -> FloatArray:
    """Value in every row, shape ``(n,)``; undefined operations give NaN or infinity.

    Floating-point warnings are silenced: one that depended on a row would tell of it.
    """
    with np.errstate(all="ignore"):
        return cast("FloatArray", np.asarray(_value(expression, unwrap(expression), columns)))


def _value(expression: Expression, node: ast.expr, columns: Columns) -> Any:
    def value(child: ast.expr) -> Any:
        return _value(expression, child, columns)

    match node:
        case ast.Constant():
            # as floats, because integers wrap around and booleans have their own arithmetic
            return float(node.value) if isinstance(node.value, int | float) else node.value
        case ast.Name():
            return np.asarray(columns[expression.aliases[node.id]])
        case ast.BinOp(op=op):
            return _ARITHMETIC[type(op)](_number(value(node.left)), _number(value(node.right)))
        case ast.UnaryOp(op=ast.Not()):
            return 1.0 - _truth(value(node.operand))
        case ast.UnaryOp(op=ast.USub()):
            return np.negative(_number(value(node.operand)))
        case ast.UnaryOp():
            return value(node.operand)
        case ast.BoolOp(op=op):
            decisive = 0.0 if isinstance(op, ast.And) else 1.0
            combine = functools.partial(_combined, decisive)
            return functools.reduce(combine, [_truth(value(child)) for child in node.values])
        case ast.Compare(left=left, ops=[ast.In()], comparators=[right]):
            column = value(left)
            options = literal_values(expression, right, expression.label)
            found = functools.reduce(np.logical_or, [column == option for option in options], False)
            return _where_defined(found, column)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            first, second = value(left), value(right)
            return _where_defined(_COMPARISONS[type(op)](first, second), first, second)
        case ast.Call():
            function = row_function(expression, node)
            if function is None:
                return value(node.args[0])
            return function.value(*[_number(value(argument)) for argument in node.args])
    raise AssertionError("checked on parsing")


def _number(value: Any) -> Any:
    return np.asarray(value, dtype=np.float64)


def _truth(value: Any) -> FloatArray:
    """1 for true, 0 for false, NaN for undefined."""
    return _where_defined(np.asarray(value) != 0, value)


def _where_defined(truth: Any, *operands: Any) -> FloatArray:
    """A truth value as a number, NaN where a numeric operand is undefined, as R's NA."""
    result = np.asarray(truth, dtype=np.float64)
    for operand in map(np.asarray, operands):
        if operand.dtype.kind == "f":
            result = np.where(np.isnan(operand), np.nan, result)
    return result


def _combined(decisive: float, first: FloatArray, second: FloatArray) -> FloatArray:
    """Conjunction (decided by a 0) or disjunction (decided by a 1) of truth values."""
    decided = (first == decisive) | (second == decisive)
    undefined = np.isnan(first) | np.isnan(second)
    return np.where(decided, decisive, np.where(undefined, np.nan, 1.0 - decisive))


def interval(expression: Expression, bounds: Mapping[str, Interval]) -> Interval:
    """Range of the expression over the box of declared `bounds`, possibly too wide.

    Interval arithmetic treats the occurrences of a variable as independent, so ``x - x`` is
    given a range; the error is on the safe side. NaN ends mean that the expression is
    defined nowhere on the box.
    """
    with np.errstate(all="ignore"):
        low, high = _range(expression, unwrap(expression), bounds)
    if math.isnan(low) or math.isnan(high):
        return EVERYTHING
    return (float(low), float(high))


def _range(expression: Expression, node: ast.expr, bounds: Mapping[str, Interval]) -> Interval:
    def span(child: ast.expr) -> Interval:
        return _range(expression, child, bounds)

    match node:
        case ast.Constant():
            number = node.value
            if isinstance(number, int | float):
                return (float(number), float(number))
            return EVERYTHING
        case ast.Name():
            return bounds.get(expression.aliases[node.id], EVERYTHING)
        case ast.BinOp(op=op):
            return _arithmetic_range(op, span(node.left), span(node.right))
        case ast.UnaryOp(op=ast.USub()):
            low, high = span(node.operand)
            return (-high, -low)
        case ast.UnaryOp(op=ast.UAdd()):
            return span(node.operand)
        case ast.UnaryOp() | ast.BoolOp() | ast.Compare():
            return (0.0, 1.0)
        case ast.Call():
            function = row_function(expression, node)
            if function is None:
                return span(node.args[0])
            return function.interval(*[span(argument) for argument in node.args])
    raise AssertionError("checked on parsing")


def _arithmetic_range(op: ast.operator, x: Interval, y: Interval) -> Interval:
    match op:
        case ast.Add():
            return (x[0] + y[0], x[1] + y[1])
        case ast.Sub():
            return (x[0] - y[1], x[1] - y[0])
        case ast.Mult():
            return product_range(x, y)
        case ast.Div() if not y[0] <= 0 <= y[1]:
            return _quotient_range(x, y)
        case ast.Pow() if y[0] == y[1]:
            return _power_range(x, y[0])
    return EVERYTHING


def _quotient_range(x: Interval, y: Interval) -> Interval:
    """Range of a quotient by an interval without zero; divided as `evaluate` divides."""
    ends = [0.0 if a == 0 or math.isinf(b) else float(np.divide(a, b)) for a in x for b in y]
    return (min(ends), max(ends))


def _power_range(x: Interval, exponent: float) -> Interval:
    low, high = x if float(exponent).is_integer() else (max(x[0], 0.0), x[1])
    if high < low or (exponent < 0 and low <= 0 <= high):
        return EVERYTHING
    ends = [float(np.power(float(end), float(exponent))) for end in (low, high)]
    if low <= 0 <= high:
        ends.append(0.0 if exponent else 1.0)
    return (min(ends), max(ends))
