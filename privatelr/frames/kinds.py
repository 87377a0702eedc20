"""Which operations fit which kinds of columns; decided from public facts."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from privatelr.errors import FormulaError
from privatelr.frames.expressions import Expression, core, literal_values
from privatelr.frames.variables import TYPED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from privatelr.frames.variables import Variable


def require_kinds(expression: Expression, variables: Mapping[str, Variable]) -> None:
    """Refuse arithmetic on categories, and comparisons that are always false by their types.

    Columns of categories or strings may stand alone, be coded as a factor, or be compared for
    equality with constants.
    """
    _visit(expression, core(expression), variables, True)
    for variable, value in _compared(expression, variables):
        _require_value(expression, variable, value)


def foreign_constants(
    expression: Expression, variables: Mapping[str, Variable]
) -> list[tuple[Variable, object]]:
    """Constants that a column is compared with and that are not among its declared levels."""
    return [
        (variable, value)
        for variable, value in _compared(expression, variables)
        if variable is not None and variable.kind == "categorical" and value not in variable.levels
    ]


def _visit(
    expression: Expression, node: ast.expr, variables: Mapping[str, Variable], allowed: bool
) -> None:
    variable = _variable(expression, node, variables)
    if variable is not None and _is_textual(variable) and not allowed:
        if variable.kind == "text" and variable.content == "anything":
            raise FormulaError(
                f"formula: {expression.label!r} computes with {variable.name!r}, which may hold "
                f'anything; declare bounds={{"{variable.name}": (lo, hi)}}, or {TYPED}.'
            )
        raise FormulaError(
            f"formula: {expression.label!r} computes with {variable.name!r}, which holds "
            "categories; compare it, as in I(x == 'a'), or use it by itself."
        )
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            _visit(expression, child, variables, _is_equality(node))


def _is_equality(node: ast.AST) -> bool:
    return isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq | ast.In)


def _compared(
    expression: Expression, variables: Mapping[str, Variable]
) -> Iterator[tuple[Variable | None, object]]:
    """Each constant of an equality with the column on its other side, if that is a column."""
    for node in ast.walk(core(expression)):
        if not isinstance(node, ast.Compare) or not _is_equality(node):
            continue
        left, right = node.left, node.comparators[0]
        pairs = [(left, right)]
        if not isinstance(node.ops[0], ast.In):
            pairs = [(a, b) for a, b in (*pairs, (right, left)) if isinstance(b, ast.Constant)]
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
