"""The table of mechanisms: placement x kind of guarantee; the laws run over its rows.

Any registered loss goes with any row. To add a mechanism, write its formulas in
`privatelr.mechanisms.calibration`, a module with `release`, and list both here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from privatelr.errors import GuaranteeError
from privatelr.mechanisms import perturbation
from privatelr.mechanisms.calibration.calibrate import (
    calibrate_objective,
    calibrate_output,
    calibrate_plain,
)
from privatelr.mechanisms.calibration.lambda_rules import PLAIN_LAMBDA, lambda_by_rule
from privatelr.mechanisms.calibration.pure import proven
from privatelr.privacy import ZCDP, ApproxDP, NonPrivate, PureDP

if TYPE_CHECKING:
    from collections.abc import Callable

    from privatelr.mechanisms.calibration.calibration_record import Calibration
    from privatelr.mechanisms.calibration.lambda_rules import LambdaRule
    from privatelr.mechanisms.calibration.pure import Analysis
    from privatelr.mechanisms.problem import Facts, Problem
    from privatelr.mechanisms.release import Release
    from privatelr.mechanisms.request import Request
    from privatelr.privacy import Promise
    from privatelr.types import Placement


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
    mechanism = find_mechanism(request)
    if not isinstance(request.lambda_, str):
        return mechanism.calibrate(facts.with_lambda(request.lambda_), request, "as given")
    target, rule = request.target, request.lambda_
    if isinstance(target, NonPrivate):
        plain = facts.with_lambda(PLAIN_LAMBDA)
        return mechanism.calibrate(plain, request, "the default of a plain fit")
    analysis = proven(request.analysis, facts.loss)
    value = lambda_by_rule(rule, facts, target, analysis, request.placement)
    origin = _origin(request, _in_words(rule, value, facts, target, analysis), analysis)
    if rule != "PrivateLR" and analysis != "cms11":  # R's may be too small; others see to it
        request = replace(request, on_small_lambda="keep")
    return mechanism.calibrate(facts.with_lambda(value), request, origin)


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
