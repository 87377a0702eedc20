"""One draw of noise, exactly: real numbers known to as many bits as anyone asks for.

A law is a function of independent uniform numbers and signs. A draw fixes the leading bits of
each uniform and adds further bits when they are needed, so the noise is one real vector,
enclosed ever more tightly, and what is rounded from it is rounded correctly (privacy.md 10.2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from privatelr.lazy_import import lazy_import
from privatelr.locks import FIRST_PRECISION, working_precision

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import flint
    import numpy.typing as npt

    from privatelr.types import FloatArray

    WordArray = npt.NDArray[np.uint64]
else:
    flint = lazy_import("flint")

_WORD = 64
_GUARD = 32
"""Bits of precision beyond those of the uniforms, for the rounding of the evaluation."""


class Arithmetic(Protocol):
    """What a law needs beside plus, minus, times and divide."""

    def log(self, x: Any) -> Any: ...
    def sqrt(self, x: Any) -> Any: ...
    def cos_pi(self, x: Any) -> Any: ...
    def sin_pi(self, x: Any) -> Any: ...


class Balls:
    """Enclosures, at the working precision."""

    def log(self, x: flint.arb) -> flint.arb:
        return x.log()

    def sqrt(self, x: flint.arb) -> flint.arb:
        return x.sqrt()

    def cos_pi(self, x: flint.arb) -> flint.arb:
        return x.cos_pi()

    def sin_pi(self, x: flint.arb) -> flint.arb:
        return x.sin_pi()


class Floats:
    """Doubles, for draws that need not be secret."""

    def log(self, x: float) -> float:
        return math.log(x)

    def sqrt(self, x: float) -> float:
        return math.sqrt(x)

    def cos_pi(self, x: float) -> float:
        return math.cos(math.pi * x)

    def sin_pi(self, x: float) -> float:
        return math.sin(math.pi * x)


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

    def transform(
        self, uniforms: Sequence[Any], signs: Sequence[int], arithmetic: Arithmetic
    ) -> list[Any]:
        """The vector, in whatever arithmetic the uniforms are given in."""
        ...


class Draw(Protocol):
    """One vector of noise, drawn once."""

    def enclose(self, precision: int) -> list[flint.arb]:
        """Balls that hold the coordinates; more bits give smaller balls around the same."""
        ...

    def nearest(self) -> FloatArray:
        """Doubles ``(dimension,)``, each within a few units in the last place."""
        ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ExactDraw:
    """A draw from a secret source of bits; it is never shown, copied to a file, or drawn again."""

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
        with working_precision(precision):
            self._extend(precision - _GUARD)
            uniforms = [self._uniform(prefix) for prefix in self._prefixes]
            found = self.recipe.transform(uniforms, self._signs, Balls())
            return [x if isinstance(x, flint.arb) else flint.arb(x) for x in found]

    def nearest(self) -> FloatArray:
        precision = FIRST_PRECISION
        while True:
            enclosed = self.enclose(precision)
            if all(ball.is_finite() and ball.rel_accuracy_bits() > 60 for ball in enclosed):
                return np.array([float(ball.mid()) for ball in enclosed])
            precision *= 2

    def leading(self) -> WordArray:
        """The first 64 bits of each uniform, as whole numbers below ``2**64``; for a fast look."""
        if self._known[0] == 0:  # in one piece: asking once is what is fast
            count = len(self._prefixes)
            drawn = self.bits(_WORD * count).to_bytes(count * _WORD // 8, "little")
            words = np.frombuffer(drawn, dtype="<u8")
            self._prefixes[:] = words.tolist()
            self._known[0] = _WORD
            return words
        self._extend(_WORD)
        beyond = self._known[0] - _WORD
        return np.array([prefix >> beyond for prefix in self._prefixes], dtype=np.uint64)

    def _extend(self, known: int) -> None:
        more = known - self._known[0]
        if more > 0:  # earlier bits are kept: they are what the draw is
            for index, prefix in enumerate(self._prefixes):
                self._prefixes[index] = (prefix << more) | self.bits(more)
            self._known[0] = known

    def _uniform(self, prefix: int) -> flint.arb:
        """The ball ``[prefix, prefix + 1] / 2**known``."""
        half = -self._known[0] - 1
        return flint.arb((2 * prefix + 1, half), (1, half))

    def __reduce__(self) -> Any:
        raise TypeError("a draw of noise is not copied: with it the noise could be taken off.")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FloatDraw:
    """A draw that is known in doubles: from a seed, or put in by a test."""

    vector: FloatArray

    def enclose(self, precision: int) -> list[flint.arb]:
        return [flint.arb(float(number)) for number in self.vector]

    def nearest(self) -> FloatArray:
        return self.vector


def normals(uniforms: Sequence[Any], count: int, arithmetic: Arithmetic) -> list[Any]:
    """Standard normal numbers from `normal_uniforms(count)` uniforms (Box and Muller 1958)."""
    found = []
    for first, second in zip(uniforms[0::2], uniforms[1::2], strict=True):
        length = arithmetic.sqrt(-2 * arithmetic.log(first))
        found += [
            length * arithmetic.cos_pi(2 * second),
            length * arithmetic.sin_pi(2 * second),
        ]
    return found[:count]


def normal_uniforms(count: int) -> int:
    """How many uniforms `normals` takes."""
    return 2 * ((count + 1) // 2)


def exponentials(uniforms: Sequence[Any], arithmetic: Arithmetic) -> list[Any]:
    """Standard exponential numbers, one for each uniform."""
    return [-arithmetic.log(uniform) for uniform in uniforms]


def total(numbers: Sequence[Any]) -> Any:
    """Sum of one or more numbers of either arithmetic."""
    first, *rest = numbers
    return sum(rest, start=first)
