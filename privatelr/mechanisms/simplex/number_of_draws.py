"""The number of draws that a guarantee allows, from the stability of the minimiser.

One draw from the minimiser costs what `simplex_stability` says that neighbours' minimisers
differ by; draws are independent, so costs add up.
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
"""Generous bound on the relative error of a slope in doubles."""
_STABILITY_ROUNDING = 1e-12
"""Generous bound on the relative error of a dozen operations."""


@dataclass(frozen=True, slots=True)
class SimplexProblem:
    """Public facts about a fit, and its penalty once that is chosen.

    Attributes
    ----------
    n, d : int
        Records, and columns with the intercept.
    x_bound : float
        Largest size of an entry of a row, the intercept among them.
    radius : float
        Sum of the sizes of the coefficients, at most.
    loss : Loss
    lambda_ : float
        Penalty of the mean objective.
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
        """Columns and columns with their signs turned."""
        return 2 * self.d

    @property
    def reach(self) -> float:
        """R, the largest size of a margin."""
        return self.radius * self.x_bound

    @property
    def width(self) -> float:
        """W, the largest difference of two options for one row: columns come with both signs."""
        return 2 * self.reach

    @property
    def slope_bound(self) -> float:
        """L: the largest slope at margins up to `reach`, which is the one at the left end."""
        steepest = -float(self.loss.slope(np.array([-self.reach]))[0])
        return min(self.loss.slope_bound, steepest * (1 + _SLOPE_ERROR))

    @property
    def penalty(self) -> float:
        """The penalty of the sum form: ``n lambda_``."""
        return self.n * self.lambda_

    def with_lambda(self, lambda_: float) -> SimplexProblem:
        """The same facts with this penalty."""
        return replace(self, lambda_=lambda_)


@dataclass(frozen=True, slots=True)
class Stability:
    """Bounds between the minimisers theta and theta' of neighbours; all of them hold.

    Attributes
    ----------
    largest : float
        No ``|log theta_k / theta'_k|`` is above it.
    width : float
        All ``log theta_k / theta'_k`` lie in one interval of this length.
    sd : float
        On the path from one objective to the other, the speed of ``log theta`` has at most this
        standard deviation under the theta of the moment.
    kappa : float
        What the rows can add to the curvature, relative to that of the entropy.
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
    """Stability of ``argmin (1/n) sum_i loss_i(<x_i, theta>) + lambda sum theta_k log theta_k``.

    Parameters
    ----------
    n
        Records, public.
    lambda_
        Penalty of the mean objective. Papers that penalise the sum of losses, Jain and Thakurta
        (2014) among them, write ``lam = n lambda_``, and so do the formulas below.
    slope_bound, curvature_bound
        L and c: largest slope and curvature of the losses where they can be evaluated. Only
        Lipschitz slopes are needed, with constant c.
    width
        W: the largest difference of two entries of a row x over the options; the bounds do not
        see a constant that is added to a row.
    slack
        The tolerance of the solver. A point whose KKT conditions spread over an interval of this
        length is the exact minimiser with a linear term of that range added.
    neighbours
        Replace one record.

    Notes
    -----
    With ``G = 2 L W + 2 slack``, ``kappa = n c W**2 / (4 lam)``:

    - ``largest = G / lam (1 + sqrt(1 + kappa)) / 2``;
    - ``width = G / lam (1 + sqrt(kappa) / 2)``, and for kappa below one
      ``G / lam (1 + kappa / (1 + kappa))``;
    - ``sd = G / (2 lam)``.

    Proof. Let F_t go linearly from the one objective to the other, theta its minimiser and u the
    derivative of ``log theta`` by t, which exists almost everywhere. The derivative of the KKT
    conditions reads ``lam u_k + sum_j D_j x_jk v_j + g_k = const`` for all options k. Here D_j is
    a curvature, in [0, c], the weights of the sum are worth n records, ``v_j = Cov(x_j, u)`` under
    theta, ``E u = 0``, and g is what the replaced record changes in the gradient, of range G at
    most. With q and s the standard deviations of u and g, and ``E = sum D_j v_j**2``, the
    covariance of this equation with u gives ``E + lam q**2 <= s q``. So ``q <= s / lam``, and
    s is at most ``G / 2``: that is `sd`. Also ``E <= s**2 / (4 lam)``, and as
    ``|v_j| <= W q / 2`` also ``E <= kappa lam q**2``, which is the better bound if kappa < 1. By
    Cauchy and Schwarz, ``|sum_j D_j (x_jk - x_jl) v_j| <= sqrt(n c E) W``; with ``s <= G / 2``
    the difference of two entries of the equation gives `width`. For `largest`, take the
    equation's distance to its mean: if g_k lies ``a G`` from the mean of g, then
    ``s <= G sqrt(a (1 - a))`` (Bhatia and Davis 2000), and ``a + sqrt(kappa a (1 - a))`` is at
    most ``(1 + sqrt(1 + kappa)) / 2``. All bounds are integrated over t. The slack adds to g
    the difference of two linear terms, of range ``2 slack`` at most.
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
"""More would only make coefficients finer than their error is anyway."""
_TOLERANCE = 1e-6
"""Share of ``L W`` to which the minimiser is exact, where doubles allow it."""
_CLOSE = 1e-10
"""Relative error of a lambda that is searched for."""
_LARGEST_LAMBDA = 1e100
_ROUNDING = 1e-12
"""Relative error of a few operations, on the safe side."""
_GRID = 40
"""Number of lambdas that are compared at first."""


def tolerance_of(problem: SimplexProblem) -> float:
    """The spread to which the minimiser is computed, fixed by public facts."""
    wanted = _TOLERANCE * problem.slope_bound * problem.width
    facts = (problem.n, problem.d, problem.x_bound, problem.loss, problem.radius)
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


@lru_cache(maxsize=16)  # of public facts; the search for a number of draws asks again and again
def _curve(stability: Stability) -> FloatArray:
    return privacy.renyi_of_draw(stability.largest, stability.width, stability.sd, privacy.ORDERS)


def epsilon_for_draws(draws: int, stability: Stability, delta: float = 0.0) -> float:
    """Epsilon of so many draws at this delta; 0 asks for a pure one."""
    require_draws(draws)
    pure = draws * stability.largest * (1 + _ROUNDING)
    if not delta > 0:
        return pure
    return min(pure, privacy.epsilon_of_curve(draws * _curve(stability), delta))


def draws_for_epsilon(epsilon: float, stability: Stability, delta: float = 0.0) -> int:
    """The most draws whose `epsilon_for_draws` is no more than this; 0 if not one is affordable.

    At most 1,000,000.
    """
    require_number(GuaranteeError, "epsilon", epsilon, "a finite number from 0", at_least=0)
    return _most(lambda draws: epsilon_for_draws(draws, stability, delta) <= epsilon)


def affordable_draws(target: privacy.Promise, stability: Stability) -> int:
    """The most draws that keep a guarantee, up to 1,000,000; 0 if not one does."""
    if isinstance(target, privacy.ZCDP):
        rho, each = target.rho, rho_of_draw(stability)
        return _most(lambda draws: draws * each * (1 + _ROUNDING) <= rho)
    delta = target.delta if isinstance(target, privacy.ApproxDP) else 0.0
    return draws_for_epsilon(target.epsilon, stability, delta)


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


def rho_of_draw(stability: Stability) -> float:
    """The zCDP of one draw."""
    found = privacy.renyi_divergence.rho_of_draw(stability.largest, stability.width, stability.sd)
    return found * (1 + _ROUNDING)


def min_lambda(facts: SimplexProblem, target: privacy.Promise, draws: int = 1) -> float:
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


def suggest_lambda(facts: SimplexProblem, target: privacy.Promise) -> float:
    """The lambda that balances a bound on what the entropy costs with one on what drawing does.

    ``lambda log(2 d) + min(c W**2 / (8 m), L W / (2 sqrt(m)))`` for m affordable draws. A
    function of public facts; it is not tuned to any data.
    """
    least = min_lambda(facts, target)
    highest = max(4 * least, 4 * facts.slope_bound * facts.reach / math.log(facts.options))
    grid = np.geomspace(least, highest, _GRID)
    best = least_risk(facts, target, grid)
    around = grid[max(best - 1, 0)], grid[min(best + 1, _GRID - 1)]
    finer = np.geomspace(*around, _GRID // 2)
    return float(finer[least_risk(facts, target, finer)])


def least_risk(facts: SimplexProblem, target: privacy.Promise, grid: FloatArray) -> int:
    """Position of the lambda with the smallest bound on the risk."""
    slope, curvature, width = facts.slope_bound, facts.loss.curvature_bound, facts.width
    risks = np.full(len(grid), math.inf)
    for place, lambda_ in enumerate(grid.tolist()):
        m = affordable_draws(target, stability_of(facts.with_lambda(lambda_)))
        if m > 0:
            drawn = min(curvature * width**2 / (8 * m), slope * width / (2 * math.sqrt(m)))
            risks[place] = lambda_ * math.log(facts.options) + drawn
    return int(np.argmin(risks))


def refuse(facts: SimplexProblem, target: privacy.Promise, lambda_: float) -> NoRelease:
    """What to raise where not one draw is affordable."""
    least = min_lambda(facts, target)
    shown = f"{least:.6g}"
    if float(shown) < least:  # six digits, no less than the value
        shown = f"{least + 10.0 ** (math.floor(math.log10(least)) - 5):.6g}"
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
