"""`dplr`, `dpsvm`, `dpmultinom` and `check`: R's argument names in, values inside, wiring only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privatelr.arguments import suggests_arguments
from privatelr.call_data import DaskData, read_data
from privatelr.design import doubts, require_usable_response
from privatelr.errors import ArgumentError, SchemaError
from privatelr.fitting import fit, read_options
from privatelr.lazy_import import lazy_import
from privatelr.mechanisms import Request, read_request
from privatelr.method import Method, perturbation
from privatelr.numerics import Logistic, find_hinge
from privatelr.numerics.solve import Newton, Solver
from privatelr.privacy import Guarantee
from privatelr.privacy.accounting import AnyLedger
from privatelr.sources import BoundsLike, LevelsLike, Schema, declare_schema, totals

if TYPE_CHECKING:
    from privatelr import results
    from privatelr.results import DataCheck, Fit, multinomial_fit
    from privatelr.results.multinomial_fit import MultinomialFit
    from privatelr.results.release_files import release_file
else:
    release_file = lazy_import("privatelr.results.release_files.release_file")
    multinomial_fit = lazy_import("privatelr.results.multinomial_fit")
    results = lazy_import("privatelr.results")


@suggests_arguments
def dplr(
    formula: Any = None,
    data: Any = None,
    eps: float | Guarantee = 1.0,
    lambda_: float | str | None = None,
    op: bool = True,
    *,
    target: str | int | None = None,
    weights: str | None = None,
    subset: str | None = None,
    by: str | None = None,
    person: Any = None,
    records_per_person: int = 1,
    delta: float = 0.0,
    bounds: BoundsLike | None = None,
    levels: LevelsLike | None = None,
    row_norm: float | None = None,
    intercept_scale: float | None = None,
    spend: Mapping[str, float] | str | None = None,
    ledger: AnyLedger | None = None,
    threshold: float | str = "fixed",
    do_scale: bool | str | None = None,
    rp_dim: int = 0,
    prior: Any = None,
    analysis: str | None = None,
    on_small_lambda: str = "increase",
    na_action: str = "zero",
    solver: Solver = Newton(),
    seed: int | None = None,
    verbose: int = 0,
) -> Fit:
    """Differentially private logistic regression from an R formula.

    Parameters
    ----------
    formula, data
        ``dplr("y ~ age + dose", data)`` with a frame, a mapping of columns or a Dask frame; or a
        frame or an array alone, with `target`; or the response and the covariates,
        ``dplr(y, X)``, where X may be a SciPy sparse matrix, or both Dask arrays. A formula may
        have an ``offset(log(z))``, which costs no noise. Columns of an array are called X1, X2, and
        so on. In y, X, `person` and a mapping, rows belong together by position, whatever their
        index, because labels of rows are private. The type of a column is public, and never read
        off its values: a list, or a column of objects, is numeric if `bounds` declares it and
        categorical if `levels` does. X cannot be a list. A cell counts as missing if it does not
        fit the declaration of its column, or if its type is neither Python's own nor NumPy's.
        The response is a comparison with one of the declared levels, a factor (first level against
        the others), a boolean, or a column of two declared numbers, ``levels={"y": [0, 1]}``.
    eps : float or guarantee
        Total price: epsilon of pure differential privacy, or with `delta` of the approximate
        kind; 0 gives the plain fit, with its penalty. Or a guarantee: ``eps=ZCDP(0.1)``.
    lambda_ : float or str, optional
        Penalty of the mean objective ``(1/n) sum loss + (lambda_/2) |w|**2``. By default, and
        for ``"free"`` and ``"PrivateLR"``, chosen from public facts; see ``fit.calibration``.
    op : bool
        True for objective perturbation, False for output perturbation.
    target : str or int, optional
        Response column of a frame or an array, by name or position from 0; by default the last.
    weights : str, optional
        Column, or expression of columns such as ``"1 / p"``, of how much a record counts: as much
        as its weight over the largest that `bounds` allow, whatever others have; 0 if that is
        missing or not positive. The same as ``weights(1 / p)`` in the formula; no dot means it.
    subset : str, optional
        Condition on declared columns, such as ``"age > 50"``. Other records are rows of zeros, and
        belong to n, which is public, as the size of the subset is not.
    by : str, optional
        Column with declared levels, such as ``"sex"``, each of which gets a fit of its own: the
        result is `Strata`, as ``fits["female"]``. Records of other levels are rows of zeros. All
        fits together have the guarantee that is asked for and cost what one fit does, since a
        record counts in one of them. The same as ``by(sex)`` in the formula; no dot means it.
    person : str or array of shape (n,), optional
        Column that tells persons apart, if they may have several records: numbers, texts, booleans
        or categories, which are compared for equality; beside ``(y, X)`` also the values
        themselves, in an array, a Series or a list; a ledger takes a Series that has the name of
        the column. The guarantee is then about neighbours that
        replace all records of one person (``eps=PureDP(1, neighbours=...)`` takes the same), and
        the number of persons is public, while that of records is not. All records whose person is
        missing are of one person. In a column of objects, texts, numbers and booleans tell persons
        apart. All other cells count as missing, because types of cells are private. The same as
        ``person(patient, 4)`` in the formula, with the number of the next argument.
    records_per_person : int
        A record counts as much as one of so many, or of all records of its person if these are
        more: with 1, every person counts once, by the mean over their records.
    delta : float
        0 for pure privacy. A number from 1e-30 to 0.5, far below 1/n, asks for approximate privacy,
        by Laplace or Gaussian noise, whichever is less: Laplace in few columns, Gaussian in many.
    bounds : mapping, optional
        Maps variables to public intervals: ``{"age": (18, 90)}``. Values are clipped to the
        interval, and the column is mapped onto [-1, 1] internally.
    levels : mapping, optional
        Maps variables to their public levels, reference first: ``{"smoker": ["no", "yes"]}``.
    row_norm : float, optional
        Public limit on the length of the columns without bounds together, in their own units, by
        default 1; columns with bounds stay unchanged. If all have bounds it limits all covariates
        of a row, in units of half the width of each. With ``do_scale="private"`` (or a share for
        it) it is in lengths of a typical row, 1 to 3 of which are usual; without, the scale of
        columns is not released.
    intercept_scale : float, optional
        Constant in the intercept column, which is penalised, too; by default 0.5. With a released
        scale it is in lengths of a row: 1 under pure epsilon, else 0.25 (0.5 with inference).
    spend : mapping or str, optional
        What the price pays for. By default only the coefficients; ``"inference"`` adds standard
        errors, tests and intervals, with the usual shares; ``{"coefficients": 0.6, "inference":
        0.4}`` sets the shares, with one of ``"scale"`` and ``"lengths"`` where these are released,
        and one of ``"roc"`` for ``fit.roc``, a ROC curve of the training data. Next to written
        shares, a tenth of the coefficients' share goes to the scale and a twentieth to the length
        of rows, where they are released; ``do_scale=False`` leaves both out. Under an
        (epsilon, delta), shares are of mu squared, or of epsilon where Laplace noise leaves the
        coefficients less noise.
    ledger : Ledger or path, optional
        Account to charge before the data is read, beside that of ``with Ledger(...):`` around the
        call; it refuses what it cannot cover.
    threshold : float or str
        Splits ``predict(type="classes")``: ``"fixed"`` (0.5), a number, or ``"youden"`` or
        ``"topleft"``, which are learned from the data and not private, unless `spend` buys "roc".
    do_scale : {None, "private", False, True}
        ``"private"`` releases noisy means and second moments of the columns first, for a tenth of
        the price, and then, for a twentieth, the length that few rows exceed. It centres, scales
        and bounds the rows by them: ``fit.scale`` has them. The rest
        is then worth more wherever values fill only a part of their bounds, which every variable
        needs. None does so if the noise on a mean, which is public, is at most .04 (or .1 if it is
        Gaussian, or .25 where intervals are bought) of half the width of its bounds; not with
        `row_norm`, `rp_dim`, ``analysis="cms11"``, or shares without ``"scale"`` or ``"roc"``.
        ``"private"`` or a share of the price force it, beside all of these but `rp_dim`. False
        leaves it out. True is R's scaling by the data's own, which voids the guarantee.
    rp_dim : int
        Number of random directions to project the covariates to; 0 for none, negative for
        R's rule.
    prior : mapping, fit or path, optional
        Coefficients to which the penalty draws, instead of 0, in the units of the columns: such as
        ``{"age": 0.03, "(Intercept)": -3.5}`` from the literature, or those of an earlier fit or of
        a file that `Fit.save` wrote, which were paid for then. They are public, and add no noise.
        ``{"age": (0.03, 0.01)}`` has a standard deviation, too: the penalty on that coefficient is
        the larger one of Lambda and ``1 / sd**2``. An earlier fit gives its coefficients alone.
    analysis : {None, "joint", "one-log", "cms11"}
        Proof that calibrates the noise of objective perturbation. ``"joint"``, by default, bounds
        slope and curvature together, ``"one-log"`` adds their bounds up, and R uses ``"cms11"``.
    on_small_lambda : {"increase", "keep"}
        Whether a lambda that costs privacy is raised (which is free) or kept.
    na_action : {"zero"}
        A record that cannot be used becomes a row of zeros; dropping it would change n.
    solver
        Minimiser; ``Newton(tolerance=1e-10)``.
    seed : int, optional
        Repeats the noise, for tests and teaching. Voids the guarantee.
    verbose : int
        1 prints the calibration, which is public, before the fit.

    Returns
    -------
    Fit, or Strata with `by`

    Raises
    ------
    FormulaError, SchemaError, GuaranteeError, ArgumentError
        One sentence each, on public facts only.
    NotConvergedError
        If the plain fit of ``eps=0`` was not certified. A private fit never raises for the data.

    Notes
    -----
    **Privacy.** *Covered*: ``fit.coef`` and what is computed from it, by ``fit.guarantee``.
    *Neighbours*: datasets of the same n that differ in one record,
    or with `person` of as many persons that differ in the records of one of them.
    *Assumed public*: n (or the number of persons), names, types, declared bounds and levels, and
    every argument.
    *Not covered*: ``fit.diagnostics``, a learned threshold, time and memory.

    Examples
    --------
    >>> from privatelr import dplr, load_dataset, load_schema
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ age + selfLR", votes, eps=1.0, **public)
    >>> print(fit.guarantee)
    epsilon = 1 (pure)
    >>> list(fit.coef.index)
    ['(Intercept)', 'age', 'selfLR']
    """
    given = {"weights": weights, "subset": subset, "by": by, "person": person}
    source = read_data(formula, data, target, **given, records_per_person=records_per_person)
    price = spend, lambda_, op, analysis, on_small_lambda
    request = read_request(eps, delta, *price, source.neighbours)
    schema = declare_schema(bounds, levels, row_norm, intercept_scale)
    chosen = na_action, seed, ledger, verbose, threshold, do_scale, rp_dim, prior
    options = read_options(*chosen)
    asked = options.do_scale, options.rp_dim, solver, options.prior
    method = perturbation(Logistic(), request, schema, *asked)
    return fit(results.Fit, method, source, schema, options)


@suggests_arguments
def dpsvm(
    formula: Any = None,
    data: Any = None,
    eps: float | Guarantee = 1.0,
    lambda_: float | str | None = None,
    op: bool = True,
    *,
    h: float = 0.5,
    loss: str | None = None,
    target: str | int | None = None,
    weights: str | None = None,
    subset: str | None = None,
    by: str | None = None,
    person: Any = None,
    records_per_person: int = 1,
    delta: float = 0.0,
    bounds: BoundsLike | None = None,
    levels: LevelsLike | None = None,
    row_norm: float | None = None,
    intercept_scale: float | None = None,
    spend: Mapping[str, float] | str | None = None,
    ledger: AnyLedger | None = None,
    threshold: float | str = "fixed",
    do_scale: bool | str | None = None,
    rp_dim: int = 0,
    prior: Any = None,
    analysis: str | None = None,
    on_small_lambda: str = "increase",
    na_action: str = "zero",
    solver: Solver = Newton(),
    seed: int | None = None,
    verbose: int = 0,
) -> Fit:
    """Differentially private linear support vector machine from an R formula.

    It minimises a smooth hinge loss instead of the logistic loss of `dplr`. Data, public facts,
    guarantees, mechanisms and results are the same.

    Parameters
    ----------
    formula, data, eps, lambda_, op
        As in `dplr`.
    h : float
        Width of the bend of the hinge, from 1e-4 to 0.5: the Huber loss bends from margin
        ``1 - h`` to ``1 + h``. A narrower bend has more curvature, ``1 / (2 h)`` for Huber and
        ``1 / (4 h)`` for softplus, so objective perturbation needs a larger lambda.
    loss : {"softplus", "huber"}, optional
        ``"softplus"`` bends the hinge by ``h log(1 + exp((1 - z) / h))``, and classifies better
        where epsilon is small. ``"huber"`` bends it by a parabola, as the published programs do,
        and is the default where nothing is private and for ``analysis="cms11"``.
    threshold : float or str
        As in `dplr`, but ``"fixed"`` is a margin of 0, and a number is a margin.
    analysis : {None, "joint", "one-log", "cms11"}
        As in `dplr`; by default ``"one-log"`` for the Huber loss, where it is exact, and
        ``"joint"`` for softplus.
    target, weights, subset, by, person, records_per_person, delta, bounds, levels, row_norm
        As in `dplr`.
    intercept_scale, spend, ledger, do_scale, rp_dim, on_small_lambda, na_action, solver
        As in `dplr`.
    prior
        As in `dplr`; an earlier fit has the same loss. A plain one takes ``loss="softplus"`` to be
        the prior of a private one.
    seed, verbose
        As in `dplr`.

    Returns
    -------
    Fit
        It predicts ``"classes"`` and ``"margins"``, and has no probabilities and no odds ratios.

    Raises
    ------
    FormulaError, SchemaError, GuaranteeError, ArgumentError, NotConvergedError
        As `dplr`.

    Notes
    -----
    **Privacy.** *Covered*: ``fit.coef`` and all that is computed from it, by
    ``fit.guarantee``. *Neighbours* and *assumed public*: as for `dplr`.
    *Not covered*: ``fit.diagnostics``, a learned threshold, time and memory.

    Examples
    --------
    >>> from privatelr import dpsvm, load_dataset, load_schema
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dpsvm("vote ~ age + selfLR", votes, eps=1.0, **public)
    >>> {*fit.predict(votes, type="classes")} <= {"Clinton", "Dole"}
    True
    """
    given = {"weights": weights, "subset": subset, "by": by, "person": person}
    source = read_data(formula, data, target, **given, records_per_person=records_per_person)
    price = spend, lambda_, op, analysis, on_small_lambda
    request = read_request(eps, delta, *price, source.neighbours)
    found = find_hinge(loss, h, as_published=request.is_published)
    schema = declare_schema(bounds, levels, row_norm, intercept_scale)
    chosen = na_action, seed, ledger, verbose, threshold, do_scale, rp_dim, prior
    options = read_options(*chosen)
    asked = options.do_scale, options.rp_dim, solver, options.prior
    method = perturbation(found, request, schema, *asked)
    return fit(results.Fit, method, source, schema, options)


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
    return fit(multinomial_fit.MultinomialFit, method, source, schema, options)


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


@suggests_arguments
def check(
    formula: Any = None,
    data: Any = None,
    *,
    target: str | int | None = None,
    weights: str | None = None,
    subset: str | None = None,
    by: str | None = None,
    person: Any = None,
    records_per_person: int = 1,
    bounds: BoundsLike | None = None,
    levels: LevelsLike | None = None,
    row_norm: float | None = None,
    intercept_scale: float | None = None,
) -> DataCheck:
    """Count the values that a fit would use; the result is not private, and for the analyst only.

    A fit spends its budget even if the bounds are in other units, or no value is a declared level.

    Parameters
    ----------
    formula, data, target, weights, subset, by, person, records_per_person
        As in `dplr`, except that Dask collections are not counted. The same functions read them.
    bounds, levels, row_norm, intercept_scale
        As in `dplr`.

    Returns
    -------
    DataCheck
        A page. Its ``table`` counts for each variable the values that are usable, missing (or not
        finite), outside the bounds (these would be clipped) and undeclared. Its ``classes`` counts
        the usable records of both classes, its ``strata`` those of each stratum, and its
        ``persons`` those who have records, with the largest number of records of one of them. It
        cannot be saved.

    Raises
    ------
    FormulaError, SchemaError
        In the same cases as `dplr`; the messages depend on public facts only. Three or more numbers
        are classes of `dpmultinom`.

    Notes
    -----
    **Privacy.** *Covered*: nothing; every number is exact, no noise is drawn and no ledger is
    charged. *Neighbours*: every number may change with one record. *Assumed public*: n, names,
    types, declared bounds and levels. *Not covered*: all of the result, as its type and its page
    say: it must not be published, and choices that follow from it (bounds, levels, a formula) are
    not covered by a guarantee.

    Examples
    --------
    >>> from privatelr import check, load_dataset, load_schema
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> check("vote ~ age + selfLR", votes, **public).classes.to_dict()
    {'Clinton': 551, 'Dole': 393}
    """
    schema = declare_schema(bounds, levels, row_norm, intercept_scale)
    given = {"weights": weights, "subset": subset, "by": by, "person": person}
    source = read_data(formula, data, target, **given, records_per_person=records_per_person)
    if isinstance(source, DaskData) and source.table.person is not None:
        raise SchemaError(
            "data is a Dask collection, whose persons check does not count; hand over "
            "data.compute().reset_index(), whose persons are a column."
        )
    spec = source.plan(schema)
    require_usable_response(spec.response)
    release_file.require_writable(spec)
    with np.errstate(all="ignore"):  # a warning about an underflow would reveal data
        source = source.held(spec)
        n, negative, positive, tally = source.counted(spec)
        strata = dict[str, tuple[int, int]]()
        if divided := spec.formula.by:
            for level in spec.variables[divided.column].levels:
                strata[f"{divided.column} = {level}"] = source.counted(spec.at_level(level))[1:3]
    found = None if tally is None else totals(tally)
    counts = results.DataCounts(n, negative, positive, spec.response, spec.variables, found)
    persons = results.count_persons(source.owners, spec.formula.person)
    doubtful = tuple(doubts(spec, source.batch, schema))
    return results.DataCheck(spec.formula, counts, doubtful, persons, strata)
