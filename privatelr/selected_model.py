"""The front door of mechanisms that choose columns: R's names in, values inside, wiring only."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from privatelr.arguments import suggests_arguments
from privatelr.design import (
    DesignSpec,
    EntryBoundedMatrix,
    MatrixTable,
    plan_design,
    plan_matrix,
    read_matrix_source,
)
from privatelr.errors import ArgumentError, PrivacyWarning, require_choice, require_number
from privatelr.formula import parse_formula
from privatelr.mechanisms import (
    USUAL_DELTA,
    read_target_with_default_delta,
    require_below_one_record,
    warn_of_large_delta,
)
from privatelr.mechanisms.selection_mechanism import LinearProgramMechanism, SimplexMechanism
from privatelr.model import charge, read_ledger, read_randomness
from privatelr.model_data import read_entries, warn_of_declarations
from privatelr.numerics import find_loss, label
from privatelr.privacy import NonPrivate, void
from privatelr.results import diagnose, read_threshold
from privatelr.results.selected import SelectedFit
from privatelr.sources import BoundsLike, LevelsLike, Schema, declare_schema, read_source

if TYPE_CHECKING:
    from privatelr.mechanisms.selection_mechanism import SelectionMechanism
    from privatelr.privacy import Guarantee
    from privatelr.privacy.accounting import Account
    from privatelr.privacy.noise import Randomness

_BELOW_ONE = math.nextafter(1.0, 0.0)


@dataclass(frozen=True, slots=True)
class SelectionOptions:
    """Choices about the computation, checked."""

    randomness: Randomness
    ledger: Account | None
    verbose: int


@suggests_arguments
def dplpsvm(
    formula: Any = None,
    data: Any = None,
    eps: float | Guarantee = 1.0,
    delta: float = USUAL_DELTA,
    *,
    density: float = 0.25,
    rounds: int | str = "auto",
    step: float | str = "auto",
    score: str = "margin",
    slack: float = 0.0,
    minority: float | None = None,
    target: str | int | None = None,
    bounds: BoundsLike | None = None,
    levels: LevelsLike | None = None,
    intercept_scale: float = 1.0,
    ledger: Account | None = None,
    threshold: float | str = "fixed",
    na_action: str = "zero",
    seed: int | None = None,
    verbose: int = 0,
) -> SelectedFit:
    """Differentially private linear-program support vector machine from an R formula.

    It looks for coefficients whose sizes add up to one and whose worst margins are large: the
    mean over the fraction `density` of the records with the smallest margins. Records keep
    weights, which fall as they are classified well; in each round the exponential mechanism
    chooses the signed column that agrees best with the weighted records (Hsu, Roth,
    Roughgarden and Ullman 2014, with their sensitivity and composition made exact).

    Parameters
    ----------
    formula, data, target, bounds, levels
        As in `dplr`. Every entry of a design row is held to its bound by itself, so there is no
        limit to the length of a row.
    eps, delta
        Total price. ``delta=0`` is pure differential privacy, under which few rounds can be
        paid. A guarantee may stand in the place of eps; ``eps=0`` or ``eps=inf`` gives the fit
        without noise.
    density : float
        Fraction of the records whose margins count, above the error rate that is expected and
        below twice the share of the smaller class. It must not be read off the data.
    rounds : int or "auto"
        How many columns are chosen, at most 1000 if automatic, from public facts.
    step : float or "auto"
        How fast weights fall.
    score : {"margin", "count"}
        What a round compares: weighted margins, or the weight of the records that a column
        classifies with a margin of at least ``1 - slack`` of the largest.
    slack : float
        For ``score="count"``, from 0 to below 1.
    minority : float, optional
        Share of the smaller class as far as it is public. A density above twice of it makes one
        column win always, and gives a warning.
    intercept_scale : float
        Constant in the intercept column of the design.
    ledger, threshold, na_action, seed, verbose
        As in `dplr`; the threshold is a margin.

    Returns
    -------
    SelectedFit
        It predicts ``"classes"`` and ``"margins"``.

    Raises
    ------
    FormulaError, SchemaError, GuaranteeError, ArgumentError
        One sentence each, on public facts only.

    Notes
    -----
    **Privacy.** *Covered*: ``fit.coef``, the choices and their order, and all that is computed
    from them, by ``fit.guarantee``. *Neighbours*: datasets of the same n that differ in one
    record. *Assumed public*: n, names, types, declared bounds and levels, and every argument.
    *Not covered*: ``fit.diagnostics``, a learned threshold, time and memory.
    """
    _require_density(density, minority)
    goal = read_target_with_default_delta(eps, delta, USUAL_DELTA)
    return _fit(
        LinearProgramMechanism(goal, density, rounds, step, score, slack),
        goal,
        _read_source(formula, data, target),
        declare_schema(bounds, levels, None, intercept_scale),
        _read_options(na_action, seed, ledger, verbose),
        threshold,
    )


@suggests_arguments
def dpsimplex(
    formula: Any = None,
    data: Any = None,
    eps: float | Guarantee = 1.0,
    delta: float = USUAL_DELTA,
    *,
    loss: str = "huber",
    h: float = 0.5,
    radius: float = 1.0,
    lambda_: float | str = "auto",
    draws: int | str = "auto",
    target: str | int | None = None,
    bounds: BoundsLike | None = None,
    levels: LevelsLike | None = None,
    intercept_scale: float = 1.0,
    ledger: Account | None = None,
    threshold: float | str = "fixed",
    na_action: str = "zero",
    seed: int | None = None,
    verbose: int = 0,
) -> SelectedFit:
    """Differentially private logistic regression or SVM with few columns, from an R formula.

    The minimiser of the loss with an entropy penalty, over coefficients whose sizes add up to
    `radius`, is a distribution on the signed columns. It is never released: columns are drawn
    from it, and how often each was drawn is (Jain and Thakurta 2014, with a sharper account of
    what a draw tells). Many coefficients are then exactly zero.

    Parameters
    ----------
    formula, data, target, bounds, levels
        As in `dplr`. Every entry of a design row is held to its bound by itself, so there is no
        limit to the length of a row.
    eps, delta
        Total price, as in `dplpsvm`. Under ``delta=0`` few draws can be paid.
    loss : {"huber", "logistic"}
        ``"logistic"`` predicts probabilities.
    h : float
        Width of the bend of the Huber loss.
    radius : float
        Sum of the sizes of the coefficients where declared bounds are at -1 and 1; public.
    lambda_ : float or "auto"
        Penalty of the mean objective, ``(1/n) sum loss + lambda_ sum theta log theta``. The
        automatic one balances shrinkage and the number of draws, from public facts.
    draws : int or "auto"
        How many columns are drawn: as many as the price buys, or fewer.
    intercept_scale : float
        Constant in the intercept column of the design.
    ledger, threshold, na_action, seed, verbose
        As in `dplr`.

    Returns
    -------
    SelectedFit

    Raises
    ------
    NoRelease
        If the price does not buy one draw at this lambda; it names the smallest that works.
    FormulaError, SchemaError, GuaranteeError, ArgumentError
        One sentence each, on public facts only.

    Notes
    -----
    **Privacy.** *Covered*: ``fit.coef``, the counts of draws, and all that is computed from
    them, by ``fit.guarantee``. *Neighbours*: datasets of the same n that differ in one record.
    *Assumed public*: n, names, types, declared bounds and levels, and every argument. *Not
    covered*: ``fit.diagnostics``, a learned threshold, time and memory. The minimiser itself
    is not kept.
    """
    require_choice(ArgumentError, "loss", loss, ("huber", "logistic"))
    takes = "a number from 1e-6 to 1e6"
    size = require_number(ArgumentError, "radius", radius, takes, at_least=1e-6, at_most=1e6)
    goal = read_target_with_default_delta(eps, delta, USUAL_DELTA)
    found = find_loss("logistic") if loss == "logistic" else find_loss("huber", h=h)
    return _fit(
        SimplexMechanism(goal, found, size, lambda_, draws),
        goal,
        _read_source(formula, data, target),
        declare_schema(bounds, levels, None, intercept_scale),
        _read_options(na_action, seed, ledger, verbose),
        threshold,
    )


Source = tuple[str, Any]
"""A formula and its frame; or the name of the response, and its matrix."""


def _read_source(first: Any, second: Any, target: Any) -> Source:
    if not sparse.issparse(second):
        return read_source(first, second, target)
    table = read_matrix_source(first, second, target)
    return table.name, table


def _require_density(density: Any, minority: Any) -> None:
    takes = "a number above 0 and below 1"
    share = require_number(ArgumentError, "density", density, takes, above=0, at_most=_BELOW_ONE)
    if minority is None:
        return
    takes = "None, or the public share of the smaller class, above 0 and up to 0.5"
    least = require_number(ArgumentError, "minority", minority, takes, above=0, at_most=0.5)
    if share > 2 * least:
        warnings.warn(
            f"density={share:g} is above twice minority={least:g}, so that predicting the larger "
            f"class always is the best there is; take a density below {2 * least:g}.",
            PrivacyWarning,
            stacklevel=4,
        )


def _read_options(na_action: Any, seed: Any, ledger: Any, verbose: Any) -> SelectionOptions:
    why = "; records may not be dropped, because n is public"
    require_choice(ArgumentError, "na_action", na_action, ("zero",), why)
    shown = int(verbose) if isinstance(verbose, bool) else verbose
    verbosity = require_number(ArgumentError, "verbose", shown, "0 or 1", at_least=0)
    return SelectionOptions(read_randomness(seed), read_ledger(ledger), int(verbosity))


def _fit(
    chooser: SelectionMechanism,
    goal: Guarantee,
    source: Source,
    schema: Schema,
    options: SelectionOptions,
    threshold: Any,
) -> SelectedFit:
    """Plan from public facts, calibrate, pay, read the rows, choose."""
    n, loss = len(source[1]), chooser.loss
    cut = read_threshold(threshold, loss)
    spec = _plan(source, schema)
    text = spec.formula.text
    require_below_one_record(goal, n)
    warn_of_large_delta(goal, n, stacklevel=4)
    secret = options.randomness.is_secret or isinstance(goal, NonPrivate)
    guarantee = goal if secret else void("seeded noise")
    if isinstance(guarantee, NonPrivate):
        charge(options.ledger, guarantee, (), text)  # refused before the data is read
    calibration = chooser.calibrate(n, spec.d, spec.x_bound)
    warn_of_declarations(spec, source[1], schema, stacklevel=4)
    if options.verbose:
        print(calibration)
    entry = charge(options.ledger, guarantee, calibration.events, label(text, loss))
    with np.errstate(all="ignore"):  # an underflow is a fact about the data
        rows, tally = read_entries(spec, source[1])
        release = chooser.release(rows, calibration, options.randomness)
        diagnostics = diagnose(rows, release.coef, loss, spec, tally)
    return SelectedFit(spec, replace(release, guarantee=guarantee, entry=entry), cut, diagnostics)


def _plan(source: Source, schema: Schema) -> DesignSpec | EntryBoundedMatrix:
    text, data = source
    if isinstance(data, MatrixTable):
        return plan_matrix(text, data.frame[text], data.matrix.shape[1], schema)
    return plan_design(parse_formula(text, list(data.columns)), data, schema)
