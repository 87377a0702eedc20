"""Sources of random numbers, and exact draws of noise.

Noise comes from the generator of the operating system. A seed replays the noise, so anyone who
knows or guesses the seed can subtract the noise: seeds are for tests and lectures, and void the
guarantee.

A draw fixes the leading bits of each uniform number that a law takes, and adds further bits when
they are needed. So the noise is one real vector, which is enclosed more and more tightly, and
every number that is rounded from it is rounded correctly.

Ball arithmetic takes microseconds and hundreds of bytes for each number. For very many columns the
noise is the same function of the same kind of secret bits, but it is evaluated in doubles, block by
block, together with a bound on how far each double is from the exact number. The bound decides
almost every rounding of a release. Balls decide the few that are left in doubt, with as many
further bits as they need. So there, too, the released number is the rounding of an exact number.

The bounds assume that NumPy's ``log``, ``log1p`` and ``cos`` are right to 4 units in the last
place, as certificates assume of its ``exp``, and allow for twice that error.
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt
import scipy

from privatelr.locks import FIRST_PRECISION, flint, working_precision
from privatelr.privacy.noise.noise_laws import (
    BALLS,
    FLOATS,
    NoiseLaw,
    RandomVector,
    exponentials,
    normal_uniforms,
    normals,
)
from privatelr.types import FloatArray

WordArray = npt.NDArray[np.uint64]
MANY = 10_000
"""Largest number of coordinates of a draw that is not made """
WORD = 64
"""Number of bits of a uniform number that are drawn first."""
GUARD = 32
"""Bits of precision beyond those of the uniforms, for the rounding of the evaluation."""
NOT_COPIED = "a draw of noise is not copied: with it the noise could be taken off."
_BLOCK = 2**16
"""Number of coordinates in one block."""
_UNIT = 2.0**-53
"""Largest relative error of one rounding to a double."""
_FUNCTION = 16 * _UNIT
"""Largest relative error of a logarithm: 8 units in the last place."""
_LARGE = 2.0**51
"""Size from which on the number of a cell is decided by balls, in units of the grid."""
_ROUNDED_UP = 1 + 1e-6
"""Factor that covers the relative rounding error in the length of any vector in memory."""


def drawn_words(bits: Callable[[int], int], count: int) -> WordArray:
    """Draw words of secret bits in one request, which is faster than one by one."""
    drawn = bits(WORD * count).to_bytes(count * WORD // 8, "little")
    return np.frombuffer(drawn, dtype="<u8")


def cell(prefix: int, known: int) -> flint.arb:
    """Return the ball ``[prefix, prefix + 1] / 2**known`` of a uniform with `known` known bits."""
    half = -known - 1
    return flint.arb((2 * prefix + 1, half), (1, half))


class Draw(Protocol):
    """One vector of noise, drawn once."""

    __slots__ = ()

    def enclose(self, precision: int) -> list[flint.arb]:
        """Return balls that contain the coordinates; more bits give smaller balls."""
        ...

    def nearest(self) -> FloatArray:
        """Return doubles ``(dimension,)``, each within a few units in the last place."""
        ...

    @property
    def distance(self) -> Callable[[FloatArray], float] | None:
        """A function that bounds the distance from a vector of doubles; None for few columns."""
        return None

    def rounded(self, centre: FloatArray, grid: float) -> FloatArray | None:
        """Return the multiples of `grid` nearest to ``centre + draw``; None leaves it to balls."""
        return None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ExactDraw(Draw):
    """A draw from a secret source of bits, exact to any precision.

    It is never shown, written to a file, or drawn again.

    Parameters
    ----------
    recipe : RandomVector
        The law, as a function of uniform numbers and signs.
    bits : callable
        A function that draws a given number of secret bits and returns them as an integer.
    """

    recipe: RandomVector
    bits: Callable[[int], int]
    _signs: tuple[int, ...] = field(init=False)
    _prefixes: list[int] = field(init=False)
    _known: list[int] = field(init=False)  # one entry: bits of each prefix

    def __post_init__(self) -> None:
        signs = tuple(1 - 2 * self.bits(1) for _ in range(self.recipe.signs))
        object.__setattr__(self, "_signs", signs)
        object.__setattr__(self, "_prefixes", [0] * self.recipe.uniforms)
        object.__setattr__(self, "_known", [0])

    def enclose(self, precision: int) -> list[flint.arb]:
        """Return balls that contain the coordinates, after drawing the bits that this takes."""
        with working_precision(precision):
            self._extend(precision - GUARD)
            uniforms = [cell(prefix, self._known[0]) for prefix in self._prefixes]
            found = self.recipe.transform(uniforms, self._signs, BALLS)
            return [x if isinstance(x, flint.arb) else flint.arb(x) for x in found]

    def nearest(self) -> FloatArray:
        """Return doubles ``(dimension,)`` within one unit in the last place."""
        precision = FIRST_PRECISION
        while True:
            enclosed = self.enclose(precision)
            if all(ball.is_finite() and ball.rel_accuracy_bits() > 60 for ball in enclosed):
                return np.array([float(ball.mid()) for ball in enclosed])
            precision *= 2

    def leading(self) -> WordArray:
        """Return the first 64 bits of each uniform as integers, for a fast decision in doubles."""
        if self._known[0] == 0:
            words = drawn_words(self.bits, len(self._prefixes))
            self._prefixes[:], self._known[0] = words.tolist(), WORD
            return words
        self._extend(WORD)
        beyond = self._known[0] - WORD
        return np.array([prefix >> beyond for prefix in self._prefixes], dtype=np.uint64)

    def _extend(self, known: int) -> None:
        more = known - self._known[0]
        if more > 0:  # earlier bits stay, because they define the draw
            self._prefixes[:] = [(prefix << more) | self.bits(more) for prefix in self._prefixes]
            self._known[0] = known

    def __reduce__(self) -> Any:
        raise TypeError(NOT_COPIED)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FloatDraw(Draw):
    """A draw that consists of doubles: made from a seed, or supplied by a test."""

    vector: FloatArray

    def enclose(self, precision: int) -> list[flint.arb]:
        """Return the doubles as exact numbers."""
        return [flint.arb(float(number)) for number in self.vector]

    def nearest(self) -> FloatArray:
        """Return the doubles themselves."""
        return self.vector

    @property
    def distance(self) -> Callable[[FloatArray], float] | None:
        """The length of the difference, rounded up."""
        if len(self.vector) <= MANY:
            return None
        return lambda vector: float(np.linalg.norm(self.vector - vector)) * _ROUNDED_UP


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ShiftedDraw(Draw):
    """A draw plus a known vector of doubles ``(dimension,)``."""

    draw: Draw
    shift: FloatArray

    def enclose(self, precision: int) -> list[flint.arb]:
        """Return balls that contain the exact sums."""
        balls = self.draw.enclose(precision)
        with working_precision(precision):
            return [ball + flint.arb(float(s)) for ball, s in zip(balls, self.shift, strict=True)]

    def nearest(self) -> FloatArray:
        """Return sums in doubles."""
        return np.asarray(self.draw.nearest() + self.shift)

    @property
    def distance(self) -> Callable[[FloatArray], float] | None:
        """The distance of the draw from what is left of a vector without the shift."""
        own, shift = self.draw.distance, self.shift
        if own is None:
            return None

        def distance(vector: FloatArray) -> float:
            # an entry of the difference is off by at most a rounding of it
            rounded = 2.0**-52 * (float(np.linalg.norm(vector)) + float(np.linalg.norm(shift)))
            return (own(vector - shift) + rounded) * _ROUNDED_UP

        return distance


# -- draws of very many numbers -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BlockwiseDraw(Draw):
    """A draw from a secret source of bits; it is never shown, written to a file, or drawn again.

    Parameters
    ----------
    recipe : NoiseLaw
        A law with `is_scaled_normal`.
    bits : callable
        A function that draws a given number of secret bits and returns them as an integer.
    """

    recipe: NoiseLaw
    bits: Callable[[int], int]
    _words: WordArray = field(init=False)
    _further: dict[int, tuple[int, int]] = field(init=False)  # index: bits, and how many
    _factor: tuple[float, float] = field(init=False)

    def __post_init__(self) -> None:
        words = np.empty(self.recipe.uniforms, dtype=np.uint64)
        for start in range(0, len(words), _BLOCK):
            here = words[start : start + _BLOCK]
            here[:] = drawn_words(self.bits, len(here))
        object.__setattr__(self, "_words", words)
        object.__setattr__(self, "_further", {})
        object.__setattr__(self, "_factor", self._common_factor())

    def __reduce__(self) -> Any:
        raise TypeError(NOT_COPIED)

    @property
    def _first_normal(self) -> int:
        """How many uniforms, those of the length, come before those of the normal numbers."""
        return self.recipe.uniforms - normal_uniforms(self.recipe.dimension)

    # --- in doubles -----------------------------------------------------------------------------

    def nearest(self) -> FloatArray:
        """Return doubles ``(dimension,)`` near the draw; `distance` bounds how far they are."""
        return np.concatenate([values for _, values, _ in self._blocks()])

    def distance(self, vector: FloatArray) -> float:
        """Bound the Euclidean distance from the draw to a vector of doubles from above."""
        squares = []
        for here, values, errors in self._blocks():
            off = np.abs(values - vector[here]) * (1 + 2 * _UNIT) + errors
            squares.append(math.fsum(off * off))
        return math.sqrt(math.fsum(squares)) * (1 + 16 * _UNIT)

    def rounded(self, centre: FloatArray, grid: float) -> FloatArray:
        """Return the multiples of `grid` nearest to the exact ``centre + draw``.

        Notes
        -----
        `grid` is a power of two. Let t be the computed sum over the grid, and ``rint(t)`` the
        nearest whole number. The exact sum has the same nearest whole number if t is farther
        from the end of that cell than the error of t: ``t - rint(t)`` is exact for
        ``|t| < 2**51``, and the sum adds one rounding to the errors of centre and draw.
        """
        found = np.empty(self.recipe.dimension)
        doubtful: list[int] = []
        with np.errstate(all="ignore"):
            for here, values, errors in self._blocks():
                total = (centre[here] + values) / grid
                cells = np.rint(total)
                off = errors / grid * (1 + 4 * _UNIT) + 2 * _UNIT * np.abs(total)
                clear = (0.5 - np.abs(total - cells) > off) & (np.abs(total) < _LARGE)
                found[here] = cells * grid + 0.0  # -0.0 would reveal a sign
                doubtful.extend((here.start + np.flatnonzero(~clear)).tolist())
        for index, number in self._decided(doubtful, centre, grid):
            found[index] = number
        return found

    def _blocks(self) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
        """Yield the position of each block, its doubles, and the largest error of each double."""
        factor, relative = self._factor
        for here, standard, errors in self._standard():
            values = standard * factor
            lost = np.abs(values) * (relative * (1 + relative) + 2 * _UNIT)
            yield here, values, errors * factor * (1 + relative) + lost

    def _standard(self) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
        """Yield the position of each block, its standard normal numbers, and their errors."""
        d, words = self.recipe.dimension, self._words[self._first_normal :]
        for start in range(0, d, _BLOCK):
            size = min(_BLOCK, d - start)
            # numbers are made in pairs, and the last pair may be needed by half only
            numbers, errors = _normal_doubles(words[start : start + size + size % 2])
            yield slice(start, start + size), numbers[:size], errors[:size]

    def _common_factor(self) -> tuple[float, float]:
        """Return the factor of the standard normal numbers, and its relative error."""
        d, rate = self.recipe.dimension, self.recipe.radial_rate
        if rate is None:
            return self.recipe.scale, 0.0
        cuts = (slice(start, min(start + _BLOCK, d)) for start in range(0, d, _BLOCK))
        gamma, lost = _summed(exponential_doubles(self._words[cut]) for cut in cuts)
        square, lost_of_square = _summed(
            (numbers * numbers, (2 * np.abs(numbers) + errors) * errors)
            for _, numbers, errors in self._standard()
        )
        off, off_square = lost / gamma, lost_of_square / square + 4 * _UNIT
        # the root halves the relative error of the square, and the quotient adds terms of second
        # order: for an error below a tenth, 1.1 times the whole sum is more than enough
        relative = off + off_square + 16 * _UNIT
        factor = gamma / rate / math.sqrt(square)
        return factor, 1.1 * relative if relative < 0.1 else math.inf

    # --- in balls -------------------------------------------------------------------------------

    def enclose(self, precision: int) -> list[flint.arb]:
        """Return balls that contain the coordinates; more bits give smaller balls."""
        with working_precision(precision):
            known = precision - GUARD
            uniforms = [self._ball(index, known) for index in range(self.recipe.uniforms)]
            return self.recipe.transform(uniforms, (), BALLS)

    def _decided(
        self, doubtful: list[int], centre: FloatArray, grid: float
    ) -> Iterator[tuple[int, float]]:
        """Round a few coordinates by balls, with ever more bits until none is in doubt."""
        known = WORD
        while doubtful:
            left = []
            with working_precision(known + GUARD):
                factor = self._exact_factor(known)
                for index in doubtful:
                    ball = self._coordinate(index, known) * factor
                    total = (flint.arb(float(centre[index])) + ball) / flint.arb(grid)
                    number = (total + flint.arb(0.5)).floor().unique_fmpz()
                    if number is None:
                        left.append(index)
                    else:
                        yield index, float(int(number)) * grid
            doubtful, known = left, 2 * known

    def _exact_factor(self, known: int) -> flint.arb:
        d, rate = self.recipe.dimension, self.recipe.radial_rate
        if rate is None:
            return flint.arb(self.recipe.scale)
        gamma = square = flint.arb(0)
        for index in range(d):
            gamma += exponentials([self._ball(index, known)], BALLS)[0]
            square += self._coordinate(index, known) ** 2
        return gamma / flint.arb(rate) / square.sqrt()

    def _coordinate(self, index: int, known: int) -> flint.arb:
        """Return the ball of one standard normal number."""
        pair = self._first_normal + index - index % 2
        uniforms = [self._ball(pair, known), self._ball(pair + 1, known)]
        found: flint.arb = normals(uniforms, 2, BALLS)[index % 2]
        return found

    def _ball(self, index: int, known: int) -> flint.arb:
        """Return the ball of a uniform, from `known` bits of it or more."""
        prefix, size = self._further.get(index, (int(self._words[index]), WORD))
        if known > size:  # earlier bits stay, because they define the draw
            prefix, size = (prefix << (known - size)) | self.bits(known - size), known
            self._further[index] = prefix, size
        return cell(prefix, size)


def _summed(blocks: Iterable[tuple[FloatArray, FloatArray]]) -> tuple[float, float]:
    """Return the sum of the numbers in all blocks, and the sum of their errors."""
    sums = [(math.fsum(numbers), math.fsum(errors)) for numbers, errors in blocks]
    numbers, errors = zip(*sums, strict=True)
    return math.fsum(numbers), math.fsum(errors)


def exponential_doubles(words: WordArray) -> tuple[FloatArray, FloatArray]:
    """Return ``-log U`` for U in ``[word, word + 1] / 2**64``, and the largest error of each.

    Near one it is ``1 - U`` that doubles hold with all digits. The middle of the cell of U, or of
    ``1 - U``, is off by two roundings, and the cell extends ``2**-65`` to either side of it.
    """
    low = words < np.uint64(2**63)
    with np.errstate(all="ignore"):
        middle = (np.where(low, words, ~words).astype(np.float64) + 0.5) * 2.0**-WORD
        values = -np.where(low, np.log(middle), np.log1p(-middle))
        off = middle * (4 * _UNIT) + 2.0 ** -(WORD + 1)
        # the slope of the logarithm is at most one over the nearer end of what U may be
        nearest = np.where(low, middle, 1 - middle) * (1 - _UNIT) - off
        errors = np.where(nearest > 0, off / nearest, np.inf) + _FUNCTION * values
    return values, errors * (1 + 2.0**-40)


def _normal_doubles(words: WordArray) -> tuple[FloatArray, FloatArray]:
    """Return standard normal numbers of pairs of words, and the largest error of each.

    They are made as by `normals`. The error of the length ``(-2 log U)**(1/2)`` is at most that
    of its square over the length, and one rounding. The error of the angle ``2 pi V`` is at most
    3 roundings of ``2 pi`` and the cell of V. A cosine is off by the error of its angle and by 4
    units in the last place: below ``40 * 2**-53`` in all.
    """
    squares, off = exponential_doubles(words[0::2])
    with np.errstate(all="ignore"):
        lengths = np.sqrt(2 * squares)
        off = 2 * off / lengths + 2 * _UNIT * lengths
        angles = (words[1::2].astype(np.float64) + 0.5) * 2.0 ** (1 - WORD) * math.pi
        numbers = np.column_stack([lengths * np.cos(angles), lengths * np.sin(angles)])
        errors = (off + (lengths + off) * (42 * _UNIT)) * (1 + 2.0**-40)
    return numbers.ravel(), np.repeat(errors, 2)


# -- sources --------------------------------------------------------------------------------------


class Randomness(Protocol):
    """A source of noise, and of independent uniform numbers."""

    def draw(self, recipe: RandomVector) -> Draw:
        """Draw one vector of a law."""
        ...

    @property
    def is_secret(self) -> bool:
        """Whether the numbers are secret, so that they cannot be replayed."""
        ...

    def uniforms(self, count: int) -> FloatArray:
        """Draw `count` independent doubles, uniform and strictly between 0 and 1."""
        ...


@dataclass(frozen=True, slots=True)
class SystemRandomness:
    """The cryptographic generator of the operating system; it has no seed."""

    is_secret = True

    def draw(self, recipe: RandomVector) -> Draw:
        """Draw one vector that can be enclosed to any precision."""
        if recipe.is_scaled_normal and recipe.dimension > MANY:
            return BlockwiseDraw(cast("NoiseLaw", recipe), secrets.randbits)
        return ExactDraw(recipe, secrets.randbits)

    def uniforms(self, count: int) -> FloatArray:
        """Draw `count` independent doubles, uniform and strictly between 0 and 1."""
        return _open_unit(np.frombuffer(os.urandom(8 * count), dtype=np.uint64))


@dataclass(frozen=True, slots=True)
class SeededRandomness:
    """Repeatable numbers from a seed, for tests and lectures only; they void a guarantee."""

    seed: int
    _generator: np.random.Generator = field(init=False, repr=False, compare=False)
    is_secret = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "_generator", np.random.default_rng(self.seed))

    def draw(self, recipe: RandomVector) -> Draw:
        """Draw one vector in doubles, whose last digits may show in a sum with it."""
        if recipe.is_scaled_normal and recipe.dimension > MANY:
            return FloatDraw(BlockwiseDraw(cast("NoiseLaw", recipe), self._bits).nearest())
        uniforms = self.uniforms(recipe.uniforms).tolist()
        signs = [1 if u < 0.5 else -1 for u in self.uniforms(recipe.signs)]
        return FloatDraw(np.array(recipe.transform(uniforms, signs, FLOATS), dtype=np.float64))

    def _bits(self, count: int) -> int:
        drawn = int.from_bytes(self._generator.bytes(-(-count // 8)), "little")
        return drawn >> (-count % 8)

    def uniforms(self, count: int) -> FloatArray:
        """Draw `count` doubles, uniform and strictly between 0 and 1, from the seed."""
        return _open_unit(self._generator.integers(0, 2**64, count, dtype=np.uint64))


def _open_unit(words: WordArray) -> FloatArray:
    """Return middle points of ``2**52`` equal cells of (0, 1), so that neither end can occur."""
    return ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def drawn_normals(randomness: Randomness, count: int) -> FloatArray:
    """Draw standard normal doubles by inversion, for numbers that may be published."""
    return np.asarray(scipy.special.ndtri(randomness.uniforms(count)))
