"""What each law of noise is, written a second time for the audit.

A definition shares no code with the law: it has its own sampler, its own norm, and its own bound on
what a change costs. A law without a definition here is audited by its density alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from scipy import stats

from privatelr.mechanisms import Problem
from privatelr.privacy.noise import (
    BlockLaplace,
    CopiedNoise,
    GaussianNoise,
    MatrixLaplace,
    NoiseLaw,
    NoNoise,
    SphericalLaplace,
)
from privatelr.types import FloatArray, parts_of

Law = TypeVar("Law", bound=NoiseLaw)
_TRIED = 400
"""Directions in which the largest cost of a change is looked for."""
_PROPOSED = 20
"""Directions that are proposed for each draw."""


@dataclass(frozen=True, slots=True)
class Definition(Generic[Law]):
    """A law by its density, which falls with a norm: ``exp(-rate N(b))``."""

    law: Law

    def energies(self, b: FloatArray) -> FloatArray:
        """Minus the log density ``(m,)`` of each row of `b` ``(m, d)``."""
        return np.array([-self.law.log_density(row) for row in b])

    def log_ratios(self, b: FloatArray, change: FloatArray) -> FloatArray:
        """``law.log_ratio`` ``(m,)`` of each row of `b` and `change` ``(m, d)``."""
        return np.asarray(self.energies(b - change) - self.energies(b))

    def cost_of(self, changes: list[FloatArray]) -> tuple[float, float]:
        """The epsilon and the mu of independent noise on vectors that change so."""
        return float(self.energies(np.array(changes)).sum()), 0.0

    def sizes(self, changes: FloatArray) -> FloatArray:
        """The sizes ``(m,)`` of changes ``(m, d)`` of what the noise hides: their lengths."""
        return np.asarray(np.linalg.norm(changes, axis=1))

    def cost(self, moved: float) -> tuple[float, float]:
        """The epsilon and the mu on a vector that moves by this length in any direction."""
        rng, d = np.random.default_rng(1), self.law.dimension
        tried = [np.eye(d), rng.choice([-1.0, 1.0], (_TRIED, d)), rng.standard_normal((_TRIED, d))]
        directions = np.vstack(tried)
        lengths = np.linalg.norm(directions, axis=1, keepdims=True)
        return float(self.energies(moved * directions / lengths).max()), 0.0

    def charge(self, problem: Problem) -> float:
        """The largest log ratio that a tilt adds for an admissible row at a slope of one."""
        return self.cost(problem.radius)[0]

    def longest_row(self, problem: Problem) -> FloatArray:
        """An admissible row ``(d,)`` of length R."""
        return np.asarray(problem.radius * np.eye(1, problem.d)[0])

    def row_size(self, row: FloatArray) -> float:
        """The size of a row relative to the shape of the law; 0 if any row is admissible."""
        return 0.0

    def at_right_angle(self, row: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Two admissible rows at about a right angle."""
        return row, np.roll(row, 1)

    def draw(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Draws ``(count, dimension)``: a direction by its density, and a Gamma length."""
        d = self.law.dimension
        directions = rng.standard_normal((_PROPOSED * count, d))
        directions /= np.linalg.norm(directions, axis=1)[:, None]
        energies = self.energies(directions)
        weights = energies ** (-float(d))
        chosen = rng.choice(len(directions), count, p=weights / weights.sum())
        lengths = rng.gamma(d, 1.0, count) / energies[chosen]
        return np.asarray(lengths[:, None] * directions[chosen])


class _Nothing(Definition[NoNoise]):
    def draw(self, count: int, rng: np.random.Generator) -> FloatArray:
        return np.zeros((count, self.law.dimension))

    def cost(self, moved: float) -> tuple[float, float]:
        return math.inf, 0.0


class _Spherical(Definition[SphericalLaplace]):
    def energies(self, b: FloatArray) -> FloatArray:
        return np.asarray(self.law.rate * np.linalg.norm(b, axis=1))

    def log_ratios(self, b: FloatArray, change: FloatArray) -> FloatArray:
        products = np.einsum("ij,ij->i", change, 2 * b - change)
        both = np.linalg.norm(b, axis=1) + np.linalg.norm(b - change, axis=1)
        return np.asarray(-self.law.rate * products / np.where(both > 0, both, 1.0))

    def cost(self, moved: float) -> tuple[float, float]:
        return moved * self.law.rate, 0.0

    def draw(self, count: int, rng: np.random.Generator) -> FloatArray:
        direction = rng.standard_normal((count, self.law.dimension))
        length = rng.gamma(self.law.dimension, 1 / self.law.rate, (count, 1))
        return np.asarray(length * direction / np.linalg.norm(direction, axis=1)[:, None])


class _Gaussian(Definition[GaussianNoise]):
    def energies(self, b: FloatArray) -> FloatArray:
        return np.asarray(np.einsum("ij,ij->i", b, b) / (2 * self.law.sd**2))

    def log_ratios(self, b: FloatArray, change: FloatArray) -> FloatArray:
        return np.asarray(-np.einsum("ij,ij->i", change, 2 * b - change) / (2 * self.law.sd**2))

    def cost_of(self, changes: list[FloatArray]) -> tuple[float, float]:
        return self.cost(float(np.linalg.norm(np.concatenate(changes))))

    def cost(self, moved: float) -> tuple[float, float]:
        return 0.0, moved / self.law.sd

    def draw(self, count: int, rng: np.random.Generator) -> FloatArray:
        return self.law.sd * rng.standard_normal((count, self.law.dimension))


class _Blocks(Definition[BlockLaplace]):
    def energies(self, b: FloatArray) -> FloatArray:
        starts = np.cumsum([0, *(block.size for block in self.law.blocks[:-1])])
        bounds = np.array([block.bound for block in self.law.blocks])
        ball = np.array([block.norm == "l2" for block in self.law.blocks])
        sums = np.add.reduceat(np.abs(b), starts, axis=1) / bounds
        if ball.any():
            squares = np.add.reduceat(b * b, starts, axis=1)[:, ball] / bounds[ball] ** 2
            sums[:, ball] = np.sqrt(squares.sum(axis=1))[:, None]
        return np.asarray(self.law.rate * sums.max(axis=1))

    def cost(self, moved: float) -> tuple[float, float]:
        roots = [1.0 if b.norm == "l2" else math.sqrt(b.size) for b in self.law.blocks]
        widest = max(root / b.bound for root, b in zip(roots, self.law.blocks, strict=True))
        return moved * self.law.rate * widest, 0.0

    def charge(self, problem: Problem) -> float:
        if not problem.blocks:
            return math.inf
        # the largest noise norm of an admissible row in each block; all "l2" blocks count together
        charges, squares = [0.0], {"l1": 0.0, "l2": 0.0}
        for shape, block in zip(self.law.blocks, problem.blocks, strict=True):
            if shape.norm == "l1":
                most = 1.0 if block.norm == "l1" else math.sqrt(block.size)
                charges.append(most * block.bound / shape.bound)
            elif block.norm == "l1":
                squares["l1"] += (block.bound / shape.bound) ** 2
            else:  # all "l2" blocks of a row share one bound on their length
                squares["l2"] = max(squares["l2"], (block.bound / shape.bound) ** 2)
        return self.law.rate * max(*charges, math.sqrt(sum(squares.values())))

    def longest_row(self, problem: Problem) -> FloatArray:
        row = np.zeros(self.law.dimension)
        for columns, part in parts_of(self.law.blocks):
            row[columns[0]] = part.bound
        return row

    def row_size(self, row: FloatArray) -> float:
        return self.law.norm(row)

    def at_right_angle(self, row: FloatArray) -> tuple[FloatArray, FloatArray]:
        """A corner, and another one at about a right angle.

        The parts of the row, largest first, keep their entry, change its sign, or move it to
        another column, whichever brings the angle nearest.
        """
        turned, missing = row.copy(), float(row @ row)
        for columns, part in sorted(parts_of(self.law.blocks), key=lambda part: -part[1].bound):
            square, own = part.bound**2, row[columns]
            ways = {0.0: own, 2 * square: -own}
            if part.size > 1:
                ways[square] = np.roll(own, 1)
            gone = min(ways, key=lambda change: abs(missing - change))
            turned[columns] = ways[gone]
            missing -= gone
        return row, turned

    def draw(self, count: int, rng: np.random.Generator) -> FloatArray:
        reach = rng.gamma(self.law.dimension + 1, 1 / self.law.rate, (count, 1))
        unit = np.empty((count, self.law.dimension))
        for columns, part in parts_of(self.law.blocks):
            # uniform in the unit ball of the norm of this part
            if part.norm == "l1":
                sizes = rng.dirichlet(np.ones(part.size + 1), count)[:, :-1]
                within = rng.choice(np.array([-1.0, 1.0]), sizes.shape) * sizes
            else:
                within = rng.standard_normal((count, part.size))
                within /= np.linalg.norm(within, axis=1)[:, None]
                within *= rng.random((count, 1)) ** (1 / part.size)
            unit[:, columns] = part.bound * within
        return np.asarray(reach * unit)


class _Matrices(Definition[MatrixLaplace]):
    """Its density is an integral, and the energies are what changes cost at most."""

    def energies(self, b: FloatArray) -> FloatArray:
        return self.law.rate * self.sizes(b)

    def sizes(self, changes: FloatArray) -> FloatArray:
        """The sums ``(m,)`` of the sizes of all eigenvalues of both matrices."""
        d, sizes = self.law.columns, np.zeros(len(changes))
        for half in np.split(changes, 2, axis=1):
            matrices = np.zeros((len(changes), d, d))
            entries = iter(half.T)
            for i in range(d):
                for j in range(i, d):
                    entry = next(entries) / (1.0 if i == j else math.sqrt(2))
                    matrices[:, i, j] = matrices[:, j, i] = entry
            sizes += np.linalg.svd(matrices, compute_uv=False).sum(axis=1)
        return sizes

    def cost(self, moved: float) -> tuple[float, float]:
        return moved * self.law.rate, 0.0

    def draw(self, count: int, rng: np.random.Generator) -> FloatArray:
        d = self.law.columns
        wishart = stats.wishart(d + 1, np.eye(d) / (2 * self.law.rate))
        parts = [wishart.rvs(count, rng).reshape(count, d, d) for _ in range(4)]
        i, j = np.triu_indices(d)
        factors = np.where(i == j, 1.0, math.sqrt(2))
        halves = [(one - other)[:, i, j] * factors for one, other in (parts[:2], parts[2:])]
        return np.hstack(halves)


class _Copies(Definition[CopiedNoise]):
    def log_ratios(self, b: FloatArray, change: FloatArray) -> FloatArray:
        each, k = definition_of(self.law.each), self.law.copies
        parts = zip(np.split(b, k, axis=1), np.split(change, k, axis=1), strict=True)
        ratios = [each.log_ratios(*part) for part in parts]
        return np.asarray(np.sum(ratios, axis=0))

    def cost(self, moved: float) -> tuple[float, float]:
        # the lengths of all copies add up, which is worst if they are equal
        return definition_of(self.law.each).cost(moved * math.sqrt(self.law.copies))

    def charge(self, problem: Problem) -> float:
        return definition_of(self.law.each).charge(problem)

    def draw(self, count: int, rng: np.random.Generator) -> FloatArray:
        drawn = [definition_of(self.law.each).draw(count, rng) for _ in range(self.law.copies)]
        return np.hstack(drawn)


DEFINITIONS: dict[type[NoiseLaw], type[Definition[Any]]] = {
    NoNoise: _Nothing,
    SphericalLaplace: _Spherical,
    GaussianNoise: _Gaussian,
    BlockLaplace: _Blocks,
    CopiedNoise: _Copies,
    MatrixLaplace: _Matrices,
}


def definition_of(law: NoiseLaw) -> Definition[Any]:
    """The audit's own definition of a law, or the one by its density."""
    return DEFINITIONS.get(type(law), Definition)(law)
