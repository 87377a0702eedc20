"""A budget in parts that add up to it exactly."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from privatelr.errors import GuaranteeError, require_number, show
from privatelr.privacy.events import at_least, at_most, exact
from privatelr.privacy.guarantees import ZCDP, ApproxDP, Guarantee, NonPrivate, PureDP

_DIGITS = 15
"""Decimal digits up to which a decimal is the one that its nearest float prints."""
_SEARCH = 200


def split(guarantee: Guarantee, shares: Mapping[str, float]) -> dict[str, Guarantee]:
    """The guarantees of the parts of a release, whose sum is the guarantee of the whole.

    Shares and prices are read as the decimals that they print (0.1 is one tenth). In that
    reading the parts never add up to more than the whole, and exactly to it wherever floats
    allow: always for a whole of 15 digits or fewer, all but always for any other.

    Parameters
    ----------
    guarantee
        The whole. Its epsilon, its delta and its rho are divided alike; parts of what is
        `NonPrivate` are not private either.
    shares
        A positive number for each part; together they make 1.

    Raises
    ------
    GuaranteeError
        If a share is not positive, or they do not make 1.
    """
    parts = _read(shares)
    match guarantee:
        case NonPrivate():
            return dict.fromkeys(parts, guarantee)
        case PureDP(epsilon=epsilon):
            prices = _divide(epsilon, parts)
            return {name: replace(guarantee, epsilon=prices[name]) for name in parts}
        case ZCDP(rho=rho):
            prices = _divide(rho, parts)
            return {name: replace(guarantee, rho=prices[name]) for name in parts}
        case ApproxDP(epsilon=epsilon, delta=delta):
            prices, deltas = _divide(epsilon, parts), _divide(delta, parts)
            return {
                name: replace(guarantee, epsilon=prices[name], delta=deltas[name]) for name in parts
            }


def join(parts: Sequence[Guarantee]) -> Guarantee:
    """The guarantee of the whole whose parts these are: their prices added up as decimals.

    Raises
    ------
    GuaranteeError
        If they are of different kinds, or about different neighbours; or if a delta exceeds 1.
    """
    first = parts[0]
    if any(type(part) is not type(first) for part in parts):
        raise GuaranteeError("parts: their guarantees are of different kinds.")
    if any(part.neighbours is not first.neighbours for part in parts):
        raise GuaranteeError("parts: their guarantees are about different neighbours.")
    match first:
        case NonPrivate():
            if any(part != first for part in parts):
                raise GuaranteeError("parts: they are not private for different reasons.")
            return first
        case PureDP():
            return replace(first, epsilon=_total(parts, "epsilon"))
        case ZCDP():
            return replace(first, rho=_total(parts, "rho"))
        case ApproxDP():
            return replace(first, epsilon=_total(parts, "epsilon"), delta=_total(parts, "delta"))


def _total(parts: Sequence[Guarantee], name: str) -> float:
    return at_least(sum((exact(getattr(part, name)) for part in parts), Fraction(0)))


def _read(shares: Mapping[str, float]) -> dict[str, Fraction]:
    parts = {}
    for name, share in shares.items():
        takes = "a number above 0"
        parts[name] = exact(
            require_number(GuaranteeError, f"share of {show(name)}", share, takes, above=0)
        )
    total = sum(parts.values(), Fraction(0))
    if total != 1:
        listed = ", ".join(repr(float(share)) for share in shares.values()) or "no shares"
        raise GuaranteeError(
            f"shares: {float(total)!r} is the sum of {listed}; shares take numbers whose sum is 1."
        )
    return parts


def _divide(whole: float, parts: Mapping[str, Fraction]) -> dict[str, float]:
    """Parts of a price in proportion, in whole grains but for the largest, which has the rest."""
    if whole == 0:
        return dict.fromkeys(parts, 0.0)
    total = exact(whole)
    grain = Fraction(10) ** (math.floor(math.log10(whole)) + 1 - _DIGITS)
    first, *others = sorted(parts, key=lambda name: parts[name], reverse=True)
    prices = {name: total * parts[name] // grain * grain for name in others}
    rest = total - sum(prices.values())
    if others and prices[others[0]] > _SEARCH * grain:
        # where the rest is no number that a float prints, one some grains above it is
        moved = next((k for k in range(_SEARCH) if _is_printed(rest + k * grain)), 0) * grain
        prices[others[0]] -= moved
        rest += moved
    divided = {name: at_most({**prices, first: rest}[name]) for name in parts}
    for name, price in divided.items():
        if price <= 0:
            raise GuaranteeError(f"shares: the share of {show(name)} is too small to be a price.")
    return divided


def _is_printed(price: Fraction) -> bool:
    return exact(at_most(price)) == price
