"""How many rounds, how long a step: data-free rules that balance two errors.

After T rounds with the best step, the mean of the s worst margins is below the largest possible by
at most ``width sqrt(2 log(n / s) / T)`` for want of rounds, and by about ``2 sensitivity / eta
log(options)`` for noise, where eta is the bounded range that the target leaves for one round.
"""

from __future__ import annotations

import math

from privatelr.privacy.guarantees import ZCDP, ApproxDP, Guarantee, PureDP

MOST_AUTOMATIC = 1000


def balanced_rounds(target: Guarantee, n: int, s: float, options: int) -> int:
    """The T at which the two errors are about equal, from 1 to 1000.

    The range of a round is about ``eps / T`` for pure epsilon, ``sqrt(8 rho / T)`` for zCDP, and
    ``eps sqrt(2 / (T log(1 / delta)))`` for an approximate target.
    """
    spread, log_options = math.log(n / s), math.log(options)
    best: float
    match target:
        case PureDP(epsilon=epsilon):
            best = (s * epsilon * math.sqrt(2 * spread) / (4 * log_options)) ** (2 / 3)
        case ZCDP(rho=rho):
            best = s * math.sqrt(rho * spread) / log_options
        case ApproxDP(epsilon=epsilon, delta=delta):
            rarity = math.sqrt(max(-math.log(delta), 1e-9))
            best = s * epsilon * math.sqrt(spread) / (2 * log_options * rarity)
        case _:
            return MOST_AUTOMATIC
    return max(1, round(min(best, MOST_AUTOMATIC)))


def best_step(width: float, n: int, s: float, rounds: int) -> float:
    """The step at which the bound on the want of rounds is smallest; scores are up to `width`."""
    return math.sqrt(2 * math.log(n / s) / rounds) / width


def want_of_rounds(width: float, n: int, s: float, rounds: int, step: float) -> float:
    """How far the mean of the s worst may stay behind for want of rounds, at any step.

    The relative entropy from the uniform weights to any dense ones is at most ``log(n / s)``, and
    falls in each round by the step times what is gained, up to ``step**2 width**2 / 2``.
    """
    return math.log(n / s) / (step * rounds) + step * width**2 / 2
