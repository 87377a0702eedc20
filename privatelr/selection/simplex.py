"""Entropy-penalised minimisation over the simplex of signed columns, released as draws.

Jain and Thakurta (2014) release draws from such a minimiser instead of the minimiser. Here the
cost of a draw follows from `simplex_stability`, which bounds how far the minimisers of neighbours
differ, and is far lower than by their Theorem 3. Draws are independent, so their costs add up.

The probabilities are in exact proportion to the exponentials of the given doubles. Each option
has a segment of the unit interval, and a draw is the option whose segment contains a uniform
number. Doubles with a bound on their error decide nearly all draws. If a number is too near to an
end of a segment, more of its own bits are drawn, and the ends are enclosed as tightly as needed.
So rounding does not shift a probability, and no number is drawn twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from privatelr import privacy
from privatelr.errors import GuaranteeError, NoRelease, require_number, require_whole
from privatelr.lazy_import import lazy_import
from privatelr.locks import FIRST_PRECISION, working_precision
from privatelr.mechanisms.calibration.lambda_rules import PLAIN_LAMBDA
from privatelr.numerics import Loss, describe
from privatelr.numerics.rows import EntryRows
from privatelr.privacy.accounting import in_agreement
from privatelr.privacy.noise import Arithmetic, Draw, Randomness, RandomVector
from privatelr.selection.choices import PrintedFacts, Selections, require_x_bound
from privatelr.selection.entropic import (
    UNIT,
    Entropic,
    coefficients,
    entropic_minimum,
    shares,
    smallest_tolerance,
)
from privatelr.types import FloatArray, IntArray

if TYPE_CHECKING:
    import flint
else:
    flint = lazy_import("flint")

_SLOPE_ERROR = 1e-9
"""Upper bound on the relative error of a slope in doubles, far above the actual error."""
_ROUNDING = 1e-12
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
) -> Stability:
    """Bound the stability of the minimiser under the replacement of a record (Proposition S1).

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
    lam = n * lambda_
    rate = (2 * slope_bound * width + 2 * slack) / lam * (1 + _ROUNDING)
    kappa = n * curvature_bound * width**2 / (4 * lam) * (1 + _ROUNDING)
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
    pure = draws * stability.largest * (1 + _ROUNDING)
    if not delta > 0:
        return pure
    return min(pure, privacy.epsilon_of_curve(draws * _curve(stability), delta))


def draws_for_epsilon(epsilon: float, stability: Stability, delta: float = 0.0) -> int:
    """Return the largest number of draws, up to 1,000,000, that cost at most this epsilon.

    It is 0 if even one draw costs more; see `epsilon_for_draws`.
    """
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
    highest = max(4 * least, 4 * facts.slope_bound * facts.reach / math.log(2 * facts.d))
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
            risks[place] = lambda_ * math.log(2 * facts.d) + drawn
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


# -- draws, and the release ------------------------------------------------------------------------


_BATCH = 100_000
"""Largest number of uniform numbers in memory at once."""


@dataclass(frozen=True, slots=True)
class Uniforms(RandomVector):
    """A vector of independent numbers that are uniform on (0, 1)."""

    dimension: int

    def transform(
        self, uniforms: Sequence[Any], signs: Sequence[int], arithmetic: Arithmetic
    ) -> list[Any]:
        """Return the uniform numbers themselves."""
        return list(uniforms)


def draw_histogram(logs: FloatArray, draws: int, randomness: Randomness) -> IntArray:
    """Draw options with replacement, and count how often each of them occurs.

    Parameters
    ----------
    logs : ndarray of shape (k,)
        Logarithms of the weights, finite, up to a common constant.
    draws : int
        The number of draws.
    randomness : Randomness
        The source of the draws.

    Returns
    -------
    ndarray of int, shape (k,)
        The counts, whose sum is `draws`.

    Notes
    -----
    **Privacy.** *Covered*: nothing by itself; a mechanism pays for the law of the draws.
    *Neighbours*: any. *Assumed public*: k and `draws`. *Not covered*: the logs, time and memory.
    """
    counts = np.zeros(len(logs), dtype=np.intp)
    for done in range(0, draws, _BATCH):
        draw = randomness.draw(Uniforms(min(_BATCH, draws - done)))
        counts += np.bincount(options_of(logs, draw), minlength=len(logs))
    return counts


def options_of(logs: FloatArray, draw: Draw) -> IntArray:
    """Return the option whose segment contains each uniform number of a draw."""
    (ends, error), last = ends_of(logs), len(logs) - 1
    numbers = draw.nearest()
    found = np.searchsorted(ends, numbers - error, side="right")
    certain = found == np.searchsorted(ends, numbers + error, side="right")
    # a number above the last but one end by more than the error certainly has the last option
    certain |= numbers > (ends[-2] if last else -math.inf) + error
    found = np.minimum(found, last)
    if (doubtful := np.flatnonzero(~certain)).size:
        found[doubtful] = _decided(logs, draw, doubtful)
    return np.asarray(found, dtype=np.intp)


def ends_of(logs: FloatArray) -> tuple[FloatArray, float]:
    """Return the upper ends ``(k,)`` of the segments, and the error of ends and numbers together.

    In units of rounding, the relative error of an exponential is at most 8, plus one for each unit
    of its argument; in the sum the latter weigh at most ``log k``. A sum adds one for each of its
    terms, and the uniform numbers are off by two. The total is taken four times, which covers the
    division and the comparison.
    """
    weights = np.exp(logs - logs.max())
    sums = np.cumsum(weights)
    error = 4 * (len(logs) + math.log(len(logs)) + 16) * UNIT
    return sums / sums[-1], error


def _decided(logs: FloatArray, draw: Draw, doubtful: IntArray) -> list[int]:
    """Decide the options of the doubtful numbers, by further bits of the same numbers."""
    precision = FIRST_PRECISION
    while True:
        numbers = draw.enclose(precision)
        with working_precision(precision):
            top = flint.arb(float(logs.max()))
            sums = list(accumulate((flint.arb(float(log)) - top).exp() for log in logs))
            marks = [numbers[index] * sums[-1] for index in doubtful.tolist()]
            found = [_stretch(sums, mark) for mark in marks]
        known = [option for option in found if option is not None]
        if len(known) == len(found):
            return known
        precision *= 2


def _stretch(sums: list[flint.arb], mark: flint.arb) -> int | None:
    """Return the first option whose upper end is certainly above the mark; None if in doubt."""
    low, high = 0, len(sums) - 1
    while low < high:  # the last sum is the total, which no mark reaches
        middle = (low + high) // 2
        if mark < sums[middle]:
            high = middle
        elif mark >= sums[middle]:
            low = middle + 1
        else:
            return None
    return low


_PATIENCE = 1000
"""Number of slow steps after which a fit without privacy gives up; a private one never does."""


def release_simplex(
    rows: EntryRows, calibration: SimplexCalibration, randomness: Randomness
) -> Selections:
    """Minimise, draw from the minimiser, and release the histogram of the draws.

    ``(1/n) sum_i loss(y_i x_i.w) + lambda sum_k theta_k log theta_k`` is minimised over the
    probabilities theta of the 2 d signed columns, with ``w = radius (theta_+ - theta_-)``. The
    minimiser is private and is never kept. Only a fit without a guarantee releases it.

    Parameters
    ----------
    rows : EntryRows
        The private rows.
    calibration : SimplexCalibration
        It was made for rows of this shape.
    randomness : Randomness
        The source of the draws.

    Raises
    ------
    NotConvergedError
        If a fit without a guarantee has too small a lambda; a private fit never raises it.

    Notes
    -----
    **Privacy.** *Covered*: the counts, by ``calibration.target``. *Neighbours*: replace one
    record. *Assumed public*: everything in ``calibration.problem``. *Not covered*: time and
    memory.
    """
    require_x_bound(rows, calibration)
    logs = minimiser_logs(rows, calibration)
    if calibration.stability is None:
        none = np.zeros(2 * rows.d, dtype=np.intp)
        exact = coefficients(shares(logs), calibration.problem.radius)
        return Selections(none, calibration, calibration.target, exact=exact)
    counts = draw_histogram(logs, calibration.draws, randomness)
    return Selections(counts, calibration, calibration.target)


def minimiser_logs(rows: EntryRows, calibration: SimplexCalibration) -> FloatArray:
    """Compute the log weights ``(2 d,)`` of the minimiser, which must not be released.

    A fit without a guarantee gives up if lambda is too small. A private fit may not, because
    whether it gives up depends on the data.
    """
    problem = calibration.problem
    prior = np.zeros(2 * problem.d)
    objective = Entropic(rows, problem.loss, problem.radius, problem.penalty, prior)
    patience = _PATIENCE if calibration.stability is None else None
    return entropic_minimum(objective, calibration.tolerance, patience=patience)


@dataclass(frozen=True, slots=True)
class SimplexCalibration(PrintedFacts):
    """All numbers of a release by draws from an entropy-penalised minimiser on the simplex.

    Attributes
    ----------
    problem : SimplexProblem
        The public facts, with the lambda that is used.
    target : Guarantee
        The guarantee that the release will satisfy.
    draws : int
        The number of options that are drawn; 0 for the plain fit, which releases the minimiser.
    stability : Stability or None
        Bounds on how far the minimisers of neighbours are apart; None for the plain fit.
    tolerance : float
        The spread of the KKT conditions of the sum form to which the minimiser is computed.
    lambda_origin : str
        What decided lambda, in words.
    """

    problem: SimplexProblem
    target: privacy.Guarantee
    draws: int
    stability: Stability | None
    tolerance: float
    lambda_origin: str
    mechanism: ClassVar[str] = "simplex draws"

    @property
    def lambda_(self) -> float:
        """The penalty of the mean objective that is used."""
        return self.problem.lambda_

    @property
    def unit(self) -> float:
        """The size of a coefficient whose column is drawn every time, in scaled units."""
        return self.problem.radius

    @property
    def events(self) -> tuple[privacy.Event, ...]:
        """The events that a ledger composes.

        It is empty if they cost far less than the target, so that the target is counted instead.
        """
        target, bounds = self.target, self.stability
        if bounds is None or isinstance(target, privacy.NonPrivate):
            return ()
        sizes = (bounds.largest, bounds.width, bounds.sd)
        event = privacy.SimplexDrawEvent(*sizes, times=self.draws, neighbours=target.neighbours)
        return in_agreement(target, (event,))

    @property
    def title(self) -> str:
        """The name of the model on printed pages."""
        return f"entropy-penalised {self.problem.loss.name} loss on the simplex"

    @property
    def cost(self) -> float:
        """The epsilon, or under zCDP the rho, of the draws; 0 for the plain fit."""
        bounds = self.stability
        if bounds is None:
            return 0.0
        if isinstance(self.target, privacy.ZCDP):
            return self.draws * rho_of_draw(bounds)
        delta = self.target.delta if isinstance(self.target, privacy.ApproxDP) else 0.0
        return epsilon_for_draws(self.draws, bounds, delta)

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """Labels and sentences for the printed page."""
        problem = self.problem
        lines = [
            ("Loss", f"{describe(problem.loss)}, at margins up to {problem.reach:.6g} in size"),
            ("Radius", f"the sizes of the coefficients sum to at most {problem.radius:.6g}"),
            ("Lambda", f"{problem.lambda_:.6g}; {self.lambda_origin}"),
        ]
        if self.stability is None:
            return (*lines, ("Draws", "none: the minimiser itself, which nothing protects"))
        unit = "rho" if isinstance(self.target, privacy.ZCDP) else "epsilon"
        each = f"worth {problem.radius / self.draws:.6g}"
        drawn = f"{self.draws} signed columns, with replacement, {each} each"
        if self.draws == 1:
            drawn = f"1 signed column, {each}"
        return (*lines, ("Draws", drawn), ("Cost", f"{unit} {self.cost:.6g}"))


def calibrate_simplex(
    facts: SimplexProblem, target: privacy.Guarantee, lambda_: Any = "auto", draws: Any = "auto"
) -> SimplexCalibration:
    """Choose lambda and the number of draws for a guarantee, from public facts.

    Parameters
    ----------
    facts : SimplexProblem
        The public facts.
    target : Guarantee
        The guarantee; `NonPrivate` asks for the minimiser itself, by default at lambda 0.001.
    lambda_ : float or "auto"
        The penalty of the mean objective. The default is that of `suggest_lambda` or, if draws
        are given, the smallest that affords them.
    draws : int or "auto"
        The number of draws. The default is as many as the guarantee affords, up to 1,000,000.

    Raises
    ------
    NoRelease
        If even one draw is not affordable at this lambda. The number is never rounded up to one.
    GuaranteeError
        If more draws are asked for than are affordable, or if an argument is invalid.
    """
    counted: int | None = None
    if not _is_auto(draws):
        takes, most = f"'auto' or an integer from 1 to {MOST_DRAWS}", MOST_DRAWS
        counted = require_whole(GuaranteeError, "draws", draws, takes, at_least=1, at_most=most)
    if not _is_auto(lambda_):
        takes, origin = "'auto' or a finite number above 0", "as given"
        chosen = require_number(GuaranteeError, "lambda_", lambda_, takes, above=0)
    if isinstance(target, privacy.NonPrivate) and counted is not None:
        raise GuaranteeError(
            f"draws={counted}: without a guarantee the minimiser itself is released; leave draws."
        )
    if _is_auto(lambda_):
        chosen, origin = _choose_lambda(facts, target, counted)
    problem = facts.with_lambda(chosen)
    tolerance = tolerance_of(problem)
    if isinstance(target, privacy.NonPrivate):
        return SimplexCalibration(problem, target, 0, None, tolerance, origin)
    bounds = stability_of(problem)
    most = affordable_draws(target, bounds)
    if most == 0:
        raise refuse(facts, target, chosen)
    if counted is not None and counted > most:
        there = "there is 1 draw" if most == 1 else f"there are {most} draws"
        raise GuaranteeError(
            f"draws={counted}: at lambda_={chosen:g} {there} under {target}; take "
            f"draws={most}{' or fewer' if most > 1 else ''}, or lambda_='auto'."
        )
    return SimplexCalibration(problem, target, counted or most, bounds, tolerance, origin)


def _is_auto(given: Any) -> bool:
    return isinstance(given, str) and given == "auto"


def _choose_lambda(
    facts: SimplexProblem, target: privacy.Guarantee, draws: int | None
) -> tuple[float, str]:
    """Return the lambda to use if none is given, and what decided it."""
    if isinstance(target, privacy.NonPrivate):
        return PLAIN_LAMBDA, "the default"
    if draws is not None:
        return min_lambda(facts, target, draws), "the smallest for these draws"
    return suggest_lambda(facts, target), "a balance of public bounds"
