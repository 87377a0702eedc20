"""Where random numbers come from (privacy.md 10.4).

Noise is drawn from the operating system. A seed replays the noise, so anyone who knows or
guesses it can subtract it: it exists for tests and lectures, and voids the guarantee.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import scipy

from privatelr.privacy.noise.blockwise import BlockwiseDraw, is_blockwise
from privatelr.privacy.noise.exact_draws import Draw, ExactDraw, FloatDraw, Floats, RandomVector
from privatelr.types import FloatArray


class Randomness(Protocol):
    """A source of noise, and of independent uniform numbers."""

    def draw(self, recipe: RandomVector) -> Draw:
        """One draw of a law."""
        ...

    @property
    def is_secret(self) -> bool:
        """Whether nobody can replay the numbers."""
        ...

    def uniforms(self, count: int) -> FloatArray:
        """`count` numbers strictly between 0 and 1."""
        ...


@dataclass(frozen=True, slots=True)
class SystemRandomness:
    """The cryptographic generator of the operating system; nothing to seed or to save."""

    def draw(self, recipe: RandomVector) -> Draw:
        """A draw that is exact to as many bits as are asked for (privacy.md 10.2)."""
        if is_blockwise(recipe):
            return BlockwiseDraw(recipe, secrets.randbits)
        return ExactDraw(recipe, secrets.randbits)

    @property
    def is_secret(self) -> bool:
        return True

    def uniforms(self, count: int) -> FloatArray:
        words = np.frombuffer(os.urandom(8 * count), dtype=np.uint64)
        return _open_unit(words)


@dataclass(frozen=True, slots=True)
class SeededRandomness:
    """Repeatable numbers from a seed, for tests and teaching only."""

    seed: int
    _generator: np.random.Generator = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_generator", np.random.default_rng(self.seed))

    def draw(self, recipe: RandomVector) -> Draw:
        """A draw in doubles, which may show through what is added to it."""
        if is_blockwise(recipe):
            return FloatDraw(BlockwiseDraw(recipe, self._bits).nearest())
        uniforms = self.uniforms(recipe.uniforms).tolist()
        signs = [1 if u < 0.5 else -1 for u in self.uniforms(recipe.signs)]
        return FloatDraw(np.array(recipe.transform(uniforms, signs, Floats()), dtype=np.float64))

    def _bits(self, count: int) -> int:
        drawn = int.from_bytes(self._generator.bytes(-(-count // 8)), "little")
        return drawn >> (-count % 8)

    @property
    def is_secret(self) -> bool:
        return False

    def uniforms(self, count: int) -> FloatArray:
        return _open_unit(self._generator.integers(0, 2**64, count, dtype=np.uint64))


def _open_unit(words: np.ndarray[tuple[int, ...], np.dtype[np.uint64]]) -> FloatArray:
    """Middle points of ``2**52`` equal cells of (0, 1); neither end can occur."""
    return ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def normals(randomness: Randomness, count: int) -> FloatArray:
    """Independent standard normal doubles, by inversion; for what may be published."""
    return np.asarray(scipy.special.ndtri(randomness.uniforms(count)))
