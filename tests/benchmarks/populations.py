"""Made-up populations for the study of coverage, whose minimisers are known exactly.

A population is finite and samples are drawn from it with replacement, so that it stands for an
infinite one (inference.md 9.1). The last column of each has no effect and is symmetric given all
else: every row comes with its mirror image, so that its coefficient is exactly 0 with a penalty
and without, for every loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import signal, special

from privatelr.numerics import LOSSES, Objective
from privatelr.numerics.rows import DenseRows
from privatelr.numerics.solve import Newton
from privatelr.types import Block, row_radius

if TYPE_CHECKING:
    from collections.abc import Callable

    from privatelr.types import FloatArray

SIZE = 200_000
_SEED = 20_260_000
_UNPENALISED = 1e-9
_SPREAD = 0.8
"""Length of a typical row in the unit ball; oracle widths are then those of inference.md 9."""


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """Records to sample from, and what is public about them.

    Attributes
    ----------
    covariates : ndarray of shape (N, d - 1)
    labels : ndarray of shape (N,)
        -1 or +1.
    bound, intercept : float
        Largest length of the covariates of a row, and the constant before them.
    blocks : tuple of Block
        Empty where the noise is to be spherical.
    """

    covariates: FloatArray
    labels: FloatArray
    bound: float
    intercept: float
    blocks: tuple[Block, ...] = ()

    @property
    def radius(self) -> float:
        return row_radius(self.bound, self.intercept)

    def rows(self, chosen: FloatArray | slice = slice(None)) -> DenseRows:
        """Bounded rows of some records."""
        return DenseRows(
            self.covariates[chosen],
            self.labels[chosen],
            bound=self.bound,
            intercept=self.intercept,
            blocks=self.blocks,
        )

    def sample(self, n: int, rng: np.random.Generator) -> DenseRows:
        """Rows of n records, drawn with replacement."""
        return self.rows(rng.integers(0, len(self.labels), n))


def _finished(
    covariates: FloatArray,
    probability: FloatArray,
    rng: np.random.Generator,
    bound: float,
    intercept: float,
    blocks: tuple[Block, ...] = (),
) -> Population:
    """Half of a population, drawn labels for it, and its mirror image in the last column."""
    labels = np.where(rng.random(len(covariates)) < probability, 1.0, -1.0)
    mirrored = covariates.copy()
    mirrored[:, -1] *= -1
    both = np.concatenate([covariates, mirrored])
    return Population(both, np.tile(labels, 2), bound, intercept, blocks)


def _mixed(d: int, rng: np.random.Generator) -> FloatArray:
    """Columns of unit size: AR(.5) Gaussian ones, then binary ones."""
    half = SIZE // 2
    gaussian = d // 2
    steps = rng.standard_normal((half, gaussian)) * np.r_[1.0, [math.sqrt(0.75)] * (gaussian - 1)]
    related = signal.lfilter([1.0], [1.0, -0.5], steps, axis=1)
    binary = np.where(rng.random((half, d - 1 - gaussian)) < 0.5, 1.0, -1.0)
    return np.hstack([related, binary])


def _in_unit_ball(
    d: int,
    rng: np.random.Generator,
    probability: Callable[[FloatArray], FloatArray],
) -> Population:
    """Mixed columns scaled and clipped into the unit ball; labels from their mean effect."""
    covariates = _mixed(d, rng)
    effect = np.linspace(1.5, -1.0, d - 1)
    effect[-1] = 0.0
    link = covariates @ effect / math.sqrt(d - 1)
    scale = _SPREAD / math.sqrt(d)
    bound = math.sqrt(1 - scale * scale) * (1 - 1e-12)
    return _finished(covariates * scale, probability(link), rng, bound, scale)


def section_9(d: int, rng: np.random.Generator) -> Population:
    """The population of inference.md 9, as far as it says."""
    return _in_unit_ball(d, rng, lambda link: special.expit(0.3 + link))


def imbalanced(d: int, rng: np.random.Generator) -> Population:
    """One record in twenty-five is positive."""
    return _in_unit_ball(d, rng, lambda link: special.expit(link - 3.6))


def misspecified(d: int, rng: np.random.Generator) -> Population:
    """Labels that no logistic model gives: a step, a wave and one in ten at random."""
    return _in_unit_ball(
        d, rng, lambda link: 0.1 + 0.5 * (link > 0.4) + 0.3 * np.sin(2 * link) ** 2
    )


def bounded(d: int, rng: np.random.Generator) -> Population:
    """Skew and flat numbers on [-1, 1], a block for each, as a formula with bounds gives."""
    half = SIZE // 2
    skew = 2 * rng.beta(2, 5, (half, d - 2)) - 1
    covariates = np.column_stack([skew, rng.uniform(-1, 1, half)])
    effect = np.linspace(2.0, -2.0, d - 2)
    probability = special.expit(0.8 + skew @ effect)
    blocks = (Block(1, 0.5), *[Block(1, 1.0)] * (d - 1))
    return _finished(covariates, probability, rng, math.sqrt(d - 1), 0.5, blocks)


RARE = (0.01, 0.015, 0.02, 0.03, 0.04, 0.05)


def rare_levels(d: int, rng: np.random.Generator) -> Population:
    """A factor whose levels have shares from 1 % to 5 %, beside numbers on [-1, 1]."""
    half = SIZE // 2
    shares = RARE if d >= 10 else RARE[2 : 2 + d - 2]
    level = np.searchsorted(np.cumsum(shares), rng.random(half), side="right")
    levels = (level[:, None] == np.arange(len(shares))).astype(np.float64)
    numbers = rng.uniform(-1, 1, (half, d - 1 - len(shares)))
    effect = np.linspace(1.5, -1.5, numbers.shape[1])
    effect[-1] = 0.0
    link = 0.3 + numbers @ effect + levels @ np.linspace(1.5, -1.5, len(shares))
    others = numbers.shape[1]
    blocks = (Block(1, 0.5), Block(len(shares), 1.0), *[Block(1, 1.0)] * others)
    bound = math.sqrt(1 + others)
    covariates = np.hstack([levels, numbers])
    return _finished(covariates, special.expit(link), rng, bound, 0.5, blocks)


AWAN_WANG = (0.5, 2.0)
"""Intercept and slope of the model behind the labels."""


def awan_wang(d: int, rng: np.random.Generator) -> Population:
    """Design (A) of inference.md 8, always with two columns; no column is without effect."""
    x = 2 * rng.beta(0.5, 0.5, SIZE) - 1
    labels = np.where(rng.random(SIZE) < special.expit(AWAN_WANG[0] + AWAN_WANG[1] * x), 1.0, -1.0)
    half = math.sqrt(0.5)
    return Population(half * x[:, None], labels, half * (1 + 1e-12), half)


POPULATIONS: dict[str, Callable[[int, np.random.Generator], Population]] = {
    "section-9": section_9,
    "bounded": bounded,
    "rare-levels": rare_levels,
    "imbalanced": imbalanced,
    "misspecified": misspecified,
    "awan-wang": awan_wang,
}


@lru_cache(maxsize=4)
def population(name: str, d: int) -> Population:
    """A population by name and number of columns; the same at every call."""
    seed = [_SEED, d, *name.encode()]
    return POPULATIONS[name](d, np.random.default_rng(seed))


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """What a sample and a release are about.

    Attributes
    ----------
    w : ndarray of shape (d,)
        Minimiser of the expected objective, with its penalty.
    plain : ndarray of shape (d,)
        Without it, nearly.
    curvature, scores : ndarray of shape (d, d)
        H and S of inference.md 3.2 at `w`.
    """

    w: FloatArray
    plain: FloatArray
    curvature: FloatArray
    scores: FloatArray


@lru_cache(maxsize=64)
def truth(name: str, d: int, loss: str, lambda_: float) -> Truth:
    """Minimisers and matrices of a population, from its records as they are."""
    rows = population(name, d).rows()
    zero = np.zeros(rows.d)
    solve = Newton()
    w = solve(Objective(rows, LOSSES[loss], lambda_, zero)).w
    plain = solve(Objective(rows, LOSSES[loss], _UNPENALISED, zero)).w
    if name != "awan-wang":
        w[-1] = plain[-1] = 0.0
    margin = rows.y * (rows.x @ w)
    bent, slope = LOSSES[loss].curvature(margin), LOSSES[loss].slope(margin)
    curvature = (rows.x * bent[:, None]).T @ rows.x / rows.n + lambda_ * np.eye(rows.d)
    scores = (rows.x * (slope**2)[:, None]).T @ rows.x / rows.n
    return Truth(w, plain, curvature, scores - lambda_**2 * np.outer(w, w))
