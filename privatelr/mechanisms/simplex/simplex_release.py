"""Draws from the minimiser on the simplex: calibrated without data, released as a histogram.

Jain and Thakurta (2014) release draws from such a minimiser instead of the minimiser. Here the
cost of a draw follows from `simplex_stability`, and is far lower than by their Theorem 3.

The probabilities are in exact proportion to the exponentials of the given doubles. Each option
has a segment of the unit interval, and a draw is the option whose segment contains a uniform
number. Doubles with a bound on their error decide nearly all draws. If a number is too near to an
end of a segment, more of its own bits are drawn, and the ends are enclosed as tightly as needed.
So rounding does not shift a probability, and no number is drawn twice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from privatelr import privacy
from privatelr.errors import GuaranteeError, require_number, show
from privatelr.lazy_import import lazy_import
from privatelr.locks import FIRST_PRECISION, working_precision
from privatelr.mechanisms.calibration.calibration_record import facts_html
from privatelr.mechanisms.calibration.lambda_rules import PLAIN_LAMBDA
from privatelr.mechanisms.selection_release import Selections, require_x_bound
from privatelr.mechanisms.simplex import number_of_draws as afford
from privatelr.mechanisms.simplex.number_of_draws import SimplexProblem, Stability
from privatelr.numerics import describe
from privatelr.numerics.rows import BoundedEntries
from privatelr.numerics.solve.entropic import Entropic, coefficients, entropic_minimum, shares
from privatelr.privacy.accounting import in_agreement
from privatelr.privacy.noise import Arithmetic, Draw, Randomness
from privatelr.types import FloatArray, IntArray

if TYPE_CHECKING:
    import flint
else:
    flint = lazy_import("flint")


_UNIT = 2.0**-53
"""Largest relative error of one rounding to a double."""
_BATCH = 100_000
"""Largest number of uniform numbers in memory at once."""


@dataclass(frozen=True, slots=True)
class Uniforms:
    """A vector of independent numbers that are uniform on (0, 1)."""

    dimension: int
    signs: ClassVar[int] = 0

    @property
    def uniforms(self) -> int:
        """How many uniform numbers one vector takes: one for each coordinate."""
        return self.dimension

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
    error = 4 * (len(logs) + math.log(len(logs)) + 16) * _UNIT
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
    rows: BoundedEntries, calibration: SimplexCalibration, randomness: Randomness
) -> Selections:
    """Minimise, draw from the minimiser, and release the histogram of the draws.

    ``(1/n) sum_i loss(y_i x_i.w) + lambda sum_k theta_k log theta_k`` is minimised over the
    probabilities theta of the 2 d signed columns, with ``w = radius (theta_+ - theta_-)``. The
    minimiser is private and is never kept. Only a fit without a guarantee releases it.

    Parameters
    ----------
    rows : BoundedEntries
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
        none = np.zeros(calibration.problem.options, dtype=np.intp)
        exact = coefficients(shares(logs), calibration.problem.radius)
        return Selections(none, calibration, calibration.target, exact=exact)
    counts = draw_histogram(logs, calibration.draws, randomness)
    return Selections(counts, calibration, calibration.target)


def minimiser_logs(rows: BoundedEntries, calibration: SimplexCalibration) -> FloatArray:
    """Compute the log weights ``(2 d,)`` of the minimiser, which must not be released.

    A fit without a guarantee gives up if lambda is too small. A private fit may not, because
    whether it gives up depends on the data.
    """
    problem = calibration.problem
    flat = np.zeros(problem.options)
    objective = Entropic(rows, problem.loss, problem.radius, problem.penalty, flat)
    patience = _PATIENCE if calibration.stability is None else None
    return entropic_minimum(objective, calibration.tolerance, patience=patience)


@dataclass(frozen=True, slots=True)
class SimplexCalibration:
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
            return self.draws * afford.rho_of_draw(bounds)
        delta = self.target.delta if isinstance(self.target, privacy.ApproxDP) else 0.0
        return afford.epsilon_for_draws(self.draws, bounds, delta)

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

    def _repr_html_(self) -> str:
        return facts_html(self.title, (("Target", str(self.target)), *self.facts))

    def __str__(self) -> str:
        problem, bounds = self.problem, self.stability
        lines = [
            self.title,
            f"target {self.target}",
            f"n = {problem.n}, d = {problem.d}, x_bound = {problem.x_bound:.6g}, "
            f"radius = {problem.radius:.6g}",
            f"lambda = {self.lambda_:.6g} (n lambda = {problem.penalty:.6g})",
            f"  {self.lambda_origin}",
            f"KKT conditions of the sum to within {self.tolerance:.3g}",
        ]
        if bounds is None:
            return "\n".join([*lines, "no draws: the minimiser itself"])
        moved = f"by at most {bounds.largest:.6g}, within {bounds.width:.6g}"
        at_speed = f"at a speed of sd {bounds.sd:.6g} (kappa = {bounds.kappa:.6g})"
        drawn = [f"draws = {self.draws}", f"log chances move {moved}, {at_speed}"]
        return "\n".join([*lines, *drawn])


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
    chosen, counted = (None if _is_auto(given) else given for given in (lambda_, draws))
    if not _is_auto(draws):
        afford.require_draws(draws)
    if not _is_auto(lambda_):
        takes = "'auto' or a finite number above 0"
        chosen = require_number(GuaranteeError, "lambda_", chosen, takes, above=0)
    if not isinstance(target, privacy.Guarantee):
        raise GuaranteeError(f"target={show(target)}: target takes a guarantee.")
    if isinstance(target, privacy.NonPrivate) and counted is not None:
        raise GuaranteeError(
            f"draws={counted}: without a guarantee the minimiser itself is released; leave draws."
        )
    origin = "as given"
    if chosen is None:
        chosen, origin = _choose_lambda(facts, target, counted)
    problem = facts.with_lambda(chosen)
    tolerance = afford.tolerance_of(problem)
    if isinstance(target, privacy.NonPrivate):
        return SimplexCalibration(problem, target, 0, None, tolerance, origin)
    bounds = afford.stability_of(problem)
    most = afford.affordable_draws(target, bounds)
    if most == 0:
        raise afford.refuse(facts, target, chosen)
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
        return afford.min_lambda(facts, target, draws), "the smallest for these draws"
    return afford.suggest_lambda(facts, target), "a balance of public bounds"
