"""What a user asks of a mechanism, checked before n, d and R are known: price, shares, delta.

At ``1/n`` the promise says nothing: who publishes one record that was picked at random satisfies
(0, 1/n)-privacy for every record.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, cast

from privatelr.errors import (
    ArgumentError,
    GuaranteeError,
    PrivacyWarning,
    or_meant,
    require_choice,
    require_number,
    show,
)
from privatelr.mechanisms.calibration.lambda_rules import LAMBDA_RULES, LambdaRule, SmallLambda
from privatelr.mechanisms.calibration.pure import ANALYSES, Analysis
from privatelr.numerics import Loss
from privatelr.privacy import (
    REPLACE_ONE,
    ZCDP,
    ApproxDP,
    Guarantee,
    NonPrivate,
    Promise,
    PureDP,
    exact,
)
from privatelr.privacy.accounting import split
from privatelr.types import Placement

USUAL_DELTA = 1e-6
"""The delta of a request that names none; no warning is given of it while it is below ``1/n``."""


def _is_below(delta: float, n: int) -> bool:
    return delta < 1 / n and delta * n < 1  # for the double nearest to 1/n may be on either side


def _far_below(n: int) -> str:
    """A power of ten that no function warns of."""
    return f"{10.0 ** math.floor(math.log10(0.01 / n)):g}"


def require_below_one_record(target: Guarantee, n: int) -> None:
    """Refuse a delta under which one random record might be published."""
    if isinstance(target, ApproxDP) and not _is_below(target.delta, n):
        raise GuaranteeError(
            f"delta={target.delta:g}: delta takes a number below 1/n = {1 / n:.3g}, because at 1/n "
            f"publishing one random record would count as private; take {_far_below(n)}, or less."
        )


def warn_of_one_record(target: Guarantee, n: int, stacklevel: int) -> None:
    """Say so where one random record might be published."""
    if isinstance(target, ApproxDP) and not _is_below(target.delta, n):
        warnings.warn(
            f"delta={target.delta:g} is not below 1/n = {1 / n:.3g}, where publishing one random "
            f"record would count as private; take {_far_below(n)}, or less.",
            PrivacyWarning,
            stacklevel=stacklevel + 1,
        )


def warn_of_large_delta(target: Guarantee, n: int, stacklevel: int) -> None:
    """Say so where the promise has more than a small chance to say nothing."""
    if isinstance(target, ApproxDP) and target.delta > max(n**-1.5, USUAL_DELTA):
        warnings.warn(
            f"delta={target.delta:g} is above n**-1.5 = {n**-1.5:.3g}; delta is the chance that "
            "the promise says nothing, so take it far below 1/n.",
            PrivacyWarning,
            stacklevel=stacklevel + 1,
        )


Shares = tuple[tuple[str, float], ...]
Spend = Shares | Literal["inference"]

_GOODS = ("coefficients", "inference")
_TAKES = (
    "None (all for the coefficients), 'inference' (the usual shares), or shares that add up to 1, "
    "such as {'coefficients': 0.6, 'inference': 0.4}"
)
_NEARLY = 1e-9
"""Shares that miss a sum of one by less than this are meant to add up."""
ALL_FOR_COEFFICIENTS: Shares = (("coefficients", 1.0),)


def read_spend(spend: Any) -> Spend:
    """What `spend` asks for; raises `GuaranteeError` if it names what cannot be requested."""
    if spend is None:
        return ALL_FOR_COEFFICIENTS
    if isinstance(spend, str) and spend == "inference":
        return "inference"
    if not isinstance(spend, Mapping):
        meant = or_meant(spend, ["inference"])
        raise GuaranteeError(f"spend={show(spend)}: spend takes {_TAKES}{meant}")
    if unknown := [name for name in spend if name not in _GOODS]:
        raise GuaranteeError(
            f"spend: {show(unknown[0])} cannot be requested yet; spend takes {_TAKES}"
            f"{or_meant(unknown[0], _GOODS)}"
        )
    if "coefficients" not in spend:
        raise GuaranteeError(
            "spend: there is no share for the coefficients, which everything else is about; "
            f"spend takes {_TAKES}."
        )
    shares = _rounded(dict(spend))
    split(NonPrivate(), shares)  # refuses what are no shares
    return tuple(shares.items())


def _rounded(shares: dict[str, Any]) -> dict[str, Any]:
    """Shares such as 2/3 and 1/3, whose decimals nearly add up, with the first made the rest."""
    rest = shares.get("inference")
    are_floats = all(isinstance(share, float) for share in shares.values())
    if rest is None or not are_floats or not 0 < rest < 1:
        return shares
    if abs(sum(shares.values()) - 1) > _NEARLY:
        return shares
    return {**shares, "coefficients": float(1 - exact(rest))}


def divide(target: Guarantee, spend: Spend, loss: Loss) -> tuple[Guarantee, Guarantee | None]:
    """The parts of a target for the coefficients and, if requested, for the moments.

    They add up to it (`privatelr.privacy.split`).
    """
    shares = usual_shares(target, loss) if spend == "inference" else dict(spend)
    parts = split(target, shares)
    return parts["coefficients"], parts.get("inference")


def usual_shares(target: Guarantee, loss: Loss) -> dict[str, float]:
    """Shares that give the shortest intervals in the studies of inference.md 4.5 and 9.

    Under pure epsilon a loss without a joint bound has steeper curvature, so that its moments
    take more noise, and half of the price.
    """
    if not isinstance(target, PureDP | NonPrivate):
        return {"coefficients": 0.7, "inference": 0.3}
    if loss.joint_factor is None:
        return {"coefficients": 0.5, "inference": 0.5}
    return {"coefficients": 0.65, "inference": 0.35}


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
    """Turn the arguments of `dplr` and its like into values.

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


def read_target_with_default_delta(eps: Any, delta: Any, usual: float) -> Guarantee:
    """Read a target where delta has a `usual` value, which is ignored beside a guarantee.

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
