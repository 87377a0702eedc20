"""Parametric bootstrap: intervals from a release, in simulated populations.

Records are simulated from the released model, the whole mechanism is run on them at the same
calibration, and how far its output falls from the truth of the simulated world says how far the
release may be from its own (Ferrando, Wang and Sheldon 2022). No record is looked at again, so
it costs nothing, whatever the number of simulations. It rests on the model: where labels do not
follow it, or covariates not the given law, the intervals do not hold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from privatelr.design import DesignSpec, Variable, read_covariates
from privatelr.errors import ArgumentError, GuaranteeError, SchemaError, require_number, show
from privatelr.inference.error_distribution import PUBLIC_SEED
from privatelr.inference.inference_choices import LARGEST_BIAS, read_level, read_target
from privatelr.inference.intervals import STANDARD_LEVEL, Inference
from privatelr.mechanisms import Problem, Release
from privatelr.numerics.rows import bounded_rows, held_in_blocks
from privatelr.privacy.noise import draw_many
from privatelr.sources import as_frame
from privatelr.types import FloatArray

_AT_ONCE = 500_000
"""Margins that are held in memory at once."""
_STEPS, _HALVINGS = 60, 30
_ENOUGH = 1e-7
"""Gradient over the number of records, relative to the largest there is, that ends a solve."""
_RIDGE = 1e-12
"""Curvature relative to the largest there is, where there is none."""
_TINY = 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticPopulation:
    """A finite population of rows whose labels follow a model.

    Attributes
    ----------
    rows : ndarray of shape (q, d)
        Equally likely.
    model : ndarray of shape (d,)
        Coefficients that labels follow.
    release : Release
    """

    rows: FloatArray
    model: FloatArray
    release: Release

    @property
    def positive(self) -> FloatArray:
        """Probability ``(q,)`` of the label 1."""
        probability = self.problem.loss.probability
        assert probability is not None
        return probability(self.rows @ self.model)

    @property
    def problem(self) -> Problem:
        return self.release.calibration.problem


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """How often each row of a world stands in each of B samples, ``(B, q)``, by its label."""

    positive: FloatArray
    negative: FloatArray


def population_minimiser(world: SyntheticPopulation) -> FloatArray:
    """Minimiser ``(d,)`` of the expected objective."""
    none = np.zeros((1, world.problem.d))
    found = minimised(world.problem, world.rows, _expected(world), none, world.model[None])
    return np.asarray(found[0])


def _expected(world: SyntheticPopulation) -> Counts:
    share = world.problem.n / len(world.rows)
    positive = share * world.positive[None]
    return Counts(positive, share - positive)


def unshrunk(world: SyntheticPopulation) -> tuple[SyntheticPopulation, FloatArray]:
    """The world whose expected objective has its minimum at the released coefficients.

    Its coefficients ``v`` solve ``E p(x.v) x = E p(x.w) x + lambda w``, which is the score
    equation of the expected loss under a tilt. Also their derivative ``(d, d)`` by w.
    """
    release, problem = world.release, world.problem
    w = release.coef
    bare, tilt = replace(problem, lambda_=0.0), -problem.penalty * w[None]
    found = minimised(bare, world.rows, _expected(world), tilt, w[None])[0]
    bias = float(np.linalg.norm(found - w)) / max(float(np.linalg.norm(w)), _TINY)
    if not bias <= LARGEST_BIAS:
        raise GuaranteeError(
            "target='unpenalised': the penalty shrinks the coefficients by more than "
            f"{LARGEST_BIAS:.0%}, which simulation does not correct; take target='penalised', "
            "or fit with a smaller lambda_."
        )
    before, after = (_mean_curvature(world, v) for v in (w, found))
    carry = np.linalg.solve(after, before + problem.lambda_ * np.eye(problem.d))
    return replace(world, model=found), np.asarray(carry)


def _mean_curvature(world: SyntheticPopulation, w: FloatArray) -> FloatArray:
    bent = world.problem.loss.curvature(world.rows @ w)
    bare: FloatArray = (world.rows * bent[:, None]).T @ world.rows / len(world.rows)
    return bare + _RIDGE * world.problem.radius**2 * np.eye(world.problem.d)


def simulated(world: SyntheticPopulation, count: int) -> tuple[FloatArray, FloatArray]:
    """Minimisers without noise, and releases, of simulated samples ``(B, d)``."""
    rng = np.random.default_rng(PUBLIC_SEED)
    calibration, q = world.release.calibration, len(world.rows)
    start = np.tile(world.model, (count, 1))
    noise, shield = (draw_many(law, count, rng) for law in (calibration.noise, calibration.shield))
    minimisers, tilted = [], []
    each = max(1, _AT_ONCE // q)
    for part in (slice(at, at + each) for at in range(0, count, each)):
        counts = sampled(world, len(start[part]), rng)
        plain = minimised(world.problem, world.rows, counts, 0 * noise[part], start[part])
        minimisers.append(plain)
        if calibration.placement == "objective":
            tilted.append(minimised(world.problem, world.rows, counts, noise[part], plain))
        else:
            tilted.append(plain + noise[part])
    return np.concatenate(minimisers), np.concatenate(tilted) + shield


def sampled(world: SyntheticPopulation, count: int, rng: np.random.Generator) -> Counts:
    """Samples of n records, rows with replacement and labels by the model."""
    q = len(world.rows)
    drawn = rng.multinomial(world.problem.n, np.full(q, 1 / q), size=count)
    positive = rng.binomial(drawn, world.positive)
    return Counts(positive.astype(np.float64), (drawn - positive).astype(np.float64))


def minimised(
    problem: Problem, x: FloatArray, counts: Counts, tilts: FloatArray, start: FloatArray
) -> FloatArray:
    """Minimisers ``(B, d)`` of the sum form under tilts ``(B, d)``, by damped Newton steps.

    A step is halved until the gradient is shorter; those that come to rest first wait.
    """
    loss, d = problem.loss, problem.d
    products = (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)
    ridge = (problem.penalty + _RIDGE * problem.n * problem.radius**2) * np.eye(d)
    enough = _ENOUGH * problem.n * problem.reach

    def gradient(w: FloatArray, link: FloatArray) -> FloatArray:
        slopes = counts.positive * loss.slope(link) - counts.negative * loss.slope(-link)
        return np.asarray(slopes @ x + problem.penalty * w + tilts)

    w, link = start, start @ x.T
    slope = gradient(w, link)
    for _ in range(_STEPS):
        length = np.linalg.norm(slope, axis=1)
        if (length <= enough).all():
            break
        bend = counts.positive * loss.curvature(link) + counts.negative * loss.curvature(-link)
        hessian = (bend @ products).reshape(-1, d, d) + ridge
        step = np.linalg.solve(hessian, slope[:, :, None])[:, :, 0]
        size = np.where(length > enough, 1.0, 0.0)[:, None]
        for _ in range(_HALVINGS):
            moved = w - size * step
            link = moved @ x.T
            found = gradient(moved, link)
            longer = np.linalg.norm(found, axis=1) > length
            if not longer.any():
                break
            size = np.where(longer[:, None], size / 2, size)
        w, slope = moved, found
    return w


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
        If the model has no probabilities, or a choice is unknown.
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
    world = SyntheticPopulation(_pool(spec, covariates), release.coef, release)
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
