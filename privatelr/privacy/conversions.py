"""Conversion of a guarantee into another kind, composition of guarantees, and parts of a budget.

Every function rounds prices up, never returns a negative one, and uses public facts alone.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from functools import reduce

import numpy as np
import scipy

from privatelr.arguments import suggests_arguments
from privatelr.errors import GuaranteeError, require_number, show
from privatelr.privacy.guarantees import (
    ZCDP,
    ApproxDP,
    Guarantee,
    NonPrivate,
    Promise,
    PureDP,
    SharedApproxDP,
    at_least,
    at_most,
    exact,
)
from privatelr.privacy.renyi_divergence import conversion_cost

_SMALLEST_RHO = 1e-200
"""Smallest rho whose best orders are doubles; it replaces a smaller rho, as a valid bound."""
_DIGITS = 15
"""Largest number of decimal digits that a float always keeps when it is printed."""
_SEARCH = 200
"""Largest number of grains by which a part of a price is moved to a decimal of a float."""


@suggests_arguments
def to_zcdp(guarantee: PureDP | ZCDP) -> ZCDP:
    """Return the zCDP that a guarantee implies: ``rho = eps tanh(eps / 2)`` for pure epsilon.

    Randomised response is the extremal case (theory.md#pure-epsilon has the proof).

    Examples
    --------
    >>> from privatelr import PureDP, to_zcdp
    >>> print(to_zcdp(PureDP(1.0)))
    rho = 0.462117 (zCDP)
    """
    if isinstance(guarantee, ZCDP):
        return guarantee
    if not isinstance(guarantee, PureDP):
        raise GuaranteeError(f"guarantee={show(guarantee)}: to_zcdp takes PureDP or ZCDP.")
    epsilon = guarantee.epsilon
    rho = max(epsilon * math.tanh(epsilon / 2), sys.float_info.min)
    return ZCDP(rho, guarantee.neighbours)


def pure_within(rho: float) -> float:
    """Return the largest epsilon whose pure guarantee implies this rho: undo `to_zcdp`.

    Examples
    --------
    >>> from privatelr import ZCDP, PureDP, implies
    >>> from privatelr.privacy import pure_within
    >>> print(f"{pure_within(0.1):.4f}")
    0.4510
    >>> implies(PureDP(pure_within(0.1)), ZCDP(0.1))
    True
    """
    low, high = 0.0, 1.0
    while high * math.tanh(high / 2) <= rho:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if middle * math.tanh(middle / 2) <= rho else (low, middle)
    return low * (1 - 2.0**-50)


@suggests_arguments
def to_approximate(guarantee: Promise, delta: float) -> ApproxDP:
    """Return the approximate guarantee that a guarantee implies at this delta.

    zCDP is converted at the order that gives the smallest epsilon (`privacy.renyi_divergence`).

    Raises
    ------
    GuaranteeError
        If an approximate guarantee is asked for at a smaller delta than its own.

    Examples
    --------
    >>> from privatelr import ZCDP, to_approximate
    >>> print(to_approximate(ZCDP(0.1), 1e-6))
    epsilon = 2.14194, delta = 1e-06 (approximate)
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
    """Return the epsilon of a zCDP at delta, at the best order that is found; any one is valid."""
    rho = max(rho, _SMALLEST_RHO)

    def epsilon(log_excess: float) -> float:
        excess = np.array([math.exp(log_excess)])
        return float(((1 + excess) * rho + conversion_cost(excess, delta))[0])

    # the best order is near 1 + sqrt(log(1/delta) / rho); search some decades around it
    centre = 0.5 * math.log(max(-math.log(delta), 1e-3) / rho)
    ends, precise = (centre - 12, centre + 12), {"xatol": 1e-10}
    found = scipy.optimize.minimize_scalar(epsilon, bounds=ends, method="bounded", options=precise)
    return max(0.0, float(found.fun))


@suggests_arguments
def compose(guarantees: Sequence[Guarantee]) -> Guarantee:
    """Compose guarantees sequentially: the result holds if all are about the same records.

    Pure epsilons add up, and so do rhos; pure with zCDP is composed as zCDP; with an approximate
    guarantee among them, epsilons and deltas add. Anything with `NonPrivate` is not private.

    Examples
    --------
    >>> from privatelr import ApproxDP, PureDP, compose
    >>> print(compose([PureDP(0.5), PureDP(0.25)]))
    epsilon = 0.75 (pure)
    >>> print(compose([PureDP(0.5), ApproxDP(0.5, 1e-6)]))
    epsilon = 1, delta = 1e-06 (approximate)
    """
    if not guarantees:
        raise GuaranteeError("compose: takes one guarantee or more.")
    for one in guarantees:
        if not isinstance(one, PureDP | ZCDP | ApproxDP | NonPrivate):
            raise GuaranteeError(f"compose: {show(one)} is not a guarantee, such as PureDP(1).")
    whole = (one.whole if isinstance(one, SharedApproxDP) else one for one in guarantees)
    return reduce(_both, whole)


def _both(first: Guarantee, second: Guarantee) -> Guarantee:
    both_promise = first.is_private and second.is_private  # no promise is about nobody
    if both_promise and first.neighbours is not second.neighbours:
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
        case ApproxDP(), PureDP():
            return replace(first, epsilon=first.epsilon + second.epsilon)
        case ApproxDP(), ZCDP():
            return _both(first, to_approximate(second, first.delta))
    return _both(second, first)


@suggests_arguments
def implies(stronger: Guarantee, weaker: Guarantee) -> bool:
    """Whether a mechanism with the first guarantee also has the second.

    Examples
    --------
    >>> from privatelr import ZCDP, ApproxDP, PureDP, implies
    >>> implies(PureDP(1.0), ApproxDP(1.0, 1e-6)), implies(ZCDP(0.1), PureDP(1.0))
    (True, False)
    """
    if not weaker.is_private:
        return True
    if not stronger.is_private or stronger.neighbours is not weaker.neighbours:
        return False
    match stronger, weaker:
        case _, SharedApproxDP() if getattr(stronger, "beside", 0.0) < weaker.beside:
            return False
        case PureDP(), PureDP():
            return stronger.epsilon <= weaker.epsilon
        case (PureDP() | ZCDP(), ZCDP()):
            return to_zcdp(stronger).rho <= weaker.rho
        case ApproxDP(), ApproxDP():
            return stronger.epsilon <= weaker.epsilon and stronger.delta <= weaker.delta
        case (PureDP() | ZCDP(), ApproxDP()):
            if weaker.delta == 1:
                return True
            return to_approximate(stronger, weaker.delta).epsilon <= weaker.epsilon
    return False


def prices(guarantee: Guarantee) -> dict[str, float]:
    """Return the numbers of a guarantee by name; empty if it is not private.

    Examples
    --------
    >>> from privatelr import ZCDP, ApproxDP
    >>> from privatelr.privacy import prices
    >>> prices(ApproxDP(1.0, 1e-6)), prices(ZCDP(0.1))
    ({'epsilon': 1.0, 'delta': 1e-06}, {'rho': 0.1})
    """
    numbers = asdict(guarantee).items()
    return {name: x for name, x in numbers if isinstance(x, float) and name != "beside"}


def join(parts: Sequence[Guarantee]) -> Guarantee:
    """Return the guarantee of the whole whose parts these are: prices are added up as decimals.

    Raises
    ------
    GuaranteeError
        If they are of different kinds, or about different neighbours; or if a delta exceeds 1.
        A shared approximate guarantee takes Gaussian releases beside it, each a zCDP, whose mu
        is at most what it allows for.

    Examples
    --------
    >>> from privatelr import PureDP
    >>> from privatelr.privacy import join
    >>> print(join([PureDP(0.1), PureDP(0.2)]))
    epsilon = 0.3 (pure)
    >>> join([PureDP(0.1), PureDP(0.2)]).epsilon == 0.3  # floats would make it 0.30000000000000004
    True
    """
    first = parts[0]
    if shared := [part for part in parts if isinstance(part, SharedApproxDP)]:
        return _join_shared(shared[0], [part for part in parts if part is not shared[0]])
    if any(type(part) is not type(first) for part in parts):
        raise GuaranteeError("parts: their guarantees are of different kinds.")
    if any(part.neighbours is not first.neighbours for part in parts):
        raise GuaranteeError("parts: their guarantees are about different neighbours.")
    if isinstance(first, NonPrivate) and any(part != first for part in parts):
        raise GuaranteeError("parts: they are not private for different reasons.")
    totals = {
        name: at_least(sum((exact(getattr(part, name)) for part in parts), Fraction(0)))
        for name in prices(first)
    }
    return replace(first, **totals)  # type: ignore[arg-type]


def _join_shared(shared: SharedApproxDP, beside: Sequence[Guarantee]) -> ApproxDP:
    rhos = [Fraction(part.rho) for part in beside if isinstance(part, ZCDP)]
    if len(rhos) < len(beside) or 2 * sum(rhos, Fraction(0)) > Fraction(shared.beside) ** 2:
        raise GuaranteeError("parts: those beside a shared guarantee are more than it allows for.")
    if any(part.neighbours is not shared.neighbours for part in beside):
        raise GuaranteeError("parts: their guarantees are about different neighbours.")
    return shared.whole


def split(guarantee: Guarantee, shares: Mapping[str, float]) -> dict[str, Guarantee]:
    """Divide the guarantee of a release into those of its parts, which add up to it.

    Shares and prices are read as the decimals that they print (0.1 is one tenth). In that
    reading the parts never add up to more than the whole, and add up to it exactly where floats
    allow: always for a whole of 15 digits or fewer, and nearly always for any other.

    Parameters
    ----------
    guarantee
        The whole. Its epsilon, delta and rho are divided in the same proportions. The parts of
        `NonPrivate` are not private either.
    shares
        A positive number for each part; their sum is 1.

    Raises
    ------
    GuaranteeError
        If a share is not positive, or if the sum of the shares is not 1.

    Examples
    --------
    >>> from privatelr import ApproxDP
    >>> from privatelr.privacy import split
    >>> parts = split(ApproxDP(1.0, 1e-6), {"coefficients": 0.7, "inference": 0.3})
    >>> print(parts["coefficients"])
    epsilon = 0.7, delta = 7e-07 (approximate)
    >>> print(parts["inference"])
    epsilon = 0.3, delta = 3e-07 (approximate)
    """
    takes = "a number above 0"
    for name, share in shares.items():
        require_number(GuaranteeError, f"share of {show(name)}", share, takes, above=0)
    parts = {name: exact(share) for name, share in shares.items()}
    total = sum(parts.values(), Fraction(0))
    if total != 1:
        listed = ", ".join(repr(float(share)) for share in shares.values()) or "no shares"
        raise GuaranteeError(
            f"shares: {float(total)!r} is the sum of {listed}; shares take numbers whose sum is 1."
        )
    divided = {price: _divide(value, parts) for price, value in prices(guarantee).items()}
    return {
        name: replace(guarantee, **{price: own[name] for price, own in divided.items()})  # type: ignore[arg-type]
        for name in parts
    }


def _divide(whole: float, parts: Mapping[str, Fraction]) -> dict[str, float]:
    """Divide a price in proportion to the parts, into decimals; the largest part takes the rest."""
    if whole == 0:
        return dict.fromkeys(parts, 0.0)
    total = exact(whole)
    grain = Fraction(10) ** (math.floor(math.log10(whole)) + 1 - _DIGITS)
    first, *others = sorted(parts, key=lambda name: parts[name], reverse=True)
    found = {name: total * parts[name] // grain * grain for name in others}
    rest = total - sum(found.values())
    if others and found[others[0]] > _SEARCH * grain:
        # if no float prints the rest, one prints a decimal that is a few grains larger
        above = (k * grain for k in range(_SEARCH))
        moved = next((m for m in above if exact(at_most(rest + m)) == rest + m), Fraction(0))
        found[others[0]] -= moved
        rest += moved
    found[first] = rest
    divided = {name: at_most(found[name]) for name in parts}
    for name, price in divided.items():
        if price <= 0:
            raise GuaranteeError(f"shares: the share of {show(name)} is too small to be a price.")
    return divided
