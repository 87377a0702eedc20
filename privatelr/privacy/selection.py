"""Choosing one of several public options by a private score: the exponential mechanism.

Between neighbours every score may change by an amount in one interval of length `width`, the
same interval for all options or not; then an option chosen with probability proportional to
``exp(epsilon score / width)`` is epsilon-DP, and of bounded range epsilon (privacy.md 7; Dong,
Durfee and Rogers 2020). Where scores move both ways by up to s, the width is 2 s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from flint import arb

from privatelr.errors import GuaranteeError, require_number
from privatelr.precision import FIRST_PRECISION, working_precision
from privatelr.privacy.guarantees import PureDP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from privatelr.privacy.draws import Arithmetic
    from privatelr.privacy.randomness import Randomness
    from privatelr.types import FloatArray


@dataclass(frozen=True, slots=True)
class Gumbel:
    """Independent standard Gumbel numbers.

    The largest of scores to which they were added is chosen in proportion to the exponentials
    of the scores, which are never computed.
    """

    dimension: int

    @property
    def uniforms(self) -> int:
        return self.dimension

    @property
    def signs(self) -> int:
        return 0

    def transform(
        self, uniforms: Sequence[Any], signs: Sequence[int], arithmetic: Arithmetic
    ) -> list[Any]:
        return [-arithmetic.log(-arithmetic.log(uniform)) for uniform in uniforms]


@dataclass(frozen=True, slots=True)
class ExponentialMechanism:
    """A choice that is worth `epsilon` for scores that move within an interval of `width`."""

    epsilon: float
    width: float

    def __post_init__(self) -> None:
        for name in ("epsilon", "width"):
            value = getattr(self, name)
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
        precision = FIRST_PRECISION
        while True:
            numbers = draw.enclose(precision)
            with working_precision(precision):
                rate = arb(self.epsilon) / arb(self.width)
                sums = [
                    arb(float(score)) * rate + number
                    for score, number in zip(scores, numbers, strict=True)
                ]
                winner = _certainly_largest(sums)
            if winner is not None:
                return winner
            precision *= 2


def _certainly_largest(sums: Sequence[arb]) -> int | None:
    """The position whose ball lies above all others, or None while it is in doubt."""
    if not all(ball.is_finite() for ball in sums):
        return None
    best = 0
    for position, ball in enumerate(sums):
        if ball.mid() > sums[best].mid():
            best = position
    others = (ball for position, ball in enumerate(sums) if position != best)
    return best if all(sums[best] > ball for ball in others) else None
