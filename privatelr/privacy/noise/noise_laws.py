"""Noise laws: each knows its density, its spread, and how to draw from it.

A law is a function of independent uniform numbers and signs, in whatever arithmetic they are
given in: doubles, arrays of them, or balls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import methodcaller
from typing import Any, NamedTuple, Protocol

import numpy as np

from privatelr.types import Block, FloatArray, parts_of

Numbers = Sequence[Any]


class Arithmetic(NamedTuple):
    """What a law needs beside plus, minus, times and divide."""

    log: Callable[[Any], Any]
    sqrt: Callable[[Any], Any]
    cos_pi: Callable[[Any], Any]
    sin_pi: Callable[[Any], Any]


BALLS = Arithmetic(*map(methodcaller, Arithmetic._fields))
"""Enclosures, at the working precision."""
FLOATS = Arithmetic(
    math.log, math.sqrt, lambda x: math.cos(math.pi * x), lambda x: math.sin(math.pi * x)
)
"""Doubles, for draws that need not be secret."""
ARRAYS = Arithmetic(np.log, np.sqrt, lambda x: np.cos(np.pi * x), lambda x: np.sin(np.pi * x))
"""Arrays of doubles, elementwise."""


class RandomVector(Protocol):
    """A random vector ``(dimension,)`` as a function of independent uniforms and signs."""

    @property
    def dimension(self) -> int: ...

    @property
    def uniforms(self) -> int:
        """How many numbers uniform on (0, 1) one vector takes."""
        ...

    @property
    def signs(self) -> int:
        """How many fair signs one vector takes."""
        ...

    def transform(self, uniforms: Numbers, signs: Numbers, arithmetic: Arithmetic) -> list[Any]:
        """The vector, in the arithmetic of the uniforms."""
        ...


def draw_many(law: RandomVector, count: int, rng: np.random.Generator) -> FloatArray:
    """Independent draws ``(count, dimension)`` of a noise law, from its own recipe."""
    uniforms = 1.0 - rng.random((law.uniforms, count))  # never 0
    signs = rng.choice(np.array([-1, 1]), size=(law.signs, count))
    drawn = law.transform(list(uniforms), list(signs), ARRAYS)
    return np.column_stack([np.broadcast_to(x, count) for x in drawn])


def normals(uniforms: Numbers, count: int, arithmetic: Arithmetic) -> list[Any]:
    """Standard normal numbers from `normal_uniforms(count)` uniforms (Box and Muller 1958)."""
    found = []
    for first, second in zip(uniforms[0::2], uniforms[1::2], strict=True):
        length = arithmetic.sqrt(-2 * arithmetic.log(first))
        found += [length * arithmetic.cos_pi(2 * second), length * arithmetic.sin_pi(2 * second)]
    return found[:count]


def normal_uniforms(count: int) -> int:
    """How many uniforms `normals` takes."""
    return 2 * ((count + 1) // 2)


def exponentials(uniforms: Numbers, arithmetic: Arithmetic) -> list[Any]:
    """Standard exponential numbers, one for each uniform."""
    return [-arithmetic.log(uniform) for uniform in uniforms]


def total(numbers: Numbers) -> Any:
    """Sum of one or more numbers of either arithmetic."""
    return sum(numbers[1:], start=numbers[0])


class NoiseLaw(Protocol):
    """A distribution on vectors, symmetric about zero: a `RandomVector` and a hashable value."""

    dimension: int
    title: str

    def __hash__(self) -> int:
        return id(self)  # laws are frozen, and hashed by their numbers

    @property
    def scale(self) -> float:
        """What a summary calls the scale of the noise; 0 for no noise."""
        ...

    @property
    def variances(self) -> FloatArray:
        """Diagonal ``(dimension,)`` of the covariance, which has no other entries."""
        ...

    @property
    def mean_length(self) -> float:
        """Mean Euclidean length, from above."""
        ...

    @property
    def lipschitz_sd(self) -> float:
        """Largest standard deviation of a function of the vector with slope at most one."""
        ...

    def log_density(self, b: FloatArray) -> float:
        """Logarithm of the density at ``b``, up to a constant."""
        ...

    def log_ratio(self, b: FloatArray, change: FloatArray) -> float:
        """``log_density(b) - log_density(b - change)``, accurate for a small change."""
        ...

    @property
    def uniforms(self) -> int:
        return normal_uniforms(self.dimension)

    @property
    def signs(self) -> int:
        return 0

    def transform(self, uniforms: Numbers, signs: Numbers, arithmetic: Arithmetic) -> list[Any]: ...


def mean_square(law: NoiseLaw) -> float:
    """``E|b|^2``, by which laws are compared: a public fact."""
    return float(law.variances.sum())


def shortest(laws: Iterable[NoiseLaw], kinds: tuple[type[Any], ...] = ()) -> NoiseLaw | None:
    """The law with the least ``E|b|^2``, if given of one of these kinds; None if there is none."""
    usual = [law for law in laws if not kinds or isinstance(law, kinds)]
    return min(usual, key=mean_square, default=None)


@dataclass(frozen=True, slots=True)
class SphericalLaplace(NoiseLaw):
    """Density proportional to ``exp(-rate |b|)`` on ``dimension`` coordinates.

    The direction is uniform on the sphere and the length is Gamma distributed with shape
    `dimension` and scale ``1 / rate`` (Chaudhuri, Monteleoni and Sarwate 2011, section 3).
    """

    dimension: int
    rate: float
    title = "spherical Laplace"

    @property
    def scale(self) -> float:
        return 1.0 / self.rate

    @property
    def variances(self) -> FloatArray:
        return np.full(self.dimension, (self.dimension + 1) / self.rate / self.rate)

    @property
    def mean_length(self) -> float:
        return self.dimension / self.rate

    @property
    def lipschitz_sd(self) -> float:
        """By the spectral gap of radial log-concave laws (Bonnefont, Joulin and Ma 2016).

        ``Var f <= E|b|^2 / (d - 1)`` for d > 1; in one dimension the constant is ``4 / rate^2``.
        """
        d = self.dimension
        return math.sqrt(d * (d + 1) / (d - 1) if d > 1 else 4.0) / self.rate

    def log_density(self, b: FloatArray) -> float:
        return -self.rate * float(np.linalg.norm(b))

    def log_ratio(self, b: FloatArray, change: FloatArray) -> float:
        lengths = float(np.linalg.norm(b) + np.linalg.norm(b - change))
        return -self.rate * float(change @ (2 * b - change)) / lengths if lengths > 0 else 0.0

    @property
    def uniforms(self) -> int:
        return normal_uniforms(self.dimension) + self.dimension

    def transform(self, uniforms: Numbers, signs: Numbers, arithmetic: Arithmetic) -> list[Any]:
        d = self.dimension
        direction = normals(uniforms[d:], d, arithmetic)
        gamma = total(exponentials(uniforms[:d], arithmetic)) / self.rate
        length = arithmetic.sqrt(total([x * x for x in direction]))
        return [x * gamma / length for x in direction]


@dataclass(frozen=True, slots=True)
class GaussianNoise(NoiseLaw):
    """Independent normal coordinates of standard deviation `sd`."""

    dimension: int
    sd: float
    title = "Gaussian"

    @property
    def scale(self) -> float:
        return self.sd

    @property
    def variances(self) -> FloatArray:
        return np.full(self.dimension, self.sd * self.sd)

    @property
    def mean_length(self) -> float:
        return self.sd * math.sqrt(self.dimension)

    @property
    def lipschitz_sd(self) -> float:
        """By Poincare's inequality for the normal law."""
        return self.sd

    def log_density(self, b: FloatArray) -> float:
        return -float(b @ b) / (2 * self.sd**2)

    def log_ratio(self, b: FloatArray, change: FloatArray) -> float:
        return -float(change @ (2 * b - change)) / (2 * self.sd**2)

    def transform(self, uniforms: Numbers, signs: Numbers, arithmetic: Arithmetic) -> list[Any]:
        return [x * self.sd for x in normals(uniforms, self.dimension, arithmetic)]


@dataclass(frozen=True, slots=True)
class NoNoise(NoiseLaw):
    """The zero vector, so that the plain fit takes the path of the private one."""

    dimension: int
    title = "no noise"
    scale = mean_length = lipschitz_sd = 0.0
    uniforms = 0

    @property
    def variances(self) -> FloatArray:
        return np.zeros(self.dimension)

    def log_density(self, b: FloatArray) -> float:
        return 0.0 if not np.any(b) else -math.inf

    def log_ratio(self, b: FloatArray, change: FloatArray) -> float:
        return 0.0 if not np.any(change) else math.nan

    def transform(self, uniforms: Numbers, signs: Numbers, arithmetic: Arithmetic) -> list[Any]:
        return [0.0] * self.dimension


@dataclass(frozen=True, slots=True)
class BlockLaplace(NoiseLaw):
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
    dimension: int = field(init=False, repr=False, compare=False)
    title = "block Laplace"

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimension", sum(block.size for block in self.blocks))

    @property
    def scale(self) -> float:
        return 1.0 / self.rate

    @property
    def variances(self) -> FloatArray:
        d = self.dimension
        radial = (d + 1) * (d + 2) / self.rate / self.rate
        found = np.empty(d)
        for columns, part in parts_of(self.blocks):
            found[columns] = radial * _unit_variance(part)
        return found

    @property
    def mean_length(self) -> float:
        """``E r`` times the root of ``E |v|**2``, above the mean by Jensen's inequality."""
        return (self.dimension + 1) / self.rate * math.sqrt(self._unit_square)

    @property
    def _unit_square(self) -> float:
        """``E |v|**2``."""
        return sum(part.size * _unit_variance(part) for _, part in parts_of(self.blocks))

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
            for _, part in parts_of(self.blocks)
        )
        return math.sqrt((d + 1) * (d + 2) * worst + (d + 1) * self._unit_square) / self.rate

    def norm(self, b: FloatArray) -> float:
        """N of a vector ``(d,)``."""
        order = {"l1": 1, "l2": None}
        return max(
            float(np.linalg.norm(b[columns], order[part.norm])) / part.bound
            for columns, part in parts_of(self.blocks)
        )

    def log_density(self, b: FloatArray) -> float:
        return -self.rate * self.norm(b)

    def log_ratio(self, b: FloatArray, change: FloatArray) -> float:
        return -self.rate * (self.norm(b) - self.norm(b - change))

    @property
    def uniforms(self) -> int:
        return self.dimension + 1 + sum(_uniforms(part) for _, part in parts_of(self.blocks))

    @property
    def signs(self) -> int:
        return sum(block.size for block in self.blocks if block.norm == "l1")

    def transform(self, uniforms: Numbers, signs: Numbers, arithmetic: Arithmetic) -> list[Any]:
        """Each part of the unit ball is a vector of fixed law over its own size.

        Exponentials with signs over their sum and one exponential more are uniform in a
        cross-polytope; normal numbers over the root of the sum of their squares and of two
        exponentials are uniform in a Euclidean ball (Barthe, Guedon, Mendelson and Naor 2005,
        Theorem 1, for p = 1 and 2).
        """
        d = self.dimension
        r = total(exponentials(uniforms[: d + 1], arithmetic)) / self.rate
        vector: list[Any] = [None] * d
        rest, left = iter(uniforms[d + 1 :]), iter(signs)
        for columns, part in parts_of(self.blocks):
            own = [next(rest) for _ in range(_uniforms(part))]
            if part.norm == "l1":
                *sizes, last = exponentials(own, arithmetic)
                reach = r * part.bound / total([*sizes, last])
                found = [size * next(left) * reach for size in sizes]
            else:
                (last,) = exponentials(own[:1], arithmetic)
                numbers = normals(own[1:], part.size, arithmetic)
                square = total([number * number for number in numbers]) + 2 * last
                reach = r * part.bound / arithmetic.sqrt(square)
                found = [number * reach for number in numbers]
            for column, number in zip(columns.tolist(), found, strict=True):
                vector[column] = number
        return vector


def _uniforms(part: Block) -> int:
    """Uniform numbers that a part takes."""
    return 1 + (part.size if part.norm == "l1" else normal_uniforms(part.size))


def _unit_variance(part: Block) -> float:
    """Variance of one coordinate, uniform in the ball of the part."""
    if part.norm == "l1":
        return 2 * part.bound**2 / ((part.size + 1) * (part.size + 2))
    return part.bound**2 / (part.size + 2)
