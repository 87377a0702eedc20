"""Choosing one of several public options by a private score: the exponential mechanism.

Between neighbours every score may change by an amount in one interval of length `width`, the
same interval for all options or not; then an option chosen with probability proportional to
``exp(epsilon score / width)`` is epsilon-DP, and of bounded range epsilon (privacy.md 7; Dong,
Durfee and Rogers 2020). Where scores move both ways by up to s, the width is 2 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privatelr.errors import GuaranteeError, require_number
from privatelr.locks import FIRST_PRECISION, flint, working_precision
from privatelr.privacy.guarantees import PureDP
from privatelr.privacy.noise.blockwise import WordArray
from privatelr.privacy.noise.noise_laws import Arithmetic, Numbers
from privatelr.privacy.noise.randomness import Draw, ExactDraw, FloatDraw, Randomness
from privatelr.types import FloatArray

_CELL = 2.0**-64
_HALF = np.uint64(2**63)
_ROUNDING = 2.0**-46
"""Generous bound on the relative error of a few operations in doubles."""
_SMALLEST = 1e-290
"""Size below which doubles may lose digits or underflow."""


@dataclass(frozen=True, slots=True)
class Gumbel:
    """Independent standard Gumbel numbers.

    The largest of scores to which they were added is chosen in proportion to the exponentials
    of the scores, which are never computed.
    """

    dimension: int
    signs = 0

    @property
    def uniforms(self) -> int:
        return self.dimension

    def transform(self, uniforms: Numbers, signs: Numbers, arithmetic: Arithmetic) -> list[Any]:
        return [-arithmetic.log(-arithmetic.log(uniform)) for uniform in uniforms]

    @staticmethod
    def near(leading: WordArray) -> tuple[FloatArray, FloatArray]:
        """The numbers ``(k,)`` to about their first digits, and how far off they may be.

        Parameters
        ----------
        leading
            The first 64 bits of each uniform, which is known to within ``2**-64``.
        """
        below = (leading.astype(np.float64) + 0.5) * _CELL
        above = ((~leading).astype(np.float64) + 0.5) * _CELL  # one minus the same
        is_low = leading < _HALF
        log = np.where(is_low, np.log(below), np.log1p(-np.minimum(above, 0.5)))
        number = -np.log(-log)
        # relative, of the logarithm: its argument may be anywhere in its cell
        doubt = 4 * _CELL / np.minimum(below, above) + _ROUNDING
        doubt = np.where(doubt < 0.01, 2 * doubt, np.inf)
        return number, doubt + _ROUNDING * np.abs(number)


@dataclass(frozen=True, slots=True)
class ExponentialMechanism:
    """A choice that is worth `epsilon` for scores that move within an interval of `width`."""

    epsilon: float
    width: float

    def __post_init__(self) -> None:
        for name, value in (("epsilon", self.epsilon), ("width", self.width)):
            require_number(GuaranteeError, name, value, "a finite number above 0", above=0)

    @property
    def guarantee(self) -> PureDP:
        return PureDP(self.epsilon)

    def log_probabilities(self, scores: FloatArray) -> FloatArray:
        """Logarithms ``(k,)`` of the chances of k options; finite for scores of any size."""
        exponent = self.epsilon * (scores - scores.max()) / self.width
        return np.asarray(exponent - np.log(np.exp(exponent).sum()))

    def choose(self, scores: FloatArray, randomness: Randomness) -> int:
        """Position of the chosen option.

        The largest of score and Gumbel number is decided exactly, so no rounding of a score
        shifts a probability.

        Parameters
        ----------
        scores : ndarray of shape (k,)
            Finite.

        Notes
        -----
        **Privacy.** *Covered*: the position, by `guarantee`. *Neighbours*: those for which
        scores move within `width`. *Assumed public*: the options and their number. *Not
        covered*: the scores, time and memory.
        """
        draw = randomness.draw(Gumbel(len(scores)))
        winner = self._in_doubles(scores, draw)
        precision = FIRST_PRECISION
        while winner is None:
            numbers = draw.enclose(precision)
            with working_precision(precision):
                rate = flint.arb(self.epsilon) / flint.arb(self.width)
                pairs = zip(scores.tolist(), numbers, strict=True)
                winner = _certainly_largest([flint.arb(s) * rate + number for s, number in pairs])
            precision *= 2
        return winner

    def _in_doubles(self, scores: FloatArray, draw: Draw) -> int | None:
        """The winner, where the first bits and doubles leave no doubt of it; else None."""
        match draw:
            case ExactDraw():
                numbers, errors = Gumbel.near(draw.leading())
            case FloatDraw(vector=numbers):
                errors = np.zeros_like(numbers)
            case _:
                return None
        with np.errstate(over="ignore", invalid="ignore"):
            exponents = scores * (self.epsilon / self.width)
            sums = exponents + numbers
            errors = errors + _ROUNDING * (np.abs(exponents) + np.abs(sums)) + _SMALLEST
            best = int(np.argmax(sums))
            ceilings = sums + errors
            ceilings[best] = -np.inf
            floor = sums[best] - errors[best]
        sure = bool(np.isfinite(sums).all()) and float(ceilings.max(initial=-np.inf)) < floor
        return best if sure else None


def _certainly_largest(sums: Sequence[flint.arb]) -> int | None:
    """The position whose ball lies above all others, or None while it is in doubt."""
    if not all(ball.is_finite() for ball in sums):
        return None
    best = max(range(len(sums)), key=lambda position: sums[position].mid())
    others = (*sums[:best], *sums[best + 1 :])
    return best if all(sums[best] > ball for ball in others) else None
