"""The support vector machine by linear programs of a thesis, as it was printed.

It reproduces the tables of the thesis, and is not for use: it spends more than it claims.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privatelr.mechanisms.calibration.pure import Analysis
from privatelr.mechanisms.perturbation import draw
from privatelr.mechanisms.problem import Problem
from privatelr.mechanisms.request import Request
from privatelr.mechanisms.stages.coefficients import calibrate, mechanism_of
from privatelr.numerics import Huber
from privatelr.numerics.rows import DenseRows, EntryRows
from privatelr.numerics.solve import Newton
from privatelr.privacy import NonPrivate, PureDP
from privatelr.privacy.noise import Randomness
from privatelr.selection.multiplicative_weights import (
    ProgramCalibration,
    ProgramFacts,
    Scorer,
    play_columns,
    scorer,
)
from privatelr.selection.thesis import true_epsilon
from privatelr.types import FloatArray, IntArray

MOST_ROUNDS = 2000
"""Usual number of rounds at which the printed T is cut off."""


@dataclass(frozen=True, slots=True, eq=False)
class ThesisFit:
    """The result of the printed algorithm, and its true price.

    Attributes
    ----------
    coef : ndarray of shape (d,)
        The coefficients in scaled units.
    objective_coef : ndarray of shape (d,)
        The coefficients of the first fit: by objective perturbation, or the plain one.
    opt : float
        The sum of the absolute values of `objective_coef`, which the printed text calls OPT.
    rounds : int
        T, a function of `opt`, cut off at a largest number.
    path : ndarray of int, shape (rounds,)
        The signed columns in the order in which they were chosen.
    epsilon_claimed : float
        The epsilon of the printed text.
    epsilon_true : float
        The epsilon at the same delta by the accounting of this package: the largest over all
        numbers of rounds up to the largest one. It is infinite without noise.
    delta : float
        The delta of both epsilons.
    """

    coef: FloatArray
    objective_coef: FloatArray
    opt: float
    rounds: int
    path: IntArray
    epsilon_claimed: float
    epsilon_true: float
    delta: float

    def __str__(self) -> str:
        return (
            f"OPT = {self.opt:.4g}, {self.rounds} rounds; claimed epsilon = "
            f"{self.epsilon_claimed:.4g}, true epsilon up to {self.epsilon_true:.4g} at "
            f"delta = {self.delta:.3g}"
        )


def dmw_svm_thesis(
    ball: DenseRows,
    rows: EntryRows,
    epsilon: float,
    lambda_: float,
    randomness: Randomness,
    *,
    delta: float | None = None,
    density: float = 0.75,
    alpha: float = 200.0,
    score: str = "margin",
    slack: float = 0.0,
    most_rounds: int = MOST_ROUNDS,
) -> ThesisFit:
    """Train as the printed algorithm does, with its constants.

    A first fit by objective perturbation spends the whole epsilon. The sum OPT of the absolute
    values of its coefficients determines the number of rounds
    ``T = 36 (OPT + 1)**2 log(n) / alpha**2``, the step and the scores. Then T columns are chosen,
    each at ``eps / sqrt(8 T log(1 / delta))`` for a sensitivity of ``3 OPT / s`` (margins) or
    ``2 / s`` (counts), where the exact sensitivities are ``2 OPT / s`` and ``1 / s``.

    Parameters
    ----------
    ball : DenseRows
        Rows of length at most 1, for the first fit.
    rows : EntryRows
        The same rows, with entries up to 1.
    epsilon
        The epsilon of the printed text; infinity asks for no noise at all.
    lambda_
        The penalty of the first fit, of the mean objective.
    randomness
        The source of the noise.
    delta
        The delta of the printed text, by default ``1 / n``.
    density
        ``s / n``, the least fraction of the records that the weights are spread over.
    alpha
        The slack of a constraint in the printed text.
    score
        ``"margin"``, or ``"count"`` for the alternative of the printed text, by which a record
        counts if its margin is at least ``(1 - slack) / OPT``.
    slack
        The phi of the printed text; from 1 on, entries of zero count too.
    most_rounds
        The number of rounds at which T is cut off.

    Notes
    -----
    **Privacy.** *Covered*: `ThesisFit.coef`, `opt` and `rounds`, by `epsilon_true`, not by the
    claimed epsilon. *Neighbours*: replace one record. *Assumed public*: n, d and every argument.
    *Not covered*: time and memory.
    """
    n, excess = rows.n, 1 / rows.n if delta is None else delta
    facts = ProgramFacts(n, rows.d, 1.0, density)
    first = published_fit(ball, epsilon, lambda_, randomness)
    opt = float(np.abs(first).sum())
    wanted = 36 * (opt + 1) ** 2 * math.log(n) / alpha**2
    rounds = max(1, math.ceil(min(wanted, most_rounds)))
    eta = math.inf
    if math.isfinite(epsilon):
        eta = epsilon / math.sqrt(8 * rounds * math.log(1 / excess))
    made = ProgramCalibration(
        problem=facts,
        target=_claimed(epsilon),
        rounds=rounds,
        step=math.sqrt(math.log(n) / rounds) * opt / (2 * (opt + 1)),
        score=score,
        slack=slack,
        # the factor OPT of scores and of their sensitivity cancels, and is left out of both
        sensitivity=3 / facts.s if score == "margin" else 2 / facts.s,
        eta=eta,
        rounds_origin="as printed",
    )
    by = scorer(rows, made) if score == "margin" else _counts(rows, slack, opt)
    path = play_columns(rows, by, made, randomness)
    counts = np.bincount(path, minlength=2 * rows.d)
    coef = opt * (counts[: rows.d] - counts[rows.d :]) / rounds
    true = true_epsilon(epsilon, excess, score, most_rounds)
    return ThesisFit(coef, first, opt, rounds, path, epsilon, true, excess)


def _claimed(epsilon: float) -> PureDP | NonPrivate:
    return PureDP(epsilon) if math.isfinite(epsilon) else NonPrivate()


def published_fit(
    ball: DenseRows, epsilon: float, lambda_: float, randomness: Randomness
) -> FloatArray:
    """Fit by objective perturbation with the Huber loss (Chaudhuri et al. 2011, Algorithm 2)."""
    target = _claimed(epsilon)
    analysis: Analysis | None = "cms11" if target.is_private else None
    request = Request(target, "objective", analysis, lambda_, "increase")
    calibration = calibrate(request, Problem(ball.n, ball.d, Huber(), ball.radius))
    release = mechanism_of(request.placement, request.target).release
    return release(ball, calibration, draw(calibration, randomness), Newton()).coef


def _counts(rows: EntryRows, slack: float, opt: float) -> Scorer:
    """Return the scores by counts: the weight of all entries from a threshold on, even zeros."""
    threshold = (1 - slack) / opt if opt > 0 else math.inf
    if threshold > 0:
        right, wrong = rows.at_least(threshold)
        return lambda weights: np.concatenate(
            [right.weighted_sum(weights), wrong.weighted_sum(weights)]
        )
    # the sums leave out zeros, so subtract the weight of the entries below the threshold
    above, below = rows.at_least(math.nextafter(-threshold, math.inf))
    return lambda weights: np.concatenate(
        [1 - below.weighted_sum(weights), 1 - above.weighted_sum(weights)]
    )
