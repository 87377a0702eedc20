"""The choice of levels that are frequent enough to be told: stability-based selection.

A level that no record has cannot be released, so the set of released levels could show that a
record exists: it is hidden by a delta. Each level is released by a chance that depends on its count
alone. From one count to the next the chances change as much as the promise allows, so that no rule
releases a level of any count more often (Desfontaines, Voss, Gipson and Mandayam 2022).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from privatelr.errors import GuaranteeError
from privatelr.privacy import REPLACE_PERSON, ZCDP, ApproxDP, Event, Guarantee
from privatelr.privacy.noise import Randomness
from privatelr.privacy.noise.exponential_mechanism import ExponentialMechanism

_HAIR = 1e-6
"""Share of epsilon and delta that is left unspent, far above what rounding of chances can cost."""
_COIN = ExponentialMechanism(1.0, 1.0)
"""A choice among two options by their log probabilities; here no privacy follows from it."""


@dataclass(frozen=True, slots=True)
class LevelCalibration:
    """The chances of levels by their counts, computed before any data is touched.

    Attributes
    ----------
    target : ApproxDP
        The guarantee of the set of released levels.

    Notes
    -----
    **Chances.** With ``e = epsilon / 2`` and ``d = delta / 2``, a level of count c is released
    with probability p(c), where p(0) = 0 and ``p(c + 1)`` is the smallest of ``exp(e) p(c) + d``,
    ``1 - exp(-e) (1 - p(c) - d)`` and 1.

    One record changes two counts by one, each at a cost of (e, d); theory.md#choice-of-levels has
    the proof.

    **Closed form.** As long as ``p(c) <= (1 - d) / (1 + exp(e))``, the first of the three is the
    smallest, so ``p(c) = D (exp(c e) - 1)`` with ``D = d / (exp(e) - 1)``. From there on it is the
    second, so ``1 - p(c + j) = (1 - p(c) + D) exp(-j e) - D`` until that is zero.
    """

    target: ApproxDP

    @property
    def events(self) -> tuple[Event, ...]:
        """None: the target says all that a ledger composes."""
        return ()

    @property
    def ladder(self) -> tuple[int, int]:
        """The counts of a level that is released with a chance of one half, and of one always."""
        return self.count_of(0.0), self.count_of(math.inf)

    def chance(self, count: int) -> float:
        """Return the probability with which a level of this count is released."""
        odds = self.log_odds(count)
        return 1 / (1 + math.exp(-odds)) if odds > 0 else math.exp(odds) / (1 + math.exp(odds))

    @property
    def _each(self) -> tuple[float, float]:
        """Epsilon and delta of one level, a hair below half of the target's."""
        share = (1 - _HAIR) / 2
        return share * self.target.epsilon, share * self.target.delta

    @property
    def _turn(self) -> int:
        """The first count with a chance above ``(1 - d) / (1 + exp(e))``."""
        e, d = self._each
        # exp(c e) at which D (exp(c e) - 1) reaches that chance, in logarithms
        log_excess = math.log1p(-d) - np.logaddexp(0.0, e) + _log_expm1(e) - math.log(d)
        return max(1, math.floor(float(np.logaddexp(0.0, log_excess)) / e) + 1)

    def log_odds(self, count: int) -> float:
        """Return the log odds with which a level of this count is released.

        They are minus infinity for a count of 0, and infinity where the chance is one.
        """
        e, d = self._each
        if count <= 0:
            return -math.inf
        turn, log_share = self._turn, math.log(d) - _log_expm1(e)
        log_chance = min(log_share + _log_expm1(min(count, turn) * e), 0.0)
        if log_chance == 0:
            return math.inf
        log_rest = math.log(-math.expm1(log_chance))
        if count <= turn:
            return log_chance - log_rest
        share = math.exp(log_share)
        rest = (math.exp(log_rest) + share) * math.exp(-(count - turn) * e) - share
        return math.log1p(-rest) - math.log(rest) if rest > 0 else math.inf

    def count_of(self, log_odds: float) -> int:
        """Return the smallest count that is released with at least these log odds."""
        most = 1
        while self.log_odds(most) < log_odds:
            most *= 2
        least = most // 2
        while most - least > 1:
            middle = (least + most) // 2
            least, most = (middle, most) if self.log_odds(middle) < log_odds else (least, middle)
        return most

    def releases(self, count: int, randomness: Randomness) -> bool:
        """Draw whether a level of this count is released.

        Notes
        -----
        **Privacy.** *Covered*: the answers for all levels together, by `target`. *Neighbours*: one
        record is replaced. *Assumed public*: nothing of the data. *Not covered*: the count, for
        how many levels this is called, time and memory.
        """
        odds = self.log_odds(count)
        if math.isinf(odds):
            return odds > 0
        return _COIN.choose(np.array([odds, 0.0]), randomness) == 0


def read_target_of_levels(target: Guarantee) -> ApproxDP:
    """Return a price that levels can be released for; raises `GuaranteeError` for all others."""
    if isinstance(target, ZCDP):
        raise GuaranteeError(
            f"rho={target.rho:g}: no rho covers levels, since one that a single record has would "
            "have to be told as often as one that none has; levels_from takes eps=ApproxDP(0.1, "
            "1e-8), or eps=0.1, delta=1e-8."
        )
    if not isinstance(target, ApproxDP):
        raise GuaranteeError(
            "delta=0.0: levels_from takes an epsilon and a delta above 0, because a level that one "
            "record alone has cannot be told without it, so that under pure privacy no level could "
            "be."
        )
    return target


def require_possible(n: int, calibration: LevelCalibration) -> None:
    """Refuse a price at which a level of all n records is less likely told than not.

    It depends on n (of persons for a promise about these) and on the price, which are public.

    Raises
    ------
    GuaranteeError
    """
    target = calibration.target
    if calibration.chance(n) >= 0.5:
        return
    size, whom = ("m", "persons") if target.neighbours is REPLACE_PERSON else ("n", "records")
    tenth = max(n // 10, 1)
    epsilon = target.epsilon
    while calibrate_levels(replace(target, epsilon=epsilon)).chance(tenth) < 0.5 and epsilon < 1e4:
        epsilon *= 1.25
    enough = f"{float(f'{epsilon:.2g}') * 1.05:.2g}"
    raise GuaranteeError(
        f"eps={target.epsilon:g}, delta={target.delta:g}: at {size} = {n} even a level of all "
        f"{whom} would be told with a chance of {calibration.chance(n):.2g} only, so that nothing "
        f"was spent; eps={enough} tells one of a tenth of them with a chance of one half, and a "
        "larger delta takes less; or declare levels= from what is publicly known."
    )


def calibrate_levels(target: ApproxDP) -> LevelCalibration:
    """Plan the release of levels; takes no data."""
    if not 0 < target.delta < 1:
        raise GuaranteeError(f"delta={target.delta:g}: delta takes a number between 0 and 1.")
    return LevelCalibration(target)


def order_of_level(level: Any) -> tuple[bool, Any]:
    """Return the place of a level among others: numbers before texts."""
    return isinstance(level, str), level


def are_in_order(levels: Sequence[Any]) -> bool:
    """Whether levels are different from each other, and in increasing order."""
    return all(order_of_level(one) < order_of_level(other) for one, other in pairwise(levels))


def _log_expm1(x: float) -> float:
    """Return ``log(exp(x) - 1)`` for a positive x of any size."""
    return x + math.log(-math.expm1(-x))
