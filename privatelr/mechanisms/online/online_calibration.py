"""Calibration of online play: how strongly past losses may steer the choice of a round.

Round t chooses expert i with probability proportional to ``exp(-L_i / lambda)``, where L_i is the
sum of the losses of expert i in all rounds before t. The first round has seen no loss, so only
T - 1 choices are paid for (linear_programs_and_simplex.md 3).
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
    REPLACE_ONE,
    ZERO_OUT,
    BoundedRangeEvent,
    Event,
    Guarantee,
    Neighbours,
    NonPrivate,
    range_within,
)
from privatelr.privacy.accounting import in_agreement
from privatelr.privacy.noise.exponential_mechanism import ExponentialMechanism

RELATIONS = {"replace": REPLACE_ONE, "zero-out": ZERO_OUT}
"""The neighbouring relations about which something is proven here: one loss vector is changed."""
MOST_ROUNDS, MOST_EXPERTS = 10**9, 10**7
"""Largest horizon and largest number of experts of a play."""
_EXACT_BITS = 52
"""Sums of losses are whole numbers of at most this many bits, which doubles hold exactly."""


@dataclass(frozen=True, slots=True)
class OnlineProblem:
    """Public facts about a sequence of losses.

    Attributes
    ----------
    n_experts, horizon : int
        p and T, both from 2.
    low, high : float
        The public range of a loss; every loss is clipped to it.
    neighbours : Neighbours
        What differs between neighbours: one loss vector is replaced by another one, or by zeros.
    """

    n_experts: int
    horizon: int
    low: float
    high: float
    neighbours: Neighbours

    @property
    def width(self) -> float:
        """W, the largest difference of two losses of a round."""
        return self.high - self.low

    @property
    def steps(self) -> int:
        """The number of steps that the loss range is divided into.

        Losses are rounded to whole steps, so that their sums over all rounds are exact.
        """
        return 1 << min(30, _EXACT_BITS - self.horizon.bit_length())

    @property
    def moved_steps(self) -> int:
        """The length of the interval within which one round moves all sums, in steps.

        Another vector in its place moves each sum up or down by W at most, hence within an
        interval of length 2 W. Zeros in its place, or any other constant, leave an interval of
        length W: the choice does not change when a constant is added to all sums.
        """
        return self.steps * (2 if self.neighbours is REPLACE_ONE else 1)

    @property
    def moved(self) -> float:
        """Gamma, the length `moved_steps` in the units of the losses."""
        return self.width * (self.moved_steps // self.steps)


@dataclass(frozen=True, slots=True)
class OnlineCalibration:
    """All numbers of the choice of a round, computed before any loss is seen.

    Attributes
    ----------
    problem : OnlineProblem
        The public facts that it was made for.
    target : Guarantee
        The guarantee that all choices together satisfy.
    eta : float
        The bounded range of one choice, ``Gamma / lambda``.
    lambda_origin : str
        The reason for this lambda, in words.
    """

    problem: OnlineProblem
    target: Guarantee
    eta: float
    lambda_origin: str

    @property
    def lambda_(self) -> float:
        """Strength of the regularisation, in the units of the losses."""
        return self.problem.moved / self.eta

    @property
    def mechanism(self) -> ExponentialMechanism:
        """The mechanism of a round; its scores are minus the sums of the losses, in steps."""
        return ExponentialMechanism(self.eta, float(self.problem.moved_steps))

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that a ledger composes for all rounds.

        It is empty if they cost far less than the target, so that the target is counted instead.
        """
        if isinstance(self.target, NonPrivate):
            return ()
        problem = self.problem
        event = BoundedRangeEvent(self.eta, problem.horizon - 1, problem.neighbours)
        return in_agreement(self.target, (event,))

    @property
    def regret_bound(self) -> float:
        """Upper bound on the expected loss above that of the best expert, whatever the losses.

        It is ``lambda log p + T W**2 / (8 lambda)``, plus what the rounding to steps adds
        (theory.md#regret has the proof).
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
    """Choose the smallest lambda that the target allows, or the best for the regret if larger.

    The bound on the regret is smallest at ``W sqrt(T / (8 log p))``, so a smaller lambda than
    this is of no use even where the target allows it (linear_programs_and_simplex.md 3).
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
    chosen = require_choice(GuaranteeError, "neighbours", neighbours, RELATIONS)
    takes = f"a pair of numbers (lo, hi) with lo < hi, none beyond {LARGEST_NUMBER:g}"
    low, high = read_range("loss_range", loss_range, takes)
    return OnlineProblem(int(n_experts), int(horizon), low, high, RELATIONS[chosen])


def read_promise(epsilon: Any, delta: Any, problem: OnlineProblem) -> Guarantee:
    """Read the guarantee that is asked for; it has to be about the neighbours of the problem.

    Epsilon may be a guarantee itself, and then the default delta asks for nothing more.
    """
    about, plain = problem.neighbours, "play without privacy"
    return read_target(epsilon, delta, USUAL_DELTA, name="epsilon", plain=plain, neighbours=about)
