"""How many draws from the minimiser a guarantee affords, and at which lambda; no data anywhere.

One draw from the minimiser costs what `simplex_stability` says that neighbours' minimisers
differ by; draws are independent, so costs add up.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from privatelr.errors import GuaranteeError, NoRelease, require_number, show
from privatelr.mechanisms.simplex.stability import Stability, simplex_stability
from privatelr.numerics.simplex_objective import smallest_tolerance
from privatelr.privacy import bounded_range
from privatelr.privacy.bounded_range import renyi_of_draw
from privatelr.privacy.guarantees import ZCDP, ApproxDP, Promise, PureDP
from privatelr.privacy.renyi import ORDERS, epsilon_of_curve

if TYPE_CHECKING:
    from collections.abc import Callable

    from privatelr.mechanisms.simplex.problem import SimplexFacts, SimplexProblem
    from privatelr.types import FloatArray

MOST_DRAWS = 1_000_000
"""More would only make coefficients finer than their error is anyway."""
_TOLERANCE = 1e-6
"""Of ``L W``: how exact the minimiser is, where doubles allow it."""
_CLOSE = 1e-10
"""Relative, of a lambda that is searched for."""
_LARGEST_LAMBDA = 1e100
_ROUNDING = 1e-12
_GRID = 40


def tolerance_of(problem: SimplexProblem) -> float:
    """The spread to which the minimiser is computed, fixed by public facts."""
    facts = (problem.n, problem.d, problem.x_bound, problem.loss, problem.radius)
    wanted = _TOLERANCE * problem.slope_bound * problem.width
    return max(wanted, smallest_tolerance(*facts, problem.penalty))


def stability_of(problem: SimplexProblem) -> Stability:
    """`simplex_stability` of the minimiser as it is computed."""
    return simplex_stability(
        problem.n,
        problem.lambda_,
        problem.slope_bound,
        problem.loss.curvature_bound,
        problem.width,
        tolerance_of(problem),
    )


def epsilon_for_draws(draws: int, stability: Stability, delta: float = 0.0) -> float:
    """Epsilon of so many draws at this delta; 0 asks for a pure one."""
    require_draws(draws)
    curve = _curve(stability) if delta > 0 else None
    return _epsilon(draws, stability, delta, curve)


def draws_for_epsilon(epsilon: float, stability: Stability, delta: float = 0.0) -> int:
    """The most draws whose `epsilon_for_draws` is no more than this; 0 if not one is affordable.

    At most 1,000,000.
    """
    require_number(GuaranteeError, "epsilon", epsilon, "a finite number from 0", at_least=0)
    curve = _curve(stability) if delta > 0 else None
    return _most(lambda draws: _epsilon(draws, stability, delta, curve) <= epsilon)


def affordable_draws(target: Promise, stability: Stability) -> int:
    """The most draws that keep a guarantee, up to 1,000,000; 0 if not one does."""
    match target:
        case PureDP(epsilon=epsilon):
            return draws_for_epsilon(epsilon, stability)
        case ApproxDP(epsilon=epsilon, delta=delta):
            return draws_for_epsilon(epsilon, stability, delta)
        case ZCDP(rho=rho):
            each = rho_of_draw(stability)
            return _most(lambda draws: draws * each * (1 + _ROUNDING) <= rho)


def rho_of_draw(stability: Stability) -> float:
    """The zCDP of one draw."""
    found = bounded_range.rho_of_draw(stability.largest, stability.width, stability.sd)
    return found * (1 + _ROUNDING)


def min_lambda(facts: SimplexFacts, target: Promise, draws: int = 1) -> float:
    """Smallest lambda of the mean objective at which so many draws are affordable, rounded up.

    Raises
    ------
    GuaranteeError
        If there is none.
    """
    require_draws(draws)

    def enough(lambda_: float) -> bool:
        return affordable_draws(target, stability_of(facts.with_lambda(lambda_))) >= draws

    low, high = 0.0, facts.width / facts.n
    while not enough(high):
        low, high = high, 4 * high
        if high > _LARGEST_LAMBDA:
            raise GuaranteeError(f"target: no lambda_ affords draws={draws} under {target}.")
    while low == 0.0 and enough(high / 4):
        high /= 4
    low = low or high / 4
    while high - low > _CLOSE * high:
        middle = math.sqrt(low * high)
        if not low < middle < high:
            break
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def suggest_lambda(facts: SimplexFacts, target: Promise) -> float:
    """The lambda that balances a bound on what the entropy costs with one on what drawing does.

    ``lambda log(2 d) + min(c W**2 / (8 m), L W / (2 sqrt(m)))`` for m affordable draws. A
    function of public facts; it is not tuned to any data.
    """
    least = min_lambda(facts, target)
    highest = max(4 * least, 4 * facts.slope_bound * facts.reach / math.log(facts.options))
    grid = np.geomspace(least, highest, _GRID)
    best = _best(facts, target, grid)
    around = grid[max(best - 1, 0)], grid[min(best + 1, _GRID - 1)]
    finer = np.geomspace(*around, _GRID // 2)
    return float(finer[_best(facts, target, finer)])


def refuse(facts: SimplexFacts, target: Promise, lambda_: float) -> NoRelease:
    """What to raise where not one draw is affordable."""
    least = min_lambda(facts, target)
    shown = _rounded_up(least)
    return NoRelease(
        f"lambda_={lambda_:g} affords not one draw under {target}; take lambda_ from {shown}, or "
        "lambda_='auto'.",
        least,
    )


def require_draws(draws: int) -> None:
    """Refuse what is no number of draws."""
    if isinstance(draws, bool) or not isinstance(draws, int) or not 1 <= draws <= MOST_DRAWS:
        raise GuaranteeError(
            f"draws={show(draws)}: draws takes 'auto' or an integer from 1 to {MOST_DRAWS}."
        )


def _rounded_up(value: float) -> str:
    """Six digits, no less than the value."""
    grain = 10.0 ** (math.floor(math.log10(value)) - 5)
    text = f"{value:.6g}"
    return text if float(text) >= value else f"{value + grain:.6g}"


def _curve(stability: Stability) -> FloatArray:
    return renyi_of_draw(stability.largest, stability.width, stability.sd, ORDERS)


def _epsilon(draws: int, stability: Stability, delta: float, curve: FloatArray | None) -> float:
    pure = draws * stability.largest * (1 + _ROUNDING)
    return pure if curve is None else min(pure, epsilon_of_curve(draws * curve, delta))


def _most(fits: Callable[[int], bool]) -> int:
    """Largest number of draws that fits, by doubling and bisection; costs grow with the number."""
    low, high = 0, 1
    while high <= MOST_DRAWS and fits(high):
        low, high = high, 2 * high
    high = min(high, MOST_DRAWS + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _best(facts: SimplexFacts, target: Promise, grid: FloatArray) -> int:
    """Position of the lambda with the smallest bound on the risk."""
    slope, curvature, width = facts.slope_bound, facts.loss.curvature_bound, facts.width
    risks = []
    for lambda_ in grid.tolist():
        m = affordable_draws(target, stability_of(facts.with_lambda(lambda_)))
        if m == 0:
            risks.append(math.inf)
            continue
        drawn = min(curvature * width**2 / (8 * m), slope * width / (2 * math.sqrt(m)))
        risks.append(lambda_ * math.log(facts.options) + drawn)
    return int(np.argmin(risks))
