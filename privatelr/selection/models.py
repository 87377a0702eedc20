"""`dplpsvm` and `dpsimplex`, which choose columns: R's names in, values inside, wiring only."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from privatelr.arguments import suggests_arguments
from privatelr.call_data import read_data
from privatelr.design import EntrySpec
from privatelr.errors import ArgumentError, PrivacyWarning, require_choice, require_number
from privatelr.fitting import fit, read_options
from privatelr.mechanisms import USUAL_DELTA, read_target
from privatelr.mechanisms.request import COEFFICIENTS, ROC, require_usual
from privatelr.mechanisms.stages.histogram import ScoreScale, calibrate_histogram, count_scores
from privatelr.method import Method
from privatelr.numerics import find_loss
from privatelr.numerics.rows import EntryRows
from privatelr.privacy import Guarantee, split
from privatelr.privacy.accounting import AnyLedger, Entry
from privatelr.privacy.noise import Randomness
from privatelr.selection.choices import (
    SelectionCalibration,
    Selections,
    StagedSelection,
    read_roc_share,
)
from privatelr.selection.multiplicative_weights import (
    ProgramFacts,
    WorstMargins,
    calibrate_program,
    release_program,
)
from privatelr.selection.selected_fit import SelectedFit
from privatelr.selection.simplex import SimplexProblem, calibrate_simplex, release_simplex
from privatelr.sources import BoundsLike, LevelsLike, declare_schema

_BELOW_ONE = math.nextafter(1.0, 0.0)


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
    spend: Mapping[str, float] | None = None,
    ledger: AnyLedger | None = None,
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
    spend : mapping, optional
        ``{"coefficients": 0.75, "roc": 0.25}`` buys a ROC curve of the training data, `fit.roc`,
        with a quarter of the price.
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

    Examples
    --------
    >>> from privatelr import dplpsvm, load_dataset, load_schema
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplpsvm("vote ~ age + selfLR", votes, eps=1.0, **public)
    >>> print(fit.guarantee)
    epsilon = 1, delta = 1e-06 (approximate)
    """
    _require_density(density, minority)

    def choices(n: int, spec: EntrySpec, part: Guarantee) -> SelectionCalibration:
        facts = ProgramFacts(n, spec.d, spec.x_bound, density)
        return calibrate_program(facts, part, rounds, step, score, slack)

    price = read_target(eps, delta, USUAL_DELTA), read_roc_share(spend)
    method = _method(WorstMargins(density), *price, choices, release_program)
    source = read_data(formula, data, target)
    schema = declare_schema(bounds, levels, None, intercept_scale)
    options = read_options(na_action, seed, ledger, verbose, threshold)
    return fit(SelectedFit, method, source, schema, options)


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
    spend: Mapping[str, float] | None = None,
    ledger: AnyLedger | None = None,
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
        How many columns are drawn: at most as many as the price allows.
    intercept_scale : float
        Constant in the intercept column of the design.
    spend : mapping, optional
        ``{"coefficients": 0.75, "roc": 0.25}`` buys a ROC curve of the training data, `fit.roc`,
        with a quarter of the price.
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

    Examples
    --------
    >>> from privatelr import dpsimplex, load_dataset, load_schema
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dpsimplex("vote ~ age + selfLR", votes, eps=1.0, **public)
    >>> list(fit.coef.index)
    ['(Intercept)', 'age', 'selfLR']
    """
    require_choice(ArgumentError, "loss", loss, ("huber", "logistic"))
    takes = "a number from 1e-6 to 1e6"
    size = require_number(ArgumentError, "radius", radius, takes, at_least=1e-6, at_most=1e6)
    price = read_target(eps, delta, USUAL_DELTA), read_roc_share(spend)
    margin_loss = find_loss("logistic") if loss == "logistic" else find_loss("huber", h=h)

    def choices(n: int, spec: EntrySpec, part: Guarantee) -> SelectionCalibration:
        facts = SimplexProblem(n, spec.d, spec.x_bound, size, margin_loss)
        return calibrate_simplex(facts, part, lambda_, draws)

    method = _method(margin_loss, *price, choices, release_simplex)
    source = read_data(formula, data, target)
    schema = declare_schema(bounds, levels, None, intercept_scale)
    options = read_options(na_action, seed, ledger, verbose, threshold)
    return fit(SelectedFit, method, source, schema, options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choosing(Method):
    """Choices of columns, and counts of scores where these are paid for.

    Attributes
    ----------
    shares : dict
        The share of each stage of the price.
    choices : callable
        Takes n, the plan of the rows and a part of the price; returns the calibration of the
        choices.
    """

    by_entries: bool = True
    shares: dict[str, float]
    choices: Callable[[int, EntrySpec, Guarantee], SelectionCalibration]

    def planned(self, declared: Any, n: int) -> tuple[Any, StagedSelection]:
        """Divide the price, and calibrate choices and counts for their parts; takes no data.

        The counts see the coefficients, so that both compose as releases one after the other.
        """
        target = self.target
        if ROC not in self.shares:
            return declared, StagedSelection(target, self.choices(n, declared, target), None)
        parts = split(target, self.shares)
        require_usual(parts)
        choices = self.choices(n, declared, parts[COEFFICIENTS])
        return declared, StagedSelection(target, choices, calibrate_histogram(n, parts[ROC]))


def _method(
    loss: Any,
    target: Guarantee,
    shares: dict[str, float],
    choices: Callable[[int, EntrySpec, Guarantee], SelectionCalibration],
    release: Callable[[EntryRows, Any, Randomness], Selections],
) -> Choosing:
    """Set up choices of columns; `choices` calibrates them for their part of the price."""

    def choose(
        rows: EntryRows,
        calibration: StagedSelection,
        randomness: Randomness,
        *,
        expected: Callable[[Selections], ScoreScale],
        guarantee: Guarantee,
        entry: Entry | None,
    ) -> Selections:
        counts = calibration.histogram
        noise = None if counts is None else randomness.draw(counts.noise)
        choice = release(rows, calibration.choices, randomness)
        paid = replace(choice, guarantee=guarantee, entry=entry)
        if counts is None or noise is None:
            return paid
        return replace(paid, histogram=count_scores(rows, paid, expected(paid), counts, noise))

    return Choosing(
        loss=loss,
        target=target,
        draw=lambda _, randomness: randomness,  # each choice draws by itself
        release=choose,
        buys_roc=ROC in shares,
        shares=shares,
        choices=choices,
    )


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
