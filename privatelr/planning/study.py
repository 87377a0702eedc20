"""A study before its data: a design, a request, and records that stand for the data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from privatelr.errors import FormulaError, SchemaError, nearest, show
from privatelr.frames.design import plan_design
from privatelr.frames.expressions import parse_expression
from privatelr.frames.formula import parse_formula
from privatelr.frames.lexer import RESERVED, tokenize
from privatelr.mechanisms.problem import Facts
from privatelr.planning.population import made_up, of_pilot, stand_ins

if TYPE_CHECKING:
    from collections.abc import Sequence

    from privatelr.frames.design import DesignSpec
    from privatelr.frames.schema import Schema
    from privatelr.mechanisms.request import Request
    from privatelr.numerics.losses import Loss
    from privatelr.planning.guesses import Guesses
    from privatelr.planning.population import Population

LARGEST_D = 200
_STAND_IN = "\ue000response"
"""A response that nobody declared; no formula of a user can name it."""


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """All that a forecast is made from; nothing in it is private."""

    spec: DesignSpec
    loss: Loss
    request: Request
    n: int
    population: Population

    @property
    def facts(self) -> Facts:
        """What a fit of this study is calibrated for."""
        spec = self.spec
        return Facts(self.n, spec.d, self.loss, spec.radius, spec.blocks)

    @property
    def terms(self) -> tuple[str, ...]:
        """Columns by their names, the intercept first."""
        return self.spec.columns.names


def generic_design(d: Any, schema: Schema) -> DesignSpec:
    """An intercept and ``d - 1`` numeric covariates whose rows are limited in length only."""
    if not 1 <= d <= LARGEST_D:
        raise FormulaError(
            f"formula={show(d)}: a number of design columns takes a whole number from 1 to "
            f"{LARGEST_D}, the intercept included."
        )
    for argument, declared in (("bounds", schema.bounds), ("levels", schema.levels)):
        if declared:
            raise SchemaError(
                f"{argument}: they belong to columns with names, and formula={d} has none; give "
                "the formula itself."
            )
    ball = replace(schema, row_norm=1.0 if schema.row_norm is None else schema.row_norm)
    return formula_design(f"y ~ {' + '.join(f'X{j}' for j in range(1, d)) or '1'}", ball, None)


def formula_design(text: str, schema: Schema, pilot: pd.DataFrame | None) -> DesignSpec:
    """The design that a fit would have, from declarations and the types of a public pilot.

    Raises
    ------
    FormulaError
        If the formula cannot be read.
    SchemaError
        If nothing says what a covariate holds.
    """
    empty = _empty_columns(schema, pilot)
    mentioned = _names(text)
    responses = parse_formula(text, [*mentioned, *empty]).response.names
    if schema.row_norm is not None and pilot is None:  # the length of a row is all that is needed
        empty |= {name: np.empty(0) for name in mentioned if name not in (*empty, *responses)}
    unknown = [name for name in mentioned if name not in (*empty, *responses)]
    _require_declared(unknown, [name for name in empty if name not in mentioned])
    covariates = [name for name in empty if name not in responses]
    formula = parse_formula(text, [*covariates, *responses])
    if not all(name in empty for name in responses):
        response = parse_expression(tokenize(f"`{_STAND_IN}`"))
        formula = replace(formula, response=response)
        empty[_STAND_IN] = np.empty(0, dtype=bool)
    return plan_design(formula, pd.DataFrame(empty), schema)


def _empty_columns(schema: Schema, pilot: pd.DataFrame | None) -> dict[str, Any]:
    """A column without values for each name, of the type that its declaration speaks of."""
    columns: dict[str, Any] = {name: np.empty(0) for name in schema.bounds}
    columns |= {name: np.empty(0, dtype=object) for name in schema.levels}
    if pilot is not None:
        columns |= {str(name): pilot[name].iloc[:0].array for name in pilot.columns}
    return columns


def _names(text: str) -> list[str]:
    """Names in a formula, but for functions, their keywords, and ``.``."""
    if not isinstance(text, str):
        raise FormulaError(
            f'formula={show(text)}: a plan takes a formula such as "y ~ age + dose", or the number '
            "of design columns."
        )
    tokens = tokenize(text)
    names = [
        token.text
        for token, follower in zip(tokens, [*tokens[1:], None], strict=True)
        if token.is_name
        and (token.kind == "quoted" or token.text not in {*RESERVED, "."})
        and (follower is None or not follower.is_operator("(", "="))
    ]
    return list(dict.fromkeys(names))


def _require_declared(unknown: Sequence[str], unused: Sequence[str]) -> None:
    if unknown:
        name = unknown[0]
        other = nearest(name, unused)
        hint = f"; {other!r} is declared, did you mean {name!r}?" if other else "."
        raise SchemaError(
            f"formula: nothing says what {name!r} holds, and a plan reads no data; declare "
            f"bounds={{{name!r}: (lo, hi)}} or levels={{{name!r}: [...]}}{hint}"
        )


def population_of(spec: DesignSpec, guesses: Guesses, pilot: pd.DataFrame | None) -> Population:
    """Records by the guesses, or those of a public pilot."""
    if pilot is None:
        return made_up(spec, guesses)
    for name in spec.formula.covariates:
        if name not in pilot.columns:
            raise SchemaError(
                f"pilot: the column {name!r} is missing; a pilot has a column for every covariate, "
                f"here {', '.join(map(repr, spec.formula.covariates))}."
            )
    missing = [name for name in spec.formula.response.names if name not in pilot.columns]
    values = stand_ins(spec, len(pilot))
    pilot = pilot.assign(**{name: values[name] for name in missing})
    return of_pilot(spec, pilot, guesses, labelled=not missing)
