"""How strongly the losses of the past may steer the choice of each round.

Round t chooses expert i with probability proportional to ``exp(-L_i / lambda)``, where L is the
sum of the losses before. The first round sees none, so T - 1 choices are paid for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from privatelr.errors import ArgumentError, GuaranteeError, require_choice, show
from privatelr.mechanisms.request import USUAL_DELTA, read_target
from privatelr.mechanisms.selection_release import LARGEST_NUMBER, read_range
from privatelr.privacy import (
    NEIGHBOURS,
    REPLACE_ONE,
    BoundedRangeEvent,
    Event,
    Guarantee,
    Neighbours,
    NonPrivate,
    range_within,
)
from privatelr.privacy.accounting import in_agreement
from privatelr.privacy.noise.exponential_mechanism import ExponentialMechanism

MOST_ROUNDS, MOST_EXPERTS = 10**9, 10**7
_EXACT_BITS = 52
"""Sums of losses are whole numbers up to this power of two, which doubles hold exactly."""


@dataclass(frozen=True, slots=True)
class OnlineProblem:
    """Public facts about a sequence of losses.

    Attributes
    ----------
    n_experts, horizon : int
        p and T, both from 2.
    low, high : float
        Range of a loss; the losses are clipped to it.
    neighbours : Neighbours
        One loss vector is replaced by another one, or by zeros.
    """

    n_experts: int
    horizon: int
    low: float
    high: float
    neighbours: Neighbours

    @property
    def width(self) -> float:
        """W: how far two losses of a round can be apart."""
        return self.high - self.low

    @property
    def steps(self) -> int:
        """Whole steps into which a loss is rounded, so that sums of them are exact."""
        return 1 << min(30, _EXACT_BITS - self.horizon.bit_length())

    @property
    def moved_steps(self) -> int:
        """Length of the interval in which one round moves all sums, in steps.

        A replaced vector moves a sum up or down, by W at most. Beside a vector of zeros, which is
        as good as any other constant one, every sum moves within one interval of length W.
        """
        return self.steps * (2 if self.neighbours is REPLACE_ONE else 1)

    @property
    def moved(self) -> float:
        """Gamma: the same length, in the units of the losses."""
        return self.width * (self.moved_steps // self.steps)


@dataclass(frozen=True, slots=True)
class OnlineCalibration:
    """The choice of a round with all its numbers, computed before any loss is seen.

    Attributes
    ----------
    problem : OnlineProblem
    target : Guarantee
        What all choices together satisfy.
    eta : float
        Bounded range of one choice: ``Gamma / lambda``.
    lambda_origin : str
        What decided about lambda, in words.
    """

    problem: OnlineProblem
    target: Guarantee
    eta: float
    lambda_origin: str

    @property
    def lambda_(self) -> float:
        """In the units of the losses."""
        return self.problem.moved / self.eta

    @property
    def mechanism(self) -> ExponentialMechanism:
        """The choice of a round, by sums of losses in steps with the sign turned."""
        return ExponentialMechanism(self.eta, float(self.problem.moved_steps))

    @property
    def events(self) -> tuple[Event, ...]:
        """What a ledger composes for all rounds; nothing if it is far below what was promised."""
        if isinstance(self.target, NonPrivate):
            return ()
        problem = self.problem
        event = BoundedRangeEvent(self.eta, problem.horizon - 1, problem.neighbours)
        return in_agreement(self.target, (event,))

    @property
    def regret_bound(self) -> float:
        """``lambda log p + T W**2 / (8 lambda)``, and what the rounding to steps adds.

        By so much at most the expected loss exceeds that of the best expert, whatever the
        losses. (The loss of exponential weights is at most ``-lambda log`` of the total weight,
        plus ``W**2 / (8 lambda)`` a round by Hoeffding's lemma.)
        """
        problem, lambda_ = self.problem, self.lambda_
        rounds, width = problem.horizon, problem.width
        play = lambda_ * math.log(problem.n_experts) + rounds * width**2 / (8 * lambda_)
        return play + rounds * width / problem.steps

    def __str__(self) -> str:
        problem = self.problem
        return "\n".join(
            [
                "private follow-the-regularised-leader",
                f"target {self.target}",
                f"p = {problem.n_experts} experts, T = {problem.horizon} rounds, losses in "
                f"[{problem.low:g}, {problem.high:g}]",
                f"lambda = {self.lambda_:.6g}",
                f"  {self.lambda_origin}",
                f"each choice of bounded range {self.eta:.6g}",
                f"expected regret at most {self.regret_bound:.6g}",
            ]
        )


def calibrate_online(problem: OnlineProblem, target: Guarantee) -> OnlineCalibration:
    """The smallest lambda that the target allows, or the one that is best for the regret.

    A smaller lambda than ``W sqrt(T / (8 log p))`` is of no use: there the bound on the regret
    is smallest.
    """
    best = problem.width * math.sqrt(problem.horizon / (8 * math.log(problem.n_experts)))
    useful = problem.moved / best
    if not isinstance(target, NonPrivate):
        affordable = range_within(target, problem.horizon - 1)
        if affordable < useful:
            origin = "the smallest that the guarantee allows"
            return OnlineCalibration(problem, target, affordable, origin)
    return OnlineCalibration(problem, target, useful, "the best for the regret")


def read_problem(n_experts: Any, horizon: Any, loss_range: Any, neighbours: Any) -> OnlineProblem:
    """Check the arguments of `PrivateFTRL`."""
    counts = ("n_experts", n_experts, MOST_EXPERTS), ("horizon", horizon, MOST_ROUNDS)
    for name, value, most in counts:
        is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not (is_whole and 2 <= value <= most):
            takes = f"a whole number from 2 to {most}"
            raise ArgumentError(f"{name}={show(value)}: {name} takes {takes}.")
    chosen = require_choice(GuaranteeError, "neighbours", neighbours, NEIGHBOURS)
    takes = f"a pair of numbers (lo, hi) with lo < hi, none beyond {LARGEST_NUMBER:g}"
    low, high = read_range("loss_range", loss_range, takes)
    return OnlineProblem(int(n_experts), int(horizon), low, high, NEIGHBOURS[chosen])


def read_promise(epsilon: Any, delta: Any, problem: OnlineProblem) -> Guarantee:
    """The guarantee that is asked for, about the neighbours of the problem.

    A guarantee may stand in the place of epsilon, and then the usual delta asks for nothing.
    """
    about, plain = problem.neighbours, "play without privacy"
    return read_target(epsilon, delta, USUAL_DELTA, name="epsilon", plain=plain, neighbours=about)
