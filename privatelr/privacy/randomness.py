"""Where random numbers come from (privacy.md 10.4).

Noise is drawn from the operating system. A seed replays the noise, so anyone who knows or
guesses it can subtract it: it exists for tests and lectures, and voids the guarantee.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from privatelr.types import FloatArray


class Randomness(Protocol):
    """A source of independent uniform numbers."""

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

    @property
    def is_secret(self) -> bool:
        return False

    def uniforms(self, count: int) -> FloatArray:
        return _open_unit(self._generator.integers(0, 2**64, count, dtype=np.uint64))


def _open_unit(words: np.ndarray[tuple[int, ...], np.dtype[np.uint64]]) -> FloatArray:
    """Middle points of ``2**52`` equal cells of (0, 1); neither end can occur."""
    return ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
