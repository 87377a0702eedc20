"""Simulated worlds: finite populations whose labels follow a model, and releases from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from privatelr.errors import GuaranteeError
from privatelr.inference.choices import LARGEST_BIAS
from privatelr.inference.error_law import PUBLIC_SEED
from privatelr.privacy.simulation import draw_many

if TYPE_CHECKING:
    from privatelr.mechanisms.problem import Problem
    from privatelr.mechanisms.release import Release
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
class World:
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


def population_minimiser(world: World) -> FloatArray:
    """Minimiser ``(d,)`` of the expected objective."""
    none = np.zeros((1, world.problem.d))
    found = minimised(world.problem, world.rows, _expected(world), none, world.model[None])
    return np.asarray(found[0])


def _expected(world: World) -> Counts:
    share = world.problem.n / len(world.rows)
    positive = share * world.positive[None]
    return Counts(positive, share - positive)


def unshrunk(world: World) -> tuple[World, FloatArray]:
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


def _mean_curvature(world: World, w: FloatArray) -> FloatArray:
    bent = world.problem.loss.curvature(world.rows @ w)
    bare: FloatArray = (world.rows * bent[:, None]).T @ world.rows / len(world.rows)
    return bare + _RIDGE * world.problem.radius**2 * np.eye(world.problem.d)


def simulated(world: World, count: int) -> tuple[FloatArray, FloatArray]:
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


def sampled(world: World, count: int, rng: np.random.Generator) -> Counts:
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
