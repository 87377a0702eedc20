"""Noise in the shape of the rows: the block norm and the law that belongs to it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privatelr.privacy.draws import exponentials, total

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from privatelr.privacy.draws import Arithmetic
    from privatelr.types import Block, FloatArray


@dataclass(frozen=True, slots=True)
class BlockLaplace:
    """Density proportional to ``exp(-rate N(b))``, N the norm of the blocks of a design.

    ``N(b) = max over blocks f of |b_f|_1 / c_f``, with c_f the largest sum of sizes that a row
    has in the block, so that N is at most 1 on every admissible row (privacy.md 3.1b). A draw
    is ``r v``, r Gamma distributed with shape ``d + 1`` and v uniform in the unit ball of N,
    which is a product of cross-polytopes.

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
        return np.concatenate(
            [np.full(block.size, radial * _unit_variance(block)) for block in self.blocks]
        )

    @property
    def mean_length(self) -> float:
        """``E r`` times the root of ``E |v|**2``, above the mean by Jensen's inequality."""
        return (self.dimension + 1) / self.rate * math.sqrt(self._unit_square)

    @property
    def _unit_square(self) -> float:
        """``E |v|**2``."""
        return sum(block.size * _unit_variance(block) for block in self.blocks)

    @property
    def lipschitz_sd(self) -> float:
        """By the inequality of Efron and Stein over r and the blocks of v, which are independent.

        A function of slope one changes with the blocks of v by at most ``r``, and with r by at
        most ``|v|``. A block of one column is uniform on an interval, with Poincare constant
        ``(2 c / pi)**2``; a longer one is bounded by the trace of its covariance.
        """
        d = self.dimension
        worst = max(
            (2 * block.bound / math.pi) ** 2
            if block.size == 1
            else _unit_variance(block) * block.size
            for block in self.blocks
        )
        return math.sqrt((d + 1) * (d + 2) * worst + (d + 1) * self._unit_square) / self.rate

    def norm(self, b: FloatArray) -> float:
        """N of a vector ``(d,)``."""
        return max(float(np.abs(b[part]).sum()) / block.bound for block, part in self._parts())

    def log_density(self, b: FloatArray) -> float:
        return -self.rate * self.norm(b)

    def log_ratio(self, b: FloatArray, change: FloatArray) -> float:
        return -self.rate * (self.norm(b) - self.norm(b - change))

    def _parts(self) -> Iterator[tuple[Block, slice]]:
        start = 0
        for block in self.blocks:
            yield block, slice(start, start + block.size)
            start += block.size

    @property
    def uniforms(self) -> int:
        return 2 * self.dimension + len(self.blocks) + 1

    @property
    def signs(self) -> int:
        return self.dimension

    def transform(
        self, uniforms: Sequence[Any], signs: Sequence[int], arithmetic: Arithmetic
    ) -> list[Any]:
        """Normalised exponentials with signs are uniform in a cross-polytope."""
        sizes = exponentials(uniforms, arithmetic)
        d = self.dimension
        r = total(sizes[: d + 1]) / self.rate
        vector, used = [], d + 1
        for block, part in self._parts():
            within = sizes[used : used + block.size + 1]
            used += block.size + 1
            reach = r * block.bound / total(within)
            pairs = zip(within[:-1], signs[part], strict=True)
            vector += [size * sign * reach for size, sign in pairs]
        return vector


def _unit_variance(block: Block) -> float:
    """Variance of one coordinate, uniform in the cross-polytope of the block."""
    return 2 * block.bound**2 / ((block.size + 1) * (block.size + 2))
