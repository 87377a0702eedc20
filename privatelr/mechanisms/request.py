"""What a user asks of a mechanism, checked before n, d and R are known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, cast

from privatelr.errors import (
    ArgumentError,
    GuaranteeError,
    or_meant,
    require_choice,
    require_number,
    show,
)
from privatelr.mechanisms.calibration.lambdas import LAMBDA_RULES, LambdaRule, SmallLambda
from privatelr.mechanisms.calibration.pure import ANALYSES, Analysis
from privatelr.mechanisms.spending import ALL_FOR_COEFFICIENTS, Spend, read_spend
from privatelr.privacy.guarantees import (
    REPLACE_ONE,
    ZCDP,
    ApproxDP,
    Guarantee,
    NonPrivate,
    Promise,
    PureDP,
)

if TYPE_CHECKING:
    from privatelr.types import Placement

SMALLEST_LAMBDA, LARGEST_LAMBDA = 1e-15, 1e12
SMALLEST_EPSILON, LARGEST_EPSILON = 1e-9, 1e4
SMALLEST_DELTA, LARGEST_DELTA = 1e-30, 0.5
_DELTA_TAKES = f"0 (pure privacy), or a number from {SMALLEST_DELTA:g} to {LARGEST_DELTA:g}"
_EPS_TAKES = f"0 for the plain fit, or a number from {SMALLEST_EPSILON:g} to {LARGEST_EPSILON:g}"


@dataclass(frozen=True, slots=True)
class Request:
    """Target and choices.

    The target is the price of everything, and `spend` says what it buys. `lambda_` is a number
    or the name of a rule; without an `analysis`, the tightest that is proven for the loss is
    meant. Of the laws of noise that are proven, the shortest is taken; `kinds` leaves only some
    to choose from, so that an audit reaches each.
    """

    target: Guarantee
    placement: Placement
    analysis: Analysis | None
    lambda_: float | LambdaRule
    on_small_lambda: SmallLambda
    spend: Spend = ALL_FOR_COEFFICIENTS
    kinds: tuple[type[Any], ...] = ()


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
    return Request(
        target=read_target(eps, delta),
        placement="objective" if op else "output",
        analysis=_read_analysis(analysis),
        lambda_=_read_lambda(lambda_),
        on_small_lambda=cast(
            "SmallLambda",
            require_choice(
                GuaranteeError, "on_small_lambda", on_small_lambda, ("increase", "keep")
            ),
        ),
        spend=read_spend(spend),
    )


def read_target(eps: Any, delta: Any) -> Guarantee:
    """The guarantee that ``eps`` and ``delta`` ask for; ``eps=0`` asks for none.

    A guarantee itself may stand in the place of ``eps``: ``eps=ZCDP(0.1)``.
    """
    if isinstance(eps, Promise):
        require_number(
            GuaranteeError, "delta", delta, "0 beside a guarantee as eps", at_least=0, at_most=0
        )
        return _require_usual(eps)
    limits = {"at_least": 0.0, "at_most": LARGEST_DELTA}
    excess = require_number(GuaranteeError, "delta", delta, _DELTA_TAKES, **limits)
    epsilon = require_number(
        GuaranteeError, "eps", eps, _EPS_TAKES, at_least=0, at_most=LARGEST_EPSILON
    )
    if epsilon == 0:
        return NonPrivate("none: eps=0 asks for the plain fit")
    return _require_usual(PureDP(epsilon) if excess == 0 else ApproxDP(epsilon, excess))


def read_goal(eps: Any, delta: Any, usual: float) -> Guarantee:
    """As `read_target`, where delta has a `usual` value, which beside a guarantee asks for nothing.

    No promise at all may be asked for, by `NonPrivate` or by infinity.
    """
    if isinstance(eps, NonPrivate):
        return eps
    if isinstance(eps, Promise):
        return read_target(eps, 0.0 if delta == usual else delta)
    if isinstance(eps, Real) and eps == math.inf:
        return NonPrivate("none: eps=inf asks for the plain fit")
    return read_target(eps, delta)


def _require_usual(target: Promise) -> Guarantee:
    """Refuse numbers that no formula here was checked for."""
    if target.neighbours is not REPLACE_ONE:
        raise GuaranteeError("eps: takes a guarantee about neighbours that replace one record.")
    limits = {"at_least": SMALLEST_EPSILON, "at_most": LARGEST_EPSILON}
    if isinstance(target, ZCDP):
        takes = f"a number from {SMALLEST_EPSILON:g} to {LARGEST_EPSILON:g}"
        require_number(GuaranteeError, "rho", target.rho, takes, **limits)
        return target
    require_number(GuaranteeError, "eps", target.epsilon, _EPS_TAKES, **limits)
    if isinstance(target, ApproxDP):
        bounds = {"at_least": SMALLEST_DELTA, "at_most": LARGEST_DELTA}
        require_number(GuaranteeError, "delta", target.delta, _DELTA_TAKES, **bounds)
    return target


def is_usual(target: Guarantee) -> bool:
    """Whether a target is one that formulas here were checked for."""
    try:
        return isinstance(target, NonPrivate) or _require_usual(target) is target
    except GuaranteeError:
        return False


def _read_analysis(analysis: Any) -> Analysis | None:
    if analysis is None:
        return None
    return cast("Analysis", require_choice(GuaranteeError, "analysis", analysis, ANALYSES))


def _read_lambda(lambda_: Any) -> float | LambdaRule:
    if lambda_ is None:
        return "auto"
    rules = ", ".join(repr(rule) for rule in LAMBDA_RULES)
    takes = f"0, a number from {SMALLEST_LAMBDA:g} to {LARGEST_LAMBDA:g}, or a rule: None, {rules}"
    if isinstance(lambda_, str):
        if lambda_ not in LAMBDA_RULES:
            end = or_meant(lambda_, LAMBDA_RULES)
            raise GuaranteeError(f"lambda_={show(lambda_)}: lambda_ takes {takes}{end}")
        return lambda_
    limits = {"at_least": 0.0, "at_most": LARGEST_LAMBDA}
    value = require_number(GuaranteeError, "lambda_", lambda_, takes, **limits)
    if 0 < value < SMALLEST_LAMBDA:
        raise GuaranteeError(f"lambda_={value:g}: lambda_ takes {takes}.")
    return value
