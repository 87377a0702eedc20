"""What one guarantee says in the terms of another, and what several say together.

Every function errs upwards, never returns a negative price, and takes no data.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import reduce
from typing import Any

import numpy as np
import scipy

from privatelr.arguments import suggests_arguments
from privatelr.errors import GuaranteeError, require_number, show
from privatelr.privacy.guarantees import (
    REPLACE_ONE,
    ZCDP,
    ApproxDP,
    Guarantee,
    Neighbours,
    NonPrivate,
    Promise,
    PureDP,
)
from privatelr.privacy.renyi_divergence import conversion_cost

_SMALLEST_RHO = 1e-200
"""Rho below which orders leave the range of doubles; a larger rho is valid in its place."""
KINDS: dict[str, type[Guarantee]] = {
    "pure": PureDP,
    "zcdp": ZCDP,
    "approximate": ApproxDP,
    "none": NonPrivate,
}


@suggests_arguments
def to_zcdp(guarantee: PureDP | ZCDP) -> ZCDP:
    """The zCDP that a guarantee implies: ``rho = eps tanh(eps / 2)`` for pure epsilon.

    Randomised response is the extremal case (Steinke, differentialprivacy.org, 2024).
    """
    if isinstance(guarantee, ZCDP):
        return guarantee
    if not isinstance(guarantee, PureDP):
        raise GuaranteeError(f"guarantee={show(guarantee)}: to_zcdp takes PureDP or ZCDP.")
    epsilon = guarantee.epsilon
    rho = max(epsilon * math.tanh(epsilon / 2), sys.float_info.min)
    return ZCDP(rho, guarantee.neighbours)


def pure_within(rho: float) -> float:
    """Largest epsilon whose pure guarantee implies this rho: the inverse of `to_zcdp`."""
    low, high = 0.0, 1.0
    while high * math.tanh(high / 2) <= rho:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if middle * math.tanh(middle / 2) <= rho else (low, middle)
    return low * (1 - 2.0**-50)


@suggests_arguments
def to_approximate(guarantee: Promise, delta: float) -> ApproxDP:
    """The approximate guarantee at this delta.

    From zCDP at the order that gives the smallest epsilon (`privatelr.privacy.renyi_divergence`).

    Raises
    ------
    GuaranteeError
        If an approximate guarantee is asked for at a smaller delta than its own.
    """
    require_number(
        GuaranteeError, "delta", delta, "a number above 0 and up to 1", above=0, at_most=1
    )
    match guarantee:
        case PureDP():
            by_zcdp = _zcdp_epsilon(to_zcdp(guarantee).rho, delta)
            return ApproxDP(min(guarantee.epsilon, by_zcdp), delta, guarantee.neighbours)
        case ZCDP():
            return ApproxDP(_zcdp_epsilon(guarantee.rho, delta), delta, guarantee.neighbours)
        case ApproxDP() if guarantee.delta <= delta:
            return ApproxDP(guarantee.epsilon, delta, guarantee.neighbours)
    raise GuaranteeError(
        f"delta={delta!r}: {guarantee} says nothing at a smaller delta than its own."
    )


def _zcdp_epsilon(rho: float, delta: float) -> float:
    """Smallest epsilon over the orders; any order gives a valid one."""
    rho = max(rho, _SMALLEST_RHO)
    excess = np.array([best_excess(rho, delta)])
    return max(0.0, float(((1 + excess) * rho + conversion_cost(excess, delta))[0]))


def best_excess(rho: float, delta: float) -> float:
    """The order minus one at which a zCDP has its smallest epsilon at delta."""
    rho = max(rho, _SMALLEST_RHO)

    def epsilon(log_excess: float) -> float:
        excess = np.array([math.exp(log_excess)])
        return float(((1 + excess) * rho + conversion_cost(excess, delta))[0])

    # the best order is near 1 + sqrt(log(1/delta) / rho); search some decades around it
    centre = 0.5 * math.log(max(-math.log(delta), 1e-3) / rho)
    found = scipy.optimize.minimize_scalar(
        epsilon, bounds=(centre - 12, centre + 12), method="bounded", options={"xatol": 1e-10}
    )
    return math.exp(float(found.x))


@suggests_arguments
def compose(guarantees: Sequence[Guarantee]) -> Guarantee:
    """Sequential composition: what holds when all are released about the same records.

    Pure adds to pure and zCDP to zCDP; pure with zCDP goes by zCDP; with an approximate
    guarantee among them, epsilons and deltas add. Anything with `NonPrivate` is not private.
    """
    if not guarantees:
        raise GuaranteeError("compose: takes one guarantee or more.")
    for one in guarantees:
        if not isinstance(one, PureDP | ZCDP | ApproxDP | NonPrivate):
            raise GuaranteeError(f"compose: {show(one)} is not a guarantee, such as PureDP(1).")
    return reduce(_both, guarantees)


def _both(first: Guarantee, second: Guarantee) -> Guarantee:
    if first.neighbours is not second.neighbours:
        raise GuaranteeError("compose: the guarantees are about different neighbours.")
    match first, second:
        case (NonPrivate() as none, _) | (_, NonPrivate() as none):
            return none
        case PureDP(), PureDP():
            return PureDP(first.epsilon + second.epsilon, first.neighbours)
        case (PureDP() | ZCDP(), PureDP() | ZCDP()):
            return ZCDP(to_zcdp(first).rho + to_zcdp(second).rho, first.neighbours)
        case ApproxDP(), ApproxDP():
            total = first.epsilon + second.epsilon
            return ApproxDP(total, min(first.delta + second.delta, 1.0), first.neighbours)
        case (ApproxDP() as approximate, PureDP() as pure) | (
            PureDP() as pure,
            ApproxDP() as approximate,
        ):
            total = approximate.epsilon + pure.epsilon
            return ApproxDP(total, approximate.delta, first.neighbours)
        case (ApproxDP() as approximate, ZCDP() as zcdp) | (
            ZCDP() as zcdp,
            ApproxDP() as approximate,
        ):
            return _both(approximate, to_approximate(zcdp, approximate.delta))
    raise AssertionError("all pairs are listed")


@suggests_arguments
def implies(stronger: Guarantee, weaker: Guarantee) -> bool:
    """Whether whoever has the first guarantee has the second."""
    if not weaker.is_private:
        return True
    if not stronger.is_private or stronger.neighbours is not weaker.neighbours:
        return False
    match stronger, weaker:
        case PureDP(), PureDP():
            return stronger.epsilon <= weaker.epsilon
        case (PureDP() | ZCDP(), ZCDP()):
            return to_zcdp(stronger).rho <= weaker.rho
        case ApproxDP(), ApproxDP():
            return stronger.epsilon <= weaker.epsilon and stronger.delta <= weaker.delta
        case (PureDP() | ZCDP(), ApproxDP()) if weaker.delta == 1:
            return True
        case (PureDP() | ZCDP(), ApproxDP()):
            return to_approximate(stronger, weaker.delta).epsilon <= weaker.epsilon
    return False


def to_json(guarantee: Guarantee) -> dict[str, Any]:
    """A guarantee as plain values: its kind, its numbers, its neighbours."""
    kind = next(name for name, cls in KINDS.items() if isinstance(guarantee, cls))
    return {"kind": kind, **asdict(guarantee), "neighbours": guarantee.neighbours.name}


def from_json(value: Any) -> Guarantee:
    """Inverse of `to_json`; raises `GuaranteeError` for anything else."""
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise GuaranteeError(f"guarantee: kind takes one of {', '.join(map(repr, KINDS))}.")
    cls = KINDS[kind]
    numbers = {key: entry for key, entry in value.items() if key not in ("kind", "neighbours")}
    try:
        neighbours = Neighbours[value.get("neighbours", REPLACE_ONE.name)]
        return cls(**numbers, neighbours=neighbours)
    except (KeyError, TypeError):
        raise GuaranteeError(
            f"guarantee: {sorted(value)} are not the entries of {cls.__name__}."
        ) from None
