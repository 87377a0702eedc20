"""The claims that an audit puts to the test, how they read, and what outputs alone say."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from privatelr.audit.outputs import outputs_of
from privatelr.audit.sampled import delta_from_outputs, epsilon_from_outputs, rho_from_outputs
from privatelr.privacy.guarantees import ZCDP, ApproxDP, PureDP

if TYPE_CHECKING:
    from privatelr.audit.scores import Score
    from privatelr.numerics.losses import Loss
    from privatelr.privacy.guarantees import Guarantee, Promise
    from privatelr.types import FloatArray

ALPHA = 1e-3
"""Probability that a whole audit raises a false alarm by sampling."""
SMALLEST_DELTA = 1e-6
_FEWEST = 100
"""Outputs beyond epsilon that a delta has to make, or sampling shows nothing of it."""


def claims_of_size(epsilon: float) -> tuple[Promise, ...]:
    """One claim of each kind, and two of delta, all worth about this epsilon."""
    return (
        PureDP(epsilon),
        ZCDP(epsilon**2 / 2),
        ApproxDP(epsilon, SMALLEST_DELTA),
        ApproxDP(epsilon, 1e-2),
    )


def short(claim: Guarantee) -> str:
    """The numbers of a claim, as the table has them."""
    match claim:
        case PureDP():
            return f"epsilon = {claim.epsilon:g}"
        case ZCDP():
            return f"rho = {claim.rho:g}"
        case ApproxDP():
            return f"epsilon = {claim.epsilon:g}, delta = {claim.delta:g}"
    return str(claim)


def label(loss: Loss) -> str:
    """Name and parameters of a loss, such as ``"huber(0.5)"``."""
    numbers = ", ".join(f"{value:g}" for value in loss.parameters.values())
    return f"{loss.name}({numbers})" if numbers else loss.name


def shows_nothing(claim: Guarantee, trials: int) -> bool:
    """Whether so many outputs are too few for the delta of a claim."""
    return isinstance(claim, ApproxDP) and claim.delta * trials < _FEWEST


def sampled_bound(
    claim: Guarantee, first: FloatArray, second: FloatArray, alpha: float, score: Score
) -> float:
    """Lower bound on the number of a claim from outputs on either dataset.

    NaN for a delta of which so many outputs can show nothing.
    """
    if shows_nothing(claim, len(first)):
        return math.nan
    sides = outputs_of(first), outputs_of(second)
    if isinstance(claim, PureDP):
        return epsilon_from_outputs(*sides, alpha=alpha, score=score)
    if isinstance(claim, ZCDP):
        return rho_from_outputs(*sides, alpha=alpha, score=score)
    epsilon = claim.epsilon if isinstance(claim, ApproxDP) else 0.0
    return delta_from_outputs(*sides, epsilon, alpha=alpha, score=score)
