"""The number of draws that a guarantee allows, from the stability of the minimiser.

The cost of one draw follows from `simplex_stability`, which bounds how far the minimisers of
neighbours differ. Draws are independent, so their costs add up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from privatelr import privacy
from privatelr.errors import GuaranteeError, NoRelease, require_number, show
from privatelr.numerics import Loss
from privatelr.numerics.solve.entropic import smallest_tolerance
from privatelr.types import FloatArray

_SLOPE_ERROR = 1e-9
"""Upper bound on the relative error of a slope in doubles, far above the actual error."""
_STABILITY_ROUNDING = 1e-12
"""Upper bound on the relative error of a dozen operations in doubles, far above the actual one."""


@dataclass(frozen=True, slots=True)
class SimplexProblem:
    """Public facts about a fit, and its penalty once that is chosen.

    Attributes
    ----------
    n, d : int
        The numbers of records and of columns, the intercept included.
    x_bound : float
        The largest absolute value of an entry of a row, the intercept entry included.
    radius : float
        The largest sum of the absolute values of the coefficients.
    loss : Loss
        The loss of a record, as a function of its margin.
    lambda_ : float
        The penalty of the mean objective; 0 until it is chosen.
    """

    n: int
    d: int
    x_bound: float
    radius: float
    loss: Loss
    lambda_: float = 0.0

    def __post_init__(self) -> None:
        for name in ("n", "d"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise GuaranteeError(f"{name}={show(value)}: {name} takes an integer from 1.")
        for name in ("x_bound", "radius"):
            value = getattr(self, name)
            require_number(GuaranteeError, name, value, "a finite number above 0", above=0)
        require_number(
            GuaranteeError, "radius times x_bound", self.reach, "a number above 0", above=0
        )

    @property
    def options(self) -> int:
        """The number of options: every column, and every column with the opposite sign."""
        return 2 * self.d

    @property
    def reach(self) -> float:
        """R, the largest absolute value of a margin."""
        return self.radius * self.x_bound

    @property
    def width(self) -> float:
        """W, the largest difference of two options in one row: columns occur with both signs."""
        return 2 * self.reach

    @property
    def slope_bound(self) -> float:
        """L, the largest slope at margins up to `reach`: a convex loss has it at the left end."""
        steepest = -float(self.loss.slope(np.array([-self.reach]))[0])
        return min(self.loss.slope_bound, steepest * (1 + _SLOPE_ERROR))

    @property
    def penalty(self) -> float:
        """The penalty of the sum form, ``n lambda_``."""
        return self.n * self.lambda_

    def with_lambda(self, lambda_: float) -> SimplexProblem:
        """Return the same facts with this penalty."""
        return replace(self, lambda_=lambda_)


@dataclass(frozen=True, slots=True)
class Stability:
    """Bounds on the difference of the minimisers theta and theta' of neighbours; all of them hold.

    Attributes
    ----------
    largest : float
        The largest ``|log theta_k / theta'_k|``.
    width : float
        The length of an interval that contains all ``log theta_k / theta'_k``.
    sd : float
        On the path from one objective to the other, the speed of ``log theta`` has at most this
        standard deviation under the theta at that point.
    kappa : float
        The curvature that the rows can add, relative to that of the entropy.
    """

    largest: float
    width: float
    sd: float
    kappa: float


def simplex_stability(
    n: int,
    lambda_: float,
    slope_bound: float,
    curvature_bound: float,
    width: float,
    slack: float = 0.0,
    neighbours: privacy.Neighbours = privacy.REPLACE_ONE,
) -> Stability:
    """Bound the stability of the minimiser over the simplex (Proposition S1).

    The minimiser is ``argmin (1/n) sum_i loss_i(<x_i, theta>) + lambda sum theta_k log theta_k``.

    Parameters
    ----------
    n
        The number of records, public.
    lambda_
        The penalty of the mean objective. Papers that penalise the sum of losses, Jain and
        Thakurta (2014) among them, write ``lam = n lambda_``, and so do the formulas below.
    slope_bound, curvature_bound
        L and c, the largest slope and curvature of the losses at margins that can occur. Slopes
        only have to be Lipschitz continuous with constant c.
    width
        W, the largest difference of two entries of a row x over the options. A constant that is
        added to a row does not change the bounds.
    slack
        The tolerance of the solver. A point whose KKT conditions spread over an interval of this
        length is the exact minimiser with a linear term of that range added.
    neighbours
        The neighbouring relation, which has to be `REPLACE_ONE`.

    Notes
    -----
    Proposition S1 (theory.md#proposition-s1 has the proof). With ``G = 2 L W + 2 slack`` and
    ``kappa = n c W**2 / (4 lam)``:

    - ``largest = G / lam (1 + sqrt(1 + kappa)) / 2``;
    - ``width = G / lam (1 + sqrt(kappa) / 2)``, and for kappa below one
      ``G / lam (1 + kappa / (1 + kappa))``;
    - ``sd = G / (2 lam)``.

    The slack adds to the change of a gradient the difference of two linear terms, of range
    ``2 slack`` at most.
    """
    if neighbours is not privacy.REPLACE_ONE:
        raise GuaranteeError("neighbours: simplex_stability takes REPLACE_ONE, n being public.")
    above, least = "a finite number above 0", "a finite number from 0"
    require_number(GuaranteeError, "n", n, "an integer from 1", at_least=1)
    require_number(GuaranteeError, "lambda_", lambda_, above, above=0)
    require_number(GuaranteeError, "slope_bound", slope_bound, above, above=0)
    require_number(GuaranteeError, "curvature_bound", curvature_bound, least, at_least=0)
    require_number(GuaranteeError, "width", width, above, above=0)
    require_number(GuaranteeError, "slack", slack, least, at_least=0)
    lam = n * lambda_
    rate = (2 * slope_bound * width + 2 * slack) / lam * (1 + _STABILITY_ROUNDING)
    kappa = n * curvature_bound * width**2 / (4 * lam) * (1 + _STABILITY_ROUNDING)
    bent = math.sqrt(kappa) / 2 if kappa >= 1 else kappa / (1 + kappa)
    largest = rate * (1 + math.sqrt(1 + kappa)) / 2
    return Stability(largest, rate * (1 + bent), rate / 2, kappa)


MOST_DRAWS = 1_000_000
"""Largest number of draws; more would only make coefficients finer than their error."""
_TOLERANCE = 1e-6
"""Spread of the KKT conditions, as a share of ``L W``, that is aimed at if doubles allow it."""
_CLOSE = 1e-10
"""Relative accuracy to which a lambda is searched for."""
_LARGEST_LAMBDA = 1e100
"""Largest lambda that is tried before a search gives up."""
_ROUNDING = 1e-12
"""Upper bound on the relative error of a few operations in doubles."""
_GRID = 40
"""Number of lambdas that are compared in the first pass."""


def tolerance_of(problem: SimplexProblem) -> float:
    """Return the spread to which the minimiser is computed; a function of public facts."""
    wanted = _TOLERANCE * problem.slope_bound * problem.width
    facts = (problem.n, problem.d, problem.x_bound, problem.loss, problem.radius)
    return max(wanted, smallest_tolerance(*facts, problem.penalty))


def stability_of(problem: SimplexProblem) -> Stability:
    """Apply `simplex_stability` to the minimiser as it is computed, within its tolerance."""
    return simplex_stability(
        problem.n,
        problem.lambda_,
        problem.slope_bound,
        problem.loss.curvature_bound,
        problem.width,
        tolerance_of(problem),
    )


@lru_cache(maxsize=16)  # of public facts; a search for the number of draws uses one curve often
def _curve(stability: Stability) -> FloatArray:
    return privacy.renyi_of_draw(stability.largest, stability.width, stability.sd, privacy.ORDERS)


def epsilon_for_draws(draws: int, stability: Stability, delta: float = 0.0) -> float:
    """Return the epsilon of so many draws at this delta; a delta of 0 asks for pure epsilon."""
    require_draws(draws)
    pure = draws * stability.largest * (1 + _ROUNDING)
    if not delta > 0:
        return pure
    return min(pure, privacy.epsilon_of_curve(draws * _curve(stability), delta))


def draws_for_epsilon(epsilon: float, stability: Stability, delta: float = 0.0) -> int:
    """Return the largest number of draws, up to 1,000,000, that cost at most this epsilon.

    It is 0 if even one draw costs more; see `epsilon_for_draws`.
    """
    require_number(GuaranteeError, "epsilon", epsilon, "a finite number from 0", at_least=0)
    return _most(lambda draws: epsilon_for_draws(draws, stability, delta) <= epsilon)


def affordable_draws(target: privacy.Promise, stability: Stability) -> int:
    """Return the largest number of draws, up to 1,000,000, that keep a guarantee; 0 if none do."""
    if isinstance(target, privacy.ZCDP):
        rho, each = target.rho, rho_of_draw(stability)
        return _most(lambda draws: draws * each * (1 + _ROUNDING) <= rho)
    delta = target.delta if isinstance(target, privacy.ApproxDP) else 0.0
    return draws_for_epsilon(target.epsilon, stability, delta)


def _most(fits: Callable[[int], bool]) -> int:
    """Find the largest number of draws that fits, by doubling and bisection: costs increase."""
    low, high = 0, 1
    while high <= MOST_DRAWS and fits(high):
        low, high = high, 2 * high
    high = min(high, MOST_DRAWS + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def rho_of_draw(stability: Stability) -> float:
    """Return the rho of one draw, from its bounds."""
    found = privacy.renyi_divergence.rho_of_draw(stability.largest, stability.width, stability.sd)
    return found * (1 + _ROUNDING)


def min_lambda(facts: SimplexProblem, target: privacy.Promise, draws: int = 1) -> float:
    """Find the smallest lambda of the mean objective that affords so many draws, rounded up.

    Raises
    ------
    GuaranteeError
        If there is not such a lambda.
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


def suggest_lambda(facts: SimplexProblem, target: privacy.Promise) -> float:
    """Find the lambda that minimises a bound on the risk; a function of public facts alone.

    The bound is ``lambda log(2 d) + min(c W**2 / (8 m), L W / (2 sqrt(m)))``: the entropy costs
    the first term, and the release of m affordable draws in place of the minimiser the second.
    """
    least = min_lambda(facts, target)
    highest = max(4 * least, 4 * facts.slope_bound * facts.reach / math.log(facts.options))
    grid = np.geomspace(least, highest, _GRID)
    best = least_risk(facts, target, grid)
    around = grid[max(best - 1, 0)], grid[min(best + 1, _GRID - 1)]
    finer = np.geomspace(*around, _GRID // 2)
    return float(finer[least_risk(facts, target, finer)])


def least_risk(facts: SimplexProblem, target: privacy.Promise, grid: FloatArray) -> int:
    """Return the position in the grid of the lambda with the smallest bound on the risk."""
    slope, curvature, width = facts.slope_bound, facts.loss.curvature_bound, facts.width
    risks = np.full(len(grid), math.inf)
    for place, lambda_ in enumerate(grid.tolist()):
        m = affordable_draws(target, stability_of(facts.with_lambda(lambda_)))
        if m > 0:
            drawn = min(curvature * width**2 / (8 * m), slope * width / (2 * math.sqrt(m)))
            risks[place] = lambda_ * math.log(facts.options) + drawn
    return int(np.argmin(risks))


def refuse(facts: SimplexProblem, target: privacy.Promise, lambda_: float) -> NoRelease:
    """Make the error to raise if not even one draw is affordable."""
    least = min_lambda(facts, target)
    shown = f"{least:.6g}"
    if float(shown) < least:  # six digits may round down; name no lambda that is too small
        shown = f"{least + 10.0 ** (math.floor(math.log10(least)) - 5):.6g}"
    return NoRelease(
        f"lambda_={lambda_:g} affords not one draw under {target}; take lambda_ from {shown}, or "
        "lambda_='auto'.",
        least,
    )


def require_draws(draws: int) -> None:
    """Refuse a value that is not a number of draws."""
    if isinstance(draws, bool) or not isinstance(draws, int) or not 1 <= draws <= MOST_DRAWS:
        raise GuaranteeError(
            f"draws={show(draws)}: draws takes 'auto' or an integer from 1 to {MOST_DRAWS}."
        )
