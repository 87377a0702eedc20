"""The true price of the support vector machine by linear programs that a thesis printed.

It spends more than it claims; see `privatelr.dplpsvm` for a corrected method. The algorithm itself,
which reproduces the printed tables, is in ``tests/support/printed_thesis.py``.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from privatelr import privacy
from privatelr.privacy import PureDP

_GRID = 60
"""Number of values of T that `true_epsilon` compares."""


@lru_cache(maxsize=256)
def true_epsilon(epsilon: float, delta: float, score: str, most_rounds: int) -> float:
    """Return the epsilon that the printed algorithm spends at this delta, for the worst T.

    The first fit spends epsilon. A choice of the exponential mechanism at e, for a sensitivity
    that is stated too large by a factor of 3/2 (or 2, for counts), is of bounded range
    ``2 e / 3`` (or ``e / 2``).
    """
    if math.isinf(epsilon):
        return math.inf
    overstated = 1.5 if score == "margin" else 2.0
    lengths = np.unique(np.geomspace(1, most_rounds, _GRID).round().astype(int)).tolist()
    first, found = privacy.renyi_curve(PureDP(epsilon), privacy.ORDERS), []
    for rounds in lengths:
        eta = epsilon / math.sqrt(8 * rounds * -math.log(delta)) / overstated
        curve = first + rounds * privacy.renyi_of_range(eta, privacy.ORDERS)
        apart = epsilon + privacy.epsilon_of_choices(eta, rounds, delta)
        found.append(min(apart, privacy.epsilon_of_curve(curve, delta)))
    return max(found)
