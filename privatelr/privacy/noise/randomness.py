"""Sources of random numbers (privacy.md 10.4), and exact draws of noise (10.2).

Noise comes from the generator of the operating system. A seed replays the noise, so anyone who
knows or guesses the seed can subtract the noise: seeds are for tests and lectures, and void the
guarantee.

A draw fixes the leading bits of each uniform number that a law takes, and adds further bits when
they are needed. So the noise is one real vector, which is enclosed more and more tightly, and
every number that is rounded from it is rounded correctly.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import scipy

from privatelr.locks import FIRST_PRECISION, flint, working_precision
from privatelr.privacy.noise import blockwise
from privatelr.privacy.noise.blockwise import BlockwiseDraw, WordArray, cell, drawn_words
from privatelr.privacy.noise.noise_laws import BALLS, FLOATS, RandomVector
from privatelr.types import FloatArray

_ROUNDED_UP = 1 + 1e-6
"""Factor that covers the relative rounding error in the length of any vector in memory."""


class Draw(Protocol):
    """One vector of noise, drawn once."""

    def enclose(self, precision: int) -> list[flint.arb]:
        """Return balls that contain the coordinates; more bits give smaller balls."""
        ...

    def nearest(self) -> FloatArray:
        """Return doubles ``(dimension,)``, each within a few units in the last place."""
        ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ExactDraw:
    """A draw from a secret source of bits, exact to any precision (privacy.md 10.2).

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
            self._extend(precision - blockwise.GUARD)
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
            self._prefixes[:], self._known[0] = words.tolist(), blockwise.WORD
            return words
        self._extend(blockwise.WORD)
        beyond = self._known[0] - blockwise.WORD
        return np.array([prefix >> beyond for prefix in self._prefixes], dtype=np.uint64)

    def _extend(self, known: int) -> None:
        more = known - self._known[0]
        if more > 0:  # earlier bits stay, because they define the draw
            self._prefixes[:] = [(prefix << more) | self.bits(more) for prefix in self._prefixes]
            self._known[0] = known

    def __reduce__(self) -> Any:
        raise TypeError(blockwise.NOT_COPIED)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FloatDraw:
    """A draw that consists of doubles: made from a seed, or supplied by a test."""

    vector: FloatArray

    def enclose(self, precision: int) -> list[flint.arb]:
        """Return the doubles as exact numbers."""
        return [flint.arb(float(number)) for number in self.vector]

    def nearest(self) -> FloatArray:
        """Return the doubles themselves."""
        return self.vector


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ShiftedDraw:
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


def distance_from(noise: Draw) -> Callable[[FloatArray], float] | None:
    """Return a function that bounds the distance of noise from a vector; None for few columns."""
    if isinstance(noise, BlockwiseDraw):
        return noise.distance
    if isinstance(noise, ShiftedDraw):
        return _distance_from_shifted(noise)
    if not isinstance(noise, FloatDraw) or len(noise.vector) <= blockwise.MANY:
        return None
    held = noise.vector
    return lambda vector: float(np.linalg.norm(held - vector)) * _ROUNDED_UP


def _distance_from_shifted(noise: ShiftedDraw) -> Callable[[FloatArray], float] | None:
    own, shift = distance_from(noise.draw), noise.shift
    if own is None:
        return None

    def distance(vector: FloatArray) -> float:
        # an entry of the difference is off by at most a rounding of it
        rounded = 2.0**-52 * (float(np.linalg.norm(vector)) + float(np.linalg.norm(shift)))
        return (own(vector - shift) + rounded) * _ROUNDED_UP

    return distance


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
    """The cryptographic generator of the operating system; it has no seed (privacy.md 10.4)."""

    is_secret = True

    def draw(self, recipe: RandomVector) -> Draw:
        """Draw one vector that can be enclosed to any precision (privacy.md 10.2)."""
        if blockwise.is_blockwise(recipe):
            return BlockwiseDraw(recipe, secrets.randbits)
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
        if blockwise.is_blockwise(recipe):
            return FloatDraw(BlockwiseDraw(recipe, self._bits).nearest())
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


def normals(randomness: Randomness, count: int) -> FloatArray:
    """Draw standard normal doubles by inversion, for numbers that may be published."""
    return np.asarray(scipy.special.ndtri(randomness.uniforms(count)))
