"""What a user asks of a mechanism, checked before n, d and R are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from privatelr.errors import ArgumentError, GuaranteeError, require_choice, require_number, show
from privatelr.mechanisms.calibration import (
    ANALYSES,
    LAMBDA_RULES,
    Analysis,
    LambdaRule,
    SmallLambda,
)
from privatelr.privacy.guarantees import Guarantee, NonPrivate, PureDP

if TYPE_CHECKING:
    from privatelr.types import Placement

SMALLEST_LAMBDA, LARGEST_LAMBDA = 1e-15, 1e12
SMALLEST_EPSILON, LARGEST_EPSILON = 1e-9, 1e4
_EPS_TAKES = f"0 for the plain fit, or a number from {SMALLEST_EPSILON:g} to {LARGEST_EPSILON:g}"


@dataclass(frozen=True, slots=True)
class Request:
    """Target and choices; `lambda_` is a number or the name of a rule."""

    target: Guarantee
    placement: Placement
    analysis: Analysis
    lambda_: float | LambdaRule
    on_small_lambda: SmallLambda


def read_request(
    eps: Any, delta: Any, spend: Any, lambda_: Any, op: Any, analysis: Any, on_small_lambda: Any
) -> Request:
    """Turn the arguments of the front door into values.

    Raises
    ------
    GuaranteeError, ArgumentError
        One sentence that names the argument, what it got and what it takes.
    """
    if not isinstance(op, bool):
        raise ArgumentError(
            f"op={show(op)}: op takes True (objective perturbation) or False (output)."
        )
    if spend is not None:
        raise GuaranteeError(
            f"spend={show(spend)}: sharing eps between coefficients and inference is not available "
            "in this version; leave spend=None, and eps pays for the coefficients."
        )
    return Request(
        target=read_target(eps, delta),
        placement="objective" if op else "output",
        analysis=cast("Analysis", require_choice(GuaranteeError, "analysis", analysis, ANALYSES)),
        lambda_=_read_lambda(lambda_),
        on_small_lambda=cast(
            "SmallLambda",
            require_choice(
                GuaranteeError, "on_small_lambda", on_small_lambda, ("increase", "keep")
            ),
        ),
    )


def read_target(eps: Any, delta: Any) -> Guarantee:
    """The guarantee that ``eps`` and ``delta`` ask for; ``eps=0`` asks for none."""
    delta_takes = "0, the pure guarantee, in this version"
    if require_number(GuaranteeError, "delta", delta, delta_takes, at_least=0, at_most=1) > 0:
        raise GuaranteeError(
            f"delta={show(delta)}: Gaussian mechanisms are not available in this version; delta "
            "takes 0, pure privacy."
        )
    epsilon = require_number(
        GuaranteeError, "eps", eps, _EPS_TAKES, at_least=0, at_most=LARGEST_EPSILON
    )
    if epsilon == 0:
        return NonPrivate("none: eps=0 asks for the plain fit")
    require_number(GuaranteeError, "eps", eps, _EPS_TAKES, at_least=SMALLEST_EPSILON)
    return PureDP(epsilon)


def _read_lambda(lambda_: Any) -> float | LambdaRule:
    if lambda_ is None:
        return "auto"
    rules = ", ".join(repr(rule) for rule in LAMBDA_RULES)
    takes = f"0, a number from {SMALLEST_LAMBDA:g} to {LARGEST_LAMBDA:g}, or a rule: None, {rules}"
    if isinstance(lambda_, str):
        if lambda_ not in LAMBDA_RULES:
            raise GuaranteeError(f"lambda_={show(lambda_)}: lambda_ takes {takes}.")
        return lambda_
    limits = {"at_least": 0.0, "at_most": LARGEST_LAMBDA}
    value = require_number(GuaranteeError, "lambda_", lambda_, takes, **limits)
    if 0 < value < SMALLEST_LAMBDA:
        raise GuaranteeError(f"lambda_={value:g}: lambda_ takes {takes}.")
    return value
