"""Every calibration put back into its theorem: what its noise spends of its claim."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from privatelr.audit.checks import Check, guarded
from privatelr.audit.claims import claims_of_size, short
from privatelr.audit.settings import (
    INTERCEPT_AND_SLOPE,
    INTERCEPT_FACTOR_SLOPE,
    Setting,
    calibrate_in,
    plan_in,
)
from privatelr.audit.worth import (
    share_of_choices,
    share_of_moments,
    share_of_parts,
    share_spent,
)
from privatelr.mechanisms.online.calibration import OnlineProblem, calibrate_online
from privatelr.mechanisms.programs.calibration import SCORES, calibrate_program
from privatelr.mechanisms.programs.constraints import PRIVATE, calibrate_constraints
from privatelr.mechanisms.programs.problem import ProgramFacts
from privatelr.mechanisms.registry import MECHANISMS
from privatelr.mechanisms.request import Request
from privatelr.numerics.losses import LOSSES
from privatelr.privacy.guarantees import NEIGHBOURS, REPLACE_ONE, NonPrivate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from privatelr.privacy.guarantees import Promise
    from privatelr.types import Placement

PART = "noise"
_SLACK = 1e-6
_SETTINGS = (
    Setting(),
    Setting(12.0, 4.0, INTERCEPT_AND_SLOPE),
    Setting(0.1, 0.25, INTERCEPT_FACTOR_SLOPE),
    Setting(12.0),
)
_SIZES = (0.3, 1.0, 3.0)
"""Multiples of the epsilon that is asked for."""


def audit_noise(epsilon: float) -> Iterator[Check]:
    """A check for each mechanism and claim: the largest share of the claim that it spends."""
    for placement, kind in MECHANISMS:
        for place, claim in enumerate(claims_of_size(epsilon)):
            if kind is not NonPrivate and isinstance(claim, kind):
                yield from _coefficients(placement, place, epsilon)
    for place in range(len(claims_of_size(epsilon))):
        yield from _inference(place, epsilon)
    for place, claim in enumerate(claims_of_size(epsilon)):
        subject = f"choices of columns, {short(claim)}"
        yield from guarded(PART, subject, _columns, place, subject, epsilon)
        subject = f"choices of experts, {short(claim)}"
        yield from guarded(PART, subject, _experts, place, subject, epsilon)
        subject = f"choices of corners, {short(claim)}"
        yield from guarded(PART, subject, _corners, place, subject, epsilon)


def _claims(place: int, epsilon: float) -> Iterator[Promise]:
    """The claims at this place, of all sizes."""
    for size in _SIZES:
        yield claims_of_size(size * epsilon)[place]


def _check(subject: str, shares: list[float]) -> Check:
    return Check(PART, f"{subject}, share of the claim", max(shares), 1 + _SLACK)


def _coefficients(placement: Placement, place: int, epsilon: float) -> Iterator[Check]:
    subject = f"{placement}, {short(claims_of_size(epsilon)[place])}"

    def work() -> Iterator[Check]:
        shares = []
        for claim in _claims(place, epsilon):
            for loss in LOSSES.values():
                request = Request(claim, placement, None, "free", "keep")
                found = [calibrate_in(request, loss, setting) for setting in _SETTINGS]
                shares += [share_spent(each) for each in found if each is not None]
        yield _check(subject, shares)

    yield from guarded(PART, subject, work)


def _inference(place: int, epsilon: float) -> Iterator[Check]:
    subject = f"inference, {short(claims_of_size(epsilon)[place])}"

    def work() -> Iterator[Check]:
        moments, parts = [], []
        for claim in _claims(place, epsilon):
            for loss in LOSSES.values():
                request = Request(claim, "objective", None, "free", "keep", "inference")
                for setting in _SETTINGS[:2]:
                    plan = plan_in(request, loss, setting)
                    if plan is None or plan.moments is None:
                        continue
                    moments.append(share_of_moments(plan.moments))
                    bought = plan.coefficients.target, plan.moments.target
                    parts.append(share_of_parts(claim, bought))
        yield _check(f"{subject}, moments", moments)
        yield _check(f"{subject}, both parts", parts)

    yield from guarded(PART, subject, work)


def _columns(place: int, subject: str, epsilon: float) -> Iterator[Check]:
    shares = []
    for claim in _claims(place, epsilon):
        for score in SCORES:
            facts = ProgramFacts(1000, 20, 3.0, 0.25)
            found = calibrate_program(facts, claim, 30, score=score, slack=0.25)
            # a weight is 1/s at most, and a score a weighted mean of what lies in an interval
            width = 2 * facts.x_bound if score == "margin" else 1.0
            moved = found.eta * width / facts.s / found.sensitivity
            shares.append(share_of_choices(moved, found.rounds, claim))
    yield _check(subject, shares)


def _experts(place: int, subject: str, epsilon: float) -> Iterator[Check]:
    shares = []
    for neighbours in NEIGHBOURS.values():
        problem = OnlineProblem(5, 40, 0.0, 2.0, neighbours)
        # one vector for another moves sums up or down by the width, or only one way
        moved = 4.0 if neighbours is REPLACE_ONE else 2.0
        for claim in _claims(place, epsilon):
            found = calibrate_online(problem, replace(claim, neighbours=neighbours))
            shares.append(share_of_choices(moved / found.lambda_, problem.horizon - 1, claim))
    yield _check(subject, shares)


def _corners(place: int, subject: str, epsilon: float) -> Iterator[Check]:
    shares = []
    for claim in _claims(place, epsilon):
        for private in PRIVATE:
            found = calibrate_constraints(
                (50, 4), claim, private, width=2.0, violated=12, reach=3.0, size=2.0, rounds=30
            )
            moved = found.eta * 3.0 / found.s / found.sensitivity
            shares.append(share_of_choices(moved, found.rounds, claim))
    yield _check(subject, shares)
