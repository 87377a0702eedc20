"""The table of mechanisms: placement x kind of guarantee; the laws run over its rows.

Any registered loss goes with any row. To add a mechanism, write its formulas in
`privatelr.mechanisms.calibration`, a module with `release`, and list both here.

A price may buy two releases: the coefficients, then what inference needs to know of their error.
The second sees the first as public, so their guarantees add up (adaptive composition).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from privatelr.errors import GuaranteeError
from privatelr.mechanisms import perturbation
from privatelr.mechanisms.calibration.calibrate import (
    calibrate_objective,
    calibrate_output,
    calibrate_plain,
)
from privatelr.mechanisms.calibration.lambda_rules import PLAIN_LAMBDA, all_rules, lambda_by_rule
from privatelr.mechanisms.calibration.moment_noise import MomentsCalibration, calibrate_moments
from privatelr.mechanisms.calibration.pure import proven
from privatelr.mechanisms.moments_release import release_moments
from privatelr.mechanisms.release import draw
from privatelr.mechanisms.request import divide, is_usual
from privatelr.numerics.solve import Solver
from privatelr.privacy import ZCDP, ApproxDP, Event, Guarantee, NonPrivate, Promise, PureDP
from privatelr.privacy.noise import Randomness
from privatelr.types import Placement, Rows

if TYPE_CHECKING:
    from privatelr.mechanisms.calibration.calibration_record import Calibration
    from privatelr.mechanisms.calibration.lambda_rules import LambdaRule
    from privatelr.mechanisms.calibration.pure import Analysis
    from privatelr.mechanisms.problem import Facts, Problem
    from privatelr.mechanisms.release import Draws, Release
    from privatelr.mechanisms.request import Request


@dataclass(frozen=True, slots=True)
class Mechanism:
    """How to calibrate a request and how to release under the calibration."""

    calibrate: Callable[[Problem, Request, str], Calibration]
    release: Callable[..., Release]


MECHANISMS: dict[tuple[Placement, type[Any]], Mechanism] = {
    ("objective", PureDP): Mechanism(calibrate_objective, perturbation.release_tilted_minimiser),
    ("objective", ZCDP): Mechanism(calibrate_objective, perturbation.release_tilted_minimiser),
    ("objective", ApproxDP): Mechanism(calibrate_objective, perturbation.release_tilted_minimiser),
    ("output", PureDP): Mechanism(calibrate_output, perturbation.release_noisy_minimiser),
    ("output", ZCDP): Mechanism(calibrate_output, perturbation.release_noisy_minimiser),
    ("output", ApproxDP): Mechanism(calibrate_output, perturbation.release_noisy_minimiser),
    ("objective", NonPrivate): Mechanism(calibrate_plain, perturbation.release_plain),
    ("output", NonPrivate): Mechanism(calibrate_plain, perturbation.release_plain),
}


def find_mechanism(request: Request) -> Mechanism:
    """The row of the table for a request; raises `GuaranteeError` where none is proven."""
    key = (request.placement, type(request.target))
    if key not in MECHANISMS:
        raise GuaranteeError(
            f"{request.placement} perturbation is not available under {request.target}."
        )
    return MECHANISMS[key]


def calibrate(request: Request, facts: Facts) -> Calibration:
    """Choose lambda if a rule was asked for, then calibrate; takes no data."""
    mechanism, target, asked = find_mechanism(request), request.target, request.lambda_
    if isinstance(target, NonPrivate):
        if not isinstance(asked, str):
            return mechanism.calibrate(facts.with_lambda(asked), request, "as given")
        plain = facts.with_lambda(PLAIN_LAMBDA)
        return mechanism.calibrate(plain, request, "the default of a plain fit")
    analysis = proven(request.analysis, facts.loss)
    rules = all_rules(facts, target, analysis, request.placement)
    if not isinstance(asked, str):
        found = mechanism.calibrate(facts.with_lambda(asked), request, "as given")
        return replace(found, lambda_rules=rules)
    value = dict(rules).get(asked)
    if value is None:  # a rule that has no answer says why
        value = lambda_by_rule(asked, facts, target, analysis, request.placement)
    origin = _origin(request, _in_words(asked, value, facts, target, analysis), analysis)
    if asked != "PrivateLR" and analysis != "cms11":  # PrivateLR's may be too small
        request = replace(request, on_small_lambda="keep")
    found = mechanism.calibrate(facts.with_lambda(value), request, origin)
    return replace(found, lambda_rules=rules)


def _in_words(
    rule: LambdaRule, value: float, facts: Facts, target: Promise, analysis: Analysis
) -> tuple[LambdaRule, Promise]:
    """The rule by which an automatic lambda is described, and the promise that it is free for.

    ``"auto"`` is called ``"free"`` where it is the free penalty, under (epsilon, delta) of either
    kind of noise.
    """

    def agrees(other: Promise) -> bool:
        return math.isclose(value, lambda_by_rule("free", facts, other, analysis), rel_tol=1e-9)

    if rule == "PrivateLR":
        return rule, target
    if isinstance(target, ApproxDP) and agrees(pure := PureDP(target.epsilon)):
        return "free", pure
    return ("free" if agrees(target) else rule), target


def _origin(request: Request, described: tuple[LambdaRule, Promise], analysis: Analysis) -> str:
    """Where an automatic lambda comes from, in words."""
    rule, target = described
    if rule == "PrivateLR" or analysis == "cms11":
        return "automatic, PrivateLR's rule"
    if rule == "auto":
        return "automatic, balances noise and shrinkage for a guess of the coefficients"
    if request.placement == "output":
        if analysis == "joint":
            return "automatic, what would be free in objective perturbation"
        return "automatic, what objective perturbation would take"
    if isinstance(target, ZCDP):
        cost = "be free under" if analysis == "joint" else "cost a tenth of"
        return f"automatic, what would {cost} the pure epsilon that implies this rho"
    if isinstance(target, ApproxDP):
        return "automatic, the smallest that adds at most 2 % to the noise"
    if analysis == "joint":
        return "automatic, the smallest that adds nothing to the noise"
    return "automatic, the smallest that costs a tenth of eps"


@dataclass(frozen=True, slots=True)
class StagedCalibration:
    """All stages of a fit with all their numbers, before any data is touched."""

    target: Guarantee
    mechanism: Mechanism
    coefficients: Calibration
    moments: MomentsCalibration | None

    @property
    def proven(self) -> Guarantee:
        """What all the noise is proven to give together; see `Calibration.proven`."""
        parts = [stage.proven for stage in (self.coefficients, self.moments) if stage]
        if isinstance(self.target, ApproxDP) and all(isinstance(part, PureDP) for part in parts):
            return PureDP(self.target.epsilon, self.target.neighbours)
        return self.target

    @property
    def events(self) -> tuple[Event, ...]:
        """What a ledger composes for all stages."""
        return self.coefficients.events + (self.moments.events if self.moments else ())

    def __str__(self) -> str:
        return "\n".join(str(stage) for stage in (self.coefficients, self.moments) if stage)


def calibrate_all(request: Request, facts: Facts) -> StagedCalibration:
    """Divide the price and calibrate every stage; takes no data."""
    parts = divide(request.target, request.spend, facts.loss)
    for name, part in zip(("coefficients", "inference"), parts, strict=True):
        if part is not None and not is_usual(part):
            raise GuaranteeError(
                f"spend: {name} would get {part}, which is less than a release takes; raise eps, "
                "delta or the share."
            )
    asked = replace(request, target=parts[0])
    coefficients = calibrate(asked, facts)
    moments = None
    if parts[1] is not None:
        moments = calibrate_moments(coefficients.problem, parts[1], request.kinds)
    return StagedCalibration(request.target, find_mechanism(asked), coefficients, moments)


def draw_all(plan: StagedCalibration, randomness: Randomness) -> Draws:
    """All the noise that a plan takes, drawn once."""
    moments = randomness.draw(plan.moments.noise) if plan.moments else None
    return replace(draw(plan.coefficients, randomness), moments=moments)


def release_all(rows: Rows, plan: StagedCalibration, draws: Draws, solver: Solver) -> Release:
    """Release the coefficients, and at them the moments if they were requested.

    Notes
    -----
    **Privacy.** *Covered*: everything in the release, by ``plan.target``. *Neighbours*: replace
    one record. *Assumed public*: everything in the plan. *Not covered*: time and memory.
    """
    released = plan.mechanism.release(rows, plan.coefficients, draws, solver)
    if plan.moments is None or draws.moments is None:
        return replace(released, guarantee=plan.target)
    moments = release_moments(rows, released.coef, plan.moments, draws.moments)
    return replace(released, guarantee=plan.target, moments=moments)
