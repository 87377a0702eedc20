"""Two-class responses: a comparison, a factor, a boolean, or numbers with two declared values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from privatelr.design.variables import Variable, level_codes, read_values, remedy, require_content
from privatelr.errors import FormulaError, SchemaError
from privatelr.formula import Expression, Node, evaluate, interval, is_truth
from privatelr.sources import Batch, Tally, count
from privatelr.types import BoolArray, FloatArray

ResponseKind = Literal["logical", "factor", "binary", "classes"]


@dataclass(frozen=True, slots=True)
class Response:
    """How labels are made from the left-hand side of a formula.

    Attributes
    ----------
    expression : Expression
        What is evaluated.
    kind : str
        ``logical`` (true is the positive class), ``factor`` (first level against the
        others, as in R), ``binary`` (the numbers 0 and 1, of declared bounds or of an expression),
        or ``classes`` (each level is a class of its own, the first one the reference).
    classes : tuple
        What ``predict(type="classes")`` returns for the negative and the positive class, or for
        each of several classes.
    levels : tuple
        The values that are used; the first is the negative class.
    remark : str
        What is unusual about the response, as far as that is public.
    declared : bool
        Whether its two values are known from declarations. Numbers without any are taken for 0 and
        1, which no private fit does; see `require_usable_response`.
    """

    expression: Expression
    kind: ResponseKind
    classes: tuple[Any, Any]
    levels: tuple[Any, ...]
    remark: str = ""
    declared: bool = True

    def describe(self) -> str:
        """A sentence part on the coding; it depends on public facts only."""
        if self.kind == "classes":
            first, *others = self.classes
            return f"{self.expression.label}: {', '.join(map(str, others))} against {first}"
        negative, positive = self.classes
        against = f"{self.expression.label}: {positive} (positive) against {negative}"
        return f"{against}; {self.remark}" if self.remark else against


def plan_response(expression: Expression, variables: Mapping[str, Variable]) -> Response:
    """Decide the coding from the form of the expression and the kinds of its variables."""
    name = expression.column
    variable = variables[name] if name is not None else None
    if expression.contrast is not None:
        raise FormulaError(f"formula: the response {expression.label!r} takes no contrast.")
    logical = expression.is_logical or (variable is not None and variable.kind == "logical")
    levels = expression.levels
    if logical and not levels:
        return Response(expression, "logical", (False, True), (False, True))
    levels = levels or (variable.levels if variable is not None else ())
    if levels and (logical or variable is not None):
        if variable is not None:
            require_content(variable.name, variable.content, levels)
        if len(levels) < 2:
            raise SchemaError(
                f"response {expression.label!r}: a response takes two or more levels."
            )
        positive = levels[1] if len(levels) == 2 else f"not {levels[0]}"
        return Response(expression, "factor", (levels[0], positive), levels)
    if expression.is_coded or (variable is not None and variable.kind == "text"):
        missing = None if variable is None else remedy(variable, "first, second", "0, 1")
        raise SchemaError(
            f"response {expression.label!r}: its levels would be read off the data; "
            f"{missing or 'code a column instead'}."
        )
    if not _keeps_zero_and_one(expression.tree):
        raise SchemaError(
            f"response {expression.label!r}: a numeric response takes two values, which this "
            'expression has no reason to; compare it with a public constant, as in "y > 3 ~ ...", '
            "and give counts of successes as one record for each trial."
        )
    low, high = interval(expression, {each: variables[each].bounds for each in expression.names})
    if not (math.isfinite(low) and math.isfinite(high)):
        remark = "not declared, so that numbers other than 0 and 1 count as missing"
        return Response(expression, "binary", (0, 1), (0, 1), remark=remark, declared=False)
    if (low, high) != (0.0, 1.0):
        raise SchemaError(
            f"response {expression.label!r}: a numeric response takes the values 0 and 1, and "
            f"this one is declared on ({low:g}, {high:g}); compare it with a public constant, as "
            f'in "{expression.label} > {(low + high) / 2:g} ~ ...".'
        )
    remark = "values beyond (0, 1) are clipped" if variable is not None else ""
    return Response(expression, "binary", (0, 1), (0, 1), remark=remark)


_ONE_STRATUM = (
    "nothing is proven about records that change strata; take subset= for each stratum, and each "
    "fit at a price of its own"
)
_ALIKE = "it would be added to every class alike; dplr of one class against the others takes one"
MOST_CLASSES = 50
"""Largest number of classes of a model that has coefficients for each."""


def require_no_order(response: Response, batch: Batch) -> None:
    """Refuse three levels or more whose type puts them in an order, which no model here uses.

    Declared levels do not take the order away, so that what is fitted does not hang on them. Enums
    of polars have no order here: that is how it declares levels of any kind.
    """
    name = response.expression.column
    if name is None or len(response.levels) < 3 or name not in batch.names:
        return
    if batch.has_order(name):
        upper = ", ".join(map(repr, response.levels[1:][-2:]))
        raise SchemaError(
            f"response {response.expression.label!r}: its levels have an order, which no model "
            f'here uses; divide them in two, as in "{name} %in% c({upper}) ~ ..." for dplr, or '
            f"take them as names without an order, by data[{name!r}].cat.as_unordered() of pandas "
            "or a cast to text."
        )


def require_usable_response(response: Response, *, promised: bool = True) -> None:
    """Refuse numbers whose two values nobody declared, and three numbers or more.

    Of other levels the first is fitted against the rest. Where nothing is promised, numbers need no
    declaration.
    """
    levels, name = response.levels, response.expression.label
    if promised and not response.declared:
        column = response.expression.column
        add = f'add levels={{"{column}": [0, 1]}}, with the reference first, or ' if column else ""
        raise SchemaError(
            f"response {name!r}: the two numbers that it takes are not declared; {add}pass "
            f'booleans, as in "{name} == 1 ~ ..." or y == 1 for an array y.'
        )
    if len(levels) > 2 and all(type(level) in (int, float) for level in levels):
        raise SchemaError(
            f"response {name!r}: a numeric response takes two values, and this one declares "
            f"{len(levels)} ({', '.join(map(str, levels))}); compare it with a public constant, as "
            f'in "{name} > {levels[0]} ~ ...", or fit each of them by dpmultinom.'
        )


def with_classes(spec: Any) -> Any:
    """Return a plan in which each declared level of the response is a class of its own.

    Raises
    ------
    FormulaError, SchemaError
        For fewer than three levels, strata and offsets.
    """
    formula, response = spec.formula, spec.response
    label = response.expression.label
    for term, why in (
        (formula.by and formula.by.label, _ONE_STRATUM),
        (getattr(spec, "offsets", ()) and "offset(...)", _ALIKE),
    ):
        if term:
            raise FormulaError(f"formula: {term} does not go with dpmultinom, as {why}.")
    if response.kind != "factor" or len(response.levels) < 3:
        column = response.expression.names[0]
        raise SchemaError(
            f"response {label!r}: dpmultinom takes a column of three or more declared levels, "
            f'reference first, as in levels={{"{column}": ["a", "b", "c"]}}; dplr takes two.'
        )
    if len(response.levels) > MOST_CLASSES:
        raise SchemaError(
            f"response {label!r}: dpmultinom takes up to {MOST_CLASSES} classes, and it has "
            f"{len(response.levels)} declared levels."
        )
    several = replace(response, kind="classes", classes=response.levels)
    return replace(spec, response=several)


def _keeps_zero_and_one(node: Node) -> bool:
    """Whether the form is a usual coding by 0 and 1: ``y``, ``1 - y``, ``ifelse(...)``."""
    match node:
        case Node("infix", "+" | "-", (left, right)):
            kinds = (left.kind, right.kind)
            return "constant" in kinds and _keeps_zero_and_one(
                right if left.kind == "constant" else left
            )
        case Node("call", "ifelse", (_, *choices)):
            values = [choice.value for choice in choices if choice.kind == "constant"]
            return len(values) == 2 and set(values) <= {0, 1}
        case Node("call", "I" | "as.numeric" | "as.integer" | "round", (inner,)):
            return _keeps_zero_and_one(inner)
    return node.kind == "column" or is_truth(node)


def labels(
    response: Response, columns: Mapping[str, Any], tally: Tally | None = None
) -> tuple[FloatArray, BoolArray]:
    """Return labels -1 and +1 of shape ``(n,)``, and where the response has a usable value.

    A tally counts the numbers of a column that belong to neither class.
    """
    name = response.expression.column
    values = columns[name] if name is not None else evaluate(response.expression, columns)
    if response.kind == "binary":
        positive = np.equal(values, 1)
        usable = positive | np.equal(values, 0)
        if tally is not None and name is not None:
            # the middle of (0, 1) replaced a missing value, which is not odd
            odd = np.count_nonzero(~usable & np.not_equal(values, 0.5))
            count(tally, name, undeclared=int(odd))
        return np.where(positive, 1.0, -1.0), usable
    codes = level_codes(values, response.levels)
    return np.where(codes > 0, 1.0, -1.0), np.asarray(codes >= 0)


def places(response: Response, columns: Mapping[str, Any]) -> tuple[FloatArray, BoolArray]:
    """Return the numbers ``(n,)`` of the classes of records, and where there is one."""
    name = response.expression.column
    values = columns[name] if name is not None else evaluate(response.expression, columns)
    codes = level_codes(values, response.levels)
    return np.maximum(codes, 0).astype(np.float64), np.asarray(codes >= 0)


def read_labels(response: Response, variables: Mapping[str, Variable], batch: Batch) -> FloatArray:
    """Return labels ``(n,)`` of a batch: -1 or 1, and 0 where the response is not usable."""
    values, usable = read_values(variables, batch, response.expression.names)
    label, labelled = labels(response, values, batch.tally)
    return np.where(usable & labelled, label, 0.0)
