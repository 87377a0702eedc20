"""The front door of planning: public facts and guesses in, a plan out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from privatelr.arguments import suggests_arguments
from privatelr.errors import ArgumentError, SchemaError, require_choice, require_number, show
from privatelr.frames.schema import declare_schema
from privatelr.frames.source import as_frame
from privatelr.mechanisms.deltas import warn_of_one_record
from privatelr.mechanisms.registry import find_mechanism
from privatelr.mechanisms.request import read_request
from privatelr.numerics.losses import LOSSES, find_hinge, find_loss
from privatelr.planning.assumptions import assumptions_of
from privatelr.planning.forecast import errors, intervals, simulate
from privatelr.planning.guesses import read_guesses
from privatelr.planning.needs import EACH, LARGEST_N
from privatelr.planning.record import StudyPlan
from privatelr.planning.study import Study, formula_design, generic_design, population_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from privatelr.frames.schema import BoundsLike, LevelsLike
    from privatelr.numerics.losses import Loss
    from privatelr.privacy.guarantees import Guarantee

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
        As for `dplr`. Every covariate takes bounds or levels, since there are no data whose
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
    arguments, if somebody made it by looking at the data.
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
