"""Noise laws: each has a density, a recipe to draw from it, and a price.

A recipe is a function of independent uniform numbers and signs. It works in the arithmetic in
which they are given: doubles, arrays of doubles, or balls. A new law is one class, and one line in
the table `privatelr.privacy.noise.LAWS`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import methodcaller
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
import scipy

from privatelr.privacy.conversions import pure_within
from privatelr.privacy.events import GaussianEvent
from privatelr.privacy.guarantees import ZCDP, Neighbours, Promise, PureDP, SharedApproxDP
from privatelr.privacy.noise.gaussian_delta import gaussian_mu, gaussian_sd, pure_beside
from privatelr.types import Block, FloatArray, matrix_of, parts_of

UP, DOWN = 1 + 2.0**-50, 1 - 2.0**-50
"""Factors that round a positive number up and down, in the direction of more noise."""
NODES = 40
"""Number of normal laws that stand for a mixture of them."""
_MOST_MATRIX_COLUMNS = 100
"""Largest number of columns of `MatrixLaplace`: an exact draw takes a second there, and the time
grows with the third power."""
_LARGEST_ORDER = 100.0
"""Largest order of Laguerre polynomials whose weights do not overflow."""

Numbers = Sequence[Any]


class Arithmetic(NamedTuple):
    """The functions that a law needs besides addition, subtraction, multiplication and division."""

    log: Callable[[Any], Any]
    sqrt: Callable[[Any], Any]
    cos_pi: Callable[[Any], Any]
    sin_pi: Callable[[Any], Any]


BALLS = Arithmetic(*map(methodcaller, Arithmetic._fields))
"""Arithmetic of balls, which enclose exact numbers at the working precision."""
FLOATS = Arithmetic(
    math.log, math.sqrt, lambda x: math.cos(math.pi * x), lambda x: math.sin(math.pi * x)
)
"""Arithmetic of doubles, for draws that need not be secret."""
ARRAYS = Arithmetic(np.log, np.sqrt, lambda x: np.cos(np.pi * x), lambda x: np.sin(np.pi * x))
"""Arithmetic of arrays of doubles, elementwise."""


class RandomVector(Protocol):
    """A random vector ``(dimension,)`` as a function of independent uniforms and signs."""

    dimension: int
    is_scaled_normal: ClassVar[bool] = False
    """Whether it consists of normal numbers times one factor: a public one, or for a law with a
    `NoiseLaw.radial_rate` one that gives it its length."""

    @property
    def uniforms(self) -> int:
        """How many numbers uniform on (0, 1) one vector takes, by default one a coordinate."""
        return self.dimension

    @property
    def signs(self) -> int:
        """How many fair signs one vector takes."""
        return 0

    @abstractmethod
    def transform(self, uniforms: Numbers, signs: Numbers, arithmetic: Arithmetic) -> list[Any]:
        """Return the coordinates of the vector, in the arithmetic of the uniforms."""
        ...


def draw_many(law: RandomVector, count: int, rng: np.random.Generator) -> FloatArray:
    """Make independent draws ``(count, dimension)`` of a noise law in doubles, by its recipe."""
    uniforms = 1.0 - rng.random((law.uniforms, count))  # never 0
    signs = rng.choice(np.array([-1, 1]), size=(law.signs, count))
    drawn = law.transform(list(uniforms), list(signs), ARRAYS)
    return np.column_stack([np.broadcast_to(x, count) for x in drawn])


def normals(uniforms: Numbers, count: int, arithmetic: Arithmetic) -> list[Any]:
    """Make standard normal numbers of `normal_uniforms(count)` uniforms (Box and Muller 1958)."""
    found = []
    for first, second in zip(uniforms[0::2], uniforms[1::2], strict=True):
        length = arithmetic.sqrt(-2 * arithmetic.log(first))
        found += [length * arithmetic.cos_pi(2 * second), length * arithmetic.sin_pi(2 * second)]
    return found[:count]


def normal_uniforms(count: int) -> int:
    """Return how many uniforms `normals` takes: an even number."""
    return 2 * ((count + 1) // 2)


def exponentials(uniforms: Numbers, arithmetic: Arithmetic) -> list[Any]:
    """Make standard exponential numbers, one of each uniform."""
    return [-arithmetic.log(uniform) for uniform in uniforms]


class RowLimits(Protocol):
    """What is public about the rows that a tilt has to hide."""

    @property
    def d(self) -> int: ...

    @property
    def radius(self) -> float:
        """The largest Euclidean length of a row."""
        ...

    @property
    def blocks(self) -> tuple[Block, ...]: ...


class NoiseLaw(RandomVector, Protocol):
    """A distribution on vectors, symmetric about zero: a `RandomVector` and a hashable value."""

    title: str
    family: ClassVar[str]
    """The name of the law of one coordinate, in the words of printed pages."""
    is_pure: ClassVar[bool] = False
    """Whether a bounded change of the vector costs a bounded epsilon."""
    is_spherical: ClassVar[bool] = False
    """Whether the density depends on the length alone, and is a mixture of normal densities."""
    hides_matrices: ClassVar[bool] = False
    """Whether the noise is for changes of matrices in nuclear norm."""

    def __hash__(self) -> int:
        return id(self)  # laws are frozen, and hashed by their numbers

    # -- the distribution ---------------------------------------------------------------------

    @property
    def scale(self) -> float:
        """The scale of the noise as summaries state it; 0 for no noise."""
        ...

    @property
    def variances(self) -> FloatArray:
        """The variances ``(dimension,)`` of the coordinates, which are uncorrelated."""
        ...

    @property
    def mean_length(self) -> float:
        """The mean Euclidean length, or an upper bound on it."""
        return math.sqrt(mean_square(self))

    @property
    def lipschitz_sd(self) -> float:
        """Upper bound on the standard deviation of any function of the vector with slope one."""
        ...

    def log_density(self, b: FloatArray) -> float:
        """Return the logarithm of the density at ``b``, up to a constant."""
        ...

    @property
    def parts(self) -> tuple[NoiseLaw, ...]:
        """The independent laws of which this one consists, end to end; most laws are one."""
        return (self,)

    def mixture(self, count: int = NODES) -> tuple[FloatArray, FloatArray] | None:
        """Return variances and weights ``(j,)`` of at most `count` normal laws.

        Their mixture approximates the law. The result is None if the law is not `is_spherical`.

        Examples
        --------
        >>> from privatelr.privacy.noise import SphericalLaplace
        >>> variances, weights = SphericalLaplace(3, 1.0).mixture(5)
        >>> float((weights @ variances).round(6))  # the variance of each of its coordinates
        4.0
        """
        return None

    @property
    def radial_rate(self) -> float | None:
        """The rate at which the log density falls with the length; None if it does not so."""
        return None

    def reach(self, count: int, probability: float) -> tuple[float, float]:
        """Bound the sizes of the first and the last coordinate, with this probability.

        The bounds hold for `count` coordinates together, if one bound is for each coordinate of
        the first half and the other one for the second half. By default they follow from the
        variances (Chebyshev's inequality).
        """
        factor = math.sqrt(count / (1 - probability))
        first, last = np.sqrt(self.variances[[0, -1]]).tolist()
        return factor * first, factor * last

    # -- draws --------------------------------------------------------------------------------

    @property
    def uniforms(self) -> int:
        """How many numbers uniform on (0, 1) one vector takes."""
        return normal_uniforms(self.dimension)

    # -- what it proves -----------------------------------------------------------------------

    @classmethod
    def hiding(cls, sensitivity: float, dimension: int, target: Promise) -> Self | None:
        """Return the least noise on a vector of this Euclidean sensitivity; None if unproven."""
        return None

    @classmethod
    def hiding_matrices(cls, sensitivity: float, columns: int, target: Promise) -> Self | None:
        """Return the least noise on two matrices ``(columns, columns)``; None if unproven.

        The sensitivity is that of the vector of both, or of their nuclear norms together if the law
        `hides_matrices`.
        """
        if not cls.is_spherical:
            return None
        return cls.hiding(sensitivity, columns * (columns + 1), target)

    @classmethod
    def tilting(cls, rate: float, rows: RowLimits) -> Self | None:
        """Return the law whose density falls by ``exp(-rate)`` at most along a row, if there is.

        It tilts the objective (Theorem 3.1b of theory.md).
        """
        return None

    def rate_along(self, rows: RowLimits) -> float:
        """Return how far the log density falls at most along a row; infinite if unbounded."""
        return math.inf

    def event(self, sensitivity: float, neighbours: Neighbours) -> PureDP | GaussianEvent | None:
        """Return what the noise costs on a vector of this Euclidean sensitivity, if it is proven.

        Examples
        --------
        >>> from privatelr.privacy import REPLACE_ONE
        >>> from privatelr.privacy.noise import GaussianNoise, SphericalLaplace
        >>> SphericalLaplace(3, 0.25).event(2.0, REPLACE_ONE).epsilon
        0.5
        >>> GaussianNoise(3, 4.0).event(2.0, REPLACE_ONE).mu
        0.5
        """
        return None


def pure_part(target: Promise) -> float:
    """Return the pure epsilon that implies a target; of a shared one, next to what it shares."""
    if isinstance(target, ZCDP):
        return pure_within(target.rho)
    if isinstance(target, PureDP):
        return target.epsilon
    return pure_beside(target.epsilon, target.delta, target.beside)


def mean_square(law: NoiseLaw) -> float:
    """Return ``E|b|^2``, by which laws are compared; it is a public fact."""
    return float(law.variances.sum())


def shortest(laws: Iterable[NoiseLaw], kinds: tuple[type[Any], ...] = ()) -> NoiseLaw | None:
    """Return the law with the least ``E|b|^2``, of these kinds if any are given; None if empty."""
    usual = [law for law in laws if not kinds or isinstance(law, kinds)]
    return min(usual, key=mean_square, default=None)


class LaplaceNoise(NoiseLaw):
    """A law with density proportional to ``exp(-rate N(b))``, N a norm.

    Its log ratio is largest far out along a change, where it is ``rate N(change)``.
    """

    rate: float
    family = "Laplace"
    is_pure = True

    @abstractmethod
    def norm(self, b: FloatArray) -> float:
        """Return N of a vector ``(dimension,)``."""
        ...

    @property
    def scale(self) -> float:
        return 1.0 / self.rate

    def log_density(self, b: FloatArray) -> float:
        return -self.rate * self.norm(b)


@dataclass(frozen=True, slots=True)
class SphericalLaplace(LaplaceNoise):
    """The law with density proportional to ``exp(-rate |b|)`` on ``dimension`` coordinates.

    The direction is uniform on the sphere and the length is Gamma distributed with shape
    `dimension` and scale ``1 / rate`` (Chaudhuri, Monteleoni and Sarwate 2011, section 3).
    """

    dimension: int
    rate: float
    title = "spherical Laplace"
    is_spherical = is_scaled_normal = True

    @property
    def variances(self) -> FloatArray:
        """Equal parts of ``E|b|^2 = d (d + 1) / rate^2``, as the length is Gamma distributed."""
        return np.full(self.dimension, (self.dimension + 1) / self.rate / self.rate)

    @property
    def mean_length(self) -> float:
        return self.dimension / self.rate

    @property
    def lipschitz_sd(self) -> float:
        """The bound of the spectral gap of radial log-concave laws.

        ``Var f <= E|b|^2 / (d - 1)`` for d > 1 (Bonnefont, Joulin and Ma 2016); in one dimension
        the bound is ``4 / rate^2``.
        """
        d = self.dimension
        return math.sqrt(d * (d + 1) / (d - 1) if d > 1 else 4.0) / self.rate

    def norm(self, b: FloatArray) -> float:
        return float(np.linalg.norm(b))

    @property
    def uniforms(self) -> int:
        return normal_uniforms(self.dimension) + self.dimension

    def transform(self, uniforms: Numbers, signs: Numbers, arithmetic: Arithmetic) -> list[Any]:
        """Return a uniform direction times a Gamma distributed length."""
        d = self.dimension
        direction = normals(uniforms[d:], d, arithmetic)
        gamma = sum(exponentials(uniforms[:d], arithmetic)) / self.rate
        length = arithmetic.sqrt(sum([x * x for x in direction]))
        return [x * gamma / length for x in direction]

    @property
    def radial_rate(self) -> float | None:
        return self.rate

    def mixture(self, count: int = NODES) -> tuple[FloatArray, FloatArray] | None:
        """Return the normal laws: their variance is Gamma distributed."""
        nodes, weight = _gamma_nodes((self.dimension + 1) / 2, count)
        return nodes * (2 / self.rate / self.rate), weight

    @classmethod
    def hiding(cls, sensitivity: float, dimension: int, target: Promise) -> Self:
        """Return the law for the pure epsilon that implies the target."""
        return cls(dimension, pure_part(target) / sensitivity * DOWN)

    @classmethod
    def tilting(cls, rate: float, rows: RowLimits) -> Self | None:
        return cls(rows.d, rate / rows.radius * DOWN)

    def rate_along(self, rows: RowLimits) -> float:
        return 1.0 / self.scale * rows.radius

    def event(self, sensitivity: float, neighbours: Neighbours) -> PureDP | GaussianEvent | None:
        return PureDP(sensitivity / self.scale, neighbours)


@lru_cache(maxsize=64)
def _gamma_nodes(shape: float, count: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of a quadrature for a Gamma variable of scale 1."""
    if shape - 1 <= _LARGEST_ORDER:
        nodes, weight = scipy.special.roots_genlaguerre(count, shape - 1)
        return nodes, weight / weight.sum()
    middles = (np.arange(count) + 0.5) / count  # nearly constant: any fine rule will do
    return scipy.special.gammaincinv(shape, middles), np.full(count, 1 / count)


@dataclass(frozen=True, slots=True)
class GaussianNoise(NoiseLaw):
    """The law of independent normal coordinates of standard deviation `sd`."""

    dimension: int
    sd: float
    title = "Gaussian"
    family = "Gaussian"
    is_spherical = is_scaled_normal = True

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
        """The bound of Poincare's inequality for the normal law."""
        return self.sd

    def log_density(self, b: FloatArray) -> float:
        return -float(b @ b) / (2 * self.sd**2)

    def transform(self, uniforms: Numbers, signs: Numbers, arithmetic: Arithmetic) -> list[Any]:
        return [x * self.sd for x in normals(uniforms, self.dimension, arithmetic)]

    def mixture(self, count: int = NODES) -> tuple[FloatArray, FloatArray] | None:
        return np.array([self.sd**2]), np.ones(1)

    def reach(self, count: int, probability: float) -> tuple[float, float]:
        """Return the bound of independent normal numbers."""
        end = self.sd * float(scipy.special.ndtri((1 + probability ** (1 / count)) / 2))
        return end, end

    @classmethod
    def hiding(cls, sensitivity: float, dimension: int, target: Promise) -> Self | None:
        """Return the law by its exact profile (theory.md 4.1), or for rho.

        For rho: Bun and Steinke 2016, Proposition 1.6.
        """
        match target:
            case PureDP():
                return None
            case ZCDP(rho=rho):
                return cls(dimension, sensitivity / math.sqrt(2 * rho) * UP)
            case SharedApproxDP(beside=beside):
                mu = gaussian_mu(target.epsilon, target.delta)
                rest = math.sqrt(max(mu * mu - beside * beside, 0.0)) * DOWN
                return cls(dimension, sensitivity / rest * UP) if rest > 0 else None
        return cls(dimension, gaussian_sd(target.epsilon, target.delta, sensitivity) * UP)

    def event(self, sensitivity: float, neighbours: Neighbours) -> PureDP | GaussianEvent | None:
        return GaussianEvent(sensitivity / self.sd, neighbours)


@dataclass(frozen=True, slots=True)
class NoNoise(NoiseLaw):
    """The law of the zero vector, with which the plain fit takes the path of the private one."""

    dimension: int
    title = "no noise"
    family = "no"
    is_spherical = True
    scale = mean_length = lipschitz_sd = 0.0
    uniforms = 0

    @property
    def variances(self) -> FloatArray:
        return np.zeros(self.dimension)

    def log_density(self, b: FloatArray) -> float:
        return 0.0 if not np.any(b) else -math.inf

    def transform(self, uniforms: Numbers, signs: Numbers, arithmetic: Arithmetic) -> list[Any]:
        return [0.0] * self.dimension

    def mixture(self, count: int = NODES) -> tuple[FloatArray, FloatArray] | None:
        return np.zeros(1), np.ones(1)


@dataclass(frozen=True, slots=True)
class BlockLaplace(LaplaceNoise):
    """The law with density proportional to ``exp(-rate N(b))``, N the norm of a design's blocks.

    ``N(b) = max over parts f of |b_f| / c_f``, where c_f is the largest norm that a row has in the
    part, so that N is at most 1 on every admissible row. The norm of a part is the sum of its
    absolute values; for the part of all blocks under "l2" it is the Euclidean length. Theorem 3.1b
    of theory.md uses only that N is a norm. A draw is ``r v``: r is Gamma distributed with shape
    ``d + 1`` and scale ``1 / rate``, and v is uniform in the unit ball of N, which is a product of
    cross-polytopes and a Euclidean ball.

    Attributes
    ----------
    blocks : tuple of Block
        The blocks in the order of the columns; their sizes add up to the dimension.
    rate : float
        The rate at which the density falls, per unit of N.
    """

    blocks: tuple[Block, ...]
    rate: float
    dimension: int = field(init=False, repr=False, compare=False)
    title = "block Laplace"

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimension", sum(block.size for block in self.blocks))

    @property
    def variances(self) -> FloatArray:
        """The products of ``E r**2`` with the variances of v (theory.md#theorem-31b)."""
        d = self.dimension
        radial = (d + 1) * (d + 2) / self.rate / self.rate
        found = np.empty(d)
        for columns, part in parts_of(self.blocks):
            found[columns] = radial * _unit_variance(part)
        return found

    @property
    def mean_length(self) -> float:
        """``E r`` times the root of ``E |v|**2``: an upper bound by Jensen's inequality."""
        return (self.dimension + 1) / self.rate * math.sqrt(self._unit_square)

    @property
    def _unit_square(self) -> float:
        """The mean square length of v, ``E |v|**2``."""
        return sum(part.size * _unit_variance(part) for _, part in parts_of(self.blocks))

    @property
    def lipschitz_sd(self) -> float:
        """The bound of the inequality of Efron and Stein over r and the parts of v.

        These are independent. A function of slope one has slope at most ``r`` in the parts of v,
        and at most ``|v|`` in r. A block of one column is uniform on an interval, with Poincare
        constant ``(2 c / pi)**2``. A longer block is bounded by the trace of its covariance, and
        so are columns under "l2".
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
        """Return N of a vector ``(d,)``."""
        order = {"l1": 1, "l2": None}
        return max(
            float(np.linalg.norm(b[columns], order[part.norm])) / part.bound
            for columns, part in parts_of(self.blocks)
        )

    def reach(self, count: int, probability: float) -> tuple[float, float]:
        """Return the bounds if every block is one column.

        Then the noise is ``r b_j U_j`` with uniform numbers U between -1 and 1 and r from a Gamma
        law of shape ``d + 1``, so that the largest of ``|U_j|`` is at most ``t / r`` with
        probability ``min(1, t / r)**count``.
        """
        d = self.dimension
        factor = np.exp(scipy.special.gammaln(d + 1 - count) - scipy.special.gammaln(d + 1))

        def missed(t: float) -> float:
            beyond = factor * t**count * scipy.special.gammaincc(d + 1 - count, t)
            return float(scipy.special.gammainc(d + 1, t) + beyond - probability)

        t = scipy.optimize.brentq(missed, 0.0, 50.0 * (d + 1)) / self.rate
        return t * self.blocks[0].bound, t * self.blocks[-1].bound

    @classmethod
    def tilting(cls, rate: float, rows: RowLimits) -> Self | None:
        """Return noise in the shape of the blocks (Theorem 3.1b of theory.md)."""
        return cls(rows.blocks, rate) if rows.blocks else None

    def rate_along(self, rows: RowLimits) -> float:
        return 1.0 / self.scale

    @property
    def uniforms(self) -> int:
        """One for each of the d + 1 exponentials that make r, and those of the parts of v."""
        return self.dimension + 1 + sum(_uniforms(part) for _, part in parts_of(self.blocks))

    @property
    def signs(self) -> int:
        return sum(block.size for block in self.blocks if block.norm == "l1")

    def transform(self, uniforms: Numbers, signs: Numbers, arithmetic: Arithmetic) -> list[Any]:
        """Return a draw ``r v``, with v made part by part.

        Exponential numbers with signs, divided by their sum and one further exponential, are
        uniform in a cross-polytope. Normal numbers, divided by the root of the sum of their
        squares and twice an exponential, are uniform in a Euclidean ball (Barthe, Guedon,
        Mendelson and Naor 2005, Theorem 1, for p = 1 and 2).
        """
        d = self.dimension
        r = sum(exponentials(uniforms[: d + 1], arithmetic)) / self.rate
        vector: list[Any] = [None] * d
        rest, left = iter(uniforms[d + 1 :]), iter(signs)
        for columns, part in parts_of(self.blocks):
            own = [next(rest) for _ in range(_uniforms(part))]
            if part.norm == "l1":
                *sizes, last = exponentials(own, arithmetic)
                reach = r * part.bound / sum([*sizes, last])
                found = [size * next(left) * reach for size in sizes]
            else:
                (last,) = exponentials(own[:1], arithmetic)
                numbers = normals(own[1:], part.size, arithmetic)
                square = sum([number * number for number in numbers]) + 2 * last
                reach = r * part.bound / arithmetic.sqrt(square)
                found = [number * reach for number in numbers]
            for column, number in zip(columns.tolist(), found, strict=True):
                vector[column] = number
        return vector


def _uniforms(part: Block) -> int:
    """Return the number of uniform numbers that a part takes."""
    return 1 + (part.size if part.norm == "l1" else normal_uniforms(part.size))


def _unit_variance(part: Block) -> float:
    """Return the variance of one coordinate of a vector that is uniform in the ball of a part."""
    if part.norm == "l1":
        return 2 * part.bound**2 / ((part.size + 1) * (part.size + 2))
    return part.bound**2 / (part.size + 2)


@dataclass(frozen=True, slots=True)
class CopiedNoise(LaplaceNoise):
    """The law of several independent vectors of one law, one after the other.

    Its density falls with the sum of their norms.

    Attributes
    ----------
    each : LaplaceNoise
    copies : int
    """

    each: LaplaceNoise
    copies: int

    @property
    def dimension(self) -> int:  # type: ignore[override]
        return self.copies * self.each.dimension

    @property
    def title(self) -> str:  # type: ignore[override]
        return self.each.title

    @property
    def rate(self) -> float:  # type: ignore[override]
        return self.each.rate

    @property
    def parts(self) -> tuple[NoiseLaw, ...]:
        return (self.each,) * self.copies

    @property
    def variances(self) -> FloatArray:
        return np.tile(self.each.variances, self.copies)

    @property
    def lipschitz_sd(self) -> float:
        """That of one copy for spherical noise, because constants of Poincare hold for products.

        For other laws the inequality of Efron and Stein adds up what the copies do.
        """
        return self.each.lipschitz_sd * (1.0 if self.each.is_spherical else math.sqrt(self.copies))

    def norm(self, b: FloatArray) -> float:
        return math.fsum(map(self.each.norm, np.split(b, self.copies)))

    def rate_along(self, rows: RowLimits) -> float:
        return self.each.rate_along(rows)

    @property
    def uniforms(self) -> int:
        return self.copies * self.each.uniforms

    @property
    def signs(self) -> int:
        return self.copies * self.each.signs

    def transform(self, uniforms: Numbers, signs: Numbers, arithmetic: Arithmetic) -> list[Any]:
        """Return the copies, each of uniforms and signs of its own."""
        found = []
        for k in range(self.copies):
            own, fair = self.each.uniforms, self.each.signs
            used = uniforms[k * own : (k + 1) * own], signs[k * fair : (k + 1) * fair]
            found += self.each.transform(*used, arithmetic)
        return found


@dataclass(frozen=True, slots=True)
class MatrixLaplace(LaplaceNoise):
    """The law of two symmetric matrices, each the difference of two Wishart matrices.

    A Wishart matrix is ``G G' / (2 rate)``, with G a ``(d, d + 1)`` matrix of independent standard
    normal numbers. The log ratio is at most the rate times the nuclear norm of the change
    (theory.md#matrix-laplace). In one dimension it is the Laplace law. Where matrices have many
    columns, the law has less noise than a spherical one: about the root of d times less.

    A vector of this law is ``(svec N, svec N')``, with the upper triangle of a matrix row by row
    and entries off the diagonal times the root of 2. The density is an integral: `log_density` is a
    lower bound on its logarithm over the density at 0, attained in one dimension and far out.

    Attributes
    ----------
    columns : int
        The number d of columns of each matrix.
    rate : float
    """

    columns: int
    rate: float
    title = "matrix Laplace"
    hides_matrices = True

    @property
    def dimension(self) -> int:  # type: ignore[override]
        return self.columns * (self.columns + 1)

    @property
    def scale(self) -> float:
        """The standard deviation of a coordinate."""
        return math.sqrt(self.columns + 1) / self.rate

    @property
    def variances(self) -> FloatArray:
        """Equal variances: a diagonal entry of a Wishart matrix has half of ``scale**2``."""
        return np.full(self.dimension, self.scale * self.scale)

    @property
    def lipschitz_sd(self) -> float:
        """The root mean square length: a function is no farther from its value at 0."""
        return math.sqrt(mean_square(self))

    def norm(self, b: FloatArray) -> float:
        """Return the sum of the nuclear norms of both matrices."""
        return float(np.abs(np.linalg.eigvalsh(matrix_of(np.array(np.split(b, 2))))).sum())

    @property
    def uniforms(self) -> int:
        return 4 * self.dimension  # which is even, as pairs of normal numbers need it

    def transform(self, uniforms: Numbers, signs: Numbers, arithmetic: Arithmetic) -> list[Any]:
        """Return both differences of products of matrices of normal numbers."""
        d, vector = self.columns, list[Any]()
        root = arithmetic.sqrt(0 * uniforms[0] + 2)
        numbers = iter(normals(uniforms, 4 * self.dimension, arithmetic))
        factors = [[[next(numbers) for _ in range(d + 1)] for _ in range(d)] for _ in range(4)]
        for added, taken in (factors[:2], factors[2:]):
            for i in range(d):
                for j in range(i, d):
                    products = [x * y for x, y in zip(added[i], added[j], strict=True)]
                    products += [-x * y for x, y in zip(taken[i], taken[j], strict=True)]
                    entry = sum(products) / (2 * self.rate)
                    vector.append(entry if i == j else entry * root)
        return vector

    def mixture(self, count: int = NODES) -> tuple[FloatArray, FloatArray] | None:
        """Return the normal laws of a diagonal entry; those of other entries are less spread."""
        nodes, weight = _gamma_nodes((self.columns + 1) / 2, count)
        return nodes * (2 / self.rate / self.rate), weight

    @classmethod
    def hiding_matrices(cls, sensitivity: float, columns: int, target: Promise) -> Self | None:
        if columns > _MOST_MATRIX_COLUMNS:
            return None
        return cls(columns, pure_part(target) / sensitivity * DOWN)

    def event(self, sensitivity: float, neighbours: Neighbours) -> PureDP | GaussianEvent | None:
        """Return what the noise costs on matrices of this sensitivity in nuclear norm."""
        return PureDP(sensitivity * self.rate, neighbours)


LAWS: dict[str, type[NoiseLaw]] = {
    law.__name__: law
    for law in (SphericalLaplace, BlockLaplace, GaussianNoise, NoNoise, CopiedNoise, MatrixLaplace)
}
"""All laws by name, in the order in which they are tried; a new law is listed here."""
