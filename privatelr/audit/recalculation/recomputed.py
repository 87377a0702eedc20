"""Every calibration put back into its theorem: what its noise spends of its claim."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatch
from typing import Any

import numpy as np

from privatelr.audit.checks import Check, claims_of_size, guarded, label, short
from privatelr.audit.density.exact import candidate_margins
from privatelr.audit.recalculation.worth import (
    epsilon_beside,
    epsilon_of_gaussian,
    rho_of_pure,
    share_of_choices,
    share_of_moments,
    share_of_parts,
    share_spent,
)
from privatelr.audit.settings import (
    INTERCEPT_AND_SLOPE,
    INTERCEPT_FACTOR_SLOPE,
    INTERCEPT_SLOPE_BALL,
    Setting,
    calibrate_in,
    plan_in,
)
from privatelr.mechanisms import MECHANISMS, Request
from privatelr.mechanisms.linear_programs import (
    PRIVATE,
    SCORES,
    ProgramFacts,
    calibrate_constraints,
    calibrate_program,
    true_epsilon,
)
from privatelr.mechanisms.online import OnlineProblem, calibrate_online
from privatelr.numerics import LOSSES
from privatelr.privacy import (
    NEIGHBOURS,
    REPLACE_ONE,
    ZCDP,
    NonPrivate,
    Promise,
    PureDP,
    to_approximate,
    to_zcdp,
)
from privatelr.privacy.noise import BlockLaplace, GaussianNoise, SphericalLaplace, gaussian_epsilon
from privatelr.types import Placement

PART = "noise"
_SLACK, _DELTA = 1e-6, 1e-6
_USUAL, _RUNS = 1e-4, (1, 10, 100, 1000)
"""Delta, and numbers of rounds, of the published program."""
_STEP, _BY_STEPS = 2.0**-16, 1e-6
_SETTINGS = (
    Setting(),
    Setting(12.0, 4.0, INTERCEPT_AND_SLOPE),
    Setting(0.1, 0.25, INTERCEPT_FACTOR_SLOPE),
    Setting(2.0, 1.0, INTERCEPT_SLOPE_BALL),
    Setting(12.0),
)
_KINDS = ((GaussianNoise,), (SphericalLaplace, BlockLaplace))
_SIZES = (0.3, 1.0, 3.0)
"""Multiples of the epsilon that is asked for."""


def audit_noise(epsilon: float, only: str = "*") -> Iterator[Check]:
    """A check for each mechanism and claim: the largest share of the claim that it spends.

    With `only`, those whose subject fits this pattern, as names of files do.
    """
    for subject, work, *given in _all_works(epsilon):
        if fnmatch(subject, only):
            yield from guarded(PART, subject, work, *given)


def _all_works(epsilon: float) -> Iterator[tuple[Any, ...]]:
    """Subjects, and what yields the checks of each."""
    claims = list(enumerate(claims_of_size(epsilon)))
    for placement, kind in MECHANISMS:
        for place, claim in claims:
            if kind is not NonPrivate and isinstance(claim, kind):
                subject = f"{placement}, {short(claim)}"
                yield subject, _coefficients, placement, place, subject, epsilon
    for what, work in (
        ("inference", _inference),
        ("choices of columns", _columns),
        ("choices of experts", _experts),
        ("choices of corners", _corners),
    ):
        for place, claim in claims:
            subject = f"{what}, {short(claim)}"
            yield subject, work, place, subject, epsilon
    yield "conversions", _conversions, epsilon
    yield "losses", _losses
    yield "published program", _published, epsilon


def _published(epsilon: float) -> Iterator[Check]:
    """What the published program truly costs is no less than some of its runs show."""
    for score, share in (("margin", 2 / 3), ("count", 1 / 2)):  # of the sensitivity that it states
        said = true_epsilon(epsilon, _USUAL, score, max(_RUNS))
        shown = max(
            epsilon_beside(
                epsilon,
                share * epsilon / math.sqrt(8 * times * math.log(1 / _USUAL)),
                times,
                _USUAL,
            )
            for times in _RUNS
        )
        subject = f"published program, {score}: epsilon that is shown over what it says it costs"
        yield Check(PART, subject, shown / said, 1 + _SLACK)


def _losses() -> Iterator[Check]:
    """A loss is as steep, and bends as much, as it states: by differences on a grid."""
    for loss in LOSSES.values():
        margins = candidate_margins(loss)
        for what, of, most in (
            ("slope", loss.value, loss.slope_bound),
            ("curvature", loss.slope, loss.curvature_bound),
        ):
            found = np.abs(of(margins + _STEP) - of(margins - _STEP)).max() / (2 * _STEP)
            subject = f"losses, {label(loss)}: largest {what} over what it states"
            yield Check(PART, subject, float(found) / most, 1 + _BY_STEPS)


def _conversions(epsilon: float) -> Iterator[Check]:
    """What is proven of any release holds for the one that shows most: so no less may be said."""
    responses, gaussians, profiles = [], [], []
    for size in _SIZES:
        price = size * epsilon
        responses.append(rho_of_pure(price) / to_zcdp(PureDP(price)).rho)
        exact = epsilon_of_gaussian(price, _DELTA)
        gaussians.append(exact / to_approximate(ZCDP(price * price / 2), _DELTA).epsilon)
        profiles.append(exact / gaussian_epsilon(price, _DELTA))
    for subject, shares in (
        ("a pure epsilon as rho", responses),
        ("rho as an epsilon at a delta", gaussians),
        ("a Gaussian as an epsilon at a delta", profiles),
    ):
        yield Check(PART, f"conversions, {subject}: what is shown of it", max(shares), 1 + _SLACK)


def _claims(place: int, epsilon: float) -> Iterator[Promise]:
    """The claims at this place, of all sizes."""
    for size in _SIZES:
        yield claims_of_size(size * epsilon)[place]


def _check(subject: str, shares: list[float]) -> Check:
    return Check(PART, f"{subject}, share of the claim", max(shares), 1 + _SLACK)


def _each_kind(request: Request) -> list[Request]:
    """Requests for each kind of noise that is proven, whichever a fit would take here."""
    if isinstance(request.target, PureDP):
        return [request]
    return [replace(request, kinds=kinds) for kinds in _KINDS]


def _coefficients(
    placement: Placement, place: int, subject: str, epsilon: float
) -> Iterator[Check]:
    shares = []
    for claim in _claims(place, epsilon):
        for loss in LOSSES.values():
            for request in _each_kind(Request(claim, placement, None, "free", "keep")):
                found = [calibrate_in(request, loss, setting) for setting in _SETTINGS]
                shares += [share_spent(each) for each in found if each is not None]
    yield _check(subject, shares)


def _inference(place: int, subject: str, epsilon: float) -> Iterator[Check]:
    moments, parts = [], []
    for claim in _claims(place, epsilon):
        for loss in LOSSES.values():
            usual = Request(claim, "objective", None, "free", "keep", "inference")
            for request, setting in itertools.product(_each_kind(usual), _SETTINGS[:2]):
                plan = plan_in(request, loss, setting)
                if plan is None or plan.moments is None:
                    continue
                moments.append(share_of_moments(plan.moments))
                bought = plan.coefficients.target, plan.moments.target
                parts.append(share_of_parts(claim, bought))
    yield _check(f"{subject}, moments", moments)
    yield _check(f"{subject}, both parts", parts)


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
