"""What a price buys: the coefficients, and if asked for the moments that inference is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from privatelr.errors import GuaranteeError, or_meant, show
from privatelr.privacy.decimals import exact
from privatelr.privacy.guarantees import NonPrivate, PureDP
from privatelr.privacy.shares import split

if TYPE_CHECKING:
    from privatelr.numerics.losses import Loss
    from privatelr.privacy.guarantees import Guarantee

Shares = tuple[tuple[str, float], ...]
Spend = Shares | Literal["inference"]

_GOODS = ("coefficients", "inference")
_TAKES = (
    "None (all for the coefficients), 'inference' (the usual shares), or shares that add up to 1, "
    "such as {'coefficients': 0.6, 'inference': 0.4}"
)
_NEARLY = 1e-9
"""Shares that are off by less mean to add up."""
ALL_FOR_COEFFICIENTS: Shares = (("coefficients", 1.0),)


@dataclass(frozen=True, slots=True)
class Parts:
    """A guarantee divided: for the coefficients, and for the moments if they are requested."""

    coefficients: Guarantee
    moments: Guarantee | None


def read_spend(spend: Any) -> Spend:
    """What `spend` asks for; raises `GuaranteeError` if it names what cannot be requested."""
    if spend is None:
        return ALL_FOR_COEFFICIENTS
    if isinstance(spend, str) and spend == "inference":
        return "inference"
    if not isinstance(spend, Mapping):
        raise GuaranteeError(f"spend={show(spend)}: spend takes {_TAKES}.")
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


def divide(target: Guarantee, spend: Spend, loss: Loss) -> Parts:
    """The parts of a target, which add up to it (`privatelr.privacy.shares`)."""
    shares = usual_shares(target, loss) if spend == "inference" else dict(spend)
    parts = split(target, shares)
    return Parts(parts["coefficients"], parts.get("inference"))


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
