"""Guarantees as types, each with the neighbouring relation that it is about."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from privatelr.arguments import suggests_arguments
from privatelr.errors import GuaranteeError, require_choice, require_number


class Neighbours(Enum):
    """Which pairs of datasets a guarantee compares."""

    REPLACE_ONE = "replace one record, the number of records being public"
    ZERO_OUT = "replace one record by one of zeros, the number of records being public"

    def __repr__(self) -> str:
        return self.name


REPLACE_ONE = Neighbours.REPLACE_ONE
ZERO_OUT = Neighbours.ZERO_OUT
NEIGHBOURS = {"replace": REPLACE_ONE, "zero-out": ZERO_OUT}
"""Neighbouring relations by the names that users write."""


def read_neighbours(value: Any) -> Neighbours:
    """The relation itself, or the one of this name."""
    if isinstance(value, Neighbours):
        return value
    return NEIGHBOURS[require_choice(GuaranteeError, "neighbours", value, NEIGHBOURS)]


@suggests_arguments
@dataclass(frozen=True, slots=True)
class PureDP:
    """Pure differential privacy: no event is more than ``exp(epsilon)`` times as likely."""

    epsilon: float
    neighbours: Neighbours = REPLACE_ONE
    is_private: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checked = require_number(
            GuaranteeError, "epsilon", self.epsilon, "a finite number above 0", above=0
        )
        object.__setattr__(self, "epsilon", checked)

    def __str__(self) -> str:
        return f"epsilon = {self.epsilon:.6g} (pure)"


@suggests_arguments
@dataclass(frozen=True, slots=True)
class ZCDP:
    """Zero-concentrated differential privacy: Renyi divergence of order a is at most ``a rho``."""

    rho: float
    neighbours: Neighbours = REPLACE_ONE
    is_private: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checked = require_number(
            GuaranteeError, "rho", self.rho, "a finite number above 0", above=0
        )
        object.__setattr__(self, "rho", checked)

    def __str__(self) -> str:
        return f"rho = {self.rho:.6g} (zCDP)"


@suggests_arguments
@dataclass(frozen=True, slots=True)
class ApproxDP:
    """Approximate differential privacy: as `PureDP`, but for events of probability delta."""

    epsilon: float
    delta: float
    neighbours: Neighbours = REPLACE_ONE
    is_private: ClassVar[bool] = True

    def __post_init__(self) -> None:
        epsilon = require_number(
            GuaranteeError, "epsilon", self.epsilon, "a finite number from 0", at_least=0
        )
        delta = require_number(
            GuaranteeError, "delta", self.delta, "a number above 0 and up to 1", above=0, at_most=1
        )
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)

    def __str__(self) -> str:
        return f"epsilon = {self.epsilon:.6g}, delta = {self.delta:.3g} (approximate)"


@suggests_arguments
@dataclass(frozen=True, slots=True)
class NonPrivate:
    """No guarantee, and in words why: the plain fit, or a promise that was made void."""

    reason: str = "no privacy was asked for"
    neighbours: Neighbours = REPLACE_ONE
    is_private: ClassVar[bool] = False

    def __str__(self) -> str:
        named = self.reason.startswith(("none: ", "void: "))
        return self.reason if named else f"none: {self.reason}"


Promise = PureDP | ZCDP | ApproxDP
"""What can be asked for, charged and composed."""
Guarantee = Promise | NonPrivate


def void(reason: str) -> NonPrivate:
    """What is left of a guarantee once its assumptions are broken."""
    return NonPrivate(f"void: {reason}")
