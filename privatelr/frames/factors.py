"""Factors of a right-hand side: numeric with a range, or categorical with levels."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privatelr.errors import FormulaError, SchemaError
from privatelr.frames.evaluation import interval
from privatelr.frames.expressions import Expression, coded_levels, coding_call, is_logical
from privatelr.frames.functions import EVERYTHING, Interval
from privatelr.frames.variables import require_content

if TYPE_CHECKING:
    from collections.abc import Mapping

    from privatelr.frames.variables import Variable


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor of the right-hand side.

    A numeric factor has a range, to which its column is clipped; a categorical one has the
    levels of the column `source`, and possibly a named contrast.
    """

    expression: Expression
    interval: Interval = EVERYTHING
    source: str | None = None
    levels: tuple[Any, ...] = ()
    contrast: str | None = None

    @property
    def is_categorical(self) -> bool:
        return self.source is not None


def plan_factor(expression: Expression, variables: Mapping[str, Variable]) -> Factor:
    """Decide whether a factor is numeric or categorical, from public facts."""
    coded = coding_call(expression)
    name = expression.bare() if coded is None else None
    if coded is not None and isinstance(coded.args[0], ast.Name):
        name = expression.aliases[coded.args[0].id]
    variable = variables[name] if name is not None else None
    numeric = coded is None and (variable is None or variable.kind == "numeric")
    if numeric or is_logical(expression):
        bounds = {key: value.bounds for key, value in variables.items()}
        return Factor(expression, interval(expression, bounds))
    levels = coded_levels(expression) or (variable.levels if variable is not None else ())
    if variable is None or not levels:
        raise SchemaError(
            f"term '{expression.label}' would read its levels off the data; declare "
            f'levels={{"{name or "the column"}": [...]}}, or bounds= if it holds numbers, or pass '
            "a column of pandas' categorical type."
        )
    if len(levels) < 2:
        raise SchemaError(f"term '{expression.label}' has one level; a term takes two or more.")
    require_content(variable.name, variable.content, levels)
    return Factor(expression, source=name, levels=levels, contrast=_contrast(expression, coded))


def _contrast(expression: Expression, coded: ast.Call | None) -> str | None:
    """The contrast as formulaic spells it, such as ``contr.sum``."""
    if coded is None or len(coded.args) < 2:
        return None
    names = {key: value for key, value in expression.aliases.items() if value.startswith("contr.")}
    text = ast.unparse(coded.args[1])
    for key, value in names.items():
        text = text.replace(key, value)
    if not text.startswith("contr."):
        raise FormulaError(
            f"formula: {expression.label!r} takes a contrast such as contr.sum or "
            "contr.treatment('b') after the column."
        )
    return text
