"""Accounting events: what a release costs, in more detail than its guarantee says.

A guarantee is an event too. To add one, write a frozen class, list it in `EVENTS`, and give
it a case in `renyi`; the composition by loss distributions has its own list
(`privatelr.privacy.accounting_pld`).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from privatelr.errors import GuaranteeError, require_number
from privatelr.privacy import conversions
from privatelr.privacy.guarantees import (
    REPLACE_ONE,
    ZCDP,
    ApproxDP,
    Neighbours,
    NonPrivate,
    PureDP,
)

_LARGEST = 1e100
"""Of a ratio of sensitivity to noise: its square is still a number."""
_UNIT = 2.0**-52
"""Rounding of one operation, on the safe side."""


@dataclass(frozen=True, slots=True)
class GaussianEvent:
    """A plain Gaussian release: independent noise of one sd on a vector of known sensitivity.

    Attributes
    ----------
    mu : float
        Sensitivity divided by standard deviation. The sensitivity is the one of the stated
        neighbours, so no further factor is due (privacy.md 9, the trap of REPLACE_ONE).
    """

    mu: float
    neighbours: Neighbours = REPLACE_ONE

    def __post_init__(self) -> None:
        takes = f"a number above 0 and up to {_LARGEST:g}"
        mu = require_number(GuaranteeError, "mu", self.mu, takes, above=0, at_most=_LARGEST)
        object.__setattr__(self, "mu", mu)


@dataclass(frozen=True, slots=True)
class TiltEvent:
    """Gaussian objective perturbation: the tilt of the objective is normal.

    It must not be accounted as ``GaussianEvent(2 m)``: the curvature of one row shows at
    small epsilon (privacy.md 4.3).

    Attributes
    ----------
    m : float
        ``L R / sigma``: half the sensitivity of the gradient sum, over the sd of the tilt.
    kappa : float
        ``R**2 / Lambda``.
    curvature_bound : float
        c, the largest curvature of the loss.
    joint_factor : float or None
        k if the curvature where the slope has size ``s L`` is at most ``k s (1 - s)``.
    """

    m: float
    kappa: float
    curvature_bound: float
    joint_factor: float | None = None
    neighbours: Neighbours = REPLACE_ONE

    def __post_init__(self) -> None:
        takes = f"a number above 0 and up to {_LARGEST:g}"
        m = require_number(GuaranteeError, "m", self.m, takes, above=0, at_most=_LARGEST)
        object.__setattr__(self, "m", m)
        for name in ("kappa", "curvature_bound"):
            takes = "a finite number from 0"
            value = require_number(GuaranteeError, name, getattr(self, name), takes, at_least=0)
            object.__setattr__(self, name, value)
        if self.joint_factor is not None:
            takes = "None or a finite number above 0"
            value = require_number(
                GuaranteeError, "joint_factor", self.joint_factor, takes, above=0
            )
            object.__setattr__(self, "joint_factor", value)

    @property
    def curvature_cost(self) -> float:
        """What the curvature adds to every loss: a of privacy.md 4.3.

        Nothing where the joint bound is convex in the slope, so that its maximum is at a vertex.
        """
        if self.joint_factor is not None and self.kappa * self.joint_factor <= self.m**2 / 2:
            return 0.0
        return math.log1p(self.curvature_bound * self.kappa)


Event = PureDP | ZCDP | ApproxDP | GaussianEvent | TiltEvent

EVENTS: dict[str, type[GaussianEvent | TiltEvent]] = {
    "gaussian": GaussianEvent,
    "tilt": TiltEvent,
}


def renyi(event: Event, order: float) -> float:
    """Upper bound of the Renyi divergence of an order above 1; infinity where there is none.

    Pure epsilon by randomised response, its extremal case (Steinke, differentialprivacy.org,
    2024); the tilt by privacy.md 4.3, whose ``2 m`` is the sensitivity over the sd.
    """
    match event:
        case PureDP(epsilon=epsilon):
            return _renyi_of_pure(epsilon, order)
        case ZCDP(rho=rho):
            return order * rho
        case GaussianEvent(mu=mu):
            return order * mu**2 / 2
        case TiltEvent(m=m):
            # what the maximum with 0 adds to the Gaussian of sensitivity 2 m, at any order
            maximum = min(0.1409 / (order - 1), 0.798 * m)
            return 2 * order * m**2 + event.curvature_cost + maximum
        case ApproxDP():
            return math.inf


def _renyi_of_pure(epsilon: float, order: float) -> float:
    by_zcdp = order * epsilon * math.tanh(epsilon / 2)
    excess = order - 1
    seen = math.exp(-epsilon) * -math.expm1(-2 * excess * epsilon)
    saved = math.log1p(seen / (1 + math.exp(-(2 * order - 1) * epsilon))) / excess
    rounding = 8 * _UNIT * epsilon
    return min(epsilon, by_zcdp, epsilon - saved + rounding)


def grouped(event: Event, rows: int) -> Event:
    """The price for a record that stands in so many rows, as in a resample with replacement.

    Group privacy: pure epsilon and mu are multiplied, rho by the square; the delta of an
    approximate guarantee grows by ``1 + exp(epsilon) + ... + exp((rows - 1) epsilon)``.
    A release on a resample is covered only if `rows` bounds, before the draw, how often a
    record can appear; what is resampled from a release alone costs nothing.
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise GuaranteeError(f"rows={rows!r}: rows takes an integer from 1.")
    match event:
        case PureDP(epsilon=epsilon):
            return replace(event, epsilon=rows * epsilon)
        case ZCDP(rho=rho):
            return replace(event, rho=rows**2 * rho)
        case GaussianEvent(mu=mu):
            return replace(event, mu=rows * mu)
        case ApproxDP(epsilon=epsilon, delta=delta):
            exponents = (k * epsilon for k in range(rows))
            growth = sum(math.exp(x) if x < 700 else math.inf for x in exponents)
            return replace(event, epsilon=rows * epsilon, delta=min(1.0, delta * growth))
        case TiltEvent():
            raise GuaranteeError(
                "event: Gaussian objective perturbation has no proven price for several rows; "
                "give its approximate guarantee."
            )


def event_to_json(event: Event) -> dict[str, Any]:
    """An event as plain values: its kind, its numbers, its neighbours."""
    if isinstance(event, GaussianEvent | TiltEvent):
        kind = next(name for name, cls in EVENTS.items() if isinstance(event, cls))
        return {"kind": kind, **asdict(event), "neighbours": event.neighbours.name}
    return conversions.to_json(event)


def event_from_json(value: Any) -> Event:
    """Inverse of `event_to_json`; raises `GuaranteeError` for anything else."""
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str):
        raise GuaranteeError("event: takes an object with a kind.")
    if kind not in EVENTS:
        guarantee = conversions.from_json(value)
        if isinstance(guarantee, NonPrivate):
            raise GuaranteeError("event: a release without a guarantee is no event.")
        return guarantee
    cls = EVENTS[kind]
    numbers = {key: entry for key, entry in value.items() if key not in ("kind", "neighbours")}
    try:
        return cls(**numbers, neighbours=Neighbours[value["neighbours"]])
    except (KeyError, TypeError):
        raise GuaranteeError(
            f"event: the entries that were given are not those of {cls.__name__}."
        ) from None
