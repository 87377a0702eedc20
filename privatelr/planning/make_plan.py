"""Planning a study: public facts and guesses in, a plan out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from privatelr.arguments import suggests_arguments
from privatelr.design import DesignSpec, plan_design
from privatelr.errors import (
    ArgumentError,
    FormulaError,
    SchemaError,
    nearest,
    require_choice,
    require_number,
    show,
)
from privatelr.formula import RESERVED, parse_expression, parse_formula, tokenize
from privatelr.mechanisms import Facts, Request, find_mechanism, read_request, warn_of_one_record
from privatelr.numerics import LOSSES, Loss, find_hinge, find_loss
from privatelr.planning.forecast import errors, intervals, simulate
from privatelr.planning.made_up_records import made_up, of_pilot, read_guesses, stand_ins
from privatelr.planning.needed_records import EACH, LARGEST_N
from privatelr.planning.plan_page import assumptions_of
from privatelr.planning.study_plan import StudyPlan
from privatelr.privacy import Guarantee
from privatelr.sources import BoundsLike, LevelsLike, Schema, as_frame, declare_schema

if TYPE_CHECKING:
    from privatelr.planning.made_up_records import Guesses, Population


LARGEST_D = 200
_STAND_IN = "\ue000response"
"""The name of a response that is not declared; no formula of a user can have it."""


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


_USUAL_H = 0.5


@suggests_arguments
def plan(
    formula: Any,
    n: int,
    eps: float | Guarantee = 1.0,
    delta: float = 0.0,
    *,
    bounds: BoundsLike | None = None,
    levels: LevelsLike | None = None,
    row_norm: float | None = None,
    intercept_scale: float = 0.5,
    lambda_: float | str | None = None,
    op: bool = True,
    spend: Mapping[str, float] | str | None = "inference",
    loss: str = "logistic",
    h: float | None = None,
    analysis: str | None = None,
    on_small_lambda: str = "increase",
    balance: float = 0.5,
    spread: float = 0.4,
    c_index: float = 0.75,
    pilot: Any = None,
) -> StudyPlan:
    """Forecast a private fit before any data is touched: noise, standard errors, widths.

    The calibration is exactly that of `dplr` or `dpsvm` with the same arguments. The rest is
    simulated on made-up records, from public guesses or from a public pilot.

    Parameters
    ----------
    formula : str or int
        As for `dplr`. ``.`` stands for every name that is declared. A whole number d in its
        place plans for an intercept and d - 1 covariates in a ball of length `row_norm`.
    n : int
        Number of records, public.
    eps, delta, lambda_, op, analysis, on_small_lambda
        As for `dplr`.
    bounds, levels, row_norm, intercept_scale
        As for `dplr`. Every covariate takes bounds or levels, since no data are read whose
        types could be read; the response need not be declared.
    spend : mapping or str, optional
        As for `dplr`, but here ``"inference"`` is the default; None is for coefficients alone.
    loss : {"logistic", "huber", "softplus"}
        That of `dplr`, or one of `dpsvm`.
    h : float, optional
        Bend of the hinge, as for `dpsvm`; by default 0.5.
    balance : float
        Guess of the share of the positive class.
    spread : float
        Guess of the standard deviation of a numeric column over half the width of its bounds:
        0.577 if all values within them are equally common, 0.4 if they are two and a half
        standard deviations from the middle.
    c_index : float
        Guess of the C-index of the true probabilities, from 0.5 (there is nothing to find) to
        0.95. The stronger the effects, the less a record tells about them.
    pilot : frame or mapping of columns, optional
        Public records that are like those of the study: of an earlier, published one, or made
        up from published means. They replace the guesses; a pilot without the response leaves
        `balance` and `c_index` in force. Never the data of the study itself: what a plan
        shows of its pilot is not protected.

    Returns
    -------
    StudyPlan

    Raises
    ------
    FormulaError, SchemaError, GuaranteeError, ArgumentError
        One sentence each.

    Notes
    -----
    **Privacy.** *Covered*: nothing, because no private data is read. *Neighbours*: none.
    *Assumed public*: every argument, the pilot above all. *Not covered*: the choice of
    arguments, if it was made by looking at the data.
    """
    request = read_request(eps, delta, spend, lambda_, op, analysis, on_small_lambda)
    find_mechanism(request)
    schema = declare_schema(bounds, levels, row_norm, intercept_scale)
    guesses, records = read_guesses(balance, spread, c_index), _read_pilot(pilot)
    size, chosen = _read_n(n), _read_loss(loss, h)
    warn_of_one_record(request.target, size, stacklevel=3)
    if isinstance(formula, int | np.integer) and not isinstance(formula, bool):
        if records is not None:
            raise ArgumentError(f"pilot: it belongs to a formula, and formula={formula} is none.")
        spec = generic_design(int(formula), schema)
    else:
        spec = formula_design(formula, schema, records)
    population = population_of(spec, guesses, records)
    study = Study(spec, chosen, request, size, population)
    sim = simulate(study)
    rows = range(len(study.terms))
    return StudyPlan(
        study,
        sim.stages,
        errors(sim),
        None if sim.stages.moments is None else intervals(sim, rows, EACH),
        assumptions_of(spec, guesses, records),
    )


def _read_n(n: Any) -> int:
    takes = f"a whole number from 1 to {LARGEST_N:.0e}"
    number = require_number(ArgumentError, "n", n, takes, at_least=1, at_most=LARGEST_N)
    if number != int(number):
        raise ArgumentError(f"n={show(n)}: n takes {takes}.")
    return int(number)


def _read_loss(loss: Any, h: Any) -> Loss:
    require_choice(ArgumentError, "loss", loss, tuple(LOSSES))
    if loss != "logistic":
        return find_hinge(loss, _USUAL_H if h is None else h)
    if h is not None:
        raise ArgumentError(f"h={show(h)}: h goes with loss='huber' and loss='softplus'.")
    return find_loss(loss)


def _read_pilot(pilot: Any) -> pd.DataFrame | None:
    if pilot is None:
        return None
    try:
        frame = as_frame(pilot)
    except SchemaError as error:
        raise SchemaError(f"pilot: {error}") from None
    if len(frame) == 0:
        raise ArgumentError("pilot: it is empty; a pilot takes at least one record.")
    return frame
