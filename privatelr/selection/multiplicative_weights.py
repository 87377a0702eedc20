"""Calibration of multiplicative weights: all numbers of a fit, from public facts alone.

After T rounds with the best step, the mean of the s worst margins may be below the largest
possible one for two reasons: by ``width sqrt(2 log(n / s) / T)`` at most, because rounds are few,
and by about ``2 sensitivity / eta log(options)``, because choices are noisy. Here eta is the
bounded range that the target leaves for one round (theory.md#lemma-d2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privatelr.errors import ArgumentError, GuaranteeError, require_choice, require_number, show
from privatelr.numerics.rows import EntryRows
from privatelr.privacy import (
    ZCDP,
    ApproxDP,
    BoundedRangeEvent,
    Event,
    Guarantee,
    NonPrivate,
    PureDP,
    range_within,
)
from privatelr.privacy.noise import Randomness
from privatelr.privacy.noise.exponential_mechanism import ExponentialMechanism
from privatelr.selection.choices import PrintedFacts, Selections, require_x_bound
from privatelr.types import FloatArray, IntArray

MOST_RECORDS = 10**9
"""Largest number of records of a fit."""
_NEARLY = 1e-9
"""A product of density and n that is below 1 by at most this counts as 1, because of rounding."""


# -- dense weights ---------------------------------------------------------------------------------
# A law over n rows is dense if no row has more than 1 / s. In relative entropy the nearest one to
# weights exp(l) cuts off the largest, q_i = min(1, zeta exp(l_i)) / s, with the one zeta for which
# they add up to one.

_FAR = 600.0
"""Largest distance of an exponent from the threshold; entries beyond are cut off or vanish."""
_UNIT = 2.0**-53


def dense_projection(log_weights: FloatArray, s: float) -> FloatArray:
    """The nearest law with no probability above ``1 / s``, of shape ``(n,)``.

    The sum of ``min(1, zeta z)`` grows with zeta, is concave and piecewise linear, so Newton's
    method from below ends after finitely many steps at the exact root, up to rounding.

    Parameters
    ----------
    log_weights
        Finite logarithms of shape ``(n,)``, of any size.
    s
        At least 1, and below n.

    Returns
    -------
    ndarray of shape (n,)
        It adds up to one and is at most ``1 / s``, both up to `projection_error`.
    """
    n = len(log_weights)
    z = _scaled(log_weights, s)
    zeta, capped = s / float(z.sum()), -1
    while True:
        below = z * zeta < 1.0
        count = n - int(np.count_nonzero(below))
        if count == capped:  # the same entries are cut off, so the last step was exact
            break
        capped = count
        rest = float(z @ below.astype(np.float64))
        if not rest > 0.0 or capped >= s:
            break
        # zeta never falls, except by rounding
        zeta = max(zeta, (s - capped) / rest)
    return np.asarray(np.minimum(z * zeta, 1.0) / s)


def _scaled(log_weights: FloatArray, s: float) -> FloatArray:
    """Return weights up to a factor, scaled so that those that matter are within doubles."""
    largest = float(log_weights.max())
    if largest - float(log_weights.min()) < _FAR:
        return np.asarray(np.exp(log_weights - largest))
    # the first row that may have a part of a probability only; all above it are cut off, or tied
    place = len(log_weights) - 1 - math.floor(s)
    level = np.partition(log_weights, place)[place]
    return np.asarray(np.exp(np.clip(log_weights - level, -_FAR, _FAR)))


def projection_error(n: int) -> float:
    """Bound the rounding error of a weighted sum of numbers in [-1, 1] under a dense law of n rows.

    Twice a sum of n terms in any order (for zeta, and for the sum itself), each term after an
    exponential of an exponent up to `_FAR` and a few operations more.
    """
    return _UNIT * (4.0 * n + 4.0 * _FAR)


# -- calibration -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WorstMargins:
    """The objective in place of a loss: the mean of the smallest margins is maximised.

    Attributes
    ----------
    density : float
        The fraction of the records whose margins count.
    """

    density: float
    name: ClassVar[str] = "worst-margins"
    title: ClassVar[str] = "linear-program support vector machine"
    probability: ClassVar[None] = None

    @property
    def parameters(self) -> Mapping[str, float]:
        """The parameters of the objective by name, as a release file states them."""
        return {"density": self.density}


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """Public facts about a fit.

    Attributes
    ----------
    n, d : int
        The numbers of records and of columns, the intercept included.
    x_bound : float
        The largest absolute value of an entry of a row, the intercept entry included.
    density : float
        The least fraction of the records that the weights are spread over.
    """

    n: int
    d: int
    x_bound: float
    density: float

    def __post_init__(self) -> None:
        if not (1 <= self.n <= MOST_RECORDS and self.d >= 1):
            raise GuaranteeError(
                f"a fit with n={self.n}, d={self.d}: takes n from 1 to {MOST_RECORDS} and d from 1."
            )
        if not (self.density < 1 and self.n * self.density >= 1 - _NEARLY):
            raise GuaranteeError(
                f"density={show(self.density)}: density takes a number from 1/n = "
                f"{1 / self.n:.3g} and below 1, because weights are spread over that fraction of "
                f"n={self.n} records."
            )

    @property
    def s(self) -> float:
        """The least number of records that weights are spread over: none exceeds ``1 / s``."""
        return max(1.0, self.density * self.n)

    @property
    def loss(self) -> WorstMargins:
        """The objective, where other calibrations have a loss."""
        return WorstMargins(self.density)


@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialChoices:
    """Choices by score, one in each round, and their price.

    Attributes
    ----------
    target : Guarantee
        The guarantee that all choices together satisfy.
    rounds : int
        T, the number of choices.
    sensitivity : float
        The largest amount by which one record moves a score.
    eta : float
        The bounded range of one choice; infinite without a guarantee.
    """

    target: Guarantee
    rounds: int
    sensitivity: float
    eta: float

    @property
    def choice(self) -> ExponentialMechanism | None:
        """The mechanism of a round; None if it takes the largest score, without noise."""
        if math.isinf(self.eta):
            return None
        # one score may move up while another moves down, hence twice the sensitivity
        return ExponentialMechanism(self.eta, 2 * self.sensitivity)

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that a ledger composes for all rounds; empty without a guarantee."""
        if isinstance(self.target, NonPrivate):
            return ()
        return (BoundedRangeEvent(self.eta, self.rounds, self.target.neighbours),)

    def gap(
        self, width: float, n: int, s: float, step: float, options: int, failure: float
    ) -> float:
        """Bound how far the mean of the s worst stays behind the best one possible.

        The first part is there because rounds are few. The relative entropy of any dense weights
        to the present ones is at most ``log(n / s)`` at first, is never negative, and falls in
        each round by the step times what the present weights score above the others, less
        ``step**2 width**2 / 2`` at most. The second part is there because choices are noisy; it
        is exceeded in some round with probability `failure` at most.
        """
        behind = math.log(n / s) / (step * self.rounds) + step * width**2 / 2
        if math.isinf(self.eta):
            return behind
        tail = math.log(options * self.rounds / failure)
        return behind + 2 * self.sensitivity / self.eta * tail


MOST_AUTOMATIC = 1000
"""Largest number of rounds that is chosen automatically."""


def balanced_rounds(target: Guarantee, n: int, s: float, options: int) -> int:
    """Return the T, from 1 to 1000, at which the two parts of `gap` are about equal.

    More rounds make the first part smaller and the second larger: the bounded range of a round is
    about ``eps / T`` for pure epsilon, ``sqrt(8 rho / T)`` for zCDP, and ``eps sqrt(2 / (T log(1 /
    delta)))`` for an approximate target.
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
    """Return the step at which the first part of `gap` is smallest, for scores up to `width`."""
    return math.sqrt(2 * math.log(n / s) / rounds) / width


def read_rounds(
    rounds: Any, target: Guarantee, n: int, s: float, options: int
) -> tuple[int, float, str]:
    """Return the number of rounds, the bounded range of a choice, and what decided the number."""
    origin = "as given"
    if isinstance(rounds, str) and rounds == "auto":
        rounds, origin = balanced_rounds(target, n, s, options), "automatic from public facts"
    if type(rounds) is not int or not 1 <= rounds <= MOST_ROUNDS:
        raise ArgumentError(
            f"rounds={show(rounds)}: rounds takes 'auto' or a whole number from 1 to {MOST_ROUNDS}."
        )
    eta = math.inf if isinstance(target, NonPrivate) else range_within(target, rounds)
    return rounds, eta, origin


SCORES = ("margin", "count")
"""The quantities that a round may compare, by the names that users write."""
MOST_ROUNDS = 10**6
"""Largest number of rounds that may be asked for."""
_LARGEST_STEP = 1e6
"""Largest step times the largest entry of a row: the largest change of a log weight."""
_INFLATION = 1e-9
"""Least share of a sensitivity that is added to it, because scores are rounded to doubles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramCalibration(PrintedFacts, SequentialChoices):
    """Rounds, step and choice of a column, computed before any data is touched.

    Attributes
    ----------
    problem : ProgramFacts
        The public facts that it was made for.
    step : float
        The amount by which the log weight of a record falls for each unit of margin.
    score : str
        What a round compares: ``"margin"``, weighted sums of margins; or ``"count"``, the weight
        of the records that a column gives a margin of `threshold` or more.
    slack : float
        It lowers the `threshold` of counts; margins do not use it.
    rounds_origin : str
        What decided the number of rounds, in words.
    """

    problem: ProgramFacts
    step: float
    score: str
    slack: float
    rounds_origin: str
    title: ClassVar[str] = WorstMargins.title
    mechanism: ClassVar[str] = "multiplicative weights"
    unit: ClassVar[float] = 1.0
    """The size of a coefficient whose column is chosen in every round, in scaled units."""

    @property
    def threshold(self) -> float:
        """The smallest margin with which a record counts."""
        return (1 - self.slack) * self.problem.x_bound

    def shortfall(self, failure: float = 0.05) -> float:
        """Bound how far the mean of the s worst margins may be below the best one possible.

        It holds for margins as scores, and fails with probability `failure` at most, over the
        random choices. The best is over all coefficients whose sizes add up to one.
        """
        problem = self.problem
        known = problem.x_bound, problem.n, problem.s, self.step, 2 * problem.d
        return self.gap(*known, failure)

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """Labels and sentences for the printed page."""
        problem = self.problem
        scored = "weighted margins"
        if self.score == "count":
            scored = f"weight of the records with a margin from {self.threshold:.4g}"
        noise = "each of the largest score"
        if self.choice is not None:
            noise = f"each of bounded range {self.eta:.4g}"
            scored = f"{scored}, sensitivity {self.sensitivity:.4g}"
        columns = "1 column" if self.rounds == 1 else f"{self.rounds} columns"
        return (
            ("Choices", f"{columns}, {self.rounds_origin}; {noise}"),
            ("Scores", scored),
            (
                "Weights",
                f"spread over {problem.s:.6g} records or more (density {problem.density:.4g}), "
                f"step {self.step:.4g}",
            ),
        )


def calibrate_program(
    facts: ProgramFacts,
    target: Guarantee,
    rounds: Any = "auto",
    step: Any = "auto",
    score: Any = "margin",
    slack: Any = 0.0,
) -> ProgramCalibration:
    """Compute all numbers of a fit from public facts (theory.md#lemma-d2).

    Parameters
    ----------
    facts
        The public facts.
    target
        The guarantee; under `NonPrivate` every round takes the largest score.
    rounds
        A whole number, or ``"auto"`` for `balanced_rounds`.
    step
        A number above 0, or ``"auto"`` for `best_step`.
    score
        ``"margin"`` or ``"count"``.
    slack
        A number from 0 to below 1.

    Raises
    ------
    ArgumentError, GuaranteeError
        One sentence about public facts.
    """
    require_choice(ArgumentError, "score", score, SCORES)
    takes = "a number from 0 and below 1, or entries of zero would count"
    limits = {"at_least": 0.0, "at_most": math.nextafter(1.0, 0.0)}
    allowance = require_number(ArgumentError, "slack", slack, takes, **limits)
    times, eta, origin = read_rounds(rounds, target, facts.n, facts.s, 2 * facts.d)
    if isinstance(step, str) and step == "auto":
        step = best_step(facts.x_bound, facts.n, facts.s, times)
    else:
        most = _LARGEST_STEP / facts.x_bound
        takes = f"'auto' or a number above 0 and up to {most:g}"
        step = require_number(ArgumentError, "step", step, takes, above=0, at_most=most)
    return ProgramCalibration(
        problem=facts,
        target=target,
        rounds=times,
        step=step,
        score=score,
        slack=allowance,
        sensitivity=score_sensitivity(facts, score),
        eta=eta,
        rounds_origin=origin,
    )


def score_sensitivity(facts: ProgramFacts, score: str) -> float:
    """Bound how far replacing one record moves a score, with an allowance for rounding.

    A score is ``sum_i q_i a_i``. Here ``a_i`` depends on record i and lies in an interval of
    length c, which is ``2 x_bound`` for margins and 1 for counts, and q is the dense law nearest
    to weights of which one record changes only its own. A score moves by at most ``c / s``
    (Lemma D2; theory.md#lemma-d2 has the proof).
    """
    width = 2 * facts.x_bound if score == "margin" else 1.0
    # each of the two scores is off by half of the interval times the error of the projection
    rounding = 2 * projection_error(facts.n) * facts.s
    return width / facts.s * (1 + max(_INFLATION, rounding))


# -- rounds ----------------------------------------------------------------------------------------


Scorer = Callable[[FloatArray], FloatArray]
"""A function that returns the scores ``(options,)`` under weights ``(n,)`` of sum one."""
Lowering = Callable[[FloatArray, int], None]
"""A function that lowers, in place, the log weights ``(n,)`` of what an option serves well."""


def release_program(
    rows: EntryRows, calibration: ProgramCalibration, randomness: Randomness
) -> Selections:
    """Choose one signed column in each round, and release all choices in their order.

    Parameters
    ----------
    rows : EntryRows
        The private rows.
    calibration : ProgramCalibration
        It was made for rows of this shape.
    randomness : Randomness
        The source of the noise.

    Returns
    -------
    Selections
        A coefficient is the share of rounds that chose its column as it is, less the share of
        rounds that chose it with the opposite sign.

    Notes
    -----
    **Privacy.** *Covered*: choices and order, by ``calibration.target``. *Neighbours*: replace
    one record. *Assumed public*: everything in ``calibration.problem``. *Not covered*: time
    and memory.
    """
    require_x_bound(rows, calibration)
    path = play_columns(rows, scorer(rows, calibration), calibration, randomness)
    counts = np.bincount(path, minlength=2 * rows.d)
    return Selections(counts, calibration, calibration.target, path=path)


def play(
    n: int,
    score: Scorer,
    fall: Lowering,
    s: float,
    made: SequentialChoices,
    randomness: Randomness,
) -> IntArray:
    """Play all rounds and return the chosen options ``(rounds,)``; see Lemma D3.

    Without a mechanism each round takes the largest score.
    """
    log_weights, choice = np.zeros(n), made.choice
    path = np.empty(made.rounds, dtype=np.intp)
    for turn in range(made.rounds):
        # no dense weight is above 1/s, so no record moves a score by more than the sensitivity
        scores = score(dense_projection(log_weights, s))
        option = int(np.argmax(scores)) if choice is None else choice.choose(scores, randomness)
        path[turn] = option
        # records that the option serves well lose weight, so that later rounds serve the others;
        # the raw weights fall, because dense ones would pass the change of one record on to all
        fall(log_weights, option)
    return path


def play_columns(
    rows: EntryRows, score: Scorer, made: ProgramCalibration, randomness: Randomness
) -> IntArray:
    """Play all rounds with signed columns as options; see `play`."""

    def fall(log_weights: FloatArray, option: int) -> None:
        index, values = rows.column(option % rows.d)
        change = made.step * values
        log_weights[index] -= change if option < rows.d else -change

    return play(rows.n, score, fall, made.problem.s, made, randomness)


def scorer(rows: EntryRows, calibration: ProgramCalibration) -> Scorer:
    """Return the function that computes the scores of a calibration."""
    if calibration.score == "margin":

        def margins(weights: FloatArray) -> FloatArray:
            one_way = rows.weighted_sum(weights)
            return np.concatenate([one_way, -one_way])

        return margins
    right, wrong = rows.at_least(calibration.threshold)
    return lambda weights: np.concatenate(
        [right.weighted_sum(weights), wrong.weighted_sum(weights)]
    )
