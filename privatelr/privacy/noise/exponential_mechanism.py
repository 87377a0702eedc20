"""The exponential mechanism, and permute-and-flip: a choice of a public option by private scores.

Let the changes of all scores between neighbours lie in one interval of length `width`, which may
depend on the pair of neighbours. Then a choice with probability proportional to
``exp(epsilon score / width)`` is epsilon-DP, and of bounded range epsilon (Dong, Durfee and Rogers
2020; theory.md#bounded-range). If scores move up and down by at most s, the width is 2 s.

Both mechanisms add independent random numbers to ``epsilon score / width`` and choose the largest
sum. With standard Gumbel numbers that is the exponential mechanism. With standard exponential
numbers it is permute-and-flip (McKenna and Sheldon 2020), which is epsilon-DP by the same page, and
never chooses worse on average, but is not of bounded range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privatelr.errors import GuaranteeError, require_number
from privatelr.locks import FIRST_PRECISION, flint, working_precision
from privatelr.privacy.noise.noise_laws import Arithmetic, Numbers, RandomVector, exponentials
from privatelr.privacy.noise.randomness import (
    Draw,
    ExactDraw,
    FloatDraw,
    Randomness,
    WordArray,
    exponential_doubles,
)
from privatelr.types import FloatArray

_ROUNDING = 2.0**-46
"""Upper bound on the relative error of a few operations in doubles, far above the actual one."""
_SMALLEST = 1e-290
"""Absolute value below which doubles may lose digits or underflow."""


@dataclass(frozen=True, slots=True)
class Gumbel(RandomVector):
    """The law of independent standard Gumbel numbers.

    If they are added to scores, the largest sum belongs to an option with probability proportional
    to the exponential of its score, and no exponential is computed.
    """

    title: ClassVar[str] = "Gumbel"
    dimension: int

    def transform(self, uniforms: Numbers, signs: Numbers, arithmetic: Arithmetic) -> list[Any]:
        """Return the numbers ``-log(-log U)``, in the arithmetic of the uniforms."""
        return [-arithmetic.log(-arithmetic.log(uniform)) for uniform in uniforms]

    @staticmethod
    def near(leading: WordArray) -> tuple[FloatArray, FloatArray]:
        """Return the numbers ``(k,)`` in doubles, and bounds on their errors.

        Parameters
        ----------
        leading
            The first 64 bits of each uniform, which determine it to within ``2**-64``.
        """
        exponential, errors = exponential_doubles(leading)
        number = -np.log(exponential)
        # a relative error is about the absolute error of the logarithm
        doubt = errors / exponential + _ROUNDING
        doubt = np.where(doubt < 0.01, 2 * doubt, np.inf)
        return number, doubt + _ROUNDING * np.abs(number)


@dataclass(frozen=True, slots=True)
class Exponential(RandomVector):
    """The law of independent standard exponential numbers."""

    dimension: int

    def transform(self, uniforms: Numbers, signs: Numbers, arithmetic: Arithmetic) -> list[Any]:
        """Return the numbers ``-log U``, in the arithmetic of the uniforms."""
        return exponentials(uniforms, arithmetic)

    near = staticmethod(exponential_doubles)
    """Returns the numbers ``(k,)`` in doubles, and bounds on their errors; see `Gumbel.near`."""


@dataclass(frozen=True, slots=True)
class NoisyMaximum:
    """A choice that is epsilon-DP for scores that move within one interval of length `width`."""

    epsilon: float
    width: float
    law: ClassVar[type[Gumbel] | type[Exponential]]

    def __post_init__(self) -> None:
        for name, value in (("epsilon", self.epsilon), ("width", self.width)):
            require_number(GuaranteeError, name, value, "a finite number above 0", above=0)

    def choose(self, scores: FloatArray, randomness: Randomness) -> int:
        """Choose an option and return its position.

        The largest sum of score and random number is decided exactly, so rounding does not shift
        a probability.

        Parameters
        ----------
        scores : ndarray of shape (k,)
            The scores, all finite.
        randomness : Randomness
            The source of the random numbers.

        Notes
        -----
        **Privacy.** *Covered*: the position, by `guarantee`. *Neighbours*: those for which
        scores move within `width`. *Assumed public*: the options and their number. *Not
        covered*: the scores, time and memory.
        """
        return self.chosen(scores, randomness.draw(self.law(len(scores))))

    def chosen(self, scores: FloatArray, draw: Draw) -> int:
        """Return the position that a draw of ``law(len(scores))`` chooses; see `choose`."""
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
        """Return the winner if the first bits decide it in doubles; None if they leave a doubt."""
        match draw:
            case ExactDraw():
                numbers, errors = self.law.near(draw.leading())
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


@dataclass(frozen=True, slots=True)
class ExponentialMechanism(NoisyMaximum):
    """The exponential mechanism, which is of bounded range epsilon, too."""

    law = Gumbel

    def log_probabilities(self, scores: FloatArray) -> FloatArray:
        """Return the log probabilities ``(k,)`` of k options; finite for scores of any size."""
        exponent = self.epsilon * (scores - scores.max()) / self.width
        return np.asarray(exponent - np.log(np.exp(exponent).sum()))


@dataclass(frozen=True, slots=True)
class PermuteAndFlip(NoisyMaximum):
    """Permute-and-flip, for a choice that is paid by pure epsilon."""

    law = Exponential


def _certainly_largest(sums: Sequence[flint.arb]) -> int | None:
    """Return the position of the ball that lies above all others; None if it is in doubt."""
    if not all(ball.is_finite() for ball in sums):
        return None
    best = max(range(len(sums)), key=lambda position: sums[position].mid())
    others = (*sums[:best], *sums[best + 1 :])
    return best if all(sums[best] > ball for ball in others) else None
