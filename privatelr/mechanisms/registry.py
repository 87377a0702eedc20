"""The table of mechanisms: placement x kind of guarantee; the laws run over its rows.

Any registered loss goes with any row. To add a mechanism, write a module with `release` (and
its formulas in `privatelr.mechanisms.calibration`) and list it here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from privatelr.errors import GuaranteeError
from privatelr.mechanisms import objective, output
from privatelr.mechanisms.calibration import (
    PLAIN_LAMBDA,
    Calibration,
    calibrate_objective,
    calibrate_output,
    lambda_by_rule,
)
from privatelr.privacy.guarantees import NonPrivate, PureDP
from privatelr.privacy.noise import NoNoise

if TYPE_CHECKING:
    from collections.abc import Callable

    from privatelr.mechanisms.calibration import LambdaRule
    from privatelr.mechanisms.problem import Facts, Problem
    from privatelr.mechanisms.release import Release
    from privatelr.mechanisms.request import Request
    from privatelr.types import Placement


@dataclass(frozen=True, slots=True)
class Mechanism:
    """How to calibrate a request and how to release under the calibration."""

    calibrate: Callable[[Problem, Request, str], Calibration]
    release: Callable[..., Release]


def _objective_pure(problem: Problem, request: Request, origin: str) -> Calibration:
    return calibrate_objective(
        problem,
        cast("PureDP", request.target),
        analysis=request.analysis,
        on_small_lambda=request.on_small_lambda,
        lambda_origin=origin,
    )


def _output_pure(problem: Problem, request: Request, origin: str) -> Calibration:
    target = cast("PureDP", request.target)
    return calibrate_output(problem, target, analysis=request.analysis, lambda_origin=origin)


def _plain(problem: Problem, request: Request, origin: str) -> Calibration:
    return Calibration(
        problem, request.target, request.placement, "none", NoNoise(problem.d), origin
    )


MECHANISMS: dict[tuple[Placement, type[Any]], Mechanism] = {
    ("objective", PureDP): Mechanism(_objective_pure, objective.release),
    ("output", PureDP): Mechanism(_output_pure, output.release),
    ("objective", NonPrivate): Mechanism(_plain, objective.release),
    ("output", NonPrivate): Mechanism(_plain, output.release),
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
    if not isinstance(request.target, PureDP):
        plain = facts.with_lambda(PLAIN_LAMBDA)
        return mechanism.calibrate(plain, request, "the default of a plain fit")
    rule, epsilon, analysis = request.lambda_, request.target.epsilon, request.analysis
    value = lambda_by_rule(rule, facts, epsilon, analysis)
    if rule == "auto" and value == lambda_by_rule("free", facts, epsilon, analysis):
        rule = "free"
    return mechanism.calibrate(facts.with_lambda(value), request, _origin(request, rule))


def _origin(request: Request, rule: LambdaRule) -> str:
    """Where an automatic lambda comes from, in words."""
    if rule == "PrivateLR" or request.analysis == "cms11":
        return "automatic, PrivateLR's rule"
    if rule == "auto":
        return "automatic, balances noise and shrinkage for a public guess of the coefficients"
    if request.placement == "output":
        return "automatic, what would be free in objective perturbation"
    if request.analysis == "joint":
        return "automatic, the smallest whose curvature costs no privacy"
    return "automatic, the smallest whose curvature costs a tenth of eps"
