"""Factors of a right-hand side: numeric with a range, or categorical with levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privatelr.errors import SchemaError, show
from privatelr.frames.contrasts import require_base
from privatelr.frames.evaluation import interval
from privatelr.frames.expressions import (
    Expression,
    coded_column,
    coded_contrast,
    coded_levels,
    coding_call,
    is_logical,
)
from privatelr.frames.functions import EVERYTHING, Interval
from privatelr.frames.variables import remedy, require_content

if TYPE_CHECKING:
    from collections.abc import Mapping

    from privatelr.frames.variables import Variable


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor of the right-hand side.

    A numeric factor has a range, to which its column is clipped. A categorical one has levels,
    possibly a named contrast, and the values of the column `source`, or of the expression if
    that is a comparison.
    """

    expression: Expression
    interval: Interval = EVERYTHING
    source: str | None = None
    levels: tuple[Any, ...] = ()
    contrast: str | None = None

    @property
    def is_categorical(self) -> bool:
        return bool(self.levels)


def plan_factor(expression: Expression, variables: Mapping[str, Variable]) -> Factor:
    """Decide whether a factor is numeric or categorical, from public facts.

    A comparison is a factor with the levels False and True, as it is in R.
    """
    name = coded_column(expression)
    variable = variables[name] if name is not None else None
    logical = is_logical(expression)
    if (
        coding_call(expression) is None
        and not logical
        and (variable is None or variable.kind == "numeric")
    ):
        bounds = {key: variables[key].bounds for key in expression.names}
        return Factor(expression, interval(expression, bounds))
    levels = coded_levels(expression) or ((False, True) if logical else ())
    levels = levels or (variable.levels if variable is not None else ())
    if not levels or (variable is None and not logical):
        ask = "code a column instead" if variable is None else remedy(variable)
        raise SchemaError(f"term '{expression.label}' would read its levels off the data; {ask}.")
    if len(levels) < 2:
        raise SchemaError(f"term '{expression.label}' has one level; a term takes two or more.")
    hidden = next((str(level) for level in levels if str(level).startswith("__")), None)
    if hidden is not None:  # formulaic would leave its column out
        raise SchemaError(
            f"term '{expression.label}' has the level {show(hidden)}; a level of a term takes a "
            "name that does not begin with two underscores."
        )
    if variable is not None:
        require_content(variable.name, variable.content, levels)
    contrast = coded_contrast(expression)
    require_base(expression.label, contrast, levels)
    return Factor(expression, source=name, levels=levels, contrast=contrast)
