"""Guarantees as types, each with its neighbouring relation, and the arithmetic of their prices.

A relation may be given by its name in `NEIGHBOURS`, as in ``ZCDP(0.1, neighbours="person")``.

Prices are read as the decimals that they print. In that reading sums, shares and comparisons are
exact, and a conversion back to a float rounds in the direction that is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

from privatelr.arguments import suggests_arguments
from privatelr.errors import GuaranteeError, require_choice, require_number


class Neighbours(Enum):
    """The pairs of datasets that a guarantee compares.

    Examples
    --------
    >>> from privatelr.privacy import Neighbours
    >>> print(Neighbours.REPLACE_PERSON.value)
    replace all records of one person, the number of persons being public
    """

    REPLACE_ONE = "replace one record, the number of records being public"
    ZERO_OUT = "replace one record by one of zeros, the number of records being public"
    REPLACE_PERSON = "replace all records of one person, the number of persons being public"

    def __repr__(self) -> str:
        return self.name


REPLACE_ONE = Neighbours.REPLACE_ONE
ZERO_OUT = Neighbours.ZERO_OUT
REPLACE_PERSON = Neighbours.REPLACE_PERSON
NEIGHBOURS = {"replace": REPLACE_ONE, "zero-out": ZERO_OUT, "person": REPLACE_PERSON}
"""The neighbouring relations by the names that users write.

No relation follows from another one at the same price, and none is ever taken for another one. A
guarantee about records says nothing about a person who has any number of them. One about persons
covers a changed record only if that still belongs to the same person.
"""


def neighbours_about(person: object) -> Neighbours:
    """Return what neighbouring data differ in: all records of a person, unless that is None.

    Examples
    --------
    >>> from privatelr.privacy import neighbours_about
    >>> neighbours_about(None), neighbours_about("patient")  # the column that tells persons apart
    (REPLACE_ONE, REPLACE_PERSON)
    """
    return REPLACE_ONE if person is None else REPLACE_PERSON


def read_neighbours(value: Any) -> Neighbours:
    """Return a neighbouring relation that is given as such or by its name."""
    if isinstance(value, Neighbours):
        return value
    return NEIGHBOURS[require_choice(GuaranteeError, "neighbours", value, NEIGHBOURS)]


def check_numbers(record: Any, *names: str, takes: str, **limits: float) -> None:
    """Turn fields of a frozen record into floats, or refuse them; see `require_number`."""
    for name in names:
        value = require_number(GuaranteeError, name, getattr(record, name), takes, **limits)
        object.__setattr__(record, name, value)


@suggests_arguments
@dataclass(frozen=True, slots=True)
class PureDP:
    """Pure differential privacy: no event is more than ``exp(epsilon)`` times as likely.

    Examples
    --------
    >>> from privatelr import REPLACE_ONE, REPLACE_PERSON, PureDP
    >>> PureDP(1.0).neighbours is REPLACE_ONE
    True
    >>> print(PureDP(1.0, REPLACE_PERSON))
    epsilon = 1 (pure)
    """

    epsilon: float
    neighbours: Neighbours = REPLACE_ONE
    is_private: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_numbers(self, "epsilon", takes="a finite number above 0", above=0)
        object.__setattr__(self, "neighbours", read_neighbours(self.neighbours))

    def __str__(self) -> str:
        return f"epsilon = {self.epsilon:.6g} (pure)"


@suggests_arguments
@dataclass(frozen=True, slots=True)
class ZCDP:
    """Zero-concentrated differential privacy: Renyi divergence of order a is at most ``a rho``.

    Examples
    --------
    >>> from privatelr import ZCDP, to_approximate
    >>> print(to_approximate(ZCDP(0.1), 1e-6))
    epsilon = 2.14194, delta = 1e-06 (approximate)
    """

    rho: float
    neighbours: Neighbours = REPLACE_ONE
    is_private: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_numbers(self, "rho", takes="a finite number above 0", above=0)
        object.__setattr__(self, "neighbours", read_neighbours(self.neighbours))

    def __str__(self) -> str:
        return f"rho = {self.rho:.6g} (zCDP)"


@suggests_arguments
@dataclass(frozen=True, slots=True)
class ApproxDP:
    """Approximate differential privacy: ``P(A) <= exp(epsilon) P'(A) + delta`` for all events A."""

    epsilon: float
    delta: float
    neighbours: Neighbours = REPLACE_ONE
    is_private: ClassVar[bool] = True
    beside: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        check_numbers(self, "epsilon", takes="a finite number from 0", at_least=0)
        check_numbers(self, "delta", takes="a number above 0 and up to 1", above=0, at_most=1)
        object.__setattr__(self, "neighbours", read_neighbours(self.neighbours))

    def __str__(self) -> str:
        return f"epsilon = {self.epsilon:.6g}, delta = {self.delta:.3g} (approximate)"


@dataclass(frozen=True, slots=True)
class SharedApproxDP(ApproxDP):
    """What a release keeps together with Gaussian releases of the same records beside it.

    Stages of one fit share an approximate guarantee in this way: each Gaussian one gets a part of
    mu squared, and the coefficients get what is left (theory.md#theorem-42). Shares of epsilon and
    of delta would leave a fifth of the price unspent.

    Attributes
    ----------
    beside : float
        The mu of the Gaussian releases beside it, all of them together; above 0.

    Examples
    --------
    >>> from privatelr.privacy import SharedApproxDP
    >>> part = SharedApproxDP(1.0, 1e-6, beside=0.05)  # what coefficients keep beside a noisy scale
    >>> print(part)
    epsilon = 1, delta = 1e-06 (approximate), shared with Gaussian releases of mu = 0.05
    >>> print(part.whole)
    epsilon = 1, delta = 1e-06 (approximate)
    """

    beside: float = math.inf  # type: ignore[misc]

    def __post_init__(self) -> None:
        ApproxDP.__post_init__(self)
        check_numbers(self, "beside", takes="a finite number above 0", above=0)

    def __str__(self) -> str:
        shared = f"shared with Gaussian releases of mu = {self.beside:.6g}"
        return f"{ApproxDP.__str__(self)}, {shared}"

    @property
    def whole(self) -> ApproxDP:
        """The guarantee of this release and of those beside it."""
        return ApproxDP(self.epsilon, self.delta, self.neighbours)


@suggests_arguments
@dataclass(frozen=True, slots=True)
class NonPrivate:
    """No guarantee, with the reason in words: the plain fit, or a guarantee that was voided.

    Examples
    --------
    >>> from privatelr import dplr, load_dataset, load_schema
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> print(dplr("vote ~ age", votes, eps=0, **public).guarantee)
    none: eps=0 asks for the plain fit
    """

    reason: str = "no privacy was asked for"
    neighbours: Neighbours = REPLACE_ONE
    is_private: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "neighbours", read_neighbours(self.neighbours))

    def __str__(self) -> str:
        named = self.reason.startswith(("none: ", "void: "))
        return self.reason if named else f"none: {self.reason}"


Promise = PureDP | ZCDP | ApproxDP
"""A guarantee that can be requested, charged and composed."""
Guarantee = Promise | NonPrivate
"""A guarantee, or the statement that there is none."""
KINDS: dict[str, type[Guarantee]] = {
    "pure": PureDP,
    "zcdp": ZCDP,
    "shared": SharedApproxDP,
    "approximate": ApproxDP,
    "none": NonPrivate,
}


def void(reason: str) -> NonPrivate:
    """Return what replaces a guarantee whose assumptions are broken: no privacy, and the reason.

    Examples
    --------
    >>> from privatelr.privacy import void
    >>> void("scaled by the data").is_private, str(void("scaled by the data"))
    (False, 'void: scaled by the data')
    """
    return NonPrivate(f"void: {reason}")


def unless_seeded(target: Guarantee, seeded: bool) -> Guarantee:
    """Return the guarantee, or none if a seed lets the noise be replayed.

    Examples
    --------
    >>> from privatelr import PureDP
    >>> from privatelr.privacy import unless_seeded
    >>> print(unless_seeded(PureDP(1.0), seeded=False))
    epsilon = 1 (pure)
    >>> print(unless_seeded(PureDP(1.0), seeded=True))
    void: seeded noise
    """
    return void("seeded noise") if seeded and target.is_private else target


def to_json(promise: Any, kinds: Mapping[str, type] = KINDS) -> dict[str, Any]:
    """Turn a record of one of these kinds into plain values: its kind, numbers and neighbours.

    Examples
    --------
    >>> from privatelr import ApproxDP
    >>> from privatelr.privacy import to_json
    >>> to_json(ApproxDP(1.0, 1e-6))
    {'kind': 'approximate', 'epsilon': 1.0, 'delta': 1e-06, 'neighbours': 'REPLACE_ONE'}
    """
    kind = next(name for name, cls in kinds.items() if isinstance(promise, cls))
    return {"kind": kind, **asdict(promise), "neighbours": promise.neighbours.name}


def from_json(value: Any, kinds: Mapping[str, type] = KINDS) -> Any:
    """Undo `to_json`; raise `GuaranteeError` for any other value.

    Examples
    --------
    >>> from privatelr import ZCDP
    >>> from privatelr.privacy import from_json, to_json
    >>> from_json(to_json(ZCDP(0.1))) == ZCDP(0.1)
    True
    """
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        raise GuaranteeError(f"guarantee: kind takes one of {', '.join(map(repr, kinds))}.")
    numbers = {key: entry for key, entry in value.items() if key not in ("kind", "neighbours")}
    try:
        return kinds[kind](**numbers, neighbours=Neighbours[value["neighbours"]])
    except (KeyError, TypeError):
        raise GuaranteeError(
            f"guarantee: {sorted(value)} are not the entries of {kinds[kind].__name__}."
        ) from None


@lru_cache(maxsize=4096)
def exact(price: float) -> Fraction:
    """Return the decimal that Python prints for a finite float; it increases with the float.

    Examples
    --------
    >>> from privatelr.privacy import exact
    >>> exact(0.1) + exact(0.2) == exact(0.3), 0.1 + 0.2 == 0.3
    (True, False)
    """
    return Fraction(repr(float(price)))


def at_most(value: Fraction) -> float:
    """Return the largest float whose decimal is at most `value`.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from privatelr.privacy import at_most, exact
    >>> third = Fraction(1, 3)
    >>> at_most(third), exact(at_most(third)) <= third  # what is promised is never rounded up
    (0.3333333333333333, True)
    """
    price = float(value)
    while exact(price) > value:
        price = math.nextafter(price, -math.inf)
    return price


def at_least(value: Fraction) -> float:
    """Return the smallest float whose decimal is at least `value`; infinity beyond all floats.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from privatelr.privacy import at_least, exact
    >>> third = Fraction(2, 3)
    >>> at_least(third), exact(at_least(third)) >= third  # what was spent is never rounded down
    (0.6666666666666667, True)
    """
    try:
        price = float(value)
    except OverflowError:
        return math.inf
    while math.isfinite(price) and exact(price) < value:
        price = math.nextafter(price, math.inf)
    return price
