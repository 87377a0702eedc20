"""Parametric bootstrap: intervals from a release and a public law of the covariates alone.

Records are simulated from the released model, the whole mechanism is run on them at the same
calibration, and how far its output falls from the truth of the simulated world says how far the
release may be from its own (Ferrando, Wang and Sheldon 2022). No record is looked at again, so
it costs nothing, whatever the number of simulations. It rests on the model: where labels do not
follow it, or covariates not the given law, the intervals do not hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from privatelr.errors import ArgumentError, SchemaError, require_number, show
from privatelr.frames.design import read_covariates
from privatelr.frames.source import as_frame
from privatelr.inference.choices import read_level, read_target
from privatelr.inference.error_law import PUBLIC_SEED
from privatelr.inference.intervals import STANDARD_LEVEL, Inference
from privatelr.inference.worlds import World, population_minimiser, simulated, unshrunk
from privatelr.numerics.limits import bounded_rows, held_in_blocks

if TYPE_CHECKING:
    from privatelr.frames.design import DesignSpec
    from privatelr.frames.variables import Variable
    from privatelr.mechanisms.problem import Problem
    from privatelr.mechanisms.release import Release
    from privatelr.types import FloatArray

REPLICATES = 400
_FEWEST, _MOST = 100, 100_000
_POOL = 5000
"""Rows that stand for the law of the covariates."""


def bootstrap_intervals(
    release: Release,
    spec: DesignSpec,
    contrasts: FloatArray,
    covariates: Any,
    *,
    null: FloatArray | None = None,
    level: float = STANDARD_LEVEL,
    target: str = "penalised",
    replicates: int = REPLICATES,
) -> Inference:
    """Intervals and tests of combinations of the design coefficients, by simulation.

    Parameters
    ----------
    release : Release
        Of a model with probabilities; moments are not needed.
    spec : DesignSpec
        How covariates become design rows.
    contrasts : ndarray of shape (m, d)
    covariates
        A public frame whose rows are resampled, or ``"uniform"``: each variable uniform on its
        declared bounds or levels, and independent of the others.
    null : ndarray of shape (m,), optional
        Values to test; by default 0.
    level : float
        Of confidence.
    target : {"penalised", "unpenalised"}
        The minimiser of the expected objective, in a world that follows the released model; or
        the coefficients of the model itself, in the world whose minimiser was released.
    replicates : int
        Samples that are simulated; the same ones at every call.

    Raises
    ------
    ArgumentError
        If the model has no probabilities, or there is no such choice.
    GuaranteeError
        If the penalty shrinks too much for the unpenalised target.
    SchemaError
        If there is nothing to draw covariates from.

    Notes
    -----
    **Privacy.** *Covered*: a function of the release and of what is public, free to repeat.
    *Neighbours*: those of the release. *Assumed public*: `covariates`, declared bounds and
    levels. *Not covered*: `covariates`, if they are the records of the fit or made from them.
    """
    _require_model(release.calibration.problem)
    target = read_target(target)
    sure, count = read_level(level), _read_replicates(replicates)
    world = World(_pool(spec, covariates), release.coef, release)
    if target == "unpenalised":
        world, carry = unshrunk(world)
        truth = release.coef
    else:
        truth, carry = population_minimiser(world), np.eye(len(release.coef))
    minimisers, released = simulated(world, count)
    combined = np.atleast_2d(np.asarray(contrasts, dtype=np.float64))
    values = np.zeros(len(combined)) if null is None else np.asarray(null, dtype=np.float64)
    estimate, carried = combined @ world.model, (combined @ carry).T
    errors = (released - truth) @ carried
    low, high = np.quantile(errors, [(1 - sure) / 2, (1 + sure) / 2], axis=0, method="weibull")
    return Inference(
        estimate=estimate,
        null=values,
        sampling_sd=((minimisers - truth) @ carried).std(axis=0),
        privacy_sd=((released - minimisers) @ carried).std(axis=0),
        lower=estimate - high,
        upper=estimate - low,
        p_value=_p_values(errors, estimate - values),
        level=sure,
        mode="bootstrap",
        target=target,
        method="bootstrap",
    )


def _require_model(problem: Problem) -> None:
    loss = problem.loss
    if loss.probability is None:
        raise ArgumentError(
            f"method='bootstrap': a {loss.title} says nothing of how labels arise, so there is no "
            "model to simulate; take method='sandwich', or fit with dplr."
        )


def _read_replicates(replicates: Any) -> int:
    takes = f"a whole number from {_FEWEST} to {_MOST}"
    limits = {"at_least": _FEWEST, "at_most": _MOST}
    number = require_number(ArgumentError, "replicates", replicates, takes, **limits)
    if not number.is_integer():
        raise ArgumentError(f"replicates={number:g}: replicates takes {takes}.")
    return int(number)


def _p_values(errors: FloatArray, off: FloatArray) -> FloatArray:
    """Two-sided p-values ``(m,)`` that agree with the quantiles of errors ``(B, m)``."""
    at_least = 1 + (errors >= off).sum(axis=0)
    at_most = 1 + (errors <= off).sum(axis=0)
    return np.asarray(np.minimum(1.0, 2 * np.minimum(at_least, at_most) / (1 + len(errors))))


def _pool(spec: DesignSpec, covariates: Any) -> FloatArray:
    """Design rows ``(q, d)`` that stand for the law of the covariates."""
    named = isinstance(covariates, str) and covariates != "uniform"
    if named or covariates is None or isinstance(covariates, int | float):
        raise ArgumentError(
            f"covariates={show(covariates)}: method='bootstrap' simulates records; covariates "
            "takes a public frame to resample, or 'uniform' for the declared bounds and levels."
        )
    rng = np.random.default_rng(PUBLIC_SEED)
    names = spec.formula.covariates
    if isinstance(covariates, str):
        frame = pd.DataFrame(
            {name: _uniform(spec.variables[name], rng) for name in names}, index=range(_POOL)
        )
    else:
        frame = as_frame(covariates)
        if len(frame) > _POOL:
            frame = frame.iloc[rng.choice(len(frame), _POOL, replace=False)]
    raw, usable, _ = read_covariates(spec, frame, names)
    if not usable.any():
        raise SchemaError(
            "covariates: no row has usable values of all variables; missing values and undeclared "
            "levels are not usable."
        )
    rows = bounded_rows(raw[usable], spec.bound, spec.intercept, spec.projection, spec.blocks)
    return held_in_blocks(rows, spec.blocks) if spec.blocks else rows


def _uniform(variable: Variable, rng: np.random.Generator) -> Any:
    """Values ``(q,)`` of a variable; raises `SchemaError` where it has no bounds or levels."""
    if variable.levels:
        codes = rng.integers(len(variable.levels), size=_POOL)
        return pd.Categorical.from_codes(codes, categories=list(variable.levels))
    if variable.kind == "text" or not variable.is_bounded:
        lacks = "levels" if variable.kind == "text" else "bounds"
        raise SchemaError(
            f"covariates='uniform': {variable.name!r} has no declared {lacks} to be uniform on; "
            f"fit with {lacks} for it, or pass a public frame."
        )
    return rng.uniform(*variable.bounds, size=_POOL)
