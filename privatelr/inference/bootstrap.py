"""Parametric bootstrap: intervals from a release, by simulation from a population.

Records are simulated from the released model, and the whole mechanism is run on them with the same
calibration. The distance between its output and the truth of the simulated population estimates
the error of the release (Ferrando, Wang and Sheldon 2022). No record is read again, so any number
of simulations is free. The method relies on the model: the intervals do not hold if labels do not
follow the model, or if covariates do not follow the given law.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from privatelr.design import DesignSpec, read_covariates
from privatelr.errors import ArgumentError, GuaranteeError, SchemaError, show
from privatelr.inference.error_distribution import PUBLIC_SEED
from privatelr.inference.intervals import Inference, combinations, estimates_alone
from privatelr.inference.noisy_moments import quality
from privatelr.inference.question import BOOTSTRAP, Question
from privatelr.mechanisms import Problem, Release
from privatelr.numerics.rows import DenseRows
from privatelr.privacy.noise import draw_many
from privatelr.sources import as_batch
from privatelr.types import FloatArray

_AT_ONCE = 500_000
"""Largest number of margins in memory at once."""
_STEPS, _HALVINGS = 60, 30
"""Largest number of steps of Newton's method, and of halvings of one step."""
_ENOUGH = 1e-7
"""Length of the mean gradient that ends a solve, relative to its largest possible length."""
_RIDGE = 1e-12
"""Curvature that is added to avoid singular matrices, relative to the largest possible one."""
_TINY = 1e-300
_LARGEST_BIAS = 1.0
"""Largest relative bias of the penalty that is taken off, which here is no matter of one step."""
REPLICATES = 400
"""Number of simulated samples, which are the same at every call."""
_POOL = 5000
"""Number of rows that represent the law of the covariates."""


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticPopulation:
    """A finite population of rows whose labels follow a model.

    Attributes
    ----------
    rows : ndarray of shape (q, d)
        Equally likely design rows.
    weights : ndarray of shape (q,)
        How much a record counts in a fit.
    model : ndarray of shape (d,)
        Coefficients that labels follow.
    release : Release
    """

    rows: FloatArray
    weights: FloatArray
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

    @property
    def expected(self) -> Counts:
        """Expected number of times that a sample contains each row, times its weight."""
        share = self.problem.n / len(self.rows) * self.weights
        positive = share * self.positive[None]
        return Counts(positive, share - positive)


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """How often B samples contain each row of a population, times its weight, by its label."""

    positive: FloatArray
    negative: FloatArray


def population_minimiser(world: SyntheticPopulation) -> FloatArray:
    """Return the minimiser ``(d,)`` of the expected objective."""
    none = np.zeros((1, world.problem.d))
    found = minimised(world.problem, world.rows, world.expected, none, world.model[None])
    return np.asarray(found[0])


def unshrunk(world: SyntheticPopulation) -> tuple[SyntheticPopulation, FloatArray]:
    """Return the population whose expected objective is minimal at the released coefficients.

    Its coefficients ``v`` solve ``E p(x.v) x = E p(x.w) x + lambda w``, which is the score
    equation of the expected loss under a tilt. Their derivative ``(d, d)`` by w is returned too.
    """
    problem, rows, w = world.problem, world.rows, world.release.coef
    bare, tilt = replace(problem, lambda_=0.0), -problem.penalty * w[None]
    found = minimised(bare, rows, world.expected, tilt, w[None])[0]
    bias = float(np.linalg.norm(found - w)) / max(float(np.linalg.norm(w)), _TINY)
    if not bias <= _LARGEST_BIAS:
        raise GuaranteeError(
            "target='unpenalised': the penalty shrinks the coefficients by more than "
            f"{_LARGEST_BIAS:.0%}, which simulation does not correct; take target='penalised', "
            "or fit with a smaller lambda_."
        )
    identity = np.eye(problem.d)

    def mean_curvature(v: FloatArray) -> FloatArray:
        bent = problem.loss.curvature(rows @ v) * world.weights
        mean: FloatArray = (rows * bent[:, None]).T @ rows / len(rows)
        return mean + _RIDGE * problem.radius**2 * identity

    carry = np.linalg.solve(mean_curvature(found), mean_curvature(w) + problem.lambda_ * identity)
    return replace(world, model=found), np.asarray(carry)


def simulated(world: SyntheticPopulation, count: int) -> tuple[FloatArray, FloatArray]:
    """Return minimisers without noise, and releases, for simulated samples ``(B, d)``."""
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
    """Draw samples of n records: rows with replacement, and labels from the model."""
    q = len(world.rows)
    drawn = rng.multinomial(world.problem.n, np.full(q, 1 / q), size=count)
    positive = rng.binomial(drawn, world.positive)
    return Counts(positive * world.weights, (drawn - positive) * world.weights)


def minimised(
    problem: Problem, x: FloatArray, counts: Counts, tilts: FloatArray, start: FloatArray
) -> FloatArray:
    """Minimise the sum form under each of the tilts ``(B, d)``, by damped Newton steps.

    All B problems step together. A step is halved until the gradient is no longer than before.
    Problems that have converged do not move while the others go on.
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
        # the error of a solve is then far below the noise that the simulation is about
        if (length <= enough).all():
            break
        bend = counts.positive * loss.curvature(link) + counts.negative * loss.curvature(-link)
        # one product of matrices makes all B Hessians; the ridge keeps each of them invertible
        hessian = (bend @ products).reshape(-1, d, d) + ridge
        step = np.linalg.solve(hessian, slope[:, :, None])[:, :, 0]
        # a step of size 0 leaves a converged problem where it is
        size = np.where(length > enough, 1.0, 0.0)[:, None]
        # far from the minimum a full step can overshoot; only the problems that did are halved
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


def bootstrap_intervals(
    release: Release,
    spec: DesignSpec,
    contrasts: FloatArray,
    asked: Question,
    null: FloatArray | None = None,
) -> Inference:
    """Intervals and tests of combinations of the design coefficients, by simulation.

    Parameters
    ----------
    release : Release
        The release of a model with probabilities; moments are not needed.
    spec : DesignSpec
        How covariates become design rows.
    contrasts : ndarray of shape (m, d)
    asked : Question
        A question by the method bootstrap. The penalised target is the minimiser of the expected
        objective, in a population that follows the released model. The unpenalised target is the
        coefficients of the model itself, in the population whose minimiser was released. By
        default it is that of `infer`; without moments, the unpenalised one. If the penalty shrinks
        too much for it, there are estimates alone by default. The covariates are a
        public frame whose rows are resampled, or ``"uniform"``: each variable is uniform on its
        declared bounds or levels, and independent of the others.
    null : ndarray of shape (m,), optional
        Values to test; by default 0.

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

    Examples
    --------
    >>> from privatelr import dplr, load_dataset, load_schema
    >>> from privatelr.inference import Question, bootstrap_intervals
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ age + selfLR", votes, eps=1.0, **public)  # no intervals were bought
    >>> asked = Question(method="bootstrap", covariates="uniform")
    >>> found = bootstrap_intervals(fit.release, fit.spec, fit.spec.user_rows(), asked)
    >>> bool((found.lower < found.upper).all())
    True
    """
    loss = release.calibration.problem.loss
    if loss.probability is None:
        raise ArgumentError(
            f"method='bootstrap': a {loss.title} says nothing of how labels arise, so there is no "
            "model to simulate; take method='sandwich', or fit with dplr."
        )
    world = SyntheticPopulation(*pool_of_rows(spec, asked.covariates), release.coef, release)
    target = asked.target or ("unpenalised" if release.moments is None else quality(release).target)
    carry = np.eye(len(release.coef))
    if target == "unpenalised":
        try:
            world, carry = unshrunk(world)
        except GuaranteeError:
            if asked.target is not None:
                raise
            target = "penalised"
    rows, values = combinations(contrasts, null)
    if asked.target is None and target == "penalised":
        return estimates_alone(rows @ release.coef, asked, BOOTSTRAP)
    truth = release.coef if target == "unpenalised" else population_minimiser(world)
    minimisers, released = simulated(world, REPLICATES)
    estimate, carried = rows @ world.model, (rows @ carry).T
    errors, off = (released - truth) @ carried, estimate - values
    shares = (1 - asked.level) / 2, (1 + asked.level) / 2
    low, high = np.quantile(errors, shares, axis=0, method="weibull")
    # p-values that agree with the intervals from these quantiles
    rarer = 1 + np.minimum((errors >= off).sum(axis=0), (errors <= off).sum(axis=0))
    return Inference(
        estimate=estimate,
        null=values,
        sampling_sd=((minimisers - truth) @ carried).std(axis=0),
        privacy_sd=((released - minimisers) @ carried).std(axis=0),
        unknown_sd=np.zeros(len(rows)),
        lower=estimate - high,
        upper=estimate - low,
        p_value=np.minimum(1.0, 2 * rarer / (1 + len(errors))),
        level=asked.level,
        mode=BOOTSTRAP,
        target=target,
        method=BOOTSTRAP,
    )


def pool_of_rows(spec: DesignSpec, covariates: Any) -> tuple[FloatArray, FloatArray]:
    """Return design rows ``(q, d)`` that represent the law of the covariates, and their weights."""
    named = isinstance(covariates, str) and covariates != "uniform"
    if named or covariates is None or isinstance(covariates, int | float):
        raise ArgumentError(
            f"covariates={show(covariates)}: method='bootstrap' simulates records; covariates "
            "takes a public frame to resample, or 'uniform' for the declared bounds and levels."
        )
    if spec.prior is not None:
        raise ArgumentError(
            "method='bootstrap': it does not simulate fits with a prior; take method='sandwich', "
            "which does not need to."
        )
    if spec.formula.beside:
        raise ArgumentError(
            "method='bootstrap': it does not simulate records with an offset or a weight; take "
            "method='sandwich', which does not need to."
        )
    if spec.formula.person is not None:
        raise ArgumentError(
            "method='bootstrap': it does not simulate persons, whose records go together; take "
            "method='sandwich', which is cluster-robust."
        )
    rng, names = np.random.default_rng(PUBLIC_SEED), spec.formula.covariates
    if isinstance(covariates, str):
        columns: dict[str, Any] = {}
        for variable in (spec.variables[name] for name in names):
            if variable.levels:
                codes, levels = rng.integers(len(variable.levels), size=_POOL), variable.levels
                columns[variable.name] = pd.Categorical.from_codes(codes, categories=list(levels))
            elif not variable.is_bounded:
                raise SchemaError(
                    f"covariates='uniform': {variable.name!r} has no declared bounds to be "
                    "uniform on; fit with bounds for it, or pass a public frame."
                )
            else:
                columns[variable.name] = rng.uniform(*variable.bounds, size=_POOL)
        batch = as_batch(pd.DataFrame(columns, index=range(_POOL)))
    else:
        batch = as_batch(covariates)
        if len(batch) > _POOL:
            batch = batch.take(rng.choice(len(batch), _POOL, replace=False))
    raw, usable, _ = read_covariates(spec, batch, names)
    if not usable.any():
        raise SchemaError(
            "covariates: no row has usable values of all variables; missing values and undeclared "
            "levels are not usable."
        )
    held = DenseRows(raw[usable], np.ones(usable.sum()), **spec.limits)
    sizes = np.abs(held.y)
    return held.x * sizes[:, None], 1 / sizes**2
