"""`dpmultinom`, for several classes: R's argument names in, values inside, wiring only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from privatelr.arguments import suggests_arguments
from privatelr.call_data import read_data
from privatelr.errors import ArgumentError
from privatelr.fitting import fit, read_options
from privatelr.mechanisms import Request, read_request
from privatelr.method import Method, perturbation
from privatelr.numerics import Logistic
from privatelr.privacy import Guarantee
from privatelr.privacy.accounting import AnyLedger
from privatelr.results.multinomial_fit import MultinomialFit
from privatelr.sources import BoundsLike, LevelsLike, Schema, declare_schema


@suggests_arguments
def dpmultinom(
    formula: Any = None,
    data: Any = None,
    eps: float | Guarantee = 1.0,
    lambda_: float | str | None = None,
    op: bool = True,
    *,
    target: str | int | None = None,
    weights: str | None = None,
    subset: str | None = None,
    person: Any = None,
    records_per_person: int = 1,
    delta: float = 0.0,
    bounds: BoundsLike | None = None,
    levels: LevelsLike | None = None,
    row_norm: float | None = None,
    intercept_scale: float | None = None,
    spend: Mapping[str, float] | None = None,
    ledger: AnyLedger | None = None,
    do_scale: bool | str | None = None,
    rp_dim: int = 0,
    analysis: str | None = None,
    on_small_lambda: str = "increase",
    na_action: str = "zero",
    seed: int | None = None,
    verbose: int = 0,
) -> MultinomialFit:
    """Differentially private multinomial logistic regression, for three or more classes.

    It minimises the softmax objective of all classes together, which a record changes less than as
    many fits of one class against the others: the noise does not grow with the number of classes.

    Parameters
    ----------
    formula, data, target
        As in `dplr`. The response is a column of three or more declared levels, reference first:
        of a categorical type, or named in `levels`. Levels in an order are refused, as the model
        would ignore it. A record of another level is a row of zeros. A formula takes no
        offset.
    eps, delta
        Total price, as in `dplr`; 0 gives the plain fit, with its penalty.
    lambda_ : float or str, optional
        Penalty of the mean objective, half of its sum over the squares of the coefficients of *all*
        classes. As differences of two classes are what counts, they are penalised half as much.
    op : bool
        True for objective perturbation, False for output perturbation.
    weights, subset, person, records_per_person, bounds, levels, row_norm, intercept_scale
        As in `dplr`.
    spend : mapping, optional
        Shares of ``"coefficients"`` and ``"scale"``; inference and ROC curves are not built.
    ledger, do_scale, rp_dim, na_action, seed, verbose
        As in `dplr`.
    analysis : {None, "joint", "one-log"}
        As in `dplr`.
    on_small_lambda : {"increase", "keep"}
        As in `dplr`. No penalty makes the curvature of three or more classes free; the automatic
        one leaves nine tenths of the rate of the noise.

    Returns
    -------
    MultinomialFit

    Raises
    ------
    FormulaError, SchemaError, GuaranteeError, ArgumentError
        One sentence each, on public facts only.
    NotConvergedError
        If the plain fit of ``eps=0`` was not certified. A private fit never raises for the data.

    Notes
    -----
    **Privacy.** *Covered*: ``fit.coef`` and what is computed from it, by ``fit.guarantee``.
    *Neighbours*: datasets of the same n that differ in one record, or with `person` of as many
    persons that differ in the records of one of them. *Assumed public*: n (or the number of
    persons), names, types, declared bounds and levels, and every argument. *Not covered*: time and
    memory.

    Examples
    --------
    >>> from privatelr import dpmultinom, load_dataset, load_schema
    >>> iris, public = load_dataset("iris"), load_schema("iris")
    >>> fit = dpmultinom("Species ~ .", iris, eps=4.0, **public)
    >>> list(fit.coef.columns)
    ['versicolor', 'virginica']
    """
    given = {"weights": weights, "subset": subset, "person": person}
    source = read_data(formula, data, target, **given, records_per_person=records_per_person)
    price = spend, lambda_, op, analysis, on_small_lambda
    request = read_request(eps, delta, *price, source.neighbours)
    schema = declare_schema(bounds, levels, row_norm, intercept_scale)
    chosen = na_action, seed, ledger, verbose, "fixed", do_scale, rp_dim
    options = read_options(*chosen)
    method = several_classes(request, schema, options.do_scale, options.rp_dim)
    return fit(MultinomialFit, method, source, schema, options)


def several_classes(
    request: Request, schema: Schema, do_scale: bool | str | None, rp_dim: int = 0
) -> Method:
    """Set up the softmax of several classes; refuses what is not proven for it."""
    if request.buys_intervals or request.buys_roc:
        asked = "inference" if request.buys_intervals else "roc"
        raise ArgumentError(
            f"spend: {asked!r} is not built for several classes; dpmultinom takes 'coefficients' "
            "and 'scale', and dplr of one class against the others takes all."
        )
    if request.analysis == "cms11":
        raise ArgumentError(
            "analysis='cms11': that bound is about two classes; dpmultinom takes 'joint' or "
            "'one-log'."
        )
    found = perturbation(Logistic(), request, schema, do_scale, rp_dim)
    return replace(found, by_class=True)
