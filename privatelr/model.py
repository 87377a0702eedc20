"""`dplr` and `dpsvm`: they take R's argument names and call the functions that do the work."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from privatelr.arguments import suggests_arguments
from privatelr.errors import ArgumentError, show
from privatelr.fitting import Method, fit, read_options
from privatelr.mechanisms import (
    Problem,
    Request,
    calibrate_all,
    draw_all,
    find_mechanism,
    read_request,
    release_all,
)
from privatelr.model_data import read_data
from privatelr.numerics import Loss, find_hinge, find_loss
from privatelr.numerics.solve import Newton, Solver
from privatelr.privacy import Guarantee
from privatelr.privacy.accounting import Account
from privatelr.results import Fit
from privatelr.sources import BoundsLike, LevelsLike, declare_schema


@suggests_arguments
def dplr(
    formula: Any = None,
    data: Any = None,
    eps: float | Guarantee = 1.0,
    lambda_: float | str | None = None,
    op: bool = True,
    *,
    target: str | int | None = None,
    delta: float = 0.0,
    bounds: BoundsLike | None = None,
    levels: LevelsLike | None = None,
    row_norm: float | None = None,
    intercept_scale: float = 0.5,
    spend: Mapping[str, float] | str | None = None,
    ledger: Account | None = None,
    threshold: float | str = "fixed",
    do_scale: bool = False,
    rp_dim: int = 0,
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
        ``dplr(y, X)``, where X may be a SciPy sparse matrix, or both Dask arrays.
        Columns of an array are called X1, X2, and so on. The type of a column is public, and
        never read off its values: a list, or a column of objects, is numeric if `bounds` declares
        it and categorical if `levels` does. X cannot be a list. A cell counts as missing if it
        does not fit the declaration of its column, or if its type is neither Python's own nor
        NumPy's.
        The response is a comparison, a factor (first level against the others), a boolean,
        or the numbers 0 (or -1) and 1.
    eps : float or guarantee
        Total price: epsilon of pure differential privacy, or with `delta` of the approximate
        kind; 0 gives the plain fit, with its penalty. A guarantee may be given instead:
        ``eps=ZCDP(0.1)``.
    lambda_ : float or str, optional
        Penalty of the mean objective ``(1/n) sum loss + (lambda_/2) |w|**2``. By default, and
        for the names ``"free"`` and ``"PrivateLR"``, chosen from public facts; see
        ``fit.calibration``.
    op : bool
        True for objective perturbation, False for output perturbation.
    target : str or int, optional
        Response column of a frame or an array, by name or position from 0; by default the
        last.
    delta : float
        0 for pure privacy. A number from 1e-30 to 0.5 asks for approximate privacy, by Laplace or
        Gaussian noise, whichever is less: Laplace in few columns, Gaussian in many. Choose it far
        below 1/n.
    bounds : mapping, optional
        Maps variables to public intervals: ``{"age": (18, 90)}``. Values are clipped to the
        interval, and the column is mapped onto [-1, 1] internally.
    levels : mapping, optional
        Maps variables to their public levels, reference first: ``{"smoker": ["no", "yes"]}``.
    row_norm : float, optional
        Public limit on the length of the columns without bounds together, by default 1; columns
        with bounds stay unchanged. If all columns have bounds or none has, the limit is on the
        length of all covariates of a row.
    intercept_scale : float
        Constant in the intercept column of the design. The intercept is penalised too.
    spend : mapping or str, optional
        What the price pays for. By default only the coefficients; ``"inference"`` adds standard
        errors, tests and intervals, with the usual shares; ``{"coefficients": 0.6, "inference":
        0.4}`` sets the shares.
    ledger : Ledger, optional
        Account to charge before the data is read; it refuses a charge that it cannot cover.
        Inside ``with Ledger(...):`` the ledger of the block is charged, too.
    threshold : float or str
        Splits ``predict(type="classes")``: ``"fixed"`` (0.5), a number, or ``"youden"`` or
        ``"topleft"``, which are learned from the data and not private.
    do_scale : bool
        R's scaling by the data's own means and deviations. Voids the guarantee.
    rp_dim : int
        Number of random directions to project the covariates to; 0 for none, negative for
        R's rule.
    analysis : {None, "joint", "one-log", "cms11"}
        Proof that calibrates the noise of objective perturbation; by default the one with the
        least noise. That is ``"joint"`` here, which bounds slope and curvature of the loss
        together; ``"one-log"`` adds their bounds up. R uses ``"cms11"``, with its own lambda.
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
    Fit

    Raises
    ------
    FormulaError, SchemaError, GuaranteeError, ArgumentError
        One sentence each, on public facts only.
    NotConvergedError
        If the plain fit of ``eps=0`` was not certified. A private fit never raises for the data.

    Notes
    -----
    **Privacy.** *Covered*: ``fit.coef`` and all that is computed from it, by
    ``fit.guarantee``. *Neighbours*: datasets of the same n that differ in one record.
    *Assumed public*: n, names, types, declared bounds and levels, and every argument.
    *Not covered*: ``fit.diagnostics``, a learned threshold, time and memory.
    """
    found = find_loss("logistic")
    source = read_data(formula, data, target)
    schema = declare_schema(bounds, levels, row_norm, intercept_scale)
    request = read_request(eps, delta, spend, lambda_, op, analysis, on_small_lambda)
    options = read_options(na_action, seed, ledger, verbose, threshold, do_scale, rp_dim)
    return fit(_perturbation(found, request, solver), source, schema, options)


@suggests_arguments
def dpsvm(
    formula: Any = None,
    data: Any = None,
    eps: float | Guarantee = 1.0,
    lambda_: float | str | None = None,
    op: bool = True,
    *,
    h: float = 0.5,
    loss: str = "huber",
    target: str | int | None = None,
    delta: float = 0.0,
    bounds: BoundsLike | None = None,
    levels: LevelsLike | None = None,
    row_norm: float | None = None,
    intercept_scale: float = 0.5,
    spend: Mapping[str, float] | str | None = None,
    ledger: Account | None = None,
    threshold: float | str = "fixed",
    do_scale: bool = False,
    rp_dim: int = 0,
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
        As in `dplr`. Numbers as responses are 0 or -1 against 1.
    h : float
        Width of the bend of the hinge, from 1e-4 to 0.5: the Huber loss bends from margin
        ``1 - h`` to ``1 + h``. A narrower bend has more curvature, ``1 / (2 h)`` for Huber and
        ``1 / (4 h)`` for softplus, so objective perturbation needs a larger lambda.
    loss : {"huber", "softplus"}
        ``"huber"`` bends the hinge by a parabola, as the published programs do;
        ``"softplus"`` by ``h log(1 + exp((1 - z) / h))``, whose automatic lambda adds nothing to
        the noise, and which classifies better where epsilon is small.
    threshold : float or str
        Splits ``predict(type="classes")``: ``"fixed"`` (a margin of 0), a number, which is a
        margin, or ``"youden"`` or ``"topleft"``, which are learned from the data and not
        private.
    analysis : {None, "joint", "one-log", "cms11"}
        As in `dplr`; by default ``"one-log"`` for the Huber loss, where it is exact, and
        ``"joint"`` for softplus.
    target, delta, bounds, levels, row_norm, intercept_scale, spend, ledger, do_scale, rp_dim
        As in `dplr`.
    on_small_lambda, na_action, solver, seed, verbose
        As in `dplr`.

    Returns
    -------
    Fit
        It predicts ``"classes"`` and ``"margins"``. There are no probabilities, and no odds
        ratios.

    Raises
    ------
    FormulaError, SchemaError, GuaranteeError, ArgumentError, NotConvergedError
        As `dplr`.

    Notes
    -----
    **Privacy.** *Covered*: ``fit.coef`` and all that is computed from it, by
    ``fit.guarantee``. *Neighbours*: datasets of the same n that differ in one record.
    *Assumed public*: n, names, types, declared bounds and levels, and every argument.
    *Not covered*: ``fit.diagnostics``, a learned threshold, time and memory.
    """
    found = find_hinge(loss, h)
    source = read_data(formula, data, target)
    schema = declare_schema(bounds, levels, row_norm, intercept_scale)
    request = read_request(eps, delta, spend, lambda_, op, analysis, on_small_lambda)
    options = read_options(na_action, seed, ledger, verbose, threshold, do_scale, rp_dim)
    return fit(_perturbation(found, request, solver), source, schema, options)


def _perturbation(loss: Loss, request: Request, solver: Any) -> Method[Fit]:
    """Set up objective or output perturbation; refuses choices that no theorem covers."""
    if not callable(solver) or isinstance(solver, type):
        raise ArgumentError(f"solver={show(solver)}: solver takes a minimiser such as Newton().")
    find_mechanism(request)

    def facts(n: int, spec: Any) -> Problem:
        return Problem(n, spec.d, loss, spec.radius, spec.blocks)

    calibrate, release = partial(calibrate_all, request), partial(release_all, solver=solver)
    return Method(Fit, loss, request.target, facts, calibrate, draw_all, release)
