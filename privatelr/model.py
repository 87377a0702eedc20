"""The front door: R's names in, values inside, wiring only."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privatelr.arguments import suggests_arguments
from privatelr.design import project, projection_width, scale_by_data
from privatelr.errors import ArgumentError, PrivacyWarning, require_choice, require_number, show
from privatelr.mechanisms import (
    Facts,
    Request,
    calibrate_all,
    draw_all,
    find_mechanism,
    read_request,
    release_all,
    warn_of_one_record,
)
from privatelr.model_data import (
    plan_data,
    read_data,
    read_rows,
    require_plain,
    require_scores,
    warn_of_declarations,
)
from privatelr.numerics import Loss, find_hinge, find_loss, label
from privatelr.numerics.solve import Newton, Solver
from privatelr.privacy import Guarantee, NonPrivate, void
from privatelr.privacy.accounting import Account, account_with
from privatelr.privacy.noise import Randomness, SeededRandomness, SystemRandomness, normals
from privatelr.results import Fit, diagnose, read_threshold
from privatelr.sources import BoundsLike, LevelsLike, Schema, declare_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from privatelr.design import DesignSpec
    from privatelr.model_data import Data
    from privatelr.privacy import Event
    from privatelr.privacy.accounting import Entry


@dataclass(frozen=True, slots=True)
class Options:
    """Choices about the design and the computation, checked."""

    do_scale: bool
    rp_dim: int
    solver: Solver
    randomness: Randomness
    ledger: Account | None
    verbose: int


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
        never read off its values: a list, or a column of objects, is numbers where `bounds`
        declares it and categories where `levels` does, and X is no list. A cell that its
        column was not declared to hold, or whose type is neither Python's own nor NumPy's, is
        missing.
        The response is a comparison, a factor (first level against the others), a boolean,
        or the numbers 0 (or -1) and 1.
    eps : float or guarantee
        Total price: epsilon of pure differential privacy, or with `delta` of the approximate
        kind; 0 gives the plain fit, with its penalty. A guarantee in its place says all of it:
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
        0 for pure privacy; above it, from 1e-30 to 0.5, the approximate one, by Laplace or by
        Gaussian noise, whichever is less: Laplace in few columns, Gaussian in many. Take
        it far below 1/n.
    bounds : mapping, optional
        Variable to ``(lo, hi)``, public: ``{"age": (18, 90)}``. Values are clipped to it, and
        the column is mapped onto [-1, 1] inside.
    levels : mapping, optional
        Variable to its levels, public, reference first: ``{"smoker": ["no", "yes"]}``.
    row_norm : float, optional
        Public limit to the length of the columns without bounds together, 1 unless given; those
        with bounds are left alone. Where all have bounds or none has, of the covariates of a row.
    intercept_scale : float
        Constant in the intercept column of the design. The intercept is penalised too.
    spend : mapping or str, optional
        What the price is for: by default the coefficients; ``"inference"`` adds standard errors,
        tests and intervals too, with the usual shares; ``{"coefficients": 0.6, "inference":
        0.4}`` sets the shares.
    ledger : Ledger, optional
        Account to charge before the data is read; it refuses what it cannot cover. Inside
        ``with Ledger(...):`` that ledger is charged too, or alone if none is named.
    threshold : float or str
        Splits ``predict(type="classes")``: ``"fixed"`` (0.5), a number, or ``"youden"`` or
        ``"topleft"``, which are learned from the data and not private.
    do_scale : bool
        R's scaling by the data's own means and deviations. Voids the guarantee.
    rp_dim : int
        Number of random directions to project the covariates to; 0 for none, negative for
        R's rule.
    analysis : {None, "joint", "one-log", "cms11"}
        Proof by which objective perturbation gets its noise, by default the one with the least
        noise: ``"joint"`` here, which bounds slope and curvature of the loss together, where
        ``"one-log"`` adds their bounds up. ``"cms11"`` with its own lambda is R's.
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
    return _fit(
        find_loss("logistic"),
        read_data(formula, data, target),
        declare_schema(bounds, levels, row_norm, intercept_scale),
        read_request(eps, delta, spend, lambda_, op, analysis, on_small_lambda),
        _read_options(do_scale, rp_dim, na_action, solver, seed, ledger, verbose),
        threshold,
    )


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

    It minimises a smooth hinge loss where `dplr` minimises the logistic one, and is the same
    in everything else: data, public facts, guarantees, mechanisms, results.

    Parameters
    ----------
    formula, data, eps, lambda_, op
        As in `dplr`. Numbers as responses are 0 or -1 against 1.
    h : float
        Width of the bend of the hinge, from 1e-4 to 0.5: Huber's is from margin ``1 - h`` to
        ``1 + h``. A narrower bend has more curvature, ``1 / (2 h)`` for Huber and ``1 / (4 h)``
        for softplus, which under objective perturbation asks for a larger lambda.
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
    return _fit(
        find_hinge(loss, h),
        read_data(formula, data, target),
        declare_schema(bounds, levels, row_norm, intercept_scale),
        read_request(eps, delta, spend, lambda_, op, analysis, on_small_lambda),
        _read_options(do_scale, rp_dim, na_action, solver, seed, ledger, verbose),
        threshold,
    )


def _read_options(
    do_scale: Any,
    rp_dim: Any,
    na_action: Any,
    solver: Any,
    seed: Any,
    ledger: Any,
    verbose: Any,
) -> Options:
    why = "; records may not be dropped, because n is public"
    require_choice(ArgumentError, "na_action", na_action, ("zero",), why)
    if not isinstance(do_scale, bool):
        raise ArgumentError(f"do_scale={show(do_scale)}: do_scale takes True or False.")
    if not callable(solver) or isinstance(solver, type):
        raise ArgumentError(f"solver={show(solver)}: solver takes a minimiser such as Newton().")
    projection_width(rp_dim, 1)
    verbosity = require_number(
        ArgumentError,
        "verbose",
        int(verbose) if isinstance(verbose, bool) else verbose,
        "0 or 1",
        at_least=0,
    )
    return Options(
        do_scale, rp_dim, solver, read_randomness(seed), read_ledger(ledger), int(verbosity)
    )


def read_ledger(ledger: Any) -> Account | None:
    """The ledger of a call, and those whose blocks it stands in."""
    if ledger is not None and not isinstance(ledger, Account):
        raise ArgumentError(f"ledger={show(ledger)}: ledger takes a Ledger, or a part of one.")
    return account_with(ledger)


def read_randomness(seed: Any) -> Randomness:
    """The system's randomness, or for a seed what can be replayed and voids the guarantee."""
    if seed is None:
        return SystemRandomness()
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ArgumentError(f"seed={show(seed)}: seed takes None or a whole number from 0.")
    warnings.warn(
        f"seed={seed}: the noise can be replayed, so this fit has no privacy; leave seed=None for "
        "a release.",
        PrivacyWarning,
        stacklevel=5,
    )
    return SeededRandomness(int(seed))


def _fit(
    loss: Loss,
    source: tuple[str, Data],
    schema: Schema,
    request: Request,
    options: Options,
    threshold: Any,
) -> Fit:
    """Plan from public facts, calibrate, pay, draw, read the rows, release."""
    text, frame = source
    cut = read_threshold(threshold, loss)
    find_mechanism(request)  # refused before anything else is looked at
    require_plain(frame, do_scale=options.do_scale, rp_dim=options.rp_dim)
    spec: Any = plan_data(text, frame, schema)
    scored = require_scores(frame, cut.rule)
    guarantee = _standing(request.target, options)
    if isinstance(guarantee, NonPrivate):
        charge(options.ledger, guarantee, (), text)  # refused before the data is read
    if options.do_scale:
        spec = _scaled(spec, frame)
    spec = _projected(spec, options, len(frame))
    warn_of_one_record(guarantee, len(frame), stacklevel=4)
    plan = calibrate_all(request, Facts(len(frame), spec.d, loss, spec.radius, spec.blocks))
    warn_of_declarations(spec, frame, schema, stacklevel=4)
    if options.verbose:
        print(plan)
    entry = charge(options.ledger, guarantee, plan.events, label(spec.formula.text, loss))
    draws = draw_all(plan, options.randomness)
    with np.errstate(all="ignore"):  # an underflow is a fact about the data
        rows, tally = read_rows(spec, frame, bar=options.verbose > 0)
        release = release_all(rows, plan, draws, options.solver)
        diagnostics = diagnose(rows, release.coef, loss, spec, tally) if scored else None
    return Fit(spec, replace(release, guarantee=guarantee, entry=entry), cut, diagnostics)


def charge(
    ledger: Account | None, guarantee: Guarantee, events: tuple[Event, ...], label: str
) -> Entry | None:
    """Charge a ledger, if there is one; it refuses what it cannot cover."""
    return None if ledger is None else ledger.charge(guarantee, events, label)


def _scaled(spec: DesignSpec, frame: Any) -> DesignSpec:
    warnings.warn(
        "do_scale=True scales by means and deviations of the data, so the guarantee is void; "
        "declare bounds= instead.",
        PrivacyWarning,
        stacklevel=5,
    )
    return scale_by_data(spec, frame)[0]


def _projected(spec: DesignSpec, options: Options, n: int) -> DesignSpec:
    width = projection_width(options.rp_dim, n)
    if width > spec.p:
        warnings.warn(
            f"rp_dim={options.rp_dim}: {width} directions are more than the {spec.p} covariates, "
            "so nothing is projected.",
            PrivacyWarning,
            stacklevel=5,
        )
        return spec
    if width == 0:
        return spec
    return project(spec, normals(options.randomness, spec.p * width).reshape(spec.p, width))


def _standing(target: Guarantee, options: Options) -> Guarantee:
    """What is left of a guarantee after what the options did to its assumptions."""
    if isinstance(target, NonPrivate):
        return target
    if options.do_scale:
        return void("scaled by the data")
    return target if options.randomness.is_secret else void("seeded noise")
