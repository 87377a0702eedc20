"""Noise in the shape of the rows: the block norm and the law that belongs to it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privatelr.privacy.noise.exact_draws import exponentials, normal_uniforms, normals, total
from privatelr.types import Block, FloatArray, Part, parts_of

if TYPE_CHECKING:
    from privatelr.privacy.noise.exact_draws import Arithmetic


@dataclass(frozen=True, slots=True)
class BlockLaplace:
    """Density proportional to ``exp(-rate N(b))``, N the norm of the blocks of a design.

    ``N(b) = max over parts f of |b_f| / c_f``, with c_f the largest that a row has in the part,
    so that N is at most 1 on every admissible row (privacy.md 3.1b, which needs no more of N
    than that it is a norm). The norm of a part is its sum of sizes or, in the part of all blocks
    under "l2", its length. A draw is ``r v``, r Gamma distributed with shape ``d + 1`` and v
    uniform in the unit ball of N, which is a product of cross-polytopes and a Euclidean ball.

    Attributes
    ----------
    blocks : tuple of Block
        In the order of the columns; their sizes add up to the dimension.
    rate : float
    """

    blocks: tuple[Block, ...]
    rate: float

    @property
    def dimension(self) -> int:
        return sum(block.size for block in self.blocks)

    @property
    def title(self) -> str:
        return "block Laplace"

    @property
    def scale(self) -> float:
        return 1.0 / self.rate

    @property
    def variances(self) -> FloatArray:
        d = self.dimension
        radial = (d + 1) * (d + 2) / self.rate / self.rate
        found = np.empty(d)
        for part in parts_of(self.blocks):
            found[part.columns] = radial * _unit_variance(part)
        return found

    @property
    def mean_length(self) -> float:
        """``E r`` times the root of ``E |v|**2``, above the mean by Jensen's inequality."""
        return (self.dimension + 1) / self.rate * math.sqrt(self._unit_square)

    @property
    def _unit_square(self) -> float:
        """``E |v|**2``."""
        return sum(part.size * _unit_variance(part) for part in parts_of(self.blocks))

    @property
    def lipschitz_sd(self) -> float:
        """By the inequality of Efron and Stein over r and the parts of v, which are independent.

        A function of slope one changes with the parts of v by at most ``r``, and with r by at
        most ``|v|``. A block of one column is uniform on an interval, with Poincare constant
        ``(2 c / pi)**2``; a longer one is bounded by the trace of its covariance, as are
        columns under "l2".
        """
        d = self.dimension
        worst = max(
            (2 * part.bound / math.pi) ** 2
            if part.size == 1 and part.norm == "l1"
            else _unit_variance(part) * part.size
            for part in parts_of(self.blocks)
        )
        return math.sqrt((d + 1) * (d + 2) * worst + (d + 1) * self._unit_square) / self.rate

    def norm(self, b: FloatArray) -> float:
        """N of a vector ``(d,)``."""
        return max(_size(b[part.columns], part) / part.bound for part in parts_of(self.blocks))

    def log_density(self, b: FloatArray) -> float:
        return -self.rate * self.norm(b)

    def log_ratio(self, b: FloatArray, change: FloatArray) -> float:
        return -self.rate * (self.norm(b) - self.norm(b - change))

    @property
    def uniforms(self) -> int:
        return self.dimension + 1 + sum(map(_uniforms, parts_of(self.blocks)))

    @property
    def signs(self) -> int:
        return sum(block.size for block in self.blocks if block.norm == "l1")

    def transform(
        self, uniforms: Sequence[Any], signs: Sequence[int], arithmetic: Arithmetic
    ) -> list[Any]:
        """Each part of the unit ball is a vector of fixed law over its own size.

        Exponentials with signs over their sum and one exponential more are uniform in a
        cross-polytope; normal numbers over the root of the sum of their squares and of two
        exponentials are uniform in a Euclidean ball (Barthe, Guedon, Mendelson and Naor 2005,
        Theorem 1, for p = 1 and 2).
        """
        d = self.dimension
        r = total(exponentials(uniforms[: d + 1], arithmetic)) / self.rate
        vector: list[Any] = [None] * d
        used, signed = d + 1, 0
        for part in parts_of(self.blocks):
            own = uniforms[used : used + _uniforms(part)]
            used += len(own)
            if part.norm == "l1":
                *sizes, last = exponentials(own, arithmetic)
                reach = r * part.bound / total([*sizes, last])
                pairs = zip(sizes, signs[signed : signed + part.size], strict=True)
                found = [size * sign * reach for size, sign in pairs]
                signed += part.size
            else:
                (last,) = exponentials(own[:1], arithmetic)
                numbers = normals(own[1:], part.size, arithmetic)
                square = total([number * number for number in numbers]) + 2 * last
                reach = r * part.bound / arithmetic.sqrt(square)
                found = [number * reach for number in numbers]
            for column, number in zip(part.columns.tolist(), found, strict=True):
                vector[column] = number
        return vector


def _size(own: FloatArray, part: Part) -> float:
    """Norm of the entries ``(size,)`` of a part."""
    return float(np.abs(own).sum()) if part.norm == "l1" else float(np.linalg.norm(own))


def _uniforms(part: Part) -> int:
    """Uniform numbers that a part takes."""
    return 1 + (part.size if part.norm == "l1" else normal_uniforms(part.size))


def _unit_variance(part: Part) -> float:
    """Variance of one coordinate, uniform in the ball of the part."""
    if part.norm == "l1":
        return 2 * part.bound**2 / ((part.size + 1) * (part.size + 2))
    return part.bound**2 / (part.size + 2)
