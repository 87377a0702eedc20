"""Which operations fit which kinds of columns; decided from public facts."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from privatelr.errors import FormulaError
from privatelr.frames.expressions import Expression, coding_call, literal_values, unwrap

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from privatelr.frames.variables import Variable

_EQUALITY = ast.Eq | ast.NotEq | ast.In


def require_kinds(expression: Expression, variables: Mapping[str, Variable]) -> None:
    """Refuse arithmetic on categories, and comparisons that are always false by their types.

    Columns of categories or strings may stand alone, be coded as a factor, or be compared for
    equality with constants.
    """
    coded = coding_call(expression)
    _visit(expression, coded.args[0] if coded is not None else unwrap(expression), variables, True)


def _visit(
    expression: Expression, node: ast.expr, variables: Mapping[str, Variable], allowed: bool
) -> None:
    variable = _variable(expression, node, variables)
    if variable is not None and _is_textual(variable) and not allowed:
        raise FormulaError(
            f"formula: {expression.label!r} computes with {variable.name!r}, which holds "
            "categories; compare it, as in I(x == 'a'), or use it by itself."
        )
    equality = isinstance(node, ast.Compare) and isinstance(node.ops[0], _EQUALITY)
    if isinstance(node, ast.Compare) and equality:
        _require_comparable(expression, node, variables)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            _visit(expression, child, variables, equality)


def _require_comparable(
    expression: Expression, node: ast.Compare, variables: Mapping[str, Variable]
) -> None:
    """Both sides of an equality must be able to be equal."""
    for variable, value in _compared(expression, node, variables):
        _require_value(expression, variable, value)


def foreign_constants(
    expression: Expression, variables: Mapping[str, Variable]
) -> list[tuple[Variable, object]]:
    """Constants that a column is compared with and that are not among its declared levels."""
    found = []
    for node in ast.walk(unwrap(expression)):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], _EQUALITY):
            found += [
                (variable, value)
                for variable, value in _compared(expression, node, variables)
                if variable is not None
                and variable.kind == "categorical"
                and value not in variable.levels
            ]
    return found


def _compared(
    expression: Expression, node: ast.Compare, variables: Mapping[str, Variable]
) -> Iterator[tuple[Variable | None, object]]:
    """Each constant of an equality with the column on its other side, if that is a column."""
    left, right = node.left, node.comparators[0]
    if isinstance(node.ops[0], ast.In):
        pairs = [(left, right)]
    else:
        pairs = [(a, b) for a, b in ((left, right), (right, left)) if isinstance(b, ast.Constant)]
    for side, constants in pairs:
        for value in literal_values(expression, constants, expression.label):
            yield _variable(expression, side, variables), value


def _require_value(expression: Expression, variable: Variable | None, value: object) -> None:
    textual = variable is not None and _is_textual(variable)
    if isinstance(value, str) and not textual:
        raise FormulaError(
            f"formula: {expression.label!r} compares numbers with the text {value!r}."
        )
    if variable is None or not textual:
        return
    if variable.content == "strings" and not isinstance(value, str):
        raise FormulaError(
            f"formula: {expression.label!r} compares {variable.name!r}, which holds strings, with "
            f"the number {value!r}."
        )


def _variable(
    expression: Expression, node: ast.AST, variables: Mapping[str, Variable]
) -> Variable | None:
    return variables.get(expression.aliases[node.id]) if isinstance(node, ast.Name) else None


def _is_textual(variable: Variable) -> bool:
    return variable.kind in ("text", "categorical")
