"""The function `plan`, which makes a plan of a study from public facts and guesses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from privatelr import errors
from privatelr.arguments import suggests_arguments
from privatelr.design import (
    DesignSpec,
    Prior,
    plan_design,
    require_no_order,
    require_usable_response,
    with_classes,
)
from privatelr.errors import ArgumentError, FormulaError, SchemaError, require_whole
from privatelr.fitting import read_do_scale, read_prior
from privatelr.formula import (
    RESERVED,
    parse_expression,
    parse_formula,
    tokenize,
    with_terms,
)
from privatelr.inference import Guesses
from privatelr.mechanisms import mechanism_of, read_request, warn_of_one_record
from privatelr.method import Method, perturbation
from privatelr.model import several_classes
from privatelr.numerics import LOSSES, Loss, find_hinge, find_loss
from privatelr.planning.forecast import Study, simulate
from privatelr.planning.made_up_records import (
    assumptions_of,
    pessimistic,
    population_of,
    read_guesses,
)
from privatelr.planning.needed_records import read_size
from privatelr.planning.study_plan import StudyPlan
from privatelr.privacy import REPLACE_ONE, Guarantee, Neighbours, neighbours_about
from privatelr.sources import Batch, BoundsLike, LevelsLike, Schema, as_batch, declare_schema

LARGEST_D = 200
"""A design that is given by its number of columns alone has at most this number of them."""
_USUAL_H, _SOFTMAX = 0.5, "softmax"
_STAND_IN = "\ue000response"
"""A response without a declaration gets this name, which cannot occur in a user's formula."""


def formula_of_columns(d: Any) -> str:
    """The formula of an intercept and ``d - 1`` numeric covariates."""
    takes = f"a whole number of design columns from 1 to {LARGEST_D}, the intercept included"
    count = require_whole(FormulaError, "formula", d, takes, at_least=1, at_most=LARGEST_D)
    return f"y ~ {' + '.join(f'X{j}' for j in range(1, count)) or '1'}"


def formula_design(text: str, schema: Schema, pilot: Batch | None) -> DesignSpec:
    """The design that a fit would have, from declarations and the types of a public pilot.

    Raises
    ------
    FormulaError
        If the formula cannot be read.
    SchemaError
        If the type of a covariate is not known.
    """
    # for each name an empty column of the type that its declaration implies
    empty: dict[str, Any] = {name: np.empty(0) for name in schema.bounds}
    empty |= {name: np.empty(0, dtype=object) for name in schema.levels}
    if pilot is not None:
        empty |= {name: pilot.cut(slice(0))[name] for name in pilot.names}
    mentioned = _names(text)
    # names of declarations come first, as ``.`` stands for them in this order
    formula = parse_formula(text, list(dict.fromkeys([*empty, *mentioned])))
    if formula.person is not None:  # any type that tells persons apart will do
        empty.setdefault(formula.person.column, np.empty(0, dtype=object))
    responses = formula.response.names
    if schema.row_norm is not None and pilot is None:  # the length of a row is all that is needed
        empty |= {name: np.empty(0) for name in mentioned if name not in (*empty, *responses)}
    for name in mentioned:
        if name not in (*empty, *responses):
            other = errors.nearest(name, [name for name in empty if name not in mentioned])
            hint = f"; {other!r} is declared, did you mean {name!r}?" if other else "."
            raise SchemaError(
                f"formula: nothing says what {name!r} holds, and a plan reads no data; declare "
                f"bounds={{{name!r}: (lo, hi)}} or levels={{{name!r}: [...]}}{hint}"
            )
    if not all(name in empty for name in responses):
        response = parse_expression(tokenize(f"`{_STAND_IN}`"))
        formula = replace(formula, response=response)
        empty[_STAND_IN] = np.empty(0, dtype=bool)
    return plan_design(formula, as_batch(empty), schema)


def neighbours_of(formula: Any) -> Neighbours:
    """What neighbouring data differ in, by what a formula says of persons."""
    if not isinstance(formula, str) or "person" not in formula:
        return REPLACE_ONE
    found = parse_formula(formula, _names(formula)).person
    return neighbours_about(found)


def _names(text: str) -> list[str]:
    """The names in a formula, except functions, their keywords, and ``.``."""
    if not isinstance(text, str):
        raise FormulaError(
            f'formula={errors.show(text)}: a plan takes a formula such as "y ~ age + dose", or the '
            "number of design columns."
        )
    tokens = tokenize(text)
    names = [
        token.text
        for token, follower in zip(tokens, [*tokens[1:], None], strict=True)
        if token.is_name
        and (token.kind == "quoted" or token.text not in {*RESERVED, ".", "NULL", "None"})
        and (follower is None or not follower.is_operator("(", "="))
    ]
    return list(dict.fromkeys(names))


@suggests_arguments
def plan(
    formula: Any,
    n: int,
    eps: float | Guarantee = 1.0,
    delta: float = 0.0,
    *,
    weights: str | None = None,
    subset: str | None = None,
    by: str | None = None,
    person: str | None = None,
    records_per_person: int = 1,
    prior: Any = None,
    bounds: BoundsLike | None = None,
    levels: LevelsLike | None = None,
    row_norm: float | None = None,
    intercept_scale: float | None = None,
    lambda_: float | str | None = None,
    op: bool = True,
    spend: Mapping[str, float] | str | None = "inference",
    do_scale: bool | str | None = None,
    loss: str = "logistic",
    h: float | None = None,
    analysis: str | None = None,
    on_small_lambda: str = "increase",
    balance: float = 0.3,
    spread: float | Mapping[str, float] | None = None,
    c_index: float = 0.75,
    correlation: float = 0.5,
    pilot: Any = None,
) -> StudyPlan:
    """Forecast the noise, standard errors and interval widths of a private fit before it is made.

    The calibration is exactly that of `dplr` or `dpsvm` with the same arguments. The rest is
    simulated on made-up records, from public guesses or from a public pilot.

    Parameters
    ----------
    formula : str or int
        A formula as for `dplr`, in which ``.`` stands for all declared names. Or a whole number d,
        for the formula of an intercept and d - 1 covariates, X1 and so on, in a ball of length
        `row_norm`, by default 1.
    n : int
        Number of records, which is public, or of persons.
    eps, delta, weights, subset, by, person, records_per_person, prior, lambda_, op, analysis
        The same as for `dplr`. Every person is taken to have one record that counts fully, or as
        many as `records_per_person` that are alike. Columns of weights and of a subset are guessed
        as covariates are. With `by` the plan is of one stratum, and all are guessed to have as many
        records.
    on_small_lambda
        The same as for `dplr`.
    bounds, levels, row_norm, intercept_scale
        The same as for `dplr`. Every covariate needs bounds or levels, because no data are read
        that would show its type. The response needs no declaration.
    spend : mapping or str, optional
        The same as for `dplr`, but with the default ``"inference"``; None means coefficients alone.
    do_scale : str or bool, optional
        The same as for `dplr`, except True, which reads the data. Whether the scale of the columns
        is worth its price is public.
    loss : {"logistic", "huber", "softplus", "softmax"}
        The loss of `dplr`, one of `dpsvm`, or that of `dpmultinom`, which takes the levels of the
        response, and buys coefficients alone whatever `spend` says of inference by default.
    h : float, optional
        Width of the bend of the hinge, as for `dpsvm`; by default 0.5.
    balance : float
        A guess of the share of the positive class.
    spread : float or mapping from column to float, optional
        A guess of the standard deviation of a numeric column, over half the width of its bounds.
        It is 0.577 if all values within the bounds are equally common, and 0.4 if the bounds are
        two and a half standard deviations from the middle. By default, and for columns that a
        mapping leaves out, it falls with the width of the bounds, from 0.5 for a few units to 0.1
        for 40,000: an amount of money seldom comes near the largest one.
    c_index : float
        A guess of the C-index of the true probabilities, from 0.5 (no effects) to 0.99. The
        stronger the effects, the less information a record has about them.
    correlation : float
        A guess of the correlation of any two numeric columns.
    pilot : frame or mapping of columns, optional
        Public records that are similar to those of the study: those of an earlier, published
        study, or records that were made up from published means. They replace the guesses; if the
        pilot has no response, `balance` and `c_index` still apply. It must never be the data of
        the study itself, because a plan does not protect its pilot.

    Returns
    -------
    StudyPlan

    Raises
    ------
    FormulaError, SchemaError, GuaranteeError, ArgumentError
        If an argument is wrong, or no mechanism has the requested guarantee.

    Notes
    -----
    **Privacy.** *Covered*: nothing, because no private data is read. *Neighbours*: none.
    *Assumed public*: every argument, in particular the pilot. *Not covered*: a choice of
    arguments that was based on the data.

    Examples
    --------
    >>> from privatelr import plan
    >>> study = plan("ill ~ age", n=5_000, eps=1.0, bounds={"age": (18, 99)})
    >>> study.needed_n(width=0.02, term="age") > 1_000
    True
    """
    is_number = isinstance(formula, int | np.integer) and not isinstance(formula, bool)
    formula = formula_of_columns(formula) if is_number else formula
    schema = declare_schema(bounds, levels, row_norm, intercept_scale)
    guesses = read_guesses(balance=balance, spread=spread, c_index=c_index, correlation=correlation)
    records = None if pilot is None else _read_pilot(pilot)
    known = (*schema.bounds, *schema.levels, *(() if records is None else records.names))
    counting: dict[str, Any] = {"weights": weights, "subset": subset, "by": by}
    counting |= {"person": person, "records_per_person": records_per_person}
    whole = with_terms(formula, known, **counting)
    bought = None if loss == _SOFTMAX and spend == "inference" else spend
    priced = eps, delta, bought, lambda_, op, analysis, on_small_lambda
    request = read_request(*priced, neighbours_of(whole))
    mechanism_of(request.placement, request.target)
    scaling, asked = read_do_scale(do_scale), read_prior(prior, stacklevel=4)
    if scaling is True:
        raise ArgumentError("do_scale=True: it reads the data, and a plan has none.")
    size, chosen = read_size(n), _read_loss(loss, h)
    warn_of_one_record(request.target, size, stacklevel=3)
    method: Method = perturbation(chosen, request, schema, scaling)
    if loss == _SOFTMAX:
        method = several_classes(request, schema, scaling)
        _require_classes(balance, prior)
    # row_norm limits rows once they are standardised
    declared = schema if not method.standardises else replace(schema, row_norm=None)
    if is_number and declared.row_norm is None:
        declared = replace(declared, row_norm=1.0)
    spec = formula_design(whole, declared, records)
    if loss == _SOFTMAX:
        spec = _by_class(spec, records)
    else:
        require_usable_response(spec.response)
    strata = spec.formula.by
    if strata is not None and strata.level is None:
        spec = spec.at_level(spec.variables[strata.column].levels[0])
    if asked is not None:
        spec = _with_prior(spec, asked, chosen)
    population = population_of(spec, guesses, records)
    worse = population_of(spec, pessimistic(guesses), records)
    sim = simulate(Study(spec, chosen, request, size, population, worse, schema, scaling))
    scaled = sim.stages.scale is not None
    return StudyPlan(assumptions_of(spec, guesses, records, scaled=scaled), sim)


def _read_loss(loss: str, h: float | None) -> Loss:
    errors.require_choice(ArgumentError, "loss", loss, (*LOSSES, _SOFTMAX))
    if loss in ("logistic", _SOFTMAX):
        if h is not None:
            given = f"h={errors.show(h)}"
            raise ArgumentError(f"{given}: h goes with loss='huber' and loss='softplus'.")
        return find_loss("logistic")
    return find_hinge(loss, _USUAL_H if h is None else h)


def _require_classes(balance: float, prior: Any) -> None:
    """Refuse what a plan of several classes has no place for; raises `ArgumentError`."""
    if balance != Guesses().balance:
        raise ArgumentError(
            f"balance={balance:g}: balance is a guess about two classes; of several, shares fall "
            "by one factor."
        )
    if prior is not None:
        raise ArgumentError("prior: it goes with two classes, and loss='softmax' is of several.")


def _by_class(spec: DesignSpec, pilot: Batch | None) -> DesignSpec:
    """The design with a class for each level of the response."""
    if _STAND_IN in spec.variables:
        name = spec.formula.text.partition("~")[0].strip()
        raise SchemaError(
            f"response {name!r}: a plan of several classes takes its levels, the reference first, "
            f'as in levels={{"{name}": ["a", "b", "c"]}}.'
        )
    if pilot is not None:
        require_no_order(spec.response, pilot)
    found: DesignSpec = with_classes(spec)
    return found


def _with_prior(spec: DesignSpec, asked: Callable[[Any, Any], Prior], loss: Loss) -> DesignSpec:
    """The design with what a penalty draws to; a response that is not declared is the earlier's.

    Raises
    ------
    ArgumentError
        If the model has no such coefficients, or an earlier fit has another response or loss.
    """
    like, earlier = spec, asked.args[0] if isinstance(asked, partial) else None
    if earlier is not None and spec.formula.response.names == (_STAND_IN,):
        named, was = (one.partition("~")[0].strip() for one in (spec.formula.text, earlier.formula))
        if named != was:
            raise ArgumentError(
                f"prior: the response of the earlier fit is {was}, and here it is {named}; prior "
                "takes a fit of the same response."
            )
        like = replace(spec, response=earlier.spec.response)
    return replace(spec, prior=asked(like, loss))


def _read_pilot(pilot: Any) -> Batch:
    try:
        batch = as_batch(pilot)
    except SchemaError as error:
        raise SchemaError(f"pilot: {error}") from None
    if len(batch) == 0:
        raise ArgumentError("pilot: it is empty; a pilot takes at least one record.")
    return batch
